//! Tests of rounds. A round consists of samples of the gateway, and a decision about the weight at
//! its end. The tests cover timers, random waits, missing samples, totals that decrease, and bounds
//! of the weight.

use proptest::prelude::*;

use super::*;

/// The times at which gateways change their weights must be independent (A002-6).
///
/// Catches: equal waits of all gateways; a gateway that does not wait; a wait that is drawn only
/// once.
#[test]
fn two_gateways_do_not_update_at_the_same_time() {
    let updates = |component| {
        let mut adjuster =
            RateAdjuster::new(&config(LawKind::Fixed), Random::new(7, component), Time::ZERO);
        let each = (0..200).map(|_| {
            let before = adjuster.poll_timeout();
            round(&mut adjuster, &mut idle(), |_, seen| seen);
            before
        });
        each.collect::<Vec<Time>>()
    };
    let (one, other) = (updates(0), updates(1));
    // A round lasts 1 s. The wait is from 0 to 1 s, with a mean of 0.5 s.
    let gaps: Vec<Duration> = one.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    let (least, most) = (*gaps.iter().min().unwrap(), *gaps.iter().max().unwrap());
    assert!(
        least >= Duration::from_secs(1) && most <= Duration::from_secs(2),
        "{least:?} {most:?}"
    );
    assert!(most - least > Duration::from_millis(900), "{least:?} {most:?}");
    let mean = one[199].since(one[0]) / 199;
    assert!(mean.abs_diff(Duration::from_millis(1_500)) < Duration::from_millis(70), "{mean:?}");
    let near = |at: &&Time| {
        other.iter().any(|it| it.since(**at).max(at.since(*it)) < Duration::from_millis(10))
    };
    // Each gateway changes once in 1.5 s. If the times are independent, 20 ms / 1.5 s of the 200 changes, about 3, are
    // within 10 ms of a change of the other gateway.
    assert!(one.iter().filter(near).count() < 12);
}

/// Catches: a round with a wrong number of samples; samples during the wait; a late sample that
/// delays all later samples.
#[test]
fn a_round_has_a_first_sample_and_further_samples_at_equal_intervals() {
    let mut adjuster = build(&config(LawKind::Fixed));
    let began = adjuster.poll_timeout();
    for sample in 0..=10 {
        assert_eq!(adjuster.poll_timeout(), began + Duration::from_millis(100) * sample);
        assert_eq!(ended(&adjuster), 0);
        // A late sample does not delay the next one.
        let late = if sample == 0 { Duration::ZERO } else { Duration::from_millis(30) };
        adjuster.handle_timeout(adjuster.poll_timeout() + late, &idle());
    }
    assert_eq!(ended(&adjuster), 1);
}

/// Catches: a call before the time that takes a sample.
#[test]
fn an_early_call_takes_no_sample() {
    let mut adjuster = build(&config(LawKind::Fixed));
    adjuster.handle_timeout(adjuster.poll_timeout(), &idle());
    let due = adjuster.poll_timeout();
    for _ in 0..100 {
        adjuster.handle_timeout(due.before(Duration::from_nanos(1)), &idle());
    }
    assert_eq!((adjuster.poll_timeout(), ended(&adjuster)), (due, 0));
}

/// Catches: a step of the clock that counts as time of the round; a short delay that abandons a round.
#[test]
fn a_gap_abandons_the_round_and_a_delay_does_not() {
    let gap = |late: Duration| {
        let mut adjuster = build(&config(LawKind::Measured));
        for sample in 0..=10 {
            let late = if sample == 5 { late } else { Duration::ZERO };
            adjuster.handle_timeout(adjuster.poll_timeout() + late, &idle());
            if ended(&adjuster) == 1 {
                break;
            }
        }
        adjuster.report()
    };
    assert_eq!(gap(Duration::from_millis(300)).decisions.abandoned, 0);
    assert!(gap(Duration::from_millis(300)).last.is_some());
    for late in [Duration::from_millis(301), Duration::from_secs(3_600)] {
        let report = gap(late);
        assert_eq!((report.decisions.abandoned, report.last), (1, None));
    }
}

/// Catches: totals that decrease and are subtracted nevertheless; one of the totals that is not
/// checked.
#[test]
fn totals_that_decrease_abandon_the_round() {
    let full =
        GatewayLoad { arrived: 9, sent: 9, sent_busy: 9, busy: Duration::from_secs(1), ..idle() };
    for reset in [
        GatewayLoad { arrived: 8, ..full },
        GatewayLoad { sent: 8, ..full },
        GatewayLoad { sent_busy: 8, ..full },
        GatewayLoad { busy: Duration::ZERO, ..full },
    ] {
        let mut adjuster = build(&config(LawKind::Measured));
        for seen in [full, full, reset] {
            adjuster.handle_timeout(adjuster.poll_timeout(), &seen);
        }
        assert_eq!(adjuster.report().decisions.abandoned, 1, "{reset:?}");
        // The next round begins after a random wait, with the new totals.
        round(&mut adjuster, &mut reset.clone(), |_, seen| seen);
        assert_eq!(adjuster.report().decisions.held, 1);
    }
}

/// Catches: two samples at the same time, which divide by zero.
#[test]
fn two_samples_at_the_same_time_abandon_the_round() {
    let mut adjuster = build(&config(LawKind::Measured));
    for _ in 0..3 {
        adjuster.handle_timeout(Time::MAX, &idle());
    }
    assert_eq!(adjuster.report().decisions.abandoned, 1);
}

/// Catches: the constant bound in place of the number of connections; a weight that stays when connections end; a weight that
/// one idle sample resets.
#[test]
fn the_number_of_connections_bounds_the_weight_at_once() {
    let config = Config { most: Most::Connections, ..config(LawKind::Fixed) };
    let mut adjuster = build(&config);
    // The number of connections is not known yet.
    assert_eq!(adjuster.weight(), Factor::ONE);
    let early = Time::ZERO;
    let mut with = |connections| {
        let changed = adjuster.handle_timeout(early, &GatewayLoad { connections, ..idle() });
        assert_eq!(changed.unwrap_or_else(|| adjuster.weight()), adjuster.weight());
        changed.map(|weight| weight.millionths() / 1_000_000)
    };
    assert_eq!(
        [with(20), with(3), with(3), with(0), with(20)],
        [Some(4), Some(3), None, Some(1), Some(4)]
    );
    // A round with at most two connections sets the weight to two.
    let mut seen = GatewayLoad { connections: 2, ..idle() };
    round(&mut adjuster, &mut seen, |_, seen| seen);
    adjuster.handle_timeout(Time::ZERO, &idle());
    assert_eq!(adjuster.weight(), Factor::whole(2));
}

fn any_seen() -> impl Strategy<Value = GatewayLoad> {
    let number = || prop_oneof![Just(0), 1..2_000_000_u64, Just(u64::MAX)];
    let span = || (0..3_000_000_000_u64).prop_map(Duration::from_nanos);
    let rtt = prop_oneof![
        Just(None),
        Just(Some(Duration::ZERO)),
        span().prop_map(Some),
        Just(Some(Duration::MAX))
    ];
    let totals = (0..1_000_000_u64, 0..1_000_000_u64, 0..1_000_000_u64, span());
    (number(), totals, any::<bool>(), number(), rtt, 0..30_u32).prop_map(
        |(queue, (arrived, sent, sent_busy, busy), blocked, window, least_rtt, connections)| {
            GatewayLoad {
                queue: Bytes(queue),
                arrived,
                sent,
                sent_busy,
                busy,
                blocked,
                window: Bytes(window),
                least_rtt,
                connections,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The weight stays within its bounds (A002-6).
    ///
    /// Catches: a weight that exceeds its bounds after an increase, or when connections end; sums and products that
    /// overflow.
    #[test]
    fn the_weight_is_never_outside_its_bounds(
        kind in prop_oneof![Just(LawKind::Literal), Just(LawKind::Measured)],
        service in prop_oneof![Just(ServiceSamples::Mean), Just(ServiceSamples::Contended)],
        most in prop_oneof![Just(Most::Connections), (4..20_u32).prop_map(Most::Constant)],
        steps in proptest::collection::vec((any_seen(), 0..150_u64), 200..300),
        max_queue in prop_oneof![Just(Bytes(1)), Just(Bytes(1_000_000)), Just(Bytes(u64::MAX))],
    ) {
        let config = Config { samples: 12, service, most, max_queue, ..config(kind) };
        let mut adjuster = build(&config);
        let mut total = GatewayLoad::default();
        for (seen, late) in steps {
            // The totals of a real gateway grow.
            total = GatewayLoad {
                arrived: total.arrived + seen.arrived,
                sent: total.sent + seen.sent,
                sent_busy: total.sent_busy + seen.sent_busy,
                busy: total.busy + seen.busy,
                ..seen
            };
            let before = adjuster.weight();
            let changed = adjuster.handle_timeout(adjuster.poll_timeout() + Duration::from_millis(late), &total);
            prop_assert_eq!(changed.unwrap_or(before), adjuster.weight());
            prop_assert!(changed != Some(before));
            let bound = match most {
                Most::Constant(most) => most,
                Most::Connections => seen.connections.max(1),
            };
            prop_assert!(adjuster.weight() >= Factor::ONE && adjuster.weight() <= Factor::whole(bound));
        }
        prop_assert!(ended(&adjuster) >= 10);
    }
}
