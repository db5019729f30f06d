//! Recognises control traffic: protocols without which links, addresses or routes fail, such as
//! ARP, DHCP, spanning tree and OSPF.
//!
//! Source: IANA, IEEE 802 numbers (ethertypes) and service names (ports). The comment at a constant
//! names the protocol and its standard.
//!
//! Differs:
//! - Port and protocol alone do not make a routing packet control traffic, because any host could
//!   send them. The packet must come from a neighbour, with a hop limit of 1 or 255 (RFC 5082), or
//!   have the codepoint CS6 (RFC 4594, section 3.2).
//! - DHCP packets must have the DHCP ports at both ends.

use tidegate_core::Packet;
use tidegate_core::packet::{Endpoint, Network, Protocol};

use super::Cursor;
use crate::ethertype;

/// Returns `true` if a frame without IP is control traffic. `frame` is positioned after the
/// link-layer headers.
pub(super) fn is_of_link(frame: &Cursor<'_>) -> bool {
    let Some(destination) = frame.head.first_chunk::<6>() else { return false };
    match frame.ethertype {
        ethertype::ARP | ethertype::EAPOL | ethertype::PPPOE_DISCOVERY => true,
        ethertype::LLDP | ethertype::SLOW_PROTOCOLS => is_for_bridges(destination),
        ethertype::PPPOE_SESSION => frame.ppp & PPP_CONTROL != 0,
        length if length < ethertype::SMALLEST => is_llc(destination, frame),
        _ => false,
    }
}

/// Returns `true` for control protocols that have an IEEE 802.2 header in place of an ethertype.
fn is_llc(destination: &[u8; 6], frame: &Cursor<'_>) -> bool {
    match frame.head.get(frame.at..) {
        Some([0x42, 0x42, UNNUMBERED, ..]) => is_for_bridges(destination),
        Some([0xfe, 0xfe, UNNUMBERED, ISIS, ..]) => destination[0] & GROUP != 0,
        Some([0xaa, 0xaa, UNNUMBERED, 0, 0, 0x0c, 0x01, 0x0b, ..]) => *destination == PVST,
        _ => false,
    }
}

/// Returns `true` for the group addresses that bridges do not forward (IEEE 802.1D, table 7-10).
const fn is_for_bridges(destination: &[u8; 6]) -> bool {
    matches!(destination, [0x01, 0x80, 0xc2, 0x00, 0x00, 0x00..=0x0f])
}

/// Returns `true` if an IP packet with this hop limit is control traffic. `packet` is its complete
/// descriptor.
pub(super) fn is_of_ip(frame: &Cursor<'_>, packet: &Packet, hop_limit: u8) -> bool {
    // Only the first fragment of a datagram has ports. If it were control traffic, its other
    // fragments would be treated differently.
    if packet.fragment.is_part() && matches!(packet.key.protocol, Protocol::TCP | Protocol::UDP) {
        return false;
    }
    let is_routing = matches!(hop_limit, NEXT_HOP | GTSM) || packet.dscp == CS6;
    let ports = (packet.key.src.port, packet.key.dst.port);
    match packet.key.protocol {
        Protocol::TCP => is_routing && (ports.0 == BGP || ports.1 == BGP),
        Protocol::UDP if packet.network == Network::Ipv4 => {
            is_dhcp(ports, DHCP_SERVER, DHCP_CLIENT) || is_bfd(ports.1, hop_limit, is_routing)
        }
        Protocol::UDP => {
            is_dhcp(ports, DHCPV6_SERVER, DHCPV6_CLIENT) || is_bfd(ports.1, hop_limit, is_routing)
        }
        Protocol::ICMPV6 if !packet.fragment.is_part() => {
            let at = usize::from(packet.transport_offset);
            match frame.head.get(at).filter(|_| at > 0) {
                Some(133..=137) => hop_limit == GTSM,
                Some(130..=132 | 143) => hop_limit == NEXT_HOP,
                _ => false,
            }
        }
        IGMP => hop_limit == NEXT_HOP,
        OSPF => is_routing,
        VRRP => hop_limit == GTSM,
        _ => false,
    }
}

/// Returns `true` for the ports of a client and a server, or of a relay and a server. A relay uses
/// the server's port.
const fn is_dhcp(ports: (u16, u16), server: u16, client: u16) -> bool {
    let (src, dst) = ports;
    (src == server && (dst == client || dst == server)) || (src == client && dst == server)
}

/// Returns `true` for BFD. An echo that returns has passed one router, so its hop limit is 254.
const fn is_bfd(port: u16, hop_limit: u8, is_routing: bool) -> bool {
    match port {
        BFD | BFD_MULTIHOP | BFD_LAG => is_routing,
        BFD_ECHO => is_routing || hop_limit == GTSM - 1,
        _ => false,
    }
}

/// A hash of the frame's source MAC address, which identifies the sender. If a router may
/// have forwarded the packet, the hash also covers `sender`, the source IP address.
pub(super) fn source(frame: &[u8], sender: Option<Endpoint>) -> u32 {
    let mac = match frame.get(6..12) {
        Some(&[a, b, c, d, e, f]) => {
            u32::from_be_bytes([c, d, e, f]) ^ u32::from_be_bytes([0, 0, a, b])
        }
        _ => 0,
    };
    let address = sender.map_or(0, |sender| sender.number());
    let [a, b, c, d] = [96, 64, 32, 0].map(|shift| word(address >> shift));
    mac ^ a ^ b.rotate_left(8) ^ c.rotate_left(16) ^ d.rotate_left(24)
}

/// The lower 32 bits of `number`.
fn word(number: u128) -> u32 {
    let [.., a, b, c, d] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Hop limit of protocols between neighbours: IGMP, MLD and OSPF (RFC 3376, section 4; RFC 3810,
/// section 5; RFC 2328, A.1).
const NEXT_HOP: u8 = 1;
/// Hop limit that proves that no router has forwarded the packet (RFC 5082; RFC 4861, section 6.1;
/// RFC 5881, section 5; RFC 9568, section 5.1.1.3).
pub(super) const GTSM: u8 = 255;
/// The codepoint of internetwork control (RFC 2474, section 4.2.2.2).
const CS6: u8 = 48;

const IGMP: Protocol = Protocol(2);
const OSPF: Protocol = Protocol(89);
const VRRP: Protocol = Protocol(112);
/// Port of BGP (RFC 4271).
const BGP: u16 = 179;
/// Ports of DHCP (RFC 2131, section 4.1).
const DHCP_SERVER: u16 = 67;
const DHCP_CLIENT: u16 = 68;
/// Ports of DHCPv6 (RFC 8415, section 7.2).
const DHCPV6_SERVER: u16 = 547;
const DHCPV6_CLIENT: u16 = 546;
/// Ports of BFD, and of its echo packets (RFC 5881, section 4).
const BFD: u16 = 3784;
const BFD_ECHO: u16 = 3785;
/// Port of BFD over several hops (RFC 5883, section 5).
const BFD_MULTIHOP: u16 = 4784;
/// Port of BFD on links of an aggregated link (RFC 7130, section 2.2).
const BFD_LAG: u16 = 6784;

/// Bit that is set in the protocol numbers of PPP's control protocols (RFC 1661, section 2).
const PPP_CONTROL: u16 = 0x8000;
/// Control field of an unnumbered information frame (IEEE 802.2).
const UNNUMBERED: u8 = 0x03;
/// Protocol number of IS-IS (ISO/IEC TR 9577), which follows the service access points of ISO
/// 10589.
const ISIS: u8 = 0x83;
/// The group (multicast) bit in the first byte of a MAC address.
const GROUP: u8 = 0x01;
/// Destination of Cisco's per-VLAN spanning tree (PVST+).
const PVST: [u8; 6] = [0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcd];
