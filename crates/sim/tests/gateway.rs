//! A gateway in the simulator forwards packets at the same times as one that a test drives
//! directly.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod networks;

use std::time::Duration;

use networks::captured;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::link::{Jitter, LinkConfig};
use tidegate_core::packet::SackBlocks;
use tidegate_core::tcp::{self, Config};
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{
    Action, Conditioning, Exceed, Filter, Mode, Policy, PolicySet, Profile, Range,
};
use tidegate_sim::scenario::{
    Distribution, End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Run, Scenario, Side, Start,
    Traffic, Way,
};
use tidegate_wire::{describe, pcap::Record, segment::sack};

const LAN: PortId = tidegate_gateway::Gateway::LAN;
const WAN: PortId = tidegate_gateway::Gateway::WAN;

/// A departure: time, port, and all fields of the packet as text.
type Passage = (Time, PortId, String);

/// Six hosts on the LAN side of a gateway. Each has a server on the WAN side, at its own distance.
fn scenario(gateway: Gateway) -> Scenario {
    let node = |name: String, kind| Node { name, kind };
    let end = |node: &str, side| End { node: node.to_owned(), side };
    let mut nodes = vec![
        node("gateway".into(), NodeKind::Gateway(Box::new(gateway))),
        node("lan".into(), NodeKind::Router),
        node("wan".into(), NodeKind::Router),
    ];
    // The links at the gateway have no delay. So the time at which a packet departs from the
    // gateway is the time at which the capture at the neighbour shows it.
    let at_once = LinkConfig::default();
    let mut links = vec![
        Link::new(end("lan", Side::Only), end("gateway", Side::Lan), at_once.clone()),
        Link::new(end("gateway", Side::Wan), end("wan", Side::Only), at_once),
    ];
    for n in 0..6_u64 {
        for (name, router, ms) in [(format!("h{n}"), "lan", 1), (format!("s{n}"), "wan", 5 + 9 * n)]
        {
            // Without jitter, packets could arrive at the same time, and their order would be
            // arbitrary.
            let config = LinkConfig {
                delay: Duration::from_millis(ms),
                jitter: Jitter::Uniform(Duration::from_micros(300)),
                rate: Some(Rate::from_mbps(10)),
                ..LinkConfig::default()
            };
            links.push(Link::new(End::of(&name), End::of(router), config));
            nodes.push(node(name, NodeKind::Host(Host::default())));
        }
    }
    let pair = |n| Pair { from: format!("s{n}"), to: format!("h{n}") };
    let start = Start::Between(Duration::ZERO, Duration::from_millis(500));
    let group = |name: &str, kind, pairs: std::ops::Range<u64>| Traffic {
        name: name.into(),
        kind,
        pairs: pairs.map(pair).collect(),
        start,
        ..Traffic::default()
    };
    let voice = Kind::Constant { rate: Rate::from_kbps(600), packet: 214 };
    let files = Kind::Web {
        request: Distribution::Constant(Bytes(300)),
        answer: Distribution::Constant(Bytes(30_000)),
        think: Distribution::Exponential(Duration::from_millis(100)),
    };
    Scenario {
        run: Run {
            duration: Duration::from_secs(4),
            tcp: Config::new(tcp::Profile::Linux),
            ..Run::default()
        },
        nodes,
        links,
        traffic: vec![
            group("greedy", Kind::Greedy, 0..3),
            group("web", files, 3..5),
            group("voice", voice, 5..6),
        ],
        ..Scenario::default()
    }
}

/// The fields of a packet that its bytes determine.
type Seen = (Packet, SackBlocks);

fn passage(port: PortId) -> impl Fn(&Record) -> (Time, PortId, Seen) {
    move |record| {
        let mut packet = Packet::default();
        assert_eq!(describe(&record.bytes, record.len, &mut packet), None);
        let sack = sack(&record.bytes, &packet);
        (record.time, port, (packet, sack))
    }
}

fn in_order<T>(mut passages: Vec<(Time, PortId, T)>) -> Vec<(Time, PortId, T)> {
    passages.sort_by_key(|(at, port, _)| (*at, *port)); // A stable sort.
    passages
}

/// The fields of a departing packet as text.
fn said((packet, sack): &Seen) -> String {
    let Packet { len, key, tcp, network, dscp, ecn, .. } = packet;
    format!("{:?}", (len, key, tcp, sack, network, dscp, ecn))
}

/// Drives the same gateway directly, in the call order that the trait `Machine` requires.
fn driven(gateway: &Gateway, arrivals: Vec<(Time, PortId, Seen)>, end: Time) -> Vec<Passage> {
    let (config, policies) = (&gateway.config, gateway.policies.clone());
    let mut machine = tidegate_gateway::Gateway::new(config, policies, Time::ZERO);
    let mut left = Vec::new();
    let mut drain = |machine: &mut tidegate_gateway::Gateway, now| {
        for port in [LAN, WAN] {
            while let Some(id) = machine.poll_transmit(now, port) {
                let pool = machine.pool();
                left.push((now, port, said(&(pool[&id], pool.sack(&id)))));
                pool.release(id);
            }
        }
    };
    let (mut arrivals, mut timeout) = (arrivals.into_iter().peekable(), None);
    loop {
        let arrival = arrivals.peek().map(|(at, ..)| *at);
        let Some(now) = [arrival, timeout].into_iter().flatten().min().filter(|now| *now <= end)
        else {
            break;
        };
        if let Some((_, port, (packet, sack))) = arrivals.next_if(|(at, ..)| *at == now) {
            let id = machine.pool().insert(packet).unwrap();
            machine.pool().set_sack(&id, sack);
            machine.handle_packet(now, port, id);
        }
        drain(&mut machine, now);
        timeout = machine.poll_timeout(now).map(|at| at.max(now));
    }
    in_order(left)
}

/// Catches: a simulator that does not call the gateway at its timeouts; SACK blocks lost on
/// departure, or timestamps lost on arrival. A simulator that drains only one port would run for
/// ever.
#[test]
fn packets_depart_from_a_simulated_gateway_as_from_one_driven_directly() {
    for (name, gateway) in gateways() {
        let scenario = scenario(gateway.clone());
        let lan = |end: End| (end, End { node: "gateway".into(), side: Side::Lan });
        let wan = |end: End| (end, End { node: "gateway".into(), side: Side::Wan });
        let (outside_lan, inside_lan) = lan(End::of("lan"));
        let (outside_wan, inside_wan) = wan(End::of("wan"));
        let way = |from: &End, to: &End| Way { from: from.clone(), to: to.clone() };
        let ways = [
            way(&outside_lan, &inside_lan),
            way(&outside_wan, &inside_wan),
            way(&inside_lan, &outside_lan),
            way(&inside_wan, &outside_wan),
        ];
        let [from_lan, from_wan, to_lan, to_wan] = captured(&scenario, ways);
        let both = |lan: &[Record], wan: &[Record]| {
            let lan = lan.iter().map(passage(LAN));
            in_order(lan.chain(wan.iter().map(passage(WAN))).collect())
        };
        let arrivals = both(&from_lan, &from_wan);
        let left = both(&to_lan, &to_wan);
        let left: Vec<_> = left.iter().map(|(at, port, it)| (*at, *port, said(it))).collect();
        let expected = driven(&gateway, arrivals, Time::ZERO + scenario.run.duration);
        assert!(left.len() > 1_000, "{name}: {}", left.len());
        let differs = left.iter().zip(&expected).find(|(left, expected)| left != expected);
        assert_eq!(differs, None, "{name}");
        assert_eq!(left.len(), expected.len(), "{name}");
    }
}

fn gateways() -> Vec<(String, Gateway)> {
    let gateway =
        |config, policy| Gateway { config, policies: PolicySet::new(vec![policy]).unwrap() };
    let shape = |allocation: &str, filter| {
        let queue = spec("\"per-flow\"");
        policy(
            filter,
            Action::Shape { conditioning: conditioning(allocation), queue, ack_control: None },
        )
    };
    let mut all: Vec<_> = AllocationSpec::NAMES
        .iter()
        .map(|name| ((*name).to_owned(), gateway(config(), shape(name, Filter::default()))))
        .collect();
    let exceed = Exceed::Mark { in_profile: Some(10), out_of_profile: 14 };
    let mark = Action::Police { conditioning: conditioning("logical-partitions"), exceed };
    all.push(("police-mark".into(), gateway(config(), policy(Filter::default(), mark))));
    let tcp = Filter { protocol: vec![Range { first: 6, last: 6 }], ..Filter::default() };
    let link = GatewayConfig {
        rate: [Some(Rate::from_mbps(2)), Some(Rate::from_mbps(6))],
        overhead: Overhead { per_packet: 18, min: 64, atm: true, ..Overhead::default() },
        shaping_interval: Duration::from_millis(15),
        ..config()
    };
    all.push(("link, coarse timer".into(), gateway(link, shape("drr", tcp))));
    all
}

fn config() -> GatewayConfig {
    GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: spec("\"per-flow\""),
        packets: 4_096,
        flows: 1_024,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    }
}

fn spec<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn policy(filter: Filter, action: Action) -> Policy {
    Policy {
        name: "all".into(),
        priority: 0,
        filter,
        action,
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    }
}

fn conditioning(allocation: &str) -> Conditioning {
    let peak = Some(Rate::from_mbps(20));
    let profile = Profile::new(Rate::from_mbps(4), peak, Bytes(20_000), Bytes(1_514)).unwrap();
    let allocation = spec(&format!("{allocation:?}"));
    Conditioning { profile, allocation, weights: Vec::new(), fair_between: Default::default() }
}
