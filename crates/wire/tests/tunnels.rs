//! The descriptor of a frame in a tunnel describes the innermost packet.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidegate_core::Packet;
use tidegate_core::packet::{
    Ecn, Endpoint, NO_VLAN, Network, Outer, Protocol, TcpFlags, TunnelKind,
};
use tidegate_wire::build::{Frame, Ip, Link, Network as Net, Transport};
use tidegate_wire::{Checksum, Oddity, describe, describe_innermost, rewrite};

fn read(frame: &[u8]) -> (Packet, Outer, Option<Oddity>) {
    let (mut packet, mut outer) = (Packet::default(), None);
    let len = u32::try_from(frame.len()).unwrap();
    let oddity = describe_innermost(frame, len, &mut packet, &mut outer);
    (packet, outer.unwrap_or_default(), oddity)
}

fn inner() -> Frame {
    let mut frame = Frame::tcp("10.0.0.1:5000".parse().unwrap(), "10.9.0.1:80".parse().unwrap());
    frame.payload = vec![7; 100];
    frame.tcp_mut().unwrap().seq = 77;
    ip(&mut frame).ecn = Ecn::Ect1;
    ip(&mut frame).dscp = 11;
    frame
}

fn ip(frame: &mut Frame) -> &mut Ip {
    match &mut frame.network {
        Net::Ip(ip) => ip,
        Net::Other(_) => panic!("no IP"),
    }
}

/// A frame with `payload` behind an outer IPv4 or IPv6 header and `transport`. Its headers state
/// VLAN 5, ECT(0) and the DS codepoint EF.
fn outer(transport: Transport, payload: Vec<u8>, v6: bool) -> Frame {
    let (src, dst) = if v6 { ("fd00::1", "fd00::2") } else { ("192.0.2.1", "192.0.2.2") };
    let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
    let mut frame = Frame::echo(src, dst, 1);
    let it = ip(&mut frame);
    (it.transport, it.ecn, it.dscp) = (transport, Ecn::Ect0, 46);
    frame.payload = payload;
    frame.link.push(Link::vlan(5));
    frame
}

fn vxlan(vni: u8, inner: &[u8]) -> Vec<u8> {
    [&[8, 0, 0, 0, 0, 0, vni, 0], inner].concat()
}

/// Catches: ECN and DS codepoint read from the inner header; flow key, segment or offset read from
/// the outer header; an outer key that is not stored.
#[test]
fn the_key_is_read_inside_a_tunnel_and_ecn_and_dscp_outside() {
    let plain = {
        let mut packet = Packet::default();
        let bytes = inner().bytes();
        describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut packet);
        packet
    };
    for v6 in [false, true] {
        let inside = inner().bytes();
        let more = inside.len() + 8;
        let bytes = outer(Transport::Udp(40_000, 4789), vxlan(9, &inside), v6).bytes();
        let (packet, outer, oddity) = read(&bytes);
        assert_eq!((oddity, packet.key, packet.tcp), (None, plain.key, plain.tcp));
        assert_eq!((packet.ecn, packet.dscp, packet.vlan), (Ecn::Ect0, 46, 5));
        assert_eq!(packet.network_offset, 18);
        assert_eq!(packet.network, if v6 { Network::Ipv6 } else { Network::Ipv4 });
        let headers = bytes.len() - more;
        assert_eq!(usize::from(packet.transport_offset), headers + 8 + 14 + 20);
        let [tunnel] = outer.tunnels() else { panic!("one tunnel") };
        assert_eq!((tunnel.kind, tunnel.id, tunnel.vlan), (TunnelKind::Vxlan, Some(9), NO_VLAN));
        assert_eq!((tunnel.key.src.port, tunnel.key.dst.port), (40_000, 4789));
        assert_eq!(tunnel.key.protocol, Protocol::UDP);
        let end = if v6 { "fd00::2" } else { "192.0.2.2" };
        assert_eq!(tunnel.key.dst, Endpoint::at(end.parse().unwrap(), 4789));
        assert!(tunnel.may_edit);
    }
}

/// Catches: a VLAN tag inside a tunnel that is ignored, or that counts as the tag of the outer
/// frame.
#[test]
fn the_vlan_inside_a_tunnel_and_the_outer_vlan_are_both_read() {
    let mut inside = inner();
    inside.link.push(Link::vlan(20));
    let bytes = outer(Transport::Udp(40_000, 4789), vxlan(9, &inside.bytes()), false).bytes();
    let (packet, outer, oddity) = read(&bytes);
    assert_eq!((oddity, packet.vlan, outer.tunnels()[0].vlan), (None, 5, 20));
    assert_eq!(packet.key.dst, Endpoint::v4([10, 9, 0, 1], 80));
}

/// RFC 6040, section 4.2: a congestion mark is written to the outermost header, and only if this
/// header is ECN-capable.
///
/// Catches: a mark in the inner header; an inner codepoint that decides about the mark; an outer
/// checksum that is not updated.
#[test]
fn a_congestion_mark_is_written_to_an_ecn_capable_outer_header() {
    for (codepoint, marked) in [(Ecn::NotEct, false), (Ecn::Ect0, true), (Ecn::Ect1, true)] {
        let inside = inner().bytes();
        let frame = |codepoint| {
            let mut frame = outer(Transport::Udp(40_000, 4789), vxlan(9, &inside), false);
            ip(&mut frame).ecn = codepoint;
            frame.bytes()
        };
        let mut bytes = frame(codepoint);
        let (mut packet, _, _) = read(&bytes);
        assert_eq!(packet.mark_congestion(), marked, "{codepoint:?}");
        rewrite(&mut bytes, &packet, Checksum::Finished);
        assert_eq!(bytes, frame(if marked { Ecn::Ce } else { codepoint }));
    }
}

/// Catches: a third tunnel that is read; a second tunnel that is not read; the third inner packet
/// described.
#[test]
fn two_tunnels_are_read_and_a_third_is_payload() {
    let ends = |n: u8| (([192, 0, 2, n], 40_000).into(), ([198, 51, 100, n], 4789).into());
    let mut bytes = inner().bytes();
    for n in 1..=3 {
        let (src, dst) = ends(n);
        let mut frame = Frame::udp(src, dst);
        frame.payload = vxlan(n, &bytes);
        bytes = frame.bytes();
        let (packet, outer, oddity) = read(&bytes);
        assert_eq!(oddity, None);
        let ids: Vec<_> = outer.tunnels().iter().filter_map(|tunnel| tunnel.id).collect();
        let expected = [&[1][..], &[2, 1], &[3, 2]];
        assert_eq!(ids, expected[usize::from(n) - 1]);
        assert_eq!(packet.key.protocol, if n < 3 { Protocol::TCP } else { Protocol::UDP });
    }
}

/// Catches: an outer fragment whose payload is parsed as a tunnel; a packet that is described by
/// its payload, because it has the port of a tunnel protocol.
#[test]
fn fragments_and_packets_that_only_look_like_tunnels_keep_their_outer_key() {
    let mut first = outer(Transport::Other(4), inner().bytes()[14..].to_vec(), false);
    assert_eq!(read(&first.bytes()).1.tunnels().len(), 1);
    ip(&mut first).fragment = Some((0, true));
    let (packet, headers, _) = read(&first.bytes());
    assert!(packet.fragment.is_part() && headers.is_empty());
    let mut damaged = vxlan(9, &inner().bytes());
    damaged[8 + 14 + 8] ^= 1;
    let frame = outer(Transport::Udp(40_000, 4789), damaged, false).bytes();
    let (packet, headers, oddity) = read(&frame);
    assert!(headers.is_empty() && oddity.is_none());
    assert_eq!((packet.key.src.port, packet.key.dst.port), (40_000, 4789));
    let mut plain = Packet::default();
    describe(&frame, u32::try_from(frame.len()).unwrap(), &mut plain);
    assert_eq!(format!("{packet:?}"), format!("{plain:?}"));
}

/// Catches: an inner packet that ends with the frame although it is shorter; a pseudowire that is
/// not read.
#[test]
fn ethernet_over_mpls_is_described_by_its_inner_packet() {
    let mut frame = inner();
    frame.network = Net::Other(0x8847);
    frame.payload =
        [&0x0001_0140_u32.to_be_bytes()[..], &[0; 4], &inner().bytes(), &[0; 6]].concat();
    let (packet, outer, oddity) = read(&frame.bytes());
    assert_eq!((oddity, packet.network), (None, Network::Opaque));
    let tcp = packet.tcp.unwrap();
    assert_eq!((tcp.seq, tcp.payload, tcp.flags), (77, 100, TcpFlags(TcpFlags::ACK)));
    assert_eq!(packet.key.dst, Endpoint::v4([10, 9, 0, 1], 80));
    assert_eq!((outer.tunnels()[0].kind, outer.may_edit()), (TunnelKind::Pseudowire, false));
}

/// Catches: TCP in a tunnel behind an authentication header, which must not be rewritten.
#[test]
fn a_tunnel_after_an_authentication_header_is_not_parsed() {
    let mut frame = outer(Transport::Other(4), inner().bytes()[14..].to_vec(), true);
    assert!(read(&frame.bytes()).0.tcp.is_some());
    ip(&mut frame).extensions =
        vec![(51, vec![0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])];
    let (packet, headers, _) = read(&frame.bytes());
    assert!(packet.tcp.is_none() && headers.is_empty());
}
