//! A port at which trunks end. A trunk carries the user packets between two gateways, at a rate
//! that TCP congestion windows set. The port has addresses, and exchanges UDP datagrams with the
//! other ends.
//!
//! The machine (the gateway) creates management packets: TCP segments without a frame, which probe
//! the path. The port sends each of them as a UDP datagram of one 5-tuple to the next hop of its
//! trunk. The key of the trunk authenticates the datagram.
//!
//! The port consumes every packet to its own addresses. It authenticates datagrams, and passes
//! their segments to the machine. For a hello, the keepalive message, it passes an empty packet. It
//! answers ARP requests and neighbour solicitations, and drops every other packet to its addresses.

mod carrier;
mod peers;
mod stations;
mod tags;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use foldhash::fast::FixedState;
use tidegate_core::packet::{Endpoint, FlowKey, FrameCopy, Kind, Network, Protocol};
use tidegate_core::tcp::Segment;
use tidegate_core::{ByReason, Packet, PacketId, PacketPool, Reason, Time};
use tidegate_wire::VlanTag;
use tidegate_wire::neighbour::{Mac, Neighbour, Outcome};
use tidegate_wire::trunk::{Ends, Opened, Refusal};

use self::carrier::Arrival;
pub use self::carrier::Carried;
use self::peers::Peer;
pub use self::peers::{PeerReport, Taken, TrunkEnd};
use self::stations::Stations;
use self::tags::{tagged, untagged, vlan};
use crate::memory::PacketMemory;
use crate::port::{Port, PortCounters};

/// Interval between the hellos (keepalives) of a trunk.
const HELLO: Duration = Duration::from_secs(1);

/// Maximum number of frames consumed per call. Further frames wait for the next iteration of the
/// loop.
const BURST: u32 = 64;

/// A port at which trunks end.
#[expect(missing_debug_implementations, reason = "ports need not have one")]
pub struct TrunkPort {
    port: Box<dyn Port>,
    memory: PacketMemory,
    mac: Mac,
    /// The neighbours (next hops) of all trunks, each with the VLAN tag of its frames.
    neighbours: Vec<(Neighbour, Option<VlanTag>)>,
    /// The port's own IP addresses, as 128-bit numbers.
    ours: HashSet<u128, FixedState>,
    trunks: Vec<Peer>,
    /// Index and channel of a trunk, by the flow key of its management packets.
    made: HashMap<FlowKey, (usize, u8), FixedState>,
    /// Index of a trunk, by the flow key of received datagrams.
    coming: HashMap<FlowKey, usize, FixedState>,
    now: Time,
    /// Time of the next address request or hello.
    due: Time,
    drops: ByReason,
    /// Index of a trunk, by the trunk number in user packets.
    numbers: HashMap<NonZeroU16, usize, FixedState>,
    /// At least one trunk carries user packets in datagrams.
    carries: bool,
    stations: Stations,
    /// Frames with ICMP errors for senders, which `receive` returns like arrivals. `errors` limits
    /// their rate: it is the number of errors since the given time.
    answers: VecDeque<PacketId>,
    errors: (u32, Time),
}

impl TrunkPort {
    /// The port with trunks among `ports`, if there is one.
    #[must_use]
    pub fn among(ports: &[Box<dyn Port>]) -> Option<&Self> {
        ports.iter().find_map(|port| {
            let port: &dyn Any = &**port;
            port.downcast_ref()
        })
    }

    /// The port with trunks among `ports`, if there is one, to change it.
    pub fn among_mut(ports: &mut [Box<dyn Port>]) -> Option<&mut Self> {
        ports.iter_mut().find_map(|port| {
            let port: &mut dyn Any = &mut **port;
            port.downcast_mut()
        })
    }

    /// Sets the trunks that end at this port, each with unique random bytes. Removes earlier trunks
    /// that are not in the list.
    pub fn end_trunks(&mut self, trunks: Vec<(TrunkEnd, [u8; 32])>) {
        self.change(trunks);
    }

    /// The trunks that end at this port.
    pub fn ends(&self) -> impl Iterator<Item = &TrunkEnd> {
        self.trunks.iter().map(Peer::end)
    }

    /// Reports what is known about the other end of each trunk, in the order of the trunks.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerReport> {
        self.trunks.iter().map(|peer| self.report(peer)).collect()
    }

    /// Decides where the arrived `packet` goes. Before the machine gets a datagram, the content of
    /// the datagram replaces it.
    fn arrival(&mut self, pool: &mut PacketPool, packet: &PacketId) -> Arrival {
        // A tunnelled packet is for the address in its outermost header.
        let (key, tunnelled) = (pool.outermost(packet), pool.is_tunnelled(packet));
        let asks = match pool[packet].network {
            Network::Opaque => key.src.port == ARP,
            Network::Ipv4 => false,
            Network::Ipv6 => key.protocol == Protocol::ICMPV6,
        };
        if asks && self.resolve(pool, packet) {
            return Arrival::Here;
        }
        if !self.is_ours(key.dst.number()) {
            return Arrival::Machine;
        }
        if let Some(number) = self.coming.get(&key).filter(|_| !tunnelled) {
            return self.open(pool, packet, *number);
        }
        if tunnelled || !(self.carries && self.lower_path_mtu(pool, packet)) {
            let at = |peer: &&mut Peer| {
                Endpoint::at(peer.session.ends().local, 0).number() == key.dst.number()
            };
            if let Some(peer) = self.trunks.iter_mut().find(at) {
                peer.session.refuse(Refusal::NotFromPeer);
            }
        }
        Arrival::Here
    }

    /// Returns `true` if this port has the address with this number.
    fn is_ours(&self, number: u128) -> bool {
        self.ours.contains(&number)
    }

    /// MAC address of the next hop of a trunk, if it is resolved.
    fn next_hop(&self, number: usize) -> Option<Mac> {
        self.neighbours[self.trunks[number].neighbour].0.found()
    }

    /// Passes an address-resolution frame to the neighbours. Returns `true` if the frame was only
    /// for the neighbours.
    fn resolve(&mut self, pool: &mut PacketPool, packet: &PacketId) -> bool {
        let len = pool[packet].len;
        let mut answer = None;
        let mut ours = false;
        let (frame, tag) = untagged(&self.memory.bytes(packet, len));
        for (number, (neighbour, its)) in self.neighbours.iter_mut().enumerate() {
            if tag.map(vlan) != its.map(vlan) {
                continue;
            }
            let unknown = neighbour.found().is_none();
            match neighbour.receive(self.now, &frame) {
                Outcome::Others => {}
                Outcome::Nothing => ours = true,
                Outcome::Answer(frame) => (ours, answer) = (true, Some(tagged(frame, *its))),
            }
            if unknown && neighbour.found().is_some() {
                let begin = self.trunks.iter_mut().filter(|peer| peer.neighbour == number);
                begin.for_each(|peer| peer.hello = self.now);
                self.due = self.now;
            }
        }
        if let Some(frame) = answer {
            self.emit(pool, &frame);
        }
        ours
    }

    /// Authenticates a datagram of trunk `number`, and replaces it by its content. Counts each
    /// datagram once, as accepted or as refused.
    fn open(&mut self, pool: &mut PacketPool, packet: &PacketId, number: usize) -> Arrival {
        let described = &pool[packet];
        let opened = {
            let frame = self.memory.bytes(packet, described.len);
            let session = &mut self.trunks[number].session;
            let datagram = match usize::from(described.transport_offset) {
                0 => None,
                at => payload(&frame, at),
            };
            match datagram {
                _ if described.fragment.is_part() => Err(Refusal::Fragment),
                None => Err(Refusal::Malformed),
                // The session counts its own refusals.
                Some(datagram) => match session.open(self.now, datagram) {
                    Ok(opened) => Ok(opened),
                    Err(_) => return Arrival::Here,
                },
            }
        };
        let taken = opened.and_then(|opened| self.take(pool, packet, number, opened));
        taken.unwrap_or_else(|refusal| {
            self.trunks[number].session.refuse(refusal);
            Arrival::Here
        })
    }

    /// Counts an authenticated datagram of trunk `number`, and replaces it by its content.
    fn take(
        &mut self,
        pool: &mut PacketPool,
        packet: &PacketId,
        number: usize,
        opened: Opened,
    ) -> Result<Arrival, Refusal> {
        let peer = &mut self.trunks[number];
        Ok(match opened {
            Opened::Hello { answer } => {
                peer.taken.hellos += 1;
                if let Some(nonce) = answer {
                    self.send_hello(pool, number, &self.trunks[number].session.answer(nonce));
                }
                // An empty packet of the first management connection informs the machine that the
                // peer is alive.
                let peer = &self.trunks[number];
                if peer.session.alive() != Some(self.now) {
                    return Ok(Arrival::Here);
                }
                pool[packet].key = key_of(peer.session.ends(), 0).reverse();
                Arrival::Machine
            }
            Opened::User => {
                let arrival = self.decapsulate(pool, packet, number)?;
                self.trunks[number].carried.received += 1;
                arrival
            }
            Opened::Segment { channel, .. } if u16::from(channel) >= peer.channels => {
                return Err(Refusal::Channel);
            }
            Opened::Segment { channel, segment } => {
                peer.taken.segments += 1;
                let place = &mut pool[packet];
                place.key = key_of(peer.session.ends(), channel ^ 1).reverse();
                place.tcp = Some(segment.header);
                if segment.header.has_sack {
                    pool.set_sack(packet, segment.sack);
                }
                Arrival::Machine
            }
        })
    }

    /// Writes the frame of a packet that the machine created. Returns `false` if the packet cannot
    /// be sent.
    fn write(&mut self, pool: &mut PacketPool, packet: &PacketId) -> bool {
        let described = pool[packet];
        let sack = pool.sack(packet);
        let Some((number, channel)) = self.made.get(&described.key).copied() else { return false };
        let (Some(header), Some(next_hop)) = (described.tcp, self.next_hop(number)) else {
            return false;
        };
        let segment = Segment { header, sack, ecn: described.ecn };
        let Peer { session, envelope, .. } = &mut self.trunks[number];
        let Some(datagram) = session.authenticate(channel, &segment) else { return false };
        let Some(mut frame) = self.memory.place(pool, packet, envelope.size() + datagram.len())
        else {
            return false;
        };
        frame[envelope.size()..].copy_from_slice(datagram);
        envelope.write(&mut frame, next_hop, &described, None).is_some()
    }

    /// Sends a hello to the other end of trunk `number`.
    fn send_hello(&mut self, pool: &mut PacketPool, number: usize, hello: &[u8]) {
        let Some(next_hop) = self.next_hop(number) else { return };
        let Peer { envelope, dscp, .. } = &self.trunks[number];
        let like = Packet { dscp: *dscp, ..Packet::default() };
        let mut frame = [&vec![0; envelope.size()], hello].concat();
        if envelope.write(&mut frame, next_hop, &like, None).is_some() {
            self.emit(pool, &frame);
        }
    }

    /// Sends a frame that the port itself created.
    fn emit(&mut self, pool: &mut PacketPool, frame: &[u8]) {
        let Some(packet) = pool.insert(Packet { segments: 1, ..Packet::default() }) else {
            return self.drops.count(Reason::NoBuffer);
        };
        if self.put(pool, &packet, frame) {
            self.port.send(pool, packet);
        } else {
            pool.release(packet);
        }
    }

    /// Stores `frame` as the frame of `packet`. Returns `false` if it is too long.
    fn put(&self, pool: &mut PacketPool, packet: &PacketId, frame: &[u8]) -> bool {
        let room = self.memory.place(pool, packet, frame.len());
        room.map(|mut room| room.copy_from_slice(frame)).is_some()
    }

    /// Sends the address requests and hellos that are due.
    fn send_due(&mut self, pool: &mut PacketPool) {
        let now = self.now;
        for number in 0..self.neighbours.len() {
            let (neighbour, tag) = &mut self.neighbours[number];
            if let Some(question) = neighbour.request(now) {
                let question = tagged(question, *tag);
                self.emit(pool, &question);
            }
        }
        for number in 0..self.trunks.len() {
            if self.trunks[number].hello <= now {
                self.trunks[number].hello = now + HELLO;
                self.send_hello(pool, number, &self.trunks[number].session.hello());
            }
        }
        let questions = self.neighbours.iter().filter_map(|(it, _)| it.due());
        let hellos = self.trunks.iter().map(|peer| peer.hello);
        self.due = questions.chain(hellos).min().unwrap_or(Time::MAX);
    }
}

/// The ethertype of ARP. For a frame that is not IP, the descriptor has the ethertype as both
/// ports.
const ARP: u16 = 0x0806;

/// The flow key of management packets on channel `channel` to the other end.
fn key_of(ends: Ends, channel: u8) -> FlowKey {
    let at = |address: IpAddr, channel: u8| {
        Endpoint::at(address, ends.port.wrapping_add(u16::from(channel)))
    };
    let (src, dst) = (at(ends.local, channel), at(ends.peer, channel ^ 1));
    FlowKey { src, dst, protocol: Protocol::TCP }
}

/// The flow key of datagrams to the other end.
fn datagram(ends: Ends) -> FlowKey {
    let (src, dst) = (Endpoint::at(ends.local, ends.port), Endpoint::at(ends.peer, ends.port));
    FlowKey { src, dst, protocol: Protocol::UDP }
}

/// The payload of the UDP datagram at `at`.
fn payload(frame: &[u8], at: usize) -> Option<&[u8]> {
    let datagram = frame.get(at..)?;
    let len = u16::from_be_bytes(*datagram.get(4..)?.first_chunk()?);
    datagram.get(8..usize::from(len))
}

impl Port for TrunkPort {
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        self.now = now;
        if let Some(answer) = self.answer(pool) {
            return Some(answer);
        }
        if self.trunks.is_empty() {
            return self.port.receive(pool, now);
        }
        for _ in 0..BURST {
            let packet = self.port.receive(pool, now)?;
            match self.arrival(pool, &packet) {
                Arrival::Machine => return Some(packet),
                Arrival::Here => pool.release(packet),
                Arrival::Back => self.port.send(pool, packet),
            }
        }
        None
    }

    fn set_cutting(&mut self, cuts: bool) {
        self.port.set_cutting(cuts);
    }

    fn can_send(&self) -> bool {
        self.port.can_send()
    }

    fn copy(&mut self, copy: &FrameCopy) {
        self.port.copy(copy);
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        if pool[&packet].kind == Kind::Made {
            if !self.write(pool, &packet) {
                self.drops.count(Reason::NoRoute);
                return pool.release(packet);
            }
            return self.port.send(pool, packet);
        }
        self.learn(pool, &packet);
        // If the trunk of the packet was removed in the meantime, the packet departs without
        // encapsulation.
        match pool[&packet].carried.and_then(|number| self.numbers.get(&number).copied()) {
            Some(at) if self.trunks[at].overhead > 0 => self.carry(pool, packet, at),
            _ => self.port.send(pool, packet),
        }
    }

    fn flush(&mut self, pool: &mut PacketPool) {
        if self.due <= self.now {
            self.send_due(pool);
        }
        self.port.flush(pool);
    }

    fn unsent(&self) -> bool {
        self.port.unsent()
    }

    fn receiving(&self) -> u32 {
        self.port.receiving()
    }

    fn takes_frames(&self) -> bool {
        self.port.takes_frames()
    }

    fn drop_arrived(&mut self, pool: &mut PacketPool, copies: &dyn Fn() -> u64) -> u64 {
        let answers = self.answers.drain(..).map(|packet| pool.release(packet)).count();
        u64::try_from(answers).unwrap_or(0) + self.port.drop_arrived(pool, copies)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.fd()
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(if self.answers.is_empty() { self.due } else { self.now })
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.port.counters();
        counters.drops += self.drops;
        counters
    }
}
