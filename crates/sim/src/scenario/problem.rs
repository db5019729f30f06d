//! Errors of a scenario, and the fields in which they are.

use std::fmt;

/// An error of a scenario.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Problem {
    /// The field with the error.
    pub place: Place,
    /// The kind of error.
    pub what: What,
}

/// A field of a scenario. The number is the index in the list of nodes, links, traffic, and so on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// A field of [`Run`](super::Run).
    Run(&'static str),
    /// A field of a node.
    Node(usize, &'static str),
    /// A field of a link.
    Link(usize, &'static str),
    /// A field of traffic.
    Traffic(usize, &'static str),
    /// A field of a probe.
    Probe(usize, &'static str),
    /// A field of a [`Change`](super::Change).
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

/// The kinds of errors.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum What {
    /// A name is empty.
    #[error("a name is empty; give it one")]
    NoName,
    /// A name is used twice.
    #[error("`{0}` is used twice; give each a name of its own")]
    Twice(String),
    /// A reference to an unknown name.
    #[error("there is no {kind} `{name}`")]
    Unknown {
        /// Expected kind of object.
        kind: &'static str,
        /// The unknown name.
        name: String,
    },
    /// A link to a side that the node does not have.
    #[error("`{end}` is no place for a link; {expected}")]
    NoSuchSide {
        /// The end of the link.
        end: String,
        /// The allowed sides.
        expected: &'static str,
    },
    /// A second link between the same two ends.
    #[error("a second link leads from {0}; there is at most one")]
    SecondLink(String),
    /// A link that ends where it begins, or traffic from a host to itself.
    #[error("`{0}` is at both ends")]
    Loop(String),
    /// No path leads from a sender to a receiver.
    #[error("no links lead from `{from}` to `{to}`; a packet could not get there")]
    NoRoute {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// Zero where a positive value is required.
    #[error("it is zero, which {0}")]
    Zero(&'static str),
    /// An empty list where an entry is required.
    #[error("there are none; {0}")]
    None(&'static str),
    /// A value outside its range.
    #[error("{value} is out of range: {expected}")]
    OutOfRange {
        /// The given value.
        value: String,
        /// The allowed values.
        expected: String,
    },
    /// A relay that cannot forward its traffic.
    #[error("{0}")]
    Relay(&'static str),
    /// An aggregate connection that cannot carry its traffic.
    #[error("{0}")]
    Aggregate(String),
    /// Two fields contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}
