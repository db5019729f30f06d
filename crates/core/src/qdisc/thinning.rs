//! Thinning of ACKs: drops an ACK if the next ACK of its flow in the queue supersedes it.
//!
//! An ACK `O` at the front of a flow's queue is redundant if the next packet `N` of the flow is an
//! ACK without data, and
//!
//! ```text
//! number(O) < number(N)  and  fields(O) = fields(N) = fields(last)  and  number(last) < number(O)
//! ```
//!
//! `last` is the ACK of the flow that departed last. `fields` are the TCP flags including ECE, CWR
//! and the reserved bits (with the ACE field of AccECN), the ECN field, the DS codepoint, and the
//! presence of timestamps. These packets are therefore never dropped:
//! - a duplicate ACK, and the ACK before a duplicate
//! - an ACK that changes ECE or ACE
//! - an ACK with SACK blocks, an unknown option, an MPTCP option, or a digest (TCP-MD5, TCP-AO)
//! - an ACK of an ACK-controlled flow, whose ACKs the gateway itself holds
//! - an ACK of an untracked flow, whose queue may contain packets of many flows
//!
//! At most [`MOST`] ACKs are merged into one. If an ACK has waited for longer than `patience`, the
//! egress rate is too low for this limit, and any number of ACKs may be merged.
//!
//! Source: RFC 3449, section 5.2.2 (ACK filtering); Linux, `net/sched/sch_cake.c`,
//! `cake_ack_filter`.
//! Differs:
//! - ACKs are dropped at departure, not on arrival. The number of waiting ACKs then shows how many
//!   must be merged.
//! - `cake_ack_filter` has no limit, drops duplicate ACKs from the third on, and compares SACK
//!   blocks.

use std::time::Duration;

use crate::flow::before;
use crate::packet::{Ecn, Kind, Options, TcpFlags};
use crate::{Packet, Time};

/// Most ACKs that are merged into one while the egress rate permits. If a receiver sends an ACK for
/// every second segment, a merged ACK then lets the sender transmit 8 segments at once.
///
/// Source: RFC 9002, section 7.7 (bursts up to the initial window of 10 packets).
pub(super) const MOST: u32 = 4;

/// The last departed ACK of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last(Option<AckContent>);

/// The contents of an ACK except window and timestamps, and the ports of its connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct AckContent {
    number: u32,
    ports: (u16, u16),
    fields: RepeatedFields,
}

/// Fields that must be equal in the ACKs before and after a dropped ACK.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct RepeatedFields {
    flags: u8,
    high_flags: u8,
    ecn: Ecn,
    dscp: u8,
    timestamps: bool,
}

/// The number of ACKs that the next departing ACK replaces so far, and the delay beyond which this
/// number is not limited.
pub(super) struct Merging {
    now: Time,
    patience: Duration,
    merged: u32,
}

impl Last {
    /// Records that `packet` departs.
    pub(super) fn departs(&mut self, packet: &Packet) {
        if let Some(content) = content_of(packet) {
            self.0 = Some(content);
        } else if packet.tcp.is_some_and(|tcp| tcp.flags.any(TcpFlags::SYN)) {
            self.0 = None;
        }
    }

    /// Returns `true` if `next`, the next packet of the flow, makes `packet` redundant.
    fn makes_redundant(self, packet: &Packet, next: &Packet) -> bool {
        let (Some(last), Some(this)) = (self.0, content_of(packet)) else { return false };
        let of_one_flow = packet.flow == next.flow && packet.key == next.key;
        let Some(next) = content_of(next) else { return false };
        let alike = |other: AckContent| (other.ports, other.fields) == (this.ports, this.fields);
        alike(last)
            && alike(next)
            && of_one_flow
            && !has_sack(packet)
            && before(last.number, this.number)
            && before(this.number, next.number)
    }
}

impl Merging {
    /// No ACK is merged yet. The limit does not apply to an ACK that has waited for longer than
    /// `patience`.
    pub(super) const fn new(now: Time, patience: Duration) -> Self {
        Self { now, patience, merged: 1 }
    }

    /// Returns `true` if `packet` is to be dropped in favour of `next`, and counts the drop.
    pub(super) fn drops(&mut self, last: Last, packet: &Packet, next: &Packet) -> bool {
        let may = self.merged < MOST || self.now.since(packet.queued) > self.patience;
        let redundant = may && last.makes_redundant(packet, next);
        self.merged += u32::from(redundant);
        redundant
    }
}

/// Returns `true` for a TCP segment that only acknowledges: no data, and no flag except ACK, ECE
/// and CWR.
#[inline]
pub(super) fn only_acknowledges(packet: &Packet) -> bool {
    packet.tcp.as_ref().is_some_and(|tcp| {
        let other = tcp.flags.0 & !(TcpFlags::ACK | TcpFlags::ECE | TcpFlags::CWR);
        tcp.payload == 0 && other == 0 && tcp.flags.any(TcpFlags::ACK)
    })
}

fn has_sack(packet: &Packet) -> bool {
    packet.tcp.is_some_and(|tcp| tcp.has_sack)
}

/// The contents of `packet`, if it is only an ACK and all its options are known.
fn content_of(packet: &Packet) -> Option<AckContent> {
    let tcp = packet.tcp.as_ref().filter(|_| only_acknowledges(packet))?;
    let user = packet.kind == Kind::User && packet.carried.is_none() && packet.segments <= 1;
    if !user || tcp.authenticated || tcp.options != Options::None {
        return None;
    }
    let fields = RepeatedFields {
        flags: tcp.flags.0,
        high_flags: tcp.high_flags,
        ecn: packet.ecn,
        dscp: packet.dscp,
        timestamps: tcp.timestamps.is_some(),
    };
    let ports = (packet.key.src.port, packet.key.dst.port);
    Some(AckContent { number: tcp.ack, ports, fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, TcpSegment};

    type Change = Box<dyn Fn(&mut Packet, &mut TcpSegment)>;

    fn ack(number: u32) -> Packet {
        let flags = TcpFlags(TcpFlags::ACK);
        let tcp = TcpSegment { ack: number, flags, ..TcpSegment::default() };
        Packet { tcp: Some(tcp), segments: 1, ..Packet::default() }
    }

    fn with(number: u32, change: impl Fn(&mut Packet, &mut TcpSegment)) -> Packet {
        let mut packet = ack(number);
        let mut tcp = packet.tcp.unwrap();
        change(&mut packet, &mut tcp);
        packet.tcp = Some(tcp);
        packet
    }

    /// Returns `true` if the second of three ACKs is redundant. The first ACK has departed, and the
    /// third ACK waits.
    fn drops(three: [Packet; 3]) -> bool {
        let [first, second, third] = three;
        let mut last = Last::default();
        last.departs(&first);
        last.makes_redundant(&second, &third)
    }

    /// Tests each kind of packet that is never dropped, between two ACKs of the same kind, and
    /// between two plain ACKs.
    ///
    /// Catches: any missing condition of `content_of` and of `makes_redundant`.
    #[test]
    fn an_ack_with_any_other_information_is_never_dropped() {
        assert!(drops([ack(1), ack(2), ack(3)]) && drops([ack(u32::MAX), ack(2), ack(3)]));
        let flags = |flag: u8| -> Change { Box::new(move |_, tcp| tcp.flags.0 |= flag) };
        let changes: Vec<Change> = vec![
            flags(TcpFlags::SYN),
            flags(TcpFlags::FIN),
            flags(TcpFlags::RST),
            flags(TcpFlags::URG),
            flags(TcpFlags::PSH),
            Box::new(|_, tcp| tcp.payload = 1),
            Box::new(|_, tcp| tcp.has_sack = true),
            Box::new(|_, tcp| tcp.options = Options::Unknown),
            Box::new(|_, tcp| tcp.options = Options::Multipath),
            Box::new(|_, tcp| tcp.authenticated = true),
            Box::new(|packet, _| packet.kind = Kind::Made),
            Box::new(|packet, _| packet.segments = 2),
        ];
        for (nth, change) in changes.iter().enumerate() {
            assert!(!drops([ack(1), with(2, change), ack(3)]), "{nth} beside plain ACKs");
            let alike = [1, 2, 3].map(|number| with(number, change));
            assert!(!drops(alike), "{nth} beside others like it");
        }
        assert!(!drops([ack(1), ack(2), Packet::default()]), "what is behind it is no ACK");
        assert!(!Last::default().makes_redundant(&ack(2), &ack(3)), "no ACK departed before it");
    }

    /// Catches: an ACK that is compared only with the ACK before it, or only with the ACK after it.
    #[test]
    fn an_ack_with_a_change_of_ece_ace_ecn_or_dscp_is_kept() {
        let changes: [fn(&mut Packet, &mut TcpSegment); 6] = [
            |_, tcp| tcp.flags.0 |= TcpFlags::ECE,
            |_, tcp| tcp.flags.0 |= TcpFlags::CWR,
            |_, tcp| tcp.high_flags |= TcpSegment::AE,
            |packet, _| packet.ecn = Ecn::Ce,
            |packet, _| packet.dscp = 46,
            |_, tcp| tcp.timestamps = Some((1, 1)),
        ];
        for change in changes {
            let other = |number| with(number, change);
            assert!(drops([1, 2, 3].map(other)), "the same as before and behind");
            assert!(!drops([ack(1), other(2), other(3)]));
            assert!(!drops([other(1), other(2), ack(3)]));
        }
    }

    /// Catches: an ACK that is compared with an ACK of another flow, or of an earlier connection
    /// with the same flow index.
    #[test]
    fn an_ack_of_another_connection_makes_no_ack_redundant() {
        let other = |number| {
            with(number, |packet, _| {
                packet.flow = FlowId(9);
                packet.key.src.port = 9;
            })
        };
        assert!(drops([1, 2, 3].map(other)));
        assert!(!drops([other(1), ack(2), ack(3)]) && !drops([ack(1), ack(2), other(3)]));
        let again = |number| with(number, |packet, _| packet.key.src.port = 7);
        assert!(!drops([again(1), ack(2), ack(3)]), "the number of a flow that has ended");
        let mut last = Last::default();
        last.departs(&ack(1));
        last.departs(&with(0, |_, tcp| tcp.flags.0 |= TcpFlags::SYN));
        assert!(!last.makes_redundant(&ack(2), &ack(3)), "the same addresses and ports once more");
    }

    /// Catches: `<=` instead of `<` in either comparison, which drops duplicate ACKs, or the
    /// ACK before a duplicate.
    #[test]
    fn duplicate_acks_and_the_acks_before_them_are_kept() {
        assert!(!drops([ack(1), ack(1), ack(2)]), "a duplicate");
        assert!(!drops([ack(1), ack(2), ack(2)]), "in front of a duplicate");
        assert!(!drops([ack(5), ack(4), ack(6)]), "an old ACK");
        assert!(!drops([ack(1), ack(5), ack(4)]), "in front of an old ACK");
    }
}
