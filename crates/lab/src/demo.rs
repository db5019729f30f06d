//! The demonstration `tidegate demo`: four real downloads share a link, first without a gateway and
//! then with one.

mod figures;
mod phase;
mod stage;
mod view;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::lab::LabRecords;
use crate::output::{Exit, Output};

use self::figures::Demo;
use self::phase::{PHASES, Phase};
use self::view::View;

/// Names of the demonstration's phases.
pub fn names() -> impl Iterator<Item = &'static str> {
    PHASES.iter().map(|phase| phase.name)
}

/// Runs the demonstration, each phase for `length`. `wanted` names the phases to run; if it is
/// empty, all phases run. Soon after `stop` becomes `true`, the demonstration removes its lab (the
/// test network) and ends.
///
/// # Errors
///
/// If this host cannot build the lab, or if a part of the demonstration fails.
pub fn run(
    length: Duration,
    wanted: &[String],
    output: Output,
    stop: &AtomicBool,
) -> anyhow::Result<Exit> {
    let records = LabRecords::open()?;
    let is_wanted = |it: &Phase| wanted.is_empty() || wanted.iter().any(|name| name == it.name);
    let chosen: Vec<_> = PHASES.into_iter().filter(is_wanted).collect();
    let mut view = View::new();
    view.introduce(chosen.len(), length);
    let mut phases = Vec::new();
    for phase in chosen {
        let figures = stage::play(&records, phase, length, &mut view, stop)?;
        let Some(figures) = figures else {
            crate::output::progress("stopped; everything is cleaned up");
            return Ok(Exit::Failed);
        };
        view.finish(&figures);
        phases.push(figures);
    }
    output.data(&Demo::new(phases))?;
    Ok(Exit::Done)
}
