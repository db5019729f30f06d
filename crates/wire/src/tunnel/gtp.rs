//! GTP-U: user packets of mobile networks.
//!
//! Source: 3GPP TS 29.281, section 5.
//!
//! Differs: the endpoint identifier (TEID) is not kept, because each direction has another one.

use tidegate_core::packet::TunnelKind;

use super::{Inside, UDP, be16, ip};

/// The user packet of a G-PDU behind a UDP header.
pub(super) fn in_udp(bytes: &[u8], left: usize) -> Option<Inside> {
    let [flags, G_PDU, high, low, ..] = *bytes.get(UDP..)?.first_chunk::<HEADER>()? else {
        return None;
    };
    if flags & FIXED != VERSION_1 {
        return None;
    }
    let len = usize::from(be16(high, low));
    let huge = len == 0 && left > usize::from(u16::MAX);
    if UDP + HEADER + len != left && !huge {
        return None;
    }
    let at = if flags & OPTIONAL == 0 {
        UDP + HEADER
    } else {
        behind_extensions(bytes, flags & EXTENDED != 0)?
    };
    let payload = ip(bytes, left, at)?;
    let numbered = flags & SEQUENCE != 0;
    Some(Inside { numbered, ..Inside::new(TunnelKind::GtpU, at, payload) })
}

/// The offset behind the optional word and the extension headers. Without `extended`, there are no
/// extension headers.
fn behind_extensions(bytes: &[u8], extended: bool) -> Option<usize> {
    let mut at = UDP + HEADER + 4;
    for _ in 0..MAX_EXTENSIONS {
        if !extended || *bytes.get(at - 1)? == 0 {
            return Some(at);
        }
        match usize::from(*bytes.get(at)?) * 4 {
            0 => return None,
            len => at += len,
        }
    }
    None
}

/// Bytes of the mandatory header (section 5.1).
const HEADER: usize = 8;
/// Message type of a user packet (section 6.1).
const G_PDU: u8 = 255;
/// Version 1, and protocol type GTP; the spare bit is not evaluated (section 5.1).
const FIXED: u8 = 0xf0;
const VERSION_1: u8 = 0x30;
/// One of the flags E, S and PN: a word of four bytes follows.
const OPTIONAL: u8 = 0x07;
const EXTENDED: u8 = 0x04;
const SEQUENCE: u8 = 0x02;
/// Extension headers in a row that are followed; TS 29.281, section 5.2.1 defines seven.
const MAX_EXTENSIONS: usize = 8;
