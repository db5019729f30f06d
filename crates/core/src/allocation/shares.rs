//! What the members of an aggregate earn, and how much of it each may keep.

use std::time::Duration;

use super::Share;
use crate::Time;
use crate::meter::{Nanobits, Profile, nanobits};

/// The tokens of an aggregate as its members earn them: each by its weight.
///
/// What was earned is one number for all of them, so that time passes for any number of members at
/// once: tokens per unit of weight, in steps of `1 << scale` of `bits/s * ns`. A remainder of less
/// than a step for everyone is carried. Each member may keep a part of the burst in proportion to
/// its weight and its round-trip time; one whose round-trip time is unknown counts as the mean.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    rate: u64,
    burst: Nanobits,
    scale: u32,
    earned: u64,
    carry: u64,
    updated: Time,
    /// Sum of the weights of all that count.
    weight: u64,
    /// Of those, with a known round-trip time.
    known: u64,
    /// Sum of weight times round-trip time, in microseconds, of those.
    reach: u64,
    /// What one of weight 1 may keep, and one of weight 1 and a round-trip time of 1 us, in
    /// fractions of [`FRACTION`] bits.
    depths: [u128; 2],
}

const FRACTION: u32 = 24;

/// A member's part, within bounds in which no sum overflows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Part {
    /// 1 to [`MAX_WEIGHT`].
    weight: u32,
    /// Round-trip time in microseconds, at most a minute; zero if unknown.
    rtt: u32,
}

/// The largest weight that makes a difference.
const MAX_WEIGHT: u32 = 1 << 12;
const MAX_RTT: u32 = 60_000_000;

impl Part {
    pub(super) fn of(share: Share) -> Self {
        let micros = |rtt: Duration| u32::try_from(rtt.as_micros()).unwrap_or(MAX_RTT);
        let rtt = share.rtt.map_or(0, |rtt| micros(rtt).clamp(1, MAX_RTT));
        Self { weight: share.weight.clamp(1, MAX_WEIGHT), rtt }
    }

    pub(super) fn weight(self) -> u64 {
        u64::from(self.weight)
    }

    pub(super) fn rtt(self) -> Duration {
        Duration::from_micros(u64::from(self.rtt))
    }

    /// Whether `other` is worth a new division: a round-trip time within an eighth is not.
    pub(super) fn resembles(self, other: Self) -> bool {
        let near = self.rtt.abs_diff(other.rtt) <= self.rtt / 8;
        self.weight == other.weight && (self.rtt == 0) == (other.rtt == 0) && near
    }
}

impl Shares {
    /// Nobody's shares of `profile`.
    pub(super) fn new(profile: &Profile, now: Time) -> Self {
        // 16 to 32 steps a nanosecond: fine enough for a million members, and 18 years until it
        // would overflow.
        let scale = profile.mean().bps().ilog2().saturating_sub(4).min(31);
        Self {
            rate: profile.mean().bps(),
            burst: nanobits(profile.burst()),
            scale,
            earned: 0,
            carry: 0,
            updated: now,
            weight: 0,
            known: 0,
            reach: 0,
            depths: [0; 2],
        }
    }

    /// Follows `profile` from the time of the last [`advance`](Self::advance) on.
    pub(super) fn set_profile(&mut self, profile: &Profile) {
        self.rate = profile.mean().bps();
        self.burst = nanobits(profile.burst());
        self.divide();
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, now: Time) {
        let elapsed = now.nanos().saturating_sub(self.updated.nanos());
        self.updated = self.updated.max(now);
        let step = self.tokens(self.weight);
        if step == 0 {
            self.carry = 0;
            return;
        }
        let fits = self.rate.checked_mul(elapsed).and_then(|it| it.checked_add(self.carry));
        let steps = if let Some(total) = fits {
            self.carry = total % step;
            total / step
        } else {
            let total = u128::from(self.rate) * u128::from(elapsed) + u128::from(self.carry);
            self.carry = u64::try_from(total % u128::from(step)).unwrap_or(0);
            u64::try_from(total / u128::from(step)).unwrap_or(u64::MAX)
        };
        self.earned = self.earned.saturating_add(steps);
    }

    /// Steps earned so far.
    pub(super) const fn earned(&self) -> u64 {
        self.earned
    }

    /// Tokens that are no full step yet.
    pub(super) const fn carry(&self) -> u64 {
        self.carry
    }

    /// Sum of the weights of all that count.
    pub(super) const fn weight(&self) -> u64 {
        self.weight
    }

    /// What one step brings to members of that weight.
    pub(super) const fn tokens(&self, weight: u64) -> u64 {
        weight << self.scale
    }

    /// Steps until members of `weight`, not zero, have earned `tokens`.
    pub(super) const fn steps(&self, tokens: u64, weight: u64) -> u64 {
        tokens.div_ceil(self.tokens(weight))
    }

    /// When `earned` will be that, if nobody comes or goes.
    pub(super) fn when(&self, earned: u64) -> Time {
        let steps = u128::from(earned.saturating_sub(self.earned));
        let missing =
            (steps * u128::from(self.tokens(self.weight))).saturating_sub(self.carry.into());
        let nanos = missing.div_ceil(self.rate.into());
        self.updated + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Counts one more member.
    pub(super) fn count(&mut self, part: Part) {
        self.weight += part.weight();
        if part.rtt > 0 {
            self.known += part.weight();
            self.reach += part.weight() * u64::from(part.rtt);
        }
        self.divide();
    }

    /// Counts one member less.
    pub(super) fn discount(&mut self, part: Part) {
        self.weight -= part.weight();
        if part.rtt > 0 {
            self.known -= part.weight();
            self.reach -= part.weight() * u64::from(part.rtt);
        }
        self.divide();
        self.advance(self.updated); // what was no full step may be one for fewer
    }

    /// What one of those who count may keep.
    ///
    /// Source: `aggregates`, section 7.3 of the ledger: `B * rtt_i / sum(rtt_j)`, with weights.
    pub(super) fn depth(&self, part: Part) -> Nanobits {
        if part.rtt == 0 {
            return self.equal_depth(part);
        }
        self.part_of_burst(self.depths[1], part.weight() * u64::from(part.rtt))
    }

    /// What one of those who count may keep if round-trip times do not matter.
    pub(super) fn equal_depth(&self, part: Part) -> Nanobits {
        self.part_of_burst(self.depths[0], part.weight())
    }

    fn part_of_burst(&self, unit: u128, units: u64) -> Nanobits {
        Nanobits::try_from((unit * u128::from(units)) >> FRACTION).unwrap_or(self.burst)
    }

    /// Divides the burst among those who count.
    fn divide(&mut self) {
        let burst = u128::from(self.burst.unsigned_abs()) << FRACTION;
        let each = burst / u128::from(self.weight.max(1));
        self.depths = [each, each * u128::from(self.known) / u128::from(self.reach.max(1))];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Rate};

    fn part(weight: u32, millis: u64) -> Part {
        let rtt = (millis > 0).then(|| Duration::from_millis(millis));
        Part::of(Share { weight, rtt })
    }

    #[test]
    fn parts_of_the_burst_go_by_weight_and_round_trip_time_and_the_unknown_is_the_mean() {
        let profile =
            Profile::new(Rate::from_kbps(800), None, Bytes(32_000), Bytes(1_500)).unwrap();
        let mut shares = Shares::new(&profile, Time::ZERO);
        let parts = [part(1, 50), part(1, 300), part(2, 325), part(1, 0)];
        parts.iter().for_each(|part| shares.count(*part));
        // The mean is 250 ms, so the sum is 50 + 300 + 650 + 250 = 1,250 ms.
        for (part, bytes) in parts.into_iter().zip([1_280, 7_680, 16_640, 6_400]) {
            let rounded_off = nanobits(Bytes(bytes)) - shares.depth(part);
            assert!((0..10).contains(&rounded_off), "{bytes} B less {rounded_off}");
        }
    }

    #[test]
    fn everything_earned_is_shared_out_but_a_carry_and_arrives_when_foretold() {
        let profile = Profile::new(Rate::from_mbps(7), None, Bytes(9_000), Bytes(1_500)).unwrap();
        let mut shares = Shares::new(&profile, Time::ZERO);
        (1..=3).for_each(|weight| shares.count(part(weight, 0)));
        shares.advance(Time::from_nanos(12_345));
        let given = shares.earned() * shares.tokens(6) + shares.carry();
        assert_eq!(given, 7_000_000 * 12_345);
        let at = shares.when(shares.earned() + 5);
        let mut early = shares.clone();
        early.advance(Time::from_nanos(at.nanos() - 1));
        assert!(early.earned() < shares.earned() + 5);
        shares.advance(at);
        early.advance(at);
        assert_eq!((shares.earned(), shares.carry()), (early.earned(), early.carry()));
    }
}
