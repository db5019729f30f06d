//! Wire format of a management packet.
//!
//! Source: `trunking`, section 4.1: a TCP/IP header without payload. The length field of the IP header covers
//! the header only. The sequence numbers count a segment of the virtual stream.

use super::wire::datagram_len;
use crate::packet::{FlowKey, Kind, NO_VLAN, Packet};
use crate::tcp::Segment;

/// What its link-layer header is like: as that of the packets it goes with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) network_offset: u16,
    pub(super) vlan: u16,
    /// Behind it comes a datagram instead of a TCP header.
    pub(super) datagrams: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self { network_offset: 0, vlan: NO_VLAN, datagrams: false }
    }
}

impl Frame {
    /// That of `packet`.
    pub(super) const fn of(packet: &Packet) -> Self {
        Self { network_offset: packet.network_offset, vlan: packet.vlan, datagrams: false }
    }
}

/// The packet that carries `segment` without its payload, as long as it is on the wire.
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
        transport_offset,
        vlan: frame.vlan,
        segments: 1,
        kind: Kind::Made,
        ..Packet::default()
    }
}

/// Length of `packet` from the IP header on, what link it is on making no difference.
pub(super) fn network_len(packet: &Packet) -> u64 {
    u64::from(packet.len.saturating_sub(u32::from(packet.network_offset)))
}
