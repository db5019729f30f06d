//! Converts a TCP segment to a packet, and encodes its TCP options.

use tidegate_core::Packet;
use tidegate_core::packet::{FlowKey, NO_VLAN, Protocol, SackBlocks, TcpFlags, TcpSegment};
use tidegate_core::tcp::Segment;

/// The packet that carries `segment`. `link_header` is the length of the link-layer header in
/// bytes.
pub(crate) fn packet(key: FlowKey, segment: &Segment, link_header: u32, dscp: u8) -> Packet {
    let (network, ip_header) = key.network_header();
    let network_offset = u16::try_from(link_header).unwrap_or(0);
    let header = &segment.header;
    let headers = u32::from(network_offset + ip_header) + segment.header_len();
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

fn blocks(sack: &SackBlocks) -> u32 {
    u32::try_from(sack.as_slice().len()).unwrap_or(0)
}

/// Replaces the content of `options` by the encoded TCP options, padded to a multiple of four
/// bytes.
///
/// Source: RFC 9293, section 3.1 (option format); RFC 7323, sections 2.2 and 3.2 and appendix A
/// (window scale, timestamps); RFC 2018, sections 2 and 3 (SACK). The order of options is that of
/// Linux, `tcp_options_write`.
pub(crate) fn put_options(header: &TcpSegment, sack: &SackBlocks, options: &mut Vec<u8>) {
    options.clear();
    let syn = header.flags.any(TcpFlags::SYN);
    if syn && header.mss > 0 {
        options.extend([2, 4]);
        options.extend(header.mss.to_be_bytes());
    }
    let permitted = syn && header.sack_permitted;
    if let Some((value, echo)) = header.timestamps {
        options.extend(if permitted { [4, 2] } else { [1, 1] });
        options.extend([8, 10]);
        options.extend([value, echo].map(u32::to_be_bytes).as_flattened());
    } else if permitted {
        options.extend([1, 1, 4, 2]);
    }
    if let (true, Some(shift)) = (syn, header.window_scale) {
        options.extend([1, 3, 3, shift]);
    }
    if header.has_sack {
        let len = u8::try_from(2 + 8 * blocks(sack)).unwrap_or(u8::MAX);
        options.extend([1, 1, 5, len]);
        for (first, end) in sack.as_slice() {
            options.extend([*first, *end].map(u32::to_be_bytes).as_flattened());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_long_as_its_options() {
        let mut sack = SackBlocks::default();
        sack.push((1, 2));
        sack.push((5, 9));
        for n in 0..64_u8 {
            let bit = |at: u8| n >> at & 1 == 1;
            let header = TcpSegment {
                flags: TcpFlags(if bit(0) { TcpFlags::SYN } else { TcpFlags::ACK }),
                timestamps: bit(1).then_some((7, 8)),
                mss: if bit(2) { 1_460 } else { 0 },
                window_scale: bit(3).then_some(7),
                sack_permitted: bit(4),
                has_sack: bit(5),
                authenticated: false,
                ..TcpSegment::default()
            };
            let mut options = vec![1];
            put_options(&header, &sack, &mut options);
            let len = 20 + u32::try_from(options.len()).unwrap();
            let segment = Segment { header, sack, ..Segment::default() };
            assert_eq!((segment.header_len(), len % 4), (len, 0), "{header:?}");
        }
    }

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
        assert_eq!(Segment { header, ..Segment::default() }.header_len(), 40);
    }
}
