//! Live tests of trunks. A trunk carries the user packets between two gateways.
//!
//! The tests cover shares of a path, short transfers beside long transfers, failures of gateways,
//! changes of the path, nested trunks, misbehaving peers, and large numbers of trunks.

mod ack_control;
mod changes;
mod differs;
mod epochs;
mod liar;
mod many;
mod nested;
mod shares;
mod sites;
mod survival;
mod web;
mod weights;

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::{Host, Server, Testbed, on_each_backend, pause, until};

use self::sites::key;

on_each_backend! { witnessed_beside_others:
    the_gateway_resolves_the_next_hop_and_answers_arp_requests
    packets_bypass_the_trunk_to_a_missing_peer_only_with_fallback_direct
}

const LIMIT: Duration = Duration::from_secs(60);

/// The policy file of a gateway with a trunk. The trunk leads through the WAN host to an address
/// that no host has. The trunk has the setting `fallback`.
fn lonely(bed: &Testbed, v6: bool, fallback: &str) -> String {
    let (local, peer, next_hop) = if v6 {
        ("fd83::77", "fd83:1::1", bed.wan.v6)
    } else {
        ("10.83.0.77", "10.84.0.1", bed.wan.v4)
    };
    let key = key(bed);
    format!(
        r#"
[[trunk]]
name = "t"
local = "{local}"
peer = "{peer}"
next_hop = "{next_hop}"
key_file = "{key}"
fallback = "{fallback}"

[[policy]]
name = "all"
action = "pass"
trunk = "t"
"#
    )
}

fn the_gateway_resolves_the_next_hop_and_answers_arp_requests(bed: &Testbed, backend: &str) {
    for v6 in [false, true] {
        let gateway = bed.gateway(backend, &lonely(bed, v6, "hold"));
        let of = |host: &Host| host.mac.map(|byte| format!("{byte:02x}")).join(":");
        let said = until("the next hop", LIMIT, || {
            let said = gateway.ask("trunks")["trunks"][0]["other_end"].clone();
            said["next_hop"].is_string().then_some(said)
        });
        assert_eq!(said["next_hop"], of(&bed.wan), "{said}");
        assert_eq!((said["state"].as_str(), said["sessions"].as_u64()), (Some("unknown"), Some(0)));
        // A ping to the address causes an ARP request. The gateway answers the request, but not the
        // ping.
        let address = if v6 { "fd83::77" } else { "10.83.0.77" };
        let ask = format!("ping -c 1 -W 1 {address} > /dev/null; ip neighbour show {address}");
        let shell = bed.wan.command("sh").args(["-c", &ask]).output().expect("a shell");
        let known = String::from_utf8_lossy(&shell.stdout).into_owned();
        let port = bed.middle.run("cat /sys/class/net/wan/address");
        assert!(known.contains(port.trim()), "{known}, not {port}");
    }
}

fn packets_bypass_the_trunk_to_a_missing_peer_only_with_fallback_direct(
    bed: &Testbed,
    backend: &str,
) {
    let server = Server::start(&bed.wan, 7000, "cubic");
    let upload = || server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "2 MB", "--upload"]);
    {
        let gateway = bed.gateway(backend, &lonely(bed, false, "direct"));
        let outcome = upload().finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}");
        let trunk = &gateway.ask("trunks")["trunks"][0];
        assert!(trunk["past_bytes"].as_u64() > Some(2_000_000), "{trunk}");
        assert_eq!(trunk["elastic_bytes"], 0, "{trunk}");
    }
    let gateway = bed.gateway(backend, &lonely(bed, false, "hold"));
    let held = upload();
    until("the peer to be considered dead", LIMIT, || {
        let trunk = &gateway.ask("trunks")["trunks"][0];
        (trunk["silent"] == trunk["connections"]).then_some(())
    });
    pause(Duration::from_secs(2));
    let trunk = &gateway.ask("trunks")["trunks"][0];
    assert_eq!((held.bytes(), &trunk["past_bytes"]), (0, &Value::from(0)), "{trunk}");
    assert!(trunk["waiting"]["packets"].as_u64() > Some(0), "{trunk}");
}
