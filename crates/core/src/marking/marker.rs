//! A marking at its place: the marking decides, and the marker marks the waiting packet.
//!
//! The gateway shows every packet that arrives with [`Marker::sight`]. Before the packet is queued, it calls
//! [`Marker::prevent`]. A packet that moves to the place from another queue was not seen: it is queued as it is.

use std::time::Duration;

use super::{Decision, Marking, Observed, Outcome, Target};
use crate::packet::{Direction, FlowId};
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Reason, Time};

/// A marking and its counters.
pub struct Marker {
    marking: Box<dyn Marking>,
    /// Direction of the packets, which all have the same.
    direction: Direction,
    /// A packet was seen that has not been queued yet.
    pending: bool,
    marks: Marks,
    /// Arrived bytes, and arrived bytes of tracked flows.
    bytes: [u64; 2],
}

/// Packets marked, and dropped in place of a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Marks {
    /// Packets marked.
    pub marked: u64,
    /// Packets dropped in place of a mark, because they are not ECN-capable.
    pub not_ect: u64,
    /// Packets dropped because no flow was left to mark.
    pub unmarkable: u64,
    /// The flows that the marking projects.
    pub tracked: Tracked,
}

/// The flows that a marking projects by their rounds, and how well its filter selected them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tracked {
    /// Flows that are projected now.
    pub flows: u64,
    /// Bytes of packets that arrived.
    pub all_bytes: u64,
    /// Bytes of packets whose flows were projected when they arrived.
    pub tracked_bytes: u64,
    /// Factor for the rounds of tracked flows. It is 1 if other traffic counts at its rate.
    pub rho: f64,
    /// Intervals of the filter that have ended.
    pub intervals: u64,
    /// Threshold of the last interval: a flow with this many bytes was tracked; zero without a
    /// filter.
    pub threshold: Bytes,
    /// Flows that were projected throughout the last interval and sent less than the threshold in it.
    ///
    /// The bytes of a flow before it passed the filter are unknown, so flows that passed in this interval are not
    /// counted.
    pub false_positives: u64,
}

/// Waiting packets, of a queue or of several queues with a common buffer.
pub trait MarkedBuffer {
    /// State of the place, without a flow.
    fn observed(&mut self, now: Time, direction: Direction) -> Observed<'_>;

    /// Offers the packets of a flow's member to `which`, the oldest first, until it returns `true`.
    fn visit(&self, pool: &mut PacketPool, of: Target, which: &mut dyn FnMut(&mut Packet) -> bool);

    /// Removes the oldest packet of a flow's member, for a caller that drops it.
    fn take(&mut self, cx: &mut Cx<'_>, of: Target) -> Option<PacketId>;
}

/// Most packets of one member that are searched for a packet of the flow: several flows of a host
/// may be one member.
const SEARCHED: u32 = 64;

impl Marker {
    /// A marker for `marking`, which has seen no packets.
    #[must_use]
    pub fn new(marking: Box<dyn Marking>) -> Self {
        let (direction, marks) = (Direction::Up, Marks::default());
        Self { marking, direction, pending: false, marks, bytes: [0; 2] }
    }

    /// Direction of the packets.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Notes `packet`, which is going to be queued. `seen` has its flow, if that is in the flow table.
    pub fn sight(&mut self, seen: &Observed<'_>, packet: &Packet) {
        (self.direction, self.pending) = (seen.direction, true);
        let (ours, len) = (self.marking.arrived(seen, packet), u64::from(packet.len));
        self.bytes[0] += len;
        self.bytes[1] += if ours { len } else { 0 };
    }

    /// Notes `ack`, a packet that departs to the sender of `seen.flow`, whose packets go in `seen.direction`.
    pub fn acknowledge(&mut self, seen: &Observed<'_>, ack: &Packet) {
        self.marking.acknowledged(seen, ack);
    }

    /// Notes `packet`, which departs.
    pub fn departs(&mut self, packet: &Packet) {
        self.marking.leaving(packet);
    }

    /// Forgets `flow`: its number may be given to another flow.
    pub fn forget(&mut self, flow: FlowId) {
        self.marking.forget(flow);
    }

    /// Packets marked and dropped, and the flows that are tracked.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let [all_bytes, tracked_bytes] = self.bytes;
        Marks {
            tracked: Tracked { all_bytes, tracked_bytes, ..self.marking.tracked() },
            ..self.marks
        }
    }

    /// Returns `true` if the marking projects `flow`.
    #[must_use]
    pub fn tracks(&self, flow: FlowId) -> bool {
        self.marking.tracks(flow)
    }

    /// The longest round-trip time of the tracked flows.
    #[must_use]
    pub fn longest_rtt(&self) -> Duration {
        self.marking.longest_rtt()
    }

    /// Returns `true` if `flow` ignores marks.
    #[must_use]
    pub fn ignores(&self, flow: FlowId) -> bool {
        self.marking.ignores(flow)
    }

    /// Marks waiting packets, or `packet` if it was [seen](Self::sight) just before. Returns
    /// `packet` if it is to be queued; otherwise it was dropped.
    pub fn prevent(
        &mut self,
        cx: &mut Cx<'_>,
        place: &mut dyn MarkedBuffer,
        packet: PacketId,
    ) -> Option<PacketId> {
        if !std::mem::take(&mut self.pending) {
            return Some(packet);
        }
        let Some(reason) = self.decide(cx, place, &packet) else { return Some(packet) };
        match reason {
            Reason::Unmarkable => self.marks.unmarkable += 1,
            _ => self.marks.not_ect += 1,
        }
        cx.drop(packet, reason);
        None
    }

    /// Marks until no overflow is projected. Returns a reason if `packet` is to be dropped.
    fn decide(
        &mut self,
        cx: &mut Cx<'_>,
        place: &mut dyn MarkedBuffer,
        packet: &PacketId,
    ) -> Option<Reason> {
        loop {
            let mut seen = place.observed(cx.now, self.direction);
            seen.backlog += cx.pool[packet].frame_len();
            match self.marking.decide(&seen, &cx.pool[packet]) {
                Decision::Pass => return None,
                Decision::MarkArrival => {
                    return (!self.mark(cx, packet)).then_some(Reason::Predicted);
                }
                Decision::Drop => {
                    let Packet { flow, member, .. } = cx.pool[packet];
                    self.marking.done(cx.now, Target { flow, member }, Outcome::Dropped);
                    return Some(Reason::Unmarkable);
                }
                Decision::Mark(target) => {
                    let oldest = self.mark_oldest(cx, place, target);
                    let own = cx.pool[packet].flow == target.flow && counts(&cx.pool[packet]);
                    let marks_own = oldest == Outcome::NoPacket && own;
                    let outcome = match marks_own {
                        true if self.mark(cx, packet) => Outcome::Marked,
                        true => Outcome::Dropped,
                        false => oldest,
                    };
                    self.marking.done(cx.now, target, outcome);
                    if marks_own && outcome == Outcome::Dropped {
                        return Some(Reason::Predicted);
                    }
                }
            }
        }
    }

    /// Marks or drops the oldest waiting packet of a flow.
    fn mark_oldest(
        &mut self,
        cx: &mut Cx<'_>,
        place: &mut dyn MarkedBuffer,
        target: Target,
    ) -> Outcome {
        let (mut outcome, mut before) = (Outcome::NoPacket, 0);
        place.visit(cx.pool, target, &mut |packet| {
            let is_first = before == 0;
            before += 1;
            if packet.flow != target.flow || !counts(packet) {
                return before == SEARCHED;
            }
            if packet.mark_congestion() {
                outcome = Outcome::Marked;
            } else if is_first {
                outcome = Outcome::Dropped;
            }
            true
        });
        match outcome {
            Outcome::Marked => {
                cx.tally.marks.count(Reason::Predicted);
                self.marks.marked += 1;
            }
            Outcome::Dropped => {
                if let Some(packet) = place.take(cx, target) {
                    cx.drop(packet, Reason::Predicted);
                    self.marks.not_ect += 1;
                }
            }
            Outcome::NoPacket => {}
        }
        outcome
    }

    /// Marks the arriving packet, if it is ECN-capable.
    fn mark(&mut self, cx: &mut Cx<'_>, packet: &PacketId) -> bool {
        let marked = cx.mark(packet, Reason::Predicted);
        self.marks.marked += u64::from(marked);
        marked
    }
}

/// Returns `true` if `packet` may be ECN-capable: it carries data and is no retransmission.
///
/// Source: RFC 3168, sections 6.1.4 and 6.1.5.
fn counts(packet: &Packet) -> bool {
    packet.tcp.is_some_and(|tcp| tcp.payload > 0) && !packet.seen_before
}
