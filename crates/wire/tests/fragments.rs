//! Descriptors of fragments, and policies for fragments.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;
mod gateways;

use std::net::SocketAddr;
use std::time::Duration;

use frames::described;
use gateways::{conditioning, gateway};
use tidegate_core::flow::{FragmentTable, WithoutFirst};
use tidegate_core::packet::{Fragment, Kind, Ports, Protocol};
use tidegate_core::{Bytes, Machine, Rate, Time};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Action, Exceed, Filter, Range};
use tidegate_wire::build::{Frame, Transport};
use tidegate_wire::describe;

/// Both end points of a datagram, over IPv4 and over IPv6.
fn ends() -> [(SocketAddr, SocketAddr); 2] {
    [("192.0.2.53:53", "10.0.0.1:4000"), ("[2001:db8::53]:53", "[fd00::1]:4000")]
        .map(|(src, dst)| (src.parse().unwrap(), dst.parse().unwrap()))
}

fn udp(src: SocketAddr, dst: SocketAddr) -> Frame {
    Frame { payload: vec![7; 64], ..Frame::udp(src, dst) }
}

fn tcp(src: SocketAddr, dst: SocketAddr) -> Frame {
    Frame { payload: vec![7; 64], ..Frame::tcp(src, dst) }
}

/// The fragment of `frame` at this `offset` in units of 8 bytes.
fn part(frame: &Frame, offset: u16, more: bool) -> Frame {
    let mut frame = frame.clone();
    let ip = frame.ip_mut().unwrap();
    (ip.fragment, ip.identification) = (Some((offset, more)), 0x4321);
    frame
}

/// Catches: ports that are missing; ports of a later fragment that are read from its data; a
/// fragment's descriptor that has `tcp`, `transport_offset` or a UDP checksum; an identification
/// that is read at the offset of the flags.
#[test]
fn the_descriptor_of_a_first_fragment_has_ports_but_no_transport_header() {
    for (src, dst) in ends() {
        for frame in [udp(src, dst), tcp(src, dst)] {
            let (whole, _) = described(&frame.bytes());
            let (first, oddity) = described(&part(&frame, 0, true).bytes());
            assert_eq!((first.key, oddity), (whole.key, None));
            assert!(first.fragment.is_first() && first.fragment.ports() == Ports::Known);
            assert_eq!((first.tcp, first.transport_offset, first.headers()), (None, 0, 0));
            let (later, oddity) = described(&part(&frame, 9, false).bytes());
            assert_eq!((later.key.src.port, later.key.dst.port, oddity), (0, 0, None));
            assert_eq!((later.fragment, later.tcp), (Fragment::later(9), None));
            assert_eq!([first, later].map(|it| it.identification()), [0x4321; 2]);
            assert_eq!(later.key.protocol, whole.key.protocol);
        }
    }
}

/// A first fragment must contain the TCP header up to its flags, or the whole UDP header (RFC 1858,
/// section 3.1).
///
/// Catches: 8 bytes of TCP that count as enough; padding of the frame that counts as a header.
#[test]
fn a_first_fragment_without_its_ports_is_tiny() {
    let (src, dst) = ends()[0];
    for (frame, needed) in [(udp(src, dst), 8), (tcp(src, dst), 16)] {
        for len in [0, needed - 8, needed] {
            let mut bytes = part(&frame, 0, true).bytes();
            let total = u16::try_from(20 + len).unwrap();
            bytes[16..18].copy_from_slice(&total.to_be_bytes());
            let (packet, oddity) = described(&bytes);
            assert_eq!(packet.fragment == Fragment::TINY, len < needed, "{len} of {needed}");
            assert_eq!((packet.key.src.port > 0, oddity), (len >= needed, None));
        }
    }
}

/// Catches: an extension header that counts as the protocol; ports that are read from an extension
/// header; a chain of extension headers that continues in a later fragment and counts as complete.
#[test]
fn ports_are_read_after_extension_headers_in_a_first_fragment() {
    let (src, dst) = ends()[1];
    let udp = udp(src, dst);
    let mut bytes = part(&udp, 0, true).bytes();
    // Ethernet 14, IPv6 40, fragment header 8 bytes. The data begins with destination options of 16
    // bytes.
    let (fragment, data) = (54, 62);
    bytes[fragment] = 60;
    bytes.splice(data..data, [17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let payload = u16::from_be_bytes([bytes[18], bytes[19]]) + 16;
    bytes[18..20].copy_from_slice(&payload.to_be_bytes());
    let (packet, oddity) = described(&bytes);
    assert_eq!((packet.key, oddity), (described(&udp.bytes()).0.key, None));
    // 16 bytes of options and 8 of UDP: a later fragment at offset 16 would overwrite the ports.
    assert_eq!(packet.fragment, Fragment::first(24));
    bytes[data + 1] = 200;
    let (packet, oddity) = described(&bytes);
    assert_eq!((packet.fragment, packet.key.src.port, oddity), (Fragment::TINY, 0, None));
    assert_eq!(packet.key.protocol, Protocol(60));
}

/// An authentication header of 24 bytes: next header, length in words minus two, and digest (RFC
/// 4302, section 2).
fn authentication(next: u8) -> Vec<u8> {
    [&[next, 4][..], &[0; 22]].concat()
}

/// Catches: an authentication header of IPv4 that counts as the protocol; only one of two headers
/// skipped; a first fragment that is not marked as authenticated, so that later fragments do not
/// find it; a header that is skipped although it is cut short.
#[test]
fn ports_are_read_after_an_authentication_header_in_an_ipv4_first_fragment() {
    let (src, dst) = ends()[0];
    let whole = udp(src, dst);
    // Ethernet has 14 bytes, and IPv4 has 20.
    let datagram = whole.bytes().split_off(34);
    for headers in [authentication(17), [authentication(51), authentication(17)].concat()] {
        let mut frame = Frame::ip(src.ip(), dst.ip(), Transport::Other(51));
        frame.payload = [&headers[..], &datagram].concat();
        let (mut first, oddity) = described(&part(&frame, 0, true).bytes());
        assert_eq!((first.key, oddity), (described(&whole.bytes()).0.key, None));
        assert_eq!(first.fragment, Fragment::first(headers.len() + 8).authenticated());
        let (mut later, _) = described(&part(&frame, 19, false).bytes());
        assert_eq!(later.key.protocol, Protocol::AUTHENTICATION);
        let mut table = FragmentTable::new(1);
        for packet in [&mut first, &mut later] {
            assert!(table.take(Time::ZERO, packet, None, WithoutFirst::ByAddress));
        }
        assert_eq!(later.key, first.key);
        frame.payload.truncate(headers.len() - 1);
        let (tiny, oddity) = described(&part(&frame, 0, true).bytes());
        assert_eq!((tiny.fragment, tiny.key.src.port, oddity), (Fragment::TINY, 0, None));
        assert_eq!(tiny.key.protocol, Protocol::AUTHENTICATION);
    }
}

/// Catches: identifiers of ICMP echoes that are missing, or are read from other ICMP messages.
#[test]
fn the_first_fragment_of_an_echo_has_its_identifier() {
    for (host, peer) in [("10.0.0.1", "10.9.0.1"), ("fd00::1", "fd00::2")] {
        let (host, peer) = (host.parse().unwrap(), peer.parse().unwrap());
        let echo = Frame::echo(host, peer, 77);
        let (first, _) = described(&part(&echo, 0, true).bytes());
        assert_eq!(first.key, described(&echo.bytes()).0.key);
        let other = Frame::ip(host, peer, Transport::Icmp(3, 0, [0, 77, 0, 1]));
        assert_eq!(described(&part(&other, 0, true).bytes()).0.key.src.port, 0);
    }
}

/// Later fragments have no ports, so only a part of each datagram would count as control traffic.
#[test]
fn fragments_of_datagrams_are_not_control_traffic() {
    let dhcp = udp("0.0.0.0:68".parse().unwrap(), "255.255.255.255:67".parse().unwrap());
    assert_eq!(described(&dhcp.bytes()).0.kind, Kind::Control);
    assert_eq!(described(&part(&dhcp, 0, true).bytes()).0.kind, Kind::User);
}

/// The limit for name servers in `examples/isp.toml`.
const LIMIT: Rate = Rate::from_mbps(5);

/// A gateway that drops packets from UDP port 53 beyond 5 Mbit/s.
fn police() -> Gateway {
    let filter = Filter { src_port: vec![Range { first: 53, last: 53 }], ..Filter::default() };
    let conditioning = conditioning(LIMIT, Bytes(15_140));
    gateway(filter, Action::Police { conditioning, exceed: Exceed::Drop }, 64)
}

/// Offers 24 Mbit/s of datagrams in two fragments each, for ten seconds of virtual time.
///
/// Catches: first fragments without ports; later fragments to which the policy does not apply,
/// because they do not look up their first fragment.
#[test]
fn fragments_of_a_policed_port_pass_at_the_rate_of_the_policy() {
    for (src, dst) in ends() {
        let (mut gateway, mut sent, mut passed) = (police(), 0, 0);
        let mut now = Time::ZERO;
        for n in 0..20_000u16 {
            let mut frame = Frame { payload: vec![7; 1_440], ..Frame::udp(src, dst) };
            let offset = n % 2 * 181;
            let ip = frame.ip_mut().unwrap();
            (ip.fragment, ip.identification) = (Some((offset, offset == 0)), n / 2);
            let bytes = frame.bytes();
            let id = gateway.pool().reserve().unwrap();
            describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut gateway.pool()[&id]);
            gateway.handle_packet(now, Gateway::WAN, id);
            while let Some(id) = gateway.poll_transmit(now, Gateway::LAN) {
                passed += bytes.len();
                gateway.pool().release(id);
            }
            sent += bytes.len();
            now += Duration::from_micros(500);
        }
        let mbps = |bytes: usize| u64::try_from(bytes).unwrap() * 8 / 10_000_000;
        assert!(mbps(sent) >= 23, "{}", mbps(sent));
        // 5 Mbit/s for 10 s, and the burst.
        let allowed = 6_250_000 + 15_140;
        assert!((allowed - 15_140..=allowed).contains(&passed), "{src}: {passed}");
    }
}
