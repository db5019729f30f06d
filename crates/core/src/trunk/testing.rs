//! A test bench: two gateways with a trunk, and a path between them. The trunk carries user packets
//! from the first gateway to the second.

use std::time::Duration;

use super::{Arriving, Config, Trunk};
use crate::link::{Link, LinkConfig};
use crate::packet::{Fifo, FlowKey, QueueIndex};
use crate::qdisc::QdiscSpec;
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Tally, Time, tcp};

/// A user packet of `len` bytes.
pub(super) fn user(len: u32) -> Packet {
    let network = crate::packet::Network::Ipv4;
    Packet { len, cost: len, network, segments: 1, ..Packet::default() }
}

pub(super) fn config() -> Config {
    Config {
        name: "t".to_owned(),
        local: [192, 0, 2, 1].into(),
        peer: [192, 0, 2, 2].into(),
        port: 4_000,
        connections: 4,
        vmss: Bytes(1_500),
        guarantee: None,
        ceiling: None,
        queue: QdiscSpec::DropTail(Default::default()),
        assured: 1,
        tcp: tcp::Config::default(),
        fallback: Default::default(),
        probing: super::Probing::Management,
        weight: None,
        wire: Default::default(),
    }
}

pub(super) fn path(written: &str) -> LinkConfig {
    let (rate, queue) = (Some(Rate::from_mbps(10)), queue(written));
    LinkConfig { rate, delay: Duration::from_millis(5), queue, ..LinkConfig::default() }
}

/// The queue discipline that the text `queue` names.
pub(super) fn queue(queue: &str) -> QdiscSpec {
    let text = format!("queue = {queue}");
    #[derive(serde::Deserialize)]
    struct File {
        queue: QdiscSpec,
    }
    let File { queue } = toml::from_str(&text).unwrap();
    queue
}

/// A user packet that arrived at the second gateway, with its arrival time.
pub(super) struct Arrived {
    pub(super) at: Time,
    pub(super) packet: Packet,
}

/// Both ends of a trunk, with one link in each direction.
pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) ends: [Trunk; 2],
    pub(super) links: [Link; 2],
    pub(super) pool: PacketPool,
    pub(super) tally: Tally,
    /// User packets that reached the second gateway.
    pub(super) arrived: Vec<Arrived>,
    keys: [Vec<(FlowKey, Arriving)>; 2],
    pub(super) offered: u64,
    /// `true`: all packets from the second gateway to the first are lost.
    pub(super) muted: bool,
}

impl Pair {
    pub(super) fn new(config: &Config, path: &LinkConfig) -> Self {
        let back = Config { local: config.peer, peer: config.local, ..config.clone() };
        let ends = [config, &back].map(|config| Trunk::new(config, 7, Time::ZERO));
        let keys = [0, 1].map(|end: usize| ends[end].arriving().collect());
        let there = Link::new(path, 3, 0);
        let return_path = LinkConfig { delay: path.delay, ..LinkConfig::default() };
        let mut pool = PacketPool::with_capacity(1 << 14);
        pool.keep_sack();
        Self {
            now: Time::ZERO,
            ends,
            links: [there, Link::new(&return_path, 3, 1)],
            pool,
            tally: Tally::default(),
            arrived: Vec::new(),
            keys,
            offered: 0,
            muted: false,
        }
    }

    /// Changes the configuration of the first gateway to `config`.
    pub(super) fn change(&mut self, config: &Config) {
        let other = Trunk::new(config, 8, self.now);
        let trunk = std::mem::replace(&mut self.ends[0], other);
        let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        self.ends[0] = trunk.changed(&mut cx, config, 8);
    }

    /// A user packet arrives at the first gateway.
    pub(super) fn offer(&mut self, member: u32, len: u32) {
        self.offer_packet(Packet { queue_index: QueueIndex(member), ..user(len) });
    }

    /// A packet of another trunk, which this trunk carries, arrives at the first gateway.
    pub(super) fn offer_marked(&mut self, dscp: u8, len: u32) {
        self.offer_packet(Packet { dscp, ..user(len) });
    }

    pub(super) fn offer_packet(&mut self, packet: Packet) {
        self.offered += 1;
        let packet = self.pool.insert(packet).unwrap();
        self.with(0, |trunk, cx, out| trunk.send(cx, packet, out));
    }

    fn with(&mut self, end: usize, call: impl FnOnce(&mut Trunk, &mut Cx<'_>, &mut Fifo)) {
        let mut out = Fifo::new();
        let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        call(&mut self.ends[end], &mut cx, &mut out);
        while let Some(packet) = out.pop(cx.pool) {
            self.links[end].send(&mut cx, packet);
        }
    }

    /// Advances time to `until`. Calls `before` at each step.
    pub(super) fn run(&mut self, until: Time, mut before: impl FnMut(&mut Self)) {
        loop {
            before(self);
            for end in [0, 1] {
                self.with(end, Trunk::handle_timeout);
                self.receive(end);
            }
            if self.now >= until {
                return;
            }
            let times = self.ends.iter().map(Trunk::poll_timeout);
            let next = times.chain(self.links.iter().map(Link::ready_at)).flatten().min();
            self.now = next.unwrap_or(until).clamp(self.now, until);
        }
    }

    /// Delivers packets of the link from gateway `end` to the other gateway.
    fn receive(&mut self, end: usize) {
        loop {
            let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
            let Some(packet) = self.links[end].poll(&mut cx) else { return };
            self.reach(1 - end, packet);
        }
    }

    fn reach(&mut self, end: usize, packet: PacketId) {
        let described = self.pool[&packet];
        match self.keys[end].iter().find(|(key, _)| *key == described.key) {
            Some(_) if self.muted && end == 0 => self.pool.release(packet),
            Some(&(_, what)) => self.hand_in(end, what, packet),
            None => {
                self.with(end, |trunk, cx, out| trunk.watch(cx, &packet, out));
                self.pool.release(packet);
                self.arrived.push(Arrived { at: self.now, packet: described });
            }
        }
    }

    /// A packet of a management connection arrives at gateway `end`, and ends there.
    pub(super) fn hand_in(&mut self, end: usize, what: Arriving, packet: PacketId) {
        self.with(end, |trunk, cx, out| trunk.handle(cx, what, packet, out));
    }

    /// Checks that no packet is missing: each packet that was offered or created has arrived, was dropped, ended at a
    /// trunk, or is queued.
    pub(super) fn check_conservation(&self) {
        let made: u64 = self.ends.iter().map(|end| end.counts().made).sum();
        let absorbed: u64 = self.ends.iter().map(|end| end.counts().absorbed).sum();
        let arrived = u64::try_from(self.arrived.len()).unwrap();
        let held = u64::from(self.pool.in_use());
        let inside = self.links.iter().map(Link::held).sum::<usize>();
        let waiting = self.ends[0].backlog().packets;
        assert_eq!(held, u64::try_from(inside).unwrap() + u64::from(waiting));
        assert_eq!(self.offered + made, absorbed + arrived + self.tally.drops.total() + held);
    }

    /// Bytes of user packets that arrived from the time `from` on.
    pub(super) fn bytes_since(&self, from: Time) -> u64 {
        self.arrived.iter().filter(|it| it.at >= from).map(|it| u64::from(it.packet.len)).sum()
    }
}
