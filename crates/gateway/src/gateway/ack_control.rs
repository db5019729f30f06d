//! Control of senders by their ACKs: the gateway holds an ACK while the data that it would request has no
//! room.
//!
//! Source: `postack`, R001-7 (ACKs are held, data is not), R001-19 (a flow with one visible
//! direction is queued like any other).
//! Differs: a departing ACK passes the aggregate of its direction at once, and is charged
//! there.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::ack::{CreditAccount, EgressState, Known, Sender};
use tidegate_core::class::ClassId;
use tidegate_core::flow::{Arrival, Claiming, Flow, Handle, Tracking};
use tidegate_core::packet::{Direction, Facts, Fifo, FlowId, FlowIndex, QueueIndex};
use tidegate_core::{PacketId, Time};

use super::Gateway;
use super::egress::{Egress, EgressQueue};
use super::status::show;
use crate::aggregate::Aggregate;
use crate::report::UnresponsiveFlow;

impl Gateway {
    /// Offers `id` to the aggregate whose data it acknowledges.
    /// Returns `id` if no aggregate controls that data.
    pub(super) fn offer_ack(
        &mut self,
        now: Time,
        direction: Direction,
        of: FlowId,
        id: PacketId,
    ) -> Option<PacketId> {
        let flow = self.sorter.flow(of);
        let Some(tcp) = self.pool[&id].tcp else { return Some(id) };
        let own = flow.handle(direction);
        if tcp.authenticated || !may_be_controlled(flow) {
            let aggregate = self.aggregates.meant(own).filter(|it| it.has_ack_control());
            if let (Some(aggregate), 1..) = (aggregate, tcp.payload) {
                aggregate.on_uncontrolled();
            }
            return Some(id);
        }
        if let Some(aggregate) = self.aggregates.meant(own)
            && aggregate.has_ack_control()
        {
            let has_data = tcp.sequence_len() > 0;
            let sender =
                if has_data { aggregate.on_data(now, &self.pool, &id) } else { Sender::Responsive };
            let packet = &mut self.pool[&id];
            let responds = sender == Sender::Responsive;
            packet.facts = packet.facts.with(Facts::CONTROLLED, responds);
            if !responds {
                aggregate.on_uncontrolled();
                if sender == Sender::StopsResponding {
                    aggregate.end_ack_control(&mut self.pool, own.flow_index);
                    self.end_ack_control(of, direction, own.aggregate);
                }
                self.sorter.note_unresponsive(of, direction);
            }
        }
        let data = self.sorter.flow(of).handle(direction.reverse());
        if !self.aggregates.now(data).is_some_and(Aggregate::has_ack_control) {
            return Some(id);
        }
        let way = direction.reverse();
        let ahead = self.ahead_of(way, data.aggregate);
        let known = self.known(of, way, data.flow_index);
        let Some(aggregate) = self.aggregates.meant(data) else { return Some(id) };
        let mut acks = Fifo::new();
        aggregate.on_ack(now, &mut self.pool, ahead, (known, id), &mut acks);
        self.go_on(now, direction, acks);
        self.may_release(data.aggregate);
        None
    }

    /// Ends ACK control for packets of `flow` downstream of its aggregate, which is in `slot`: the sender no longer
    /// responds to ACKs. These packets then hold back no ACK of another flow.
    fn end_ack_control(&mut self, flow: FlowId, direction: Direction, slot: u32) {
        let leaf = EgressQueue::Leaf(self.sorter.flow(flow).class(direction));
        let trunk = self.aggregates.route(slot).trunk.map(EgressQueue::Trunk);
        let egress = &mut self.egress[direction.index()];
        for at in [Some(leaf), trunk].into_iter().flatten() {
            egress.end_ack_control(at, &mut self.pool, flow);
        }
        egress.may_release(slot);
    }

    /// A connection begins on the ports of the flow of `handles`, or a SYN claims these ports.
    ///
    /// The SYN stops the held ACKs of the old connection. A SYN with ACK that acknowledges it drops these
    /// ACKs and the sequence state of the old connection. Any other segment lets them depart.
    pub(super) fn begin_again(&mut self, now: Time, handles: [Handle; 2], arrival: Arrival) {
        for handle in handles {
            let Some(aggregate) = self.aggregates.meant(handle).filter(|it| it.has_ack_control())
            else {
                continue;
            };
            let member = handle.flow_index;
            let forgets = arrival.connection || aggregate.held_acks(member) > 0;
            match arrival.claiming {
                Claiming::Asked if aggregate.held_acks(member) > 0 => {
                    aggregate.stop_acks(now, member);
                    let ready_at = aggregate.ready_at();
                    self.aggregates.arm(handle.aggregate, ready_at);
                }
                Claiming::Denied => {
                    aggregate.resume_acks(now, &mut self.pool, member);
                    self.may_release(handle.aggregate);
                }
                _ if forgets => aggregate.discard_acks(now, &mut self.pool, member),
                _ => {}
            }
        }
    }

    /// The flows that were noted as unresponsive and still do not respond.
    pub(super) fn unresponsive(&self) -> Vec<UnresponsiveFlow> {
        let named = self.sorter.unresponsive().filter_map(|(id, direction)| {
            let flow = self.sorter.flows().get(id)?;
            let (key, handle) = (flow.key(direction), flow.handle(direction));
            let aggregate =
                self.aggregates.now(handle).filter(|it| !it.responds(handle.flow_index))?;
            let [src, dst] = show(&key);
            Some(UnresponsiveFlow { src, dst, direction, policy: aggregate.policy().to_owned() })
        });
        named.collect()
    }

    /// Notes that the aggregate in `slot` may release ACKs, if it controls senders by them.
    pub(super) fn may_release(&mut self, slot: u32) {
        if let Some(aggregate) = self.aggregates.get(slot).filter(|it| it.has_ack_control()) {
            self.egress[aggregate.direction().index()].may_release(slot);
        }
    }

    /// Releases the ACKs for which the egresses have room, and counts the packets of flows that were
    /// made or released. Every call that changes the gateway ends with this function.
    #[inline]
    pub(super) fn drain(&mut self, now: Time) {
        if self.sorter.has_ack_control() {
            self.release_by_work_lists(now);
        }
        self.sorter.count_changes(&mut self.pool);
    }

    fn release_by_work_lists(&mut self, now: Time) {
        while self.egress.iter().any(Egress::has_work) {
            Direction::BOTH.into_iter().for_each(|way| self.drain_egress(now, way));
        }
    }

    #[inline(never)]
    fn drain_egress(&mut self, now: Time, way: Direction) {
        while let Some(slot) = self.egress[way.index()].next_release() {
            self.release_acks(now, slot);
        }
        while let Some(at) = self.egress[way.index()].next_with_room() {
            self.take_turns(now, way, at);
        }
    }

    /// Releases ACKs that the aggregate in `slot` need not hold any longer. The freed room at its
    /// bottleneck then releases ACKs of other aggregates.
    fn release_acks(&mut self, now: Time, slot: u32) {
        let Some(aggregate) = self.aggregates.get(slot).filter(|it| it.has_ack_control()) else {
            return;
        };
        let way = aggregate.direction();
        let egress = &self.egress[way.index()];
        let at = egress.bottleneck(self.aggregates.route(slot));
        let ahead = egress.ahead(at);
        self.release_of(now, slot, way, at, ahead);
        if ahead.rate.is_some() {
            self.take_turns(now, way, at);
        }
    }

    /// Lets the aggregates at a bottleneck release ACKs in turn, while there is room.
    fn take_turns(&mut self, now: Time, way: Direction, at: EgressQueue) {
        while let Some((slot, ahead)) = self.egress[way.index()].next_turn(at) {
            self.release_of(now, slot, way, at, ahead);
        }
    }

    /// Releases ACKs of the aggregate in `slot`, whose data waits at a bottleneck. An aggregate that
    /// no longer exists takes no further turns.
    fn release_of(
        &mut self,
        now: Time,
        slot: u32,
        way: Direction,
        at: EgressQueue,
        ahead: EgressState,
    ) {
        let egress = &mut self.egress[way.index()];
        let there = self.aggregates.get_mut(slot).filter(|it| it.direction() == way);
        let Some(aggregate) = there else {
            return egress.note_report(at, slot, CreditAccount::default(), ahead.rate);
        };
        let mut acks = Fifo::new();
        let report = aggregate.release(now, &mut self.pool, ahead, &mut acks);
        let ready_at = aggregate.ready_at();
        self.aggregates.arm(slot, ready_at);
        if ahead.rate.is_some() {
            egress.note_report(at, slot, report, ahead.rate);
        }
        self.go_on(now, way.reverse(), acks);
    }

    /// Facts about a flow whose data travels in direction `way`. The flow has the index `member` in the aggregate that
    /// gets its ACK.
    pub(super) fn known(&self, flow: FlowId, way: Direction, member: FlowIndex) -> Known {
        let flow = self.sorter.flow(flow);
        // ACKs in tunnels that number their packets are held whole, like those of extended connections.
        let outer = self.sorter.flows().outer(flow, way);
        let whole = outer.is_some_and(|outer| !outer.may_edit());
        let known = known(flow, way, member);
        Known { extended: known.extended || whole, ..known }
    }

    /// State of the bottleneck of the aggregate in `slot`, for an aggregate that did not wait for
    /// its turn.
    pub(super) fn ahead_of(&self, way: Direction, slot: u32) -> EgressState {
        let egress = &self.egress[way.index()];
        egress.ahead(egress.bottleneck(self.aggregates.route(slot)))
    }

    /// Notes that `packet` departs from the link. If it belongs to an ACK-controlled flow, its queue now has
    /// room.
    #[inline]
    pub(super) fn note_room(&mut self, direction: Direction, packet: &PacketId) {
        let egress = &mut self.egress[direction.index()];
        if !egress.makes_room(&self.pool[packet]) {
            return;
        }
        if let Some(flow) = self.sorter.flow_of(&self.pool[packet]) {
            let leaf = match egress.link().classes() {
                Some(_) => flow.class(direction),
                None => ClassId::ROOT,
            };
            egress.made_room(EgressQueue::Leaf(leaf));
        }
    }

    /// Forwards released packets. Packets with data continue to the aggregate of `direction`. ACKs
    /// pass this aggregate, which is charged.
    pub(super) fn go_on(&mut self, now: Time, direction: Direction, mut acks: Fifo) {
        while let Some(id) = acks.pop(&self.pool) {
            let handle = self.sorter.flow(self.pool[&id].flow).handle(direction);
            self.pool[&id].queue_index = QueueIndex::in_aggregate(handle.flow_index);
            let data = self.pool[&id].tcp.is_some_and(|tcp| tcp.sequence_len() > 0);
            let Some(aggregate) = self.aggregates.meant(handle) else {
                let (egress, mut up) = self.at_egress(now, direction);
                egress.send(&mut up, None, id);
                continue;
            };
            if data {
                self.condition(now, direction, handle.aggregate, id);
                continue;
            }
            let mut out = Fifo::new();
            let back = aggregate.pass(now, &mut self.pool, id, &mut out);
            let ready_at = aggregate.ready_at();
            self.aggregates.arm(handle.aggregate, ready_at);
            self.depart(now, direction, handle.aggregate, out);
            if let Some(id) = back {
                self.condition(now, direction, handle.aggregate, id);
            }
        }
    }
}

/// Returns `true` if ACK control may hold and rebuild the ACKs of the flow.
fn may_be_controlled(flow: &Flow) -> bool {
    flow.tracking() != Tracking::QueueOnly
}

/// Facts about `flow`, whose data travels in direction `way`.
fn known(flow: &Flow, way: Direction, member: FlowIndex) -> Known {
    let (rtt, connection) = (flow.min_rtt(), flow.connection());
    let (near, far) = match way {
        Direction::Up => (rtt.near, rtt.far),
        Direction::Down => (rtt.far, rtt.near),
    };
    Known {
        member,
        sent: connection.next_seq(way),
        scale: connection.scale(way.reverse()),
        mss: connection.mss(way).zip(connection.mss(way.reverse())).map(|(a, b)| a.min(b)),
        near,
        far,
        extended: connection.is_extended(),
        weight: 1,
    }
}
