//! A test bench for queue disciplines: enqueues and dequeues packets by flow index and length.

use super::Qdisc;
use crate::packet::{Direction, FlowId, Host, QueueIndex};
use crate::random::Random;
use crate::{Cx, Packet, PacketId, PacketPool, Tally, Time};

/// A discipline with a packet pool, a clock and counters.
pub(super) struct Bench<Q> {
    pub(super) qdisc: Q,
    pub(super) now: Time,
    /// Template of the packets to enqueue, except for flow index and length.
    pub(super) kind: Packet,
    pool: PacketPool,
    pub(super) tally: Tally,
}

/// Random numbers for the discipline under test.
pub(super) fn chance() -> Random {
    Random::new(1, 0)
}

impl<Q: Qdisc> Bench<Q> {
    pub(super) fn new(qdisc: Q) -> Self {
        let (kind, pool) = (Packet::default(), PacketPool::with_capacity(1_024));
        Self { qdisc, now: Time::ZERO, kind, pool, tally: Tally::default() }
    }

    pub(super) fn enqueue(&mut self, member: u32, len: u32) {
        let packet = Packet { len, cost: len, queue_index: QueueIndex(member), ..self.kind };
        let id = self.pool.insert(packet).unwrap();
        self.with(|qdisc, cx| qdisc.enqueue(cx, id));
    }

    /// Enqueues a packet of the flow `member`, which belongs to `host`.
    pub(super) fn enqueue_of(&mut self, host: u32, member: u32, len: u32) {
        self.kind.flow = FlowId(member);
        self.pool.hosts_mut().set_address(FlowId(member), Some(host));
        self.pool.hosts_mut().set_host(host, Host(host));
        self.enqueue(member, len);
    }

    /// Declares that the gateway itself holds the ACKs for data of the flow `member` (ACK control).
    /// The queue must then not drop any ACK of the flow as redundant.
    pub(super) fn keep_acks(&mut self, member: u32) {
        self.pool.hosts_mut().keep_acks(FlowId(member), Direction::Down, true);
    }

    pub(super) fn dequeue(&mut self) -> Option<(u32, u32)> {
        let id = self.with(|qdisc, cx| qdisc.dequeue(cx))?;
        Some(self.end(id))
    }

    pub(super) fn dequeue_flow(&mut self, member: u32) -> Option<(u32, u32)> {
        let id = self.with(|qdisc, cx| qdisc.dequeue_flow(cx, QueueIndex(member)))?;
        Some(self.end(id))
    }

    /// Number of packets in the queue.
    pub(super) fn waiting(&self) -> u32 {
        self.qdisc.backlog().packets
    }

    /// Dequeues all packets. Asserts that no packet remains in the queue or the pool.
    pub(super) fn drain(&mut self) -> Vec<(u32, u32)> {
        let all = std::iter::from_fn(|| self.dequeue()).collect();
        assert_eq!((self.qdisc.backlog().packets, self.pool.in_use()), (0, 0));
        all
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut Q, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        call(&mut self.qdisc, &mut cx)
    }

    /// Dequeues a packet, and returns its descriptor.
    pub(super) fn dequeue_whole(&mut self) -> Option<Packet> {
        let id = self.with(|qdisc, cx| qdisc.dequeue(cx))?;
        let packet = self.pool[&id];
        self.end(id);
        Some(packet)
    }

    fn end(&mut self, id: PacketId) -> (u32, u32) {
        let sent = (self.pool[&id].queue_index.0, self.pool[&id].len);
        self.pool.release(id);
        sent
    }
}
