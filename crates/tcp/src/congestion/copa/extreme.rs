//! The least or the greatest of recent durations.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_base::Time;

/// Durations that may still become the least (or the greatest) one, the oldest first.
#[derive(Default)]
pub(super) struct Extreme {
    seen: VecDeque<(Time, Duration)>,
}

impl Extreme {
    /// Adds the value of `now`, and forgets values older than `oldest`. `beats` returns `true` if
    /// its first argument is more extreme. All calls must pass the same function as `beats`.
    pub(super) fn push(
        &mut self,
        now: Time,
        value: Duration,
        oldest: Time,
        beats: fn(&Duration, &Duration) -> bool,
    ) {
        while self.seen.back().is_some_and(|(_, it)| !beats(it, &value)) {
            self.seen.pop_back();
        }
        self.seen.push_back((now, value));
        while self.seen.len() > 1 && self.seen.front().is_some_and(|(at, _)| *at < oldest) {
            self.seen.pop_front();
        }
    }

    /// The least (or the greatest) of the remembered values.
    pub(super) fn get(&self) -> Option<Duration> {
        self.seen.front().map(|it| it.1)
    }
}
