//! Points in time.

use std::fmt;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// A point in time, in nanoseconds since the run began.
///
/// A run is a simulation, or the lifetime of a live gateway process, whose driver reads
/// `CLOCK_MONOTONIC`. No code of this crate reads a clock.
///
/// ```
/// use std::time::Duration;
/// use tidegate_base::Time;
///
/// let tick = Duration::from_millis(15);
/// let now = Time::from_millis(16);
/// assert_eq!(now.round_up_to(tick), Time::from_millis(30));
/// // If the clock runs backwards, the elapsed time is zero.
/// assert_eq!(now.since(Time::from_millis(20)), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Self = Self(0);
    /// The largest time, which no run reaches.
    pub const MAX: Self = Self(u64::MAX);

    /// The time `nanos` nanoseconds into the run.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The time `micros` microseconds into the run.
    #[must_use]
    #[inline]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// The time `millis` milliseconds into the run.
    #[must_use]
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// The time `secs` seconds into the run.
    #[must_use]
    #[inline]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Nanoseconds since the run began.
    #[must_use]
    #[inline]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`. Zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time `span` before `self`, but not before the beginning of the run.
    #[must_use]
    #[inline]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }

    /// The earlier of two times. If one time is `None`, returns the other time.
    #[must_use]
    #[inline]
    pub fn earliest(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// The first multiple of `interval` at or after `self`. `self` if `interval` is zero.
    #[must_use]
    #[inline]
    pub fn round_up_to(self, interval: Duration) -> Self {
        match nanos(interval) {
            0 => self,
            step => Self(self.0.div_ceil(step).saturating_mul(step)),
        }
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    #[inline]
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// `span` in nanoseconds. The largest `u64` for 584 years and more.
#[inline]
pub fn nanos(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_up_to_the_next_tick_and_stays_on_one() {
        let tick = Duration::from_millis(15);
        assert_eq!(Time::from_millis(16).round_up_to(tick), Time::from_millis(30));
        assert_eq!(Time::from_millis(30).round_up_to(tick), Time::from_millis(30));
        assert_eq!(Time::from_millis(16).round_up_to(Duration::ZERO), Time::from_millis(16));
    }

    #[test]
    fn the_far_future_does_not_overflow() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO.since(Time::MAX), Duration::ZERO);
    }
}
