//! Senders of every profile do what a script expects.
//!
//! What is expected was recorded from a kernel (`vectors/linux`, by `record.py`), or follows from the
//! text of an RFC (`vectors/rfc`, each line worked out from the section it names); never is it our
//! own output. The `ns2-2003` profile has its vectors in `tcp_golden.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its scripts has failed")]

#[path = "tcp/script.rs"]
mod script;

macro_rules! scripts {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("vectors/", $folder, "/", $name, ".txt")))),+]
    };
}

/// Plays all at two initial sequence numbers, of which one wraps.
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

/// Kills: PRR without rounding up to segments; RACK before undo; an RTO from the head after a tail
/// probe; backoff that ends with an ambiguous ACK, or with an undo; a deviation that shrinks with every ACK.
/// Of F-RTO: none; one for every ACK; in a fast recovery; no new data first; one that goes on without
/// new data, or after new data was told of selectively. Of tail probes: none; a second one while the
/// first is out; one that costs nothing where it repaired, or costs where a D-SACK or a duplicate says
/// it was needless; for new data as for a copy; after three round-trip times; without waiting longer
/// for a lone segment; beside selective blocks. Without SACK: a partial ACK that marks nothing lost, or
/// whose fresh loss lets a segment more go.
#[test]
fn a_sender_like_linux_does_what_the_kernel_did() {
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

/// Kills: copies measured (also where one segment is timed); a second rescue in a recovery; growth of a window
/// that is not validated; its reduction from what is in flight alone, from `pipeACK` alone, without `R`
/// or by all of it; five minutes that are three, or never end, or do not count when idle; the threshold
/// not raised then, the window below the initial one.
#[test]
fn a_sender_by_the_rfcs_does_what_they_say() {
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
