//! Live test: half of the traffic in a class is TCP under ACK control, which holds its ACKs. The
//! other half is UDP, which ACK control cannot slow down.

use std::time::Duration;

use tidegate_e2e::measure::float;
use tidegate_e2e::trial::{
    FAR, GATEWAY, NEAR, RATE, counted, drops, side_by_side, undisturbed_runs,
};
use tidegate_e2e::{Fetch, Lab, Process, Testbed, on_each_backend, pause, until};

on_each_backend! {
    tcp_and_udp_in_one_class_each_get_half_and_nothing_stalls
}

const LIMIT: Duration = Duration::from_secs(60);

/// Sender and receiver, each with its name and address. The first pair is for uploads, the second
/// for downloads.
const WAYS: [[(&str, &str); 2]; 2] = [[(NEAR, "10.73.0.1"), FAR], [FAR, (NEAR, "10.73.0.1")]];

/// Destination port of the datagrams.
const PORT: &str = "9";

/// Number of flows for each protocol and direction, and bytes of a TCP flow. Each protocol offers
/// 10 % more than half of the rate (in bytes of frames), so data always waits.
const FLOWS: usize = 2;
const BYTES: u64 = 2_500_000;
const PAYLOAD: &str = "330000";

/// Payload bytes and frame length of full packets.
const TCP: (f64, f64) = (1_448.0, 1_514.0);
const UDP: (f64, f64) = (1_000.0, 1_042.0);

/// Time before the measurement, in which slow start ends, and the measured time.
const SPANS: [Duration; 2] = [Duration::from_millis(2_500), Duration::from_secs(4)];

/// Longest accepted pause between two progress reports. A retransmission timeout causes a longer
/// pause: at least 200 ms and a round trip of 52 ms.
const PAUSE: Duration = Duration::from_millis(250);

/// Two variants: the policy's profile limits the rate, or the ceiling of its class does. The number
/// is the permitted deviation of each protocol's share from one half.
const HELD: [([&str; 2], f64); 2] =
    [(["10 Mbit/s", "20 Mbit/s"], 0.035), (["20 Mbit/s", "10 Mbit/s"], 0.07)];

/// The results of a run.
#[derive(Debug)]
struct Findings {
    /// The shares of the rate that TCP and UDP get, in the upload and the download direction.
    up: [f64; 2],
    down: [f64; 2],
    longest_pause: Duration,
    dropped: u64,
    /// Retransmission timeouts.
    timeouts: u64,
    /// Segments that were rejected as old.
    old: u64,
    hangs: u64,
}

/// TCP and UDP each get nearly half of the rate. The remainder goes to ACKs of the opposite
/// direction, which are in the same class. Under a ceiling, TCP's queue is sometimes empty, so TCP
/// gets a little less. No packet is dropped, because the excess fits into the queue.
///
/// Catches: waiting datagrams that are counted as TCP data in flight, so that ACK control stops
/// releasing ACKs.
fn tcp_and_udp_in_one_class_each_get_half_and_nothing_stalls(bed: &Testbed, backend: &str) {
    let run = || side_by_side(HELD, |(held, _)| mixed(bed, &topology(backend, held)));
    let hangs = |them: &Vec<Findings>| them.iter().map(|it| it.hangs).sum();
    let [them] = undisturbed_runs(run, hangs);
    println!("{backend}: {them:#?}");
    for (it, (_, off)) in them.iter().zip(HELD) {
        for part in [it.up, it.down].as_flattened() {
            assert!((part - 0.5).abs() < off, "{it:?}");
        }
        assert!(it.longest_pause < PAUSE, "{it:?}");
        assert_eq!((it.dropped, it.timeouts, it.old), (0, 0, 0), "{it:?}");
    }
}

/// Runs transfers and datagrams in both directions at once, all in one policy and one class.
fn mixed(bed: &Testbed, topology: &str) -> Findings {
    let lab = Lab::up(bed, topology);
    let before = counted(&lab);
    let _servers = WAYS.map(|[from, _]| lab.serve(from.0, "cubic"));
    let drains = WAYS.map(|[_, to]| drain(&lab, to.0));
    let floods = WAYS.map(|[from, to]| [(); FLOWS].map(|()| flood(&lab, from.0, to.1)));
    let transfers = WAYS.map(|[from, to]| {
        let fetch = || lab.fetch(to.0, from.1, &["--bytes", &format!("{BYTES} B")]);
        [(); FLOWS].map(|()| fetch())
    });
    let bytes =
        || [0, 1].map(|way| [transfers[way].iter().map(Fetch::bytes).sum(), drains[way].bytes()]);
    let [from, to] = SPANS.map(|span| {
        pause(span);
        bytes()
    });
    let pauses: Vec<_> = transfers.into_iter().flatten().map(finish).collect();
    let status = lab.status(GATEWAY);
    let pauses = drains.iter().map(Fetch::longest_pause).chain(pauses);
    drop(floods);
    let part = |way: usize, kind: usize, (payload, frame): (f64, f64)| {
        let bytes: u64 = to[way][kind] - from[way][kind];
        float(bytes) * 8.0 / SPANS[1].as_secs_f64() * frame / payload / RATE
    };
    let parts = |way| [part(way, 0, TCP), part(way, 1, UDP)];
    let grown = |name: &str| counted(&lab)[name] - before[name];
    Findings {
        up: parts(0),
        down: parts(1),
        longest_pause: pauses.max().unwrap_or_default(),
        dropped: drops(&status),
        timeouts: grown("TCPTimeouts") + grown("TCPSpuriousRTOs"),
        old: grown("PAWSEstab"),
        hangs: status["hangs"].as_u64().unwrap_or(0),
    }
}

/// Waits for a transfer, which must arrive completely. Returns the longest time without progress.
fn finish(fetch: Fetch) -> Duration {
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact && outcome.bytes == BYTES, "{outcome:?}");
    outcome.longest_pause
}

fn mix(lab: &Lab, host: &str, words: &[&str]) -> Process {
    Process::start(lab.on(host).arg(env!("CARGO_BIN_EXE_e2e-mix")).args(words))
}

fn drain(lab: &Lab, host: &str) -> Fetch {
    let process = mix(lab, host, &["drain", PORT]);
    until("what drains datagrams", LIMIT, || process.lines().pop());
    Fetch::of(process)
}

fn flood(lab: &Lab, from: &str, to: &str) -> Process {
    mix(lab, from, &["flood", &format!("{to}:{PORT}"), PAYLOAD, "60"])
}

/// A topology of two hosts with a round-trip time of 52 ms. The gateway is in front of the first
/// host. Its class and its policy limit each direction separately.
fn topology(backend: &str, [mean, ceiling]: [&str; 2]) -> String {
    format!(
        r#"
[[host]]
name = "{NEAR}"
gateway = "{GATEWAY}"
[[host]]
name = "{}"
[[route]]
delay = "26 ms"
[[gateway]]
name = "{GATEWAY}"
inline = '''
[gateway]
lan = "lan"
wan = "wan"
backend = "{backend}"
rate = {{ up = "20 Mbit/s", down = "20 Mbit/s" }}
[[class]]
name = "office"
ceiling = "{ceiling}"
[[policy]]
name = "all"
class = "office"
profile = {{ mean = "{mean}", burst = "15140 B" }}
action = "shape"
allocation = "drr"
queue = {{ kind = "per-flow", limit = "8 MiB", flow_limit = "2 MiB" }}
ack_control = "postack"
'''
"#,
        FAR.0
    )
}
