//! Finds the flow and the aggregate of a packet. A flow keeps the number of its aggregate, and its own index
//! in the aggregate, in a [`Handle`]. So most packets need one look-up only.
//!
//! Source: `aggregates`, section 6.1: the handle of a flow saves all look-ups but one.
//! Differs: after a change of policies, the next packet of a flow renews its handle. The AIX
//! original scans all sockets.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::allocation::Share;
use tidegate_core::flow::{Flow, Handle};
use tidegate_core::packet::{Direction, Facts, Fifo, FlowId, FlowIndex, Outer, QueueIndex};
use tidegate_core::{Packet, PacketId, PacketPool, Time};

use super::Gateway;
use super::aggregates::Fate;
use super::egress::EgressRoute;
use super::sorter::PER_STEP;
use crate::aggregate::{Aggregate, Tokens};
use crate::policy::PolicyIndex;

impl Gateway {
    /// Finds the flow of `id`, and the slot of its aggregate or [`Handle::NO_AGGREGATE`]. Writes flow
    /// and member into the packet.
    pub(super) fn classify(
        &mut self,
        now: Time,
        direction: Direction,
        id: &PacketId,
    ) -> (Option<FlowId>, u32) {
        let Some(flow) = self.flow_of(now, direction, id) else {
            let slot = self.classify_untracked(now, direction, id);
            return (None, slot.unwrap_or(Handle::NO_AGGREGATE));
        };
        let packet = &mut self.pool[id];
        packet.flow = flow;
        let dscp = packet.dscp;
        let known = self.sorter.flow_mut(flow);
        known.enter(1);
        let (mut handle, known_dscp) = (known.handle(direction), known.dscp(direction));
        let recoloured = self.sorter.policies().reads_dscp() && known_dscp != dscp;
        if !self.sorter.is_current(handle) || recoloured {
            let (packet, outer) = (self.pool[id], self.pool.outer(id).copied());
            handle = self.renew(now, direction, (&packet, outer.as_ref()), handle, Fifo::new());
            self.sorter.flow_mut(flow).set_handle(direction, handle, dscp);
            let controlled = self.aggregates.now(handle).is_some_and(Aggregate::has_ack_control);
            self.sorter.note_host(&mut self.pool, direction, flow, id, controlled);
        }
        self.pool[id].queue_index = QueueIndex::in_aggregate(handle.flow_index);
        (Some(flow), handle.aggregate)
    }

    /// The flow of `id`. The first packet creates the flow. `None` if the flow table is full.
    fn flow_of(&mut self, now: Time, direction: Direction, id: &PacketId) -> Option<FlowId> {
        let (packet, outer) = (&self.pool[id], self.pool.outer(id));
        if let Some(flow) = self.sorter.find(packet, outer, direction) {
            return Some(flow);
        }
        if self.sorter.refuses_flows() {
            return None;
        }
        let inserted = self.sorter.insert(now, (packet, outer), direction)?;
        if let Some(evicted) = inserted.evicted {
            self.forget(now, inserted.id, &evicted);
        }
        Some(inserted.id)
    }

    /// Ends the memberships of `flow`, whose index was `id`.
    fn forget(&mut self, now: Time, id: FlowId, flow: &Flow) {
        self.forget_at_markings(id, flow);
        self.aggregates.part(now, flow);
        self.sorter.forget(&mut self.pool, id);
    }

    /// Classifies a packet of an untracked flow by itself. All untracked flows of an aggregate
    /// share one member.
    fn classify_untracked(
        &mut self,
        now: Time,
        direction: Direction,
        id: &PacketId,
    ) -> Option<u32> {
        let policy = self.sorter.lookup(&self.pool, id, direction)?;
        let slot = self.slot_of(now, policy, direction)?;
        let member = self.aggregates.get_mut(slot)?.join_untracked(now);
        self.pool[id].queue_index = QueueIndex::in_aggregate(member);
        Some(slot)
    }

    /// Gathers up to [`PER_STEP`] packets of untracked flows from the aggregate in `slot`. Returns `true` if there may be
    /// more, and `None` if the slot does not exist.
    pub(super) fn gather_untracked(&mut self, now: Time, slot: u32) -> Option<bool> {
        if slot >= self.aggregates.slots() {
            return None;
        }
        let Some(aggregate) = self.aggregates.get_mut(slot) else { return Some(false) };
        let direction = aggregate.direction();
        for _ in 0..PER_STEP {
            let newest = aggregate.withdraw_newest_untracked(now, &mut self.pool);
            let Some(id) = newest else { return Some(false) };
            self.sorter.hold_first(&mut self.pool, direction, slot, id);
        }
        Some(true)
    }

    /// Offers up to [`PER_STEP`] packets of untracked flows, the oldest first, to the policies in force. Returns `false`
    /// if no packets are left. Later packets then no longer wait behind them.
    pub(super) fn offer_held(&mut self, now: Time) -> bool {
        for _ in 0..PER_STEP {
            let next = Direction::BOTH
                .into_iter()
                .find_map(|way| Some((way, self.sorter.next_held(&self.pool, way)?)));
            let Some((direction, id)) = next else {
                self.sorter.end_holding();
                return false;
            };
            let origin = self.pool[&id].queue_index;
            self.offer_untracked(now, direction, id, origin);
        }
        true
    }

    /// Reclassifies a packet of an untracked flow and moves it to its new aggregate. The aggregate takes a packet back
    /// that returns to its `origin`.
    pub(super) fn offer_untracked(
        &mut self,
        now: Time,
        direction: Direction,
        id: PacketId,
        origin: QueueIndex,
    ) {
        let aggregate = self.classify_untracked(now, direction, &id);
        if let Some(slot) = aggregate.filter(|slot| QueueIndex(*slot) == origin)
            && let Some(aggregate) = self.aggregates.get_mut(slot)
        {
            let mut out = Fifo::new();
            aggregate.take_back(now, &mut self.pool, id, &mut out);
            let ready_at = aggregate.ready_at();
            self.aggregates.arm(slot, ready_at);
            return self.depart(now, direction, slot, out);
        }
        let to = Handle {
            aggregate: aggregate.unwrap_or(Handle::NO_AGGREGATE),
            generation: self.sorter.generation(),
            flow_index: self.pool[&id].flow_index(),
        };
        let mut one = Fifo::new();
        one.push(&mut self.pool, id);
        self.move_to(now, direction, to, one);
    }

    /// The handle of the flow of `packet` under the policies in force. Moves the backlog of `old` to the new
    /// aggregate, behind `first`, which was taken from `old`.
    pub(super) fn renew(
        &mut self,
        now: Time,
        direction: Direction,
        (packet, outer): (&Packet, Option<&Outer>),
        old: Handle,
        first: Fifo,
    ) -> Handle {
        let policy = self.sorter.policies().lookup_inside(packet, outer, direction);
        let slot = policy.and_then(|policy| self.slot_of(now, policy, direction));
        let weight_of = |policy| self.sorter.policies().weight_of(policy, packet, outer, direction);
        let weight = policy.map_or(1, weight_of);
        let rtt = self.sorter.flow(packet.flow).rtt().end_to_end();
        let share = Share { weight, rtt };

        let generation = self.sorter.generation();
        let vanished = self.aggregates.fate(old.aggregate) == Some(Fate::Vanished);
        let before = self.aggregates.meant(old);
        if slot == Some(old.aggregate)
            && let Some(aggregate) = before
        {
            aggregate.update(now, old.flow_index, share);
            let same = Handle { generation, ..old };
            if first.packets() > 0 {
                self.move_to(now, direction, same, first);
            }
            return same;
        }
        let (mut waiting, mut acks) = (first, Fifo::new());
        let (mut debt, mut numbers) = (None, None);
        if let Some(aggregate) = before {
            if vanished || !aggregate.is_shared(old.flow_index) {
                debt = aggregate.take_debt(old.flow_index);
            }
            if !aggregate.is_shared(old.flow_index) {
                numbers = aggregate.ack_numbers(old.flow_index);
                aggregate.withdraw_acks(now, &mut self.pool, old.flow_index, &mut acks);
                withdraw_all(aggregate, now, &mut self.pool, old.flow_index, &mut waiting);
            } else if vanished {
                withdraw_flow(
                    aggregate,
                    now,
                    &mut self.pool,
                    old.flow_index,
                    packet.flow,
                    &mut waiting,
                );
            }
            // Otherwise the backlog of a shared member stays: it may belong to other flows.
            aggregate.leave(now, old.flow_index);
        }
        let handle = match slot.and_then(|slot| Some((slot, self.aggregates.get_mut(slot)?))) {
            Some((slot, aggregate)) => {
                let hosts = aggregate.fair_between().key(packet);
                let member = aggregate.join_hosts(now, share, hosts);
                debt.into_iter().for_each(|debt| aggregate.owe(now, member, debt));
                numbers.into_iter().for_each(|it| aggregate.set_ack_numbers(member, it));
                Handle { aggregate: slot, generation, flow_index: member }
            }
            None => Handle { generation, ..Handle::NONE },
        };
        self.move_to(now, direction, handle, waiting);
        self.offer_acks_again(now, direction, handle, acks);
        if old.generation == 0 {
            self.give_back(now, direction, (packet, outer), handle);
        }
        handle
    }

    /// Moves the packets of a flow that were queued as untracked, when the flow gets a table entry. Later
    /// packets then do not overtake them. `packet` is the first packet in `direction`.
    fn give_back(
        &mut self,
        now: Time,
        direction: Direction,
        (packet, outer): (&Packet, Option<&Outer>),
        to: Handle,
    ) {
        let mut moved = 0;
        let mut which = |waiting: &mut Packet, around: Option<&Outer>| {
            let same_tunnel = match (around, outer) {
                (Some(around), Some(outer)) => around.is_same(outer),
                (around, outer) => around.is_none() && outer.is_none(),
            };
            let mine = (waiting.key, waiting.vlan) == (packet.key, packet.vlan)
                && same_tunnel
                && waiting.flow == FlowId::NONE;
            if mine {
                waiting.flow = packet.flow;
                waiting.facts = waiting.facts.with(Facts::UNTRACKED, false);
                moved += 1_u32;
            }
            mine
        };
        if let Some(aggregate) = self.aggregates.get_mut(to.aggregate) {
            aggregate.give_back(now, &mut self.pool, to.flow_index, &mut which);
        }
        let route = self.aggregates.route(to.aggregate);
        let egress = &mut self.egress[direction.index()];
        let leaf = egress.give_back(&mut self.pool, route, packet.flow, &mut which);
        self.sorter.count_untracked_released(moved);
        let flow = self.sorter.flow_mut(packet.flow);
        flow.enter(moved);
        if let Some(leaf) = leaf {
            flow.set_class(direction, leaf);
        }
    }

    /// Moves the backlog of a flow to its new aggregate.
    pub(super) fn move_to(
        &mut self,
        now: Time,
        direction: Direction,
        to: Handle,
        mut waiting: Fifo,
    ) {
        let mut moved = Fifo::new();
        while let Some(id) = waiting.pop(&self.pool) {
            self.pool[&id].queue_index = QueueIndex::in_aggregate(to.flow_index);
            moved.push(&mut self.pool, id);
        }
        let swapping = self.aggregates.is_swapping();
        let Some(aggregate) = self.aggregates.get_mut(to.aggregate) else {
            let (egress, mut up) = self.at_egress(now, direction);
            return match swapping {
                true => egress.send_displaced(&mut up, None, moved),
                false => egress.send_all(&mut up, None, moved),
            };
        };
        let mut out = Fifo::new();
        aggregate.take_over(now, &mut self.pool, moved, &mut out);
        let ready_at = aggregate.ready_at();
        self.aggregates.arm(to.aggregate, ready_at);
        self.depart(now, direction, to.aggregate, out);
    }

    /// The slot of a policy's aggregate. With its first packet, the aggregate is taken over from the previous
    /// set or created.
    fn slot_of(&mut self, now: Time, policy: PolicyIndex, direction: Direction) -> Option<u32> {
        if let Some(slot) = self.aggregates.slot(policy, direction) {
            return Some(slot);
        }
        if let Some(slot) = self.aggregates.inherited(policy, direction) {
            self.take_over(now, slot, policy);
            return Some(slot);
        }
        let written = self.sorter.policies().get(policy)?;
        // A policy that a swap brought does not begin with a burst.
        let tokens = match self.sorter.began(policy, self.aggregates.succession()) {
            Some(since) => Tokens::OneFrame { since },
            None => Tokens::Burst,
        };
        let config = self.sorter.config();
        let (seed, timer) = (config.seed, config.shaping_timer());
        let aggregate = Aggregate::new(written, direction, timer, seed, tokens, now);
        let route = self.egress[direction.index()].route_of(self.sorter.policies(), written);
        Some(self.aggregates.add(policy, aggregate, route, self.sorter.generation()))
    }

    /// The route of the aggregate in `slot`, under the policies in force. `None` if no policy in force has
    /// this aggregate.
    pub(super) fn route_of(&self, slot: u32) -> Option<EgressRoute> {
        let direction = self.aggregates.get(slot)?.direction();
        let policies = self.sorter.policies();
        let policy = policies.get(self.aggregates.policy(slot)?)?;
        Some(self.egress[direction.index()].route_of(policies, policy))
    }

    /// Removes idle flows. Each call examines a part of the table.
    pub(super) fn sweep(&mut self, now: Time) {
        for (id, flow) in self.sorter.sweep(now) {
            self.forget(now, id, &flow);
        }
    }
}

/// Removes the backlog of `flow` from a member that other flows share.
fn withdraw_flow(
    aggregate: &mut Aggregate,
    now: Time,
    pool: &mut PacketPool,
    member: FlowIndex,
    flow: FlowId,
    waiting: &mut Fifo,
) {
    let own = aggregate.join(now, Share { weight: 1, rtt: None });
    let mut which = |packet: &mut Packet, _: Option<&Outer>| packet.flow == flow;
    aggregate.hand_over(now, pool, (member, own), &mut which);
    withdraw_all(aggregate, now, pool, own, waiting);
    aggregate.leave(now, own);
}

fn withdraw_all(
    aggregate: &mut Aggregate,
    now: Time,
    pool: &mut PacketPool,
    member: FlowIndex,
    waiting: &mut Fifo,
) {
    while let Some(packet) = aggregate.withdraw(now, pool, member) {
        waiting.push(pool, packet);
    }
}
