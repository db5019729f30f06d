//! The one shaping timer, for all aggregates, and when to sweep the flow table.
//!
//! Source: `aggregates`, section 6, R000-9: one timer for all policies, not one per flow.
//! Differs: with an interval of zero it fires exactly when the next packet conforms; the paper's
//! host could only afford a coarse one (15 ms), which is what an interval gives.

use std::time::Duration;

use crate::Time;
use crate::wheel::TimerWheel;

/// When which aggregate, by its slot, looks whether it may send, and when the flow table is swept.
pub(super) struct Timers {
    wheel: TimerWheel,
    interval: Duration,
    sweep_at: Time,
    /// Nothing is due before.
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

    /// Sees to it that the aggregate in `slot` looks at `ready_at`, or earlier.
    pub(super) fn arm(&mut self, slot: u32, ready_at: Option<Time>) {
        let Some(ready_at) = ready_at else { return };
        let at = ready_at.round_up_to(self.interval);
        if self.wheel.deadline(slot).is_none_or(|armed| at < armed) {
            self.wheel.set(slot, at);
            self.due_at = self.due_at.min(at);
        }
    }

    /// Whether something may be due now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.due_at
    }

    /// What is due now; call until `None`.
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

    /// When an aggregate is next to look.
    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }
}

/// Something to be done.
pub(super) enum Due {
    /// The aggregate in this slot is to look.
    Aggregate(u32),
    /// The flow table is to be swept: the next time in a while.
    Sweep,
}

const SWEEP_EVERY: Duration = Duration::from_millis(1);
