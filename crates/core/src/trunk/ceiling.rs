//! The most a trunk sends, whatever its other end acknowledges.
//!
//! All that it sends of its own accord counts, as long as it is on the path: user packets, for credit, for the
//! guarantee or past a peer that is gone, and management packets. What acknowledges the other end's does not.
//! The guarantee is charged and never held back: it is no more than the ceiling, so what is held back makes up
//! for it.
//!
//! Differs: the paper believes what the other end says. Depth, and when it looks again, are those of the guarantee.

use super::guarantee::{ONE, TICK, depth};
use crate::meter::{TokenBucket, nanobits};
use crate::{Bytes, Rate, Time};

/// Lets no more than a rate go.
pub(super) struct Ceiling(TokenBucket);

impl Ceiling {
    pub(super) fn new(rate: Rate, now: Time) -> Self {
        Self(TokenBucket::new(rate, depth(rate), now))
    }

    /// Lets go so much from `now` on.
    pub(super) fn set(&mut self, now: Time, rate: Rate) {
        self.0.set(now, rate, depth(rate));
    }

    /// What it lets go.
    pub(super) const fn rate(&self) -> Rate {
        self.0.rate()
    }

    /// Whether a packet may leave now; it may be longer than what is left, and is paid off afterwards.
    pub(super) fn is_open(&mut self, now: Time) -> bool {
        self.0.available(now) >= ONE
    }

    /// So many bytes leave now.
    pub(super) fn charge(&mut self, now: Time, len: u64) {
        self.0.refill(now);
        self.0.charge(nanobits(Bytes(len)));
    }

    /// When it is open again.
    pub(super) fn opens(&self) -> Time {
        self.0.reaches(nanobits(ONE)).round_up_to(TICK)
    }
}
