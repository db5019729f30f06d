//! Forwarders in the middle of a test bed, each set up again for every measurement.

use std::env;
use std::process::Command;
use std::time::Duration;

use tidegate_e2e::{Gateway, Host, Process, Testbed, until};

/// A forwarder in the middle of a test bed, which ends on drop.
pub(crate) enum Forwarder<'a> {
    Kernel,
    Ours(#[expect(dead_code, reason = "it ends when dropped")] Process, u32),
    Gateway(Gateway<'a>),
}

impl Forwarder<'_> {
    /// The process whose time counts for the forwarder.
    pub(crate) fn process(&self) -> Option<u32> {
        match self {
            Self::Kernel => None,
            Self::Ours(_, id) => Some(*id),
            Self::Gateway(gateway) => Some(gateway.id()),
        }
    }
}

/// A command that runs this program on `host` with the given arguments.
pub(crate) fn ourselves(host: &Host, words: &[&str]) -> anyhow::Result<Command> {
    let mut command = host.command(env::current_exe()?);
    command.args(words);
    Ok(command)
}

/// The same, started, after it has reported that it is ready.
pub(crate) fn ready(host: &Host, words: &[&str]) -> anyhow::Result<Process> {
    let mut process = Process::start(&mut ourselves(host, words)?);
    until(&format!("{words:?} to be ready"), Duration::from_secs(20), || {
        assert!(process.runs(), "{}", process.said());
        process.lines().pop()
    });
    Ok(process)
}

/// Runs these `tc` commands in the middle of `bed`. Returns the reason of the first failure.
pub(crate) fn tc(bed: &Testbed, commands: &[String]) -> Result<(), String> {
    for words in commands {
        let output = bed.middle.command("tc").args(words.split_whitespace()).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("{words}: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
    }
    Ok(())
}

/// Starts a [`forwarder`](crate::forwarder) of this program.
pub(crate) fn ours(bed: &Testbed, what: &str) -> anyhow::Result<Forwarder<'static>> {
    let process = ready(&bed.middle, &[what])?;
    let id = process.id();
    Ok(Forwarder::Ours(process, id))
}
