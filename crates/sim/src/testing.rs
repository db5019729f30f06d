//! Small networks for tests.

use std::time::Duration;

use tidegate_core::link::LinkConfig;
use tidegate_core::tcp::Config;
use tidegate_core::tcp::congestion::CongestionSpec;
use tidegate_core::{Bytes, Rate};

use crate::scenario::{
    End, Host, Kind, Link, Node, NodeKind, Overflow, Pair, Probe, Run, Scenario, Side, Start,
    Traffic, Way,
};

/// A dumbbell: pairs of hosts on both sides of a link of 20 Mbit/s and 10 ms, with a probe of its
/// queue. The traffic of all pairs is one group.
pub(crate) fn dumbbell(pairs: usize, kind: Kind) -> Scenario {
    let node = |name: String, kind| Node { name, kind };
    let host = || NodeKind::Host(Host::default());
    let end = |node: &str| End { node: node.to_owned(), side: Side::Only };
    let access = LinkConfig { rate: Some(Rate::from_mbps(1_000)), ..LinkConfig::default() };
    let delay = Duration::from_millis(10);
    let middle = LinkConfig { rate: Some(Rate::from_mbps(20)), delay, ..LinkConfig::default() };
    let mut nodes = vec![node("l".into(), NodeKind::Router), node("r".into(), NodeKind::Router)];
    let mut links = vec![Link::new(end("l"), end("r"), middle)];
    for n in 0..pairs {
        for (host_name, router) in [(format!("s{n}"), "l"), (format!("d{n}"), "r")] {
            links.push(Link::new(end(&host_name), end(router), access.clone()));
            nodes.push(node(host_name, host()));
        }
    }
    let pair = |n| Pair { from: format!("s{n}"), to: format!("d{n}") };
    let between = Start::Between(Duration::ZERO, Duration::from_millis(100));
    Scenario {
        run: Run { duration: Duration::from_secs(2), ..Run::default() },
        nodes,
        links,
        traffic: vec![Traffic {
            name: "all".into(),
            kind,
            pairs: (0..pairs).map(pair).collect(),
            start: between,
            ..Traffic::default()
        }],
        probes: vec![Probe::Queue(Way { from: end("l"), to: end("r") })],
        changes: Vec::new(),
    }
}

/// A [`dumbbell`] whose receivers `d0`, `d1`, … are relays. They forward the traffic to `e0`, `e1`,
/// … through a link of 10 Mbit/s and 10 ms.
pub(crate) fn relayed(pairs: usize, kind: Kind, buffer: Bytes) -> Scenario {
    let mut scenario = dumbbell(pairs, kind);
    let node = |name: String, kind| Node { name, kind };
    let end = |node: &str| End { node: node.to_owned(), side: Side::Only };
    let delay = Duration::from_millis(10);
    let slower = LinkConfig { rate: Some(Rate::from_mbps(10)), delay, ..LinkConfig::default() };
    scenario.nodes.push(node("q".into(), NodeKind::Router));
    scenario.links.push(Link::new(end("r"), end("q"), slower));
    for n in 0..pairs {
        scenario.links.push(Link::new(end("q"), end(&format!("e{n}")), LinkConfig::default()));
        scenario.nodes.push(node(format!("e{n}"), NodeKind::Host(Host::default())));
    }
    let pair = |n| Pair { from: format!("d{n}"), to: format!("e{n}") };
    scenario.traffic.push(Traffic {
        name: "onward".into(),
        kind: Kind::Relay { of: "all".into(), buffer },
        pairs: (0..pairs).map(pair).collect(),
        ..Traffic::default()
    });
    scenario
}

/// Congestion control Vegas with `alpha = beta = 1`.
fn vegas() -> CongestionSpec {
    let mut spec = CongestionSpec::VegasNs2(Default::default());
    if let CongestionSpec::VegasNs2(vegas) = &mut spec {
        vegas.beta = vegas.alpha;
    }
    spec
}

/// Sites with `clients` clients and an aggregate gateway each. The clients send to their gateway.
/// The gateways' aggregate connections share a link of 10 Mbit/s to one sink.
///
/// Source: `itcp`, section 5 (experiment E1). Differs: shorter delays.
pub(crate) fn gathered(sites: usize, clients: usize, kind: &Kind, overflow: Overflow) -> Scenario {
    let host = |name: String| Node { name, kind: NodeKind::Host(Host::default()) };
    let link = |a: &str, b: &str, mbps| {
        let (rate, delay) = (Some(Rate::from_mbps(mbps)), Duration::from_millis(1));
        Link::new(End::of(a), End::of(b), LinkConfig { rate, delay, ..LinkConfig::default() })
    };
    let mut nodes = vec![host("sink".into()), Node { name: "r".into(), kind: NodeKind::Router }];
    let mut links = vec![link("r", "sink", 10)];
    let (mut local, mut long) = (Vec::new(), Vec::new());
    for site in 0..sites {
        let gateway = format!("g{site}");
        links.push(link(&gateway, "r", 100));
        nodes.push(host(gateway.clone()));
        let clients: Vec<_> = (0..clients).map(|client| format!("c{site}-{client}")).collect();
        for client in &clients {
            links.push(link(client, &gateway, 100));
            nodes.push(host(client.clone()));
        }
        let pair = |from: &String| Pair { from: from.clone(), to: gateway.clone() };
        local.push(Traffic {
            name: format!("files{site}"),
            kind: kind.clone(),
            pairs: clients.iter().map(pair).collect(),
            start: Start::At(Duration::from_millis(100)),
            ..Traffic::default()
        });
        long.push(Traffic {
            name: format!("long{site}"),
            kind: Kind::Aggregate { of: vec![format!("files{site}")], overflow, weight: None },
            pairs: vec![Pair { from: gateway, to: "sink".into() }],
            tcp: Some(Config { congestion: vegas(), ..Config::default() }),
            ..Traffic::default()
        });
    }
    local.append(&mut long);
    let run = Run { duration: Duration::from_secs(10), ..Run::default() };
    Scenario { run, nodes, links, traffic: local, ..Scenario::default() }
}
