//! User flows of one trunk. The trunk finds its rate by congestion control, and grants itself
//! credit to send. Policies, allocations and classes divide this rate.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod networks;

use std::net::IpAddr;
use std::time::Duration;

use networks::run;
use tidegate_core::link::LinkConfig;
use tidegate_core::link::Overhead;
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Rate, tcp, trunk};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, FairBetween, Filter, FlowWeight, Mode, Policy,
    PolicySet, Profile, Range, Sharers,
};
use tidegate_sim::Results;
use tidegate_sim::scenario::{
    End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Run, Scenario, Side, Start, Traffic,
};

/// Policies, classes and traffic of a test.
struct Case {
    policies: Vec<Policy>,
    /// Classes of the gateway's link, which is then the bottleneck. Without classes, the bottleneck
    /// is on the path beyond the link.
    classes: Vec<Class>,
    floods: Vec<Flood>,
}

/// UDP flows that could each fill the path: sending host, destination port, number of flows.
type Flood = (&'static str, u16, u32);

const BOTTLENECK: Rate = Rate::from_mbps(10);
const SPAN: Duration = Duration::from_secs(15);

/// Length in bytes of a frame with a management packet: a TCP header without data, by which the
/// trunk probes the path.
const MANAGEMENT: f64 = 66.0;
/// The fraction of a trunk's bytes that are user packets. A user frame has 1,500 bytes, of which
/// 1,486 count from the IP header on. The trunk sends a management packet for every 1,500 such
/// bytes (VMSS).
const USERS: f64 = 1_500.0 / (1_500.0 + MANAGEMENT * 1_486.0 / 1_500.0);

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

/// A queue that reports congestion to the trunk by dropping management packets, before user packets
/// are lost.
fn reporting() -> QdiscSpec {
    spec(r#"{"kind":"trunk-fifo","limit":"400 kB","threshold":32}"#)
}

fn to_ports(first: u16, last: u16) -> Filter {
    let dst_port = vec![Range { first, last }];
    Filter { direction: Some(Direction::Up), dst_port, ..Filter::default() }
}

/// A policy that sends matching packets through the trunk.
fn policy(filter: Filter, action: Action) -> Policy {
    Policy {
        name: format!("to {}", filter.dst_port[0].first),
        priority: 0,
        filter,
        action,
        mode: Mode::Enforce,
        class: None,
        trunk: Some("t".to_owned()),
    }
}

fn of(class: &str, policy: Policy) -> Policy {
    Policy { class: Some(class.to_owned()), ..policy }
}

fn shape(kbps: u64, weights: Vec<FlowWeight>, fair_between: FairBetween) -> Action {
    let profile = Profile::new(Rate::from_kbps(kbps), None, Bytes(15_140), Bytes(1_514)).unwrap();
    let conditioning = Conditioning { profile, allocation: spec("\"drr\""), weights, fair_between };
    Action::Shape { conditioning, queue: spec("\"per-flow\""), ack_control: None }
}

fn trunk(local: [u8; 4], peer: [u8; 4]) -> trunk::Config {
    let [local, peer] = [local, peer].map(IpAddr::from);
    let details = tcp::Details { initial_window: 1, ..tcp::Config::default().details };
    trunk::Config {
        name: "t".to_owned(),
        local,
        peer,
        port: 4_754,
        connections: 4,
        vmss: Bytes(1_500),
        guarantee: None,
        ceiling: None,
        queue: spec("\"per-flow\""),
        assured: 1,
        tcp: tcp::Config { details, ..tcp::Config::default() },
        fallback: Default::default(),
        probing: Default::default(),
        weight: None,
        wire: trunk::Wire::Headers,
    }
}

fn gateway(rate: Option<Rate>, trunk: trunk::Config, policies: PolicySet) -> NodeKind {
    let config = GatewayConfig {
        rate: [rate; 2],
        overhead: Overhead::default(),
        queue: spec("\"per-flow\""),
        packets: 16_384,
        flows: 1_024,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: vec![trunk],
        seed: 1,
        scheduler: Default::default(),
    };
    NodeKind::Gateway(Box::new(Gateway { config, policies }))
}

fn scenario(case: &Case) -> Scenario {
    let rate = (!case.classes.is_empty()).then_some(BOTTLENECK);
    let classes = ClassSet::new(case.classes.clone(), [rate; 2]).unwrap();
    let policies = PolicySet::new(case.policies.clone()).unwrap().with_classes(classes);
    let ends = [[192, 0, 2, 1], [192, 0, 2, 9]];
    let kinds = [
        ("north", gateway(rate, trunk(ends[0], ends[1]), policies)),
        ("south", gateway(None, trunk(ends[1], ends[0]), PolicySet::new(vec![]).unwrap())),
    ];
    let hosts = ["a", "b", "server"].map(|name| (name, NodeKind::Host(Host::default())));
    let node = |(name, kind): (&str, NodeKind)| Node { name: name.to_owned(), kind };
    let end = |node: &str, side| End { node: node.to_owned(), side };
    let path = LinkConfig {
        rate: Some(rate.map_or(BOTTLENECK, |_| Rate::from_mbps(100))),
        delay: Duration::from_millis(10),
        queue: reporting(),
        ..LinkConfig::default()
    };
    let lan =
        |host, gateway| Link::new(End::of(host), end(gateway, Side::Lan), LinkConfig::default());
    let mut links = vec![Link::new(end("north", Side::Wan), end("south", Side::Wan), path)];
    links.extend([("a", "north"), ("b", "north"), ("server", "south")].map(|it| lan(it.0, it.1)));
    let traffic = |&(from, port, flows): &Flood| Traffic {
        name: format!("{from} to {port}"),
        kind: Kind::Constant { rate: BOTTLENECK, packet: 1_500 },
        pairs: vec![Pair { from: from.to_owned(), to: "server".to_owned() }],
        flows,
        port,
        start: Start::Between(Duration::ZERO, Duration::from_millis(100)),
        ..Traffic::default()
    };
    let warmup = Duration::from_secs(5);
    Scenario {
        run: Run { duration: warmup + SPAN, warmup, ..Run::default() },
        nodes: kinds.into_iter().chain(hosts).map(node).collect(),
        links,
        traffic: case.floods.iter().map(traffic).collect(),
        ..Scenario::default()
    }
}

/// Results after the warm-up, in Mbit/s of frames.
#[derive(Debug)]
struct Outcome {
    /// Rates of each flood (all its flows together), and rates of each flow.
    floods: Vec<f64>,
    flows: Vec<f64>,
    /// Rate of all frames from the gateway that arrived at its peer.
    all: f64,
    /// User packets lost beyond the trunk or in its class, the places where queues would overflow
    /// first.
    lost: u64,
}

fn outcome(case: &Case) -> Outcome {
    let results = run(&scenario(case));
    let mbps = |results: &Results, table: &str| {
        let rates = results.table(table).unwrap().real("throughput_bps");
        rates.iter().map(|it| it / 1e6).collect::<Vec<_>>()
    };
    let bytes = results.table("links").unwrap().whole("delivered_bytes")[0];
    let drops = results.table("drops").unwrap();
    let reasons = drops.text("reason").iter().zip(drops.whole("dropped_packets"));
    Outcome {
        floods: mbps(&results, "groups"),
        flows: mbps(&results, "flows"),
        all: f64::from(u32::try_from(bytes).unwrap()) * 8e-6 / SPAN.as_secs_f64(),
        lost: reasons.filter(|it| it.0 == "queue-full").map(|it| it.1).sum(),
    }
}

/// Checks that `rate` differs from `expected` by less than `percent` per cent.
#[track_caller]
fn near(rate: f64, expected: f64, percent: f64, all: &Outcome) {
    let off = (rate / expected - 1.0).abs() * 100.0;
    assert!(off < percent, "{rate:.3} and not {expected:.3}: {off:.1} % off; {all:.3?}");
}

/// The rate of the first policy is below its users' share of the trunk. The rate of the second is
/// above the whole rate of the trunk.
///
/// Catches: weights or hosts that are ignored under a trunk; packets that bypass their policy; flow
/// queues of the trunk indexed by numbers that are unique only within a policy.
#[test]
fn flows_of_a_policy_share_its_rate_and_other_flows_share_the_remainder_of_the_trunk() {
    let twice = FlowWeight { filter: to_ports(2, 2), weight: 2 };
    let others = policy(to_ports(3, 3), shape(20_000, vec![], Sharers::Flow.into()));
    for (first, floods, parts) in [
        (
            shape(3_000, vec![twice], Sharers::Flow.into()),
            vec![("a", 1, 1), ("a", 2, 1), ("b", 3, 3)],
            [1.0, 2.0],
        ),
        (
            shape(3_000, vec![], Sharers::SourceHost.into()),
            vec![("a", 1, 3), ("b", 1, 1), ("b", 3, 3)],
            [1.5, 1.5],
        ),
    ] {
        let policies = vec![policy(to_ports(1, 2), first), others.clone()];
        let it = outcome(&Case { policies, classes: vec![], floods });
        println!("{it:.3?}");
        near(it.all, 10.0, 1.0, &it);
        let rest = 10.0 * USERS - 3.0;
        let expected = [parts[0], parts[1], rest];
        it.floods.iter().zip(expected).for_each(|(is, expected)| near(*is, expected, 2.0, &it));
        let each = &it.flows[it.flows.len() - 3..];
        each.iter().for_each(|is| near(*is, rest / 3.0, 2.0, &it));
        assert_eq!(it.lost, 0, "{it:?}");
    }
}

/// Catches: a trunk that divides its rate by policies instead of by flows.
#[test]
fn a_trunk_slower_than_its_policies_is_shared_flow_by_flow() {
    let more = |port| policy(to_ports(port, port), shape(20_000, vec![], Sharers::Flow.into()));
    let floods = vec![("a", 1, 1), ("b", 2, 3)];
    let it = outcome(&Case { policies: vec![more(1), more(2)], classes: vec![], floods });
    println!("{it:.3?}");
    near(it.all, 10.0, 1.0, &it);
    it.flows.iter().for_each(|is| near(*is, 10.0 * USERS / 4.0, 2.0, &it));
}

/// A class with this guarantee and this ceiling in Mbit/s; a ceiling of zero means none. Its queue
/// reports congestion to trunks.
fn class(name: &str, guarantee: u64, ceiling: u64) -> Class {
    let ceiling = (ceiling > 0).then_some(Rate::from_mbps(ceiling));
    let guarantee = [Rate::from_mbps(guarantee); 2];
    Class { guarantee, ceiling: [ceiling; 2], ..Class::new(name, reporting()) }
}

/// Traffic beside the trunk is in the class `other`. The trunk's management packets are in the
/// class of the trunk, because their losses and marks report congestion in this class.
///
/// Catches: management packets in the default class; management packets that do not count against
/// the rate of their class.
#[test]
fn a_trunk_sends_the_rate_of_its_class_with_management_packets_and_loses_no_user_packet() {
    for (guarantee, ceiling, beside) in [(4, 4, true), (2, 4, false), (7, 0, true), (0, 1, true)] {
        let other = class("other", (10 - guarantee).min(6), 0);
        let other = Class { queue: spec::<QdiscSpec>("\"per-flow\"").into(), ..other };
        let classes = vec![class("t", guarantee, ceiling), other];
        let past = Policy { trunk: None, ..policy(to_ports(2, 2), Action::Pass) };
        let policies = vec![of("t", policy(to_ports(1, 1), Action::Pass)), of("other", past)];
        let mut floods = vec![("a", 1, 2)];
        floods.extend(beside.then_some(("b", 2, 1)));
        let it = outcome(&Case { policies, classes, floods });
        println!("{guarantee} {ceiling} {it:.3?}");
        let most = f64::from(u32::try_from(guarantee.max(ceiling)).unwrap());
        let other = it.floods.get(1).copied().unwrap_or_default();
        if beside {
            near(other, 10.0 - most, 0.5, &it);
        }
        near(it.all - other, most, 1.0, &it);
        near(it.floods[0], most * USERS, 1.5, &it);
        assert_eq!(it.lost, 0, "{it:?}");
    }
}

/// Classes share the link, and the tunnel queue shares the trunk flow by flow. So a larger
/// guarantee of its class gives a flow no larger share of the trunk. A class with a low ceiling
/// would block the trunk, unless a policy limits its flows.
///
/// Catches: management packets that are always in the class of the first user packet, or in no
/// class.
#[test]
fn classes_of_one_trunk_get_the_rates_that_its_tunnel_queue_gives_their_flows() {
    let pass = |port, class| of(class, policy(to_ports(port, port), Action::Pass));
    let held = policy(to_ports(2, 2), shape(900, vec![], Sharers::Flow.into()));
    let equal = 10.0 * USERS / 2.0;
    for (classes, second, parts) in [
        (vec![class("x", 6, 0), class("y", 2, 0)], pass(2, "y"), [equal, equal]),
        (vec![class("x", 0, 0), class("y", 0, 1)], of("y", held), [10.0 * USERS - 0.9, 0.9]),
    ] {
        let policies = vec![pass(1, "x"), second];
        let it = outcome(&Case { policies, classes, floods: vec![("a", 1, 1), ("b", 2, 1)] });
        println!("{it:.3?}");
        near(it.all, 10.0, 2.0, &it);
        it.floods.iter().zip(parts).for_each(|(is, part)| near(*is, part, 3.0, &it));
        assert_eq!(it.lost, 0, "{it:?}");
    }
}
