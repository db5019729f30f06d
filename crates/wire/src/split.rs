//! Splits IP packets: a super-packet (GSO) into segments, and an IPv4 packet into fragments.

use tidegate_core::packet::TcpFlags;

use crate::checksum;
use crate::describe::behind_link;
use crate::layers::{Kind, Layer, Layers};
use crate::vlan::VlanTag;

/// Splits a super-packet into frames with at most `size` bytes of payload each.
///
/// In each frame, all headers have correct lengths, numbers and checksums, also those of tunnels.
/// The payload is the payload of the innermost TCP or UDP header. `transport` is the offset of this
/// header, if the kernel states it. The checksums of `frame` may be unfinished.
///
/// `None` if a header is missing, a length is wrong, or a tunnel numbers its packets. Also `None`
/// if the headers of all frames together would exceed 16 times the length of the super-packet.
///
/// Source: Linux, `tcp_gso_segment`, `__udp_gso_segment`, `skb_udp_tunnel_segment` and
/// `gre_gso_segment` (only the last segment keeps FIN and PSH, only the first keeps CWR, and an
/// outer UDP checksum of zero stays zero).
#[must_use]
pub fn frames(frame: &[u8], size: u16, transport: Option<usize>) -> Option<Vec<Vec<u8>>> {
    cut(frame, &Layers::of_frame(frame, transport), size)
}

/// Splits a super-packet that begins with its IP header. Otherwise like [`frames`].
#[must_use]
pub fn segments(packet: &[u8], size: u16, transport: Option<usize>) -> Option<Vec<Vec<u8>>> {
    cut(packet, &Layers::of_packet(packet, transport), size)
}

/// Returns `true` if Linux can split this super-packet itself when a packet socket sends it.
///
/// Linux can if only Ethernet and VLAN tags precede the IP header, and if the transport header
/// follows the IP header directly.
///
/// Source: Linux `include/linux/virtio_net.h`, `virtio_net_hdr_to_skb` (the header that describes
/// the super-packet has no field for tunnels).
#[must_use]
pub fn has_plain_headers(frame: &[u8], transport: Option<usize>) -> bool {
    let tags = std::iter::successors(Some(0), |at| Some(at + VlanTag::LEN));
    let tags = tags.take_while(|at| VlanTag::of(frame.get(*at..).unwrap_or_default()).is_some());
    let link = ETHERNET + tags.count() * VlanTag::LEN;
    let plain = behind_link(frame).is_some_and(|(_, packet, _)| packet.start == link);
    plain && Layers::of_frame(frame, transport).all().len() == 2
}

fn cut(whole: &[u8], layers: &Layers, size: u16) -> Option<Vec<Vec<u8>>> {
    let transport = layers.all().last().filter(|_| layers.complete && !layers.numbered)?;
    let header = match transport.kind {
        Kind::Tcp => usize::from(*whole.get(transport.at + 12)? >> 4) * 4,
        Kind::Udp => UDP,
        _ => return None,
    };
    if transport.kind == Kind::Tcp && header < TCP {
        return None;
    }
    let all = layers.all();
    if all.iter().any(|layer| layer.end != whole.len()) {
        return None;
    }
    let (headers, payload) = whole.split_at_checked(transport.at.checked_add(header)?)?;
    let size = usize::from(size.max(1));
    let count = payload.len().div_ceil(size).max(1);
    if headers.len().checked_mul(count)? > MOST_HEADERS * whole.len() {
        return None;
    }
    let piece = |number: usize| {
        let from = number * size;
        let payload = payload.get(from..payload.len().min(from + size)).unwrap_or_default();
        let mut piece = [headers, payload].concat();
        let place = Place { number, from, last: number + 1 == count };
        for (number, layer) in all.iter().enumerate().rev() {
            let ip = number.checked_sub(1).and_then(|before| all.get(before));
            adapt(&mut piece, layer, ip, number + 1 == all.len(), &place)?;
        }
        Some(piece)
    };
    (0..count).map(piece).collect()
}

/// The position of a segment in its super-packet.
struct Place {
    number: usize,
    /// Bytes of payload in the earlier segments.
    from: usize,
    last: bool,
}
/// Corrects the fields of the header `layer` in a segment. All inner headers are already correct.
///
/// `before` is the next outer header. `innermost` says that `layer` is the header whose payload was
/// split.
fn adapt(
    piece: &mut [u8],
    layer: &Layer,
    before: Option<&Layer>,
    innermost: bool,
    place: &Place,
) -> Option<()> {
    let at = layer.at;
    let len = piece.len().checked_sub(at)?;
    let behind = |header: usize| u16::try_from(len.checked_sub(header)?).ok();
    match layer.kind {
        Kind::Ipv4 => {
            let identification = read(piece, at + 4)?;
            set(piece, at + 2, behind(0)?)?;
            set(piece, at + 4, identification.wrapping_add(u16::try_from(place.number).ok()?))?;
            sum_v4(piece.get_mut(at..)?)
        }
        Kind::Ipv6 => set(piece, at + 4, behind(V6)?),
        Kind::Tcp => {
            move_segment(piece.get_mut(at..)?, place)?;
            set_checksum(piece, layer, before?)
        }
        Kind::Udp => {
            let has_checksum = read(piece, at + UDP_CHECKSUM)? != 0;
            set(piece, at + 4, behind(0)?)?;
            if innermost || has_checksum { set_checksum(piece, layer, before?) } else { Some(()) }
        }
        Kind::GreChecksum => {
            set(piece, at + 4, 0)?;
            let checksum = !checksum::sum(0, piece.get(at..)?);
            set(piece, at + 4, checksum)
        }
        Kind::Pppoe => set(piece, at + 4, behind(PPPOE)?),
        Kind::GtpU => set(piece, at + 2, behind(GTP)?),
        Kind::L2tp => set(piece, at + 2, behind(0)?),
        Kind::Sctp => None,
    }
}

fn move_segment(segment: &mut [u8], place: &Place) -> Option<()> {
    let seq = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
    let moved = seq.wrapping_add(u32::try_from(place.from).ok()?);
    segment.get_mut(4..8)?.copy_from_slice(&moved.to_be_bytes());
    let flags = segment.get_mut(13)?;
    if !place.last {
        *flags &= !(TcpFlags::FIN | TcpFlags::PSH);
    }
    if place.number > 0 {
        *flags &= !TcpFlags::CWR;
    }
    Some(())
}

fn set_checksum(piece: &mut [u8], transport: &Layer, ip: &Layer) -> Option<()> {
    let udp = transport.kind == Kind::Udp;
    let field = transport.at + if udp { UDP_CHECKSUM } else { TCP_CHECKSUM };
    set(piece, field, 0)?;
    let before = ip.pseudo_header(piece, transport.kind, piece.len() - transport.at)?;
    let checksum = match !checksum::sum(before, piece.get(transport.at..)?) {
        0 if udp => u16::MAX, // Zero would mean that the datagram has no checksum (RFC 768).
        checksum => checksum,
    };
    set(piece, field, checksum)
}

/// Splits an IPv4 packet into fragments of at most `fits` bytes. `None` if the packet is not IPv4,
/// if its DF bit is set, or if `fits` has no room for eight bytes of payload. A fragment can be
/// split again.
///
/// Source: RFC 791, section 3.2.
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

/// Returns `true` if routers must not fragment `packet`: IPv4 with the DF bit, and all other
/// packets, such as IPv6.
#[must_use]
pub fn may_not_be_fragmented(packet: &[u8]) -> bool {
    packet.first().is_none_or(|it| it >> 4 != 4) || packet.get(6).is_none_or(|it| it & 0x40 != 0)
}

/// The header of the second and later fragments. Only options with the copied flag remain.
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

/// Computes the checksum of an IPv4 header.
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

/// Limit of the bytes of all headers together, as a multiple of the super-packet's length.
/// Otherwise, a forged super-packet with long headers and segments of one byte could take hundreds
/// of megabytes. Real segments are at least as long as their headers, so the headers add at most
/// the length of the super-packet.
const MOST_HEADERS: usize = 16;

/// Lengths of headers without options.
const ETHERNET: usize = 14;
const V6: usize = 40;
const UDP: usize = 8;
const TCP: usize = 20;

/// Offsets of the checksum in the headers of UDP and TCP.
const UDP_CHECKSUM: usize = 6;
const TCP_CHECKSUM: usize = 16;

/// Header bytes that the length field does not include: of PPPoE (RFC 2516, section 4) and of GTP-U
/// (3GPP TS 29.281, section 5.1).
const PPPOE: usize = 6;
const GTP: usize = 8;

/// Bits of the IPv4 field with the fragment offset: the offset in units of 8 bytes, and the flag
/// "more fragments".
const OFFSET: u16 = 0x1fff;
const MORE: u16 = 0x2000;

/// The copied flag of an IPv4 option: every fragment keeps the option.
const COPIED: u8 = 0x80;

#[cfg(test)]
mod tests;
