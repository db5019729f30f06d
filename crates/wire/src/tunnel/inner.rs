//! The first headers inside a tunnel, and checks that they really are an IP packet.

use tidegate_core::packet::{NO_VLAN, Network};

use super::{Carries, be16};
use crate::{checksum, ethertype};

/// An inner packet with an IP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Payload {
    pub(super) carries: Carries,
    pub(super) network: Network,
    /// Offset of the IP header from the first inner header.
    pub(super) offset: usize,
    pub(super) vlan: u16,
}

/// The IP packet that begins `at` bytes into `bytes`, of which `left` follow in all.
///
/// Only padding may follow it inside an Ethernet frame; everywhere else it ends where its carrier
/// ends.
#[inline]
pub(super) fn ip(bytes: &[u8], left: usize, at: usize) -> Option<Payload> {
    let network = network(bytes.get(at..)?, left.checked_sub(at)?, false)?;
    Some(Payload { carries: Carries::Ip, network, offset: 0, vlan: NO_VLAN })
}

/// The Ethernet frame at offset `at` of `bytes`, if it carries IP behind at most [`MAX_TAGS`] VLAN
/// tags. A priority tag is not counted as a VLAN.
#[inline]
pub(super) fn ethernet(bytes: &[u8], left: usize, at: usize) -> Option<Payload> {
    let frame = bytes.get(at..)?;
    let left = left.checked_sub(at)?;
    let (mut offset, mut vlan) = (ETHERNET, NO_VLAN);
    for _ in 0..=MAX_TAGS {
        let [a, b] = *frame.get(offset - 2..)?.first_chunk()?;
        let wanted = match be16(a, b) {
            ethertype::IPV4 => Network::Ipv4,
            ethertype::IPV6 => Network::Ipv6,
            tag if ethertype::is_vlan(tag) => {
                let [a, b] = *frame.get(offset..)?.first_chunk()?;
                let id = be16(a, b) & VLAN_ID;
                if vlan == NO_VLAN && id != 0 {
                    vlan = id;
                }
                offset += TAG;
                continue;
            }
            _ => return None,
        };
        let network = network(frame.get(offset..)?, left.checked_sub(offset)?, true)?;
        let payload = Payload { carries: Carries::Ethernet, network, offset, vlan };
        return (network == wanted).then_some(payload);
    }
    None
}

/// The version of the IP header at the start of `bytes`, if the header is valid. IPv4 is checked by
/// checksum and length, IPv6 by length. A packet shorter than `left` is accepted only where padding
/// may follow (`padded`).
fn network(bytes: &[u8], left: usize, padded: bool) -> Option<Network> {
    let ends = |len: usize| len == left || (padded && len < left);
    // The length field of a super-packet is zero, because its length does not fit.
    let huge = left > usize::from(u16::MAX);
    match bytes.first()? >> 4 {
        4 => {
            let header = bytes.get(..usize::from(bytes.first()? & 0x0f) * 4)?;
            let [_, _, high, low, ..] = *header.first_chunk::<20>()?;
            let len = usize::from(be16(high, low));
            let fits = (len >= header.len() && ends(len)) || (len == 0 && huge);
            (fits && checksum::sum(0, header) == 0xffff).then_some(Network::Ipv4)
        }
        6 => {
            let [_, _, _, _, high, low, ..] = *bytes.first_chunk::<40>()?;
            let len = usize::from(be16(high, low));
            (ends(len + V6) || (len == 0 && huge)).then_some(Network::Ipv6)
        }
        _ => None,
    }
}

/// Parsing follows at most this many VLAN tags in a row.
const MAX_TAGS: usize = 8;
/// Bytes of an Ethernet header, and of a tag.
const ETHERNET: usize = 14;
const TAG: usize = 4;
/// The VLAN identifier in a tag's control information (IEEE 802.1Q, section 9.6).
const VLAN_ID: u16 = 0x0fff;
/// Bytes of an IPv6 header.
const V6: usize = 40;
