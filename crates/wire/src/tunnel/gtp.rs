//! GTP-U: tunnels of user packets in mobile networks.
//!
//! Source: 3GPP TS 29.281, section 5.
//!
//! Differs: the tunnel endpoint identifier (TEID) is not recorded, because it differs between the
//! two directions of a flow.

use tidegate_core::packet::TunnelKind;

use super::{Inside, UDP, be16, ip};

/// Parses the user packet of a GTP-U message (G-PDU) behind a UDP header.
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

/// The offset after the optional word of four bytes and the extension headers. If `extended` is false,
/// no extension header follows.
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

/// Length of the mandatory header (section 5.1).
const HEADER: usize = 8;
/// Message type of a user packet (section 6.1).
const G_PDU: u8 = 255;
/// Mask and value of the first byte: version 1, and protocol type GTP. The spare bit is ignored
/// (section 5.1).
const FIXED: u8 = 0xf0;
const VERSION_1: u8 = 0x30;
/// If one of the flags E, S and PN is set, a word of four bytes follows. `EXTENDED` is E, and
/// `SEQUENCE` is S.
const OPTIONAL: u8 = 0x07;
const EXTENDED: u8 = 0x04;
const SEQUENCE: u8 = 0x02;
/// Largest number of extension headers in a row that are parsed. TS 29.281, section 5.2.1 defines seven.
const MAX_EXTENSIONS: usize = 8;
