//! Wire format of a management packet.
//!
//! Source: `trunking`, section 4.1: a TCP/IP header without payload. The length field of the IP header covers
//! the header only. The sequence numbers count a segment of the virtual stream.

use super::wire::datagram_len;
use crate::packet::{Facts, FlowKey, Kind, NO_VLAN, Packet};
use crate::tcp::Segment;
use crate::{Cx, PacketId};

/// Frame format of a management packet: its link-layer header, and the kind of its transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) network_offset: u16,
    /// Which of PPPoE's and PPP's headers are in it.
    pub(super) session: Facts,
    pub(super) vlan: u16,
    /// `true` if a UDP datagram follows the IP header, instead of a TCP header.
    pub(super) datagrams: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self { network_offset: 0, session: Facts::NONE, vlan: NO_VLAN, datagrams: false }
    }
}

impl Frame {
    /// The format of the frame of `packet`.
    pub(super) const fn of(packet: &Packet) -> Self {
        Self {
            network_offset: packet.network_offset,
            session: packet.facts.of_session(),
            vlan: packet.vlan,
            datagrams: false,
        }
    }
}

/// Describes the packet that carries `segment` without its payload. Its length is that on the wire.
pub(super) fn describe(key: FlowKey, segment: &Segment, frame: Frame, dscp: u8) -> Packet {
    let (network, ip_header) = key.network_header();
    let transport_offset = frame.network_offset + ip_header;
    let carried = if frame.datagrams { datagram_len(segment) } else { segment.header_len() };
    let len = u32::from(transport_offset) + carried;
    Packet {
        len,
        cost: len,
        ecn: segment.ecn,
        dscp,
        network,
        key,
        tcp: Some(segment.header),
        network_offset: frame.network_offset,
        facts: frame.session,
        transport_offset,
        vlan: frame.vlan,
        segments: 1,
        kind: Kind::Made,
        ..Packet::default()
    }
}

/// Length of `packet` from the IP header on.
pub(super) fn network_len(packet: &Packet) -> u64 {
    u64::from(packet.len.saturating_sub(u32::from(packet.network_offset)))
}

/// Terminates `packet`. Returns the segment that it carried, if any.
pub(super) fn take_in(cx: &mut Cx<'_>, packet: PacketId) -> Option<Segment> {
    let sack = cx.pool.sack(&packet);
    let arrived = &cx.pool[&packet];
    let segment = arrived.tcp.map(|header| Segment { header, sack, ecn: arrived.ecn });
    cx.pool.release(packet);
    segment
}
