//! Live tests: frames still cross the link when the gateway is killed, hangs, is stopped, or is
//! restarted under load.

use std::time::Duration;

use tidegate_e2e::{Fetch, Gateway, Server, Testbed, now, on_each_backend, pause};

on_each_backend! {
    a_transfer_continues_when_the_gateway_is_killed
    a_transfer_continues_when_the_gateway_hangs
    a_transfer_continues_during_a_restart
    frames_bypass_a_gateway_that_was_stopped
}

const LIMIT: Duration = Duration::from_secs(60);

/// Time within which a transfer must continue.
const GOES_ON: Duration = Duration::from_secs(1);

/// Payload bytes whose arrival proves progress. At most 250 kB can be in flight at the time of the
/// receiver's last report.
const PROGRESS: u64 = 500_000;

const SHAPED: &str = r#"
[[policy]]
name = "all"
match = { direction = "down" }
profile = { mean = "20 Mbit/s", burst = "64 KiB" }
action = "shape"
"#;

/// A gateway under load. Its transfer has just received one megabyte.
fn loaded<'a>(
    bed: &'a Testbed,
    backend: &str,
    server: &Server,
    bytes: &str,
) -> (Gateway<'a>, Fetch) {
    let gateway = bed.gateway(backend, SHAPED);
    assert_ne!(gateway.status()["ports"]["fail_to_wire"], "never", "{}", gateway.all_output());
    let fetch = server.fetch(bed.wan.v4, &bed.lan, &["--bytes", bytes]);
    fetch.moves_on(1_000_000, LIMIT);
    (gateway, fetch)
}

fn intact(fetch: Fetch, gateway: &Gateway<'_>) {
    let outcome = fetch.finish(LIMIT);
    assert!(outcome.complete && outcome.intact, "{outcome:?}, {}", gateway.all_output());
}

fn a_transfer_continues_when_the_gateway_is_killed(bed: &Testbed, backend: &str) {
    let server = Server::start(&bed.wan, 7000, "reno");
    let (mut gateway, fetch) = loaded(bed, backend, &server, "200 MB");
    gateway.crash();
    fetch.moves_on(PROGRESS, GOES_ON);
    intact(fetch, &gateway);
    let again = server.fetch(bed.wan.v6, &bed.lan, &["--bytes", "1 MB"]);
    intact(again, &gateway);
}

fn a_transfer_continues_when_the_gateway_hangs(bed: &Testbed, backend: &str) {
    let server = Server::start(&bed.wan, 7000, "reno");
    let (gateway, fetch) = loaded(bed, backend, &server, "200 MB");
    gateway.signal("STOP");
    fetch.moves_on(PROGRESS, GOES_ON);
    pause(Duration::from_secs(1));
    gateway.signal("CONT");
    intact(fetch, &gateway);
    assert!(gateway.status()["hangs"].as_u64() >= Some(1), "{}", gateway.status());
    // The policy is in force again: 5 MB at 20 Mbit/s take two seconds.
    let start = now();
    intact(server.fetch(bed.wan.v4, &bed.lan, &["--bytes", "5 MB"]), &gateway);
    assert!(start.elapsed() > Duration::from_millis(1_900), "{}", gateway.all_output());
}

fn a_transfer_continues_during_a_restart(bed: &Testbed, backend: &str) {
    // Limits the rate of the sender's interface. Otherwise the transfer would be much faster
    // without the gateway, and would end before the restart.
    if !bed.wan.slow_down("30mbit") {
        return;
    }
    let server = Server::start(&bed.wan, 7000, "reno");
    let (mut gateway, fetch) = loaded(bed, backend, &server, "40 MB");
    gateway.crash();
    gateway.start_again();
    fetch.moves_on(PROGRESS, GOES_ON);
    gateway.stop();
    gateway.start_again();
    fetch.moves_on(PROGRESS, GOES_ON);
    intact(fetch, &gateway);
    let start = now();
    intact(server.fetch(bed.wan.v6, &bed.lan, &["--bytes", "5 MB"]), &gateway);
    assert!(start.elapsed() > Duration::from_millis(1_900), "{}", gateway.all_output());
}

fn frames_bypass_a_gateway_that_was_stopped(bed: &Testbed, backend: &str) {
    let server = Server::start(&bed.wan, 7000, "reno");
    let (mut gateway, fetch) = loaded(bed, backend, &server, "200 MB");
    gateway.stop();
    fetch.moves_on(PROGRESS, GOES_ON);
    intact(fetch, &gateway);
}
