//! Symmetries: the results do not depend on names, on the order of definitions, or on the unit of
//! time.

mod networks;

use std::sync::Arc;
use std::time::Duration;

use networks::{dumbbell, run};
use tidegate_core::tcp::{Config, Profile};
use tidegate_core::{Bytes, Rate};
use tidegate_sim::Results;
use tidegate_sim::scenario::{Distribution, Kind, Probe, Scenario, Start, Traffic};

/// Six connections, each a group with its own TCP settings. They carry files or endless data. Their
/// starts are staggered, so packets of different connections never arrive at the same time.
fn connections() -> Scenario {
    let profiles = [Profile::Ns2, Profile::Rfc, Profile::Linux];
    let file = Kind::File { size: Distribution::Constant(Bytes(700_000)) };
    let mut scenario = dumbbell(6, Kind::Greedy);
    let of = |n: u64, all: &Traffic| Traffic {
        name: format!("g{n}"),
        kind: if n.is_multiple_of(2) { Kind::Greedy } else { file.clone() },
        pairs: vec![all.pairs[usize::try_from(n).expect("six")].clone()],
        start: Start::At(Duration::from_nanos(100_003 + 37_000_009 * n)),
        tcp: Some(Config::new(profiles[usize::try_from(n).expect("six") % 3])),
        ..all.clone()
    };
    let all = scenario.traffic[0].clone();
    scenario.traffic = (0..6).map(|n| of(n, &all)).collect();
    scenario.run.duration = Duration::from_secs(4);
    scenario
}

/// The rows of a table as text, without its columns `names`, sorted by these columns.
fn rows(results: &Results, table: &str, names: &[&str]) -> Vec<String> {
    let table = results.table(table).expect("a table");
    let row = |at: usize| {
        let shown = |name: &str| match table.column(name).expect("a column") {
            tidegate_sim::table::Values::Text(all) => all[at].clone(),
            tidegate_sim::table::Values::Whole(all) => all[at].to_string(),
            tidegate_sim::table::Values::Real(all) => format!("{:x}", all[at].to_bits()),
        };
        let (by, others): (Vec<_>, Vec<_>) =
            table.columns().iter().map(|it| it.name.as_str()).partition(|it| names.contains(it));
        let shown = |all: Vec<&str>| all.into_iter().map(shown).collect::<Vec<_>>().join(" ");
        format!("{}: {}", shown(by), shown(others))
    };
    let mut rows: Vec<_> = (0..table.rows()).map(row).collect();
    rows.sort_unstable();
    rows
}

/// With nodes, links and traffic in reverse order, and all names changed, the results are equal bit
/// by bit.
///
/// Catches: a group with the flow numbers, or with the settings, of another group.
#[test]
fn names_and_the_order_of_definitions_change_no_figure() {
    let scenario = connections();
    let mut other = scenario.clone();
    other.nodes.reverse();
    other.links.reverse();
    other.traffic.reverse();
    let renamed = |name: &mut String| *name = format!("{name}-other");
    other.nodes.iter_mut().for_each(|it| renamed(&mut it.name));
    other
        .links
        .iter_mut()
        .flat_map(|it| [&mut it.a, &mut it.b])
        .for_each(|it| renamed(&mut it.node));
    other.traffic.iter_mut().for_each(|it| renamed(&mut it.name));
    let pairs = other.traffic.iter_mut().flat_map(|it| &mut it.pairs);
    pairs.flat_map(|it| [&mut it.from, &mut it.to]).for_each(renamed);
    for probe in &mut other.probes {
        if let Probe::Queue(way) = probe {
            [&mut way.from.node, &mut way.to.node].into_iter().for_each(renamed);
        }
    }
    let (first, second) = (run(&scenario), run(&other));
    let tables: [(&str, &[&str]); 4] = [
        ("groups", &["group"]),
        ("flows", &["group", "from", "to"]),
        ("links", &["from", "to"]),
        ("drops", &["place", "reason"]),
    ];
    for (table, names) in tables {
        let expected = rows(&first, table, names);
        let found = rows(&second, table, names);
        let mut found: Vec<_> = found.iter().map(|row| row.replace("-other", "")).collect();
        found.sort_unstable();
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{table}");
    }
    assert!(first.table("links").expect("links").whole("dropped_packets").iter().sum::<u64>() > 20);
    assert_eq!((first.packets, first.packet_hops), (second.packets, second.packet_hops));
}

/// With a quarter of all rates, and four times all delays and timers, hosts send, lose and
/// retransmit the same packets, and files take four times as long. The tolerance is a millionth,
/// because both runs round smoothed round-trip times to nanoseconds.
///
/// Catches: a constant time in the model, such as links with a minimum delay of 10 us.
#[test]
fn connections_four_times_as_slow_have_the_same_course() {
    let (fast, slow) = (run(&in_slow_motion(1)), run(&in_slow_motion(4)));
    let whole = |of: &Results, table: &str, name: &str| {
        of.table(table).expect("a table").whole(name).to_vec()
    };
    for name in
        ["sent_packets", "received_packets", "retransmitted_segments", "recoveries", "timeouts"]
    {
        assert_eq!(whole(&fast, "flows", name), whole(&slow, "flows", name), "{name}");
    }
    for name in ["delivered_packets", "dropped_packets"] {
        assert_eq!(whole(&fast, "links", name), whole(&slow, "links", name), "{name}");
    }
    assert!(whole(&fast, "flows", "retransmitted_segments").iter().sum::<u64>() > 20);
    let took = |of: &Results| of.table("transfers").expect("files").real("took_seconds").to_vec();
    assert_eq!(took(&fast).len(), 3);
    for (fast, slow) in took(&fast).into_iter().zip(took(&slow)) {
        assert!((slow / (4.0 * fast) - 1.0).abs() < 1e-6, "{slow} is not 4 * {fast}");
    }
}

fn in_slow_motion(k: u32) -> Scenario {
    let mut scenario = connections();
    for link in &mut scenario.links {
        for way in [&mut link.forward, &mut link.back].into_iter().flatten() {
            let way = Arc::make_mut(way);
            way.delay *= k;
            way.rate = way.rate.map(|rate| Rate::from_bps(rate.bps() / u64::from(k)));
        }
    }
    for group in &mut scenario.traffic {
        if let Start::At(at) = &mut group.start {
            *at *= k;
        }
        // The TCP timestamp clock ticks once a millisecond in both runs.
        let mut config = Config::new(Profile::Ns2);
        let it = &mut config.details;
        for time in [
            &mut it.ack_delay,
            &mut it.rto_initial,
            &mut it.rto_min,
            &mut it.rto_max,
            &mut it.clock_granularity,
            &mut it.probe_slack,
            &mut it.time_wait,
        ] {
            *time *= k;
        }
        group.tcp = Some(config);
    }
    scenario.run.duration *= k;
    scenario
}
