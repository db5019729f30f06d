//! Live test: policies change under traffic. No packet may be lost, and the traffic must not pause.

use std::time::Duration;

use tidegate_e2e::{Server, Testbed, on_each_backend, until};

on_each_backend! {
    a_policy_swap_under_load_causes_no_retransmission
}

const LIMIT: Duration = Duration::from_secs(60);

fn policy(rate: &str, allocation: &str, queue: &str) -> String {
    format!(
        r#"
[[policy]]
name = "all"
match = {{ direction = "down" }}
profile = {{ mean = "{rate}", burst = "64 KiB" }}
action = "shape"
allocation = "{allocation}"
queue = "{queue}"
"#
    )
}

/// Maximum number of attempts. The test needs one attempt that the machine does not disturb.
const TRIES: u32 = 3;

fn a_policy_swap_under_load_causes_no_retransmission(bed: &Testbed, backend: &str) {
    // With such a small receive window, no queue fills up. So only the policy change can cause
    // retransmissions.
    bed.lan.set("net/ipv4/tcp_rmem", "4096 65536 65536");
    // Limits the rate of the sender's interface. Otherwise the transfer would end at once while no
    // policy is in force.
    if !bed.wan.slow_down("50mbit") {
        return;
    }
    assert!((0..TRIES).any(|_| swaps_under_load(bed, backend)), "the gateway hangs each time");
}

/// Changes policies during a transfer. Returns `false` if this machine delayed the gateway so long
/// that frames bypassed it. In that case, some frames are lost.
fn swaps_under_load(bed: &Testbed, backend: &str) -> bool {
    let gateway = bed.gateway(backend, &policy("20 Mbit/s", "logical-partitions", "per-flow"));
    let server = Server::start(&bed.wan, 7000, "reno");
    let fetch = server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "40 MB"]);
    fetch.moves_on(1_000_000, LIMIT);
    let before = Retransmissions::of(bed);
    let swaps = [
        policy("10 Mbit/s", "fcfs", "drop-tail"),
        policy("30 Mbit/s", "drr", "per-flow"),
        String::new(),
        policy("20 Mbit/s", "sequential", "drop-tail").replace("\"all\"", "\"other\""),
        policy("20 Mbit/s", "logical-partitions", "per-flow"),
    ];
    for (generation, next) in (2..).zip(&swaps) {
        if generation % 2 == 0 {
            gateway.apply(backend, next);
        } else {
            gateway.reload(backend, next);
        }
        assert_eq!(gateway.status()["generation"], generation, "{}", gateway.status());
        fetch.moves_on(1_000_000, LIMIT);
        if next.is_empty() {
            // While the gateway has nothing to manage, frames bypass it.
            until("the kernel to take over", LIMIT, || {
                (gateway.status()["passing"] == true).then_some(())
            });
        }
    }
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", gateway.all_output());
    let status = gateway.status();
    let undisturbed = status["hangs"] == 0;
    let now = Retransmissions::of(bed);
    assert!(now.only_needless_since(&before) || !undisturbed, "{before:?}, {now:?}, {status}");
    undisturbed
}

/// Number of a sender's retransmissions so far, by the sender's own counters.
#[derive(Debug)]
struct Retransmissions {
    segments: u64,
    /// Retransmissions during recoveries. A recovery begins after a loss or a reordering.
    in_recovery: u64,
    /// Segments that the receiver reported as duplicates.
    needless: u64,
}

impl Retransmissions {
    fn of(bed: &Testbed) -> Self {
        let [segments, in_recovery, needless] =
            ["RetransSegs", "TCPFastRetrans", "TCPDSACKRecvSegs"]
                .map(|name| bed.wan.tcp_counter(name));
        Self { segments, in_recovery, needless }
    }

    /// Returns `true` if only segments were retransmitted that had already arrived. In this case, a
    /// timer of this machine fired early: a tail loss probe is sent after two round-trip times, 50
    /// ms here.
    fn only_needless_since(&self, before: &Self) -> bool {
        self.in_recovery == before.in_recovery
            && self.segments - before.segments <= self.needless - before.needless
    }
}
