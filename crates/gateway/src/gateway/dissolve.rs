//! Empties the aggregates of removed policies. Their packets, held ACKs and debts move to the policies in force. A debt is
//! the tokens that a flow must still pay for packets that have departed.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::flow::Handle;
use tidegate_core::packet::{Direction, Fifo, Packet};
use tidegate_core::{PacketId, Time};

use super::Gateway;
use super::sorter::NOT_OFFERED;
use crate::aggregate::Debt;

impl Gateway {
    /// Moves a packet, or the held ACKs or the debt of one flow, from the aggregate in `slot` to
    /// the policies in force. Removes the aggregate once it is empty. Returns `false` if the
    /// aggregate does not exist.
    ///
    /// With a packet, all other waiting packets of its flow move, in their order.
    pub(super) fn dissolve(&mut self, now: Time, slot: u32) -> bool {
        let Some(aggregate) = self.aggregates.get_mut(slot) else { return false };
        let direction = aggregate.direction();
        if let Some(id) = aggregate.take_any(now, &mut self.pool) {
            self.offer_again(now, direction, id);
            return true;
        }
        let mut acks = Fifo::new();
        let (taken, numbers) = aggregate.take_any_acks(now, &mut self.pool, &mut acks);
        if taken {
            if let Some(first) = acks.peek(&self.pool).copied() {
                let data = self.renewed(now, direction, &first);
                if let Some(aggregate) = self.aggregates.get_mut(data.aggregate) {
                    numbers
                        .into_iter()
                        .for_each(|it| aggregate.set_ack_numbers(data.flow_index, it));
                }
                self.offer_acks_again(now, direction, data, acks);
            }
            return true;
        }
        if let Some(debt) = aggregate.take_any_debt() {
            self.charge_again(now, direction, slot, debt);
            return true;
        }
        if let Some(gone) = self.aggregates.remove(slot) {
            self.counts.acks += gone.acks();
            self.counts.tally += *gone.tally();
            self.sorter.retired().keep_aggregate(gone);
        }
        false
    }

    /// Charges a debt from the vanished aggregate in `slot` to the flow's new aggregate. A flow that has
    /// moved before has taken its debt along.
    fn charge_again(&mut self, now: Time, direction: Direction, slot: u32, debt: Debt) {
        let Some(flow) = self.sorter.flows().get(debt.flow) else { return };
        let (old, dscp) = (flow.handle(direction), flow.dscp(direction));
        if self.sorter.is_current(old) || old.aggregate != slot {
            return;
        }
        let packet = Packet { flow: debt.flow, ..flow.packet(direction) };
        let outer = self.sorter.flows().outer(flow, direction);
        let new = self.renew(now, direction, (&packet, outer.as_ref()), old, Fifo::new());
        self.sorter.flow_mut(debt.flow).set_handle(direction, new, dscp);
        if let Some(aggregate) = self.aggregates.get_mut(new.aggregate) {
            aggregate.owe(now, new.flow_index, debt);
            let ready_at = aggregate.ready_at();
            self.aggregates.arm(new.aggregate, ready_at);
        }
    }

    /// Moves a packet of a vanished aggregate to the aggregate of its flow.
    fn offer_again(&mut self, now: Time, direction: Direction, id: PacketId) {
        let (packet, outer) = (self.pool[&id], self.pool.outer(&id).copied());
        let Some(flow) = self.sorter.flow_of(&packet) else {
            return self.offer_untracked(now, direction, id, NOT_OFFERED);
        };
        let old = flow.handle(direction);
        let mut first = Fifo::new();
        first.push(&mut self.pool, id);
        if self.sorter.is_current(old) {
            return self.move_to(now, direction, old, first);
        }
        let new = self.renew(now, direction, (&packet, outer.as_ref()), old, first);
        self.sorter.flow_mut(packet.flow).set_handle(direction, new, packet.dscp);
    }

    /// The handle, under the policies in force, of the data in `direction` that `ack` acknowledges.
    fn renewed(&mut self, now: Time, direction: Direction, ack: &Packet) -> Handle {
        let flow = self.sorter.flow(ack.flow);
        let (old, dscp) = (flow.handle(direction), flow.dscp(direction));
        if self.sorter.is_current(old) {
            return old;
        }
        let data = Packet { key: ack.key.reverse(), dscp, ..*ack };
        let outer = self.sorter.flows().outer(flow, direction);
        let new = self.renew(now, direction, (&data, outer.as_ref()), old, Fifo::new());
        self.sorter.flow_mut(ack.flow).set_handle(direction, new, dscp);
        new
    }

    /// Offers ACKs that another aggregate held to the aggregate of `data`, which travels in `direction`. That
    /// aggregate must know the last ACK that departed before them.
    pub(super) fn offer_acks_again(
        &mut self,
        now: Time,
        direction: Direction,
        data: Handle,
        mut acks: Fifo,
    ) {
        let back = direction.reverse();
        if !self.aggregates.now(data).is_some_and(|it| it.has_ack_control()) {
            return self.go_on(now, back, acks);
        }
        while let Some(id) = acks.pop(&self.pool) {
            let known = self.known(self.pool[&id].flow, direction, data.flow_index);
            let ahead = self.ahead_of(direction, data.aggregate);
            let Some(aggregate) = self.aggregates.get_mut(data.aggregate) else { return };
            let mut out = Fifo::new();
            aggregate.on_ack(now, &mut self.pool, ahead, (known, id), &mut out);
            self.go_on(now, back, out);
        }
        self.may_release(data.aggregate);
    }
}
