//! Random numbers: independent streams by name, and lengths and times drawn from distributions.
//!
//! Logarithm and power come from `libm`. It is written in Rust and uses no machine-specific
//! instructions, so a seed gives the same run on every machine.
//!
//! Methods of `Distribution`, whose fields are in `traffic.rs`.

use std::time::Duration;

use tidegate_core::random::Random;
use tidegate_core::{Bytes, Rate};

use crate::scenario::Distribution;

/// The number of a random stream, hashed from the kind, name and number of the object that uses it.
/// Adding objects to a scenario does not change the streams of the others.
///
/// Source: draft-eastlake-fnv, section 2 (FNV-1a, 64 bits).
pub(crate) fn stream(kind: &str, name: &str, number: u64) -> u64 {
    let bytes = kind.bytes().chain([0]).chain(name.bytes()).chain([0]).chain(number.to_le_bytes());
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, hash)
}

/// A quantity that can be drawn.
pub trait Quantity: Copy {
    /// The value as an integer, in the smallest unit.
    fn whole(self) -> u64;

    /// The inverse of [`whole`](Self::whole).
    fn of(whole: u64) -> Self;
}

impl Quantity for Bytes {
    fn whole(self) -> u64 {
        self.0
    }

    fn of(whole: u64) -> Self {
        Self(whole.max(1)) // A transfer has at least one byte.
    }
}

impl Quantity for Duration {
    fn whole(self) -> u64 {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX)
    }

    fn of(whole: u64) -> Self {
        Self::from_nanos(whole)
    }
}

impl<T: Quantity> Distribution<T> {
    /// Draws the next length or time.
    pub(crate) fn draw(&self, random: &mut Random) -> T {
        T::of(match *self {
            Self::Constant(x) => x.whole(),
            Self::Uniform(least, most) => {
                let span = most.whole().saturating_sub(least.whole());
                least.whole() + random.below(span.saturating_add(1))
            }
            Self::Exponential(mean) => rounded(-libm::log(unit(random)) * real(mean.whole())),
            Self::Pareto(mean, shape) => {
                let least = real(mean.whole()) * (shape - 1.0) / shape;
                rounded(least * libm::pow(unit(random), -1.0 / shape))
            }
            Self::Lognormal(mean, deviation) => {
                let (mean, deviation) = (real(mean.whole()), real(deviation.whole()));
                let spread = deviation / mean;
                let variance = libm::log1p(spread * spread);
                let exponent = libm::sqrt(variance) * normal(random) - variance / 2.0;
                rounded(mean * libm::exp(exponent))
            }
            Self::Weibull(mean, shape) => {
                let scale = real(mean.whole()) / libm::tgamma(1.0 + 1.0 / shape);
                rounded(scale * libm::pow(-libm::log(unit(random)), 1.0 / shape))
            }
        })
    }
}

/// A random number with the standard normal distribution.
///
/// Source: doi 10.1214/aoms/1177706645 (Box and Muller). Differs: uses only the first number of
/// each pair.
fn normal(random: &mut Random) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit(random)));
    radius * libm::cos(std::f64::consts::TAU * unit(random))
}

/// A random number above 0 and at most 1: a multiple of 2^-53, all equally likely.
fn unit(random: &mut Random) -> f64 {
    real(random.below(ONE) + 1) / real(ONE)
}

const ONE: u64 = 1 << 53;

/// Time between the first packet and packet `n`, for packets of `len` bytes at `rate`, which is not
/// zero.
pub(crate) fn spaced(n: u64, len: u32, rate: Rate) -> Duration {
    let bit_nanos = u128::from(n) * u128::from(len) * 8_000_000_000;
    Duration::from_nanos_u128(bit_nanos.div_ceil(u128::from(rate.bps())))
}

#[expect(clippy::as_conversions, reason = "what is drawn need not be exact beyond 53 bits")]
pub(crate) const fn real(whole: u64) -> f64 {
    whole as f64
}

/// The nearest integer; larger values saturate at 64 bits.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from a real number saturates"
)]
pub(crate) fn rounded(x: f64) -> u64 {
    libm::round(x) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: Distribution<Bytes>, n: u32) -> Vec<u64> {
        let mut random = Random::new(5, stream("test", "draw", 0));
        (0..n).map(|_| distribution.draw(&mut random).0).collect()
    }

    /// Catches: the mean used as the scale of Pareto or Weibull; the rate used as the mean of the
    /// exponential distribution; a lognormal distribution whose logarithm has the mean `ln(mean)`.
    #[test]
    fn means_are_the_requested_ones() {
        let n = 40_000;
        let uniform = Distribution::Uniform(Bytes(500), Bytes(1_500));
        let exponential = Distribution::Exponential(Bytes(1_000));
        let pareto = Distribution::Pareto(Bytes(1_000), 3.0);
        let lognormal = Distribution::Lognormal(Bytes(1_000), Bytes(1_500));
        let weibull = Distribution::Weibull(Bytes(1_000), 0.7);
        for distribution in [uniform, exponential, pareto, lognormal, weibull] {
            let mean = drawn(distribution, n).iter().sum::<u64>() / u64::from(n);
            assert!((980..=1_020).contains(&mean), "{distribution:?}: {mean}");
        }
    }

    /// The probability of more than three times the mean is e^-3 for the exponential distribution,
    /// and (least / 3 mean)^shape for Pareto.
    #[test]
    fn tails_have_the_right_weight() {
        let beyond =
            |distribution| drawn(distribution, 40_000).iter().filter(|x| **x > 3_000).count();
        let exponential = beyond(Distribution::Exponential(Bytes(1_000)));
        assert!((1_850..=2_130).contains(&exponential), "{exponential}"); // 1,991
        let pareto = beyond(Distribution::Pareto(Bytes(1_000), 1.5));
        assert!((1_370..=1_650).contains(&pareto), "{pareto}"); // 40,000 * (1/9)^1.5 = 1,481
    }

    /// The expected standard deviation is the given one for lognormal. For Weibull of shape 0.7, it
    /// is 1.4624 times the mean, by the gamma function. For Pareto, it is `mean / sqrt(3)` with
    /// shape 3, and `mean / sqrt(15)` with shape 5.
    ///
    /// Catches: the deviation of the length used as the deviation of its logarithm; Box and
    /// Muller's formula without its factor 2; an inverted shape.
    #[test]
    fn deviations_are_the_requested_ones() {
        let cases = [
            (Distribution::Lognormal(Bytes(10_000), Bytes(5_000)), 5_000.0),
            (Distribution::Weibull(Bytes(10_000), 0.7), 14_624.0),
            (Distribution::Weibull(Bytes(10_000), 1.0), 10_000.0),
            (Distribution::Pareto(Bytes(10_000), 5.0), 2_582.0),
        ];
        for (distribution, expected) in cases {
            let all: Vec<_> = drawn(distribution, 40_000).into_iter().map(real).collect();
            let mean = |of: &dyn Fn(f64) -> f64| all.iter().map(|x| of(*x)).sum::<f64>() / 40_000.0;
            let about = mean(&|x| x);
            let deviation = mean(&|x| (x - about).powi(2)).sqrt();
            assert!((deviation / expected - 1.0).abs() < 0.04, "{distribution:?}: {deviation}");
        }
    }

    /// The median is `least * 2^(1/shape)`, even if the variance is infinite.
    ///
    /// Catches: a wrong shape near 1.
    #[test]
    fn medians_of_pareto_are_right_for_any_shape() {
        for shape in [1.05, 1.2, 1.7, 2.2, 2.5, 8.0] {
            let mut all = drawn(Distribution::Pareto(Bytes(1_000_000), shape), 20_001);
            all.sort_unstable();
            let expected = 1e6 * (shape - 1.0) / shape * 2_f64.powf(1.0 / shape);
            assert!((real(all[10_000]) / expected - 1.0).abs() < 0.03, "{shape}: {}", all[10_000]);
        }
    }

    /// Every recorded simulation depends on these numbers. If they change, all published results
    /// change.
    #[test]
    fn the_first_numbers_of_a_seed_stay_the_same() {
        assert_eq!(
            drawn(Distribution::Exponential(Bytes(1_000_000)), 3),
            [2_276_393, 594_761, 112_631]
        );
        assert_eq!(
            drawn(Distribution::Pareto(Bytes(1_000_000), 1.5), 3),
            [1_520_414, 495_541, 359_326]
        );
    }

    #[test]
    fn random_streams_are_independent() {
        let mut all: Vec<_> = ["a", "b", "ab"]
            .iter()
            .flat_map(|name| (0..3).map(|n| stream("link", name, n)))
            .chain([stream("flow", "a", 0)])
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10);
    }

    #[test]
    fn a_rate_is_kept_exactly_in_the_long_run() {
        assert_eq!(spaced(3, 125, Rate::from_bps(3_000)), Duration::from_secs(1));
        assert_eq!(spaced(1, 125, Rate::from_bps(3_000)), Duration::from_nanos(333_333_334));
    }
}
