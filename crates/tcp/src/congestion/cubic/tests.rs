//! CUBIC compared with the formulas and tables of its RFC.

use tidegate_base::Rate;

use super::super::testing::{SEGMENT, acknowledged, real, window};
use super::super::toy_network::{Bottleneck, ToyNetwork, mean};
use super::*;

const RTT: Duration = Duration::from_millis(100);

fn cubic() -> Cubic {
    Config::default().build(Counting::RFC)
}

/// The curve after a reduction from `w_max` segments to `cwnd`.
fn curve(w_max: u64, cwnd: u64) -> Curve {
    Curve::new(Config::default().c, SEGMENT, w_max * SEGMENT, cwnd * SEGMENT)
}

#[test]
fn cube_roots_are_exact() {
    for root in [0, 1, 2, 3, 1_000, 4_422_000, (1 << 42) - 1] {
        let cube = u128::from(root) * u128::from(root) * u128::from(root);
        assert_eq!(cube_root(cube), root);
        assert_eq!(cube_root(cube + 1), root.max(u64::from(root == 0)));
        if root > 0 {
            assert_eq!(cube_root(cube - 1), root - 1);
        }
    }
}

#[test]
fn the_curve_is_that_of_the_rfc() {
    // RFC 9438, equations 1 and 2: K = cbrt((W_max - cwnd) / C). A reduction from 10 to 7 segments
    // has K = cbrt(7.5) = 1.957434 s; from 100 to 70, cbrt(75) = 4.217163 s; from 1000 to 700,
    // cbrt(750) = 9.085603 s.
    // Catches: C of another size; K without the root; (t + K) in place of (t - K).
    for (w_max, k) in [(10, 1.957_434), (100, 4.217_163), (1_000, 9.085_603)] {
        let curve = curve(w_max, w_max * 7 / 10);
        let ticks = f64::from(i32::try_from(curve.k).unwrap()) / 1_048_576.0;
        assert!((ticks - k).abs() < 2e-6, "{ticks} {k}");
        for tenths in 0..300_u32 {
            let t = f64::from(tenths) / 10.0;
            let exact = (0.4 * (t - k) * (t - k) * (t - k) + real(w_max)) * real(SEGMENT);
            let ours = real(curve.at(Duration::from_millis(u64::from(tenths) * 100)));
            // K is rounded to a tick of 2^-20 s. The slope of the curve is 3 C (t - K)^2: at 20 s
            // from K, 480 segments per second. An error of one tick is then less than a byte.
            assert!((ours - exact).abs() < 2.0 + exact * 1e-5, "t = {t}: {ours} {exact}");
        }
    }
}

#[test]
fn far_from_the_plateau_the_curve_stays_monotonic_without_overflow() {
    let curve = curve(1_000_000, 1);
    let hours = |hours: u64| curve.at(Duration::from_secs(hours * 3_600));
    assert!(curve.at(Duration::ZERO) < hours(1) && hours(1) <= hours(1_000_000));
    let steep = Config { c: Factor::from_millionths(u64::MAX), ..Config::default() };
    let steep = Curve::new(steep.build(Counting::RFC).config.c, 65_535, u64::MAX, 0);
    assert!(steep.at(Duration::MAX) >= steep.at(Duration::ZERO));
}

/// An ACK of one segment, with a smoothed round-trip time of 100 ms.
fn ack_at(seconds: f64) -> Ack {
    let now = Time::ZERO + Duration::from_secs_f64(seconds);
    Ack { now, smoothed_rtt: RTT, rtt: Some(RTT), ..acknowledged(SEGMENT) }
}

/// An algorithm whose window of `segments` was reduced by a loss at second 1, and its window.
fn reduced(mut cubic: Cubic, segments: u64) -> (Cubic, Window) {
    let mut window = window(segments, 0);
    cubic.on_ack(&mut window, &ack_at(0.5));
    window.congestion = segments * SEGMENT;
    cubic.on_signal(Time::from_secs(1), &mut window, segments * SEGMENT, Signal::Loss);
    window.congestion = window.threshold;
    (cubic, window)
}

/// Acknowledges full windows for `seconds` from second `start`. Returns the window in segments.
fn grow(cubic: &mut Cubic, window: &mut Window, start: f64, seconds: f64) -> f64 {
    let mut now = start;
    while now < start + seconds {
        cubic.on_ack(window, &ack_at(now));
        now += 0.1 * real(SEGMENT) / real(window.congestion);
    }
    real(window.congestion) / real(SEGMENT)
}

#[test]
fn the_window_follows_the_curve_within_one_round_trip() {
    // Each ACK moves the window towards W(t + rtt) over one round-trip time, so the window lies
    // between W(t) and W(t + rtt). From 1000 segments: 700 at 0, 1000 at K = 9.09 s, convex from
    // there on.
    // Catches: a target at t in place of t + rtt; a remainder that is not carried.
    let (mut cubic, mut window) = reduced(cubic(), 1_000);
    let curve = curve(1_000, 700);
    let mut before = 1.0;
    for seconds in [2.0, 5.0, 9.0, 12.0, 15.0] {
        let ours = grow(&mut cubic, &mut window, before, 1.0 + seconds - before);
        before = 1.0 + seconds;
        let at = |seconds| real(curve.at(Duration::from_secs_f64(seconds))) / real(SEGMENT);
        // Bytes are rounded down, and ACKs have gaps.
        let (low, high) = (at(seconds - 0.02) - 0.01, at(seconds + 0.1));
        assert!((low..=high).contains(&ours), "{seconds} s: {low} {ours} {high}");
    }
}

#[test]
fn growth_is_at_most_by_half_a_window_per_round_trip() {
    // RFC 9438, section 4.2: target <= 1.5 cwnd. W is about 78,000 segments 60 s after the
    // reduction.
    let (mut cubic, mut window) = reduced(cubic(), 10);
    cubic.on_ack(&mut window, &ack_at(1.0));
    let before = window.congestion;
    cubic.on_ack(&mut window, &ack_at(61.0));
    assert_eq!(window.congestion, before + SEGMENT / 2);
}

#[test]
fn on_short_paths_the_window_is_that_of_reno() {
    // RFC 9438, equation 4: W_est grows by 9 / 17 segments per round trip up to the window before
    // the reduction, and by one segment above it. From 20 to 14 at a round-trip time of 10 ms:
    // W_est is 20 after 11.3 round trips = 0.113 s, while the curve is still at 14.8.
    // Catches: alpha of 1 from the start; alpha of 9/17 for ever; a window that follows the curve
    // although W_est is larger.
    let (mut cubic, mut window) = reduced(cubic(), 20);
    let mut rounds = |count: u32, cubic: &mut Cubic| {
        for round in 0..count {
            for _ in 0..window.congestion / SEGMENT {
                let now = Time::from_secs(1) + Duration::from_millis(10) * round;
                let smoothed_rtt = Duration::from_millis(10);
                cubic.on_ack(&mut window, &Ack { now, smoothed_rtt, ..acknowledged(SEGMENT) });
            }
        }
        real(window.congestion) / real(SEGMENT)
    };
    let at_10 = rounds(10, &mut cubic);
    assert!((at_10 - 14.0 - 90.0 / 17.0).abs() < 0.25, "{at_10}");
    let at_20 = rounds(10, &mut cubic);
    // An ACK adds alpha / cwnd segments. A round trip adds slightly less than alpha, because the
    // window grows during the round trip, and only whole segments are sent and acknowledged. Over
    // 20 round trips, the difference is less than one segment.
    let expected = 20.0 + (20.0 - 6.0 * 17.0 / 9.0);
    assert!((at_20 - expected).abs() < 20.0 / 20.0, "{at_20} {expected}");
}

#[test]
fn large_windows_also_grow_as_in_reno() {
    // At 2100 segments, 9/17 of a segment per round trip is a third of a byte for each segment.
    // Catches: a fraction of a byte of W_est that is not carried.
    let (mut cubic, mut window) = reduced(cubic(), 3_000);
    for _ in 0..10 * 2_100 {
        let smoothed_rtt = Duration::from_micros(1);
        cubic.on_ack(&mut window, &Ack { smoothed_rtt, ..ack_at(1.0) });
    }
    let grown = real(window.congestion) / real(SEGMENT) - 2_100.0;
    assert!((grown - 90.0 / 17.0).abs() < 0.05, "{grown}");
}

#[test]
fn reductions_multiply_by_beta_and_fast_convergence_lowers_the_plateau() {
    // RFC 9438, sections 4.6 and 4.7: W_max = cwnd (1 + beta) / 2 if it is less than before.
    // Catches: beta = 0.5; fast convergence although the window was larger; beta_ecn for a loss.
    let mut cubic = Config { beta_ecn: Factor::from_millionths(850_000), ..Config::default() }
        .build(Counting::RFC);
    let mut signal = |signal, segments: u64| {
        let mut window = window(segments, u64::MAX);
        cubic.on_signal(Time::ZERO, &mut window, segments * SEGMENT, signal);
        let w_max = cubic.state.w_max.map(|w_max| real(w_max) / real(SEGMENT));
        (real(window.threshold) / real(SEGMENT), w_max)
    };
    let timeout = |again| Signal::Timeout { again };
    assert_eq!(signal(Signal::Loss, 100), (70.0, Some(100.0)));
    assert_eq!(signal(Signal::Loss, 80), (56.0, Some(68.0)));
    assert_eq!(signal(Signal::Echo, 100), (85.0, Some(100.0)));
    assert_eq!(signal(timeout(false), 100), (70.0, None));
    assert!(signal(timeout(true), 50).0 > 1e9, "a repeated timeout leaves the threshold alone");
}

#[test]
fn after_a_timeout_the_plateau_is_the_window_at_the_start_of_avoidance() {
    // RFC 9438, section 4.8: K = 0.
    let mut cubic = cubic();
    let mut window = window(100, 0);
    cubic.on_signal(Time::ZERO, &mut window, 100 * SEGMENT, Signal::Timeout { again: false });
    window.congestion = 70 * SEGMENT;
    cubic.on_ack(&mut window, &ack_at(1.0));
    let epoch = cubic.state.epoch.unwrap();
    assert_eq!((epoch.curve.k, epoch.curve.w_max), (0, 70 * SEGMENT));
}

#[test]
fn time_without_growth_does_not_count() {
    // RFC 9438, section 5.8. Catches: an epoch that is not postponed by ACKs without growth, or by
    // idle times.
    let grown = |pause: &dyn Fn(&mut Cubic, &mut Window)| {
        let (mut cubic, mut window) = reduced(cubic(), 1_000);
        grow(&mut cubic, &mut window, 1.0, 2.0);
        pause(&mut cubic, &mut window);
        grow(&mut cubic, &mut window, 8.0, 1.0)
    };
    let by_acks = grown(&|cubic, window| {
        for tenth in 0..50 {
            let ack = ack_at(3.0 + f64::from(tenth) / 10.0);
            cubic.on_ack(window, &Ack { may_grow: false, ..ack });
        }
    });
    let by_idling = grown(&|cubic, window| {
        cubic.on_idle(Time::from_secs(8), window, Duration::from_secs(5));
    });
    let expected = real(curve(1_000, 700).at(Duration::from_secs(3))) / real(SEGMENT);
    for ours in [by_acks, by_idling] {
        assert!((ours - expected).abs() < 0.1 * (1_000.0 - 700.0), "{ours} {expected}");
    }
}

#[test]
fn a_spurious_reduction_is_undone() {
    let (mut cubic, mut window) = reduced(cubic(), 100);
    cubic.on_ack(&mut window, &ack_at(1.0));
    let k = cubic.state.epoch.unwrap().curve.k;
    cubic.on_signal(Time::from_secs(2), &mut window, 50 * SEGMENT, Signal::Loss);
    cubic.on_undo(Time::from_secs(2), &mut window);
    assert_eq!(cubic.state.epoch.unwrap().curve.k, k);
    assert_eq!(cubic.state.w_max, Some(100 * SEGMENT));
}

/// The mean window of one sender that loses every packet number `n`, in segments.
fn mean_window(n: u64, rtt: Duration, seconds: u64) -> f64 {
    let mut path = Bottleneck::new(Rate::from_mbps(100_000), 1_000_000);
    path.lose_one_in = Some(n);
    let mut pipe = ToyNetwork::new(path);
    let control = Config { hystart: false, ..Config::default() }.build(Counting::RFC);
    pipe.add(Box::new(control), rtt, 10, Duration::ZERO);
    pipe.senders[0].window.threshold = 10 * SEGMENT;
    pipe.run(Duration::from_secs(seconds));
    mean(&pipe.senders[0].trace, Time::from_secs(seconds / 2))
}

#[test]
fn mean_windows_are_those_of_the_tables_of_the_rfc() {
    // RFC 9438, tables 1 and 2, C = 0.4: one loss in 1/p packets. At 100 ms: 38 segments (as Reno)
    // at 1e-3, 187 at 1e-4, 1054 at 1e-5; at 10 ms: 120 (as Reno) at 1e-4. The tables ignore the
    // time to detect a loss.
    // Catches: C = 4; beta = 0.5; W_est without alpha.
    for (n, rtt, seconds, expected) in [
        (1_000, 100, 200, 38.0),
        (10_000, 100, 200, 187.0),
        (100_000, 100, 160, 1_054.0),
        (10_000, 10, 20, 120.0),
    ] {
        let mean = mean_window(n, Duration::from_millis(rtt), seconds);
        assert!((mean / expected - 1.0).abs() < 0.1, "1/{n}, {rtt} ms: {mean} {expected}");
    }
}

#[test]
fn hystart_leaves_slow_start_without_a_loss() {
    // The bandwidth-delay product is 400 segments, the buffer holds 4000, and plain slow start
    // overruns both. Growth slows in a round that begins with a queue, at 400 to 1600 segments.
    // Five rounds of growth by a quarter make the window three times as large.
    let first = |hystart| {
        let link = Rate::from_kbps(400 * SEGMENT * 8 / 100);
        let mut pipe = ToyNetwork::new(Bottleneck::new(link, 4_000));
        let control = Config { hystart, ..Config::default() }.build(Counting::LINUX);
        pipe.add(Box::new(control), RTT, 10, Duration::ZERO);
        pipe.run(Duration::from_secs(6));
        (pipe.senders[0].signals, real(pipe.senders[0].window.threshold) / real(SEGMENT))
    };
    let (signals, threshold) = first(true);
    assert_eq!(signals, 0);
    assert!((400.0 * 3.0..=1_600.0 * 3.1).contains(&threshold), "{threshold}");
    assert!(first(false).0 > 0);
}
