//! Processor time of a data packet and its ACK among ten thousand connections, on the live gateway.
//!
//! Across the test bed, between ends of our own TCP ([`connections`](crate::connections)). In it, whoever
//! sends a frame also does what the interface at the other end does with it: a gateway would be charged
//! with what hosts receive, and hosts with what its ports do. So each interface has a thread of the kernel
//! of its own, which does that, and those of the ports are counted with the gateway. Hosts and interfaces
//! stay off the processor of the gateway, or their timers would be charged to it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_e2e::{Host, Process, Testbed, now, pause, run, until};

use crate::live::{self, Forwarder, ourselves};
use crate::number::{median, real};
use crate::report::{Line, Report};
use crate::usage::{softirq_threads, time_of};

/// Connections at once, and how few the cost among them is compared to.
const CROWD: u64 = 10_000;
const FEW: u64 = 100;

/// The rate they share, in Mbit/s.
const MBPS: u32 = 760;

/// Full segments that all have under way together: some 0.3 s at that rate. Of the crowd each has two.
const SEGMENTS: u64 = 20_000;

/// Most microseconds of a data packet with its ACK: then a core carries 750 Mbit/s.
const COST: f64 = 16.0;

/// How much more than with a queue for each flow it may be, and than among few.
const TO_QUEUE: f64 = 1.25;
const TO_FEW: f64 = 1.3;

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(4);

/// Opening connections takes a part of this.
const LASTS: &str = "60000";
const LIMIT: Duration = Duration::from_secs(50);

const FRAME: u64 = 1_514;
const FRAME_BITS: f64 = 1_514.0 * 8.0;

/// A pure ACK, with timestamps.
const ACK: u64 = 66;

/// What was measured of a run.
struct Sample {
    /// Nanoseconds for each data packet, of the forwarder, and of its interfaces and softirq threads.
    process: f64,
    interfaces: f64,
    mbps: f64,
    /// ACKs that came back, for each data packet.
    acks: f64,
    /// Of the segments sent, those that were sent before.
    again: f64,
}

/// Who forwards what.
#[derive(Clone, Copy)]
enum Kind {
    /// The loop and its ports alone; the sender's interface keeps the rate.
    Bare,
    /// The gateway, with so many connections and that signal.
    Gateway(u64, &'static str),
}

const KINDS: [Kind; 4] = [
    Kind::Bare,
    Kind::Gateway(CROWD, "none"),
    Kind::Gateway(CROWD, "postack"),
    Kind::Gateway(FEW, "postack"),
];

/// Adds what it takes to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let mut samples: [Vec<Sample>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (kind, samples) in KINDS.into_iter().zip(&mut samples) {
            let Some(bed) = Testbed::new() else {
                report.skip("a crowd; there are no network namespaces: run it as root");
                return Ok(());
            };
            let Some(sample) = sample(&bed, kind)? else {
                report.skip("a crowd; it takes two processors and threads of the kernel");
                return Ok(());
            };
            samples.push(sample);
        }
    }
    let middle = |of: fn(&Sample) -> f64| {
        [0, 1, 2, 3].map(|kind: usize| median(samples[kind].iter().map(of).collect()))
    };
    let process = middle(|sample| sample.process);
    let nanos = middle(|sample| sample.process + sample.interfaces);
    let crowd = nanos[2] / 1_000.0;
    let (mbps, acks) = (middle(|sample| sample.mbps), middle(|sample| sample.acks));
    let again = middle(|sample| sample.again)[2] * 100.0;
    // Receivers that get segments two at a time send half as many ACKs.
    let each = [0, 1, 2, 3].map(|kind: usize| nanos[kind] / (1.0 + acks[kind]) / 1_000.0);
    let at = |kind: usize| format!("{:.0} Mbit/s, {:.2} ACKs each", mbps[kind], acks[kind]);
    report.add(Line {
        what: format!("{NAME}: of the gateway and its ports"),
        value: crowd,
        unit: "us",
        most: Some(COST),
        beside: format!(
            "at {}, {again:.1} % sent again; {:.1} us the process; one core carries {:.0}",
            at(2),
            process[2] / 1_000.0,
            FRAME_BITS / crowd
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

/// What it is called.
pub(crate) const NAME: &str = "af-xdp, up, 10000 connections";

/// One run; `None` where interfaces cannot have threads, or there is but one processor.
fn sample(bed: &Testbed, kind: Kind) -> anyhow::Result<Option<Sample>> {
    let connections = if let Kind::Gateway(connections, _) = kind { connections } else { CROWD };
    let window = SEGMENTS / connections;
    prepare(bed);
    let forwarder = start(bed, kind)?;
    let its = forwarder.process().context("a forwarder of ours is a process")?;
    let Some((ports, hosts)) = threads(bed) else { return Ok(None) };
    let Some(elsewhere) = elsewhere(its)? else { return Ok(None) };
    let stay = |id: u32| {
        let id = id.to_string();
        run(Command::new("taskset").args(["-cp", &elsewhere, &id]), LIMIT);
        // Ahead of others, or there is no load while the machine is busy.
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
        anyhow::ensure!(flows >= connections, "only {flows} flows: {}", sender.said());
    }
    anyhow::ensure!(packets > 10_000, "only {packets} packets");
    let elapsed = after.0.duration_since(before.0);
    let [process, interfaces] =
        [0, 1].map(|part: usize| real(after.1[part] - before.1[part]) / real(packets));
    Ok(Some(Sample {
        process,
        interfaces,
        again: real(after.3[2] - before.3[2]) / real((after.3[1] - before.3[1]).max(1)),
        mbps: real(packets) * FRAME_BITS / elapsed.as_secs_f64() / 1e6,
        acks: real(acks) / real(packets),
    }))
}

fn start(bed: &Testbed, kind: Kind) -> anyhow::Result<Forwarder<'_>> {
    let Kind::Gateway(_, signal) = kind else {
        let rate = format!("tbf rate {MBPS}mbit burst 64kb limit 64mb");
        bed.lan.run(&format!("tc qdisc replace dev eth0 root {rate}"));
        return live::ours(bed, "bare");
    };
    let policies = format!(
        "packets = 65536\n[[policy]]\nname = \"all\"\naction = \"shape\"\nallocation = \"drr\"\n\
         profile = {{ mean = \"{MBPS} Mbit/s\", burst = \"64 KiB\" }}\nsignal = \"{signal}\"\n\
         queue = {{ kind = \"per-flow\", limit = \"64 MiB\" }}\n"
    );
    Ok(Forwarder::Gateway(bed.gateway("af-xdp", &policies)))
}

/// What an end of connections said last: how many are open, segments it sent, and sent again.
fn progress(end: &Process) -> Option<[u64; 3]> {
    let line = end.lines().pop()?;
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

/// What interfaces of their kind need to have threads; and hosts take in what they receive packet by packet,
/// so that most data packets have an ACK of their own.
fn prepare(bed: &Testbed) {
    for host in [&bed.lan, &bed.wan] {
        host.run("ip link set dev eth0 gro_max_size 1514");
    }
    for port in ["lan", "wan"] {
        bed.middle.run(&format!("ethtool -K {port} tso off"));
    }
}

/// Gives each interface a thread; those of the ports, and those of the hosts, if that can be.
fn threads(bed: &Testbed) -> Option<(Vec<u32>, Vec<u32>)> {
    let give = |host: &Host, interface: &str| -> Vec<u32> {
        let before = threads_of(interface);
        // What is at /sys may be the interfaces of the machine.
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

/// The kernel's threads of interfaces of that name, wherever they are.
fn threads_of(interface: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_one = |id: &u32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm"));
        name.is_ok_and(|name| name.starts_with(&format!("napi/{interface}-")))
    };
    ids.filter(is_one).collect()
}

/// The processors that process `id` does not stay on, as `taskset` takes them; `None` if there are none.
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
