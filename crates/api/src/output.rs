//! Output and exit codes of the commands. Data goes to stdout, progress to stderr.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use serde::{Serialize, Serializer};

use tidegate_config::{Code, Findings};

/// Version of the data that `--json` prints. It increases whenever a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The result of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exit {
    /// Done.
    Done,
    /// The command failed, or (in the reproduction of papers) a claim does not hold.
    Failed,
    /// The input was wrong. Nothing was changed.
    WrongInput,
    /// The command succeeded, but the gateway has a fault.
    Degraded,
    /// The requested configuration differs from the running one.
    ChangesPending,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::WrongInput => 2,
            Exit::Degraded => 3,
            Exit::ChangesPending => 4,
        })
    }
}

/// The reason why a command failed.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The stable code of the error.
    #[serde(serialize_with = "name")]
    pub code: Code,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub help: String,
    /// The exit code of the program.
    #[serde(skip)]
    pub exit: Exit,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn name<S: Serializer>(code: &Code, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(code.name())
}

impl Failure {
    /// A failure of the command.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let help = code.repair().to_owned();
        Self { code, message: message.into(), help, exit: Exit::Failed }
    }

    /// A failure with a text of the form "fault; remedy".
    #[must_use]
    pub fn worded(code: Code, words: &str) -> Self {
        match words.split_once("; ") {
            Some((message, help)) => Self { help: help.to_owned(), ..Self::new(code, message) },
            None => Self::new(code, words),
        }
    }

    /// A failure caused by wrong input.
    #[must_use]
    pub fn input(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, message).of_input()
    }

    /// The same failure, but caused by wrong input.
    #[must_use]
    pub fn of_input(self) -> Self {
        Self { exit: Exit::WrongInput, ..self }
    }
}

impl From<&Findings> for Failure {
    /// The errors found in a file, as a failure caused by wrong input.
    fn from(found: &Findings) -> Self {
        let (code, message, help) = found
            .summary()
            .unwrap_or_else(|| (Code::Syntax, String::new(), Code::Syntax.repair().to_owned()));
        Self { help, ..Self::input(code, message) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}\n  = help: {}", self.code.name(), self.message, self.help)
    }
}

impl std::error::Error for Failure {}

/// Writes a line to stderr for the user. Ignores write errors.
pub fn progress(line: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a question to stderr, without a line break. Ignores write errors.
pub fn prompt(text: impl fmt::Display) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{text}").and_then(|()| stderr.flush());
}

/// The format in which a command prints its data on stdout: JSON, or text for people.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

/// Data in the form of `--json`.
#[derive(Serialize)]
pub struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    data: &'a T,
}

/// `data` together with the version of its schema. `data` must serialise as a map.
pub const fn versioned<T: Serialize>(data: &T) -> Versioned<'_, T> {
    Versioned { schema_version: SCHEMA_VERSION, data }
}

impl Output {
    /// Output as JSON, or as text for people.
    #[must_use]
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Returns `true` if `--json` was given.
    #[must_use]
    pub const fn is_json(self) -> bool {
        self.json
    }

    /// Prints `data` as JSON, or as text for people. `data` must serialise as a map.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    pub fn data<T: Serialize + fmt::Display>(self, data: &T) -> io::Result<()> {
        if self.json { self.json(data) } else { self.text(data) }
    }

    /// Prints `text` followed by a line break.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    pub fn text(self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Prints `data` as JSON, with the version of its schema. `data` must serialise as a map.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    pub fn json<T: Serialize>(self, data: &T) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        serde_json::to_writer(&mut out, &versioned(data))?;
        writeln!(out)?;
        out.flush()
    }
}
