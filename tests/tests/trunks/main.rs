//! Live tests of trunks between gateways.
//!
//! They cover shares of a path, short transfers beside long ones, failures of gateways and changes
//! of the path, nested trunks, lying peers, and large numbers of trunks.

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
    the_next_hop_is_found_and_the_address_answers
    past_a_peer_that_never_was_there_packets_go_directly_if_so_told
}

const LIMIT: Duration = Duration::from_secs(60);

/// The policy file of a gateway whose trunk, with this `fallback`, leads through the WAN host to an
/// address that no host has.
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

fn the_next_hop_is_found_and_the_address_answers(bed: &Testbed, backend: &str) {
    for v6 in [false, true] {
        let gateway = bed.gateway(backend, &lonely(bed, v6, "hold"));
        let of = |host: &Host| host.mac.map(|byte| format!("{byte:02x}")).join(":");
        let said = until("the next hop", LIMIT, || {
            let said = gateway.ask("trunks")["trunks"][0]["other_end"].clone();
            said["next_hop"].is_string().then_some(said)
        });
        assert_eq!(said["next_hop"], of(&bed.wan), "{said}");
        assert_eq!((said["state"].as_str(), said["sessions"].as_u64()), (Some("unknown"), Some(0)));
        // A ping to the address causes an ARP request, which the gateway answers. It answers
        // nothing else.
        let address = if v6 { "fd83::77" } else { "10.83.0.77" };
        let ask = format!("ping -c 1 -W 1 {address} > /dev/null; ip neighbour show {address}");
        let shell = bed.wan.command("sh").args(["-c", &ask]).output().expect("a shell");
        let known = String::from_utf8_lossy(&shell.stdout).into_owned();
        let port = bed.middle.run("cat /sys/class/net/wan/address");
        assert!(known.contains(port.trim()), "{known}, not {port}");
    }
}

fn past_a_peer_that_never_was_there_packets_go_directly_if_so_told(bed: &Testbed, backend: &str) {
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
    until("the other end to be held for gone", LIMIT, || {
        let trunk = &gateway.ask("trunks")["trunks"][0];
        (trunk["silent"] == trunk["connections"]).then_some(())
    });
    pause(Duration::from_secs(2));
    let trunk = &gateway.ask("trunks")["trunks"][0];
    assert_eq!((held.bytes(), &trunk["past_bytes"]), (0, &Value::from(0)), "{trunk}");
    assert!(trunk["waiting"]["packets"].as_u64() > Some(0), "{trunk}");
}
