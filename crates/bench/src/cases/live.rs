//! Cost of the packet loop of a live gateway, with frames at its WAN port.
//!
//! The gateway shapes, or it is the sending or the receiving end of trunks. A trunk is a path
//! between two gateways whose rate is found by the congestion control of its management packets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use anyhow::bail;
use tidegate_core::gateway::Gateway;
use tidegate_core::policy::{Policy, PolicySet};
use tidegate_core::random::Random;
use tidegate_core::trunk::{Config, Encapsulation, Wire};
use tidegate_core::{Bytes, Machine, Packet, Time, tcp};
use tidegate_dataplane::testing::{Cable, Frames};
use tidegate_dataplane::trunk::{TrunkEnd, TrunkPort};
use tidegate_dataplane::{PacketMemory, Port, turn};
use tidegate_wire::build::Frame;
use tidegate_wire::neighbour::NextHop;
use tidegate_wire::trunk::{Ends, Key};

use super::trunks::{FLOWS, LOCAL, of_number, policy, users};
use super::{Case, gateway, index};

/// The gateway whose instructions are counted.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Counted {
    /// The gateway at which user packets enter the trunk.
    Sends,
    /// The gateway at which user packets exit the trunk.
    Receives,
}

/// A hub with many trunks, whose other ends are all at one gateway. Users send at one end, over the
/// path between the gateways.
pub(super) struct Live {
    counted: Counted,
    /// The gateway of the senders, and the gateway of the receivers.
    sends: Site,
    receives: Site,
    users: Vec<Vec<u8>>,
    at: usize,
    seq: u32,
    now: Time,
    /// Frames on the path between the gateways, in order.
    path: VecDeque<Vec<u8>>,
    /// The packets on the path are clocked by management packets.
    trunked: bool,
}

/// Number of packets that wait at each trunk, or in the shaper.
const BACKLOG: usize = 20;

/// Time between two operations, as in the cases that only shape.
const SPACING: Duration = Duration::from_nanos(12_112);

/// Window of the other end, in bytes of the virtual stream.
const WINDOW: Bytes = Bytes(10_000);

/// Longer than any management packet, and shorter than any user packet.
const SHORT: usize = 200;

impl Live {
    /// The case `what`, with this many trunks: "shaped", or "bare" or "udp" followed by "-sends" or
    /// "-receives".
    pub(super) fn new(what: &str, trunks: u32, seed: u64) -> anyhow::Result<Self> {
        let (form, end) = what.split_once('-').unwrap_or((what, "sends"));
        let encapsulation = match form {
            "shaped" | "bare" => Encapsulation::None,
            "udp" => Encapsulation::Udp,
            _ => bail!("there is no case \"live/{what}\""),
        };
        let counted = if end == "receives" { Counted::Receives } else { Counted::Sends };
        let trunked = form != "shaped";
        let wire = Wire::Datagrams { vlan: None, encapsulation };
        // The payload that fills a path with an MTU of 1500 bytes.
        let len = 1_500 - index(wire.overhead(LOCAL).into());
        let users = users(&mut Random::new(seed, 1));
        let policies = match trunked {
            false => vec![gateway::shaping()?],
            true => {
                let parts = users.chunks(users.len().div_ceil(index(trunks.into())));
                (0..trunks).zip(parts).map(|(number, part)| policy(number, part)).collect()
            }
        };
        let all: Vec<_> = (0..if trunked { trunks } else { 0 }).map(|n| hub(n, wire)).collect();
        let far = all.iter().map(other_end).collect();
        let (ours, theirs) = if counted == Counted::Sends { (all, far) } else { (far, all) };
        let mut this = Self {
            counted,
            sends: Site::new(0, ours, policies, seed)?,
            receives: Site::new(1, theirs, Vec::new(), seed)?,
            users: users.iter().map(|it| frame(it, len)).collect(),
            at: 0,
            seq: 0,
            now: Time::from_millis(1),
            path: VecDeque::new(),
            trunked,
        };
        this.meet(&users);
        this.fill(trunks)?;
        Ok(this)
    }

    /// The gateways agree on sessions. The receivers of user packets send once, so their stations
    /// are known.
    fn meet(&mut self, users: &[Packet]) {
        for user in users {
            let back = Packet { key: user.key.reverse(), ..*user };
            self.receives.lan[0].borrow_mut().push_back(frame(&back, 100));
            self.receives.turn(self.now);
        }
        for _ in 0..10 {
            self.now += Duration::from_millis(1);
            for _ in 0..users.len() {
                self.sends.turn(self.now);
                self.receives.turn(self.now);
            }
            self.sends.wan[0].borrow_mut().extend(self.receives.wan[1].borrow_mut().drain(..));
            self.receives.wan[0].borrow_mut().extend(self.sends.wan[1].borrow_mut().drain(..));
        }
    }

    /// Runs a fixed number of operations, in which the windows of the trunks grow and packets wait.
    /// Fails if too few packets wait, if their number still changes, or if a datagram was refused.
    fn fill(&mut self, trunks: u32) -> anyhow::Result<()> {
        // The shaper has one queue for all flows. Ten backlogs use up its tokens.
        let queues = if self.trunked { index(trunks.into()) } else { 10 };
        for _ in 0..5 {
            self.steps(40 * queues);
            self.wait_for(BACKLOG * queues);
        }
        self.steps(40 * queues);
        let before = self.waiting();
        self.steps(40 * queues);
        let after = self.waiting();
        let steady = after >= BACKLOG / 2 * queues && after.abs_diff(before) <= 4 * queues;
        anyhow::ensure!(steady, "{before}, then {after} packets wait");
        let sites = [&self.sends, &self.receives].into_iter();
        let peers = sites.filter_map(|it| TrunkPort::among(&it.ports)).flat_map(TrunkPort::peers);
        let refused: u64 = peers.map(|it| it.refused.total()).sum();
        anyhow::ensure!(refused == 0, "{refused} datagrams are refused");
        Ok(())
    }

    /// Offers packets until `most` of them wait.
    fn wait_for(&mut self, most: usize) {
        while self.waiting() < most && self.path.len() < 20 * most {
            self.offer();
            self.sends.turn(self.now);
            self.path.extend(self.sends.wan[1].borrow_mut().drain(..));
        }
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| _ = self.step());
    }

    fn waiting(&mut self) -> usize {
        index(self.sends.gateway.pool().in_use().into())
    }

    /// A user packet arrives, one departs, and one is delivered, together with the management
    /// packet that granted its credit.
    fn step(&mut self) -> u64 {
        self.now += SPACING;
        self.offer();
        self.sends.stock();
        match self.counted {
            Counted::Sends => counted(&mut self.sends, self.now),
            Counted::Receives => self.sends.turn(self.now),
        }
        self.path.extend(self.sends.wan[1].borrow_mut().drain(..));
        if self.trunked {
            self.cross();
        }
        let left = self.receives.lan[1].borrow_mut().drain(..).count() + self.path.len();
        if !self.trunked {
            self.path.clear();
        }
        u64::try_from(left).unwrap_or(0)
    }

    /// Delivers the frames on the path up to a management packet, whose ACK goes back at once.
    fn cross(&mut self) {
        let mut comes = self.receives.wan[0].borrow_mut();
        while let Some(frame) = self.path.pop_front() {
            let short = frame.len() < SHORT;
            comes.push_back(frame);
            if short {
                break;
            }
        }
        drop(comes);
        self.receives.stock();
        match self.counted {
            Counted::Receives => counted(&mut self.receives, self.now),
            Counted::Sends => self.receives.turn(self.now),
        }
        self.sends.wan[0].borrow_mut().extend(self.receives.wan[1].borrow_mut().drain(..));
    }

    /// Offers the next user packet with a new sequence number.
    fn offer(&mut self) {
        self.at = if self.at + 1 < self.users.len() { self.at + 1 } else { 0 };
        self.seq = self.seq.wrapping_add(u32::from(self.at == 0) * 1_460);
        let mut frame = self.users[self.at].clone();
        frame[SEQ..SEQ + 4].copy_from_slice(&self.seq.to_be_bytes());
        self.sends.lan[0].borrow_mut().push_back(frame);
    }
}

/// Offset of the sequence number in a frame. No part of the case verifies the checksum.
const SEQ: usize = 14 + 20 + 4;

impl Case for Live {
    /// An operation handles one arriving, one departing and one delivered user packet, and a
    /// management packet.
    fn run(&mut self, operations: u64) -> u64 {
        (0..operations).map(|_| self.step()).fold(0, u64::wrapping_add)
    }
}

/// The function that callgrind counts: a turn of the loop at the measured end.
#[inline(never)]
fn counted(site: &mut Site, now: Time) {
    site.turn(now);
}

/// A gateway with the cables of its LAN and WAN ports: arriving and departing frames.
struct Site {
    gateway: Gateway,
    ports: [Box<dyn Port>; 2],
    lan: [Frames; 2],
    wan: [Frames; 2],
    spare: Frames,
}

impl Site {
    fn new(
        number: u8,
        trunks: Vec<Config>,
        policies: Vec<Policy>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mac = |number: u8| [2, 0, 0, 0, 1, number];
        let ends = (1..)
            .zip(&trunks)
            .map(|(place, it)| (end(place, it, mac(1 - number)), chance(number, place)));
        let ends = ends.collect();
        let mut config = gateway::config(None, FLOWS, seed);
        config.packets += u32::try_from(trunks.len())? * 1_024;
        config.trunks = trunks;
        let memory = PacketMemory::new(config.packets, PacketMemory::SMALLEST)?;
        let gateway = Gateway::new(&config, PolicySet::new(policies)?, Time::ZERO);
        let [lan, wan]: [[Frames; 2]; 2] = Default::default();
        let spare = Frames::default();
        let cable = |frames: &[Frames; 2]| {
            Box::new(Cable::new(memory.clone(), frames.clone()).with_spare(spare.clone()))
        };
        let outer = TrunkPort::new(cable(&wan), memory.clone(), mac(number), ends);
        Ok(Self { gateway, ports: [cable(&lan), Box::new(outer)], lan, wan, spare })
    }

    /// Provides memory for the next departing frames. The cables are no part of a real gateway, so
    /// they must not cost time in the allocator.
    fn stock(&self) {
        let mut spare = self.spare.borrow_mut();
        spare.clear();
        spare.resize_with(8, || Vec::with_capacity(2_048));
    }

    fn turn(&mut self, now: Time) {
        turn(&mut self.gateway, &mut self.ports, now);
    }
}

/// The configuration of a trunk at the hub.
fn hub(number: u32, wire: Wire) -> Config {
    let tcp = tcp::Config { receive_window: WINDOW, ..tcp::Config::default() };
    Config { vmss: Bytes(1_500), wire, tcp, ..of_number(number) }
}

/// The configuration of the same trunk at its other end.
fn other_end(it: &Config) -> Config {
    Config { local: it.peer, peer: it.local, ..it.clone() }
}

fn end(number: u16, trunk: &Config, next_hop: [u8; 6]) -> TrunkEnd {
    TrunkEnd {
        number: NonZeroU16::new(number).unwrap_or(NonZeroU16::MAX),
        ends: Ends { local: trunk.local, peer: trunk.peer, port: trunk.port },
        connections: trunk.connections,
        probing: trunk.probing,
        weighted: trunk.weight.is_some(),
        dscp: trunk.user_dscp(),
        next_hop: NextHop::Mac(next_hop),
        key: Key([5; 32]),
        wire: trunk.wire,
        mtu: 1_500,
    }
}

/// Random bytes that are unique for each end.
fn chance(site: u8, number: u16) -> [u8; 32] {
    let [high, low] = number.to_be_bytes();
    let mut bytes = [site; 32];
    (bytes[1], bytes[2]) = (high, low);
    bytes
}

/// A segment of the flow of `packet`, with `len` bytes from the IP header on.
fn frame(packet: &Packet, len: usize) -> Vec<u8> {
    let [src, dst] =
        [packet.key.src, packet.key.dst].map(|it| SocketAddr::new(it.address(), it.port));
    let segment = Frame::tcp(src, dst);
    Frame { payload: vec![0; len - 40], ..segment }.bytes()
}
