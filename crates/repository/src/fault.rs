//! The faults of a policy repository, each with a remedy for the operator.

use std::fmt;

/// A fault of a policy repository. The policies in force do not change, and the operator gets one
/// alarm.
///
/// The texts contain no passwords or keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The kind of fault, which decides the usual remedy.
    pub kind: FaultKind,
    /// The problem and its location: a key, a distinguished name in LDAP, or a file.
    pub message: String,
    /// The remedy, for the operator.
    pub help: String,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FaultKind {
    /// The server does not answer, or takes too long.
    Unreachable,
    /// The server refuses the user, or the user lacks a permission.
    Refused,
    /// The certificate of the server is not trusted, or has expired.
    Untrusted,
    /// No commit marker was ever written, so no set is complete.
    Uncommitted,
    /// Other programs kept changing the set while it was read.
    Unsteady,
    /// The set is larger than `max_size`, or has more items than `max_policies`.
    TooLarge,
    /// An entry does not have the form that this kind of repository requires.
    Malformed,
    /// The server sends an answer that violates its protocol.
    Protocol,
    /// A file named in the configuration cannot be used, or the repository lacks a requested
    /// function.
    Unusable,
}

impl FaultKind {
    /// The name of the kind in `--json` and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Untrusted => "untrusted",
            Self::Uncommitted => "uncommitted",
            Self::Unsteady => "unsteady",
            Self::TooLarge => "too-large",
            Self::Malformed => "malformed",
            Self::Protocol => "protocol",
            Self::Unusable => "unusable",
        }
    }

    /// The usual remedy for this kind.
    const fn help(self) -> &'static str {
        match self {
            Self::Unreachable => "look whether the server runs and `url` is right",
            Self::Refused => "look at `user`, `password_file` and the rights of this user",
            Self::Untrusted => {
                "look at `ca` and at the dates and names of the server's certificate"
            }
            Self::Uncommitted => {
                "write the commit marker, as `tidegate policy push` does, or set commit = \"each-change\""
            }
            Self::Unsteady => "the source is read again by itself; commit less often",
            Self::TooLarge => "raise `max_size` or `max_policies`, or use `roles` to select fewer",
            Self::Malformed => "mend this entry and commit again",
            Self::Protocol => "look whether `url` is a server of this kind",
            Self::Unusable => "mend this file or setting",
        }
    }
}

impl Fault {
    /// A fault with the usual remedy of its kind.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: kind.help().to_owned() }
    }

    /// The same fault with another remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for Fault {}
