//! Cost of the packet loop of a live gateway. The ports read and write frames in memory.
//!
//! The gateway shapes traffic, or it is the sending or receiving end of trunks. A trunk is a path
//! between two gateways, and the congestion control of its management packets finds its rate.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use anyhow::bail;
use tidegate_core::random::Random;
use tidegate_core::trunk::{Config, Encapsulation, Wire};
use tidegate_core::{Bytes, Machine, Packet, Time, tcp};
use tidegate_dataplane::testing::{Cable, Frames};
use tidegate_dataplane::trunk::{TrunkEnd, TrunkPort};
use tidegate_dataplane::{PacketMemory, Port, iterate};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Policy, PolicySet};
use tidegate_wire::build::Frame;
use tidegate_wire::neighbour::NextHop;
use tidegate_wire::trunk::{Ends, Key};

use super::trunks::{FLOWS, LOCAL, of_number, policy, users};
use super::{Case, gateway, index};

/// The gateway whose instructions callgrind counts.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Counted {
    /// The gateway at which user packets enter a trunk.
    Sends,
    /// The gateway at which user packets come out of a trunk.
    Receives,
}

/// Two gateways with trunks between them. Users send at one gateway, over a path in memory, to
/// receivers at the other.
pub(super) struct Live {
    counted: Counted,
    /// The gateway of the senders, and the gateway of the receivers.
    sends: Site,
    receives: Site,
    users: Vec<Vec<u8>>,
    at: usize,
    seq: u32,
    now: Time,
    /// Frames between the gateways, in order.
    path: VecDeque<Vec<u8>>,
    /// User packets travel through trunks. Without trunks, nothing limits the path.
    trunked: bool,
}

/// Backlog of a trunk in packets. In the case without trunks, a tenth of the number that wait in
/// the shaper.
const BACKLOG: usize = 20;

/// Time between two operations, the same as in the shaping cases.
const SPACING: Duration = Duration::from_nanos(12_112);

/// Receive window of the other end, in bytes of the virtual TCP stream.
const WINDOW: Bytes = Bytes(10_000);

/// A length in bytes between two others: management packets are shorter, user packets are longer.
const SHORT: usize = 200;

impl Live {
    /// Builds the case `name`: "shaped", or "bare" or "udp" (the encapsulation) followed by
    /// "-sends" or "-receives" (the measured gateway).
    pub(super) fn new(name: &str, trunks: u32, seed: u64) -> anyhow::Result<Self> {
        let (form, end) = name.split_once('-').unwrap_or((name, "sends"));
        let encapsulation = match form {
            "shaped" | "bare" => Encapsulation::None,
            "udp" => Encapsulation::Udp,
            _ => bail!("there is no case \"live/{name}\""),
        };
        let counted = if end == "receives" { Counted::Receives } else { Counted::Sends };
        let trunked = form != "shaped";
        let wire = Wire::Datagrams { vlan: None, encapsulation };
        // The IP packet that fills a path with an MTU of 1500 bytes after encapsulation.
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
        let far = all.iter().map(peer_of).collect();
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

    /// Each receiver sends a packet, from which its gateway learns the receiver's MAC address. Then
    /// the gateways exchange frames until they agree on sessions.
    fn meet(&mut self, users: &[Packet]) {
        for user in users {
            let back = Packet { key: user.key.reverse(), ..*user };
            self.receives.lan[0].borrow_mut().push_back(frame(&back, 100));
            self.receives.iterate(self.now);
        }
        for _ in 0..10 {
            self.now += Duration::from_millis(1);
            for _ in 0..users.len() {
                self.sends.iterate(self.now);
                self.receives.iterate(self.now);
            }
            self.sends.wan[0].borrow_mut().extend(self.receives.wan[1].borrow_mut().drain(..));
            self.receives.wan[0].borrow_mut().extend(self.sends.wan[1].borrow_mut().drain(..));
        }
    }

    /// Runs a fixed number of operations, until the windows of the trunks have grown and packets
    /// wait. Fails if too few packets wait, if their number still changes, or if a gateway has
    /// refused a datagram.
    fn fill(&mut self, trunks: u32) -> anyhow::Result<()> {
        // The shaper has a single queue for all flows. A tenfold backlog uses up its initial
        // tokens.
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
            self.sends.iterate(self.now);
            self.path.extend(self.sends.wan[1].borrow_mut().drain(..));
        }
    }

    fn steps(&mut self, count: usize) {
        (0..count).for_each(|_| _ = self.step());
    }

    fn waiting(&mut self) -> usize {
        index(self.sends.gateway.pool().in_use().into())
    }

    /// A user packet arrives, one departs, and one is delivered. The management packet that granted
    /// credit for the departure reaches the other gateway too.
    fn step(&mut self) -> u64 {
        self.now += SPACING;
        self.offer();
        self.sends.stock();
        match self.counted {
            Counted::Sends => counted(&mut self.sends, self.now),
            Counted::Receives => self.sends.iterate(self.now),
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

    /// Delivers the frames on the path up to and including a management packet. Its ACK returns at
    /// once.
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
            Counted::Sends => self.receives.iterate(self.now),
        }
        self.sends.wan[0].borrow_mut().extend(self.receives.wan[1].borrow_mut().drain(..));
    }

    /// Lets the next user packet arrive, with a new sequence number.
    fn offer(&mut self) {
        self.at = if self.at + 1 < self.users.len() { self.at + 1 } else { 0 };
        self.seq = self.seq.wrapping_add(u32::from(self.at == 0) * 1_460);
        let mut frame = self.users[self.at].clone();
        frame[SEQ..SEQ + 4].copy_from_slice(&self.seq.to_be_bytes());
        self.sends.lan[0].borrow_mut().push_back(frame);
    }
}

/// Offset of the TCP sequence number in a frame. Nothing in this case verifies the TCP checksum.
const SEQ: usize = 14 + 20 + 4;

impl Case for Live {
    /// One operation: a user packet arrives, one departs, one is delivered, and a management packet
    /// crosses.
    fn run(&mut self, operations: u64) -> u64 {
        (0..operations).map(|_| self.step()).fold(0, u64::wrapping_add)
    }
}

/// One iteration of the loop of the measured gateway. Callgrind counts only this function.
#[inline(never)]
fn counted(site: &mut Site, now: Time) {
    site.iterate(now);
}

/// A gateway, and the frames that arrive and depart at its LAN and WAN ports.
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
            .map(|(place, it)| (end(place, it, mac(1 - number)), fixed_bytes(number, place)));
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

    /// Allocates memory for the frames that depart next. This happens outside the counted function,
    /// because a real gateway does not allocate memory for each frame.
    fn stock(&self) {
        let mut spare = self.spare.borrow_mut();
        spare.clear();
        spare.resize_with(8, || Vec::with_capacity(2_048));
    }

    fn iterate(&mut self, now: Time) {
        iterate(&mut self.gateway, &mut self.ports, now);
    }
}

/// The configuration of trunk `number` at its first end.
fn hub(number: u32, wire: Wire) -> Config {
    let tcp = tcp::Config { receive_window: WINDOW, ..tcp::Config::default() };
    Config { vmss: Bytes(1_500), wire, tcp, ..of_number(number) }
}

/// The configuration of the same trunk at its other end.
fn peer_of(it: &Config) -> Config {
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

/// Fixed bytes instead of random ones. They differ between trunks, and between the two ends of a
/// trunk.
fn fixed_bytes(site: u8, number: u16) -> [u8; 32] {
    let [high, low] = number.to_be_bytes();
    let mut bytes = [site; 32];
    (bytes[1], bytes[2]) = (high, low);
    bytes
}

/// A frame with a segment of the flow of `packet`. `len` is the length from the IP header on.
fn frame(packet: &Packet, len: usize) -> Vec<u8> {
    let [src, dst] =
        [packet.key.src, packet.key.dst].map(|it| SocketAddr::new(it.address(), it.port));
    let segment = Frame::tcp(src, dst);
    Frame { payload: vec![0; len - 40], ..segment }.bytes()
}
