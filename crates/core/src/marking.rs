//! Markings: predict the overflow of a queue, and mark packets before it happens.
//!
//! A marking watches the packets of one place: the queue of a link, of a class or of an aggregate.
//! It selects the flow whose packet is marked "congestion experienced". A [`Marker`] connects it to
//! the place, marks the packet, and reports the outcome to the marking.
//!
//! To add a marking: write `marking/<name>.rs` with a `Config` and its `build`, then add its `mod`
//! line and its line in `registry!` below.
//!
//! Source: `marking`, sections 2 to 4. RED, PI, PIE and CoDel mark inside their queues.

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

pub use marker::{Marker, Marks, Place, Tracked};
pub(crate) use service::Service;

use std::time::Duration;

use crate::class::ClassId;
use crate::flow::Flow;
use crate::packet::{Direction, Ecn, FlowId, Member};
use crate::random::Random;
use crate::registry;
use crate::scheduler::ClassState;
use crate::{Bytes, Packet, Rate, Time};
use tracker::Sighting;

/// State of a place, as a marking sees it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Current time.
    pub now: Time,
    /// Direction of the packets.
    pub direction: Direction,
    /// The flow of the packet, with the state of both directions. `None` for packets of untracked flows,
    /// and in [`Marking::decide`].
    pub flow: Option<&'a Flow>,
    /// Rate at which packets depart from the place.
    pub rate: Rate,
    /// Bytes that depart at once beyond the rate: the tokens of an aggregate.
    pub tokens: Bytes,
    /// Frame bytes in the queue. In [`Marking::decide`], the packet that arrives counts.
    pub backlog: Bytes,
    /// Largest backlog in frame bytes.
    pub limit: Bytes,
    /// States of the classes that share the place, by class number. Empty if they share none.
    pub classes: &'a [ClassState],
    /// Class of the packet, where classes share the place.
    pub class: ClassId,
}

impl<'a> Observed<'a> {
    /// Number of the packet's class; zero if no classes share the place.
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

/// The answer of a marking.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// The packet is queued unchanged.
    Pass,
    /// Mark the oldest packet of this flow. The arriving packet is the newest of its flow.
    Mark(Target),
    /// Mark the arriving packet, or drop it if it is not ECN-capable. Its flow has no tracker.
    MarkArrival,
    /// Drop the arriving packet: no flow is left to mark, and its sender ignores marks.
    Drop,
}

/// A flow to mark, and its member in the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Target {
    /// The flow.
    pub flow: FlowId,
    /// Its member in the queue.
    pub member: Member,
}

/// The outcome of a [`Decision::Mark`] or [`Decision::Drop`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// A packet was marked.
    Marked,
    /// A packet was dropped: the oldest of the flow because it is not ECN-capable (RFC 3168,
    /// section 5), or the arriving packet ([`Decision::Drop`]).
    Dropped,
    /// The flow has no waiting packet that may be marked or dropped.
    NoPacket,
}

/// Selects the packets to mark at one place.
///
/// # Call order
///
/// 1. For each packet that arrives, [`arrived`](Self::arrived), then [`decide`](Self::decide) until the
///    answer is not [`Decision::Mark`].
/// 2. [`done`](Self::done) follows each [`Decision::Mark`], and each [`Decision::Drop`], because a sender
///    that ignored marks may respond to a drop.
/// 3. [`leaving`](Self::leaving) reports each packet that departs. [`acknowledged`](Self::acknowledged)
///    reports each ACK on its way back.
///
/// # Time
///
/// Times are those of the packets, and do not run backwards. A marking has no timer.
///
/// # Example
///
/// A TCP sender doubles its window every 50 ms. The marking selects it before its queue overflows.
///
/// ```
/// use std::collections::VecDeque;
/// use tidegate_core::marking::{Decision, MarkingSpec, Observed, Outcome};
/// use tidegate_core::packet::{Direction, Ecn, FlowId, FlowKey, Member, Packet, Protocol, TcpSegment};
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
///             marking.leaving(&departs);
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
///             member: Member(0),
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
    /// Notes `packet`, which is going to be queued. Returns `true` if the projection counts its flow by its rounds.
    fn arrived(&mut self, seen: &Observed<'_>, packet: &Packet) -> bool;

    /// Notes `packet`, which departs.
    fn leaving(&mut self, packet: &Packet);

    /// Notes `ack`, a packet with an acknowledgement that departs in the other direction, to the sender of a flow
    /// that is queued here. `seen.direction` is that of the place.
    fn acknowledged(&mut self, seen: &Observed<'_>, ack: &Packet);

    /// Decides on `packet`, the last that [arrived](Self::arrived), before it is queued.
    fn decide(&mut self, seen: &Observed<'_>, packet: &Packet) -> Decision;

    /// Notes the outcome of the last [`Decision::Mark`] or [`Decision::Drop`]. `target` may have no tracker.
    fn done(&mut self, now: Time, target: Target, outcome: Outcome);

    /// Forgets `flow`: the flow table may use its number for another flow.
    fn forget(&mut self, flow: FlowId);

    /// Returns `true` if `flow` has a tracker and did not respond to marks.
    fn ignores(&self, flow: FlowId) -> bool;

    /// The longest round-trip time of the tracked flows.
    fn longest_rtt(&self) -> Duration;

    /// Returns `true` if the projection counts `flow` by its rounds.
    fn tracks(&self, flow: FlowId) -> bool;

    /// Statistics of the tracked flows. The bytes are zero: the [`Marker`] counts them.
    fn tracked(&self) -> Tracked;
}

/// The sighting of an ACK that [departs](Marking::acknowledged) to a sender.
const fn acknowledges<'a>(seen: &Observed<'a>, ack: &'a Packet) -> Sighting<'a> {
    Sighting { now: seen.now, packet: ack, direction: seen.direction.reverse(), flow: seen.flow }
}

/// Decision on a packet without a tracker, if an overflow is predicted and all flows are marked.
///
/// An ECT codepoint promises a response to a mark, of TCP or of QUIC (RFC 9000, section 13.4),
/// unless the flow `ignores` marks. SYNs, pure ACKs and retransmissions are never ECN-capable (RFC
/// 3168, sections 6.1.4 and 6.1.5). Their loss slows no sender, or costs a timeout.
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
    /// `random` is its own source of random numbers.
    MarkingSpec, "a marking", build(random: Random) -> Marking:
    /// A tracker for each flow; the flow with the largest window is marked.
    Reference => reference, "reference";
    /// Trackers for the flows that pass a small filter, which stand for all.
    Heuristic => heuristic, "heuristic";
    /// Trackers for the flows that carry most of the bytes; other traffic counts at its rate.
    Coverage => coverage, "coverage";
}
