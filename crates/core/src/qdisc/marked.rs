//! A queue with a marking: where a packet is marked, the marking decides, and the queue finds the packet.
//!
//! The gateway hands in every packet that arrives with [`Marked::sight`], and then enqueues it. Packets
//! that move here from another queue are enqueued without it.

use super::{Backlog, Qdisc, QdiscSpec};
use crate::flow::Flow;
use crate::marking::{Decision, Marking, MarkingSpec, Observed, Outcome, Target};
use crate::packet::{Direction, FlowId, Handover, Member};
use crate::random::Random;
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Reason, Time};

/// The queue, and the marking.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    queue: Box<QdiscSpec>,
    marking: MarkingSpec,
}

/// `queue` with `marking`.
#[must_use]
pub fn with_marking(queue: QdiscSpec, marking: Option<MarkingSpec>) -> QdiscSpec {
    match marking {
        Some(marking) => QdiscSpec::Marked(Config { queue: Box::new(queue), marking }),
        None => queue,
    }
}

impl QdiscSpec {
    /// The marking of the queue, if it has one.
    #[must_use]
    pub const fn marking(&self) -> Option<&MarkingSpec> {
        match self {
            Self::Marked(Config { marking, .. }) => Some(marking),
            _ => None,
        }
    }

    /// Returns `true` if the queue drops packets only when it is full, so that it can have a marking.
    #[must_use]
    pub fn can_be_marked(&self) -> bool {
        matches!(self.unmarked(), Self::DropTail(_) | Self::PerFlow(_))
    }

    /// The queue without its marking.
    #[must_use]
    pub fn unmarked(&self) -> &Self {
        match self {
            Self::Marked(Config { queue, .. }) => queue,
            _ => self,
        }
    }
}

impl Config {
    /// The name of the queue.
    pub(super) fn name(&self) -> &'static str {
        self.queue.name()
    }

    pub(super) fn build(&self, rate: Option<Rate>, mut random: Random) -> Marked {
        let own = Random::new(random.below(u64::MAX), 0);
        Marked {
            queue: self.queue.build(rate, random),
            marking: self.marking.build(own),
            direction: Direction::Up,
            rate: rate.unwrap_or(Rate::from_bps(0)),
            tokens: Bytes::ZERO,
            marks: Marks::default(),
        }
    }
}

/// A queue with a marking.
pub struct Marked {
    queue: Box<dyn Qdisc>,
    marking: Box<dyn Marking>,
    /// Direction of the last packet that was seen; all have the same.
    direction: Direction,
    rate: Rate,
    tokens: Bytes,
    marks: Marks,
}

/// Packets marked, and dropped in place of a mark.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Marks {
    /// Packets marked.
    pub marked: u64,
    /// Packets dropped in place of a mark, because they are not ECN-capable.
    pub not_ect: u64,
    /// Packets dropped because no flow was left to mark.
    pub unmarkable: u64,
}

/// Packets of one member that are searched at most for one of the flow: several flows of a host may be
/// one member.
const SEARCHED: u32 = 64;

impl Marked {
    /// Notes `packet` of `flow`, which is going to be enqueued. `None`: its flow is not in the flow table.
    pub fn sight(&mut self, now: Time, direction: Direction, packet: &Packet, flow: Option<&Flow>) {
        self.direction = direction;
        let seen = Observed { flow, ..self.observed(now) };
        self.marking.arrived(&seen, packet);
    }

    /// Notes `ack`, a packet that departs to the sender of `flow`, whose packets go in `direction`.
    pub fn acknowledge(&mut self, now: Time, direction: Direction, ack: &Packet, flow: &Flow) {
        let seen = Observed { flow: Some(flow), direction, ..self.observed(now) };
        self.marking.acknowledged(&seen, ack);
    }

    /// Forgets `flow`: its number may be given to another flow.
    pub fn forget(&mut self, flow: FlowId) {
        self.marking.forget(flow);
    }

    /// Bytes that depart at once beyond the rate.
    pub const fn set_tokens(&mut self, tokens: Bytes) {
        self.tokens = tokens;
    }

    /// Packets marked and dropped.
    #[must_use]
    pub const fn marks(&self) -> Marks {
        self.marks
    }

    /// Returns `true` if `flow` ignores marks.
    #[must_use]
    pub fn ignores(&self, flow: FlowId) -> bool {
        self.marking.ignores(flow)
    }

    fn observed(&self, now: Time) -> Observed<'static> {
        Observed {
            now,
            direction: self.direction,
            flow: None,
            rate: self.rate,
            tokens: self.tokens,
            backlog: self.queue.backlog().bytes,
            limit: self.queue.limit().unwrap_or(Bytes(u64::MAX / 4)),
        }
    }

    /// Marks packets of this queue, or `packet`, which arrives. Returns a reason if `packet` is to be dropped.
    fn prevent(&mut self, cx: &mut Cx<'_>, packet: &PacketId) -> Option<Reason> {
        loop {
            let mut seen = self.observed(cx.now);
            seen.backlog += cx.pool[packet].frame_len();
            let decision = self.marking.decide(&seen, &cx.pool[packet]);
            match decision {
                Decision::Pass => return None,
                Decision::MarkArrival => {
                    return (!self.mark(cx, packet)).then_some(Reason::Predicted);
                }
                Decision::Drop => return Some(Reason::Unmarkable),
                Decision::Mark(target) => {
                    let outcome = self.mark_oldest(cx, target);
                    let is_own = cx.pool[packet].flow == target.flow;
                    let mut dropped = false;
                    let outcome = match outcome {
                        Outcome::NoPacket if is_own && counts(&cx.pool[packet]) => {
                            dropped = !self.mark(cx, packet);
                            if dropped { Outcome::Dropped } else { Outcome::Marked }
                        }
                        outcome => outcome,
                    };
                    self.marking.done(cx.now, target, outcome);
                    if dropped {
                        return Some(Reason::Predicted);
                    }
                }
            }
        }
    }

    /// Marks or drops the oldest packet of a flow that waits here.
    fn mark_oldest(&mut self, cx: &mut Cx<'_>, target: Target) -> Outcome {
        let (mut outcome, mut before) = (Outcome::NoPacket, 0);
        self.queue.visit(cx.pool, target.member, &mut |packet| {
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
                if let Some(packet) = self.queue.dequeue_flow(cx, target.member) {
                    cx.drop(packet, Reason::Predicted);
                    self.marks.not_ect += 1;
                }
            }
            Outcome::NoPacket => {}
        }
        outcome
    }

    /// Marks the packet that arrives, if it is ECN-capable.
    fn mark(&mut self, cx: &mut Cx<'_>, packet: &PacketId) -> bool {
        let marked = cx.mark(packet, Reason::Predicted);
        self.marks.marked += u64::from(marked);
        marked
    }

    fn departs(&mut self, cx: &Cx<'_>, packet: Option<PacketId>) -> Option<PacketId> {
        let packet = packet?;
        let seen = self.observed(cx.now);
        self.marking.leaving(&seen, &cx.pool[&packet]);
        Some(packet)
    }
}

/// Returns `true` if the sender of `packet` may send it ECN-capable: data, and not for the second time.
///
/// Source: RFC 3168, sections 6.1.4 and 6.1.5.
fn counts(packet: &Packet) -> bool {
    packet.tcp.is_some_and(|tcp| tcp.payload > 0) && !packet.seen_before
}

impl Qdisc for Marked {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let Some(reason) = self.prevent(cx, &packet) else {
            return self.queue.enqueue(cx, packet);
        };
        match reason {
            Reason::Unmarkable => self.marks.unmarkable += 1,
            _ => self.marks.not_ect += 1,
        }
        cx.drop(packet, reason);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.queue.dequeue(cx);
        self.departs(cx, packet)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: Member) -> Option<PacketId> {
        let packet = self.queue.dequeue_flow(cx, member);
        self.departs(cx, packet)
    }

    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.queue.hand_over(pool, what)
    }

    fn head(&self, pool: &PacketPool, member: Member) -> Option<Bytes> {
        self.queue.head(pool, member)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn bytes_of(&self, member: Member) -> Bytes {
        self.queue.bytes_of(member)
    }

    fn limit(&self) -> Option<Bytes> {
        self.queue.limit()
    }

    fn marked(&self) -> Option<&Marked> {
        Some(self)
    }

    fn marked_mut(&mut self) -> Option<&mut Marked> {
        Some(self)
    }

    fn set_window(&mut self, window: Bytes) {
        self.queue.set_window(window);
    }

    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.queue.set_rate(rate);
    }
}
