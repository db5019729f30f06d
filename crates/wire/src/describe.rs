//! Parses a frame into a packet descriptor: protocols, flow key, and offsets of the headers.

mod control;
mod fragment;
mod inside;
mod ip;
mod link;
mod oddity;
mod transport;

use std::ops::Range;

use tidegate_core::Packet;
use tidegate_core::packet::{
    Endpoint, FlowKey, Kind, NO_VLAN, Network, Outer, Protocol, QueueIndex,
};

pub(crate) use ip::behind_extensions;
pub use oddity::{Oddities, Oddity};
pub(crate) use transport::timestamps_at;

use crate::ethertype;

/// Fills in `packet` for the frame of `len` bytes that begins with `head`, by its outermost IP
/// header.
///
/// `head` is the whole frame, or its first contiguous part, which should contain all headers. The
/// function overwrites every field of `packet`: `cost` becomes `len`, `segments` becomes one, and
/// `arrived`, `flow` and `queue_index` get their defaults. For control traffic, `queue_index` identifies the
/// sending station instead.
///
/// Returns the first fault of the frame, which the caller counts. A faulty frame is described up to
/// the fault, and is forwarded nevertheless. It is [`Network::Opaque`] only if its IP addresses
/// cannot be read.
///
/// Opaque frames with equal ethertypes form one flow, with the ethertype as both ports. The ports
/// are zero for IEEE 802.3 frames with a length field. An ICMP echo has its identifier as both
/// ports.
///
/// `tcp` is `None` behind an authentication header, because rewriting TCP would break its integrity
/// check (RFC 4302, section 3.3.3.1).
///
/// ```
/// use tidegate_core::Packet;
/// use tidegate_core::packet::{Network, Protocol};
/// use tidegate_wire::build::{Frame, Link};
/// use tidegate_wire::describe;
///
/// let mut frame = Frame::udp("10.0.0.1:5000".parse().unwrap(), "10.9.0.1:53".parse().unwrap());
/// frame.link.push(Link::vlan(7));
/// let bytes = frame.bytes();
/// let mut packet = Packet::default();
/// assert_eq!(describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut packet), None);
/// assert_eq!((packet.network, packet.vlan), (Network::Ipv4, 7));
/// assert_eq!((packet.key.protocol, packet.key.dst.port), (Protocol::UDP, 53));
/// ```
pub fn describe(head: &[u8], len: u32, packet: &mut Packet) -> Option<Oddity> {
    read(head, len, packet, None)
}

/// Fills in `packet` for the frame of `len` bytes that begins with `head`, by the innermost header
/// that can be read.
///
/// Unlike [`describe`], this function looks into unencrypted tunnels, at most [`Outer::MOST`] deep.
/// In a tunnel, `key`, `tcp`, `transport_offset`, `checksum` and `fragment` describe the innermost
/// header. `network`, `network_offset`, `ecn`, `dscp` and `vlan` describe the outermost headers.
/// `outer`, which must be `None` before the call, receives the tunnel headers and the second VLAN
/// tag.
pub fn describe_innermost(
    head: &[u8],
    len: u32,
    packet: &mut Packet,
    outer: &mut Option<Outer>,
) -> Option<Oddity> {
    read(head, len, packet, Some(outer))
}

#[inline]
fn read(
    head: &[u8],
    len: u32,
    packet: &mut Packet,
    outer: Option<&mut Option<Outer>>,
) -> Option<Oddity> {
    *packet = Packet { len, cost: len, vlan: NO_VLAN, segments: 1, ..Packet::default() };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let end = len.max(head.len());
    let mut frame = Cursor::new(head, end);
    let mut described = match link::skip(&mut frame, packet) {
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
    if let Some(outer) = outer {
        if frame.second_vlan != NO_VLAN {
            outer.get_or_insert_default().second_vlan = frame.second_vlan;
        }
        if described.is_ok() && inside::may_be(&frame, packet) {
            described = inside::look(&mut frame, packet, outer);
        }
    }
    described.err().or(frame.odd)
}

/// Offset of the PPPoE header in `frame`. `None` without a PPPoE header.
pub(crate) fn pppoe_session(frame: &[u8]) -> Option<usize> {
    let mut frame = Cursor::new(frame, frame.len());
    link::skip(&mut frame, &mut Packet::default()).ok()?;
    Some(frame.session).filter(|at| *at > 0)
}

/// The payload of the link-layer headers of `frame`: its network protocol, its byte range, and its
/// ethertype.
pub(crate) fn behind_link(frame: &[u8]) -> Option<(Network, Range<usize>, u16)> {
    let mut cursor = Cursor::new(frame, frame.len());
    let network = link::skip(&mut cursor, &mut Packet::default()).ok()?;
    Some((network, cursor.at..cursor.end, cursor.ethertype))
}

/// Marks `packet` as control traffic from `source`.
const fn is_control(packet: &mut Packet, source: u32) {
    packet.kind = Kind::Control;
    packet.queue_index = QueueIndex(source);
}

const fn opaque(ethertype: u16) -> FlowKey {
    let port = if ethertype < ethertype::SMALLEST { 0 } else { ethertype };
    let end = Endpoint::v6([0; 16], port);
    FlowKey { src: end, dst: end, protocol: Protocol::OPAQUE }
}

/// A reader at a position in a frame.
struct Cursor<'a> {
    /// The available bytes of the frame, which may end before `end`.
    head: &'a [u8],
    /// Offset of the next header.
    at: usize,
    /// End of the innermost header's payload. Padding may follow.
    end: usize,
    /// Ethertype or length field of the innermost link-layer header.
    ethertype: u16,
    /// Protocol field of PPP; zero without PPP.
    ppp: u16,
    /// VLAN identifier of the second tag, or [`NO_VLAN`].
    second_vlan: u16,
    /// The frame has an authentication header before the current position.
    authenticated: bool,
    /// Offset of the PPPoE header. Zero without a PPPoE header.
    session: usize,
    /// A fault of the link layer after which the IP header can still be read.
    odd: Option<Oddity>,
}

impl<'a> Cursor<'a> {
    /// A reader at the beginning of a frame. The frame begins with `head` and ends at `end`.
    #[inline]
    const fn new(head: &'a [u8], end: usize) -> Self {
        Self {
            head,
            at: 0,
            end,
            ethertype: 0,
            ppp: 0,
            second_vlan: NO_VLAN,
            authenticated: false,
            session: 0,
            odd: None,
        }
    }

    /// The next `N` bytes. The position stays.
    #[inline]
    fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.head.get(self.at..)?.first_chunk()
    }

    /// The next `N` bytes. The position advances past them.
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let bytes = self.peek()?;
        self.at += N;
        Some(bytes)
    }

    /// Remaining bytes before `end`.
    #[inline]
    const fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Reduces `end` to `len` bytes after the current position. `None` if fewer bytes remain.
    #[inline]
    fn limit(&mut self, len: usize) -> Option<()> {
        if len > self.left() {
            return None;
        }
        self.end = self.at + len;
        self.head = self.head.get(..self.end).unwrap_or(self.head);
        Some(())
    }

    /// The current position as a `u16`, the type of the descriptor's offsets.
    #[inline]
    fn offset(&self) -> u16 {
        // Only extension headers of more than 60,000 bytes exceed the range.
        u16::try_from(self.at).unwrap_or(0)
    }
}

const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
