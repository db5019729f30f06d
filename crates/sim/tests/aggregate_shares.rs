//! The results of a run contain fairness indices for each aggregate of a gateway.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod networks;

use std::time::Duration;

use networks::run;
use tidegate_core::link::LinkConfig;
use tidegate_core::link::Overhead;
use tidegate_core::packet::Direction;
use tidegate_core::{Bytes, Rate};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{
    Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile, Range,
};
use tidegate_sim::scenario::{
    End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Run, Scenario, Side, Traffic,
};

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

/// A policy of 2 Mbit/s for packets to `port`.
fn policy(port: u16, allocation: &str, queue: &str) -> Policy {
    let rate = Rate::from_mbps(2);
    let conditioning = Conditioning {
        profile: Profile::new(rate, None, Bytes(15_140), Bytes(1_514)).unwrap(),
        allocation: spec(allocation),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    let dst_port = vec![Range { first: port, last: port }];
    Policy {
        name: port.to_string(),
        priority: 0,
        filter: Filter { direction: Some(Direction::Up), dst_port, ..Filter::default() },
        action: Action::Shape { conditioning, queue: spec(queue), ack_control: None },
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    }
}

/// One UDP flow for each element of `offers` (port, rate in kbit/s), through a gateway with
/// `policies`.
fn scenario(policies: Vec<Policy>, offers: &[(u16, u64)]) -> Scenario {
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
    let gateway = Gateway { config, policies: PolicySet::new(policies).unwrap() };
    let node = |name: &str, kind| Node { name: name.to_owned(), kind };
    let end = |side| End { node: "gateway".into(), side };
    let traffic = |(number, (port, kbps)): (usize, &(u16, u64))| Traffic {
        name: format!("flow {number}"),
        kind: Kind::Constant { rate: Rate::from_bps(kbps * 1_000), packet: 1_000 },
        pairs: vec![Pair { from: "l".into(), to: "w".into() }],
        port: *port,
        ..Traffic::default()
    };
    Scenario {
        run: Run {
            duration: Duration::from_secs(8),
            warmup: Duration::from_secs(3),
            ..Run::default()
        },
        nodes: vec![
            node("gateway", NodeKind::Gateway(Box::new(gateway))),
            node("l", NodeKind::Host(Host::default())),
            node("w", NodeKind::Host(Host::default())),
        ],
        links: vec![
            Link::new(End::of("l"), end(Side::Lan), LinkConfig::default()),
            Link::new(end(Side::Wan), End::of("w"), LinkConfig::default()),
        ],
        traffic: offers.iter().enumerate().map(traffic).collect(),
        ..Scenario::default()
    }
}

/// Catches: indices computed over the flows of all aggregates; a max-min index that counts a flow
/// with a small demand as starved.
#[test]
fn fairness_indices_use_the_flows_of_one_aggregate_and_their_demands() {
    let policies = vec![
        policy(1, "\"drr\"", "\"per-flow\""),
        policy(2, "\"drr\"", "\"per-flow\""),
        policy(3, "\"sequential\"", "\"per-flow\""),
    ];
    let offers = [(1, 500), (1, 4_000), (2, 500), (2, 500), (3, 4_000), (3, 4_000)];
    let results = run(&scenario(policies, &offers));
    let aggregates = results.table("aggregates").unwrap();
    let [jain, fair] = ["jain", "max_min"].map(|name| aggregates.real(name).to_vec());
    let near = |is: f64, expected: f64| (is - expected).abs() < 0.02;
    // Rates of 0.5 and 1.5 Mbit/s are unequal, so Jain's index is 0.8. But the slower flow demands
    // no more, so the max-min index is 1.
    assert!(near(jain[0], 0.8) && fair[0] > 0.99, "{jain:?} {fair:?}");
    assert!(near(jain[1], 1.0) && fair[1] > 0.99, "{jain:?} {fair:?}");
    // The first flow gets the whole rate, although both demand it.
    assert!(near(jain[2], 0.5) && near(fair[2], 0.5), "{jain:?} {fair:?}");
}
