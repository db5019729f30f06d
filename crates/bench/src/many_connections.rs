//! Processor time of a data packet and its ACK on the live gateway, among ten thousand connections.
//!
//! The hosts of the test bed use Tidegate's own TCP ([`connections`](crate::connections)). On a
//! virtual cable, the kernel usually runs the reception of a frame in the process that sends it.
//! Then the gateway would be charged for reception at the hosts, and the hosts for reception at the
//! gateway. So each interface gets its own kernel thread for reception; the threads of the
//! gateway's ports count for the gateway. The hosts and their interfaces run on other processors
//! than the gateway, so that their timers are not charged to the gateway.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_e2e::{Host, Process, Testbed, now, pause, run, until};

use crate::live::{self, Forwarder, ourselves};
use crate::number::{median, real};
use crate::report::{Line, Report};
use crate::usage::{softirq_threads, time_of};

/// Number of connections, and a smaller number to compare with.
const MANY: u64 = 10_000;
const FEW: u64 = 100;

/// The total rate in Mbit/s.
const MBPS: u32 = 760;

/// Full segments in flight on all connections together: about 0.3 s at this rate, or two for each
/// of ten thousand connections.
const SEGMENTS: u64 = 20_000;

/// Limit in microseconds for a data packet with its ACK. With this cost, one processor carries 750
/// Mbit/s.
const COST: f64 = 16.0;

/// Limits for the relative cost of a data packet with its ACK: compared with a queue for each flow
/// without ACK control, and compared with few connections.
const TO_QUEUE: f64 = 1.25;
const TO_FEW: f64 = 1.3;

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(4);

/// Time in milliseconds for which both ends run, including the opening of the connections. Then the
/// limit of each wait.
const LASTS: &str = "60000";
const LIMIT: Duration = Duration::from_secs(50);

const FRAME: u64 = 1_514;
const FRAME_BITS: f64 = 1_514.0 * 8.0;

/// Length in bytes of a frame with a pure ACK with timestamps.
const ACK: u64 = 66;

/// The measurements of one run.
struct RunResult {
    /// Processor time in nanoseconds for each data packet: of the forwarder's process, and of its
    /// interfaces' and softirq threads.
    process: f64,
    interfaces: f64,
    mbps: f64,
    /// Number of received ACKs for each data packet.
    acks: f64,
    /// Retransmitted segments as a fraction of all sent segments.
    again: f64,
}

/// The kind of forwarder.
#[derive(Clone, Copy)]
enum ForwarderKind {
    /// Only the loop and its ports, without a gateway. A shaper at the sender's interface limits
    /// the rate.
    Bare,
    /// The gateway, with this many connections and this ACK control.
    Gateway(u64, &'static str),
}

const KINDS: [ForwarderKind; 4] = [
    ForwarderKind::Bare,
    ForwarderKind::Gateway(MANY, "none"),
    ForwarderKind::Gateway(MANY, "postack"),
    ForwarderKind::Gateway(FEW, "postack"),
];

/// Adds the measurements to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut samples: [Vec<RunResult>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (kind, samples) in KINDS.into_iter().zip(&mut samples) {
            let Some(bed) = Testbed::new() else {
                report.skip("10,000 connections; there are no network namespaces: run it as root");
                return Ok(());
            };
            let Some(sample) = sample(&bed, kind)? else {
                report
                    .skip("10,000 connections; it takes two processors and threads of the kernel");
                return Ok(());
            };
            samples.push(sample);
        }
    }
    let middle = |of: fn(&RunResult) -> f64| {
        [0, 1, 2, 3].map(|kind: usize| median(samples[kind].iter().map(of).collect()))
    };
    let process = middle(|sample| sample.process);
    let nanos = middle(|sample| sample.process + sample.interfaces);
    let many = nanos[2] / 1_000.0;
    let (mbps, acks) = (middle(|sample| sample.mbps), middle(|sample| sample.acks));
    let again = middle(|sample| sample.again)[2] * 100.0;
    // A receiver that gets two segments at once sends one ACK for both. So the comparison divides
    // the cost by the number of packets, data and ACKs together.
    let each = [0, 1, 2, 3].map(|kind: usize| nanos[kind] / (1.0 + acks[kind]) / 1_000.0);
    let at = |kind: usize| format!("{:.0} Mbit/s, {:.2} ACKs each", mbps[kind], acks[kind]);
    report.add(Line {
        what: format!("{NAME}: of the gateway and its ports"),
        value: many,
        unit: "us",
        most: Some(COST),
        beside: format!(
            "at {}, {again:.1} % retransmitted; {:.1} us in the process; one core carries {:.0} Mbit/s",
            at(2),
            process[2] / 1_000.0,
            FRAME_BITS / many
        ),
    });
    let to = [
        ("of a forwarder that does nothing else", 0, None),
        ("with a queue for each flow", 1, Some(TO_QUEUE)),
        (&format!("with {FEW} connections"), 3, Some(TO_FEW)),
    ];
    for (what, kind, most) in to {
        report.add(Line {
            what: format!("{NAME}: a packet, data or ACK, to that {what}"),
            value: each[2] / each[kind],
            unit: "x",
            most,
            beside: format!("{:.1} us, {:.1} us at {}", each[2], each[kind], at(kind)),
        });
    }
    Ok(())
}

/// Name of the section.
pub(crate) const NAME: &str = "af-xdp, up, 10000 connections";

/// Makes one run. Returns `None` if the kernel gives interfaces no threads, or if there is only one
/// processor.
fn sample(bed: &Testbed, kind: ForwarderKind) -> anyhow::Result<Option<RunResult>> {
    let connections =
        if let ForwarderKind::Gateway(connections, _) = kind { connections } else { MANY };
    let window = SEGMENTS / connections;
    prepare(bed);
    let forwarder = start(bed, kind)?;
    let its = forwarder.process().context("a forwarder of ours is a process")?;
    let Some((ports, hosts)) = threads(bed) else { return Ok(None) };
    let Some(elsewhere) = elsewhere(its)? else { return Ok(None) };
    let stay = |id: u32| {
        let id = id.to_string();
        run(Command::new("taskset").args(["-cp", &elsewhere, &id]), LIMIT);
        // With this priority, the load is constant even on a busy machine.
        run(Command::new("renice").args(["-n", "-15", "-p", &id]), LIMIT);
    };
    ports.iter().chain(&hosts).for_each(|id| stay(*id));
    let end = |host: &Host, end| -> anyhow::Result<Process> {
        let words = ["connections", end, &connections.to_string(), &window.to_string(), LASTS];
        let process = Process::start(&mut ourselves(host, &words)?);
        stay(process.id());
        Ok(process)
    };
    let receiver = end(&bed.wan, "receiver")?;
    until("the receiver", LIMIT, || receiver.lines().pop());
    let sender = end(&bed.lan, "sender")?;
    until("all connections", LIMIT, || progress(&sender).filter(|it| it[0] == connections));
    pause(WARM_UP);
    let interfaces = [ports, softirq_threads()].concat();
    let look = || {
        let crossed = [&bed.wan, &bed.lan].map(|host| host.received_bytes("eth0"));
        let segments = progress(&sender).context("the sender says what it sent")?;
        anyhow::Ok((now(), [time_of(&[its])?, time_of(&interfaces)?], crossed, segments))
    };
    let before = look()?;
    pause(MEASURED);
    let after = look()?;
    let packets = (after.2[0] - before.2[0]) / FRAME;
    let acks = (after.2[1] - before.2[1]) / ACK;
    if let Forwarder::Gateway(gateway) = &forwarder {
        let flows = gateway.status()["flows"].as_u64().unwrap_or_default();
        anyhow::ensure!(flows >= connections, "only {flows} flows: {}", sender.all_output());
    }
    anyhow::ensure!(packets > 10_000, "only {packets} packets");
    let elapsed = after.0.duration_since(before.0);
    let [process, interfaces] =
        [0, 1].map(|part: usize| real(after.1[part] - before.1[part]) / real(packets));
    Ok(Some(RunResult {
        process,
        interfaces,
        again: real(after.3[2] - before.3[2]) / real((after.3[1] - before.3[1]).max(1)),
        mbps: real(packets) * FRAME_BITS / elapsed.as_secs_f64() / 1e6,
        acks: real(acks) / real(packets),
    }))
}

fn start(bed: &Testbed, kind: ForwarderKind) -> anyhow::Result<Forwarder<'_>> {
    let ForwarderKind::Gateway(_, control) = kind else {
        let rate = format!("tbf rate {MBPS}mbit burst 64kb limit 64mb");
        bed.lan.run(&format!("tc qdisc replace dev eth0 root {rate}"));
        return live::ours(bed, "bare");
    };
    let policies = format!(
        "packets = 65536\n[[policy]]\nname = \"all\"\naction = \"shape\"\nallocation = \"drr\"\n\
         profile = {{ mean = \"{MBPS} Mbit/s\", burst = \"64 KiB\" }}\nack_control = \"{control}\"\n\
         queue = {{ kind = \"per-flow\", limit = \"64 MiB\" }}\n"
    );
    Ok(Forwarder::Gateway(bed.gateway("af-xdp", &policies)))
}

/// The last line that one end printed: number of open connections, of sent segments, and of
/// retransmissions.
fn progress(end: &Process) -> Option<[u64; 3]> {
    let line = end.lines().pop()?;
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

/// Prepares interfaces. Hosts receive frames one by one, so that most data packets get their
/// own ACK.
fn prepare(bed: &Testbed) {
    for host in [&bed.lan, &bed.wan] {
        host.run("ip link set dev eth0 gro_max_size 1514");
    }
    for port in ["lan", "wan"] {
        bed.middle.run(&format!("ethtool -K {port} tso off"));
    }
}

/// Gives each interface its own kernel thread for reception. Returns the threads of the gateway's
/// ports and those of the hosts; `None` if the kernel does not support such threads.
fn threads(bed: &Testbed) -> Option<(Vec<u32>, Vec<u32>)> {
    let give = |host: &Host, interface: &str| -> Vec<u32> {
        let before = threads_of(interface);
        // The mounted `/sys` may show the interfaces of another namespace, so the command mounts it
        // again.
        let file = format!("/mnt/class/net/{interface}/threaded");
        let line = format!("mount -t sysfs none /mnt && echo 1 > {file}");
        run(host.command("unshare").args(["--mount", "sh", "-c", &line]), LIMIT);
        threads_of(interface).into_iter().filter(|id| !before.contains(id)).collect()
    };
    let ports = [give(&bed.middle, "lan"), give(&bed.middle, "wan")];
    let hosts = [give(&bed.lan, "eth0"), give(&bed.wan, "eth0")];
    let all = ports.iter().chain(&hosts).all(|threads| !threads.is_empty());
    all.then(|| (ports.concat(), hosts.concat()))
}

/// The reception threads of all interfaces with this name, in any namespace.
fn threads_of(interface: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_one = |id: &u32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm"));
        name.is_ok_and(|name| name.starts_with(&format!("napi/{interface}-")))
    };
    ids.filter(is_one).collect()
}

/// The processors that process `id` does not use, as a list for `taskset`; `None` if there is no
/// other processor.
fn elsewhere(id: u32) -> anyhow::Result<Option<String>> {
    let mut its = None;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        its = its.or_else(|| line.and_then(|line| line.trim().parse::<usize>().ok()));
    }
    let its = its.context("no thread of the forwarder stays on one processor")?;
    let all = std::thread::available_parallelism()?.get();
    let others: Vec<_> = (0..all).filter(|cpu| *cpu != its).map(|cpu| cpu.to_string()).collect();
    Ok((!others.is_empty()).then(|| others.join(",")))
}
