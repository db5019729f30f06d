//! Tests with tunnel headers written by hand, and inner packets from the frame builder.

use tidegate_core::packet::{NO_VLAN, Network, Protocol, TunnelKind};

use super::*;
use crate::build::{Frame, Link};

fn frame(v6: bool) -> Frame {
    let [src, dst] =
        if v6 { ["[fd00::1]:5000", "[fd00::2]:80"] } else { ["10.0.0.1:5000", "10.9.0.1:80"] };
    let mut frame = Frame::tcp(src.parse().unwrap(), dst.parse().unwrap());
    frame.payload = vec![7; 100];
    frame
}

fn packet(v6: bool) -> Vec<u8> {
    frame(v6).bytes()[14..].to_vec()
}

/// A UDP datagram to port `dst` with `header` and `inner` as its payload.
fn udp(dst: u16, header: &[u8], inner: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + header.len() + inner.len()).unwrap();
    let mut bytes: Vec<u8> = [4000, dst, len, 0].map(u16::to_be_bytes).concat();
    bytes.extend(header);
    bytes.extend(inner);
    bytes
}

fn read(protocol: u8, bytes: &[u8]) -> Option<Inside> {
    inside(Protocol(protocol), bytes, bytes.len())
}

const UDP_NUMBER: u8 = 17;
const VXLAN: [u8; 8] = [8, 0, 0, 0, 0x12, 0x34, 0x56, 0];
const GENEVE: [u8; 8] = [0, 0, 0x65, 0x58, 0x12, 0x34, 0x56, 0];

/// IPv4 in IPv4 or IPv6.
const PLAIN: Inside = Inside {
    kind: TunnelKind::Ip,
    id: None,
    header: 0,
    carries: Carries::Ip,
    network: Network::Ipv4,
    offset: 0,
    vlan: NO_VLAN,
    numbered: false,
    summed: false,
};

/// For each kind of tunnel: the protocol, the payload of the outer packet, and the expected result.
fn cases() -> Vec<(u8, Vec<u8>, Inside)> {
    let (v4, v6, ethernet) = (packet(false), packet(true), frame(false).bytes());
    let mut tagged = frame(true);
    tagged.link = vec![Link::vlan(0), Link::vlan(7), Link::vlan(9)];
    let tagged = tagged.bytes();
    let over_ip = |header: &[u8], inner: &[u8]| [header, inner].concat();
    let at = |kind, header, more| Inside { kind, header, offset: header + more, ..PLAIN };
    let in_ethernet = |kind, header| Inside { carries: Carries::Ethernet, ..at(kind, header, 14) };
    let gre = |header| at(TunnelKind::Gre, header, 0);
    let l2tp = |header| at(TunnelKind::L2tp, header, 0);
    let gtp = |header| at(TunnelKind::GtpU, header, 0);
    let id = Some(0x12_34_56);
    let gpdu = |flags: u8, more: &[u8], inner: &[u8]| {
        let len = u16::try_from(more.len() + inner.len()).unwrap().to_be_bytes();
        udp(2152, &[&[flags, 255, len[0], len[1], 1, 2, 3, 4], more].concat(), inner)
    };
    let counted_l2tp = {
        let len = u16::try_from(20 + v4.len()).unwrap().to_be_bytes();
        let header = [0x4a, 2, len[0], len[1], 0, 1, 0, 2, 0, 5, 0, 0, 0, 2, 9, 9];
        udp(1701, &[&header[..], &[0xff, 3, 0, 0x21]].concat(), &v4)
    };
    vec![
        (4, v4.clone(), PLAIN),
        (41, v6.clone(), Inside { network: Network::Ipv6, ..PLAIN }),
        (47, over_ip(&[0, 0, 8, 0], &v4), gre(4)),
        (47, over_ip(&[0x20, 0, 0x86, 0xdd, 0, 0, 0, 9], &v6), {
            Inside { id: Some(9), network: Network::Ipv6, ..gre(8) }
        }),
        (47, over_ip(&[0xb0, 0, 8, 0, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3], &v4), {
            Inside { id: Some(256), numbered: true, summed: true, ..gre(16) }
        }),
        (47, over_ip(&[0x10, 0, 8, 0, 0, 0, 0, 3], &v4), Inside { numbered: true, ..gre(8) }),
        (47, over_ip(&[0x80, 0, 8, 0, 1, 2, 0, 0], &v4), Inside { summed: true, ..gre(8) }),
        (47, over_ip(&[0, 0, 0x65, 0x58], &ethernet), in_ethernet(TunnelKind::Gre, 4)),
        (UDP_NUMBER, udp(4789, &VXLAN, &ethernet), {
            Inside { id, ..in_ethernet(TunnelKind::Vxlan, 16) }
        }),
        (UDP_NUMBER, udp(4789, &VXLAN, &tagged), {
            let offset = 16 + 14 + 12;
            let vxlan = in_ethernet(TunnelKind::Vxlan, 16);
            Inside { id, offset, network: Network::Ipv6, vlan: 7, ..vxlan }
        }),
        (UDP_NUMBER, udp(6081, &GENEVE, &ethernet), {
            Inside { id, ..in_ethernet(TunnelKind::Geneve, 16) }
        }),
        (
            UDP_NUMBER,
            udp(6081, &[2, 0x40, 8, 0, 0x12, 0x34, 0x56, 0, 1, 2, 3, 1, 5, 5, 5, 5], &v4),
            Inside { id, ..at(TunnelKind::Geneve, 24, 0) },
        ),
        (UDP_NUMBER, udp(1701, &[0, 2, 0, 1, 0, 2, 0xff, 3, 0, 0x21], &v4), l2tp(18)),
        (UDP_NUMBER, udp(1701, &[0, 2, 0, 1, 0, 2, 0x57], &v6), {
            Inside { network: Network::Ipv6, ..l2tp(15) }
        }),
        (UDP_NUMBER, counted_l2tp, Inside { numbered: true, ..l2tp(28) }),
        (UDP_NUMBER, udp(1701, &[0, 3, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0], &ethernet), {
            Inside { numbered: true, ..in_ethernet(TunnelKind::L2tp, 20) }
        }),
        (115, over_ip(&[0, 0, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8], &ethernet), {
            Inside { numbered: true, ..in_ethernet(TunnelKind::L2tp, 12) }
        }),
        (UDP_NUMBER, gpdu(0x30, &[], &v4), gtp(16)),
        (UDP_NUMBER, gpdu(0x32, &[0, 7, 0, 0], &v6), {
            Inside { numbered: true, network: Network::Ipv6, ..gtp(20) }
        }),
        // An extension header of eight bytes, then the PDU session container of four bytes (TS
        // 38.415).
        (
            UDP_NUMBER,
            gpdu(0x34, &[0, 0, 0, 0x40, 2, 1, 1, 1, 1, 1, 1, 0x85, 1, 1, 5, 0], &v4),
            gtp(32),
        ),
    ]
}

/// Catches: a field of the result that keeps its default; a GRE key read at the offset of the
/// checksum; a VLAN identifier of the priority tag or the innermost tag.
#[test]
fn each_kind_of_tunnel_is_read_to_its_inner_ip_header() {
    for (protocol, bytes, expected) in cases() {
        assert_eq!(read(protocol, &bytes), Some(expected), "{:02x?}", &bytes[..32]);
        let inner = bytes[expected.offset] >> 4;
        assert_eq!(inner, if expected.network == Network::Ipv4 { 4 } else { 6 });
    }
}

/// Catches: an inner checksum that is not verified; an IPv6 length that is not compared; a tunnel
/// that is accepted because of its port alone.
#[test]
fn a_packet_with_an_invalid_inner_header_is_no_tunnel() {
    for (protocol, mut bytes, inside) in cases() {
        let (field, len) = if inside.network == Network::Ipv4 { (8, 0) } else { (4, 60_000) };
        let field = inside.offset + field;
        bytes[field] = if len == 0 { bytes[field] ^ 1 } else { 200 };
        assert_eq!(read(protocol, &bytes), None, "{inside:?}");
    }
}

/// Catches: outer lengths that are not checked, or only checked as lower bounds.
#[test]
fn a_packet_whose_length_differs_from_its_headers_is_no_tunnel() {
    for (protocol, mut bytes, inside) in cases() {
        if inside.carries == Carries::Ip {
            bytes.extend([0; 4]);
            let len = u16::try_from(bytes.len()).unwrap();
            if protocol == UDP_NUMBER {
                bytes[4..6].copy_from_slice(&len.to_be_bytes());
            }
            assert_eq!(read(protocol, &bytes), None, "{inside:?}");
        }
    }
}

#[test]
fn padding_may_follow_an_ip_packet_in_an_ethernet_frame() {
    let mut padded = frame(false).bytes();
    padded.extend([0; 6]);
    assert!(read(UDP_NUMBER, &udp(4789, &VXLAN, &padded)).is_some());
}

/// Catches: a fixed field that is not checked: reserved bits of VXLAN, version or O bit of GENEVE,
/// version or source route of GRE, message type of GTP-U, T bit of L2TP.
#[test]
fn a_header_with_a_wrong_fixed_field_is_no_tunnel() {
    let flips: [(TunnelKind, usize, u8); 12] = [
        (TunnelKind::Vxlan, 8, 0x08),
        (TunnelKind::Vxlan, 8, 0x80),
        (TunnelKind::Vxlan, 10, 0x01),
        (TunnelKind::Vxlan, 15, 0x01),
        (TunnelKind::Geneve, 8, 0x40),
        (TunnelKind::Geneve, 9, 0x80),
        (TunnelKind::Gre, 1, 0x01),
        (TunnelKind::Gre, 0, 0x40),
        (TunnelKind::GtpU, 9, 0x01),
        (TunnelKind::GtpU, 8, 0x20),
        (TunnelKind::L2tp, 8, 0x80),
        (TunnelKind::L2tp, 9, 0x01),
    ];
    for (kind, at, bits) in flips {
        let over_udp = |protocol| kind == TunnelKind::Gre || protocol == UDP_NUMBER;
        let of_kind = |case: &(u8, Vec<u8>, Inside)| case.2.kind == kind && over_udp(case.0);
        for (protocol, mut bytes, _) in cases().into_iter().filter(of_kind) {
            bytes[at] ^= bits;
            assert_eq!(read(protocol, &bytes), None, "{kind:?} {at} {bits:x}");
        }
    }
}

/// Catches: VXLAN, GENEVE or GTP-U recognised by the source port.
#[test]
fn other_destination_ports_carry_no_tunnel() {
    for (protocol, mut bytes, inside) in cases() {
        if protocol == UDP_NUMBER {
            bytes.copy_within(2..4, 0);
            bytes[2..4].copy_from_slice(&4000_u16.to_be_bytes());
            assert_eq!(read(protocol, &bytes).is_some(), inside.kind == TunnelKind::L2tp);
        }
    }
}

/// Catches: ACKs that are edited in a tunnel with a checksum or with sequence numbers, such as GRE
/// with these fields or GTP-U.
#[test]
fn acks_may_be_edited_only_in_tunnels_without_numbers_and_checksums() {
    for (protocol, bytes, inside) in cases() {
        let refused = matches!(inside.kind, TunnelKind::L2tp | TunnelKind::GtpU);
        let counted = inside.kind == TunnelKind::Gre && bytes[0] & 0x90 != 0;
        assert_eq!(inside.may_edit(), !refused && !counted, "{protocol} {inside:?}");
    }
}

/// Catches: the control word read as part of the Ethernet header.
#[test]
fn ethernet_over_mpls_is_read_with_and_without_a_control_word() {
    let frame = frame(false).bytes();
    let with = [&[0, 0, 0, 9][..], &frame].concat();
    for (bytes, header) in [(&frame, 0), (&with, 4)] {
        let inside = behind_labels(bytes, bytes.len()).unwrap();
        assert_eq!((inside.kind, inside.header), (TunnelKind::Pseudowire, header));
        assert_eq!((inside.offset, inside.numbered), (header + 14, true));
        assert!(!inside.may_edit());
    }
    assert_eq!(behind_labels(&packet(false), 140), None);
}

#[test]
fn no_prefix_of_a_tunnel_panics_and_none_without_its_inner_header_is_read() {
    for (protocol, bytes, inside) in cases() {
        let header = if inside.network == Network::Ipv4 { 20 } else { 40 };
        for len in 0..bytes.len() {
            let read = super::inside(Protocol(protocol), &bytes[..len], bytes.len());
            assert_eq!(read.is_some(), len >= inside.offset + header, "{inside:?} {len}");
        }
    }
}
