//! The token bucket, which enforces the mean rate of an aggregate (the flows of one policy).

use std::time::Duration;

use super::{Nanobits, Profile, nanobits};
use crate::units::NANOBITS_PER_BYTE;
use crate::{Bytes, Rate, Time};

/// A bucket of byte tokens that fills at a steady rate up to its depth.
///
/// Between any two instants `s <= t`, at most `depth + rate * (t - s)` bytes are taken: the arrival
/// curve of a traffic profile (RFC 2475, section 2.3.2). The unit of tokens is `bits/s * ns`, in
/// which every refill is exact. The result therefore does not depend on the number of refills.
///
/// A packet longer than the depth may depart when the bucket is full. The tokens become negative by
/// the missing amount, so the mean rate still holds, but the burst is the length of the packet.
/// Otherwise such a packet would wait forever.
///
/// ```
/// # use tidegate_base::{Bytes, Rate, Time, meter::TokenBucket};
/// let mut bucket = TokenBucket::new(Rate::from_kbps(100), Bytes(10_000), Time::ZERO);
/// assert!(bucket.try_take(Time::ZERO, Bytes(10_000)));
/// assert_eq!(bucket.ready_at(Bytes(1_500)), Time::from_millis(120));
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    depth: Nanobits,
    tokens: Nanobits,
    /// Time of the last refill.
    updated: Time,
}

impl TokenBucket {
    /// A full bucket. The depth is at most
    /// [`Profile::MAX_BURST`](crate::meter::Profile::MAX_BURST).
    #[must_use]
    #[inline]
    pub fn new(rate: Rate, depth: Bytes, now: Time) -> Self {
        let depth = nanobits(depth);
        Self { rate, depth, tokens: depth, updated: now }
    }

    /// Changes rate and depth at `now`. Tokens beyond the new depth are discarded.
    #[inline]
    pub fn set(&mut self, now: Time, rate: Rate, depth: Bytes) {
        self.refill(now);
        self.rate = rate;
        self.depth = nanobits(depth);
        self.tokens = self.tokens.min(self.depth);
    }

    /// Takes tokens for `len` bytes if the bucket has enough. Returns `true` if they were taken.
    #[inline]
    pub fn try_take(&mut self, now: Time, len: Bytes) -> bool {
        self.refill(now);
        let len = nanobits(len);
        let enough = self.tokens >= len.min(self.depth);
        if enough {
            self.tokens -= len;
        }
        enough
    }

    /// Tokens in the bucket at `now`, in whole bytes. Zero if the tokens are negative.
    #[inline]
    pub fn available(&mut self, now: Time) -> Bytes {
        self.refill(now);
        Bytes(self.tokens.max(0).cast_unsigned() / NANOBITS_PER_BYTE)
    }

    /// The tokens that the bucket will have at `now`, in whole bytes, if no tokens are taken until
    /// then.
    #[must_use]
    #[inline]
    pub fn tokens_at(&self, now: Time) -> Bytes {
        let mut then = self.clone();
        then.available(now)
    }

    /// The earliest time at which `len` bytes can be taken, if no tokens are taken until then.
    #[must_use]
    #[inline]
    pub fn ready_at(&self, len: Bytes) -> Time {
        self.reaches(nanobits(len).min(self.depth))
    }

    /// Discards the tokens beyond `most` at `now`.
    #[inline]
    pub fn forget_beyond(&mut self, now: Time, most: Bytes) {
        self.refill(now);
        self.tokens = self.tokens.min(nanobits(most));
    }

    /// The rate at which the bucket fills.
    #[inline]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Time of the last refill.
    #[inline]
    pub const fn updated(&self) -> Time {
        self.updated
    }

    /// The tokens at the last refill.
    #[inline]
    pub const fn content(&self) -> Nanobits {
        self.tokens
    }

    /// The most tokens that the bucket can hold.
    #[inline]
    pub const fn depth(&self) -> Nanobits {
        self.depth
    }

    /// Takes `len` tokens. The caller has checked that the bucket has so many, or is full.
    #[inline]
    pub const fn charge(&mut self, len: Nanobits) {
        self.tokens -= len;
    }

    /// The earliest time at which the bucket holds `tokens`.
    #[inline]
    pub fn reaches(&self, tokens: Nanobits) -> Time {
        let missing = tokens.saturating_sub(self.tokens).max(0).cast_unsigned();
        match (missing, self.rate.bps()) {
            (0, _) => self.updated,
            (_, 0) => Time::MAX,
            (_, rate) => self.updated + Duration::from_nanos(missing.div_ceil(rate)),
        }
    }

    /// Refills the bucket up to `now`.
    // Saturating arithmetic loses no tokens, because a sum that overflows would exceed the depth
    // anyway.
    #[inline]
    pub fn refill(&mut self, now: Time) {
        let elapsed = now.nanos().saturating_sub(self.updated.nanos());
        self.updated = self.updated.max(now);
        let earned = self.rate.bps().saturating_mul(elapsed);
        self.tokens = self.tokens.saturating_add_unsigned(earned).min(self.depth);
    }

    /// Refills the bucket for `elapsed` nanoseconds, in which at most [`ROOM`](Self::ROOM) tokens
    /// are earned. Returns the earned tokens, including those beyond the depth.
    #[inline]
    pub fn refill_soon(&mut self, elapsed: u64) -> u64 {
        self.updated = Time::from_nanos(self.updated.nanos() + elapsed);
        let earned = self.rate.bps() * elapsed;
        self.tokens = (self.tokens + earned.cast_signed()).min(self.depth);
        earned
    }

    /// Number of tokens that can be added to the deepest full bucket without an integer overflow.
    pub const ROOM: u64 =
        (Nanobits::MAX.cast_unsigned()) - Profile::MAX_BURST.0 * NANOBITS_PER_BYTE;
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbps(1);
    const DEPTH: Bytes = Bytes(3_000);

    #[test]
    fn empties_then_refills_at_its_rate() {
        let mut bucket = TokenBucket::new(RATE, DEPTH, Time::ZERO);
        assert!(bucket.try_take(Time::ZERO, DEPTH));
        assert!(!bucket.try_take(Time::from_millis(11), Bytes(1_500)));
        assert!(bucket.try_take(Time::from_millis(12), Bytes(1_500))); // 1,500 B at 1 Mbit/s
        assert_eq!(bucket.available(Time::from_millis(1_000)), DEPTH);
    }

    #[test]
    fn a_clock_that_steps_back_grants_nothing() {
        let mut bucket = TokenBucket::new(RATE, DEPTH, Time::from_millis(5));
        assert!(bucket.try_take(Time::from_millis(5), DEPTH));
        assert_eq!(bucket.available(Time::ZERO), Bytes::ZERO);
        assert_eq!(bucket.available(Time::from_millis(5)), Bytes::ZERO);
    }

    #[test]
    fn a_packet_longer_than_the_depth_waits_for_a_full_bucket_and_is_paid_off() {
        let mut bucket = TokenBucket::new(RATE, DEPTH, Time::ZERO);
        assert!(bucket.try_take(Time::ZERO, Bytes(1)));
        assert!(!bucket.try_take(Time::ZERO, Bytes(4_500)));
        assert_eq!(bucket.ready_at(Bytes(4_500)), Time::from_micros(8));
        assert!(bucket.try_take(Time::from_micros(8), Bytes(4_500)));
        assert_eq!(bucket.ready_at(Bytes(1_500)), Time::from_micros(24_008));
    }

    #[test]
    fn the_fastest_and_deepest_bucket_is_exact_and_a_bucket_with_rate_zero_is_never_ready() {
        let deepest = Profile::MAX_BURST;
        let mut bucket = TokenBucket::new(Rate::from_mbps(100_000), deepest, Time::ZERO);
        assert!(bucket.try_take(Time::ZERO, deepest));
        assert_eq!(bucket.ready_at(Bytes(1_500)), Time::from_nanos(120));
        assert_eq!(bucket.available(Time::MAX), deepest);
        let mut stopped = TokenBucket::new(Rate::from_bps(0), DEPTH, Time::ZERO);
        assert!(stopped.try_take(Time::MAX, DEPTH));
        assert_eq!(stopped.ready_at(DEPTH), Time::MAX);
    }
}
