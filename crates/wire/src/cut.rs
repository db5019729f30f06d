//! An ACK of its own made of the headers of data that carried it.

use tidegate_core::Packet;
use tidegate_core::packet::Network;

use crate::checksum;
use crate::describe::{describe, pppoe_session};
use crate::rewrite::{CHECKSUM, Checksum, halves, header, read, write};

/// Makes of `head`, the first bytes of the TCP segment `frame`, a segment without payload; says
/// whether it could.
///
/// The lengths in the headers of PPPoE and IP, and the checksums, follow; sequence number and control
/// bits are for [`rewrite`](crate::rewrite()) to say. A wrong checksum stays wrong by the same amount, so
/// a damaged segment makes no sound ACK: for that the payload is summed, unless the sum is
/// [left to a NIC](Checksum::Partial).
///
/// Bytes of `head` behind the TCP header stand where `frame` has padding or a trailer. They become zero, as
/// padding is (IEEE 802.3, section 3.2.7).
pub fn cut(frame: &[u8], head: &mut [u8], checksum: Checksum) -> bool {
    let mut packet = Packet::default();
    describe(frame, u32::try_from(frame.len()).unwrap_or(u32::MAX), &mut packet);
    try_cut(frame, head, &packet, checksum).is_some()
}

fn try_cut(frame: &[u8], head: &mut [u8], packet: &Packet, checksum: Checksum) -> Option<()> {
    let payload = packet.tcp.filter(|tcp| !tcp.authenticated)?.payload;
    let (network, at) = (usize::from(packet.network_offset), usize::from(packet.transport_offset));
    let header_len = u32::from(*frame.get(at + 12)? >> 4) * 4;
    let starts = at + usize::try_from(header_len).ok()?;
    let bytes = frame.get(starts..)?.get(..usize::try_from(payload).ok()?)?;
    head.get_mut(starts..)?.fill(0);
    let transport = u32::try_from(starts.checked_sub(network)?).ok()?;
    match packet.network {
        Network::Opaque => return None,
        Network::Ipv4 => shorten_v4(header(head, network)?, u16::try_from(transport).ok()?),
        Network::Ipv6 => {
            write(header::<40>(head, network)?, 4, u16::try_from(transport - V6).ok()?)
        }
    }
    shorten_pppoe(frame, head, network, transport)?;
    let tcp = header::<20>(head, at)?;
    // A partial checksum holds the sum itself, and of the pseudo header only.
    let flip = if checksum == Checksum::Partial { u16::MAX } else { 0 };
    let mut sum = read(tcp, CHECKSUM) ^ flip;
    if checksum == Checksum::Finished {
        sum = checksum::update(sum, checksum::sum(0, bytes), 0);
    }
    let lengths = [header_len + payload, header_len].map(halves);
    for (old, new) in lengths[0].into_iter().zip(lengths[1]) {
        sum = checksum::update(sum, old, new);
    }
    write(tcp, CHECKSUM, sum ^ flip);
    Some(())
}

fn shorten_v4(header: &mut [u8; 20], total: u16) {
    let old = read(header, 2);
    write(header, 2, total);
    write(header, 10, checksum::update(read(header, 10), old, total));
}

/// Source: RFC 2516, section 4: the length counts PPP's protocol field, of one or two bytes.
fn shorten_pppoe(frame: &[u8], head: &mut [u8], network: usize, transport: u32) -> Option<()> {
    if let Some(at) = pppoe_session(frame) {
        let ppp = u32::try_from(network.checked_sub(at + PPPOE)?).ok()?;
        write(header::<PPPOE>(head, at)?, 4, u16::try_from(transport + ppp).ok()?);
    }
    Some(())
}

/// Bytes of an IPv6 header.
const V6: u32 = 40;
/// Bytes of a PPPoE header, without PPP.
const PPPOE: usize = 6;
