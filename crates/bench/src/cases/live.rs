//! Frames through the loop of a gateway with the WAN port of a live one: at an end of trunks, or shaped.

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

/// What is measured, beside everything that has to happen for it.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Counted {
    /// The gateway at which user packets come in.
    Sends,
    /// The one at which they leave.
    Receives,
}

/// A hub with trunks to as many others, which are one gateway here; the path between; and users who send at one end.
pub(super) struct Live {
    counted: Counted,
    /// The gateway that users send at, and the one behind which their receivers are.
    sends: Site,
    receives: Site,
    users: Vec<Vec<u8>>,
    at: usize,
    seq: u32,
    now: Time,
    /// What is between the two, in order.
    path: VecDeque<Vec<u8>>,
    /// Whether what crosses is clocked by management packets.
    trunked: bool,
}

/// Packets that wait at each trunk, or where all are shaped.
const BACKLOG: usize = 20;

/// Between two operations, as where packets are shaped only.
const SPACING: Duration = Duration::from_nanos(12_112);

/// What the other end lets be out, in bytes of the virtual stream.
const WINDOW: Bytes = Bytes(10_000);

/// No management packet is as long, and no user packet is shorter.
const SHORT: usize = 200;

impl Live {
    /// "shaped", or "bare" or "udp" with "-sends" or "-receives", of so many trunks.
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
        // What fills a path of 1500 bytes.
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

    /// Gateways agree, and the receivers of user packets are heard, so that it is known where they are.
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

    /// Until every window is as large as the other end's, and so much waits.
    fn fill(&mut self, trunks: u32) -> anyhow::Result<()> {
        // Where all are shaped, so that what flows have saved up is spent.
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
        let peers = [&self.sends, &self.receives].into_iter().flat_map(|it| it.ports[1].peers());
        let refused: u64 = peers.map(|it| it.refused.total()).sum();
        anyhow::ensure!(refused == 0, "{refused} datagrams are refused");
        Ok(())
    }

    /// So many packets are to wait.
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

    /// A user packet comes, one leaves, and one arrives, with the management packet that gave its credit.
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

    /// What is on the path arrives up to a management packet, and what acknowledges that goes back at once.
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

    /// The next user packet; what it carries is new.
    fn offer(&mut self) {
        self.at = if self.at + 1 < self.users.len() { self.at + 1 } else { 0 };
        self.seq = self.seq.wrapping_add(u32::from(self.at == 0) * 1_460);
        let mut frame = self.users[self.at].clone();
        frame[SEQ..SEQ + 4].copy_from_slice(&self.seq.to_be_bytes());
        self.sends.lan[0].borrow_mut().push_back(frame);
    }
}

/// Where a frame has its sequence number. Nobody here looks at the checksum.
const SEQ: usize = 14 + 20 + 4;

impl Case for Live {
    /// An operation is a user packet that comes, one that leaves, one that arrives, and a management packet.
    fn run(&mut self, operations: u64) -> u64 {
        (0..operations).map(|_| self.step()).fold(0, u64::wrapping_add)
    }
}

/// What callgrind counts: a turn of the loop of the end that is measured.
#[inline(never)]
fn counted(site: &mut Site, now: Time) {
    site.turn(now);
}

/// A gateway, and what is on the cables of its LAN and WAN: what comes, and what leaves.
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

    /// Bytes for what leaves next, so that the cables, which no gateway has, take no time of the allocator.
    fn stock(&self) {
        let mut spare = self.spare.borrow_mut();
        spare.clear();
        spare.resize_with(8, || Vec::with_capacity(2_048));
    }

    fn turn(&mut self, now: Time) {
        turn(&mut self.gateway, &mut self.ports, now);
    }
}

/// A trunk as it is at the hub.
fn hub(number: u32, wire: Wire) -> Config {
    let tcp = tcp::Config { receive_window: WINDOW, ..tcp::Config::default() };
    Config { vmss: Bytes(1_500), wire, tcp, ..of_number(number) }
}

/// The same as it is at the other end.
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

/// Random bytes unlike those of another end.
fn chance(site: u8, number: u16) -> [u8; 32] {
    let [high, low] = number.to_be_bytes();
    let mut bytes = [site; 32];
    (bytes[1], bytes[2]) = (high, low);
    bytes
}

/// The frame of a segment of the flow of `packet`, so long from the IP header on.
fn frame(packet: &Packet, len: usize) -> Vec<u8> {
    let [src, dst] =
        [packet.key.src, packet.key.dst].map(|it| SocketAddr::new(it.address(), it.port));
    let segment = Frame::tcp(src, dst);
    Frame { payload: vec![0; len - 40], ..segment }.bytes()
}
