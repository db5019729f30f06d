//! The queue of control traffic at a link with a rate. No other traffic can starve it.
//!
//! Control traffic precedes all classes as long as its [allowance](crate::class::control) lasts.
//! Beyond its allowance, control traffic borrows. Among classes it borrows as one more class with
//! the weight and priority of `default`. Without classes it has the same share as the queue of the
//! link. Sources take turns, and a source that was silent comes first.
//!
//! Source: RFC 8290, section 4.2 (rounds, and queues by hash).
//! Differs:
//! - The hash is that of the station that sent a packet, not of the flow.
//! - CoDel's target fits requests that are repeated after a second.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::FixedState;

use crate::class::control::{self, Allowance};
use crate::packet::{Direction, QueueIndex};
use crate::qdisc::{Backlog, Qdisc, QdiscSpec};
use crate::random::Random;
use crate::report::ControlReport;
use crate::{Bytes, Cx, PacketId, Rate, Reason, Time};

/// The control traffic of one direction of a link.
pub(in crate::gateway) struct Control {
    queue: Box<dyn Qdisc>,
    allowance: Allowance,
    seed: FixedState,
    /// Bytes borrowed beyond the bytes that the queue of the link sent meanwhile. Unused with classes.
    lead: i64,
    report: ControlReport,
}

impl Control {
    /// A queue without packets, on a link of rate `link`.
    pub(in crate::gateway) fn new(direction: Direction, seed: u64, link: Rate, now: Time) -> Self {
        Self {
            queue: queue().build(None, Random::named(seed, &["control", direction.name()])),
            allowance: Allowance::new(link, now),
            seed: FixedState::with_seed(seed),
            lead: 0,
            report: ControlReport::new(direction, control::allowance(link)),
        }
    }

    /// Sets the rate of the link from `now` on.
    pub(in crate::gateway) fn set_rate(&mut self, now: Time, link: Rate) {
        self.allowance.set(now, link);
        self.report.allowance = control::allowance(link);
    }

    /// Enqueues a packet that `source` has sent.
    ///
    /// The packet is dropped if buffers are scarce and other packets of its source wait.
    pub(in crate::gateway) fn push(
        &mut self,
        cx: &mut Cx<'_>,
        source: QueueIndex,
        packet: PacketId,
    ) {
        let line = self.seed.hash_one(source) % LINES;
        let line = QueueIndex(u32::try_from(line).unwrap_or(0));
        self.report.arrived += 1;
        if cx.pool.is_scarce() && self.queue.bytes_of(line) > Bytes::ZERO {
            return cx.drop(packet, Reason::NoBuffer);
        }
        if !self.waits() {
            // Idle time earns nothing.
            self.lead = self.lead.max(0);
        }
        // Queues here belong to sources, not to flows.
        cx.pool.remove_from_flow(&packet);
        cx.pool[&packet].queue_index = line;
        self.queue.enqueue(cx, packet);
    }

    /// Returns `true` if packets wait.
    pub(in crate::gateway) fn waits(&self) -> bool {
        self.queue.backlog().packets > 0
    }

    /// Removes the next packet if the allowance permits it to precede all other traffic.
    pub(in crate::gateway) fn pop_allowed(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        if !self.waits() || !self.allowance.permits(cx.now) {
            return None;
        }
        let packet = self.pop(cx)?;
        self.allowance.charge(cx.pool[&packet].charged());
        Some(packet)
    }

    /// Removes the next packet beyond the allowance.
    pub(in crate::gateway) fn pop_borrowed(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.pop(cx)?;
        self.report.borrowed_bytes += cx.pool[&packet].charged().0;
        Some(packet)
    }

    /// Removes the next packet beyond the allowance, in rounds with another queue. `queue_waits` is true if
    /// the other queue has packets. Returns `None` if it is the round of the other queue.
    pub(in crate::gateway) fn pop_beside(
        &mut self,
        cx: &mut Cx<'_>,
        queue_waits: bool,
    ) -> Option<PacketId> {
        if queue_waits && self.lead > 0 {
            return None;
        }
        let packet = self.pop_borrowed(cx)?;
        self.lead = if queue_waits { self.lead + signed(cx.pool[&packet].charged()) } else { 0 };
        Some(packet)
    }

    /// Counts `len` bytes that the other queue has sent.
    pub(in crate::gateway) fn yielded(&mut self, len: Bytes) {
        if self.waits() {
            self.lead -= signed(len);
        }
    }

    /// Removes the next packet, whether the allowance permits it or not.
    pub(in crate::gateway) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.queue.dequeue(cx)?;
        self.report.sent.packets += 1;
        self.report.sent.bytes += cx.pool[&packet].charged().0;
        Some(packet)
    }

    pub(in crate::gateway) fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Current state of the queue.
    pub(in crate::gateway) fn report(&self) -> ControlReport {
        let backlog = self.backlog();
        let gone = self.report.sent.packets + u64::from(backlog.packets);
        let drops = self.report.arrived.saturating_sub(gone);
        ControlReport { backlog, drops, ..self.report }
    }
}

/// The queue of control traffic.
///
/// CoDel drops requests that waited for a second, as their senders have repeated them (RFC 4861, section 10:
/// 1 s; Linux, `arp(7)`: 1 s). The quantum is small, as most packets are short.
fn queue() -> QdiscSpec {
    let mut queue = QdiscSpec::FqCodel(Default::default());
    if let QdiscSpec::FqCodel(config) = &mut queue {
        config.quantum = Bytes(256);
        config.limit = LIMIT;
        config.packets = PACKETS;
        config.target = REPEATED;
        config.interval = 10 * REPEATED;
        config.ecn = false;
    }
    queue
}

fn signed(len: Bytes) -> i64 {
    i64::try_from(len.0).unwrap_or(i64::MAX)
}

/// Time after which a host repeats an unanswered request.
const REPEATED: Duration = Duration::from_secs(1);

/// Room for four packets of the greatest length, as a routing protocol may send them at once.
const LIMIT: Bytes = Bytes(256 << 10);

/// An eighth of a gateway's default number of buffers: the reserve of the pool.
const PACKETS: u32 = 2_048;

/// Queues that sources are hashed into (RFC 8290, section 5.2.5).
const LINES: u64 = 1_024;
