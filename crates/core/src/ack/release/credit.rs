//! Outstanding credit: bytes that departed ACKs requested from each flow's sender and that have not arrived yet.
//!
//! A departing ACK adds to its flow's credit, and data of the flow subtracts from it:
//!
//! `credit(flow) = requested_to - sent`, and `credit = sum of credit(flow)`.
//!
//! Unused credit is given back after its [lifetime](lasts), one and a half round trips, or up to an eighth of a
//! round trip later.
//!
//! Source: `postack`, R001-9 P3 (the `O_C` of a class: credit of all its flows).
//!
//! Differs: `requested_to` is kept as counts of bytes by the time of their request, as data beyond it needs no
//! credit. In slow start a sender sends twice the data that its ACKs request. This data uses no credit that is
//! younger than a round trip. Otherwise the data of that credit would arrive without credit, and each further
//! request would be too early.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::gate::lasts;
use crate::Time;
use crate::packet::FlowIndex;

/// Outstanding credit of the flows of an aggregate.
#[derive(Default)]
pub(super) struct Credits {
    /// Charged bytes of each flow by the time of their request, and the time at which they are given back.
    requests: BTreeMap<(FlowIndex, Time), (u32, Time)>,
    /// The times at which `requests` are given back, in order.
    ends: BTreeSet<(Time, FlowIndex, Time)>,
    /// Sum of the credit of all flows.
    total: u64,
}

/// Requests of a flow within an eighth of a round trip count as one.
///
/// Chosen: at a quarter, one download at 600 ms loses half as many packets again.
const RESOLUTION: u32 = 8;

impl Credits {
    /// Adds credit of `member` for `bytes`. Its sender is at a round trip of `near`.
    pub(super) fn add(&mut self, now: Time, member: FlowIndex, near: Duration, bytes: u32) {
        self.expire(now);
        let newest = self.requests.range(flow(member)).next_back().map(|(key, _)| *key);
        let with =
            newest.filter(|(_, at)| now.since(*at) < resolution(near)).unwrap_or((member, now));
        let (credit, _) = self.requests.entry(with).or_insert_with(|| {
            let end = now + lasts(near) + resolution(near);
            self.ends.insert((end, member, now));
            (0, end)
        });
        let before = *credit;
        *credit = before.saturating_add(bytes);
        self.total += u64::from(*credit - before);
    }

    /// Notes that `bytes` of data of `member` arrived, at a round trip of `near` after their request. They use
    /// the credit of that request first, and then older credit.
    pub(super) fn take(&mut self, now: Time, member: FlowIndex, near: Duration, mut bytes: u32) {
        self.expire(now);
        let newest = now.before(near.saturating_sub(resolution(near)));
        while bytes > 0
            && let Some((key, (credit, end))) =
                self.requests.range_mut((member, Time::ZERO)..=(member, newest)).next_back()
        {
            let used = bytes.min(*credit);
            *credit -= used;
            bytes -= used;
            self.total -= u64::from(used);
            if *credit == 0 {
                let (key, end) = (*key, *end);
                self.requests.remove(&key);
                self.ends.remove(&(end, member, key.1));
            }
        }
    }

    /// Gives back the credit of `member`, whose sender sends no more.
    pub(super) fn give_back(&mut self, member: FlowIndex) {
        while let Some((key, (credit, end))) = self.requests.range(flow(member)).next() {
            let (key, end) = (*key, *end);
            self.total -= u64::from(*credit);
            self.requests.remove(&key);
            self.ends.remove(&(end, member, key.1));
        }
    }

    /// Outstanding credit of `member` at `now`, in bytes.
    pub(super) fn of(&mut self, now: Time, member: FlowIndex) -> u64 {
        self.expire(now);
        self.requests.range(flow(member)).map(|(_, (bytes, _))| u64::from(*bytes)).sum()
    }

    /// Outstanding credit at `now`, in bytes.
    pub(super) fn total(&mut self, now: Time) -> u64 {
        self.expire(now);
        self.total
    }

    /// Time at which credit is next given back. `None` without credit.
    pub(super) fn next(&self) -> Option<Time> {
        self.ends.first().map(|(at, _, _)| *at)
    }

    fn expire(&mut self, now: Time) {
        while let Some((end, member, at)) = self.ends.first().copied()
            && end <= now
        {
            self.ends.pop_first();
            if let Some((unused, _)) = self.requests.remove(&(member, at)) {
                self.total -= u64::from(unused);
            }
        }
    }
}

/// The keys of all requests of `member`.
const fn flow(member: FlowIndex) -> RangeInclusive<(FlowIndex, Time)> {
    (member, Time::ZERO)..=(member, Time::MAX)
}

/// Time within which requests to a sender at a round trip of `near` count as one.
fn resolution(near: Duration) -> Duration {
    lasts(near) / (RESOLUTION + RESOLUTION / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const NEAR: Duration = Duration::from_millis(40);
    const A: FlowIndex = FlowIndex(1);
    const B: FlowIndex = FlowIndex(2);

    /// Catches: credit given back within a round trip; credit that is outstanding for ever.
    #[test]
    fn unused_credit_is_given_back_after_one_and_a_half_round_trips() {
        for (later, with_the_first) in [(0, true), (4, true), (5, false), (19, false)] {
            let mut credits = Credits::default();
            credits.add(MS(1_000), A, NEAR, 500);
            credits.add(MS(1_000 + later), A, NEAR, 70);
            assert_eq!(credits.next(), Some(MS(1_060)));
            assert_eq!(credits.total(MS(1_059)), 570, "{later}");
            assert_eq!(credits.total(MS(1_060)), if with_the_first { 0 } else { 70 }, "{later}");
            assert_eq!(credits.total(MS(1_060 + later)), 0, "{later}");
            assert_eq!(credits.next(), None);
        }
    }

    /// Catches: data that uses credit of another flow, or more credit than its flow has.
    #[test]
    fn data_uses_credit_of_its_own_flow_only() {
        let mut credits = Credits::default();
        credits.add(MS(0), A, NEAR, 300);
        credits.add(MS(0), B, NEAR, 100);
        credits.take(MS(40), B, NEAR, 250);
        assert_eq!(credits.total(MS(40)), 300);
        credits.take(MS(40), A, NEAR, 100);
        assert_eq!(credits.total(MS(40)), 200);
        credits.take(MS(40), FlowIndex(9), NEAR, 1_000);
        assert_eq!(credits.total(MS(40)), 200);
    }

    /// Catches: excess data of slow start that uses the credit of later data of its flow; requests that count as
    /// one although they are a quarter of a round trip apart.
    #[test]
    fn data_uses_no_credit_that_is_younger_than_a_round_trip() {
        let mut credits = Credits::default();
        for ms in [0, 9, 35, 45] {
            credits.add(MS(ms), A, NEAR, 100);
        }
        credits.take(MS(45), A, NEAR, 1_000);
        assert_eq!(credits.total(MS(45)), 200, "requested 10 and 0 ms before");
        let near = Duration::from_micros(200);
        credits.add(MS(50), B, near, 100);
        credits.take(MS(50) + near, B, near, 100);
        assert_eq!(credits.total(MS(50) + near), 300);
    }

    /// Catches: newer credit that keeps unused credit from being given back, if a sender uses half of its credit.
    #[test]
    fn a_sender_that_uses_half_of_its_credit_holds_that_of_one_and_a_half_round_trips_at_most() {
        let mut credits = Credits::default();
        for ms in 0..1_000 {
            credits.add(MS(ms), A, NEAR, 100);
            if ms >= 40 {
                credits.take(MS(ms), A, NEAR, 50);
            }
            assert!(credits.total(MS(ms)) <= 6_000, "{ms} ms");
        }
        for ms in 1_000..2_000 {
            credits.add(MS(ms), A, NEAR, 100);
            credits.take(MS(ms), A, NEAR, 100);
        }
        assert!(credits.total(MS(1_999)) <= 4_500, "{}", credits.total);
    }

    /// Catches: credit that lasts for the round trip of the handshake, which was longer than all later ones.
    #[test]
    fn a_shorter_round_trip_shortens_the_life_of_credit() {
        let mut credits = Credits::default();
        credits.add(MS(0), A, NEAR * 10, 100);
        (0..1_000).for_each(|ms| credits.add(MS(ms), A, NEAR, 1));
        assert!(credits.total(MS(1_000)) <= 60, "{}", credits.total);
    }

    /// Catches: credit of an ended flow that counts for the next flow of its index; records that are never removed.
    #[test]
    fn the_next_flow_of_an_index_begins_without_credit() {
        let mut credits = Credits::default();
        credits.add(MS(0), A, NEAR, 300);
        credits.add(MS(0), B, NEAR, 100);
        credits.give_back(A);
        assert_eq!((credits.total(MS(0)), credits.ends.len()), (100, 1));
        credits.add(MS(1), A, NEAR, 40);
        assert_eq!((credits.total(MS(19)), credits.ends.len()), (140, 2));
        assert_eq!(credits.total(MS(80)), 0);
        assert!(credits.requests.is_empty() && credits.ends.is_empty());
    }
}
