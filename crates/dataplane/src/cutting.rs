//! Splits super-packets that arrive for a slow link into frames. A super-packet is several frames
//! of a flow that the kernel handles as one. Each frame gets its own buffer and descriptor.
//!
//! A link of 500 kbit/s takes a second to send a super-packet of 64 KiB. Once the super-packet is
//! split, packets of other flows can depart between its frames.
//!
//! Source: Linux, tc-cake(8), `split-gso`.
//! Differs: the rate of the link decides whether super-packets are split. A super-packet stays
//! whole if the buffers for its frames would run short.

use std::collections::VecDeque;

use tidegate_core::{PacketId, PacketPool, Time};
use tidegate_wire::split;

use crate::frame;
use crate::memory::PacketMemory;
use crate::port::PortCounters;

/// A received packet with its descriptor.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub packet: PacketId,
    /// True for the last frame of a split super-packet, and for any other packet. The interface
    /// counted the whole super-packet as one frame.
    pub ends: bool,
}

/// Splits the super-packet `packet` and appends its frames to `out`. A packet that cannot or need
/// not be split is appended unchanged. `packet` must already have a descriptor.
pub(crate) fn cut(
    memory: &PacketMemory,
    pool: &mut PacketPool,
    packet: PacketId,
    now: Time,
    out: &mut VecDeque<Arrived>,
) {
    let pieces = pieces(memory, pool, &packet).unwrap_or_default();
    let mut others = pieces.iter().skip(1);
    let whole = |packet| Arrived { packet, ends: true };
    let Some(first) = pieces.first() else { return out.push_back(whole(packet)) };
    fill(memory, pool, &packet, first, now);
    out.push_back(whole(packet));
    while let Some(piece) = others.next()
        && let Some(packet) = pool.reserve()
    {
        fill(memory, pool, &packet, piece, now);
        if let Some(before) = out.back_mut() {
            before.ends = false;
        }
        out.push_back(whole(packet));
    }
}

/// The frames of a super-packet. `None` for a single frame, for a super-packet that cannot be
/// split, or if free buffers would run short.
fn pieces(memory: &PacketMemory, pool: &PacketPool, packet: &PacketId) -> Option<Vec<Vec<u8>>> {
    let (described, vnet) = (&pool[packet], memory.frame(packet).vnet);
    let size = vnet.segment_size().filter(|_| described.segments > 1 && !vnet.is_fragmented())?;
    let more = usize::from(described.segments).saturating_sub(1);
    if pool.room() < more {
        return None;
    }
    let transport = vnet.checksum_span().map(|(start, _)| start);
    let pieces = split::frames(&memory.bytes(packet, described.len), size, transport)?;
    let fits = pieces.len() <= more + 1;
    fits.then_some(pieces)
}

/// Stores `piece` as the frame of `packet`, and describes it.
fn fill(memory: &PacketMemory, pool: &mut PacketPool, packet: &PacketId, piece: &[u8], now: Time) {
    if let Some(mut frame) = memory.place(pool, packet, piece.len()) {
        frame.copy_from_slice(piece);
    }
    let len = u32::try_from(piece.len()).unwrap_or(u32::MAX);
    // These counters are discarded, because the super-packet was already counted on arrival.
    frame::arrive(memory, pool, packet, len, now, &mut PortCounters::default());
}

#[cfg(test)]
mod tests {
    use tidegate_core::packet::{TcpFlags, TcpSegment};
    use tidegate_wire::build;

    use super::*;
    use crate::memory::Frame;
    use crate::vnet::VnetHeader;

    const MSS: u16 = 1_448;

    /// Splits a super-packet of `payload` bytes in a pool of `buffers`.
    fn cut_of(payload: usize, buffers: u32) -> (PacketPool, PacketMemory, VecDeque<Arrived>) {
        let mut frame = build::Frame::tcp(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        frame.payload = (0..payload).map(|n| n.to_le_bytes()[0]).collect();
        let tcp = frame.tcp_mut().unwrap();
        (tcp.seq, tcp.flags) = (100, TcpFlags(TcpFlags::ACK | TcpFlags::PSH));
        let bytes = frame.bytes();
        let memory = PacketMemory::new(buffers, 1 << 16).unwrap();
        let mut pool = PacketPool::with_capacity(buffers);
        let packet = pool.reserve().unwrap();
        let vnet = VnetHeader { gso_type: 1, gso_size: MSS, ..VnetHeader::default() };
        memory.set_frame(&packet, Frame { offset: 64, vnet });
        memory.buffer_mut(&packet)[64..][..bytes.len()].copy_from_slice(&bytes);
        let len = u32::try_from(bytes.len()).unwrap();
        frame::arrive(&memory, &mut pool, &packet, len, Time::ZERO, &mut PortCounters::default());
        let mut out = VecDeque::new();
        cut(&memory, &mut pool, packet, Time::ZERO, &mut out);
        (pool, memory, out)
    }

    fn tcp(pool: &PacketPool, packet: &PacketId) -> TcpSegment {
        pool[packet].tcp.unwrap()
    }

    /// Catches: a first frame that keeps the length of the whole super-packet; bytes lost or
    /// duplicated; an earlier frame that is marked as the last frame.
    #[test]
    fn the_frames_of_a_super_packet_are_in_order_and_contain_all_its_bytes() {
        let payload = 44 * usize::from(MSS) + 7;
        let (mut pool, memory, mut out) = cut_of(payload, 64);
        assert_eq!(out.len(), 45);
        let (mut next, mut bytes) = (100, 0);
        while let Some(Arrived { packet, ends }) = out.pop_front() {
            assert_eq!(ends, out.is_empty());
            let segment = tcp(&pool, &packet);
            assert_eq!((segment.seq, pool[&packet].segments), (next, 1));
            assert_eq!(segment.flags.any(TcpFlags::PSH), out.is_empty());
            assert_eq!(memory.frame(&packet).vnet, VnetHeader::default());
            let frame = memory.bytes(&packet, pool[&packet].len);
            let data = &frame[frame.len() - usize::try_from(segment.payload).unwrap()..];
            assert!(
                data.iter().zip(bytes..).all(|(byte, n): (_, usize)| *byte == n.to_le_bytes()[0])
            );
            (next, bytes) = (next + segment.payload, bytes + data.len());
            drop(frame);
            pool.release(packet);
        }
        assert_eq!((bytes, pool.in_use()), (payload, 0));
    }

    /// Catches: frames lost for lack of buffers; a split that takes the buffers reserved for other
    /// uses.
    #[test]
    fn a_super_packet_whose_frames_would_make_buffers_scarce_stays_whole() {
        for (buffers, segments, frames) in [(16, 14, 14), (16, 15, 1), (16, 16, 1), (16, 17, 1)] {
            let payload = segments * usize::from(MSS);
            let (mut pool, _, mut out) = cut_of(payload, buffers);
            assert_eq!(out.len(), frames);
            let all: u32 = out.iter().map(|it| tcp(&pool, &it.packet).payload).sum();
            assert_eq!(usize::try_from(all), Ok(payload));
            out.drain(..).for_each(|it| pool.release(it.packet));
        }
    }

    #[test]
    fn a_single_frame_does_not_change() {
        let (mut pool, memory, mut out) = cut_of(usize::from(MSS), 4);
        let packet = out.pop_front().unwrap().packet;
        assert_eq!((out.len(), memory.frame(&packet).offset), (0, 64));
        pool.release(packet);
    }
}
