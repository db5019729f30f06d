//! The third stage: how senders are told by what goes back to them.
//!
//! Source: `postack`, R001-7 (ACKs are held, data is not), R001-19 (a flow of which only one direction
//! is seen is queued like any other). Differs: an ACK that goes on passes the aggregate of its own
//! direction at once, and is charged there.

use super::Gateway;
use crate::ack::{Known, Queue};
use crate::flow::{Flow, Tracking};
use crate::packet::{Direction, Fifo, FlowId};
use crate::{PacketId, Time};

impl Gateway {
    /// Offers `id` to the aggregate whose data it acknowledges, and lets go on what may; hands it back
    /// if there is no such.
    pub(super) fn offer_ack(
        &mut self,
        now: Time,
        direction: Direction,
        of: FlowId,
        id: PacketId,
    ) -> Option<PacketId> {
        let flow = &self.flows[of];
        let Some(tcp) = self.pool[&id].tcp else { return Some(id) };
        let own = flow.handle(direction);
        if tcp.authenticated || !is_governable(flow) {
            let aggregate = self.aggregates.meant(own).filter(|it| it.has_signal());
            if let (Some(aggregate), 1..) = (aggregate, tcp.payload) {
                aggregate.on_ungoverned();
            }
            return Some(id);
        }
        if let Some(aggregate) = self.aggregates.meant(own)
            && aggregate.has_signal()
        {
            self.pool[&id].controlled = true;
            if tcp.sequence_len() > 0 {
                aggregate.on_data(now, &self.pool, &id);
            }
        }
        let data = self.flows[of].handle(direction.reverse());
        let Some(aggregate) = self.aggregates.meant(data).filter(|it| it.has_signal()) else {
            return Some(id);
        };
        let known = known(&self.flows[of], direction.reverse());
        let mut acks = Fifo::new();
        aggregate.on_ack(now, &mut self.pool, data.member, &known, id, &mut acks);
        self.go_on(now, direction, acks);
        self.release_acks(now, data.aggregate);
        None
    }

    /// Lets ACKs go on that the aggregate in `slot` holds no longer.
    pub(super) fn release_acks(&mut self, now: Time, slot: u32) {
        let class = self.aggregates.class(slot);
        let Some(aggregate) = self.aggregates.get_mut(slot).filter(|it| it.has_signal()) else {
            return;
        };
        let link = &self.links[aggregate.direction().index()];
        let ahead = Queue { grain: self.grain, ..link.ahead(link.leaf(class)) };
        let mut acks = Fifo::new();
        aggregate.release(now, &mut self.pool, ahead, &mut acks);
        let back = aggregate.direction().reverse();
        self.timers.arm(slot, aggregate.ready_at());
        self.go_on(now, back, acks);
    }

    /// A packet of a governed flow leaves: there is room where it waited, if it did.
    pub(super) fn made_room(&mut self, now: Time, direction: Direction, packet: &PacketId) {
        if let Some(flow) = self.flows.of_packet(&self.pool[packet], direction) {
            let slot = flow.handle(direction).aggregate;
            self.release_acks(now, slot);
        }
    }

    /// Data goes on to the aggregate of `direction`; ACKs pass it and are charged there.
    pub(super) fn go_on(&mut self, now: Time, direction: Direction, mut acks: Fifo) {
        while let Some(id) = acks.pop(&self.pool) {
            let handle = self.flows[self.pool[&id].flow].handle(direction);
            self.pool[&id].member = handle.member;
            let data = self.pool[&id].tcp.is_some_and(|tcp| tcp.sequence_len() > 0);
            let class = self.aggregates.class(handle.aggregate);
            let Some(aggregate) = self.aggregates.meant(handle) else {
                self.send_one(now, direction, None, id);
                continue;
            };
            if data {
                self.condition(now, direction, handle.aggregate, id);
                continue;
            }
            let mut out = Fifo::new();
            let back = aggregate.pass(now, &mut self.pool, id, &mut out);
            self.timers.arm(handle.aggregate, aggregate.ready_at());
            self.send(now, direction, class, out);
            if let Some(id) = back {
                self.condition(now, direction, handle.aggregate, id);
            }
        }
    }
}

/// Whether what goes back is understood well enough to be held and made again.
fn is_governable(flow: &Flow) -> bool {
    flow.tracking() != Tracking::QueueOnly
}

/// What is known of `flow`, whose data goes in direction `way`.
fn known(flow: &Flow, way: Direction) -> Known {
    let (rtt, connection) = (flow.min_rtt(), flow.connection());
    let (near, far) = match way {
        Direction::Up => (rtt.near, rtt.far),
        Direction::Down => (rtt.far, rtt.near),
    };
    Known {
        sent: connection.next_seq(way),
        scale: connection.scale(way.reverse()),
        near,
        far,
        weight: 1,
    }
}
