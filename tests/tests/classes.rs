//! Live test: classes share the link, with real TCP through a gateway.

use std::time::Duration;

use tidegate_e2e::measure::{frames_and_bytes, median};
use tidegate_e2e::{Fetch, Gateway, Process, Server, Testbed, on_each_backend, pause, until};

on_each_backend! {
    classes_get_their_guarantees_and_share_the_remainder_by_weight
    addresses_are_resolved_while_a_class_with_priority_saturates_the_link
}

const LIMIT: Duration = Duration::from_secs(30);

/// Time before the measurement, in which the connections reach their rates.
const WARM_UP: Duration = Duration::from_secs(2);

/// Rate of the link in Mbit/s.
const RATE: f64 = 12.0;

/// The guarantees take 8 of 12 Mbit/s. The remainder of 4 Mbit/s is shared in the ratio 1 to 3.
const CLASSES: &str = r#"
rate = { down = "12 Mbit/s" }

[[class]]
name = "office"
guarantee = { down = "6 Mbit/s" }

[[class]]
name = "guests"
guarantee = { down = "2 Mbit/s" }
weight = 3

[[policy]]
name = "office"
match = { src_port = 7000 }
action = "pass"
class = "office"

[[policy]]
name = "guests"
match = { src_port = 7001 }
action = "pass"
class = "guests"
"#;

fn classes_get_their_guarantees_and_share_the_remainder_by_weight(bed: &Testbed, backend: &str) {
    let gateway = bed.gateway(backend, CLASSES);
    let servers = [7000, 7001].map(|port| Server::start(&bed.wan, port, "reno"));
    let fetch = |server: &Server| server.fetch(bed.wan.v4, &bed.lan, &["--time", "30 s"]);
    let fetches: Vec<Fetch> = servers.iter().map(fetch).collect();
    is_shared(bed, &gateway, &fetches, |left| 6.0 + (left - 6.0 - 2.0) / 4.0);

    gateway.run_command(&["class", "set", "office", "guarantee=1 Mbit/s", "ceiling=3 Mbit/s"]);
    is_shared(bed, &gateway, &fetches, |left| (1.0 + (left - 1.0 - 2.0) / 4.0).min(3.0));

    gateway.run_command(&["class", "set", "office", "guarantee=8 Mbit/s", "ceiling=none"]);
    is_shared(bed, &gateway, &fetches, |left| 8.0 + (left - 8.0 - 2.0) / 4.0);
    for fetch in fetches {
        let outcome = fetch.finish(LIMIT);
        assert!(outcome.intact, "{outcome:?}");
    }
}

/// Checks the rates of two classes, `office` and `guests`. The function `office` computes the
/// expected rate of the office from the measured rate of the whole link, in Mbit/s. The guests get
/// the remainder.
///
/// If the machine stands still, the link carries 95 % of its rate or less, and cannot keep the
/// guarantees. The check then fails, and the test is repeated. The median of three measurements
/// decides.
fn is_shared(bed: &Testbed, gateway: &Gateway<'_>, fetches: &[Fetch], office: impl Fn(f64) -> f64) {
    pause(WARM_UP);
    let parts = |_| {
        let (rate, each) = frames_and_bytes(Duration::from_secs(2), bed, fetches);
        let all: f64 = each.iter().sum();
        [0, 1].map(|of| rate * each[of] / all / 1e6)
    };
    let spans: Vec<[f64; 2]> = (0..3).map(parts).collect();
    let all = median(spans.iter().map(|span| span[0] + span[1]));
    let expected = [office(all), all - office(all)];
    let near =
        |of: usize| (median(spans.iter().map(|it| it[of])) / expected[of] - 1.0).abs() < 0.05;
    let kept = all > 0.95 * RATE && all < 1.02 * RATE && near(0) && near(1);
    assert!(kept, "{spans:?} Mbit/s, {}", gateway.status());
}

/// Two hosts saturate both directions of a class with priority. Two other hosts send pings within a
/// guarantee. ARP and neighbour discovery belong to no class.
const FLOODED: &str = r#"
rate = { up = "6 Mbit/s", down = "4 Mbit/s" }
queue = "drop-tail"

[[class]]
name = "urgent"
priority = 7

[[class]]
name = "pings"
guarantee = "500 kbit/s"

[[policy]]
name = "flood"
match = { src = ["10.83.0.1", "10.83.0.2"], dst = ["10.83.0.1", "10.83.0.2"] }
action = "pass"
class = "urgent"

[[policy]]
name = "pings-up"
match = { dst = ["10.83.0.12", "fd83::12"], direction = "up" }
action = "pass"
class = "pings"

[[policy]]
name = "pings-down"
match = { dst = ["10.83.0.11", "fd83::11"], direction = "down" }
action = "pass"
class = "pings"
"#;

fn addresses_are_resolved_while_a_class_with_priority_saturates_the_link(
    bed: &Testbed,
    backend: &str,
) {
    for (host, number) in [(&bed.lan, 11), (&bed.wan, 12)] {
        host.run(&format!("ip address add 10.83.0.{number}/24 dev eth0"));
        host.run(&format!("ip address add fd83::{number}/64 dev eth0 nodad"));
    }
    let gateway = bed.gateway(backend, FLOODED);
    let servers = [(&bed.wan, 7000), (&bed.lan, 7001)];
    let servers = servers.map(|(host, port)| (host, Server::start(host, port, "reno")));
    let more = ["--time", "90 s"];
    let down = servers[0].1.fetch(servers[0].0.v4, &bed.lan, &more);
    let up = servers[1].1.fetch(servers[1].0.v4, &bed.wan, &more);
    let waits = |way: &str| gateway.status()[way]["waiting"]["packets"].as_u64() > Some(20);
    let saturated = || (waits("up") && waits("down")).then_some(());
    for (from, to) in [("10.83.0.11", "10.83.0.12"), ("fd83::11", "fd83::12")] {
        until("a queue in both directions", LIMIT, saturated);
        let mut ping = bed.lan.command("ping");
        ping.args(["-n", "-c", "3", "-i", "0.2", "-w", "12", "-I", from, to]);
        let said = Process::start(&mut ping).finish(LIMIT);
        assert!(said.status.success(), "{said:?}\n{}", gateway.status());
    }
    until("a queue in both directions", LIMIT, saturated);
    let status = gateway.status();
    for way in ["up", "down"] {
        let control = &status[way]["control"];
        assert!(control["sent"]["packets"].as_u64() >= Some(2), "{status}");
        assert_eq!(control["dropped_packets"].as_u64(), Some(0), "{status}");
    }
    drop((down, up));
}
