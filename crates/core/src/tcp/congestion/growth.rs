//! How the window of Reno and its relatives grows with what is acknowledged.

use serde::Deserialize;

use super::{Ack, Window};

/// What is counted for the growth of a window.
///
/// Source: RFC 5681, section 3.1; RFC 3465, section 2.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Counting {
    /// Each ACK counts for one segment, whatever it covers: with delayed ACKs the window grows half
    /// as fast (RFC 5681, equations 2 and 3; ns-2).
    Acks,
    /// Each ACK counts for the bytes it covers (appropriate byte counting, RFC 3465).
    Bytes {
        /// The most segments that one ACK may add in slow start: L of RFC 3465. Linux has no limit.
        limit: u32,
        /// The same in the slow start after a timeout: RFC 3465 wants 1.
        after_timeout: u32,
    },
}

impl Counting {
    /// What RFC 3465 recommends: at most two segments for an ACK, one after a timeout.
    pub const RFC: Self = Self::Bytes { limit: 2, after_timeout: 1 };

    /// What Linux does: an ACK adds all that it covers.
    pub const LINUX: Self = Self::Bytes { limit: u32::MAX, after_timeout: u32::MAX };
}

/// Slow start and congestion avoidance, and what they carry from one ACK to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    counting: Counting,
    /// Counting bytes: those acknowledged towards the next segment. Counting ACKs: what is short of
    /// a byte, times the window.
    carried: u64,
    after_timeout: bool,
}

impl Growth {
    pub(super) fn new(counting: Counting) -> Self {
        Self { counting, carried: 0, after_timeout: false }
    }

    /// Slow start below the threshold, one segment per window above it.
    pub(super) fn advance(&mut self, window: &mut Window, ack: &Ack) {
        let rest =
            if window.in_slow_start() { self.slow_start(window, ack.bytes) } else { ack.bytes };
        if rest > 0 {
            self.avoid(window, rest);
        }
    }

    /// Exponential growth; returns the bytes that were acknowledged beyond the threshold.
    pub(super) fn slow_start(&mut self, window: &mut Window, bytes: u64) -> u64 {
        let Some(most) = self.limit(window.segment) else {
            window.congestion += bytes.min(window.segment);
            return 0;
        };
        let counted = bytes.min(most);
        let below = window.threshold.saturating_sub(window.congestion).min(counted);
        window.congestion += below;
        counted - below
    }

    /// Linear growth: one segment for each window of `bytes` acknowledged.
    pub(super) fn avoid(&mut self, window: &mut Window, bytes: u64) {
        self.after_timeout = false;
        let per_window = window.congestion.max(1);
        match self.counting {
            Counting::Acks => {
                self.carried += window.segment * window.segment;
                window.congestion += self.carried / per_window;
                self.carried %= per_window;
            }
            Counting::Bytes { .. } => {
                self.carried += bytes;
                if self.carried >= per_window {
                    self.carried -= per_window;
                    window.congestion += window.segment;
                }
            }
        }
    }

    /// Begins anew after a reduction.
    pub(super) fn restart(&mut self, after_timeout: bool) {
        self.carried = 0;
        self.after_timeout = after_timeout;
    }

    /// The most bytes that one ACK may add in slow start, if bytes are counted.
    fn limit(&self, segment: u64) -> Option<u64> {
        match self.counting {
            Counting::Acks => None,
            Counting::Bytes { after_timeout, .. } if self.after_timeout => {
                Some(u64::from(after_timeout) * segment)
            }
            Counting::Bytes { limit, .. } => Some(u64::from(limit) * segment),
        }
    }
}
