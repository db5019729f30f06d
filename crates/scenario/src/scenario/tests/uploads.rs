//! Rates of downloads and streams beside uploads, with the default queue of the link.

use super::trunks::results;

/// A line of `up` and `down` with the default queue, or with `queue`. Two computers are behind its
/// gateway, and `more` is their traffic.
fn line(up: &str, down: &str, queue: &str, more: &str) -> String {
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

/// An ADSL line with ATM cells and PPPoE. The goal is 0.9; the mean of ten seeds with 30 s each is
/// 0.91. With `fq-codel` it is 0.22.
///
/// Catches: `fq-codel` as the default (0.22); ACKs that wait behind new flows of data (0.50 of the
/// same computer); ACKs that are not thinned.
#[test]
fn a_download_keeps_its_rate_beside_32_uploads_of_any_computer() {
    const DOWNLOAD: &str =
        "[[traffic]]\nname = \"download\"\nkind = \"greedy\"\nfrom = \"server\"\nto = \"pc\"\n";
    let adsl = |queue: &str, more: &str| {
        let fields = format!("overhead = \"pppoe-llcsnap\"\n{queue}");
        first(&line("0.83 Mbit/s", "10.8 Mbit/s", &fields, &format!("{DOWNLOAD}{more}")))
    };
    let alone = adsl("", "");
    for from in ["box", "pc"] {
        let kept = adsl("", &uploads(from, 32)) / alone;
        assert!(kept > 0.87, "beside uploads of {from}: {kept}");
    }
    let before = adsl("queue = \"fq-codel\"", &uploads("box", 32)) / alone;
    assert!(before < 0.5, "{before}");
}

/// Catches: rounds of flows instead of rounds of hosts (0.22 Mbit/s).
#[test]
fn a_stream_keeps_its_rate_beside_60_uploads_of_another_computer() {
    let stream = "[[traffic]]\nname = \"stream\"\nkind = \"cbr\"\nprotocol = \"udp\"\nfrom = \"pc\"\nto = \"server\"\n\
                  rate = \"3 Mbit/s\"\npacket = \"1000 B\"\n";
    let more = format!("{stream}{}", uploads("box", 60));
    let results = results(&line("10 Mbit/s", "250 Mbit/s", "overhead = \"ethernet\"", &more));
    let rate = results.table("groups").unwrap().real("throughput_bps")[0];
    assert!((2.99e6..3.01e6).contains(&rate), "{rate}");
}
