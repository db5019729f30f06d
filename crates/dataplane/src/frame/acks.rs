//! Tests the frames of a gateway that holds ACKs (ACK control). The gateway later rebuilds the
//! frames of held ACKs, and every byte must be right.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{FrameCopy, TcpFlags, TcpSegment};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, PacketId, PacketPool, Rate, Time};
use tidegate_gateway::policy::{Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile};
use tidegate_gateway::{Gateway, GatewayConfig};
use tidegate_wire::build::{Frame as Built, Link};
use tidegate_wire::{Completed, complete_checksum, describe};

use crate::iteration::iterate;
use crate::memory::{Frame, PacketMemory};
use crate::port::{Port, PortCounters};
use crate::vnet::VnetHeader;

type Frames = Rc<RefCell<VecDeque<(Vec<u8>, VnetHeader)>>>;

/// A fake port: a list of frames to receive, and a list of sent frames.
struct Shelf {
    memory: PacketMemory,
    arriving: Frames,
    left: Frames,
    room: Rc<Cell<bool>>,
}

impl Port for Shelf {
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        let (frame, vnet) = self.arriving.borrow_mut().pop_front()?;
        let packet = pool.reserve()?;
        let offset = 60;
        self.memory.set_frame(&packet, Frame { offset, vnet });
        let len = u32::try_from(frame.len()).unwrap();
        self.memory.bytes_mut(&packet, len).copy_from_slice(&frame);
        super::arrive(&self.memory, pool, &packet, len, now, &mut PortCounters::default());
        Some(packet)
    }

    fn can_send(&self) -> bool {
        self.room.get()
    }

    fn copy(&mut self, copy: &FrameCopy) {
        super::copy(&self.memory, copy);
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        super::write_back(&self.memory, pool, &packet);
        let frame = self.memory.bytes(&packet, pool[&packet].len).to_vec();
        self.left.borrow_mut().push_back((frame, self.memory.frame(&packet).vnet));
        pool.release(packet);
    }

    fn flush(&mut self, _: &mut PacketPool) {}

    fn drop_arrived(&mut self, _: &mut PacketPool, _: &dyn Fn() -> u64) -> u64 {
        0
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> PortCounters {
        PortCounters::default()
    }
}

/// A connection through a gateway that holds its ACKs. The client is on the LAN side, port 0.
struct HeldAcks {
    gateway: Gateway,
    ports: [Box<dyn Port>; 2],
    arriving: [Frames; 2],
    left: [Frames; 2],
    room: Rc<Cell<bool>>,
    now: Time,
    form: Form,
    /// Sequence numbers sent and acknowledged by client and server.
    sent: [u32; 2],
    acknowledged: [u32; 2],
}

/// The format of the connection's frames.
#[derive(Clone, Copy, Debug)]
struct Form {
    v6: bool,
    vlan: bool,
    timestamps: bool,
    /// Checksums are left to hardware, and data arrives in super-packets.
    offload: bool,
}

const MSS: u16 = 1_000;

impl HeldAcks {
    fn new(form: Form) -> Self {
        let profile = Profile::new(Rate::from_mbps(2), None, Bytes(3_000), Bytes(1_514)).unwrap();
        let conditioning = Conditioning {
            profile,
            allocation: AllocationSpec::Drr(Default::default()),
            weights: Vec::new(),
            fair_between: Default::default(),
        };
        let policy = Policy {
            name: "all".to_owned(),
            priority: 0,
            filter: Filter::default(),
            action: Action::Shape {
                conditioning,
                queue: QdiscSpec::PerFlow(Default::default()),
                ack_control: Some(AckSpec::PostAck(Default::default())),
            },
            mode: Mode::Enforce,
            class: None,
            trunk: None,
        };
        let config = GatewayConfig {
            rate: [None; 2],
            overhead: Overhead::default(),
            queue: QdiscSpec::PerFlow(Default::default()),
            packets: 512,
            flows: 16,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: Vec::new(),
            seed: 1,
            scheduler: Default::default(),
        };
        let mut gateway = Gateway::new(&config, PolicySet::new(vec![policy]).unwrap(), Time::ZERO);
        gateway.pool().make_copies();
        let memory = PacketMemory::new(512, 6 * 4_096).unwrap();
        let (arriving, left): ([Frames; 2], [Frames; 2]) = Default::default();
        let room = Rc::new(Cell::new(true));
        let port = |n: usize| -> Box<dyn Port> {
            let (arriving, left) = (Rc::clone(&arriving[n]), Rc::clone(&left[n]));
            let room = Rc::clone(&room);
            Box::new(Shelf { memory: memory.clone(), arriving, left, room })
        };
        let ports = [port(0), port(1)];
        let mut bench = Self {
            gateway,
            ports,
            arriving,
            left,
            room,
            now: Time::ZERO,
            form,
            sent: [1_000, u32::MAX - 20_000],
            acknowledged: [0; 2],
        };
        bench.open();
        bench
    }

    fn open(&mut self) {
        for (from, flags) in [(0, TcpFlags::SYN), (1, TcpFlags::SYN | TcpFlags::ACK)] {
            self.send(from, flags, 0);
            self.iterate();
            self.sent[from] += 1;
        }
        self.send(0, TcpFlags::ACK, 0);
        self.iterate();
    }

    /// The end number `sender` (0 is the client) sends a segment that acknowledges all data of the
    /// other end.
    fn send(&mut self, sender: usize, flags: u8, payload: usize) {
        let ends = if self.form.v6 {
            ["[fd00::1]:1".parse().unwrap(), "[fd00::2]:2".parse().unwrap()]
        } else {
            ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()]
        };
        let mut frame = Built::tcp(ends[sender], ends[1 - sender]);
        if self.form.vlan {
            frame.link.push(Link::vlan(7));
        }
        frame.payload = (0..payload).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let ms = u32::try_from(self.now.nanos() / 1_000_000).unwrap() + 1;
        let tcp = frame.tcp_mut().unwrap();
        (tcp.seq, tcp.ack) = (self.sent[sender], self.sent[1 - sender]);
        (tcp.flags, tcp.window) = (TcpFlags(flags), 60_000);
        if flags & TcpFlags::SYN != 0 {
            tcp.options.extend([2, 4, 3, 232, 1, 3, 3, 2]);
        }
        if self.form.timestamps {
            tcp.options.extend([1, 1, 8, 10]);
            tcp.options.extend(ms.to_be_bytes());
            tcp.options.extend(ms.wrapping_sub(1).to_be_bytes());
        }
        let mut bytes = frame.bytes();
        let mut vnet = VnetHeader::default();
        if self.form.offload {
            vnet = left_to_hardware(&mut bytes, payload);
        }
        self.sent[sender] = self.sent[sender].wrapping_add(u32::try_from(payload).unwrap());
        self.acknowledged[sender] = self.sent[1 - sender];
        self.arriving[sender].borrow_mut().push_back((bytes, vnet));
    }

    fn iterate(&mut self) {
        iterate(&mut self.gateway, &mut self.ports, self.now);
    }

    /// Advances the time by `span`, and runs the gateway whenever it is due.
    fn wait(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.gateway.poll_timeout(self.now).filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.iterate();
            if !self.room.get() {
                break;
            }
        }
        self.now = end;
    }
}

/// Turns a frame into one whose segmentation and checksum are left to hardware. The checksum field
/// then holds only the sum of the pseudo header.
fn left_to_hardware(bytes: &mut [u8], payload: usize) -> VnetHeader {
    let packet = described(bytes);
    let at = usize::from(packet.transport_offset);
    bytes[at + 16..at + 18].fill(0);
    let pseudo = ones(&pseudo_header(bytes, &packet));
    bytes[at + 16..at + 18].copy_from_slice(&pseudo.to_be_bytes());
    let large = payload > usize::from(MSS);
    VnetHeader {
        flags: 1,
        gso_type: u8::from(large),
        hdr_len: 0,
        gso_size: if large { MSS } else { 0 },
        csum_start: packet.transport_offset,
        csum_offset: 16,
    }
}

fn described(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    assert_eq!(describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet), None);
    packet
}

/// The one's complement sum of 16-bit words.
fn ones(bytes: &[u8]) -> u16 {
    let mut sum = 0;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap()
}

/// The sum over the TCP segment and the pseudo header. The sum is 0xffff if the checksum is right.
fn sum(frame: &[u8], packet: &Packet) -> u16 {
    let segment = &frame[usize::from(packet.transport_offset)..];
    ones(&[&pseudo_header(frame, packet), segment].concat())
}

fn pseudo_header(frame: &[u8], packet: &Packet) -> Vec<u8> {
    let (network, at) = (usize::from(packet.network_offset), usize::from(packet.transport_offset));
    let v4 = frame[network] >> 4 == 4;
    assert!(!v4 || ones(&frame[network..at]) == 0xffff, "the checksum of IPv4");
    let addresses = if v4 { network + 12..network + 20 } else { network + 8..network + 40 };
    let len = u16::try_from(frame.len() - at).unwrap();
    [&frame[addresses], &[0, 6], &len.to_be_bytes()].concat()
}

/// Checks a sent frame: its lengths are consistent, and its checksums are right or left to
/// hardware.
fn whole(mut frame: Vec<u8>, vnet: VnetHeader) -> (Packet, TcpSegment) {
    let packet = described(&frame);
    let tcp = packet.tcp.unwrap();
    let ends = usize::from(packet.transport_offset)
        + usize::from(frame[usize::from(packet.transport_offset) + 12] >> 4) * 4
        + usize::try_from(tcp.payload).unwrap();
    assert_eq!(ends, frame.len(), "its lengths do not fit");
    assert_eq!(vnet.segment_size().is_some(), tcp.payload > u32::from(MSS));
    if vnet.partial_checksum() {
        let completed = complete_checksum(&mut frame, &packet);
        assert_eq!(completed, Completed::Some, "a sum left to the hardware is wrong");
    }
    assert_eq!(sum(&frame, &packet), 0xffff, "a checksum is wrong");
    (packet, tcp)
}

fn forms() -> impl Strategy<Value = Form> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(v6, vlan, timestamps, offload)| Form { v6, vlan, timestamps, offload })
}

/// Random events: the sending end (0 is the client), payload bytes, milliseconds until the next
/// event, and whether the ports have room.
fn events() -> impl Strategy<Value = Vec<(usize, usize, u64, bool)>> {
    let payload = prop_oneof![
        3 => Just(0), 3 => Just(usize::from(MSS)), 1 => 1usize..900, 1 => 2_000usize..20_000
    ];
    prop::collection::vec((0usize..2, payload, 0u64..12, prop::bool::weighted(0.7)), 20..120)
}

proptest! {
    /// Every sent frame is valid. Data arrives unchanged and in order. The last acknowledgement
    /// arrives, and no older acknowledgement follows it.
    ///
    /// Catches: an ACK that still carries the payload of its data segment; an ACK from a super-packet
    /// that is still marked for segmentation.
    /// Catches: an ACK of the gateway for which no frame is sent; sequence numbers that are not
    /// written into the frame.
    #[test]
    fn frames_of_rebuilt_acks_are_valid_and_no_data_is_lost(form in forms(), events in events()) {
        let mut bench = HeldAcks::new(form);
        for (from, payload, ms, room) in events {
            if !bench.arriving[1 - from].borrow().is_empty() {
                bench.iterate();
            }
            bench.room.set(room);
            let payload = if form.offload { payload } else { payload.min(usize::from(MSS)) };
            bench.send(from, TcpFlags::ACK | TcpFlags::PSH, payload);
            // Segments that one end sends without a pause arrive in the same iteration of the loop.
            if ms > 0 {
                bench.iterate();
                bench.wait(Duration::from_millis(ms));
            }
        }
        bench.room.set(true);
        bench.iterate();
        bench.wait(Duration::from_secs(5));
        prop_assert_eq!(bench.gateway.pool().in_use(), 0);
        for to in [0, 1] {
            let frames: Vec<_> = bench.left[to].take().into();
            let all: Vec<_> = frames.into_iter().map(|(frame, vnet)| whole(frame, vnet)).collect();
            let (mut next, mut clock) = (all[0].1.seq, 0);
            for (packet, tcp) in &all {
                let data = tcp.sequence_len() > 0;
                prop_assert_eq!(tcp.seq, next, "data in order, and no ACK older than data before it");
                let value = tcp.timestamps.map_or(clock, |(value, _)| value);
                prop_assert!(value >= clock, "no timestamp older than one before it");
                clock = value;
                prop_assert_eq!(packet.vlan == 7, form.vlan);
                next = if data { tcp.end_seq() } else { next };
            }
            prop_assert_eq!(next, bench.sent[1 - to], "all data crossed");
            let missing = |tcp: &TcpSegment| bench.acknowledged[1 - to].wrapping_sub(tcp.ack);
            let least = all.iter().map(|(_, tcp)| missing(tcp)).min();
            prop_assert_eq!(least, Some(0), "all is acknowledged in the end");
        }
    }
}
