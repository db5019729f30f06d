//! Whether a flow responds to marks.
//!
//! A sender that responds has a smaller window three rounds after a mark. A flow that fails so four
//! times in succession ignores marks, or the marks are erased on the path.

use crate::Bytes;

/// Judgement of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Response {
    /// Window at the mark that is being judged; zero without one.
    window: u64,
    /// Rounds that have begun since.
    rounds: u8,
    /// Marks in succession without a smaller window.
    ignored: u8,
}

/// The mark is echoed in the next round, and the window is smaller in the one after. When the third
/// begins, the second is complete.
const ROUNDS: u8 = 3;

/// Marks in succession that a flow has to ignore. A window that is estimated 50 % too large at one of
/// two marks passes for a response at the other.
const IGNORED: u8 = 4;

/// Smallest window in segments that is judged: CUBIC multiplies it by 0.7 and adds two segments in two
/// rounds, which is more than six of seven segments (RFC 9438, section 4.6).
const SEGMENTS: u64 = 8;

impl Response {
    /// Notes a mark at a window of `window` bytes, of segments of `segment` bytes. Zero says that something
    /// else than the window limits the sender.
    pub(super) const fn on_mark(&mut self, window: Bytes, segment: Bytes) {
        if self.window == 0 && segment.0 > 0 && window.0 >= SEGMENTS * segment.0 {
            (self.window, self.rounds) = (window.0, 0);
        }
    }

    /// Notes that a round begins, after a round of `window` bytes.
    pub(super) fn on_round(&mut self, window: Bytes) {
        if self.window == 0 {
            return;
        }
        self.rounds += 1;
        if self.rounds == ROUNDS {
            let ignored = window.0 >= self.window;
            self.ignored = if ignored { self.ignored.saturating_add(1) } else { 0 };
            self.window = 0;
        }
    }

    /// Returns `true` if the flow ignores marks. It stays so.
    pub(super) const fn ignores(&self) -> bool {
        self.ignored >= IGNORED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes(500);

    fn after(marks: u32, window: u64, later: u64) -> bool {
        let mut response = Response::default();
        for _ in 0..marks {
            response.on_mark(SEGMENT * window, SEGMENT);
            // The round of the mark, the round of its echo, and the first with the new window.
            for window in [window, window, later] {
                response.on_round(SEGMENT * window);
            }
        }
        response.ignores()
    }

    /// Kills: a judgement before the window can be smaller; one of windows that cannot fall; one mark
    /// that condemns.
    #[test]
    fn a_flow_whose_window_does_not_fall_after_four_marks_ignores_them() {
        assert!(after(4, 10, 10) && after(4, 10, 12));
        assert!(!after(3, 10, 10) && !after(9, 10, 9) && !after(9, 8, 7) && !after(9, 2, 2));
    }
}
