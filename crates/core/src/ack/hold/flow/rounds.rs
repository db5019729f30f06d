//! Detection of slow start, in which an ACK requests twice the data that it acknowledges.
//!
//! A sender in slow start sends two segments for each acknowledged segment. The data of a round trip
//! answers the requests of the round trip before:
//!
//! `came > 9/8 * asked` and `came > most`: the sender is in slow start;
//! `came < 7/8 * asked`, or the receiver reports that data is missing: it is not.
//!
//! Here `came` is the data of this round trip, `asked` the requests of the round trip before, and `most`
//! the most data of an earlier round trip. Requests of a sender in slow start count twice. So they equal
//! its data, and the state stays as it was. A flow begins in slow start.
//!
//! A window limits each request too. A sender that fills a reduced window sends what the window permits
//! with either state, so it keeps its state.
//!
//! This file contains methods of `HeldFlow`, whose fields are in `flow.rs`.
//!
//! Source: RFC 5681, section 3.1 (slow start); RFC 3465, section 2.3 (two segments for each acknowledged
//! one).
//!
//! Differs: an eighth is the part by which a window grows without a request. A flow whose data falls and
//! rises again is not in slow start, so `came` must exceed `most`: BBR sends little in each ProbeRTT phase.

use super::{CAPPED, COUNTED, DOUBLES, HeldFlow};
use crate::Time;
use crate::ack::constants::GROWTH;
use crate::flow::{micros, ticks};

/// Requests and data of a flow in the present round trip, and in the round trip before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Time at which the present round trip began, in microseconds.
    began_us: u32,
    /// Charged bytes of data that arrived in the present round trip.
    came: u32,
    /// Charged bytes that ACKs requested in the present round trip, and in the one before.
    asked: [u32; 2],
    /// The most charged bytes of data that arrived in an earlier round trip.
    most: u32,
}

impl HeldFlow {
    /// Returns `true` if the sender is in slow start. `false` if its data is not counted.
    pub(super) const fn doubles(&self) -> bool {
        self.marks & DOUBLES != 0
    }

    /// Counts `bytes` of data that arrived, as charged. Without a known round trip, data is not counted.
    pub(in crate::ack) fn came(&mut self, now: Time, bytes: u32) {
        if self.near_us == 0 {
            return;
        }
        if self.marks & COUNTED == 0 {
            self.marks |= COUNTED | DOUBLES;
            self.rounds = Rounds { began_us: micros(now), ..Rounds::default() };
        }
        self.advance_rounds(micros(now));
        self.rounds.came = self.rounds.came.saturating_add(bytes);
    }

    /// Bytes that an ACK with a request of `cost` bytes permits before its flow counts as unresponsive. In slow start,
    /// these are the bytes that it [acknowledges](Self::acknowledged): an unresponsive sender looks like one in slow
    /// start. In a reduced window they are the whole request: most senders that ignore a window have no room in it.
    pub(in crate::ack) fn called_for(&self, before: u32, cost: u32) -> u32 {
        let looks_alike = self.doubles() && self.marks & CAPPED == 0;
        if looks_alike { self.acknowledged(before, cost) } else { cost }
    }

    /// Charged bytes of the data that an ACK with a request of `cost` bytes newly acknowledges by its number. Before
    /// this ACK, `before` was the highest departed number.
    pub(in crate::ack) fn acknowledged(&self, before: u32, cost: u32) -> u32 {
        cost.min(self.charge(self.departed().wrapping_sub(before)))
    }

    /// Notes that an ACK departed that requests `bytes`, as charged.
    pub(in crate::ack) fn asked(&mut self, now: Time, bytes: u32) {
        self.heard = ticks(now).max(1);
        if self.marks & COUNTED != 0 {
            self.advance_rounds(micros(now));
            self.rounds.asked[0] = self.rounds.asked[0].saturating_add(bytes);
        }
    }

    /// Notes that the receiver misses data, which ends slow start (RFC 5681, section 3.2). If the data came out of
    /// order only, the sender's data soon exceeds its requests again.
    pub(super) const fn loses(&mut self) {
        self.marks &= !DOUBLES;
    }

    /// Forgets the counts of requests. A rule other than the gate would never correct them.
    pub(in crate::ack) const fn forget_requests(&mut self) {
        self.marks &= !(COUNTED | DOUBLES);
    }

    /// Begins a new round trip at `now_us`, if the present one has lasted for the shortest round trip.
    fn advance_rounds(&mut self, now_us: u32) {
        let Rounds { began_us, came, asked: [now_asked, asked], most } = self.rounds;
        if now_us.wrapping_sub(began_us) < self.near_us {
            return;
        }
        if asked > 0 {
            let more = came > asked.saturating_add(asked / GROWTH) && came > most;
            let doubles = more || (self.doubles() && came >= asked - asked / GROWTH);
            self.marks = self.marks & !DOUBLES | if doubles { DOUBLES } else { 0 };
        }
        let asked = [0, now_asked];
        self.rounds = Rounds { began_us: now_us, came: 0, asked, most: most.max(came) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{SackBlocks, TcpSegment};

    const MS: fn(u64) -> Time = Time::from_millis;

    /// A flow at a round trip of 40 ms. In each round trip, `came` bytes arrive and ACKs request `asked` bytes.
    fn play(flow: &mut HeldFlow, rounds: &[(u32, u32)]) {
        flow.near_us = 40_000;
        let begin = u64::from(flow.rounds.began_us) / 1_000;
        for (n, (came, asked)) in (1..).zip(rounds) {
            flow.came(MS(begin + 40 * n), *came);
            flow.asked(MS(begin + 40 * n + 10), *asked);
        }
    }

    /// A flow after these round trips, and one without requests.
    fn after(rounds: &[(u32, u32)]) -> HeldFlow {
        let mut flow = HeldFlow::default();
        play(&mut flow, rounds);
        play(&mut flow, &[(0, 0)]);
        flow
    }

    /// Catches: data compared with the requests of its own round trip; slow start that ends although all
    /// requests are answered.
    #[test]
    fn a_sender_that_answers_double_requests_is_in_slow_start() {
        assert!(after(&[(10, 20), (20, 40), (40, 80), (80, 80), (80, 80)]).doubles());
        assert!(after(&[(10, 20), (18, 36), (32, 64)]).doubles(), "a little less");
    }

    /// Catches: slow start that never ends, or that ends by a seventh less data.
    #[test]
    fn a_sender_that_answers_half_of_double_requests_is_not_in_slow_start() {
        let half = [(10, 20), (20, 40), (21, 42)];
        assert!(!after(&half).doubles());
        assert!(!after(&[&half[..], &[(21, 21), (21, 21), (22, 22)]].concat()).doubles());
    }

    /// Catches: slow start that is not seen after a slow beginning; data after ProbeRTT that counts as slow start.
    #[test]
    fn more_data_than_ever_before_is_slow_start() {
        let steady = [(10, 20), (10, 10), (10, 10)];
        assert!(!after(&steady).doubles());
        assert!(after(&[&steady[..], &[(20, 20)]].concat()).doubles());
        let probes = [&steady[..], &[(1, 1), (10, 10)]].concat();
        assert!(!after(&probes).doubles());
    }

    /// Catches: a flow of which no data is counted, with double requests; a clock that wraps.
    #[test]
    fn a_flow_without_counted_data_or_round_trip_is_not_in_slow_start() {
        let mut flow = HeldFlow::default();
        flow.asked(MS(1), 1_000);
        assert!(!flow.doubles());
        flow.came(MS(1), 1_000);
        assert!(!flow.doubles());
        flow.near_us = 40_000;
        flow.came(Time::from_secs(4_294), 1_000);
        flow.asked(Time::from_secs(4_294), 2_000);
        for ms in [4_294_950, 4_294_999, 4_295_050] {
            flow.came(MS(ms), 100);
        }
        assert!(!flow.doubles());
    }

    /// Catches: slow start that does not end for 31 minutes after a pause of 40, as the clock wraps.
    #[test]
    fn slow_start_ends_after_a_pause_of_any_length() {
        for minutes in [0, 1, 40, 71, 80] {
            let mut flow = HeldFlow { near_us: 40_000, ..HeldFlow::default() };
            flow.came(MS(1_000), 10);
            for n in 1..5 {
                flow.came(MS(1_000 + minutes * 60_000 + 40 * n), 10);
                flow.asked(MS(1_010 + minutes * 60_000 + 40 * n), 20);
            }
            assert!(!flow.doubles(), "{minutes} min");
        }
    }

    /// Catches: a sender in slow start that seems to ignore its ACKs; twice the data permitted to one that does.
    /// Catches: data permitted twice, by SACK blocks and then by the number.
    #[test]
    fn an_ack_permits_two_segments_for_one_only_in_a_reduced_window() {
        let mut flow = after(&[(10, 20), (20, 40), (40, 80)]);
        (flow.released, flow.header) = (9_000, 66);
        assert_eq!(flow.called_for(8_000, 2_000), 1_066);
        flow.marks |= CAPPED;
        assert_eq!(flow.called_for(8_000, 2_000), 2_000);
        assert_eq!([2_000, 400].map(|cost| flow.acknowledged(8_000, cost)), [1_066, 400]);
        assert_eq!(flow.acknowledged(9_000, 500), 0);
        flow.marks &= !DOUBLES;
        assert_eq!(flow.called_for(8_000, 1_500), 1_500);
    }

    /// Catches: twice the requests of a sender that recovers, which sends half as much as before; an ACK without
    /// news that ends slow start.
    #[test]
    fn a_loss_ends_slow_start() {
        let mut flow = after(&[(10, 20), (20, 40), (40, 80)]);
        flow.sent = 10_000;
        let tcp = TcpSegment { ack: 1_000, ..TcpSegment::default() };
        flow.note(&tcp);
        assert_eq!(flow.selective(&TcpSegment { ack: 2_000, ..tcp }, SackBlocks::default()), 0);
        assert!(flow.doubles());
        assert!(flow.selective(&tcp, SackBlocks::default()) > 0 && !flow.doubles());
    }
}
