//! A histogram of times in bounded memory. The bins of longer times are wider.

use std::time::Duration;

/// Counts times with a relative error of at most 1/32. Between two powers of two, there are 32 bins
/// of equal width: from 1,024 ns to 2,047 ns, each bin is 32 ns wide.
///
/// ```
/// use std::time::Duration;
/// use tidegate_sim::histogram::Histogram;
///
/// let mut delays = Histogram::default();
/// (1..=100).for_each(|ms| delays.add(Duration::from_millis(ms)));
/// assert_eq!(delays.mean(), Some(Duration::from_micros(50_500)));
/// let p99 = delays.percentile(99.0).unwrap();
/// assert!(p99 >= Duration::from_millis(99) && p99 <= Duration::from_millis(100));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Histogram {
    /// Number of times in each bin, up to the highest bin in use.
    bins: Vec<u64>,
    count: u64,
    /// Sum of all times in nanoseconds.
    sum: u128,
    most: u64,
}

/// Each power of two is divided into `2^BITS` = 32 bins.
const BITS: u32 = 5;

impl Histogram {
    /// Counts `time`.
    #[inline]
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bin = bin(nanos);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.most = self.most.max(nanos);
    }

    /// Number of counted times.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The exact mean; `None` if nothing was counted.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let count = u128::from(self.count);
        (count > 0).then(|| Duration::from_nanos_u128(self.sum / count))
    }

    /// The exact maximum.
    #[must_use]
    pub const fn most(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// The percentile, at most 1/32 too long. `None` if nothing was counted.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let rank = libm::ceil(percent / 100.0 * crate::draw::real(self.count)).max(1.0);
        let mut seen = 0;
        let bin = self.bins.iter().position(|count| {
            seen += count;
            crate::draw::real(seen) >= rank
        });
        let last = end(bin.unwrap_or(self.bins.len() - 1));
        Some(Duration::from_nanos(last.min(self.most)))
    }
}

/// The bin of a time. The highest one bit of the time selects a group of 32 bins, and the next five
/// bits select the bin in the group. The times from 0 to 31 ns are the first group. In this group
/// and the next one, from 32 to 63 ns, a bin is 1 ns wide.
#[expect(clippy::as_conversions, reason = "at most 60 * 32")]
const fn bin(nanos: u64) -> usize {
    if nanos >> BITS == 0 {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - BITS;
    // `nanos >> shift` is 32 plus the number of the bin in its group. The group is `shift + 1`, so
    // its first bin is `32 * shift + 32`. For 1,024 ns, `shift` is 5 and the bin 160 + 32 = 192.
    ((shift << BITS) as u64 + (nanos >> shift)) as usize
}

/// The longest time in nanoseconds that falls into a bin.
#[expect(clippy::as_conversions, reason = "at most 60 * 32")]
const fn end(bin: usize) -> u64 {
    let (magnitude, within) = (bin >> BITS, bin as u64 & ((1 << BITS) - 1));
    match magnitude {
        0 => within,
        _ => ((1 << BITS) + within + 1).wrapping_shl(magnitude as u32 - 1).wrapping_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a bin that is one nanosecond too wide; a time counted at another power of two.
    #[test]
    fn a_bin_is_at_most_one_part_in_32_wide() {
        for nanos in (0..2_000).chain((0..57).map(|n| (77_u64 << n) + 13)).chain([u64::MAX]) {
            let end = end(bin(nanos));
            assert!(end >= nanos && end - nanos <= nanos / 32, "{nanos}: {end}");
        }
        let bins: Vec<_> = (0..4_096).map(bin).collect();
        assert!(bins.windows(2).all(|pair| pair[1] == pair[0] || pair[1] == pair[0] + 1));
    }

    #[test]
    fn percentiles_of_evenly_spread_times_are_right() {
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|us| histogram.add(Duration::from_micros(us)));
        assert_eq!(histogram.mean(), Some(Duration::from_nanos(500_500)));
        for (percent, us) in [(50.0, 500), (95.0, 950), (99.9, 999), (0.0, 1)] {
            let found = histogram.percentile(percent).unwrap().as_micros();
            assert!((us..=us + us / 32 + 1).contains(&found), "{percent}: {found}");
        }
        assert_eq!(histogram.percentile(100.0), Some(Duration::from_millis(1)));
        assert_eq!(Histogram::default().percentile(50.0), None);
    }
}
