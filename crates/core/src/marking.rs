//! Markings: predict when a queue will overflow, and mark packets "congestion experienced" (ECN) before that.
//!
//! A TCP sender transmits one window in each round-trip time. The packets of one window are a *round*. A *tracker*
//! observes the packets of a flow and estimates its window, its round-trip time and the start of its next round. A
//! *marking* adds up the next rounds of all flows. This sum is the *projection* of the backlog. While the projection
//! exceeds the limit of the queue, the marking selects a flow whose next packet is marked. The mark halves the next
//! window of this flow.
//!
//! A marking observes one queue: that of a link, a class or a policy. Several classes may also share one buffer. A
//! [`Marker`] connects the marking with the queue, marks the packets, and reports the outcome to the marking.
//!
//! To add a marking: write `marking/<name>.rs` with a `Config` and its `build`, then add its `mod` line and its line in
//! `registry!` below.
//!
//! Source: `marking`, sections 2 to 4 (trackers, projection, filters). RED, PI, PIE and CoDel mark in their own queue
//! disciplines.

mod coverage;
pub mod filter;
mod filtered;
mod guarantees;
mod heuristic;
mod largest;
mod marker;
mod memory;
mod reference;
mod rounds;
mod service;
mod sums;
#[cfg(test)]
mod testing;
pub mod tracker;

pub use marker::{MarkedBuffer, Marker, Marks, Tracked};
pub(crate) use service::ServiceRate;

use std::time::Duration;

use crate::class::ClassId;
use crate::flow::Flow;
use crate::packet::{Direction, Ecn, FlowId, QueueIndex};
use crate::random::Random;
use crate::registry;
use crate::scheduler::ClassState;
use crate::{Bytes, Packet, Rate, Time};
use tracker::Sighting;

/// State of the queue that a marking observes.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Current time.
    pub now: Time,
    /// Direction of the packets.
    pub direction: Direction,
    /// The flow of the packet, with the state of both directions. `None` for packets of untracked flows,
    /// and in [`Marking::decide`].
    pub flow: Option<&'a Flow>,
    /// Rate at which packets depart from the queue.
    pub rate: Rate,
    /// Bytes that may depart at once, in addition to the rate: the tokens of a policy's token bucket.
    pub tokens: Bytes,
    /// Frame bytes in the queue. In [`Marking::decide`], the arriving packet is included.
    pub backlog: Bytes,
    /// Largest backlog in frame bytes.
    pub limit: Bytes,
    /// States of the classes that share the buffer, by class number. Empty for the queue of one class, policy or link.
    pub classes: &'a [ClassState],
    /// Class of the packet, if classes share the buffer.
    pub class: ClassId,
}

impl<'a> Observed<'a> {
    /// Number of the packet's class. Zero if no classes share the buffer.
    fn class_number(&self) -> u16 {
        u16::try_from(self.class.0).unwrap_or(0)
    }

    /// An empty queue of `limit` bytes from which packets depart at `rate`.
    #[must_use]
    pub const fn empty(now: Time, direction: Direction, rate: Rate, limit: Bytes) -> Self {
        let (tokens, backlog) = (Bytes::ZERO, Bytes::ZERO);
        let (classes, class): (&'a [ClassState], _) = (&[], ClassId::ROOT);
        Self { now, direction, flow: None, rate, tokens, backlog, limit, classes, class }
    }
}

/// Decision of a marking on an arriving packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// The packet is queued unchanged.
    Pass,
    /// Mark the oldest packet of this flow in the queue. If no packet of the flow waits, mark the
    /// arriving packet if it belongs to this flow.
    Mark(Target),
    /// Mark the arriving packet, whose flow has no tracker. Drop the packet if it is not ECN-capable.
    MarkArrival,
    /// Drop the arriving packet: no flow is left to mark, and the sender of the packet does not respond to marks.
    Drop,
}

/// A flow to mark, and the index of its packets in the queue discipline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Target {
    /// The flow.
    pub flow: FlowId,
    /// Queue index of the flow. Flows of one host may share a queue index.
    pub queue_index: QueueIndex,
}

/// The outcome of a [`Decision::Mark`] or [`Decision::Drop`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// A packet was marked.
    Marked,
    /// A packet was dropped: the oldest of the flow because it is not ECN-capable (RFC 3168,
    /// section 5), or the arriving packet ([`Decision::Drop`]).
    Dropped,
    /// No waiting packet of the flow may be marked or dropped.
    NoPacket,
}

/// Selects the flows to mark in one queue.
///
/// # Call order
///
/// 1. For each packet that arrives, [`arrived`](Self::arrived), then [`decide`](Self::decide) until the
///    answer is not [`Decision::Mark`].
/// 2. After each [`Decision::Mark`] and each [`Decision::Drop`], [`done`](Self::done) with the outcome.
/// 3. For each packet that departs, [`departed`](Self::departed). For each ACK in the other direction,
///    [`acknowledged`](Self::acknowledged).
///
/// # Time
///
/// Times are those of the packets, and must not run backwards. A marking has no timer.
///
/// # Example
///
/// A TCP sender doubles its window every 50 ms. The marking selects it before its queue overflows.
///
/// ```
/// use std::collections::VecDeque;
/// use tidegate_core::marking::{Decision, MarkingSpec, Observed, Outcome};
/// use tidegate_core::packet::{Direction, Ecn, FlowId, FlowKey, QueueIndex, Packet, Protocol, TcpSegment};
/// use tidegate_core::random::Random;
/// use tidegate_core::{Bytes, Rate, Time};
///
/// let spec: MarkingSpec = toml::from_str("kind = 'reference'").unwrap();
/// let mut marking = spec.build(Random::new(1, 0));
/// let (rate, limit) = (Rate::from_mbps(8), Bytes(100_000));
/// let (mut queue, mut seq, mut marked) = (VecDeque::new(), 0, false);
/// for round in 0..12 {
///     for number in 0..(2_u64 << round) {
///         // 1,000 bytes arrive twice as fast as they depart.
///         let now = Time::from_micros(50_000 * round + 500 * number);
///         if number % 2 == 1 && let Some(departs) = queue.pop_front() {
///             marking.departed(&departs);
///         }
///         let tcp = TcpSegment { seq, payload: 946, ..TcpSegment::default() };
///         seq += tcp.payload;
///         let packet = Packet {
///             len: 1_000,
///             segments: 1,
///             ecn: Ecn::Ect0,
///             tcp: Some(tcp),
///             key: FlowKey { protocol: Protocol::TCP, ..FlowKey::default() },
///             flow: FlowId(0),
///             queue_index: QueueIndex(0),
///             arrived: now,
///             ..Packet::default()
///         };
///         let mut seen = Observed::empty(now, Direction::Up, rate, limit);
///         marking.arrived(&seen, &packet);
///         queue.push_back(packet);
///         seen.backlog = Bytes(1_000 * queue.len() as u64);
///         while let Decision::Mark(target) = marking.decide(&seen, &packet) {
///             assert_eq!(target.flow, FlowId(0));
///             marking.done(now, target, Outcome::Marked);
///             marked = true;
///         }
///         assert!(marked || seen.backlog < limit, "the queue overflows without a mark");
///     }
/// }
/// assert!(marked);
/// ```
pub trait Marking: Send {
    /// Notes `packet`, which will be queued. Returns `true` if the projection includes the rounds of its flow.
    fn arrived(&mut self, seen: &Observed<'_>, packet: &Packet) -> bool;

    /// Notes `packet`, which departs from the queue.
    fn departed(&mut self, packet: &Packet);

    /// Notes `ack`, which acknowledges data of a flow that is queued here. `seen.direction` is the direction of the
    /// data, and `ack` departs in the other direction.
    fn acknowledged(&mut self, seen: &Observed<'_>, ack: &Packet);

    /// Decides on `packet` before it is queued. It is the packet of the last call of [`arrived`](Self::arrived).
    fn decide(&mut self, seen: &Observed<'_>, packet: &Packet) -> Decision;

    /// Notes the outcome of the last [`Decision::Mark`] or [`Decision::Drop`]. The flow `target` may have no tracker.
    fn done(&mut self, now: Time, target: Target, outcome: Outcome);

    /// Forgets `flow`, because the flow table may give its number to another flow.
    fn forget(&mut self, flow: FlowId);

    /// Returns `true` if `flow` has a tracker and has not responded to its recent marks.
    fn ignores(&self, flow: FlowId) -> bool;

    /// The longest round-trip time of the tracked flows.
    fn longest_rtt(&self) -> Duration;

    /// Returns `true` if the projection includes the rounds of `flow`.
    fn tracks(&self, flow: FlowId) -> bool;

    /// Statistics of the tracked flows. `all_bytes` and `tracked_bytes` are zero, because the [`Marker`] counts them.
    fn tracked(&self) -> Tracked;
}

/// The input for a tracker from an ACK of [`Marking::acknowledged`].
const fn acknowledges<'a>(seen: &Observed<'a>, ack: &'a Packet) -> Sighting<'a> {
    Sighting { now: seen.now, packet: ack, direction: seen.direction.reverse(), flow: seen.flow }
}

/// Decision on an arriving packet without a tracker, if an overflow is predicted and all tracked flows are marked.
///
/// SYNs, pure ACKs and retransmissions pass: they are never ECN-capable (RFC 3168, sections 6.1.4
/// and 6.1.5). The loss of a pure ACK slows no sender, and the loss of a SYN or retransmission
/// costs a timeout. An ECN-capable packet is marked, because its sender promises a response (QUIC:
/// RFC 9000, section 13.4). If the flow `ignores` marks, or is not ECN-capable, the packet is
/// dropped.
fn last_resort(packet: &Packet, ignores: bool) -> Decision {
    let carries_news = packet.tcp.is_none_or(|tcp| tcp.payload > 0) && !packet.seen_before;
    match packet.ecn {
        _ if !carries_news => Decision::Pass,
        Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce if !ignores => Decision::MarkArrival,
        _ => Decision::Drop,
    }
}

registry! {
    /// A marking as a policy file names it.
    ///
    /// `random` is the source of random numbers of this marking alone.
    MarkingSpec, "a marking", build(random: Random) -> Marking:
    /// A tracker for each flow; the flow with the largest window is marked.
    Reference => reference, "reference";
    /// Trackers for the flows that pass a small filter. These flows represent all flows.
    Heuristic => heuristic, "heuristic";
    /// Trackers for the flows that carry most of the bytes. Other traffic is counted by its rate.
    Coverage => coverage, "coverage";
}
