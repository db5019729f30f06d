//! The queue downstream of aggregates, and the backlog of ACK-controlled flows in it.

use super::EgressState;
use crate::packet::{Controlled, FlowId, Handover, QueueIndex};
use crate::qdisc::{Backlog, Marked, Qdisc};
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate};

/// A queue at the link, or of a trunk.
pub struct Waiting {
    queue: Box<dyn Qdisc>,
    /// Backlog of ACK-controlled flows.
    controlled: Controlled,
}

impl Waiting {
    /// Wraps `queue`, which is empty.
    pub fn new(queue: Box<dyn Qdisc>) -> Self {
        Self { queue, controlled: Controlled::default() }
    }

    /// Packets and bytes in the queue.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// Frame bytes of `flow` in the queue.
    pub fn bytes_of(&self, flow: FlowId) -> Bytes {
        self.queue.bytes_of(QueueIndex::at_egress(flow))
    }

    /// State of the queue for ACK control, at an egress rate of `rate`.
    pub fn ahead(&self, rate: Rate) -> EgressState {
        EgressState {
            waiting: Bytes(self.controlled.bytes),
            others: u64::from(self.backlog().packets).saturating_sub(self.controlled.packets),
            rate: Some(rate),
            ..EgressState::default()
        }
    }

    /// Sets the bytes that the sender of this queue may have in flight.
    pub(crate) fn set_window(&mut self, window: Bytes) {
        self.queue.set_window(window);
    }

    /// Offers the packets of `flow` to `which`, the oldest first, until it returns `true`.
    pub fn visit(
        &self,
        pool: &mut PacketPool,
        flow: FlowId,
        which: &mut dyn FnMut(&mut Packet) -> bool,
    ) {
        self.queue.visit(pool, QueueIndex::at_egress(flow), which);
    }

    /// The sender of `flow` no longer responds to ACKs: its packets in the queue count as packets of other flows.
    pub fn end_ack_control(&mut self, pool: &mut PacketPool, flow: FlowId) {
        self.controlled -= self.queue.end_ack_control(pool, QueueIndex::at_egress(flow));
    }

    /// Marking of the queue, if any.
    pub fn marked(&self) -> Option<&Marked> {
        self.queue.marked()
    }

    /// Marking of the queue, if any.
    pub fn marked_mut(&mut self) -> Option<&mut Marked> {
        self.queue.marked_mut()
    }

    /// Sets the egress rate of the queue.
    pub fn set_rate(&mut self, rate: Rate) {
        self.queue.set_rate(rate);
    }

    /// Adds `packet`. The queue may drop this packet, or others.
    pub fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.controlled.add(&cx.pool[&packet]);
        self.without_drops(cx, |queue, cx| queue.enqueue(cx, packet));
    }

    /// Adds `packet`, which [`dequeue_newest_untracked`](Self::dequeue_newest_untracked) returned.
    pub fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.controlled.add(&cx.pool[&packet]);
        self.without_drops(cx, |queue, cx| queue.put_back(cx, packet));
    }

    /// Takes out the next packet.
    pub fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.take(cx, |queue, cx| queue.dequeue(cx))
    }

    /// Takes out the oldest packet of `flow`.
    pub fn dequeue_flow(&mut self, cx: &mut Cx<'_>, flow: FlowId) -> Option<PacketId> {
        self.take(cx, |queue, cx| queue.dequeue_flow(cx, QueueIndex::at_egress(flow)))
    }

    /// Removes the newest packet of untracked flows, for a caller that moves them all.
    pub fn dequeue_newest_untracked(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let untracked = QueueIndex::at_egress(FlowId::NONE);
        self.take(cx, |queue, cx| queue.dequeue_newest(cx, untracked))
    }

    /// Removes the newest packet, for a caller that drops it.
    pub fn dequeue_last(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.take(cx, |queue, cx| queue.dequeue_last(cx))
    }

    /// The same as [`Qdisc::hand_over`].
    pub fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.queue.hand_over(pool, what)
    }

    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        action: impl FnOnce(&mut dyn Qdisc, &mut Cx<'_>) -> Option<PacketId>,
    ) -> Option<PacketId> {
        let packet = self.without_drops(cx, action)?;
        self.controlled -= Controlled::of(&cx.pool[&packet]);
        Some(packet)
    }

    /// Runs `action`, and subtracts the packets that `action` drops from the backlog of ACK-controlled flows.
    fn without_drops<T>(
        &mut self,
        cx: &mut Cx<'_>,
        action: impl FnOnce(&mut dyn Qdisc, &mut Cx<'_>) -> T,
    ) -> T {
        let before = cx.tally.controlled;
        let result = action(&mut *self.queue, cx);
        let mut dropped = cx.tally.controlled;
        dropped -= before;
        self.controlled -= dropped;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Facts;
    use crate::qdisc::QdiscSpec;
    use crate::random::Random;
    use crate::{PacketPool, Tally, Time};

    /// Catches: frame lengths compared with charged bytes.
    #[test]
    fn packets_of_other_flows_are_counted_beside_super_packets() {
        let (mut pool, mut tally) = (PacketPool::with_capacity(4), Tally::default());
        let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
        let rate = Rate::from_mbps(10);
        let queue = QdiscSpec::DropTail(Default::default());
        let mut waiting = Waiting::new(queue.build(None, Random::new(1, 1)));
        let whole =
            Packet { len: 5_858, cost: 6_056, facts: Facts::CONTROLLED, ..Packet::default() };
        let cells = Packet { len: 1_500, cost: 1_400, ..whole };
        for packet in [whole, cells] {
            let packet = cx.pool.insert(packet).unwrap();
            waiting.enqueue(&mut cx, packet);
            let ahead = waiting.ahead(rate);
            assert_eq!(ahead.others, 0, "{ahead:?}");
        }
        let other = cx.pool.insert(Packet { len: 60, cost: 60, ..Packet::default() }).unwrap();
        waiting.enqueue(&mut cx, other);
        let ahead = waiting.ahead(rate);
        assert_eq!((ahead.waiting, ahead.others), (Bytes(7_456), 1));
    }

    /// Catches: packets of an unresponsive sender that still count as backlog, or are subtracted from it twice.
    /// Catches: packets of another flow that no longer count.
    #[test]
    fn packets_of_an_unresponsive_sender_count_as_packets_of_other_flows() {
        let (mut pool, mut tally) = (PacketPool::with_capacity(4), Tally::default());
        let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
        let queue = QdiscSpec::DropTail(Default::default());
        let mut waiting = Waiting::new(queue.build(None, Random::new(1, 1)));
        for flow in [1, 2, 1].map(FlowId) {
            let (facts, queue_index) = (Facts::CONTROLLED, QueueIndex::at_egress(flow));
            let packet =
                Packet { len: 100, cost: 100, flow, facts, queue_index, ..Packet::default() };
            let packet = cx.pool.insert(packet).unwrap();
            waiting.enqueue(&mut cx, packet);
        }
        let look = |waiting: &Waiting| {
            let ahead = waiting.ahead(Rate::from_mbps(10));
            (ahead.waiting.0, ahead.others)
        };
        assert_eq!(look(&waiting), (300, 0));
        (0..2).for_each(|_| waiting.end_ack_control(cx.pool, FlowId(1)));
        assert_eq!(look(&waiting), (100, 2));
        for left in [(100, 1), (0, 1), (0, 0)] {
            let packet = waiting.dequeue(&mut cx).unwrap();
            cx.pool.release(packet);
            assert_eq!(look(&waiting), left);
        }
    }
}
