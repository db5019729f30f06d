//! Parses a frame into a packet descriptor: protocols, flow key, and offsets of the headers.

mod control;
mod fragment;
mod ip;
mod link;
mod oddity;
mod transport;

use tidegate_core::Packet;
use tidegate_core::packet::{Endpoint, FlowKey, Kind, Member, NO_VLAN, Network, Protocol};

pub use oddity::{Oddities, Oddity};
pub(crate) use transport::timestamps_at;

use crate::ethertype;

/// Describes the frame of `len` bytes that begins with `head`.
///
/// `head` is the whole frame or its first contiguous part, which should contain all headers. The
/// function overwrites every field of `packet`. `cost` becomes `len`, and `segments` becomes one.
/// `arrived`, `flow` and `member` get their defaults, except that `member` of control traffic
/// identifies the sending station.
///
/// Returns the first oddity of the frame, which the caller counts. An odd frame is described up to the
/// oddity, or as [`Network::Opaque`], and is forwarded nevertheless.
///
/// Opaque frames of one ethertype are one flow, with the ethertype as both ports. The ports are zero
/// for IEEE 802.3 frames with a length field. Both ports of an ICMP echo are its identifier.
///
/// Behind an IPv6 authentication header, `tcp` is `None`: rewriting TCP would break the integrity
/// check (RFC 4302, section 3.3.3.1).
pub fn describe(head: &[u8], len: u32, packet: &mut Packet) -> Option<Oddity> {
    *packet = Packet { len, cost: len, vlan: NO_VLAN, segments: 1, ..Packet::default() };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let end = len.max(head.len());
    let mut frame = Cursor { head, at: 0, end, ethertype: 0, ppp: 0 };
    let described = match link::skip(&mut frame, packet) {
        Ok(Network::Ipv4) => ip::describe_v4(&mut frame, packet),
        Ok(Network::Ipv6) => ip::describe_v6(&mut frame, packet),
        Ok(Network::Opaque) => Ok(()),
        Err(oddity) => Err(oddity),
    };
    if packet.network == Network::Opaque {
        packet.key = opaque(frame.ethertype);
        if control::is_of_link(&frame) {
            is_control(packet, control::source(head, None));
        }
    }
    described.err()
}

/// Marks `packet` as control traffic from `source`.
const fn is_control(packet: &mut Packet, source: u32) {
    packet.kind = Kind::Control;
    packet.member = Member(source);
}

const fn opaque(ethertype: u16) -> FlowKey {
    let port = if ethertype < ethertype::SMALLEST { 0 } else { ethertype };
    let end = Endpoint::v6([0; 16], port);
    FlowKey { src: end, dst: end, protocol: Protocol::OPAQUE }
}

/// A position in a frame.
struct Cursor<'a> {
    /// The available bytes from the beginning of the frame, at most up to `end`.
    head: &'a [u8],
    /// Offset of the next header.
    at: usize,
    /// End of the innermost layer parsed so far; padding follows.
    end: usize,
    /// Ethertype or length field of the innermost link-layer header.
    ethertype: u16,
    /// Protocol field of PPP; zero without PPP.
    ppp: u16,
}

impl<'a> Cursor<'a> {
    /// The next `N` bytes, without advancing.
    #[inline]
    fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.head.get(self.at..)?.first_chunk()
    }

    /// The next `N` bytes; advances past them.
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let bytes = self.peek()?;
        self.at += N;
        Some(bytes)
    }

    /// Remaining bytes of the innermost layer.
    #[inline]
    const fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Ends the innermost layer after `len` more bytes; `None` if fewer remain.
    #[inline]
    fn limit(&mut self, len: usize) -> Option<()> {
        if len > self.left() {
            return None;
        }
        self.end = self.at + len;
        self.head = self.head.get(..self.end).unwrap_or(self.head);
        Some(())
    }

    /// The current offset, in the type of the descriptor's fields.
    #[inline]
    fn offset(&self) -> u16 {
        // At most 8 link headers of 4 to 14 bytes and 8 extension headers of 8 to 2,048 bytes.
        u16::try_from(self.at).unwrap_or(0)
    }
}

const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
