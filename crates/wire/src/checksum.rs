//! The Internet checksum: in full, incrementally, and completed where a kernel left it to a NIC.

use tidegate_core::Packet;
use tidegate_core::packet::{FlowKey, Protocol};

/// Completes the TCP or UDP checksum of a whole `frame` if its field holds just the sum of the
/// pseudo header; says whether it did.
///
/// That is what a Linux host hands to a virtual interface that promises checksum offload
/// (`CHECKSUM_PARTIAL`). A finished checksum that happens to look like this keeps its value. Of
/// damaged frames one in 65,536 is made to look sound, so this is only for ports to virtual
/// interfaces of the same machine. Fragments are left alone: theirs is that of the whole datagram.
pub fn complete(frame: &mut [u8], packet: &Packet) -> bool {
    let Some(segment) = segment(frame, packet) else { return false };
    let udp = packet.key.protocol == Protocol::UDP;
    let field = if udp { UDP_FIELD } else { TCP_FIELD };
    let Some(held) = segment.get(field..field + 2).map(|held| be16(held[0], held[1])) else {
        return false;
    };
    if held != pseudo_header(&packet.key, segment.len()) {
        return false;
    }
    // As the field holds it, the sum over the segment includes the pseudo header.
    let checksum = match !sum(0, segment) {
        0 if udp => u16::MAX, // zero would say that there is none (RFC 768)
        checksum => checksum,
    };
    segment[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Completes the checksum of `packet` that a sender left to its interface: the sum from `start` to the end,
/// which the field at `field` holds the pseudo header's part of; says whether it could.
pub fn finish(packet: &mut [u8], start: usize, field: usize) -> bool {
    let Some(segment) = packet.get(start..) else { return false };
    let checksum = match !sum(0, segment) {
        0 => u16::MAX, // that of UDP is never zero, and of TCP both mean the same
        checksum => checksum,
    };
    let Some(field) = packet.get_mut(field..field.saturating_add(2)) else { return false };
    field.copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The bytes a TCP or UDP checksum covers, without padding; `None` if they are not all there.
fn segment<'a>(frame: &'a mut [u8], packet: &Packet) -> Option<&'a mut [u8]> {
    let at = match packet.transport_offset {
        0 => return None,
        at => usize::from(at),
    };
    let header = frame.get(at..)?;
    let len = match (packet.key.protocol, packet.tcp) {
        (Protocol::TCP, Some(tcp)) => {
            usize::from(header.get(12)? >> 4) * 4 + usize::try_from(tcp.payload).ok()?
        }
        (Protocol::UDP, _) => usize::from(be16(*header.get(4)?, *header.get(5)?)),
        _ => return None,
    };
    frame.get_mut(at..at.checked_add(len)?)
}

/// The sum over the pseudo header of TCP, UDP or ICMPv6 (RFC 9293, section 3.1; RFC 8200, section
/// 8.1). An IPv4 address counts in its IPv6-mapped form, whose 0xffff is a zero in this sum.
pub(crate) fn pseudo_header(key: &FlowKey, len: usize) -> u16 {
    let addresses = sum(0, &key.src.number().to_be_bytes());
    let addresses = sum(addresses, &key.dst.number().to_be_bytes());
    let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    sum(sum(addresses, &len), &[0, key.protocol.0])
}

/// The one's complement sum of `start` and `bytes`, folded to 16 bits; a last odd byte is padded.
///
/// Source: RFC 1071, section 1; summed in the machine's own byte order (section 2(B)).
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

/// The checksum after 16 bits that it covers went from `old` to `new`.
///
/// Source: RFC 1624, section 3, equation 3, under which a finished checksum never becomes 0xffff.
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

const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}

const TCP_FIELD: usize = 16;
const UDP_FIELD: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_example_in_rfc_1071() {
        assert_eq!(sum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn an_update_gives_zero_where_the_full_sum_does() {
        // The example of RFC 1624, section 4: equation 4 would give 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }
}
