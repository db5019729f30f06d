//! ACK control of an aggregate: data and ACKs of the aggregate's flows go in, released ACKs come out.
//!
//! This file contains methods of `Aggregate`, whose fields are in `aggregate.rs`.

use tidegate_core::ack::{
    AckControl, AckSpec, Counts, CreditAccount, EgressState, Known, Numbers, Queue, Sender,
};
use tidegate_core::packet::{Controlled, Direction, Fifo, FlowIndex};
use tidegate_core::{Bytes, Cx, PacketId, PacketPool, Time};

use super::Aggregate;
use crate::policy::{Mode, Policy, Profile};

/// State of the ACK control of an aggregate. Empty if its policy has no ACK control.
#[derive(Default)]
pub(super) struct SenderControl {
    pub(super) control: Option<Box<dyn AckControl>>,
    spec: Option<AckSpec>,
    /// The bottleneck is upstream, so data has passed it. Data of ACK-controlled flows passes the gateway at once, and
    /// the profile charges it when it conforms.
    passes: bool,
    /// Packets and bytes of ACK-controlled flows that entered the queue, less those moved to other aggregates.
    pub(super) entered: Controlled,
    /// Counters of earlier ACK controls of this aggregate, before a change of the policy, and of uncontrolled data.
    past: Counts,
    /// While the aggregate is dissolved: the next member whose held ACKs are taken out.
    taken: u32,
}

impl SenderControl {
    pub(super) fn new(policy: &Policy, direction: Direction, now: Time) -> Self {
        let (Some((spec, profile)), Mode::Enforce) = (spec(policy), policy.mode) else {
            return Self::default();
        };
        let control = spec.build(profile, now);
        let passes = control.placement().passes(direction);
        Self { passes, control: Some(control), spec: Some(spec.clone()), ..Self::default() }
    }

    pub(super) fn leave(&mut self, member: FlowIndex) {
        if let Some(control) = &mut self.control {
            control.leave(member);
        }
    }

    pub(super) fn name(&self) -> Option<&'static str> {
        self.spec.as_ref().map(AckSpec::name)
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.past;
        if let Some(control) = &self.control {
            counts += control.counts();
        }
        counts
    }
}

fn spec(policy: &Policy) -> Option<(&AckSpec, &Profile)> {
    Some((policy.action.ack_control()?, &policy.action.conditioning()?.profile))
}

impl Aggregate {
    /// Returns `true` if the policy controls senders by their ACKs.
    #[must_use]
    pub const fn has_ack_control(&self) -> bool {
        self.senders.control.is_some()
    }

    /// Notes a data packet before it is offered. Returns whether its sender responds to ACKs. Without ACK control,
    /// it does not.
    pub fn on_data(&mut self, now: Time, pool: &PacketPool, packet: &PacketId) -> Sender {
        let Some(control) = &mut self.senders.control else { return Sender::Unresponsive };
        let packet = &pool[packet];
        let member = packet.flow_index();
        control.on_data(now, member, packet, self.conditioner.backlog_of(member))
    }

    /// The sender of `member` no longer responds to ACKs. Its debt and its waiting packets hold back no ACK of other
    /// flows any more.
    pub fn end_ack_control(&mut self, pool: &mut PacketPool, member: FlowIndex) {
        self.senders.entered -= self.conditioner.end_ack_control(pool, member);
    }

    /// Returns `false` if ACK control applies to the sender of `member` and the sender does not
    /// respond.
    #[must_use]
    pub fn responds(&self, member: FlowIndex) -> bool {
        self.senders.control.as_ref().is_none_or(|control| control.responds(member))
    }

    /// Number of senders that do not respond to ACK control.
    #[must_use]
    pub fn unresponsive(&self) -> u32 {
        self.senders.control.as_ref().map_or(0, |control| control.unresponsive())
    }

    /// Notes a data packet whose sender ACK control cannot reach.
    pub const fn on_uncontrolled(&mut self) {
        self.senders.past.uncontrolled += 1;
    }

    /// Takes in `packet`, an ACK to the sender of a flow. ACKs that depart now are appended to `acks`.
    /// `ahead` is the state of the egress downstream.
    pub fn on_ack(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        ahead: EgressState,
        (known, packet): (Known, PacketId),
        acks: &mut Fifo,
    ) {
        let known = Known { weight: self.members.share(known.member).weight, ..known };
        let queue = self.queue(now, ahead);
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        match &mut self.senders.control {
            Some(control) => control.on_ack(&mut cx, &known, packet, queue, acks),
            None => acks.push(cx.pool, packet),
        }
    }

    /// Appends the ACKs that may depart now to `acks`. `ahead` is the state of the egress
    /// downstream. Returns the bytes that these ACKs request from senders.
    pub fn release(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        ahead: EgressState,
        acks: &mut Fifo,
    ) -> CreditAccount {
        let queue = self.queue(now, ahead);
        let Some(control) = &mut self.senders.control else { return CreditAccount::default() };
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        control.serve(&mut cx, queue, acks)
    }

    /// Counters of the ACK control.
    #[must_use]
    pub fn acks(&self) -> Counts {
        self.senders.counts()
    }

    /// Number of held ACKs of `member`.
    #[must_use]
    pub fn held_acks(&self, member: FlowIndex) -> u32 {
        self.senders.control.as_ref().map_or(0, |control| control.held(member))
    }

    /// Bytes that the sender of `member` may still send in a window that the gateway reduced. `None` if the
    /// window was not reduced.
    #[must_use]
    pub fn window_left(&self, member: FlowIndex) -> Option<Bytes> {
        self.senders.control.as_ref()?.left(member)
    }

    /// Appends all held ACKs of `member` to `acks`, in order.
    pub fn withdraw_acks(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        member: FlowIndex,
        acks: &mut Fifo,
    ) {
        if let Some(control) = &mut self.senders.control {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            control.withdraw(&mut cx, member, acks);
        }
    }

    /// Sequence state of `member` for the ACK control of another aggregate, if it is known.
    #[must_use]
    pub fn ack_numbers(&self, member: FlowIndex) -> Option<Numbers> {
        self.senders.control.as_ref()?.numbers(member)
    }

    /// Sets the sequence state of the new member `member`, as another ACK control knew it.
    pub fn set_ack_numbers(&mut self, member: FlowIndex, numbers: Numbers) {
        if let Some(control) = &mut self.senders.control {
            control.set_numbers(member, numbers);
        }
    }

    /// Appends the ACKs of the next member with held ACKs to `acks`, in order. Returns `true` if there was one, and its
    /// sequence state as it was before these ACKs.
    ///
    /// After the last member, the search begins again with the first. Between two calls, members that held no
    /// ACK may hold one: a flow keeps its handle until its next packet with data.
    pub fn take_any_acks(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        acks: &mut Fifo,
    ) -> (bool, Option<Numbers>) {
        if self.senders.control.as_ref().is_none_or(|control| control.counts().held == 0) {
            return (false, None);
        }
        let all = self.members.numbers();
        for _ in 0..all {
            let member = FlowIndex(self.senders.taken % all);
            self.senders.taken = member.0 + 1;
            if self.held_acks(member) > 0 {
                let numbers = self.ack_numbers(member);
                self.withdraw_acks(now, pool, member, acks);
                // The ACKs left this ACK control but not the gateway, so the state that counts them is dropped.
                self.senders.leave(member);
                return (true, numbers);
            }
        }
        (false, None)
    }

    /// Stops the held ACKs of `member` for at most one second, because a SYN claims its ports.
    pub fn stop_acks(&mut self, now: Time, member: FlowIndex) {
        if let Some(control) = &mut self.senders.control {
            control.stop(now, member);
        }
    }

    /// The connection of `member` still exists: its held ACKs may depart again.
    pub fn resume_acks(&mut self, now: Time, pool: &mut PacketPool, member: FlowIndex) {
        if let Some(control) = &mut self.senders.control {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            control.resume(&mut cx, member);
        }
    }

    /// The connection of `member` has ended: drops its held ACKs and its sequence state.
    pub fn discard_acks(&mut self, now: Time, pool: &mut PacketPool, member: FlowIndex) {
        if let Some(control) = &mut self.senders.control {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            control.discard(&mut cx, member);
        }
        self.senders.leave(member);
    }

    /// Appends all held ACKs to `acks`, in order for each flow.
    pub fn flush_acks(&mut self, now: Time, pool: &mut PacketPool, acks: &mut Fifo) {
        let members: Vec<_> = self.members.iter().map(|(member, _)| member).collect();
        for member in members {
            self.withdraw_acks(now, pool, member, acks);
        }
    }

    /// Replaces a different ACK control by the one of `policy`. ACKs held by the old one are
    /// released.
    pub fn replace_ack_control(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        policy: &Policy,
        acks: &mut Fifo,
    ) {
        let enforced = policy.mode == Mode::Enforce;
        let wanted = spec(policy).map(|(spec, _)| spec).filter(|_| enforced);
        if wanted == self.senders.spec.as_ref() {
            return;
        }
        self.flush_acks(now, pool, acks);
        let (past, entered) = (self.senders.counts(), self.senders.entered);
        let new = SenderControl::new(policy, self.direction, now);
        self.senders = SenderControl { past, entered, ..new };
    }

    /// Lets `packet` pass at once and charges it, or returns it if it must wait.
    pub fn pass(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Option<PacketId> {
        let len = pool[&packet].wire_len();
        let back = self.try_pass(now, pool, packet, out);
        if back.is_none() {
            self.counts.offered.add(len);
        }
        back
    }

    /// Lets a packet of an ACK-controlled flow pass if its data must not wait. Returns other
    /// packets.
    pub(super) fn pass_controlled(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Option<PacketId> {
        if !self.senders.passes || !pool[&packet].is_controlled() {
            return Some(packet);
        }
        let back = self.try_pass(now, pool, packet, out);
        if back.is_none() {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            self.counts.progress += self.conditioner.serve(&mut cx, out);
        }
        back
    }

    fn try_pass(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Option<PacketId> {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        match self.conditioner.pass(&mut cx, &packet) {
            None => Some(packet),
            Some(progress) => {
                self.counts.progress += progress;
                out.push(pool, packet);
                None
            }
        }
    }

    /// Backlog and rate of the aggregate for its ACK control. `ahead` is the state of the egress downstream.
    fn queue(&self, now: Time, ahead: EgressState) -> Queue {
        let mut waiting = self.senders.entered;
        waiting -= self.counts.progress.controlled;
        waiting -= self.tally.controlled;
        let backlog = u64::from(self.conditioner.backlog().packets);
        let own = Bytes(waiting.bytes) + self.conditioner.owed();
        let left = Bytes(self.counts.progress.others);
        let others = backlog.saturating_sub(waiting.packets);
        let apart = !self.conditioner.lends();
        let burst = self.conditioner.burst(now);
        let passes = self.senders.passes;
        Queue { own, others, apart, passes, left, burst, ahead }
    }
}
