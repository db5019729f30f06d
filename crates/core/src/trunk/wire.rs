//! Wire formats of trunk packets, and their lengths.
//!
//! The crate `wire` reads and writes the packets. This file only computes their lengths, so that rates and links are
//! charged correctly.
//!
//! Source: `trunking`, section 4.1 (TCP headers without payload); RFC 768 (UDP) and RFC 2003 (encapsulation).

use std::net::IpAddr;

use super::packet::Frame;
use crate::packet::{Facts, NO_VLAN, Packet, TcpSegment};
use crate::tcp::Segment;

/// Wire format of the packets of a trunk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Wire {
    /// The format of the paper: management packets are TCP headers, and user packets depart
    /// unchanged.
    #[default]
    Headers,
    /// The format between live gateways: management packets and their ACKs are UDP datagrams over Ethernet.
    Datagrams {
        /// VLAN of the datagrams. `None`: untagged.
        vlan: Option<u16>,
        /// Treatment of user packets.
        encapsulation: Encapsulation,
    },
}

/// Treatment of user packets that depart through the trunk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Encapsulation {
    /// User packets depart unchanged.
    #[default]
    None,
    /// Each user packet is encapsulated in a UDP datagram. So it takes the same path as the management packets.
    Udp,
}

/// Bytes between the UDP header and an encapsulated user packet: version, kind and packet number.
pub const USER_HEADER: u32 = 7;

/// Bytes of the authentication tag at the end of each datagram.
pub const TAG_LEN: u32 = 16;

/// Bytes of a UDP header (RFC 768).
const UDP: u32 = 8;

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;

/// Bytes of a VLAN tag (IEEE 802.1Q).
const TAG: u16 = 4;

impl Wire {
    /// Bytes of outer headers and authentication tag that encapsulation adds to each user packet, the outer IP
    /// header included. Zero without encapsulation.
    #[must_use]
    pub fn overhead(&self, local: IpAddr) -> u32 {
        match self {
            Self::Datagrams { encapsulation: Encapsulation::Udp, .. } => {
                ip_header(local) + UDP + USER_HEADER + TAG_LEN
            }
            _ => 0,
        }
    }

    /// Bytes of a management packet with TCP timestamps, from the IP header on.
    #[must_use]
    pub fn management_len(&self, local: IpAddr) -> u32 {
        let header = TcpSegment { timestamps: Some((0, 0)), ..TcpSegment::default() };
        let segment = Segment { header, ..Segment::default() };
        ip_header(local)
            + match self {
                Self::Headers => segment.header_len(),
                Self::Datagrams { .. } => datagram_len(&segment),
            }
    }

    /// Bytes by which each frame of `packet` becomes longer on the link. Negative if it becomes shorter, because the
    /// link-layer header of the datagram is shorter.
    pub fn longer(&self, local: IpAddr, packet: &Packet) -> i32 {
        let Some(frame) = self.frame() else { return 0 };
        let signed = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
        let link = i32::from(frame.network_offset) - i32::from(packet.network_offset);
        signed(self.overhead(local)).saturating_add(link)
    }

    /// Bytes of the link-layer header of datagrams. `None` with [`Wire::Headers`]: packets of the trunk then get
    /// the link-layer header of user packets.
    pub fn network_offset(&self) -> Option<u16> {
        self.frame().map(|frame| frame.network_offset)
    }

    /// Frame format of datagrams. `None` with [`Wire::Headers`]: packets of the trunk then get the link-layer
    /// header of user packets.
    pub(super) const fn frame(&self) -> Option<Frame> {
        let Self::Datagrams { vlan, .. } = *self else { return None };
        let (network_offset, vlan) = match vlan {
            Some(vlan) => (ETHERNET + TAG, vlan),
            None => (ETHERNET, NO_VLAN),
        };
        Some(Frame { network_offset, session: Facts::NONE, vlan, datagrams: true })
    }
}

/// Bytes of the IP header of packets from the address `local`.
const fn ip_header(local: IpAddr) -> u32 {
    if local.is_ipv4() { 20 } else { 40 }
}

/// Bytes of a datagram that holds `segment` of a management connection, from the UDP header on.
#[must_use]
pub fn datagram_len(segment: &Segment) -> u32 {
    let header = &segment.header;
    let there = |there: bool, bytes: u32| if there { bytes } else { 0 };
    let blocks = u32::try_from(segment.sack.as_slice().len()).unwrap_or(0);
    let options = there(header.timestamps.is_some(), 8)
        + there(header.window_scale.is_some(), 1)
        + there(header.mss > 0, 2)
        + 8 * blocks;
    UDP + SEGMENT + options + TAG_LEN
}

/// Bytes of a segment without TCP options, as a datagram encodes it.
const SEGMENT: u32 = 22;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{config, user};
    use super::super::{Config, Trunk};
    use super::*;
    use crate::packet::Fifo;
    use crate::{Cx, PacketPool, Tally, Time};

    const UDP_TAGGED: Wire = Wire::Datagrams { vlan: Some(7), encapsulation: Encapsulation::Udp };

    /// The first packet that a trunk creates: the SYN of a management connection.
    fn first(wire: Wire) -> Packet {
        let (mut pool, mut tally) = (PacketPool::with_capacity(8), Tally::default());
        let mut trunk = Trunk::new(&Config { wire, ..config() }, 1, Time::ZERO);
        let packet = pool.insert(user(1_000)).unwrap();
        let mut out = Fifo::new();
        let mut cx =
            Cx { now: Time::ZERO + Duration::from_secs(1), pool: &mut pool, tally: &mut tally };
        trunk.send(&mut cx, packet, &mut out);
        let made = out.pop(&pool).unwrap();
        pool[&made]
    }

    /// Rates are charged with the length of the datagram, not with that of a TCP header.
    ///
    /// A SYN with timestamps, SACK, window scale and MSS has 8 + 22 + 8 + 1 + 2 + 16 = 57 bytes after the IP header. As
    /// a TCP header it has 40.
    ///
    /// Catches: a management packet charged with the length of a TCP header; a VLAN tag copied from a user packet.
    #[test]
    fn a_management_packet_has_its_length_on_the_wire() {
        let paper = first(Wire::Headers);
        let live = first(Wire::Datagrams { vlan: None, encapsulation: Encapsulation::None });
        let tagged = first(UDP_TAGGED);
        let header = paper.tcp.unwrap();
        let segment = Segment { header, ..Segment::default() };
        assert_eq!(paper.len, 20 + segment.header_len());
        assert_eq!((live.len, live.cost), (14 + 20 + datagram_len(&segment), live.len));
        assert_eq!((tagged.len, tagged.vlan), (live.len + 4, 7));
    }

    /// A TCP header with timestamps has 32 bytes, and the datagram 54 after the IP header: 8 + 22 + 8 + 16.
    ///
    /// Catches: a datagram whose authentication tag or UDP header is not counted.
    #[test]
    fn a_segment_with_timestamps_is_22_bytes_longer_than_its_tcp_header() {
        let header = TcpSegment { timestamps: Some((1, 2)), ..TcpSegment::default() };
        let segment = Segment { header, ..Segment::default() };
        assert_eq!((datagram_len(&segment), segment.header_len()), (54, 32));
    }

    /// Catches: a VLAN tag of the LAN counted on the WAN, or a VLAN tag of the WAN not counted.
    #[test]
    fn a_user_packet_grows_by_its_datagram_and_by_the_difference_of_link_headers() {
        let v4 = "192.0.2.1".parse().unwrap();
        let packet = |network_offset| Packet { network_offset, ..user(1_000) };
        assert_eq!(UDP_TAGGED.longer(v4, &packet(14)), 51 + 4);
        assert_eq!(UDP_TAGGED.longer(v4, &packet(18)), 51);
        assert_eq!(Wire::Headers.longer(v4, &packet(18)), 0);
    }
}
