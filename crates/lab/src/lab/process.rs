//! Starts the processes of a lab, waits for them, and ends them. Process numbers are reused. So a
//! process is ended only if its start time shows that the lab started it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::code::Code;
use crate::output::Failure;

/// A process. Its start time distinguishes it from a later process with the same number.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Process {
    pid: u32,
    /// Start time, in clock ticks since the system booted.
    started: u64,
}

impl Process {
    /// The process with the number `pid`, unless it has ended.
    fn find(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name in parentheses may contain any character. So the fields are counted
        // from its end.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let ended = matches!(fields.next()?, "Z" | "X");
        let started = fields.nth(18)?.parse().ok()?;
        (!ended).then_some(Self { pid, started })
    }

    /// The current process.
    #[must_use]
    pub fn this() -> Self {
        let pid = std::process::id();
        Self::find(pid).unwrap_or(Self { pid, started: 0 })
    }

    /// Returns `true` if the process has not ended.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    /// Returns a command that runs `command` in the user, mount and network namespaces of this
    /// process.
    pub(super) fn enter(self, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        entered.arg("-t").arg(self.pid.to_string());
        entered.args(["-U", "-m", "-n", "--preserve-credentials", "--"]);
        entered.arg(command.get_program()).args(command.get_args());
        entered
    }

    fn signal(self, name: &str) {
        if self.is_alive() {
            // The result is ignored: the process may have ended meanwhile.
            let _ = Command::new("sh")
                .args(["-c", "kill -\"$0\" \"$1\" 2>/dev/null", name])
                .arg(self.pid.to_string())
                .status();
        }
    }
}

/// Path of this program. The program starts itself again by this path.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Returns a command that runs `command`. The kernel ends the command by SIGTERM when the thread
/// that started the command ends for any reason.
pub(super) fn bound(command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound.args(["--pdeathsig", "TERM", "--"]);
    bound.arg(command.get_program()).args(command.get_args());
    bound
}

/// The processes in the network namespaces with these names. Without root, the names exist only in
/// the mount namespace of the process `holder`.
pub(super) fn inside(holder: Option<Process>, namespaces: &[String]) -> Vec<Process> {
    let identity = |path: String| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let root = holder.map_or_else(String::new, |it| format!("/proc/{}/root", it.pid));
    let ours = namespaces.iter().filter_map(|name| identity(format!("{root}/run/netns/{name}")));
    let ours: Vec<_> = ours.collect();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            identity(format!("/proc/{pid}/ns/net")).is_some_and(|it| ours.contains(&it))
        })
        .filter_map(Process::find)
        .collect()
}

/// Starts `command`. The new process outlives this one, and its output goes to `log`.
pub(super) fn start(command: &mut Command, log: &Path) -> anyhow::Result<Process> {
    let log = File::create(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let child = command.spawn().map_err(|error| missing(command, &error))?;
    let pid = child.id();
    Ok(Process::find(pid).unwrap_or(Process { pid, started: 0 }))
}

/// The error for a `command` that could not be started, with a remedy.
pub(super) fn missing(command: &Command, error: &io::Error) -> anyhow::Error {
    let program = command.get_program().to_string_lossy().into_owned();
    Failure::new(Code::NoTool, format!("cannot run `{program}`: {error}")).into()
}

/// Time limit for a process to become ready, and for it to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `ready` returns `true`. If the process ends first, returns an error with the last
/// output of the process. The error calls the process `name`.
pub(super) fn wait_for(
    name: &str,
    process: Process,
    log: &Path,
    mut ready: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let mut is_ready = false;
    wait_until(PATIENCE, || {
        is_ready = ready();
        is_ready || !process.is_alive()
    });
    if is_ready {
        return Ok(());
    }
    let said = fs::read_to_string(log).unwrap_or_default();
    let last: Vec<_> = said.lines().rev().take(8).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    let message = format!("{name} did not start:\n{}", last.join("\n"));
    Err(Failure::new(Code::LabFailed, message).into())
}

/// Ends `processes` by SIGTERM. After a while, sends SIGKILL to those that still run.
pub(super) fn end(processes: &[Process]) {
    let ended = || processes.iter().all(|it| !it.is_alive());
    for signal in ["TERM", "KILL"] {
        processes.iter().for_each(|it| it.signal(signal));
        if wait_until(PATIENCE / 2, ended) {
            return;
        }
    }
}

/// Waits until `done` returns `true`, but at most for `patience`. Returns `false` if the time was
/// too short.
pub(crate) fn wait_until(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let clock = Clock::start();
    loop {
        if done() {
            return true;
        }
        if clock.elapsed() > patience {
            return false;
        }
        Clock::rest(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_process_number_is_another_process() {
        let this = Process::this();
        assert!(this.is_alive());
        assert!(!Process { started: this.started + 1, ..this }.is_alive());
    }

    #[test]
    fn only_processes_of_the_lab_are_ended() {
        let log = std::env::temp_dir().join(format!("tidegate-log-{}", std::process::id()));
        let sleeper = start(Command::new("sleep").arg("60"), &log).unwrap();
        let other = Process { started: sleeper.started + 1, ..sleeper };
        other.signal("KILL");
        assert!(sleeper.is_alive());
        end(&[sleeper, other]);
        assert!(!sleeper.is_alive());
        fs::remove_file(log).unwrap();
    }
}
