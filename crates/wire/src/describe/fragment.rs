//! Fragments of IPv4 and IPv6 datagrams: the ports of first ones, the position of later ones.
//!
//! Sources: RFC 791, section 3.2; RFC 8200, section 4.5; RFC 1858, section 3 (tiny fragments).
//!
//! Differs: of a first fragment only ports and protocol are described. Its TCP header and checksum
//! are those of the whole datagram, so nothing in it may be rewritten.

use tidegate_core::Packet;
use tidegate_core::packet::{Fragment, Network, Protocol};

use super::{Cursor, ip, transport};

/// Describes a fragment at `offset` units of 8 bytes; `frame` is positioned at its data.
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

/// Reads protocol and ports of a first fragment. `None` if it ends before the ports (RFC 7112
/// forbids that), or before the flags of TCP.
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
