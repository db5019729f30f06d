//! What is said about frames must be what an independent parser says, and nothing breaks the parser.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;

use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};
use frames::frames;
use proptest::prelude::*;
use tidegate_core::Packet;
use tidegate_core::packet::{Endpoint, NO_VLAN, Network, TcpFlags, TcpSegment};
use tidegate_wire::build::{Frame, Link};
use tidegate_wire::{Oddity, describe};

fn described(frame: &[u8]) -> (Packet, Option<Oddity>) {
    let mut packet = Packet::default();
    let oddity = describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet);
    (packet, oddity)
}

/// Everything the oracle says of an IP packet, as a descriptor would.
fn expected(ip: &[u8]) -> Packet {
    let sliced = SlicedPacket::from_ip(ip).unwrap();
    let mut packet = Packet::default();
    let protocol = match sliced.net.unwrap() {
        NetSlice::Ipv4(v4) => {
            packet.network = Network::Ipv4;
            packet.dscp = v4.header().dcp().value();
            packet.key.src = Endpoint::v4(v4.header().source(), 0);
            packet.key.dst = Endpoint::v4(v4.header().destination(), 0);
            v4.payload_ip_number()
        }
        NetSlice::Ipv6(v6) => {
            packet.network = Network::Ipv6;
            packet.dscp = v6.header().dscp().value();
            packet.key.src = Endpoint::v6(v6.header().source(), 0);
            packet.key.dst = Endpoint::v6(v6.header().destination(), 0);
            v6.payload().ip_number
        }
        NetSlice::Arp(_) => unreachable!("not IP"),
    };
    packet.key.protocol.0 = protocol.0;
    let (src, dst) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        Some(TransportSlice::Icmpv4(icmp)) => {
            let [high, low, ..] = icmp.bytes5to8();
            (u16::from_be_bytes([high, low]), u16::from_be_bytes([high, low]))
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            let [high, low, ..] = icmp.bytes5to8();
            (u16::from_be_bytes([high, low]), u16::from_be_bytes([high, low]))
        }
        _ => (0, 0),
    };
    (packet.key.src.port, packet.key.dst.port) = (src, dst);
    if let Some(TransportSlice::Tcp(tcp)) = &sliced.transport {
        packet.tcp = Some(expected_tcp(tcp));
    }
    packet
}

fn expected_tcp(tcp: &etherparse::TcpSlice<'_>) -> TcpSegment {
    let mut segment = TcpSegment {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        payload: u32::try_from(tcp.payload().len()).unwrap(),
        window: tcp.window_size(),
        flags: TcpFlags(tcp.slice()[13]),
        ..TcpSegment::default()
    };
    for option in tcp.options_iterator() {
        match option {
            Ok(TcpOptionElement::MaximumSegmentSize(mss)) if tcp.syn() => segment.mss = mss,
            Ok(TcpOptionElement::WindowScale(shift)) if tcp.syn() => {
                segment.window_scale = Some(shift);
            }
            Ok(TcpOptionElement::SelectiveAcknowledgementPermitted) => {
                segment.sack_permitted = tcp.syn();
            }
            Ok(TcpOptionElement::SelectiveAcknowledgement(..)) => segment.has_sack = true,
            Ok(TcpOptionElement::Timestamp(value, echo)) => {
                segment.timestamps = Some((value, echo));
            }
            _ => {}
        }
    }
    segment
}

fn link_len(frame: &Frame) -> usize {
    let len = |link: &Link| if matches!(link, Link::Pppoe(_)) { 8 } else { 4 };
    14 + frame.link.iter().map(len).sum::<usize>()
}

proptest! {
    /// Kills: payload counted to the end of the frame instead of the IP packet (padding), the
    /// innermost VLAN instead of the outermost, extension headers counted in units of 4 bytes.
    #[test]
    fn a_descriptor_says_what_an_independent_parser_says(frame in frames(), padding in 0usize..20) {
        let mut bytes = frame.bytes();
        let network = link_len(&frame);
        // Our guess at what MPLS carries includes that an IPv6 packet fills the frame.
        let padding = if matches!(frame.link.first(), Some(Link::Mpls(_))) { 0 } else { padding };
        bytes.resize(bytes.len() + padding, 0xa5);
        let (packet, _) = described(&bytes);
        let expected = expected(&bytes[network..]);

        prop_assert_eq!(packet.network, expected.network);
        prop_assert_eq!(packet.key, expected.key);
        prop_assert_eq!(packet.dscp, expected.dscp);
        prop_assert_eq!(usize::from(packet.network_offset), network);
        prop_assert_eq!(usize::try_from(packet.len).unwrap(), bytes.len());
        prop_assert!(!packet.fragment && !packet.rewritten);
        prop_assert_eq!(packet.tcp, expected.tcp);
        let outermost = match frame.link.first() {
            Some(Link::Vlan(tag)) => tag.tci & 0xfff,
            _ => NO_VLAN,
        };
        prop_assert_eq!(packet.vlan, outermost);
    }

    /// Kills: any index instead of `get`, an offset that is set before the header is known whole.
    #[test]
    fn whatever_arrives_is_described_within_its_bounds(
        frame in frames(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = frame.bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let (packet, oddity) = described(&bytes);
        let offsets = [packet.network_offset, packet.transport_offset].map(usize::from);
        prop_assert!(offsets.iter().all(|offset| *offset <= bytes.len()));
        prop_assert!(oddity.is_none() || packet.network != Network::Opaque || packet.tcp.is_none());
        if let Some(tcp) = packet.tcp {
            prop_assert!(offsets[1] + 20 + usize::try_from(tcp.payload).unwrap() <= bytes.len());
        }
    }
}
