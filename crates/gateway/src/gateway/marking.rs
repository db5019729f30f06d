//! Queues with a marking: the marking sees each arriving packet and its flow.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::flow::Flow;
use tidegate_core::marking::Tracked;
use tidegate_core::packet::{Direction, FlowId, FlowKey, NO_VLAN, Packet, TcpFlags};
use tidegate_core::qdisc::Marked;
use tidegate_core::{PacketId, Time};

use super::Gateway;
use crate::aggregate::Aggregate;

impl Gateway {
    /// Returns `true` if a marking that tracks `flow` has found that marks do not reduce the
    /// window.
    pub(super) fn ignores_marks(&self, id: FlowId, flow: &Flow, direction: Direction) -> bool {
        let at_link = self.egress[direction.index()].link().marker(flow.class(direction));
        let aggregate = self.aggregates.now(flow.handle(direction)).and_then(Aggregate::marked);
        let markers = [at_link, aggregate.map(Marked::marker)];
        markers.into_iter().flatten().any(|marker| marker.ignores(id))
    }

    /// The flows that the marking of the link's queue or of its shared buffer tracks. `None` without a marking.
    #[must_use]
    pub fn tracked(&self, direction: Direction) -> Option<Tracked> {
        Some(self.egress[direction.index()].link().whole_marker()?.marks().tracked)
    }

    /// Returns `true` if the marking of the link's queue or of its shared buffer projects the flow of `key`
    /// in untagged frames.
    #[must_use]
    pub fn tracks(&self, direction: Direction, key: FlowKey) -> bool {
        let packet = Packet { key, vlan: NO_VLAN, ..Packet::default() };
        let flow = self.sorter.flows().find(&packet, direction);
        let marker = self.egress[direction.index()].link().whole_marker();
        marker.zip(flow).is_some_and(|(marker, flow)| marker.tracks(flow))
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
            let flow = self.sorter.flow_of(packet);
            marked.sight(now, direction, packet, flow.as_deref());
        }
    }

    /// Updates the flow of `packet`, which departs in `direction` and then no longer belongs to the flow.
    /// Shows the packet to the markings that track the data of its receiver.
    #[inline]
    pub(super) fn note_departure(&mut self, now: Time, direction: Direction, packet: &PacketId) {
        let departing = &mut self.pool[packet];
        let has_markings = self.sorter.has_markings();
        let Some(flow) = self.sorter.flow_of(departing) else { return };
        flow.on_departure(now, departing, direction);
        if has_markings && departing.tcp.is_some_and(|tcp| tcp.flags.any(TcpFlags::ACK)) {
            let way = direction.reverse();
            self.egress[way.index()].acknowledge(now, departing, flow);
            let aggregate = self.aggregates.meant(flow.handle(way));
            if let Some(marked) = aggregate.and_then(|aggregate| aggregate.marked_mut()) {
                marked.acknowledge(now, way, departing, flow);
            }
        }
        flow.leave();
        departing.flow = FlowId::NONE;
    }

    /// Lets the markings of both directions forget `flow`, whose index was `id`.
    pub(super) fn forget_at_markings(&mut self, id: FlowId, flow: &Flow) {
        if !self.sorter.has_markings() {
            return;
        }
        for way in Direction::BOTH {
            self.egress[way.index()].forget(id, flow);
            let aggregate = self.aggregates.meant(flow.handle(way));
            if let Some(marked) = aggregate.and_then(|aggregate| aggregate.marked_mut()) {
                marked.forget(id);
            }
        }
    }
}
