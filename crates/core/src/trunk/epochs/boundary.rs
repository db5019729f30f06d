//! Selection of the user packets that end an epoch, the *boundaries*.
//!
//! A packet is a boundary if `hash mod 2^power = 0`. The hash covers only header fields that no router changes. So
//! both gateways select the same packets, without a mark in them. On average, one of `2^power` packets is a boundary.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): epochs, whose mean lengths are powers of two.
//! Differs:
//! - Bundler hashes the destination and the IP identification. But IPv6 has no identification, and many hosts set it
//!   to zero or a constant in IPv4.
//! - This hash covers the 5-tuple. For TCP it also covers sequence and acknowledgement number, payload length, SYN, FIN,
//!   RST and timestamps. For UDP it also covers checksum and length.
//! - DS codepoint, hop limit and TCP window are left out, because routers or gateways may change them. A fragment is
//!   never a boundary. A packet other than TCP is a boundary only if it has a checksum.
//! - The retransmission of a TCP segment with timestamps has another hash than the original.

use crate::Packet;
use crate::packet::{Endpoint, TcpFlags, TcpSegment};
use crate::random::{halves, mixed};
use crate::trunk::packet::network_len;

/// The mean number of packets from one boundary to the next, `2^power`. The field is `power`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Spacing(u8);

impl Spacing {
    /// The greatest power. At 100 Gbit/s and 300 ms, an eighth of a round trip has 313,000 packets, which
    /// is less than `2^20`.
    const WIDEST: u8 = 20;

    /// The spacing of `2^power` packets. A power above [`WIDEST`](Self::WIDEST) counts as `WIDEST`.
    pub(super) fn of_power(power: u16) -> Self {
        Self(u8::try_from(power).map_or(Self::WIDEST, |it| it.min(Self::WIDEST)))
    }

    pub(super) fn power(self) -> u16 {
        u16::from(self.0)
    }

    /// Mean number of packets from one boundary to the next.
    pub(super) const fn packets(self) -> u64 {
        1 << self.0
    }

    /// The spacing for a round trip of `packets` packets: `packets / 8`, rounded down to a power of two. The present
    /// spacing is kept while a round trip has six to fifteen epochs, so that it does not oscillate.
    pub(super) fn adapted(self, packets: u64) -> Self {
        if (6 * self.packets()..16 * self.packets()).contains(&packets) {
            return self;
        }
        let eighth = (packets / 8).max(1);
        Self(u8::try_from(eighth.ilog2()).unwrap_or(Self::WIDEST).min(Self::WIDEST))
    }
}

/// The name of `packet`, a part of its hash, if the packet is a boundary at this `spacing`.
///
/// A boundary at a wide spacing is also a boundary at each narrower spacing. Gateways with different spacings
/// therefore agree on the boundaries of the wider one.
pub(super) fn boundary(packet: &Packet, spacing: Spacing) -> Option<u32> {
    let identity = identity(packet)?;
    let ends = identity & (spacing.packets() - 1) == 0;
    ends.then(|| u32::try_from(identity >> 32).unwrap_or(0))
}

/// The frames of `packet` on the path: the packet itself, or each segment of a TCP super-packet.
///
/// A UDP super-packet counts as one frame with the bytes of all its segments, because the checksums of the segments
/// are unknown.
pub(super) fn frames(packet: &Packet) -> impl Iterator<Item = Packet> + use<> {
    let packet = *packet;
    let count = match packet.tcp {
        Some(_) if packet.segment > 0 => packet.segments.max(1),
        _ => 1,
    };
    (0..count).map(move |number| match (packet.segments, packet.tcp) {
        (0 | 1, _) => packet,
        (_, Some(tcp)) => cut(&packet, &tcp, u32::from(number)),
        (more, None) => joined(&packet, u32::from(more)),
    })
}

/// Frame `number` of a TCP super-packet.
fn cut(packet: &Packet, tcp: &TcpSegment, number: u32) -> Packet {
    let size = u32::from(packet.segment);
    let before = (number * size).min(tcp.payload);
    let payload = size.min(tcp.payload - before);
    let last = before + payload == tcp.payload;
    let flags = if last { tcp.flags } else { TcpFlags(tcp.flags.0 & !TcpFlags::FIN) };
    let len = packet.len.saturating_sub(tcp.payload) + payload;
    let tcp = TcpSegment { seq: tcp.seq.wrapping_add(before), payload, flags, ..*tcp };
    Packet { len, tcp: Some(tcp), segments: 1, segment: 0, ..*packet }
}

/// One frame with the bytes of all segments of a UDP super-packet. Its checksum is zero, so it is never a
/// boundary.
fn joined(packet: &Packet, segments: u32) -> Packet {
    let header = packet.headers().saturating_sub(u32::from(packet.network_offset));
    let len = packet.len + (segments - 1) * header;
    Packet { len, checksum: 0, segments: 1, ..*packet }
}

/// Hash of the header fields that no router changes. `None` if these fields do not distinguish the
/// packet from other packets of its flow.
fn identity(packet: &Packet) -> Option<u64> {
    let content = match (packet.fragment.is_part(), packet.tcp) {
        (false, Some(tcp)) => {
            let (value, echo) = tcp.timestamps.unwrap_or_default();
            let flags = tcp.flags.0 & (TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST);
            [pair(tcp.seq, tcp.ack), pair(value, echo), pair(tcp.payload, u32::from(flags))]
        }
        (false, None) if packet.checksum != 0 => {
            [u64::from(packet.checksum), network_len(packet), 0]
        }
        _ => return None,
    };
    let ports = pair(u32::from(packet.key.src.port), u32::from(packet.key.dst.port));
    let words = [packet.key.src, packet.key.dst].map(address).into_iter().flatten();
    let words = words.chain([ports, u64::from(packet.key.protocol.0)]).chain(content);
    Some(words.fold(0, |hash, word| mixed(hash ^ word)))
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn address(endpoint: Endpoint) -> [u64; 2] {
    let (high, low) = halves(endpoint.number());
    [high, low]
}
