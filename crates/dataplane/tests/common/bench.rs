//! A gateway between two hosts for live tests. The test drives its ports and bypass programs step
//! by step.

#![expect(unsafe_code, reason = "a system call that no library offers safely")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use tidegate_core::packet::Packet;
use tidegate_core::{PacketId, PacketPool};
use tidegate_dataplane::af_xdp::{self, OpenError};
use tidegate_dataplane::fail_to_wire::{Mode, Tc, WireConfig};
use tidegate_dataplane::{
    AfPacket, Clock, FailToWire, Frame, Heartbeat, Interface, Monotonic, Offload, PacketMemory,
    Port,
};
use tidegate_gateway::report::Bypassed;

use crate::common::{Host, Network};

/// A heartbeat timeout so long that it never expires by accident.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const PACKETS: u32 = 2_048;

/// A client, a server, and the gateway between them. The gateway is this thread.
pub(crate) struct Bench {
    pub(crate) network: Network,
    pub(crate) client: Raw,
    pub(crate) server: Raw,
}

impl Bench {
    /// `across` selects the program that redirects bypassed frames to the other host's cable.
    pub(crate) fn new(mtu: u32, across: Across) -> Option<Self> {
        let network = Network::new(mtu)?;
        for (host, name) in [(&network.client, "c0"), (&network.server, "s0")] {
            let gro = across == Across::Xdp;
            host.run(move || {
                Interface::find(name).unwrap().set_offload(Offload::Gro, gro).unwrap()
            });
        }
        enter(&network.client);
        let client = Raw::open("c0");
        enter(&network.server);
        let server = Raw::open("s0");
        enter(&network.gateway);
        Some(Self { network, client, server })
    }

    /// Sends `frames` in both directions. Returns the frames that arrive, by direction. Ends
    /// shortly after the last frame has arrived, or after some time without arrivals.
    pub(crate) fn exchange(&mut self, frames: &[Vec<u8>], gate: &mut Gate) -> [Vec<Vec<u8>>; 2] {
        const MORE: Duration = Duration::from_millis(50);
        const ANY: Duration = Duration::from_secs(2);
        frames.iter().for_each(|frame| self.client.send(frame));
        frames.iter().for_each(|frame| self.server.send(frame));
        let mut arrived = [Vec::new(), Vec::new()];
        let mut last = Instant::now();
        loop {
            let before = arrived.each_ref().map(Vec::len);
            let all = before.iter().all(|count| *count >= frames.len());
            if last.elapsed() > if all { MORE } else { ANY } {
                return arrived;
            }
            gate.forward();
            self.server.receive_into(&mut arrived[0]);
            self.client.receive_into(&mut arrived[1]);
            if arrived.each_ref().map(Vec::len) != before {
                last = Instant::now();
            }
        }
    }

    /// Sends `frames` in both directions. Each frame must arrive once, in order and unchanged.
    pub(crate) fn crosses(&mut self, frames: &[Vec<u8>], gate: &mut Gate, how: &str) {
        let arrived = self.exchange(frames, gate);
        let heads = |frames: &[Vec<u8>]| -> Vec<(usize, String)> {
            frames.iter().map(|f| (f.len(), format!("{:02x?}", &f[12..f.len().min(24)]))).collect()
        };
        for (arrived, way) in arrived.iter().zip(["up", "down"]) {
            let (found, expected) = (heads(arrived), heads(frames));
            assert!(arrived == frames, "{how}, {way}: {found:#?} instead of {expected:#?}");
        }
    }

    /// The number of copies of a frame that reach the other side, in each direction.
    pub(crate) fn passes(&mut self, gate: &mut Gate) -> [usize; 2] {
        let frame = ethernet(&[], 0x88b5, &[7; 100]);
        let [up, down] = self.exchange(std::slice::from_ref(&frame), gate);
        assert!(up.iter().chain(&down).all(|arrived| *arrived == frame));
        [up.len(), down.len()]
    }
}

/// The program that redirects bypassed frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Across {
    /// The XDP program itself.
    Xdp,
    /// The tc program, which runs after the XDP program.
    Tc,
}

/// Moves this thread into the network namespace of `host`.
pub(crate) fn enter(host: &Host) {
    let namespace = host.run(|| File::open("/proc/thread-self/ns/net").unwrap());
    // SAFETY: the call takes no pointers; only this thread changes its namespace.
    assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
}

/// A packet socket at one end of a cable, for crafted frames.
pub(crate) struct Raw {
    pub(crate) pool: PacketPool,
    pub(crate) memory: PacketMemory,
    pub(crate) port: AfPacket,
}

impl Raw {
    pub(crate) fn open(name: &str) -> Self {
        let memory = PacketMemory::new(512, AfPacket::BUFFER).unwrap();
        let port = AfPacket::open(&Interface::find(name).unwrap(), &memory).unwrap();
        Self { pool: PacketPool::with_capacity(512), memory, port }
    }

    pub(crate) fn send(&mut self, frame: &[u8]) {
        let len = u32::try_from(frame.len()).unwrap();
        let packet = self.pool.insert(Packet { len, ..Packet::default() }).unwrap();
        self.memory.set_frame(&packet, Frame::default());
        self.memory.bytes_mut(&packet, len).copy_from_slice(frame);
        let before = self.port.counters().sent;
        self.port.send(&mut self.pool, packet);
        self.port.flush(&mut self.pool);
        assert_eq!(self.port.counters().sent, before + 1);
    }

    /// Appends the test's frames that have arrived to `frames`. The source address of a frame shows
    /// whether it belongs to the test.
    pub(crate) fn receive_into(&mut self, frames: &mut Vec<Vec<u8>>) {
        while let Some(packet) = self.port.receive(&mut self.pool, tidegate_core::Time::ZERO) {
            let frame = self.memory.bytes(&packet, self.pool[&packet].len).to_vec();
            self.pool.release(packet);
            if frame[6..12] == OURS {
                frames.push(frame);
            }
        }
    }
}

pub(crate) const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A broadcast frame.
pub(crate) fn ethernet(tags: &[u32], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [[0xff; 6], OURS].concat();
    tags.iter().for_each(|tag| frame.extend(tag.to_be_bytes()));
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

pub(crate) fn interfaces() -> [Interface; 2] {
    ["p0", "p1"].map(|name| Interface::find(name).unwrap())
}

pub(crate) fn wire_config(clock: &Monotonic) -> WireConfig {
    WireConfig { timeout: TIMEOUT, epoch: clock.origin(), tc: Tc::default() }
}

/// A gateway that forwards frames only when the test calls it.
pub(crate) struct Gate {
    pub(crate) clock: Monotonic,
    pub(crate) memory: PacketMemory,
    pub(crate) pool: PacketPool,
    pub(crate) ports: Vec<Box<dyn Port>>,
    pub(crate) wire: Option<FailToWire>,
    pub(crate) forwarded: u64,
}

impl Gate {
    /// A placeholder while no gateway runs.
    pub(crate) fn absent() -> Self {
        let memory = PacketMemory::new(PACKETS, 2_048).unwrap();
        Self {
            clock: Monotonic::start(),
            pool: PacketPool::with_capacity(PACKETS),
            memory,
            ports: Vec::new(),
            wire: None,
            forwarded: 0,
        }
    }

    pub(crate) fn open(mode: Option<Mode>) -> Self {
        Self::open_with(mode, 2_048, TIMEOUT).unwrap()
    }

    pub(crate) fn open_with(
        mode: Option<Mode>,
        buffer: u32,
        timeout: Duration,
    ) -> Result<Self, OpenError> {
        let mut gate = Self::absent();
        gate.memory = PacketMemory::new(PACKETS, buffer).unwrap();
        let config = WireConfig { timeout, ..wire_config(&gate.clock) };
        let [lan, wan] = interfaces();
        let opened = af_xdp::open([&lan, &wan], mode, &config, &gate.memory, &mut gate.pool)?;
        opened.ports.into_iter().for_each(|port| gate.ports.push(Box::new(port)));
        gate.wire = Some(opened.wire);
        Ok(gate)
    }

    pub(crate) fn beat(&mut self) {
        let now = self.clock.now();
        self.wire.as_mut().unwrap().beat(now);
    }

    pub(crate) fn arrived(&mut self, port: usize) -> Vec<PacketId> {
        let now = self.clock.now();
        let Some(port) = self.ports.get_mut(port) else { return Vec::new() };
        std::iter::from_fn(|| port.receive(&mut self.pool, now)).collect()
    }

    pub(crate) fn forward(&mut self) {
        for from in 0..self.ports.len() {
            for packet in self.arrived(from) {
                let frame = self.memory.bytes(&packet, self.pool[&packet].len);
                self.forwarded += u64::from(frame[6..12] == OURS);
                drop(frame);
                self.ports[1 - from].send(&mut self.pool, packet);
            }
        }
        self.ports.iter_mut().for_each(|port| port.flush(&mut self.pool));
    }

    pub(crate) fn bypassed(&self) -> Bypassed {
        self.wire.as_ref().unwrap().bypassed()[0]
    }
}

/// Every kind of frame that must cross between the ports.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let fill = |len| (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect::<Vec<u8>>();
    let v4 = [
        &[0x45, 0, 0, 120, 0, 1, 0, 0, 64, 17, 0x66, 0x6f, 10, 7, 0, 1, 10, 7, 0, 2][..],
        &fill(100),
    ];
    let v6 = [&[0x60, 0, 0, 0, 0, 100, 17, 64][..], &[0xfd; 16], &[0xfe; 16], &fill(100)];
    vec![
        ethernet(&[], 0x0800, &v4.concat()),
        ethernet(&[], 0x86dd, &v6.concat()),
        ethernet(&[0x8100_a064], 0x0800, &v4.concat()),
        ethernet(&[0x88a8_0065, 0x8100_0066], 0x86dd, &v6.concat()),
        ethernet(&[], 0x88b5, &fill(46)),
        ethernet(&[], 0x88b5, &fill(1_500)),
        ethernet(&[0x8100_0001], 0x88b5, &fill(1_500)),
    ]
}

/// A gateway on packet sockets.
pub(crate) fn on_packet_sockets(tc: Tc) -> Gate {
    let mut gate = Gate::absent();
    gate.memory = PacketMemory::new(PACKETS, AfPacket::BUFFER).unwrap();
    let [lan, wan] = interfaces();
    for interface in [&lan, &wan] {
        gate.ports.push(Box::new(AfPacket::open(interface, &gate.memory).unwrap()));
    }
    let config = WireConfig { tc, ..wire_config(&gate.clock) };
    gate.wire = Some(FailToWire::beneath_packet_sockets(&config, [&lan, &wan]).unwrap());
    gate
}
