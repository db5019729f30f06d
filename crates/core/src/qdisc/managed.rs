//! A queue in order of arrival, with active queue management (AQM) that decides on each packet as
//! it arrives.

use super::{Backlog, Qdisc};
use crate::packet::{FlowFifo, QueueIndex};
use crate::{Bytes, Cx, Packet, PacketId, Rate, Reason, Time};

/// Active queue management (AQM): decides which packets are dropped or marked, so that senders
/// slow down.
pub(super) trait Aqm: Send {
    /// The decision on `packet`, which arrives at a queue with the backlog `waiting`.
    ///
    /// If `room` is `false`, the packet does not fit into the queue and is dropped in any case.
    fn arrival(&mut self, now: Time, packet: &Packet, waiting: Backlog, room: bool) -> Verdict;

    /// Records that `packet` departed from the queue, and that `waiting` remains.
    fn departure(&mut self, now: Time, packet: &Packet, waiting: Backlog);

    /// Sets the rate at which packets depart from now on.
    fn set_rate(&mut self, _rate: Rate) {}
}

/// The decision on an arriving packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The packet is queued.
    Pass,
    /// The packet is marked and queued if it is ECN-capable, and dropped otherwise.
    Mark,
    /// The packet is dropped.
    Drop,
}

/// Limit of a queue, in bytes and in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimit {
    /// Largest backlog in frame bytes.
    pub(super) bytes: Bytes,
    /// Largest number of waiting packets.
    pub(super) packets: u32,
}

/// A queue with an AQM.
pub(super) struct Managed<A> {
    pub(super) aqm: A,
    limit: QueueLimit,
    line: FlowFifo,
}

impl<A: Aqm> Managed<A> {
    /// An empty queue.
    pub(super) fn new(aqm: A, limit: QueueLimit) -> Self {
        Self { aqm, limit, line: FlowFifo::default() }
    }

    fn waiting(&self) -> Backlog {
        Backlog { packets: self.line.packets(), bytes: self.line.bytes() }
    }

    /// Adds `packet`. The AQM sees each packet, but marks and drops only packets that arrive for the first time.
    #[inline]
    fn add(&mut self, cx: &mut Cx<'_>, packet: PacketId, first: bool) {
        let waiting = self.waiting();
        let arrived = &mut cx.pool[&packet];
        if first {
            arrived.queued = cx.now;
        }
        let room = waiting.bytes + arrived.frame_len() <= self.limit.bytes
            && waiting.packets < self.limit.packets;
        let verdict = self.aqm.arrival(cx.now, arrived, waiting, room);
        if !room {
            cx.drop(packet, Reason::QueueFull);
            return;
        }
        let takes = !first
            || match verdict {
                Verdict::Pass => true,
                Verdict::Mark => cx.mark(&packet, Reason::Aqm),
                Verdict::Drop => false,
            };
        if takes {
            self.line.push(cx.pool, packet);
        } else {
            cx.drop(packet, Reason::Aqm);
        }
    }

    fn departs(&mut self, cx: &Cx<'_>, packet: Option<PacketId>) -> Option<PacketId> {
        let packet = packet?;
        self.aqm.departure(cx.now, &cx.pool[&packet], self.waiting());
        Some(packet)
    }
}

impl<A: Aqm> Qdisc for Managed<A> {
    fn packets(&self) -> &FlowFifo {
        &self.line
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.line
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.add(cx, packet, true);
    }

    fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.add(cx, packet, false);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.line.pop(cx.pool);
        self.departs(cx, packet)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        let packet = self.line.pop_flow(cx.pool, member);
        self.departs(cx, packet)
    }

    fn dequeue_newest(&mut self, cx: &mut Cx<'_>, flow: QueueIndex) -> Option<PacketId> {
        let packet = self.line.pop_flow_last(cx.pool, flow);
        self.departs(cx, packet)
    }

    fn is_one_line(&self) -> bool {
        true
    }

    fn set_rate(&mut self, rate: Rate) {
        self.aqm.set_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketPool, Tally};

    /// An AQM that lets all packets pass, and remembers the backlog of the last departure.
    struct Watched(Backlog);

    impl Aqm for Watched {
        fn arrival(&mut self, _: Time, _: &Packet, _: Backlog, _: bool) -> Verdict {
            Verdict::Pass
        }

        fn departure(&mut self, _: Time, _: &Packet, waiting: Backlog) {
            self.0 = waiting;
        }
    }

    type Take = fn(&mut Managed<Watched>, &mut Cx<'_>, QueueIndex) -> Option<PacketId>;

    /// An AQM that drops all packets once it is `strict`, and counts arrivals.
    struct Strict {
        strict: bool,
        arrivals: u32,
    }

    impl Aqm for Strict {
        fn arrival(&mut self, _: Time, _: &Packet, _: Backlog, _: bool) -> Verdict {
            self.arrivals += 1;
            if self.strict { Verdict::Drop } else { Verdict::Pass }
        }

        fn departure(&mut self, _: Time, _: &Packet, _: Backlog) {}
    }

    /// Catches: a second decision on a packet that returns; an AQM that does not see it; a limit that does not hold
    /// for it; a waiting time that begins again.
    #[test]
    fn a_packet_that_returns_meets_the_limit_but_no_second_decision() {
        let limit = QueueLimit { bytes: Bytes(10_000), packets: 2 };
        let (mut pool, mut tally) = (PacketPool::with_capacity(4), Tally::default());
        let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
        let flow = QueueIndex(0);
        let packet = Packet { len: 100, queue_index: flow, ..Packet::default() };
        let mut queue = Managed::new(Strict { strict: false, arrivals: 0 }, limit);
        for _ in 0..2 {
            let packet = cx.pool.insert(packet).unwrap();
            queue.enqueue(&mut cx, packet);
        }
        let newest = queue.dequeue_newest(&mut cx, flow).unwrap();
        queue.aqm.strict = true;
        cx.now = Time::from_millis(1);
        queue.put_back(&mut cx, newest);
        assert_eq!((queue.waiting().packets, queue.aqm.arrivals), (2, 3));
        let surplus = cx.pool.insert(packet).unwrap();
        queue.put_back(&mut cx, surplus);
        assert_eq!(cx.tally.drops.of(Reason::QueueFull), 1);
        let newest = queue.dequeue_newest(&mut cx, flow).unwrap();
        assert_eq!(cx.pool[&newest].queued, Time::ZERO);
        queue.enqueue(&mut cx, newest);
        assert_eq!(cx.tally.drops.of(Reason::Aqm), 1);
    }

    /// Catches: an AQM that does not know that its queue was emptied.
    #[test]
    fn the_aqm_sees_each_way_in_which_a_packet_departs() {
        let limit = QueueLimit { bytes: Bytes(10_000), packets: 10 };
        let (mut pool, mut tally) = (PacketPool::with_capacity(4), Tally::default());
        let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
        let flow = QueueIndex(0);
        let ways: [Take; 3] =
            [|queue, cx, _| queue.dequeue(cx), Managed::dequeue_flow, Managed::dequeue_newest];
        for (number, take) in ways.into_iter().enumerate() {
            let unseen = Backlog { packets: 9, bytes: Bytes(9) };
            let mut queue = Managed::new(Watched(unseen), limit);
            let packet = Packet { len: 100, queue_index: flow, ..Packet::default() };
            let packet = cx.pool.insert(packet).unwrap();
            queue.enqueue(&mut cx, packet);
            let taken = take(&mut queue, &mut cx, flow).unwrap();
            cx.pool.release(taken);
            assert_eq!(queue.aqm.0.packets, 0, "way {number}");
        }
    }
}
