//! Tests of the law `literal`, which sets the weight of a connection by the slope of the gateway's
//! queue: slopes, thresholds, consecutive rounds, and the units of equation 10 of `itcp`.

use super::*;

/// A round in which the queue begins with `from` bytes, and grows or shrinks by `per_second` bytes per second.
fn queue(adjuster: &mut RateAdjuster, from: u64, per_second: i64) {
    queue_of(adjuster, from, per_second, idle());
}

fn queue_of(adjuster: &mut RateAdjuster, from: u64, per_second: i64, seen: GatewayLoad) {
    let mut seen = seen;
    round(adjuster, &mut seen, |at, seen| {
        let moved = bytes(per_second.unsigned_abs(), at);
        let queue = if per_second < 0 { from - moved } else { from + moved };
        GatewayLoad { queue: Bytes(queue), ..seen }
    });
}

/// Catches: a queue in packets; a round-trip time in milliseconds; an increase without the factors 0.5 or `w`, or without
/// `epsilon`.
#[test]
fn equation_10_with_units() {
    // The queue grows by 125 packets of 1,000 bytes a second, and the path carries 1,250: delta' is 0.1. The increase is
    // 0.5 (0.1 + 0.1) 4 = 0.4.
    let mut adjuster = build(&config(LawKind::Literal));
    queue(&mut adjuster, 300_000, 125_000);
    assert_eq!(adjuster.report().last.unwrap().slope, 125_000);
    assert_eq!(millionths(&adjuster), 4_400_000);
    // The same with another packet size: delta' has no unit.
    let mut adjuster = build(&config(LawKind::Literal));
    queue_of(&mut adjuster, 300_000, 250_000, GatewayLoad { window: Bytes(105_000), ..idle() });
    assert_eq!(millionths(&adjuster), 4_400_000);
    // With twice the round-trip time, the same window carries half the rate: delta' is 0.2.
    let mut adjuster = build(&config(LawKind::Literal));
    queue_of(&mut adjuster, 300_000, 125_000, GatewayLoad { least_rtt: Some(2 * RTT), ..idle() });
    assert_eq!(millionths(&adjuster), 4_600_000);
}

/// Catches: a queue of exactly the threshold that counts as above it; the latest queue compared in place of the mean; a
/// missing low threshold.
#[test]
fn below_the_low_threshold_the_weight_does_not_grow() {
    // The queue grows by 10 bytes each 100 ms, so its mean is `from` + 55 bytes. The threshold is 200,000 bytes.
    for (from, grows) in [(199_945, false), (199_946, true)] {
        let mut adjuster = build(&config(LawKind::Literal));
        queue(&mut adjuster, from, 100);
        assert_eq!(adjuster.weight() > Factor::whole(4), grows, "{from}");
        assert_eq!(adjuster.report().last.unwrap().queue, Bytes(from + 55));
    }
}

/// Catches: a forced increase of less than one; a forced increase while the queue shrinks; a decrease while the queue is
/// above the high threshold.
#[test]
fn above_the_high_threshold_the_weight_grows_by_at_least_one() {
    let after = |per_second| {
        let mut adjuster = build(&config(LawKind::Literal));
        queue(&mut adjuster, 2_000_000, per_second);
        (millionths(&adjuster), adjuster.report().decisions.forced)
    };
    // A constant queue does not shrink. The increase is one, because 0.5 (0 + 0.1) 4 is less.
    assert_eq!(after(0), (5_000_000, 1));
    assert_eq!(after(1), (5_000_000, 1));
    // delta' = 0.6: 0.5 (0.6 + 0.1) 4 = 1.4.
    assert_eq!(after(750_000), (5_400_000, 1));
    assert_eq!(after(-1), (4_000_000, 0));
    // The queue shrinks for long, but stays above the threshold: no decrease.
    let mut adjuster = build(&config(LawKind::Literal));
    for _ in 0..4 {
        queue(&mut adjuster, 2_000_000, -1_000);
    }
    assert_eq!(millionths(&adjuster), 4_000_000);
    // The third round is below the threshold. The rounds before it count as consecutive rounds.
    queue(&mut adjuster, 100_000, -1_000);
    assert_eq!(millionths(&adjuster), 3_200_000);
}

/// Catches: a decrease after one round; a decrease after only one further round; a decrease to `beta w`.
#[test]
fn a_decrease_needs_two_new_negative_rounds() {
    let mut adjuster = build(&config(LawKind::Literal));
    let weights: Vec<u64> = (0..5)
        .map(|_| {
            queue(&mut adjuster, 100_000, -1_000);
            millionths(&adjuster)
        })
        .collect();
    assert_eq!(weights, [4_000_000, 3_200_000, 3_200_000, 2_560_000, 2_560_000]);
}

/// Catches: a slope of zero that counts as negative or as positive, or that does not end a sequence of negative slopes.
#[test]
fn a_slope_of_zero_is_neither_positive_nor_negative() {
    let mut adjuster = build(&config(LawKind::Literal));
    for per_second in [-1_000, 0, -1_000, 0, 0, 0] {
        queue(&mut adjuster, 500_000, per_second);
    }
    assert_eq!(millionths(&adjuster), 4_000_000);
    assert_eq!(adjuster.report().decisions.held, 6);
    // A growing queue also ends the sequence, even if it is below the low threshold.
    for per_second in [-1_000, 1_000, -1_000] {
        queue(&mut adjuster, 100_000, per_second);
    }
    assert_eq!(millionths(&adjuster), 4_000_000);
}

/// A sample is blocked if the gateway stops local connections.
///
/// Catches: blocked samples that are ignored; a round with half of its samples blocked that counts as a shrinking queue;
/// a single blocked sample that is enough for an increase.
#[test]
fn blocked_sources_count_as_a_growing_queue_above_the_low_threshold() {
    let blocked_for = |samples: u64, per_second: u64, rounds: u32| {
        let mut adjuster = build(&config(LawKind::Literal));
        let mut seen = idle();
        for _ in 0..rounds {
            round(&mut adjuster, &mut seen, |at, seen| {
                let blocked = at <= Duration::from_millis(100 * samples) && !at.is_zero();
                GatewayLoad { queue: Bytes(10_000 - bytes(per_second, at)), blocked, ..seen }
            });
        }
        millionths(&adjuster)
    };
    // The queue is constant or shrinks, far below the low threshold. The increase is 0.5 (0 + 0.1) 4 = 0.2.
    assert_eq!(blocked_for(10, 0, 1), 4_200_000);
    assert_eq!(blocked_for(10, 100, 1), 4_200_000);
    assert_eq!(blocked_for(5, 0, 1), 4_200_000);
    assert_eq!(blocked_for(4, 0, 1), 4_000_000);
    assert_eq!(blocked_for(4, 100, 2), 3_200_000);
    assert_eq!(blocked_for(0, 100, 2), 3_200_000);
}

/// Catches: a blocked round with a shrinking queue that counts towards a decrease, or that does not force an increase above
/// the high threshold.
#[test]
fn a_blocked_round_does_not_count_as_a_shrinking_queue() {
    let mut adjuster = build(&config(LawKind::Literal));
    let blocked = GatewayLoad { blocked: true, ..idle() };
    queue_of(&mut adjuster, 100_000, -1_000, blocked);
    assert_eq!(millionths(&adjuster), 4_200_000);
    queue(&mut adjuster, 100_000, -1_000);
    assert_eq!(millionths(&adjuster), 4_200_000);
    // Above the high threshold, a blocked round forces an increase of at least one.
    queue_of(&mut adjuster, 2_000_000, -1_000, blocked);
    assert_eq!(millionths(&adjuster), 5_200_000);
}

/// Catches: a division by a window of zero; no increase while window or round-trip time are unknown.
#[test]
fn with_an_unknown_path_the_weight_grows_by_epsilon_alone() {
    for least_rtt in [None, Some(Duration::ZERO)] {
        for window in [Bytes::ZERO, WINDOW] {
            let mut adjuster = build(&config(LawKind::Literal));
            queue_of(&mut adjuster, 300_000, 125_000, GatewayLoad { least_rtt, window, ..idle() });
            assert_eq!(millionths(&adjuster), 4_200_000, "{least_rtt:?} {window:?}");
        }
    }
}

/// Catches: a weight that changes although the law is `fixed`.
#[test]
fn a_fixed_weight_is_measured_and_not_changed() {
    let mut adjuster = build(&config(LawKind::Fixed));
    for per_second in [750_000, -1_000, -1_000, -1_000] {
        queue(&mut adjuster, 2_000_000, per_second);
    }
    assert_eq!((millionths(&adjuster), adjuster.report().decisions.held), (4_000_000, 4));
    assert_eq!(adjuster.report().last.unwrap().slope, -1_000);
}
