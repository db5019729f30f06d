//! Shares of the flows of an aggregate in its rate.

use std::time::Duration;

use super::Queue;
use super::constants::{FLOOR, LEAST_TARGET, SHORTEST_RTO, SLIGHTLY};
use super::takers::{Takers, part};
use crate::packet::{FRAME, FlowIndex, make_room, slot};
use crate::time::nanos;
use crate::{Bytes, Rate, Time};

/// Shares of the active flows of an aggregate in its rate, by weight.
///
/// Source: `postack`, section 2 (`r_i`: share of the class over the number of active flows).
///
/// Differs: a flow is active if it was seen in this interval or the one before, so no flow needs a timer.
/// Besides the share by weight ([`of`](Self::of)) there is the max-min share ([`most`](Self::most)):
/// satisfied flows leave rate to backlogged flows.
pub(super) struct Shares {
    rate: Rate,
    /// Time of the last update of the part of `rate` that the egress carries for this aggregate, and this part,
    /// smoothed. [`Time::ZERO`]: the next update is not smoothed.
    leaves: (Time, Rate),
    /// By member.
    seen: Vec<Seen>,
    /// Number of the current interval.
    interval: u32,
    /// Length of an interval, in microseconds.
    span_us: u64,
    /// Flows that were active in the current interval, and in the preceding one.
    active: [Takers; 2],
    /// Time of the last update of `others`, and the bytes without ACK control that had departed by then.
    looked: (Time, Bytes),
    /// Rate of packets without ACK control in bits per second: between the last two updates, and between the
    /// two before.
    others: [u64; 2],
}

/// Activity of a flow in the last interval in which it was active, and in the one before.
#[derive(Clone, Copy)]
struct Seen {
    interval: u32,
    /// Weight in that interval, and in the one before. Zero: the flow was not active then.
    weight: [u32; 2],
    /// Charged bytes that arrived in that interval, and in the one before. `None` if the flow was backlogged:
    /// it would have sent more, or it sent much.
    came: [Option<u32>; 2],
    /// Backlog of the flow at the arrival of its newest data, in bytes.
    waits: u32,
}

impl Default for Seen {
    fn default() -> Self {
        Self { interval: 0, weight: [1, 0], came: [Some(0); 2], waits: 0 }
    }
}

/// Shortest time over which packets are counted: two of the shortest timeouts. A sender that waits for a
/// timeout has sent a packet by then.
pub(super) fn least_interval() -> Duration {
    SHORTEST_RTO * 2
}

/// The longest smoothing time, in nanoseconds.
const LONGEST: u64 = 1 << 40;

impl Shares {
    /// Shares in `rate`. An interval lasts for `span`, and at least for [`least_interval`].
    pub(super) fn new(rate: Rate, span: Duration) -> Self {
        Self {
            rate,
            leaves: (Time::ZERO, rate),
            seen: Vec::new(),
            interval: 0,
            span_us: nanos(span.max(least_interval())) / 1_000,
            active: [Takers::default(); 2],
            looked: (Time::ZERO, Bytes::ZERO),
            others: [0; 2],
        }
    }

    /// Sets the rate of the aggregate. After a higher rate, the next update of the part of the egress is not smoothed.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        let (at, part) = self.leaves;
        self.leaves = if rate > self.rate { (Time::ZERO, rate) } else { (at, part.min(rate)) };
        self.rate = rate;
    }

    /// Rate of the aggregate.
    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Marks `member` as active at `now`. `None` keeps its weight.
    pub(super) fn note(&mut self, now: Time, member: FlowIndex, weight: Option<u32>) {
        self.advance(now);
        make_room(&mut self.seen, member.index(), Seen::default());
        let before = self.seen[slot(member.0)];
        let (former, interval) = (before.weight[0], self.interval);
        let weight = weight.unwrap_or(former).max(1);
        let mut seen = Seen { weight: [weight, before.weight[1]], ..before };
        if before.interval == interval {
            self.active[0].remove(former, self.modest(before.came[0]));
        } else {
            let follows = before.interval != 0 && before.interval.saturating_add(1) == interval;
            let weight = [weight, if follows { former } else { 0 }];
            seen = Seen { interval, weight, came: [Some(0), before.came[0]], ..before };
        }
        self.active[0].add(weight, self.modest(seen.came[0]));
        self.seen[slot(member.0)] = seen;
    }

    /// Forgets `member`, whose index another flow may get next. The other flows get its share at once.
    pub(super) fn leave(&mut self, member: FlowIndex) {
        let Some(seen) = self.seen.get_mut(member.index()).map(std::mem::take) else { return };
        if seen.interval == 0 {
            return;
        }
        let modest = seen.came.map(|came| self.modest(came));
        if seen.interval == self.interval {
            self.active[0].remove(seen.weight[0], modest[0]);
            if seen.weight[1] > 0 {
                self.active[1].remove(seen.weight[1], modest[1]);
            }
        } else if seen.interval.saturating_add(1) == self.interval {
            self.active[1].remove(seen.weight[0], modest[0]);
        }
    }

    /// Counts `bytes` of arrived data of the active flow `member`, as charged. The flow is backlogged if it
    /// is `pressed`, or if it sends more than half of its max-min share.
    pub(super) fn came(&mut self, member: FlowIndex, bytes: u32, pressed: bool) {
        let Some(seen) = self.seen.get(member.index()).copied() else { return };
        let (weight, before) = (seen.weight[0], seen.came[0]);
        let Some(bytes_before) = before.filter(|_| bytes > 0 || pressed) else { return };
        let came = bytes_before.saturating_add(bytes);
        let backlogged = pressed || self.in_interval(came) > self.level(weight).bps() / 2;
        let came = Some(came).filter(|_| !backlogged);
        self.active[0].remove(weight, self.modest(before));
        self.active[0].add(weight, self.modest(came));
        self.seen[slot(member.0)].came[0] = came;
    }

    /// Notes the backlog of `member`.
    pub(super) fn waits(&mut self, member: FlowIndex, bytes: Bytes) {
        make_room(&mut self.seen, member.index(), Seen::default());
        self.seen[slot(member.0)].waits = u32::try_from(bytes.0).unwrap_or(u32::MAX);
    }

    /// The share of `member`, reduced so that a long common queue is drained in the time `within`.
    ///
    /// A reduction of more than 4 % needs a backlog of the flow itself: else one unresponsive flow would slow
    /// down all flows. If flows do not lend their tokens, unresponsive flows keep tokens that others cannot use. The
    /// share is then an equal part of the rate that packets without ACK control leave. It is at least the share that
    /// `member` would have if one more flow was active.
    ///
    /// Source: `postack`, R001-9: `r * (1 - (B - Q) / (C * 0.2 s))`, at least 0.3.
    pub(super) fn drained(&self, member: FlowIndex, queue: Queue, within: Duration) -> Rate {
        let of = if queue.apart {
            self.equal(member).max(self.part_if_active(member, 1))
        } else {
            self.of(member)
        };
        let all = queue.own + queue.ahead.waiting;
        let own = u64::from(self.seen.get(member.index()).map_or(0, |seen| seen.waits));
        let less =
            |bytes: u64, rate: Rate| bytes.saturating_mul(1_024) / rate.bytes_in(within).0.max(1);
        let kept = u64::from(LEAST_TARGET * FRAME);
        let less = less(all.0.saturating_sub(kept), self.rate).min(less(own, of).max(SLIGHTLY));
        let part = u128::from(of.bps()) * u128::from(1_024 - less.min(1_024 - FLOOR)) / 1_024;
        Rate::from_bps(u64::try_from(part).unwrap_or(u64::MAX).max(1))
    }

    /// Rate of `came` bytes in an interval. `None` for a backlogged flow.
    fn modest(&self, came: Option<u32>) -> Option<u64> {
        Some(self.in_interval(came?))
    }

    /// Rate of `bytes` in an interval, in bits per second.
    fn in_interval(&self, bytes: u32) -> u64 {
        u64::from(bytes) * 8_000_000 / self.span_us
    }

    /// The weight of `member`.
    pub(super) fn weight(&self, member: FlowIndex) -> u32 {
        self.seen.get(member.index()).map_or(1, |seen| seen.weight[0])
    }

    /// Time until which a flow is active if no packet comes: the end of the interval after its last packet.
    /// [`Time::ZERO`] without active flows.
    pub(super) fn active_until(&self) -> Time {
        let after = match self.active.map(|it| it.weight() > 0) {
            [true, _] => 1,
            [false, true] => 0,
            [false, false] => return Time::ZERO,
        };
        Time::ZERO + Duration::from_micros(self.span_us) * self.interval.saturating_add(after)
    }

    /// Number of active flows that are backlogged.
    pub(super) fn backlogged(&self) -> u32 {
        self.active[0].backlogged().max(self.active[1].backlogged())
    }

    /// Returns `true` if a single flow at most, of this member's weight, was active in this interval, and in the one
    /// before.
    pub(super) fn is_alone(&self, member: FlowIndex) -> bool {
        self.active_weight() <= self.weight(member).into()
    }

    /// Sum of the weights of the active flows.
    fn active_weight(&self) -> u64 {
        self.active[0].weight().max(self.active[1].weight())
    }

    /// Share of `member` in the rate by weight, among all active flows: never zero.
    pub(super) fn of(&self, member: FlowIndex) -> Rate {
        self.part(self.rate.bps(), member)
    }

    /// Max-min share of `member` in the egress rate, less the packets without ACK control: never zero.
    pub(super) fn most(&self, member: FlowIndex) -> Rate {
        self.level(self.weight(member))
    }

    /// The share of `member` in the egress rate if it and all `excluded` flows were active with its weight: never zero.
    pub(super) fn part_if_active(&self, member: FlowIndex, excluded: u32) -> Rate {
        let weight = self.weight(member);
        let more = u64::from(weight) * u64::from(excluded.max(1));
        let all = self.active_weight() + more;
        Rate::from_bps(part(self.leaves.1.bps(), weight, all).max(1))
    }

    /// Share of `member` by weight in the egress rate, less the packets without ACK control: never zero. A
    /// flow that has not been seen yet counts as active.
    pub(super) fn equal(&self, member: FlowIndex) -> Rate {
        self.part(self.leaves.1.bps().saturating_sub(self.taken()), member)
    }

    fn part(&self, rate: u64, member: FlowIndex) -> Rate {
        let weight = self.weight(member);
        let is_new = self.seen.get(member.index()).is_none_or(|seen| seen.interval == 0);
        let all = self.active_weight() + if is_new { u64::from(weight) } else { 0 };
        Rate::from_bps(part(rate, weight, all).max(1))
    }

    /// Max-min share of a flow with weight `weight`.
    fn level(&self, weight: u32) -> Rate {
        let left = self.leaves.1.bps().saturating_sub(self.taken());
        let level = self.active[0].level(left, weight).min(self.active[1].level(left, weight));
        Rate::from_bps(level.max(1))
    }

    /// Updates the part of the rate that the egress carries, now `part`. A falling rate is followed over about `span`, a
    /// rising one over an eighth of that. After a longer gap, `part` replaces the average.
    pub(super) fn note_leaves(&mut self, now: Time, part: Rate, span: Duration) {
        let (at, before) = if self.leaves.0 == Time::ZERO { (now, part) } else { self.leaves };
        if part == before {
            self.leaves = (now.max(at), part);
            return;
        }
        let falls = nanos(span).min(LONGEST).next_power_of_two().ilog2();
        let follows = if part < before { falls } else { falls.saturating_sub(3) };
        let passed = i128::from(nanos(now.since(at)).min(1 << follows));
        let more = i128::from(part.bps()) - i128::from(before.bps());
        let bps = i128::from(before.bps()) + ((more * passed) >> follows);
        self.leaves = (now.max(at), Rate::from_bps(u64::try_from(bps).unwrap_or_default()));
    }

    /// Notes that other flows had sent `left` bytes in all by `now`.
    pub(super) fn note_others(&mut self, now: Time, left: Bytes) {
        let (at, before) = self.looked;
        let time = now.since(at);
        if time >= least_interval() {
            let bits = u128::from(left.0.saturating_sub(before.0)) * 8 * 1_000_000_000;
            let rate = u64::try_from(bits / time.as_nanos()).unwrap_or(u64::MAX);
            (self.looked, self.others) = ((now, left), [rate, self.others[0]]);
        }
    }

    /// Rate of other flows in bits per second: the smaller of two updates, so a short burst has no effect.
    fn taken(&self) -> u64 {
        self.others[0].min(self.others[1])
    }

    fn advance(&mut self, now: Time) {
        // Numbers begin with 1: zero stands for never.
        let interval = now.nanos() / (self.span_us * 1_000) + 1;
        let interval = u32::try_from(interval).unwrap_or(u32::MAX);
        if interval > self.interval {
            let now = std::mem::take(&mut self.active[0]);
            let next = interval == self.interval.saturating_add(1);
            self.active[1] = if next { now } else { Takers::default() };
            self.interval = interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Removed members have no effect on the shares.
        ///
        /// Catches: a share kept in this interval, in the one before, or in both; a share removed twice.
        /// Catches: bytes of a removed member kept in the sum of satisfied flows.
        #[test]
        fn who_leaves_leaves_its_part_to_the_others_at_once(
            steps in prop::collection::vec((0u64..150, 0u32..3, 1u32..4, 0u8..4), 1..60),
        ) {
            const CLOCK: FlowIndex = FlowIndex(3);
            let last = |member| {
                let left = |it: &&(usize, &(u64, u32, u32, u8))| it.1.1 == member && it.1.3 == 0;
                steps.iter().enumerate().filter(|it| left(&it)).map(|(at, _)| at).next_back()
            };
            let play = |all: bool| {
                let (mut shares, mut ms) = (Shares::new(Rate::from_mbps(100), Duration::ZERO), 0);
                for (at, (wait, member, weight, what)) in steps.iter().enumerate() {
                    ms += wait;
                    let now = Time::from_millis(ms);
                    shares.note(now, CLOCK, None);
                    if !all && last(*member).is_some_and(|last| at <= last) {
                        continue;
                    }
                    let member = FlowIndex(*member);
                    if *what == 0 {
                        shares.leave(member);
                        continue;
                    }
                    shares.note(now, member, Some(*weight));
                    shares.came(member, 100 * u32::from(*what), *what == 3);
                }
                shares.active
            };
            prop_assert_eq!(play(true), play(false));
        }
    }

    /// Catches: no backlogged flow at the beginning of each interval; a satisfied flow that counts as backlogged.
    /// Catches: two flows of which each is alone; a flow that is not alone because of its weight.
    #[test]
    fn backlogged_flows_count_in_this_interval_and_in_the_one_before() {
        let mut shares = Shares::new(Rate::from_mbps(10), Duration::ZERO);
        let ms = Time::from_millis;
        let [a, b, c] = [0, 1, 2].map(FlowIndex);
        shares.note(ms(1), a, Some(5));
        assert!(shares.is_alone(a));
        shares.note(ms(2), b, Some(1));
        shares.note(ms(2), c, Some(1));
        shares.came(a, 1_514, true);
        shares.came(b, 1_514, false);
        shares.came(c, 400_000, false);
        assert_eq!((shares.backlogged(), shares.is_alone(a)), (2, false));
        shares.note(ms(401), b, None);
        assert_eq!((shares.backlogged(), shares.is_alone(b)), (2, false));
        shares.note(ms(801), b, None);
        assert_eq!((shares.backlogged(), shares.is_alone(b)), (0, true));
    }

    /// Catches: windows that shrink after a short burst of UDP, or long after the UDP has ended.
    #[test]
    fn what_others_take_for_long_is_taken_from_the_part_of_each() {
        let mut shares = Shares::new(Rate::from_mbps(12), Duration::ZERO);
        let mut looks = vec![];
        for (ms, left) in
            [(400, 400_000), (800, 400_000), (1_200, 600_000), (1_300, 900_000), (1_600, 1_000_000)]
        {
            for member in [0, 1] {
                shares.note(Time::from_millis(ms), FlowIndex(member), None);
            }
            shares.note_others(Time::from_millis(ms), Bytes(left));
            looks.push(shares.taken());
        }
        assert_eq!(looks, [0, 0, 0, 0, 4_000_000]);
        shares.note_others(Time::from_secs(60), Bytes(1_000_000));
        assert_eq!(shares.taken(), 0);
    }

    /// Catches: a share in tokens that unresponsive flows have and do not lend; a share that falls without limit beside
    /// them.
    #[test]
    fn without_lent_tokens_a_share_is_a_part_of_what_unresponsive_flows_leave() {
        let share = |apart, others| {
            let mut shares = shared(3, [0, 0], [true, true]);
            for ms in [0, 400, 800, 1_200] {
                shares.note_others(Time::from_millis(ms), Bytes(ms * others / 8));
            }
            let queue = Queue { apart, ..Queue::default() };
            shares.drained(FlowIndex(0), queue, SHORTEST_RTO).bps() / 1_000
        };
        assert_eq!([0, 2_000, 11_000].map(|others| share(true, others)), [6_000, 5_000, 4_000]);
        assert_eq!([0, 2_000, 11_000].map(|others| share(false, others)), [6_000; 3]);
    }

    /// Catches: windows that follow each short fall of a trunk's rate; windows that never follow the rate.
    /// Catches: a rate that rises as slowly as it falls; a clock that steps back.
    #[test]
    fn what_may_leave_next_is_followed_slowly_down_and_eight_times_as_fast_up() {
        let mut shares = Shares::new(Rate::from_mbps(12), Duration::ZERO);
        let mut look = |ms: u64, mbps| {
            let (now, second) = (Time::from_millis(ms + 1), Duration::from_secs(1));
            shares.note_leaves(now, Rate::from_mbps(mbps), second);
            shares.leaves.1.bps() / 1_000
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
    }

    /// Catches: the whole rate, although the egress carries less, after a swap that keeps the profile or in a burst.
    #[test]
    fn a_new_rate_is_limited_to_the_part_of_the_egress_at_the_next_ack() {
        let mut shares = Shares::new(Rate::from_mbps(12), Duration::ZERO);
        let ms = |ms| Time::from_millis(1_000 + ms);
        let mut part = |rate, at: u64| {
            shares.set_rate(Rate::from_mbps(rate));
            let carried = Rate::from_mbps(rate.min(2));
            shares.note_leaves(ms(at), carried, Duration::from_secs(1));
            shares.leaves.1.bps() / 1_000_000
        };
        assert_eq!([part(12, 0), part(12, 1), part(1, 2), part(12, 3)], [2, 2, 1, 2]);
    }

    /// Shares of 12 Mbit/s after `intervals`. In each, `came` bytes of two flows arrive. A `pressed` flow
    /// would send more.
    fn shared(intervals: u64, came: [u32; 2], pressed: [bool; 2]) -> Shares {
        let mut shares = Shares::new(Rate::from_mbps(12), Duration::ZERO);
        for ms in (0..intervals).map(|n| 400 * n) {
            for member in [0, 1] {
                let now = Time::from_millis(ms + 10);
                shares.note(now, FlowIndex(member), None);
                shares.came(FlowIndex(member), came[slot(member)], pressed[slot(member)]);
            }
        }
        shares
    }

    /// Catches: the whole rate as the share of a new flow; a share for a flow that does not use it.
    /// Catches: a limited or large flow that counts as satisfied; bytes that count for too long; sums that
    /// overflow.
    #[test]
    fn who_would_send_more_may_have_what_the_others_leave() {
        let most = |shares: &Shares, member| shares.most(FlowIndex(member)).bps() / 1_000;
        let chatty = shared(3, [5_000, 0], [false, true]);
        assert_eq!(most(&chatty, 1), 11_900);
        assert_eq!(chatty.of(FlowIndex(1)), Rate::from_mbps(6));
        assert_eq!(
            [1, 2].map(|member| chatty.equal(FlowIndex(member))),
            [6, 4].map(Rate::from_mbps)
        );
        assert_eq!(most(&shared(3, [5_000, 0], [true, true]), 1), 6_000);
        assert_eq!(most(&shared(3, [320_000, 320_000], [false, false]), 1), 6_000);
        assert_eq!(most(&shared(3, [u32::MAX, u32::MAX], [false, false]), 0), 6_000);
        let mut gone = shared(3, [0, 0], [true, true]);
        gone.note(Time::from_millis(1_300), FlowIndex(0), None);
        assert_eq!(most(&gone, 0), 6_000); // the other was there an interval ago
        gone.note(Time::from_millis(1_700), FlowIndex(0), None);
        assert_eq!(most(&gone, 0), 12_000);
        gone.note_leaves(Time::from_secs(60), Rate::from_mbps(3), Duration::ZERO);
        assert_eq!(most(&gone, 0), 3_000);
        assert_eq!(
            (gone.equal(FlowIndex(0)), gone.of(FlowIndex(0))),
            (Rate::from_mbps(3), Rate::from_mbps(12))
        );
    }

    /// Catches: a new flow that inherits the activity of an earlier flow with the same index.
    #[test]
    fn who_leaves_leaves_nothing_to_the_next_with_its_number() {
        let mut shares = Shares::new(Rate::from_mbps(12), Duration::ZERO);
        for (member, weight) in [(0, 100), (1, 1)] {
            shares.note(Time::ZERO, FlowIndex(member), Some(weight));
        }
        shares.leave(FlowIndex(0));
        shares.leave(FlowIndex(7)); // never seen
        shares.note(Time::from_secs(60), FlowIndex(0), None);
        shares.note(Time::from_secs(60), FlowIndex(1), None);
        assert_eq!(shares.of(FlowIndex(1)), Rate::from_mbps(6));
    }

    /// Catches: a weight subtracted from the sum of the wrong interval after a clock that stepped back.
    #[test]
    fn a_clock_that_steps_back_ends_no_interval() {
        let mut shares = shared(3, [5_000, 0], [false, true]);
        for ms in [1_300, 500, 500, 1_300] {
            shares.note(Time::from_millis(ms), FlowIndex(1), None);
            shares.came(FlowIndex(1), 0, true);
        }
        assert_eq!(shares.most(FlowIndex(1)), Rate::from_bps(11_900_000));
    }

    #[test]
    fn the_rate_is_shared_by_weight_among_those_that_are_active() {
        let mut shares = Shares::new(Rate::from_mbps(12), Duration::ZERO);
        shares.note(Time::ZERO, FlowIndex(0), None);
        assert_eq!(shares.of(FlowIndex(0)), Rate::from_mbps(12));
        shares.note(Time::ZERO, FlowIndex(3), Some(3));
        shares.note(Time::ZERO, FlowIndex(3), Some(2));
        assert_eq!(shares.of(FlowIndex(0)), Rate::from_mbps(4));
        assert_eq!(shares.of(FlowIndex(3)), Rate::from_mbps(8));
        for ms in [500, 900] {
            shares.note(Time::from_millis(ms), FlowIndex(0), None);
        }
        assert_eq!(shares.of(FlowIndex(0)), Rate::from_mbps(12)); // 3 was last seen two intervals ago
    }
}
