//! Parses IPv4 and IPv6 headers, up to the transport header.

use tidegate_core::Packet;
use tidegate_core::packet::{Ecn, Endpoint, FlowKey, Network, Protocol};

use super::{Cursor, Oddity, be16, control, fragment, is_control, transport};

/// Parses an IPv4 packet. If the lengths are inconsistent, its addresses are still set, so that
/// policies can match the packet.
///
/// Source: RFC 791, section 3.1.
#[inline]
pub(super) fn describe_v4(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    let header = frame.peek::<20>().ok_or(Oddity::Ipv4)?;
    if header[0] >> 4 != 4 {
        return Err(Oddity::Ipv4);
    }
    packet.network = Network::Ipv4;
    packet.network_offset = frame.offset();
    (packet.dscp, packet.ecn) = traffic_class(header[1]);
    packet.key = FlowKey {
        src: Endpoint::v4([header[12], header[13], header[14], header[15]], 0),
        dst: Endpoint::v4([header[16], header[17], header[18], header[19]], 0),
        protocol: Protocol(header[9]),
    };
    let header_len = usize::from(header[0] & 0x0f) * 4;
    let total_len = length(be16(header[2], header[3]), frame.left());
    if header_len < header.len() || total_len < header_len {
        return Err(Oddity::Ipv4);
    }
    frame.limit(total_len).ok_or(Oddity::Ipv4)?;
    frame.at += header_len;
    let part = be16(header[6], header[7]);
    let described = if part & V4_FRAGMENT != 0 {
        let identification = u32::from(be16(header[4], header[5]));
        fragment::describe(frame, packet, part & V4_OFFSET, identification);
        Ok(())
    } else if packet.key.protocol == Protocol::AUTHENTICATION {
        authenticated(frame, packet)
    } else {
        transport::describe(frame, packet)
    };
    note_control(frame, packet, header[8]);
    described
}

/// Parses the transport header behind an IPv4 authentication header. The transport header must not
/// be rewritten.
///
/// Source: RFC 4302, section 2.
fn authenticated(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    packet.key.protocol = pass_authentication(frame, packet.key.protocol).ok_or(Oddity::Ipv4)?;
    let described = transport::describe(frame, packet);
    frame.authenticated = true;
    packet.tcp = None;
    described
}

/// Advances past the authentication headers of an IPv4 packet. Returns the protocol behind them.
/// `None` if a header is incomplete.
pub(super) fn pass_authentication(
    frame: &mut Cursor<'_>,
    mut protocol: Protocol,
) -> Option<Protocol> {
    while protocol == Protocol::AUTHENTICATION {
        let [next, words] = *frame.peek()?;
        let len = authentication_len(words);
        if len > frame.left() {
            return None;
        }
        frame.at += len;
        protocol = Protocol(next);
    }
    Some(protocol)
}

/// Marks the packet as control traffic if it is of a control protocol, such as DHCP or OSPF.
#[inline]
fn note_control(frame: &Cursor<'_>, packet: &mut Packet, hop_limit: u8) {
    if control::is_of_ip(frame, packet, hop_limit) {
        let routed = (hop_limit != control::GTSM).then_some(packet.key.src);
        is_control(packet, control::source(frame.head, routed));
    }
}

/// Parses an IPv6 packet. If the lengths are inconsistent, its addresses are still set, so that
/// policies can match the packet.
///
/// Source: RFC 8200, sections 3 and 4.
pub(super) fn describe_v6(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    let header = frame.peek::<40>().ok_or(Oddity::Ipv6)?;
    if header[0] >> 4 != 6 {
        return Err(Oddity::Ipv6);
    }
    packet.network = Network::Ipv6;
    packet.network_offset = frame.offset();
    (packet.dscp, packet.ecn) = traffic_class(header[0] << 4 | header[1] >> 4);
    frame.at += header.len();
    let mut upper = Upper { protocol: header[6], fragment: None, authenticated: false };
    let payload_len = length(be16(header[4], header[5]), frame.left());
    let passed = frame.limit(payload_len).ok_or(Oddity::Ipv6);
    let passed = passed.and_then(|()| pass_extensions(frame, &mut upper));

    // A descriptor with protocol 0 would mean that the frame is not IP.
    let protocol = if upper.protocol == HOP_BY_HOP { NO_NEXT_HEADER } else { upper.protocol };
    let (src, dst) = addresses(header);
    packet.key =
        FlowKey { src: endpoint_v6(src), dst: endpoint_v6(dst), protocol: Protocol(protocol) };
    passed?;
    let described = match upper.fragment {
        None => transport::describe(frame, packet),
        Some((offset, identification)) => {
            fragment::describe(frame, packet, offset, identification);
            Ok(())
        }
    };
    note_control(frame, packet, header[7]);
    if upper.authenticated {
        frame.authenticated = true;
        packet.tcp = None;
    }
    described
}

/// The result of parsing the extension headers of an IPv6 packet.
struct Upper {
    protocol: u8,
    /// The fragment offset in units of 8 bytes, and the identification.
    fragment: Option<(u16, u32)>,
    authenticated: bool,
}

/// Advances past the extension headers in a first fragment, which follow its fragment header.
/// Returns the protocol behind them. `None` if a header is incomplete or is another fragment
/// header.
pub(super) fn pass_in_fragment(frame: &mut Cursor<'_>, first: u8) -> Option<u8> {
    let mut upper = Upper { protocol: first, fragment: None, authenticated: false };
    pass_extensions(frame, &mut upper).ok().filter(|()| upper.protocol != HOP_BY_HOP)?;
    upper.fragment.is_none().then_some(upper.protocol)
}

/// The protocol behind the extension headers of an IPv6 packet, its offset, and `true` if the
/// packet is a fragment. The first extension header has the type `first` and begins at `at`. `None`
/// if a header is incomplete.
pub(crate) fn behind_extensions(packet: &[u8], at: usize, first: u8) -> Option<(u8, usize, bool)> {
    let mut cursor = Cursor { at, ..Cursor::new(packet, packet.len()) };
    let mut upper = Upper { protocol: first, fragment: None, authenticated: false };
    pass_extensions(&mut cursor, &mut upper).ok()?;
    Some((upper.protocol, cursor.at, upper.fragment.is_some()))
}

/// Advances past extension headers, up to and including the first fragment header. On entry, the
/// protocol in `upper` is the type of the first extension header.
fn pass_extensions(frame: &mut Cursor<'_>, upper: &mut Upper) -> Result<(), Oddity> {
    let mut first = true;
    while upper.fragment.is_none() {
        let len: fn(u8) -> usize = match upper.protocol {
            HOP_BY_HOP if !first => return Err(Oddity::Ipv6),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => |len| usize::from(len) * 8 + 8,
            FRAGMENT => |_| 8,
            protocol if Protocol(protocol) == Protocol::AUTHENTICATION => authentication_len,
            _ => return Ok(()),
        };
        let [next, words, high, low] = *frame.peek().ok_or(Oddity::Ipv6)?;
        let len = len(words);
        if len > frame.left() {
            return Err(Oddity::Ipv6);
        }
        upper.authenticated |= Protocol(upper.protocol) == Protocol::AUTHENTICATION;
        // A packet that is not fragmented may have a fragment header, which has no effect (RFC
        // 6946).
        if upper.protocol == FRAGMENT && be16(high, low) & V6_FRAGMENT != 0 {
            let [.., a, b, c, d] = *frame.peek::<8>().ok_or(Oddity::Ipv6)?;
            let identification = u32::from_be_bytes([a, b, c, d]);
            upper.fragment = Some((be16(high, low) >> V6_OFFSET_SHIFT, identification));
        }
        frame.at += len;
        upper.protocol = next;
        first = false;
    }
    Ok(())
}

/// Length of an authentication header whose payload length field is `words` (RFC 4302, section
/// 2.2).
fn authentication_len(words: u8) -> usize {
    usize::from(words) * 4 + 8
}

/// An address of an IPv6 header.
///
/// IPv4 endpoints are stored as IPv6-mapped addresses. An IPv6 packet with a mapped address must
/// not look like IPv4 to a filter. It therefore gets the IPv4-translated form of the address (RFC
/// 2765, section 2.1), which has the same checksum.
fn endpoint_v6(mut address: [u8; 16]) -> Endpoint {
    if let [0, 0, 0, 0, 0, 0, 0, 0, marks @ .., _, _, _, _] = &mut address
        && *marks == [0, 0, 0xff, 0xff]
    {
        *marks = [0xff, 0xff, 0, 0];
    }
    Endpoint::v6(address, 0)
}

/// The length in a header's `field`. The length of a super-packet may not fit: the field is then
/// zero, and the length is `left`.
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

/// Bits that are zero unless the packet is a fragment: "more fragments" and the offset (RFC 791,
/// section 3.1).
const V4_FRAGMENT: u16 = 0x3fff;
/// Bits of the fragment offset, in units of 8 bytes (RFC 791, section 3.1).
const V4_OFFSET: u16 = 0x1fff;
/// Bits that are zero unless the packet is a fragment: the offset and "more fragments" (RFC 8200,
/// section 4.5).
const V6_FRAGMENT: u16 = 0xfff9;
/// Position of the fragment offset, which is above the flags. Its unit is 8 bytes.
const V6_OFFSET_SHIFT: u32 = 3;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const NO_NEXT_HEADER: u8 = 59;
const DESTINATION_OPTIONS: u8 = 60;
