//! Delay bounds of classes: they hold for all cross traffic, and they are not much too high.

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

    /// Random trees; the bounds are the tightest that are accepted, or looser. A leaf that keeps to
    /// its guarantee and burst never waits longer than its bound. All other classes, with or
    /// without bounds, send as they like, with their bursts at the same time. Unless a queue is in
    /// order, the leaf's last packet goes first.
    ///
    /// Catches: classes with bounds in turn with other guarantees; the loosest bound first; a place
    /// in the classes above not taken or not left; a bound calculated without the packet in
    /// transmission, the bursts of others, the rate of a ceiling, the debt there, the required
    /// burst, or the disorder of the queue.
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

/// A bound far above the real delay would be useless. Three bursts at once follow a packet of
/// another class.
#[test]
fn the_worst_that_happens_is_near_what_is_promised() {
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
