//! The TCP state that the gateway derives from the headers of a connection's packets.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::flow::{AckKind, Arrival, Claiming, Flow, FlowTable, Handle, Tracking};
use tidegate_core::packet::{
    Direction, Endpoint, FlowIndex, FlowKey, Options, Protocol, TcpFlags, TcpSegment,
};
use tidegate_core::{Packet, Time};

use Direction::{Down, Up};

/// A flow table with one flow, which a client on the LAN opens.
struct Wire {
    table: FlowTable,
}

impl Wire {
    fn new() -> Self {
        let mut table = FlowTable::new(1, 0);
        table.insert(Time::ZERO, &packet(Up, segment(0, 0, 0)), Up).unwrap();
        Self { table }
    }

    fn flow(&self) -> &Flow {
        self.table.iter().next().unwrap().1
    }

    /// Passes `segment` through the gateway. It arrives at `at` ms, and departs `held` ms later.
    ///
    /// Catches: a round-trip time that changes although the arrival reports no new sample.
    fn passes(&mut self, at: u64, held: u64, way: Direction, segment: TcpSegment) -> Arrival {
        let mut packet = packet(way, segment);
        let id = self.table.find(&packet, way).unwrap();
        let before = self.table[id].rtt();
        let arrival = self.table[id].on_arrival(Time::from_millis(at), &mut packet, way);
        assert_eq!(arrival.rtt, self.table[id].rtt() != before);
        self.table[id].on_departure(Time::from_millis(at + held), &packet, way);
        arrival
    }

    /// A handshake that begins at `at` ms. The round trip to the client takes 10 ms, and the round
    /// trip to the server 40 ms.
    fn opens(&mut self, at: u64, client: u32, server: u32) {
        self.passes(at, 0, Up, syn(client));
        self.passes(at + 40, 0, Down, syn_ack(server, client + 1));
        self.passes(at + 50, 0, Up, segment(client + 1, server + 1, 0));
    }
}

fn packet(way: Direction, segment: TcpSegment) -> Packet {
    let (src, dst) = (Endpoint::v4([10, 0, 0, 1], 5_000), Endpoint::v4([1, 1, 1, 1], 80));
    let key = FlowKey { src, dst, protocol: Protocol::TCP };
    let key = if way == Up { key } else { key.reverse() };
    Packet { key, len: 66, tcp: Some(segment), ..Packet::default() }
}

fn segment(seq: u32, ack: u32, payload: u32) -> TcpSegment {
    TcpSegment {
        seq,
        ack,
        payload,
        window: 500,
        flags: TcpFlags(TcpFlags::ACK),
        ..TcpSegment::default()
    }
}

fn syn(seq: u32) -> TcpSegment {
    let (window_scale, mss) = (Some(7), 1_460);
    TcpSegment {
        flags: TcpFlags(TcpFlags::SYN),
        window_scale,
        mss,
        sack_permitted: true,
        ..segment(seq, 0, 0)
    }
}

fn syn_ack(seq: u32, ack: u32) -> TcpSegment {
    TcpSegment {
        flags: TcpFlags(TcpFlags::SYN | TcpFlags::ACK),
        ack,
        window_scale: Some(2),
        ..syn(seq)
    }
}

fn with(flags: u8, segment: TcpSegment) -> TcpSegment {
    TcpSegment { flags: TcpFlags(segment.flags.0 | flags), ..segment }
}

fn stamped(value: u32, echo: u32, segment: TcpSegment) -> TcpSegment {
    TcpSegment { timestamps: Some((value, echo)), ..segment }
}

fn ms(millis: u64) -> Option<Duration> {
    Some(Duration::from_millis(millis))
}

#[test]
fn a_handshake_shows_options_windows_and_both_halves_of_the_round_trip() {
    let mut wire = Wire::new();
    wire.opens(0, 100, 900);
    let flow = wire.flow();
    assert_eq!((flow.rtt().near, flow.rtt().far), (ms(10), ms(40)));
    assert_eq!(flow.rtt().end_to_end(), ms(50));
    assert_eq!(flow.tracking(), Tracking::Full);
    let connection = flow.connection();
    assert_eq!((connection.mss(Up), connection.uses_sack()), (Some(1_460), true));
    assert_eq!(connection.window(Up), Some(500 << 7));
    assert_eq!(connection.window(Down), Some(500 << 2));
    assert_eq!((connection.next_seq(Up), connection.ack(Up)), (Some(101), Some(901)));
    assert!(!connection.uses_timestamps() && !connection.is_closed());
}

#[test]
fn the_time_in_the_gateway_is_in_no_round_trip() {
    let mut wire = Wire::new();
    wire.passes(0, 500, Up, syn(100));
    wire.passes(540, 300, Down, syn_ack(900, 101));
    wire.passes(850, 0, Up, segment(101, 901, 0));
    assert_eq!((wire.flow().rtt().near, wire.flow().rtt().far), (ms(10), ms(40)));
}

#[test]
fn a_stream_without_pauses_gives_round_trips() {
    let mut wire = Wire::new();
    for n in 0..30 {
        wire.passes(u64::from(n), 0, Down, segment(n * 100, 1, 100));
        if n >= 10 {
            wire.passes(u64::from(n), 0, Up, segment(1, (n - 9) * 100, 0));
        }
    }
    assert_eq!(wire.flow().rtt().near, ms(10));
}

#[test]
fn the_window_of_a_syn_is_not_scaled() {
    let mut wire = Wire::new();
    wire.passes(0, 0, Up, syn(100));
    wire.passes(40, 0, Down, syn_ack(900, 101));
    assert_eq!(wire.flow().connection().window(Down), Some(500));
}

#[test]
fn one_half_alone_gives_no_round_trip_time() {
    let mut wire = Wire::new();
    wire.passes(0, 0, Down, segment(900, 1, 1_000));
    wire.passes(10, 0, Up, segment(1, 1_900, 0));
    let rtt = wire.flow().rtt();
    assert_eq!((rtt.near, rtt.far, rtt.end_to_end()), (ms(10), None, None));
}

#[test]
fn retransmitted_data_gives_no_round_trip() {
    let mut wire = Wire::new();
    wire.passes(0, 0, Down, segment(900, 1, 1_000));
    assert!(wire.passes(200, 0, Down, segment(900, 1, 1_000)).seen_before);
    assert!(wire.passes(201, 0, Down, segment(900, 1, 1_000)).seen_before);
    wire.passes(210, 0, Up, segment(1, 1_900, 0));
    assert_eq!(wire.flow().rtt().near, None);
    assert_eq!(wire.flow().retransmissions(Down), 2);
}

#[test]
fn a_hole_filled_late_gives_no_round_trip_to_later_data() {
    let mut wire = Wire::new();
    wire.passes(0, 0, Down, segment(900, 1, 100));
    wire.passes(1, 0, Up, segment(1, 1_000, 0));
    wire.passes(2, 0, Down, segment(1_100, 1, 100));
    wire.passes(300, 0, Down, segment(1_000, 1, 100));
    wire.passes(301, 0, Up, segment(1, 1_200, 0));
    assert_eq!((wire.flow().rtt().near, wire.flow().min_rtt().near), (ms(1), ms(1)));
    assert_eq!(wire.flow().connection().next_seq(Down), Some(1_200));
}

#[test]
fn a_repeated_syn_begins_no_connection_and_gives_no_round_trip() {
    let mut wire = Wire::new();
    assert!(wire.passes(0, 0, Up, syn(100)).connection);
    let again = wire.passes(1_000, 0, Up, syn(100));
    assert!(again.seen_before && !again.connection);
    wire.passes(1_040, 0, Down, syn_ack(900, 101));
    wire.passes(1_050, 0, Up, segment(101, 901, 0));
    assert_eq!((wire.flow().rtt().near, wire.flow().rtt().far), (ms(10), None));
    assert_eq!(wire.flow().tracking(), Tracking::Full);
}

#[test]
fn a_reused_port_begins_a_new_connection() {
    let mut wire = Wire::new();
    wire.opens(0, 100, 900);
    let id = wire.table.iter().next().unwrap().0;
    let handle = Handle { aggregate: 1, generation: 2, flow_index: FlowIndex(3) };
    wire.table[id].set_handle(Down, handle, 0);
    assert!(!wire.passes(60, 0, Up, syn(5_000)).connection, "the old one is at work");
    wire.passes(100, 0, Up, with(TcpFlags::FIN, segment(101, 901, 0)));
    assert!(!wire.flow().connection().is_closed(), "the server may still send");
    wire.passes(110, 0, Down, with(TcpFlags::FIN, segment(901, 102, 0)));
    assert!(wire.flow().connection().is_closed());
    assert!(wire.passes(200, 0, Up, syn(7_000)).connection);
    assert_eq!((wire.flow().rtt().far, wire.flow().packets(Up)), (None, 1));
    assert_eq!(wire.flow().connection().next_seq(Up), Some(7_001));
    assert_eq!(wire.flow().handle(Down), handle);
}

/// Catches: a SYN that ends an existing connection (RFC 5961, section 4); a wrong answer to a SYN
/// that ends the existing connection; sequence numbers or options of the old connection that are
/// kept for the new one.
#[test]
fn a_syn_for_the_ports_of_a_connection_counts_once_it_is_acknowledged() {
    let mut wire = Wire::new();
    wire.opens(0, 100, 900);
    let syn = TcpSegment { mss: 536, ..syn(5_000) };
    let claims = |arrival: Arrival| (arrival.claiming, arrival.connection);
    assert_eq!(claims(wire.passes(60, 0, Up, syn)), (Claiming::Asked, false));
    assert_eq!(claims(wire.passes(61, 0, Down, syn_ack(70, 5_002))), (Claiming::No, false));
    let old = segment(901, 101, 0);
    assert_eq!(claims(wire.passes(62, 0, Down, old)), (Claiming::Denied, false));
    assert_eq!(claims(wire.passes(63, 0, Down, syn_ack(70, 5_001))), (Claiming::No, false));
    assert_eq!(wire.flow().connection().next_seq(Up), Some(101));
    assert_eq!(claims(wire.passes(64, 0, Up, syn)), (Claiming::Asked, false));
    assert_eq!(claims(wire.passes(65, 0, Down, syn_ack(70, 5_001))), (Claiming::Granted, true));
    let connection = wire.flow().connection();
    assert_eq!((connection.next_seq(Up), connection.next_seq(Down)), (Some(5_001), Some(71)));
    assert_eq!((connection.mss(Up), connection.tracking()), (Some(536), Tracking::Full));
}

/// Catches: a SYN whose send time is forgotten, so that its SYN-ACK gives no round-trip time; a SYN
/// that gets no SYN-ACK and still discards the handshake's round-trip time; a flow that measures no
/// round-trip time after a SYN.
#[test]
fn a_syn_for_the_ports_of_a_connection_costs_no_round_trip() {
    let mut wire = Wire::new();
    wire.opens(0, 100, 900);
    wire.passes(60, 0, Up, with(TcpFlags::FIN, segment(101, 901, 0)));
    wire.passes(70, 0, Down, with(TcpFlags::FIN, segment(901, 102, 0)));
    let asked = wire.passes(100, 0, Up, syn(5_000));
    assert_eq!((asked.claiming, asked.connection), (Claiming::Asked, true));
    let granted = wire.passes(130, 0, Down, syn_ack(70, 5_001));
    assert_eq!((granted.claiming, granted.connection), (Claiming::Granted, false));
    assert_eq!((wire.flow().rtt().near, wire.flow().rtt().far), (None, ms(30)));
    wire.passes(135, 0, Up, segment(5_001, 71, 0));
    assert_eq!(wire.flow().rtt().near, ms(5));

    let mut denied = Wire::new();
    denied.opens(0, 100, 900);
    denied.passes(60, 0, Up, syn(5_000));
    assert_eq!(denied.passes(70, 0, Down, segment(901, 101, 0)).claiming, Claiming::Denied);
    assert_eq!((denied.flow().rtt().near, denied.flow().rtt().far), (ms(10), ms(40)));
    denied.passes(80, 0, Down, segment(901, 101, 500));
    denied.passes(170, 0, Up, segment(101, 1_401, 0));
    assert_eq!(denied.flow().rtt().near, ms(20), "a sample of 90 ms");
}

#[test]
fn a_reset_counts_only_in_sequence() {
    let mut wire = Wire::new();
    wire.opens(0, 100, 900);
    let reset = |seq| with(TcpFlags::RST, segment(seq, 0, 0));
    wire.passes(60, 0, Up, reset(50_000));
    assert!(!wire.flow().connection().is_closed());
    wire.passes(61, 0, Up, reset(101));
    assert!(wire.flow().connection().is_closed());
    let mut refused = Wire::new();
    refused.passes(0, 0, Up, syn(100));
    refused.passes(40, 0, Down, with(TcpFlags::RST, segment(0, 101, 0)));
    assert!(refused.flow().connection().is_closed());
}

#[test]
fn kinds_of_acks_are_distinguished() {
    let mut wire = Wire::new();
    wire.opens(0, 100, 900);
    let idle = wire.passes(60, 0, Up, segment(101, 901, 0)).ack;
    assert_eq!(idle, AckKind::Other, "nothing is outstanding");
    wire.passes(61, 0, Down, segment(901, 101, 3_000));
    let mut ack = |segment| wire.passes(70, 0, Up, segment).ack;
    assert_eq!(ack(segment(101, 901, 0)), AckKind::Duplicate);
    assert_eq!(ack(segment(101, 1_901, 0)), AckKind::OpensWindow);
    assert_eq!(ack(segment(101, 901, 0)), AckKind::Other, "an old one");
    assert_eq!(ack(TcpSegment { window: 600, ..segment(101, 1_901, 0) }), AckKind::OpensWindow);
    assert_eq!(ack(TcpSegment { window: 600, ..segment(101, 1_901, 0) }), AckKind::Duplicate);
    assert_eq!(ack(TcpSegment { window: 400, ..segment(101, 1_901, 0) }), AckKind::Other);
    assert_eq!(
        ack(TcpSegment { window: 300, has_sack: true, ..segment(101, 1_901, 0) }),
        AckKind::Duplicate
    );
    assert_eq!(ack(TcpSegment { window: 300, ..segment(101, 1_901, 10) }), AckKind::Other, "data");
}

#[test]
fn the_knowledge_of_a_flow_depends_on_the_directions_that_cross_the_gateway() {
    let mut wire = Wire::new();
    assert_eq!(wire.flow().tracking(), Tracking::QueueOnly);
    wire.passes(0, 0, Up, segment(1, 1, 100));
    assert_eq!(wire.flow().tracking(), Tracking::QueueOnly, "one direction only");
    wire.passes(1, 0, Down, segment(1, 101, 0));
    assert_eq!(wire.flow().tracking(), Tracking::NoWindowScale);
    assert_eq!(wire.flow().connection().window(Down), None);
}

#[test]
fn a_window_is_scaled_only_if_both_ends_offer_to() {
    let mut wire = Wire::new();
    wire.passes(0, 0, Up, syn(100));
    wire.passes(40, 0, Down, TcpSegment { window_scale: None, ..syn_ack(900, 101) });
    wire.passes(50, 0, Up, segment(101, 901, 0));
    assert_eq!(wire.flow().connection().window(Up), Some(500));
}

#[test]
fn an_ack_and_the_data_it_releases_measure_the_round_trip_to_the_sender() {
    let mut wire = Wire::new();
    wire.passes(0, 0, Up, stamped(10, 1, segment(1, 1_000, 0)));
    wire.passes(5, 0, Up, stamped(15, 1, segment(1, 2_000, 0)));
    wire.passes(6, 0, Up, stamped(15, 1, segment(1, 3_000, 0)));
    wire.passes(40, 0, Down, stamped(2, 10, segment(5_000, 1, 1_000)));
    assert_eq!(wire.flow().rtt().far, None, "10 may have been sent before we looked");
    wire.passes(45, 0, Down, stamped(2, 15, segment(6_000, 1, 1_000)));
    assert_eq!(wire.flow().rtt().far, ms(40));
    // The sender pauses for a second. The pause is not a part of the round trip.
    wire.passes(50, 0, Up, stamped(60, 1, segment(1, 7_000, 0)));
    wire.passes(55, 0, Up, stamped(65, 1, segment(1, 7_000, 0)));
    wire.passes(1_055, 0, Down, stamped(2, 65, segment(7_000, 1, 1_000)));
    assert_eq!(wire.flow().rtt().far, ms(40));
}

#[test]
fn flows_without_tcp_have_no_round_trip() {
    let mut wire = Wire::new();
    let mut plain = Packet { tcp: None, ..packet(Up, segment(0, 0, 0)) };
    let id = wire.table.find(&plain, Up).unwrap();
    wire.table[id].on_arrival(Time::ZERO, &mut plain, Up);
    wire.table[id].on_departure(Time::ZERO, &plain, Up);
    assert_eq!((wire.flow().rtt().near, wire.flow().rtt().far), (None, None));
    assert_eq!(wire.flow().packets(Up), 1);
}

proptest! {
    /// A transfer that begins anywhere in the sequence space, so sequence numbers often wrap.
    /// Segments are held for random times. Each ACK follows after the delay of the client, and the
    /// gateway measures exactly this delay.
    ///
    /// Catches: sequence numbers compared without wrapping; a round trip that begins when the
    /// segment arrives, not when it departs.
    #[test]
    fn every_measured_round_trip_is_the_true_one(
        start in prop_oneof![any::<u32>(), (0u32..40_000).prop_map(|back| 0u32.wrapping_sub(back))],
        delay in 1u64..2_000,
        segments in prop::collection::vec((1u32..1_500, 0u64..500), 1..60),
    ) {
        let mut wire = Wire::new();
        let (mut seq, mut now) = (start, 0);
        let mut acks: Vec<(u64, u32)> = Vec::new();
        for (payload, held) in segments {
            now += 10;
            while let Some((at, ack)) = acks.first().copied().filter(|(at, _)| *at <= now) {
                acks.remove(0);
                wire.passes(at, 0, Up, segment(1, ack, 0));
            }
            // First in, first out: no segment departs before an earlier one.
            let departs = acks.last().map_or(0, |(at, _)| at - delay).max(now + held);
            wire.passes(now, departs - now, Down, segment(seq, 1, payload));
            seq = seq.wrapping_add(payload);
            acks.push((departs + delay, seq));
        }
        for (at, ack) in acks {
            wire.passes(at, 0, Up, segment(1, ack, 0));
        }
        let (flow, truth) = (wire.flow(), Some(Duration::from_millis(delay)));
        prop_assert_eq!((flow.rtt().near, flow.min_rtt().near), (truth, truth));
        prop_assert_eq!(flow.retransmissions(Down), 0);
        prop_assert_eq!(flow.connection().next_seq(Down), Some(seq));
    }

    /// Smoothing follows RFC 6298, except for fractions of microseconds that are cut off.
    ///
    /// Catches: a gain of 1/4; a shortest round-trip time that never changes.
    #[test]
    fn smoothing_is_that_of_rfc_6298(delays in prop::collection::vec(1u64..5_000, 1..80)) {
        let mut wire = Wire::new();
        let (mut now, mut seq) = (0, 1);
        let mut expected: Option<f64> = None;
        for delay in &delays {
            wire.passes(now, 0, Down, segment(seq, 1, 100));
            seq += 100;
            wire.passes(now + delay, 0, Up, segment(1, seq, 0));
            now += delay + 1;
            let sample = f64::from(u32::try_from(*delay).unwrap()) * 1_000.0;
            expected = Some(expected.map_or(sample, |old| old * 0.875 + sample * 0.125));
        }
        let smoothed = wire.flow().rtt().near.unwrap().as_secs_f64() * 1e6;
        prop_assert!((smoothed - expected.unwrap()).abs() <= 2.0, "{smoothed} {expected:?}");
        prop_assert_eq!(wire.flow().min_rtt().near, ms(*delays.iter().min().unwrap()));
    }

    /// No header causes an overflow, or a round-trip time of more than a minute.
    ///
    /// Catches: a sample of more than a minute that is used.
    #[test]
    fn any_headers_are_harmless(
        packets in prop::collection::vec((any_segment(), any::<bool>(), 0u64..200_000, any::<bool>()), 1..100),
    ) {
        let mut wire = Wire::new();
        let mut now = 0;
        for (segment, up, after, held) in packets {
            now += after;
            wire.passes(now, u64::from(held), if up { Up } else { Down }, segment);
            let (rtt, minute) = (wire.flow().rtt(), Some(Duration::from_secs(60)));
            prop_assert!(rtt.near <= minute && rtt.far <= minute);
        }
    }
}

/// Catches: AccECN or MPTCP that counts as negotiated although one end declines it.
#[test]
fn accecn_and_mptcp_are_negotiated_by_both_syns() {
    let ecn = TcpFlags::ECE | TcpFlags::CWR;
    let (offer, accept) = ((TcpFlags::SYN | ecn, 1), (TcpFlags::SYN | TcpFlags::CWR, 0));
    let (classic, plain) = ((TcpFlags::SYN | TcpFlags::ECE, 0), (TcpFlags::SYN, 0));
    let (none, mptcp) = (Options::None, Options::Multipath);
    for (syn, answer, negotiated) in [
        ((offer, none), (accept, none), true),
        ((offer, none), (classic, none), false),
        ((plain, none), (accept, none), false),
        ((plain, mptcp), (plain, mptcp), true),
        ((plain, mptcp), (plain, none), false),
        ((plain, Options::Unknown), (plain, Options::Unknown), false),
    ] {
        let mut wire = Wire::new();
        let with = |((flags, high_flags), options), it| {
            with(flags, TcpSegment { high_flags, options, ..it })
        };
        wire.passes(0, 0, Up, with(syn, TcpSegment { flags: TcpFlags(0), ..segment(100, 0, 0) }));
        wire.passes(10, 0, Down, with(answer, segment(900, 101, 0)));
        wire.passes(20, 0, Up, segment(101, 901, 0));
        assert_eq!(wire.flow().connection().is_extended(), negotiated, "{syn:?} {answer:?}");
    }
}

/// Random headers, whose numbers often coincide.
fn any_segment() -> impl Strategy<Value = TcpSegment> {
    let number = || prop_oneof![4 => 0u32..4, 1 => any::<u32>()];
    let timestamps = prop::option::of((number(), number()));
    let scale = prop::option::of(any::<u8>());
    (number(), number(), number(), timestamps, scale, any::<(u16, u16, u8, bool)>()).prop_map(
        |(seq, ack, payload, timestamps, window_scale, (window, mss, flags, has_sack))| {
            TcpSegment {
                seq,
                ack,
                payload,
                timestamps,
                window,
                mss,
                flags: TcpFlags(flags & !TcpFlags::RST),
                window_scale,
                sack_permitted: has_sack,
                has_sack,
                authenticated: false,
                options: Default::default(),
                high_flags: 0,
            }
        },
    )
}
