//! An aggregate: the flows of one policy in one direction, which share its profile.
//!
//! Its conditioner is a shaper, a policer or nothing (RFC 2475, section 2.3.3). A [`Trigger`] is an
//! event that may have made a waiting packet conform. Each trigger checks the aggregate in constant
//! time.

mod ack_control;
mod conditioner;
mod hosts;
mod members;
mod peak;
mod policer;
mod progress;
mod shaper;

use conditioner::Conditioner;
use hosts::Hosts;
use std::time::Duration;

use ack_control::SenderControl;
pub use conditioner::Trigger;
use members::Members;
use progress::Progress;

pub(crate) use shaper::Debt;

use tidegate_core::Count;
use tidegate_core::allocation::Share;
use tidegate_core::packet::{Controlled, Direction, Fifo, FlowIndex, Which};
use tidegate_core::qdisc::{Backlog, Marked};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Reason, Tally, Time};

use crate::policy::{FairBetween, HostKey, Policy};
use crate::report::{AckControlReport, AggregateReport, Mechanisms, Triggers};

/// Times at which aggregates check for departures.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ShapingTimer {
    /// Interval of the shaping timer; zero for the exact time of the next conforming packet.
    pub interval: Duration,
    /// Other events that check for departures.
    pub triggers: TriggerSet,
}

/// Events that make an aggregate serve its queue.
///
/// Source: `aggregates`, section 4.1 (the timer alone) and section 6 (all).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TriggerSet {
    /// All events that may have made a waiting packet conform. The allocation selects the packet.
    #[default]
    All,
    /// Only the shaping timer. A packet that arrives takes available tokens before waiting packets
    /// do. Section 6 of the paper corrects this.
    Timer,
}

/// Initial tokens of an aggregate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tokens {
    /// Tokens of its whole burst.
    Burst,
    /// Tokens that the rate has earned since `since`, beginning with one full-size frame. Frequent
    /// swaps of policies therefore admit no bursts.
    OneFrame {
        /// Time at which the policy of the aggregate was put in force.
        since: Time,
    },
}

/// Flows of a policy in one direction.
pub struct Aggregate {
    policy: String,
    direction: Direction,
    conditioner: Conditioner,
    timer: ShapingTimer,
    /// Seed of the aggregate's random numbers.
    seed: u64,
    members: Members,
    fair_between: FairBetween,
    hosts: Hosts,
    untracked: Option<FlowIndex>,
    senders: SenderControl,
    counts: AggregateCounters,
    tally: Tally,
}

/// Counters of an aggregate.
#[derive(Clone, Copy, Debug, Default)]
struct AggregateCounters {
    offered: Count,
    progress: Progress,
    peak_backlog: u64,
    triggers: Triggers,
}

impl Aggregate {
    /// The aggregate of `policy` in `direction`, without members and with initial `tokens`. `timer` selects
    /// the times at which it checks for departures. `seed` is the seed of its random numbers.
    #[must_use]
    pub fn new(
        policy: &Policy,
        direction: Direction,
        timer: ShapingTimer,
        seed: u64,
        tokens: Tokens,
        now: Time,
    ) -> Self {
        let random = chance(seed, &policy.name, direction);
        Self {
            policy: policy.name.clone(),
            direction,
            conditioner: Conditioner::new(policy, timer, random, tokens, now),
            timer,
            seed,
            members: Members::default(),
            fair_between: policy.action.fair_between(),
            hosts: Hosts::default(),
            untracked: None,
            senders: SenderControl::new(policy, direction, now),
            counts: AggregateCounters::default(),
            tally: Tally::default(),
        }
    }

    /// The name of the policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Renames the policy of the aggregate.
    pub fn rename(&mut self, policy: &str) {
        if self.policy != policy {
            policy.clone_into(&mut self.policy);
        }
    }

    /// Direction of the packets.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Flows or hosts between which tokens are shared.
    #[must_use]
    pub const fn fair_between(&self) -> FairBetween {
        self.fair_between
    }

    /// The member for a new flow of the hosts in `key`. Flows of the same hosts share a member.
    pub fn join_hosts(&mut self, now: Time, share: Share, key: Option<HostKey>) -> FlowIndex {
        let Some(key) = key else { return self.join(now, share) };
        if let Some(member) = self.hosts.join(key) {
            return member;
        }
        let member = self.join(now, share);
        self.hosts.found(key, member);
        member
    }

    /// True if several flows share this member.
    #[must_use]
    pub fn is_shared(&self, member: FlowIndex) -> bool {
        self.hosts.flows(member) > 1
    }

    /// Adds a member.
    pub fn join(&mut self, now: Time, share: Share) -> FlowIndex {
        let member = self.members.join(share);
        if let Some(allocation) = self.conditioner.allocation() {
            allocation.join(now, member, share);
        }
        member
    }

    /// The member that all untracked flows share.
    pub fn join_untracked(&mut self, now: Time) -> FlowIndex {
        if let Some(member) = self.untracked {
            return member;
        }
        let member = self.join(now, Share { weight: 1, rtt: None });
        self.untracked = Some(member);
        member
    }

    /// Moves packets of a flow from the member of untracked flows to `member`, when the flow gets a
    /// table entry. `which` selects its packets.
    pub fn give_back(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        member: FlowIndex,
        which: Which<'_>,
    ) {
        if let Some(from) = self.untracked {
            self.hand_over(now, pool, (from, member), which);
        }
    }

    /// Moves packets from one member to another.
    pub fn hand_over(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        (from, to): (FlowIndex, FlowIndex),
        which: Which<'_>,
    ) {
        self.conditioner.hand_over(now, pool, (from, to), which);
    }

    /// Ends the membership of a flow. If no other flow shares the member, it must have no waiting
    /// packets.
    pub fn leave(&mut self, now: Time, member: FlowIndex) {
        if !self.hosts.leave(member) {
            return;
        }
        if let Some(allocation) = self.conditioner.allocation() {
            allocation.remove(now, member);
        }
        self.conditioner.take_debt(member);
        self.senders.leave(member);
        self.members.leave(member);
    }

    /// Updates the share of a member. Insignificant changes are ignored.
    pub fn update(&mut self, now: Time, member: FlowIndex, share: Share) {
        if self.members.update(member, share)
            && let Some(allocation) = self.conditioner.allocation()
        {
            allocation.update(now, member, share);
        }
    }

    /// Takes in a packet of a member. Packets that may depart now are appended to `out`.
    ///
    /// When buffers are scarce, a packet that would wait behind others is dropped.
    pub fn offer(&mut self, now: Time, pool: &mut PacketPool, packet: PacketId, out: &mut Fifo) {
        self.counts.offered.add(pool[&packet].wire_len());
        self.counts.triggers.arrival += 1;
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        if cx.pool.is_scarce() && self.conditioner.backlog().packets > 0 {
            self.senders.entered.add(&cx.pool[&packet]);
            cx.drop(packet, Reason::NoBuffer);
            self.counts.progress += self.conditioner.serve(&mut cx, out);
        } else {
            self.condition(now, pool, packet, out);
        }
    }

    /// Counts a packet of a member that bypasses the conditioner.
    pub fn pass_by(&mut self, now: Time, packet: &Packet) {
        self.counts.offered.add(packet.wire_len());
        self.counts.progress.conforms(packet, now);
    }

    /// Takes in a packet that waited here before, and that was withdrawn. The packet counts as offered once.
    pub fn take_back(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        packet: PacketId,
        out: &mut Fifo,
    ) {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        self.senders.entered.add(&cx.pool[&packet]);
        if self.conditioner.refuses(&cx.pool[&packet]) {
            cx.drop(packet, Reason::OverMaxPacket);
        } else {
            self.counts.progress += self.conditioner.take_back(&mut cx, packet, out);
        }
    }

    /// Takes in packets of a flow that waited in another aggregate.
    pub fn take_over(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        mut waiting: Fifo,
        out: &mut Fifo,
    ) {
        while let Some(packet) = waiting.pop(pool) {
            self.counts.offered.add(pool[&packet].wire_len());
            self.condition(now, pool, packet, out);
        }
    }

    /// Marking of the aggregate's queue, if any.
    #[must_use]
    pub fn marked(&self) -> Option<&Marked> {
        self.conditioner.marked()
    }

    /// Marking of the aggregate's queue, if any.
    pub fn marked_mut(&mut self) -> Option<&mut Marked> {
        self.conditioner.marked_mut()
    }

    fn condition(&mut self, now: Time, pool: &mut PacketPool, packet: PacketId, out: &mut Fifo) {
        if self.conditioner.refuses(&pool[&packet]) {
            self.senders.entered.add(&pool[&packet]);
            Cx { now, pool, tally: &mut self.tally }.drop(packet, Reason::OverMaxPacket);
            return;
        }
        let Some(packet) = self.pass_controlled(now, pool, packet, out) else { return };
        self.senders.entered.add(&pool[&packet]);
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        self.counts.progress += self.conditioner.offer(&mut cx, packet, out);
        let backlog = self.conditioner.backlog().bytes.0;
        self.counts.peak_backlog = self.counts.peak_backlog.max(backlog);
    }

    /// Checks for departures after the event `event`, and appends the packets that depart to `out`. Returns
    /// `true` if a check was necessary.
    pub fn trigger(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        event: Trigger,
        out: &mut Fifo,
    ) -> bool {
        if self.timer.triggers == TriggerSet::Timer && event != Trigger::Timer {
            return false;
        }
        event.count(&mut self.counts.triggers);
        if self.conditioner.ready_at().is_none_or(|ready_at| ready_at > now) {
            return false;
        }
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        self.counts.progress += self.conditioner.serve(&mut cx, out);
        true
    }

    /// Time at which the next packet conforms, if one waits and no other event occurs.
    #[must_use]
    pub fn ready_at(&self) -> Option<Time> {
        let ready_at = self.conditioner.ready_at();
        match &self.senders.control {
            None => ready_at,
            Some(control) => Time::earliest(ready_at, control.ready_at()),
        }
    }

    /// Waiting bytes of `member`, as frames.
    #[must_use]
    pub fn waiting(&self, member: FlowIndex) -> Bytes {
        self.conditioner.waiting(member)
    }

    /// Removes the oldest packet of `member`, conforming or not, for another aggregate.
    pub fn withdraw(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        member: FlowIndex,
    ) -> Option<PacketId> {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        let packet = self.conditioner.withdraw(&mut cx, member)?;
        self.senders.entered -= Controlled::of(&pool[&packet]);
        Some(packet)
    }

    /// Removes the newest packet of untracked flows, conforming or not, for another aggregate.
    pub fn withdraw_newest_untracked(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
    ) -> Option<PacketId> {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        let packet = self.conditioner.withdraw_newest(&mut cx, self.untracked?)?;
        self.senders.entered -= Controlled::of(&pool[&packet]);
        Some(packet)
    }

    /// Removes the next packet, conforming or not, for another aggregate.
    pub fn take_any(&mut self, now: Time, pool: &mut PacketPool) -> Option<PacketId> {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        let packet = self.conditioner.take_any(&mut cx)?;
        self.senders.entered -= Controlled::of(&pool[&packet]);
        Some(packet)
    }

    /// Removes and returns the debt of `member`: packets that departed before they had tokens.
    /// Another aggregate must charge for them.
    pub(crate) fn take_debt(&mut self, member: FlowIndex) -> Option<Debt> {
        self.conditioner.take_debt(member)
    }

    /// Removes and returns the debt of some member.
    pub(crate) fn take_any_debt(&mut self) -> Option<Debt> {
        self.conditioner.take_any_debt().map(|(_, debt)| debt)
    }

    /// Adds a debt of `member` from another aggregate to its debt here.
    pub(crate) fn owe(&mut self, now: Time, member: FlowIndex, debt: Debt) {
        self.conditioner.owe(now, member, debt);
    }

    /// Appends all waiting packets to `out`, conforming or not.
    pub fn flush(&mut self, now: Time, pool: &mut PacketPool, out: &mut Fifo) {
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        self.counts.progress += self.conditioner.flush(&mut cx, out);
    }

    /// Applies `policy`: members, counters, tokens and waiting packets stay.
    pub fn reconfigure(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        policy: &Policy,
        out: &mut Fifo,
    ) {
        if let (Some(control), Some(to)) = (&mut self.senders.control, policy.action.conditioning())
        {
            control.set_profile(now, &to.profile);
        }
        if !self.conditioner.adopt(policy, now) {
            let random = chance(self.seed, &self.policy, self.direction);
            let tokens = Tokens::OneFrame { since: now };
            let new = Conditioner::new(policy, self.timer, random, tokens, now);
            let old = std::mem::replace(&mut self.conditioner, new);
            if let Some(allocation) = self.conditioner.allocation() {
                self.members.iter().for_each(|(member, share)| allocation.join(now, member, share));
            }
            let mut old = old;
            while let Some((member, debt)) = old.take_any_debt() {
                self.conditioner.owe(now, member, debt);
            }
            self.move_waiting(now, pool, old, out);
        }
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        self.counts.progress += self.conditioner.serve(&mut cx, out);
    }

    /// Offers the packets of `old` to the new conditioner, in their order.
    fn move_waiting(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        mut old: Conditioner,
        out: &mut Fifo,
    ) {
        let mut waiting = Fifo::new();
        let mut cx = Cx { now, pool, tally: &mut self.tally };
        // Packets of ACK-controlled flows count as departed from the old queue, and enter the new
        // one.
        self.counts.progress.controlled += old.flush(&mut cx, &mut waiting).controlled;
        while let Some(packet) = waiting.pop(pool) {
            self.condition(now, pool, packet, out);
        }
    }

    /// Waiting packets and bytes.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.conditioner.backlog()
    }

    /// Packets dropped and marked, by reason.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Weight and round-trip time of `member`.
    #[must_use]
    pub fn share(&self, member: FlowIndex) -> Share {
        self.members.share(member)
    }

    /// Current state of the aggregate.
    #[must_use]
    pub fn report(&self) -> AggregateReport {
        let AggregateCounters { offered, progress, peak_backlog, triggers } = self.counts;
        let acks = self.senders.counts();
        AggregateReport {
            policy: self.policy.clone(),
            direction: self.direction,
            mean: self.conditioner.profile().map(|profile| profile.mean()),
            mechanisms: Mechanisms {
                ack_control: self.senders.name().map(Into::into),
                ..self.conditioner.mechanisms()
            },
            flows: self.members.count(),
            offered,
            conforming: progress.conforming,
            exceeding: progress.exceeding,
            drops: self.tally.drops,
            marks: self.tally.marks,
            marking: self.marked().map(|marked| marked.marker().marks()),
            backlog: self.conditioner.backlog(),
            peak_backlog,
            mean_wait_us: progress.waited_ns / progress.departed().max(1) / 1_000,
            waited_ns: progress.waited_ns,
            late: progress.late,
            triggers,
            ack_control: self.senders.name().map(|kind| AckControlReport {
                kind: kind.into(),
                mean_hold_us: acks.mean_hold_us(),
                unresponsive: self.unresponsive(),
                counts: acks,
            }),
            acks,
        }
    }
}

/// Random numbers of a policy's aggregate, independent of other aggregates.
fn chance(seed: u64, policy: &str, direction: Direction) -> Random {
    Random::named(seed, &["aggregate", policy, direction.name()])
}
