//! Live tests of the rates and the fairness of aggregates, with real TCP. An aggregate is the
//! traffic of a policy in one direction.

use std::net::IpAddr;
use std::time::Duration;

use tidegate_e2e::measure::{float, frames_and_bytes, jain, median};
use tidegate_e2e::{Fetch, Outcome, Server, Testbed, now, on_each_backend, pause};

on_each_backend! {
    an_aggregate_keeps_its_rate_and_its_flows_share_it
    weights_are_kept_within_an_aggregate
    each_direction_has_its_rate
    slow_and_fast_aggregates_keep_their_rates_at_the_same_time
    the_link_keeps_its_rate_without_a_policy
    traffic_of_hosts_with_offloads_is_shaped
    bytes_are_intact_at_full_speed
}

const LIMIT: Duration = Duration::from_secs(30);

/// Time before the measurement, in which the connections reach their rates.
const WARM_UP: Duration = Duration::from_secs(2);

/// Duration of the measurement.
const MEASURED: Duration = Duration::from_secs(5);

/// Share of payload in a full frame of TCP with timestamps, over IPv4 and over IPv6.
const PAYLOAD_V4: f64 = 1_448.0 / 1_514.0;
const PAYLOAD_V6: f64 = 1_428.0 / 1_514.0;

/// The results of [`frames_and_bytes`], measured after the warm-up.
fn measure(bed: &Testbed, fetches: &[Fetch]) -> (f64, Vec<f64>) {
    pause(WARM_UP);
    frames_and_bytes(MEASURED, bed, fetches)
}

fn all_intact(fetches: Vec<Fetch>) {
    let outcomes: Vec<Outcome> = fetches.into_iter().map(|fetch| fetch.finish(LIMIT)).collect();
    assert!(outcomes.iter().all(|outcome| outcome.intact), "{outcomes:?}");
}

fn an_aggregate_keeps_its_rate_and_its_flows_share_it(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "web"
match = { src_port = 7000, direction = "down" }
profile = { mean = "10 Mbit/s", burst = "32 KiB" }
action = "shape"
allocation = "logical-partitions"
"#,
    );
    let server = Server::start(&bed.wan, 7000, "reno");
    let addresses = [bed.wan.v4, bed.wan.v6, bed.wan.v4, bed.wan.v6];
    let fetch = |address: IpAddr| server.fetch(address, &bed.lan, &["--time", "9 s"]);
    let fetches: Vec<Fetch> = addresses.into_iter().map(fetch).collect();
    let (rate, each) = measure(bed, &fetches);
    assert!((rate / 10e6 - 1.0).abs() < 0.02, "{rate} bit/s, {}", gateway.status());
    assert!(jain(&each) >= 0.98, "{each:?}, {}", gateway.status());
    all_intact(fetches);
}

fn weights_are_kept_within_an_aggregate(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "weighted"
match = { direction = "down" }
profile = { mean = "10 Mbit/s", burst = "64 KiB" }
action = "shape"
allocation = "logical-partitions"
weights = [{ match = { src_port = 7001 }, weight = 3 }]
"#,
    );
    let (one, three) =
        (Server::start(&bed.wan, 7000, "reno"), Server::start(&bed.wan, 7001, "reno"));
    let fetch = |server: &Server| server.fetch(bed.wan.v4, &bed.lan, &["--time", "9 s"]);
    let fetches = vec![fetch(&one), fetch(&three)];
    let (_, each) = measure(bed, &fetches);
    let ratio = each[1] / each[0];
    assert!((ratio / 3.0 - 1.0).abs() < 0.1, "{each:?}, {}", gateway.status());
    all_intact(fetches);
}

fn each_direction_has_its_rate(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "both-ways"
profile = { mean = "8 Mbit/s", burst = "32 KiB" }
action = "shape"
"#,
    );
    let server = Server::start(&bed.wan, 7000, "reno");
    let words = ["--time", "9 s"];
    let down = server.fetch(bed.wan.v4, &bed.lan, &words);
    let up = server.fetch(
        bed.wan.v6,
        &bed.lan,
        &[&words[..], &["--upload", "--congestion", "reno"]].concat(),
    );
    pause(WARM_UP);
    let bytes = || (bed.lan.received_bytes("eth0"), bed.wan.received_bytes("eth0"));
    let rates = || {
        let (start, before) = (now(), bytes());
        pause(Duration::from_secs(2));
        let (after, seconds) = (bytes(), start.elapsed().as_secs_f64());
        [after.0 - before.0, after.1 - before.1].map(|gained| float(gained) * 8.0 / seconds)
    };
    // The rate is lower if this machine delays the gateway for longer than 32 ms, the duration of a
    // burst. So the median of three measurements is tested.
    let spans: Vec<[f64; 2]> = (0..3).map(|_| rates()).collect();
    for way in [0, 1] {
        let rate = median(spans.iter().map(|span| span[way]));
        assert!((rate / 8e6 - 1.0).abs() < 0.02, "{spans:?} bit/s, {}", gateway.status());
        let mean = spans.iter().map(|span| span[way]).sum::<f64>() / 3.0;
        assert!(mean < 1.02 * 8e6, "{spans:?} bit/s, {}", gateway.status());
    }
    all_intact(vec![down, up]);
}

fn slow_and_fast_aggregates_keep_their_rates_at_the_same_time(bed: &Testbed, backend: &str) {
    // With such a small receive window, no packet is lost, and data arrives soon after it was sent.
    bed.lan.set("net/ipv4/tcp_rmem", "4096 65536 65536");
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "slow"
match = { protocol = "tcp", src_port = 7000 }
profile = { mean = "1 Mbit/s", burst = "4 kB" }
action = "shape"

[[policy]]
name = "fast"
match = { protocol = "tcp", src_port = 7001 }
profile = { mean = "50 Mbit/s", burst = "64 KiB" }
action = "shape"
"#,
    );
    let (slow, fast) =
        (Server::start(&bed.wan, 7000, "reno"), Server::start(&bed.wan, 7001, "reno"));
    let words = ["--time", "9 s"];
    let flows = [
        (slow.fetch(bed.wan.v4, &bed.lan, &words), 1e6, PAYLOAD_V4),
        (fast.fetch(bed.wan.v6, &bed.lan, &words), 50e6, PAYLOAD_V6),
    ];
    pause(WARM_UP);
    let before = flows.each_ref().map(|(fetch, ..)| fetch.progress());
    pause(MEASURED);
    for ((fetch, expected, payload), before) in flows.iter().zip(before) {
        let after = fetch.progress();
        let seconds = (after.0 - before.0).as_secs_f64();
        let rate = float(after.1 - before.1) * 8.0 / seconds / payload;
        assert!((rate / expected - 1.0).abs() < 0.02, "{rate} bit/s, {}", gateway.status());
    }
    all_intact(flows.into_iter().map(|(fetch, ..)| fetch).collect());
}

/// If the gateway sends a packet more than 2 ms too late, the link does not make up for the lost
/// time. In a second in which the machine delays the gateway, the link thus carries less. So the
/// median of five seconds is tested. In no second may the link carry more than its rate.
fn the_link_keeps_its_rate_without_a_policy(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, "rate = { down = \"12 Mbit/s\" }\n");
    let server = Server::start(&bed.wan, 7000, "reno");
    let fetch = || server.fetch(bed.wan.v4, &bed.lan, &["--time", "9 s"]);
    let fetches = vec![fetch(), fetch()];
    pause(WARM_UP);
    let second = |_| frames_and_bytes(Duration::from_secs(1), bed, &fetches);
    let (rates, each): (Vec<f64>, Vec<Vec<f64>>) = (0..5).map(second).unzip();
    let rate = median(rates.iter().copied());
    assert!((rate / 12e6 - 1.0).abs() < 0.02, "{rates:?} bit/s, {}", gateway.status());
    assert!(rates.iter().all(|it| *it < 1.02 * 12e6), "{rates:?} bit/s, {}", gateway.status());
    let each = [0, 1].map(|fetch| each.iter().map(|second| second[fetch]).sum());
    assert!(jain(&each) >= 0.95, "{each:?}, {}", gateway.status());
    all_intact(fetches);
}

fn traffic_of_hosts_with_offloads_is_shaped(bed: &Testbed, backend: &str) {
    [&bed.lan, &bed.wan].iter().for_each(|host| host.offload());
    bed.lan.set("net/ipv4/tcp_rmem", "4096 131072 131072");
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "all"
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
action = "shape"
"#,
    );
    let server = Server::start(&bed.wan, 7000, "reno");
    let down = server.fetch(bed.wan.v4, &bed.lan, &["--time", "9 s"]);
    let up = server.fetch(bed.wan.v6, &bed.lan, &["--time", "9 s", "--upload"]);
    pause(WARM_UP);
    let before = down.progress();
    pause(MEASURED);
    let after = down.progress();
    let rate = float(after.1 - before.1) * 8.0 / (after.0 - before.0).as_secs_f64() / PAYLOAD_V4;
    assert!((rate / 20e6 - 1.0).abs() < 0.05, "{rate} bit/s, {}", gateway.status());
    all_intact(vec![down, up]);
}

fn bytes_are_intact_at_full_speed(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(
        backend,
        r#"
[[policy]]
name = "counted"
action = "pass"
"#,
    );
    let server = Server::start(&bed.wan, 7000, "reno");
    for (address, way) in [(bed.wan.v4, &[][..]), (bed.wan.v6, &["--upload"])] {
        let words = [&["--bytes", "50 MB"], way].concat();
        let outcome = server.fetch(address, &bed.lan, &words).finish(LIMIT);
        assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", gateway.all_output());
    }
    let counted = &gateway.status()["aggregates"];
    assert!(counted.as_array().is_some_and(|rows| rows.len() == 2), "{counted}");
}
