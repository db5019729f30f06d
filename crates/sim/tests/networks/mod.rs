//! Networks and captures that several tests use.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Rate;
use tidegate_core::link::LinkConfig;
use tidegate_sim::scenario::{
    End, Host, Kind, Link, Node, NodeKind, Pair, Probe, Run, Scenario, Start, Traffic, Way,
};
use tidegate_sim::{Results, Simulation};
use tidegate_wire::pcap::{Reader, Record};

/// Runs a scenario. Panics if the scenario has errors.
pub(crate) fn run(scenario: &Scenario) -> Results {
    let simulation = Simulation::new(scenario).unwrap_or_else(|problems| panic!("{problems:?}"));
    simulation.run(|_| ControlFlow::Continue(())).unwrap_or_else(|stopped| panic!("{stopped}"))
}

/// A dumbbell: pairs of hosts on both sides of a link of 20 Mbit/s and 10 ms, with a probe of its
/// queue. The traffic of all pairs is one group.
pub(crate) fn dumbbell(pairs: usize, kind: Kind) -> Scenario {
    let node = |name: String, kind| Node { name, kind };
    let host = || NodeKind::Host(Host::default());
    let end = |node: &str| End::of(node);
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
    let start = Start::Between(Duration::ZERO, Duration::from_millis(100));
    let pairs = (0..pairs).map(pair).collect();
    Scenario {
        run: Run { duration: Duration::from_secs(2), ..Run::default() },
        nodes,
        links,
        traffic: vec![Traffic { name: "all".into(), kind, pairs, start, ..Traffic::default() }],
        probes: vec![Probe::Queue(Way { from: end("l"), to: end("r") })],
        changes: Vec::new(),
    }
}

/// A capture file in memory, which the test reads after the run.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs `scenario` and returns the frames that arrived over each link direction of `ways`.
pub(crate) fn captured<const N: usize>(scenario: &Scenario, ways: [Way; N]) -> [Vec<Record>; N] {
    let mut simulation = Simulation::new(scenario).expect("a capture");
    let files = ways.map(|way| {
        let file = Shared::default();
        assert!(simulation.capture(&way, Box::new(file.clone())));
        file
    });
    simulation.run(|_| ControlFlow::Continue(())).expect("a capture");
    files.map(|file| {
        let bytes = file.0.lock().expect("a capture");
        Reader::new(&bytes[..]).expect("a capture").map(|record| record.expect("a frame")).collect()
    })
}
