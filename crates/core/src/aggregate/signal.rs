//! What goes back to the senders of an aggregate, and what that is told of its data.

use super::Aggregate;
use crate::ack::{
    AckControl, AckSpec, Ahead, Call, Counts, Known, Numbers, Precedence, Queue, Returning,
};
use crate::packet::{Direction, Fifo, Governed, Member};
use crate::policy::{Mode, Policy, Profile};
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Time};

/// How the senders of an aggregate are told by their ACKs, if they are.
#[derive(Default)]
pub(super) struct Signal {
    pub(super) control: Option<Box<dyn AckControl>>,
    spec: Option<AckSpec>,
    /// Whether data passes at once and is charged.
    passes: bool,
    /// When data that is sent again does, where other data waits.
    retransmissions: Precedence,
    /// What came into the queue of governed flows, without what was moved elsewhere.
    pub(super) entered: Governed,
    /// What signals that are no more have done.
    past: Counts,
    /// Members before this one hold no ACKs: their aggregate is being dissolved.
    taken: u32,
}

impl Signal {
    pub(super) fn new(policy: &Policy, direction: Direction, now: Time) -> Self {
        let (Some((spec, profile)), Mode::Enforce) = (spec(policy), policy.mode) else {
            return Self::default();
        };
        let control = spec.build(profile, now);
        let passes = control.placement().passes(direction);
        let retransmissions = if passes { Precedence::InTurn } else { control.retransmissions() };
        Self {
            passes,
            retransmissions,
            control: Some(control),
            spec: Some(spec.clone()),
            ..Self::default()
        }
    }

    pub(super) fn leave(&mut self, member: Member) {
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
    Some((policy.action.signal()?, &policy.action.conditioning()?.profile))
}

impl Aggregate {
    /// Whether its senders are told by their ACKs.
    #[must_use]
    pub const fn has_signal(&self) -> bool {
        self.signal.control.is_some()
    }

    /// Takes note of a data packet that is about to be offered. Says whether its sender is governed by
    /// its ACKs: one that does not respond to them is not.
    pub fn on_data(&mut self, now: Time, pool: &PacketPool, packet: &PacketId) -> bool {
        let Some(control) = &mut self.signal.control else { return false };
        let packet = &pool[packet];
        let waiting = self.conditioner.backlog_of(packet.member);
        control.on_data(now, packet.member, packet, waiting)
    }

    /// Whether the sender of `member` responds to its ACKs, as far as it is governed by them.
    #[must_use]
    pub fn responds(&self, member: Member) -> bool {
        self.signal.control.as_ref().is_none_or(|control| control.responds(member))
    }

    /// How many senders do not respond to their ACKs.
    #[must_use]
    pub fn unresponsive(&self) -> u32 {
        self.signal.control.as_ref().map_or(0, |control| control.unresponsive())
    }

    /// Takes note of a data packet whose sender cannot be told by its ACKs.
    pub const fn on_ungoverned(&mut self) {
        self.signal.past.ungoverned += 1;
    }

    /// Takes in what goes back to the sender of its member; what goes on is appended to `acks`. Data
    /// waits on behind what is `ahead`.
    pub fn on_ack(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        ahead: Ahead,
        back: Returning<'_>,
        acks: &mut Fifo,
    ) {
        let known = Known { weight: self.members.share(back.member).weight, ..*back.known };
        let queue = self.queue(ahead);
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        match &mut self.signal.control {
            Some(control) => {
                control.on_ack(&mut cx, Returning { known: &known, ..back }, queue, acks);
            }
            None => acks.push(cx.pool, back.packet),
        }
    }

    /// Appends to `acks` those that may go on now; what the aggregate sends waits on behind what is
    /// `ahead`. Says what its senders have been called for.
    pub fn release(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        ahead: Ahead,
        acks: &mut Fifo,
    ) -> Call {
        let queue = self.queue(ahead);
        let Some(control) = &mut self.signal.control else { return Call::default() };
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        control.serve(&mut cx, queue, acks)
    }

    /// What its signal holds and has done.
    #[must_use]
    pub fn acks(&self) -> Counts {
        self.signal.counts()
    }

    /// ACKs of `member` that are held.
    #[must_use]
    pub fn held_acks(&self, member: Member) -> u32 {
        self.signal.control.as_ref().map_or(0, |control| control.held(member))
    }

    /// Bytes that the sender of `member` may still send in a window that was made smaller, if it was.
    #[must_use]
    pub fn window_left(&self, member: Member) -> Option<Bytes> {
        self.signal.control.as_ref()?.left(member)
    }

    /// Appends all ACKs of `member` that are held to `acks`, in order.
    pub fn withdraw_acks(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        member: Member,
        acks: &mut Fifo,
    ) {
        if let Some(control) = &mut self.signal.control {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            control.withdraw(&mut cx, member, acks);
        }
    }

    /// The numbers of `member`, if they are known, for the ACK control of another aggregate.
    #[must_use]
    pub fn ack_numbers(&self, member: Member) -> Option<Numbers> {
        self.signal.control.as_ref()?.numbers(member)
    }

    /// `member` is new here, and has these numbers from the ACK control of another aggregate.
    pub fn set_ack_numbers(&mut self, member: Member, numbers: Numbers) {
        if let Some(control) = &mut self.signal.control {
            control.set_numbers(member, numbers);
        }
    }

    /// Appends the ACKs of the next member that has some held to `acks`, in order; says whether there is one, and
    /// its numbers before these ACKs. The aggregate must take in no more packets.
    pub fn take_any_acks(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        acks: &mut Fifo,
    ) -> (bool, Option<Numbers>) {
        while self.signal.control.is_some() && self.signal.taken < self.members.numbers() {
            let member = Member(self.signal.taken);
            self.signal.taken += 1;
            if self.held_acks(member) > 0 {
                let numbers = self.ack_numbers(member);
                self.withdraw_acks(now, pool, member, acks);
                // It knows of ACKs now that have not departed.
                self.signal.leave(member);
                return (true, numbers);
            }
        }
        (false, None)
    }

    /// A SYN claims the ports of `member`: its held ACKs do not depart for a second at most.
    pub fn stop_acks(&mut self, now: Time, member: Member) {
        if let Some(control) = &mut self.signal.control {
            control.stop(now, member);
        }
    }

    /// The connection of `member` still exists: its held ACKs may depart again.
    pub fn resume_acks(&mut self, now: Time, pool: &mut PacketPool, member: Member) {
        if let Some(control) = &mut self.signal.control {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            control.resume(&mut cx, member);
        }
    }

    /// The connection of `member` is gone: drops its held ACKs, and forgets the numbers of the connection.
    pub fn discard_acks(&mut self, now: Time, pool: &mut PacketPool, member: Member) {
        if let Some(control) = &mut self.signal.control {
            let mut cx = Cx { now, pool, tally: &mut self.tally };
            control.discard(&mut cx, member);
        }
        self.signal.leave(member);
    }

    /// Appends all ACKs that are held to `acks`, those of each flow in order.
    pub fn flush_acks(&mut self, now: Time, pool: &mut PacketPool, acks: &mut Fifo) {
        let members: Vec<_> = self.members.iter().map(|(member, _)| member).collect();
        for member in members {
            self.withdraw_acks(now, pool, member, acks);
        }
    }

    /// Lets the signal of `policy` take over, if it is another; what the old one held goes on.
    pub fn resignal(&mut self, now: Time, pool: &mut PacketPool, policy: &Policy, acks: &mut Fifo) {
        let enforced = policy.mode == Mode::Enforce;
        let wanted = spec(policy).map(|(spec, _)| spec).filter(|_| enforced);
        if wanted == self.signal.spec.as_ref() {
            return;
        }
        self.flush_acks(now, pool, acks);
        let (past, entered) = (self.signal.counts(), self.signal.entered);
        let new = Signal::new(policy, self.direction, now);
        self.signal = Signal { past, entered, ..new };
    }

    /// Lets `packet` pass at once and charges it, or hands it back if it has to wait.
    pub fn pass(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Option<PacketId> {
        let len = pool[&packet].len;
        let back = self.try_pass(now, pool, packet, Precedence::InTurn, out);
        if back.is_none() {
            self.counts.offered.add(len);
        }
        back
    }

    /// Lets a packet of a governed flow pass if its data is not to wait; hands others back.
    pub(super) fn pass_controlled(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Option<PacketId> {
        let Packet { controlled, seen_before, .. } = pool[&packet];
        let precedence = if seen_before { self.signal.retransmissions } else { Precedence::InTurn };
        if !controlled || !self.signal.passes && precedence == Precedence::InTurn {
            return Some(packet);
        }
        let back = self.try_pass(now, pool, packet, precedence, out);
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
        precedence: Precedence,
        out: &mut Fifo,
    ) -> Option<PacketId> {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        match self.conditioner.pass(&mut cx, &packet, precedence, out) {
            None => Some(packet),
            Some(progress) => {
                self.counts.progress += progress;
                out.push(pool, packet);
                None
            }
        }
    }

    /// What stands between its ACKs and its rate, behind it what is `ahead`.
    fn queue(&self, ahead: Ahead) -> Queue {
        let mut waiting = self.signal.entered;
        waiting -= self.counts.progress.governed;
        waiting -= self.tally.governed;
        let backlog = u64::from(self.conditioner.backlog().packets);
        let own = Bytes(waiting.bytes) + self.conditioner.owed();
        let left = Bytes(self.counts.progress.others);
        let (others, apart) = (backlog > waiting.packets, !self.conditioner.lends());
        Queue { own, others, apart, left, ahead }
    }
}
