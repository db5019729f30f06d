//! What part of the rate of its aggregate a flow has.

use std::time::Duration;

use crate::packet::{Member, make_room, slot};
use crate::time::nanos;
use crate::{Bytes, Rate, Time};

/// The rates of the flows of an aggregate: by weight, among those that were active lately.
///
/// Source: `postack`, section 2 (`r_i`: share of the class over the number of active flows).
/// Differs: a flow is active if it sent within this interval or the one before, so that no timer is
/// needed for any.
pub(super) struct Shares {
    rate: Rate,
    /// By member: the interval it was last seen in, and its weight.
    seen: Vec<(u32, u32)>,
    interval: u32,
    /// Weights of those seen in this interval, and in the one before.
    now: u64,
    before: u64,
    others: Others,
    /// When it was last looked how fast what waits next may leave, and how fast that is on average.
    ahead: Option<(Time, Rate)>,
}

/// What packets of others take of the rate.
#[derive(Default)]
struct Others {
    /// When their bytes were last looked at, and how many had left by then.
    looked: (Time, Bytes),
    /// Bits per second between the last two looks, and between the two before.
    now: u64,
    before: u64,
}

/// The longest over which anything is followed, in nanoseconds.
const LONGEST: u64 = 1 << 40;

/// A few round trips of most flows.
const INTERVAL: Duration = Duration::from_millis(400);

impl Shares {
    pub(super) const fn new(rate: Rate) -> Self {
        let others = Others { looked: (Time::ZERO, Bytes::ZERO), now: 0, before: 0 };
        Self { rate, seen: Vec::new(), interval: 0, now: 0, before: 0, others, ahead: None }
    }

    pub(super) const fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// The rate of all.
    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// `member` is active at `now`.
    pub(super) fn note(&mut self, now: Time, member: Member, weight: Option<u32>) {
        self.advance(now);
        make_room(&mut self.seen, member.index(), (0, 1));
        let (seen, known) = &mut self.seen[slot(member.0)];
        let weight = weight.unwrap_or(*known).max(1);
        if *seen != self.interval {
            *seen = self.interval;
            self.now += u64::from(weight);
        } else {
            self.now = self.now - u64::from(*known) + u64::from(weight);
        }
        *known = weight;
    }

    /// The weight of `member`.
    pub(super) fn weight(&self, member: Member) -> u32 {
        self.seen.get(member.index()).map_or(1, |(_, weight)| *weight)
    }

    /// The rate of `member`: never zero.
    pub(super) fn of(&self, member: Member) -> Rate {
        Rate::from_bps(self.part(self.rate.bps(), member).max(1))
    }

    /// What waits next may leave at `rate`, if it ever waits: that is followed over about `span` where it
    /// falls, and over an eighth of that where it rises. After as long without a look it is what it is.
    pub(super) fn note_ahead(&mut self, now: Time, rate: Option<Rate>, span: Duration) {
        self.ahead = rate.map(|rate| {
            let (at, before) = self.ahead.unwrap_or((now, rate));
            let falls = nanos(span).min(LONGEST).next_power_of_two().ilog2();
            let follows = if rate < before { falls } else { falls.saturating_sub(3) };
            let part = i128::from(nanos(now.since(at)).min(1 << follows));
            let more = i128::from(rate.bps()) - i128::from(before.bps());
            let bps = i128::from(before.bps()) + ((more * part) >> follows);
            (now.max(at), Rate::from_bps(u64::try_from(bps).unwrap_or_default()))
        });
    }

    /// How fast what waits next may leave, averaged over some time.
    pub(super) fn ahead(&self) -> Option<Rate> {
        self.ahead.map(|(_, rate)| rate)
    }

    /// By `now` so many bytes of others `left`.
    pub(super) fn note_others(&mut self, now: Time, left: Bytes) {
        let Others { looked: (at, before), .. } = self.others;
        let time = now.since(at);
        if time >= INTERVAL {
            let bits = u128::from(left.0.saturating_sub(before.0)) * 8 * 1_000_000_000;
            let rate = u64::try_from(bits / time.as_nanos()).unwrap_or(u64::MAX);
            self.others = Others { looked: (now, left), now: rate, before: self.others.now };
        }
    }

    /// What others take of the part of `member`, in bits per second: for two intervals at least, for what comes
    /// and goes faster is no reason.
    pub(super) fn taken(&self, member: Member) -> u64 {
        match self.others.now.min(self.others.before) {
            0 => 0,
            rate => self.part(rate, member),
        }
    }

    fn part(&self, rate: u64, member: Member) -> u64 {
        let weight = u64::from(self.weight(member));
        let all = self.now.max(self.before).max(weight);
        let part = u128::from(rate) * u128::from(weight) / u128::from(all);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    fn advance(&mut self, now: Time) {
        let length = u64::try_from(INTERVAL.as_nanos()).unwrap_or(u64::MAX);
        // Begins with 1: zero is never.
        let interval = u32::try_from(now.nanos() / length + 1).unwrap_or(u32::MAX);
        if interval != self.interval {
            self.before = if interval == self.interval.saturating_add(1) { self.now } else { 0 };
            self.now = 0;
            self.interval = interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kills: a burst of others that counts; what they took long ago.
    #[test]
    fn what_others_take_for_long_is_taken_from_the_part_of_each() {
        let mut shares = Shares::new(Rate::from_mbps(12));
        let mut looks = vec![];
        for (ms, left) in
            [(400, 400_000), (800, 400_000), (1_200, 600_000), (1_300, 900_000), (1_600, 1_000_000)]
        {
            for member in [0, 1] {
                shares.note(Time::from_millis(ms), Member(member), None);
            }
            shares.note_others(Time::from_millis(ms), Bytes(left));
            looks.push(shares.taken(Member(0)));
        }
        assert_eq!(looks, [0, 0, 0, 0, 2_000_000]);
        shares.note_others(Time::from_secs(60), Bytes(1_000_000));
        assert_eq!(shares.taken(Member(0)), 0);
    }

    /// Kills: what is now in place of the average; one that never gets there, or rises as slowly as it falls;
    /// a clock that steps back.
    #[test]
    fn what_may_leave_next_is_followed_slowly_down_and_eight_times_as_fast_up() {
        let mut shares = Shares::new(Rate::from_mbps(12));
        let mut look = |ms, mbps| {
            let (now, second) = (Time::from_millis(ms), Duration::from_secs(1));
            shares.note_ahead(now, Some(Rate::from_mbps(mbps)), second);
            shares.ahead().unwrap().bps() / 1_000
        };
        assert_eq!(look(0, 10), 10_000);
        assert_eq!(look(50, 5), 9_767); // 50 of 1,074 ms
        assert_eq!(look(20, 5), 9_767);
        let later: Vec<_> = (1..=100).map(|n| look(50 + 50 * n, 5)).collect();
        assert!(later.is_sorted_by(|a, b| a > b || *b < 5_020), "{later:?}");
        assert_eq!(later[0], 9_545);
        assert!((6_700..6_900).contains(&later[19]) && later[99] < 5_100, "{later:?}");
        let risen = look(5_100, 10);
        assert!((6_800..6_950).contains(&risen), "{risen}"); // 50 of 134 ms
        assert_eq!(look(60_000, 8), 8_000);
        shares.note_ahead(Time::from_secs(61), None, Duration::ZERO);
        assert_eq!(shares.ahead(), None);
    }

    #[test]
    fn the_rate_is_shared_by_weight_among_those_that_are_active() {
        let mut shares = Shares::new(Rate::from_mbps(12));
        shares.note(Time::ZERO, Member(0), None);
        assert_eq!(shares.of(Member(0)), Rate::from_mbps(12));
        shares.note(Time::ZERO, Member(3), Some(3));
        shares.note(Time::ZERO, Member(3), Some(2));
        assert_eq!(shares.of(Member(0)), Rate::from_mbps(4));
        assert_eq!(shares.of(Member(3)), Rate::from_mbps(8));
        for ms in [500, 900] {
            shares.note(Time::from_millis(ms), Member(0), None);
        }
        assert_eq!(shares.of(Member(0)), Rate::from_mbps(12)); // 3 was last seen two intervals ago
    }
}
