//! IPv4 and IPv6 headers, up to the transport header.

use tidegate_core::Packet;
use tidegate_core::packet::{Ecn, Endpoint, FlowKey, Network, Protocol};

use super::{Cursor, Oddity, be16, control, fragment, is_control, transport};

/// Source: RFC 791, section 3.1.
#[inline]
pub(super) fn describe_v4(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    let header = frame.peek::<20>().ok_or(Oddity::Ipv4)?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = length(be16(header[2], header[3]), frame.left());
    if header[0] >> 4 != 4 || header_len < header.len() || total_len < header_len {
        return Err(Oddity::Ipv4);
    }
    frame.limit(total_len).ok_or(Oddity::Ipv4)?;

    packet.network = Network::Ipv4;
    packet.network_offset = frame.offset();
    (packet.dscp, packet.ecn) = traffic_class(header[1]);
    packet.key = FlowKey {
        src: Endpoint::v4([header[12], header[13], header[14], header[15]], 0),
        dst: Endpoint::v4([header[16], header[17], header[18], header[19]], 0),
        protocol: Protocol(header[9]),
    };
    frame.at += header_len;
    let part = be16(header[6], header[7]);
    let described = if part & V4_FRAGMENT == 0 {
        transport::describe(frame, packet)
    } else {
        let identification = u32::from(be16(header[4], header[5]));
        fragment::describe(frame, packet, part & V4_OFFSET, identification);
        Ok(())
    };
    note_control(frame, packet, header[8]);
    described
}

/// Marks the packet if it is control traffic.
#[inline]
fn note_control(frame: &Cursor<'_>, packet: &mut Packet, hop_limit: u8) {
    if control::is_of_ip(frame, packet, hop_limit) {
        let routed = (hop_limit != control::GTSM).then_some(packet.key.src);
        is_control(packet, control::source(frame.head, routed));
    }
}

/// Source: RFC 8200, sections 3 and 4.
pub(super) fn describe_v6(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    let header = frame.peek::<40>().ok_or(Oddity::Ipv6)?;
    if header[0] >> 4 != 6 {
        return Err(Oddity::Ipv6);
    }
    let network_offset = frame.offset();
    frame.at += header.len();
    let payload_len = length(be16(header[4], header[5]), frame.left());
    frame.limit(payload_len).ok_or(Oddity::Ipv6)?;
    let upper = pass_extensions(frame, header[6])?;

    packet.network = Network::Ipv6;
    packet.network_offset = network_offset;
    (packet.dscp, packet.ecn) = traffic_class(header[0] << 4 | header[1] >> 4);
    let (src, dst) = addresses(header);
    packet.key = FlowKey {
        src: Endpoint::v6(src, 0),
        dst: Endpoint::v6(dst, 0),
        protocol: Protocol(upper.protocol),
    };
    if upper.too_deep {
        return Err(Oddity::Depth);
    }
    let described = match upper.fragment {
        None => transport::describe(frame, packet),
        Some((offset, identification)) => {
            fragment::describe(frame, packet, offset, identification);
            Ok(())
        }
    };
    note_control(frame, packet, header[7]);
    if upper.authenticated {
        packet.tcp = None;
    }
    described
}

/// What an IPv6 packet carries behind its extension headers.
struct Upper {
    protocol: u8,
    /// Offset in units of 8 bytes, and identification.
    fragment: Option<(u16, u32)>,
    authenticated: bool,
    /// Not the upper layer yet, but we went as far as we go.
    too_deep: bool,
}

/// The protocol behind the extension headers in a first fragment. `None` if they do not end within it, or another
/// fragment header is there.
pub(super) fn pass_in_fragment(frame: &mut Cursor<'_>, first: u8) -> Option<u8> {
    if first == HOP_BY_HOP {
        return None;
    }
    let upper = pass_extensions(frame, first).ok()?;
    (upper.fragment.is_none() && !upper.too_deep).then_some(upper.protocol)
}

/// Passes extension headers up to the first fragment header.
fn pass_extensions(frame: &mut Cursor<'_>, first: u8) -> Result<Upper, Oddity> {
    let mut upper =
        Upper { protocol: first, fragment: None, authenticated: false, too_deep: false };
    for depth in 0..MAX_EXTENSIONS {
        let len = match upper.protocol {
            HOP_BY_HOP if depth > 0 => return Err(Oddity::Ipv6),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => |len: u8| usize::from(len) * 8 + 8,
            FRAGMENT => |_| 8,
            AUTHENTICATION => |len: u8| usize::from(len) * 4 + 8,
            _ => return Ok(upper),
        };
        let [next, words, high, low] = *frame.peek().ok_or(Oddity::Ipv6)?;
        let len = len(words);
        if len > frame.left() {
            return Err(Oddity::Ipv6);
        }
        upper.authenticated |= upper.protocol == AUTHENTICATION;
        // A fragment header on a datagram in one piece means nothing (RFC 6946).
        if upper.protocol == FRAGMENT && be16(high, low) & V6_FRAGMENT != 0 {
            let [.., a, b, c, d] = *frame.peek::<8>().ok_or(Oddity::Ipv6)?;
            let identification = u32::from_be_bytes([a, b, c, d]);
            upper.fragment = Some((be16(high, low) >> V6_OFFSET_SHIFT, identification));
        }
        frame.at += len;
        upper.protocol = next;
        if upper.fragment.is_some() {
            break;
        }
    }
    if upper.protocol == HOP_BY_HOP {
        return Err(Oddity::Ipv6);
    }
    upper.too_deep = upper.fragment.is_none();
    Ok(upper)
}

/// The length in a header's `field`; where a super-packet is too long for it, what is `left`.
fn length(field: u16, left: usize) -> usize {
    if field == 0 && left > usize::from(u16::MAX) { left } else { usize::from(field) }
}

const fn traffic_class(byte: u8) -> (u8, Ecn) {
    let ecn = match byte & 0b11 {
        0b00 => Ecn::NotEct,
        0b01 => Ecn::Ect1,
        0b10 => Ecn::Ect0,
        _ => Ecn::Ce,
    };
    (byte >> 2, ecn)
}

fn addresses(header: &[u8; 40]) -> ([u8; 16], [u8; 16]) {
    let (mut src, mut dst) = ([0; 16], [0; 16]);
    src.copy_from_slice(&header[8..24]);
    dst.copy_from_slice(&header[24..40]);
    (src, dst)
}

/// More fragments, or an offset.
const V4_FRAGMENT: u16 = 0x3fff;
/// In units of 8 bytes (RFC 791, section 3.1).
const V4_OFFSET: u16 = 0x1fff;
/// More fragments, or an offset (RFC 8200, section 4.5).
const V6_FRAGMENT: u16 = 0xfff9;
/// The offset in units of 8 bytes stands above the flags.
const V6_OFFSET_SHIFT: u32 = 3;
/// Extension headers in a row that are followed; RFC 8200, section 4.1 recommends at most 7.
const MAX_EXTENSIONS: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
