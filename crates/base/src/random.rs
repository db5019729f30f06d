//! Seeded random numbers. They are the same on every machine, and each component has its own
//! sequence.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg32;

use crate::Chance;

/// A source of random numbers for one component.
///
/// ```
/// use tidegate_base::random::Random;
///
/// let draws = |component| {
///     let mut random = Random::new(7, component);
///     [(); 4].map(|()| random.below(100))
/// };
/// // A seed yields the same numbers in every run, and each component has its own.
/// assert_eq!(draws(0), draws(0));
/// assert_ne!(draws(0), draws(1));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Random(Pcg32);

impl Random {
    /// The sequence of component number `component` in a run with the seed `seed`.
    ///
    /// Components are independent: draws of one component do not change the numbers of others.
    #[must_use]
    #[inline]
    pub fn new(seed: u64, component: u64) -> Self {
        // PCG generators with similar states or streams would be correlated, so the bits are mixed
        // first.
        let state = mixed(seed ^ mixed(component));
        Self(Pcg32::new(state, mixed(state)))
    }

    /// The sequence of the component `name` in a run with the seed `seed`. Names suit components
    /// that are created during a run.
    #[must_use]
    #[inline]
    pub fn named(seed: u64, name: &[&str]) -> Self {
        // A separator that is no byte ends each part, so `["ab", "c"]` and `["a", "bc"]` differ.
        let bytes = name.iter().flat_map(|part| part.bytes().map(u64::from).chain([u64::MAX]));
        Self::new(seed, bytes.fold(0, |so_far, byte| mixed(so_far ^ byte)))
    }

    /// Returns `true` with probability `chance`.
    #[inline]
    pub fn happens(&mut self, chance: Chance) -> bool {
        match chance.ppb() {
            0 => false,
            ppb => self.below(1_000_000_000) < u64::from(ppb),
        }
    }

    /// A uniform random integer from 0 to `n - 1`. Zero if `n` is zero.
    ///
    /// Source: doi 10.1145/3230636, algorithm 5 (a multiplication in place of a division, with
    /// rejection).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let unfair = if n == 0 { 0 } else { n.wrapping_neg() % n };
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(n);
            let (high, low) = halves(product);
            if low >= unfair {
                return high;
            }
        }
    }

    /// A uniform real number in [0, 1): a multiple of 2^-53.
    #[expect(clippy::as_conversions, reason = "53 bits are what a real holds exactly")]
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const UNIT: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * UNIT
    }

    /// A uniform number of nanoseconds from `-span` to `span`.
    #[inline]
    pub fn uniform(&mut self, span: Duration) -> i64 {
        let span = whole_nanos(span);
        signed(self.below(2 * span + 1)) - signed(span)
    }

    /// A random number of nanoseconds, almost normally distributed around zero with the standard
    /// deviation `deviation`.
    ///
    /// It is the sum of twelve uniform numbers, whose variance is 1 (Irwin-Hall distribution). Its
    /// magnitude is at most six deviations. The computation needs only integers.
    #[inline]
    pub fn normal(&mut self, deviation: Duration) -> i64 {
        let sum: u64 = (0..12).map(|_| u64::from(self.0.next_u32())).sum();
        let around_zero = i128::from(sum) - 6 * (1i128 << 32);
        let nanos = (around_zero * i128::from(whole_nanos(deviation))) >> 32;
        i64::try_from(nanos).unwrap_or(0)
    }
}

/// The longest deviation or span. Six times this value fits into 63 bits.
const LONGEST: u64 = 1 << 60;

#[inline]
fn whole_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(LONGEST).min(LONGEST)
}

#[inline]
fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

/// The upper and the lower 64 bits of `product`.
#[expect(clippy::as_conversions, reason = "the lower half is meant to lose the upper one")]
#[inline]
pub const fn halves(product: u128) -> (u64, u64) {
    ((product >> 64) as u64, product as u64)
}

/// Mixes the bits of `x`: each bit of the result depends on all bits of `x`.
///
/// Source: SplitMix64 (doi 10.1145/2714064.2660195), one step.
#[inline]
pub const fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All recorded runs depend on this sequence. A new version of the generator's crate must not
    /// change it unnoticed.
    #[test]
    fn the_recorded_sequence_is_reproduced() {
        let mut random = Random::new(1, 2);
        let drawn: Vec<_> = (0..4).map(|_| random.below(1_000_000)).collect();
        assert_eq!(drawn, [215_771, 963_794, 918_995, 301_050]);
        assert_eq!(random.uniform(Duration::from_millis(1)), 677_905);
        assert_eq!(random.normal(Duration::from_millis(1)), 588198);
    }

    #[test]
    fn components_and_seeds_draw_differently() {
        let first = |seed, component| Random::new(seed, component).below(u64::MAX);
        let mut drawn: Vec<_> =
            (0..10).flat_map(|seed| (0..10).map(move |component| first(seed, component))).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 100);
    }

    #[test]
    fn names_draw_differently_and_always_the_same() {
        let first = |name: &[&str]| Random::named(1, name).below(u64::MAX);
        assert_eq!(first(&["a", "bc"]), first(&["a", "bc"]));
        let mut drawn = [&["a", "bc"][..], &["ab", "c"], &["abc"], &["abc", ""], &[]].map(first);
        drawn.sort_unstable();
        assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
    }

    /// Catches: real numbers with only 32 random bits.
    #[test]
    fn real_numbers_are_uniform_below_one() {
        let mut random = Random::new(5, 0);
        let drawn: Vec<_> = (0..40_000).map(|_| random.unit()).collect();
        assert!(drawn.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = drawn.iter().sum::<f64>() / 40_000.0;
        // Three standard deviations of the mean: 3 / sqrt(12 * 40,000).
        assert!((mean - 0.5).abs() < 0.004_4, "{mean}");
        assert!(drawn.iter().any(|x| (x * f64::from(1u32 << 31) * 2.0).fract() != 0.0));
    }

    #[test]
    fn never_and_always_are_certain() {
        let mut random = Random::new(0, 0);
        for _ in 0..1_000 {
            assert!(!random.happens(Chance::NEVER));
            assert!(random.happens(Chance::from_ppb(1_000_000_000)));
        }
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn uniform_and_normal_have_their_mean_and_deviation() {
        let mut random = Random::new(7, 0);
        let (n, unit) = (20_000, Duration::from_micros(1_000));
        let moments = |mut draw: Box<dyn FnMut() -> i64>| {
            let drawn: Vec<_> = (0..n).map(|_| i128::from(draw())).collect();
            let mean = drawn.iter().sum::<i128>() / i128::from(n);
            let variance = drawn.iter().map(|x| (x - mean).pow(2)).sum::<i128>() / i128::from(n);
            (mean, variance.isqrt(), drawn.iter().map(|x| x.abs()).max().unwrap())
        };
        let mut other = random.clone();
        let (mean, deviation, most) = moments(Box::new(move || other.uniform(unit)));
        // The standard deviation of a uniform distribution is its half-width over the root of
        // three.
        assert!(mean.abs() < 13_000 && (deviation - 577_350).abs() < 10_000, "{mean} {deviation}");
        assert!((990_000..=1_000_000).contains(&most));
        let (mean, deviation, most) = moments(Box::new(move || random.normal(unit)));
        assert!(
            mean.abs() < 22_000 && (deviation - 1_000_000).abs() < 20_000,
            "{mean} {deviation}"
        );
        assert!(most < 6_000_000);
    }
}
