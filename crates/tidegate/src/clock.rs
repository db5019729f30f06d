//! The clock of everything here that lives in real time: generators of traffic, and those who wait for
//! processes.

use std::time::{Duration, Instant, SystemTime};

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// A clock at zero.
    #[expect(clippy::disallowed_methods, reason = "processes and real traffic live in real time")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// How long ago that was.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Lets `span` go by.
    #[expect(clippy::disallowed_methods, reason = "processes and real traffic live in real time")]
    pub(crate) fn rest(span: Duration) {
        std::thread::sleep(span);
    }
}

/// Time since the beginning of 1970, as this host has it.
#[expect(clippy::disallowed_methods, reason = "reports to others carry the date")]
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
