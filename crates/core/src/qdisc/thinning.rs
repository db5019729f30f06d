//! Thinning: drops an ACK if the next ACK of its flow in the queue supersedes it.
//!
//! An ACK `O` at the head of a line is redundant if the next packet `N` of its flow is an ACK without data, and
//!
//! ```text
//! number(O) < number(N)  and  fields(O) = fields(N) = fields(last)  and  number(last) < number(O)
//! ```
//!
//! `last` is the ACK that departed last. `fields` are the flags with ECE, CWR and the reserved bits (ACE of AccECN), the
//! ECN field and the DS codepoint of IP, and the presence of timestamps. Hence no duplicate ACK, no ACK in front of a
//! duplicate, and no change of ACE or ECE is dropped. The same holds for an ACK with SACK blocks,
//! an option that the gateway does not interpret, MPTCP or a digest, and for flows under ACK
//! control. Packets of untracked flows are never dropped, because their queue has packets of many
//! flows.
//!
//! At most [`MOST`] ACKs become one. If an ACK has waited for longer than `patience`, the egress
//! rate is too low for that. Then any number of ACKs becomes one.
//!
//! Source: RFC 3449, section 5.2.2 (ACK filtering); Linux, `net/sched/sch_cake.c`, `cake_ack_filter`.
//! Differs:
//! - ACKs are dropped at departure, not on arrival. The queue then shows how many must become one.
//! - `cake_ack_filter` has no limit, drops duplicate ACKs from the third on, and compares SACK blocks.

use std::time::Duration;

use crate::flow::before;
use crate::packet::{Ecn, Kind, Options, TcpFlags};
use crate::{Packet, Time};

/// Most ACKs that become one while the egress rate permits. With a delayed ACK for every second
/// segment, the sender may then send 8 segments at once.
///
/// Source: RFC 9002, section 7.7 (bursts up to the initial window of 10 packets).
pub(super) const MOST: u32 = 4;

/// The last departed ACK of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last(Option<Said>);

/// Contents of an ACK without window and timestamps, and the ports of its connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Said {
    number: u32,
    ports: (u16, u16),
    fields: RepeatedFields,
}

/// Fields that the next ACK must repeat.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct RepeatedFields {
    flags: u8,
    high_flags: u8,
    ecn: Ecn,
    dscp: u8,
    timestamps: bool,
}

/// Number of ACKs merged into the next one, and the time after which it is unlimited.
pub(super) struct Merging {
    now: Time,
    patience: Duration,
    merged: u32,
}

impl Last {
    /// Records that `packet` departs.
    pub(super) fn departs(&mut self, packet: &Packet) {
        if let Some(said) = said(packet) {
            self.0 = Some(said);
        } else if packet.tcp.is_some_and(|tcp| tcp.flags.any(TcpFlags::SYN)) {
            self.0 = None;
        }
    }

    /// Returns `true` if `next`, the next packet of the flow, supersedes `packet`.
    fn makes_redundant(self, packet: &Packet, next: &Packet) -> bool {
        let (Some(last), Some(this)) = (self.0, said(packet)) else { return false };
        let of_one_flow = packet.flow == next.flow && packet.key == next.key;
        let Some(next) = said(next) else { return false };
        let alike = |other: Said| (other.ports, other.fields) == (this.ports, this.fields);
        alike(last)
            && alike(next)
            && of_one_flow
            && !has_sack(packet)
            && before(last.number, this.number)
            && before(this.number, next.number)
    }
}

impl Merging {
    /// The first ACK of a turn.
    pub(super) const fn new(now: Time, patience: Duration) -> Self {
        Self { now, patience, merged: 1 }
    }

    /// Returns `true` if `packet` must be dropped in favour of `next`, and counts it.
    pub(super) fn drops(&mut self, last: Last, packet: &Packet, next: &Packet) -> bool {
        let may = self.merged < MOST || self.now.since(packet.queued) > self.patience;
        let redundant = may && last.makes_redundant(packet, next);
        self.merged += u32::from(redundant);
        redundant
    }
}

/// Returns `true` for a TCP segment that is only an ACK, with any options.
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

/// Contents of `packet`, if it is only an ACK with known options.
fn said(packet: &Packet) -> Option<Said> {
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
    Some(Said { number: tcp.ack, ports, fields })
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

    /// Returns `true` if the second of three ACKs is dropped, of which the first departed and the
    /// third waits.
    fn drops(three: [Packet; 3]) -> bool {
        let [first, second, third] = three;
        let mut last = Last::default();
        last.departs(&first);
        last.makes_redundant(&second, &third)
    }

    /// Each kind of packet that is never dropped, in the middle of ACKs that are like it, or are plain.
    ///
    /// Catches: each condition of `said` and `makes_redundant`, left out.
    #[test]
    fn an_ack_that_says_anything_else_is_never_dropped() {
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

    /// Catches: a change that is compared with the ACK in front only, or with the ACK behind only.
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

    /// Catches: an ACK that is compared with that of another flow, or of an earlier connection of its flow.
    #[test]
    fn an_ack_of_another_connection_makes_none_redundant() {
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

    /// Catches: `<=` for `<` on either side: duplicates that are dropped, or replace others.
    #[test]
    fn duplicates_and_acks_in_front_of_them_are_kept() {
        assert!(!drops([ack(1), ack(1), ack(2)]), "a duplicate");
        assert!(!drops([ack(1), ack(2), ack(2)]), "in front of a duplicate");
        assert!(!drops([ack(5), ack(4), ack(6)]), "an old ACK");
        assert!(!drops([ack(1), ack(5), ack(4)]), "in front of an old ACK");
    }
}
