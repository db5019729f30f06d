//! Live test: Tidegate's TCP endpoint exchanges data with Linux, over a link with losses,
//! reordering and congestion marks.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::time::Duration;

use tidegate_e2e::tcp::{Outcome, Setup, Side};
use tidegate_e2e::{Process, Testbed, skip, witnessed};

/// Bytes that each end sends.
const BYTES: u64 = 3_000_000;

/// Runs `e2e-tcp` with the settings `more`. Each end sends three megabytes at the same time. Passes
/// the results to `judge`.
fn try_out(more: &str, kernel: &[(&str, &str)], judge: impl Fn(&Outcome)) {
    if !Path::new("/dev/net/tun").exists() {
        return skip("no /dev/net/tun here");
    }
    witnessed(|bed| judge(&outcome(bed, more, kernel)));
}

fn outcome(bed: &Testbed, more: &str, kernel: &[(&str, &str)]) -> Outcome {
    for (parameter, value) in kernel {
        bed.lan.set(&format!("net/ipv4/{parameter}"), value);
    }
    let amounts = format!("ours_sends = {BYTES}\nkernel_sends = {BYTES}\nlimit = \"60 s\"\n");
    let setup = bed.file("setup.toml", &(amounts + more));
    let shell = format!("exec {} < {}", env!("CARGO_BIN_EXE_e2e-tcp"), setup.display());
    let process = Process::start(bed.lan.command("sh").args(["-c", &shell]));
    let finished = process.finish(Duration::from_secs(90));
    assert!(finished.status.success(), "{}{}", finished.output, finished.errors);
    let outcome: Outcome = serde_json::from_str(&finished.output).unwrap();
    for received in [outcome.at_ours, outcome.at_kernel] {
        assert_eq!((received.bytes, received.checksum), (BYTES, received.expected), "{outcome:?}");
    }
    outcome
}

#[test]
fn without_losses_no_segment_is_sent_twice() {
    try_out("[link]\ndelay = \"5 ms\"", &[], |outcome| {
        assert_eq!((outcome.segments.1, outcome.recoveries, outcome.lost), (0, (0, 0), (0, 0)));
    });
}

#[test]
fn losses_are_repaired_by_selective_acknowledgements() {
    let more = "opens = \"kernel\"\n[endpoint]\nprofile = \"linux\"\n\
                [link]\ndelay = \"5 ms\"\nloss = \"1 %\"";
    try_out(more, &[], |outcome| {
        assert!(outcome.lost.0 > 5 && outcome.lost.1 > 5, "{outcome:?}");
        assert!(outcome.segments.1 > 0 && outcome.recoveries.0 > 0, "{outcome:?}");
        // A lost segment may be retransmitted twice. A higher number would mean that whole windows
        // are retransmitted.
        assert!(outcome.segments.1 <= 3 * outcome.lost.0, "{outcome:?}");
    });
}

#[test]
fn losses_are_repaired_without_options_too() {
    let more = "[endpoint]\nprofile = \"ns2-2003\"\n[link]\ndelay = \"2 ms\"\nloss = \"1 %\"";
    let kernel = [("tcp_sack", "0"), ("tcp_timestamps", "0"), ("tcp_window_scaling", "0")];
    try_out(more, &kernel, |outcome| {
        assert!(outcome.lost.0 > 5 && outcome.segments.1 > 0, "{outcome:?}");
    });
}

#[test]
fn reordered_packets_are_put_in_order() {
    let more = "[endpoint]\nprofile = \"rfc\"\n\
                [link]\ndelay = \"8 ms\"\njitter = \"3 ms\"\nreorder = true\nloss = \"0.2 %\"";
    try_out(more, &[], |outcome| assert!(outcome.lost.0 + outcome.lost.1 > 0, "{outcome:?}"));
}

#[test]
fn congestion_marks_slow_both_senders_down_without_losses() {
    let more = "mark_one_in = 100\n[endpoint]\necn = \"classic\"\n[link]\ndelay = \"2 ms\"";
    try_out(more, &[("tcp_ecn", "1")], |outcome| {
        assert!(
            outcome.marks.0 > 10 && outcome.marks.1 > 10 && outcome.reductions > 5,
            "{outcome:?}"
        );
        assert_eq!((outcome.segments.1, outcome.lost), (0, (0, 0)), "{outcome:?}");
    });
}

#[test]
fn missing_fields_of_a_setup_have_their_defaults() {
    let setup: Setup = toml::from_str("limit = \"1 s\"").unwrap();
    assert_eq!((setup.opens, setup.congestion.as_str()), (Side::Ours, "reno"));
}
