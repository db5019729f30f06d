//! Tokens that the members (flows) of an aggregate earn, and the part of the bucket that each may save.
//! An aggregate is the flows of one policy in one direction.

use std::num::NonZero;
use std::time::Duration;

use super::Share;
use crate::meter::{Nanobits, Profile, TokenBucket};
use crate::{Bytes, Time};

/// The bucket of an aggregate, and the tokens that its members earn by weight.
///
/// One number counts the tokens earned per unit of weight, in steps of `1 << scale` of `bits/s *
/// ns`. One addition to this number therefore credits any number of members. A remainder of less
/// than one step for all members is carried to the next call. Each member may keep a part of the
/// burst in proportion to its weight and round-trip time. A member without a known round-trip time
/// counts as if it had the mean.
#[derive(Clone, Debug)]
pub(super) struct TokenShares {
    bucket: TokenBucket,
    scale: u32,
    earned: u64,
    carry: u64,
    /// Tokens that all counted members earn in one step; 1 without members.
    step: NonZero<u64>,
    /// The longest time, in nanoseconds, for which the computation cannot overflow 64 bits. Zero
    /// without counted members.
    short: u64,
    /// Sum of the weights of all counted members.
    weight: u64,
    /// Sum of the weights of the members with a known round-trip time.
    known: u64,
    /// Sum of weight times round-trip time, in microseconds, of the members with a known round-trip
    /// time.
    reach: u64,
    /// Tokens that a member of weight 1 may keep, and that a member may keep for weight 1 and a
    /// round-trip time of 1 us. The unit is `2^-FRACTION` tokens.
    depths: [u128; 2],
}

const FRACTION: u32 = 24;

/// Weight and round-trip time of a member, bounded so that no sum overflows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct MemberPart {
    /// 1 to [`MAX_WEIGHT`].
    pub(super) weight: u16,
    /// Round-trip time in microseconds, at most a minute; zero if unknown.
    pub(super) rtt: u32,
}

/// The largest weight. Larger weights count as this weight.
const MAX_WEIGHT: u16 = 1 << 12;
const MAX_RTT: u32 = 60_000_000;

impl MemberPart {
    pub(super) fn of(share: Share) -> Self {
        let micros = |rtt: Duration| u32::try_from(rtt.as_micros()).unwrap_or(MAX_RTT);
        let rtt = share.rtt.map_or(0, |rtt| micros(rtt).clamp(1, MAX_RTT));
        let weight = u16::try_from(share.weight).unwrap_or(MAX_WEIGHT).clamp(1, MAX_WEIGHT);
        Self { weight, rtt }
    }

    pub(super) fn weight(self) -> u64 {
        u64::from(self.weight)
    }

    pub(super) fn rtt(self) -> Duration {
        Duration::from_micros(u64::from(self.rtt))
    }

    /// Returns `true` if `other` is so similar that a new division of the burst is not worth its
    /// cost: the weights are equal, and the round-trip times differ by at most an eighth.
    pub(super) fn resembles(self, other: Self) -> bool {
        let near = self.rtt.abs_diff(other.rtt) <= self.rtt / 8;
        self.weight == other.weight && (self.rtt == 0) == (other.rtt == 0) && near
    }
}

impl TokenShares {
    /// An empty set of members for `profile`, with a full bucket.
    pub(super) fn new(profile: &Profile, now: Time) -> Self {
        // 16 to 32 steps a nanosecond: fine enough for a million members, and 18 years until an
        // overflow.
        let scale = profile.mean().bps().ilog2().saturating_sub(4).min(31);
        Self {
            bucket: TokenBucket::new(profile.mean(), profile.burst(), now),
            scale,
            earned: 0,
            carry: 0,
            step: NonZero::<u64>::MIN,
            short: 0,
            weight: 0,
            known: 0,
            reach: 0,
            depths: [0; 2],
        }
    }

    /// Uses `profile` from the time of the last [`advance`](Self::advance) on.
    pub(super) fn set_profile(&mut self, profile: &Profile) {
        self.bucket.set(self.now(), profile.mean(), profile.burst());
        self.divide();
    }

    /// Advances to `now`. Returns the number of steps earned since the last call.
    #[inline]
    pub(super) fn advance(&mut self, now: Time) -> u64 {
        if now <= self.now() {
            return 0;
        }
        let elapsed = now.nanos() - self.now().nanos();
        if elapsed > self.short {
            return self.advance_far(now, elapsed);
        }
        let earned = self.bucket.refill_soon(elapsed) + self.carry;
        self.carry = earned % self.step;
        self.earned += earned / self.step;
        earned / self.step
    }

    #[cold]
    fn advance_far(&mut self, now: Time, elapsed: u64) -> u64 {
        self.bucket.refill(now);
        if self.weight == 0 {
            self.carry = 0;
            return 0;
        }
        let (rate, step) = (u128::from(self.bucket.rate().bps()), u128::from(self.step.get()));
        let earned = rate * u128::from(elapsed) + u128::from(self.carry);
        self.carry = u64::try_from(earned % step).unwrap_or(0);
        let steps = u64::try_from(earned / step).unwrap_or(u64::MAX);
        self.earned = self.earned.saturating_add(steps);
        steps
    }

    /// All tokens, except the carried remainder of a step.
    pub(super) fn content(&self) -> i128 {
        i128::from(self.bucket.content()) - i128::from(self.carry)
    }

    /// Content of the bucket at `now`, in whole bytes.
    pub(super) fn tokens(&self, now: Time) -> Bytes {
        self.bucket.tokens_at(now)
    }

    /// Returns `true` if half of the bucket remains after `len` tokens are taken, or the bucket is full.
    pub(super) fn spares(&self, len: Nanobits) -> bool {
        self.bucket.content() >= self.spare_level(len)
    }

    /// Time at which the bucket [`spares`](Self::spares) `len` tokens, if no member takes tokens before.
    pub(super) fn spares_at(&self, len: Nanobits) -> Time {
        self.bucket.reaches(self.spare_level(len))
    }

    /// Least content at which the bucket spares `len` tokens.
    fn spare_level(&self, len: Nanobits) -> Nanobits {
        let depth = self.bucket.depth();
        depth.min(len.saturating_add(depth / 2))
    }

    /// Takes `len` tokens from the bucket, if it has them.
    pub(super) fn try_take(&mut self, len: Bytes) -> bool {
        self.bucket.try_take(self.now(), len)
    }

    /// Takes `len` tokens. The bucket has them, or is full and too small for them.
    pub(super) const fn charge(&mut self, len: Nanobits) {
        self.bucket.charge(len);
    }

    /// Time at which the bucket has `len` tokens, if no tokens are taken before.
    pub(super) fn ready_at(&self, len: Bytes) -> Time {
        self.bucket.ready_at(len)
    }

    /// The time of the last advance.
    pub(super) const fn now(&self) -> Time {
        self.bucket.updated()
    }

    /// Steps earned so far.
    pub(super) const fn earned(&self) -> u64 {
        self.earned
    }

    /// Tokens that all counted members earn in one step.
    pub(super) const fn step(&self) -> u64 {
        self.step.get()
    }

    /// Tokens that a member with `part` earns in one step.
    pub(super) fn step_of(&self, part: MemberPart) -> u64 {
        part.weight() << self.scale
    }

    /// Number of steps until members that earn `step` tokens per step have earned `tokens`; `step`
    /// is not zero.
    pub(super) const fn steps(tokens: u64, step: u64) -> u64 {
        tokens.div_ceil(step)
    }

    /// Time at which `earned` will have this value, if membership does not change.
    pub(super) fn when(&self, earned: u64) -> Time {
        let steps = u128::from(earned.saturating_sub(self.earned));
        let missing = (steps * u128::from(self.step.get())).saturating_sub(self.carry.into());
        let nanos = missing.div_ceil(self.bucket.rate().bps().into());
        self.now() + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Adds a member.
    pub(super) fn count(&mut self, part: MemberPart) {
        self.weight += part.weight();
        if part.rtt > 0 {
            self.known += part.weight();
            self.reach += part.weight() * u64::from(part.rtt);
        }
        self.divide();
    }

    /// Removes a member. Returns the number of steps that the carried remainder now amounts to.
    pub(super) fn discount(&mut self, part: MemberPart) -> u64 {
        self.weight -= part.weight();
        if part.rtt > 0 {
            self.known -= part.weight();
            self.reach -= part.weight() * u64::from(part.rtt);
        }
        self.divide();
        let carry = std::mem::take(&mut self.carry);
        if self.weight == 0 {
            return 0;
        }
        self.carry = carry % self.step;
        self.earned += carry / self.step;
        carry / self.step
    }

    /// Tokens that a counted member may keep.
    ///
    /// Source: `aggregates`, figure 9 (depth of a partition): `B * rtt_i / sum(rtt_j)`, here also with
    /// weights.
    pub(super) fn depth(&self, part: MemberPart) -> Nanobits {
        if part.rtt == 0 {
            return self.equal_depth(part);
        }
        self.part_of_burst(self.depths[1], part.weight() * u64::from(part.rtt))
    }

    /// Tokens that a counted member may keep, regardless of round-trip times.
    pub(super) fn equal_depth(&self, part: MemberPart) -> Nanobits {
        self.part_of_burst(self.depths[0], part.weight())
    }

    fn part_of_burst(&self, unit: u128, units: u64) -> Nanobits {
        let depth = (unit * u128::from(units)) >> FRACTION;
        Nanobits::try_from(depth).unwrap_or_else(|_| self.bucket.depth())
    }

    /// Divides the burst among the counted members.
    fn divide(&mut self) {
        let burst = u128::from(self.bucket.depth().unsigned_abs()) << FRACTION;
        let each = burst / u128::from(self.weight.max(1));
        self.depths = [each, each * u128::from(self.known) / u128::from(self.reach.max(1))];
        self.step = NonZero::new(self.weight << self.scale).unwrap_or(NonZero::<u64>::MIN);
        let room = (u64::MAX - self.step.get()).min(TokenBucket::ROOM);
        self.short = if self.weight == 0 { 0 } else { room / self.bucket.rate().bps() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;
    use crate::meter::nanobits;

    fn part(weight: u32, millis: u64) -> MemberPart {
        let rtt = (millis > 0).then(|| Duration::from_millis(millis));
        MemberPart::of(Share { weight, rtt })
    }

    #[test]
    fn parts_of_the_burst_follow_weight_and_round_trip_time_and_an_unknown_time_is_the_mean() {
        let profile =
            Profile::new(Rate::from_kbps(800), None, Bytes(32_000), Bytes(1_500)).unwrap();
        let mut shares = TokenShares::new(&profile, Time::ZERO);
        let parts = [part(1, 50), part(1, 300), part(2, 325), part(1, 0)];
        parts.iter().for_each(|part| shares.count(*part));
        // The mean is 250 ms, so the sum is 50 + 300 + 650 + 250 = 1,250 ms.
        for (part, bytes) in parts.into_iter().zip([1_280, 7_680, 16_640, 6_400]) {
            let rounded_off = nanobits(Bytes(bytes)) - shares.depth(part);
            assert!((0..10).contains(&rounded_off), "{bytes} B less {rounded_off}");
        }
    }

    #[test]
    fn all_earned_tokens_but_a_carry_are_divided_and_arrive_at_the_predicted_time() {
        let profile = Profile::new(Rate::from_mbps(7), None, Bytes(9_000), Bytes(1_500)).unwrap();
        let mut shares = TokenShares::new(&profile, Time::ZERO);
        (1..=3).for_each(|weight| shares.count(part(weight, 0)));
        shares.advance(Time::from_nanos(12_345));
        let given = shares.earned() * shares.step() + shares.carry;
        assert_eq!(given, 7_000_000 * 12_345);
        let at = shares.when(shares.earned() + 5);
        let mut early = shares.clone();
        early.advance(Time::from_nanos(at.nanos() - 1));
        assert!(early.earned() < shares.earned() + 5);
        shares.advance(at);
        early.advance(at);
        assert_eq!((shares.earned(), shares.carry), (early.earned(), early.carry));
    }
}
