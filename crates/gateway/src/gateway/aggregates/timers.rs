//! The shaping timer. It expires when an aggregate has enough tokens for its next packet. One timer serves
//! all aggregates.
//!
//! Source: `aggregates`, section 6, R000-9: one timer for all policies, not one per flow.
//! Differs: the paper's timer expires every 15 ms, as its host could not afford more. Here the timer expires exactly when
//! the next packet conforms. With an interval in the configuration, it expires at multiples of the interval.

use std::time::Duration;

use tidegate_core::Time;
use tidegate_core::wheel::TimerWheel;

/// Deadlines of aggregates, by slot.
pub(super) struct Timers {
    wheel: TimerWheel,
    interval: Duration,
    /// No timer expires earlier.
    due_at: Time,
}

impl Timers {
    pub(super) fn new(interval: Duration) -> Self {
        Self { wheel: TimerWheel::new(), interval, due_at: Time::MAX }
    }

    pub(super) const fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Lets the aggregate in `slot` check its packets at `ready_at`, or earlier.
    pub(super) fn arm(&mut self, slot: u32, ready_at: Option<Time>) {
        let Some(ready_at) = ready_at else { return };
        let at = ready_at.round_up_to(self.interval);
        if self.wheel.deadline(slot).is_none_or(|armed| at < armed) {
            self.wheel.set(slot, at);
            self.due_at = self.due_at.min(at);
        }
    }

    /// Returns `true` if a timer may have expired.
    #[inline]
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.due_at
    }

    /// The slot of the next aggregate whose timer has expired. Call this until it returns `None`.
    pub(super) fn due(&mut self, now: Time) -> Option<u32> {
        let due = self.wheel.pop(now);
        if due.is_none() {
            self.due_at = self.wheel.next_deadline().unwrap_or(Time::MAX);
        }
        due
    }

    /// Time of the next check of an aggregate.
    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }
}
