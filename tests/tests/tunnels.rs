//! Live test: a gateway holds the ACKs of TCP connections in tunnels. Frames stay valid, and the
//! gateway recognises the inner flows.

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Host, Process, Testbed, on_each_backend, until};

on_each_backend! { witnessed_beside_others:
    tcp_in_every_kind_of_tunnel_is_ack_controlled_and_stays_intact
    tcp_in_vxlan_tunnels_of_the_kernel_is_ack_controlled_and_listed
}

const LIMIT: Duration = Duration::from_secs(40);

/// A policy for TCP packets inside tunnels of any kind. It limits each direction separately.
const POLICY: &str = r#"
[[policy]]
name = "inside"
match = { src = ["10.7.0.0/16", "fd07::/16"], protocol = "tcp", inner = true }
profile = { mean = "6 Mbit/s", burst = "6 kB" }
action = "shape"
allocation = "drr"
ack_control = "postack"
"#;

/// Bytes in each direction of a connection.
const BYTES: &str = "400000";

/// Kinds of tunnels: the kind, whether the outer addresses are IPv6, whether the inner addresses
/// are IPv6, the name in reports, and whether the gateway may create ACKs.
const KINDS: [(&str, bool, bool, &str, bool); 11] = [
    ("ip", false, false, "ip", true),
    ("ip", false, true, "ip", true),
    ("ip", true, false, "ip", true),
    ("gre", false, false, "gre", true),
    ("gre-key", true, true, "gre", true),
    ("gretap", false, false, "gre", true),
    ("geneve", false, true, "geneve", true),
    ("gre-number", false, false, "gre", false),
    ("l2tp", false, false, "l2tp", false),
    ("gtp", false, false, "gtp-u", false),
    ("mpls", false, false, "pseudowire", false),
];

/// Each departing frame must have correct lengths and checksums in all headers. In tunnels that
/// number their packets, no number may be missing or repeated.
///
/// Catches: an outer length or UDP checksum that is wrong after an ACK was separated from data; an
/// ACK created or dropped in a numbered tunnel; a filter `inner` that does not match the inner
/// addresses.
fn tcp_in_every_kind_of_tunnel_is_ack_controlled_and_stays_intact(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, POLICY);
    let mut before = [0; 3];
    for (kind, outer_v6, inner_v6, name, edits) in KINDS {
        let what = format!("{kind}, {outer_v6}, {inner_v6}, {backend}");
        let ends = [&bed.lan, &bed.wan].map(|host| {
            let other = if host.mac == bed.lan.mac { &bed.wan } else { &bed.lan };
            let end = Process::start(&mut end(host, other, kind, outer_v6));
            until("an end of a tunnel", LIMIT, || end.lines().pop());
            inside(host, inner_v6);
            end
        });
        exchange(bed, inner_v6, &what, || seen(bed, name));
        for end in &ends {
            assert_eq!(end.lines(), ["ready"], "{what}");
        }
        let after = ["delayed", "made", "absorbed"].map(|it| counted(&gateway.status(), it));
        let [held, made, absorbed] = [0, 1, 2].map(|at| after[at] - before[at]);
        assert!(held > 10, "{what}: {held} ACKs were held");
        assert_eq!(edits, made > 0, "{what}: {made} ACKs were made");
        assert!(edits || absorbed == 0, "{what}: {absorbed} ACKs were dropped");
        before = after;
    }
}

/// Catches: an outer UDP checksum that is not updated; a VXLAN tunnel whose flows are all treated
/// as one flow.
fn tcp_in_vxlan_tunnels_of_the_kernel_is_ack_controlled_and_listed(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, POLICY);
    for checksum in ["udpcsum", "noudpcsum"] {
        for (host, other) in [(&bed.lan, &bed.wan), (&bed.wan, &bed.lan)] {
            let ends = format!("local {} remote {}", host.v4, other.v4);
            host.run(&format!("ip link add inside type vxlan id 7 {ends} dstport 4789 {checksum}"));
            host.run("ethtool -K inside tx off tso off gso off");
            inside(host, false);
        }
        exchange(bed, false, &format!("{checksum}, {backend}"), || seen(bed, "vxlan"));
        for host in [&bed.lan, &bed.wan] {
            host.run("ip link del inside");
        }
    }
    let status = gateway.status();
    assert!(counted(&status, "delayed") > 20 && counted(&status, "made") > 0, "{status}");
}

fn end(host: &Host, other: &Host, kind: &str, v6: bool) -> std::process::Command {
    let ends = if v6 { [host.v6, other.v6] } else { [host.v4, other.v4] };
    let mac = other.mac.map(|byte| format!("{byte:02x}")).join(":");
    let mut command = host.command(env!("CARGO_BIN_EXE_e2e-tunnel"));
    command.args([kind, "eth0"]).args(ends.map(|it| it.to_string())).arg(mac);
    command
}

/// Sets the addresses of the TUN device inside the tunnel.
fn inside(host: &Host, v6: bool) {
    let number = host.mac[5];
    host.set("net/ipv6/conf/inside/disable_ipv6", if v6 { "0" } else { "1" });
    if v6 {
        host.run(&format!("ip address add fd07::{number}/64 dev inside nodad"));
    } else {
        host.run(&format!("ip address add 10.7.0.{number}/24 dev inside"));
    }
    host.run("ip link set inside mtu 1300 up");
}

/// Both hosts send to each other over one connection. All data must arrive intact. Meanwhile `look`
/// must return `true` at least once.
fn exchange(bed: &Testbed, v6: bool, context: &str, look: impl Fn() -> bool) {
    let mix = |host: &Host, words: &[&str]| {
        let mut command = host.command(env!("CARGO_BIN_EXE_e2e-mix"));
        Process::start(command.args(words))
    };
    let to = if v6 { "[fd07::2]:7100" } else { "10.7.0.2:7100" };
    let server = mix(&bed.wan, &["listen", "7100", BYTES]);
    until("a server", LIMIT, || server.lines().pop());
    let client = mix(&bed.lan, &["connect", to, BYTES]);
    until(&format!("the flow inside: {context}"), LIMIT, || look().then_some(()));
    for end in [client, server] {
        let finished = end.finish(LIMIT);
        let last = finished.output.lines().last().unwrap_or_default().to_owned();
        let outcome = serde_json::from_str::<Value>(&last).unwrap_or_default();
        let whole = outcome["intact"] == true && outcome["complete"] == true;
        assert!(whole, "{context}: {finished:?}");
    }
}

/// Returns `true` if the gateway lists a TCP flow with inner addresses in a tunnel of this kind.
fn seen(bed: &Testbed, kind: &str) -> bool {
    // This is more than the number of flows in this test.
    let mut command = bed.tidegate(&["flows", "--json", "--most", "200"]);
    let said = Process::start(&mut command).finish(LIMIT).output;
    let flows = serde_json::from_str::<Value>(&said).unwrap_or_default();
    let mut flows = flows["flows"].as_array().into_iter().flatten();
    flows.any(|it| {
        let from = it["src"].as_str().unwrap_or_default();
        let inner = from.starts_with("10.7.0.") || from.starts_with("[fd07:");
        inner && it["policy"] == "inside" && it["tunnels"][0]["kind"] == kind
    })
}

/// A counter of ACK control, summed over all policies.
fn counted(status: &Value, name: &str) -> u64 {
    let aggregates = status["aggregates"].as_array().into_iter().flatten();
    aggregates.filter_map(|it| it["ack_control"][name].as_u64()).sum()
}
