//! Packets through trunks. A trunk is a path between two gateways. Each user packet departs with
//! credit that a management packet (a TCP segment without user data) has granted.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use tidegate_core::packet::{Direction, FlowKey, TcpFlags, TcpSegment};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Machine, Packet, Time, tcp, trunk};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Action, Filter, Mode, Policy, PolicySet, Range};

use super::{Case, flows, gateway, index};

/// A gateway with trunks, each of which carries an equal part of the flows and has a backlog.
pub(super) struct Trunked {
    gateway: Gateway,
    users: Vec<Packet>,
    at: usize,
    now: Time,
    /// Management packets that the other ends have not acknowledged yet, in order of departure.
    unanswered: VecDeque<(FlowKey, TcpSegment)>,
    /// The next operation acknowledges management packets: one ACK for two packets, in every second
    /// operation.
    second: bool,
    left: u64,
}

/// Total number of flows, the same for any number of trunks.
pub(super) const FLOWS: u32 = 1_000;

/// Backlog of a trunk in packets.
const BACKLOG: usize = 200;

pub(super) const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const CONNECTIONS: u16 = 4;

/// Time between two operations, the same as in the shaping cases.
const SPACING: Duration = Duration::from_nanos(12_112);

impl Trunked {
    /// A gateway with this many trunks.
    pub(super) fn new(trunks: u32, seed: u64) -> anyhow::Result<Self> {
        let mut random = Random::new(seed, 1);
        let users = users(&mut random);
        let policies = users.chunks(users.len().div_ceil(index(trunks.into())));
        let policies = (0..trunks).zip(policies).map(|(number, part)| policy(number, part));
        let mut config = gateway::config(None, FLOWS, seed);
        config.packets += trunks * 1_024;
        config.trunks = (0..trunks).map(of_number).collect();
        let gateway = Gateway::new(&config, PolicySet::new(policies.collect())?, Time::ZERO);
        let (now, unanswered) = (Time::from_millis(1), VecDeque::new());
        let mut this = Self { gateway, users, at: 0, now, unanswered, second: false, left: 0 };
        // Runs until the windows of all trunks have grown to the receive window of the other end,
        // and then until enough packets wait.
        for _ in 0..index(u64::from(trunks) * 1_000) {
            this.step();
        }
        let most = BACKLOG * index(trunks.into());
        for _ in 0..8 * most {
            if this.waiting() >= most {
                break;
            }
            this.offer();
            this.drain();
        }
        anyhow::ensure!(this.waiting() >= most, "{} packets wait at trunks", this.waiting());
        Ok(this)
    }

    fn waiting(&self) -> usize {
        self.gateway.trunks().iter().map(|it| index(it.backlog.packets.into())).sum()
    }

    /// A user packet arrives. In every second step, the other end acknowledges two management
    /// packets.
    fn step(&mut self) {
        self.now += SPACING;
        self.offer();
        self.drain();
        if self.second {
            self.unanswered.pop_front();
            if let Some((key, tcp)) = self.unanswered.pop_front() {
                self.answer(key, tcp.seq.wrapping_add(tcp.payload), TcpFlags::ACK);
                self.drain();
            }
        }
        self.second = !self.second;
    }

    /// Lets the next user packet arrive.
    fn offer(&mut self) {
        self.at = if self.at + 1 < self.users.len() { self.at + 1 } else { 0 };
        if let Some(id) = self.gateway.pool().insert(self.users[self.at]) {
            self.gateway.handle_packet(self.now, Gateway::LAN, id);
        }
    }

    /// Acts as the driver: sends all packets that may depart. Packets that a trunk created go to
    /// its other end.
    fn drain(&mut self) {
        while let Some(id) = self.gateway.poll_transmit(self.now, Gateway::WAN) {
            let packet = self.gateway.pool()[&id];
            self.gateway.pool().release(id);
            match packet.tcp {
                Some(tcp) if packet.key.src.address() == LOCAL => self.arrive(packet.key, tcp),
                _ => self.left += 1,
            }
        }
        self.left += self.gateway.poll_timeout(self.now).map_or(0, |at| at.nanos() & 1);
    }

    /// A packet of a trunk arrives at the other end, which answers a SYN at once.
    fn arrive(&mut self, key: FlowKey, tcp: TcpSegment) {
        if tcp.flags.any(TcpFlags::SYN) {
            let both = TcpFlags::SYN | TcpFlags::ACK;
            self.answer(key, tcp.seq.wrapping_add(1), both);
        } else if tcp.payload > 0 {
            self.unanswered.push_back((key, tcp));
        }
    }

    fn answer(&mut self, key: FlowKey, ack: u32, flags: u8) {
        let seq = u32::from(flags == TcpFlags::ACK);
        let tcp =
            TcpSegment { seq, ack, flags: TcpFlags(flags), window: WINDOW, ..Default::default() };
        let packet = Packet { len: 54, tcp: Some(tcp), ..flows::segment(key.reverse()) };
        if let Some(id) = self.gateway.pool().insert(packet) {
            self.gateway.handle_packet(self.now, Gateway::WAN, id);
        }
    }
}

/// Receive window of the other end, in bytes of the virtual TCP stream.
const WINDOW: u16 = 30_000;

impl Case for Trunked {
    /// One operation: a user packet arrives, a user packet departs, and a management packet
    /// departs.
    fn run(&mut self, operations: u64) -> u64 {
        for _ in 0..index(operations) {
            self.step();
        }
        self.left
    }
}

/// Full-size segments of [`FLOWS`] flows, in the order of their hosts' addresses in 10.0.0.0/8.
pub(super) fn users(random: &mut Random) -> Vec<Packet> {
    let all = (0..).map(|number| flows::segment(flows::key(number * 4, random)));
    all.filter(goes_far).take(index(FLOWS.into())).collect()
}

/// Returns `true` if the destination can be a host beyond a router. Packets within the local
/// network do not use a trunk.
fn goes_far(packet: &Packet) -> bool {
    let IpAddr::V4(to) = packet.key.dst.address() else { return false };
    let nobody = to.is_unspecified() || to.is_broadcast() || to.is_multicast();
    !nobody && !to.is_loopback() && !to.is_link_local()
}

/// The configuration of trunk `number`.
pub(super) fn of_number(number: u32) -> trunk::Config {
    let [_, b, c, d] = number.to_be_bytes();
    trunk::Config {
        name: number.to_string(),
        local: LOCAL,
        peer: [203, b, c, d].into(),
        port: 4_754,
        connections: CONNECTIONS,
        vmss: Bytes(1_514),
        guarantee: None,
        ceiling: None,
        queue: QdiscSpec::PerFlow(Default::default()),
        assured: 1,
        tcp: tcp::Config::default(),
        fallback: trunk::Fallback::Hold,
        probing: trunk::Probing::Management,
        weight: None,
        wire: Default::default(),
    }
}

/// A policy that sends the packets of the users in `part` through trunk `number`.
pub(super) fn policy(number: u32, part: &[Packet]) -> Policy {
    let hosts = part.iter().map(|packet| packet.key.src.number());
    let (first, last) = (hosts.clone().min(), hosts.max());
    let range = Range { first: first.unwrap_or_default(), last: last.unwrap_or_default() };
    Policy {
        name: number.to_string(),
        priority: 0,
        filter: Filter { src: vec![range], direction: Some(Direction::Up), ..Filter::default() },
        action: Action::Pass,
        mode: Mode::Enforce,
        class: None,
        trunk: Some(number.to_string()),
    }
}
