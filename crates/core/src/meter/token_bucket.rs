//! The token bucket: the mean rate of every aggregate is kept by one of these.

use std::time::Duration;

use super::{Nanobits, Profile, nanobits};
use crate::units::NANOBITS_PER_BYTE;
use crate::{Bytes, Rate, Time};

/// A bucket of byte tokens that fills at a steady rate up to its depth.
///
/// Bytes taken between any two instants `s <= t` never exceed `depth + rate * (t - s)`: the arrival
/// curve a traffic profile promises (RFC 2475, section 2.3.2). Tokens are kept in `bits/s * ns`, in
/// which every refill is exact, so how often the bucket is looked at changes nothing.
///
/// A packet longer than the bucket is deep may go when the bucket is full, and is paid off
/// afterwards: the rate holds, and the burst is then that packet. Without this it would wait
/// forever.
///
/// ```
/// # use tidegate_core::{Bytes, Rate, Time, meter::TokenBucket};
/// let mut bucket = TokenBucket::new(Rate::from_kbps(100), Bytes(10_000), Time::ZERO);
/// assert!(bucket.try_take(Time::ZERO, Bytes(10_000)));
/// assert_eq!(bucket.ready_at(Bytes(1_500)), Time::from_millis(120));
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    depth: Nanobits,
    tokens: Nanobits,
    /// When it held `tokens`.
    updated: Time,
}

impl TokenBucket {
    /// A full bucket. A depth beyond [`Profile::MAX_BURST`](crate::meter::Profile::MAX_BURST) is
    /// cut to that.
    #[must_use]
    pub fn new(rate: Rate, depth: Bytes, now: Time) -> Self {
        let depth = nanobits(depth);
        Self { rate, depth, tokens: depth, updated: now }
    }

    /// Changes its rate and depth from `now` on; the tokens there are stay, as far as there is room.
    pub fn set(&mut self, now: Time, rate: Rate, depth: Bytes) {
        self.refill(now);
        self.rate = rate;
        self.depth = nanobits(depth);
        self.tokens = self.tokens.min(self.depth);
    }

    /// Takes tokens for `len` bytes, if they are there.
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

    /// Whole bytes' worth of tokens in the bucket at `now`.
    pub fn available(&mut self, now: Time) -> Bytes {
        self.refill(now);
        Bytes(self.tokens.max(0).cast_unsigned() / NANOBITS_PER_BYTE)
    }

    /// Whole bytes' worth of tokens in the bucket at `now`, if none are taken before.
    #[must_use]
    pub fn tokens_at(&self, now: Time) -> Bytes {
        let mut then = self.clone();
        then.available(now)
    }

    /// The earliest time at which `len` may go, if nothing else goes before.
    #[must_use]
    pub fn ready_at(&self, len: Bytes) -> Time {
        self.reaches(nanobits(len).min(self.depth))
    }

    /// Forgets what it holds at `now` beyond `most`.
    pub(crate) fn forget_beyond(&mut self, now: Time, most: Bytes) {
        self.refill(now);
        self.tokens = self.tokens.min(nanobits(most));
    }

    /// Tokens per second.
    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// How far time has passed.
    pub(crate) const fn updated(&self) -> Time {
        self.updated
    }

    /// What was in it when it was last asked for.
    pub(crate) const fn content(&self) -> Nanobits {
        self.tokens
    }

    /// Most that can be in it.
    pub(crate) const fn depth(&self) -> Nanobits {
        self.depth
    }

    /// Takes `len`, which is there, or of which a full bucket lacks some.
    pub(crate) const fn charge(&mut self, len: Nanobits) {
        self.tokens -= len;
    }

    /// The earliest time at which it holds `tokens`.
    pub(crate) fn reaches(&self, tokens: Nanobits) -> Time {
        let missing = tokens.saturating_sub(self.tokens).max(0).cast_unsigned();
        match (missing, self.rate.bps()) {
            (0, _) => self.updated,
            (_, 0) => Time::MAX,
            (_, rate) => self.updated + Duration::from_nanos(missing.div_ceil(rate)),
        }
    }

    /// Lets time pass.
    // Saturation loses nothing: what would overflow is more than a bucket holds.
    #[inline]
    pub(crate) fn refill(&mut self, now: Time) {
        let elapsed = now.nanos().saturating_sub(self.updated.nanos());
        self.updated = self.updated.max(now);
        let earned = self.rate.bps().saturating_mul(elapsed);
        self.tokens = self.tokens.saturating_add_unsigned(earned).min(self.depth);
    }

    /// Lets so many nanoseconds pass, in which no more than [`ROOM`](Self::ROOM) is earned; says
    /// how much, whether there was room for it or not.
    pub(crate) fn refill_soon(&mut self, elapsed: u64) -> u64 {
        self.updated = Time::from_nanos(self.updated.nanos() + elapsed);
        let earned = self.rate.bps() * elapsed;
        self.tokens = (self.tokens + earned.cast_signed()).min(self.depth);
        earned
    }

    /// What can be added to the fullest bucket without an overflow.
    pub(crate) const ROOM: u64 =
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
    fn the_fastest_and_deepest_bucket_is_exact_and_a_stopped_one_never_ready() {
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
