//! The Internet checksum (RFC 1071): full computation, incremental update, and completion of
//! checksums that the kernel left to a NIC.

use tidegate_core::Packet;
use tidegate_core::packet::{FlowKey, Network, Protocol};

use crate::layers::{Kind, Layer, Layers};
use crate::{ethertype, tunnel};

/// The result of completing the checksums of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Completed {
    /// All checksums were complete.
    Nothing,
    /// At least one checksum was completed.
    Some,
    /// A checksum remains unfinished, because its header is nested in more tunnels than the parser
    /// reads.
    TooDeep,
}

/// Completes unfinished checksums in a whole `frame`, also inside tunnels.
///
/// A Linux host hands frames with unfinished checksums to a virtual interface that promises
/// checksum offload (`CHECKSUM_PARTIAL`). A TCP or UDP checksum counts as unfinished if its field
/// equals the sum of the pseudo header. An SCTP checksum counts as unfinished if its field is zero.
///
/// A correct checksum that happens to equal the sum stays correct. But one damaged frame in 65,536
/// gets a valid checksum, so call this only for virtual interfaces of the same machine. Fragments
/// stay unchanged, because their checksum covers the whole datagram.
///
/// Source: Linux, `net/core/dev.c` (`skb_checksum_help`, `skb_crc32c_csum_help`); Linux,
/// `Documentation/networking/checksum-offloads.rst`, "LCO" (outer checksums are already correct for
/// completed inner checksums, so inner checksums are completed first).
pub fn complete(frame: &mut [u8], packet: &Packet) -> Completed {
    if is_finished(frame, packet) {
        return Completed::Nothing;
    }
    let layers = Layers::described(frame, packet);
    let mut completed = Completed::Nothing;
    for (ip, transport) in layers.transports() {
        if is_partial(frame, ip, transport) && finish_within(frame, transport) {
            completed = Completed::Some;
        }
    }
    let beneath = layers.beneath(frame);
    let left = beneath.is_some_and(|it| it.transports().any(|(ip, at)| is_partial(frame, ip, at)));
    if left { Completed::TooDeep } else { completed }
}

/// Returns `true` if the descriptor alone shows that all checksums are finished.
///
/// This is a fast path for the most frequent packets: TCP directly behind an IP header, and UDP
/// without a tunnel.
fn is_finished(frame: &[u8], packet: &Packet) -> bool {
    let header = match packet.network {
        Network::Opaque => {
            let ethertype = packet.key.src.port;
            return packet.key.protocol == Protocol::OPAQUE && !ethertype::is_mpls(ethertype);
        }
        Network::Ipv4 => V4,
        Network::Ipv6 => V6,
    };
    let at = usize::from(packet.transport_offset);
    if at != usize::from(packet.network_offset) + header {
        return false;
    }
    let Some(segment) = frame.get(at..) else { return false };
    let (field, len) = match (packet.key.protocol, packet.tcp) {
        (Protocol::TCP, Some(tcp)) => {
            let header = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
            (TCP_FIELD, usize::try_from(tcp.payload).unwrap_or(usize::MAX).saturating_add(header))
        }
        (Protocol::UDP, _) if tunnel::inside(Protocol::UDP, segment, segment.len()).is_none() => {
            (UDP_FIELD, read(segment, UDP_LENGTH).map_or(0, usize::from))
        }
        _ => return false,
    };
    read(segment, field).is_some_and(|held| held != pseudo_header(&packet.key, len))
}

/// Returns `true` if the checksum of `transport`, which follows the header `ip`, is unfinished.
fn is_partial(frame: &[u8], ip: &Layer, transport: &Layer) -> bool {
    let Some(segment) = frame.get(transport.at..transport.end) else { return false };
    let field = match transport.kind {
        Kind::Tcp => TCP_FIELD,
        Kind::Udp => UDP_FIELD,
        Kind::Sctp => return segment.get(SCTP_FIELD..SCTP_FIELD + 4) == Some(&[0; 4]),
        _ => return false,
    };
    // A UDP checksum of zero means that the datagram has no checksum (RFC 768).
    let held = read(segment, field).filter(|held| *held != 0 || transport.kind == Kind::Tcp);
    held.is_some() && held == ip.pseudo_header(frame, transport.kind, segment.len())
}

fn finish_within(frame: &mut [u8], transport: &Layer) -> bool {
    let field = match transport.kind {
        Kind::Tcp => TCP_FIELD,
        Kind::Udp => UDP_FIELD,
        Kind::Sctp => SCTP_FIELD,
        _ => return false,
    };
    let datagram = frame.get_mut(..transport.end).unwrap_or_default();
    finish(datagram, transport.at, transport.at + field)
}

/// Completes a checksum that the sender left to its interface. The checksum covers `packet` from
/// `start` to the end. Its field, at offset `field`, holds the sum of the pseudo header. Returns
/// `false` if an offset lies outside of the packet.
///
/// If the field is 8 bytes after `start`, the packet is SCTP, whose checksum is a CRC-32C.
pub fn finish(packet: &mut [u8], start: usize, field: usize) -> bool {
    if field.checked_sub(start) == Some(SCTP_FIELD) {
        return finish_sctp(packet, start).is_some();
    }
    let Some(segment) = packet.get(start..) else { return false };
    let checksum = match !sum(0, segment) {
        0 => u16::MAX, // Zero would mean that UDP has no checksum; TCP treats both as equal.
        checksum => checksum,
    };
    let Some(field) = packet.get_mut(field..field.saturating_add(2)) else { return false };
    field.copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Completes the checksum of an SCTP packet.
///
/// Source: RFC 9260, section 6.8 and appendix A.
fn finish_sctp(packet: &mut [u8], start: usize) -> Option<()> {
    let segment = packet.get_mut(start..)?;
    segment.get_mut(SCTP_FIELD..SCTP_FIELD + 4)?.fill(0);
    let checksum = crc32c(segment).to_le_bytes();
    segment.get_mut(SCTP_FIELD..SCTP_FIELD + 4)?.copy_from_slice(&checksum);
    Some(())
}

/// The CRC-32C of `bytes`, computed with reflected bits and one table lookup per byte.
///
/// Source: RFC 3720, section 12.1 and appendix B.4.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc_table();
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        TABLE[usize::from(low ^ byte)] ^ (crc >> 8)
    })
}

const fn crc_table() -> [u32; 256] {
    /// The polynomial of Castagnoli, 0x1edc6f41, reflected.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut table = [0; 256];
    let (mut at, mut byte) = (0, 0_u32);
    while at < table.len() {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        (at, byte) = (at + 1, byte + 1);
    }
    table
}

/// The sum over the pseudo header of TCP, UDP or ICMPv6. IPv4 addresses are summed in their
/// IPv6-mapped form, whose prefix 0xffff adds zero in one's complement.
///
/// Source: RFC 9293, section 3.1; RFC 8200, section 8.1.
pub(crate) fn pseudo_header(key: &FlowKey, len: usize) -> u16 {
    let addresses = sum(0, &key.src.number().to_be_bytes());
    let addresses = sum(addresses, &key.dst.number().to_be_bytes());
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    sum(sum(addresses, &len), &[0, key.protocol.0])
}

/// The one's complement sum of `start` and `bytes`, folded to 16 bits. A last odd byte is padded
/// with a zero byte.
///
/// Source: RFC 1071, section 1; section 2(B) (summing in the machine's own byte order).
pub(crate) fn sum(start: u16, bytes: &[u8]) -> u16 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    let words = words.iter().chain([&last]).map(|word| u64::from_ne_bytes(*word));
    let carry = |sum: u64, word| {
        let (sum, carried) = sum.overflowing_add(word);
        sum + u64::from(carried)
    };
    u16::from_be(fold(words.fold(start.to_be().into(), carry)))
}

/// The one's complement sum of `start` and `words`.
pub(crate) fn add<const N: usize>(start: u16, words: [u16; N]) -> u16 {
    fold(u64::from(start) + words.into_iter().map(u64::from).sum::<u64>())
}

/// The checksum after one covered 16-bit word has changed from `old` to `new`.
///
/// Source: RFC 1624, section 3, equation 3 (a finished checksum never becomes 0xffff).
pub(crate) fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

fn fold(mut sum: u64) -> u16 {
    loop {
        match u16::try_from(sum) {
            Ok(sum) => return sum,
            Err(_) => sum = (sum & 0xffff) + (sum >> 16),
        }
    }
}

fn read(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// Offsets of the checksum in the headers of TCP, UDP and SCTP, and of the length field of UDP.
const TCP_FIELD: usize = 16;
const UDP_FIELD: usize = 6;
const SCTP_FIELD: usize = 8;
const UDP_LENGTH: usize = 4;

/// Lengths of IP headers without options.
const V4: usize = 20;
const V6: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_example_in_rfc_1071() {
        assert_eq!(sum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn an_update_yields_zero_where_the_full_sum_yields_zero() {
        // The example of RFC 1624, section 4. Its equation 4 would yield 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }
}
