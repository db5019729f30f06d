//! Makes a pure ACK of the headers of a data segment.
//!
//! The TCP header keeps its place, so each header outside it states a length that is shorter by the payload. A TCP
//! segment with a right checksum has the complement of its pseudo header as its sum. Outer checksums use that sum.

use tidegate_core::Packet;
use tidegate_core::packet::Outer;

use crate::checksum;
use crate::describe::{describe_innermost, pppoe_session};
use crate::layers::{Kind, Layer, Layers};
use crate::rewrite::{CHECKSUM, Checksum, halves, header, read, write};

/// Makes of `head`, the first bytes of the TCP segment `frame`, a segment without payload; says
/// whether it could.
///
/// The lengths in the headers of PPPoE, tunnels and IP, and the checksums, follow; sequence number and control
/// bits are for [`rewrite`](crate::rewrite()) to say. A wrong checksum stays wrong by the same amount, so
/// a damaged segment makes no sound ACK: for that the payload is summed, unless the sum is
/// [left to a NIC](Checksum::Partial). In that case the checksums of outer UDP headers are made from scratch, as
/// those of super-packets are unfinished too.
///
/// Bytes of `head` behind the TCP header stand where `frame` has padding or a trailer. They become zero, as
/// padding is (IEEE 802.3, section 3.2.7).
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
    head.get_mut(starts..)?.fill(0);
    shorten_tcp(head, at, [header_len + payload, header_len], bytes, checksum)?;
    let layers = Layers::described(frame, packet);
    let (innermost, others) = layers.all().split_last()?;
    if innermost.kind != Kind::Tcp || innermost.at != at {
        return None;
    }
    let mut inside = Inside::of_tcp(head, others.last()?, [innermost.end, starts], at)?;
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
                inside.shorten_udp(head, (ip, layer), new, checksum)?;
            }
            _ => return None,
        }
    }
    shorten_pppoe(frame, head, starts)
}

/// Makes the checksum of the TCP header at `at` that of a segment without `payload`, of `lengths` before and after.
fn shorten_tcp(
    head: &mut [u8],
    at: usize,
    lengths: [u32; 2],
    payload: &[u8],
    checksum: Checksum,
) -> Option<()> {
    let tcp = header::<20>(head, at)?;
    // A partial checksum holds the sum itself, and of the pseudo header only.
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

/// All bytes behind a header, as its checksum sees them.
struct Inside {
    /// One's complement sum of the changes of their words.
    change: u16,
    /// Bytes from this offset on have the one's complement sum `sum` once all checksums are finished.
    from: usize,
    sum: u16,
}

impl Inside {
    /// The TCP segment from `at` on, which ended at the first of `ends` and now ends at the second. `ip` is the IP
    /// header before it.
    fn of_tcp(head: &[u8], ip: &Layer, ends: [usize; 2], at: usize) -> Option<Self> {
        let [old, new] = ends.map(|end| end.checked_sub(at));
        let (old, new) = (old?, new?);
        let sum = !ip.pseudo_header(head, Kind::Tcp, new)?;
        Some(Self { change: change(new.try_into().ok()?, old.try_into().ok()?), from: at, sum })
    }

    /// Notes that a word, or two, changed from `old` to `new`.
    fn add(&mut self, old: u32, new: u32) {
        self.change = checksum::add(self.change, [change(old, new)]);
    }

    /// Makes the UDP header `udp` behind `ip` that of a datagram of `new` bytes.
    fn shorten_udp(
        &mut self,
        head: &mut [u8],
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
                checksum::update(sum, u16::MAX, self.change)
            }
            Checksum::Partial => {
                write(field, UDP_CHECKSUM, 0);
                let between = checksum::sum(pseudo, head.get(udp.at..self.from)?);
                !checksum::add(between, [self.sum])
            }
        };
        // Zero would say that there is none (RFC 768).
        let sum = if sum == 0 { u16::MAX } else { sum };
        write(header::<8>(head, udp.at)?, UDP_CHECKSUM, sum);
        *self = Self { change: change(new.into(), old), from: udp.at, sum: !pseudo };
        Some(())
    }
}

/// The one's complement sum by which a sum grows if it has `new` in place of `old`.
fn change(old: u32, new: u32) -> u16 {
    let ([a, b], [c, d]) = (halves(old), halves(new));
    checksum::add(0, [!a, !b, c, d])
}

fn shorten_v4(header: &mut [u8; 20], total: u16) {
    let old = read(header, 2);
    write(header, 2, total);
    write(header, 10, checksum::update(read(header, 10), old, total));
}

/// Source: RFC 2516, section 4: the length counts PPP's protocol field, of one or two bytes.
fn shorten_pppoe(frame: &[u8], head: &mut [u8], starts: usize) -> Option<()> {
    if let Some(at) = pppoe_session(frame) {
        let behind = starts.checked_sub(at + PPPOE)?;
        write(header::<PPPOE>(head, at)?, 4, u16::try_from(behind).ok()?);
    }
    Some(())
}

/// Bytes of an IPv6 header.
const V6: u16 = 40;
/// Where the checksum of UDP stands.
const UDP_CHECKSUM: usize = 6;
/// Bytes of a PPPoE header, without PPP.
const PPPOE: usize = 6;
