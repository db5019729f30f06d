//! The ceiling: the most that a trunk sends, whatever the other end acknowledges.
//!
//! It counts all user packets and management packets, with their lengths on the path. User packets
//! depart for credit, for the guarantee, or past a dead peer. ACKs of the other end's management
//! packets do not count. The guarantee is charged and never delayed. As it is at most the ceiling,
//! other packets wait instead.
//!
//! Differs: the paper trusts the ACKs of the other end. Bucket depth and timer are those of the guarantee.

use super::guarantee::{ONE, TICK, depth};
use crate::meter::{TokenBucket, nanobits};
use crate::{Bytes, Rate, Time};

/// A token bucket that bounds the egress rate.
pub(super) struct Ceiling(TokenBucket);

impl Ceiling {
    pub(super) fn new(rate: Rate, now: Time) -> Self {
        Self(TokenBucket::new(rate, depth(rate), now))
    }

    /// Changes the rate from `now` on.
    pub(super) fn set(&mut self, now: Time, rate: Rate) {
        self.0.set(now, rate, depth(rate));
    }

    /// The rate.
    pub(super) const fn rate(&self) -> Rate {
        self.0.rate()
    }

    /// Returns `true` if a packet may depart now. It may exceed the tokens. The debt delays the
    /// next packet.
    pub(super) fn is_open(&mut self, now: Time) -> bool {
        self.0.available(now) >= ONE
    }

    /// `len` bytes depart now.
    pub(super) fn charge(&mut self, now: Time, len: u64) {
        self.0.refill(now);
        self.0.charge(nanobits(Bytes(len)));
    }

    /// When the next packet may depart.
    pub(super) fn opens(&self) -> Time {
        self.0.reaches(nanobits(ONE)).round_up_to(TICK)
    }
}
