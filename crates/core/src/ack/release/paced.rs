//! Departure times of the oldest held ACK of each flow, and the bounds of holds.

use std::time::Duration;

use crate::packet::{FlowIndex, make_room};
use crate::wheel::TimerWheel;
use crate::{Cx, PacketPool, Rate, Time};

use crate::ack::hold::Holds;
use crate::ack::record::TICK_BITS;

/// Scheduled departures of the oldest held ACK of each flow, and of the ACK before it.
#[derive(Default)]
pub(in crate::ack) struct Paced {
    wheel: TimerWheel,
    /// By member: scheduled departure of the flow's last departed ACK, or earliest departure of its next ACK.
    free: Vec<Time>,
}

impl Paced {
    /// Scheduled departure of the last departed ACK of `member`, or earliest departure of its next ACK.
    pub(in crate::ack) fn free(&mut self, member: FlowIndex) -> &mut Time {
        make_room(&mut self.free, member.index(), Time::ZERO);
        &mut self.free[member.index()]
    }

    pub(in crate::ack) fn is_set(&self, member: FlowIndex) -> bool {
        self.wheel.deadline(member.0).is_some()
    }

    pub(in crate::ack) fn set(&mut self, member: FlowIndex, at: Time) {
        self.wheel.set(member.0, at);
    }

    /// A member whose oldest held ACK is due at `now`, and the time for which the ACK was scheduled.
    pub(in crate::ack) fn due(&mut self, now: Time) -> Option<(Time, FlowIndex)> {
        self.wheel.pop_next(now).map(|(at, number)| (at, FlowIndex(number)))
    }

    pub(in crate::ack) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    pub(in crate::ack) fn forget(&mut self, member: FlowIndex) {
        self.wheel.cancel(member.0);
        *self.free(member) = Time::ZERO;
    }
}

/// Timers that check whether the oldest held ACK of a flow has reached its longest hold.
#[derive(Default)]
pub(in crate::ack) struct Bound(TimerWheel);

impl Bound {
    /// Schedules a check of `member` after the time `longest`, unless a check is scheduled already.
    pub(in crate::ack) fn watch(&mut self, now: Time, member: FlowIndex, longest: Duration) {
        if self.0.deadline(member.0).is_none() {
            self.set(member, now, longest);
        }
    }

    /// Schedules a check of `member` after `span`. The check is late by at most `span / 64` and two ticks (2.1
    /// ms). So many flows are checked together, with few timer events.
    fn set(&mut self, member: FlowIndex, now: Time, span: Duration) {
        let at = now + span;
        let digits = ((at.nanos() - now.nanos()) / 64).checked_ilog2();
        let multiple = digits.map_or(0, |digits| 1 << digits.min(TICK_BITS + 1));
        self.0.set(member.0, at.round_up_to(Duration::from_nanos(multiple)));
    }

    /// A member whose oldest ACK has been held for as long as permitted. `policy` is the longest hold that the
    /// policy permits.
    pub(in crate::ack) fn overdue(
        &mut self,
        cx: &Cx<'_>,
        holds: &mut Holds,
        policy: Duration,
    ) -> Option<FlowIndex> {
        while let Some(number) = self.0.pop(cx.now) {
            let member = FlowIndex(number);
            let Some(age) = holds.age(member, cx.now) else { continue };
            let longest = holds.flow(member).longest(policy);
            self.set(member, cx.now, longest.saturating_sub(age).max(LEAST));
            if age >= longest {
                return Some(member);
            }
        }
        None
    }

    pub(in crate::ack) fn next(&self) -> Option<Time> {
        self.0.next_deadline()
    }

    pub(in crate::ack) fn forget(&mut self, member: FlowIndex) {
        self.0.cancel(member.0);
    }
}

/// Shortest time between two checks of a flow: the resolution of the age of an ACK.
const LEAST: Duration = Duration::from_millis(1);

/// Time in which `rate` carries the data that the oldest ACK of `member` requests.
pub(in crate::ack) fn takes(
    holds: &Holds,
    pool: &PacketPool,
    member: FlowIndex,
    rate: Rate,
) -> Duration {
    rate.time_for(crate::Bytes(holds.cost_of_head(pool, member).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a check before the longest hold, or long after it; a timer event for each of a hundred flows.
    #[test]
    fn holds_are_checked_together_never_early_and_at_most_a_64th_late() {
        for (now, span) in [(7, 1), (1_234_567, 999), (98_765_432, 240_001), (1, 1_000_000)] {
            let (now, span) = (Time::from_micros(now), Duration::from_micros(span));
            let mut bound = Bound::default();
            bound.watch(now, FlowIndex(0), span);
            let at = bound.next().unwrap();
            assert!(
                at >= now + span
                    && at <= now + span + (span / 64).min(Duration::from_micros(2_098)),
                "{at:?}"
            );
        }
        let mut bound = Bound::default();
        let (first, span) = (Time::from_millis(3_000), Duration::from_millis(240));
        (0..100).for_each(|n| bound.watch(first + span / 1_000 * n, FlowIndex(n), span));
        let mut times = Vec::new();
        while let Some((at, _)) = bound.0.pop_next(Time::MAX) {
            times.push(at);
        }
        times.dedup();
        assert!(times.len() <= 13, "{times:?}");
    }
}
