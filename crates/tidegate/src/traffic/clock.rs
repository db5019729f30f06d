//! The clock of a traffic generator.

use std::time::{Duration, Instant};

/// Time since the generator began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "a generator of real traffic lives in real time")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    #[expect(clippy::disallowed_methods, reason = "a generator of real traffic lives in real time")]
    pub(super) fn rest(span: Duration) {
        std::thread::sleep(span);
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
