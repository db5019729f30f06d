//! The only shaping timer, for all aggregates, and the timer of sweeps of the flow table.
//!
//! Source: `aggregates`, section 6, R000-9: one timer for all policies, not one per flow.
//! Differs: with an interval of zero it expires exactly when the next packet conforms. The paper's
//! host could only afford a coarse timer (15 ms). An interval has the same effect.

use std::time::Duration;

use crate::Time;
use crate::wheel::TimerWheel;

/// Deadlines of aggregates, by slot, and of the next sweep of the flow table.
pub(super) struct Timers {
    wheel: TimerWheel,
    interval: Duration,
    sweep_at: Time,
    /// No timer expires earlier.
    due_at: Time,
}

impl Timers {
    pub(super) fn new(interval: Duration, now: Time) -> Self {
        let sweep_at = now + SWEEP_EVERY;
        Self { wheel: TimerWheel::new(), interval, sweep_at, due_at: sweep_at }
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
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.due_at
    }

    /// The next expired timer. Call this until it returns `None`.
    pub(super) fn due(&mut self, now: Time) -> Option<Due> {
        let due = self.wheel.pop(now).map(Due::Aggregate).or_else(|| {
            let due = self.sweep_at <= now;
            if due {
                self.sweep_at = now + SWEEP_EVERY;
            }
            due.then_some(Due::Sweep)
        });
        if due.is_none() {
            self.due_at =
                self.wheel.next_deadline().map_or(self.sweep_at, |at| at.min(self.sweep_at));
        }
        due
    }

    /// Time of the next check of an aggregate.
    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }
}

/// An expired timer.
pub(super) enum Due {
    /// The aggregate in this slot must check its packets.
    Aggregate(u32),
    /// A sweep of the flow table is due. The timer is set again.
    Sweep,
}

const SWEEP_EVERY: Duration = Duration::from_millis(1);
