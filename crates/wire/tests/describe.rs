//! What is said about frames must be what an independent parser says, and nothing breaks the parser.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;

use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};
use frames::frames;
use proptest::prelude::*;
use tidegate_core::Packet;
use tidegate_core::packet::{Endpoint, NO_VLAN, Network, Options, TcpFlags, TcpSegment};
use tidegate_wire::build::{Frame, Link, Transport};
use tidegate_wire::{Oddity, describe, segment};

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
            // Options allowed in a SYN only.
            _ => segment.options = Options::Unknown,
        }
    }
    segment
}

/// The blocks of all options, in their order, as the oracle reads them.
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
    /// Kills: payload counted to the end of the frame instead of the IP packet (padding), the
    /// innermost VLAN instead of the outermost, extension headers counted in units of 4 bytes; SACK
    /// blocks from the last first, or their edges exchanged.
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
        prop_assert!(!packet.fragment.is_part() && !packet.rewritten);
        prop_assert_eq!(packet.tcp, expected.tcp);
        let sack = segment::sack(&bytes, &packet);
        prop_assert_eq!(sack.as_slice(), &expected_sack(&bytes[network..])[..]);
        let outermost = match frame.link.first() {
            Some(Link::Vlan(tag)) => tag.tci & 0xfff,
            _ => NO_VLAN,
        };
        prop_assert_eq!(packet.vlan, outermost);
    }

    /// Kills: the IPv4 header taken by index instead of `get`.
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

/// Before the gateway looks up the first one, later fragments differ in the ports only.
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
fn a_fragment_header_on_a_whole_datagram_hides_nothing() {
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
fn frames_without_ip_are_one_flow_per_ethertype_both_ways() {
    let key = |ethertype| described(&Frame::opaque(ethertype, vec![0; 46]).bytes()).0.key;
    let arp = key(0x0806);
    assert_eq!((arp.src.port, arp), (0x0806, arp.reverse()));
    assert_ne!(arp, key(0x88cc));
    assert_eq!(key(46), key(120)); // lengths, not ethertypes
}

#[test]
fn an_extension_header_that_hides_the_rest_ends_the_walk() {
    for (kind, protocol) in [(50, 50), (59, 59), (135, 135)] {
        let mut frame = ipv6();
        frame.ip_mut().unwrap().extensions = vec![(60, vec![0; 8]), (kind, vec![0; 8])];
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.key.protocol.0, packet.key.src.port, oddity), (protocol, 0, None));
    }
}

#[test]
fn behind_an_authentication_header_there_are_ports_but_nothing_to_rewrite() {
    let mut frame = ipv6();
    frame.ip_mut().unwrap().extensions = vec![(51, [&[0, 4][..], &[0; 22]].concat())];
    let (packet, oddity) = described(&frame.bytes());
    assert_eq!((packet.key.src.port, packet.tcp.is_none(), oddity), (1000, true, None));
}

#[test]
fn a_long_chain_of_extension_headers_still_has_its_addresses() {
    let mut frame = ipv6();
    frame.ip_mut().unwrap().extensions = vec![(60, vec![0; 8]); 9];
    let (packet, oddity) = described(&frame.bytes());
    assert_eq!((packet.network, oddity), (Network::Ipv6, Some(Oddity::Depth)));
    assert_eq!(
        packet.key.src,
        Endpoint::v6("fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets(), 0)
    );
}

#[test]
fn headers_that_contradict_themselves_are_opaque_and_counted() {
    // Each: what is changed at which byte, and what is said of it.
    let cases = [
        (14, 0x44, Oddity::Ipv4), // header length 16
        (14, 0x4f, Oddity::Ipv4), // header length 60, in a total length of 59
        (14, 0x65, Oddity::Ipv4), // version 6 under the ethertype of 4
        (17, 0xff, Oddity::Ipv4), // total length beyond the frame
        (17, 0x13, Oddity::Ipv4), // total length 19
    ];
    for (at, value, expected) in cases {
        let mut bytes = ipv4().bytes();
        bytes[at] = value;
        if value == 0x4f {
            bytes[17] = 59;
        }
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.network, oddity), (Network::Opaque, Some(expected)), "{at} {value:#x}");
        assert_eq!((packet.key.src.port, packet.network_offset), (0x0800, 0));
    }
}

#[test]
fn a_frame_cut_anywhere_in_its_ip_packet_is_opaque() {
    for frame in [ipv4(), ipv6()] {
        let bytes = frame.bytes();
        for len in 0..bytes.len() {
            let (packet, oddity) = described(&bytes[..len]);
            assert_eq!(packet.network, Network::Opaque, "{len}");
            assert!(oddity.is_some(), "{len}");
        }
    }
}

#[test]
fn a_tcp_header_that_contradicts_itself_leaves_the_ports() {
    // A header of 16 bytes, and one of 60 in a segment of 52.
    for offset in [0x40, 0xf0] {
        let mut bytes = ipv4().bytes();
        bytes[14 + 20 + 12] = offset;
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.tcp, oddity), (None, Some(Oddity::Transport)));
        assert_eq!((packet.key.src.port, packet.transport_offset), (1000, 0));
    }
}

#[test]
fn options_before_a_malformed_one_count_and_those_after_it_do_not() {
    let good = [2, 4, 5, 180];
    for bad in [[3, 0, 1, 1], [3, 1, 1, 1], [3, 4, 1, 1], [9, 40, 1, 1], [1, 1, 1, 8]] {
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

#[test]
fn unknown_options_are_passed_and_too_large_a_shift_counts_as_fourteen() {
    let mut frame = ipv4();
    let header = frame.tcp_mut().unwrap();
    header.flags = TcpFlags(TcpFlags::SYN);
    header.options = vec![254, 5, 1, 2, 3, 3, 3, 200];
    let (packet, oddity) = described(&frame.bytes());
    assert_eq!((packet.tcp.unwrap().window_scale, oddity), (Some(14), None));
}

/// Kills: an unknown option taken for none; MPTCP hidden by another option in the same segment.
#[test]
fn a_segment_with_other_options_than_timestamps_and_sack_is_not_bare() {
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let cases = [
        (vec![], Options::None),
        (vec![172, 11, 0, 0, 9, 0, 0, 9, 0, 0, 9, 1], Options::Unknown), // AccECN0
        (vec![174, 5, 0, 0, 9, 1, 1, 1], Options::Unknown),              // AccECN1
        (vec![254, 4, 0x12, 0x34], Options::Unknown),
        (vec![2, 4, 5, 180], Options::Unknown), // only a SYN may offer a segment size
        (vec![254, 2, 30, 8, 0x20, 0x01, 0, 0, 0, 7, 254, 2], Options::Multipath),
        (vec![1, 1, 1, 9], Options::Unknown), // its length is missing
    ];
    for (options, expected) in cases {
        let mut frame = ipv6();
        frame.tcp_mut().unwrap().options = [&timestamps[..], &options].concat();
        let tcp = described(&frame.bytes()).0.tcp.unwrap();
        assert_eq!((tcp.timestamps, tcp.options), (Some((1, 2)), expected), "{options:?}");
        assert_eq!(tcp.is_bare(), options.is_empty(), "{options:?}");
    }
}

/// Kills: a parser that reads only the lower eight control bits.
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
fn a_digest_over_the_header_is_told() {
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
fn super_packets_too_long_for_their_length_field_are_measured_by_the_frame() {
    for mut frame in [ipv4(), ipv6()] {
        frame.payload = vec![0; 100_000];
        let bytes = frame.bytes();
        let (packet, oddity) = described(&bytes);
        assert_eq!((packet.tcp.unwrap().payload, oddity), (100_000, None));
        // Only the first part of the frame may be at hand.
        let mut from_head = Packet::default();
        describe(&bytes[..256], packet.len, &mut from_head);
        assert_eq!((from_head.tcp, from_head.key), (packet.tcp, packet.key));
    }
}

#[test]
fn a_pseudowire_that_looks_like_ip_is_left_alone() {
    let mut frame = Frame::opaque(0x0800, vec![0; 60]);
    frame.link.push(Link::Mpls(16));
    // A MAC address that begins with 4, and one with 6, right behind the label.
    for first in [0x45, 0x60] {
        let mut bytes = frame.bytes();
        bytes[18] = first;
        bytes[23] = 9;
        assert_eq!(described(&bytes).0.network, Network::Opaque);
    }
}

#[test]
fn stacked_headers_without_end_are_not_followed() {
    for link in [Link::vlan(1), Link::Mpls(3)] {
        let mut frame = ipv4();
        frame.link = vec![link; 9];
        let (packet, oddity) = described(&frame.bytes());
        assert_eq!((packet.network, oddity), (Network::Opaque, Some(Oddity::Depth)));
    }
}
