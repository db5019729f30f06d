//! State of a host and of a flow in the queue `hosts`.

use super::super::longest::Heads;
use super::super::thinning::Last;
use crate::Bytes;
use crate::packet::{First, Host};

/// A host, and the rings of its flows.
#[derive(Clone, Debug)]
pub(super) struct HostState {
    /// Flows that became backlogged, and lines of ACKs.
    pub(super) new: First,
    /// Flows that have used up a quantum.
    pub(super) bulk: First,
    /// Charged bytes by which new flows are ahead of bulk flows.
    pub(super) ahead: i64,
    /// Frame bytes of all its flows.
    pub(super) bytes: Bytes,
    /// Its flows by backlog.
    pub(super) lines: Heads,
}

impl Default for HostState {
    fn default() -> Self {
        Self {
            new: First::NOBODY,
            bulk: First::NOBODY,
            ahead: 0,
            bytes: Bytes::ZERO,
            lines: Heads::default(),
        }
    }
}

impl HostState {
    /// Returns `true` if a bulk flow comes before the next packet of a new flow.
    pub(super) fn has_to_wait(&self, quantum: i64) -> bool {
        self.ahead >= quantum && self.bulk.member().is_some()
    }
}

/// A flow, by member.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Its host, as long as it has packets.
    pub(super) host: Host,
    pub(super) place: Place,
    /// It has sent nothing but ACKs since it joined its ring.
    pub(super) only_acks: bool,
    pub(super) last: Last,
}

/// The ring of its host that a flow is in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Place {
    #[default]
    Nowhere,
    New,
    Bulk,
}
