//! Tests of split super-packets and of completed checksums: the resulting frames must equal the
//! frames that `build` makes.

use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use tidegate_core::packet::TcpFlags;

use super::*;
use crate::build::{Frame, Link, Transport};
use crate::split::{frames, has_plain_headers};
use crate::{Completed, complete_checksum, describe};

/// A kind of tunnel over IPv4 or IPv6.
#[derive(Clone, Copy, Debug)]
enum Wrap {
    Ip(bool),
    Gre { v6: bool, key: bool, checksum: bool },
    Vxlan { v6: bool, port: u16, checksum: bool },
    Geneve(bool),
    GtpU(bool),
    L2tp { v6: bool, length: bool },
}

/// A description of a frame's headers.
#[derive(Clone, Debug)]
struct Spec {
    link: Vec<Link>,
    /// The tunnels, outermost first.
    tunnels: Vec<Wrap>,
    v6: bool,
    udp: bool,
    flags: TcpFlags,
}

impl Spec {
    /// Frame `number` of a split super-packet. Its payload begins at `offset` in the
    /// super-packet's payload.
    fn frame(&self, number: u16, offset: usize, flags: TcpFlags, payload: &[u8]) -> Vec<u8> {
        let (src, dst) = ends(self.v6, 1, (5_000, 443));
        let mut inner = if self.udp { Frame::udp(src, dst) } else { Frame::tcp(src, dst) };
        if let Some(tcp) = inner.tcp_mut() {
            (tcp.flags, tcp.options) = (flags, vec![1; 12]);
            tcp.seq = u32::MAX - 1_000;
            tcp.seq = tcp.seq.wrapping_add(u32::try_from(offset).unwrap());
        }
        inner.payload = payload.to_vec();
        inner.ip_mut().unwrap().identification = 65_530_u16.wrapping_add(number);
        let mut link = self.link.clone();
        if self.tunnels.is_empty() {
            inner.link = std::mem::take(&mut link);
        }
        let mut bytes = inner.bytes();
        for (depth, tunnel) in self.tunnels.iter().enumerate().rev() {
            let link = if depth == 0 { &link[..] } else { &[] };
            bytes = tunnel.around(&bytes, link, 100_u16.wrapping_add(number));
        }
        bytes
    }

    /// Offset of the innermost transport header in a frame with `payload` bytes of payload.
    fn transport(&self, frame: &[u8], payload: usize) -> usize {
        frame.len() - payload - if self.udp { 8 } else { 32 }
    }
}

impl Wrap {
    /// A frame with the Ethernet frame `inner` in this tunnel. The headers `link` precede the outer
    /// IP header.
    fn around(self, inner: &[u8], link: &[Link], identification: u16) -> Vec<u8> {
        let ip = &inner[14..];
        let ethertype = [inner[12], inner[13]];
        let version = if ip[0] >> 4 == 4 { 4 } else { 41 };
        let (v6, protocol, port, payload) = match self {
            Self::Ip(v6) => (v6, version, 0, ip.to_vec()),
            Self::Gre { v6, key, checksum } => {
                let flags = u8::from(checksum) << 7 | u8::from(key) << 5;
                let sum = if checksum { &[0; 4][..] } else { &[] };
                let key = if key { &[0, 0, 1, 2][..] } else { &[] };
                let mut gre = [&[flags, 0][..], &ethertype, sum, key, ip].concat();
                if checksum {
                    let sum = !checksum::sum(0, &gre);
                    gre[4..6].copy_from_slice(&sum.to_be_bytes());
                }
                (v6, 47, 0, gre)
            }
            Self::Vxlan { v6, port, .. } => {
                (v6, 17, port, [&[8, 0, 0, 0, 0, 0, 42, 0][..], inner].concat())
            }
            Self::Geneve(v6) => {
                let header = [1, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 0];
                (v6, 17, 6_081, [&header[..], inner].concat())
            }
            Self::GtpU(v6) => {
                let [high, low] = u16::try_from(ip.len()).unwrap_or(0).to_be_bytes();
                (v6, 17, 2_152, [&[0x30, 255, high, low, 0, 0, 0, 9][..], ip].concat())
            }
            Self::L2tp { v6, length } => {
                let flags = u8::from(length) << 6;
                let len = u16::try_from(ip.len() + 12).unwrap_or(0).to_be_bytes();
                let len = if length { &len[..] } else { &[] };
                let ppp = if version == 4 { 0x21 } else { 0x57 };
                (v6, 17, 1_701, [&[flags, 2][..], len, &[0, 1, 0, 2, 255, 3, 0, ppp], ip].concat())
            }
        };
        let (src, dst) = ends(v6, 2, (4_000, port));
        let mut frame = match protocol {
            17 => Frame::udp(src, dst),
            _ => Frame::ip(src.ip(), dst.ip(), Transport::Other(protocol)),
        };
        (frame.payload, frame.link) = (payload, link.to_vec());
        frame.ip_mut().unwrap().identification = identification;
        let mut bytes = frame.bytes();
        if let Self::Vxlan { checksum: false, .. } = self {
            let field = bytes.len() - frame.payload.len() - 2;
            bytes[field..field + 2].fill(0);
        }
        bytes
    }
}

fn ends(v6: bool, subnet: u8, ports: (u16, u16)) -> (SocketAddr, SocketAddr) {
    let at = |host: u8| -> IpAddr {
        if v6 {
            format!("2001:db8:{subnet}::{host}").parse().unwrap()
        } else {
            IpAddr::from([10, subnet, 0, host])
        }
    };
    (SocketAddr::new(at(1), ports.0), SocketAddr::new(at(2), ports.1))
}

fn wraps() -> impl Strategy<Value = Wrap> {
    let (a, b, c) = (any::<bool>(), any::<bool>(), any::<bool>());
    (0..6, a, b, c).prop_map(|(kind, v6, one, two)| match kind {
        0 => Wrap::Ip(v6),
        1 => Wrap::Gre { v6, key: one, checksum: two },
        2 => Wrap::Vxlan { v6, port: if two { 4_789 } else { 8_472 }, checksum: one },
        3 => Wrap::Geneve(v6),
        4 => Wrap::GtpU(v6),
        _ => Wrap::L2tp { v6, length: one },
    })
}

fn specs(tunnels: std::ops::Range<usize>) -> impl Strategy<Value = Spec> {
    let links = prop::sample::select(vec![
        vec![],
        vec![Link::vlan(7)],
        vec![Link::vlan(7), Link::Pppoe(9)],
        vec![Link::Mpls(5)],
    ]);
    let inner = (any::<bool>(), any::<bool>(), any::<u8>());
    (links, prop::collection::vec(wraps(), tunnels), inner).prop_map(
        |(link, tunnels, (v6, udp, flags))| {
            let flags = TcpFlags(flags & !TcpFlags::SYN);
            Spec { link, tunnels, v6, udp, flags }
        },
    )
}

/// The TCP flags of segment `number` among `count` segments.
fn flags_of(flags: TcpFlags, number: usize, count: usize) -> TcpFlags {
    let last = if number + 1 == count { 0 } else { TcpFlags::FIN | TcpFlags::PSH };
    let first = if number == 0 { 0 } else { TcpFlags::CWR };
    TcpFlags(flags.0 & !last & !first)
}

fn described(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet);
    packet
}

/// Sets the TCP or UDP checksum at `transport` to the sum of the pseudo header, as a host does for
/// a NIC.
fn set_partial_checksum(frame: &mut [u8], transport: usize, spec: &Spec) {
    let (src, dst) = ends(spec.v6, 1, (0, 0));
    let bytes = |it: SocketAddr| match it.ip() {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    };
    let len = u32::try_from(frame.len() - transport).unwrap().to_be_bytes();
    let protocol = if spec.udp { 17 } else { 6 };
    let pseudo = [&bytes(src)[..], &bytes(dst), &len, &[0, protocol]].concat();
    let field = transport + if spec.udp { 6 } else { 16 };
    let sum = checksum::sum(0, &pseudo);
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}

proptest! {
    /// Catches: a length, identification or checksum of any header that is not updated; an outer
    /// checksum of zero (no checksum) that gets a value; an inner checksum that is computed after
    /// an outer checksum.
    #[test]
    fn the_frames_of_a_split_super_packet_equal_frames_sent_one_by_one(
        spec in specs(0..3),
        payload in 1_usize..9_000,
        size in 1_u16..1_500,
        states_offset in any::<bool>(),
    ) {
        let size = size.max(u16::try_from(payload / 40).unwrap()).max(1);
        let payload: Vec<u8> = (0..payload).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut whole = spec.frame(0, 0, spec.flags, &payload);
        let transport = spec.transport(&whole, payload.len());
        set_partial_checksum(&mut whole, transport, &spec);
        let pieces = frames(&whole, size, states_offset.then_some(transport)).unwrap();
        let expected = payload.chunks(size.into()).enumerate().map(|(number, part)| {
            let flags = flags_of(spec.flags, number, payload.len().div_ceil(size.into()));
            spec.frame(u16::try_from(number).unwrap(), number * usize::from(size), flags, part)
        });
        prop_assert_eq!(pieces, expected.collect::<Vec<_>>());
        let plain = spec.tunnels.is_empty() && spec.link.iter().all(|it| matches!(it, Link::Vlan(_)));
        prop_assert_eq!(has_plain_headers(&whole, states_offset.then_some(transport)), plain);
    }

    /// Catches: checksums that are completed at one depth of tunnels only; an outer checksum that
    /// is changed although it is already correct for the completed inner checksum; unfinished
    /// checksums beyond two tunnels that are not reported; finished checksums that are reported as
    /// unfinished.
    #[test]
    fn checksums_are_completed_in_up_to_two_tunnels_and_a_third_tunnel_is_reported(
        spec in specs(0..4),
        payload in 0_usize..200,
    ) {
        let payload = vec![0x5a; payload];
        let finished = spec.frame(0, 0, spec.flags, &payload);
        let transport = spec.transport(&finished, payload.len());
        let mut frame = finished.clone();
        set_partial_checksum(&mut frame, transport, &spec);
        let left = frame.clone();
        let packet = described(&frame);
        let completed = complete_checksum(&mut frame, &packet);
        if spec.tunnels.len() > 2 {
            prop_assert_eq!((completed, &frame), (Completed::TooDeep, &left));
        } else {
            prop_assert_eq!((completed, &frame), (Completed::Some, &finished));
        }
        let mut again = finished.clone();
        let packet = described(&again);
        prop_assert_eq!((complete_checksum(&mut again, &packet), again), (Completed::Nothing, finished));
    }

    #[test]
    fn any_bytes_after_a_tunnel_header_are_parsed_without_a_panic(
        spec in specs(1..3),
        at in 14_usize..150,
        damage in prop::collection::vec(any::<u8>(), 1..4),
        transport in prop::option::of(0_usize..200),
    ) {
        let mut frame = spec.frame(0, 0, spec.flags, &[7; 60]);
        for (byte, damage) in frame.iter_mut().skip(at).zip(damage) {
            *byte = damage;
        }
        let packet = described(&frame);
        let _ = frames(&frame, 10, transport);
        let _ = has_plain_headers(&frame, transport);
        let _ = complete_checksum(&mut frame, &packet);
    }
}

/// Catches: Ethernet behind MPLS labels that is not recognised.
#[test]
fn checksums_are_completed_in_ethernet_over_mpls() {
    for control_word in [&[][..], &[0, 0, 0, 1]] {
        let tunnels = vec![Wrap::Vxlan { v6: false, port: 4_789, checksum: true }];
        let flags = TcpFlags(TcpFlags::ACK);
        let spec = Spec { link: Vec::new(), tunnels, v6: true, udp: false, flags };
        let inner = spec.frame(0, 0, flags, &[9; 100]);
        let mut pseudowire = Frame::opaque(0x8847, Vec::new());
        pseudowire.payload = [&[0, 0, 0x51, 64][..], control_word, &inner].concat();
        let finished = pseudowire.bytes();
        let mut frame = finished.clone();
        let transport = spec.transport(&frame, 100);
        set_partial_checksum(&mut frame, transport, &spec);
        let packet = described(&frame);
        assert_eq!(complete_checksum(&mut frame, &packet), Completed::Some);
        assert_eq!(frame, finished);
    }
}

/// The tunnel is VXLAN on an unusual port, as an example of a tunnel that the port does not
/// identify.
///
/// Catches: a tunnel that is recognised only by its port.
#[test]
fn a_tunnel_on_an_unusual_port_is_split_if_the_kernel_states_the_inner_offset() {
    for (v6, inner_v6) in [(false, false), (true, false), (false, true), (true, true)] {
        let tunnels = vec![Wrap::Vxlan { v6, port: 9_999, checksum: true }];
        let flags = TcpFlags(TcpFlags::ACK);
        let spec = Spec { link: Vec::new(), tunnels, v6: inner_v6, udp: false, flags };
        let payload = [9; 2_500];
        let whole = spec.frame(0, 0, flags, &payload);
        let pieces = frames(&whole, 1_000, Some(spec.transport(&whole, payload.len()))).unwrap();
        for (number, (piece, part)) in (0..).zip(pieces.iter().zip(payload.chunks(1_000))) {
            assert_eq!(*piece, spec.frame(number, 1_000 * usize::from(number), flags, part));
        }
        assert_eq!(pieces.len(), 3);
    }
}

#[test]
fn a_super_packet_whose_tunnel_numbers_its_packets_is_not_split() {
    let spec = Spec {
        link: Vec::new(),
        tunnels: Vec::new(),
        v6: false,
        udp: false,
        flags: TcpFlags(TcpFlags::ACK),
    };
    let inner = spec.frame(0, 0, spec.flags, &[7; 3_000]);
    let (src, dst) = ends(false, 2, (0, 0));
    let mut gre = Frame::ip(src.ip(), dst.ip(), Transport::Other(47));
    gre.payload = [&[0x10, 0, 8, 0, 0, 0, 0, 1][..], &inner[14..]].concat();
    let transport = 14 + 20 + 8 + 20;
    assert_eq!(frames(&gre.bytes(), 1_000, Some(transport)), None);
}

/// Catches: a checksum over the next router's address, although a routing header names the final
/// destination.
#[test]
fn the_last_destination_of_a_source_route_is_in_the_checksum() {
    let routing = |kind: u8, left: u8| {
        let addresses: Vec<IpAddr> =
            ["2001:db8:1::2", "2001:db8:1::9"].map(|it| it.parse().unwrap()).to_vec();
        let order = if kind == 4 { [0, 1] } else { [1, 0] };
        let octets = order.map(|it| match addresses[it] {
            IpAddr::V6(it) => it.octets(),
            IpAddr::V4(_) => unreachable!(),
        });
        [&[0, 4, kind, left, 0, 0, 0, 0][..], octets.as_flattened()].concat()
    };
    for (kind, left) in [(0, 2), (4, 1), (0, 0)] {
        let (src, last) = ends(true, 1, (5_000, 443));
        let mut direct = Frame::udp(src, last);
        direct.payload = vec![3; 50];
        let checksum = direct.bytes()[14 + 40 + 6..][..2].to_vec();
        // While the routing header has segments left, the IPv6 destination is the next router.
        let next = if left == 0 { last } else { "[2001:db8:5::5]:443".parse().unwrap() };
        let mut routed = Frame { payload: direct.payload.clone(), ..Frame::udp(src, next) };
        routed.ip_mut().unwrap().extensions = vec![(43, routing(kind, left))];
        let mut frame = routed.bytes();
        let field = 14 + 40 + 40 + 6;
        let spec =
            Spec { link: vec![], tunnels: vec![], v6: true, udp: true, flags: TcpFlags::default() };
        set_partial_checksum(&mut frame, field - 6, &spec);
        let packet = described(&frame);
        assert_eq!(complete_checksum(&mut frame, &packet), Completed::Some, "type {kind}");
        assert_eq!(frame[field..field + 2], checksum, "type {kind}, {left} left");
        let pieces = frames(&frame, 100, Some(field - 6)).unwrap();
        assert_eq!(pieces[0][field..field + 2], checksum, "type {kind}, {left} left");
    }
}

/// Catches: a checksum over the next router's address, although a source route names the final
/// destination.
#[test]
fn the_last_destination_of_an_ipv4_source_route_is_in_the_checksum() {
    for pointer in [4, 8] {
        let (src, last) = ends(false, 1, (5_000, 443));
        let mut direct = Frame::udp(src, last);
        direct.payload = vec![3; 50];
        let checksum = direct.bytes()[14 + 20 + 6..][..2].to_vec();
        let next = if pointer > 7 { last } else { "10.5.0.5:443".parse().unwrap() };
        let mut routed = Frame { payload: direct.payload.clone(), ..Frame::udp(src, next) };
        let [a, b, c, d] = [10, 1, 0, 2];
        routed.ip_mut().unwrap().options = vec![1, 131, 7, pointer, a, b, c, d];
        let mut frame = routed.bytes();
        let field = 14 + 28 + 6;
        let spec = Spec {
            link: vec![],
            tunnels: vec![],
            v6: false,
            udp: true,
            flags: TcpFlags::default(),
        };
        set_partial_checksum(&mut frame, field - 6, &spec);
        let packet = described(&frame);
        assert_eq!(complete_checksum(&mut frame, &packet), Completed::Some);
        assert_eq!(frame[field..field + 2], checksum, "pointer {pointer}");
    }
}

/// Catches: a CRC with another polynomial, bit order or byte order; an SCTP checksum inside a
/// tunnel that is not completed; a finished checksum that is replaced.
#[test]
fn the_checksum_of_sctp_is_completed_where_it_is_zero() {
    for tunnel in
        [None, Some(Wrap::Ip(true)), Some(Wrap::Vxlan { v6: false, port: 4_789, checksum: true })]
    {
        let (src, dst) = ends(false, 1, (0, 0));
        let mut sctp = Frame::ip(src.ip(), dst.ip(), Transport::Other(132));
        // An INIT chunk (RFC 9260, section 3.3.2). Its checksum is computed bit by bit, from the
        // definition.
        let mut packet =
            [&[0x13, 0x88, 1, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 20][..], &[5; 16]].concat();
        sctp.payload = packet.clone();
        let left = sctp.bytes();
        let sum = slow_crc32c(&packet).to_le_bytes();
        packet[8..12].copy_from_slice(&sum);
        sctp.payload = packet;
        let around = |frame: Vec<u8>| match tunnel {
            Some(tunnel) => tunnel.around(&frame, &[], 1),
            None => frame,
        };
        let (mut frame, finished) = (around(left), around(sctp.bytes()));
        if let Some(Wrap::Vxlan { .. }) = tunnel {
            // The sender computes the outer checksum for the completed frame.
            frame[40..42].copy_from_slice(&finished[40..42]);
        }
        let about = described(&frame);
        assert_eq!(complete_checksum(&mut frame, &about), Completed::Some);
        assert_eq!(frame, finished);
        assert_eq!(complete_checksum(&mut frame, &about), Completed::Nothing);
    }
    assert_eq!(slow_crc32c(b"123456789"), 0xe306_9283, "the check value of the CRC catalogue");
}

fn slow_crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}
