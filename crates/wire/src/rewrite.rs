//! Writes changed fields of a packet descriptor into the headers of its frame.

use tidegate_core::Packet;
use tidegate_core::packet::{Network, TcpFlags, TcpSegment};

use crate::checksum;
use crate::clamp::set_segment_size;
use crate::describe::timestamps_at;
use crate::segment::packet_options;

/// The content of a TCP checksum field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Checksum {
    /// The complete checksum, as on the wire.
    Finished,
    /// Only the sum of the pseudo header. A NIC adds the remainder (Linux: `CHECKSUM_PARTIAL`).
    Partial,
}

/// Writes the fields of `packet` into its frame.
///
/// The fields are DSCP and ECN. In a TCP header, they are also sequence and acknowledgement number,
/// control bits, window, timestamps, and the MSS option of a SYN.
///
/// `head` is the part of the frame that was described, with at least all headers. Only fields that
/// differ are written. Checksums are updated incrementally, so a wrong checksum stays wrong by the
/// same amount. A TCP header with a digest does not change. Timestamps and MSS are written only if
/// the header has these options.
///
/// ```
/// use tidegate_core::Packet;
/// use tidegate_core::packet::Ecn;
/// use tidegate_wire::build::Frame;
/// use tidegate_wire::{Checksum, describe, rewrite};
///
/// let frame = Frame::tcp("10.0.0.1:5000".parse().unwrap(), "10.9.0.1:443".parse().unwrap());
/// let mut bytes = frame.bytes();
/// let len = u32::try_from(bytes.len()).unwrap();
/// let mut packet = Packet::default();
/// describe(&bytes, len, &mut packet);
/// packet.ecn = Ecn::Ce;
/// rewrite(&mut bytes, &packet, Checksum::Finished);
///
/// let mut marked = Packet::default();
/// describe(&bytes, len, &mut marked);
/// assert_eq!(marked.ecn, Ecn::Ce);
/// ```
pub fn rewrite(head: &mut [u8], packet: &Packet, checksum: Checksum) {
    let network = usize::from(packet.network_offset);
    match packet.network {
        // Ethernet over MPLS has no outer IP header. A TCP header may still be inside.
        Network::Opaque => {}
        Network::Ipv4 => write_v4(head, network, packet),
        Network::Ipv6 => write_v6(head, network, packet),
    }
    if let Some(tcp) = packet.tcp.as_ref().filter(|tcp| !tcp.authenticated) {
        write_tcp(head, usize::from(packet.transport_offset), tcp, checksum);
        if tcp.flags.any(TcpFlags::SYN) && tcp.mss != 0 {
            let segment = head.get_mut(usize::from(packet.transport_offset)..);
            let _ = segment.and_then(|it| set_segment_size(it, tcp.mss, checksum));
        }
        if let Some(timestamps) = tcp.timestamps {
            let _ = write_timestamps(head, packet, timestamps, checksum);
        }
    }
}

/// Writes the DSCP and ECN fields, and updates the header checksum.
///
/// Source: RFC 2474, section 3; RFC 3168, section 5.
fn write_v4(head: &mut [u8], at: usize, packet: &Packet) {
    let Some(header) = header::<20>(head, at) else { return };
    let old = read(header, 0);
    let new = (old & 0xff00) | traffic_class(packet);
    if old != new {
        write(header, 0, new);
        write(header, 10, checksum::update(read(header, 10), old, new));
    }
}

/// Writes the DSCP and ECN fields, which no checksum of IPv6 covers.
fn write_v6(head: &mut [u8], at: usize, packet: &Packet) {
    let Some(header) = header::<40>(head, at) else { return };
    let old = read(header, 0);
    let new = (old & 0xf00f) | traffic_class(packet) << 4;
    if old != new {
        write(header, 0, new);
    }
}

fn write_tcp(head: &mut [u8], at: usize, tcp: &TcpSegment, checksum: Checksum) {
    let Some(header) = header::<20>(head, at) else { return };
    let same = header[SEQ..ACK] == tcp.seq.to_be_bytes()
        && header[ACK..FLAGS] == tcp.ack.to_be_bytes()
        && header[FLAGS + 1] == tcp.flags.0
        && header[WINDOW..CHECKSUM] == tcp.window.to_be_bytes();
    if same {
        return;
    }
    let ([a, b], [c, d]) = (halves(tcp.seq), halves(tcp.ack));
    let flags = (read(header, FLAGS) & 0xff00) | u16::from(tcp.flags.0);
    let words =
        [(SEQ, a), (SEQ + 2, b), (ACK, c), (ACK + 2, d), (FLAGS, flags), (WINDOW, tcp.window)];
    for (field, new) in words {
        let old = read(header, field);
        if old != new {
            write(header, field, new);
            if checksum == Checksum::Finished {
                write(header, CHECKSUM, checksum::update(read(header, CHECKSUM), old, new));
            }
        }
    }
}

/// Writes the timestamps option, which may begin at an odd byte. Checksum words are aligned to even
/// bytes.
fn write_timestamps(
    head: &mut [u8],
    packet: &Packet,
    (value, echo): (u32, u32),
    checksum: Checksum,
) -> Option<()> {
    let options = packet_options(head, packet)?;
    let at = 20 + timestamps_at(options)?;
    let segment = head.get_mut(usize::from(packet.transport_offset)..)?;
    let new = (u64::from(value) << 32 | u64::from(echo)).to_be_bytes();
    if segment.get(at..)?.starts_with(&new) {
        return Some(());
    }
    for (at, byte) in (at..).zip(new) {
        let old = read_at(segment, at & !1)?;
        *segment.get_mut(at)? = byte;
        let new = read_at(segment, at & !1)?;
        if old != new && checksum == Checksum::Finished {
            let header = segment.first_chunk_mut::<20>()?;
            write(header, CHECKSUM, checksum::update(read(header, CHECKSUM), old, new));
        }
    }
    Some(())
}

/// The two 16-bit words of a number, high word first.
pub(crate) const fn halves(number: u32) -> [u16; 2] {
    let [a, b, c, d] = number.to_be_bytes();
    [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
}

fn read_at(segment: &[u8], at: usize) -> Option<u16> {
    segment.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

pub(crate) fn header<const N: usize>(head: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    head.get_mut(at..)?.first_chunk_mut()
}

#[expect(clippy::as_conversions, reason = "the discriminants are the codepoints")]
pub(crate) const fn traffic_class(packet: &Packet) -> u16 {
    ((packet.dscp << 2) | packet.ecn as u8) as u16
}

#[inline]
pub(crate) fn read<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

#[inline]
pub(crate) fn write<const N: usize>(header: &mut [u8; N], at: usize, value: u16) {
    [header[at], header[at + 1]] = value.to_be_bytes();
}

const SEQ: usize = 4;
const ACK: usize = 8;
const FLAGS: usize = 12;
const WINDOW: usize = 14;
pub(crate) const CHECKSUM: usize = 16;
