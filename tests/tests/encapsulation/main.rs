//! Live tests of encapsulated packets: user packets in the datagrams of a trunk (which carries them
//! between two gateways), and tunnels between hosts with the default offloads.

mod carried;

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{
    Process, Server, Testbed, on_each_backend, send, skip, until, witnessed_beside_others,
};
use tidegate_wire::build::{Frame, Transport};

on_each_backend! { witnessed_beside_others:
    tunnels_between_hosts_with_default_offloads_carry_tcp
}

const LIMIT: Duration = Duration::from_secs(60);

/// Tunnels: a single tunnel, or several inside each other. For each tunnel, `true` means that its
/// outer addresses are IPv6. The text has its options.
///
/// Nearly every kernel supports VXLAN. The crate `tidegate-wire` tests other kinds of tunnels byte
/// by byte.
const TUNNELS: [&[(bool, &str)]; 4] = [
    &[(false, "dstport 4789 udpcsum")],
    &[(false, "dstport 8472")],
    &[(true, "dstport 4789")],
    &[(false, "dstport 4789"), (false, "dstport 8472 udpcsum")],
];

/// A policy that shapes all traffic, at a higher rate than the transfers have.
const SHAPED: &str = r#"
[[policy]]
name = "all"
profile = { mean = "200 Mbit/s" }
action = "shape"
"#;

/// Creates `tunnels` between the hosts. Returns the WAN host's address inside the innermost tunnel.
fn tunnel(bed: &Testbed, tunnels: &[(bool, &str)]) -> IpAddr {
    for (from, to, last) in [(&bed.lan, &bed.wan, 1), (&bed.wan, &bed.lan, 2)] {
        let mut under = "eth0".to_owned();
        for (depth, (v6, options)) in tunnels.iter().enumerate() {
            let ends = match (depth, v6) {
                (0, false) => [from.v4, to.v4].map(|it| it.to_string()),
                (0, true) => [from.v6, to.v6].map(|it| it.to_string()),
                _ => [last, 3 - last].map(|it| format!("10.99.{}.{it}", depth - 1)),
            };
            let [local, remote] = ends;
            let name = format!("tunnel{depth}");
            from.run(&format!(
                "ip link add {name} type vxlan id {} local {local} remote {remote} dev {under} {options}",
                depth + 42
            ));
            from.run(&format!("ip address add 10.99.{depth}.{last}/24 dev {name}"));
            from.run(&format!("ip link set {name} up"));
            under = name;
        }
    }
    format!("10.99.{}.2", tunnels.len() - 1).parse().expect("an address")
}

fn remove(bed: &Testbed, tunnels: &[(bool, &str)]) {
    for host in [&bed.lan, &bed.wan] {
        (0..tunnels.len())
            .rev()
            .for_each(|it| drop(host.run(&format!("ip link delete tunnel{it}"))));
    }
}

/// The hosts leave checksums and segmentation to their interfaces, and the ports merge received
/// frames into larger packets (super-packets).
///
/// Catches: a super-packet inside a tunnel that reaches the kernel without being split; an inner or
/// outer checksum that is not completed. In both cases, no transfer completes.
fn tunnels_between_hosts_with_default_offloads_carry_tcp(bed: &Testbed, backend: &str) {
    for host in [&bed.lan, &bed.wan] {
        host.offload();
    }
    let gateway = bed.gateway(backend, SHAPED);
    if backend == "af-packet" {
        for port in ["lan", "wan"] {
            bed.middle.run(&format!("ethtool -K {port} gro on"));
        }
    }
    let server = Server::start(&bed.wan, 7_000, "cubic");
    let mut split = 0;
    for tunnels in TUNNELS {
        let address = tunnel(bed, tunnels);
        for more in [&["--bytes", "3 MB"][..], &["--bytes", "3 MB", "--upload"]] {
            let outcome = server.fetch(address, &bed.lan, more).finish(LIMIT);
            let context = format!("{backend}, {tunnels:?}: {outcome:?}, {}", gateway.status());
            assert!(outcome.complete && outcome.intact, "{context}");
        }
        let status = gateway.status();
        let context = format!("{backend}, {tunnels:?}: {status}");
        let now = of_ports(&status, "split");
        // A host's kernel makes no super-packets for tunnels that are inside other tunnels.
        assert_eq!(now > split, backend == "af-packet" && tunnels.len() == 1, "{context}");
        split = now;
        assert_eq!(status["alarms"], serde_json::json!([]), "{context}");
        assert_eq!(status["drops"]["refused"], Value::Null, "{context}");
        remove(bed, tunnels);
    }
}

/// A datagram inside three tunnels (IP in IP). Its checksum is not completed: it holds only the sum
/// of the pseudo header.
fn unfinished_in_three_tunnels(bed: &Testbed) -> Vec<u8> {
    let mut inner = bed.lan.datagram(&bed.wan, false, (5_000, 6_000), &[7; 64]).bytes();
    let (ip, udp) = (14, 34);
    let words = [&inner[ip + 12..ip + 20], &[0, 17], &inner[udp + 4..udp + 6]].concat();
    let sum: u32 = words.chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1])).sum();
    let [_, carry, high, low] = sum.to_be_bytes();
    let sum = u16::from_be_bytes([high, low]) + u16::from(carry);
    inner[udp + 6..udp + 8].copy_from_slice(&sum.to_be_bytes());
    for _ in 0..3 {
        let around = Frame::ip(bed.lan.v4, bed.wan.v4, Transport::Other(4));
        let (source, destination) = (bed.lan.mac, bed.wan.mac);
        inner = Frame { source, destination, payload: inner[ip..].to_vec(), ..around }.bytes();
    }
    inner
}

/// Catches: a checksum inside the third tunnel that is not found; an alarm that does not name the
/// remedy.
#[test]
fn unfinished_checksums_in_three_tunnels_are_counted_with_an_alarm() {
    witnessed_beside_others(|bed| {
        let gateway = bed.gateway("af-xdp", SHAPED);
        send(&bed.lan, &[unfinished_in_three_tunnels(bed)]);
        until("the checksum to be counted", LIMIT, || {
            (of_ports(&gateway.status(), "unfinished") == 1).then_some(())
        });
        let status = gateway.status();
        let alarm = status["alarms"][0].as_str().unwrap_or_default();
        assert!(alarm.contains("`ethtool -K PORT tx off`"), "{status}");
        assert!(alarm.starts_with("`lan` receives"), "{status}");
    });
}

/// A filter of the kernel at the port drops the datagrams of one flow while a transfer runs.
///
/// Catches: refused frames that delay all other flows, because each is tried 64 times; a status
/// that does not name the refused flow.
#[test]
fn a_flow_refused_by_a_filter_of_the_port_is_named_and_delays_no_other() {
    witnessed_beside_others(|bed| {
        let rules = "add table netdev t; \
                     add chain netdev t e { type filter hook egress device wan priority 0; }; \
                     add rule netdev t e udp dport 9999 drop";
        let filter = Process::start(bed.middle.command("nft").arg(rules)).finish(LIMIT);
        if !filter.status.success() {
            return skip(&format!("no egress hook in nftables here: {}", filter.errors));
        }
        let gateway = bed.gateway("af-packet", SHAPED);
        let server = Server::start(&bed.wan, 7_000, "cubic");
        let fetch = server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "6 MB", "--upload"]);
        let datagram = bed.lan.datagram(&bed.wan, false, (5_000, 9_999), &[7; 200]).bytes();
        send(&bed.lan, &vec![datagram; 200]);
        let outcome = fetch.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
        let refused = |name: &str| of_ports(&gateway.status(), name);
        until("all datagrams to be refused", LIMIT, || (refused("refused") == 200).then_some(()));
        let attempts = refused("send_errors");
        assert!((200..2_000).contains(&attempts), "{attempts} attempts for 200 datagrams");
        let status = gateway.status();
        let alarm = status["alarms"][0].as_str().unwrap_or_default();
        assert!(alarm.starts_with("`wan` has refused frames, 200 so far"), "{status}");
        assert!(alarm.contains(":9999 (protocol 17): No buffer space"), "{status}");
    });
}

/// The sum of a counter over both ports.
fn of_ports(status: &Value, name: &str) -> u64 {
    ["up", "down"].iter().filter_map(|way| status[way]["port"][name].as_u64()).sum()
}
