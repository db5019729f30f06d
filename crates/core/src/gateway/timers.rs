//! The one shaping timer, for all aggregates, and when to sweep the flow table.
//!
//! Source: `aggregates`, section 6, R000-9: one timer for all policies, not one per flow.
//! Differs: with an interval of zero it fires exactly when the next packet conforms; the paper's
//! host could only afford a coarse one (15 ms), which is what an interval gives.

use std::time::Duration;

use crate::Time;
use crate::wheel::TimerWheel;

/// When which aggregate, by its slot, looks whether it may send.
pub(super) struct Timers {
    wheel: TimerWheel,
    interval: Duration,
    sweep_at: Time,
}

impl Timers {
    pub(super) fn new(interval: Duration, now: Time) -> Self {
        Self { wheel: TimerWheel::new(), interval, sweep_at: now + SWEEP_EVERY }
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
        }
    }

    /// The slot of an aggregate that is to look now; call until `None`.
    pub(super) fn due(&mut self, now: Time) -> Option<u32> {
        self.wheel.pop(now)
    }

    /// Whether the flow table is to be swept now; then not again for a while.
    pub(super) fn sweep_due(&mut self, now: Time) -> bool {
        let due = self.sweep_at <= now;
        if due {
            self.sweep_at = now + SWEEP_EVERY;
        }
        due
    }

    /// When an aggregate is next to look.
    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }
}

const SWEEP_EVERY: Duration = Duration::from_millis(1);
