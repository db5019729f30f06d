//! Gates of egresses that several aggregates share: a class of the link, or the link. A gate decides when the
//! next held ACK may depart.
//!
//! The gate of an aggregate sees only the aggregate's backlog. Each egress has a gate too, over its own
//! backlog and the credit of all aggregates that send to it. While that gate wants more data, the
//! aggregates with held ACKs take turns byte for byte:
//!
//! `room = target(min(rate, sum of profiles)) - backlog - credit`.
//!
//! Source: `postack`, R001-9 P3: a gate for each class, with the credit `O_C` and the backlog `B_C` of the
//! whole class.
//!
//! Differs: the rate of a class is unknown. The gate takes the sum of the profiles instead, and at most the
//! rate of the link or the ceiling of the class.

use std::time::Duration;

use super::constants::{LEAST_TARGET, PER_ACK, UNSCALED};
use super::release::{lasts_us, micros};
use super::takers::Takers;
use crate::packet::{DeficitRoundRobin, FRAME, First, make_room, slot};
use crate::time::nanos;
use crate::{Bytes, Rate};

/// State of an egress: its backlog, its rate, and the room for requests.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EgressState {
    /// Backlog: charged bytes of ACK-controlled flows of all aggregates that wait at this egress.
    pub waiting: Bytes,
    /// Number of packets without ACK control that wait at this egress, too.
    pub others: u64,
    /// Highest rate of this egress. `None`: packets never wait at it.
    pub rate: Option<Rate>,
    /// Sum of the rates of the aggregates that have a share here, in bits per second.
    pub asked: u64,
    /// The aggregates that have a share here.
    pub takers: Takers,
    /// Bytes that may be requested: the target less backlog and credit.
    pub room: Bytes,
    /// Poll interval: the longest time until the gateway serves the queue again.
    pub poll_interval: Duration,
}

impl EgressState {
    /// Max-min share of an aggregate of `rate` at this egress: `rate` if the egress carries the rates of all. An
    /// aggregate that is not one of the `takers` gets a share like one of them.
    pub(super) fn part_of(&self, rate: Rate) -> Rate {
        let Some(most) = self.rate.map(Rate::bps).filter(|most| self.asked.max(rate.bps()) > *most)
        else {
            return rate;
        };
        Rate::from_bps(rate.bps().min(self.takers.level(most, 1)).max(1))
    }

    /// Adds aggregates of these rates at an egress of rate `most`.
    #[cfg(test)]
    pub(super) fn ask(&mut self, rates: &[u64], most: u64) {
        let mut place = Place::default();
        for rate in rates {
            let report = CreditAccount { rate: *rate, ..CreditAccount::default() };
            place.update(&mut Reporter::default(), &report, Some(Rate::from_bps(most)));
        }
        (self.asked, self.takers) = (place.account.rate, place.takers);
    }

    /// The smaller of [`part_of`](Self::part_of) and the egress rate.
    pub(super) fn carries_of(&self, rate: Rate) -> Rate {
        self.rate.map_or(rate, |most| self.part_of(rate).min(most))
    }
}

/// An account of requests: the credit, and the measurements that determine the target. Each aggregate has an
/// account, and so has each egress for the sum of its aggregates.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreditAccount {
    /// Outstanding credit, in charged bytes.
    pub(super) credit: u64,
    /// Bytes that an aggregate has requested since its last report. An egress has no reports of its own.
    pub(super) called: u64,
    /// An aggregate holds ACKs only because its egress has no room.
    pub(super) more: bool,
    /// Rate of the aggregate in bits per second. Zero if no flow is active, no ACK is held, and no credit is
    /// outstanding. For an egress, the sum of these rates.
    pub(super) rate: u64,
    /// Round trip to the senders in microseconds, averaged over the requested bytes. A longer round trip
    /// counts at once if no other flow is active.
    near_us: u64,
    /// Smoothed time for which credit is outstanding, in microseconds.
    response_us: u64,
    /// Charged bytes of a full segment of each backlogged flow.
    pub(super) backlogged: u64,
}

impl CreditAccount {
    /// Notes a request for `bytes` to a sender at a round trip of `near`. A longer round trip counts at once if its
    /// sender is `alone`. If several flows began together, each first request would otherwise be for a whole
    /// round trip.
    pub(super) fn ask(&mut self, near: Duration, bytes: u32, alone: bool) {
        let near_us = limited_us(near);
        let average = self.average(near_us, bytes.into());
        self.near_us = if alone { average.max(near_us) } else { average };
        self.called += u64::from(bytes);
    }

    /// Notes that credit was outstanding for `span` on average.
    pub(super) fn respond(&mut self, span: Duration) {
        self.response_us = self.response_us / 2 + limited_us(span) / 2;
    }

    /// Time from a request to its data: at least the round trip. The measured time counts up to the
    /// lifetime of credit.
    pub(super) fn way(&self) -> Duration {
        Duration::from_micros(self.on_its_way_us())
    }

    /// [`way`](Self::way) in microseconds.
    fn on_its_way_us(&self) -> u64 {
        self.near_us.max(self.response_us.min(lasts_us(self.near_us)))
    }

    /// Average round trip after requests for `bytes` at a round trip of `near_us`.
    fn average(&self, near_us: u64, bytes: u64) -> u64 {
        let all = u64::from(UNSCALED);
        let part = bytes.min(all);
        (self.near_us * (all - part) + near_us * part) / all
    }

    /// Target for backlog plus credit, for an egress of `rate` that is polled once in a `poll_interval`. Data arrives
    /// at most `longest` after its request. A flow needs a segment in the queue whenever its turn comes. So while
    /// `others` packets of other flows wait, the target has room for a further segment of every backlogged flow. A
    /// single other packet is a ping, which needs no room.
    pub(super) fn within(
        &self,
        longest: Duration,
        rate: Rate,
        poll_interval: Duration,
        others: u64,
    ) -> u64 {
        let way_us = self.on_its_way_us().min(micros(longest));
        let on_its_way =
            rate.bytes_in_nanos((way_us * 1_000).saturating_add(nanos(poll_interval))).0;
        let beside = if others > 1 { self.backlogged } else { 0 };
        u64::from(LEAST_TARGET * FRAME).max(on_its_way + u64::from(PER_ACK * FRAME) + beside)
    }
}

/// Microseconds of `span`, up to the longest lifetime of credit.
fn limited_us(span: Duration) -> u64 {
    micros(span).min(lasts_us(u64::MAX))
}

/// The egresses of one direction, and the aggregates that send there.
#[derive(Default)]
pub struct EgressGates {
    places: Vec<Place>,
    /// Aggregates that wait for room, in the order of their turns at each egress.
    turns: DeficitRoundRobin<u32>,
    reporters: Vec<Reporter>,
    /// Number of aggregates that wait for room.
    waiting: u32,
}

/// Bytes of the turn of an aggregate: two full segments.
fn quantum() -> i64 {
    (PER_ACK * FRAME).into()
}

/// An egress that several aggregates share.
#[derive(Clone, Copy)]
struct Place {
    account: CreditAccount,
    takers: Takers,
    turns: First<u32>,
}

/// An aggregate that reports to an egress.
#[derive(Clone, Copy, Default)]
struct Reporter {
    /// The account as the aggregate last reported it.
    account: CreditAccount,
    /// Index of the egress for which the aggregate made that report.
    place: usize,
    /// The rate of the aggregate was below its max-min share, so it counts as satisfied.
    modest: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self { account: CreditAccount::default(), takers: Takers::default(), turns: First::NOBODY }
    }
}

impl Place {
    /// Replaces the last report of `reporter` by `report`. The egress rate is `most`.
    fn update(&mut self, reporter: &mut Reporter, report: &CreditAccount, most: Option<Rate>) {
        let (sum, before) = (&mut self.account, &reporter.account);
        sum.credit = sum.credit - before.credit + report.credit;
        sum.backlogged = sum.backlogged - before.backlogged + report.backlogged;
        sum.rate = sum.rate.saturating_sub(before.rate).saturating_add(report.rate);
        self.takers.remove(u32::from(before.rate > 0), reporter.modest.then_some(before.rate));
        reporter.modest = self.is_modest(report.rate, most.map_or(u64::MAX, Rate::bps));
        self.takers.add(u32::from(report.rate > 0), reporter.modest.then_some(report.rate));
        // The round trip of a single aggregate is that of the egress.
        let way = report.on_its_way_us();
        let is_single = report.rate > 0 && self.takers.weight() == 1;
        self.account.near_us =
            if is_single { way } else { self.account.average(way, report.called) };
    }

    /// Returns `true` if one more aggregate of `rate` is satisfied: its max-min share of `most` exceeds `rate`.
    fn is_modest(&self, rate: u64, most: u64) -> bool {
        let mut all = self.takers;
        all.add(u32::from(rate > 0), None);
        rate > 0 && rate < all.level(most, 1)
    }

    /// Bytes that may be requested: the target less backlog and credit.
    fn room(&self, ahead: EgressState) -> u64 {
        let Some(most) = ahead.rate else { return u64::MAX };
        // An aggregate that has requested nothing yet may request data at its own rate.
        let asked = self.account.rate;
        let rate = if asked == 0 { most } else { most.min(Rate::from_bps(asked)) };
        let target = self.account.within(Duration::MAX, rate, ahead.poll_interval, ahead.others);
        target.saturating_sub(ahead.waiting.0.saturating_add(self.account.credit))
    }
}

impl EgressGates {
    /// Adds to `ahead` the rates of the aggregates at `place`, and the room for a request out of turn.
    /// There is no room while an aggregate waits for its turn, and no limit without an egress rate.
    pub fn complete(&self, place: usize, ahead: EgressState) -> EgressState {
        if ahead.rate.is_none() {
            return EgressState { room: Bytes(u64::MAX), ..ahead };
        }
        let place = self.places.get(place).copied().unwrap_or_default();
        let room = if place.turns.member().is_none() { place.room(ahead) } else { 0 };
        EgressState { asked: place.account.rate, takers: place.takers, room: Bytes(room), ..ahead }
    }

    /// Returns `true` if an aggregate waits for room at any egress.
    pub const fn is_waited_for(&self) -> bool {
        self.waiting > 0
    }

    /// Notes the `report` of aggregate `number`, which sends to `place` at an egress rate of `most`.
    ///
    /// The report replaces the last one of the aggregate, even one for another place. In a swap of policies,
    /// routes change before the accounts are closed.
    pub fn note(&mut self, place: usize, number: u32, report: CreditAccount, most: Option<Rate>) {
        make_room(&mut self.reporters, slot(number), Reporter::default());
        let former = std::mem::replace(&mut self.reporters[slot(number)].place, place);
        if former != place {
            self.note_at(former, number, CreditAccount::default(), None);
        }
        self.note_at(place, number, report, most);
    }

    /// Replaces the last report of aggregate `member`, which was for `place`, by `report`.
    fn note_at(&mut self, place: usize, member: u32, report: CreditAccount, most: Option<Rate>) {
        make_room(&mut self.places, place, Place::default());
        let (place, reporter) = (&mut self.places[place], &mut self.reporters[slot(member)]);
        place.update(reporter, &report, most);
        match (reporter.account.more, report.more) {
            (false, true) => {
                self.turns.join(&mut place.turns, member, quantum());
                self.waiting += 1;
            }
            (true, false) => {
                self.turns.remove(&mut place.turns, member);
                self.waiting -= 1;
            }
            (true, true) => {
                self.turns.charge(member, i64::try_from(report.called).unwrap_or(i64::MAX));
            }
            (false, false) => {}
        }
        reporter.account = report;
    }

    /// The aggregate whose turn it is at `place`, and the bytes that it may request. `None` without room.
    pub fn turn(
        &mut self,
        place: usize,
        ahead: impl FnOnce() -> EgressState,
    ) -> Option<(u32, Bytes)> {
        let place = self.places.get_mut(place)?;
        place.turns.member()?;
        let ahead = ahead();
        let room = place.room(ahead);
        if ahead.rate.is_none() || room == 0 {
            return None;
        }
        let member = self.turns.next(&mut place.turns, |_| quantum())?;
        let credit = self.turns.credit(member).unsigned_abs();
        Some((member, Bytes(room.min(credit))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Option<Rate> = Some(Rate::from_mbps(10));

    /// Catches: windows by the rate of the profile while no ACK is held, behind a slower trunk.
    #[test]
    fn an_idle_aggregate_has_no_larger_share_than_its_egress_carries() {
        let (profile, trunk) = (Rate::from_mbps(100), Rate::from_mbps(8));
        let mut ahead = EgressState { rate: Some(trunk), ..EgressState::default() };
        assert_eq!((ahead.part_of(profile), ahead.part_of(trunk)), (trunk, trunk));
        ahead.ask(&[profile.bps()], trunk.bps());
        assert_eq!(ahead.part_of(profile), trunk);
    }

    /// Catches: the whole egress rate for an aggregate that is not counted yet, beside aggregates that are satisfied.
    /// A window of that rate could never be taken back.
    #[test]
    fn a_new_aggregate_gets_a_share_beside_satisfied_ones() {
        let [satisfied, new, trunk, third] = [30, 200, 99, 33].map(Rate::from_mbps);
        let mut ahead = EgressState { rate: Some(trunk), ..EgressState::default() };
        ahead.ask(&[satisfied.bps(); 3], trunk.bps());
        assert_eq!((ahead.part_of(satisfied), ahead.part_of(new)), (satisfied, third));
    }

    /// Catches: room for every flow although only a ping waits; no such room while a queue of other packets
    /// waits.
    #[test]
    fn a_waiting_ping_adds_nothing_to_the_target_and_a_queue_adds_a_segment_for_each_flow() {
        let account = CreditAccount { backlogged: 8 * 1_514, ..CreditAccount::default() };
        let target =
            |others| account.within(Duration::MAX, Rate::from_kbps(1_500), Duration::ZERO, others);
        assert_eq!([0, 1, 2, 100].map(target), [3, 3, 10, 10].map(|segments| segments * 1_514));
    }

    /// Catches: a target that is too small for the first requests; a target that stays long on a shorter path.
    /// Catches: a whole round trip of requests for each of several flows that begin together.
    #[test]
    fn a_longer_round_trip_counts_at_once_if_alone_and_a_shorter_one_with_its_requests() {
        let mut account = CreditAccount::default();
        account.ask(Duration::from_millis(40), 1_514, true);
        assert_eq!(account.near_us, 40_000);
        (0..400).for_each(|_| account.ask(Duration::from_millis(4), 1_514, true));
        assert!((4_000..4_100).contains(&account.near_us), "{}", account.near_us);
        account.ask(Duration::from_millis(40), 1_514, false);
        assert!((4_500..5_000).contains(&account.near_us), "{}", account.near_us);
    }

    /// Catches: an egress whose round trip is that of the last aggregate, or of one that has ended.
    #[test]
    fn the_round_trip_of_an_egress_is_that_of_its_aggregate_or_the_average_of_several() {
        let mut places = EgressGates::default();
        let report = |near_us, called| CreditAccount { near_us, ..more(called) };
        places.note(0, 0, report(10_000, 0), MOST);
        assert_eq!(places.places[0].account.near_us, 10_000);
        places.note(0, 1, report(600_000, 6_554), MOST);
        assert!((68_000..70_000).contains(&places.places[0].account.near_us));
        places.note(0, 1, CreditAccount { near_us: 600_000, ..CreditAccount::default() }, MOST);
        assert!((68_000..70_000).contains(&places.places[0].account.near_us));
        places.note(0, 0, report(10_000, 0), MOST);
        assert_eq!(places.places[0].account.near_us, 10_000);
    }

    /// Report of an aggregate that has requested `called` bytes and would request more.
    fn more(called: u64) -> CreditAccount {
        CreditAccount {
            called,
            rate: 10_000_000,
            near_us: 3_000,
            more: true,
            ..CreditAccount::default()
        }
    }

    fn behind(waiting: u64) -> EgressState {
        EgressState { waiting: Bytes(waiting), rate: MOST, ..EgressState::default() }
    }

    /// Catches: aggregates that share by ACKs instead of bytes; an aggregate whose turn never ends.
    #[test]
    fn waiting_aggregates_take_turns_byte_for_byte_whatever_an_ack_requests() {
        let (mut places, worth) = (EgressGates::default(), [1_514, 3_028, 6_056]);
        let mut called = [0_u64; 3];
        for reporter in 0..3 {
            places.note(7, reporter, more(0), MOST);
        }
        for _ in 0..3_000 {
            let (reporter, room) = places.turn(7, || behind(0)).unwrap();
            assert!(room > Bytes::ZERO);
            let at = slot(reporter);
            called[at] += worth[at];
            places.note(7, reporter, more(worth[at]), MOST);
        }
        let [least, most] = [called.iter().min(), called.iter().max()].map(|it| *it.unwrap());
        assert!(most - least <= 2 * 6_056, "{called:?}");
    }

    /// Catches: room for an aggregate that has not waited; requests of other aggregates that do not count;
    /// earlier reports that still count.
    #[test]
    fn room_excludes_all_requests_and_goes_to_aggregates_that_wait() {
        let mut places = EgressGates::default();
        let room = |places: &EgressGates, waiting| places.complete(0, behind(waiting)).room.0;
        // Three full segments; or two, and 3 ms at 10 Mbit/s (the round trip of the senders).
        assert_eq!(room(&places, 1_000), 3 * 1_514 - 1_000);
        let idle = CreditAccount { more: false, ..more(1 << 20) };
        places.note(0, 1, CreditAccount { credit: 700, ..idle }, MOST);
        places.note(0, 1, CreditAccount { credit: 500, ..idle }, MOST);
        places.note(0, 2, CreditAccount { credit: 600, ..idle }, MOST);
        assert_eq!(room(&places, 0), 3_750 + 2 * 1_514 - 1_100);
        places.note(0, 2, more(0), MOST);
        assert!(places.is_waited_for());
        assert_eq!(room(&places, 0), 0);
        assert_eq!(places.turn(0, || behind(7_000)), None);
        assert_eq!(places.turn(0, || behind(0)).unwrap().0, 2);
        places.note(0, 2, CreditAccount::default(), MOST);
        assert_eq!((places.turn(0, || behind(0)), places.is_waited_for()), (None, false));
        assert_eq!(places.complete(0, EgressState::default()).room.0, u64::MAX);
        places.note(0, 2, more(0), MOST);
        assert_eq!(places.turn(0, EgressState::default), None, "nothing is ever to wait there");
    }

    /// Catches: the last report for the former egress, subtracted at the new egress.
    /// Catches: an aggregate that still takes turns at its former egress.
    #[test]
    fn an_aggregate_that_moves_is_removed_from_its_former_egress() {
        let mut places = EgressGates::default();
        let waits = |credit| CreditAccount { credit, backlogged: 1_514, ..more(0) };
        for reporter in 0..2 {
            places.note(3, reporter, waits(700), MOST);
        }
        places.note(5, 0, waits(400), MOST);
        places.note(5, 2, waits(100), MOST);
        let turn = |places: &mut EgressGates, at| places.turn(at, || behind(0)).map(|(who, _)| who);
        assert_eq!([3, 5].map(|at| turn(&mut places, at)), [Some(1), Some(0)]);
        places.note(3, 1, CreditAccount::default(), MOST);
        assert_eq!(
            (
                places.places[3].account.credit,
                places.places[3].account.rate,
                places.places[3].takers
            ),
            Default::default()
        );
        assert_eq!(places.places[5].account.credit, 500);
        assert_eq!([3, 5].map(|at| places.places[at].account.backlogged), [0, 2 * 1_514]);
        assert_eq!(turn(&mut places, 3), None);
        for reporter in [0, 2] {
            assert!(places.is_waited_for());
            places.note(3, reporter, CreditAccount::default(), MOST);
        }
        assert_eq!(
            (
                places.places[5].account.credit,
                places.places[5].account.rate,
                places.places[5].takers
            ),
            Default::default()
        );
        assert!(!places.is_waited_for(), "no aggregate waits twice");
    }

    /// Catches: an equal reduction of all rates, which puts small rates below an equal share.
    /// Catches: a removed aggregate, or its former larger rate, that still counts.
    #[test]
    fn requests_beyond_the_egress_rate_are_reduced_from_the_largest_down() {
        let mut places = EgressGates::default();
        let mut parts = |asked: [u64; 3]| {
            for _ in 0..2 {
                for (number, mbps) in (0..).zip(asked) {
                    places.note(
                        0,
                        number,
                        CreditAccount { rate: mbps * 1_000_000, ..more(0) },
                        MOST,
                    );
                }
            }
            asked.map(|mbps| {
                let ahead = places.complete(0, behind(0));
                ahead.part_of(Rate::from_mbps(mbps)).bps() / 1_000
            })
        };
        assert_eq!(parts([2, 3, 4]), [2_000, 3_000, 4_000]);
        assert_eq!(parts([2, 20, 20]), [2_000, 4_000, 4_000]);
        assert_eq!(parts([2, 3, 20]), [2_000, 3_000, 5_000]);
        assert_eq!(parts([20, 20, 20]), [3_333, 3_333, 3_333]);
        assert_eq!(parts([20, 0, 1]), [9_000, 0, 1_000]);
    }
}
