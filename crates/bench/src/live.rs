//! Forwarders between the two hosts of a test bed. Every measurement starts a new one.

use std::env;
use std::process::Command;
use std::time::Duration;

use tidegate_e2e::{Gateway, Host, Process, Testbed, until};

/// A forwarder between the two hosts of a test bed. Dropping it ends the forwarder.
pub(crate) enum Forwarder<'a> {
    Kernel,
    Ours(#[expect(dead_code, reason = "it ends when dropped")] Process, u32),
    Gateway(Gateway<'a>),
}

impl Forwarder<'_> {
    /// The process whose processor time counts for the forwarder; `None` for the kernel.
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

/// Starts this program on `host` with the given arguments, and waits until it reports that it is
/// ready.
pub(crate) fn ready(host: &Host, words: &[&str]) -> anyhow::Result<Process> {
    let mut process = Process::start(&mut ourselves(host, words)?);
    until(&format!("{words:?} to be ready"), Duration::from_secs(20), || {
        assert!(process.runs(), "{}", process.all_output());
        process.lines().pop()
    });
    Ok(process)
}

/// Runs `tc` commands in the namespace between the hosts. Returns the reason of the first failure.
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

/// Starts this program as the [`forwarder`](crate::forwarder) `name`.
pub(crate) fn ours(bed: &Testbed, name: &str) -> anyhow::Result<Forwarder<'static>> {
    let process = ready(&bed.middle, &[name])?;
    let id = process.id();
    Ok(Forwarder::Ours(process, id))
}
