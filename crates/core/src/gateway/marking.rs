//! Queues with a marking: the marking sees each arriving packet and its flow.

use super::Gateway;
use super::aggregates::Aggregates;
use super::link::Link;
use crate::ack::line;
use crate::aggregate::Aggregate;
use crate::class::ClassId;
use crate::flow::Flow;
use crate::marking::Tracked;
use crate::packet::{Direction, FlowId, FlowKey, NO_VLAN, Packet, TcpFlags};
use crate::qdisc::Marked;
use crate::{PacketId, Time};

impl Gateway {
    /// Returns `true` if a queue may have a marking.
    pub(super) fn has_markings(&self) -> bool {
        self.policies.has_markings() || self.config.queue.marking().is_some()
    }

    /// Returns `true` if a marking that tracks `flow` has found that marks do not reduce the
    /// window.
    pub(super) fn ignores_marks(&self, id: FlowId, flow: &Flow, direction: Direction) -> bool {
        let at_link = self.links[direction.index()].marker(flow.class(direction));
        let aggregate = self.aggregates.now(flow.handle(direction)).and_then(Aggregate::marked);
        let markers = [at_link, aggregate.map(Marked::marker)];
        markers.into_iter().flatten().any(|marker| marker.ignores(id))
    }

    /// The flows that the marking of the link's queue or of its shared buffer tracks. `None` without a marking.
    #[must_use]
    pub fn tracked(&self, direction: Direction) -> Option<Tracked> {
        Some(self.links[direction.index()].whole_marker()?.marks().tracked)
    }

    /// Returns `true` if that marking projects the flow of `key` in untagged frames.
    #[must_use]
    pub fn tracks(&self, direction: Direction, key: FlowKey) -> bool {
        let packet = Packet { key, vlan: NO_VLAN, ..Packet::default() };
        let flow = self.flows.find(&packet, direction);
        let marker = self.links[direction.index()].whole_marker();
        marker.zip(flow).is_some_and(|(marker, flow)| marker.tracks(flow))
    }

    /// Shows `packet`, which is going to be queued at `leaf` of a link, to the marking there.
    pub(super) fn sight_at_link(
        &mut self,
        now: Time,
        direction: Direction,
        leaf: ClassId,
        packet: &PacketId,
    ) {
        self.pool[packet].member = line(self.pool[packet].flow);
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

/// Shows `ack`, a packet that departs in `direction`, to the markings that track the data of its
/// receiver.
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
