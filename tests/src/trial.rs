//! A trial measures the effect of ACK control (held ACKs or rewritten windows) on transfers between
//! two hosts with a round-trip time of 52 ms. The same topology runs in a lab and in the simulator.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::Lab;
use crate::measure::{float, jain};
use crate::process::{Process, run};
use crate::testbed::{Testbed, program};
use crate::traffic::Fetch;
use crate::wait::{now, pause};

/// The rate of the policy, in bits per second.
pub const RATE: f64 = 10e6;

/// The name of the gateway.
pub const GATEWAY: &str = "edge";
/// The host on the LAN side of the gateway.
pub const NEAR: &str = "near";
/// The host on the WAN side of the gateway, and its address.
pub const FAR: (&str, &str) = ("far", "10.73.0.2");

/// A time limit that no trial reaches.
const LIMIT: Duration = Duration::from_secs(90);

/// Counters of the kernel's TCP stack that grow if held ACKs harm the senders.
const COUNTERS: [&str; 5] =
    ["TCPTimeouts", "PAWSEstab", "TCPSpuriousRTOs", "TCPDSACKRecv", "TCPLostRetransmit"];

/// The parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The gateway's backend, as policy files name it.
    pub backend: &'a str,
    /// The ACK control: `none`, `postack` or `tcr`.
    pub ack_control: &'a str,
    /// The direction of the data: `up` from the LAN side, or `down` to the LAN side.
    pub way: &'a str,
    /// The congestion control of the senders.
    pub congestion: &'a str,
    /// Number of concurrent transfers.
    pub flows: u32,
    /// Limits windows to 64 KiB. Otherwise the kernel may enlarge windows.
    pub short_windows: bool,
    /// Length of the warm-up and of the measurement, in seconds.
    pub seconds: [u32; 2],
}

/// The results, measured after the warm-up.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Payload rate of all transfers together, in bits per second.
    pub goodput: f64,
    /// Jain's index of the rates of the transfers.
    pub jain: f64,
    /// Mean number of bytes that waited at the gateway.
    pub waiting: f64,
    /// Packets that the policy has dropped since the start.
    pub drops: u64,
    /// Number of hangs of the gateway. During a hang, frames bypass it.
    pub hangs: u64,
    /// Increase of the TCP counters since the start, summed over both hosts.
    pub counted: BTreeMap<String, u64>,
}

/// A topology of two hosts with a round-trip time of 52 ms. The gateway is in front of the first
/// host. Its policy limits each direction separately.
#[must_use]
pub fn topology(backend: &str, ack_control: &str, offload: &str) -> String {
    format!(
        r#"
offload = "{offload}"
[[host]]
name = "near"
gateway = "edge"
[[host]]
name = "far"
[[route]]
delay = "26 ms"
[[gateway]]
name = "edge"
inline = '''
[gateway]
lan = "lan"
wan = "wan"
backend = "{backend}"
[[policy]]
name = "all"
profile = {{ mean = "10 Mbit/s", burst = "15140 B" }}
action = "shape"
allocation = "drr"
queue = {{ kind = "per-flow", limit = "32 MiB", flow_limit = "8 MiB" }}
ack_control = "{ack_control}"
'''
"#
    )
}

impl Trial<'_> {
    /// Runs the trial in a lab, between real hosts.
    ///
    /// # Panics
    ///
    /// If a received byte is wrong, or the gateway reports an unexpected state.
    #[must_use]
    pub fn live(&self, bed: &Testbed) -> Findings {
        let lab = Lab::up(bed, &topology(self.backend, self.ack_control, "wire"));
        if self.short_windows {
            for host in [NEAR, FAR.0] {
                lab.shell(host, "echo 0 > /proc/sys/net/ipv4/tcp_window_scaling");
            }
        }
        let before = counted(&lab);
        let fetches = self.fetches(&lab);
        let [from, to] = self.seconds.map(|it| {
            pause(Duration::from_secs(it.into()));
            Look::at(&lab, self.way, &fetches.1)
        });
        let outcomes: Vec<_> = fetches.1.into_iter().map(|it| it.finish(LIMIT)).collect();
        let status = lab.status(GATEWAY);
        assert!(outcomes.iter().all(|it| it.intact), "{outcomes:?}, {status}");
        let is = status["ports"]["backend"].as_str().unwrap_or_default();
        assert!(is.starts_with(self.backend), "{status}");
        let after = counted(&lab);
        let grown = |(name, n): (&String, &u64)| (name.clone(), n - before[name]);
        let counted = after.iter().map(grown).collect();
        let hangs = status["hangs"].as_u64().unwrap_or(0);
        Findings { drops: drops(&status), hangs, counted, ..to.since(&from) }
    }

    /// Starts a server, and transfers from it that last one second longer than the trial. Returns
    /// both.
    fn fetches(&self, lab: &Lab) -> (Process, Vec<Fetch>) {
        let near = (NEAR, "10.73.0.1");
        let (from, to) = if self.way == "up" { (near, FAR) } else { (FAR, near) };
        let server = lab.serve(from.0, self.congestion);
        let time = format!("{} s", self.seconds[0] + self.seconds[1] + 1);
        let fetch = |_| lab.fetch(to.0, from.1, &["--time", &time]);
        (server, (0..self.flows).map(fetch).collect())
    }

    /// Runs the trial in the simulator, with the same topology.
    ///
    /// # Panics
    ///
    /// If the simulation fails.
    #[must_use]
    pub fn simulated(&self, bed: &Testbed) -> Findings {
        let file = bed.file(&format!("{}.toml", self.ack_control), &self.scenario());
        let text = run(Command::new(program()).arg("sim").arg(file).arg("--json"), LIMIT);
        let results: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        let number = |table: &str, at: usize, name: &str| {
            let value = results["tables"][table][at][name].as_f64();
            value.unwrap_or_else(|| panic!("no {table}.{name} in\n{text}"))
        };
        let mut rows = results["tables"]["aggregates"].as_array().into_iter().flatten();
        let at = rows.position(|row| row["direction"] == self.way).unwrap_or(0);
        let of = |name: &str| number("aggregates", at, name);
        Findings {
            goodput: number("groups", 0, "goodput_bps"),
            jain: number("groups", 0, "jain"),
            waiting: of("waited_mean_seconds") * of("conforming_bps") / 8.0,
            drops: results["tables"]["aggregates"][at]["dropped_packets"].as_u64().unwrap_or(0),
            hangs: 0,
            counted: BTreeMap::new(),
        }
    }

    /// The topology of the lab, with the additional tables that the simulator needs.
    fn scenario(&self) -> String {
        let Self { congestion, flows, seconds: [warmup, counted], .. } = self;
        let (from, to) = if self.way == "up" { (NEAR, FAR.0) } else { (FAR.0, NEAR) };
        let window = if self.short_windows {
            ", window_scaling = false, receive_window = \"65535 B\""
        } else {
            ""
        };
        format!(
            r#"{}
[run]
duration = "{} s"
warmup = "{warmup} s"
tcp = {{ profile = "linux", congestion = "{congestion}"{window} }}
[[traffic]]
name = "bulk"
kind = "greedy"
from = "{from}"
to = "{to}"
flows = {flows}
"#,
            topology(self.backend, self.ack_control, "wire"),
            warmup + counted,
        )
    }
}

/// Repeats `run` until `N` undisturbed runs were made, and returns their results.
///
/// A run is disturbed if a gateway hung during it. Only `hangs` decides this, so the measured
/// results do not influence which runs count.
///
/// # Panics
///
/// If four runs were disturbed.
pub fn undisturbed_runs<T: Debug, const N: usize>(
    run: impl Fn() -> T,
    hangs: impl Fn(&T) -> u64,
) -> [T; N] {
    const DISTURBED: usize = 4;
    let mut disturbed = Vec::new();
    [(); N].map(|()| {
        loop {
            let it = run();
            if hangs(&it) == 0 {
                return it;
            }
            disturbed.push(it);
            assert!(
                disturbed.len() < DISTURBED,
                "a gateway hung in {DISTURBED} runs: {disturbed:#?}"
            );
        }
    })
}

/// The total number of hangs of the gateways in `findings`.
#[must_use]
pub fn hangs(findings: &[Findings]) -> u64 {
    findings.iter().map(|it| it.hangs).sum()
}

/// Runs a function on all elements of `all` at the same time.
///
/// # Panics
///
/// If the function panics for an element.
pub fn side_by_side<T: Send, R: Send>(
    all: impl IntoIterator<Item = T>,
    what: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let what = &what;
    thread::scope(|scope| {
        let begun: Vec<_> = all.into_iter().map(|it| scope.spawn(move || what(it))).collect();
        let ended = begun.into_iter().map(ScopedJoinHandle::join);
        ended.map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The TCP counters that show harm to senders, summed over both hosts.
#[must_use]
pub fn counted(lab: &Lab) -> BTreeMap<String, u64> {
    let [near, far] = [NEAR, FAR.0].map(|host| lab.counters(host));
    let of = |it: &BTreeMap<String, u64>, name| it.get(name).copied().unwrap_or(0);
    COUNTERS.map(|name| (name.to_owned(), of(&near, name) + of(&far, name))).into()
}

/// Number of segments that either host rejected as old (RFC 7323, section 5) since the counters had
/// the values `earlier`. Returns zero if the gateway hung, because newer segments then bypassed the
/// gateway and overtook held segments.
#[must_use]
pub fn taken_for_old(lab: &Lab, earlier: &BTreeMap<String, u64>) -> u64 {
    let hung = lab.status(GATEWAY)["hangs"] != 0;
    if hung { 0 } else { counted(lab)["PAWSEstab"] - earlier["PAWSEstab"] }
}

/// Number of packets that policies dropped, according to `status`, a status of the gateway.
#[must_use]
pub fn drops(status: &Value) -> u64 {
    let aggregates = status["aggregates"].as_array().into_iter().flatten();
    let reasons = aggregates.filter_map(|it| it["drops"].as_object()).flatten();
    reasons.filter_map(|(_, n)| n.as_u64()).sum()
}

/// The measurements of a trial at one instant.
struct Look {
    at: Instant,
    fetched: Vec<(Duration, u64)>,
    /// Packets and bytes that have departed, and the sum of the packets' waiting times in seconds.
    left: [f64; 2],
    waited: f64,
}

impl Look {
    fn at(lab: &Lab, way: &str, fetches: &[Fetch]) -> Self {
        let fetched = fetches.iter().map(Fetch::progress).collect();
        let (at, status) = (now(), lab.status(GATEWAY));
        let mut aggregates = status["aggregates"].as_array().into_iter().flatten();
        let it = aggregates.find(|it| it["direction"] == way);
        let number = |it: &Value| it.as_f64().unwrap_or(0.0);
        let number = |path: &str| it.and_then(|it| it.pointer(path)).map_or(0.0, number);
        let left = ["/conforming/packets", "/conforming/bytes"].map(number);
        Self { at, fetched, left, waited: number("/waited_ns") / 1e9 }
    }

    /// The results of the time between the measurements `begin` and `self`.
    fn since(&self, begin: &Self) -> Findings {
        let rate = |((t1, b1), (t0, b0)): (&(Duration, u64), &(Duration, u64))| {
            float(8 * (b1 - b0)) / (*t1 - *t0).as_secs_f64()
        };
        let each: Vec<f64> = self.fetched.iter().zip(&begin.fetched).map(rate).collect();
        let [packets, bytes] = [0, 1].map(|n| self.left[n] - begin.left[n]);
        let seconds = (self.at - begin.at).as_secs_f64();
        Findings {
            goodput: each.iter().sum(),
            jain: jain(&each),
            // Little's law: the mean number of waiting bytes is the rate in bytes per second, times
            // the mean waiting time.
            waiting: bytes / seconds * (self.waited - begin.waited) / packets,
            drops: 0,
            hangs: 0,
            counted: BTreeMap::new(),
        }
    }
}
