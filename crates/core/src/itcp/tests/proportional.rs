//! The `proportional` law: loads, the capacity, and its average.

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

/// Catches: the service rate of this round as the capacity; a capacity from samples with pauses; n left out.
#[test]
fn the_weight_is_the_load_as_a_part_of_the_capacity() {
    let mut adjuster = build(&config(LawKind::Proportional));
    let mut seen = idle();
    // Samples with pauses give no capacity.
    load(&mut adjuster, &mut seen, 500_000, (2_000_000, 50));
    assert_eq!(millionths(&adjuster), 4_000_000);
    // Half of the capacity is five tenths of the greatest weight.
    load(&mut adjuster, &mut seen, 500_000, (1_000_000, 100));
    assert_eq!(millionths(&adjuster), 5_000_000);
    // Busy neighbours: the service is less, the capacity is not.
    load(&mut adjuster, &mut seen, 500_000, (600_000, 100));
    assert_eq!(millionths(&adjuster), 5_000_000);
    let decisions = adjuster.report().decisions;
    assert_eq!((decisions.increased, decisions.decreased, decisions.held), (1, 0, 2));
}

/// Catches: an average of the first rounds that counts from zero; a long memory of few rounds; none.
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
    // The bounds of the weight hold.
    for _ in 0..100 {
        load(&mut adjuster, &mut seen, 0, (1_000_000, 100));
    }
    assert_eq!(millionths(&adjuster), 1_000_000);
}

/// A file of 50 rounds arrives within a round. Catches: a round that counts for more than the capacity.
#[test]
fn a_round_counts_for_at_most_the_capacity() {
    let mut adjuster = build(&config(LawKind::Proportional));
    let mut seen = idle();
    for _ in 0..20 {
        load(&mut adjuster, &mut seen, 200_000, (1_000_000, 100));
    }
    load(&mut adjuster, &mut seen, 50_000_000, (1_000_000, 100));
    // A twentieth of the way from 0.2 to 1, not to 50.
    assert_eq!(millionths(&adjuster), 2_400_000);
}
