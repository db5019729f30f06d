//! IP packets made of one that is longer: a super-packet cut into what it stands for, and fragments.

use tidegate_core::Packet;
use tidegate_core::packet::{Network, Protocol, TcpFlags};

use crate::checksum;

/// What a super-packet stands for: IP packets with at most `size` bytes of payload each, lengths, numbers and
/// checksums of their own.
///
/// `packet` begins with the IP header and `described` says where, from there on, its transport header is; it may have
/// an unfinished checksum. `None` if it is none of TCP or UDP, or is not what `described` says.
///
/// Source: Linux, `tcp_gso_segment` and `__udp_gso_segment`: FIN and PSH are of the last, CWR of the first.
#[must_use]
pub fn segments(packet: &[u8], described: &Packet, size: u16) -> Option<Vec<Vec<u8>>> {
    let transport = usize::from(described.transport_offset);
    let header = match described.key.protocol {
        Protocol::TCP => usize::from(*packet.get(transport + 12)? >> 4) * 4,
        Protocol::UDP => 8,
        _ => return None,
    };
    let (headers, payload) = packet.split_at_checked(transport.checked_add(header)?)?;
    if transport < 20 || (described.key.protocol == Protocol::TCP && header < 20) {
        return None;
    }
    let size = usize::from(size.max(1));
    let count = payload.len().div_ceil(size).max(1);
    let cut = |number: usize| {
        let from = number * size;
        let mut piece = headers.to_vec();
        piece.extend(payload.get(from..payload.len().min(from + size)).unwrap_or_default());
        let place = Place { from, first: number == 0, last: number + 1 == count };
        if described.key.protocol == Protocol::TCP {
            move_segment(piece.get_mut(transport..)?, &place)?;
        }
        set_lengths(&mut piece, described, number)?;
        set_checksum(&mut piece, described)?;
        Some(piece)
    };
    (0..count).map(cut).collect()
}

/// Which of the segments one is.
struct Place {
    /// Bytes of payload before it.
    from: usize,
    first: bool,
    last: bool,
}

fn move_segment(segment: &mut [u8], place: &Place) -> Option<()> {
    let seq = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
    let moved = seq.wrapping_add(u32::try_from(place.from).ok()?);
    segment.get_mut(4..8)?.copy_from_slice(&moved.to_be_bytes());
    let flags = segment.get_mut(13)?;
    if !place.last {
        *flags &= !(TcpFlags::FIN | TcpFlags::PSH);
    }
    if !place.first {
        *flags &= !TcpFlags::CWR;
    }
    Some(())
}

/// Sets what the headers of IP and UDP say of its length, and its IPv4 identification.
fn set_lengths(piece: &mut [u8], described: &Packet, number: usize) -> Option<()> {
    let len = piece.len();
    match described.network {
        Network::Opaque => return None,
        Network::Ipv4 => {
            let identification = read(piece, 4)?.wrapping_add(u16::try_from(number).ok()?);
            set(piece, 2, u16::try_from(len).ok()?)?;
            set(piece, 4, identification)?;
            sum_v4(piece)?;
        }
        Network::Ipv6 => set(piece, 4, u16::try_from(len.checked_sub(V6)?).ok()?)?,
    }
    if described.key.protocol == Protocol::UDP {
        let transport = usize::from(described.transport_offset);
        set(piece, transport + 4, u16::try_from(len - transport).ok()?)?;
    }
    Some(())
}

fn set_checksum(piece: &mut [u8], described: &Packet) -> Option<()> {
    let transport = usize::from(described.transport_offset);
    let udp = described.key.protocol == Protocol::UDP;
    let field = transport + if udp { 6 } else { 16 };
    set(piece, field, 0)?;
    let before = checksum::pseudo_header(&described.key, piece.len() - transport);
    let checksum = match !checksum::sum(before, piece.get(transport..)?) {
        0 if udp => u16::MAX,
        checksum => checksum,
    };
    set(piece, field, checksum)
}

/// The fragments of the IPv4 packet `packet`, each of at most `fits` bytes; `None` if it may not be
/// fragmented, is not IPv4, or there is no room for eight bytes of it.
///
/// Source: RFC 791, section 3.2. A fragment may be fragmented again.
#[must_use]
pub fn fragments(packet: &[u8], fits: usize) -> Option<Vec<Vec<u8>>> {
    if packet.first()? >> 4 != 4 || may_not_be_fragmented(packet) {
        return None;
    }
    let header = usize::from(packet.first()? & 0xf) * 4;
    let (header, data) = packet.split_at_checked(header).filter(|(it, _)| it.len() >= 20)?;
    let later = later_header(header);
    let size = fits.checked_sub(header.len())? & !7;
    if size == 0 {
        return None;
    }
    let field = read(packet, 6)?;
    let (begin, more) = (field & OFFSET, field & MORE != 0);
    let count = data.len().div_ceil(size).max(1);
    let cut = |number: usize| {
        let from = number * size;
        let mut piece = if number == 0 { header } else { &later }.to_vec();
        piece.extend(data.get(from..data.len().min(from + size))?);
        let offset = begin.checked_add(u16::try_from(from / 8).ok()?).filter(|it| *it <= OFFSET)?;
        let more = if more || number + 1 < count { MORE } else { 0 };
        set(&mut piece, 6, offset | more)?;
        let len = u16::try_from(piece.len()).ok()?;
        set(&mut piece, 2, len)?;
        sum_v4(&mut piece)?;
        Some(piece)
    };
    (0..count).map(cut).collect()
}

/// Whether `packet` says that nobody on the way may make fragments of it: always of IPv6.
#[must_use]
pub fn may_not_be_fragmented(packet: &[u8]) -> bool {
    packet.first().is_none_or(|it| it >> 4 != 4) || packet.get(6).is_none_or(|it| it & 0x40 != 0)
}

/// The header of all fragments but the first: of the options, those that say so are in each.
fn later_header(header: &[u8]) -> Vec<u8> {
    let (fixed, mut options) = header.split_at(20);
    let mut later = fixed.to_vec();
    while let [kind, rest @ ..] = options {
        let len = match (kind, rest) {
            (0, _) | (2.., []) => break,
            (1, _) => 1,
            (_, [len, ..]) => usize::from(*len).max(2),
        };
        let Some((option, behind)) = options.split_at_checked(len) else { break };
        if kind & COPIED != 0 {
            later.extend(option);
        }
        options = behind;
    }
    later.resize(later.len().next_multiple_of(4), 0);
    if let Some(first) = later.first_mut() {
        *first = 0x40;
    }
    let words = u8::try_from(later.len() / 4).unwrap_or(5);
    if let Some(first) = later.first_mut() {
        *first |= words;
    }
    later
}

/// Sets the checksum of an IPv4 header.
pub(crate) fn sum_v4(packet: &mut [u8]) -> Option<()> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    set(packet, 10, 0)?;
    let checksum = !checksum::sum(0, packet.get(..header)?);
    set(packet, 10, checksum)
}

fn read(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn set(packet: &mut [u8], at: usize, word: u16) -> Option<()> {
    packet.get_mut(at..at.checked_add(2)?)?.copy_from_slice(&word.to_be_bytes());
    Some(())
}

/// Bytes of an IPv6 header.
const V6: usize = 40;

/// Of the word with the offset of a fragment: the offset in units of 8 bytes, and that more follow.
const OFFSET: u16 = 0x1fff;
const MORE: u16 = 0x2000;

/// An IPv4 option with this bit is in every fragment.
const COPIED: u8 = 0x80;

#[cfg(test)]
mod tests;
