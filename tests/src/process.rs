//! Starts processes that always end with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::wait::until;

/// A process. Dropping the value kills it.
#[derive(Debug)]
pub struct Process {
    /// The command line, for messages.
    name: String,
    child: Child,
    output: Lines,
    errors: Lines,
    readers: Vec<JoinHandle<()>>,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit status of the process.
    pub status: ExitStatus,
    /// All text that the process wrote to standard output.
    pub output: String,
    /// All text that the process wrote to standard error.
    pub errors: String,
}

type Lines = Arc<Mutex<Vec<String>>>;

impl Process {
    /// Starts `command` and collects its output.
    ///
    /// # Panics
    ///
    /// If the process cannot be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    /// As [`start`](Self::start), with `errors` as the standard error. Its text is collected only
    /// if it is a pipe.
    ///
    /// # Panics
    ///
    /// If the process cannot be started.
    #[must_use]
    pub fn start_with(command: &mut Command, errors: Stdio) -> Self {
        let name = format!("{command:?}").replace('"', "");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let (output, errors) = (Lines::default(), Lines::default());
        let readers =
            vec![collect(child.stdout.take(), &output), collect(child.stderr.take(), &errors)];
        Self { name, child, output, errors, readers }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the process a signal, such as `KILL`.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.is_ok_and(|status| status.success()), "no {} to send {signal}", self.name);
    }

    /// Writes `text` to the standard input of the process, and closes the input.
    ///
    /// # Panics
    ///
    /// If the process has ended, or its input has been closed.
    pub fn feed(&mut self, text: &str) {
        let input = self.child.stdin.take();
        let mut input = input.unwrap_or_else(|| panic!("{} has been fed", self.name));
        let written = input.write_all(text.as_bytes());
        written.unwrap_or_else(|error| panic!("{} does not read: {error}", self.name));
    }

    /// The lines that the process has written to standard output so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns `true` while the process runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process. Returns after its end.
    pub fn end(&mut self) {
        // The results are ignored: the process may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The output of the process, for messages.
    #[must_use]
    pub fn all_output(&self) -> String {
        format!("{}:\n{}\n{}", self.name, joined(&self.output), joined(&self.errors))
    }

    /// Waits until the process ends by itself.
    ///
    /// # Panics
    ///
    /// If the process does not end within `limit`.
    #[must_use]
    pub fn finish(mut self, limit: Duration) -> Finished {
        let name = format!("the end of {}", self.name);
        let status = until(&name, limit, || self.child.try_wait().ok().flatten());
        for reader in self.readers.drain(..) {
            // The result is ignored: a reader fails only if the output is not text.
            let _ = reader.join();
        }
        Finished { status, output: joined(&self.output), errors: joined(&self.errors) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs `command` to its end.
///
/// # Panics
///
/// If the command cannot be started, fails, or takes longer than `limit`.
pub fn run(command: &mut Command, limit: Duration) -> String {
    let name = format!("{command:?}").replace('"', "");
    let finished = Process::start(command).finish(limit);
    assert!(finished.status.success(), "{name} failed:\n{}{}", finished.output, finished.errors);
    finished.output
}

fn collect(from: Option<impl Read + Send + 'static>, lines: &Lines) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    std::thread::spawn(move || {
        let Some(from) = from else { return };
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    })
}

fn joined(lines: &Lines) -> String {
    lines.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
}
