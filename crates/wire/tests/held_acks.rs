//! Flags, window and options of a held ACK must still belong to its acknowledgement number when it
//! arrives.
//!
//! Scripted end points exchange data through a gateway that holds their ACKs (ACK control). The
//! tests compare the ACKs that arrive with the ACKs that were sent.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod gateways;
mod scripted;

use std::collections::BTreeMap;

use scripted::{EcnScript, End, MSS, Run, Script, SegmentFields};
use tidegate_core::packet::TcpFlags;
use tidegate_core::report::Report;

const CONTROLS: [&str; 4] = [
    "\"postack\"",
    r#"{ kind = "postack", release = "bucket" }"#,
    r#"{ kind = "postack", release = "virtual-queue" }"#,
    "\"tcr\"",
];

const BYTES: u32 = 600 * MSS;

/// A script with timestamps, whose receiver acknowledges every second segment.
fn script() -> Script {
    Script { timestamps: true, stretch: 2, ..Script::default() }
}

/// Runs the script with each ACK control, over IPv4 and IPv6. `check` compares the sent with the
/// received segments of each direction. Asserts that each run held ACKs.
fn everywhere(
    script: Script,
    check: impl Fn(&[SegmentFields], &[SegmentFields]) -> Result<(), String>,
) {
    for control in CONTROLS {
        for v6 in [false, true] {
            let script = Script { v6, ..script };
            let (mut ends, report) = run(control, script);
            for [from, to] in [[1, 0], [0, 1]] {
                if control.contains("tcr") {
                    // TCR rewrites windows, so they are not compared.
                    let narrow = |sent: &mut SegmentFields| sent.window = 0;
                    ends[from].sent.iter_mut().chain(&mut ends[to].received).for_each(narrow);
                }
                let found = check(&ends[from].sent, &ends[to].received);
                assert_eq!(found, Ok(()), "{control}, to {to}, {script:?}, {report:?}");
            }
        }
    }
}

fn run(control: &str, script: Script) -> ([End; 2], Report) {
    let (ends, report) = Run::new(control, 2_048, script, BYTES).finish();
    let delayed: u64 = report.aggregates.iter().map(|it| it.acks.delayed).sum();
    assert!(delayed > 20, "{control}, {script:?}: {report:?}");
    (ends, report)
}

/// Checks that every segment arrived unchanged and in order. `sent` are the sent segments, `received`
/// the received.
fn as_it_was(sent: &[SegmentFields], received: &[SegmentFields]) -> Result<(), String> {
    let different = sent.iter().zip(received).position(|(sent, received)| sent != received);
    if let Some(at) = different {
        return Err(format!("segment {at}: {:?} arrived as {:?}", sent[at], received[at]));
    }
    if sent.len() == received.len() { Ok(()) } else { Err("a segment was lost or made".to_owned()) }
}

/// Checks that flags, window and options of each ACK belong to its acknowledgement number. The
/// gateway may release an ACK for many segments (a stretch ACK) in several steps. Such a step may
/// have the fields of the stretch ACK. ACKs with special flags or options must all arrive.
fn with_its_number(sent: &[SegmentFields], received: &[SegmentFields]) -> Result<(), String> {
    let mut by_ack: BTreeMap<u32, Vec<&SegmentFields>> = BTreeMap::new();
    let mut by_seq: BTreeMap<u32, Vec<&SegmentFields>> = BTreeMap::new();
    let base = sent[0].ack;
    for it in sent {
        by_ack.entry(it.ack.wrapping_sub(base)).or_default().push(it);
        by_seq.entry(it.seq).or_default().push(it);
    }
    let mut last = &SegmentFields::default();
    for received in received {
        let wrong = |of: &str| Err(format!("{received:?} after {last:?}: {of}"));
        let number = received.ack.wrapping_sub(base);
        let same = by_ack.get(&number);
        if same.is_some_and(|same| same.iter().any(|it| agrees(it, received))) {
            last = received;
        } else if received.payload > 0 {
            // A data segment whose ACK is held carries the acknowledgement number and the ECN echo
            // of the ACK that departed last.
            let own = |it: &SegmentFields| it.flags & !u16::from(TcpFlags::ECE);
            let as_sent = by_seq[&received.seq].iter().any(|it| own(it) == own(received));
            let echo = received.has(TcpFlags::ECE) == last.has(TcpFlags::ECE);
            if received.ack != last.ack || !as_sent || !echo || !received.blocks().is_empty() {
                return wrong("data with an ACK of something else");
            }
        } else if same.is_some() {
            return wrong("not what was sent with this number");
        } else {
            let whole = by_ack.range(number..).next().and_then(|(_, all)| all.first());
            let Some(whole) = whole else { return wrong("nobody sent so much") };
            let step = SegmentFields { ack: received.ack, ..(*whole).clone() };
            if !agrees(&step, received) {
                return wrong(&format!("not what was sent with {whole:?}, of which it is a step"));
            }
            last = received;
        }
    }
    let special = |all: &[SegmentFields]| -> Vec<(u32, u16, Vec<u8>)> {
        let own = all.iter().filter(|it| it.payload == 0 && !is_bare(it));
        own.map(|it| (it.ack, it.flags, it.options.clone())).collect()
    };
    let received = special(received);
    let mut rest = received.iter();
    match special(sent).iter().find(|it| !rest.any(|other| other == *it)) {
        None => Ok(()),
        Some(it) => Err(format!("{it:?} did not arrive in its order")),
    }
}

/// Returns `true` if the received segment `received` equals the sent segment `sent`. It may have been
/// cut from a data segment, and may have a later timestamp value.
fn agrees(sent: &SegmentFields, received: &SegmentFields) -> bool {
    let cut = if sent.payload > received.payload { TcpFlags::PSH | TcpFlags::CWR } else { 0 };
    sent.ack == received.ack
        && sent.flags & !u16::from(cut) == received.flags
        && sent.window == received.window
        && sent.options == received.options
        && sent.value <= received.value
}

/// Returns `true` for a segment that carries only sequence numbers, window and timestamps.
fn is_bare(sent: &SegmentFields) -> bool {
    let options = if sent.options.starts_with(&[1, 1, 8, 10]) { 12 } else { 0 };
    sent.flags == u16::from(TcpFlags::ACK) && sent.options.len() == options
}

/// Catches: AccECN counters that are lost, because their ACK is stored without its options;
/// counters of another ACK; merged ACKs with a counter of zero.
#[test]
fn accecn_counters_arrive_with_the_ack_that_carried_them() {
    everywhere(Script { ecn: EcnScript::Accurate, ..script() }, as_it_was);
    // Also with the AccECN options of RFC 9768, section 3.2.3.
    for kind in [172, 174] {
        let ecn = EcnScript::Accurate;
        everywhere(Script { ecn, option: Some(kind), ..script() }, as_it_was);
    }
}

/// Catches: an ACK that is cut from an AccECN data segment; data with counters that belong to a
/// higher acknowledgement number.
#[test]
fn accecn_counters_arrive_with_data_in_both_directions() {
    let ecn = EcnScript::Accurate;
    everywhere(Script { ecn, both_ways: true, ..script() }, as_it_was);
    everywhere(Script { ecn, both_ways: true, loss: 97, sack: true, ..script() }, as_it_was);
}

/// Catches: AE or CWR flags that are lost, because their ACK is stored without flags in a flow
/// whose SYN was not seen.
#[test]
fn accecn_counters_arrive_without_negotiation_in_the_syn() {
    let ecn = EcnScript::Unsaid;
    everywhere(Script { ecn, ..script() }, with_its_number);
    everywhere(Script { ecn, loss: 97, sack: true, ..script() }, with_its_number);
}

/// Catches: an ECN echo that is lost when its ACK is held; an echo that moves to
/// another acknowledgement number.
#[test]
fn echoes_of_classic_ecn_arrive_with_their_acknowledgement_number() {
    let ecn = EcnScript::Classic;
    everywhere(Script { ecn, ..script() }, with_its_number);
    everywhere(Script { ecn, both_ways: true, ..script() }, with_its_number);
}

/// Catches: MPTCP DSS options that move to another ACK, or vanish with their ACK.
#[test]
fn options_of_mptcp_arrive_with_the_ack_that_carried_them() {
    everywhere(Script { mptcp: true, ..script() }, as_it_was);
    everywhere(Script { mptcp: true, both_ways: true, loss: 97, ..script() }, as_it_was);
}

/// Catches: an unknown option that is lost, or moves to another ACK.
#[test]
fn unknown_options_arrive_with_the_ack_that_carried_them() {
    for kind in [172, 174, 254] {
        everywhere(Script { option: Some(kind), ..script() }, with_its_number);
    }
    everywhere(
        Script { option: Some(254), both_ways: true, loss: 97, ..script() },
        with_its_number,
    );
    everywhere(Script { option: Some(254), timestamps: false, ..script() }, with_its_number);
}

/// Catches: steps of a stretch ACK, or duplicate ACKs, that echo the timestamp of a newer ACK.
#[test]
fn each_ack_echoes_its_own_timestamp_also_in_steps_and_duplicates() {
    everywhere(Script { stretch: 8, ..script() }, with_its_number);
    everywhere(Script { stretch: 8, loss: 53, ..script() }, with_its_number);
    everywhere(Script { loss: 53, ..script() }, with_its_number);
    everywhere(Script { loss: 53, timestamps: false, ..script() }, with_its_number);
}

/// Catches: SACK blocks of another ACK; SACK blocks on data with a lower acknowledgement number.
#[test]
fn sack_blocks_arrive_with_their_acknowledgement_number() {
    everywhere(Script { sack: true, loss: 53, ..script() }, with_its_number);
    everywhere(Script { sack: true, loss: 53, both_ways: true, ..script() }, with_its_number);
}
