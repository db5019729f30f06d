//! Turns a data segment into a pure ACK by removing its payload, also inside a tunnel.
//!
//! The TCP header keeps its position. Each outer length field shrinks by the length of the payload.
//! The checksums are corrected from the inside out. They need not be computed in full: a TCP
//! segment with a valid checksum always sums to the complement of its pseudo header.

use tidegate_core::Packet;
use tidegate_core::packet::{Network, Outer};

use crate::checksum;
use crate::describe::{behind_link, describe_innermost, pppoe_session};
use crate::ethertype;
use crate::layers::{Kind, Layer, Layers};
use crate::rewrite::{CHECKSUM, Checksum, halves, header, read, write};

/// Removes the payload of the TCP segment `frame` from `head`, the first bytes of the frame.
/// Returns `false` and leaves `head` unchanged if this is impossible.
///
/// The function corrects checksums, and the lengths of IEEE 802.3, PPPoE, tunnels and IP. The
/// caller sets the sequence number and the control bits with [`rewrite`](crate::rewrite()).
///
/// A wrong TCP checksum stays wrong by the same amount, so a damaged segment yields no valid ACK.
/// The payload must be summed for this, unless the checksum is [left to a NIC](Checksum::Partial).
/// In that case, the outer UDP checksums of a super-packet (GSO) are unfinished too, and are computed in
/// full.
///
/// Bytes of `head` that become padding, or a trailer of the frame, are set to zero (IEEE 802.3,
/// section 3.2.7).
pub fn cut(frame: &[u8], head: &mut [u8], checksum: Checksum) -> bool {
    let (mut packet, mut outer) = (Packet::default(), None);
    let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    describe_innermost(frame, len, &mut packet, &mut outer);
    let may_edit = outer.is_none_or(|outer: Outer| outer.may_edit());
    may_edit && try_cut(frame, head, &packet, checksum).is_some()
}

fn try_cut(frame: &[u8], head: &mut [u8], packet: &Packet, checksum: Checksum) -> Option<()> {
    let payload = packet.tcp.filter(|tcp| !tcp.authenticated)?.payload;
    let at = usize::from(packet.transport_offset);
    let header_len = u32::from(*frame.get(at + 12)? >> 4) * 4;
    let starts = at + usize::try_from(header_len).ok()?;
    let bytes = frame.get(starts..)?.get(..usize::try_from(payload).ok()?)?;
    let layers = Layers::described(frame, packet);
    let (innermost, others) = layers.all().split_last()?;
    if innermost.kind != Kind::Tcp || innermost.at != at || !can_shorten(frame, others, starts) {
        return None;
    }
    let link = LinkLengths::of(frame, starts)?;
    let mut inside = CutEffect::of_tcp(frame, others.last()?, [innermost.end, starts], at)?;
    // `head` changes from here on, so no later step may fail.
    head.get_mut(starts..)?.fill(0);
    shorten_tcp(head, at, [header_len + payload, header_len], bytes, checksum)?;
    for (number, layer) in others.iter().enumerate().rev() {
        let new = u16::try_from(starts.checked_sub(layer.at)?).ok()?;
        match layer.kind {
            Kind::Ipv4 => shorten_v4(header(head, layer.at)?, new),
            Kind::Ipv6 => {
                let field = header::<40>(head, layer.at)?;
                inside.add(u32::from(read(field, 4)), u32::from(new - V6));
                write(field, 4, new - V6);
            }
            Kind::Udp => {
                let ip = others.get(number.checked_sub(1)?)?;
                inside.shorten_udp((frame, head), (ip, layer), new, checksum)?;
            }
            _ => return None,
        }
    }
    link.write(head)
}

/// Returns `true` if the length field of each header in `others` can state that the packet ends at
/// offset `starts`.
fn can_shorten(frame: &[u8], others: &[Layer], starts: usize) -> bool {
    others.iter().enumerate().all(|(number, layer)| {
        let new = starts.checked_sub(layer.at).and_then(|new| u16::try_from(new).ok());
        let shortest = match layer.kind {
            Kind::Ipv4 => V4,
            Kind::Ipv6 => V6,
            Kind::Udp => {
                let ip = number.checked_sub(1).and_then(|before| others.get(before));
                if ip.and_then(|ip| ip.pseudo_header(frame, Kind::Udp, 0)).is_none() {
                    return false;
                }
                UDP
            }
            _ => return false,
        };
        new.is_some_and(|new| new >= shortest)
    })
}

/// Corrects the checksum of the TCP header at `at` for a segment without `payload`. `lengths` are
/// the lengths of the segment before and after.
fn shorten_tcp(
    head: &mut [u8],
    at: usize,
    lengths: [u32; 2],
    payload: &[u8],
    checksum: Checksum,
) -> Option<()> {
    let tcp = header::<20>(head, at)?;
    // The field of a partial checksum is the pseudo header's sum itself, not its complement.
    let flip = if checksum == Checksum::Partial { u16::MAX } else { 0 };
    let mut sum = read(tcp, CHECKSUM) ^ flip;
    if checksum == Checksum::Finished {
        sum = checksum::update(sum, checksum::sum(0, payload), 0);
    }
    let [old, new] = lengths.map(halves);
    for (old, new) in old.into_iter().zip(new) {
        sum = checksum::update(sum, old, new);
    }
    write(tcp, CHECKSUM, sum ^ flip);
    Some(())
}

/// The change of the one's complement sum over all bytes inside a header. It grows from the inside
/// out: each inner length or checksum field that changes is added.
struct CutEffect {
    /// One's complement sum of the changes of all words up to `end`.
    change: u16,
    /// Once all inner checksums are finished, the bytes from this offset on sum to `sum`.
    from: usize,
    /// Offset in the old frame up to which `change` counts.
    end: usize,
    sum: u16,
}

impl CutEffect {
    /// The effect for the TCP segment at `at` in the IP packet `ip`. `ends` are the old and the new
    /// end of the segment.
    fn of_tcp(frame: &[u8], ip: &Layer, ends: [usize; 2], at: usize) -> Option<Self> {
        let [end, _] = ends;
        let [old, new] = ends.map(|end| end.checked_sub(at));
        let (old, new) = (old?, new?);
        let sum = !ip.pseudo_header(frame, Kind::Tcp, new)?;
        let change = change(new.try_into().ok()?, old.try_into().ok()?);
        Some(Self { change, from: at, end, sum })
    }

    /// Records that a value of 16 or 32 bits changed from `old` to `new`.
    fn add(&mut self, old: u32, new: u32) {
        self.change = checksum::add(self.change, [change(old, new)]);
    }

    /// Records that the bytes behind the inner packet are removed from the datagram `udp`.
    ///
    /// Source: RFC 1071, section 2(B) (the two bytes of a sum are swapped if the words begin at an
    /// odd byte).
    fn exclude_trailer(&mut self, frame: &[u8], udp: &Layer) {
        let trailer = frame.get(self.end..udp.end).unwrap_or_default();
        if !trailer.is_empty() {
            let sum = checksum::sum(0, trailer);
            let is_odd = (self.end - udp.at) % 2 == 1;
            let sum = if is_odd { sum.swap_bytes() } else { sum };
            self.change = checksum::add(self.change, [!sum]);
        }
    }

    /// Corrects the length and checksum of the UDP header `udp` in the IP packet `ip`, for a
    /// datagram of `new` bytes. Writes to `head`; `frame` is unchanged.
    fn shorten_udp(
        &mut self,
        (frame, head): (&[u8], &mut [u8]),
        (ip, udp): (&Layer, &Layer),
        new: u16,
        checksum: Checksum,
    ) -> Option<()> {
        let pseudo = ip.pseudo_header(head, Kind::Udp, new.into())?;
        let field = header::<8>(head, udp.at)?;
        let (written, sum) = (u32::from(read(field, 4)), read(field, UDP_CHECKSUM));
        write(field, 4, new);
        self.add(written, new.into());
        if sum == 0 {
            return Some(());
        }
        let old = u32::try_from(udp.end.checked_sub(udp.at)?).ok()?;
        let sum = match checksum {
            Checksum::Finished => {
                self.add(old, new.into());
                self.exclude_trailer(frame, udp);
                checksum::update(sum, u16::MAX, self.change)
            }
            Checksum::Partial => {
                write(field, UDP_CHECKSUM, 0);
                let between = checksum::sum(pseudo, head.get(udp.at..self.from)?);
                !checksum::add(between, [self.sum])
            }
        };
        // Zero would mean that the datagram has no checksum (RFC 768).
        let sum = if sum == 0 { u16::MAX } else { sum };
        write(header::<8>(head, udp.at)?, UDP_CHECKSUM, sum);
        *self = Self { change: change(new.into(), old), from: udp.at, end: udp.end, sum: !pseudo };
        Some(())
    }
}

/// The change of a one's complement sum when `new` replaces `old`.
fn change(old: u32, new: u32) -> u16 {
    let ([a, b], [c, d]) = (halves(old), halves(new));
    checksum::add(0, [!a, !b, c, d])
}

fn shorten_v4(header: &mut [u8; 20], total: u16) {
    let old = read(header, 2);
    write(header, 2, total);
    write(header, 10, checksum::update(read(header, 10), old, total));
}

/// The length fields of PPPoE and of an IEEE 802.3 frame, which precede the IP header. Each entry
/// is an offset and the new value.
struct LinkLengths([Option<(usize, u16)>; 2]);

impl LinkLengths {
    /// The length fields of `frame` when it is cut at offset `starts`, the end of its TCP header.
    ///
    /// Source: RFC 2516, section 4 (the length includes PPP's protocol field of one or two bytes);
    /// RFC 1042, header format (the IEEE 802.3 length includes LLC, SNAP and data).
    fn of(frame: &[u8], starts: usize) -> Option<Self> {
        let length = |field: usize, behind: usize| {
            Some((field, u16::try_from(starts.checked_sub(behind)?).ok()?))
        };
        let pppoe = match pppoe_session(frame) {
            Some(at) => Some(length(at + 4, at + PPPOE)?),
            None => None,
        };
        let snap = match behind_link(frame) {
            Some((Network::Ipv4 | Network::Ipv6, span, field)) if field < ethertype::SMALLEST => {
                let llc = span.start.checked_sub(SNAP)?;
                Some(length(llc.checked_sub(2)?, llc)?)
            }
            _ => None,
        };
        Some(Self([pppoe, snap]))
    }

    fn write(&self, head: &mut [u8]) -> Option<()> {
        for (field, length) in self.0.into_iter().flatten() {
            write(header::<2>(head, field)?, 0, length);
        }
        Some(())
    }
}

/// Lengths of headers without options.
const V4: u16 = 20;
const V6: u16 = 40;
const UDP: u16 = 8;
/// Length of the LLC and SNAP headers (RFC 1042).
const SNAP: usize = 8;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;
/// Length of a PPPoE header without the PPP protocol field.
const PPPOE: usize = 6;
