//! Senders told by their ACKs: real TCP through a live gateway that holds them, 52 ms apart.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_e2e::{
    Fetch, Gateway, Lab, Process, Server, Testbed, on_each_backend, pause, run, until,
};

on_each_backend! {
    the_rate_is_held_and_next_to_nothing_waits
    one_connection_carries_data_both_ways
    datagrams_neither_starve_nor_close_the_gate
    a_transfer_outlives_what_held_its_acks
    every_kind_of_tcp_gets_through
}

const LIMIT: Duration = Duration::from_secs(90);

const RATE: f64 = 10e6;

/// Two hosts 52 ms apart, and before the first of them a gateway with a policy in each direction.
fn topology(backend: &str, signal: &str, offload: &str) -> String {
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
profile = {{ mean = "10 Mbit/s", burst = "30 kB" }}
action = "shape"
allocation = "drr"
queue = {{ kind = "per-flow", limit = "8 MiB", flow_limit = "4 MiB" }}
signal = "{signal}"
'''
"#
    )
}

/// A process that says a line when it is ready.
fn ready(process: Process) -> Process {
    until("a line", LIMIT, || process.lines().pop());
    process
}

/// What came of a run.
#[derive(Debug)]
struct Run {
    /// Bits of payload per second that crossed, all transfers together.
    goodput: f64,
    /// Mean of the bytes that waited, from the middle of the run on.
    waiting: f64,
    /// Packets that the policy dropped.
    drops: u64,
    /// Retransmission timers that expired, at both ends.
    timeouts: u64,
    /// Segments taken for old, at both ends (RFC 7323, section 5).
    paws: u64,
}

const SECONDS: u32 = 6;

/// Two transfers for a few seconds.
fn transfers(bed: &Testbed, backend: &str, signal: &str, upload: bool) -> Run {
    let lab = Lab::up(bed, &topology(backend, signal, "wire"));
    let _server = ready(lab.traffic("far", &["serve", "--congestion", "cubic"]));
    let before = both(&lab);
    let time = format!("{SECONDS} s");
    let words = ["fetch", "10.73.0.2:7000", "--congestion", "cubic", "--time", &time];
    let words = [&words[..], if upload { &["--upload"] } else { &[] }].concat();
    let fetches = [0, 1].map(|_| Fetch::of(lab.traffic("near", &words)));
    let way = usize::from(!upload);
    pause(Duration::from_secs(u64::from(SECONDS / 2)));
    let waits: Vec<f64> = (0..10).map(|_| waiting(&lab, ["up", "down"][way])).collect();
    let outcomes = fetches.map(|fetch| fetch.finish(LIMIT));
    assert!(outcomes.iter().all(|outcome| outcome.intact), "{outcomes:?}, {}", lab.status("edge"));
    let after = both(&lab);
    let grown = |name: &str| after[name].saturating_sub(before[name]);
    let status = lab.status("edge");
    assert!(status["ports"]["backend"].as_str().unwrap().starts_with(backend), "{status}");
    let dropped = |it: &serde_json::Value| -> u64 {
        it["drops"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
    };
    Run {
        goodput: outcomes.iter().map(|it| it.rate()).sum(),
        waiting: waits.iter().sum::<f64>() / 10.0,
        drops: status["aggregates"].as_array().unwrap().iter().map(dropped).sum(),
        timeouts: grown("TCPTimeouts"),
        paws: grown("PAWSEstab"),
    }
}

/// Bytes that wait in `direction` now.
fn waiting(lab: &Lab, direction: &str) -> f64 {
    let status = lab.status("edge");
    let mut all = status["aggregates"].as_array().unwrap().iter();
    let it = all.find(|it| it["direction"] == direction);
    it.map_or(0.0, |it| it["waiting"]["bytes"].as_f64().unwrap())
}

/// The counters of both ends, added up.
fn both(lab: &Lab) -> BTreeMap<String, u64> {
    let mut all = lab.counters("near");
    for (name, n) in lab.counters("far") {
        *all.entry(name).or_default() += n;
    }
    all
}

/// Whether `it` is as good as a queue for each flow in the same minute, without its queue.
fn fits(it: &Run, queued: &Run, least: f64) -> bool {
    it.goodput >= least * queued.goodput
        && it.goodput < 1.15 * RATE
        && it.waiting <= 0.1 * queued.waiting
        && it.timeouts <= queued.timeouts
        && it.drops == 0
}

fn the_rate_is_held_and_next_to_nothing_waits(bed: &Testbed, backend: &str) {
    for upload in [true, false] {
        for (signal, least) in [("postack", 0.95), ("tcr", 0.9)] {
            // Where the machine keeps everybody waiting, neither has its rate: one of three pairs must
            // be undisturbed.
            let mut runs = Vec::new();
            let mut good = false;
            while !good && runs.len() < 3 {
                let pair = ["none", signal].map(|it| transfers(bed, backend, it, upload));
                assert_eq!((pair[0].paws, pair[1].paws), (0, 0), "{pair:?}");
                good = fits(&pair[1], &pair[0], least);
                runs.push(pair);
            }
            assert!(good, "{signal}, upload: {upload}: {runs:#?}");
            println!("{backend} {signal}, upload: {upload}: {:?}", runs.last());
        }
    }
}

fn mix(lab: &Lab, host: &str, words: &[&str]) -> Process {
    Process::start(lab.on(host).arg(env!("CARGO_BIN_EXE_e2e-mix")).args(words))
}

/// Data both ways on one connection, with the offloads of the kernel: its super-packets carry the
/// acknowledgements.
fn one_connection_carries_data_both_ways(bed: &Testbed, backend: &str) {
    for (signal, offload) in [("postack", "wire"), ("postack", "default"), ("tcr", "wire")] {
        let lab = Lab::up(bed, &topology(backend, signal, offload));
        let before = both(&lab);
        let listener = ready(mix(&lab, "far", &["listen", "7001", "5000000"]));
        let connection = Fetch::of(mix(&lab, "near", &["connect", "10.73.0.2:7001", "5000000"]));
        let outcomes = [Fetch::of(listener), connection].map(|it| it.finish(LIMIT));
        let status = lab.status("edge");
        assert!(outcomes.iter().all(|it| it.intact && it.bytes == 5_000_000), "{outcomes:?}");
        assert_eq!(both(&lab)["PAWSEstab"], before["PAWSEstab"], "{outcomes:?}, {status}");
        let aggregates = status["aggregates"].as_array().unwrap();
        let count = |name: &str| -> u64 {
            aggregates.iter().map(|it| it["signal"][name].as_u64().unwrap()).sum()
        };
        assert!(count("delayed") > 0, "{status}");
        assert!(signal != "postack" || count("made") > 0, "{status}");
        assert_eq!(count("held"), 0, "{status}");
    }
}

/// Half of the rate is taken by datagrams that nobody can hold.
fn datagrams_neither_starve_nor_close_the_gate(bed: &Testbed, backend: &str) {
    let lab = Lab::up(bed, &topology(backend, "postack", "wire"));
    let _server = ready(lab.traffic("far", &["serve"]));
    for words in [&["--upload"][..], &[]] {
        let (from, to) = if words.is_empty() { ("far", 1) } else { ("near", 2) };
        let flood = ["flood", &format!("10.73.0.{to}:9"), "625000", "60"];
        let flood = mix(&lab, from, &flood);
        let words = [&["fetch", "10.73.0.2:7000", "--bytes", "2 MB"], words].concat();
        let outcome = Fetch::of(lab.traffic("near", &words)).finish(LIMIT);
        drop(flood);
        assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", lab.status("edge"));
    }
}

const HELD: &str = r#"
[[policy]]
name = "all"
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
action = "shape"
allocation = "drr"
"#;

/// Killed, started again, reloaded with another signal and with none, stopped: with ACKs held each time.
fn a_transfer_outlives_what_held_its_acks(bed: &Testbed, backend: &str) {
    // Unmanaged it may not be much faster, or it would be over too early.
    if !bed.wan.slow_down("30mbit") || !bed.lan.slow_down("30mbit") {
        return;
    }
    let with = |signal: &str| format!("{HELD}signal = \"{signal}\"\n");
    let server = Server::start(&bed.wan, 7000, "cubic");
    let mut gateway = bed.gateway(backend, &with("postack"));
    let fetch = |way: &[&str]| server.fetch(bed.wan.v4, &bed.lan, way);
    let fetches = [fetch(&["--bytes", "60 MB"]), fetch(&["--bytes", "60 MB", "--upload"])];
    go_on(&fetches, &gateway);
    gateway.crash();
    go_on(&fetches, &gateway);
    gateway.start_again();
    go_on(&fetches, &gateway);
    for signal in ["tcr", "none", "postack"] {
        gateway.apply(backend, &with(signal));
        go_on(&fetches, &gateway);
    }
    assert_eq!(gateway.status()["aggregates"][0]["signal"]["kind"], "postack");
    gateway.stop();
    go_on(&fetches, &gateway);
    gateway.start_again();
    for fetch in fetches {
        let outcome = fetch.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", gateway.said());
    }
}

/// Both transfers move: a stall would last for seconds.
fn go_on(fetches: &[Fetch], gateway: &Gateway<'_>) {
    const PROGRESS: u64 = 1_000_000;
    const GOES_ON: Duration = Duration::from_secs(15);
    for fetch in fetches {
        let goal = fetch.bytes() + PROGRESS;
        until(&format!("progress of {fetch:?}: {}", gateway.said()), GOES_ON, || {
            (fetch.bytes() >= goal).then_some(())
        });
    }
}

/// What hosts are told, and told to forget; and the address that is talked to. `$route` is their route.
const KINDS: [(&str, &str, &str, &str); 8] = [
    ("as usual", "", "", "10.73.0.2"),
    ("IPv6", "", "", "[fd73::2]"),
    (
        "a window of 64 KiB, not scaled",
        "echo 4096 65535 65535 > $ipv4/tcp_rmem; echo 0 > $ipv4/tcp_window_scaling",
        "echo 1 > $ipv4/tcp_window_scaling",
        "10.73.0.2",
    ),
    (
        "a window in steps of 16 KiB",
        "echo 4096 131072 1073741824 > $ipv4/tcp_rmem",
        "echo 4096 131072 6291456 > $ipv4/tcp_rmem",
        "10.73.0.2",
    ),
    ("no SACK", "echo 0 > $ipv4/tcp_sack", "echo 1 > $ipv4/tcp_sack", "10.73.0.2"),
    (
        "no timestamps",
        "echo 0 > $ipv4/tcp_timestamps",
        "echo 1 > $ipv4/tcp_timestamps",
        "10.73.0.2",
    ),
    (
        "segments of 256 bytes",
        "ip -4 route replace $route advmss 256",
        "ip -4 route replace $route",
        "10.73.0.2",
    ),
    (
        "every segment acknowledged",
        "ip -4 route replace $route quickack 1",
        "ip -4 route replace $route",
        "10.73.0.2",
    ),
];

/// One after the other, up and down, on the wire as it is and with the offloads of the kernel.
fn every_kind_of_tcp_gets_through(bed: &Testbed, backend: &str) {
    for offload in ["wire", "default"] {
        let lab = Lab::up(bed, &topology(backend, "postack", offload));
        let _server = ready(lab.traffic("far", &["serve", "--congestion", "cubic"]));
        let before = both(&lab)["PAWSEstab"];
        for (kind, on, off, address) in KINDS {
            tell(&lab, on);
            for way in [&[][..], &["--upload"]] {
                let words = ["fetch", &format!("{address}:7000"), "--bytes", "1 MB"];
                let words = [&words[..], way].concat();
                let outcome = Fetch::of(lab.traffic("near", &words)).finish(LIMIT);
                let status = lab.status("edge");
                assert!(outcome.complete && outcome.intact, "{kind}: {outcome:?}, {status}");
                // A stall would take seconds: 1 MB takes one.
                assert!(outcome.time < Duration::from_secs(15), "{kind}: {outcome:?}, {status}");
            }
            tell(&lab, off);
        }
        assert_eq!(both(&lab)["PAWSEstab"], before);
    }
}

/// Has both hosts run a line of the shell.
fn tell(lab: &Lab, line: &str) {
    const NAMES: &str =
        "ipv4=/proc/sys/net/ipv4; route=\"$(ip -4 route show dev eth0 | head -n 1) dev eth0\"";
    for host in ["near", "far"] {
        let mut command = lab.on(host);
        run(command.args(["sh", "-c", &format!("{NAMES}; {line}")]), LIMIT);
    }
}
