//! A gateway with a marking, as the router of the paper's first experiment. A marking predicts when
//! the queue will overflow, and marks packets before.
//!
//! Source: `marking`, section 5.1: 60 greedy and 180 on-off flows of 500-byte packets, round-trip
//! times of 24 to 180 ms, a link of 10 Mbit/s with a buffer of 150,000 bytes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod networks;

use std::time::Duration;

use networks::run;
use tidegate_core::link::LinkConfig;
use tidegate_core::link::Overhead;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::{QdiscSpec, with_marking};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Rate, tcp};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::PolicySet;
use tidegate_sim::scenario::{
    Distribution, End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Probe, Run, Scenario, Side,
    Start, Traffic,
};

const BUFFER: &str = r#"{"kind":"drop-tail","limit":"150000 B"}"#;
const RATE: Rate = Rate::from_mbps(10);

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn gateway(queue: QdiscSpec) -> Gateway {
    let config = GatewayConfig {
        rate: [Some(RATE), None],
        overhead: Overhead::default(),
        queue,
        packets: 65_536,
        flows: 1_024,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        scheduler: Default::default(),
        trunks: Vec::new(),
        seed: 1,
    };
    Gateway { config, policies: PolicySet::default() }
}

/// The paper's network, with its senders and a random round-trip time for each flow.
fn experiment(seed: u64, queue: QdiscSpec) -> Scenario {
    let node = |name: &str, kind| Node { name: name.to_owned(), kind };
    let end = |side| End { node: "gateway".into(), side };
    let access =
        |delay| LinkConfig { delay, rate: Some(Rate::from_mbps(1_000)), ..LinkConfig::default() };
    let at_once = LinkConfig::default();
    let mut nodes = vec![
        node("gateway", NodeKind::Gateway(Box::new(gateway(queue)))),
        node("near", NodeKind::Router),
        node("far", NodeKind::Router),
    ];
    let mut links = vec![
        Link::new(End::of("near"), end(Side::Lan), at_once.clone()),
        Link::new(end(Side::Wan), End::of("far"), at_once),
    ];
    let mut random = Random::new(seed, 1);
    for n in 0..240 {
        let rtt = Duration::from_micros(24_000 + random.below(156_000));
        for (name, router) in [(format!("s{n}"), "near"), (format!("d{n}"), "far")] {
            nodes.push(node(&name, NodeKind::Host(Host::default())));
            links.push(Link::new(End::of(&name), End::of(router), access(rtt / 4)));
        }
    }
    let pairs = |range: std::ops::Range<u32>| {
        range.map(|n| Pair { from: format!("s{n}"), to: format!("d{n}") }).collect()
    };
    let traffic = |name: &str, kind, range| Traffic {
        name: name.into(),
        kind,
        pairs: pairs(range),
        start: Start::Between(Duration::ZERO, Duration::from_secs(5)),
        ..Traffic::default()
    };
    let bursts = Kind::OnOff {
        burst: Distribution::Exponential(Bytes(300 * 460)),
        pause: Distribution::Exponential(Duration::from_secs(1)),
        reconnect: false,
    };
    Scenario {
        run: Run {
            duration: Duration::from_secs(30),
            warmup: Duration::from_secs(10),
            seed,
            link_header: 0,
            tcp: tcp::Config {
                mss: 460,
                ..spec(r#"{"profile":"ns2-2003","initial_window":1,"ecn":"classic"}"#)
            },
            ..Run::default()
        },
        nodes,
        links,
        traffic: vec![traffic("greedy", Kind::Greedy, 0..60), traffic("bursts", bursts, 60..240)],
        ..Scenario::default()
    }
}

/// Results after the warm-up.
#[derive(Debug)]
struct Outcome {
    /// Drops and marks at the gateway: reason, dropped packets, marked packets.
    counts: Vec<(String, u64, u64)>,
    /// Payload that the applications received, as a fraction of the bytes that the link can carry.
    goodput: f64,
}

impl Outcome {
    fn dropped(&self) -> u64 {
        self.counts.iter().map(|(_, dropped, _)| dropped).sum()
    }

    /// Dropped packets, as a fraction of dropped and carried packets.
    fn loss(&self) -> f64 {
        let carried = RATE.bytes_in(Duration::from_secs(20)).0 / 500;
        #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a ratio")]
        let loss = self.dropped() as f64 / (self.dropped() + carried) as f64;
        loss
    }
}

fn outcome(seed: u64, marking: Option<&str>) -> Outcome {
    let queue = with_marking(spec(BUFFER), marking.map(spec::<MarkingSpec>));
    let results = run(&experiment(seed, queue));
    let drops = results.table("drops").unwrap();
    let counts = drops.text("reason").iter().zip(drops.whole("dropped_packets"));
    let counts = counts.zip(drops.whole("marked_packets"));
    let groups = results.table("groups").unwrap();
    let goodput = groups.real("goodput_bps").iter().sum::<f64>() / 1e7 * 500.0 / 460.0;
    Outcome { counts: counts.map(|((why, d), m)| (why.clone(), *d, *m)).collect(), goodput }
}

/// Catches: a projection that counts only one round of flows with short round trips; windows
/// measured in the wrong direction; a flow marked twice in a round; a mark on the newest packet of
/// a flow, not on its oldest.
#[test]
fn the_marking_reference_loses_nothing_where_drop_tail_loses_a_tenth() {
    for seed in 1..3 {
        let plain = outcome(seed, None);
        assert!(plain.loss() > 0.08, "{plain:?}");
        for tracker in ["paper", "two-way"] {
            let spec = format!(r#"{{"kind":"reference","tracker":"{tracker}"}}"#);
            let marked = outcome(seed, Some(&spec));
            assert_eq!(marked.dropped(), 0, "{tracker}, seed {seed}: {marked:?}");
            // As in the paper, the link stays full.
            assert!(marked.goodput > 0.97, "{tracker}, seed {seed}: {marked:?}");
        }
    }
}

/// The projection of the paper counts one round for each flow. But flows with short round trips
/// send several rounds until the queue overflows.
#[test]
fn projecting_one_round_of_each_flow_is_not_enough() {
    let paper = outcome(1, Some(r#"{"kind":"reference","tracker":"paper","rounds":1}"#));
    assert!(paper.dropped() > 0 && paper.loss() < 0.08, "{paper:?}");
}

/// Simulates 12 s and records the flows that the marking tracks. For each interval: false
/// positives, missed flows, tracked flows, and whether the tracked bytes are between 0 and all
/// bytes.
fn tracked(marking: &str) -> Vec<(u64, u64, u64, bool)> {
    let queue = with_marking(spec(BUFFER), Some(spec::<MarkingSpec>(marking)));
    let mut scenario = experiment(1, queue);
    (scenario.run.duration, scenario.run.warmup) = (Duration::from_secs(12), Duration::ZERO);
    scenario.run.sample = Some(Duration::from_secs(1));
    scenario.probes.push(Probe::Passage {
        gateway: "gateway".into(),
        direction: Direction::Up,
        bound: None,
        rounds: false,
        tracked: true,
    });
    let results = run(&scenario);
    let table = results.table("tracked gateway up").unwrap();
    let column = |name| table.whole(name).to_vec();
    let (all, ours) = (column("all_bytes"), column("tracked_bytes"));
    let (falsely, missed) = (column("true_false_positives"), column("missed_flows"));
    let flows = column("tracked_flows");
    let row = |n| (falsely[n], missed[n], flows[n], 0 < ours[n] && ours[n] <= all[n]);
    // The filter finds its first flows in the second interval, so earlier rows are left out.
    (2..flows.len()).map(row).collect()
}

/// A filter of any size misses no large flow. With many counters, few small flows pass. With 3 x 8
/// counters, most small flows pass.
///
/// Catches: bytes counted in the wrong interval; a filter that tracks the flows of the interval
/// still being measured (`L_1`) instead of the last one (`L_0`); a threshold taken from the next
/// interval.
#[test]
fn a_filter_misses_no_large_flow_and_a_small_one_finds_many_others() {
    let of = |buckets| {
        format!(
            r#"{{"kind":"heuristic","tracker":"paper","buckets":{buckets},"threshold":"12500 B"}}"#
        )
    };
    let (small, large) = (tracked(&of(8)), tracked(&of(16_384)));
    assert_eq!((small.len(), large.len()), (9, 9), "{small:?}");
    for (falsely, missed, flows, is_part) in small {
        assert!(
            missed == 0 && is_part && flows > 100 && falsely * 2 > flows,
            "{falsely} of {flows}"
        );
    }
    for (falsely, missed, flows, is_part) in large {
        assert!(missed == 0 && is_part && falsely * 4 < flows, "{falsely} of {flows}");
    }
}
