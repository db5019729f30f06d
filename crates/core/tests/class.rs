//! The class tree compared with a fluid model: guarantees, excess by priority and weight, and
//! ceilings. The classes share a link, which is never idle while a packet may depart.

#![expect(clippy::as_conversions, reason = "the model is a fluid, in reals")]

mod sharing;

use proptest::prelude::*;
use sharing::{Load, Run, Tree};
use tidegate_core::class::Terms;
use tidegate_core::{Bytes, Rate, Time};

const FRAME: f64 = 1_514.0;

/// A random class, whose parent is an earlier class. The guarantee is given in thousandths of the
/// parent's unused guarantee. The ceiling lies between the guarantee (0) and the link rate (1000).
#[derive(Clone, Debug)]
struct Drawn {
    parent: usize,
    guarantee: u64,
    ceiling: Option<u64>,
    weight: u32,
    priority: u8,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let ceiling = prop_oneof![2 => Just(None), 1 => (0u64..1_000).prop_map(Some)];
    let weight = prop_oneof![3 => 1u32..10, 1 => 1u32..300];
    let priority = prop_oneof![3 => Just(0u8), 1 => 0u8..8];
    (0usize..1_000, prop_oneof![1 => Just(0u64), 3 => 0u64..900], ceiling, weight, priority)
        .prop_map(|(parent, guarantee, ceiling, weight, priority)| Drawn {
            parent,
            guarantee,
            ceiling,
            weight,
            priority,
        })
}

/// Builds a tree of these classes on a link of `rate` bits per second.
fn tree(rate: u64, drawn: &[Drawn]) -> Tree {
    let mut tree = Tree::new(rate);
    for each in drawn {
        let parent = each.parent % tree.classes.len();
        let left = tree.left_to_promise(parent);
        let guarantee = left * each.guarantee / 1_000;
        let ceiling =
            each.ceiling.map(|of| (guarantee + (rate - guarantee) * of / 1_000).max(1_000_000));
        tree.add(parent, terms(guarantee, ceiling, each.weight, each.priority));
    }
    tree
}

fn terms(guarantee: u64, ceiling: Option<u64>, weight: u32, priority: u8) -> Terms {
    Terms {
        guarantee: Rate::from_bps(guarantee),
        ceiling: ceiling.map(Rate::from_bps),
        weight,
        priority,
        burst: Bytes(4_000),
        delay_bound: None,
    }
}

fn loads() -> impl Strategy<Value = Vec<(u8, u64, bool)>> {
    prop::collection::vec((0u8..4, 0u64..1_000, any::<bool>()), 12)
}

fn load((kind, per_mille, small): (u8, u64, bool), rate: u64) -> Load {
    let len = if small { 300 } else { 1_514 };
    match kind {
        0 => Load { rate: Some(0), len },
        1 => Load { rate: Some(rate * per_mille / 2_000), len },
        _ => Load { rate: None, len },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// After any history, each leaf sends in one second of steady load as much as in the fluid
    /// model, within 1 % and three frames. It gets its guarantee, within 1 % and one frame. No
    /// class exceeds its ceiling. The link is never idle while a packet may depart.
    ///
    /// Catches: excess that is charged to the guarantee; a returning class that catches up on
    /// excess of its idle time; the lowest priority served first; weights rounded to powers of two;
    /// a class at its ceiling that is never served again.
    #[test]
    fn random_trees_under_random_loads_follow_the_fluid_model(
        mbps in 20u64..400,
        drawn in prop::collection::vec(drawn(), 1..12),
        phases in prop::collection::vec(loads(), 1..4),
    ) {
        let rate = mbps * 1_000_000;
        let tree = tree(rate, &drawn);
        let mut run = Run::new(tree);
        for phase in phases {
            let leaves = run.tree.leaves();
            for (leaf, drawn) in leaves.iter().zip(phase) {
                run.load(*leaf, load(drawn, rate));
            }
            let got = run.measure(Time::from_secs(1));
            let fair = run.tree.fluid(&run.loads);
            for leaf in leaves {
                let (got, fair) = (got[leaf], fair[leaf] / 8.0);
                prop_assert!((got - fair).abs() <= fair / 100.0 + 3.0 * FRAME, "leaf {leaf}: {got} for {fair}: {:?} under {:?}", run.tree, run.loads);
                let promised = run.tree.terms(leaf).guarantee.bps() as f64;
                let promised = promised.min(run.demand(leaf)) / 8.0;
                prop_assert!(got >= promised * 0.99 - FRAME, "leaf {leaf}: {got} of {promised} promised: {:?} under {:?}", run.tree, run.loads);
            }
            for (class, got) in got.iter().enumerate().skip(1) {
                let Some(ceiling) = run.tree.terms(class).ceiling else { continue };
                let most = ceiling.bps() as f64 / 8.0 + 4_000.0 + FRAME;
                prop_assert!(*got <= most, "class {class}: {got} of {most}");
            }
            let (all, most) = (got[0], run.tree.fluid(&run.loads)[0] / 8.0);
            prop_assert!((all - most).abs() <= most / 100.0 + 3.0 * FRAME, "{all} of {most} on the link");
        }
    }
}

const GREEDY: Load = Load { rate: None, len: 1_514 };
const MBPS: u64 = 1_000_000;

/// Compares one second of each leaf with the fluid model, within 1 % and three frames.
fn follows_the_fluid(run: &mut Run) {
    let got = run.measure(Time::from_secs(1));
    let fair = run.tree.fluid(&run.loads);
    for leaf in run.tree.leaves() {
        let (got, fair) = (got[leaf], fair[leaf] / 8.0);
        assert!((got - fair).abs() <= fair / 100.0 + 3.0 * FRAME, "leaf {leaf}: {got} for {fair}");
    }
}

#[test]
fn terms_change_while_packets_wait() {
    let mut tree = Tree::new(100 * MBPS);
    let office = tree.add(0, terms(60 * MBPS, None, 1, 0));
    let guests = tree.add(0, terms(10 * MBPS, None, 1, 0));
    let voice = tree.add(office, terms(20 * MBPS, None, 1, 0));
    let web = tree.add(office, terms(10 * MBPS, None, 3, 0));
    let mut run = Run::new(tree);
    [guests, voice, web].into_iter().for_each(|leaf| run.load(leaf, GREEDY));
    follows_the_fluid(&mut run);
    run.set(guests, terms(30 * MBPS, Some(40 * MBPS), 1, 0));
    follows_the_fluid(&mut run);
    run.set(voice, terms(0, Some(2 * MBPS), 1, 0));
    follows_the_fluid(&mut run);
    run.set(voice, terms(20 * MBPS, None, 1, 7));
    follows_the_fluid(&mut run);
    run.set(office, terms(60 * MBPS, Some(65 * MBPS), 1, 0));
    follows_the_fluid(&mut run);
    run.set(web, terms(0, None, 100, 7));
    follows_the_fluid(&mut run);
    run.set(office, terms(30 * MBPS, None, 1, 0));
    run.move_to(web, 0);
    follows_the_fluid(&mut run);
}

/// A class that returns from an idle time has no claim on the excess of that time, and has not
/// saved its guarantee.
///
/// Catches: a guarantee that is saved beyond the burst; a returning class that catches up on
/// excess.
#[test]
fn a_class_that_was_idle_gets_its_burst_and_no_more() {
    let mut tree = Tree::new(100 * MBPS);
    let [a, b] = [1, 4].map(|weight| tree.add(0, terms(10 * MBPS, None, weight, 0)));
    let mut run = Run::new(tree);
    run.load(a, GREEDY);
    run.pass(Time::from_secs(5));
    run.load(b, GREEDY);
    let before = run.sent[a];
    run.pass(Time::from_millis(50));
    // In 50 ms: 10 Mbit/s, and a fifth of the other 80 Mbit/s, minus the burst of the other class
    // and a frame of each.
    let least = 162_500.0 - 4_000.0 - 2.0 * FRAME;
    assert!(run.sent[a] - before >= least, "{} of {least}", run.sent[a] - before);
}

/// If the guarantees exceed the link rate, for example after a change of the rate, every class is
/// still served.
#[test]
fn every_class_is_served_although_the_guarantees_exceed_the_link() {
    let mut tree = Tree::new(10 * MBPS);
    let leaves = [8, 8, 8].map(|mbps| tree.add(0, terms(mbps * MBPS, None, 1, 0)));
    let mut run = Run::new(tree);
    leaves.into_iter().for_each(|leaf| run.load(leaf, GREEDY));
    let got = run.measure(Time::from_secs(1));
    for leaf in leaves {
        assert!((got[leaf] - 1_250_000.0 / 3.0).abs() < 3.0 * FRAME, "{}", got[leaf]);
    }
}

/// Catches: a guarantee that a class loses while bursts of others are served.
#[test]
fn bursts_of_many_classes_do_not_reduce_the_guarantee_of_another() {
    let mut tree = Tree::new(100 * MBPS);
    let large = tree.add(0, terms(80 * MBPS, None, 1, 0));
    let small = [0; 200].map(|_| tree.add(0, terms(MBPS / 20, None, 1, 0)));
    let mut run = Run::new(tree);
    for leaf in small.into_iter().chain([large]) {
        run.load(leaf, GREEDY);
    }
    run.pass(Time::from_secs(1));
    let promised = 10_000_000.0;
    assert!(run.sent[large] >= promised * 0.99, "{} of {promised}", run.sent[large]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For hours, a class sends only a few packets. Then it gets its burst and its guarantee, no
    /// more and no less. Start times include some near the end of the clock, and buckets that were
    /// unused for a long time.
    ///
    /// Catches: a guarantee that is saved beyond the burst.
    #[test]
    fn after_hours_with_few_packets_a_class_gets_its_burst_and_its_share(
        starts in prop_oneof![Just(0u64), 0u64..1 << 40, (1u64 << 62)..(1 << 63), Just(u64::MAX - (1 << 45))],
        hours in 1u64..8,
        little in 5u64..40,
        ceiling in prop::option::of(20u64..60),
        weight in 1u32..4,
    ) {
        let mut tree = Tree::new(100 * MBPS);
        let others = tree.add(0, terms(60 * MBPS, None, 4, 7));
        let ceiling = ceiling.map(|mbps| mbps * MBPS);
        let late = tree.add(0, terms(10 * MBPS, ceiling, weight, 0));
        let mut run = Run::beginning(tree, Time::from_nanos(starts));
        // One frame every few seconds, which is almost no load.
        for _ in 0..hours * 3_600 / little {
            run.load(late, GREEDY);
            run.pass(Time::from_nanos(1));
            run.load(late, Load { rate: Some(0), len: 1_514 });
            run.skip(Time::from_secs(little));
        }
        run.load(others, GREEDY);
        run.load(late, GREEDY);
        let before = run.sent[late];
        run.pass(Time::from_millis(50));
        let got = run.sent[late] - before;
        let promised = 62_500.0;
        prop_assert!(got <= promised + 4_000.0 + 2.0 * FRAME, "{got}: more than its guarantee and its burst");
        prop_assert!(got >= promised - 4_000.0 - 2.0 * FRAME, "{got}: less than its guarantee");
        follows_the_fluid(&mut run);
    }
}

/// Like the previous test, but packets always wait: for two hours the class gets a twentieth of its
/// ceiling, and then has no competition.
///
/// Catches: a bucket that is refilled beyond its depth; an elapsed time that wraps at 32 bits.
#[test]
fn hours_of_competition_are_not_compensated_by_a_burst() {
    for starts in [Time::ZERO, Time::from_nanos(u64::MAX - (1 << 45))] {
        let mut tree = Tree::new(100_000);
        let others = tree.add(0, terms(50_000, None, 1, 7));
        let late = tree.add(0, terms(2_500, Some(50_000), 1, 0));
        let mut run = Run::beginning(tree, starts);
        run.load(others, GREEDY);
        run.load(late, GREEDY);
        run.pass(Time::from_secs(7_200));
        let got = run.sent[late];
        assert!((got - 2_500.0 * 900.0).abs() < 4_000.0 + 2.0 * FRAME, "{got} in two hours");
        run.load(others, Load { rate: Some(0), len: 1_514 });
        run.pass(Time::from_secs(100));
        let more = run.sent[late] - got;
        assert!((more - 625_000.0).abs() <= 4_000.0 + 2.0 * FRAME, "{more} in 100 s of 50 kbit/s");
    }
}
