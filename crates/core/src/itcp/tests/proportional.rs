//! Tests of the law `proportional`, which sets the weight of a connection in proportion to its
//! load: the capacity, and the average of the load.

use super::*;

/// A round in which `arrive` bytes per second arrive. While busy, for `busy` percent of the time,
/// `service` bytes per second are sent.
fn load(
    adjuster: &mut RateAdjuster,
    seen: &mut GatewayLoad,
    arrive: u64,
    (service, busy): (u64, u32),
) {
    round(adjuster, seen, |at, start| {
        let busy = at * busy / 100;
        GatewayLoad {
            arrived: start.arrived + bytes(arrive, at),
            sent: start.sent + bytes(service, busy),
            sent_busy: start.sent_busy + bytes(service, busy),
            busy: start.busy + busy,
            ..start
        }
    });
}

/// Catches: a capacity that is only the service rate of this round, or that is measured in samples
/// with pauses; a weight without the factor `n`, the greatest weight.
#[test]
fn the_weight_is_the_load_as_a_part_of_the_capacity() {
    let mut adjuster = build(&config(LawKind::Proportional));
    let mut seen = idle();
    // Samples in which the gateway was not always busy give no capacity.
    load(&mut adjuster, &mut seen, 500_000, (2_000_000, 50));
    assert_eq!(millionths(&adjuster), 4_000_000);
    // A load of half the capacity gives half of the greatest weight, 10.
    load(&mut adjuster, &mut seen, 500_000, (1_000_000, 100));
    assert_eq!(millionths(&adjuster), 5_000_000);
    // The other gateways are busy: the service rate is lower, but the capacity remains.
    load(&mut adjuster, &mut seen, 500_000, (600_000, 100));
    assert_eq!(millionths(&adjuster), 5_000_000);
    let decisions = adjuster.report().decisions;
    assert_eq!((decisions.increased, decisions.decreased, decisions.held), (1, 0, 2));
}

/// Catches: an average that begins at zero; a first round that keeps a large weight in the average;
/// a law without an average.
#[test]
fn a_load_is_averaged_over_twenty_rounds() {
    let mut adjuster = build(&config(LawKind::Proportional));
    let mut seen = idle();
    for _ in 0..30 {
        load(&mut adjuster, &mut seen, 500_000, (1_000_000, 100));
        assert_eq!(millionths(&adjuster), 5_000_000);
    }
    load(&mut adjuster, &mut seen, 900_000, (1_000_000, 100));
    assert_eq!(millionths(&adjuster), 5_200_000);
    // The weight stays within its bounds.
    for _ in 0..100 {
        load(&mut adjuster, &mut seen, 0, (1_000_000, 100));
    }
    assert_eq!(millionths(&adjuster), 1_000_000);
}

/// A file arrives within one round, but takes 50 rounds to send.
///
/// Catches: a round whose load counts for more than the capacity.
#[test]
fn the_load_of_a_round_counts_as_at_most_the_capacity() {
    let mut adjuster = build(&config(LawKind::Proportional));
    let mut seen = idle();
    for _ in 0..20 {
        load(&mut adjuster, &mut seen, 200_000, (1_000_000, 100));
    }
    load(&mut adjuster, &mut seen, 50_000_000, (1_000_000, 100));
    // The average load moves by a twentieth from 0.2 towards 1, not towards 50.
    assert_eq!(millionths(&adjuster), 2_400_000);
}
