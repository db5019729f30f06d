//! Downloads and streams keep their rates beside uploads, with the default queue of the link.

use super::trunks::results;

/// A scenario with an access line of the rates `up` and `down`, and two computers. `queue` replaces
/// the default queue of its gateway, and `more` is the traffic.
fn scenario(up: &str, down: &str, queue: &str, more: &str) -> String {
    format!(
        r#"
[run]
duration = "16 s"
warmup = "8 s"
tcp = {{ profile = "linux" }}

[[gateway]]
name = "edge"
inline = '''
[gateway]
lan = "lan"
wan = "wan"
rate = {{ up = "{up}", down = "{down}" }}
{queue}
'''

[[host]]
name = "pc"
gateway = "edge"

[[host]]
name = "box"
gateway = "edge"

[[host]]
name = "server"

[[link]]
from = "edge.wan"
to = "server"
rate = "10 Gbit/s"
delay = "10 ms"

{more}
"#
    )
}

fn uploads(from: &str, flows: u32) -> String {
    format!(
        "[[traffic]]\nname = \"uploads\"\nkind = \"greedy\"\nfrom = \"{from}\"\nto = \"server\"\nflows = {flows}\n\
         start = {{ uniform = [\"0 s\", \"2 s\"] }}\n"
    )
}

/// Goodput of the first group in bit/s.
fn first(text: &str) -> f64 {
    let results = results(text);
    results.table("groups").unwrap().real("goodput_bps")[0]
}

/// An ADSL line with ATM cells and PPPoE. A download should keep 0.9 of the rate that it has
/// without uploads. The mean over ten seeds of 30 s is 0.91; with `fq-codel` it is 0.22.
///
/// Catches: `fq-codel` as the default queue (0.22); ACKs that wait behind data of new flows (0.50
/// for uploads of the same computer); a gateway that does not discard superseded ACKs.
#[test]
fn a_download_keeps_its_rate_beside_32_uploads_of_any_computer() {
    const DOWNLOAD: &str =
        "[[traffic]]\nname = \"download\"\nkind = \"greedy\"\nfrom = \"server\"\nto = \"pc\"\n";
    let adsl = |queue: &str, more: &str| {
        let fields = format!("overhead = \"pppoe-llcsnap\"\n{queue}");
        first(&scenario("0.83 Mbit/s", "10.8 Mbit/s", &fields, &format!("{DOWNLOAD}{more}")))
    };
    let alone = adsl("", "");
    for from in ["box", "pc"] {
        let kept = adsl("", &uploads(from, 32)) / alone;
        assert!(kept > 0.87, "beside uploads of {from}: {kept}");
    }
    let before = adsl("queue = \"fq-codel\"", &uploads("box", 32)) / alone;
    assert!(before < 0.5, "{before}");
}

/// Catches: round robin between flows instead of hosts, so that the stream gets only 0.22 Mbit/s.
#[test]
fn a_stream_keeps_its_rate_beside_60_uploads_of_another_computer() {
    let stream = "[[traffic]]\nname = \"stream\"\nkind = \"cbr\"\nprotocol = \"udp\"\nfrom = \"pc\"\nto = \"server\"\n\
                  rate = \"3 Mbit/s\"\npacket = \"1000 B\"\n";
    let more = format!("{stream}{}", uploads("box", 60));
    let results = results(&scenario("10 Mbit/s", "250 Mbit/s", "overhead = \"ethernet\"", &more));
    let rate = results.table("groups").unwrap().real("throughput_bps")[0];
    assert!((2.99e6..3.01e6).contains(&rate), "{rate}");
}
