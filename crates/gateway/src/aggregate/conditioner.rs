//! The conditioner of an aggregate: it shapes packets, polices them, or passes them.

use tidegate_core::allocation::Allocation;
use tidegate_core::packet::{Controlled, FRAME, Fifo, FlowIndex, Which};
use tidegate_core::qdisc::{Backlog, Marked};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Time};

use super::policer::Policer;
use super::progress::Progress;
use super::shaper::{Debt, Shaper};
use super::{ShapingTimer, Tokens};
use crate::policy::{Action, Conditioning, Mode, Policy, Profile};
use crate::report::{Mechanisms, Triggers};

/// Event that made an aggregate check for departures.
///
/// Source: `aggregates`, section 6, R000-10 (the events that start the work of an aggregate).
/// Differs: the arrival of a packet replaces the send call of an application, which a gateway
/// cannot observe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trigger {
    /// The shaping timer.
    Timer,
    /// An ACK that opens the window of a flow with waiting packets.
    Ack,
    /// An ACK of a flow without waiting packets.
    IdleAck,
    /// A duplicate ACK.
    DuplicateAck,
    /// A new connection of the same policy.
    Connection,
}

impl Trigger {
    pub(super) const fn count(self, triggers: &mut Triggers) {
        *match self {
            Self::Timer => &mut triggers.timer,
            Self::Ack => &mut triggers.ack,
            Self::IdleAck => &mut triggers.idle_ack,
            Self::DuplicateAck => &mut triggers.duplicate_ack,
            Self::Connection => &mut triggers.connection,
        } += 1;
    }
}

/// The allocation of `conditioning` with initial `tokens`.
pub(super) fn allocation(
    conditioning: &Conditioning,
    tokens: Tokens,
    now: Time,
) -> Box<dyn Allocation> {
    let Conditioning { profile, allocation, .. } = conditioning;
    match tokens {
        Tokens::Burst => allocation.build(profile, now),
        Tokens::OneFrame { since } => {
            let mut allocation =
                allocation.build(&profile.with_burst_of(Bytes(FRAME.into())), since);
            allocation.set_profile(since, profile);
            allocation
        }
    }
}

/// Treatment of the packets of an aggregate.
pub(super) enum Conditioner {
    Pass,
    Police(Policer),
    Shape(Shaper),
}

impl Conditioner {
    pub(super) fn new(
        policy: &Policy,
        timer: ShapingTimer,
        random: Random,
        tokens: Tokens,
        now: Time,
    ) -> Self {
        match (&policy.action, policy.mode) {
            (Action::Pass, _) => Self::Pass,
            (Action::Police { conditioning, exceed }, Mode::Enforce) => {
                Self::Police(Policer::new(conditioning, Some(*exceed), tokens, now))
            }
            (
                Action::Police { conditioning, .. } | Action::Shape { conditioning, .. },
                Mode::Observe,
            ) => Self::Police(Policer::new(conditioning, None, tokens, now)),
            (Action::Shape { conditioning, queue, .. }, Mode::Enforce) => {
                Self::Shape(Shaper::new(conditioning, queue, timer, random, tokens, now))
            }
        }
    }

    /// Adopts the changes of `policy` that need no new state. Returns false if that is impossible.
    pub(super) fn adopt(&mut self, policy: &Policy, now: Time) -> bool {
        match (self, &policy.action, policy.mode) {
            (Self::Pass, Action::Pass, _) => true,
            (Self::Police(policer), Action::Police { conditioning, exceed }, Mode::Enforce) => {
                policer.adopt(conditioning, Some(*exceed), now)
            }
            (
                Self::Police(policer),
                Action::Police { conditioning, .. } | Action::Shape { conditioning, .. },
                Mode::Observe,
            ) => policer.adopt(conditioning, None, now),
            (Self::Shape(shaper), Action::Shape { conditioning, queue, .. }, Mode::Enforce) => {
                shaper.adopt(conditioning, queue, now)
            }
            _ => false,
        }
    }

    /// The allocation of the conditioner, and the queue discipline and marking of a shaper.
    pub(super) fn mechanisms(&self) -> Mechanisms {
        match self {
            Self::Pass => Mechanisms::default(),
            Self::Police(policer) => policer.mechanisms(),
            Self::Shape(shaper) => shaper.mechanisms(),
        }
    }

    /// Returns `true` if packets are shaped and `packet` is longer than the profile allows.
    pub(super) fn refuses(&self, packet: &Packet) -> bool {
        match self {
            Self::Shape(shaper) => shaper.refuses(packet),
            Self::Pass | Self::Police(_) => false,
        }
    }

    #[inline]
    pub(super) fn offer(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) -> Progress {
        match self {
            Self::Pass => {
                let mut progress = Progress::default();
                progress.conforms(&cx.pool[&packet], cx.now);
                out.push(cx.pool, packet);
                progress
            }
            Self::Police(policer) => policer.offer(cx, packet, out),
            Self::Shape(shaper) => shaper.offer(cx, packet, out),
        }
    }

    /// Takes in a packet that it had returned as the newest packet of a member.
    pub(super) fn take_back(
        &mut self,
        cx: &mut Cx<'_>,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Progress {
        match self {
            Self::Shape(shaper) => shaper.take_back(cx, packet, out),
            Self::Pass | Self::Police(_) => self.offer(cx, packet, out),
        }
    }

    /// Charges `packet`, which passes at once. Returns `None` if it must wait or is to be policed.
    pub(super) fn pass(&mut self, cx: &mut Cx<'_>, packet: &PacketId) -> Option<Progress> {
        match self {
            Self::Shape(shaper) => shaper.pass(cx, packet),
            Self::Pass | Self::Police(_) => None,
        }
    }

    /// Removes and returns the debt of `member`: bytes that passed and are not yet paid for.
    pub(super) fn take_debt(&mut self, member: FlowIndex) -> Option<Debt> {
        self.shaper_mut()?.take_debt(member)
    }

    /// Removes and returns the debt of some member.
    pub(super) fn take_any_debt(&mut self) -> Option<(FlowIndex, Debt)> {
        self.shaper_mut()?.take_any_debt()
    }

    /// Adds `debt` to the debt of `member`. Only a shaper collects debts.
    pub(super) fn owe(&mut self, now: Time, member: FlowIndex, debt: Debt) {
        if let Self::Shape(shaper) = self {
            shaper.owe(now, member, debt);
        }
    }

    /// The same as [`Shaper::end_ack_control`].
    pub(super) fn end_ack_control(
        &mut self,
        pool: &mut PacketPool,
        member: FlowIndex,
    ) -> Controlled {
        self.shaper_mut().map(|it| it.end_ack_control(pool, member)).unwrap_or_default()
    }

    /// Charged bytes that passed and are not yet paid, of senders that respond to ACKs.
    pub(super) fn owed(&self) -> Bytes {
        self.shaper().map_or(Bytes::ZERO, Shaper::owed)
    }

    /// Tokens of the bucket less all debts, and the peak rate at which they may be spent, if there is one.
    pub(super) fn burst(&self, now: Time) -> Option<(Bytes, Rate)> {
        self.shaper()?.burst(now)
    }

    /// Backlog of `member`: frame bytes in the queue, or bytes that passed and are not yet paid for.
    pub(super) fn backlog_of(&self, member: FlowIndex) -> Bytes {
        self.shaper().map_or(Bytes::ZERO, |it| it.waiting(member) + it.owed_by(member))
    }

    /// Returns `true` if a flow may use tokens that other flows leave unused.
    pub(super) fn lends(&self) -> bool {
        self.shaper().is_none_or(Shaper::lends)
    }

    /// Sends the packets that conform by now.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> Progress {
        match self {
            Self::Shape(shaper) => shaper.serve(cx, out),
            Self::Pass | Self::Police(_) => Progress::default(),
        }
    }

    /// Sends all waiting packets.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> Progress {
        match self {
            Self::Shape(shaper) => shaper.flush(cx, out),
            Self::Pass | Self::Police(_) => Progress::default(),
        }
    }

    /// Removes the next packet.
    pub(super) fn take_any(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.shaper_mut()?.take_any(cx)
    }

    pub(super) fn withdraw(&mut self, cx: &mut Cx<'_>, member: FlowIndex) -> Option<PacketId> {
        self.shaper_mut()?.withdraw(cx, member)
    }

    /// Removes the newest packet of `flow`, conforming or not.
    pub(super) fn withdraw_newest(&mut self, cx: &mut Cx<'_>, flow: FlowIndex) -> Option<PacketId> {
        self.shaper_mut()?.withdraw_newest(cx, flow)
    }

    pub(super) fn hand_over(
        &mut self,
        now: Time,
        pool: &mut PacketPool,
        (from, to): (FlowIndex, FlowIndex),
        which: Which<'_>,
    ) {
        if let Self::Shape(shaper) = self {
            shaper.hand_over(now, pool, (from, to), which);
        }
    }

    pub(super) const fn ready_at(&self) -> Option<Time> {
        match self {
            Self::Shape(shaper) => shaper.ready_at(),
            Self::Pass | Self::Police(_) => None,
        }
    }

    pub(super) fn waiting(&self, member: FlowIndex) -> Bytes {
        self.shaper().map_or(Bytes::ZERO, |shaper| shaper.waiting(member))
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.shaper().map(Shaper::backlog).unwrap_or_default()
    }

    /// The marking of the queue, if it has one.
    pub(super) fn marked(&self) -> Option<&Marked> {
        self.shaper()?.marked()
    }

    /// The marking of the queue, if it has one.
    pub(super) fn marked_mut(&mut self) -> Option<&mut Marked> {
        self.shaper_mut()?.marked_mut()
    }

    pub(super) fn allocation(&mut self) -> Option<&mut dyn Allocation> {
        match self {
            Self::Pass => None,
            Self::Police(policer) => Some(policer.allocation()),
            Self::Shape(shaper) => Some(shaper.allocation()),
        }
    }

    pub(super) const fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Pass => None,
            Self::Police(policer) => Some(policer.profile()),
            Self::Shape(shaper) => Some(shaper.profile()),
        }
    }

    const fn shaper(&self) -> Option<&Shaper> {
        match self {
            Self::Shape(shaper) => Some(shaper),
            Self::Pass | Self::Police(_) => None,
        }
    }

    const fn shaper_mut(&mut self) -> Option<&mut Shaper> {
        match self {
            Self::Shape(shaper) => Some(shaper),
            Self::Pass | Self::Police(_) => None,
        }
    }
}
