//! Several policies with ACK control (the gateway holds ACKs, so that data waits at the senders).
//! The data of all policies waits in one common queue: the queue of a class, or of the link.

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
    Action, Class, ClassSet, Conditioning, Filter, Mode, Policy, PolicySet, Profile, Range,
};
use tidegate_sim::scenario::{
    End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Run, Scenario, Side, Start, Traffic,
};

/// The common queue, and the policies that share it.
struct Case {
    /// If true, data waits in a class with half of the link's rate. Otherwise, data waits for the
    /// link.
    class: bool,
    way: Direction,
    /// The rate and the number of flows of each policy.
    policies: Vec<(Rate, u32)>,
}

const LINK: Rate = Rate::from_mbps(20);
const HALF: Rate = Rate::from_mbps(10);
const FIRST_PORT: u16 = 5_001;

/// Delay in seconds from the LAN hosts to the WAN hosts, including the transmission of one frame on
/// each link.
const PATH: f64 = 0.026_5;

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn port(number: usize) -> u16 {
    FIRST_PORT + u16::try_from(number).unwrap()
}

fn policy(case: &Case, number: usize) -> Policy {
    let rate = case.policies[number].0;
    let profile = Profile::new(rate, None, Bytes(15_140), Bytes(1_514)).unwrap();
    let conditioning = Conditioning {
        profile,
        allocation: spec("\"drr\""),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    let action =
        Action::Shape { conditioning, queue: queue(), ack_control: Some(spec("\"postack\"")) };
    let dst_port = vec![Range { first: port(number), last: port(number) }];
    Policy {
        name: format!("p{number}"),
        priority: 0,
        filter: Filter { direction: Some(case.way), dst_port, ..Filter::default() },
        action,
        mode: Mode::Enforce,
        class: case.class.then(|| "half".to_owned()),
        trunk: None,
    }
}

fn queue() -> tidegate_core::qdisc::QdiscSpec {
    spec(r#"{"kind":"per-flow","limit":"32 MiB","flow_limit":"8 MiB"}"#)
}

fn gateway(case: &Case) -> Gateway {
    let rate = [Some(if case.class { LINK } else { HALF }); 2];
    let config = GatewayConfig {
        rate,
        overhead: Overhead::default(),
        queue: spec(r#"{"kind":"drop-tail","limit":"32 MiB"}"#),
        packets: 65_536,
        flows: 1_024,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    };
    let half = Class {
        guarantee: [HALF; 2],
        ceiling: [Some(HALF); 2],
        ..Class::new("half", config.queue.clone())
    };
    let classes = if case.class { vec![half] } else { Vec::new() };
    let policies = (0..case.policies.len()).map(|number| policy(case, number)).collect();
    let policies =
        PolicySet::new(policies).unwrap().with_classes(ClassSet::new(classes, rate).unwrap());
    Gateway { config, policies }
}

fn scenario(case: &Case) -> Scenario {
    let node = |name: &str, kind| Node { name: name.to_owned(), kind };
    let link =
        |delay| LinkConfig { delay, rate: Some(Rate::from_mbps(1_000)), ..LinkConfig::default() };
    let (lan, wan) = (link(Duration::from_micros(100)), link(Duration::from_millis(26)));
    let end = |side| End { node: "gateway".into(), side };
    let host = || NodeKind::Host(Host::default());
    let traffic = |(number, (_, flows)): (usize, &(Rate, u32))| {
        let pair = match case.way {
            Direction::Up => Pair { from: "l".into(), to: "w".into() },
            Direction::Down => Pair { from: "w".into(), to: "l".into() },
        };
        Traffic {
            name: format!("p{number}"),
            kind: Kind::Greedy,
            pairs: vec![pair],
            flows: *flows,
            port: port(number),
            start: Start::Between(Duration::ZERO, Duration::from_millis(500)),
            ..Traffic::default()
        }
    };
    Scenario {
        run: Run {
            duration: Duration::from_secs(20),
            warmup: Duration::from_secs(8),
            ..Run::default()
        },
        nodes: vec![
            node("gateway", NodeKind::Gateway(Box::new(gateway(case)))),
            node("l", host()),
            node("w", host()),
        ],
        links: vec![
            Link::new(End::of("l"), end(Side::Lan), lan),
            Link::new(end(Side::Wan), End::of("w"), wan),
        ],
        traffic: case.policies.iter().enumerate().map(traffic).collect(),
        ..Scenario::default()
    }
}

/// Results after the warm-up.
#[derive(Debug)]
struct Outcome {
    /// Goodput of each policy in Mbit/s.
    goodput: Vec<f64>,
    /// Mean time that a packet waits in the gateway, in milliseconds.
    waited: f64,
    overdue: u64,
    dropped: u64,
    timeouts: u64,
}

fn outcome(case: &Case) -> Outcome {
    let results = run(&scenario(case));
    let [groups, all, flows, drops] =
        ["groups", "aggregates", "flows", "drops"].map(|name| results.table(name).unwrap().clone());
    let delays = groups.real("delay_mean_seconds");
    let mean = delays.iter().sum::<f64>() / f64::from(u32::try_from(delays.len()).unwrap());
    Outcome {
        goodput: groups.real("goodput_bps").iter().map(|it| it / 1e6).collect(),
        waited: (mean - PATH) * 1e3,
        overdue: all.whole("overdue_acks").iter().sum(),
        dropped: drops.whole("dropped_packets").iter().sum(),
        timeouts: flows.whole("timeouts").iter().sum(),
    }
}

/// Runs `policies` with a common queue of 10 Mbit/s three times: in a class upwards, in a class
/// downwards, and at the link upwards. Checks each outcome.
fn each_way(policies: &[(Rate, u32)], check: impl Fn(&Outcome)) {
    for (class, way) in [(true, Direction::Up), (true, Direction::Down), (false, Direction::Up)] {
        let it = outcome(&Case { class, way, policies: policies.to_vec() });
        println!("{class} {way:?}: {it:.3?}");
        assert_eq!((it.overdue, it.dropped, it.timeouts), (0, 0, 0), "{class} {way:?}: {it:?}");
        // The goodput must reach 99.5 % of the payload rate of full segments at 10 Mbit/s. A wait
        // of 15 ms corresponds to a queue of 18 kB.
        let carried = 10.0 * 1_448.0 / 1_514.0;
        assert!(it.goodput.iter().sum::<f64>() > 0.995 * carried, "{class} {way:?}: {it:?}");
        assert!(it.waited < 15.0, "{class} {way:?}: {it:?}");
        check(&it);
    }
}

/// Catches: outstanding credit that each policy counts separately; windows computed for the rate of
/// the policy, not for its share of the common queue.
#[test]
fn policies_share_a_common_queue_equally_whatever_their_flows_and_hardly_queue() {
    for policies in [vec![(HALF, 1), (HALF, 8)], vec![(HALF, 1); 10]] {
        let part = 10.0 * 1_448.0 / 1_514.0 / f64::from(u32::try_from(policies.len()).unwrap());
        each_way(&policies, |it| {
            let off = it.goodput.iter().map(|of| (of / part - 1.0).abs()).fold(0.0, f64::max);
            assert!(off < 0.02, "{it:?}");
        });
    }
}

/// Catches: a target length of the common queue that suits only one of the policies; a policy
/// whose rate is reduced because another policy requests much data; a standing queue that never
/// drains because data without credit uses up credit.
#[test]
fn a_policy_keeps_its_small_rate_beside_one_of_twice_the_common_rate() {
    let small = Rate::from_mbps(2);
    each_way(&[(small, 2), (LINK, 2)], |it| {
        let carried = 2.0 * 1_448.0 / 1_514.0;
        assert!((it.goodput[0] / carried - 1.0).abs() < 0.01, "{it:?}");
    });
}
