//! A rewrite changes only the intended field. Correct checksums stay correct, and wrong checksums
//! stay wrong.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frames;

use frames::{ecns, frames, segment_sum, slow_sum};
use proptest::prelude::*;
use tidegate_core::Packet;
use tidegate_core::packet::{Network, Protocol, TcpFlags};
use tidegate_wire::build::{Frame, Link};
use tidegate_wire::{Checksum, Completed, VlanTag, complete_checksum, cut, rewrite};

fn described(frame: &[u8]) -> Packet {
    frames::described(frame).0
}

/// The sums over the IP header and over the transport packet. A sum of 0xffff means a correct
/// checksum.
fn sums(frame: &[u8], packet: &Packet) -> (u16, u16) {
    let (network, transport) =
        (usize::from(packet.network_offset), usize::from(packet.transport_offset));
    let header_len = usize::from(frame[network] & 0xf) * 4;
    let header = match packet.network {
        Network::Ipv4 => slow_sum(&[&frame[network..network + header_len]]),
        _ => 0xffff,
    };
    let segment = match transport {
        0 => 0xffff,
        at => segment_sum(frame, network, at, packet.key.protocol.0),
    };
    (header, segment)
}

/// Replaces the TCP or UDP checksum by the sum of the pseudo header, as a host does for a NIC.
fn make_partial(bytes: &mut [u8], packet: &Packet) {
    let (network, at) = (usize::from(packet.network_offset), usize::from(packet.transport_offset));
    let field = at + if packet.key.protocol == Protocol::UDP { 6 } else { 16 };
    bytes[field..field + 2].fill(0);
    let whole = bytes[at..].to_vec();
    let pseudo = segment_sum(bytes, network, at, packet.key.protocol.0);
    let pseudo = slow_sum(&[&pseudo.to_be_bytes(), &(!slow_sum(&[&whole])).to_be_bytes()]);
    bytes[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
}

/// Shortens the PPP protocol field to one byte. The PPPoE header is at offset `at`.
fn shorten_ppp(bytes: &mut Vec<u8>, at: usize) {
    let len = u16::from_be_bytes([bytes[at + 4], bytes[at + 5]]) - 1;
    bytes[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
    assert_eq!(bytes.remove(at + 6), 0);
}

fn words() -> impl Strategy<Value = u16> {
    prop_oneof![any::<u16>(), prop::sample::select(vec![0, 1, 0x8000, 0xfffe, 0xffff])]
}

/// Catches: a TCP header with a digest that is rewritten.
#[test]
fn nothing_is_written_into_a_header_with_a_digest() {
    let mut frame = Frame::tcp("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
    let timestamps = [8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    frame.tcp_mut().unwrap().options = [&[29, 12][..], &[7; 10], &timestamps, &[1, 1]].concat();
    let bytes = frame.bytes();
    let mut wanted = described(&bytes);
    let tcp = wanted.tcp.as_mut().unwrap();
    (tcp.window, tcp.ack, tcp.timestamps) = (9, 9, Some((9, 9)));
    let mut written = bytes.clone();
    rewrite(&mut written, &wanted, Checksum::Finished);
    assert_eq!(written, bytes);
    wanted.dscp = 46;
    rewrite(&mut written, &wanted, Checksum::Finished);
    assert_eq!((described(&written).dscp, described(&written).tcp), (46, described(&bytes).tcp));
}

proptest! {
    /// Catches: a checksum update with old and new value exchanged, or with one carry too few; DSCP
    /// shifted by one bit; ECN bits lost; the second half of the ACK number written without a
    /// checksum update.
    /// Catches: sequence numbers or control bits that are not written; timestamps or an MSS option
    /// at an odd byte that are summed as at an even byte.
    #[test]
    fn a_rewritten_frame_has_the_new_fields_and_wrong_checksums_stay_wrong(
        frame in frames(),
        (dscp, ecn) in (0u8..64, ecns()),
        [high, low, window] in [words(), words(), words()],
        (seq, push) in (any::<u32>(), any::<bool>()),
        damage in prop_oneof![Just(0u8), any::<u8>()],
    ) {
        let mut bytes = frame.bytes();
        // A wrong IP checksum must stay wrong by the same amount. Behind MPLS labels, the checksum
        // identifies IP, so it stays correct.
        let whole = described(&bytes);
        if !matches!(frame.link.first(), Some(Link::Mpls(_))) {
            bytes[usize::from(whole.network_offset) + 8] ^= damage;
        }
        if whole.transport_offset > 0 {
            *bytes.last_mut().unwrap() ^= damage;
        }
        let before = described(&bytes);
        let sums_before = sums(&bytes, &before);
        prop_assert!(damage != 0 || sums_before == (0xffff, 0xffff));

        let mut wanted = before;
        (wanted.dscp, wanted.ecn) = (dscp, ecn);
        if let Some(tcp) = &mut wanted.tcp {
            tcp.ack = u32::from(high) << 16 | u32::from(low);
            tcp.window = window;
            tcp.seq = seq;
            tcp.flags = TcpFlags(tcp.flags.0 ^ if push { TcpFlags::PSH } else { 0 });
            tcp.timestamps = tcp.timestamps.map(|_| (tcp.ack ^ 1, u32::from(window) << 9));
            tcp.mss = if tcp.mss == 0 { 0 } else { window.max(1) };
        }
        rewrite(&mut bytes, &wanted, Checksum::Finished);
        let after = described(&bytes);
        prop_assert_eq!((after.dscp, after.ecn, after.tcp), (dscp, ecn, wanted.tcp));
        prop_assert_eq!(after.key, before.key);
        prop_assert_eq!(sums(&bytes, &after), sums_before);
    }

    /// Catches: a checksum update for a field that does not change, which turns a checksum of
    /// 0xffff into zero.
    #[test]
    fn a_rewrite_with_the_same_values_changes_no_byte(frame in frames()) {
        let mut bytes = frame.bytes();
        if described(&bytes).tcp.is_some() {
            let checksum = usize::from(described(&bytes).transport_offset) + 16;
            bytes[checksum..checksum + 2].fill(0xff);
        }
        let before = bytes.clone();
        rewrite(&mut bytes, &described(&before), Checksum::Finished);
        prop_assert_eq!(bytes, before);
    }

    /// Catches: a checksum that still includes the payload; the old length in the pseudo header or
    /// in PPPoE; an IPv4 total length without an update of the header checksum; an IPv6 length that
    /// includes the IP header.
    /// Catches: payload bytes that remain where the frame had padding; a PPP protocol field of one
    /// byte that counts as two.
    #[test]
    fn an_ack_cut_from_data_is_valid_and_wrong_checksums_stay_wrong(
        mut frame in frames(),
        payload in prop::collection::vec(any::<u8>(), 1..40),
        padding in 0usize..6,
        damage in prop_oneof![Just(0u8), any::<u8>()],
        short_ppp in any::<bool>(),
    ) {
        frame.payload = payload;
        let mut bytes = frame.bytes();
        if short_ppp && matches!(frame.link.last(), Some(Link::Pppoe(_))) {
            shorten_ppp(&mut bytes, 14 + 4 * (frame.link.len() - 1));
        }
        let whole = described(&bytes);
        let Some(tcp) = whole.tcp.filter(|tcp| !tcp.authenticated && tcp.payload > 0) else {
            return Ok(());
        };
        *bytes.last_mut().unwrap() ^= damage;
        let sums_before = sums(&bytes, &whole);
        let shorter = bytes.len() - usize::try_from(tcp.payload).unwrap();
        bytes.resize(bytes.len() + padding, 0xa5);
        // Padded IPv6 with hop-by-hop options is not recognised behind MPLS labels.
        if described(&bytes).tcp.is_none() {
            return Ok(());
        }
        let mut head = bytes[..shorter + padding].to_vec();
        prop_assert!(cut(&bytes, &mut head, Checksum::Finished));
        let after = described(&head);
        let wanted = tidegate_core::packet::TcpSegment { payload: 0, ..tcp };
        prop_assert_eq!((after.tcp, after.key), (Some(wanted), whole.key));
        prop_assert_eq!(sums(&head[..shorter], &after), sums_before);
        prop_assert_eq!(&head[shorter..], &[0; 6][..padding]);
        if let Some(Link::Pppoe(_)) = frame.link.last() {
            let session = 14 + 4 * (frame.link.len() - 1);
            let len = u16::from_be_bytes([head[session + 4], head[session + 5]]);
            prop_assert_eq!(usize::from(len), shorter - session - 6);
        }
    }

    /// Catches: a partial checksum that is treated as a finished checksum.
    #[test]
    fn an_ack_cut_from_a_super_packet_keeps_a_partial_checksum(frame in frames()) {
        let mut bytes = frame.bytes();
        let whole = described(&bytes);
        let Some(tcp) = whole.tcp.filter(|tcp| !tcp.authenticated && tcp.payload > 0) else {
            return Ok(());
        };
        make_partial(&mut bytes, &whole);
        let mut head = bytes[..bytes.len() - usize::try_from(tcp.payload).unwrap()].to_vec();
        prop_assert!(cut(&bytes, &mut head, Checksum::Partial));
        let after = described(&head);
        prop_assert_eq!(complete_checksum(&mut head, &after), Completed::Some);
        prop_assert_eq!(sums(&head, &after), (0xffff, 0xffff));
    }

    /// Catches: the window or ACK number added to a partial checksum; a pseudo header whose length
    /// includes padding.
    #[test]
    fn a_partial_checksum_is_completed_correctly_even_after_rewriting(
        frame in frames(),
        window in words(),
        padding in 0usize..4,
    ) {
        let mut bytes = frame.bytes();
        let end = bytes.len();
        let mut packet = described(&bytes);
        let field = match packet.key.protocol {
            Protocol::TCP if packet.tcp.is_some() => 16,
            Protocol::UDP => 6,
            _ => return Ok(()),
        };
        let (network, at) =
            (usize::from(packet.network_offset), usize::from(packet.transport_offset));
        make_partial(&mut bytes, &packet);
        bytes.resize(end + padding, 0xa5);

        if let Some(tcp) = &mut packet.tcp {
            tcp.window = window;
        }
        rewrite(&mut bytes, &packet, Checksum::Partial);
        prop_assert_eq!(complete_checksum(&mut bytes, &packet), Completed::Some);
        prop_assert_eq!(segment_sum(&bytes[..end], network, at, packet.key.protocol.0), 0xffff);
        prop_assert_ne!(&bytes[at + field..at + field + 2], if field == 6 { &[0, 0] } else { &[0xff, 0xff] });
    }
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_all_ones() {
    let mut frame = Frame::udp("10.0.0.1:5".parse().unwrap(), "10.0.0.2:6".parse().unwrap());
    frame.payload = vec![0; 2];
    let checksum = frame.bytes()[40..42].to_vec();
    frame.payload = checksum;
    let finished = frame.bytes();
    assert_eq!(finished[40..42], [0xff, 0xff]);

    let mut partial = finished.clone();
    let pseudo = slow_sum(&[&partial[26..34], &[0, 17, 0, 10]]);
    partial[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let packet = described(&partial);
    assert_eq!(complete_checksum(&mut partial, &packet), Completed::Some);
    assert_eq!(partial, finished);
    assert_eq!(
        complete_checksum(&mut partial, &packet),
        Completed::Nothing,
        "it is finished already"
    );
}

#[test]
fn the_checksum_of_a_fragment_is_not_completed() {
    let mut frame = Frame::udp("10.0.0.1:5".parse().unwrap(), "10.0.0.2:6".parse().unwrap());
    frame.ip_mut().unwrap().fragment = Some((0, true));
    let mut bytes = frame.bytes();
    let pseudo = slow_sum(&[&bytes[26..34], &[0, 17, 0, 8]]);
    bytes[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let packet = described(&bytes);
    assert_eq!(complete_checksum(&mut bytes, &packet), Completed::Nothing);
}

#[test]
fn a_vlan_tag_from_metadata_is_inserted_where_it_was_on_the_wire() {
    let mut frame = Frame::echo("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), 1);
    let mut buffer = [vec![0; VlanTag::LEN], frame.bytes()].concat();
    let tag = VlanTag { tpid: 0x88a8, tci: 0x6007 };
    assert_eq!(VlanTag::of(&frame.bytes()), None);
    assert!(tag.push(&mut buffer));
    frame.link.push(Link::Vlan(tag));
    assert_eq!(buffer, frame.bytes());
    assert_eq!(VlanTag::of(&buffer), Some(tag));
    assert!(!tag.push(&mut [0; 17]));
}
