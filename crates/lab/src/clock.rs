//! A clock for code that runs in real time: traffic generators, and code that waits for processes.

use std::time::{Duration, Instant, SystemTime};

/// Time since the clock was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts a clock at zero.
    #[expect(clippy::disallowed_methods, reason = "processes and real traffic live in real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Sleeps for `span`.
    #[expect(clippy::disallowed_methods, reason = "processes and real traffic live in real time")]
    pub fn rest(span: Duration) {
        std::thread::sleep(span);
    }
}

/// Time since the beginning of 1970, according to the host's clock.
#[expect(clippy::disallowed_methods, reason = "reports to others carry the date")]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
