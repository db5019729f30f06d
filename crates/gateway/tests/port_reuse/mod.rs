//! Held ACKs of an ended connection, when a new connection uses the same ports. ACK control holds
//! ACKs to slow down the sender.
//!
//! Source: RFC 5961, section 4 (a SYN proves nothing about the connection on its ports).

use std::time::Duration;

use tidegate_core::Machine;
use tidegate_core::packet::{TcpFlags, TcpSegment};
use tidegate_gateway::policy::{Action, PolicySet};

use super::{Gateway, MSS, Run, policy};

/// Catches: ACK numbers compared with those of an earlier connection on the same ports; held ACKs
/// of the earlier connection released to the new one.
#[test]
fn acks_of_a_reused_port_are_held_like_acks_of_a_new_port() {
    let mut run = Run::new(None);
    run.data(0, 20);
    assert_eq!(run.ack(2), 0, "it is held");
    run.up(TcpSegment {
        seq: 1 + 20 * MSS,
        flags: TcpFlags(TcpFlags::RST),
        ..TcpSegment::default()
    });
    run.isn = 3_000_000_000;
    run.up(TcpSegment { seq: run.isn, flags: TcpFlags(TcpFlags::SYN), ..TcpSegment::default() });
    assert_eq!(run.drain(), 0, "the SYN stops the held ACKs");
    run.shake_hands();
    assert_eq!(
        run.gateway.report().aggregates[0].acks.held,
        0,
        "the SYN with ACK drops the held ACKs"
    );
    run.data(0, 20);
    assert_eq!(run.ack(2), 0, "it is held");
    assert_eq!(run.drain(), 1, "it goes on");
    assert_eq!(run.gateway.report().aggregates[0].acks.stale, 0);
    assert_eq!(run.gateway.pool().in_use(), 0);
}

pub(super) const CONTROLS: [&str; 4] = [
    "\"postack\"",
    r#"{ kind = "postack", release = "bucket" }"#,
    r#"{ kind = "postack", release = "virtual-queue" }"#,
    "\"tcr\"",
];

/// A run with the ACK control `control`, in which ACKs are held when a SYN with the ports of the
/// connection arrives.
fn claimed(control: &str, now: Duration) -> Run {
    let table: toml::Table = toml::from_str(&format!("it = {control}")).unwrap();
    let mut policy = policy(None);
    if let Action::Shape { ack_control, .. } = &mut policy.action {
        *ack_control = Some(table["it"].clone().try_into().unwrap());
    }
    let mut run = Run::of(1_024, vec![policy], None);
    run.gateway.pool().make_copies();
    run.now += now;
    run.data(0, 400);
    (1..50).for_each(|n| _ = run.ack(4 * n));
    assert!(held(&run) > 5, "{control}: {:?}", run.gateway.report());
    let syn = TcpFlags(TcpFlags::SYN);
    run.up(TcpSegment { seq: 3_000_000_000, flags: syn, ..TcpSegment::default() });
    assert_eq!(run.out(Gateway::LAN), 0, "{control}");
    run
}

fn held(run: &Run) -> u32 {
    run.gateway.report().aggregates[0].acks.held
}

/// Number of packets that depart to the sender within `span`.
fn within(run: &mut Run, span: Duration) -> usize {
    let (end, mut acks) = (run.now + span, 0);
    while run.now < end {
        run.out(Gateway::WAN);
        acks += run.out(Gateway::LAN);
        let next = run.gateway.poll_timeout(run.now).unwrap_or(end);
        run.now = run.now.max(next.min(end));
    }
    acks
}

/// A host that lost its connection without a FIN opens a new connection on the same ports.
///
/// Catches: held ACKs of the old connection that are released before or after the new SYN-ACK; the
/// same fault with another release rule; sequence numbers of the old connection that are kept for
/// the new connection.
#[test]
fn no_held_ack_of_an_ended_connection_reaches_the_next_on_its_ports() {
    for (control, ms) in CONTROLS.into_iter().flat_map(|it| (0..50).map(move |ms| (it, ms * 7))) {
        let mut run = claimed(control, Duration::from_millis(ms));
        assert_eq!(within(&mut run, Duration::from_millis(ms)), 0, "{control}, {ms} ms");
        run.isn = 3_000_000_000;
        let flags = TcpFlags(TcpFlags::SYN | TcpFlags::ACK);
        let ack = run.isn + 1;
        assert_eq!(run.down(TcpSegment { ack, flags, ..TcpSegment::default() }), 1, "{control}");
        assert_eq!((held(&run), within(&mut run, Duration::from_secs(3))), (0, 0), "{control}");
        let flags = TcpFlags(TcpFlags::ACK);
        run.up(TcpSegment { seq: ack, ack: 1, flags, ..TcpSegment::default() });
        run.data(0, 20);
        (1..=5).for_each(|n| _ = run.ack(4 * n));
        within(&mut run, Duration::from_secs(3));
        let acks = run.gateway.report().aggregates[0].acks;
        assert_eq!((acks.stale, acks.unsent, acks.held), (0, 0, 0), "{control}");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// A SYN alone does not end a connection, because any host could send it.
///
/// Catches: held ACKs dropped because of a SYN; ACKs that stay stopped although the connection
/// continues or the SYN gets no answer; a SYN-ACK that answers another SYN and still counts.
#[test]
fn acks_stopped_by_a_syn_continue_with_the_next_segment_or_after_a_second() {
    let ack = TcpFlags(TcpFlags::ACK);
    for control in CONTROLS {
        let mut run = claimed(control, Duration::ZERO);
        run.data(400, 1);
        assert!(within(&mut run, Duration::from_secs(2)) > 5, "{control}: by data");

        let mut run = claimed(control, Duration::ZERO);
        let flags = TcpFlags(TcpFlags::SYN | TcpFlags::ACK);
        let other = TcpSegment { ack: 3_000_000_002, flags, ..TcpSegment::default() };
        assert_eq!(run.down(other), 1);
        assert_eq!(within(&mut run, Duration::from_millis(300)), 0, "{control}");
        let challenge = TcpSegment { seq: 1, ack: 1 + 196 * MSS, flags: ack, ..other };
        let went = run.down(challenge) + within(&mut run, Duration::from_secs(2));
        assert!(went > 5, "{control}: by a challenge ACK");

        let mut run = claimed(control, Duration::ZERO);
        assert_eq!(within(&mut run, Duration::from_millis(990)), 0, "{control}");
        assert!(within(&mut run, Duration::from_millis(1_500)) > 5, "{control}: unanswered");
        let went = run.ack(200) + within(&mut run, Duration::from_secs(1));
        assert!(went > 0, "{control}: the connection still exists");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Catches: a SYN that stops ACKs for ever because their policy or flow was removed in the
/// meantime.
#[test]
fn acks_stopped_by_a_syn_continue_when_their_policy_is_removed() {
    for control in CONTROLS {
        let mut run = claimed(control, Duration::ZERO);
        run.gateway.install(run.now, PolicySet::new(Vec::new()).unwrap());
        assert!(within(&mut run, Duration::from_secs(1)) > 5, "{control}");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}
