//! Parses fragments of IPv4 and IPv6 datagrams: the ports of a first fragment, and the position of
//! a later fragment.
//!
//! Source: RFC 791, section 3.2; RFC 8200, section 4.5; RFC 1858, section 3 (tiny fragments).
//!
//! Differs: for a first fragment, only ports and protocol are set, and `tcp` is `None`. The TCP
//! checksum covers the whole datagram, so the fragment's TCP header must not be rewritten.

use tidegate_core::Packet;
use tidegate_core::packet::{Fragment, Network, Protocol};

use super::{Cursor, ip, transport};

/// Parses a fragment with this `offset` in units of 8 bytes. `frame` is positioned at the
/// fragment's data.
#[cold]
pub(super) fn describe(
    frame: &mut Cursor<'_>,
    packet: &mut Packet,
    offset: u16,
    identification: u32,
) {
    packet.set_identification(identification);
    packet.fragment = match offset {
        0 => first(frame, packet).unwrap_or(Fragment::TINY),
        _ => Fragment::later(offset),
    };
}

/// Reads protocol and ports of a first fragment. `None` if the fragment ends before the ports,
/// which RFC 7112 forbids, or before the flags of TCP.
fn first(frame: &mut Cursor<'_>, packet: &mut Packet) -> Option<Fragment> {
    let begin = frame.at;
    let mut protocol = packet.key.protocol;
    let authenticated = packet.network == Network::Ipv4 && protocol == Protocol::AUTHENTICATION;
    if packet.network == Network::Ipv6 {
        protocol = Protocol(ip::pass_in_fragment(frame, protocol.0)?);
    } else {
        protocol = ip::pass_authentication(frame, protocol)?;
    }
    let (ports, len) = transport::ports(frame, protocol)?;
    packet.key.protocol = protocol;
    [packet.key.src.port, packet.key.dst.port] = ports;
    let first = Fragment::first(frame.at + len - begin);
    Some(if authenticated { first.authenticated() } else { first })
}
