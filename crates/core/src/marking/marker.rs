//! The marker: it connects a marking with a queue. The marking predicts an overflow and selects a
//! flow, and the marker marks a packet of this flow.
//!
//! For each arriving packet, the gateway calls [`Marker::sight`]. Just before it queues the packet,
//! it calls [`Marker::prevent`]. For a packet that is moved here from another queue, it calls only
//! `prevent`, which then has no effect.

use std::time::Duration;

use super::{Decision, Marking, Observed, Outcome, Target};
use crate::packet::{Direction, FlowId};
use crate::reports::ReportValue;
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Reason, Time, report};

/// A marking and its counters.
pub struct Marker {
    marking: Box<dyn Marking>,
    /// Direction of all packets in the queue.
    direction: Direction,
    /// `true` between [`sight`](Self::sight) and [`prevent`](Self::prevent).
    pending: bool,
    marks: Marks,
    /// Bytes of all arrived packets, and bytes of packets whose flows are tracked.
    bytes: [u64; 2],
}

report! {
    /// Packets that a marking has marked or dropped since it was attached to its queue. A marking
    /// shows the metrics of its place: `link` or `class`.
    #[derive(Copy)]
    pub Marks {
        /// Packets marked.
        marked as "marked_packets": u64 => {
            counter "tidegate_link_marked_packets_total"
                "Packets marked by the marking of the link's queue, or of the buffer that classes share.",
            counter "tidegate_class_marked_packets_total"
                "Packets that the marking of the class marked.",
        };
        /// Packets dropped in place of a mark, because they are not ECN-capable.
        not_ect as "not_ect_packets": u64 => {
            counter "tidegate_link_marking_dropped_packets_total"
                "Packets dropped by the marking of the link's queue, or of the buffer that classes share: `predicted` in place of a mark, `unmarkable` with no flow left to mark."
                = |it| it.dropped(),
            counter "tidegate_class_marking_dropped_packets_total"
                "Packets of the class that the marking of its queue dropped: `predicted` in place of a mark, `unmarkable` with no flow left to mark."
                = |it| it.dropped(),
        };
        /// Packets dropped because no flow was left to mark.
        unmarkable as "unmarkable_packets": u64;
    }
    flatten {
        /// The flows that the marking projects.
        tracked: Tracked;
    }
}

impl Marks {
    /// Dropped packets, by reason.
    fn dropped(&self) -> ReportValue {
        let all = [("predicted", self.not_ect), ("unmarkable", self.unmarkable)];
        ReportValue::Each("reason", all.map(|(reason, count)| (reason.to_owned(), count)).into())
    }
}

report! {
    /// Statistics of the flows whose rounds are in the projection, and of the filter that selected
    /// them. The `*` in a metric is `link` or `class`.
    #[derive(Copy)]
    pub Tracked {
        /// Number of flows in the projection now.
        flows as "tracked_flows": u64 => {
            gauge "tidegate_*_marking_tracked_flows"
                "Flows that the marking projects by their rounds now.",
        };
        /// Bytes of packets that arrived.
        all_bytes: u64 => {
            counter "tidegate_*_marking_all_bytes_total"
                "Bytes of packets that arrived at the queue of the marking.",
        };
        /// Bytes of packets whose flows were in the projection when the packet arrived.
        tracked_bytes: u64 => {
            counter "tidegate_*_marking_tracked_bytes_total"
                "Bytes of packets whose flows the marking projected by their rounds when they arrived.",
        };
        /// Factor that multiplies the rounds of tracked flows, so that these flows represent all
        /// traffic. The factor is 1 if the projection adds untracked traffic by its rate.
        rho: f64 => {
            gauge "tidegate_*_marking_rho"
                "Factor of the rounds of these flows; 1 if other traffic is counted at its rate.",
        };
        /// Threshold of the filter in the last interval: a flow that sent this many bytes was
        /// tracked. Zero without a filter.
        threshold as "threshold_bytes": Bytes => {
            gauge "tidegate_*_marking_threshold_bytes"
                "Bytes in the last interval from which on a flow was to be tracked; 0 without a filter.",
        };
        /// Flows that were in the projection throughout the last interval, but sent less than the
        /// threshold in it. Flows that passed the filter during the interval are not counted, because
        /// their bytes before that are unknown.
        false_positives: u64 => {
            gauge "tidegate_*_marking_false_positives"
                "Flows that were projected throughout the last interval and sent less than the threshold in it.",
        };
    }
    apart {
        /// Intervals of the filter that have ended.
        intervals: u64;
    }
}

/// The packets that a marker may mark: those of one queue, or of several queues that share a buffer.
pub trait MarkedBuffer {
    /// State of the queue. The field `flow` is `None`.
    fn observed(&mut self, now: Time, direction: Direction) -> Observed<'_>;

    /// Calls `which` with each packet at the queue index of the flow `target`, the oldest first, until
    /// `which` returns `true`.
    fn visit(
        &self,
        pool: &mut PacketPool,
        target: Target,
        which: &mut dyn FnMut(&mut Packet) -> bool,
    );

    /// Removes the oldest packet at the queue index of the flow `target`. The caller drops it.
    fn take(&mut self, cx: &mut Cx<'_>, target: Target) -> Option<PacketId>;
}

/// Most packets at one queue index that are searched for a packet of the flow. All flows of a host may have the same
/// queue index.
const SEARCHED: u32 = 64;

impl Marker {
    /// A marker for `marking`, which has seen no packets yet.
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

    /// Passes `packet`, which will be queued, to the marking. `seen.flow` is its flow, if the flow
    /// table has it.
    pub fn sight(&mut self, seen: &Observed<'_>, packet: &Packet) {
        (self.direction, self.pending) = (seen.direction, true);
        let (ours, len) = (self.marking.arrived(seen, packet), u64::from(packet.len));
        self.bytes[0] += len;
        self.bytes[1] += if ours { len } else { 0 };
    }

    /// Notes `ack`, which departs to the sender of `seen.flow`. `seen.direction` is the direction of the data.
    pub fn acknowledge(&mut self, seen: &Observed<'_>, ack: &Packet) {
        self.marking.acknowledged(seen, ack);
    }

    /// Notes `packet`, which departs from the queue.
    pub fn departs(&mut self, packet: &Packet) {
        self.marking.departed(packet);
    }

    /// Forgets `flow`, because its number may be given to another flow.
    pub fn forget(&mut self, flow: FlowId) {
        self.marking.forget(flow);
    }

    /// Counters of packets marked and dropped, and statistics of the tracked flows.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let [all_bytes, tracked_bytes] = self.bytes;
        Marks {
            tracked: Tracked { all_bytes, tracked_bytes, ..self.marking.tracked() },
            ..self.marks
        }
    }

    /// Returns `true` if the projection includes the rounds of `flow`.
    #[must_use]
    pub fn tracks(&self, flow: FlowId) -> bool {
        self.marking.tracks(flow)
    }

    /// The longest round-trip time of the tracked flows.
    #[must_use]
    pub fn longest_rtt(&self) -> Duration {
        self.marking.longest_rtt()
    }

    /// Returns `true` if `flow` has not responded to its recent marks.
    #[must_use]
    pub fn ignores(&self, flow: FlowId) -> bool {
        self.marking.ignores(flow)
    }

    /// Marks packets until the projection fits the queue. Returns `packet` if it is to be queued, and `None` if it was
    /// dropped. Does nothing unless [`sight`](Self::sight) was called just before.
    pub fn prevent(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut dyn MarkedBuffer,
        packet: PacketId,
    ) -> Option<PacketId> {
        if !std::mem::take(&mut self.pending) {
            return Some(packet);
        }
        let Some(reason) = self.decide(cx, buffer, &packet) else { return Some(packet) };
        match reason {
            Reason::Unmarkable => self.marks.unmarkable += 1,
            _ => self.marks.not_ect += 1,
        }
        cx.drop(packet, reason);
        None
    }

    /// Marks packets until no overflow is projected. Returns a reason if `packet` must be dropped.
    fn decide(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut dyn MarkedBuffer,
        packet: &PacketId,
    ) -> Option<Reason> {
        loop {
            let mut seen = buffer.observed(cx.now, self.direction);
            seen.backlog += cx.pool[packet].frame_len();
            match self.marking.decide(&seen, &cx.pool[packet]) {
                Decision::Pass => return None,
                Decision::MarkArrival => {
                    return (!self.mark(cx, packet)).then_some(Reason::Predicted);
                }
                Decision::Drop => {
                    let Packet { flow, queue_index, .. } = cx.pool[packet];
                    self.marking.done(cx.now, Target { flow, queue_index }, Outcome::Dropped);
                    return Some(Reason::Unmarkable);
                }
                Decision::Mark(target) => {
                    let oldest = self.mark_oldest(cx, buffer, target);
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

    /// Marks the oldest waiting packet of a flow that may be marked. Drops it if it is not ECN-capable.
    fn mark_oldest(
        &mut self,
        cx: &mut Cx<'_>,
        buffer: &mut dyn MarkedBuffer,
        target: Target,
    ) -> Outcome {
        let (mut outcome, mut before) = (Outcome::NoPacket, 0);
        buffer.visit(cx.pool, target, &mut |packet| {
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
                if let Some(packet) = buffer.take(cx, target) {
                    cx.drop(packet, Reason::Predicted);
                    self.marks.not_ect += 1;
                }
            }
            Outcome::NoPacket => {}
        }
        outcome
    }

    /// Marks the arriving packet if it is ECN-capable. Returns `true` if it was marked.
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
