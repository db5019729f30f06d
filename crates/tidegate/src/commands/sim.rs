//! `tidegate sim` simulates a network and its traffic.

mod capture;
mod csv;
mod progress;
mod report;
mod reserved;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tidegate_scenario::scenario;
use tidegate_sim::{Results, Scenario, Simulation};

use super::{Context, check};
use crate::code::Code;
use crate::files;
use crate::output::{Exit, Failure};

/// Arguments of `sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// The scenario, in TOML
    scenario: PathBuf,

    /// Random seed; overrides the seed in the file
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Also write each table of results as DIR/TABLE.csv
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,

    /// Also write the packets that the scenario's probes capture, for tcpdump and Wireshark
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Capture the packets that arrive over the link from FROM to TO instead
    #[arg(long, value_name = "FROM,TO", requires = "pcap")]
    link: Option<capture::Ends>,
}

/// Runs the simulation.
pub(crate) fn run(args: &SimArgs, context: &Context) -> anyhow::Result<Exit> {
    let Some(scenario) = load(args, context)? else { return Ok(Exit::WrongInput) };
    let results = simulate(&scenario, args)?;
    if let Some(folder) = &args.csv {
        csv::write(&results, folder)?;
    }
    if context.output.is_json() {
        context.output.json(&report::data(&args.scenario, &results))?;
    } else {
        context.output.text(report::text(&args.scenario, &results).trim_end())?;
    }
    Ok(Exit::Done)
}

/// The scenario in the file. If the file is invalid, prints the findings and returns `None`.
fn load(args: &SimArgs, context: &Context) -> anyhow::Result<Option<Scenario>> {
    let text = check::read(&args.scenario)?;
    let folder = args.scenario.parent().unwrap_or_else(|| Path::new("."));
    let mut fetch = |path: &str| {
        files::read_any(&folder.join(path), files::MOST).map_err(|error| error.to_string())
    };
    let (scenario, found) = scenario::parse(&check::name(&args.scenario), &text, &mut fetch);
    check::complain(&found);
    if scenario.is_none() && context.output.is_json() {
        context.output.json(&serde_json::json!({ "ok": false, "findings": found.data() }))?;
    }
    Ok(scenario.map(|mut scenario| {
        scenario.run.seed = args.seed.unwrap_or(scenario.run.seed);
        scenario
    }))
}

fn simulate(scenario: &Scenario, args: &SimArgs) -> anyhow::Result<Results> {
    let mut simulation = Simulation::new(scenario).map_err(|problems| {
        // The file has passed all checks, so the problem is that the scenario is too large.
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Failure::input(Code::TooMuch, problems.join("\n"))
    })?;
    if let Some(file) = &args.pcap {
        capture::begin(&mut simulation, scenario, file, args.link.as_ref())?;
    }
    let mut bar = progress::Bar::new();
    let results = simulation.run(|progress| {
        bar.show(progress);
        ControlFlow::Continue(())
    })?;
    bar.clear();
    Ok(results)
}
