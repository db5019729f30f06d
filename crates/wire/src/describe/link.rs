//! From the Ethernet header to the network header.

use tidegate_core::Packet;
use tidegate_core::packet::{NO_VLAN, Network};

use super::{Cursor, Oddity, be16};
use crate::{checksum, ethertype};

/// Passes all link-layer headers; says what they carry.
#[inline]
pub(super) fn skip(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<Network, Oddity> {
    let ethernet = frame.take::<14>().ok_or(Oddity::Link)?;
    frame.ethertype = be16(ethernet[12], ethernet[13]);
    for _ in 0..MAX_HEADERS {
        match frame.ethertype {
            ethertype::IPV4 => return Ok(Network::Ipv4),
            ethertype::IPV6 => return Ok(Network::Ipv6),
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => return mpls(frame),
            ethertype::PPPOE_SESSION => return pppoe(frame),
            tag if ethertype::is_vlan(tag) => {
                let tag = frame.take::<4>().ok_or(Oddity::Link)?;
                if packet.vlan == NO_VLAN {
                    packet.vlan = be16(tag[0], tag[1]) & VLAN_ID;
                }
                frame.ethertype = be16(tag[2], tag[3]);
            }
            _ => return Ok(Network::Opaque),
        }
    }
    Err(Oddity::Depth)
}

/// Source: RFC 2516, section 4. PPP's compressed protocol field is not understood, as it must not
/// be sent (section 7).
fn pppoe(frame: &mut Cursor<'_>) -> Result<Network, Oddity> {
    let [version, code, _, _, high, low] = *frame.take().ok_or(Oddity::Link)?;
    if (version, code) != (0x11, 0) {
        return Err(Oddity::Link);
    }
    frame.limit(usize::from(be16(high, low))).ok_or(Oddity::Link)?;
    let [high, low] = *frame.take().ok_or(Oddity::Link)?;
    frame.ppp = be16(high, low);
    Ok(match frame.ppp {
        PPP_IPV4 => Network::Ipv4,
        PPP_IPV6 => Network::Ipv6,
        _ => Network::Opaque,
    })
}

/// Source: RFC 3032, section 2.1; what the stack carries is guessed from the first nibble, as
/// routers do (RFC 4928, section 2), and the guess has to hold up: a pseudowire without control word
/// may carry a MAC address that begins like an IP header.
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
        [0x60..=0x6f, _, _, _, high, low, ..] => {
            let payload = usize::from(be16(*high, *low));
            let holds = payload + 40 == frame.left() || payload == 0;
            if holds { Network::Ipv6 } else { Network::Opaque }
        }
        _ => Network::Opaque,
    }
}

/// VLAN tags, or MPLS labels, in a row that are followed.
const MAX_HEADERS: usize = 8;
/// The VLAN identifier in a tag's control information (IEEE 802.1Q, section 9.6).
const VLAN_ID: u16 = 0x0fff;
/// In the third byte of a label stack entry.
const BOTTOM_OF_STACK: u8 = 0x01;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
