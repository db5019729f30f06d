//! Tests that the pieces of a packet, put together, are the original packet.

use proptest::prelude::*;

use tidegate_core::Packet;

use super::*;
use crate::build::Frame;
use crate::describe;

fn frame(v6: bool, udp: bool, payload: usize) -> Frame {
    let ends =
        if v6 { ["[2001:db8::1]:1", "[2001:db8::2]:2"] } else { ["10.0.0.1:1", "10.0.0.2:2"] };
    let [src, dst] = ends.map(|it| it.parse().unwrap());
    let frame = if udp { Frame::udp(src, dst) } else { Frame::tcp(src, dst) };
    let bytes = (0..payload).map(|it| u8::try_from(it % 251).unwrap());
    Frame { payload: bytes.collect(), ..frame }
}

/// An IP packet, and its descriptor with offsets from the IP header.
fn packet(frame: &Frame) -> (Vec<u8>, Packet) {
    let bytes = frame.bytes();
    (bytes[14..].to_vec(), described(&bytes))
}

fn described(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    assert!(describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet).is_none());
    packet.transport_offset = packet.transport_offset.saturating_sub(packet.network_offset);
    packet
}

fn read_ip(packet: &[u8]) -> Packet {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    described(&[&[2; 12][..], &ethertype, packet].concat())
}

fn sums_are_right(packet: &[u8], described: &Packet) -> bool {
    let at = usize::from(described.transport_offset);
    let before = checksum::pseudo_header(&described.key, packet.len() - at);
    let ip = packet[0] >> 4 == 6 || checksum::sum(0, &packet[..20]) == u16::MAX;
    ip && checksum::sum(before, &packet[at..]) == u16::MAX
}

proptest! {
    /// Catches: a sequence number, identification, length or checksum that is not updated; PSH, FIN
    /// or CWR on every segment; a missing last segment.
    #[test]
    fn the_segments_of_a_super_packet_together_are_the_super_packet(
        v6 in any::<bool>(), udp in any::<bool>(), payload in 0usize..9_000, size in 1u16..1_500, flags in any::<u8>(),
    ) {
        let size = size.max(u16::try_from(payload / 60).unwrap()).max(8);
        let mut whole = frame(v6, udp, payload);
        if let Some(tcp) = whole.tcp_mut() {
            (tcp.flags, tcp.seq) = (TcpFlags(flags & !TcpFlags::SYN), u32::MAX - 1_000);
        }
        whole.ip_mut().unwrap().identification = 65_530;
        let (bytes, all) = packet(&whole);
        let transport = Some(usize::from(all.transport_offset));
        let pieces = segments(&bytes, size, transport).unwrap();
        prop_assert_eq!(pieces.len(), payload.div_ceil(size.into()).max(1));
        let (mut data, mut all_flags) = (Vec::<u8>::new(), Vec::new());
        for (number, piece) in (0u16..).zip(&pieces) {
            let it = read_ip(piece);
            prop_assert!(sums_are_right(piece, &it));
            prop_assert_eq!(it.key, all.key);
            if !v6 {
                prop_assert_eq!(read(piece, 4), Some(65_530u16.wrapping_add(number)));
            }
            if let (Some(tcp), Some(first)) = (it.tcp, all.tcp) {
                prop_assert_eq!(tcp.seq, first.seq.wrapping_add(u32::try_from(data.len()).unwrap()));
                all_flags.push(tcp.flags.0);
            }
            let header = if udp { 8 } else { 20 };
            let payload = &piece[usize::from(it.transport_offset) + header..];
            prop_assert!(payload.len() <= size.into());
            data.extend(payload);
        }
        prop_assert_eq!(data, whole.payload);
        let at_end = TcpFlags::FIN | TcpFlags::PSH;
        for (number, it) in all_flags.iter().enumerate() {
            let (first, last) = (number == 0, number + 1 == all_flags.len());
            let mut expected = flags & !TcpFlags::SYN;
            expected &= if last { 0xff } else { !at_end };
            expected &= if first { 0xff } else { !TcpFlags::CWR };
            prop_assert_eq!(*it, expected);
        }
    }

    /// Catches: a fragment offset in bytes; a flag "more fragments" that is missing, or set on the
    /// last fragment; fragments that are too long; all options repeated in each fragment; a
    /// fragment whose own offset is ignored when it is fragmented again.
    #[test]
    fn the_fragments_of_a_packet_together_are_the_packet_even_if_it_is_a_fragment(
        payload in 0usize..5_000, fits in 68usize..1_500, options in any::<bool>(), begin in 0u16..500, more in any::<bool>(),
    ) {
        let mut whole = frame(false, true, payload);
        let ip = whole.ip_mut().unwrap();
        ip.fragment = (begin > 0 || more).then_some((begin, more));
        if options {
            ip.options = vec![0x94, 4, 0, 0, 7, 3, 4, 1];
        }
        let bytes = whole.bytes()[14..].to_vec();
        let pieces = fragments(&bytes, fits).unwrap();
        let header = if options { 28 } else { 20 };
        let mut data = Vec::<u8>::new();
        for (number, piece) in pieces.iter().enumerate() {
            let its_header = usize::from(piece[0] & 0xf) * 4;
            prop_assert_eq!(its_header, if options && number > 0 { 24 } else { header });
            prop_assert!(piece.len() <= fits);
            prop_assert_eq!(checksum::sum(0, &piece[..its_header]), u16::MAX);
            prop_assert_eq!(read(piece, 2).map(usize::from), Some(piece.len()));
            let field = read(piece, 6).unwrap();
            prop_assert_eq!(usize::from(field & OFFSET) * 8, usize::from(begin) * 8 + data.len());
            prop_assert_eq!(field & MORE != 0, more || number + 1 < pieces.len());
            data.extend(&piece[its_header..]);
        }
        prop_assert_eq!(&data[..], &bytes[header..]);
    }

    #[test]
    fn any_bytes_are_cut_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), size in any::<u16>(), fits in 0usize..100) {
        for transport in [None, Some(usize::from(size % 80))] {
            let _ = segments(&bytes, size, transport);
            let _ = frames(&bytes, size, transport);
        }
        let _ = fragments(&bytes, fits);
    }
}

/// Catches: a forged super-packet that is split into frames of mostly headers; a genuine
/// super-packet that is not split.
#[test]
fn a_super_packet_is_not_split_into_frames_of_mostly_headers() {
    let mut whole = frame(false, false, 60_000);
    whole.tcp_mut().unwrap().options = vec![1; 40];
    let (headers, bytes) = (20 + 20 + 40, packet(&whole).0);
    let most = MOST_HEADERS * bytes.len() / headers;
    for (size, cut) in [(1, false), (4, false), (60_000_usize.div_ceil(most), true), (200, true)] {
        assert!((60_000_usize.div_ceil(size) <= most) == cut, "{size}");
        let pieces = segments(&bytes, u16::try_from(size).unwrap(), None);
        assert_eq!(pieces.map(|it| it.len()), cut.then(|| 60_000_usize.div_ceil(size)), "{size}");
    }
}

#[test]
fn packets_that_routers_must_not_fragment_are_not_fragmented() {
    let (mut v4, _) = packet(&frame(false, true, 2_000));
    assert!(!may_not_be_fragmented(&v4) && fragments(&v4, 1_000).is_some());
    v4[6] |= 0x40;
    let (v6, _) = packet(&frame(true, true, 2_000));
    for whole in [v4, v6] {
        assert!(may_not_be_fragmented(&whole));
        assert_eq!(fragments(&whole, 1_000), None);
    }
}
