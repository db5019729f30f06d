//! Tests of the receiver: examples of RFCs, and delayed ACKs.

use std::time::Duration;

use super::super::profile::Profile;
use super::*;

/// A receiver that expects `next`, with the numbers of an RFC's example.
struct Example {
    receiver: Receiver,
    details: Details,
    base: u64,
    now: Time,
}

impl Example {
    fn at(next: u64) -> Self {
        let details = Profile::Rfc.details();
        let mut receiver = Receiver::new(&Config::default());
        receiver.scale = 7;
        receiver.offer();
        Self { receiver, details, base: next, now: Time::ZERO }
    }

    /// A segment with the data `from..to` arrives. Returns the acknowledgement number and the SACK
    /// blocks of an immediate ACK.
    fn arrives(&mut self, from: u64, to: u64) -> Option<(u64, Vec<(u32, u32)>)> {
        self.marked(from, to, Ecn::NotEct, false)
    }

    fn marked(
        &mut self,
        from: u64,
        to: u64,
        ecn: Ecn,
        reduced: bool,
    ) -> Option<(u64, Vec<(u32, u32)>)> {
        let next = self.base + self.receiver.next();
        let offset = i64::try_from(from).unwrap() - i64::try_from(next).unwrap();
        let arrival = Arrival { offset, len: to - from, fin: false, ecn, reduced };
        if self.receiver.accepts(offset, to - from) {
            self.receiver.take(self.now, &self.details, arrival);
        } else {
            self.receiver.refuse(self.now, &self.details, offset, to - from);
        }
        self.receiver.must_acknowledge(self.now).then(|| self.acknowledge())
    }

    fn acknowledge(&mut self) -> (u64, Vec<(u32, u32)>) {
        let blocks = self.receiver.blocks(low(self.base), 4);
        self.receiver.acknowledged();
        (self.base + self.receiver.next(), blocks.as_slice().to_vec())
    }
}

/// RFC 2018, section 4, case 2: the first of eight segments is lost.
#[test]
fn a_growing_block_is_reported_completely() {
    let mut example = Example::at(5_000);
    for end in (6_000..=9_000).step_by(500) {
        let reported = example.arrives(end - 500, end);
        assert_eq!(reported, Some((5_000, vec![(5_500, low(end))])));
    }
}

/// RFC 2018, section 4, case 3: every second of eight segments is lost. Then some are repaired.
///
/// Catches: blocks in stream order; a merged block that is not first.
#[test]
fn the_block_that_grew_last_is_reported_first() {
    let mut example = Example::at(5_000);
    assert_eq!(example.arrives(5_000, 5_500), None);
    assert_eq!(example.arrives(6_000, 6_500), Some((5_500, vec![(6_000, 6_500)])));
    let two = vec![(7_000, 7_500), (6_000, 6_500)];
    assert_eq!(example.arrives(7_000, 7_500), Some((5_500, two)));
    let three = vec![(8_000, 8_500), (7_000, 7_500), (6_000, 6_500)];
    assert_eq!(example.arrives(8_000, 8_500), Some((5_500, three)));
    let merged = vec![(6_000, 7_500), (8_000, 8_500)];
    assert_eq!(example.arrives(6_500, 7_000), Some((5_500, merged)));
    assert_eq!(example.arrives(5_500, 6_000), Some((7_500, vec![(8_000, 8_500)])));
}

/// RFC 2883, sections 4.1.1 to 4.1.3 and 4.2.
///
/// Catches: a duplicate reported twice; a missing block for the range around a duplicate.
#[test]
fn duplicates_are_reported_once_as_the_first_block() {
    let mut example = Example::at(3_000);
    example.arrives(3_000, 3_500);
    example.arrives(3_500, 4_000);
    assert_eq!(example.arrives(3_000, 3_500), Some((4_000, vec![(3_000, 3_500)])));
    assert_eq!(example.arrives(4_500, 5_000), Some((4_000, vec![(4_500, 5_000)])));
    let beside = vec![(3_000, 3_500), (4_500, 5_000)];
    assert_eq!(example.arrives(3_000, 3_500), Some((4_000, beside)));
    assert_eq!(example.arrives(5_000, 5_500), Some((4_000, vec![(4_500, 5_500)])));
    let within = vec![(5_000, 5_500), (4_500, 5_500)];
    assert_eq!(example.arrives(5_000, 5_500), Some((4_000, within)));
    example.arrives(6_000, 6_500);
    let around = vec![(5_000, 5_500), (4_500, 5_500), (6_000, 6_500)];
    assert_eq!(example.arrives(5_000, 5_500), Some((4_000, around)));

    let mut example = Example::at(500);
    example.arrives(500, 1_000);
    example.arrives(2_000, 2_500);
    assert_eq!(example.arrives(1_000, 2_000), Some((2_500, vec![])));
    assert_eq!(example.arrives(1_000, 1_500), Some((2_500, vec![(1_000, 1_500)])));
}

/// RFC 5681, section 4.2: every second segment is acknowledged at once, and a single segment within
/// the delay. A segment that makes or fills a hole is acknowledged at once.
///
/// Catches: an ACK for every third segment; a deadline that every segment postpones.
#[test]
fn acks_are_delayed_by_one_segment_and_a_limited_time() {
    let mut example = Example::at(0);
    assert_eq!(example.arrives(0, 1_000), None);
    assert_eq!(example.arrives(1_000, 2_000), Some((2_000, vec![])));
    assert_eq!(example.arrives(2_000, 3_000), None);
    assert_eq!(example.receiver.poll_timeout(), Some(Time::ZERO + example.details.ack_delay));
    example.now = Time::ZERO + example.details.ack_delay;
    assert!(example.receiver.must_acknowledge(example.now));
    assert_eq!(example.acknowledge(), (3_000, vec![]));
    assert_eq!(example.receiver.poll_timeout(), None);
    assert!(example.arrives(4_000, 5_000).is_some() && example.arrives(3_000, 3_500).is_some());
}

/// RFC 3168, section 6.1.3: ECN-Echo lasts from a mark until CWR.
///
/// Catches: an echo that ends with the next unmarked segment; CWR on a marked segment that ends the
/// echo.
#[test]
fn a_mark_is_echoed_until_the_sender_sets_cwr() {
    let mut example = Example::at(0);
    example.receiver.ecn = EcnMode::Classic;
    let mut echo = |n: u64, ecn, reduced| {
        example.marked(n, n + 1, ecn, reduced);
        example.receiver.echo()
    };
    assert!(!echo(0, Ecn::Ect0, false));
    assert!(echo(1, Ecn::Ce, false));
    assert!(echo(2, Ecn::Ect0, false));
    assert!(echo(3, Ecn::Ce, true), "marked again on the way");
    assert!(!echo(4, Ecn::Ect0, true));
}

/// RFC 8257, section 3.2, figure 1: when marks begin or end, earlier segments are first
/// acknowledged with the old state of ECN-Echo.
#[test]
fn the_accurate_echo_reports_exactly_the_marked_segments() {
    let mut example = Example::at(0);
    example.receiver.ecn = EcnMode::Accurate;
    assert_eq!(example.marked(0, 10, Ecn::Ect0, false), None);
    assert_eq!(example.marked(10, 20, Ecn::Ce, false), None);
    assert_eq!(example.receiver.before_change.take().as_deref(), Some(&(10, false)));
    assert!(example.receiver.echo());
    assert_eq!(example.marked(20, 30, Ecn::Ce, false), Some((30, vec![])));
    assert_eq!(example.marked(30, 40, Ecn::Ect0, false), None);
    assert_eq!(example.receiver.before_change.take(), None, "all was acknowledged before");
    assert!(!example.receiver.echo());
}

/// RFC 9293, section 3.8.6.2.2: the window opens in large steps and never shrinks.
///
/// Catches: an update for every byte read.
#[test]
fn the_window_opens_in_large_steps() {
    let window = tidegate_base::Bytes(4_000);
    let config = Config { receive_window: window, mss: 1_000, ..Config::default() };
    let mut receiver = Receiver::new(&config);
    let details = Profile::Rfc.details();
    assert_eq!(receiver.offer(), 4_000);
    for n in 0..4 {
        let arrival =
            Arrival { offset: 0, len: 1_000, fin: false, ecn: Ecn::NotEct, reduced: false };
        assert!(receiver.accepts(0, 1_000), "{n}");
        receiver.take(Time::ZERO, &details, arrival);
    }
    assert_eq!(receiver.offer(), 0);
    receiver.acknowledged();
    assert!(!receiver.accepts(0, 1_000), "nothing fits");
    receiver.read(1_000);
    assert!(!receiver.must_acknowledge(Time::ZERO), "a quarter is not worth an ACK");
    receiver.read(1_000);
    assert!(receiver.must_acknowledge(Time::ZERO));
    assert_eq!(receiver.offer(), 2_000);
    assert!(!receiver.accepts(2_000, 1) && receiver.accepts(1_999, 1));
}

/// RFC 9293, section 3.10.7.4, eighth step: a FIN counts in stream order, and only within the
/// window.
///
/// Catches: a FIN accepted beyond the window.
#[test]
fn the_stream_ends_at_a_fin_within_the_window() {
    let (mut example, fin) = (Example::at(0), |offset| Arrival {
        offset,
        len: 10,
        fin: true,
        ecn: Ecn::NotEct,
        reduced: false,
    });
    let window = i64::try_from(example.receiver.offered).unwrap();
    example.receiver.take(example.now, &example.details, fin(window));
    assert_eq!(example.receiver.end, NOWHERE);
    example.receiver.take(example.now, &example.details, fin(10));
    assert!(!example.receiver.is_finished());
    example.arrives(0, 10);
    assert!(example.receiver.is_finished());
    assert_eq!(example.receiver.next(), 21);
}

#[test]
fn a_delayed_ack_is_not_postponed_by_later_segments() {
    let mut example = Example::at(0);
    example.details.ack_every = 10;
    example.arrives(0, 10);
    let due = example.receiver.poll_timeout();
    example.now = Time::from_millis(50);
    example.arrives(10, 20);
    assert_eq!(example.receiver.poll_timeout(), due);
    assert_eq!(due, Some(Time::ZERO + Duration::from_millis(200)));
}
