//! Shows the progress of a simulation on the terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use tidegate_core::units::duration;
use tidegate_sim::Progress;

use crate::clock::Clock;

/// A progress bar on stderr, redrawn in place. It is drawn only on a terminal.
pub(super) struct Bar {
    live: bool,
    clock: Clock,
    /// Time at which the bar is drawn next. A run that ends earlier draws no bar.
    next: Duration,
}

/// Interval between two drawings.
const STEP: Duration = Duration::from_millis(100);

/// Width of the bar in characters.
const WIDTH: usize = 40;

impl Bar {
    pub(super) fn new() -> Self {
        Self { live: stderr().is_terminal(), clock: Clock::start(), next: STEP }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let now = self.clock.elapsed();
        if self.live && now >= self.next {
            self.next = now + STEP;
            write_text(&format!("\r{}", line(progress)));
        }
    }

    /// Removes the bar from the terminal.
    pub(super) fn clear(&self) {
        if self.next > STEP {
            write_text("\r\x1b[K");
        }
    }
}

/// Writes to stderr. Errors are ignored.
fn write_text(text: &str) {
    let mut out = stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn line(Progress { now, end, .. }: Progress) -> String {
    let (now, whole) = (now.as_millis(), end.as_millis().max(1));
    let done = usize::try_from(now * 40 / whole).unwrap_or(WIDTH).min(WIDTH);
    let (full, empty) = ("#".repeat(done), "-".repeat(WIDTH - done));
    let (percent, tenths) = (now * 100 / whole, now / 100);
    let (now, end) = (format!("{}.{}", tenths / 10, tenths % 10), duration::show(end));
    format!("[{full}{empty}] {percent:>3} %  {now} s of {end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_with_the_time_that_has_passed() {
        let line = |ms| {
            let now = Duration::from_millis(ms);
            line(Progress { now, end: Duration::from_secs(20), events: 0, packets: 0 })
        };
        assert_eq!(line(0), format!("[{}]   0 %  0.0 s of 20 s", "-".repeat(40)));
        assert_eq!(
            line(15_500),
            format!("[{}{}]  77 %  15.5 s of 20 s", "#".repeat(31), "-".repeat(9))
        );
        assert_eq!(line(20_000), format!("[{}] 100 %  20.0 s of 20 s", "#".repeat(40)));
    }
}
