//! Delay bounds of classes that share a link: they hold for any cross traffic, and are not much
//! larger than the real delays.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod delays;

use std::time::Duration;

use delays::{Drawn, Network};
use proptest::prelude::*;

fn drawn() -> impl Strategy<Value = Drawn> {
    let ceiling = prop_oneof![2 => Just(None), 1 => (0u64..1_000).prop_map(Some)];
    let burst = prop_oneof![1 => 100u64..400, 1 => 1_600u64..12_000];
    let bound = prop_oneof![2 => Just(None), 3 => Just(Some(0)), 1 => (5u64..500).prop_map(Some)];
    let bound = bound.prop_map(|it| it.map(Duration::from_millis));
    let traits = (prop::bool::weighted(0.7), prop::bool::weighted(0.2));
    (0usize..1_000, 20u64..600, ceiling, burst, bound, traits).prop_map(
        |(parent, guarantee, ceiling, burst, bound, (in_order, exceeds))| Drawn {
            parent,
            guarantee,
            ceiling,
            burst,
            bound,
            in_order,
            exceeds,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A leaf that keeps to its guarantee and burst never waits longer than its bound. The trees
    /// are random, and the bounds are the tightest that are accepted, or looser. All other classes
    /// send as they like, with their bursts at the same time. If the leaf's queue is not in order,
    /// its last packet departs first.
    ///
    /// Catches: classes with bounds that do not precede classes with guarantees only; the loosest
    /// bound served first; a parent class that is not served although its child has urgent packets.
    /// Catches: a bound computed without the packet in transmission, the bursts of other classes,
    /// the rate of a ceiling, earlier debts, the required burst, or the reordering of the queue.
    #[test]
    fn no_packet_waits_longer_than_its_bound(
        mbps in 2u64..60,
        drawn in prop::collection::vec(drawn(), 2..12),
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(mbps * 1_000_000, &drawn, seed);
        network.run(Duration::from_millis(400));
        for leaf in network.promised() {
            prop_assert!(leaf.worst <= leaf.bound, "waited {:?} of {:?}: {:?}", leaf.worst, leaf.bound, drawn);
        }
    }
}

/// A bound far above the real delay would be useless. In the worst case of this test, three bursts
/// arrive at once, after a packet of another class.
#[test]
fn the_worst_delay_is_near_the_bound() {
    let drawn = [true, true, true, false].map(|bounded| Drawn {
        parent: 0,
        guarantee: 100,
        ceiling: None,
        burst: 6_000,
        bound: bounded.then_some(Duration::ZERO),
        in_order: true,
        exceeds: false,
    });
    let mut network = Network::new(10_000_000, &drawn, 1);
    network.run(Duration::from_secs(2));
    let promised = network.promised();
    assert_eq!(promised.len(), 3);
    let worst = promised.iter().map(|leaf| leaf.worst.as_secs_f64() / leaf.bound.as_secs_f64());
    let worst = worst.fold(0.0, f64::max);
    assert!((0.6..=1.0).contains(&worst), "{worst} of the bound");
}
