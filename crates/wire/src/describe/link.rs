//! Parses the link-layer headers of a frame, from Ethernet to the network header.

use tidegate_core::Packet;
use tidegate_core::packet::{Facts, NO_VLAN, Network};

use super::{Cursor, Oddity, be16};
use crate::{checksum, ethertype};

/// Advances past all link-layer headers. Returns the protocol of their payload.
#[inline]
pub(super) fn skip(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<Network, Oddity> {
    let ethernet = frame.take::<14>().ok_or(Oddity::Link)?;
    frame.ethertype = be16(ethernet[12], ethernet[13]);
    for _ in 0..MAX_HEADERS {
        match frame.ethertype {
            ethertype::IPV4 => return Ok(Network::Ipv4),
            ethertype::IPV6 => return Ok(Network::Ipv6),
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => return mpls(frame),
            ethertype::PPPOE_SESSION => return session(frame, packet),
            length if length < ethertype::SMALLEST => return Ok(snap(frame)),
            tag if ethertype::is_vlan(tag) => {
                let tag = frame.take::<4>().ok_or(Oddity::Link)?;
                let vlan = be16(tag[0], tag[1]) & VLAN_ID;
                if vlan != PRIORITY_ONLY {
                    note_vlan(frame, packet, vlan);
                }
                frame.ethertype = be16(tag[2], tag[3]);
            }
            _ => return Ok(Network::Opaque),
        }
    }
    Err(Oddity::Depth)
}

/// Records the VLAN identifier of a tag. Only the two outermost tags are recorded.
const fn note_vlan(frame: &mut Cursor<'_>, packet: &mut Packet, vlan: u16) {
    if packet.vlan == NO_VLAN {
        packet.vlan = vlan;
    } else if frame.second_vlan == NO_VLAN {
        frame.second_vlan = vlan;
    }
}

/// Advances past an IEEE 802.2 SNAP header, if it carries IP. The frame then has a length field in
/// place of the ethertype.
///
/// The length of the frame is not used, because the IP header states its own length.
///
/// Source: RFC 1042, header format.
fn snap(frame: &mut Cursor<'_>) -> Network {
    let network = match frame.peek::<8>() {
        Some([0xaa, 0xaa, 0x03, 0, 0, 0, high, low]) => match be16(*high, *low) {
            ethertype::IPV4 => Network::Ipv4,
            ethertype::IPV6 => Network::Ipv6,
            _ => Network::Opaque,
        },
        _ => Network::Opaque,
    };
    if network != Network::Opaque {
        frame.at += SNAP_LEN;
    }
    network
}

/// Advances past the headers of PPPoE and PPP. If they carry IP, records them in `packet.facts`.
fn session(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<Network, Oddity> {
    let begin = frame.at;
    let network = pppoe(frame)?;
    if network != Network::Opaque {
        let is_short = frame.at - begin < PPPOE_LEN;
        packet.facts = packet.facts.with(Facts::PPPOE, true).with(Facts::SHORT_PPP, is_short);
    }
    Ok(network)
}

/// Advances past the headers of PPPoE and PPP.
///
/// Source: RFC 2516, section 4; RFC 1661, section 6.5 (if the first byte is odd, the protocol field
/// has one byte).
///
/// Differs: RFC 2516, section 7 asks senders not to compress the protocol field, but some do.
fn pppoe(frame: &mut Cursor<'_>) -> Result<Network, Oddity> {
    frame.session = frame.at;
    let [version, code, _, _, high, low] = *frame.take().ok_or(Oddity::Link)?;
    if (version, code) != (0x11, 0) {
        return Err(Oddity::Link);
    }
    if frame.limit(usize::from(be16(high, low))).is_none() {
        frame.odd = Some(Oddity::Link);
    }
    let [first] = *frame.take().ok_or(Oddity::Link)?;
    frame.ppp = if first & PPP_LAST_BYTE != 0 {
        u16::from(first)
    } else {
        let [second] = *frame.take().ok_or(Oddity::Link)?;
        be16(first, second)
    };
    Ok(match frame.ppp {
        PPP_IPV4 => Network::Ipv4,
        PPP_IPV6 => Network::Ipv6,
        _ => Network::Opaque,
    })
}

/// Advances past MPLS labels, and guesses the type of their payload.
///
/// Routers guess it from the first four bits (RFC 4928, section 2). But a pseudowire without a
/// control word may begin with a MAC address that looks like an IP header. The guess "IP" therefore
/// counts only if the whole IP header is plausible.
///
/// Source: RFC 3032, section 2.1.
fn mpls(frame: &mut Cursor<'_>) -> Result<Network, Oddity> {
    for _ in 0..MAX_HEADERS {
        let [_, _, label_end, _] = *frame.take().ok_or(Oddity::Link)?;
        if label_end & BOTTOM_OF_STACK != 0 {
            return Ok(guess(frame));
        }
    }
    Err(Oddity::Depth)
}

fn guess(frame: &Cursor<'_>) -> Network {
    let ahead = frame.head.get(frame.at..).unwrap_or(&[]);
    match ahead {
        [first, ..] if first >> 4 == 4 => {
            let header = ahead.get(..usize::from(first & 0x0f) * 4);
            let holds = header.is_some_and(|header| checksum::sum(0, header) == 0xffff);
            if holds { Network::Ipv4 } else { Network::Opaque }
        }
        [0x60..=0x6f, ..] if is_ipv6(ahead, frame.left()) => Network::Ipv6,
        _ => Network::Opaque,
    }
}

/// Returns `true` if `ahead` is plausibly an IPv6 packet and not a MAC address that looks like one.
/// `left` is the length on the wire.
///
/// If the packet is shorter than `left`, padding or a trailer follows it. Then the next header must
/// be a common protocol, and the bytes must not fit an Ethernet header.
fn is_ipv6(ahead: &[u8], left: usize) -> bool {
    let Some(header) = ahead.first_chunk::<40>() else { return false };
    let payload = usize::from(be16(header[4], header[5]));
    match left.checked_sub(header.len() + payload) {
        _ if payload == 0 => true,
        Some(0) => true,
        Some(trailer) if trailer <= LONGEST_PADDING => {
            let ethernet = ethertype::is_known(be16(header[12], header[13]));
            !ethernet && UPPER_LAYERS.contains(&header[6])
        }
        _ => false,
    }
}

/// Largest number of VLAN tags, or MPLS labels, in a row that are parsed.
const MAX_HEADERS: usize = 8;
/// The VLAN identifier in a tag's control information (IEEE 802.1Q, section 9.6).
const VLAN_ID: u16 = 0x0fff;
/// VLAN identifier of a tag that has only a priority (IEEE 802.1Q, table 9-2).
const PRIORITY_ONLY: u16 = 0;
/// The bottom-of-stack bit in the third byte of a label (RFC 3032, section 2.1).
const BOTTOM_OF_STACK: u8 = 0x01;
/// Length of the LLC and SNAP headers, including the ethertype (RFC 1042).
const SNAP_LEN: usize = 8;
/// Length of the padding of an Ethernet frame without payload (IEEE 802.3, section 3.2.7). Trailers
/// are shorter.
const LONGEST_PADDING: usize = 46;
/// Next headers of padded IPv6 packets: TCP, UDP, IPv6, routing, fragment, GRE, ESP, AH, ICMPv6,
/// options, OSPF, SCTP (IANA, protocol numbers). Hop-by-hop options are not in the list: most MAC
/// addresses begin with their number 0.
const UPPER_LAYERS: [u8; 13] = [4, 6, 17, 41, 43, 44, 47, 50, 51, 58, 60, 89, 132];
/// Length of the PPPoE header with a protocol field of two bytes (RFC 2516, section 4).
const PPPOE_LEN: usize = 8;
/// This bit is set in the last byte of PPP's protocol field only (RFC 1661, section 2).
const PPP_LAST_BYTE: u8 = 0x01;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
