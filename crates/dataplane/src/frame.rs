//! Fills in the descriptor of an arrived frame, and writes changes of the descriptor back into the
//! frame. All kinds of ports use these functions.

#[cfg(test)]
mod acks;
#[cfg(test)]
mod unfinished;

use tidegate_core::packet::FrameCopy;
use tidegate_core::{Packet, PacketId, PacketPool, Time};
use tidegate_wire::{Checksum, cut, describe_innermost, finish_checksum, rewrite, segment};

use crate::memory::{Frame, PacketMemory};
use crate::port::PortCounters;
use crate::vnet::VnetHeader;

/// Fills in the descriptor of an arrived frame of `len` bytes. `memory` already knows the frame's
/// position.
pub(crate) fn arrive(
    memory: &PacketMemory,
    pool: &mut PacketPool,
    packet: &PacketId,
    len: u32,
    now: Time,
    counters: &mut PortCounters,
) {
    let (described, mut outer) = (&mut pool[packet], None);
    let oddity = describe_innermost(&memory.bytes(packet, len), len, described, &mut outer);
    oddity.into_iter().for_each(|it| counters.oddities.count(it));
    described.arrived = now;
    let is_part = described.fragment.is_part();
    if let Some(size) = memory.frame(packet).vnet.segment_size().filter(|_| !is_part) {
        (described.segments, described.segment) = (segments(described, size), size);
    }
    let finished = finish_other(memory, packet, described);
    if memory.frame(packet).vnet.partial_checksum() && !is_part && !finished {
        // The unfinished checksum would differ from the one that the peer gateway sees.
        described.checksum = 0;
    }
    if let Some(outer) = outer {
        pool.set_outer(packet, outer);
    }
    if pool.keeps_sack() && pool[packet].tcp.is_some_and(|tcp| tcp.has_sack) {
        let blocks = segment::sack(&memory.bytes(packet, len), &pool[packet]);
        pool.set_sack(packet, blocks);
    }
    if pool.keeps_stations() {
        pool.set_station(packet, source_address(&memory.bytes(packet, len)));
    }
    counters.received += 1;
    counters.received_bytes += u64::from(len);
}

/// Completes an unfinished checksum outside of the TCP header, in a frame with TCP. Returns `true`
/// if there was such a checksum.
///
/// Later code assumes that an unfinished checksum is the checksum of the TCP header. But the kernel
/// can also leave an outer UDP checksum unfinished, if the inner TCP checksum is complete. In a
/// super-packet (GSO), the innermost checksum is unfinished.
///
/// Source: Linux, `Documentation/networking/checksum-offloads.rst`: a packet has at most one
/// unfinished checksum.
fn finish_other(memory: &PacketMemory, packet: &PacketId, described: &Packet) -> bool {
    let Frame { offset, vnet } = memory.frame(packet);
    let Some((start, field)) = vnet.checksum_span() else { return false };
    let other = described.tcp.is_some() && start != usize::from(described.transport_offset);
    if !other || vnet.segment_size().is_some() {
        return false;
    }
    let finished = finish_checksum(&mut memory.bytes_mut(packet, described.len), start, field);
    if finished {
        memory.set_frame(packet, Frame { offset, vnet: vnet.finished() });
    }
    finished
}

/// The link-layer source address of `frame`. Zero if the frame is too short.
fn source_address(frame: &[u8]) -> u64 {
    /// After the destination address (IEEE 802.3, 3.2.4).
    const AT: usize = 6;
    let Some(&[a, b, c, d, e, f]) = frame.get(AT..).and_then(<[u8]>::first_chunk) else { return 0 };
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Number of frames in a super-packet whose frames have `size` payload bytes each.
fn segments(packet: &Packet, size: u16) -> u16 {
    /// UDP super-packets have no TCP header, so the length of the UDP header is subtracted.
    const UDP_HEADER: u32 = 8;
    let headers = u32::from(packet.transport_offset) + UDP_HEADER;
    let payload = match packet.tcp {
        Some(tcp) => tcp.payload,
        None => packet.len.saturating_sub(headers),
    };
    let segments = payload.div_ceil(u32::from(size.max(1))).max(1);
    u16::try_from(segments).unwrap_or(u16::MAX)
}

/// Makes the frame of a new packet from another frame, as the pool requests: a copy, or an ACK cut
/// from a data segment. If no ACK can be cut, the new packet gets [no frame](Frame::NONE).
pub(crate) fn copy(memory: &PacketMemory, copy: &FrameCopy) {
    memory.copy(copy, |whole, part, vnet| {
        if copy.len < copy.whole {
            return cut(whole, part, checksum(vnet)).then(|| vnet.single());
        }
        Some(vnet)
    });
}

/// Writes the changed fields of a packet's descriptor into its frame.
pub(crate) fn write_back(memory: &PacketMemory, pool: &mut PacketPool, packet: &PacketId) {
    let described = &mut pool[packet];
    if described.rewritten {
        let checksum = checksum(memory.frame(packet).vnet);
        rewrite(&mut memory.bytes_mut(packet, described.len), described, checksum);
        described.rewritten = false;
    }
}

const fn checksum(vnet: VnetHeader) -> Checksum {
    if vnet.partial_checksum() { Checksum::Partial } else { Checksum::Finished }
}

#[cfg(test)]
mod tests {
    use tidegate_core::packet::TcpSegment;
    use tidegate_wire::build;

    use super::*;

    /// Catches: SACK blocks read although the pool does not keep them; SACK blocks never read.
    #[test]
    fn selective_acknowledgements_are_read_for_a_pool_that_keeps_them() {
        let mut frame = build::Frame::tcp(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let tcp = frame.tcp_mut().unwrap();
        tcp.options = [[1, 1, 5, 10], [0, 0, 0, 5], [0, 0, 0, 9]].concat();
        let bytes = frame.bytes();
        let memory = PacketMemory::new(1, PacketMemory::SMALLEST).unwrap();
        let mut pool = PacketPool::with_capacity(1);
        let packet = pool.reserve().unwrap();
        memory.buffer_mut(&packet)[..bytes.len()].copy_from_slice(&bytes);
        for expected in [&[][..], &[(5, 9)]] {
            let len = u32::try_from(bytes.len()).unwrap();
            arrive(&memory, &mut pool, &packet, len, Time::ZERO, &mut PortCounters::default());
            assert_eq!(pool.sack(&packet).as_slice(), expected);
            pool.keep_sack();
        }
        pool.release(packet);
    }

    /// Catches: the destination address read instead of the source; the address bytes reversed; the
    /// address of an earlier frame in the same buffer.
    #[test]
    fn the_link_layer_source_is_read_for_a_pool_that_keeps_it() {
        let mut frame = [0; 60];
        frame[..12].copy_from_slice(&[9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6]);
        assert_eq!(source_address(&frame), 0x0102_0304_0506);
        assert_eq!(source_address(&frame[..11]), 0);
    }

    /// Catches: an unfinished checksum (the sum of the pseudo header) stored in the descriptor as
    /// if it were finished; a finished checksum that is not stored.
    #[test]
    fn an_unfinished_checksum_is_not_stored_in_the_descriptor() {
        let mut frame = build::Frame::udp(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        frame.payload = vec![7; 2_000];
        let bytes = frame.bytes();
        let memory = PacketMemory::new(1, 4_096).unwrap();
        let mut pool = PacketPool::with_capacity(1);
        let packet = pool.reserve().unwrap();
        let partial =
            VnetHeader { flags: 1, gso_type: 5, gso_size: 1_000, ..VnetHeader::default() };
        for (vnet, checksum, frames) in
            [(partial, false, (2, 1_000)), (VnetHeader::default(), true, (1, 0))]
        {
            memory.set_frame(&packet, Frame { offset: 0, vnet });
            memory.buffer_mut(&packet)[..bytes.len()].copy_from_slice(&bytes);
            let len = u32::try_from(bytes.len()).unwrap();
            arrive(&memory, &mut pool, &packet, len, Time::ZERO, &mut PortCounters::default());
            assert_eq!(pool[&packet].checksum != 0, checksum);
            assert_eq!((pool[&packet].segments, pool[&packet].segment), frames);
        }
        pool.release(packet);
    }

    #[test]
    fn the_frames_of_a_super_packet_are_computed_from_its_payload() {
        let tcp = |payload| Some(TcpSegment { payload, ..TcpSegment::default() });
        let packet = |payload| Packet { len: 66 + payload, tcp: tcp(payload), ..Packet::default() };
        assert_eq!(segments(&packet(2 * 1_448), 1_448), 2);
        assert_eq!(segments(&packet(2 * 1_448 + 1), 1_448), 3);
        assert_eq!(segments(&packet(0), 0), 1);
        let udp = Packet { len: 42 + 2_000, transport_offset: 34, ..Packet::default() };
        assert_eq!(segments(&udp, 1_000), 2);
    }
}
