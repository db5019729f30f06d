//! The ceiling of a trunk: an upper bound of the rate at which it sends, even if ACKs of the other gateway permit more.
//!
//! The ceiling counts all user packets and management packets, with their lengths on the path. User packets that bypass
//! a dead trunk count too. Only the ACKs for the other gateway's management packets do not count.
//!
//! Packets of the guarantee consume tokens of the ceiling, but never wait for them. The guarantee is at most the
//! ceiling, so the other packets wait longer instead.
//!
//! Differs: the paper has no ceiling, and trusts the ACKs of the other gateway. The token bucket
//! has the same depth and timer as that of the guarantee.

use super::guarantee::{ONE, TICK, depth};
use crate::meter::{TokenBucket, nanobits};
use crate::{Bytes, Rate, Time};

/// A token bucket that bounds the egress rate.
pub(super) struct Ceiling(TokenBucket);

impl Ceiling {
    pub(super) fn new(rate: Rate, now: Time) -> Self {
        Self(TokenBucket::new(rate, depth(rate), now))
    }

    /// Changes the ceiling to `rate` from `now` on.
    pub(super) fn set(&mut self, now: Time, rate: Rate) {
        self.0.set(now, rate, depth(rate));
    }

    /// The ceiling as a rate.
    pub(super) const fn rate(&self) -> Rate {
        self.0.rate()
    }

    /// Returns `true` if a packet may depart now. The packet may be longer than the tokens. The bucket is then in
    /// debt, which delays the next packet.
    pub(super) fn is_open(&mut self, now: Time) -> bool {
        self.0.available(now) >= ONE
    }

    /// Takes tokens for `len` bytes that depart now.
    pub(super) fn charge(&mut self, now: Time, len: u64) {
        self.0.refill(now);
        self.0.charge(nanobits(Bytes(len)));
    }

    /// Time at which the next packet may depart.
    pub(super) fn opens(&self) -> Time {
        self.0.reaches(nanobits(ONE)).round_up_to(TICK)
    }
}
