//! Which user packets divide epochs: both ends see it by themselves, of what no hop changes.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler): epochs, and sizes of them that are powers of two.
//! Differs: Bundler hashes the destination and the IP identification, which IPv6 does not have and
//! which is zero or constant in much of IPv4. Here it is the 5-tuple and, of TCP, sequence and
//! acknowledgement number, payload and timestamps, of UDP its checksum and length; a retransmission of
//! TCP with timestamps is so another packet. Codepoints, hop limits and windows are left out: they change on the way. A packet
//! with nothing to tell it from others of its flow is no boundary.

use crate::Packet;
use crate::packet::{Endpoint, TcpFlags, TcpSegment};
use crate::random::{halves, mixed};
use crate::trunk::packet::network_len;

/// Every how many packets an epoch ends, on average: two to the power of this.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Spacing(u8);

impl Spacing {
    /// No further apart than this: what a path of 100 Gbit/s and 300 ms has in an eighth of a round trip.
    const WIDEST: u8 = 20;

    /// The one of this power; the widest if that would be wider.
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

    /// What it is to be where `packets` are sent in a round trip: an eighth of them, but as it is
    /// while there are between six and sixteen epochs in one.
    pub(super) fn adapted(self, packets: u64) -> Self {
        if (6 * self.packets()..16 * self.packets()).contains(&packets) {
            return self;
        }
        let eighth = (packets / 8).max(1);
        Self(u8::try_from(eighth.ilog2()).unwrap_or(Self::WIDEST).min(Self::WIDEST))
    }
}

/// The name of `packet`, if it ends an epoch at this spacing. What ends one ends one at every closer
/// spacing too: ends that do not agree on it yet have those of the wider one in common.
pub(super) fn boundary(packet: &Packet, spacing: Spacing) -> Option<u32> {
    let identity = identity(packet)?;
    let ends = identity & (spacing.packets() - 1) == 0;
    ends.then(|| u32::try_from(identity >> 32).unwrap_or(0))
}

/// The frames that `packet` is on the path: itself, or, if it is a super-packet, what it is cut into
/// there. Of a super-packet of UDP, whose frames have checksums that nobody knows yet, one as long as
/// all of them.
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

/// Frame `number` of a super-packet of TCP.
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

/// All the frames of a super-packet of UDP.
fn joined(packet: &Packet, segments: u32) -> Packet {
    let header = packet.headers().saturating_sub(u32::from(packet.network_offset));
    let len = packet.len + (segments - 1) * header;
    Packet { len, checksum: 0, segments: 1, ..*packet }
}

/// What is the same of `packet` wherever it is looked at, and of other packets most likely not.
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
