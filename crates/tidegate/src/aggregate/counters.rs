//! The counts of a gateway since its start.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_wire::aggregate::Answer;

/// A count that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Counts one more.
    pub(super) fn one(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a gateway. Bytes are payload of users.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Connections of clients accepted here.
    pub(super) taken: Counter,
    /// Connections opened here for the peer.
    pub(super) opened: Counter,
    /// Bytes read from connections here and passed to the peer.
    pub(super) sent: Counter,
    /// Bytes received from the peer and written to connections here.
    pub(super) received: Counter,
    /// Connections reset because there were `max_connections` already.
    pub(super) full: Counter,
    /// Connections reset because the peer was down.
    pub(super) peer_down: Counter,
    /// Connections reset because the peer could not open them, by the answers after `Connected`.
    pub(super) failed: [Counter; Answer::FAILURES.len()],
    /// Connections reset by one end, or broken with the aggregate connection.
    pub(super) reset: Counter,
    /// Connections reset because they were stalled and others needed the room. `reset` includes
    /// them.
    pub(super) expelled: Counter,
    /// Connections that lost acknowledged bytes with the peer after their client had closed.
    pub(super) lost_after_close: Counter,
    /// Aggregate connections established.
    pub(super) links: Counter,
    /// Streams with an invalid header or control message.
    pub(super) bad_messages: Counter,
}

impl Counters {
    /// Counts a connection that failed with this answer.
    pub(super) fn fail(&self, answer: Answer) {
        let failures = Answer::FAILURES.iter().zip(&self.failed);
        failures.filter(|(it, _)| **it == answer).for_each(|(_, count)| count.one());
    }
}
