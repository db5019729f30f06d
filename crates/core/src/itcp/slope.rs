//! The slope of a queue: a line through its samples, by the method of least squares.
//!
//! Let `x` be the times and `y` the queue lengths of `n` samples. Then
//! `slope = (n sum xy - sum x sum y) / (n sum xx - (sum x)^2)`. The denominator is positive.
//!
//! Source: `itcp`, section 4 (least squares).
//!
//! Differs: `x` is the true time of each sample, not its number. So late samples do not change the slope.

use std::cmp::Ordering;
use std::time::Duration;

use crate::time::nanos;

/// Sums over the samples, with times in nanoseconds and queue lengths in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct LeastSquares {
    count: u32,
    x: i128,
    y: i128,
    xx: i128,
    xy: i128,
}

impl LeastSquares {
    pub(super) fn add(&mut self, at: Duration, bytes: u64) {
        let (x, y) = (i128::from(nanos(at)), i128::from(bytes.min(LONGEST_QUEUE)));
        self.count += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The mean queue length in bytes, rounded down.
    pub(super) fn mean(&self) -> u64 {
        u64::try_from(self.y / i128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// The sign of the exact slope: `Greater` if the queue grew.
    pub(super) fn trend(&self) -> Ordering {
        self.parts().0.cmp(&0)
    }

    /// The slope in bytes per second, rounded towards zero.
    pub(super) fn slope(&self) -> i64 {
        let (mut numerator, mut denominator) = self.parts();
        // If the product does not fit into 128 bits, both numbers are halved. At least 97 bits of the numerator remain.
        while numerator.checked_mul(NANOS_PER_SECOND).is_none() {
            numerator /= 2;
            denominator /= 2;
        }
        let slope = numerator * NANOS_PER_SECOND / denominator.max(1);
        i64::try_from(slope).unwrap_or(if slope < 0 { i64::MIN } else { i64::MAX })
    }

    fn parts(&self) -> (i128, i128) {
        let count = i128::from(self.count);
        (count * self.xy - self.x * self.y, count * self.xx - self.x * self.x)
    }
}

/// A longer queue counts as 1 PiB. So the sums of 10,000 samples in four days fit into 128 bits.
const LONGEST_QUEUE: u64 = 1 << 50;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(samples: &[(u64, u64)]) -> LeastSquares {
        let mut line = LeastSquares::default();
        for (millis, bytes) in samples {
            line.add(Duration::from_millis(*millis), *bytes);
        }
        line
    }

    /// Catches: a formula without the terms `sum x sum y` and `(sum x)^2`; the mean of the slopes
    /// between neighbouring samples; the numbers of the samples used as times.
    #[test]
    fn slopes_agree_with_hand_calculations() {
        // Samples on a line: 2,000 bytes more each 500 ms.
        let rising = line(&[(500, 1_000), (1_000, 3_000), (1_500, 5_000), (2_000, 7_000)]);
        assert_eq!(
            (rising.slope(), rising.trend(), rising.mean()),
            (4_000, Ordering::Greater, 4_000)
        );
        // Samples near a line: x = 1, 2, 3 and y = 1, 5, 3: (3 * 20 - 6 * 9) / (3 * 14 - 36) = 1.
        assert_eq!(line(&[(1_000, 1), (2_000, 5), (3_000, 3)]).slope(), 1);
        // Samples at unequal times: x = 0, 1, 4 and y = 0, 2, 2: (3 * 10 - 5 * 4) / (3 * 17 - 25) = 10 / 26.
        assert_eq!(line(&[(0, 0), (1_000, 2_600), (4_000, 2_600)]).slope(), 500);
        let flat = line(&[(1, 7), (2, 7), (3, 7)]);
        assert_eq!((flat.slope(), flat.trend()), (0, Ordering::Equal));
    }

    /// Catches: a trend that is the sign of the rounded slope. The rounded slope is zero here.
    #[test]
    fn a_slope_below_one_byte_per_second_has_a_sign() {
        let falling = line(&[(0, 1), (500_000, 0), (1_000_000, 0)]);
        assert_eq!((falling.slope(), falling.trend()), (0, Ordering::Less));
    }

    /// Catches: sums that overflow 64 bits; queue lengths without a bound.
    #[test]
    fn the_longest_round_with_the_longest_queue_does_not_overflow() {
        let mut line = LeastSquares::default();
        for sample in 0..10_000_u32 {
            line.add(Duration::from_secs(35) * sample, if sample < 5_000 { 0 } else { u64::MAX });
        }
        // The queue steps up in the middle of the round. The slope is 1.5 times the step, divided by the length of the
        // round.
        let expected = 1.5 * 2_f64.powi(50) / 350_000.0;
        let slope = i128::from(line.slope());
        let expected = format!("{expected:.0}").parse::<i128>().unwrap();
        assert!((slope - expected).abs() * 1_000 < expected, "{slope} {expected}");
    }

    proptest! {
        /// Catches: a slope that depends on the start time of the round, or on a constant part of the queue.
        #[test]
        fn the_slope_of_a_line_is_exact_for_all_sample_times(
            slope in 0_u64..1_000_000,
            from in 0_u64..1_000_000_000,
            gaps in proptest::collection::vec(1_u64..5_000, 3..50),
        ) {
            let mut millis = 0;
            let samples = gaps.iter().map(|gap| {
                millis += gap;
                (millis, from + slope * 1_000 * millis)
            });
            prop_assert_eq!(line(&samples.collect::<Vec<_>>()).slope(), i64::try_from(slope * 1_000_000).unwrap());
        }
    }
}
