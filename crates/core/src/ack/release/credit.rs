//! Outstanding credit: bytes that departed ACKs requested from each flow's sender and that have not arrived yet.
//!
//! A departing ACK adds to its flow's credit, and data of the flow subtracts from it:
//!
//! `credit(flow) = requested_to - sent`, and `credit = sum of credit(flow)`.
//!
//! The credit of a flow has three ages, each a third of its [lifetime](lasts_us) long. So credit that its sender
//! does not use is given back after one to one and a half round trips.
//!
//! Source: `postack`, R001-9 P3 (the `O_C` of a class: credit of all its flows).
//!
//! Differs: `requested_to` is kept as three counts of bytes, as data beyond it needs no credit. A sender
//! may send more than its ACKs request. Its data uses no credit of the youngest age, unless this age may end
//! after the round trip. Otherwise the data of that credit would arrive without credit, and each further request would
//! be too early.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::gate::{lasts_us, micros};
use crate::Time;
use crate::ack::CreditAccount;
use crate::flow::{before, span_of, ticks};
use crate::packet::{FlowIndex, make_room};
use crate::time::nanos;

/// Outstanding credit of the flows of an aggregate.
#[derive(Default)]
pub(super) struct Credits {
    /// By member.
    flows: Vec<FlowCredit>,
    /// For each flow with credit, the time at which its credit gets older. An entry with a time other than `ends`
    /// of its flow has no effect.
    clocks: BinaryHeap<Reverse<(Time, FlowIndex)>>,
    /// Account of the aggregate. Its credit is the sum over all flows. Its rate and `more` are those of the
    /// last report.
    pub(super) account: CreditAccount,
}

/// Outstanding credit of a flow.
#[derive(Clone, Copy, Default)]
struct FlowCredit {
    /// Charged bytes by age, the youngest first.
    ages: [u32; AGES],
    /// Length of an age in microseconds. Zero: the flow has no credit.
    age_us: u32,
    /// End of the present ages, in ticks.
    ends: u32,
}

impl FlowCredit {
    fn sum(&self) -> u64 {
        self.ages.iter().copied().map(u64::from).sum()
    }
}

/// Number of ages. A request that was answered after one round trip is then in its last age.
const AGES: usize = 3;

impl Credits {
    /// Adds credit of `member` for `bytes`. Its sender is at a round trip of `near`.
    pub(super) fn add(&mut self, now: Time, member: FlowIndex, near: Duration, bytes: u32) {
        make_room(&mut self.flows, member.index(), FlowCredit::default());
        let flow = &mut self.flows[member.index()];
        let age_us = age_us(near);
        let ends = gets_older(now, age_us);
        if flow.age_us == 0 || before(ticks(ends), flow.ends) {
            flow.ends = ticks(ends);
            self.clocks.push(Reverse((ends, member)));
        }
        flow.age_us = age_us;
        let young = flow.ages[0].saturating_add(bytes);
        self.account.credit += u64::from(young - flow.ages[0]);
        flow.ages[0] = young;
    }

    /// Notes that `bytes` of data of `member` arrived, at a round trip of `near` after their request. They use
    /// the oldest credit of the flow first, and none of the youngest age if each age ends within `near`.
    pub(super) fn take(&mut self, member: FlowIndex, near: Duration, mut bytes: u32) {
        let Some(flow) = self.flows.get_mut(member.index()) else { return };
        let younger = usize::from(lasts_at_most_us(flow.age_us) < micros(near));
        for credit in flow.ages.iter_mut().skip(younger).rev() {
            let used = bytes.min(*credit);
            *credit -= used;
            bytes -= used;
            self.account.credit -= u64::from(used);
        }
    }

    /// Ends the credit of `member`. The next flow of this index begins without credit.
    pub(super) fn give_back(&mut self, member: FlowIndex) {
        if let Some(flow) = self.flows.get_mut(member.index()) {
            self.account.credit -= flow.sum();
            *flow = FlowCredit::default();
        }
    }

    /// Outstanding credit of `member`, in bytes.
    pub(super) fn of(&self, member: FlowIndex) -> u64 {
        self.flows.get(member.index()).map_or(0, FlowCredit::sum)
    }

    /// Outstanding credit, in bytes.
    pub(super) const fn total(&self) -> u64 {
        self.account.credit
    }

    /// The next time at which credit may get older or be given back. `None` if there is no clock.
    pub(super) fn next(&self) -> Option<Time> {
        self.clocks.peek().map(|Reverse((at, _))| *at)
    }

    /// Lets credit get older until `now`. The caller does so before each use of the credit.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some(Reverse((at, member))) = self.clocks.peek().copied()
            && at <= now
        {
            self.clocks.pop();
            let flow = &mut self.flows[member.index()];
            if flow.age_us == 0 || flow.ends != ticks(at) {
                continue;
            }
            flow.ages.rotate_right(1);
            self.account.credit -= u64::from(std::mem::take(&mut flow.ages[0]));
            if flow.sum() == 0 {
                flow.age_us = 0;
            } else {
                let ends = gets_older(at, flow.age_us);
                flow.ends = ticks(ends);
                self.clocks.push(Reverse((ends, member)));
            }
        }
    }
}

/// Length in microseconds of an age for a sender at a round trip of `near`: half of a round trip, if that is
/// long enough.
fn age_us(near: Duration) -> u32 {
    u32::try_from(lasts_us(micros(near)) / 3).unwrap_or(u32::MAX)
}

/// Time at which an age that begins at `from` ends: up to a tick (1 ms) later than after `age_us`. So the credit of
/// many flows gets older together, with few timer events.
fn gets_older(from: Time, age_us: u32) -> Time {
    let ends = from.nanos() + u64::from(age_us) * 1_000;
    Time::from_nanos(ends.next_multiple_of(nanos(span_of(1))))
}

/// The longest time, in microseconds, between the beginning and the [end](gets_older) of an age.
fn lasts_at_most_us(age_us: u32) -> u64 {
    u64::from(age_us) + micros(span_of(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const NEAR: Duration = Duration::from_millis(40);
    const A: FlowIndex = FlowIndex(1);
    const B: FlowIndex = FlowIndex(2);

    impl Credits {
        fn add_at(&mut self, now: Time, member: FlowIndex, near: Duration, bytes: u32) {
            self.advance(now);
            self.add(now, member, near, bytes);
        }

        fn take_at(&mut self, now: Time, member: FlowIndex, near: Duration, bytes: u32) {
            self.advance(now);
            self.take(member, near, bytes);
        }

        fn total_at(&mut self, now: Time) -> u64 {
            self.advance(now);
            self.total()
        }
    }

    /// Catches: credit given back within a round trip; credit that is outstanding for ever.
    #[test]
    fn unused_credit_is_given_back_after_one_to_one_and_a_half_round_trips() {
        for later in [0, 1, 10, 19] {
            let mut credits = Credits::default();
            credits.add_at(MS(1_000), A, NEAR, 500);
            credits.add_at(MS(1_000 + later), A, NEAR, 70);
            assert_eq!(credits.total_at(MS(1_059)), 570, "{later}");
            // Each age ends up to a tick later.
            assert_eq!(credits.total_at(MS(1_064)), 0, "{later}");
            assert_eq!(credits.next(), None);
        }
    }

    /// Catches: data that uses credit of another flow, or more credit than its flow has.
    #[test]
    fn data_uses_credit_of_its_own_flow_only() {
        let mut credits = Credits::default();
        credits.add_at(MS(0), A, NEAR, 300);
        credits.add_at(MS(0), B, NEAR, 100);
        credits.take_at(MS(40), B, NEAR, 250);
        assert_eq!(credits.total_at(MS(40)), 300);
        credits.take_at(MS(40), A, NEAR, 100);
        assert_eq!(credits.total_at(MS(40)), 200);
        credits.take_at(MS(40), FlowIndex(9), NEAR, 1_000);
        assert_eq!(credits.total_at(MS(40)), 200);
    }

    /// Catches: excess data of slow start that uses the credit of later data of its flow.
    /// Catches: data of a sender nearby that finds no credit, as an age lasts for longer than its round trip.
    #[test]
    fn data_uses_no_credit_of_the_youngest_age() {
        let mut credits = Credits::default();
        for ms in [0, 35, 45] {
            credits.add_at(MS(ms), A, NEAR, 100);
        }
        credits.take_at(MS(45), A, NEAR, 1_000);
        assert_eq!(credits.total_at(MS(45)), 100, "requested 0 ms before, not 10");
        // An age of 0.7 ms ends up to a tick later, and so after the data has arrived.
        for near in [200, 830, 1_700].map(Duration::from_micros) {
            let mut credits = Credits::default();
            credits.add_at(MS(50), B, near, 100);
            credits.take_at(MS(50) + near, B, near, 100);
            assert_eq!(credits.total_at(MS(50) + near), 0, "{near:?}");
        }
    }

    /// Catches: newer credit that keeps unused credit from being given back, if a sender uses half of its credit.
    #[test]
    fn a_sender_that_uses_half_of_its_credit_holds_that_of_one_and_a_half_round_trips_at_most() {
        let mut credits = Credits::default();
        for ms in 0..1_000 {
            credits.add_at(MS(ms), A, NEAR, 100);
            if ms >= 40 {
                credits.take_at(MS(ms), A, NEAR, 50);
            }
            assert!(credits.total_at(MS(ms)) <= 6_000, "{ms} ms");
        }
        for ms in 1_000..2_000 {
            credits.add_at(MS(ms), A, NEAR, 100);
            credits.take_at(MS(ms), A, NEAR, 100);
        }
        assert!(credits.total_at(MS(1_999)) <= 4_200, "{}", credits.account.credit);
    }

    /// Catches: credit that lasts for the round trip of the handshake, which was longer than all later ones.
    #[test]
    fn a_shorter_round_trip_shortens_the_life_of_credit() {
        let mut credits = Credits::default();
        credits.add_at(MS(0), A, NEAR * 10, 100);
        (0..1_000).for_each(|ms| credits.add_at(MS(ms), A, NEAR, 1));
        assert!(credits.total_at(MS(1_000)) <= 60, "{}", credits.account.credit);
    }

    /// Catches: credit of an ended flow that counts for the next flow of its index.
    #[test]
    fn the_next_flow_of_an_index_begins_without_credit() {
        let mut credits = Credits::default();
        credits.add_at(MS(0), A, NEAR, 300);
        credits.add_at(MS(0), B, NEAR, 100);
        credits.give_back(A);
        assert_eq!(credits.total_at(MS(0)), 100);
        credits.add_at(MS(1), A, NEAR, 40);
        assert_eq!(credits.total_at(MS(19)), 140);
        assert_eq!(credits.total_at(MS(80)), 0);
        assert_eq!(credits.next(), None);
    }

    /// Catches: a clock of a longer round trip, of this flow or of the last flow of its index. Until it expires, all
    /// credit would be of the youngest age, which data does not use.
    #[test]
    fn data_uses_credit_after_a_shorter_round_trip_at_once() {
        for ends in [true, false] {
            let mut credits = Credits::default();
            credits.add_at(MS(0), A, NEAR * 10, 300);
            if ends {
                credits.give_back(A);
            }
            credits.add_at(MS(1), A, NEAR / 10, 40);
            credits.take_at(MS(6), A, NEAR / 10, 340);
            assert_eq!(credits.total_at(MS(6)), 0, "{ends}");
        }
    }

    /// Catches: credit that is outstanding for minutes after a pause, if its clock wraps.
    #[test]
    fn credit_ends_in_a_pause_of_any_length() {
        for minutes in [1, 30, 40, 60, 71, 72, 110] {
            let mut credits = Credits::default();
            credits.add_at(MS(1_000), A, NEAR, 500);
            let now = MS(1_000 + minutes * 60_000);
            assert_eq!((credits.total_at(now), credits.next()), (0, None), "{minutes} min");
        }
    }

    /// Catches: a timer event for each age of each of a thousand flows.
    #[test]
    fn the_credit_of_many_flows_gets_older_together() {
        let mut credits = Credits::default();
        let mut events = 0;
        for (n, member) in (0..8_000).zip((0..1_000).cycle().map(FlowIndex)) {
            let now = Time::from_micros(n * 125);
            while let Some(at) = credits.next().filter(|at| *at <= now) {
                credits.advance(at);
                events += 1;
            }
            credits.add_at(now, member, NEAR, 1_514);
        }
        assert!(events <= 955, "{events}");
    }
}
