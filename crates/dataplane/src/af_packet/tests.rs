//! Tests the packet-socket port over a fake socket. Each test prescribes the results of the
//! socket's system calls. A super-packet is several frames of a flow that the kernel handles as
//! one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use proptest::prelude::*;
use tidegate_core::packet::{Endpoint, FlowKey, Protocol};
use tidegate_core::{Packet, PacketId, PacketPool, Reason, Time};
use tidegate_wire::build::{Frame as Built, Transport};
use tidegate_wire::{Completed, VlanTag, complete_checksum, describe};

use super::queue::{ATTEMPTS, Waiting};
use super::socket::{ReceivedFrame, SocketIo};
use super::{BATCH, PacketPort};
use crate::memory::{Frame, PacketMemory};
use crate::port::Refusal;
use crate::vnet::VnetHeader;

/// A socket with prescribed results. If no result is prescribed, it receives nothing and accepts
/// every frame.
#[derive(Default)]
struct Fake {
    /// Results of the receiving system calls: frames or an error number. The frames begin with
    /// bytes 0, 1, 2 and so on.
    arriving: RefCell<VecDeque<Result<Vec<ReceivedFrame>, i32>>>,
    /// Bytes that every received frame has, instead of only a first byte.
    content: RefCell<Option<Vec<u8>>>,
    /// Results of the calls to send: the maximum number of accepted frames, or an error number.
    sending: RefCell<VecDeque<Result<usize, i32>>>,
    /// First byte of each sent frame.
    sent: RefCell<Vec<u8>>,
    /// The bytes of each sent frame.
    frames: RefCell<Vec<Vec<u8>>>,
    /// Frames that begin with these bytes are refused, as a filter of the interface does.
    bad: RefCell<Vec<u8>>,
    calls: RefCell<u32>,
}

impl SocketIo for Fake {
    fn receive(
        &self,
        memory: &PacketMemory,
        into: &[PacketId],
        headroom: usize,
        arrivals: &mut Vec<ReceivedFrame>,
    ) -> io::Result<()> {
        *self.calls.borrow_mut() += 1;
        let answer = self.arriving.borrow_mut().pop_front().unwrap_or(Err(libc::EAGAIN));
        let received = answer.map_err(io::Error::from_raw_os_error)?;
        for (arrival, packet) in received.into_iter().zip(into) {
            let content = self.content.borrow().clone().unwrap_or_else(|| (0..60).collect());
            memory.buffer_mut(packet)[headroom..][..content.len()].copy_from_slice(&content);
            arrivals.push(ReceivedFrame { len: u32::try_from(content.len()).unwrap(), ..arrival });
        }
        Ok(())
    }

    fn discard(&self) -> io::Result<usize> {
        let answer = self.arriving.borrow_mut().pop_front().unwrap_or(Err(libc::EAGAIN));
        answer.map(|frames| frames.len()).map_err(io::Error::from_raw_os_error)
    }

    fn send(&self, memory: &PacketMemory, frames: &[Waiting]) -> io::Result<usize> {
        let answer = self.sending.borrow_mut().pop_front().unwrap_or(Ok(usize::MAX));
        let taken = answer.map_err(io::Error::from_raw_os_error)?.min(frames.len()).min(BATCH);
        let bad = self.bad.borrow();
        let good = frames[..taken].iter().map(|it| it.to_vec(memory));
        let good: Vec<_> = good.take_while(|it| !bad.contains(&it[0])).collect();
        let taken = good.len();
        if taken == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        self.sent.borrow_mut().extend(good.iter().map(|it| it[0]));
        self.frames.borrow_mut().extend(good);
        Ok(taken)
    }

    fn overflows(&self) -> u64 {
        1
    }
}

struct Bench {
    port: PacketPort<Fake>,
    pool: PacketPool,
}

impl Bench {
    fn new(buffers: u32) -> Self {
        let memory = PacketMemory::new(buffers, 8_192).unwrap();
        let port = PacketPort::new(Fake::default(), memory);
        Self { port, pool: PacketPool::with_capacity(buffers) }
    }

    fn arriving(&mut self, answers: impl IntoIterator<Item = Result<Vec<ReceivedFrame>, i32>>) {
        *self.port.socket.arriving.borrow_mut() = answers.into_iter().collect();
    }

    fn sending(&mut self, answers: impl IntoIterator<Item = Result<usize, i32>>) {
        *self.port.socket.sending.borrow_mut() = answers.into_iter().collect();
    }

    /// Sends frames that begin with 0, 1, 2 and so on.
    fn send(&mut self, frames: u8) {
        for first in 0..frames {
            let packet = self.pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
            self.port.memory.set_frame(&packet, Frame::default());
            self.port.memory.bytes_mut(&packet, 60)[0] = first;
            self.port.send(&mut self.pool, packet);
        }
        self.port.flush(&mut self.pool);
    }

    /// Sends a frame of 60 bytes that begins with `first`, of flow `flow`.
    fn send_of(&mut self, flow: u16, first: u8) {
        let src = Endpoint::v4([10, 0, 0, 1], flow);
        let key = FlowKey { src, protocol: Protocol::UDP, ..FlowKey::default() };
        let packet = self.pool.insert(Packet { len: 60, key, ..Packet::default() }).unwrap();
        self.port.memory.set_frame(&packet, Frame::default());
        self.port.memory.bytes_mut(&packet, 60)[0] = first;
        self.port.send(&mut self.pool, packet);
    }

    /// Sends a super-packet with segments of this size and its transport header at `transport`.
    fn send_super(&mut self, frame: &[u8], size: u16, transport: u16) {
        let packet = self.pool.reserve().unwrap();
        let (flags, csum_offset) = (1, 16);
        let vnet = VnetHeader {
            gso_type: 1,
            gso_size: size,
            flags,
            csum_start: transport,
            csum_offset,
            ..VnetHeader::default()
        };
        self.port.memory.set_frame(&packet, Frame { offset: 0, vnet });
        let len = u32::try_from(frame.len()).unwrap();
        self.port.memory.bytes_mut(&packet, len).copy_from_slice(frame);
        describe(frame, len, &mut self.pool[&packet]);
        self.port.send(&mut self.pool, packet);
    }

    fn receive(&mut self) -> Option<PacketId> {
        self.port.receive(&mut self.pool, Time::ZERO)
    }
}

#[test]
fn frames_wait_in_order_while_the_interface_has_no_room() {
    let mut bench = Bench::new(8);
    bench.sending([Ok(2), Err(libc::ENOBUFS), Err(libc::EAGAIN), Ok(1)]);
    bench.send(4);
    assert_eq!((bench.port.outgoing.len(), bench.pool.in_use()), (2, 2));
    bench.port.flush(&mut bench.pool);
    bench.port.flush(&mut bench.pool);
    assert_eq!(*bench.port.socket.sent.borrow(), [0, 1, 2, 3]);
    let counters = bench.port.counters();
    assert_eq!((counters.sent, counters.sent_bytes, counters.events.send_errors), (4, 240, 2));
    assert_eq!((counters.drops.total(), bench.pool.in_use()), (0, 0));
}

#[test]
fn a_frame_that_the_interface_never_accepts_does_not_delay_other_frames() {
    let mut bench = Bench::new(8);
    bench.sending((0..ATTEMPTS).map(|_| Err(libc::ENOBUFS)));
    bench.send(2);
    (1..ATTEMPTS).for_each(|_| bench.port.flush(&mut bench.pool));
    assert_eq!(*bench.port.socket.sent.borrow(), [1]);
    assert_eq!(bench.port.counters().report().refused, 1);
}

/// The frames of eight flows are refused, and the ninth flow does not wait for them.
///
/// Catches: a refused frame that blocks all flows until it is dropped; a queue that offers too few
/// other flows after a refusal; refused frames that fill the queue.
#[test]
fn flows_that_the_interface_refuses_delay_no_other_flow() {
    let mut bench = Bench::new(256);
    *bench.port.socket.bad.borrow_mut() = (100..108).collect();
    for round in 0..20 {
        for bad in 0..8_u8 {
            bench.send_of(bad.into(), 100 + bad);
        }
        bench.send_of(99, round);
        bench.port.flush(&mut bench.pool);
        assert_eq!(bench.port.socket.sent.borrow().last(), Some(&round), "in order");
    }
    for _ in 0..ATTEMPTS {
        bench.port.flush(&mut bench.pool);
    }
    let counters = bench.port.counters();
    assert_eq!((counters.sent, counters.drops.of(Reason::Refused)), (20, 160));
    let refused = counters.refused.unwrap();
    assert!(refused.key.src.port < 8 && refused.why == Refusal::Kernel(libc::ENOBUFS));
    assert_eq!((refused.len, bench.pool.in_use(), bench.port.outgoing.len()), (60, 0, 0));
}

/// Catches: a full interface for which the queue drops a frame or reorders its flows.
#[test]
fn all_frames_wait_in_order_while_the_interface_has_no_room_for_any_flow() {
    let mut bench = Bench::new(64);
    bench.sending((0..200).map(|_| Err(libc::ENOBUFS)));
    for first in 0..24 {
        bench.send_of(u16::from(first % 12), first);
    }
    // Each flush offers the frames of at most nine flows.
    for _ in 0..20 {
        bench.port.flush(&mut bench.pool);
    }
    assert_eq!(bench.port.socket.sent.borrow().len(), 0);
    bench.sending([]);
    bench.port.flush(&mut bench.pool);
    assert_eq!(*bench.port.socket.sent.borrow(), (0..24).collect::<Vec<u8>>());
    assert_eq!(bench.port.counters().drops.total(), 0);
}

/// Catches: a super-packet in a tunnel that is passed to the kernel, which cannot split it;
/// segments sent out of order.
#[test]
fn a_super_packet_in_a_tunnel_is_sent_in_segments_and_in_order_with_other_frames() {
    let mut bench = Bench::new(16);
    let inner = Built { payload: vec![7; 3_500], ..tcp("10.1.0.1:1", "10.1.0.2:2") };
    let mut vxlan = Built::udp(end("10.0.0.1:9"), end("10.0.0.2:4789"));
    vxlan.payload = [&[8, 0, 0, 0, 0, 0, 42, 0][..], &inner.bytes()].concat();
    let transport = 14 + 20 + 8 + 8 + 14 + 20;
    bench.send_of(1, 200);
    bench.send_super(&vxlan.bytes(), 1_000, transport);
    bench.send_of(1, 201);
    let plain = inner.bytes();
    bench.send_super(&plain, 1_000, 34);
    bench.port.flush(&mut bench.pool);
    let frames = bench.port.socket.frames.borrow();
    let lens: Vec<_> = frames.iter().map(Vec::len).collect();
    let headers = usize::from(transport) + 20;
    let (whole, last) = (headers + 1_000, headers + 500);
    assert_eq!(lens, [60, whole, whole, whole, last, 60, plain.len()], "the plain one is whole");
    assert_eq!((frames[0][0], frames[5][0]), (200, 201));
    let counters = bench.port.counters();
    assert_eq!((counters.sent, counters.events.split, bench.pool.in_use()), (7, 1, 0));
}

/// Catches: a super-packet that cannot be split but is passed to the kernel whole, or whose drop is
/// not reported.
#[test]
fn a_super_packet_that_cannot_be_split_is_dropped_and_reported() {
    let mut bench = Bench::new(16);
    let inner = Built { payload: vec![7; 3_500], ..tcp("10.1.0.1:1", "10.1.0.2:2") };
    let mut gre = Built::ip("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), {
        Transport::Other(47)
    });
    // GRE with sequence numbers: the tunnel numbers its packets, so they cannot be split.
    gre.payload = [&[0x10, 0, 8, 0, 0, 0, 0, 1][..], &inner.bytes()[14..]].concat();
    bench.send_super(&gre.bytes(), 1_000, 14 + 20 + 8 + 20);
    bench.send_of(1, 200);
    bench.port.flush(&mut bench.pool);
    assert_eq!(*bench.port.socket.sent.borrow(), [200]);
    let counters = bench.port.counters();
    assert_eq!((counters.drops.of(Reason::Refused), counters.events.split), (1, 0));
    assert_eq!(counters.refused.map(|it| it.why), Some(Refusal::Whole));
    assert_eq!(bench.pool.in_use(), 0);
}

/// Catches: an SCTP checksum left to the kernel, which would write a sum of 16 bits into the first
/// half of the 32-bit field.
#[test]
fn an_sctp_checksum_left_to_the_interface_is_completed() {
    let mut bench = Bench::new(16);
    let mut sctp = Built::ip("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap(), {
        Transport::Other(132)
    });
    sctp.payload = b"\x13\x88\x01\xbb\0\0\0\0\0\0\0\0chunks..".to_vec();
    let frame = sctp.bytes();
    let packet = bench.pool.reserve().unwrap();
    let vnet = VnetHeader { flags: 1, csum_start: 34, csum_offset: 8, ..VnetHeader::default() };
    bench.port.memory.set_frame(&packet, Frame { offset: 0, vnet });
    let len = u32::try_from(frame.len()).unwrap();
    bench.port.memory.bytes_mut(&packet, len).copy_from_slice(&frame);
    describe(&frame, len, &mut bench.pool[&packet]);
    bench.port.send(&mut bench.pool, packet);
    assert!(bench.port.outgoing.from(0)[0].parts(&bench.port.memory).2 == VnetHeader::default());
    bench.port.flush(&mut bench.pool);
    let mut expected = frame.clone();
    let mut about = Packet::default();
    describe(&expected, len, &mut about);
    assert_eq!(complete_checksum(&mut expected, &about), Completed::Some);
    assert_eq!(bench.port.socket.frames.borrow()[..], [expected]);
}

fn end(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn tcp(src: &str, dst: &str) -> Built {
    Built::tcp(end(src), end(dst))
}

#[test]
fn a_frame_longer_than_the_mtu_is_dropped_and_the_next_frame_is_sent() {
    let mut bench = Bench::new(8);
    bench.sending([Ok(1), Err(libc::EMSGSIZE), Ok(1), Err(libc::ENETDOWN)]);
    bench.send(4);
    assert_eq!(*bench.port.socket.sent.borrow(), [0, 2]);
    let drops = bench.port.counters().drops;
    assert_eq!((drops.of(Reason::TooLong), drops.of(Reason::Refused), drops.total()), (1, 1, 2));
    assert_eq!(bench.pool.in_use(), 0);
}

#[test]
fn a_vlan_tag_in_the_metadata_is_inserted_after_the_mac_addresses() {
    let mut bench = Bench::new(8);
    let tag = ReceivedFrame {
        tag: Some(VlanTag { tpid: 0x88a8, tci: 0xa064 }),
        ..ReceivedFrame::default()
    };
    bench.arriving([Ok(vec![tag, ReceivedFrame::default()])]);
    let tagged = bench.receive().unwrap();
    let mut expected: Vec<u8> = (0..60).collect();
    assert_eq!(bench.pool[&tagged].len, 64);
    expected.splice(12..12, [0x88, 0xa8, 0xa0, 0x64]);
    assert_eq!(*bench.port.memory.bytes(&tagged, 64), expected);
    let plain = bench.receive().unwrap();
    assert_eq!(*bench.port.memory.bytes(&plain, 60), (0..60).collect::<Vec<u8>>());
    bench.pool.release(tagged);
    bench.pool.release(plain);
}

#[test]
fn a_frame_longer_than_a_buffer_is_dropped_and_counted() {
    let mut bench = Bench::new(8);
    let truncated = ReceivedFrame { truncated: true, ..ReceivedFrame::default() };
    bench.arriving([Ok(vec![truncated, ReceivedFrame::default()])]);
    let whole = bench.receive().unwrap();
    assert_eq!(bench.port.counters().drops.of(Reason::TooLong), 1);
    assert_eq!((bench.port.counters().received, bench.pool.in_use()), (1, 1));
    bench.pool.release(whole);
}

#[test]
fn after_part_of_a_batch_the_socket_is_not_called_again_in_the_same_iteration() {
    let mut bench = Bench::new(64);
    bench.arriving([Ok(vec![ReceivedFrame::default()]), Ok(vec![ReceivedFrame::default(); BATCH])]);
    let first = bench.receive().unwrap();
    assert!(bench.receive().is_none());
    assert_eq!(*bench.port.socket.calls.borrow(), 1);
    let rest: Vec<_> = std::iter::from_fn(|| bench.receive()).collect();
    // The port calls the socket again after a full batch, but not after a partial batch.
    assert_eq!((rest.len(), *bench.port.socket.calls.borrow()), (BATCH, 3));
    rest.into_iter().chain([first]).for_each(|packet| bench.pool.release(packet));
}

#[test]
fn an_error_is_counted_and_the_port_continues() {
    let mut bench = Bench::new(8);
    bench.arriving([Err(libc::EINVAL), Err(libc::ENETDOWN), Ok(vec![ReceivedFrame::default()])]);
    assert!(bench.receive().is_none() && bench.receive().is_none());
    let packet = bench.receive().unwrap();
    assert_eq!(bench.port.counters().events.receive_errors, 2);
    bench.pool.release(packet);
}

#[test]
fn without_a_free_buffer_arriving_frames_are_dropped_and_counted() {
    let mut bench = Bench::new(1);
    let held = bench.pool.insert(Packet::default()).unwrap();
    bench.arriving([Ok(vec![ReceivedFrame::default(); 3])]);
    assert!(bench.receive().is_none());
    assert_eq!(bench.port.counters().drops.of(Reason::NoBuffer), 3);
    bench.pool.release(held);
}

#[test]
fn frames_that_arrived_during_a_hang_are_dropped_as_stale_received_or_not() {
    let mut bench = Bench::new(64);
    bench.arriving([
        Ok(vec![ReceivedFrame::default(); 3]),
        Ok(vec![ReceivedFrame::default(); BATCH]),
    ]);
    let first = bench.receive().unwrap();
    assert_eq!(bench.port.drop_arrived(&mut bench.pool, &|| 0), 2 + 32);
    assert_eq!(bench.port.counters().drops.of(Reason::Stale), 2 + 32);
    assert!(bench.receive().is_none());
    assert_eq!(bench.pool.in_use(), 1);
    bench.pool.release(first);
}

/// Catches: a split super-packet that counts as several stale frames; a split super-packet that
/// counts as no stale frame, because `receive` already returned its first frame.
#[test]
fn a_split_super_packet_counts_as_one_stale_frame() {
    let mut bench = Bench::new(64);
    let frame = Built { payload: vec![7; 3_500], ..tcp("10.1.0.1:1", "10.1.0.2:2") }.bytes();
    *bench.port.socket.content.borrow_mut() = Some(frame);
    let vnet = VnetHeader { gso_type: 1, gso_size: 1_000, ..VnetHeader::default() };
    let large = ReceivedFrame { vnet, ..ReceivedFrame::default() };
    bench.port.cuts = true;
    bench.arriving([Ok(vec![large; 3]), Ok(vec![large; 2])]);
    let first = bench.receive().unwrap();
    assert_eq!((bench.port.arrived.len(), bench.pool[&first].segments), (3 * 4 - 1, 1));
    // The interface counted five frames, two of them copies. The socket had no room for one of the
    // copies.
    assert_eq!(bench.port.drop_arrived(&mut bench.pool, &|| 2), 5);
    assert_eq!(bench.port.counters().drops.of(Reason::Stale), 4);
    assert_eq!(bench.pool.in_use(), 1);
    bench.pool.release(first);
}

/// Every frame that arrived during a hang is a copy, stale, or lost for lack of room in the socket.
///
/// Catches: copies that count as stale; copies that count as lost frames.
#[test]
fn copies_of_bypassed_frames_are_dropped_without_a_count() {
    let cases = [
        // Numbers of copies, of stale frames and of lost frames. The socket reports one lost frame.
        (0, 5, 1),
        (1, 5, 0),
        (3, 3, 0),
        (6, 0, 0),
        (100, 0, 0),
        (u64::MAX, 0, 0),
    ];
    for (copies, stale, without_room) in cases {
        let mut bench = Bench::new(8);
        bench.arriving([Ok(vec![ReceivedFrame::default(); 5])]);
        assert_eq!(bench.port.drop_arrived(&mut bench.pool, &|| copies), 5);
        assert_eq!(bench.port.overflows.get(), without_room, "{copies} copies");
        assert_eq!(bench.port.counters.drops.of(Reason::Stale), stale, "{copies} copies");
        let more = u64::from(copies != u64::MAX);
        assert_eq!(
            bench.port.counters().events.ring_overflows,
            without_room + more,
            "{copies} copies"
        );
        assert!(bench.receive().is_none());
        assert_eq!(
            bench.port.counters().events.ring_overflows,
            without_room + more + 1,
            "it forwards again"
        );
    }
}

#[test]
fn overflows_of_the_socket_add_up() {
    let bench = Bench::new(1);
    assert_eq!(bench.port.counters().events.ring_overflows, 1);
    assert_eq!(bench.port.counters().events.ring_overflows, 2);
}

#[test]
fn metadata_of_a_frame_is_kept_and_adjusted_for_an_inserted_tag() {
    let mut bench = Bench::new(8);
    let vnet = VnetHeader { flags: 1, csum_start: 34, csum_offset: 16, ..VnetHeader::default() };
    bench.arriving([Ok(vec![ReceivedFrame {
        vnet,
        tag: Some(VlanTag { tpid: 0x8100, tci: 1 }),
        ..ReceivedFrame::default()
    }])]);
    let packet = bench.receive().unwrap();
    assert_eq!(bench.port.memory.frame(&packet).vnet, vnet.moved_by(4));
    bench.pool.release(packet);
}

proptest! {
    /// For any answers of the interface, each frame is sent once or dropped once, in order.
    ///
    /// Catches: a frame that is released although it was not sent; a later frame of the flow that
    /// is offered although the interface has no room for an earlier frame.
    #[test]
    fn each_frame_is_sent_or_dropped_once_in_order(
        answers in prop::collection::vec(prop_oneof![
            4 => (1_usize..5).prop_map(Ok),
            2 => Just(Err(libc::ENOBUFS)),
            1 => Just(Err(libc::EMSGSIZE)),
            1 => Just(Err(libc::EINTR)),
        ], 0..40),
        frames in 1_u8..60,
    ) {
        let mut bench = Bench::new(64);
        bench.sending(answers);
        bench.send(frames);
        for _ in 0..40 {
            bench.port.flush(&mut bench.pool);
        }
        let sent = bench.port.socket.sent.borrow().clone();
        prop_assert!(sent.is_sorted_by(|a, b| a < b));
        let counters = bench.port.counters();
        prop_assert_eq!(counters.sent + counters.drops.total(), u64::from(frames));
        prop_assert_eq!(u64::try_from(sent.len()).unwrap(), counters.sent);
        prop_assert_eq!(bench.pool.in_use(), 0);
    }

    /// For any answers of the interface and any refused flows, each frame is sent once or dropped
    /// once, and each flow stays in order.
    ///
    /// Catches: a refused frame that moves without the other frames of its flow, so that the flow
    /// is reordered; a wrong frame removed, because the queue was reordered in the meantime.
    #[test]
    fn each_flow_stays_in_order_whichever_flows_are_refused(
        answers in prop::collection::vec(prop_oneof![
            4 => (1_usize..5).prop_map(Ok),
            2 => Just(Err(libc::ENOBUFS)),
            1 => Just(Err(libc::EMSGSIZE)),
            1 => Just(Err(libc::EINTR)),
        ], 0..60),
        bad in prop::collection::vec(0_u8..100, 0..6),
        flows in prop::collection::vec(0_u16..12, 1..100),
    ) {
        let mut bench = Bench::new(128);
        bench.sending(answers);
        *bench.port.socket.bad.borrow_mut() = bad;
        for (first, flow) in (0..).zip(&flows) {
            bench.send_of(*flow, first);
        }
        for _ in 0..100 * ATTEMPTS {
            bench.port.flush(&mut bench.pool);
        }
        let counters = bench.port.counters();
        let frames = u64::try_from(flows.len()).unwrap();
        prop_assert_eq!(counters.sent + counters.drops.total(), frames);
        prop_assert_eq!((bench.pool.in_use(), bench.port.outgoing.len()), (0, 0));
        let sent = bench.port.socket.sent.borrow();
        for flow in 0..12 {
            let own = sent.iter().filter(|first| flows[usize::from(**first)] == flow);
            prop_assert!(own.is_sorted_by(|a, b| a < b));
        }
    }
}

/// Catches: an empty frame passed to the kernel.
#[test]
fn a_packet_without_a_frame_is_dropped_and_counted() {
    let mut bench = Bench::new(2);
    let packet = bench.pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
    bench.port.memory.set_frame(&packet, Frame::NONE);
    bench.port.send(&mut bench.pool, packet);
    bench.port.flush(&mut bench.pool);
    assert!(bench.port.socket.sent.borrow().is_empty());
    assert_eq!(bench.port.counters.drops.of(Reason::Refused), 1);
    assert_eq!(bench.pool.in_use(), 0);
}
