//! A marking in the queue of an aggregate: the aggregate's rate and its losses. A marking predicts
//! when the queue will overflow, and marks packets before.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod networks;

use std::time::Duration;

use networks::run;
use tidegate_core::link::LinkConfig;
use tidegate_core::link::Overhead;
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::with_marking;
use tidegate_core::{Bytes, Rate, tcp};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile};
use tidegate_sim::scenario::{
    End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Run, Scenario, Side, Start, Traffic,
};

const RATE: Rate = Rate::from_mbps(10);
const RTT: Duration = Duration::from_millis(40);
const SPAN: Duration = Duration::from_secs(20);
const FLOWS: usize = 8;

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

/// A policy for all packets to the WAN. `limit` is the length of its queue in bytes.
fn policy(limit: Bytes, marking: Option<&str>, allocation: &str) -> Policy {
    let queue = spec(&format!(r#"{{"kind":"drop-tail","limit":"{} B"}}"#, limit.0));
    let conditioning = Conditioning {
        profile: Profile::new(RATE, None, Bytes(30_280), Bytes(1_514)).unwrap(),
        allocation: spec(&format!("{allocation:?}")),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    Policy {
        name: "all".to_owned(),
        priority: 0,
        filter: Filter { direction: Some(Direction::Up), ..Filter::default() },
        action: Action::Shape {
            conditioning,
            queue: with_marking(queue, marking.map(spec)),
            ack_control: None,
        },
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    }
}

fn scenario(policy: Policy) -> Scenario {
    let config = GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: spec("\"drop-tail\""),
        packets: 4_096,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        seed: 1,
        trunks: Vec::new(),
        scheduler: Default::default(),
    };
    let gateway = Gateway { config, policies: PolicySet::new(vec![policy]).unwrap() };
    let node = |name: &str, kind| Node { name: name.to_owned(), kind };
    let end = |side| End { node: "gateway".into(), side };
    let link =
        LinkConfig { delay: RTT / 4, rate: Some(Rate::from_mbps(1_000)), ..LinkConfig::default() };
    let greedy = Traffic {
        name: "greedy".into(),
        kind: Kind::Greedy,
        pairs: (0..FLOWS).map(|_| Pair { from: "l".into(), to: "w".into() }).collect(),
        start: Start::Between(Duration::ZERO, Duration::from_secs(1)),
        ..Traffic::default()
    };
    Scenario {
        run: Run {
            duration: SPAN,
            warmup: SPAN / 4,
            link_header: 14,
            tcp: spec::<tcp::Config>(r#"{"profile":"rfc","ecn":"classic"}"#),
            ..Run::default()
        },
        nodes: vec![
            node("gateway", NodeKind::Gateway(Box::new(gateway))),
            node("l", NodeKind::Host(Host::default())),
            node("w", NodeKind::Host(Host::default())),
        ],
        links: vec![
            Link::new(End::of("l"), end(Side::Lan), link.clone()),
            Link::new(end(Side::Wan), End::of("w"), link),
        ],
        traffic: vec![greedy],
        ..Scenario::default()
    }
}

/// Results after the warm-up.
#[derive(Debug)]
struct Outcome {
    /// Rate of departed bytes, as a fraction of the policy's rate.
    rate: f64,
    /// Drops and marks: reason, dropped packets, marked packets.
    counts: Vec<(String, u64, u64)>,
}

fn outcome(percent: u64, marking: Option<&str>, allocation: &str) -> Outcome {
    let limit = Bytes(RATE.bytes_in(RTT).0 * percent / 100);
    let results = run(&scenario(policy(limit, marking, allocation)));
    let aggregates = results.table("aggregates").unwrap();
    let drops = results.table("drops").unwrap();
    let counts = drops.text("reason").iter().zip(drops.whole("dropped_packets"));
    let counts = counts.zip(drops.whole("marked_packets"));
    let rate = aggregates.real("conforming_bps").iter().sum::<f64>() / 10e6;
    Outcome { rate, counts: counts.map(|((why, d), m)| (why.clone(), *d, *m)).collect() }
}

impl Outcome {
    fn dropped(&self) -> u64 {
        self.counts.iter().map(|(_, dropped, _)| dropped).sum()
    }

    fn marked(&self) -> u64 {
        self.counts.iter().map(|(_, _, marked)| marked).sum()
    }
}

const REFERENCE: Option<&str> = Some("\"reference\"");

/// The service that the marking expects from an aggregate is its tokens plus its mean rate, even
/// while the queue is empty.
///
/// Catches: an expected service of zero while the queue is empty, which would halve windows
/// although the queue is short; service without the mean rate; service at the rate of the link.
#[test]
fn an_aggregate_with_a_marking_keeps_its_rate_and_loses_nothing() {
    for allocation in ["fcfs", "drr", "logical-partitions", "partitioned"] {
        for percent in [100, 200] {
            let marked = outcome(percent, REFERENCE, allocation);
            assert_eq!(marked.dropped(), 0, "{allocation}, {percent} %: {marked:?}");
            assert!(marked.marked() > 50, "{allocation}, {percent} %: {marked:?}");
            assert!((0.98..1.001).contains(&marked.rate), "{allocation}, {percent} %: {marked:?}");
        }
    }
    let plain = outcome(100, None, "fcfs");
    assert!(plain.dropped() > 300, "{plain:?}");
}

/// A buffer of half a bandwidth-delay product is too small for windows that are halved. Still, the
/// rate is 97 % and few packets overflow.
#[test]
fn a_buffer_below_the_bandwidth_delay_product_does_not_halve_the_rate() {
    let (plain, marked) = (outcome(50, None, "fcfs"), outcome(50, REFERENCE, "fcfs"));
    assert!((0.95..1.001).contains(&marked.rate), "{marked:?}");
    assert!(marked.dropped() * 10 < plain.dropped(), "{marked:?} {plain:?}");
}
