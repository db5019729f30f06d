//! What is wrong with a scenario, and where.

use std::fmt;

/// Something about a scenario that cannot be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What it is.
    pub what: What,
}

/// A field of a scenario: which part, its number there, and the name of the field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// Of [`Run`](super::Run).
    Run(&'static str),
    /// Of the node of this number.
    Node(usize, &'static str),
    /// Of the link of this number.
    Link(usize, &'static str),
    /// Of the traffic of this number.
    Traffic(usize, &'static str),
    /// Of the probe of this number.
    Probe(usize, &'static str),
    /// Of [`Change`](super::Change) with this number.
    Change(usize, &'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(field) => write!(f, "run.{field}"),
            Self::Node(number, field) => write!(f, "nodes[{number}].{field}"),
            Self::Link(number, field) => write!(f, "links[{number}].{field}"),
            Self::Traffic(number, field) => write!(f, "traffic[{number}].{field}"),
            Self::Probe(number, field) => write!(f, "probes[{number}].{field}"),
            Self::Change(number, field) => write!(f, "changes[{number}].{field}"),
        }
    }
}

/// What cannot be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum What {
    /// A name must say something.
    #[error("a name is empty; give it one")]
    NoName,
    /// A name must say which.
    #[error("`{0}` is used twice; give each a name of its own")]
    Twice(String),
    /// A reference leads nowhere.
    #[error("there is no {kind} `{name}`")]
    Unknown {
        /// What it should be.
        kind: &'static str,
        /// What was written.
        name: String,
    },
    /// A side the node does not have.
    #[error("`{end}` is no place for a link; {expected}")]
    NoSuchSide {
        /// The end of the link.
        end: String,
        /// What may be written.
        expected: &'static str,
    },
    /// There is one link from one end to another.
    #[error("a second link leads from {0}; there is at most one")]
    SecondLink(String),
    /// A link that ends where it begins, or traffic to oneself.
    #[error("`{0}` is at both ends")]
    Loop(String),
    /// Packets cannot get there.
    #[error("no links lead from `{from}` to `{to}`; a packet could not get there")]
    NoRoute {
        /// Who sends.
        from: String,
        /// Who should receive.
        to: String,
    },
    /// Nothing where there must be something.
    #[error("it is zero, which {0}")]
    Zero(&'static str),
    /// None where there must be one.
    #[error("there are none; {0}")]
    None(&'static str),
    /// Beyond what there can be.
    #[error("{value} is out of range: {expected}")]
    OutOfRange {
        /// What was given.
        value: String,
        /// What may be given.
        expected: String,
    },
    /// A relay that cannot hand on what it should.
    #[error("{0}")]
    Relay(&'static str),
    /// An aggregate connection that cannot carry its traffic.
    #[error("{0}")]
    Aggregate(&'static str),
    /// Two fields contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}
