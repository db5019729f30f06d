//! NewReno as in the simulations of the papers.
//!
//! Law: each ACK adds one segment below the threshold and `1 / cwnd` segments above it. This is one
//! segment per round trip if every segment is acknowledged. A loss or ECN-Echo halves the window. A
//! timeout sets the threshold to half of the window, in whole segments.
//!
//! Source: `aggregates`, section 2.2 (slow start from one segment, +1 per round trip, halving);
//! ns-2 2.35, `tcp.cc` (`opencwnd`, `slowdown` with `precision_reduce_`). The fast recovery that
//! gave NewReno its name (RFC 6582) is a part of the sender.
//! Differs: the window is kept in bytes, and fractions of a byte in units of 2^-32; ns-2 has reals.

use tidegate_base::Time;
use tidegate_base::parameters;

use super::{Ack, CongestionControl, Counting, Signal, Window};

parameters! {
    /// No parameters, because the papers print none.
    pub Config {}
}

impl Config {
    /// Counts ACKs, regardless of the profile.
    pub(super) fn build(&self, _counting: Counting) -> NewReno {
        NewReno { fraction: 0 }
    }
}

pub(super) struct NewReno {
    /// The window's fraction of a byte, in units of 2^-32.
    fraction: u64,
}

impl NewReno {
    /// Grows by a segment for each window of ACKs.
    fn avoid(&mut self, window: &mut Window) {
        let exact = (u128::from(window.congestion.max(1)) << 32) + u128::from(self.fraction);
        let square = u128::from(window.segment) * u128::from(window.segment);
        let grown = exact + (square << 64) / exact;
        window.congestion = u64::try_from(grown >> 32).unwrap_or(u64::MAX);
        self.fraction = u64::try_from(grown & FRACTION).unwrap_or(0);
    }
}

/// Mask of the fraction of a byte.
const FRACTION: u128 = (1 << 32) - 1;

impl CongestionControl for NewReno {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if !ack.may_grow {
            return;
        }
        if window.in_slow_start() {
            window.congestion += ack.bytes.min(window.segment);
        } else {
            self.avoid(window);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        let left = match signal {
            Signal::Loss | Signal::Echo => flight / 2,
            Signal::Timeout { .. } => flight / 2 / window.segment * window.segment,
        };
        self.fraction = match signal {
            Signal::Loss | Signal::Echo if flight == window.congestion && left >= window.floor => {
                // Half of an odd byte, and half of the fraction.
                (((flight % 2) << 32) | self.fraction) / 2
            }
            _ => 0,
        };
        window.threshold = left.max(window.floor);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SEGMENT, acknowledged, equation_3, real, rounds, window};
    use super::*;

    fn newreno() -> NewReno {
        Config {}.build(Counting::LINUX)
    }

    #[test]
    fn an_ack_counts_once_for_any_number_of_bytes() {
        let mut window = window(1, 3 * SEGMENT);
        let mut newreno = newreno();
        let mut sizes = Vec::new();
        for _ in 0..5 {
            newreno.on_ack(&mut window, &acknowledged(4 * SEGMENT));
            sizes.push(window.congestion);
        }
        // The window in segments is 1, 2, 3, then +1/3, and + 1/(10/3) = 3/10, and + 1/(109/30) =
        // 30/109.
        let thirds = 10 * SEGMENT / 3;
        let tenths = 109 * SEGMENT / 30;
        assert_eq!(sizes[..2], [2 * SEGMENT, 3 * SEGMENT]);
        assert_eq!(sizes[2..4], [thirds, tenths]);
        assert!(sizes[4].abs_diff(tenths + 30 * SEGMENT / 109) <= 1, "{}", sizes[4]);
    }

    #[test]
    fn halving_is_exact_after_a_loss_and_in_segments_after_a_timeout() {
        // ns-2 keeps half of the window as a real, and half as an integer for the threshold. A
        // repeated timeout halves again.
        // Catches: a window that is rounded to segments in every case; a threshold that a repeated
        // timeout does not halve.
        let flight = 15 * SEGMENT;
        let timeout = |again| Signal::Timeout { again };
        for (signal, expected) in [
            (Signal::Loss, flight / 2),
            (Signal::Echo, flight / 2),
            (timeout(false), 7 * SEGMENT),
            (timeout(true), 7 * SEGMENT),
        ] {
            let mut window = window(15, 40 * SEGMENT);
            newreno().on_signal(Time::ZERO, &mut window, flight, signal);
            assert_eq!(window.threshold, expected, "{signal:?}");
        }
    }

    #[test]
    fn it_adds_a_segment_per_round_trip() {
        let mut window = window(20, 0);
        let sizes = rounds(&mut newreno(), &mut window, 20, 1);
        // Catches: a fraction that is not carried to the next ACK.
        let exact = equation_3(20, 20);
        assert!((38.5..=40.0).contains(&exact), "{exact}");
        assert!((real(sizes[19]) / real(SEGMENT) - exact).abs() < 0.02, "{}", sizes[19]);
    }
}
