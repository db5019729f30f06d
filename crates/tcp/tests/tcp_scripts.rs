//! Scripts: senders of each profile behave as recorded or specified.
//!
//! The expected values were recorded from a kernel (`vectors/linux`, by `record.py`), or follow
//! from the text of an RFC (`vectors/rfc`, where each line names its section). No value comes from
//! the output of this crate. The vectors of the `ns2-2003` profile are in `tcp_golden.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its scripts has failed")]

#[path = "tcp/script.rs"]
mod script;

macro_rules! scripts {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("vectors/", $folder, "/", $name, ".txt")))),+]
    };
}

/// Runs all scripts at two initial sequence numbers; one of them wraps.
fn play_all(profile: &str, scripts: &[(&str, &str)]) {
    let mut failures = String::new();
    for (name, script) in scripts {
        for isn in [1, u32::MAX - 5_000] {
            let wrong = script::play(script, profile, isn);
            if !wrong.is_empty() {
                failures += &format!("\n{name}, ISN {isn}:\n  {}", wrong.join("\n  "));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Catches: PRR without rounding up to segments; RACK that runs before an undo; a retransmission
/// timeout that counts from the first segment after a tail probe; a backoff that ends with an
/// ambiguous ACK or an undo; a deviation that shrinks with each ACK.
/// - F-RTO that is missing, is repeated for each ACK, or starts in a fast recovery. F-RTO that does
///   not send new data first, or continues without new data. F-RTO that continues after a selective
///   acknowledgement of new data.
/// - A missing tail probe; a second probe while the first is in flight; a probe while selective
///   blocks exist. A repaired loss without a reduction; a reduction although a D-SACK or duplicate
///   ACK shows that the probe was unnecessary. New data treated as a copy; a timer of three
///   round-trip times; a timer that is not longer for a single segment.
/// - Without SACK: a partial ACK that marks nothing lost, or whose new loss permits one more
///   segment.
#[test]
fn the_linux_profile_behaves_like_the_recorded_kernel() {
    let scripts: &[(&str, &str)] = scripts!["linux":
        "application-limited", "congestion-avoidance", "copy-lost", "ecn", "f-rto",
        "f-rto-in-recovery", "f-rto-real", "f-rto-selective", "fin", "idle", "later-losses",
        "needless-copy", "no-sack", "no-sack-few", "no-sack-overshoot", "no-sack-partial",
        "no-sack-timeout", "one-loss", "pacing", "reordered", "reordered-late",
        "repeated-timeouts", "slow-start", "spurious-timeout", "tail-probe", "tail-probe-held",
        "tail-probe-needless", "tail-probe-needless-late", "tail-probe-new", "tail-probe-once",
        "tail-probe-repairs", "three-losses", "timeout", "zero-window",
    ];
    play_all("linux", scripts);
}

/// Catches: retransmissions used as RTT samples (also when one segment is timed); a second rescue
/// in a recovery; growth of a window that is not validated.
/// Catches: a reduction from the data in flight alone, from `pipeACK` alone, without the
/// retransmitted bytes (`R` of RFC 7661), or by all of them instead of half. A period of three
/// minutes, a period that never ends, or a period that excludes idle time. A threshold that is not
/// raised after the period; a window below the initial window.
#[test]
fn the_rfc_profile_behaves_as_specified() {
    let scripts: &[(&str, &str)] = scripts!["rfc":
        "ecn",
        "eifel",
        "idle",
        "karn",
        "karn-fast",
        "newreno",
        "newreno-window",
        "persist",
        "prr-burst-loss",
        "prr-one-loss",
        "rack",
        "rack-three",
        "sack-burst-loss",
        "sack-hole",
        "sack-rescue",
        "slow-start",
        "tail-probe",
        "tail-probe-alone",
        "timeout",
        "timeout-least",
        "validated",
        "validated-kept",
        "validated-loss",
    ];
    play_all("rfc", scripts);
}
