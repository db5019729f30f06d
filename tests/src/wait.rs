//! Waits with a time limit.

use std::time::{Duration, Instant};

/// The current time, for durations.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the tests of a live gateway live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits for `duration`.
#[expect(clippy::disallowed_methods, reason = "the tests of a live gateway live in real time")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Calls `answer` repeatedly until it returns a value.
///
/// # Panics
///
/// If no value was returned within `limit`. The message contains `event`.
pub fn until<T>(event: &str, limit: Duration, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {event}, in vain");
        pause(Duration::from_millis(10));
    }
}
