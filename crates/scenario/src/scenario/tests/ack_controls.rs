//! Scenario files with ACK control, as users write them. A gateway with ACK control holds ACKs, or
//! reduces windows in ACKs, so that data waits at the senders.

use super::trunks::results;

/// A scenario with two TCP senders and two UDP senders, all from host `from` to host `to`. A policy
/// of 10 Mbit/s with ACK control shapes them. UDP offers 5.5 Mbit/s.
fn half_udp(from: &str, to: &str) -> String {
    format!(
        r#"
[run]
duration = "24 s"
warmup = "4 s"
tcp = {{ profile = "linux" }}
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
[[policy]]
name = "all"
profile = {{ mean = "10 Mbit/s", burst = "15140 B" }}
action = "shape"
allocation = "drr"
queue = {{ kind = "per-flow", limit = "32 MiB", flow_limit = "8 MiB" }}
ack_control = "postack"
'''
[[traffic]]
name = "bulk"
kind = "greedy"
from = "{from}"
to = "{to}"
flows = 2
[[traffic]]
name = "flood"
kind = "cbr"
from = "{from}"
to = "{to}"
flows = 2
rate = "2750 kbit/s"
packet = "1042 B"
"#
    )
}

/// Catches: windows for the whole rate of the policy, as if no UDP packets were sent. The gateway
/// would then hold ACKs up to its limit `max_hold`, data would wait for 100 ms, and downloads would
/// exceed the policy's rate by 5 %.
#[test]
fn beside_udp_tcp_data_does_not_wait_and_downloads_keep_to_the_rate() {
    for (from, to) in [("near", "far"), ("far", "near")] {
        let results = results(&half_udp(from, to));
        let groups = results.table("groups").unwrap();
        let [tcp, udp] = *groups.real("throughput_bps") else { panic!("two groups") };
        assert!(tcp > 4.9e6 && udp > 4.9e6 && tcp + udp < 10.05e6, "{tcp} and {udp} bit/s");
        let delay = groups.real("delay_mean_seconds")[0];
        // The path itself takes 26 ms.
        assert!(delay < 0.040, "{delay} s from {from}");
    }
}
