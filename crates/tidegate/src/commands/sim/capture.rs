//! Packet captures of a simulation: selects the links, and opens a file for each.

use std::fs::File;
use std::path::{Path, PathBuf};

use tidegate_sim::scenario::{Probe, Way};
use tidegate_sim::{Scenario, Simulation};

use super::reserved::Reserved;
use crate::code::Code;
use crate::output::Failure;

/// The link to capture, `FROM,TO` on the command line.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    from: String,
    to: String,
}

impl std::str::FromStr for Ends {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (from, to) = text.split_once(',').ok_or("write both ends of the link: left,right")?;
        Ok(Self { from: from.trim().to_owned(), to: to.trim().to_owned() })
    }
}

/// Captures packets that arrive over the link `ends` into `file`. With `None`, captures every link
/// that has a probe in the scenario, each into its own file.
pub(super) fn begin(
    simulation: &mut Simulation<'_>,
    scenario: &Scenario,
    file: &Path,
    ends: Option<&Ends>,
) -> Result<(), Failure> {
    let ways = match ends {
        Some(ends) => vec![way(scenario, ends)?],
        None => probes(scenario)?,
    };
    let several = ways.len() > 1;
    for way in ways {
        let path = if several { beside(file, &way) } else { file.to_owned() };
        let file = File::create(&path).map_err(|error| {
            Failure::input(Code::NoSuchFile, format!("cannot write {}: {error}", path.display()))
        })?;
        simulation.capture(&way, Box::new(Reserved::new(file)));
    }
    Ok(())
}

fn way(scenario: &Scenario, ends: &Ends) -> Result<Way, Failure> {
    let mut ways = scenario.links.iter().flat_map(|link| link.ways()).map(|(way, _)| way);
    let fits = |way: &Way| way.from.to_string() == ends.from && way.to.to_string() == ends.to;
    ways.find(fits).ok_or_else(|| {
        let message = format!("no link leads from `{}` to `{}`", ends.from, ends.to);
        let help = "name a link of the scenario, in the direction meant; ports of gateways are written edge.wan";
        Failure { help: help.to_owned(), ..Failure::input(Code::BadProbe, message) }
    })
}

fn probes(scenario: &Scenario) -> Result<Vec<Way>, Failure> {
    let wanted = |probe: &Probe| match probe {
        Probe::Capture(way) => Some(way.clone()),
        _ => None,
    };
    let mut ways: Vec<_> = scenario.probes.iter().filter_map(wanted).collect();
    ways.sort();
    ways.dedup();
    if ways.is_empty() {
        let message = "the scenario does not say what to capture";
        let help = "add a [[probe]] with kind = \"capture\", or give --link FROM,TO";
        return Err(Failure { help: help.to_owned(), ..Failure::input(Code::BadProbe, message) });
    }
    Ok(ways)
}

/// The file for one of several links. Its name is the name of `file` with the ends of the link
/// added.
fn beside(file: &Path, way: &Way) -> PathBuf {
    let part = |part: Option<&std::ffi::OsStr>| {
        part.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let name = format!("{}-{}-{}", part(file.file_stem()), way.from, way.to);
    let extension = part(file.extension());
    file.with_file_name(if extension.is_empty() { name } else { format!("{name}.{extension}") })
}

#[cfg(test)]
mod tests {
    use tidegate_sim::scenario::{End, Side};

    use super::*;

    #[test]
    fn several_captures_have_names_of_their_own() {
        let to = End { node: "edge".to_owned(), side: Side::Wan };
        let way = Way { from: End::of("left"), to };
        let name = |file: &str| beside(Path::new(file), &way).to_string_lossy().into_owned();
        assert_eq!(name("out/run.pcap"), "out/run-left-edge.wan.pcap");
        assert_eq!(name("run"), "run-left-edge.wan");
    }
}
