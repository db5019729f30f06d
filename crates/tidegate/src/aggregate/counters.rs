//! Counters of an aggregate gateway since its start. The gateway carries the TCP connections of
//! users over one *aggregate connection* to its peer gateway.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_wire::aggregate::Answer;

/// A counter that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
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

/// Counters of a gateway. Bytes are user payload.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Connections of clients accepted at this site.
    pub(super) taken: Counter,
    /// Connections to servers at this site, opened for clients of the peer's site.
    pub(super) opened: Counter,
    /// Bytes read from users at this site and passed to the peer.
    pub(super) sent: Counter,
    /// Bytes received from the peer and written to users at this site.
    pub(super) received: Counter,
    /// Connections reset because there were `max_connections` already.
    pub(super) full: Counter,
    /// Connections reset because the peer was unreachable.
    pub(super) peer_down: Counter,
    /// Connections reset because the peer could not open them, by the peer's reason
    /// ([`Answer::FAILURES`]).
    pub(super) failed: [Counter; Answer::FAILURES.len()],
    /// Connections that one end has reset, or that broke with the aggregate connection.
    pub(super) reset: Counter,
    /// Connections that the gateway has reset because they were stalled (their host accepted no
    /// bytes) and other connections needed the window that their bytes occupied. `reset` includes
    /// them.
    pub(super) expelled: Counter,
    /// Connections whose client had closed, and whose acknowledged bytes were lost because the peer
    /// failed.
    pub(super) lost_after_close: Counter,
    /// Aggregate connections established.
    pub(super) links: Counter,
    /// Streams of the peer with an invalid header or control message.
    pub(super) bad_messages: Counter,
}

impl Counters {
    /// Counts a connection that failed with this answer.
    pub(super) fn fail(&self, answer: Answer) {
        let failures = Answer::FAILURES.iter().zip(&self.failed);
        failures.filter(|(it, _)| **it == answer).for_each(|(_, count)| count.one());
    }
}
