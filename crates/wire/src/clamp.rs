//! MSS clamping: lowers the MSS option of a SYN, so that full segments fit through a path.
//!
//! Source: RFC 4459, section 3.2; RFC 6691 (the MSS does not count headers).

use tidegate_core::Packet;
use tidegate_core::packet::{Network, TcpFlags};

use crate::checksum;
use crate::option::{self, MSS};
use crate::rewrite::Checksum;

/// Lowers the MSS option of a SYN so that full segments fit into IP packets of `max_len` bytes.
/// Returns `true` if the option was larger.
///
/// `packet` begins with its IP header, and its checksum is finished. Offsets in `described` count
/// from this header. A packet without SYN, without the option, or with a TCP digest does not
/// change.
pub fn clamp_segment_size(packet: &mut [u8], described: &Packet, max_len: u32) -> bool {
    try_clamp(packet, described, max_len).is_some()
}

fn try_clamp(packet: &mut [u8], described: &Packet, max_len: u32) -> Option<()> {
    let tcp = described.tcp.filter(|it| it.flags.any(TcpFlags::SYN) && !it.authenticated)?;
    let headers = match described.network {
        Network::Opaque => return None,
        Network::Ipv4 => 20 + TCP,
        Network::Ipv6 => 40 + TCP,
    };
    // Headers of tunnels also take a part of `max_len`.
    let headers = headers.max(u32::from(described.transport_offset) + TCP);
    let most = u16::try_from(max_len.checked_sub(headers)?).unwrap_or(u16::MAX);
    if tcp.mss <= most {
        return None;
    }
    let segment = packet.get_mut(usize::from(described.transport_offset)..)?;
    set_segment_size(segment, most, Checksum::Finished)
}

/// Writes `mss` into the MSS option, and updates the checksum. `None` if the segment has no such
/// option.
pub(crate) fn set_segment_size(segment: &mut [u8], mss: u16, checksum: Checksum) -> Option<()> {
    let options = segment.get(20..usize::from(segment.get(12)? >> 4) * 4)?;
    // If the option occurs several times, the last one counts, as in `describe`.
    let sizes = option::each_at(options)
        .flatten()
        .filter(|(_, kind, body)| *kind == MSS && body.len() == 2);
    let at = 20 + sizes.last()?.0;
    for (at, byte) in (at..).zip(mss.to_be_bytes()) {
        let old = word(segment, at & !1)?;
        *segment.get_mut(at)? = byte;
        let new = word(segment, at & !1)?;
        if old != new && checksum == Checksum::Finished {
            let sum = checksum::update(word(segment, CHECKSUM)?, old, new);
            segment.get_mut(CHECKSUM..CHECKSUM + 2)?.copy_from_slice(&sum.to_be_bytes());
        }
    }
    Some(())
}

fn word(segment: &[u8], at: usize) -> Option<u16> {
    segment.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// Length of a TCP header without options. The MSS includes neither this header nor the IP header.
const TCP: u32 = 20;

const CHECKSUM: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::build::Frame;
    use crate::describe;

    fn syn(v6: bool, flags: u8, options: Vec<u8>) -> (Vec<u8>, Packet) {
        let ends =
            if v6 { ["[2001:db8::1]:1", "[2001:db8::2]:2"] } else { ["10.0.0.1:1", "10.0.0.2:2"] };
        let [src, dst] = ends.map(|it| it.parse().unwrap());
        let mut frame = Frame::tcp(src, dst);
        let tcp = frame.tcp_mut().unwrap();
        (tcp.flags, tcp.options) = (TcpFlags(flags), options);
        let bytes = frame.bytes();
        let (mut packet, described) = (bytes[14..].to_vec(), describe_ip(&bytes));
        packet.truncate(bytes.len() - 14);
        (packet, described)
    }

    fn describe_ip(frame: &[u8]) -> Packet {
        let mut packet = Packet::default();
        describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet);
        packet.transport_offset -= packet.network_offset;
        packet
    }

    fn asked(packet: &[u8]) -> u16 {
        let frame =
            [&[0; 12][..], if packet[0] >> 4 == 4 { &[8, 0] } else { &[0x86, 0xdd] }, packet]
                .concat();
        describe_ip(&frame).tcp.unwrap().mss
    }

    fn is_right(packet: &[u8], described: &Packet) -> bool {
        let at = usize::from(described.transport_offset);
        let before = checksum::pseudo_header(&described.key, packet.len() - at);
        checksum::sum(before, &packet[at..]) == u16::MAX
    }

    proptest! {
        /// Catches: an MSS computed with the header length of the wrong IP version; an MSS that grows;
        /// a change of a packet without SYN.
        /// Catches: a checksum that is not updated, or updated as if the option began at an even byte.
        #[test]
        fn the_mss_of_a_syn_is_lowered_to_the_packet_length_and_its_checksum_stays_valid(
            v6 in any::<bool>(), flags in any::<u8>(), mss in 1u16.., fits in 100u32..9_000, odd in any::<bool>(),
        ) {
            let [high, low] = mss.to_be_bytes();
            let options = if odd { vec![1, 2, 4, high, low, 1, 1, 1] } else { vec![2, 4, high, low] };
            let (mut packet, described) = syn(v6, flags, options);
            let before = packet.clone();
            let most = fits - if v6 { 60 } else { 40 };
            let over = flags & TcpFlags::SYN != 0 && u32::from(mss) > most;
            prop_assert_eq!(clamp_segment_size(&mut packet, &described, fits), over);
            prop_assert!(is_right(&packet, &described));
            if over {
                prop_assert_eq!(u32::from(asked(&packet)), most);
            } else {
                prop_assert_eq!(packet, before);
            }
        }
    }

    #[test]
    fn a_syn_with_a_digest_or_without_an_mss_option_is_not_changed() {
        let digest = [&[2, 4, 5, 180, 19, 18][..], &[7; 16], &[1, 1]].concat();
        for options in [digest, vec![], vec![2, 3, 5, 0], vec![1, 1, 2, 9]] {
            let (mut packet, described) = syn(false, TcpFlags::SYN, options);
            assert!(!clamp_segment_size(&mut packet, &described, 500));
        }
    }
}
