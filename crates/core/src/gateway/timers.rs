//! The one shaping timer, for all aggregates, and when to sweep the flow table.
//!
//! Source: `aggregates`, section 6, R000-9: one timer for all policies, not one per flow.
//! Differs: with an interval of zero it fires exactly when the next packet conforms; the paper's
//! host could only afford a coarse one (15 ms), which is what an interval gives. What lets no data
//! leave, but ACKs, may be later by a slack, as who waits exactly for it waits awake.

use std::time::Duration;

use crate::Time;
use crate::aggregate::Ready;
use crate::wheel::TimerWheel;

/// When which aggregate, by its slot, looks whether it may send, and when the flow table is swept.
pub(super) struct Timers {
    /// An aggregate is in one of these: there if data may leave, here if it is to look for anything else.
    patient: TimerWheel,
    exact: TimerWheel,
    slack: Duration,
    interval: Duration,
    sweep_at: Time,
    /// Nothing is due before.
    due_at: Time,
}

impl Timers {
    pub(super) fn new(interval: Duration, now: Time) -> Self {
        let sweep_at = now + SWEEP_EVERY;
        let (patient, exact) = (TimerWheel::new(), TimerWheel::new());
        Self { patient, exact, slack: Duration::ZERO, interval, sweep_at, due_at: sweep_at }
    }

    pub(super) const fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// What need not be exact may be so late from now on.
    pub(super) const fn set_slack(&mut self, slack: Duration) {
        self.slack = slack;
    }

    /// Sees to it that the aggregate in `slot` looks when it is `ready`, or earlier.
    pub(super) fn arm(&mut self, slot: u32, ready: Ready) {
        let exact = ready.exact.map(|at| at.round_up_to(self.interval));
        let patient = ready.patient.map(|at| at.round_up_to(self.interval));
        match (exact, patient) {
            // Data that leaves soon is time enough.
            (Some(at), late) if late.is_none_or(|late| at <= late + self.slack) => {
                self.arm_exact(slot, at);
            }
            (_, Some(at)) => self.arm_patient(slot, at),
            _ => {}
        }
    }

    fn arm_exact(&mut self, slot: u32, at: Time) {
        if self.exact.deadline(slot).is_some_and(|armed| armed <= at)
            || self.patient.deadline(slot).is_some_and(|armed| armed + self.slack < at)
        {
            return;
        }
        self.patient.cancel(slot);
        self.exact.set(slot, at);
        self.due_at = self.due_at.min(at);
    }

    fn arm_patient(&mut self, slot: u32, at: Time) {
        if self.exact.deadline(slot).is_some_and(|armed| armed <= at + self.slack)
            || self.patient.deadline(slot).is_some_and(|armed| armed <= at)
        {
            return;
        }
        self.exact.cancel(slot);
        self.patient.set(slot, at);
        self.due_at = self.due_at.min(at);
    }

    /// Whether something may be due now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.due_at
    }

    /// What is due now; call until `None`.
    pub(super) fn due(&mut self, now: Time) -> Option<Due> {
        let next = |wheel: &TimerWheel| wheel.next_deadline().unwrap_or(Time::MAX);
        let patient_first = next(&self.patient) < next(&self.exact);
        let (patient, exact) = (&mut self.patient, &mut self.exact);
        let (first, second) = if patient_first { (patient, exact) } else { (exact, patient) };
        let pop = |wheel: &mut TimerWheel| if next(wheel) <= now { wheel.pop(now) } else { None };
        let slot = pop(first).or_else(|| pop(second));
        let due = slot.map(Due::Aggregate).or_else(|| {
            let due = self.sweep_at <= now;
            if due {
                self.sweep_at = now + SWEEP_EVERY;
            }
            due.then_some(Due::Sweep)
        });
        if due.is_none() {
            let next = Time::earliest(self.patient.next_deadline(), self.exact.next_deadline());
            self.due_at = next.map_or(self.sweep_at, |at| at.min(self.sweep_at));
        }
        due
    }

    /// When an aggregate is next to look at the latest, for data and for anything else.
    pub(super) fn next(&self) -> Ready {
        let patient = self.patient.next_deadline().map(|at| at + self.slack);
        Ready { exact: self.exact.next_deadline(), patient }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const SLACK: Duration = Duration::from_millis(5);

    fn timers() -> Timers {
        let mut timers = Timers::new(Duration::ZERO, Time::ZERO);
        timers.set_slack(SLACK);
        timers
    }

    fn exact(ms: u64) -> Ready {
        Ready { exact: Some(MS(ms)), patient: None }
    }

    fn patient(ms: u64) -> Ready {
        Ready { exact: None, patient: Some(MS(ms)) }
    }

    /// Kills: slack for data; an exact time for what is patient; data late by who is patient.
    #[test]
    fn data_is_in_time_and_all_else_within_its_slack() {
        let next = |armed: &[Ready]| {
            let mut timers = timers();
            armed.iter().for_each(|ready| timers.arm(1, *ready));
            let Ready { exact, patient } = timers.next();
            (exact.map(Time::nanos), patient.map(Time::nanos))
        };
        let both = |at, late| Ready { exact: Some(MS(at)), patient: Some(MS(late)) };
        let (at, late) = (|ms| (Some(MS(ms).nanos()), None), |ms| (None, Some(MS(ms).nanos())));
        assert_eq!(next(&[exact(20)]), at(20));
        assert_eq!(next(&[patient(20)]), late(25));
        assert_eq!(next(&[both(24, 20)]), at(24), "it waits for the data");
        assert_eq!(next(&[both(26, 20)]), late(25), "it does not wait so long");
        assert_eq!(next(&[patient(20), exact(24)]), at(24));
        assert_eq!(next(&[patient(20), exact(26)]), late(25));
        assert_eq!(next(&[exact(24), patient(20)]), at(24));
        assert_eq!(next(&[exact(26), patient(20)]), late(25));
    }

    /// Kills: the later wheel first; what is patient left until its slack is over.
    #[test]
    fn who_looks_early_finds_all_that_is_due_in_its_order() {
        let mut timers = timers();
        for ready in [(1, patient(20)), (2, exact(21)), (3, patient(22)), (4, patient(23))] {
            timers.arm(ready.0, ready.1);
        }
        assert_eq!(due(&mut timers, MS(22)), [1, 2, 3]);
        // Before the first sweep.
        let (mut timers, at) = (self::timers(), Time::from_micros(200));
        timers.arm(1, Ready { exact: None, patient: Some(at) });
        assert!(!timers.is_due(Time::from_micros(199)) && timers.is_due(at));
    }

    fn due(timers: &mut Timers, now: Time) -> Vec<u32> {
        let slot = |due| match due {
            Due::Aggregate(slot) => Some(slot),
            Due::Sweep => None,
        };
        std::iter::from_fn(|| timers.due(now)).filter_map(slot).collect()
    }
}
