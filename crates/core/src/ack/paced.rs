//! A time for the oldest ACK of each flow.

use std::time::Duration;

use crate::packet::{Member, make_room};
use crate::wheel::TimerWheel;
use crate::{Cx, PacketPool, Rate, Time};

use super::hold::Holds;

/// When the oldest ACK of each flow goes on, and when the one before it did.
#[derive(Default)]
pub(super) struct Paced {
    wheel: TimerWheel,
    /// By member: when its last ACK was to go on, or the next one may.
    free: Vec<Time>,
}

impl Paced {
    /// When `member` was last served, or may be again.
    pub(super) fn free(&mut self, member: Member) -> &mut Time {
        make_room(&mut self.free, member.index(), Time::ZERO);
        &mut self.free[member.index()]
    }

    pub(super) fn is_set(&self, member: Member) -> bool {
        self.wheel.deadline(member.0).is_some()
    }

    pub(super) fn set(&mut self, member: Member, at: Time) {
        self.wheel.set(member.0, at);
    }

    /// A member whose ACK is due at `now`, and when it was.
    pub(super) fn due(&mut self, now: Time) -> Option<(Time, Member)> {
        self.wheel.pop_next(now).map(|(at, number)| (at, Member(number)))
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    pub(super) fn forget(&mut self, member: Member) {
        self.wheel.cancel(member.0);
        *self.free(member) = Time::ZERO;
    }
}

/// Until when no ACK of a flow may be held any longer.
#[derive(Default)]
pub(super) struct Bound {
    wheel: TimerWheel,
}

impl Bound {
    /// ACKs of `member` are held.
    pub(super) fn watch(&mut self, now: Time, member: Member, longest: Duration) {
        if self.wheel.deadline(member.0).is_none() {
            self.wheel.set(member.0, now + longest);
        }
    }

    /// A member whose oldest ACK has been held for as long as may be; `policy` is the longest.
    pub(super) fn overdue(
        &mut self,
        cx: &Cx<'_>,
        holds: &mut Holds,
        policy: Duration,
    ) -> Option<Member> {
        while let Some(number) = self.wheel.pop(cx.now) {
            let member = Member(number);
            let Some(age) = holds.age(member, cx.now) else { continue };
            let longest = holds.flow(member).longest(policy);
            self.wheel.set(number, cx.now + longest.saturating_sub(age).max(LEAST));
            if age >= longest {
                return Some(member);
            }
        }
        None
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    pub(super) fn forget(&mut self, member: Member) {
        self.wheel.cancel(member.0);
    }
}

/// How finely ages are known.
const LEAST: Duration = Duration::from_millis(1);

/// How long data of the oldest ACK of `member` takes at `rate`.
pub(super) fn takes(holds: &Holds, pool: &PacketPool, member: Member, rate: Rate) -> Duration {
    let cost = holds.head(pool, member).map_or(0, |head| head.cost);
    rate.time_for(crate::Bytes(u64::from(cost)))
}
