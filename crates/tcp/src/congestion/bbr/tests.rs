//! BBR compared with the figures of Linux and of the paper, and long runs of BBR.

use tidegate_base::Bytes;

use super::super::testing::{SEGMENT, acknowledged, real, window};
use super::super::toy_network::{Bottleneck, ToyNetwork, ToySender};
use super::super::{CongestionSpec, reno};
use super::*;

const RTT: Duration = Duration::from_millis(100);
const LINK: u64 = 11_680_000;

fn bbr() -> Bbr {
    Config::default().build(Counting::LINUX)
}

/// A link whose bandwidth-delay product is 100 segments.
fn link(buffer: u64) -> Bottleneck {
    Bottleneck::new(Rate::from_bps(LINK), buffer)
}

fn pipe(bottleneck: Bottleneck) -> ToyNetwork {
    let mut pipe = ToyNetwork::new(bottleneck);
    pipe.add(Box::new(bbr()), RTT, 10, Duration::ZERO);
    pipe
}

/// Pacing rate of the first sender as a fraction of the link's rate, every millisecond for `span`.
fn paces(pipe: &mut ToyNetwork, span: Duration) -> Vec<f64> {
    let pace = |it: &ToySender| it.control.pacing_rate(&it.window).unwrap().bps();
    (0..span.as_millis())
        .map(|_| {
            pipe.run(Duration::from_millis(1));
            real(pace(&pipe.senders[0])) / real(LINK)
        })
        .collect()
}

#[test]
fn gains_are_those_of_linux() {
    // 2885/1000 = 2/ln 2 and its inverse in units of 1/256, rounded up and down: 739 and 88.
    assert_eq!((Gain::HIGH, Gain::DRAIN, Gain::WINDOW), (Gain(739), Gain(88), Gain(512)));
    assert_eq!(Gain::CYCLE[..3], [Gain(320), Gain(192), Gain(256)]);
    let sum: u32 = Gain::CYCLE.iter().map(|gain| gain.0).sum();
    assert_eq!(sum, 8 * 256, "on average a cycle sends as much as is delivered");
}

#[test]
fn the_initial_rate_is_the_gain_times_a_window_per_round_trip_less_a_percent() {
    let mut control = bbr();
    let window = window(10, u64::MAX);
    let bits = |millis: u64| window.congestion * 8 * 1_000 / millis * 739 / 256 / 100 * 99;
    assert_eq!(control.pacing_rate(&window), Some(Rate::from_bps(bits(1))));
    control.on_start(&window, Some(Duration::from_millis(40)));
    assert_eq!(control.pacing_rate(&window), Some(Rate::from_bps(bits(40))));
}

#[test]
fn startup_doubles_and_ends_three_rounds_after_the_bandwidth_stops_growing() {
    // Catches: an end of startup after two or four rounds; a gain of 2 that does not double the
    // rate.
    let mut pipe = pipe(link(1_000));
    let paces = paces(&mut pipe, RTT * 25);
    // The first sample arrives after a round trip. From 10 segments per round trip, 3.3 doublings
    // lead to 100, and one more round trip measures this rate.
    let full = paces.iter().position(|pace| *pace > 2.8).unwrap();
    assert!((500..700).contains(&full), "{full} ms");
    // Then three rounds of at most 300 ms follow: 2.9 times 100 segments are in flight, and some
    // more. The first round begins with half as much.
    let drain = full + paces[full..].iter().position(|pace| *pace < 0.36).unwrap();
    assert!((150 + 2 * 280..=3 * 310).contains(&(drain - full)), "{} ms", drain - full);
    // Drain lasts until the data in flight fits the path; then the cycle begins.
    assert!(paces[drain..drain + 600].iter().any(|pace| *pace > 0.7), "still draining");
}

#[test]
fn each_gain_of_the_cycle_lasts_one_min_rtt() {
    // Catches: phases of half or twice the time; phases in another order.
    let mut pipe = pipe(link(1_000));
    pipe.run(Duration::from_secs(3));
    let paces = paces(&mut pipe, Duration::from_secs(5));
    let near = |pace: f64, gain: f64| (pace / (gain * 0.99) - 1.0).abs() < 0.02;
    let mut phases: Vec<(f64, u32)> = Vec::new();
    for pace in paces {
        let gain = [1.25, 0.75, 1.0].into_iter().find(|gain| near(pace, *gain));
        let gain = gain.unwrap_or_else(|| panic!("no gain of the cycle: {pace}"));
        match phases.last_mut() {
            Some((last, millis)) if *last == gain => *millis += 1,
            _ => phases.push((gain, 1)),
        }
    }
    let whole = &phases[1..phases.len() - 1];
    assert!(whole.len() > 12, "{phases:?}");
    for (at, (gain, millis)) in whole.iter().enumerate() {
        let next = whole.get(at + 1).map(|it| it.0);
        match *gain {
            1.25 => assert!(next.is_none_or(|it| it == 0.75) && (100..=135).contains(millis)),
            0.75 => assert!(next.is_none_or(|it| it == 1.0) && (1..=110).contains(millis)),
            _ => {
                assert!(
                    next.is_none_or(|it| it == 1.25) && (600..=680).contains(millis),
                    "{millis}"
                );
            }
        }
    }
}

#[test]
fn alone_it_fills_the_link_with_a_short_queue_and_probes_for_the_round_trip_time() {
    // The paper: full use of the link, with a queue in one phase of eight. Every 10 s the window is
    // 4 segments for 200 ms and a round trip: 2 to 3 % of the time.
    // Catches: a sender that never probes; a window that is not restored; a gain of 2 for pacing.
    let mut pipe = pipe(link(1_000));
    pipe.run(Duration::from_secs(5));
    let (rates, queue) = pipe.run(Duration::from_secs(60));
    let used = rates[0] / real(LINK);
    assert!((0.93..0.99).contains(&used), "{used}");
    assert!(queue < 15.0, "{queue}");
    let trace = &pipe.senders[0].trace;
    let mut dips: Vec<Time> = Vec::new();
    for (at, _) in
        trace.iter().filter(|(at, segments)| *segments <= 4.0 && *at > Time::from_secs(5))
    {
        if dips.last().is_none_or(|last| at.since(*last) > Duration::from_secs(1)) {
            dips.push(*at);
        }
    }
    assert!((5..=6).contains(&dips.len()), "{dips:?}");
    for pair in dips.windows(2) {
        let between = pair[1].since(pair[0]).as_millis();
        assert!((10_000..=11_000).contains(&between), "{between}");
    }
    // The window is twice the bandwidth-delay product, three bursts of two segments, and a few
    // segments more.
    let most =
        trace.iter().filter(|it| it.0 > Time::from_secs(5)).map(|it| it.1).fold(0.0, f64::max);
    assert!((200.0..=216.0).contains(&most), "{most}");
}

#[test]
fn random_losses_do_not_slow_it_down() {
    // The paper, figure 8: at a loss of 1 % BBR delivers nearly everything. Loss-based controls use
    // sqrt(1.5 / p) = 12 segments of 100 (RFC 5681 by Mathis' formula).
    let mut lossy = link(1_000);
    lossy.lose_one_in = Some(100);
    let used = |build: &dyn Fn() -> Box<dyn CongestionControl>| {
        let mut pipe = ToyNetwork::new(lossy);
        pipe.add(build(), RTT, 10, Duration::ZERO);
        pipe.run(Duration::from_secs(5));
        pipe.run(Duration::from_secs(30)).0[0] / real(LINK)
    };
    let ours = used(&|| Box::new(bbr()));
    assert!(ours > 0.9, "{ours}");
    let reno = used(&|| CongestionSpec::Reno(reno::Config::default()).build(Counting::RFC));
    assert!(reno < 0.15, "{reno}");
}

#[test]
fn two_share_a_link() {
    // Later probes find the other sender's queue empty, so rates converge within some tens of
    // seconds.
    let mut pipe = pipe(link(1_000));
    pipe.add(Box::new(bbr()), RTT, 10, Duration::from_secs(2));
    pipe.run(Duration::from_secs(40));
    let (rates, queue) = pipe.run(Duration::from_secs(60));
    let (one, other) = (rates[0] / real(LINK), rates[1] / real(LINK));
    assert!(one + other > 0.93, "{one} {other}");
    assert!((0.5..2.0).contains(&(one / other)), "{one} {other}");
    // Two senders keep up to a bandwidth-delay product in the queue: the window gain is 2.
    assert!(queue < 110.0, "{queue}");
}

fn delivery(delivered: u64, before: u64, bps: u64) -> Option<Delivery> {
    Some(Delivery {
        rate: Rate::from_bps(bps),
        delivered,
        delivered_before: before,
        application_limited: false,
    })
}

#[test]
fn application_limited_samples_count_only_if_they_are_greater() {
    let mut control = bbr();
    let mut window = window(10, u64::MAX);
    let mut report = |bps, application_limited, round: u64| {
        let sample = Delivery {
            rate: Rate::from_bps(bps),
            delivered: (round + 1) * SEGMENT,
            delivered_before: round * SEGMENT,
            application_limited,
        };
        let ack = Ack { delivery: Some(sample), rtt: Some(RTT), ..acknowledged(SEGMENT) };
        control.on_ack(&mut window, &ack);
        control.bandwidth.get()
    };
    assert_eq!(report(1_000_000, false, 1), 1_000_000);
    assert_eq!(report(100_000, true, 2), 1_000_000);
    assert_eq!(report(3_000_000, true, 3), 3_000_000);
    // Rounds without a valid sample do not let the old sample expire.
    for round in 4..40 {
        assert_eq!(report(100_000, true, round), 3_000_000);
    }
}

#[test]
fn recovery_conserves_packets_and_then_restores_the_window() {
    // Linux: for one round the window is the data in flight plus the acknowledged data. Losses
    // reduce it. Then the previous window is restored.
    // Catches: a recovery without packet conservation; a previous window that is not restored;
    // losses that are not subtracted.
    let mut control = bbr();
    let mut window = window(100, u64::MAX);
    let at = |delivered: u64, before: u64, more: Ack| Ack {
        delivery: delivery(delivered * SEGMENT, before * SEGMENT, LINK),
        rtt: Some(RTT),
        ..more
    };
    let plain = acknowledged(SEGMENT);
    control.on_ack(&mut window, &at(1_000, 900, Ack { flight: 99 * SEGMENT, ..plain }));
    let before = window.congestion;
    control.on_signal(Time::ZERO, &mut window, before, Signal::Loss);
    let lost = Ack { in_recovery: true, lost: 10 * SEGMENT, flight: 60 * SEGMENT, ..plain };
    control.on_ack(&mut window, &at(1_001, 950, lost));
    assert_eq!(window.congestion, 61 * SEGMENT);
    let more = Ack { in_recovery: true, lost: 5 * SEGMENT, flight: 55 * SEGMENT, ..plain };
    control.on_ack(&mut window, &at(1_002, 951, more));
    assert_eq!(window.congestion, 56 * SEGMENT);
    // After a round the window grows again by the acknowledged data.
    let on = Ack { in_recovery: true, flight: 56 * SEGMENT, ..plain };
    control.on_ack(&mut window, &at(1_050, 1_001, on));
    assert_eq!(window.congestion, 57 * SEGMENT);
    control.on_ack(&mut window, &at(1_051, 1_002, Ack { flight: 56 * SEGMENT, ..plain }));
    assert!(window.congestion >= before, "{}", window.congestion);
}

#[test]
fn a_timeout_in_recovery_keeps_the_saved_window() {
    // Catches: a window that is saved again although recovery has reduced it.
    let mut control = bbr();
    let mut window = window(100, u64::MAX);
    control.on_signal(Time::ZERO, &mut window, 0, Signal::Loss);
    window.congestion = 10 * SEGMENT;
    control.on_signal(Time::ZERO, &mut window, 0, Signal::Timeout { again: false });
    let delivery = delivery(2 * SEGMENT, 0, LINK);
    let ack = Ack { delivery, rtt: Some(RTT), ..acknowledged(SEGMENT) };
    control.on_ack(&mut window, &ack);
    assert!(window.congestion >= 100 * SEGMENT, "{}", window.congestion);
}

#[test]
fn the_target_in_flight_is_the_path_and_three_bursts_rounded_to_an_even_number() {
    // Linux: a path of 100 segments; bursts of two segments above 1.2 Mbit/s; two more segments in
    // the phase that probes for bandwidth. 1.25 * 100 + 6 = 131, rounded up to 132, plus 2.
    // Catches: a window without bursts; odd numbers; the two extra segments missing, or always
    // present.
    let mut control = bbr();
    let window = window(100, u64::MAX);
    control.min_rtt = Some((RTT, Time::ZERO));
    control.pacing = Some(Rate::from_bps(LINK));
    let mut goal = |phase, gain| {
        control.mode = Mode::ProbeBandwidth { phase, since: Time::ZERO };
        control.in_flight(&window, LINK, gain) / SEGMENT
    };
    assert_eq!(goal(0, Gain::CYCLE[0]), 134);
    assert_eq!((goal(1, Gain::ONE), goal(2, Gain::ONE)), (106, 106));
    // At 400 Mbit/s a burst is 33 segments, at 1 Mbit/s one.
    let mut burst = |mbps| {
        control.pacing = Some(Rate::from_mbps(mbps));
        control.quantum(&window) / SEGMENT
    };
    assert_eq!((burst(400), burst(1), burst(10_000)), (33, 1, 44));
}

#[test]
fn after_a_timeout_the_window_is_one_segment_and_then_restored() {
    let mut control = bbr();
    let mut window = window(100, u64::MAX);
    control.on_signal(Time::ZERO, &mut window, 0, Signal::Timeout { again: false });
    assert_eq!(window.congestion, SEGMENT);
    let ack = Ack {
        delivery: delivery(2 * SEGMENT, 0, LINK),
        rtt: Some(RTT),
        in_recovery: true,
        ..acknowledged(SEGMENT)
    };
    control.on_ack(&mut window, &ack);
    assert_eq!(window.congestion, 4 * SEGMENT, "never below what keeps the ACKs coming");
    control.on_ack(&mut window, &Ack { in_recovery: false, ..ack });
    assert_eq!(window.congestion, 101 * SEGMENT);
}

/// Losses of `per_mille` at `bps`, with one ACK for ten segments, in rounds of ten ACKs.
fn police(
    control: &mut Policed,
    start: &mut (u64, u64),
    bps: u64,
    per_mille: u64,
    rounds: u64,
) -> bool {
    for number in 0..rounds * 10 {
        let bytes = 10 * SEGMENT;
        start.0 += Rate::from_bps(bps).time_for(Bytes(bytes)).as_nanos().try_into().unwrap_or(0);
        start.1 += bytes;
        let sample = delivery(start.1, start.1 - bytes, bps);
        let now = Time::from_nanos(start.0);
        let lost = bytes * per_mille / 1_000;
        if control.on_ack(now, number % 10 == 0, lost, sample.as_ref(), false) {
            return true;
        }
    }
    false
}

#[test]
fn a_policer_is_found_in_two_intervals_of_similar_rate_and_high_loss() {
    // Linux: more than 50/256 lost in intervals of 4 rounds; rates within an eighth.
    // Catches: a policer found after one interval; a policer found at any loss; a policer found
    // although the rates differ.
    let found = |first: u64, second: u64, per_mille| {
        let (mut control, mut at) = (Policed::new(true), (0, 0));
        police(&mut control, &mut at, first, per_mille, 5);
        police(&mut control, &mut at, second, per_mille, 5);
        control.rate()
    };
    let rate = found(1_000_000, 1_000_000, 250).unwrap();
    assert!(rate.abs_diff(1_000_000) < 30_000, "{rate}");
    assert_eq!(found(1_000_000, 1_000_000, 190), None);
    assert_eq!(found(1_000_000, 2_000_000, 250), None);
    let (mut control, mut at) = (Policed::new(true), (0, 0));
    police(&mut control, &mut at, 1_000_000, 250, 4);
    assert_eq!(control.rate(), None);
    let (mut slow, mut at_slow) = (Policed::new(true), (0, 0));
    police(&mut slow, &mut at_slow, 2_000, 250, 5);
    assert_eq!(slow.rate(), None, "one interval of less than the difference that is none");
    let mut off = Policed::new(false);
    police(&mut off, &mut at, 1_000_000, 250, 20);
    assert_eq!(off.rate(), None);
}

#[test]
fn the_rate_of_a_policer_is_used_for_48_rounds() {
    let (mut control, mut at) = (Policed::new(true), (0, 0));
    police(&mut control, &mut at, 1_000_000, 250, 12);
    assert!(control.rate().is_some());
    let rounds = (1..).find(|_| police(&mut control, &mut at, 1_000_000, 0, 1)).unwrap();
    assert!((45..=48).contains(&rounds), "{rounds}");
    assert_eq!(control.rate(), None);
}

#[test]
fn the_cycle_begins_in_any_phase_except_the_draining_one() {
    let mut begun = [0; 8];
    for nanos in 0..4_000 {
        let mut control = bbr();
        control.enter_probe_bandwidth(Time::from_nanos(nanos * 1_000), nanos);
        let Mode::ProbeBandwidth { phase, .. } = control.mode else { panic!("not in the cycle") };
        begun[phase] += 1;
    }
    assert_eq!(begun[1], 0);
    for (phase, count) in begun.iter().enumerate().filter(|(phase, _)| *phase != 1) {
        assert!((450..700).contains(count), "{phase}: {count} of 4000");
    }
}

/// The windows in segments after the round-trip sample is 10 s old. Each entry of `acks` has
/// the milliseconds since then, the segments delivered, and the segments delivered when the
/// acknowledged packet was sent.
fn probe_rtt(acks: &[(u64, u64, u64)]) -> Vec<u64> {
    let mut control = bbr();
    let mut window = window(200, u64::MAX);
    control.bandwidth.insert(0, LINK);
    control.full.reached = true;
    control.min_rtt = Some((RTT, Time::ZERO));
    control.mode = Mode::ProbeBandwidth { phase: 3, since: Time::ZERO };
    let mut report = |&(millis, delivered, before): &(u64, u64, u64)| {
        let now = Time::from_secs(10) + Duration::from_millis(millis);
        let delivery = delivery(delivered * SEGMENT, before * SEGMENT, LINK);
        let flight = 4 * SEGMENT;
        let ack = Ack { now, rtt: Some(RTT), delivery, flight, ..acknowledged(SEGMENT) };
        control.on_ack(&mut window, &ack);
        window.congestion / SEGMENT
    };
    acks.iter().map(&mut report).collect()
}

#[test]
fn probing_the_round_trip_time_takes_200_ms_and_a_round_and_restores_the_window() {
    // Catches: a previous window that is not restored; probing that ends before a round, or before
    // 200 ms.
    let round_first = [(0, 1_000, 0), (1, 1_001, 900), (150, 1_002, 1_001), (202, 1_003, 1_002)];
    let windows = probe_rtt(&round_first);
    assert!(windows[0] >= 200 && windows[3] >= 200, "{windows:?}");
    assert_eq!(windows[1..3], [4, 4]);
    let time_first =
        [(1, 1_001, 900), (150, 1_002, 1_000), (210, 1_003, 1_000), (220, 1_004, 1_001)];
    let windows = probe_rtt(&time_first);
    assert_eq!(windows[..3], [4, 4, 4]);
    assert!(windows[3] >= 200, "{windows:?}");
}

#[test]
fn after_an_idle_time_the_sender_paces_at_the_bandwidth() {
    // Linux: no probing for bandwidth or for the round-trip time directly after a pause.
    let mut control = bbr();
    let mut window = window(100, u64::MAX);
    control.bandwidth.insert(0, LINK);
    control.full.reached = true;
    control.min_rtt = Some((RTT, Time::ZERO));
    control.mode = Mode::ProbeBandwidth { phase: 0, since: Time::ZERO };
    control.on_idle(Time::from_secs(60), &mut window, Duration::from_secs(60));
    assert_eq!(control.pacing_rate(&window), Some(Rate::from_bps(LINK / 100 * 99)));
    let now = Time::from_secs(60) + RTT;
    let ack = Ack {
        now,
        rtt: Some(RTT * 2),
        delivery: delivery(SEGMENT, 0, LINK),
        ..acknowledged(SEGMENT)
    };
    control.on_ack(&mut window, &ack);
    assert_ne!(control.mode, Mode::ProbeRtt);
    assert_eq!(control.min_rtt.unwrap().0, RTT * 2);
}
