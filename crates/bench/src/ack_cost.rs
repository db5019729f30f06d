//! Processor time of a data packet with its ACK on the live gateway: under PostACK (the gateway
//! holds ACKs in place of data), relative to a queue for each flow without ACK control.
//!
//! The load is the kernel's TCP in the lab. Both variants shape the same traffic. The cost of a
//! packet depends on the rate, so the benchmark checks that both variants forward equally many
//! packets.

use std::time::Duration;

use tidegate_e2e::{Lab, Process, Testbed, now, pause, until};

use crate::many_connections;
use crate::number::{median, real};
use crate::report::{Line, Report};
use crate::usage::{softirq_threads, time_of};

/// A load of TCP transfers. At a low rate, each packet departs at its own time, and the gateway
/// polls the clock until then. At a high rate, several packets depart together.
struct Transfers {
    mbps: u32,
    flows: usize,
    /// Path delay in each direction.
    delay: &'static str,
}

const LOADS: [Transfers; 2] = [
    Transfers { mbps: 50, flows: 4, delay: "26 ms" },
    Transfers { mbps: 300, flows: 8, delay: "5 ms" },
];

const BACKENDS: [&str; 2] = ["af-packet", "af-xdp"];

/// Options of the transfers, and the direction of their data through the gateway.
const WAYS: [(&[&str], &str); 2] = [(&["--upload"], "up"), (&[], "down")];

const CONTROLS: [&str; 2] = ["none", "postack"];

/// Number of measurements of each variant. The variants are measured alternately.
const ROUNDS: usize = 3;

/// Limit for the cost of a packet, relative to a queue for each flow without ACK control.
const COST: f64 = 1.25;

/// Limit for the number of packets that one variant forwards, relative to the other variant. Above
/// this ratio, the costs are not comparable.
const FORWARDED: f64 = 1.05;

const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(4);

/// Duration of the transfers, much longer than the measurement, because the processor time of a
/// thread cannot be read after its end.
const LASTS: &str = "60 s";

const LIMIT: Duration = Duration::from_secs(20);

const FRAME: u64 = 1_514;

/// The results of one run.
#[derive(Clone, Copy)]
struct Sample {
    /// Processor time in nanoseconds for each data packet: of the gateway with the softirq threads,
    /// and of the whole machine with hosts and network.
    gateway: f64,
    all: f64,
    mbps: f64,
}

/// Adds the costs to `report`, for the variants whose name contains all words of `only`.
pub(crate) fn measure(report: &mut Report, only: &str) -> anyhow::Result<()> {
    report.section("Processor time of a data packet and its ACK, PostACK to a queue for each flow");
    let wanted = |what: &str| only.split_whitespace().all(|word| what.contains(word));
    for load in LOADS {
        for backend in BACKENDS {
            for way in WAYS {
                let what = format!("{backend}, {}, {} Mbit/s", way.1, load.mbps);
                if !wanted(&what) {
                    continue;
                }
                let mut samples: [Vec<Sample>; 2] = Default::default();
                for _ in 0..ROUNDS {
                    for (control, samples) in CONTROLS.into_iter().zip(&mut samples) {
                        let Some(bed) = Testbed::new() else {
                            report.skip(
                                "ACK control; there are no network namespaces: run it as root",
                            );
                            return Ok(());
                        };
                        samples.push(sample(&bed, &load, backend, way, control)?);
                    }
                }
                compare(report, &what, &samples);
            }
        }
    }
    if wanted(many_connections::NAME) { many_connections::measure(report) } else { Ok(()) }
}

fn compare(report: &mut Report, what: &str, samples: &[Vec<Sample>; 2]) {
    let middle = |of: fn(&Sample) -> f64| {
        [0, 1].map(|control| median(samples[control].iter().map(of).collect()))
    };
    let [queued, controlled] = middle(|sample| sample.gateway);
    let [all_queued, all_controlled] = middle(|sample| sample.all);
    let [forwarded, forwarded_controlled] = middle(|sample| sample.mbps);
    report.add(Line {
        what: format!("{what}: of the gateway and softirqs"),
        value: controlled / queued,
        unit: "x",
        most: Some(COST),
        beside: format!(
            "{:.1} us, {:.1} us; with hosts and network {:.2} x",
            controlled / 1_000.0,
            queued / 1_000.0,
            all_controlled / all_queued
        ),
    });
    report.add(Line {
        what: format!("{what}: throughput with a queue for each flow, to PostACK"),
        value: forwarded / forwarded_controlled,
        unit: "x",
        most: Some(FORWARDED),
        beside: format!("{forwarded:.1} Mbit/s, {forwarded_controlled:.1} Mbit/s"),
    });
}

fn sample(
    bed: &Testbed,
    load: &Transfers,
    backend: &str,
    (words, direction): (&[&str], &str),
    control: &str,
) -> anyhow::Result<Sample> {
    let lab = Lab::up(bed, &topology(load, backend, control));
    let server = lab.traffic("far", &["serve", "--congestion", "cubic"]);
    until("the server to listen", LIMIT, || server.lines().pop());
    let fetch = ["fetch", "10.73.0.2:7000", "--congestion", "cubic", "--time", LASTS];
    let fetch = [&fetch[..], words].concat();
    let _transfers: Vec<Process> = (0..load.flows).map(|_| lab.traffic("near", &fetch)).collect();
    pause(WARM_UP);
    let gateway = [lab.processes("edge"), softirq_threads()].concat();
    let others = ["near", "far", Lab::NETWORK].map(|host| lab.processes(host)).concat();
    let look = || {
        let sent = lab.status("edge")[direction]["transmitted"]["bytes"].as_u64();
        anyhow::Ok((time_of(&gateway)?, time_of(&others)?, sent.unwrap_or_default()))
    };
    let (start, before) = (now(), look()?);
    pause(MEASURED);
    let (elapsed, after) = (start.elapsed(), look()?);
    let packets = real((after.2 - before.2) / FRAME);
    anyhow::ensure!(packets > 1_000.0, "only {packets} packets, {}", lab.status("edge"));
    let taken = real(after.0 - before.0);
    Ok(Sample {
        gateway: taken / packets,
        all: (taken + real(after.1 - before.1)) / packets,
        mbps: packets * real(FRAME) * 8.0 / elapsed.as_secs_f64() / 1e6,
    })
}

/// A lab topology of two hosts. The gateway at the first host shapes both directions.
fn topology(load: &Transfers, backend: &str, control: &str) -> String {
    let Transfers { mbps, delay, .. } = load;
    format!(
        r#"
offload = "wire"
[[host]]
name = "near"
gateway = "edge"
[[host]]
name = "far"
[[route]]
delay = "{delay}"
[[gateway]]
name = "edge"
inline = '''
[gateway]
lan = "lan"
wan = "wan"
backend = "{backend}"
[[policy]]
name = "all"
profile = {{ mean = "{mbps} Mbit/s", burst = "30 kB" }}
action = "shape"
allocation = "drr"
queue = {{ kind = "per-flow", limit = "32 MiB", flow_limit = "8 MiB" }}
ack_control = "{control}"
'''
"#
    )
}
