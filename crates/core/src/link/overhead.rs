//! The bytes that a frame takes on a link: the bytes of the frame, of the link layer, and padding.
//!
//! `charge = max(len + per_packet, min)`, rounded up to whole cells on ATM.

use crate::Packet;
use crate::packet::Facts;

/// Bytes that a link adds to a frame.
///
/// ```
/// use tidegate_core::link::Overhead;
/// use tidegate_core::packet::Packet;
///
/// let ack = Packet { len: 66, segments: 1, ..Packet::default() };
/// let docsis = Overhead { per_packet: 4, min: 64, ..Overhead::default() };
/// assert_eq!(docsis.charge(&ack), 70);
/// // 66 bytes take two ATM cells of 53 bytes.
/// let atm = Overhead { atm: true, ..Overhead::default() };
/// assert_eq!(atm.charge(&ack), 106);
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Overhead {
    /// Bytes that are added to each frame. A negative number is subtracted.
    pub per_packet: i32,
    /// Least number of bytes that a frame takes, `per_packet` included.
    pub min: u32,
    /// The link splits frames into ATM cells. Each cell of 53 bytes carries 48 bytes of the frame.
    pub atm: bool,
    /// Headers between Ethernet and IP that `per_packet` includes already. These headers of the frame are not charged.
    pub contains: Headers,
}

/// Headers between those of Ethernet and IP: VLAN tags, MPLS labels, PPPoE and PPP.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Headers {
    /// No header.
    #[default]
    None,
    /// The headers of PPPoE and PPP.
    Pppoe,
    /// Every header.
    All,
}

impl Headers {
    /// Bytes of these headers in a frame with these `facts`, whose IP header begins at `network_offset`. Zero for a
    /// frame without IP.
    fn bytes(self, network_offset: u16, facts: Facts) -> i32 {
        match self {
            Self::None => 0,
            Self::Pppoe if !facts.has(Facts::PPPOE) => 0,
            Self::Pppoe if facts.has(Facts::SHORT_PPP) => PPPOE - 1,
            Self::Pppoe => PPPOE,
            Self::All => network_offset.saturating_sub(ETHERNET).into(),
        }
    }
}

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;
/// Bytes of the headers of PPPoE and PPP (RFC 2516, section 4).
const PPPOE: i32 = 8;

impl Overhead {
    /// Bytes that are charged for `packet` on the link. For a super-packet, this is the sum over its
    /// frames.
    #[inline]
    #[must_use]
    pub fn charge(&self, packet: &Packet) -> u32 {
        let none = self.per_packet == 0 && self.min == 0 && !self.atm;
        if none && self.contains == Headers::None && packet.segments <= 1 {
            return packet.len;
        }
        let contained = self.contains.bytes(packet.network_offset, packet.facts);
        self.charge_longer(packet, -contained)
    }

    /// The [`charge`](Self::charge) of a packet that a trunk encapsulates in a datagram. Each frame is `longer` bytes
    /// longer than in `packet`. The IP header of the datagram begins at `network_offset`.
    #[must_use]
    pub fn charge_carried(&self, packet: &Packet, longer: i32, network_offset: u16) -> u32 {
        self.charge_longer(packet, longer - self.contains.bytes(network_offset, Facts::NONE))
    }

    /// The charge of a packet whose frames are `longer` bytes longer than in `packet`.
    fn charge_longer(&self, packet: &Packet, longer: i32) -> u32 {
        let segments = u32::from(packet.segments.max(1));
        let longer = longer.saturating_mul(i32::from(packet.segments.max(1)));
        let total = packet.wire_len().saturating_add_signed(longer);
        let (each, longer) = (total / segments, total % segments);
        let shorter = self.occupied(each).saturating_mul(segments - longer);
        self.occupied(each + 1).saturating_mul(longer).saturating_add(shorter)
    }

    fn occupied(&self, frame: u32) -> u32 {
        let bytes = frame.saturating_add_signed(self.per_packet).max(self.min);
        if self.atm { bytes.div_ceil(48).saturating_mul(53) } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Network, TcpSegment};

    #[test]
    fn small_frames_are_charged_the_minimum_and_cells_are_whole() {
        let frame = |len| Packet { len, ..Packet::default() };
        let docsis = Overhead { per_packet: 18, min: 64, atm: false, ..Overhead::default() };
        assert_eq!(docsis.charge(&frame(40)), 64);
        assert_eq!(docsis.charge(&frame(1_500)), 1_518);
        let atm = Overhead { per_packet: 0, min: 0, atm: true, ..Overhead::default() };
        assert_eq!(atm.charge(&frame(49)), 106);
        let less = Overhead { per_packet: -14, min: 0, atm: false, ..Overhead::default() };
        assert_eq!(less.charge(&frame(1_514)), 1_500);
    }

    #[test]
    fn a_super_packet_is_charged_the_headers_of_each_frame() {
        let tcp = TcpSegment { payload: 3 * 1_448, ..TcpSegment::default() };
        let packet =
            Packet { len: 66 + 3 * 1_448, segments: 3, tcp: Some(tcp), ..Packet::default() };
        assert_eq!(Overhead::default().charge(&packet), 3 * 1_514);
        let overhead = Overhead { per_packet: 24, min: 0, atm: false, ..Overhead::default() };
        assert_eq!(overhead.charge(&packet), 3 * 1_538);
    }

    #[test]
    fn a_super_packet_of_datagrams_is_charged_the_headers_of_each_too() {
        let packet =
            Packet { len: 42 + 3 * 1_000, segments: 3, transport_offset: 34, ..Packet::default() };
        assert_eq!(Overhead::default().charge(&packet), 3 * 1_042);
    }

    /// Catches: added bytes that count once for all frames.
    #[test]
    fn added_bytes_count_for_each_frame() {
        let tcp = TcpSegment { payload: 3 * 1_448, ..TcpSegment::default() };
        let packet =
            Packet { len: 66 + 3 * 1_448, segments: 3, tcp: Some(tcp), ..Packet::default() };
        assert_eq!(Overhead::default().charge_longer(&packet, 51), 3 * (1_514 + 51));
        let plain = Packet { len: 1_000, segments: 1, ..Packet::default() };
        assert_eq!(Overhead::default().charge_longer(&plain, -4), 996);
    }

    #[test]
    fn the_charge_does_not_overflow() {
        let packet =
            Packet { len: u32::MAX, segments: u16::MAX, transport_offset: 9, ..Packet::default() };
        let overhead = Overhead { per_packet: i32::MAX, min: 0, atm: true, ..Overhead::default() };
        assert_eq!(overhead.charge(&packet), u32::MAX);
    }

    /// Catches: a header that counts twice, in `per_packet` and in the frame; a VLAN tag that is not charged although
    /// `per_packet` does not include it; an Ethernet header that is not charged; frames without IP that are charged less.
    #[test]
    fn headers_included_in_per_packet_are_not_charged() {
        // Ethernet, a VLAN tag, PPPoE and PPP, and an IP packet of 1,000 bytes.
        let (network, network_offset, facts) = (Network::Ipv4, 26, Facts::PPPOE);
        let packet = Packet { len: 1_026, network, network_offset, facts, ..Packet::default() };
        let charge = |contains, packet: &Packet| {
            Overhead { per_packet: 10, min: 0, atm: false, contains }.charge(packet)
        };
        assert_eq!(charge(Headers::None, &packet), 1_036);
        assert_eq!(charge(Headers::Pppoe, &packet), 1_028);
        assert_eq!(charge(Headers::All, &packet), 1_024);
        let facts = facts.with(Facts::SHORT_PPP, true);
        let short = Packet { len: 1_025, network_offset: 25, facts, ..packet };
        assert_eq!(charge(Headers::Pppoe, &short), 1_028);
        let control = Packet { len: 60, ..Packet::default() };
        let all = [Headers::None, Headers::Pppoe, Headers::All];
        assert_eq!(all.map(|it| charge(it, &control)), [70; 3]);
        // In a datagram of a trunk the frame is 43 bytes longer. An Ethernet header and a VLAN tag of the WAN, 18
        // bytes, precede the IP header.
        let overhead = |contains| Overhead { contains, ..Overhead::default() };
        assert_eq!(overhead(Headers::All).charge_carried(&packet, 43, 18), 1_065);
        assert_eq!(overhead(Headers::Pppoe).charge_carried(&packet, 43, 18), 1_069);
    }
}
