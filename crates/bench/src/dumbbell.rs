//! Greedy connections over one bottleneck: what the speed of simulators is compared by.
//!
//! `dumbbell [FLOWS] [SECONDS] [Mbit/s] [traces]`: every flow has hosts of its own on either side of
//! a link with a round-trip time of 50 ms and a buffer of that time; access links have ten times its
//! rate. Packets have 1,500 bytes from the IP header on. With `traces` everything there is to record
//! is recorded.

use std::ops::ControlFlow;
use std::time::Duration;

use tidegate_core::link::LinkConfig;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::tcp::{Config, Profile};
use tidegate_core::{Bytes, Rate};
use tidegate_sim::Simulation;
use tidegate_sim::scenario::{
    End, Host, Kind, Link, Node, NodeKind, Pair, Probe, Run, Scenario, Start, Traffic, Way,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default| args.get(n).and_then(|it| it.parse().ok()).unwrap_or(default);
    let (flows, seconds, mbps) = (number(0, 100), number(1, 30), number(2, 100));
    let traces = args.get(3).is_some_and(|it| it == "traces");
    let scenario = dumbbell(flows, seconds, mbps, traces);
    let simulation = Simulation::new(&scenario).unwrap_or_else(|problems| panic!("{problems:?}"));
    let results = simulation.run(|_| ControlFlow::Continue(()));
    let results = results.unwrap_or_else(|stopped| panic!("{stopped}"));
    let table = |name| results.table(name).unwrap_or_else(|| panic!("no table {name}"));
    println!(
        "goodput {:.2} Mbit/s, {} packets over the bottleneck, {} dropped, {} timeouts, {} packet-hops, {} events, {:016x}",
        table("groups").real("goodput_bps")[0] / 1e6,
        table("links").whole("delivered_packets")[0],
        table("links").whole("dropped_packets")[0],
        table("flows").whole("timeouts").iter().sum::<u64>(),
        results.packet_hops,
        results.events,
        results.fingerprint,
    );
}

fn dumbbell(flows: u64, seconds: u64, mbps: u64, traces: bool) -> Scenario {
    let node = |name: String, kind| Node { name, kind };
    let (rate, access) = (Rate::from_mbps(mbps), Rate::from_mbps(10 * mbps));
    let link = |a: &str, b: &str, rate, ms, limit| {
        let config = LinkConfig {
            delay: Duration::from_millis(ms),
            rate: Some(rate),
            queue: fifo(limit),
            ..LinkConfig::default()
        };
        Link::new(End::of(a), End::of(b), config)
    };
    // 50 ms of the rate.
    let buffer = Bytes(mbps * 1_000_000 / 8 / 20);
    let mut nodes = vec![node("l".into(), NodeKind::Router), node("r".into(), NodeKind::Router)];
    let mut links = vec![link("l", "r", rate, 21, buffer)];
    for n in 0..flows {
        for (host, router) in [(format!("s{n}"), "l"), (format!("d{n}"), "r")] {
            links.push(link(&host, router, access, 2, Bytes(1 << 24)));
            nodes.push(node(host, NodeKind::Host(Host::default())));
        }
    }
    let pair = |n| Pair { from: format!("s{n}"), to: format!("d{n}") };
    let traffic = Traffic {
        name: "greedy".into(),
        kind: Kind::Greedy,
        pairs: (0..flows).map(pair).collect(),
        start: Start::Between(Duration::ZERO, Duration::from_secs(1)),
        ..Traffic::default()
    };
    let bottleneck = Way { from: End::of("l"), to: End::of("r") };
    let group = || traffic.name.clone();
    let probes = match traces {
        true => vec![
            Probe::Queue(bottleneck),
            Probe::Throughput { traffic: group() },
            Probe::Window { traffic: group(), flows: Vec::new() },
        ],
        false => Vec::new(),
    };
    let run = Run {
        duration: Duration::from_secs(seconds),
        sample: traces.then_some(Duration::from_millis(100)),
        link_header: 0,
        tcp: Config::new(Profile::Ns2),
        ..Run::default()
    };
    Scenario { run, nodes, links, traffic: vec![traffic], probes }
}

fn fifo(bytes: Bytes) -> QdiscSpec {
    let mut fifo = QdiscSpec::DropTail(Default::default());
    if let QdiscSpec::DropTail(config) = &mut fifo {
        config.limit = bytes;
    }
    fifo
}
