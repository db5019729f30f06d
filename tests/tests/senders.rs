//! Every kind of TCP gets through a gateway that holds its ACKs: what its options say, how long its
//! segments are, what they are wrapped in.

use std::time::Duration;

use tidegate_e2e::trial::{FAR, GATEWAY, NEAR, counted, side_by_side, taken_for_old, topology};
use tidegate_e2e::{Lab, Process, Testbed, on_each_backend, until};

on_each_backend! {
    every_kind_of_tcp_gets_through
}

const LIMIT: Duration = Duration::from_secs(90);

/// A kind of TCP: what both hosts are told, in the words of [`tell`], and told to forget.
struct Kind {
    name: &'static str,
    on: &'static str,
    off: &'static str,
}

const fn kind(name: &'static str, on: &'static str, off: &'static str) -> Kind {
    Kind { name, on, off }
}

const KINDS: [Kind; 11] = [
    kind("as usual", "", ""),
    kind(
        "a window of 64 KiB, not scaled",
        "echo 0 > $ipv4/tcp_window_scaling",
        "echo 1 > $ipv4/tcp_window_scaling",
    ),
    kind(
        "a window in steps of 1 B",
        "echo 4096 65535 65535 > $ipv4/tcp_rmem",
        "echo 4096 131072 6291456 > $ipv4/tcp_rmem",
    ),
    kind(
        "a window in steps of 16 KiB",
        "echo 4096 131072 1073741824 > $ipv4/tcp_rmem",
        "echo 4096 131072 6291456 > $ipv4/tcp_rmem",
    ),
    kind("no SACK", "echo 0 > $ipv4/tcp_sack", "echo 1 > $ipv4/tcp_sack"),
    kind("no timestamps", "echo 0 > $ipv4/tcp_timestamps", "echo 1 > $ipv4/tcp_timestamps"),
    kind("segments of 256 bytes", "ip route replace $path advmss 256", "ip route replace $path"),
    kind(
        "every segment acknowledged",
        "ip route replace $path quickack 1",
        "ip route replace $path",
    ),
    VLAN,
    IPV6,
    JUMBO,
];

/// Its transfers are between other addresses.
const IPV6: Kind = kind("IPv6", "", "");

/// The way to the other host has another name, under which a process tags what is sent.
const VLAN: Kind = kind(
    "in a VLAN",
    "ip link set tagged up && ip route replace $other dev tagged",
    "ip route replace $path",
);

/// Its segments fit no buffer of AF_XDP.
const JUMBO: Kind =
    kind("segments of 8,960 bytes", "ip link set eth0 mtu 9000", "ip link set eth0 mtu 1500");

/// One kind after the other, on the wire as it is and with the offloads of the kernel.
fn every_kind_of_tcp_gets_through(bed: &Testbed, backend: &str) {
    side_by_side(["wire", "default"], |offload| {
        let lab = Lab::up(bed, &topology(backend, "postack", offload));
        let _server = lab.serve(FAR.0, "cubic");
        let before = counted(&lab);
        for kind in KINDS.iter().filter(|it| backend == "af-packet" || it.name != JUMBO.name) {
            let _tags = (kind.name == VLAN.name).then(|| tags(&lab));
            if kind.name == JUMBO.name {
                make_way_for_jumbo(&lab);
            }
            tell(&lab, kind.on);
            both_ways(&lab, kind);
            tell(&lab, kind.off);
        }
        assert_eq!(taken_for_old(&lab, &before), 0, "{}", lab.status(GATEWAY));
    });
}

/// A transfer up and one down at once.
fn both_ways(lab: &Lab, kind: &Kind) {
    let address = if kind.name == IPV6.name { "[fd73::2]" } else { FAR.1 };
    let fetch = |way: &[&str]| lab.fetch(NEAR, address, &[&["--bytes", "1 MB"], way].concat());
    for fetch in [fetch(&[]), fetch(&["--upload"])] {
        let outcome = fetch.finish(LIMIT);
        let status = lab.status(GATEWAY);
        assert!(outcome.complete && outcome.intact, "{}: {outcome:?}, {status}", kind.name);
        // A stall would take seconds: 1 MB takes one.
        assert!(outcome.time < Duration::from_secs(15), "{}: {outcome:?}, {status}", kind.name);
    }
}

/// Has both hosts run lines of the shell, which may speak of `$ipv4`, its settings, of the `$other`
/// host, and of the `$path` to it.
fn tell(lab: &Lab, lines: &str) {
    const NAMES: &str = r#"ipv4=/proc/sys/net/ipv4
        other=$(ip -4 neighbour show dev eth0 | head -n 1 | cut -d ' ' -f 1)
        path="$other dev eth0""#;
    for host in [NEAR, FAR.0] {
        lab.shell(host, &format!("{NAMES}\n{lines}"));
    }
}

/// Long frames fit everything that is between the hosts, too.
fn make_way_for_jumbo(lab: &Lab) {
    lab.shell(GATEWAY, "ip link set lan mtu 9000 && ip link set wan mtu 9000");
    let network = "the-network-between-all-the-hosts";
    lab.shell(network, "ip link set p0 mtu 9000 && ip link set p1 mtu 9000");
}

/// What tags and untags frames on both hosts.
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
