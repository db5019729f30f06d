//! Live tests of ACK control, which holds ACKs (`postack`) or lowers windows (`tcr`), with real TCP
//! over a round-trip time of 52 ms.

use std::time::Duration;

use serde_json::Value;
use tidegate_e2e::measure::median;
use tidegate_e2e::trial::{
    FAR, Findings, GATEWAY, NEAR, RATE, Trial, counted, drops, hangs, side_by_side, taken_for_old,
    topology, undisturbed_runs,
};
use tidegate_e2e::{
    Fetch, Gateway, Host, Lab, Outcome, Process, Server, Testbed, on_each_backend, skip, until,
};

on_each_backend! {
    ack_control_keeps_the_rate_with_almost_empty_queues
    one_connection_carries_data_both_ways
    datagrams_and_ack_controlled_tcp_do_not_starve_each_other
    a_transfer_survives_a_gateway_that_held_its_acks
    a_two_way_connection_survives_a_gateway_that_held_its_acks
}

const LIMIT: Duration = Duration::from_secs(90);

/// Computes a figure of a run with ACK control, relative to the run with `none` at the same time.
type Ratio = fn(&Findings, &Findings) -> f64;

/// Runs `none`, `postack` and `tcr` at the same time, in cases with several congestion controls.
/// For rates and queues, the median of all cases is tested. The TCP counters, summed over all
/// cases, must be no worse than with `none`.
fn ack_control_keeps_the_rate_with_almost_empty_queues(bed: &Testbed, backend: &str) {
    let cases = [("up", "cubic"), ("down", "cubic"), ("up", "reno"), ("down", "bbr")];
    let run = |way, congestion| {
        let of = |ack_control| {
            let (flows, short_windows, seconds) = (2, false, [3, 3]);
            Trial { backend, ack_control, way, congestion, flows, short_windows, seconds }.live(bed)
        };
        let [them] =
            undisturbed_runs(|| side_by_side(["none", "postack", "tcr"], of), |them| hangs(them));
        println!("{backend}, {way}, {congestion}: {them:?}");
        them
    };
    let cases = cases.into_iter().filter(|(_, congestion)| available(congestion));
    let all: Vec<Vec<Findings>> = cases.map(|(way, congestion)| run(way, congestion)).collect();
    let goodput: Ratio = |it, none| it.goodput / none.goodput;
    let waiting: Ratio = |it, none| it.waiting / none.waiting;
    for (index, least) in [(1, 0.95), (2, 0.9)] {
        let of = |ratio: Ratio| median(all.iter().map(|them| ratio(&them[index], &them[0])));
        assert!(of(goodput) >= least, "{all:#?}");
        assert!(of(waiting) <= 0.1, "{all:#?}");
        assert!(median(all.iter().map(|them| them[index].goodput)) < 1.15 * RATE, "{all:#?}");
        assert!(all.iter().all(|them| them[index].drops == 0), "{all:#?}");
        for name in all[0][0].counted.keys() {
            let count = |at: usize| all.iter().map(|them| them[at].counted[name]).sum::<u64>();
            assert!(count(index) <= count(0), "{name}: {all:#?}");
        }
    }
    // No segment was rejected as old (RFC 7323, section 5).
    assert!(all.iter().flatten().all(|it| it.counted["PAWSEstab"] == 0), "{all:#?}");
}

/// Returns `true` if this kernel has the congestion control. Otherwise prints that it is missing.
fn available(congestion: &str) -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let all = std::fs::read_to_string(path).unwrap_or_default();
    let is = all.split_whitespace().any(|it| it == congestion);
    if !is {
        skip(&format!("this kernel has no {congestion}"));
    }
    is
}

fn mix(lab: &Lab, host: &str, words: &[&str]) -> Process {
    Process::start(lab.on(host).arg(env!("CARGO_BIN_EXE_e2e-mix")).args(words))
}

/// Bytes that each end of the connection sends.
const BYTES: u64 = 3_000_000;

/// Exchanges data in both directions of one connection. Returns the results of both ends, and the
/// gateway's status.
fn exchange(
    bed: &Testbed,
    backend: &str,
    ack_control: &str,
    offload: &str,
) -> ([Outcome; 2], Value) {
    let lab = Lab::up(bed, &topology(backend, ack_control, offload));
    let before = counted(&lab);
    let listener = mix(&lab, FAR.0, &["listen", "7001", &BYTES.to_string()]);
    until("a listener", LIMIT, || listener.lines().pop());
    let address = format!("{}:7001", FAR.1);
    let connection = Fetch::of(mix(&lab, NEAR, &["connect", &address, &BYTES.to_string()]));
    let outcomes = [Fetch::of(listener), connection].map(|it| it.finish(LIMIT));
    // The last ACK may depart after its receiver has closed the connection.
    let status = until("no held ACK", LIMIT, || {
        Some(lab.status(GATEWAY)).filter(|status| status["held"] == 0)
    });
    assert!(outcomes.iter().all(|it| it.intact && it.bytes == BYTES), "{outcomes:?}");
    assert_eq!(taken_for_old(&lab, &before), 0, "{outcomes:?}, {status}");
    (outcomes, status)
}

/// One connection carries data in both directions. With the kernel's default offloads, packets
/// larger than the MTU (super-packets) then carry data and ACKs together.
fn one_connection_carries_data_both_ways(bed: &Testbed, backend: &str) {
    let all = [("none", "wire"), ("postack", "wire"), ("postack", "default"), ("tcr", "wire")];
    let run =
        || side_by_side(all, |(ack_control, offload)| exchange(bed, backend, ack_control, offload));
    let rate = |(outcomes, _): &([Outcome; 2], Value)| outcomes[0].rate().min(outcomes[1].rate());
    let hangs = |them: &Vec<([Outcome; 2], Value)>| {
        them.iter().filter_map(|(_, status)| status["hangs"].as_u64()).sum()
    };
    let runs: [_; 3] = undisturbed_runs(run, hangs);
    let rates = runs.each_ref().map(|them| them.iter().map(rate).collect::<Vec<_>>());
    println!("{backend}, {all:?}: {rates:?}");
    assert!(median(rates.iter().map(|it| it[1] / it[0])) >= 0.95, "{rates:?}");
    let statuses = runs.iter().flat_map(|them| all.iter().zip(them).skip(1));
    for ((ack_control, _), (_, status)) in statuses {
        let count = |name: &str| -> u64 {
            let aggregates = status["aggregates"].as_array().into_iter().flatten();
            aggregates.filter_map(|it| it["ack_control"][name].as_u64()).sum()
        };
        assert!(count("delayed") > 0, "{status}");
        assert!(*ack_control != "postack" || count("made") > 0, "{status}");
        assert_eq!(count("held"), 0, "{status}");
    }
}

/// Datagrams take half of the rate, and ACK control cannot slow them down. Returns the rates of the
/// TCP transfers in both directions, and the number of hangs.
fn beside_datagrams(bed: &Testbed, backend: &str, ack_control: &str) -> ([f64; 2], u64) {
    let lab = Lab::up(bed, &topology(backend, ack_control, "wire"));
    let _server = lab.serve(FAR.0, "cubic");
    let rates =
        [(NEAR, FAR.1, &["--upload"][..]), (FAR.0, "10.73.0.1", &[])].map(|(from, to, way)| {
            let flood = mix(&lab, from, &["flood", &format!("{to}:9"), "625000", "60"]);
            let outcome =
                lab.fetch(NEAR, FAR.1, &[&["--bytes", "1 MB"], way].concat()).finish(LIMIT);
            drop(flood);
            assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", lab.status(GATEWAY));
            outcome.rate()
        });
    let status = lab.status(GATEWAY);
    assert_eq!(drops(&status), 0, "{status}");
    (rates, status["hangs"].as_u64().unwrap_or(0))
}

fn datagrams_and_ack_controlled_tcp_do_not_starve_each_other(bed: &Testbed, backend: &str) {
    let of = |ack_control| beside_datagrams(bed, backend, ack_control);
    let run = || side_by_side(["none", "postack"], of);
    let rates: [_; 3] = undisturbed_runs(run, |them| them.iter().map(|(_, hangs)| hangs).sum());
    println!("{backend}: {rates:?}");
    for way in 0..2 {
        let ratio = median(rates.iter().map(|them| them[1].0[way] / them[0].0[way]));
        assert!(ratio >= 0.9, "{rates:?}");
    }
}

const HELD: &str = r#"
[[policy]]
name = "all"
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
action = "shape"
allocation = "drr"
"#;

/// Payload bytes whose arrival proves progress: more than all buffers can hold.
const PROGRESS: u64 = 1_000_000;

/// Time within which transfers must continue after each change of the gateway. A stall would last
/// longer.
const GOES_ON: Duration = Duration::from_secs(15);

/// Time within which transfers must continue after the loss of held ACKs.
const RECOVERS: Duration = Duration::from_secs(2);

/// The gateway is killed, restarted, reloaded with another ACK control and then without one, and
/// stopped. It holds ACKs before each of these steps.
fn a_transfer_survives_a_gateway_that_held_its_acks(bed: &Testbed, backend: &str) {
    // Limits the rates of the hosts' interfaces. Otherwise the transfers would be much faster
    // without the gateway, and would end too early.
    if !bed.wan.slow_down("30mbit") || !bed.lan.slow_down("30mbit") {
        return;
    }
    let with = |ack_control: &str| format!("{HELD}ack_control = \"{ack_control}\"\n");
    let server = Server::start(&bed.wan, 7000, "cubic");
    let mut gateway = bed.gateway(backend, &with("postack"));
    let fetch = |way: &[&str]| server.fetch(bed.wan.v4, &bed.lan, way);
    let fetches = [fetch(&["--bytes", "40 MB"]), fetch(&["--bytes", "40 MB", "--upload"])];
    go_on(&fetches, GOES_ON, &gateway);
    until("ACKs to be held", LIMIT, || (gateway.status()["held"] != 0).then_some(()));
    gateway.crash();
    // The held ACKs are lost with the gateway. Later ACKs replace them, because ACKs are
    // cumulative.
    go_on(&fetches, RECOVERS, &gateway);
    gateway.start_again();
    go_on(&fetches, GOES_ON, &gateway);
    for ack_control in ["tcr", "none", "postack"] {
        gateway.apply(backend, &with(ack_control));
        go_on(&fetches, GOES_ON, &gateway);
    }
    assert_eq!(gateway.status()["aggregates"][0]["ack_control"]["kind"], "postack");
    gateway.stop();
    go_on(&fetches, GOES_ON, &gateway);
    gateway.start_again();
    for fetch in fetches {
        let outcome = fetch.finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", gateway.all_output());
    }
}

/// Each end may wait for an ACK that was lost with the gateway. A retransmission timeout ends the
/// wait. This limit is longer than one second, the longest time for which an ACK is held.
const TIMES_OUT: Duration = Duration::from_secs(3);

/// The gateway is killed and restarted twice, while one connection carries data in both directions.
fn a_two_way_connection_survives_a_gateway_that_held_its_acks(bed: &Testbed, backend: &str) {
    const BYTES: &str = "14000000";
    if !bed.wan.slow_down("30mbit") || !bed.lan.slow_down("30mbit") {
        return;
    }
    let mut gateway = bed.gateway(backend, &format!("{HELD}ack_control = \"postack\"\n"));
    let mix = |host: &Host, words: &[&str]| {
        Process::start(host.command(env!("CARGO_BIN_EXE_e2e-mix")).args(words))
    };
    let listener = mix(&bed.wan, &["listen", "7001", BYTES]);
    until("a listener", LIMIT, || listener.lines().pop());
    let connection = mix(&bed.lan, &["connect", &format!("{}:7001", bed.wan.v4), BYTES]);
    let ends = [listener, connection].map(Fetch::of);
    go_on(&ends, GOES_ON, &gateway);
    for _ in 0..2 {
        until("ACKs to be held", LIMIT, || (gateway.status()["held"] != 0).then_some(()));
        gateway.crash();
        go_on(&ends, TIMES_OUT, &gateway);
        gateway.start_again();
        go_on(&ends, GOES_ON, &gateway);
    }
    let outcomes = ends.map(|it| it.finish(LIMIT));
    println!("{backend}: the longest gaps are {:?}", outcomes.map(|it| it.longest_pause));
    for it in outcomes {
        assert!(it.complete && it.intact && it.longest_pause < TIMES_OUT, "{it:?}");
        assert_eq!(it.bytes.to_string(), BYTES);
    }
}

/// Asserts that all transfers make progress within `limit`.
fn go_on(fetches: &[Fetch], limit: Duration, gateway: &Gateway<'_>) {
    let goals: Vec<u64> = fetches.iter().map(|it| it.bytes() + PROGRESS).collect();
    until(&format!("progress of {fetches:?}: {}", gateway.all_output()), limit, || {
        fetches.iter().zip(&goals).all(|(it, goal)| it.bytes() >= *goal).then_some(())
    });
}
