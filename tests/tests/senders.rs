//! Live test: every kind of TCP works through a gateway that holds its ACKs. The kinds have
//! different options, segment lengths and encapsulations.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_e2e::trial::{FAR, GATEWAY, NEAR, counted, side_by_side, taken_for_old, topology};
use tidegate_e2e::{Lab, Process, Testbed, on_each_backend, until};

on_each_backend! {
    every_kind_of_tcp_works_with_held_acks
}

const LIMIT: Duration = Duration::from_secs(90);

/// A kind of TCP. `on` and `off` are shell commands for both hosts (see [`run_on_both`]): `on`
/// configures the hosts for this kind, and `off` undoes this. `says` has words, or beginnings of
/// words, that `ss` must show for connections of this kind. `keeps_quiet` is a word that `ss` must
/// not show.
struct Kind {
    name: &'static str,
    on: &'static str,
    off: &'static str,
    says: &'static str,
    keeps_quiet: Option<&'static str>,
}

const fn kind(name: &'static str, on: &'static str, off: &'static str) -> Kind {
    Kind { name, on, off, says: "", keeps_quiet: None }
}

impl Kind {
    const fn says(self, says: &'static str) -> Self {
        Self { says, ..self }
    }

    const fn keeps_quiet(self, word: &'static str) -> Self {
        Self { keeps_quiet: Some(word), ..self }
    }
}

const KINDS: [Kind; 11] = [
    kind("as usual", "", "").says("ts sack wscale mss:1448"),
    kind(
        "a window of 64 KiB, not scaled",
        "echo 0 > $ipv4/tcp_window_scaling",
        "echo 1 > $ipv4/tcp_window_scaling",
    )
    .keeps_quiet("wscale"),
    kind(
        "a window in steps of 1 B",
        "ip route replace $path window 65535",
        "ip route replace $path",
    )
    .says("wscale:0,0"),
    kind(
        "a window in steps of 16 KiB",
        "echo 4096 131072 1073741824 > $ipv4/tcp_rmem",
        "echo 4096 131072 6291456 > $ipv4/tcp_rmem",
    )
    .says("wscale:14,14"),
    kind("no SACK", "echo 0 > $ipv4/tcp_sack", "echo 1 > $ipv4/tcp_sack").keeps_quiet("sack"),
    kind("no timestamps", "echo 0 > $ipv4/tcp_timestamps", "echo 1 > $ipv4/tcp_timestamps")
        .says("mss:1460")
        .keeps_quiet("ts"),
    kind("segments of 256 bytes", "ip route replace $path advmss 256", "ip route replace $path")
        .says("mss:244"),
    kind(
        "every segment acknowledged",
        "ip route replace $path quickack 1",
        "ip route replace $path",
    ),
    VLAN,
    IPV6,
    JUMBO,
];

/// A kind whose transfers use IPv6 addresses.
const IPV6: Kind = kind("IPv6", "", "").says("mss:1428");

/// A kind that uses a VLAN. The route to the other host leads to a device whose packets a process
/// tags.
const VLAN: Kind = kind(
    "in a VLAN",
    "ip link set tagged up && ip route replace $other dev tagged",
    "ip route replace $path",
);

/// A kind whose segments are too long for the buffers of AF_XDP.
const JUMBO: Kind =
    kind("segments of 8,960 bytes", "ip link set eth0 mtu 9000", "ip link set eth0 mtu 1500")
        .says("mss:8948");

/// A case of the test: the ACK control, and the offloads of the hosts.
type Case = (&'static str, &'static str);

const CASES: [Case; 4] =
    [("none", "wire"), ("none", "default"), ("postack", "wire"), ("postack", "default")];

/// With held ACKs, the TCP counters must show no more trouble than without ACK control at the same
/// time, summed over all kinds. This must hold with the offloads `wire` and with `default`. A kind
/// does not count if a gateway hung during it.
fn every_kind_of_tcp_works_with_held_acks(bed: &Testbed, backend: &str) {
    let them = side_by_side(CASES, |case| matrix(bed, backend, case));
    println!("{backend}: {them:?}");
    for (held, queued) in them[2..].iter().zip(&them) {
        let quiet: Vec<_> =
            held.iter().zip(queued).filter(|(one, other)| one.hangs + other.hangs == 0).collect();
        assert!(2 * quiet.len() > held.len(), "the gateway hung during most kinds: {them:?}");
        for name in held[0].counted.keys() {
            let held_count: u64 = quiet.iter().map(|(it, _)| it.counted[name]).sum();
            let queued_count: u64 = quiet.iter().map(|(_, it)| it.counted[name]).sum();
            assert!(held_count <= queued_count, "{name}: {held_count}, {queued_count}: {them:?}");
        }
    }
}

/// The results for one kind.
#[derive(Debug)]
struct Found {
    counted: BTreeMap<String, u64>,
    hangs: u64,
}

/// Tests one kind after another.
fn matrix(bed: &Testbed, backend: &str, (ack_control, offload): Case) -> Vec<Found> {
    let lab = Lab::up(bed, &topology(backend, ack_control, offload));
    let _server = lab.serve(FAR.0, "cubic");
    let hangs = || lab.status(GATEWAY)["hangs"].as_u64().unwrap_or(0);
    let first = counted(&lab);
    let try_out = |kind: &Kind| {
        let (before, hung) = (counted(&lab), hangs());
        let _tags = (kind.name == VLAN.name).then(|| tags(&lab));
        if kind.name == JUMBO.name {
            make_way_for_jumbo(&lab);
        }
        run_on_both(&lab, kind.on);
        both_ways(&lab, kind);
        run_on_both(&lab, kind.off);
        let mut counted = counted(&lab);
        counted.iter_mut().for_each(|(name, n)| *n -= before[name]);
        Found { counted, hangs: hangs() - hung }
    };
    let kinds = KINDS.iter().filter(|it| backend == "af-packet" || it.name != JUMBO.name);
    let found = kinds.map(try_out).collect();
    assert_eq!(taken_for_old(&lab, &first), 0, "{}", lab.status(GATEWAY));
    found
}

/// Makes an upload and a download at the same time, with this kind of TCP.
fn both_ways(lab: &Lab, kind: &Kind) {
    let address = if kind.name == IPV6.name { "[fd73::2]" } else { FAR.1 };
    let fetch = |way: &[&str]| lab.fetch(NEAR, address, &[&["--bytes", "1 MB"], way].concat());
    let watch = Process::start(lab.on(NEAR).args(["sh", "-c", WATCH]));
    let fetches = [fetch(&[]), fetch(&["--upload"])];
    is_of(watch, kind);
    for fetch in fetches {
        let outcome = fetch.finish(LIMIT);
        let status = lab.status(GATEWAY);
        assert!(outcome.complete && outcome.intact, "{}: {outcome:?}, {status}", kind.name);
        // 1 MB takes one second, and a stall would take many.
        assert!(outcome.time < Duration::from_secs(15), "{}: {outcome:?}, {status}", kind.name);
    }
}

/// Prints the output of `ss` for both connections, as soon as they exist.
const WATCH: &str = "until [ $(echo \"$said\" | grep -c mss:) = 2 ]; do sleep 0.02; \
    said=$(ss -Htino state established '( dport = :7000 )'); done; echo \"$said\" | grep mss:";

/// Asserts that both connections are of this kind.
fn is_of(watch: Process, Kind { name, says, keeps_quiet, .. }: &Kind) {
    let said = watch.finish(LIMIT).output;
    assert_eq!(said.lines().count(), 2, "{name}: {said}");
    for line in said.lines() {
        let is = |word: &str| {
            line.split_whitespace().any(|it| it == word || it.split(':').next() == Some(word))
        };
        assert!(says.split_whitespace().all(is), "{name}: not {says}, but {line}");
        assert!(!keeps_quiet.is_some_and(is), "{name}: {line}");
    }
}

/// Runs shell commands on both hosts. The commands may use the variables `$ipv4` (directory of IPv4
/// settings), `$other` (address of the other host), and `$path` (the route to it).
fn run_on_both(lab: &Lab, lines: &str) {
    const NAMES: &str = r#"ipv4=/proc/sys/net/ipv4
        other=$(ip -4 neighbour show dev eth0 | head -n 1 | cut -d ' ' -f 1)
        path="$other dev eth0""#;
    for host in [NEAR, FAR.0] {
        lab.shell(host, &format!("{NAMES}\n{lines}"));
    }
}

/// Raises the MTU of all interfaces between the hosts, for long frames.
fn make_way_for_jumbo(lab: &Lab) {
    lab.shell(GATEWAY, "ip link set lan mtu 9000 && ip link set wan mtu 9000");
    let network = "the-network-between-all-the-hosts";
    lab.shell(network, "ip link set p0 mtu 9000 && ip link set p1 mtu 9000");
}

/// Starts a process on both hosts that adds and removes VLAN tags.
fn tags(lab: &Lab) -> [Process; 2] {
    let macs = [(NEAR, "02:74:67:00:00:01"), (FAR.0, "02:74:67:00:00:00")];
    macs.map(|(host, peer)| {
        let mut command = lab.on(host);
        command.arg(env!("CARGO_BIN_EXE_e2e-frames")).args(["tag", "eth0", "7", peer]);
        let process = Process::start(&mut command);
        until("a device", LIMIT, || process.lines().pop());
        process
    })
}
