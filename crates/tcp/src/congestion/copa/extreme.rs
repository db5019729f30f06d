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
    /// Adds the value of `now`, and forgets values from before `from`. `beats` returns `true` if its first
    /// argument is more extreme. It is the same in every call.
    pub(super) fn push(
        &mut self,
        now: Time,
        value: Duration,
        from: Time,
        beats: fn(&Duration, &Duration) -> bool,
    ) {
        while self.seen.back().is_some_and(|(_, it)| !beats(it, &value)) {
            self.seen.pop_back();
        }
        self.seen.push_back((now, value));
        while self.seen.len() > 1 && self.seen.front().is_some_and(|(at, _)| *at < from) {
            self.seen.pop_front();
        }
    }

    /// The least (or the greatest) of the remembered values.
    pub(super) fn get(&self) -> Option<Duration> {
        self.seen.front().map(|it| it.1)
    }
}
