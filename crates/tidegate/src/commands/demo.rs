//! `tidegate demo` runs the demonstration: four real downloads share a link, first without a
//! gateway and then with one.

use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use tidegate_core::units::duration;

use super::Context;
use crate::demo;
use crate::lab;
use crate::output::Exit;

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Length of each phase; its first third is not counted
    #[arg(long, default_value = "15 s", value_parser = seconds)]
    seconds: Duration,
    /// Only this phase; may be given several times
    #[arg(long = "phase", value_name = "NAME", value_parser = PossibleValuesParser::new(demo::names()))]
    phases: Vec<String>,
}

/// Parses a time with its unit. A number alone means seconds, as the name of the option suggests.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => duration::parse(text).map_err(|error| error.to_string())?,
    };
    let range = Duration::from_secs(3)..=Duration::from_secs(600);
    if range.contains(&time) { Ok(time) } else { Err("give 3 to 600 seconds".to_owned()) }
}

/// Runs the demonstration.
pub(crate) fn run(args: &DemoArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(mut command) = lab::inside()? {
        return Err(command.exec().into());
    }
    demo::run(args.seconds, &args.phases, context.output, &*stop_on_signals()?)
}

/// Returns a flag that SIGINT, SIGTERM or SIGHUP sets. The demonstration then ends and removes its lab.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
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
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}
