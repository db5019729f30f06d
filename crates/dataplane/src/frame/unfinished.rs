//! Tests frames in tunnels in which the unfinished checksum is not the checksum of the TCP header.

use tidegate_core::packet::FrameCopy;
use tidegate_core::{Packet, PacketId, PacketPool, Time};
use tidegate_wire::build::Frame as Built;
use tidegate_wire::describe_innermost;

use super::{arrive, copy, write_back};
use crate::memory::{Frame, PacketMemory};
use crate::port::PortCounters;
use crate::vnet::VnetHeader;

/// Offsets of the outer UDP header (after Ethernet and IPv4) and of the inner IPv4 header.
const OUTER: usize = 34;
const INNER: usize = OUTER + 8 + 8 + 14;

/// TCP data in VXLAN. Both the inner and the outer checksum are finished.
fn vxlan() -> Vec<u8> {
    let mut inner = Built::tcp(([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
    inner.payload = (0..99).collect();
    let mut outer = Built::udp(([192, 0, 2, 1], 4_000).into(), ([192, 0, 2, 2], 4_789).into());
    outer.payload = [&[8, 0, 0, 0, 0, 0, 7, 0], &inner.bytes()[..]].concat();
    outer.bytes()
}

/// Makes one checksum unfinished: the checksum of the header of `protocol`. The header is at offset
/// `at`, and its checksum field is `offset` bytes later.
fn set_partial(frame: &mut [u8], protocol: u8, at: usize, offset: usize) -> VnetHeader {
    let sum = ones(&pseudo(frame, protocol, at));
    frame[at + offset..at + offset + 2].copy_from_slice(&sum.to_be_bytes());
    VnetHeader {
        flags: 1,
        csum_start: u16::try_from(at).unwrap(),
        csum_offset: u16::try_from(offset).unwrap(),
        ..VnetHeader::default()
    }
}

fn pseudo(frame: &[u8], protocol: u8, at: usize) -> Vec<u8> {
    let len = u16::try_from(frame.len() - at).unwrap().to_be_bytes();
    [&frame[at - 8..at], &[0, protocol], &len].concat()
}

/// The one's complement sum of 16-bit words.
fn ones(bytes: &[u8]) -> u16 {
    let sum = bytes.chunks(2).fold(0, |sum: u32, word| {
        let sum = sum + (u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0)));
        (sum & 0xffff) + (sum >> 16)
    });
    u16::try_from(sum).unwrap()
}

/// Asserts that all lengths are consistent and all four checksums are right.
fn is_whole(frame: &[u8]) {
    for ip in [14, INNER] {
        assert_eq!(ones(&frame[ip..ip + 20]), 0xffff, "the IPv4 header at {ip}");
        let total = usize::from(frame[ip + 2]) << 8 | usize::from(frame[ip + 3]);
        assert_eq!(ip + total, frame.len(), "the length at {ip}");
    }
    for (protocol, at) in [(17, OUTER), (6, INNER + 20)] {
        let sum = ones(&[&pseudo(frame, protocol, at), &frame[at..]].concat());
        assert_eq!(sum, 0xffff, "the checksum of the header at {at}");
    }
}

struct UnfinishedFrames {
    memory: PacketMemory,
    pool: PacketPool,
    packet: PacketId,
}

/// The packet of `frame` after a port has received it with the metadata `vnet`.
fn arrived(frame: &[u8], vnet: VnetHeader) -> UnfinishedFrames {
    let memory = PacketMemory::new(2, PacketMemory::SMALLEST).unwrap();
    let mut pool = PacketPool::with_capacity(2);
    let packet = pool.reserve().unwrap();
    memory.set_frame(&packet, Frame { offset: 64, vnet });
    let len = u32::try_from(frame.len()).unwrap();
    memory.bytes_mut(&packet, len).copy_from_slice(frame);
    arrive(&memory, &mut pool, &packet, len, Time::ZERO, &mut PortCounters::default());
    UnfinishedFrames { memory, pool, packet }
}

/// Catches: a new window without an update of the inner TCP checksum, because the outer checksum
/// was unfinished; a finished outer checksum that the kernel is asked to complete once more.
#[test]
fn a_window_can_be_rewritten_although_the_outer_checksum_was_unfinished() {
    let mut frame = vxlan();
    let vnet = set_partial(&mut frame, 17, OUTER, 6);
    let UnfinishedFrames { memory, mut pool, packet } = arrived(&frame, vnet);
    pool[&packet].tcp.as_mut().unwrap().window = 1_234;
    pool[&packet].rewritten = true;
    write_back(&memory, &mut pool, &packet);
    let left = memory.bytes(&packet, pool[&packet].len).to_vec();
    assert_eq!(memory.frame(&packet).vnet, VnetHeader::default());
    assert_eq!(left[INNER + 34..INNER + 36], 1_234_u16.to_be_bytes());
    is_whole(&left);
    pool.release(packet);
}

/// Catches: an ACK whose finished TCP checksum is treated as unfinished.
#[test]
fn an_ack_is_cut_from_data_although_the_outer_checksum_was_unfinished() {
    let mut frame = vxlan();
    let vnet = set_partial(&mut frame, 17, OUTER, 6);
    let UnfinishedFrames { memory, mut pool, packet } = arrived(&frame, vnet);
    let ack = pool.insert(Packet::default()).unwrap();
    let len = pool[&packet].len - 99;
    copy(
        &memory,
        &FrameCopy { from: packet.index(), to: ack.index(), whole: pool[&packet].len, len },
    );
    let left = memory.bytes(&ack, len).to_vec();
    assert_eq!(memory.frame(&ack).vnet, VnetHeader::default());
    is_whole(&left);
    let mut described = Packet::default();
    describe_innermost(&left, len, &mut described, &mut None);
    assert_eq!(described.tcp.map(|tcp| tcp.payload), Some(0));
    pool.release(packet);
    pool.release(ack);
}

/// Catches: a fragment of a data segment that is sent as an ACK.
#[test]
fn a_packet_from_which_no_ack_can_be_cut_has_no_frame() {
    let mut frame = vxlan();
    frame[INNER + 6] = 0x20; // More fragments follow, so this is only a part of the segment.
    let UnfinishedFrames { memory, mut pool, packet } = arrived(&frame, VnetHeader::default());
    let ack = pool.insert(Packet::default()).unwrap();
    let (whole, len) = (pool[&packet].len, pool[&packet].len - 99);
    copy(&memory, &FrameCopy { from: packet.index(), to: ack.index(), whole, len });
    assert!(memory.frame(&ack).is_none());
    assert!(memory.bytes(&ack, len).is_empty());
    pool.release(packet);
    pool.release(ack);
}

/// Catches: a checksum of the TCP header, or of a super-packet, that is completed on arrival
/// although the sending hardware would complete it.
#[test]
fn the_checksum_of_the_tcp_header_stays_unfinished() {
    let mut frame = vxlan();
    let inner = set_partial(&mut frame, 6, INNER + 20, 16);
    let outer = VnetHeader { gso_type: 1, gso_size: 50, ..set_partial(&mut frame, 17, OUTER, 6) };
    for vnet in [inner, outer] {
        let UnfinishedFrames { memory, mut pool, packet } = arrived(&frame, vnet);
        assert_eq!(memory.frame(&packet).vnet, vnet);
        assert_eq!(*memory.bytes(&packet, pool[&packet].len), frame);
        pool.release(packet);
    }
}
