//! Greedy connections over one bottleneck: the scenario for the comparison of simulators.
//!
//! Every flow has its own hosts on both sides of a link. The round-trip time is 50 ms, and the
//! buffer holds 50 ms at the link's rate. Access links have ten times this rate. Packets have 1,500
//! bytes from the IP header on.

use std::fs;
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_core::link::LinkConfig;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::tcp::{Config, Profile};
use tidegate_core::{Bytes, Rate};
use tidegate_sim::scenario::{
    End, Host, Kind, Link, Node, NodeKind, Pair, Probe, Run, Scenario, Start, Traffic, Way,
};
use tidegate_sim::{Progress, Simulation};

use crate::cases::processor_time;
use crate::memory::held;

/// A dumbbell to simulate.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Dumbbell {
    /// Number of connections
    pub(crate) flows: u64,
    /// Virtual duration in seconds
    pub(crate) seconds: u64,
    /// Rate of the bottleneck in Mbit/s
    pub(crate) mbps: u64,
    /// Number of runs, each with another seed
    #[arg(default_value_t = 1)]
    pub(crate) times: u64,
    /// Record all time series, every 100 ms, and a capture of the bottleneck
    #[arg(long)]
    pub(crate) traces: bool,
}

/// Results over all runs.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    /// Processor time of the runs in nanoseconds, without building the network.
    pub(crate) nanos: u64,
    /// Arrivals of packets over links: each packet counts once for each link. Then the number of
    /// packets that arrived over the bottleneck.
    pub(crate) packet_hops: u64,
    pub(crate) packets: u64,
    pub(crate) timeouts: u64,
    /// Results of the last run only.
    pub(crate) goodput_bps: f64,
    pub(crate) fingerprint: String,
    /// Maximum number of packets in the network, in the last run.
    pub(crate) packets_inside: u64,
    /// Heap bytes in the last run: the scenario, the built network before the start, the maximum
    /// during the run, and the results.
    pub(crate) scenario_bytes: u64,
    pub(crate) built_bytes: u64,
    pub(crate) running_bytes: u64,
    pub(crate) results_bytes: u64,
    /// Peak memory of the process in bytes.
    pub(crate) peak_bytes: u64,
}

impl Dumbbell {
    /// Runs in a separate process.
    pub(crate) fn run_apart(&self) -> anyhow::Result<Outcome> {
        let numbers = [self.flows, self.seconds, self.mbps, self.times].map(|it| it.to_string());
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("dumbbell").args(numbers).args(self.traces.then_some("--traces"));
        let output = command.output()?;
        ensure!(output.status.success(), "{self:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Runs in this process.
    pub(crate) fn run(&self) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        for seed in 1..=self.times {
            self.once(seed, &mut outcome)?;
        }
        outcome.peak_bytes = peak()?;
        Ok(outcome)
    }

    fn once(&self, seed: u64, outcome: &mut Outcome) -> anyhow::Result<()> {
        let empty = held();
        let mut scenario = self.scenario();
        scenario.run.seed = seed;
        outcome.scenario_bytes = held() - empty;
        let simulation = Simulation::new(&scenario).map_err(|it| anyhow!("{it:?}"))?;
        outcome.built_bytes = held() - empty;
        (outcome.running_bytes, outcome.packets_inside) = (0, 0);
        let look = |progress: Progress| {
            outcome.running_bytes = outcome.running_bytes.max(held() - empty);
            outcome.packets_inside = outcome.packets_inside.max(progress.packets);
            ControlFlow::Continue(())
        };
        let before = processor_time()?;
        let results = simulation.run(look)?;
        outcome.nanos += processor_time()? - before;
        outcome.results_bytes = held() - empty - outcome.scenario_bytes;
        let table = |name| results.table(name).context("a table is missing");
        outcome.packet_hops += results.packet_hops;
        outcome.packets += table("links")?.whole("delivered_packets")[0];
        outcome.timeouts += table("flows")?.whole("timeouts").iter().sum::<u64>();
        outcome.goodput_bps = table("groups")?.real("goodput_bps")[0];
        outcome.fingerprint = format!("{:016x}", results.fingerprint);
        Ok(())
    }

    fn scenario(&self) -> Scenario {
        let Self { flows, seconds, mbps, traces, .. } = *self;
        let node = |name: String, kind| Node { name, kind };
        let (rate, access) = (Rate::from_mbps(mbps), Rate::from_mbps(10 * mbps));
        let like = |rate, ms, limit| {
            Arc::new(LinkConfig {
                delay: Duration::from_millis(ms),
                rate: Some(rate),
                queue: fifo(limit),
                ..LinkConfig::default()
            })
        };
        let link = |a: &str, b: &str, like: &Arc<LinkConfig>| {
            Link::new(End::of(a), End::of(b), Arc::clone(like))
        };
        // The bytes of 50 ms at the rate of the bottleneck.
        let buffer = Bytes(mbps * 1_000_000 / 8 / 20);
        let mut nodes =
            vec![node("l".into(), NodeKind::Router), node("r".into(), NodeKind::Router)];
        let mut links = vec![link("l", "r", &like(rate, 21, buffer))];
        let near = like(access, 2, Bytes(1 << 24));
        let more = 2 * usize::try_from(flows).unwrap_or(0);
        nodes.reserve_exact(more);
        links.reserve_exact(more);
        for n in 0..flows {
            for (host, router) in [(format!("s{n}"), "l"), (format!("d{n}"), "r")] {
                links.push(link(&host, router, &near));
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
        Scenario { run, nodes, links, traffic: vec![traffic], probes, ..Scenario::default() }
    }
}

fn fifo(bytes: Bytes) -> QdiscSpec {
    let mut fifo = QdiscSpec::DropTail(Default::default());
    if let QdiscSpec::DropTail(config) = &mut fifo {
        config.limit = bytes;
    }
    fifo
}

/// Peak memory of this process in bytes.
fn peak() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(1_024 * kib.context("/proc/self/status has no VmHWM")?)
}
