//! A TCP segment as a packet: how long its options are, and what they are byte by byte.

use tidegate_core::Packet;
use tidegate_core::packet::{FlowKey, NO_VLAN, Protocol, SackBlocks, TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;

use crate::flow::family;

/// The packet that carries `segment`, whose link-layer header has `link_header` bytes.
pub(crate) fn packet(key: FlowKey, segment: &Segment, link_header: u32, dscp: u8) -> Packet {
    let (network, ip_header) = family(&key);
    let network_offset = u16::try_from(link_header).unwrap_or(0);
    let header = &segment.header;
    let headers = u32::from(network_offset + ip_header) + header_len(header, &segment.sack);
    let len = headers + header.payload;
    Packet {
        len,
        cost: len,
        key: FlowKey { protocol: Protocol::TCP, ..key },
        tcp: Some(*header),
        network_offset,
        transport_offset: network_offset + ip_header,
        vlan: NO_VLAN,
        segments: 1,
        network,
        dscp,
        ecn: segment.ecn,
        ..Packet::default()
    }
}

/// Length of the TCP header.
fn header_len(header: &TcpSegment, sack: &SackBlocks) -> u32 {
    let timestamps = if header.timestamps.is_some() { 12 } else { 0 };
    let blocks = if header.has_sack { 4 + 8 * blocks(sack) } else { 0 };
    let syn = if header.flags.any(TcpFlags::SYN) {
        let mss = if header.mss > 0 { 4 } else { 0 };
        let scale = if header.window_scale.is_some() { 4 } else { 0 };
        // Beside timestamps it takes the place of their padding.
        let alone = header.sack_permitted && header.timestamps.is_none();
        mss + scale + if alone { 4 } else { 0 }
    } else {
        0
    };
    20 + timestamps + blocks + syn
}

fn blocks(sack: &SackBlocks) -> u32 {
    u32::try_from(sack.as_slice().len()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_of_linux_has_forty_bytes_of_header() {
        let header = TcpSegment {
            flags: TcpFlags(TcpFlags::SYN),
            timestamps: Some((1, 0)),
            mss: 1_460,
            window_scale: Some(7),
            sack_permitted: true,
            ..TcpSegment::default()
        };
        assert_eq!(header_len(&header, &SackBlocks::default()), 40);
    }
}
