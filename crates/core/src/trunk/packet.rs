//! The packet that carries a TCP segment of a trunk: its frame format, its length, and its creation.
//!
//! Source: `trunking`, section 4.1. A management packet is a TCP/IP header without payload, and its IP length field
//! covers the header only. But its sequence numbers advance as if it carried a full segment.

use super::wire::datagram_len;
use crate::packet::{Facts, FlowKey, Kind, NO_VLAN, Packet};
use crate::tcp::Segment;
use crate::{Cx, PacketId};

/// Frame format of a packet that the trunk creates: the link-layer header, and the kind of the transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Bytes of the link-layer header.
    pub(super) network_offset: u16,
    /// PPPoE and PPP headers that the link-layer header contains.
    pub(super) session: Facts,
    /// VLAN of the frame, or [`NO_VLAN`].
    pub(super) vlan: u16,
    /// `true` if a UDP header follows the IP header. The datagram then contains the segment.
    /// `false` if a TCP header follows.
    pub(super) datagrams: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self { network_offset: 0, session: Facts::NONE, vlan: NO_VLAN, datagrams: false }
    }
}

impl Frame {
    /// The link-layer header of `packet`, followed by IP and TCP.
    pub(super) const fn of(packet: &Packet) -> Self {
        Self {
            network_offset: packet.network_offset,
            session: packet.facts.of_session(),
            vlan: packet.vlan,
            datagrams: false,
        }
    }
}

/// Creates the packet that carries the header of `segment`, without payload. `len` is its length on the wire.
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

/// Bytes of `packet` from the IP header on.
pub(super) fn network_len(packet: &Packet) -> u64 {
    u64::from(packet.len.saturating_sub(u32::from(packet.network_offset)))
}

/// Consumes `packet`. Returns the TCP segment that it carried, if any.
pub(super) fn take_in(cx: &mut Cx<'_>, packet: PacketId) -> Option<Segment> {
    let sack = cx.pool.sack(&packet);
    let arrived = &cx.pool[&packet];
    let segment = arrived.tcp.map(|header| Segment { header, sack, ecn: arrived.ecn });
    cx.pool.release(packet);
    segment
}
