//! The peak rate of an aggregate (the flows of one policy), enforced as a minimum spacing of its packets.

use std::time::Duration;

use crate::meter::nanobits;
use crate::{Bytes, Rate, Time};

/// Spaces packets by their transmission times at the peak rate.
///
/// Between any two instants `s <= t`, at most `rate * (t - s + tolerance)` bytes plus the last
/// packet are taken. Due times are whole nanoseconds. Their rounding is carried over, so
/// back-to-back packets keep exactly the peak rate.
///
/// Source: `aggregates`, sections 2.1 and 3.3 (peak rate of a profile); ITU-T I.371, annex A
/// (virtual scheduling).
/// Differs: packets may be early by a tolerance. Without it, an aggregate whose packets are
/// released at intervals would send one packet per interval, and might not even reach its mean
/// rate.
///
/// ```
/// use std::time::Duration;
/// use tidegate_base::meter::PeakSpacing;
/// use tidegate_base::{Bytes, Rate, Time};
///
/// let mut peak = PeakSpacing::new(Rate::from_mbps(12), Duration::ZERO);
/// assert!(peak.try_take(Time::ZERO, Bytes(1_500)));
/// // At 12 Mbit/s, 1,500 bytes take a millisecond.
/// assert!(!peak.try_take(Time::from_micros(999), Bytes(1_500)));
/// assert!(peak.try_take(Time::from_millis(1), Bytes(1_500)));
/// ```
#[derive(Clone, Debug)]
pub struct PeakSpacing {
    rate: Rate,
    tolerance: Duration,
    /// Due time of the next packet, rounded up to nanoseconds.
    due: Time,
    /// Amount by which `due` was rounded up, in `bits/s * ns`. Less than `rate`.
    early: u64,
}

impl PeakSpacing {
    /// Spacing at `rate`. The first packet may depart at any time. Packets that are late by at most
    /// `tolerance` can catch up.
    #[must_use]
    #[inline]
    pub const fn new(rate: Rate, tolerance: Duration) -> Self {
        Self { rate, tolerance, due: Time::ZERO, early: 0 }
    }

    /// Changes the rate for packets after the last one.
    #[inline]
    pub const fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.early = 0;
    }

    /// The earliest time at which the next packet may depart, whatever its length.
    #[must_use]
    #[inline]
    pub fn ready_at(&self) -> Time {
        let tolerance = Time::ZERO + self.tolerance;
        Time::ZERO + self.due.since(tolerance)
    }

    /// Records the departure of a packet of `len` bytes if one may depart at `now`. Returns `true`
    /// if it may.
    #[inline]
    pub fn try_take(&mut self, now: Time, len: Bytes) -> bool {
        if now < self.ready_at() {
            return false;
        }
        let rate = self.rate.bps();
        if rate == 0 {
            self.due = Time::MAX;
            return true;
        }
        let span = nanobits(len).cast_unsigned().saturating_sub(self.early);
        let lasts = span.div_ceil(rate);
        self.early = lasts.saturating_mul(rate).saturating_sub(span);
        self.due = self.due.max(now) + Duration::from_nanos(lasts);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_spacing_and_an_idle_time_earns_no_burst() {
        let mut peak = PeakSpacing::new(Rate::from_mbps(8), Duration::ZERO);
        let at = Time::from_millis(5);
        assert!(peak.try_take(at, Bytes(1_000)));
        assert_eq!(peak.ready_at(), Time::from_millis(6));
        assert!(!peak.try_take(Time::from_micros(5_999), Bytes(1)));
        assert!(peak.try_take(Time::from_millis(90), Bytes(1_000)));
        assert!(!peak.try_take(Time::from_millis(90), Bytes(1_000)));
    }

    #[test]
    fn back_to_back_packets_keep_the_rate_exactly() {
        let mut peak = PeakSpacing::new(Rate::from_bps(3_000_000_000), Duration::ZERO);
        for _ in 0..3_000 {
            assert!(peak.try_take(peak.ready_at(), Bytes(1))); // 2.67 ns each
        }
        assert_eq!(peak.ready_at(), Time::from_micros(8));
    }

    #[test]
    fn a_late_packet_within_the_tolerance_is_made_up_for() {
        let mut peak = PeakSpacing::new(Rate::from_mbps(8), Duration::from_millis(2));
        let tick = |n: u64| Time::from_millis(100 + 2 * n);
        let sent = (0..50).map(|n| (0..9).filter(|_| peak.try_take(tick(n), Bytes(1_000))).count());
        assert_eq!(sent.sum::<usize>(), 3 + 49 * 2); // 1 ms each
    }
}
