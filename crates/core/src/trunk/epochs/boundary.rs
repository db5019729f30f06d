//! Selection of the user packets that divide epochs, by a hash of fields that no hop changes.
//!
//! A packet is a boundary if `hash mod 2^power = 0`. Both ends compute the same hash, and so find
//! the same boundaries.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): epochs, with sizes that are powers of two.
//! Differs:
//! - Bundler hashes the destination and the IP identification. IPv6 has no identification, and much
//!   of IPv4 has a zero or constant one.
//! - The hash covers the 5-tuple. For TCP it also covers sequence and acknowledgement number,
//!   payload length, SYN, FIN, RST and timestamps. For UDP it also covers checksum and length.
//! - Codepoint, hop limit and window are left out, because they change on the path. Fragments, and
//!   packets other than TCP without a checksum, are no boundaries.
//! - A TCP retransmission with timestamps has another hash than its original.

use crate::Packet;
use crate::packet::{Endpoint, TcpFlags, TcpSegment};
use crate::random::{halves, mixed};
use crate::trunk::packet::network_len;

/// Mean number of packets from one boundary to the next: `2^power`.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Spacing(u8);

impl Spacing {
    /// The greatest power. An eighth of a round trip at 100 Gbit/s and 300 ms has fewer packets
    /// than `2^20`.
    const WIDEST: u8 = 20;

    /// The spacing of `2^power` packets, with at most [`WIDEST`](Self::WIDEST) as power.
    pub(super) fn of_power(power: u16) -> Self {
        Self(u8::try_from(power).map_or(Self::WIDEST, |it| it.min(Self::WIDEST)))
    }

    pub(super) fn power(self) -> u16 {
        u16::from(self.0)
    }

    /// Packets between two boundaries, on average.
    pub(super) const fn packets(self) -> u64 {
        1 << self.0
    }

    /// The spacing for `packets` in a round trip: an eighth, rounded down to a power of two. The
    /// spacing stays unchanged while a round trip has between six and sixteen epochs.
    pub(super) fn adapted(self, packets: u64) -> Self {
        if (6 * self.packets()..16 * self.packets()).contains(&packets) {
            return self;
        }
        let eighth = (packets / 8).max(1);
        Self(u8::try_from(eighth.ilog2()).unwrap_or(Self::WIDEST).min(Self::WIDEST))
    }
}

/// The name of `packet` if it ends an epoch at this `spacing`. A boundary of a wide spacing is also
/// a boundary of each narrower spacing. So ends with different spacings share the boundaries of the
/// wider one.
pub(super) fn boundary(packet: &Packet, spacing: Spacing) -> Option<u32> {
    let identity = identity(packet)?;
    let ends = identity & (spacing.packets() - 1) == 0;
    ends.then(|| u32::try_from(identity >> 32).unwrap_or(0))
}

/// The frames of `packet` on the path: the packet itself, or the segments of a TCP super-packet.
/// The checksums of the segments of a UDP super-packet are unknown. It becomes one frame with the
/// length of all segments.
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

/// One frame with the length of all segments of a UDP super-packet. It has no checksum, so it is no
/// boundary.
fn joined(packet: &Packet, segments: u32) -> Packet {
    let header = packet.headers().saturating_sub(u32::from(packet.network_offset));
    let len = packet.len + (segments - 1) * header;
    Packet { len, checksum: 0, segments: 1, ..*packet }
}

/// Hash of the fields that no hop changes. `None` if the packet does not differ from other packets
/// of its flow.
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
