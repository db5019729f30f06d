//! Descriptors agree with another parser (`etherparse`), and no input breaks our parser.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;

use std::net::{IpAddr, Ipv4Addr};

use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};
use frames::{described, frames};
use proptest::prelude::*;
use tidegate_core::Packet;
use tidegate_core::packet::{Endpoint, NO_VLAN, Network, Options, TcpFlags, TcpSegment};
use tidegate_wire::build::{Frame, Link, Transport};
use tidegate_wire::{Completed, Oddity, VlanTag, complete_checksum, describe, segment};

/// The descriptor of an IP packet, computed with the independent parser.
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
        high_flags: tcp.slice()[12] & 15,
        ..TcpSegment::default()
    };
    for option in tcp.options_iterator() {
        match option {
            Ok(TcpOptionElement::MaximumSegmentSize(mss)) if tcp.syn() => segment.mss = mss,
            Ok(TcpOptionElement::WindowScale(shift)) if tcp.syn() => {
                segment.window_scale = Some(shift);
            }
            Ok(TcpOptionElement::SelectiveAcknowledgementPermitted) if tcp.syn() => {
                segment.sack_permitted = true;
            }
            Ok(TcpOptionElement::SelectiveAcknowledgement(..)) => segment.has_sack = true,
            Ok(TcpOptionElement::Timestamp(value, echo)) => {
                segment.timestamps = Some((value, echo));
            }
            Ok(TcpOptionElement::Noop) => {}
            // Options that only a SYN may have.
            _ => segment.options = Options::Unknown,
        }
    }
    segment
}

/// The SACK blocks of all options in order, read with the independent parser.
fn expected_sack(ip: &[u8]) -> Vec<(u32, u32)> {
    let sliced = SlicedPacket::from_ip(ip).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { return Vec::new() };
    let blocks = |option| match option {
        TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
            [Some(first)].into_iter().chain(rest).flatten().collect()
        }
        _ => Vec::new(),
    };
    tcp.options_iterator().map_while(Result::ok).flat_map(blocks).collect()
}

fn link_len(frame: &Frame) -> usize {
    let len = |link: &Link| if matches!(link, Link::Pppoe(_)) { 8 } else { 4 };
    14 + frame.link.iter().map(len).sum::<usize>()
}

proptest! {
    /// Catches: padding counted as payload; the innermost VLAN tag reported; extension headers in
    /// units of 4 bytes; SACK blocks in reverse order, or with exchanged edges.
    #[test]
    fn a_descriptor_agrees_with_an_independent_parser(frame in frames(), padding in 0usize..20) {
        let mut bytes = frame.bytes();
        let network = link_len(&frame);
        // Padded IPv6 with hop-by-hop options is not recognised behind MPLS labels.
        let padding = if matches!(frame.link.first(), Some(Link::Mpls(_))) && bytes[network + 6] == 0 {
            0
        } else {
            padding
        };
        bytes.resize(bytes.len() + padding, 0xa5);
        let (packet, _) = described(&bytes);
        let expected = expected(&bytes[network..]);

        prop_assert_eq!(packet.network, expected.network);
        prop_assert_eq!(packet.key, expected.key);
        prop_assert_eq!(packet.dscp, expected.dscp);
        prop_assert_eq!(usize::from(packet.network_offset), network);
        prop_assert_eq!(usize::try_from(packet.len).unwrap(), bytes.len());
        prop_assert!(!packet.fragment.is_part() && !packet.rewritten);
        prop_assert_eq!(packet.tcp, expected.tcp);
        let sack = segment::sack(&bytes, &packet);
        prop_assert_eq!(sack.as_slice(), &expected_sack(&bytes[network..])[..]);
        let vlans = frame.link.iter().filter_map(|link| match link {
            Link::Vlan(tag) => Some(tag.tci & 0xfff).filter(|vlan| *vlan != 0),
            _ => None,
        });
        prop_assert_eq!(packet.vlan, { vlans }.next().unwrap_or(NO_VLAN));
    }

    /// Catches: an IPv4 header that is read beyond the end of the frame.
    #[test]
    fn any_frame_is_described_within_its_bounds(
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

fn tcp(src: &str, dst: &str) -> Frame {
    let mut frame = Frame::tcp(src.parse().unwrap(), dst.parse().unwrap());
    frame.payload = vec![0; 32];
    frame
}

fn ipv4() -> Frame {
    tcp("10.0.0.1:1000", "10.9.0.1:80")
}

fn ipv6() -> Frame {
    tcp("[fd00::1]:1000", "[fd00::2]:80")
}

/// The descriptors of later fragments differ only in the ports, until the flow table looks up the
/// first fragment.
#[test]
fn fragments_of_a_datagram_have_the_same_addresses_and_protocol() {
    for frame in [ipv4(), ipv6()] {
        let fragments = [(0, true), (4, true), (8, false)].map(|fragment| {
            let mut frame = frame.clone();
            frame.ip_mut().unwrap().fragment = Some(fragment);
            described(&frame.bytes()).0
        });
        let first = fragments[0];
        assert_eq!((first.key.src.port, first.key.protocol.0), (1_000, 6));
        assert!(fragments.iter().all(|packet| packet.fragment.is_part() && packet.tcp.is_none()));
        let flows = fragments.map(|mut packet| {
            (packet.key.src.port, packet.key.dst.port) = (0, 0);
            packet.key
        });
        assert!(flows.iter().all(|key| *key == flows[0]));
    }
}

#[test]
fn a_fragment_header_on_an_unfragmented_datagram_hides_no_ports() {
    let mut frame = ipv6();
    frame.ip_mut().unwrap().fragment = Some((0, false));
    let (packet, _) = described(&frame.bytes());
    assert!(!packet.fragment.is_part() && packet.tcp.is_some_and(|tcp| tcp.payload == 32));
}

#[test]
fn request_and_reply_of_an_echo_are_one_flow() {
    for (host, peer, reply) in [("10.0.0.1", "10.9.0.1", 0), ("fd00::1", "fd00::2", 129)] {
        let (host, peer) = (host.parse().unwrap(), peer.parse().unwrap());
        let (request, _) = described(&Frame::echo(host, peer, 77).bytes());
        let answer = Frame::ip(peer, host, Transport::Icmp(reply, 0, [0, 77, 0, 1]));
        let (answer, _) = described(&answer.bytes());
        assert_eq!(request.key.reverse(), answer.key);
        assert_eq!(answer.key.src.port, 77);
    }
}

#[test]
fn frames_without_ip_are_one_flow_per_ethertype_in_both_directions() {
    let key = |ethertype| described(&Frame::opaque(ethertype, vec![0; 46]).bytes()).0.key;
    let arp = key(0x0806);
    assert_eq!((arp.src.port, arp), (0x0806, arp.reverse()));
    assert_ne!(arp, key(0x88cc));
    assert_eq!(key(46), key(120)); // Values below 0x600 are lengths, not ethertypes.
}

#[test]
fn after_an_extension_header_of_unknown_type_no_ports_are_read() {
    for (kind, protocol) in [(50, 50), (59, 59), (135, 135)] {
        let mut frame = ipv6();
        frame.ip_mut().unwrap().extensions = vec![(60, vec![0; 8]), (kind, vec![0; 8])];
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.key.protocol.0, packet.key.src.port, oddity), (protocol, 0, None));
    }
}

#[test]
fn after_an_authentication_header_ports_are_read_but_tcp_is_not() {
    let mut frame = ipv6();
    frame.ip_mut().unwrap().extensions = vec![(51, [&[0, 4][..], &[0; 22]].concat())];
    let (packet, oddity) = described(&frame.bytes());
    assert_eq!((packet.key.src.port, packet.tcp.is_none(), oddity), (1000, true, None));
}

/// Catches: a limit on the number of extension headers, which would hide the ports.
#[test]
fn a_long_chain_of_extension_headers_hides_nothing() {
    for count in [8, 9, 100] {
        let mut frame = ipv6();
        frame.ip_mut().unwrap().extensions = vec![(60, vec![0; 8]); count];
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.key.src.port, packet.tcp.is_some(), oddity), (1000, true, None));
    }
}

/// Catches: an IPv4 authentication header that is not parsed; a descriptor with the TCP header
/// after it, which would then be rewritten; a header length computed from the wrong byte.
#[test]
fn after_ipv4_authentication_headers_ports_are_read_but_tcp_is_not() {
    let header = |next: u8| [&[next, 4][..], &[0; 22]].concat();
    let tcp = ipv4().bytes()[34..].to_vec();
    let cases = [header(6), [header(51), header(6)].concat()];
    for headers in cases {
        let mut frame = ipv4();
        frame.ip_mut().unwrap().transport = Transport::Other(51);
        frame.payload = [headers.clone(), tcp.clone()].concat();
        let (packet, oddity) = described(&frame.bytes());
        let key = (packet.key.src.port, packet.key.dst.port, packet.key.protocol.0);
        assert_eq!((key, oddity), ((1000, 80, 6), None));
        assert_eq!(usize::from(packet.transport_offset), 34 + headers.len());
        assert!(packet.tcp.is_none());
    }
    // First a header that is longer than its packet, then a header that is cut short.
    for payload in [vec![6, 200, 0, 0, 0, 0, 0, 0], vec![6]] {
        let mut frame = Frame::ip(V4[0], V4[1], Transport::Other(51));
        frame.payload = payload;
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.network, oddity), (Network::Ipv4, Some(Oddity::Ipv4)));
        assert_eq!(packet.key.src, Endpoint::at(V4[0], 0));
    }
}

const V4: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1))];

/// Catches: an IPv6 packet with an IPv4-mapped address that counts as IPv4; a checksum over other
/// addresses.
#[test]
fn an_ipv4_mapped_address_in_ipv6_is_no_ipv4_address() {
    let mapped = tcp("[::ffff:10.0.0.1]:1000", "[fd00::2]:80");
    let (packet, _) = described(&mapped.bytes());
    assert_eq!((packet.network, packet.tcp.is_some()), (Network::Ipv6, true));
    assert_ne!(packet.key.src, Endpoint::at(V4[0], 1000));
    assert!(packet.key.src.address().is_ipv6());
    let mut partial = mapped.bytes();
    let finished = partial.clone();
    let pseudo = frames::slow_sum(&[&partial[22..54], &[0, 0, 0, 52, 0, 0, 0, 6]]);
    partial[70..72].copy_from_slice(&pseudo.to_be_bytes());
    assert_eq!(complete_checksum(&mut partial, &packet), Completed::Some);
    assert_eq!(partial, finished);
}

/// A frame that consists of MAC addresses, the link-layer headers `link`, and the packet `ip`.
fn behind(link: &[u8], ip: &[u8]) -> Vec<u8> {
    [&Frame::opaque(0, vec![]).bytes()[..12], link, ip].concat()
}

/// Catches: a PPP protocol field of one byte that is read as two bytes; a SNAP header that is not
/// read, or that is read as IP although it is of another organisation; an ethertype of the wrong IP
/// version.
#[test]
fn ip_is_read_after_a_short_ppp_header_and_after_a_snap_header() {
    for (frame, ppp, ethertype) in [(ipv4(), 0x21, [8, 0]), (ipv6(), 0x57, [0x86, 0xdd])] {
        let plain = frame.bytes();
        let (ip, expected) = (&plain[14..], described(&plain).0);
        let [high, low] = u16::try_from(ip.len() + 1).unwrap().to_be_bytes();
        let pppoe = behind(&[0x88, 0x64, 0x11, 0, 0, 9, high, low, ppp], ip);
        let [high, low] = u16::try_from(ip.len() + 8).unwrap().to_be_bytes();
        let snap = [&[high, low, 0xaa, 0xaa, 3, 0, 0, 0][..], &ethertype].concat();
        let tagged = [&[0x81, 0, 0, 7][..], &snap].concat();
        for (bytes, offset) in [(pppoe, 21), (behind(&snap, ip), 22), (behind(&tagged, ip), 26)] {
            let padded = [&bytes[..], &[0xa5; 9]].concat();
            let (packet, oddity) = described(&padded);
            assert_eq!((packet.network, packet.network_offset), (expected.network, offset));
            assert_eq!((packet.key, packet.tcp, oddity), (expected.key, expected.tcp, None));
        }
        let cisco = [&[high, low, 0xaa, 0xaa, 3, 0, 0, 0x0c][..], &ethertype].concat();
        assert_eq!(described(&behind(&cisco, ip)).0.network, Network::Opaque);
    }
}

/// Catches: a padded IPv6 packet behind a label that counts as a pseudowire, or a pseudowire that
/// counts as IPv6.
#[test]
fn a_padded_ipv6_packet_after_an_mpls_label_is_read() {
    let label = [0x88, 0x47, 0, 1, 1, 64];
    for padding in [0, 1, 4, 46] {
        let ip = [&ipv6().bytes()[14..], &vec![0xa5; padding]].concat();
        let (packet, _) = described(&behind(&label, &ip));
        assert_eq!((packet.network, packet.key.src.port), (Network::Ipv6, 1000));
        assert_eq!(packet.tcp.unwrap().payload, 32);
    }
    for ethertype in [0x0800u16, 0x0806, 0x86dd, 0x8100, 0x88cc] {
        // The MAC addresses resemble an IPv6 length and next header.
        let mut inner =
            [&[0x64, 0, 0, 0, 0, 30, 6, 64, 0, 0, 0, 1][..], &ethertype.to_be_bytes()].concat();
        inner.resize(80, 0x11);
        assert_eq!(described(&behind(&label, &inner)).0.network, Network::Opaque);
    }
}

/// Catches: addresses that are ignored because a length in the header is inconsistent.
#[test]
fn addresses_are_read_from_headers_with_inconsistent_lengths() {
    // In each case: a frame, the offset and the value of the changed byte, and the expected fault.
    let cases = [
        (ipv4(), 14, 0x44, Oddity::Ipv4), // header length 16
        (ipv4(), 14, 0x4f, Oddity::Ipv4), // header length 60, but total length 59
        (ipv4(), 17, 0xff, Oddity::Ipv4), // total length beyond the frame
        (ipv4(), 17, 0x13, Oddity::Ipv4), // total length 19
        (ipv6(), 19, 0xff, Oddity::Ipv6), // payload length beyond the frame
        (ipv6(), 20, 60, Oddity::Ipv6),   // an extension header longer than the packet
        (ipv6(), 20, 51, Oddity::Ipv6),
    ];
    for (frame, at, value, expected) in cases {
        let mut bytes = frame.bytes();
        let plain = described(&bytes).0;
        bytes[at] = value;
        if value == 0x4f {
            bytes[17] = 59;
        }
        // A wrong extension header length in IPv6. In IPv4, a byte of a sequence number.
        bytes[15 + 40] = 0xff;
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.network, oddity), (plain.network, Some(expected)), "{at} {value:#x}");
        assert_eq!(packet.key.src.address(), plain.key.src.address());
        assert_eq!((packet.key.src.port, packet.transport_offset, packet.tcp), (0, 0, None));
        assert!(!packet.key.is_opaque());
    }
}

/// Catches: an IPv4 packet of protocol 0, or with misplaced hop-by-hop options, that counts as a
/// frame without IP.
#[test]
fn a_packet_of_protocol_zero_is_an_ip_packet() {
    let zero = Frame::ip(V4[0], V4[1], Transport::Other(0));
    let (packet, oddity) = described(&zero.bytes());
    assert_eq!((packet.network, packet.key.protocol.0, oddity), (Network::Ipv4, 0, None));
    assert!(!packet.key.is_opaque());
    let mut late = ipv6();
    late.ip_mut().unwrap().extensions = vec![(60, vec![0; 8]), (0, vec![0; 8])];
    let (packet, oddity) = described(&late.bytes());
    assert_eq!((packet.network, oddity), (Network::Ipv6, Some(Oddity::Ipv6)));
    assert!(!packet.key.is_opaque());
    assert!(described(&Frame::opaque(0x0806, vec![0; 46]).bytes()).0.key.is_opaque());
}

/// Catches: a PPPoE session that is not parsed because its length exceeds the frame; such a fault
/// that is not counted.
#[test]
fn addresses_are_read_from_a_pppoe_session_longer_than_its_frame() {
    let mut frame = ipv4();
    frame.link.push(Link::Pppoe(9));
    let mut bytes = frame.bytes();
    bytes[18] = 0x7f;
    let (packet, oddity) = described(&bytes);
    assert_eq!((packet.key.src.port, oddity), (1000, Some(Oddity::Link)));
}

#[test]
fn a_packet_whose_ip_version_contradicts_the_ethertype_is_opaque() {
    for (frame, value, expected) in [(ipv4(), 0x65, Oddity::Ipv4), (ipv6(), 0x45, Oddity::Ipv6)] {
        let mut bytes = frame.bytes();
        bytes[14] = value;
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.network, oddity), (Network::Opaque, Some(expected)));
        assert_eq!(packet.network_offset, 0);
    }
}

#[test]
fn a_frame_cut_before_the_end_of_its_addresses_is_opaque() {
    for (frame, addresses) in [(ipv4(), 34), (ipv6(), 54)] {
        let bytes = frame.bytes();
        for len in 0..bytes.len() {
            let (packet, oddity) = described(&bytes[..len]);
            assert_eq!(packet.network == Network::Opaque, len < addresses, "{len}");
            assert!(oddity.is_some() && packet.tcp.is_none(), "{len}");
        }
    }
}

#[test]
fn ports_are_read_from_a_tcp_header_with_an_invalid_length() {
    // Header lengths of 16, and of 60 in a segment of 52 bytes.
    for offset in [0x40, 0xf0] {
        let mut bytes = ipv4().bytes();
        bytes[14 + 20 + 12] = offset;
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.tcp, oddity), (None, Some(Oddity::Transport)));
        assert_eq!((packet.key.src.port, packet.transport_offset), (1000, 0));
    }
}

#[test]
fn options_before_an_option_of_invalid_length_are_read_and_later_options_are_not() {
    let good = [2, 4, 5, 180];
    for bad in [[3, 0, 1, 1], [3, 1, 1, 1], [9, 40, 1, 1], [1, 1, 1, 8]] {
        let mut frame = ipv4();
        let header = frame.tcp_mut().unwrap();
        header.flags = TcpFlags(TcpFlags::SYN);
        header.options = [good, bad, [4, 2, 1, 1]].concat();
        if bad[3] == 8 {
            header.options.truncate(8);
        }
        let (packet, oddity) = described(&frame.bytes());
        let segment = packet.tcp.unwrap();
        assert_eq!((segment.mss, segment.sack_permitted), (1460, false), "{bad:?}");
        assert_eq!(oddity, Some(Oddity::TcpOptions), "{bad:?}");
    }
}

/// Catches: parsing that stops at an option with a wrong length, or uses the option; a segment with
/// such an option that counts as bare (with timestamps as the only option).
#[test]
fn an_option_of_wrong_length_for_its_kind_is_skipped() {
    let wrong: [&[u8]; 6] = [
        &[2, 3, 5],                          // MSS
        &[3, 4, 9, 1],                       // window scale
        &[4, 3, 0],                          // SACK-permitted
        &[5, 7, 0, 0, 0, 0, 1],              // SACK
        &[5, 2],                             // SACK without blocks
        &[8, 11, 0, 0, 0, 9, 0, 0, 0, 9, 1], // timestamps
    ];
    let good = [&[3, 3, 7, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2][..], &[29, 4, 1, 1]].concat();
    for wrong in wrong {
        let mut frame = ipv4();
        let header = frame.tcp_mut().unwrap();
        header.flags = TcpFlags(TcpFlags::SYN);
        header.options = [wrong, &good].concat();
        header.options.resize(header.options.len().next_multiple_of(4), 0);
        let (packet, oddity) = described(&frame.bytes());
        let tcp = packet.tcp.unwrap();
        assert_eq!((tcp.window_scale, tcp.timestamps), (Some(7), Some((1, 2))), "{wrong:?}");
        assert_eq!((tcp.mss, tcp.sack_permitted, tcp.has_sack), (0, false, false), "{wrong:?}");
        assert_eq!((tcp.authenticated, tcp.options), (true, Options::Unknown), "{wrong:?}");
        assert_eq!(oddity, Some(Oddity::TcpOptions), "{wrong:?}");
    }
}

#[test]
fn unknown_options_are_skipped_and_a_window_scale_above_fourteen_counts_as_fourteen() {
    let mut frame = ipv4();
    let header = frame.tcp_mut().unwrap();
    header.flags = TcpFlags(TcpFlags::SYN);
    header.options = vec![254, 5, 1, 2, 3, 3, 3, 200];
    let (packet, oddity) = described(&frame.bytes());
    assert_eq!((packet.tcp.unwrap().window_scale, oddity), (Some(14), None));
}

/// Catches: an unknown option that is ignored; MPTCP that is hidden by another option of the
/// segment.
#[test]
fn a_segment_with_other_options_than_timestamps_and_sack_is_not_bare() {
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let cases = [
        (vec![], Options::None),
        (vec![172, 11, 0, 0, 9, 0, 0, 9, 0, 0, 9, 1], Options::Unknown), // AccECN0
        (vec![174, 5, 0, 0, 9, 1, 1, 1], Options::Unknown),              // AccECN1
        (vec![254, 4, 0x12, 0x34], Options::Unknown),
        (vec![2, 4, 5, 180], Options::Unknown), // Only a SYN may have an MSS option.
        (vec![254, 2, 30, 8, 0x20, 0x01, 0, 0, 0, 7, 254, 2], Options::Multipath),
        (vec![1, 1, 1, 9], Options::Unknown), // The length is missing.
    ];
    for (options, expected) in cases {
        let mut frame = ipv6();
        frame.tcp_mut().unwrap().options = [&timestamps[..], &options].concat();
        let tcp = described(&frame.bytes()).0.tcp.unwrap();
        assert_eq!((tcp.timestamps, tcp.options), (Some((1, 2)), expected), "{options:?}");
        assert_eq!(tcp.is_bare(), options.is_empty(), "{options:?}");
    }
}

/// Catches: control bits of which only the lower eight are read.
#[test]
fn ae_and_reserved_bits_are_read_and_a_segment_with_them_is_not_bare() {
    for high_flags in 0..16 {
        let mut frame = ipv4();
        frame.tcp_mut().unwrap().high_flags = high_flags;
        let tcp = described(&frame.bytes()).0.tcp.unwrap();
        assert_eq!((tcp.high_flags, tcp.is_bare()), (high_flags, high_flags == 0));
    }
}

#[test]
fn a_digest_over_the_header_is_recorded() {
    let digests = [[&[19, 18][..], &[7; 16], &[1, 1]].concat(), [&[29, 16][..], &[7; 14]].concat()];
    for options in digests {
        let mut frame = ipv4();
        assert!(!described(&frame.bytes()).0.tcp.unwrap().authenticated);
        frame.tcp_mut().unwrap().options = options;
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.tcp.unwrap().authenticated, oddity), (true, None));
    }
}

#[test]
fn the_length_of_a_super_packet_too_long_for_its_length_field_is_that_of_the_frame() {
    for mut frame in [ipv4(), ipv6()] {
        frame.payload = vec![0; 100_000];
        let bytes = frame.bytes();
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.tcp.unwrap().payload, oddity), (100_000, None));
        // The first part of the frame is sufficient for the descriptor.
        let mut from_head = Packet::default();
        describe(&bytes[..256], packet.len, &mut from_head);
        assert_eq!((from_head.tcp, from_head.key), (packet.tcp, packet.key));
    }
}

#[test]
fn a_pseudowire_that_looks_like_ip_is_not_parsed_as_ip() {
    let mut frame = Frame::opaque(0x0800, vec![0; 60]);
    frame.link.push(Link::Mpls(16));
    // MAC addresses that begin with the four bits 4 or 6, directly behind the label.
    for first in [0x45, 0x60] {
        let mut bytes = frame.bytes();
        bytes[18] = first;
        bytes[23] = 9;
        assert_eq!(described(&bytes).0.network, Network::Opaque);
    }
}

/// Catches: a priority tag that is read as VLAN 0; a tag after the priority tag that is not read.
#[test]
fn a_priority_tag_is_no_vlan() {
    let priority = |tpid| Link::Vlan(VlanTag { tpid, tci: 0xe000 });
    let cases = [
        (vec![priority(0x8100)], NO_VLAN),
        (vec![priority(0x88a8), priority(0x8100)], NO_VLAN),
        (vec![priority(0x8100), Link::vlan(7), Link::vlan(8)], 7),
        (vec![Link::vlan(7), priority(0x8100)], 7),
    ];
    for (link, expected) in cases {
        let plain = described(&ipv4().bytes()).0;
        let tagged = described(&Frame { link, ..ipv4() }.bytes()).0;
        assert_eq!((tagged.vlan, tagged.key, tagged.tcp), (expected, plain.key, plain.tcp));
    }
}

#[test]
fn an_endless_stack_of_headers_is_not_followed() {
    for link in [Link::vlan(1), Link::Mpls(3)] {
        let mut frame = ipv4();
        frame.link = vec![link; 9];
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.network, oddity), (Network::Opaque, Some(Oddity::Depth)));
    }
}
