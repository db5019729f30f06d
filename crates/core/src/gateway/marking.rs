//! The queues with a marking: their markings see every packet that arrives there, and its flow.

use super::Gateway;
use super::aggregates::Aggregates;
use super::link::Link;
use crate::class::ClassId;
use crate::flow::Flow;
use crate::packet::{Direction, FlowId, Packet, TcpFlags};
use crate::{PacketId, Time};

impl Gateway {
    /// Returns `true` if a queue may have a marking.
    pub(super) fn has_markings(&self) -> bool {
        self.policies.has_markings() || self.config.queue.marking().is_some()
    }

    /// Shows `packet`, which is going to be queued at `leaf` of a link, to the marking there.
    pub(super) fn sight_at_link(
        &mut self,
        now: Time,
        direction: Direction,
        leaf: ClassId,
        packet: &PacketId,
    ) {
        let packet = &self.pool[packet];
        let flow = self.flows.of_packet(packet, direction);
        self.links[direction.index()].sight(now, leaf, packet, flow.as_deref());
    }

    /// Shows `packet`, which is going to be offered to the aggregate in `slot`, to the marking there.
    pub(super) fn sight_at_aggregate(
        &mut self,
        now: Time,
        direction: Direction,
        slot: u32,
        packet: &PacketId,
    ) {
        let aggregate = self.aggregates.get_mut(slot);
        if let Some(marked) = aggregate.and_then(|aggregate| aggregate.marked_mut()) {
            let packet = &self.pool[packet];
            let flow = self.flows.of_packet(packet, direction);
            marked.sight(now, direction, packet, flow.as_deref());
        }
    }
}

/// Shows `ack`, a packet that departs in `direction`, to the markings that track what its receiver sends.
pub(super) fn acknowledge(
    now: Time,
    direction: Direction,
    links: &mut [Link; 2],
    aggregates: &mut Aggregates,
    (ack, flow): (&Packet, &Flow),
) {
    if !ack.tcp.is_some_and(|tcp| tcp.flags.any(TcpFlags::ACK)) {
        return;
    }
    let way = direction.reverse();
    links[way.index()].acknowledge(now, flow.class(way), ack, flow);
    let aggregate = aggregates.meant(flow.handle(way));
    if let Some(marked) = aggregate.and_then(|aggregate| aggregate.marked_mut()) {
        marked.acknowledge(now, way, ack, flow);
    }
}

/// Lets the markings of both directions forget `flow`, whose number was `id`.
pub(super) fn forget(links: &mut [Link; 2], aggregates: &mut Aggregates, id: FlowId, flow: &Flow) {
    for way in Direction::BOTH {
        links[way.index()].forget(flow.class(way), id);
        let aggregate = aggregates.meant(flow.handle(way));
        if let Some(marked) = aggregate.and_then(|aggregate| aggregate.marked_mut()) {
            marked.forget(id);
        }
    }
}
