//! Turns the headers of a data segment into a pure ACK.
//!
//! The TCP header keeps its offset; every outer length field shrinks by the payload. A TCP segment
//! with a valid checksum sums to the complement of its pseudo header, and outer checksums build on
//! that sum.

use tidegate_core::Packet;
use tidegate_core::packet::{Network, Outer};

use crate::checksum;
use crate::describe::{behind_link, describe_innermost, pppoe_session};
use crate::ethertype;
use crate::layers::{Kind, Layer, Layers};
use crate::rewrite::{CHECKSUM, Checksum, halves, header, read, write};

/// Removes the payload from `head`, the first bytes of the TCP segment `frame`. Returns `false`,
/// with `head` unchanged, if this is impossible.
///
/// The function corrects the lengths of IEEE 802.3, PPPoE, tunnels and IP, and the checksums. The
/// caller sets sequence number and control bits with [`rewrite`](crate::rewrite()).
///
/// A wrong checksum stays wrong by the same amount, so a damaged segment yields no valid ACK. This
/// requires summing the payload, unless the checksum is [left to a NIC](Checksum::Partial). In that
/// case outer UDP checksums are computed from scratch, because those of super-packets are
/// unfinished too.
///
/// Bytes of `head` that become padding or a trailer of `frame` are set to zero (IEEE 802.3, section
/// 3.2.7).
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
    // From here on `head` changes, so no later step may fail.
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

/// Returns `true` if each header in `others` can state that its payload ends at `starts`.
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

/// Sets the checksum of the TCP header at `at` to that of a segment without `payload`. `lengths`
/// are the segment's length before and after.
fn shorten_tcp(
    head: &mut [u8],
    at: usize,
    lengths: [u32; 2],
    payload: &[u8],
    checksum: Checksum,
) -> Option<()> {
    let tcp = header::<20>(head, at)?;
    // A partial checksum is the uncomplemented sum of the pseudo header only.
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

/// The effect of the cut on all bytes inside a header, as that header's checksum sees them.
struct CutEffect {
    /// One's complement sum of the changes of these words.
    change: u16,
    /// The bytes from this offset on sum to `sum` once all inner checksums are finished.
    from: usize,
    /// `change` covers the bytes of the old frame up to this offset.
    end: usize,
    sum: u16,
}

impl CutEffect {
    /// For the TCP segment at `at` behind the IP header `ip`. The first of `ends` is its old end,
    /// the second its new one.
    fn of_tcp(frame: &[u8], ip: &Layer, ends: [usize; 2], at: usize) -> Option<Self> {
        let [end, _] = ends;
        let [old, new] = ends.map(|end| end.checked_sub(at));
        let (old, new) = (old?, new?);
        let sum = !ip.pseudo_header(frame, Kind::Tcp, new)?;
        let change = change(new.try_into().ok()?, old.try_into().ok()?);
        Some(Self { change, from: at, end, sum })
    }

    /// Records that one or two words changed from `old` to `new`.
    fn add(&mut self, old: u32, new: u32) {
        self.change = checksum::add(self.change, [change(old, new)]);
    }

    /// Records that the trailer behind the inner packet is removed from the datagram `udp`.
    ///
    /// Source: RFC 1071, section 2(B): after an odd number of bytes, the two bytes of a sum are
    /// swapped.
    fn leave_trailer(&mut self, frame: &[u8], udp: &Layer) {
        let trailer = frame.get(self.end..udp.end).unwrap_or_default();
        if !trailer.is_empty() {
            let sum = checksum::sum(0, trailer);
            let is_odd = (self.end - udp.at) % 2 == 1;
            let sum = if is_odd { sum.swap_bytes() } else { sum };
            self.change = checksum::add(self.change, [!sum]);
        }
    }

    /// Corrects the UDP header `udp` behind `ip` for a datagram of `new` bytes, in `head` of the
    /// old `frame`.
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
                self.leave_trailer(frame, udp);
                checksum::update(sum, u16::MAX, self.change)
            }
            Checksum::Partial => {
                write(field, UDP_CHECKSUM, 0);
                let between = checksum::sum(pseudo, head.get(udp.at..self.from)?);
                !checksum::add(between, [self.sum])
            }
        };
        // Zero would mean that there is no checksum (RFC 768).
        let sum = if sum == 0 { u16::MAX } else { sum };
        write(header::<8>(head, udp.at)?, UDP_CHECKSUM, sum);
        *self = Self { change: change(new.into(), old), from: udp.at, end: udp.end, sum: !pseudo };
        Some(())
    }
}

/// The difference that replacing `old` by `new` makes to a one's complement sum.
fn change(old: u32, new: u32) -> u16 {
    let ([a, b], [c, d]) = (halves(old), halves(new));
    checksum::add(0, [!a, !b, c, d])
}

fn shorten_v4(header: &mut [u8; 20], total: u16) {
    let old = read(header, 2);
    write(header, 2, total);
    write(header, 10, checksum::update(read(header, 10), old, total));
}

/// The length fields before the IP header: of PPPoE and of an IEEE 802.3 frame. Each entry is the
/// field's offset and its new value.
struct LinkLengths([Option<(usize, u16)>; 2]);

impl LinkLengths {
    /// The length fields of `frame` after a cut at `starts`, the end of its TCP header.
    ///
    /// Source: RFC 2516, section 4: the length counts PPP's protocol field, of one or two bytes.
    /// RFC 1042, header format: the length of IEEE 802.3 counts LLC, SNAP and data.
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

/// Header lengths without options.
const V4: u16 = 20;
const V6: u16 = 40;
const UDP: u16 = 8;
/// Bytes of LLC and SNAP (RFC 1042).
const SNAP: usize = 8;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;
/// Bytes of a PPPoE header, without PPP.
const PPPOE: usize = 6;
