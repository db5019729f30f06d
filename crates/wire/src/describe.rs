//! Bytes to descriptor: what a frame carries, who talks to whom, and where its headers are.

mod control;
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
/// `head` is the whole frame, or what of it is contiguous; all headers should be in it. Every field
/// of `packet` is overwritten: `cost` with `len`, `segments` with one, and what only the caller can
/// know (`arrived`, `flow`, `member`) with its default; but `member` of control traffic says which
/// station sent it. What is odd about the frame is returned to be
/// counted; it is described as far as it could be understood, else as [`Network::Opaque`], and
/// forwarded in any case.
///
/// Opaque frames are one flow per ethertype, which is the port on both ends (zero for IEEE 802.3
/// frames with a length instead). The ICMP identifier is the port on both ends of an echo.
///
/// Behind an IPv6 authentication header, `tcp` is `None`: rewriting it would break the integrity
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

/// Notes that it is control traffic, and of which source.
const fn is_control(packet: &mut Packet, source: u32) {
    packet.kind = Kind::Control;
    packet.member = Member(source);
}

const fn opaque(ethertype: u16) -> FlowKey {
    let port = if ethertype < ethertype::SMALLEST { 0 } else { ethertype };
    let end = Endpoint::v6([0; 16], port);
    FlowKey { src: end, dst: end, protocol: Protocol::OPAQUE }
}

/// A place in a frame.
struct Cursor<'a> {
    /// Its bytes from the first on, as far as they are at hand, and not beyond `end`.
    head: &'a [u8],
    /// Where the next header begins.
    at: usize,
    /// Where the innermost layer so far ends; padding lies beyond.
    end: usize,
    /// What the innermost link-layer header says it carries.
    ethertype: u16,
    /// What PPP says it carries, if there is PPP.
    ppp: u16,
}

impl<'a> Cursor<'a> {
    /// The next `N` bytes, not yet passed.
    #[inline]
    fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.head.get(self.at..)?.first_chunk()
    }

    /// The next `N` bytes, passed.
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let bytes = self.peek()?;
        self.at += N;
        Some(bytes)
    }

    /// Bytes of the innermost layer not yet passed.
    #[inline]
    const fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Says that only `len` more bytes belong to the innermost layer; `None` if fewer are left.
    #[inline]
    fn limit(&mut self, len: usize) -> Option<()> {
        if len > self.left() {
            return None;
        }
        self.end = self.at + len;
        self.head = self.head.get(..self.end).unwrap_or(self.head);
        Some(())
    }

    /// Where it stands, as descriptors say it.
    #[inline]
    fn offset(&self) -> u16 {
        // At most 8 link headers of 4 to 14 bytes and 8 extension headers of 8 to 2,048 bytes.
        u16::try_from(self.at).unwrap_or(0)
    }
}

const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
