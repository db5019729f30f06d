//! `cut` makes an ACK from a data segment in a tunnel. The ACK must equal, byte for byte, a frame
//! that is built without data.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidegate_core::Packet;
use tidegate_wire::build::{Frame, Link, Network, Transport};
use tidegate_wire::{Checksum, cut, describe_innermost};

/// The kind of a tunnel.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Ip,
    Gre,
    GreKey,
    Gretap,
    Vxlan,
    Geneve,
    /// Tunnels in which ACKs must not be edited.
    GreNumber,
    GtpU,
}

const KINDS: [Kind; 6] =
    [Kind::Ip, Kind::Gre, Kind::GreKey, Kind::Gretap, Kind::Vxlan, Kind::Geneve];

/// The Ethernet frame `inner` in a tunnel over IPv4 or IPv6.
fn wrap(inner: &[u8], kind: Kind, v6: bool) -> Frame {
    let ip = &inner[14..];
    let number = if ip[0] >> 4 == 6 { 41 } else { 4 };
    let gre = |flags: u8, more: &[u8]| [&[flags, 0], &inner[12..14], more, ip].concat();
    let (transport, payload) = match kind {
        Kind::Ip => (Transport::Other(number), ip.to_vec()),
        Kind::Gre => (Transport::Other(47), gre(0, &[])),
        Kind::GreKey => (Transport::Other(47), gre(0x20, &[0, 0, 0, 7])),
        Kind::GreNumber => (Transport::Other(47), gre(0x10, &[0, 0, 0, 7])),
        Kind::Gretap => (Transport::Other(47), [&[0, 0, 0x65, 0x58], inner].concat()),
        Kind::Vxlan => (Transport::Udp(4000, 4789), [&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat()),
        Kind::Geneve => {
            let header = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4];
            (Transport::Udp(4000, 6081), [&header, inner].concat())
        }
        Kind::GtpU => {
            let len = u16::try_from(ip.len()).unwrap().to_be_bytes();
            (Transport::Udp(2152, 2152), [&[0x30, 255, len[0], len[1], 0, 0, 0, 7], ip].concat())
        }
    };
    let ends = if v6 { ["fd00::1", "fd00::2"] } else { ["192.0.2.1", "192.0.2.2"] };
    let mut frame = Frame::echo(ends[0].parse().unwrap(), ends[1].parse().unwrap(), 1);
    if let Network::Ip(ip) = &mut frame.network {
        ip.transport = transport;
    }
    frame.payload = payload;
    frame
}

/// A TCP segment with `payload` in these tunnels. The innermost tunnel is first.
fn built(payload: &[u8], inner_v6: bool, tunnels: &[(Kind, bool)]) -> Vec<u8> {
    let ends = if inner_v6 { ["[fd07::1]:5", "[fd07::2]:6"] } else { ["10.0.0.1:5", "10.0.0.2:6"] };
    let mut frame = Frame::tcp(ends[0].parse().unwrap(), ends[1].parse().unwrap());
    frame.payload = payload.to_vec();
    frame.tcp_mut().unwrap().options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let mut bytes = frame.bytes();
    for (nth, (kind, v6)) in tunnels.iter().enumerate() {
        let mut outer = wrap(&bytes, *kind, *v6);
        if nth + 1 == tunnels.len() {
            outer.link = vec![Link::vlan(7), Link::Pppoe(9)];
        }
        bytes = outer.bytes();
    }
    bytes
}

fn described(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    let len = u32::try_from(frame.len()).unwrap();
    describe_innermost(frame, len, &mut packet, &mut None);
    packet
}

/// All combinations of one or two tunnels of each kind, with outer and inner packets of both IP
/// versions.
fn cases() -> Vec<(bool, Vec<(Kind, bool)>)> {
    let mut cases = Vec::new();
    for (first, inner_v6) in KINDS.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
        for v6 in [false, true] {
            cases.push((inner_v6, vec![(first, v6)]));
            let second = KINDS.iter().flat_map(|kind| [(*kind, false), (*kind, true)]);
            cases.extend(second.map(|it| (inner_v6, vec![(first, v6), it])));
        }
    }
    cases
}

/// Catches: a header whose length or checksum is not updated; an outer checksum without the change
/// of an inner IPv6 length or of the outer pseudo header.
#[test]
fn an_ack_cut_from_data_in_tunnels_equals_a_frame_built_without_data() {
    let payload: Vec<u8> = (0..113).collect();
    for (inner_v6, tunnels) in cases() {
        let (frame, expected) =
            (built(&payload, inner_v6, &tunnels), built(&[], inner_v6, &tunnels));
        let mut head = frame[..expected.len()].to_vec();
        assert!(cut(&frame, &mut head, Checksum::Finished), "{tunnels:?}");
        assert_eq!(head, expected, "{inner_v6} {tunnels:?}");
    }
}

/// Catches: a trailer that still counts in an outer checksum; a trailer after an odd number of
/// bytes that is summed as after an even number; a trailer that is subtracted twice, or from a
/// checksum that did not include it.
#[test]
fn a_trailer_after_the_inner_packet_is_excluded_from_the_outer_checksums() {
    const TRAILER: [u8; 3] = [1, 2, 3];
    let ethernet = [Kind::Vxlan, Kind::Geneve];
    for n in 0..16_usize {
        let (first, second, v6) = (n / 2 % 2, n / 4 % 2, n / 8 == 1);
        let payload: u8 = if n % 2 == 0 { 98 } else { 99 };
        let payload: Vec<u8> = (0..payload).collect();
        let [plain, mut data] = [&[][..], &payload].map(|it| built(it, v6, &[]));
        data.extend(TRAILER);
        let [plain, data] = [(plain, &[][..]), (data, &TRAILER)].map(|(bytes, trailer)| {
            let inner = wrap(&bytes, ethernet[first], v6).bytes();
            let outer = [&inner, trailer].concat();
            [inner, wrap(&outer, ethernet[second], !v6).bytes()]
        });
        for (expected, frame) in plain.into_iter().zip(data) {
            let mut head = frame[..expected.len()].to_vec();
            assert!(cut(&frame, &mut head, Checksum::Finished));
            assert_eq!(head, expected, "{first} {second} {v6} {}", payload.len());
        }
    }
}

/// Catches: an IEEE 802.3 length that still counts the data.
#[test]
fn the_length_of_an_ieee_802_3_frame_is_updated() {
    for (tags, tunnels) in [(0, vec![]), (1, vec![]), (2, vec![]), (1, vec![(Kind::Vxlan, false)])]
    {
        let [expected, frame] =
            [&[][..], &[7; 99]].map(|it| snap(&built(it, false, &tunnels), tags));
        let mut head = frame[..expected.len()].to_vec();
        assert!(cut(&frame, &mut head, Checksum::Finished), "{tags} {tunnels:?}");
        assert_eq!(head, expected, "{tags} {tunnels:?}");
    }
}

/// The IP packet of `frame` behind `tags` VLAN tags, a length field, LLC and SNAP.
fn snap(frame: &[u8], tags: usize) -> Vec<u8> {
    let ip = frame.windows(4).position(|it| it[0] == 0x45 && it[1] == 0).unwrap();
    let length = u16::try_from(8 + frame.len() - ip).unwrap().to_be_bytes();
    let llc = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    [&frame[..12], &[0x81, 0, 0, 7].repeat(tags), &length, &llc, &frame[ip..]].concat()
}

/// Catches: bytes that are written before all conditions for a cut are checked.
#[test]
fn a_frame_from_which_no_ack_can_be_cut_does_not_change() {
    let data = [1; 99];
    let mut routed = Frame::tcp("[fd00::1]:5".parse().unwrap(), "[fd00::2]:6".parse().unwrap());
    routed.payload = data.to_vec();
    // A routing header of an unknown type with a segment left, so that the final destination is
    // unknown.
    routed.ip_mut().unwrap().extensions = vec![(43, vec![0, 0, 99, 1, 0, 0, 0, 0])];
    let mut frames = vec![routed.bytes(), built(&data, false, &[(Kind::GtpU, false)])];
    frames.push(wrap(&routed.bytes(), Kind::Vxlan, false).bytes());
    for frame in frames {
        assert!(described(&frame).tcp.is_some());
        let before = frame[..frame.len() - data.len()].to_vec();
        let mut head = before.clone();
        assert!(!cut(&frame, &mut head, Checksum::Finished));
        assert_eq!(head, before);
    }
}

/// Catches: an unfinished inner checksum that is included in the outer checksum.
#[test]
fn with_an_unfinished_inner_checksum_the_outer_checksums_are_finished() {
    let payload: Vec<u8> = (0..113).collect();
    for (inner_v6, tunnels) in cases() {
        let (mut frame, mut expected) =
            (built(&payload, inner_v6, &tunnels), built(&[], inner_v6, &tunnels));
        for bytes in [&mut frame, &mut expected] {
            set_partial_checksum(bytes);
        }
        let mut head = frame[..expected.len()].to_vec();
        assert!(cut(&frame, &mut head, Checksum::Partial), "{tunnels:?}");
        assert_eq!(head, expected, "{inner_v6} {tunnels:?}");
    }
}

/// Catches: a UDP checksum of zero (no checksum) that gets a value.
#[test]
fn an_outer_datagram_without_a_checksum_gets_no_checksum() {
    let clear = |mut frame: Vec<u8>| {
        let udp = 14 + 4 + 8 + 20;
        frame[udp + 6..udp + 8].fill(0);
        frame
    };
    let tunnels = [(Kind::Vxlan, false)];
    let (frame, expected) =
        (clear(built(&[1; 99], false, &tunnels)), clear(built(&[], false, &tunnels)));
    for mode in [Checksum::Finished, Checksum::Partial] {
        let (mut frame, mut expected) = (frame.clone(), expected.clone());
        if mode == Checksum::Partial {
            set_partial_checksum(&mut frame);
            set_partial_checksum(&mut expected);
        }
        let mut head = frame[..expected.len()].to_vec();
        assert!(cut(&frame, &mut head, mode));
        assert_eq!(head, expected);
    }
}

/// Catches: an ACK that is cut in a tunnel with sequence numbers, or in a tunnel of another kind
/// whose lengths `cut` cannot correct.
#[test]
fn no_ack_is_cut_in_numbered_and_unsupported_tunnels() {
    for kind in [Kind::GreNumber, Kind::GtpU] {
        let frame = built(&[1; 99], false, &[(kind, false)]);
        assert!(described(&frame).tcp.is_some());
        let mut head = frame[..frame.len() - 99].to_vec();
        assert!(!cut(&frame, &mut head, Checksum::Finished), "{kind:?}");
    }
}

/// Replaces the checksum of the innermost TCP header by the sum of its pseudo header, as a host
/// does for a NIC.
fn set_partial_checksum(frame: &mut [u8]) {
    let packet = described(frame);
    let at = usize::from(packet.transport_offset);
    let len = frame.len() - at;
    let [src, dst] = [packet.key.src.address(), packet.key.dst.address()];
    let mut words = match (src, dst) {
        (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) => {
            [src.octets(), dst.octets()].concat()
        }
        (std::net::IpAddr::V6(src), std::net::IpAddr::V6(dst)) => {
            [src.octets(), dst.octets()].concat()
        }
        _ => panic!("of one version"),
    };
    words.extend([0, 6]);
    words.extend(u16::try_from(len).unwrap().to_be_bytes());
    let sum = words.chunks(2).fold(0_u32, |all, pair| {
        let all = all + (u32::from(pair[0]) << 8 | u32::from(pair[1]));
        (all & 0xffff) + (all >> 16)
    });
    frame[at + 16..at + 18].copy_from_slice(&u16::try_from(sum).unwrap().to_be_bytes());
}
