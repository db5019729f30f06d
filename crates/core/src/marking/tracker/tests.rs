//! Tests of both trackers with senders whose windows, rounds and round-trip times are known. A
//! tracker estimates the window of a TCP flow. A *round* has the packets of one window.
//!
//! The tracker `paper` finds rounds by gaps between packets, and `two-way` by ACKs. `paper+idle`
//! takes no sample of the round-trip time from a long gap.

use proptest::prelude::*;

use super::*;
use crate::flow::FlowTable;
use crate::packet::{Ecn, FlowId, TcpFlags, TcpSegment};

/// Bytes of payload and of headers in a frame.
const MSS: u32 = 1_000;
const HEADERS: u32 = 54;
const FRAME: u64 = 1_054;
/// Sequence number of the first byte of data. The sequence numbers wrap after 2,000 bytes.
const ISN: u32 = u32::MAX - 1_999;

/// A gateway with one flow, an upload, and its tracker.
struct Gateway {
    table: FlowTable,
    id: Option<FlowId>,
    track: Option<Track>,
    spec: TrackerSpec,
    now: Time,
}

fn spec(name: &str) -> TrackerSpec {
    toml::from_str::<Config>(&format!("tracker = \"{name}\"")).unwrap().tracker
}

#[derive(serde::Deserialize)]
struct Config {
    tracker: TrackerSpec,
}

fn packet(segment: TcpSegment, ecn: Ecn) -> Packet {
    let len = segment.payload + HEADERS;
    Packet { len, tcp: Some(segment), ecn, segments: 1, ..Packet::default() }
}

fn data(seq: u32) -> Packet {
    let flags = TcpFlags(TcpFlags::ACK);
    packet(TcpSegment { seq, ack: 1, payload: MSS, flags, ..TcpSegment::default() }, Ecn::Ect0)
}

fn syn(flags: u8) -> TcpSegment {
    let flags = TcpFlags(TcpFlags::SYN | flags);
    TcpSegment { seq: ISN.wrapping_sub(1), ack: 1, flags, window: 60_000, ..TcpSegment::default() }
}

impl Gateway {
    fn new(name: &str) -> Self {
        let (table, spec) = (FlowTable::new(1, 1), spec(name));
        Self { table, id: None, track: None, spec, now: Time::ZERO }
    }

    /// A TCP handshake with a round-trip time of 20 ms to the sender and 80 ms to the receiver. It ends at 100 ms.
    fn open(name: &str) -> Self {
        let mut gateway = Self::new(name);
        gateway.up(0, packet(syn(0), Ecn::NotEct));
        let answer = TcpSegment { seq: 0, ack: ISN, ..syn(TcpFlags::ACK) };
        gateway.down(80, packet(answer, Ecn::NotEct));
        gateway.up(100, packet(TcpSegment { payload: 0, ..data(ISN).tcp.unwrap() }, Ecn::NotEct));
        gateway
    }

    /// A packet of the sender arrives at the gateway.
    fn up(&mut self, millis: u64, mut packet: Packet) -> bool {
        self.now = Time::from_millis(millis);
        let (table, now, direction) = (&mut self.table, self.now, Direction::Up);
        let id = *self.id.get_or_insert_with(|| table.insert(now, &packet, direction).unwrap().id);
        self.table[id].on_arrival(now, &mut packet, direction);
        self.table[id].on_departure(now, &packet, direction);
        let seen = Sighting { now, packet: &packet, direction, flow: Some(&self.table[id]) };
        match &mut self.track {
            Some(track) => track.on_arrival(&seen),
            None => {
                self.track = Some(Track::new(&self.spec, &seen));
                true
            }
        }
    }

    /// A packet of the receiver arrives at the gateway, and departs at once.
    fn down(&mut self, millis: u64, mut packet: Packet) {
        self.now = Time::from_millis(millis);
        let (now, direction, flow) = (self.now, Direction::Down, &mut self.table[self.id.unwrap()]);
        flow.on_arrival(now, &mut packet, direction);
        flow.on_departure(now, &packet, direction);
        let seen = Sighting { now, packet: &packet, direction, flow: Some(flow) };
        self.track.as_mut().unwrap().on_ack(&seen);
    }

    fn ack(&mut self, millis: u64, ack: u32, flags: u8) {
        let flags = TcpFlags(TcpFlags::ACK | flags);
        let segment = TcpSegment { seq: 1, ack, flags, window: 60_000, ..TcpSegment::default() };
        self.down(millis, packet(segment, Ecn::NotEct));
    }

    fn estimate(&self) -> Estimate {
        self.track.unwrap().estimate(self.now)
    }

    /// The estimate: start of the round and RTT in milliseconds, and the window in segments.
    fn knows(&self) -> (u64, u128, u64) {
        let Estimate { round_start, rtt, window, .. } = self.estimate();
        (round_start.nanos() / 1_000_000, rtt.as_millis(), window.0 / FRAME)
    }

    /// From the time `at` on, `window` segments arrive, one a millisecond. Their ACKs follow 80 ms later.
    fn round(&mut self, at: u64, from: u32, window: u32) -> u32 {
        let seq = |n: u32| from.wrapping_add(n * MSS);
        for n in 0..window {
            self.up(at + u64::from(n), data(seq(n)));
        }
        (0..window).for_each(|n| self.ack(at + 80 + u64::from(n), seq(n + 1), 0));
        seq(window)
    }
}

/// The example of `marking`, section 2.1, by hand. The RTT is 100 ms from the SYN to the first data, then
/// `0.9 * 100 + 0.1 * 110`.
///
/// Catches: a round that begins with the SYN; a SYN that counts as a segment; the weights `a` and `1 - a` exchanged; a sample
/// that begins with the last packet of a round.
#[test]
fn the_tracker_paper_finds_rounds_by_gaps() {
    let mut gateway = Gateway::open("paper");
    assert!(gateway.up(100, data(ISN)));
    assert_eq!(gateway.knows(), (100, 100, 1));
    let seq = gateway.round(200, ISN.wrapping_add(MSS), 2);
    assert_eq!(gateway.knows(), (200, 100, 2));
    let seq = gateway.round(310, seq, 3);
    assert_eq!(gateway.knows(), (310, 101, 3));
    assert_eq!(gateway.estimate().rtt, Duration::from_micros(101_000));
    // A round that has just begun still has the window of the previous round.
    gateway.up(411, data(seq));
    assert_eq!(gateway.knows(), (411, 101, 3));
}

/// Catches: a gap of exactly `RTT / k` that begins a round; a constant in place of `k`; a round
/// that may have two segments more than the previous round; a limit that also applies to the first
/// round.
#[test]
fn a_long_gap_or_a_second_extra_segment_begins_a_round() {
    let mut gateway = Gateway::open("paper");
    let seq = |n: u32| ISN.wrapping_add(n * MSS);
    gateway.up(100, data(seq(0)));
    gateway.up(110, data(seq(1)));
    assert_eq!(gateway.knows(), (100, 100, 2));
    gateway.up(121, data(seq(2)));
    assert_eq!(gateway.knows().0, 121);
    gateway.up(121, data(seq(3)));
    gateway.up(121, data(seq(4)));
    assert_eq!(gateway.knows().0, 121);
    // The previous round had two segments, so the fourth segment begins a round.
    gateway.up(122, data(seq(5)));
    assert_eq!((gateway.knows().0, gateway.knows().2), (122, 3));
}

/// Catches: a first round that never ends, so that its window grows without bound.
#[test]
fn the_first_round_of_an_evenly_spaced_flow_ends_after_an_rtt() {
    let mut gateway = Gateway::new("paper");
    for n in 0..400u32 {
        gateway.up(u64::from(n), data(ISN.wrapping_add(n * MSS)));
        assert!(gateway.knows().2 <= 110, "{:?}", gateway.knows());
    }
}

/// Catches: a sample of the RTT from an idle time in `paper+idle`, or no such sample in `paper`.
#[test]
fn an_idle_time_is_an_rtt_sample_for_paper_only() {
    for (name, rtt) in [("paper", 990), ("paper+idle", 100)] {
        let mut gateway = Gateway::open(name);
        gateway.up(100, data(ISN));
        gateway.up(9_100, data(ISN.wrapping_add(MSS)));
        assert_eq!(gateway.knows(), (9_100, rtt, 1), "{name}");
        // After two RTT without a packet, the window is zero.
        let silent = |millis| gateway.track.unwrap().estimate(Time::from_millis(millis));
        let least = u64::try_from(rtt).unwrap();
        assert_eq!(silent(9_100 + 2 * least).window, Bytes(FRAME));
        let idle = silent(9_101 + 2 * least);
        assert_eq!((idle.window, idle.growth), (Bytes::ZERO, Bytes::ZERO));
    }
}

/// Catches: the time between the first two packets taken for the RTT.
#[test]
fn a_flow_without_an_observed_handshake_begins_with_100_ms() {
    for name in ["paper", "paper+idle", "two-way"] {
        let mut gateway = Gateway::new(name);
        gateway.up(7, data(ISN));
        gateway.up(8, data(ISN.wrapping_add(MSS)));
        assert_eq!(gateway.knows(), (7, 100, 2), "{name}");
    }
}

/// Catches: comparisons of sequence numbers that do not wrap; a stray SYN that begins a new connection; sequence numbers of a
/// new connection that count as losses of the old one.
#[test]
fn sequence_numbers_wrap_and_ports_are_used_again() {
    for name in ["paper", "two-way"] {
        let mut gateway = Gateway::open(name);
        let mut seq = ISN;
        for round in 1..5 {
            seq = gateway.round(100 * round, seq, 3);
        }
        assert!(!gateway.estimate().marked, "{name}");
        let known = gateway.knows();
        gateway.up(483, packet(TcpSegment { seq: 5, ..syn(0) }, Ecn::NotEct));
        assert_eq!(gateway.knows(), known, "{name}");
        // This sequence number is too far away for any window. So the packet belongs to another
        // connection, whose SYN was not observed.
        gateway.up(500, data(seq.wrapping_add(1 << 31)));
        assert_eq!(gateway.knows().2, 1, "{name}");
        assert!(!gateway.estimate().marked, "{name}");
        // After an idle time, a SYN opens a new connection.
        gateway.up(9_000, packet(TcpSegment { seq: 77, ..syn(0) }, Ecn::NotEct));
        gateway.up(9_040, data(78));
        assert_eq!((gateway.knows().0, gateway.knows().2), (9_040, 1), "{name}");
        assert!(!gateway.estimate().marked, "{name}");
    }
}

/// Catches: a mark of the last round that also counts in this round; a loss that counts twice, in the round of the gap and in
/// the round of the retransmission.
#[test]
fn marks_and_losses_count_in_their_round_only() {
    let mut gateway = Gateway::open("paper");
    let seq = |n: u32| ISN.wrapping_add(n * MSS);
    for n in 0..4 {
        gateway.up(100, data(seq(n)));
    }
    assert!(!gateway.estimate().marked);
    gateway.up(100, Packet { ecn: Ecn::Ce, ..data(seq(4)) });
    assert!(gateway.estimate().marked);
    // The next window is half as large, and the mark no longer counts.
    gateway.up(200, data(seq(5)));
    assert_eq!((gateway.knows().2, gateway.estimate().marked), (2, false));
    // Segment 6 was lost before it reached the gateway.
    gateway.up(201, data(seq(7)));
    assert!(gateway.estimate().marked);
    gateway.up(300, data(seq(6)));
    assert!(!gateway.estimate().marked, "the copy belongs to the loss in the round before");
    gateway.up(400, data(seq(8)));
    gateway.up(401, data(seq(7)));
    assert!(gateway.estimate().marked, "it was lost downstream");
    gateway.up(500, data(seq(9)));
    gateway.track.as_mut().unwrap().on_drop(gateway.now);
    assert_eq!(gateway.estimate().next_window(), Bytes(gateway.estimate().window.0 / 2));
}

/// Catches: a flow that ignores marks, but counts as responding; a decision after a single mark; CWR without a smaller window
/// that counts as a response; a smaller window that does not count; ECT(1) treated as ECT(0).
#[test]
fn flows_that_ignore_marks_are_detected() {
    let respond = |name: &str, cwr: bool, windows: &[u32]| {
        let (mut gateway, mut seq) = (Gateway::open(name), ISN);
        let mut answers = Vec::new();
        for (round, window) in windows.iter().enumerate() {
            let at = 100 * u64::try_from(round + 1).unwrap();
            if cwr {
                let mut first = data(seq);
                first.tcp.as_mut().unwrap().flags.0 |= TcpFlags::CWR;
                gateway.up(at, first);
            }
            seq = gateway.round(at, seq, *window);
            gateway.track.as_mut().unwrap().on_mark(gateway.now);
            answers.push(gateway.estimate().responds);
        }
        answers
    };
    for name in ["paper", "two-way"] {
        let ignores = respond(name, false, &[9; 27]);
        assert_eq!(ignores.iter().position(|responds| !responds), Some(24), "{name}: {ignores:?}");
        assert_eq!(respond(name, true, &[20; 27]).last(), Some(&false), "{name}");
        assert!(respond(name, false, &[2; 27]).iter().all(|responds| *responds), "{name}");
        let sawtooth = [9, 9, 8, 6, 7, 8, 9, 9, 6, 7, 8, 9, 9, 6].repeat(2);
        assert!(respond(name, false, &sawtooth).iter().all(|responds| *responds), "{name}");
        let repents = [vec![9; 26], vec![4; 4]].concat();
        assert_eq!(respond(name, false, &repents).last(), Some(&true), "{name}");
        let mut gateway = Gateway::open(name);
        gateway.up(100, Packet { ecn: Ecn::Ect1, ..data(ISN) });
        assert!(!gateway.estimate().responds, "{name}");
        // A router on the path changes the ECN field, so marks do not show how the sender responds.
        gateway.up(101, Packet { ecn: Ecn::Ce, ..data(ISN.wrapping_add(MSS)) });
        assert!(!gateway.estimate().responds, "{name}");
        gateway.up(102, data(ISN.wrapping_add(2 * MSS)));
        assert!(gateway.estimate().responds, "{name}");
    }
}

/// Six segments are in flight, evenly spaced over 100 ms, with one ACK for two segments. There are no gaps between rounds.
///
/// Catches: a round that ends at the departure of the ACK, without the 20 ms to the sender; a window without the bytes
/// before the round that the same ACK acknowledges.
#[test]
fn two_way_finds_rounds_without_gaps() {
    let mut gateway = Gateway::open("two-way");
    let seq = |n: u64| ISN.wrapping_add(u32::try_from(n).unwrap() * MSS);
    for step in 0..60 {
        // One step every 10 ms. Data arrives at even steps, and its ACK departs 80 ms later.
        let at = 100 + 10 * step;
        if step % 2 == 0 {
            gateway.up(at, data(seq(step / 2)));
        }
        if step >= 8 && step % 4 == 2 {
            gateway.ack(at, seq((step - 8) / 2 + 1), 0);
        }
        if step > 30 {
            let (start, rtt, window) = gateway.knows();
            assert!(at - start <= 120, "at {at} the round is of {start}");
            assert!((100..=120).contains(&rtt), "{rtt}");
            assert!((5..=7).contains(&window), "{window}");
        }
    }
}

/// Catches: a super-packet that counts as one segment; a frame length without headers.
#[test]
fn super_packets_count_as_several_segments() {
    for name in ["paper", "two-way"] {
        let mut gateway = Gateway::open(name);
        let mut seq = ISN;
        for round in 1..6 {
            for n in 0..2 {
                let mut packet = data(seq);
                packet.tcp.as_mut().unwrap().payload = 5 * MSS;
                packet.len = 5 * MSS + HEADERS;
                packet.segments = 5;
                packet.segment = u16::try_from(MSS).unwrap();
                gateway.up(100 * round + n, packet);
                seq = seq.wrapping_add(5 * MSS);
            }
            gateway.ack(100 * round + 80, seq, 0);
        }
        let estimate = gateway.estimate();
        assert_eq!(estimate.growth, Bytes(FRAME), "{name}");
        assert_eq!(estimate.window, Bytes(u64::from(2 * (5 * MSS + HEADERS))), "{name}");
        assert_eq!(gateway.knows().0, 500, "{name}");
    }
}

/// Catches: a window that is expected to grow although the receiver's window or the application limits the sender.
#[test]
fn limited_flows_are_not_expected_to_grow() {
    let mut gateway = Gateway::open("two-way");
    let mut seq = ISN;
    for round in 1..4 {
        seq = gateway.round(100 * round, seq, 10);
        assert_eq!(gateway.estimate().growth, Bytes(FRAME));
    }
    // The receiver's window is 60,000 bytes.
    for round in 4..7 {
        seq = gateway.round(200 * round, seq, 60);
    }
    gateway.up(1_400, data(seq));
    assert_eq!(gateway.estimate().growth, Bytes::ZERO);

    let mut gateway = Gateway::open("two-way");
    let mut seq = gateway.round(100, ISN, 10);
    // The sender could have reacted at 209 ms, so the application limits it.
    seq = gateway.round(260, seq, 10);
    assert_eq!((gateway.knows(), gateway.estimate().growth), ((260, 100, 10), Bytes::ZERO));
    gateway.round(360, seq, 10);
    assert_eq!(gateway.estimate().growth, Bytes(FRAME));
}

/// A packet is marked at 305 ms. Then its ACK with ECN-Echo departs. The sender's CWR arrives in the middle of the next round.
///
/// Catches: a window that is halved before the sender knows of the mark; a mark that is forgotten before; ECN-Echo of the same
/// mark that counts as a second mark; ECN-Echo of a mark by another router that does not count.
#[test]
fn two_way_halves_the_window_when_the_sender_does() {
    for downstream in [false, true] {
        let mut gateway = Gateway::open("two-way");
        let mut seq = ISN;
        for round in 1..4 {
            seq = gateway.round(100 * round, seq, 10);
        }
        let echo = if downstream {
            gateway.ack(395, seq, TcpFlags::ECE);
            TcpFlags::ECE
        } else {
            gateway.track.as_mut().unwrap().on_mark(gateway.now);
            0
        };
        assert!(gateway.estimate().marked);
        for n in 0..4 {
            gateway.up(400 + u64::from(n), data(seq.wrapping_add(n * MSS)));
        }
        let pending = gateway.estimate();
        assert_eq!((gateway.knows().2, pending.marked), (10, true));
        assert_eq!(pending.next_window(), Bytes(5 * FRAME));
        let mut reduced = data(seq.wrapping_add(4 * MSS));
        reduced.tcp.as_mut().unwrap().flags.0 |= TcpFlags::CWR;
        gateway.up(440, reduced);
        let halved = gateway.estimate();
        assert_eq!((gateway.knows().2, halved.marked), (5, false));
        gateway.ack(480, seq.wrapping_add(MSS), echo);
        assert!(!gateway.estimate().marked, "the echo of the same mark");
        gateway.up(500, data(seq.wrapping_add(5 * MSS)));
        assert_eq!((gateway.knows(), gateway.estimate().marked), ((500, 100, 5), false));
    }
}

/// Catches: a tracker `two-way` that waits for ever for ACKs that take another path.
#[test]
fn without_acks_two_way_behaves_like_paper_idle() {
    let mut both = ["two-way", "paper+idle"].map(Gateway::new);
    for n in 0..40 {
        let at = u64::from(n / 4) * 90 + u64::from(n % 4);
        for gateway in &mut both {
            gateway.up(at, data(ISN.wrapping_add(n * MSS)));
        }
        assert_eq!(both[0].estimate(), both[1].estimate());
    }
    assert_eq!(both[0].knows().2, 4);
    // If no more ACKs arrive, the tracker waits for them for at most a second.
    let mut gateway = Gateway::open("two-way");
    let mut seq = gateway.round(100, ISN, 4);
    for round in 2..16 {
        for n in 0..4 {
            gateway.up(100 * round + n, data(seq));
            seq = seq.wrapping_add(MSS);
        }
    }
    let (start, rtt, window) = gateway.knows();
    assert_eq!((start, window), (1_500, 4));
    // One round begins with its second segment, which is a millisecond late.
    assert!((99..=100).contains(&rtt), "{rtt}");
}

/// Any packet in one of the directions, as an attacker may send it.
fn anything() -> impl Strategy<Value = (bool, u64, TcpSegment, u8, u16)> {
    let number = || {
        prop_oneof![
            any::<u32>(),
            (0u32..20_000).prop_map(|n| ISN.wrapping_add(n)),
            Just(0),
            Just(u32::MAX)
        ]
    };
    let header = (number(), number(), 0u32..70_000, any::<u8>(), any::<Option<(u32, u32)>>());
    let segment = (header, any::<u16>(), prop::option::of(0u8..20)).prop_map(
        |((seq, ack, payload, flags, timestamps), window, window_scale)| {
            let flags = TcpFlags(flags);
            TcpSegment {
                seq,
                ack,
                payload,
                flags,
                timestamps,
                window,
                window_scale,
                ..TcpSegment::default()
            }
        },
    );
    let pause = prop_oneof![0u64..3, 0u64..5_000, Just(10_000_000)];
    (any::<bool>(), pause, segment, 0u8..4, 0u16..50)
}

proptest! {
    /// Catches: an overflow; a division by a payload of zero; a start of a round in the future; an RTT of zero.
    #[test]
    fn no_packet_confuses_a_tracker(
        packets in prop::collection::vec(anything(), 1..60),
        name in prop::sample::select(&["two-way", "paper", "paper+idle"][..]),
    ) {
        let mut gateway = Gateway::new(name);
        let (mut millis, mut bytes) = (0, 0);
        for (up, pause, segment, ecn, segments) in packets {
            millis += pause;
            let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(ecn)];
            let packet = Packet { segments, segment: segments, ..packet(segment, ecn) };
            if up || gateway.track.is_none() {
                bytes += u64::from(packet.len);
                gateway.up(millis, packet);
            } else {
                gateway.down(millis, packet);
            }
            let track = gateway.track.as_mut().unwrap();
            if segments == 7 {
                track.on_mark(gateway.now);
            }
            let estimate = gateway.estimate();
            prop_assert!(estimate.round_start <= gateway.now);
            prop_assert!(!estimate.rtt.is_zero());
            // The window never exceeds the bytes that arrived, even if sequence numbers are forged.
            prop_assert!(estimate.window.0 <= bytes, "{} of {bytes}", estimate.window.0);
            prop_assert!(estimate.growth.0 < 1 << 16);
        }
    }
}
