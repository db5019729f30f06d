//! The demonstration: four real downloads share a link, unmanaged and then managed.

mod figures;
mod phase;
mod stage;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::lab::Place;
use crate::output::{Exit, Output};

use self::figures::Demo;
use self::phase::{PHASES, Phase};
use self::view::View;

/// Names of the phases.
pub fn names() -> impl Iterator<Item = &'static str> {
    PHASES.iter().map(|phase| phase.name)
}

/// Runs the demonstration, each phase for `length`. `wanted` names the phases; if empty, all are
/// run.
///
/// # Errors
///
/// If the lab cannot be built here, or a part of it fails.
pub fn run(length: Duration, wanted: &[String], output: Output) -> anyhow::Result<Exit> {
    let stop = stop_on_signals()?;
    let place = Place::open()?;
    let is_wanted = |it: &Phase| wanted.is_empty() || wanted.iter().any(|name| name == it.name);
    let chosen: Vec<_> = PHASES.into_iter().filter(is_wanted).collect();
    let mut view = View::new();
    view.introduce(chosen.len(), length);
    let mut phases = Vec::new();
    for phase in chosen {
        let figures = stage::play(&place, phase, length, &mut view, &stop)?;
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

/// A flag that a signal sets to end the demonstration. The demonstration then cleans up by itself.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate, mut hang_up) = {
        use tokio::signal::unix::{SignalKind, signal};
        let _inside = runtime.enter();
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()];
        (signal(interrupt)?, signal(terminate)?, signal(SignalKind::hangup())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
        });
        told.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}
