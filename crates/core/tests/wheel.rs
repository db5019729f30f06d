//! Invariants of the timer wheel for random schedules: it behaves like an ordered map of deadlines.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_core::Time;
use tidegate_core::wheel::TimerWheel;

const TIMERS: u32 = 12;

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u64),
    Cancel(u32),
    Pass(u64),
    /// Advances to the deadline that the wheel returns, as a driver does.
    PassToNext,
}

/// Time spans of all magnitudes, often equal or close together. Slots therefore have several
/// timers, and many timers share a deadline.
fn spans() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0u64..4, 3 => (0u32..40, 0u64..3).prop_map(|(bits, add)| (1 << bits) + add),
        1 => (0u32..40).prop_map(|bits| (1 << bits) - 1)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..TIMERS, spans()).prop_map(|(number, after)| Step::Set(number, after)),
        1 => (0..TIMERS).prop_map(Step::Cancel),
        2 => spans().prop_map(Step::Pass),
        2 => Just(Step::PassToNext),
    ];
    prop::collection::vec(step, 1..200)
}

/// Timers ordered by deadline. Timers with equal deadlines are in the order in which they were set.
#[derive(Default)]
struct Model {
    timers: BTreeMap<(u64, u64), u32>,
    set: u64,
}

impl Model {
    fn set(&mut self, number: u32, deadline: u64) {
        self.cancel(number);
        self.set += 1;
        self.timers.insert((deadline, self.set), number);
    }

    fn cancel(&mut self, number: u32) -> bool {
        let before = self.timers.len();
        self.timers.retain(|_, other| *other != number);
        self.timers.len() < before
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        let first = self.timers.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.timers.keys().next().map(|key| Time::from_nanos(key.0))
    }
}

proptest! {
    /// Catches: timers that move to a wrong level when time advances; time that advances into a
    /// slot whose timers have not moved; timers with equal deadlines in the wrong order; an
    /// earliest deadline that a later call does not lower.
    /// Catches: a slot with a single timer that fires before its deadline; a level that still
    /// counts as used when it is empty.
    #[test]
    fn a_wheel_is_an_ordered_map_of_deadlines(steps in steps()) {
        let (mut wheel, mut model) = (TimerWheel::new(), Model::default());
        let mut now = 0;
        for step in steps {
            match step {
                Step::Set(number, after) => {
                    wheel.set(number, Time::from_nanos(now + after));
                    model.set(number, now + after);
                }
                Step::Cancel(number) => prop_assert_eq!(wheel.cancel(number), model.cancel(number)),
                Step::Pass(_) | Step::PassToNext => {
                    let next = || wheel.next_deadline().map_or(now, Time::nanos);
                    now = if let Step::Pass(span) = step { now + span } else { next() };
                    loop {
                        let fired = wheel.pop(Time::from_nanos(now));
                        prop_assert_eq!(fired, model.pop(now));
                        if fired.is_none() {
                            break;
                        }
                    }
                    prop_assert!(wheel.next_deadline().is_none_or(|next| next.nanos() > now));
                }
            }
            let (early, exact) = (wheel.next_deadline(), model.next_deadline());
            prop_assert_eq!(early.is_some(), exact.is_some());
            prop_assert!(early <= exact, "{early:?} is later than {exact:?}");
        }
    }

    /// Without cancellations, the wheel returns exactly the next deadline.
    ///
    /// Catches: the start of a slot returned in place of its earliest deadline.
    #[test]
    fn the_next_deadline_is_exact(spans in prop::collection::vec(spans(), 1..50)) {
        let mut wheel = TimerWheel::new();
        let mut earliest = u64::MAX;
        for (number, span) in (0..).zip(spans) {
            wheel.set(number, Time::from_nanos(span));
            earliest = earliest.min(span);
            prop_assert_eq!(wheel.next_deadline(), Some(Time::from_nanos(earliest)));
        }
    }
}
