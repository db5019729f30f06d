//! L2TP: tunnels of PPP or Ethernet over UDP or IP.
//!
//! Source: RFC 2661, section 3.1 (version 2); RFC 3931, sections 4.1.1 and 4.1.2 (version 3).
//!
//! Differs: tunnel and session identifiers are not recorded, because they differ between the two
//! directions. In version 3, only the ends know the lengths of the cookie and of the sublayer
//! header. Each length that Linux can set is tried, and the one with valid inner headers is taken.

use tidegate_core::packet::{Network, TunnelKind};

use super::{Inside, UDP, be16, ethernet, ip};

/// Parses the user packet behind a UDP header.
pub(super) fn over_udp(bytes: &[u8], left: usize) -> Option<Inside> {
    let [flags, version] = *bytes.get(UDP..)?.first_chunk()?;
    match version & 0x0f {
        _ if flags & CONTROL != 0 => None,
        2 => version_2(flags, bytes, left),
        3 => version_3(bytes, left, UDP + 4),
        _ => None,
    }
}

/// Parses the user packet behind an IP header with protocol 115. Session 0 is the control channel.
pub(super) fn over_ip(bytes: &[u8], left: usize) -> Option<Inside> {
    version_3(bytes, left, 0)
}

/// Parses version 2, with PPP inside.
///
/// Source: RFC 2661, section 3.1; RFC 1661, section 2 and RFC 1662, section 3.1 (PPP).
fn version_2(flags: u8, bytes: &[u8], left: usize) -> Option<Inside> {
    let mut at = UDP + 2;
    if flags & LENGTH != 0 {
        let [high, low] = *bytes.get(at..)?.first_chunk()?;
        if UDP + usize::from(be16(high, low)) != left {
            return None;
        }
        at += 2;
    }
    at += IDENTIFIERS;
    let numbered = flags & SEQUENCE != 0;
    if numbered {
        at += 4;
    }
    if flags & OFFSET != 0 {
        let [high, low] = *bytes.get(at..)?.first_chunk()?;
        at += 2 + usize::from(be16(high, low));
    }
    let (wanted, ppp) = match *bytes.get(at..)? {
        [0xff, 0x03, ref rest @ ..] => protocol(rest).map(|(it, len)| (it, len + 2)),
        ref rest => protocol(rest),
    }?;
    let payload = ip(bytes, left, at + ppp).filter(|payload| payload.network == wanted)?;
    Some(Inside { numbered, ..Inside::new(TunnelKind::L2tp, at + ppp, payload) })
}

/// The protocol in PPP's protocol field, and the length of this field. A compressed field has one
/// byte, a full field two.
const fn protocol(ppp: &[u8]) -> Option<(Network, usize)> {
    match ppp {
        [0x00, 0x21, ..] => Some((Network::Ipv4, 2)),
        [0x00, 0x57, ..] => Some((Network::Ipv6, 2)),
        [0x21, ..] => Some((Network::Ipv4, 1)),
        [0x57, ..] => Some((Network::Ipv6, 1)),
        _ => None,
    }
}

/// Parses version 3, whose session identifier is at offset `at`. Every packet counts as numbered,
/// because the sublayer header may contain sequence numbers.
fn version_3(bytes: &[u8], left: usize, at: usize) -> Option<Inside> {
    if *bytes.get(at..)?.first_chunk::<SESSION>()? == [0; SESSION] {
        return None;
    }
    let behind = |more: &usize| {
        let header = at + SESSION + more;
        Some((header, ethernet(bytes, left, header)?))
    };
    let (header, payload) = BETWEEN.iter().find_map(behind)?;
    Some(Inside { numbered: true, ..Inside::new(TunnelKind::L2tp, header, payload) })
}

/// Flags of version 2. The flag `CONTROL` (T) exists in both versions (RFC 2661, section 3.1).
const CONTROL: u8 = 0x80;
const LENGTH: u8 = 0x40;
const SEQUENCE: u8 = 0x08;
const OFFSET: u8 = 0x02;
/// Length of the tunnel and session identifiers of version 2.
const IDENTIFIERS: usize = 4;
/// Length of the session identifier of version 3.
const SESSION: usize = 4;
/// Combined lengths of cookie (0, 4 or 8 bytes) and sublayer header (0 or 4). The first is the
/// default of Linux (ip-l2tp(8)).
const BETWEEN: [usize; 4] = [4, 0, 8, 12];
