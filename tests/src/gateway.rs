//! The gateway in the middle of a test bed. Tests start it, control it, kill it, and query it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::process::{Finished, Process, run};
use crate::testbed::{Testbed, program};
use crate::wait::until;

/// Time limit for the start of a gateway.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Time limit for the answer to a command.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Name of the policy file with which a gateway starts.
const FILE: &str = "policies.toml";

/// A process `tidegate run` in the middle of a test bed.
#[derive(Debug)]
pub struct Gateway<'a> {
    bed: &'a Testbed,
    file: PathBuf,
    process: Process,
}

impl Testbed {
    /// Runs a gateway that must fail to start, with a control socket at `socket`. Returns its
    /// output.
    #[must_use]
    pub fn refused(&self, backend: &str, socket: &str) -> Finished {
        let file = self.file("refused.toml", &file(backend, ""));
        let mut command = self.tidegate(&["run", "--socket", socket]);
        Process::start(command.arg(file)).finish(START_LIMIT)
    }

    /// Starts the gateway with `policies` and `backend`, the value of this field in policy files. Returns as
    /// soon as the gateway answers.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer within `START_LIMIT`.
    #[must_use]
    pub fn gateway(&self, backend: &str, policies: &str) -> Gateway<'_> {
        self.gateway_with(backend, policies, &[], Stdio::piped())
    }

    /// As [`gateway`](Self::gateway), with further command-line options. The gateway's standard
    /// error goes to `errors`.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer within `START_LIMIT`.
    #[must_use]
    pub fn gateway_with(
        &self,
        backend: &str,
        policies: &str,
        options: &[&str],
        errors: Stdio,
    ) -> Gateway<'_> {
        self.gateway_among(&[], backend, policies, options, errors)
    }

    /// As [`gateway_with`](Self::gateway_with), with further environment variables.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer within `START_LIMIT`.
    #[must_use]
    pub fn gateway_among(
        &self,
        variables: &[(&str, PathBuf)],
        backend: &str,
        policies: &str,
        options: &[&str],
        errors: Stdio,
    ) -> Gateway<'_> {
        let file = self.file(FILE, &file(backend, policies));
        let mut command = self.tidegate(&["run"]);
        command.args(options).arg(&file).envs(variables.iter().map(|(name, value)| (name, value)));
        Gateway { process: start(self, &mut command, errors), bed: self, file }
    }

    /// A command that runs the program on the middle machine with the arguments `words`.
    #[must_use]
    pub fn tidegate(&self, words: &[&str]) -> Command {
        let mut command = self.middle.command(program());
        command.args(words);
        command
    }
}

/// A policy file for the middle of a test bed.
fn file(backend: &str, policies: &str) -> String {
    format!("[gateway]\nlan = \"lan\"\nwan = \"wan\"\nbackend = \"{backend}\"\n\n{policies}")
}

fn start(bed: &Testbed, command: &mut Command, errors: Stdio) -> Process {
    let mut process = Process::start_with(command, errors);
    until("the gateway to answer", START_LIMIT, || {
        assert!(process.runs(), "{}", process.all_output());
        let answer = Process::start(&mut bed.tidegate(&["status", "--json"])).finish(ANSWER_LIMIT);
        answered(&answer).then_some(())
    });
    process
}

/// Returns `true` if a gateway has reported its status, possibly with alarms.
pub(crate) fn answered(answer: &Finished) -> bool {
    matches!(answer.status.code(), Some(0 | 3))
}

impl Gateway<'_> {
    /// The output of `tidegate status --json`.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer.
    #[must_use]
    pub fn status(&self) -> Value {
        self.ask("status")
    }

    /// The output of `subcommand`, such as `trunks`, with `--json`.
    ///
    /// # Panics
    ///
    /// If the gateway does not answer.
    #[must_use]
    pub fn ask(&self, subcommand: &str) -> Value {
        let status = &mut self.bed.tidegate(&[subcommand, "--json"]);
        let answer = Process::start(status).finish(ANSWER_LIMIT);
        assert!(answered(&answer), "{answer:?}, {}", self.all_output());
        let text = answer.output;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"))
    }

    /// The id of the gateway's process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns `true` while the gateway runs.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }

    /// Puts other policies in force with `tidegate apply`.
    pub fn apply(&self, backend: &str, policies: &str) {
        let file = self.bed.file("next.toml", &file(backend, policies));
        run(self.bed.tidegate(&["apply"]).arg(file), ANSWER_LIMIT);
    }

    /// Runs the program in the gateway's namespace with the arguments `words`, such as `class set`.
    pub fn run_command(&self, words: &[&str]) {
        run(&mut self.bed.tidegate(words), ANSWER_LIMIT);
    }

    /// Writes other policies into the gateway's file, and makes the gateway reload the file.
    ///
    /// # Panics
    ///
    /// If the policies do not come into force.
    pub fn reload(&self, backend: &str, policies: &str) {
        let before = self.status()["generation"].as_u64();
        let _ = self.bed.file(FILE, &file(backend, policies));
        self.signal("HUP");
        until("the next generation", ANSWER_LIMIT, || {
            (self.status()["generation"].as_u64() > before).then_some(())
        });
    }

    /// Sends the gateway a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Kills the gateway, as a crash would end it. Returns after its end.
    pub fn crash(&mut self) {
        self.process.end();
    }

    /// Stops the gateway as an operator would, and waits for its end.
    pub fn stop(&mut self) {
        self.process.signal("TERM");
        let name = format!("the end of {}", self.process.all_output());
        until(&name, ANSWER_LIMIT, || (!self.process.runs()).then_some(()));
    }

    /// Starts the gateway again with the same file, after it has ended.
    pub fn start_again(&mut self) {
        let command = &mut self.bed.tidegate(&["run"]);
        self.process = start(self.bed, command.arg(&self.file), Stdio::piped());
    }

    /// The output of the gateway, for messages.
    #[must_use]
    pub fn all_output(&self) -> String {
        self.process.all_output()
    }
}
