//! Parses TCP headers with their options, UDP headers, and ICMP echo.

use tidegate_core::Packet;
use tidegate_core::packet::{Options, Protocol, TcpFlags, TcpSegment};

use super::{Cursor, Oddity, be16};
use crate::option::{
    self, AUTHENTICATION, MD5, MPTCP, MSS, NOP, SACK, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE,
};

/// Parses the header of the protocol in `packet.key`. Protocols without ports leave the ports zero.
#[inline]
pub(super) fn describe(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    match packet.key.protocol {
        Protocol::TCP => tcp(frame, packet),
        Protocol::UDP => udp(frame, packet),
        Protocol::ICMP => icmp(frame, packet, ICMP_ECHO),
        Protocol::ICMPV6 => icmp(frame, packet, ICMPV6_ECHO),
        _ => Ok(()),
    }
}

/// The ports of a first fragment, and the length of the header that the fragment must contain.
/// `None` if the fragment is shorter. Protocols without ports yield zeros.
///
/// Source: RFC 1858, section 3.1 (TCP up to its flags); RFC 768, RFC 792 (the whole header).
pub(super) fn ports(frame: &Cursor<'_>, protocol: Protocol) -> Option<([u16; 2], usize)> {
    let echo = match protocol {
        Protocol::TCP if frame.left() < TCP_FLAGS => return None,
        Protocol::TCP | Protocol::UDP => {
            let header = frame.peek::<8>()?;
            let ports = [be16(header[0], header[1]), be16(header[2], header[3])];
            let len = if protocol == Protocol::TCP { TCP_FLAGS } else { header.len() };
            return Some((ports, len));
        }
        Protocol::ICMP => ICMP_ECHO,
        Protocol::ICMPV6 => ICMPV6_ECHO,
        _ => return Some(([0; 2], 0)),
    };
    let header = frame.peek::<8>()?;
    let identifier = if echo.contains(&header[0]) { be16(header[4], header[5]) } else { 0 };
    Some(([identifier; 2], header.len()))
}

/// Reads ports and checksum of a UDP header (RFC 768).
fn udp(frame: &Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    let header = frame.peek::<8>().ok_or(Oddity::Transport)?;
    packet.transport_offset = frame.offset();
    packet.key.src.port = be16(header[0], header[1]);
    packet.key.dst.port = be16(header[2], header[3]);
    packet.checksum = be16(header[6], header[7]);
    Ok(())
}

/// Reads the identifier of an ICMP echo as both ports. `echo` are the types of request and reply.
///
/// Source: RFC 792; RFC 4443, section 4.
fn icmp(frame: &Cursor<'_>, packet: &mut Packet, echo: [u8; 2]) -> Result<(), Oddity> {
    let header = frame.peek::<8>().ok_or(Oddity::Transport)?;
    packet.transport_offset = frame.offset();
    if echo.contains(&header[0]) {
        let identifier = be16(header[4], header[5]);
        packet.key.src.port = identifier;
        packet.key.dst.port = identifier;
    }
    Ok(())
}

/// Reads a TCP header with its options.
///
/// Source: RFC 9293, section 3.1.
#[inline]
fn tcp(frame: &mut Cursor<'_>, packet: &mut Packet) -> Result<(), Oddity> {
    let header = frame.peek::<20>().ok_or(Oddity::Transport)?;
    packet.key.src.port = be16(header[0], header[1]);
    packet.key.dst.port = be16(header[2], header[3]);
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < header.len() || header_len > frame.left() {
        return Err(Oddity::Transport);
    }
    packet.transport_offset = frame.offset();
    let segment = packet.tcp.insert(TcpSegment {
        seq: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        ack: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        payload: u32::try_from(frame.left() - header_len).unwrap_or(u32::MAX),
        window: be16(header[14], header[15]),
        flags: TcpFlags(header[13]),
        high_flags: header[12] & 0x0f,
        ..TcpSegment::default()
    });
    if header_len == header.len() {
        return Ok(());
    }
    let options = frame.head.get(frame.at + header.len()..frame.at + header_len);
    if options.and_then(|options| tcp_options(options, segment)).is_none() {
        unknown(segment);
        return Err(Oddity::TcpOptions);
    }
    Ok(())
}

/// Reads the options into `segment`. Returns `None` if the length of an option is wrong.
///
/// As in Linux (`tcp_parse_options`), an option with a wrong length for its kind is skipped, and
/// later options are read. A length below 2 or beyond the header ends the parsing.
///
/// Source: RFC 9293, section 3.1; RFC 2018 (SACK); RFC 7323 (window scale, timestamps); RFC 2385
/// and RFC 5925 (digests); RFC 8684 (MPTCP).
fn tcp_options(options: &[u8], segment: &mut TcpSegment) -> Option<()> {
    // Fast path: the usual options of all segments after the SYN (RFC 7323, appendix A).
    if let [NOP, NOP, TIMESTAMPS, 10, times @ ..] = options
        && let Ok(times) = times.try_into()
    {
        segment.timestamps = Some(timestamps(times));
        return Some(());
    }
    let syn = segment.flags.any(TcpFlags::SYN);
    let mut sound = Some(());
    for option in option::each(options) {
        let (kind, body) = option?;
        if tcp_option(kind, body, syn, segment).is_none() {
            sound = None;
        }
    }
    sound
}

/// Offset in `options` of the timestamps that a descriptor states.
pub(crate) fn timestamps_at(options: &[u8]) -> Option<usize> {
    let sound = option::each_at(options).map_while(|option| option);
    let timestamps = sound.filter(|(_, kind, body)| *kind == TIMESTAMPS && body.len() == 8);
    timestamps.last().map(|(at, ..)| at)
}

/// Reads one option into `segment`. Returns `None` if its length is wrong for its kind.
fn tcp_option(kind: u8, body: &[u8], syn: bool, segment: &mut TcpSegment) -> Option<()> {
    match (kind, body) {
        (MSS, &[high, low]) if syn => segment.mss = be16(high, low),
        (WINDOW_SCALE, &[shift]) if syn => segment.window_scale = Some(shift.min(MAX_SHIFT)),
        (SACK_PERMITTED, []) if syn => segment.sack_permitted = true,
        (SACK, blocks) if !blocks.is_empty() && blocks.len() % 8 == 0 => segment.has_sack = true,
        (TIMESTAMPS, body) => segment.timestamps = Some(timestamps(body.try_into().ok()?)),
        (MD5 | AUTHENTICATION, _) => segment.authenticated = true,
        (MPTCP, _) => segment.options = Options::Multipath,
        (MSS, [_, _]) | (WINDOW_SCALE, [_]) | (SACK_PERMITTED, []) => unknown(segment),
        (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK, _) => return None,
        _ => unknown(segment),
    }
    Some(())
}

fn unknown(segment: &mut TcpSegment) {
    if segment.options == Options::None {
        segment.options = Options::Unknown;
    }
}

const fn timestamps(body: [u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = body;
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// Length of a TCP header up to and including its flags (RFC 1858, section 3.1: TMIN).
const TCP_FLAGS: usize = 16;
/// Types of echo request and reply (RFC 792; RFC 4443, section 4).
const ICMP_ECHO: [u8; 2] = [8, 0];
const ICMPV6_ECHO: [u8; 2] = [128, 129];
/// The largest window scale. Larger values count as this value (RFC 7323, section 2.3).
const MAX_SHIFT: u8 = 14;
