//! Start and end of connections, and segments that are refused in between.

use std::time::Duration;

use tidegate_base::packet::{TcpFlags, TcpSegment};
use tidegate_base::{Bytes, Time};
use tidegate_tcp::{Config, Connection, Event, Profile, Segment};

const ISN: [u32; 2] = [u32::MAX - 1, 5_000];

/// Two ends with no delay between them. The test names the segments to lose by their numbers.
struct Pair {
    ends: [Connection; 2],
    now: Time,
    events: [Vec<Event>; 2],
    /// All segments of each end, including lost ones.
    sent: [Vec<(Time, TcpSegment)>; 2],
    /// For each end: the numbers of the segments to lose.
    lost: [Vec<usize>; 2],
}

impl Pair {
    fn new(ends: [Connection; 2]) -> Self {
        let (events, sent, lost) = (Default::default(), Default::default(), Default::default());
        Self { ends, now: Time::ZERO, events, sent, lost }
    }

    fn open(config: &Config) -> Self {
        Self::new([
            Connection::connect(config, Time::ZERO, ISN[0]),
            Connection::listen(config, Time::ZERO, ISN[1]),
        ])
    }

    /// Delivers segments without delay until neither end sends more.
    fn settle(&mut self) {
        loop {
            let mut quiet = true;
            // Both ends send before either receives, so segments may cross.
            let out = [0, 1].map(|end| self.take(end));
            for (from, segments) in out.into_iter().enumerate() {
                quiet &= segments.is_empty();
                for segment in segments {
                    self.ends[1 - from].handle_segment(self.now, &segment);
                    let read = self.ends[1 - from].readable();
                    self.ends[1 - from].read(read);
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn take(&mut self, end: usize) -> Vec<Segment> {
        let mut arriving = Vec::new();
        while let Some(out) = self.ends[end].poll_transmit(self.now) {
            if !self.lost[end].contains(&self.sent[end].len()) {
                arriving.push(out.segment);
            }
            self.sent[end].push((self.now, out.segment.header));
        }
        while let Some(event) = self.ends[end].poll_event() {
            if event != Event::Readable {
                self.events[end].push(event);
            }
        }
        arriving
    }

    fn run_until(&mut self, end: Time) {
        loop {
            self.settle();
            let next = self.ends.iter().filter_map(Connection::poll_timeout).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
        }
    }

    /// Delivers `header` to an end as if its peer had sent it.
    fn inject(&mut self, end: usize, header: TcpSegment) {
        self.ends[end].handle_segment(self.now, &Segment { header, ..Segment::default() });
    }

    /// A segment of the peer in which every field is correct.
    fn right(&self, end: usize) -> TcpSegment {
        let last = self.sent[1 - end].last().expect("something was sent").1;
        let own = self.sent[end].last().expect("something was sent").1;
        let timestamps =
            own.timestamps.map(|(value, _)| (last.timestamps.map_or(0, |it| it.0), value));
        let flags = TcpFlags(TcpFlags::ACK);
        TcpSegment {
            seq: last.end_seq(),
            ack: own.end_seq(),
            window: 100,
            flags,
            timestamps,
            ..last
        }
    }
}

fn config() -> Config {
    Config::new(Profile::Rfc)
}

fn millis(time: Time) -> u64 {
    time.nanos() / 1_000_000
}

/// RFC 6298, sections 2.1 and 5.7; RFC 5681, section 3.1 (one segment after a lost SYN).
#[test]
fn a_lost_syn_is_repeated_and_costs_the_initial_window() {
    let mut pair = Pair::open(&config());
    pair.lost[0] = vec![0, 1];
    pair.ends[0].write(100_000);
    pair.run_until(Time::from_millis(2_999));
    let times: Vec<u64> = pair.sent[0].iter().map(|(at, _)| millis(*at)).collect();
    assert_eq!((times, pair.events[0].len()), (vec![0, 1_000], 0));
    pair.lost[1] = (1..1_000).collect();
    pair.run_until(Time::from_millis(3_000));
    let data = pair.sent[0].iter().filter(|(_, header)| header.payload > 0).count();
    assert_eq!((pair.events[0].clone(), data), (vec![Event::Established], 1));
}

#[test]
fn a_lost_syn_ack_is_repeated() {
    let mut pair = Pair::open(&config());
    pair.lost[1] = vec![0];
    pair.run_until(Time::from_millis(900));
    assert!(pair.events[0].is_empty());
    pair.run_until(Time::from_millis(1_000));
    assert_eq!(pair.events, [vec![Event::Established], vec![Event::Established]]);
}

/// RFC 9293, section 3.5, figure 7.
#[test]
fn two_ends_that_open_at_once_share_one_connection() {
    let config = config();
    let mut pair = Pair::new(ISN.map(|isn| Connection::connect(&config, Time::ZERO, isn)));
    pair.ends[0].write(3_000);
    pair.ends[1].write(5_000);
    pair.run_until(Time::from_secs(3));
    assert_eq!(pair.events, [vec![Event::Established], vec![Event::Established]]);
    assert_eq!(pair.ends.each_ref().map(|end| end.statistics().received), [5_000, 3_000]);
}

#[test]
fn a_connection_without_an_answer_times_out() {
    let mut pair = Pair::open(&config());
    pair.lost[0] = (0..100).collect();
    pair.run_until(Time::from_secs(1_000));
    assert_eq!((pair.events[0].clone(), pair.sent[0].len()), (vec![Event::TimedOut], 7));
}

#[test]
fn a_refusal_ends_the_attempt() {
    let mut pair = Pair::open(&config());
    pair.lost[0] = vec![0];
    pair.settle();
    let refusal = |ack| TcpSegment {
        ack,
        flags: TcpFlags(TcpFlags::RST | TcpFlags::ACK),
        ..TcpSegment::default()
    };
    pair.inject(0, refusal(77));
    pair.settle();
    assert!(!pair.ends[0].is_closed(), "it refuses something else");
    pair.inject(0, refusal(ISN[0].wrapping_add(1)));
    pair.settle();
    assert_eq!(pair.events[0], [Event::Reset]);
}

/// RFC 9293, section 3.6: one direction ends, and the other continues.
#[test]
fn one_end_may_close_while_the_other_continues() {
    let mut pair = Pair::open(&config());
    pair.ends[0].close();
    pair.run_until(Time::from_secs(1));
    assert_eq!(pair.events[1], [Event::Established, Event::PeerClosed]);
    pair.ends[1].write(50_000);
    pair.run_until(Time::from_secs(2));
    assert_eq!(pair.ends[0].statistics().received, 50_000);
    pair.ends[1].close();
    pair.run_until(Time::from_secs(10));
    assert_eq!(pair.events[1].last(), Some(&Event::Closed));
    assert_eq!(pair.events[0].last(), Some(&Event::Closed));
}

/// RFC 9293, section 3.6, figure 13: both FINs cross, and both ends wait.
#[test]
fn both_may_close_at_once() {
    let mut pair = Pair::open(&config());
    pair.settle();
    pair.ends.iter_mut().for_each(Connection::close);
    pair.settle();
    assert!(pair.ends.iter().all(|end| !end.is_closed()), "TIME-WAIT");
    pair.run_until(Time::from_secs(5));
    let expected = [Event::Established, Event::PeerClosed, Event::Closed];
    assert_eq!(pair.events, [expected, expected]);
}

/// RFC 9293, section 3.10.7.4: TIME-WAIT acknowledges a repeated FIN.
///
/// Catches: TIME-WAIT without an answer; TIME-WAIT that a FIN does not prolong.
#[test]
fn time_wait_repeats_the_last_ack() {
    let mut config = config();
    config.details.time_wait = Duration::from_secs(4);
    config.details.tail_loss_probe = false;
    let mut pair = Pair::open(&config);
    pair.settle();
    pair.ends[0].close();
    pair.settle();
    pair.lost[0] = vec![pair.sent[0].len(), pair.sent[0].len() + 1];
    pair.ends[1].close();
    pair.run_until(Time::from_millis(6_900));
    assert_eq!(pair.events[1].last(), Some(&Event::Closed), "the third ACK came through");
    assert!(!pair.ends[0].is_closed(), "3 s + 4 s");
    pair.run_until(Time::from_secs(8));
    assert!(pair.ends[0].is_closed());
}

/// RFC 5961, section 3.2, and RFC 9293, section 3.10.7.4.
///
/// Catches: a reset that is accepted anywhere in the window; a challenge ACK that resets the
/// connection.
#[test]
fn only_a_reset_with_the_next_sequence_number_is_accepted() {
    let mut pair = Pair::open(&config());
    pair.settle();
    let right = pair.right(0);
    let reset = |seq| TcpSegment { seq, flags: TcpFlags(TcpFlags::RST), ..right };
    let sent = pair.sent[0].len();
    pair.inject(0, reset(right.seq.wrapping_sub(1)));
    pair.settle();
    assert_eq!(pair.sent[0].len(), sent, "out of the window: not even an answer");
    pair.inject(0, reset(right.seq.wrapping_add(1)));
    pair.settle();
    assert_eq!((pair.sent[0].len(), pair.ends[0].is_closed()), (sent + 1, false), "a challenge");
    pair.inject(0, reset(right.seq));
    pair.settle();
    assert_eq!(pair.events[0].last(), Some(&Event::Reset));
    pair.inject(0, right);
    pair.settle();
    let (_, last) = pair.sent[0][pair.sent[0].len() - 1];
    assert!(last.flags.any(TcpFlags::RST), "nobody is there any more");
}

/// RFC 5961, section 4.2.
#[test]
fn a_syn_within_a_connection_is_challenged() {
    let mut pair = Pair::open(&config());
    pair.settle();
    let sent = pair.sent[0].len();
    let right = pair.right(0);
    pair.inject(0, TcpSegment { flags: TcpFlags(TcpFlags::SYN), ..right });
    pair.settle();
    assert_eq!((pair.sent[0].len(), pair.ends[0].is_closed()), (sent + 1, false));
}

/// RFC 7323, section 5.3.
///
/// Catches: `<=` in place of `<` in the comparison of timestamps; data accepted although PAWS
/// refuses it.
#[test]
fn an_old_duplicate_is_answered_and_dropped() {
    let mut pair = Pair::open(&config());
    pair.run_until(Time::from_secs(1));
    let right = TcpSegment { payload: 500, ..pair.right(0) };
    let (value, echo) = right.timestamps.expect("timestamps were agreed on");
    let old = TcpSegment { timestamps: Some((value.wrapping_sub(1), echo)), ..right };
    pair.inject(0, old);
    let (before, sent) = (pair.ends[0].statistics().received, pair.sent[0].len());
    pair.settle();
    assert_eq!((before, pair.sent[0].len()), (0, sent + 1));
    pair.inject(0, right);
    assert_eq!(pair.ends[0].statistics().received, 500);
}

/// RFC 7323, section 2.2: window scaling needs the option from both ends.
#[test]
fn windows_beyond_64_kib_need_both_ends() {
    for (scaling, most) in
        [([true, true], 1 << 20), ([true, false], 65_535), ([false, true], 65_535)]
    {
        let configs = scaling.map(|scaling| {
            let mut config = Config { receive_window: Bytes(1 << 20), ..config() };
            config.details.window_scaling = scaling;
            config.details.initial_window = 1_000;
            config
        });
        let mut pair = Pair::new([
            Connection::connect(&configs[0], Time::ZERO, ISN[0]),
            Connection::listen(&configs[1], Time::ZERO, ISN[1]),
        ]);
        pair.settle();
        pair.lost = [(1..10_000).collect(), (1..10_000).collect()];
        // The first ACK with a scaled window is sent only as an answer to a segment.
        let right = TcpSegment { window: 65_535, ..pair.right(0) };
        pair.inject(
            0,
            TcpSegment {
                window: if scaling == [true, true] { 32_768 } else { right.window },
                ..right
            },
        );
        pair.ends[0].write(10 << 20);
        pair.settle();
        let sent: u64 = pair.sent[0].iter().map(|(_, header)| u64::from(header.payload)).sum();
        assert!(sent <= most && sent + 1_460 > most, "{scaling:?}: {sent}");
    }
}

/// RFC 9293, section 3.10.5: an abort drops unsent data and sends a reset.
///
/// Catches: a connection aborted without a reset; a reset with a number that the peer refuses.
#[test]
fn an_aborted_connection_resets_its_peer() {
    for lost in [vec![], vec![2, 3, 4]] {
        let mut pair = Pair::open(&config());
        pair.settle();
        pair.lost[0] = lost;
        pair.ends[0].write(9_000);
        pair.take(0);
        pair.ends[0].abort();
        pair.ends[1].write(100);
        pair.run_until(Time::from_secs(9));
        assert!(pair.ends.iter().all(Connection::is_closed));
        assert_eq!(pair.events[0], [Event::Established]);
        assert_eq!(pair.events[1].last(), Some(&Event::Reset));
    }
    let mut pair = Pair::open(&config());
    pair.ends[0].abort();
    pair.settle();
    assert!(pair.sent[0].is_empty(), "nobody knows of it yet");
}
