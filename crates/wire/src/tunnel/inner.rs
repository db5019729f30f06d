//! Parses the first headers inside a tunnel, and checks that they are a valid IP packet.

use tidegate_core::packet::{NO_VLAN, Network};

use super::{Carries, be16};
use crate::{checksum, ethertype};

/// The IP packet inside a tunnel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Payload {
    pub(super) carries: Carries,
    pub(super) network: Network,
    /// Offset of the IP header, counted from the first inner header.
    pub(super) offset: usize,
    pub(super) vlan: u16,
}

/// Parses the IP packet at offset `at` of `bytes`. `left` is the full length on the wire, of which
/// `bytes` may hold only the beginning.
///
/// The IP packet must end where `left` ends.
#[inline]
pub(super) fn ip(bytes: &[u8], left: usize, at: usize) -> Option<Payload> {
    let network = network(bytes.get(at..)?, left.checked_sub(at)?, false)?;
    Some(Payload { carries: Carries::Ip, network, offset: 0, vlan: NO_VLAN })
}

/// Parses the Ethernet frame at offset `at` of `bytes`, if it carries IP after at most [`MAX_TAGS`]
/// VLAN tags. A tag that has only a priority is not recorded as a VLAN. Padding may follow the IP
/// packet.
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
/// checksum and length, IPv6 by length. A packet that is shorter than `left` is valid only if
/// padding may follow (`padded`).
fn network(bytes: &[u8], left: usize, padded: bool) -> Option<Network> {
    let ends = |len: usize| len == left || (padded && len < left);
    // The length of a super-packet does not fit into its field, which is zero.
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

/// Largest number of VLAN tags in a row that are parsed.
const MAX_TAGS: usize = 8;
/// Lengths of an Ethernet header and of a VLAN tag.
const ETHERNET: usize = 14;
const TAG: usize = 4;
/// The VLAN identifier in a tag's control information (IEEE 802.1Q, section 9.6).
const VLAN_ID: u16 = 0x0fff;
/// Length of an IPv6 header.
const V6: usize = 40;
