//! Tests of a trunk with epochs: its parts, and two gateways with a path between them.
//!
//! An *epoch* ends with a *boundary*: a user packet that both gateways select by its hash. The
//! *name* of a boundary is a part of the hash. The receiving gateway answers each boundary with a
//! *congestion ACK*.

use std::time::Duration;

use proptest::prelude::*;

use super::boundary::{Spacing, boundary, frames};
use super::control::{AggregateWindow, BoundaryMeasurement, CopaMode};
use super::ledger::{Ledger, SentTotals};
use super::message::CongestionAck;
use super::senders::Senders;
use super::virtual_flows::{VirtualFeedback, VirtualFlows};
use crate::link::{LinkConfig, Loss};
use crate::packet::{Ecn, Endpoint, FlowKey, Network, Protocol, QueueIndex, TcpFlags, TcpSegment};
use crate::random::Random;
use crate::tcp::congestion::copa::Arrived;
use crate::trunk::packet::network_len;
use crate::trunk::testing::{Pair, config, path, user};
use crate::trunk::{Arriving, Config, Probing};
use crate::{Packet, Rate, Time};

fn spacings() -> impl Iterator<Item = Spacing> {
    (0..=20).map(Spacing::of_power)
}

/// A TCP segment of the connection from `port`, with the sequence number `seq`.
fn segment(port: u16, seq: u32, v6: bool) -> Packet {
    let (src, dst, network) = if v6 {
        (Endpoint::v6([7; 16], port), Endpoint::v6([9; 16], 443), Network::Ipv6)
    } else {
        (Endpoint::v4([10, 0, 0, 1], port), Endpoint::v4([10, 9, 0, 1], 443), Network::Ipv4)
    };
    let tcp = TcpSegment {
        seq,
        payload: 1_448,
        timestamps: Some((seq / 9_000, 7)),
        ..TcpSegment::default()
    };
    let key = FlowKey { src, dst, protocol: Protocol::TCP };
    Packet { key, network, tcp: Some(tcp), ..user(1_500) }
}

proptest! {
    /// Header fields that routers change do not affect the hash. Each boundary at a wide spacing is also a boundary at a
    /// narrow spacing.
    #[test]
    fn both_gateways_select_the_same_boundaries(
        port: u16, seq: u32, v6: bool, dscp in 0_u8..64, window: u16, vlan: u16, flow: u32, power in 0_u16..12,
    ) {
        let here = segment(port, seq, v6);
        let mut there = here;
        (there.dscp, there.ecn, there.vlan, there.queue_index) = (dscp, Ecn::Ce, vlan, QueueIndex(flow));
        there.tcp.as_mut().unwrap().window = window;
        let spacing = Spacing::of_power(power);
        prop_assert_eq!(boundary(&here, spacing), boundary(&there, spacing));
        if power > 0 && boundary(&here, spacing).is_some() {
            prop_assert_eq!(boundary(&there, Spacing::of_power(power - 1)), boundary(&here, spacing));
        }
    }
}

/// Epochs have the requested mean length, for one or many connections, IPv4 and IPv6, TCP and UDP.
#[test]
fn epochs_have_the_requested_mean_length_for_all_traffic() {
    let datagram = |n: u32, v6| {
        let checksum = u16::try_from(n % 65_535).unwrap() + 1;
        let mut packet = Packet { tcp: None, checksum, ..segment(9, 0, v6) };
        packet.key.protocol = Protocol::UDP;
        packet
    };
    for v6 in [false, true] {
        for kind in 0..3 {
            let packet = |n: u32| match kind {
                0 => segment(5_000, 1_448 * n, v6),
                1 => segment(u16::try_from(n % 50_000).unwrap(), 1, v6),
                _ => datagram(n, v6),
            };
            for power in [0, 2, 5] {
                let all = 1 << (power + 11);
                let spacing = Spacing::of_power(power);
                let ends = (0..all).filter(|n| boundary(&packet(*n), spacing).is_some()).count();
                assert!((1_700..2_400).contains(&ends), "{v6} {kind} {power}: {ends}");
            }
        }
    }
    let same = Packet { tcp: None, checksum: 0, ..segment(9, 0, false) };
    assert_eq!(boundary(&same, Spacing::default()), None);
}

#[test]
fn a_spacing_is_kept_while_a_round_trip_has_six_to_sixteen_epochs() {
    for spacing in spacings() {
        for packets in [0, 1, 5, 31, 32, 33, 100, 1_000, 3_000_000] {
            let adapted = spacing.adapted(packets);
            let epochs = packets / adapted.packets();
            assert!(epochs < 16 || adapted.power() == 20, "{spacing:?} {packets} {adapted:?}");
            assert!(packets >= 6 * adapted.packets() || adapted.power() == 0);
            assert_eq!(adapted.adapted(packets), adapted);
        }
    }
}

/// The fate of a packet, and of its congestion ACK.
#[derive(Clone, Copy, Debug)]
struct Fate {
    name: u32,
    lost: bool,
    forward: u64,
    backward: Option<u64>,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate =
        (0_u32..400, prop::bool::weighted(0.1), 1_u64..60, prop::option::weighted(0.8, 1_u64..60));
    let fate =
        fate.prop_map(|(name, lost, forward, backward)| Fate { name, lost, forward, backward });
    prop::collection::vec(fate, 1..120)
}

proptest! {
    /// Losses and reordering in both directions do not change the measurements. Each round-trip
    /// time is that of the packet that arrived. The acknowledged totals never decrease. The sum of
    /// all missing bytes is the number of bytes that had not arrived at the last congestion ACK.
    ///
    /// Catches: names of acknowledged boundaries that are forgotten, so that a second packet with the same name gives a
    /// wrong round-trip time.
    #[test]
    fn samples_are_true_despite_losses_and_reordering(fates in fates()) {
        let ms = Time::from_millis;
        let (mut ledger, mut acks, mut received) = (Ledger::default(), Vec::new(), 0_u32);
        let mut arrivals: Vec<_> = (0_u64..).zip(&fates).filter(|(_, it)| !it.lost).collect();
        arrivals.sort_by_key(|(n, it)| n + it.forward);
        for (n, it) in arrivals {
            received += 1_500;
            let ack = CongestionAck { name: it.name, received, ..CongestionAck::default() };
            acks.extend(it.backward.map(|back| (n + it.forward + back, n, ack)));
        }
        acks.sort_by_key(|it| it.0);
        let (mut acks, mut missing, mut heard, mut first) = (acks.into_iter().peekable(), 0, 0, None);
        for now in 0..300 {
            if let Some(it) = usize::try_from(now).ok().and_then(|n| fates.get(n)) {
                ledger.depart(ms(now), it.name, SentTotals { bytes: 1_500 * (now + 1), packets: now + 1 }, true);
            }
            while let Some((_, sent, ack)) = acks.next_if(|it| it.0 == now) {
                let Some(sample) = ledger.acknowledged(ms(now), ack) else { continue };
                if let Some(rtt) = sample.rtt {
                    prop_assert_eq!(rtt, Duration::from_millis(now - sent));
                }
                prop_assert!(sample.sent.bytes > heard);
                heard = sample.sent.bytes;
                missing += sample.missing;
                let (bytes, then) = *first.get_or_insert_with(|| (heard, i64::from(ack.received)));
                let left = i64::try_from(heard - bytes).unwrap();
                prop_assert_eq!(missing, left - (i64::from(ack.received) - then));
            }
        }
    }
}

/// Segments have the same hashes, whether or not an interface has joined them into super-packets.
///
/// Catches: a super-packet hashed as one packet; frames whose repeated headers are not counted; the FIN of the last
/// frame on all frames.
#[test]
fn a_super_packet_has_the_hashes_of_its_frames() {
    let joined = |first: u32, count: u16, short: u32, fin: bool| {
        let payload = u32::from(count) * 1_448 - short;
        // An interface joins only segments with equal timestamps.
        let it = segment(9, 0, false);
        let flags =
            if fin { TcpFlags(TcpFlags::ACK | TcpFlags::FIN) } else { it.tcp.unwrap().flags };
        let seq = first * 1_448;
        let tcp = TcpSegment { seq, payload, flags, ..it.tcp.unwrap() };
        let len = it.len - it.tcp.unwrap().payload + payload;
        let segment = if count > 1 { 1_448 } else { 0 };
        Packet { len, tcp: Some(tcp), segments: count, segment, ..it }
    };
    let seen = |packets: &[Packet]| {
        let frames: Vec<_> = packets.iter().flat_map(frames).collect();
        let names =
            |spacing| frames.iter().map(move |it| boundary(it, spacing)).collect::<Vec<_>>();
        let bytes: u64 = frames.iter().map(network_len).sum();
        (bytes, spacings().take(4).map(names).collect::<Vec<_>>())
    };
    let one = seen(&[joined(0, 40, 100, true)]);
    let some = seen(&[joined(0, 7, 0, false), joined(7, 1, 0, false), joined(8, 32, 100, true)]);
    let last = joined(39, 1, 100, true);
    let each = seen(&[(0..39).map(|n| joined(n, 1, 0, false)).collect(), vec![last]].concat());
    assert_eq!((one.1[0].len(), &one), (40, &some));
    assert_eq!(one, each);
}

/// Catches: a UDP super-packet that is a boundary, although the receiver sees frames with other checksums; repeated
/// headers that are not counted.
#[test]
fn a_udp_super_packet_has_the_bytes_of_its_frames_and_is_no_boundary() {
    let it =
        Packet { transport_offset: 34, network_offset: 14, checksum: 7, ..user(42 + 3 * 1_000) };
    let many: Vec<_> = frames(&Packet { segments: 3, segment: 1_000, ..it }).collect();
    assert_eq!(many.iter().map(network_len).sum::<u64>(), 3 * 1_028);
    assert_eq!((boundary(&many[0], Spacing::default()), many.len()), (None, 1));
    assert_eq!(frames(&it).map(|it| (it.len, it.checksum)).collect::<Vec<_>>(), [(it.len, 7)]);
}

#[test]
fn a_restarted_receiver_reports_no_losses() {
    let mut ledger = Ledger::default();
    for n in 1..4 {
        ledger.depart(
            Time::ZERO,
            n,
            SentTotals { bytes: 1_500 * u64::from(n), packets: n.into() },
            true,
        );
    }
    let mut said = |name, received, life| {
        let ack = CongestionAck { name, received, life, ..CongestionAck::default() };
        ledger.acknowledged(Time::from_millis(1), ack).unwrap().missing
    };
    assert_eq!([said(1, 900_000, 1), said(2, 1_500, 2), said(3, 1_500, 2)], [0, 0, 1_500]);
}

fn control() -> AggregateWindow {
    AggregateWindow::new(Time::ZERO, Random::new(7, 0))
}

/// Reports `rounds` round trips of `rtt` milliseconds to `control`, each with ten acknowledged boundaries.
fn round_trips(control: &mut AggregateWindow, now: &mut Time, rounds: u32, rtt: u64, missing: i64) {
    for n in 0..10 * rounds {
        *now += Duration::from_millis(rtt) / 10;
        let (rtt, bytes) = (Duration::from_millis(rtt), control.window() / 10);
        let missing = if n % 10 == 0 { missing } else { 0 };
        let arrived = Some(Arrived { bytes, span: rtt / 10 });
        control
            .on_progress(*now, &BoundaryMeasurement { rtt, bytes, missing, arrived, full: true });
    }
}

/// Catches: the mode `Competition` after five round trips that are shorter than two seconds.
/// Catches: windows of virtual connections that grow while packets are lost.
#[test]
fn the_mode_is_competition_only_while_the_queue_stays_full() {
    let (mut now, mut control) = (Time::ZERO, control());
    round_trips(&mut control, &mut now, 10, 50, 0);
    round_trips(&mut control, &mut now, 15, 100, 0);
    assert_eq!(control.mode(), CopaMode::Delay);
    round_trips(&mut control, &mut now, 8, 100, 0);
    assert_eq!(control.mode(), CopaMode::Competition);
    let before = control.window();
    round_trips(&mut control, &mut now, 15, 100, 0);
    assert!(control.window() > before, "{} {before}", control.window());
    let before = control.window();
    round_trips(&mut control, &mut now, 5, 100, 3_000);
    assert!(control.window() < before, "{} {before}", control.window());
    round_trips(&mut control, &mut now, 2, 50, 0);
    assert_eq!(control.mode(), CopaMode::Delay);
}

/// Catches: the mode `Check` that never begins, or whose small window stays; a least round-trip time that is forgotten
/// after ten seconds.
#[test]
fn a_check_reduces_the_window_for_a_while_and_then_restores_it() {
    let (mut now, mut control) = (Time::ZERO, control());
    round_trips(&mut control, &mut now, 10, 50, 0);
    round_trips(&mut control, &mut now, 40, 100, 0);
    let (mut checks, mut largest, mut checking) = (0, 0, false);
    for _ in 0..400 {
        round_trips(&mut control, &mut now, 1, 100, 0);
        let checks_now = control.mode() == CopaMode::Check;
        checks += u32::from(checks_now && !checking);
        if checks_now {
            assert!(control.window() < largest * 3 / 4, "{} {largest}", control.window());
        } else {
            assert_eq!(control.mode(), CopaMode::Competition);
            assert!(control.window() >= largest, "{} {largest}", control.window());
            largest = control.window();
        }
        checking = checks_now;
    }
    assert!((11..=13).contains(&checks), "{checks}");
}

/// Catches: an estimate that counts flows without regard to their bytes, or that ignores flows with the same hash.
#[test]
fn senders_count_in_proportion_to_their_traffic() {
    let key = |port| segment(port, 0, false).key;
    for many in [1_u16, 4, 10, 40] {
        let mut senders = Senders::default();
        for port in 1..=many {
            senders.sends(&key(port), 100_000);
        }
        for port in 1_000..1_100 {
            senders.sends(&key(port), 20);
        }
        let count = senders.count();
        assert!(count.abs_diff(many.into()) <= u64::from(many / 8), "{count} of {many}");
        assert_eq!(senders.count(), 1);
    }
}

/// Catches: a lost packet that reduces all windows; a burst of losses that reduces the same window twice.
#[test]
fn a_loss_reduces_one_window_and_a_burst_reduces_no_window_twice() {
    let ms = Duration::from_millis(100);
    let lost = |missing| {
        let mut ensemble = VirtualFlows::new(Random::new(1, 1));
        ensemble.begin(10, 1_500_000);
        let round = VirtualFeedback { bytes: 0, missing, srtt: ms, may_grow: false };
        ensemble.on_boundary(Time::from_secs(1), &round);
        ensemble.window()
    };
    assert_eq!([lost(0), lost(1_499), lost(1_500)], [1_500_000, 1_500_000, 1_455_000]);
    assert_eq!(lost(1_500 * 300), 1_050_000);
}

/// Catches: a forged report of endless losses, which reduces windows for ever; a forged report of duplicates, which
/// hides all later losses.
#[test]
fn forged_loss_reports_have_a_bounded_effect() {
    let ms = Duration::from_millis(100);
    let mut ensemble = VirtualFlows::new(Random::new(1, 1));
    ensemble.begin(10, 1_500_000);
    let mut report = |second, missing| {
        let round = VirtualFeedback { bytes: 0, missing, srtt: ms, may_grow: false };
        ensemble.on_boundary(Time::from_secs(second), &round);
        ensemble.window()
    };
    assert_eq!(report(1, i64::MAX), 1_050_000);
    assert_eq!(report(2, i64::MIN), 1_050_000);
    assert_eq!(report(3, 160 * 1_500), 1_050_000);
    assert!(report(4, 1_500 * 10) < 1_050_000);
}

/// A mobile path may hold packets for many seconds.
///
/// Catches: a subtraction of round-trip times that underflows.
#[test]
fn round_trips_of_many_seconds_are_accepted() {
    let mut control = control();
    for (second, rtt) in [(40, 40_000), (41, 50), (42, 70), (53, 60), (54, 30_000), (90, 55)] {
        let (rtt, bytes) = (Duration::from_millis(rtt), 15_000);
        let it = BoundaryMeasurement { rtt, bytes, missing: 0, arrived: None, full: true };
        control.on_progress(Time::from_secs(second), &it);
        assert!(control.window() > 0);
    }
}

/// One packet in fifty is lost on the path. The missing bytes are those that did not arrive by the last congestion ACK.
///
/// Catches: losses that are not counted; late bytes that count as lost, or that reduce the counter.
#[test]
fn missing_bytes_are_those_that_did_not_arrive() {
    let lossy = LinkConfig { loss: Loss::Bernoulli("2 %".parse().unwrap()), ..path(ROOMY) };
    let mut pair = Pair::new(&epochs(), &lossy);
    let (mut last, mut greedy) = (0, greedy(50));
    pair.run(Time::from_secs(20), |pair| {
        greedy(pair);
        let missing = pair.ends[0].counts().missing;
        assert!(missing >= last, "{missing} after {last}");
        last = missing;
    });
    let arrived = pair.arrived.iter().map(|it| network_len(&it.packet)).sum::<u64>();
    let lost = pair.ends[0].counts().elastic - arrived;
    assert!(last > arrived / 100 && last <= lost, "{last} of {lost}, {arrived} arrived");
    assert!(lost - last < 100 * 1_500, "{last} of {lost}");
    pair.check_conservation();
}

/// Catches: a trunk that begins again with a small window; a new guarantee that waits for the debt of the old one.
#[test]
fn guarantee_and_ceiling_change_without_a_restart() {
    let mut pair = Pair::new(&epochs(), &path(ROOMY));
    pair.run(Time::from_secs(5), greedy(50));
    let (before, window) = (pair.ends[0].counts(), pair.ends[0].report().state.window);
    let ceiling = Some(Rate::from_mbps(4));
    pair.change(&Config { ceiling, guarantee: Some(Rate::from_kbps(64)), ..epochs() });
    assert_eq!(pair.ends[0].report().state.window, window);
    pair.run(Time::from_secs(15), greedy(50));
    let now = pair.ends[0].counts();
    let bytes = now.elastic + now.guaranteed - before.elastic - before.guaranteed;
    assert!((4_900_000..5_100_000).contains(&bytes) && now.guaranteed > 70_000, "{bytes} {now:?}");
    pair.check_conservation();
}

/// Catches: a window that is reduced further while an earlier reduction has not shown in the round-trip time yet.
#[test]
fn a_window_beyond_the_path_is_reduced_once_to_the_bytes_that_the_path_carries() {
    let (mut now, ms) = (Time::ZERO, Duration::from_millis);
    let mut copa = control();
    let mut report = |copa: &mut AggregateWindow, rtt| {
        now += ms(5);
        let arrived = Some(Arrived { bytes: 60_000, span: ms(5) });
        let (bytes, missing, full) = (60_000, 0, true);
        copa.on_progress(now, &BoundaryMeasurement { rtt: ms(rtt), bytes, missing, arrived, full });
        copa.window()
    };
    while report(&mut copa, 50) < 900_000 {}
    for rtt in [60, 70, 80, 80, 70, 60, 55, 54] {
        let window = report(&mut copa, rtt);
        assert!(rtt < 70 || (595_000..610_000).contains(&window), "{rtt}: {window}");
    }
    assert!((590_000..610_000).contains(&copa.window()), "{}", copa.window());
}

fn epochs() -> Config {
    Config { probing: Probing::Epochs, ..config() }
}

const ROOMY: &str = "{ kind = \"drop-tail\", limit = \"256 kB\" }";

/// Keeps `deep` packets of three connections in the tunnel queue.
fn greedy(deep: u32) -> impl FnMut(&mut Pair) {
    let mut sent = 0;
    move |pair| {
        while pair.ends[0].backlog().packets < deep {
            let port = u16::try_from(sent % 3).unwrap();
            pair.offer_packet(Packet {
                queue_index: QueueIndex(sent % 3),
                ..segment(port, 1_448 * sent, false)
            });
            sent += 1;
        }
    }
}

/// The measurement begins after slow start.
///
/// Catches: the queue that slow start leaves, if only the small steps of Copa reduce it; a standing queue of one to three
/// packets that is never reduced.
#[test]
fn a_trunk_with_epochs_fills_a_path_and_keeps_its_queue_short() {
    let start = Time::from_secs(4);
    for mbps in [10, 30, 100] {
        let path = LinkConfig { rate: Some(Rate::from_mbps(mbps)), ..path(ROOMY) };
        let mut pair = Pair::new(&epochs(), &path);
        let (mut longest, mut before) = (0, 0);
        let mut offer = greedy(50);
        pair.run(Time::from_secs(12), |pair| {
            offer(pair);
            if pair.now > start {
                longest = longest.max(pair.links[0].backlog().bytes.0);
            } else {
                before = pair.tally.drops.total();
            }
        });
        pair.check_conservation();
        let bytes = pair.bytes_since(start);
        assert!(bytes > mbps * 1_000_000 * 97 / 100, "{mbps}: {bytes}");
        assert_eq!(pair.tally.drops.total(), before, "{mbps}");
        assert!(longest < 15 * 1_500, "{mbps}: {longest}");
    }
}

/// The users send little for a while, and none of these packets is a boundary. Then they send much.
///
/// Catches: a timeout that runs while no user packet waits.
#[test]
fn a_pause_of_the_users_causes_no_timeout() {
    let path = LinkConfig { delay: Duration::from_millis(25), ..fast() };
    let mut pair = Pair::new(&epochs(), &path);
    let mut offer = greedy(50);
    pair.run(Time::from_secs(4), &mut offer);
    for n in 1..15 {
        pair.run(Time::from_secs(4) + n * Duration::from_millis(40), |_| ());
        pair.offer(3, 1_500);
    }
    let start = pair.now;
    pair.run(start + Duration::from_millis(500), &mut offer);
    let bytes = pair.bytes_since(start + Duration::from_millis(100));
    assert!(bytes > 5_000_000 * 90 / 100, "{bytes}");
}

/// None of the packets of three round trips is a boundary, which happens by chance.
///
/// Catches: a window that stops the trunk although no boundary is overdue.
#[test]
fn three_round_trips_without_a_boundary_do_not_stop_the_trunk() {
    let path = LinkConfig { delay: Duration::from_millis(25), ..fast() };
    let mut pair = Pair::new(&epochs(), &path);
    pair.run(Time::from_secs(4), greedy(50));
    let start = pair.now;
    pair.run(start + Duration::from_millis(150), |pair| {
        while pair.ends[0].backlog().packets < 50 {
            pair.offer(3, 1_500);
        }
    });
    let bytes = pair.bytes_since(start);
    assert!(bytes > 1_875_000 * 90 / 100, "{bytes}");
}

/// The window does not grow while the load does not fill it.
///
/// Catches: a window that grows although fewer bytes are in flight than it permits.
#[test]
fn an_unused_window_does_not_grow() {
    let path = LinkConfig { delay: Duration::from_millis(25), ..fast() };
    let mut pair = Pair::new(&epochs(), &path);
    let each = Duration::from_millis(3);
    for n in 1..5_000 {
        pair.run(Time::ZERO + n * each, |_| ());
        pair.offer_packet(segment(9, 1_448 * n, false));
    }
    let window = pair.ends[0].report().state.window;
    assert!(window < 2 * 17, "{window}");
}

fn fast() -> LinkConfig {
    LinkConfig { rate: Some(Rate::from_mbps(100)), ..path(ROOMY) }
}

#[test]
fn without_congestion_acks_only_the_guarantee_is_sent() {
    let guarantee = Some(Rate::from_mbps(1));
    let mut pair = Pair::new(&Config { guarantee, ..epochs() }, &path(ROOMY));
    let mut offer = greedy(50);
    pair.run(Time::from_secs(4), &mut offer);
    pair.muted = true;
    pair.run(Time::from_secs(12), &mut offer);
    let silent = pair.bytes_since(Time::from_secs(6));
    assert!((700_000..900_000).contains(&silent), "{silent}");
    pair.muted = false;
    pair.run(Time::from_secs(40), &mut offer);
    let back = pair.bytes_since(Time::from_secs(30));
    assert!(back > 1_250_000 * 10 * 85 / 100, "{back}");
}

/// While the other gateway is considered dead, each keepalive makes this gateway send its next
/// packet sooner.
///
/// Catches: keepalives without effect; a packet sent for each keepalive.
#[test]
fn keepalives_of_a_recovered_gateway_hasten_the_next_packet() {
    let mut pair = Pair::new(&epochs(), &path(ROOMY));
    let mut offer = greedy(50);
    pair.run(Time::from_secs(4), &mut offer);
    pair.muted = true;
    pair.run(Time::from_secs(10), &mut offer);
    let before = pair.ends[0].counts().elastic;
    let mut seconds = |pair: &mut Pair, count: u32| {
        for _ in 0..10 * count {
            pair.run(pair.now + Duration::from_millis(100), &mut offer);
            pair.offered += 1;
            let hello = pair.pool.insert(Packet::default()).unwrap();
            pair.hand_in(0, Arriving::Feedback(0), hello);
        }
    };
    seconds(&mut pair, 60);
    let asked = (pair.ends[0].counts().elastic - before) / 1_500;
    // Two packets in each timeout of 1.6 s, which is eight of the shortest timeouts: 75 in a minute.
    assert!((70..=80).contains(&asked), "{asked}");
    pair.muted = false;
    seconds(&mut pair, 2);
    let back = pair.now;
    seconds(&mut pair, 2);
    let bytes = pair.bytes_since(back);
    assert!(bytes > 2 * 1_250_000 * 85 / 100, "{bytes}");
}

/// Catches: a ceiling that does not bound user packets; a timer that expires again and again before
/// a packet may depart.
#[test]
fn the_egress_rate_with_epochs_is_the_ceiling() {
    let ceiling = Some(Rate::from_mbps(5));
    let mut pair = Pair::new(&Config { ceiling, ..epochs() }, &path(ROOMY));
    let mut calls = 0;
    let mut offer = greedy(50);
    pair.run(Time::from_secs(20), |pair| {
        offer(pair);
        calls += 1;
    });
    pair.check_conservation();
    let (bytes, full) = (pair.bytes_since(Time::ZERO), 20 * 625_000);
    assert!((full * 99 / 100..full + 10_000).contains(&bytes), "{bytes} of {full}");
    assert!(calls < 20_000 * 6, "{calls}");
}
