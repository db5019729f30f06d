//! Waiting, always for a limited time.

use std::time::{Duration, Instant};

/// The time, for measuring how long something took.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the tests of a live gateway live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "the tests of a live gateway live in real time")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Asks again and again until there is an answer.
///
/// # Panics
///
/// If there is none within `limit`; `what` then says what was waited for.
pub fn until<T>(what: &str, limit: Duration, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} for {what}, in vain");
        pause(Duration::from_millis(10));
    }
}
