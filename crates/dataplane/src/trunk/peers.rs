//! The other ends (peers) of a port's trunks: their state, and changes of the set of trunks.
//!
//! This file has methods of `TrunkPort`, whose fields are in `trunk.rs`.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::time::Duration;

use tidegate_core::packet::Endpoint;
use tidegate_core::trunk::{Probing, Wire};
use tidegate_core::{ByReason, Time};
use tidegate_wire::VlanTag;
use tidegate_wire::neighbour::{Mac, Neighbour, NextHop};
use tidegate_wire::trunk::{Ends, Envelope, Form, Key, PathMtu, Refusal, Refusals, Session};

use super::carrier::{self, Carried};
use super::stations::Stations;
use super::tags::tag;
use super::{TrunkPort, datagram, key_of};
use crate::memory::PacketMemory;
use crate::port::Port;

/// A trunk that ends at a port.
#[derive(Clone, Debug)]
pub struct TrunkEnd {
    /// The number that marks user packets of this trunk.
    pub number: NonZeroU16,
    /// Addresses, and the first port of the management connections.
    pub ends: Ends,
    /// Number of management connections in each direction.
    pub connections: u16,
    /// The mechanism by which the trunk finds its rate. With `epochs`, the management connection
    /// carries the receiver's reports of arrived bytes.
    pub probing: Probing,
    /// The trunk has a weight, by which its management connections increase or decrease their rate.
    pub weighted: bool,
    /// The DS codepoint of hellos.
    pub dscp: u8,
    /// The next hop towards the other end.
    pub next_hop: NextHop,
    /// The shared key.
    pub key: Key,
    /// The encapsulation of user packets.
    pub wire: Wire,
    /// The configured path MTU, in bytes of IP packet.
    pub mtu: u32,
}

impl TrunkEnd {
    /// The settings that must be the same at both ends. Hellos carry them.
    fn form(&self) -> Form {
        Form {
            encapsulates: self.wire.overhead(self.ends.local) > 0,
            probing: self.probing,
            weighted: self.weighted,
        }
    }
}

/// What a gateway knows about the other end of a trunk.
#[derive(Clone, Copy, Debug)]
pub struct PeerReport {
    /// Addresses and port of the trunk.
    pub ends: Ends,
    /// The MAC address of the next hop, once it is resolved.
    pub next_hop: Option<Mac>,
    /// Both ends have agreed on a session.
    pub agreed: bool,
    /// Number of sessions so far. The first is 1, and each restart of an end begins another.
    pub sessions: u64,
    /// Time since the other end last proved to be alive.
    pub heard: Option<Duration>,
    /// Accepted datagrams that carry no user packet.
    pub taken: Taken,
    /// Refused datagrams to the address of this end.
    pub refused: Refusals,
    /// The first setting in which the two ends differ. Such ends do not agree on a session.
    pub difference: Option<Refusal>,
    /// Counters of user packets in datagrams. `None` if user packets are not encapsulated.
    pub carried: Option<Carried>,
    /// The current path MTU, in bytes of IP packet.
    pub path_mtu: u32,
    /// ICMP errors about the path MTU that were ignored as not credible.
    pub ignored: u64,
}

/// Accepted datagrams from the other end that carry no user packet. [`Carried`] counts the datagrams
/// with user packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Taken {
    /// Hellos.
    pub hellos: u64,
    /// Segments of management connections.
    pub segments: u64,
}

impl PeerReport {
    /// Keepalive timeout: a peer that sends nothing for this time, three hellos, counts as dead.
    pub const SILENCE: Duration = Duration::from_secs(3);

    /// Returns `true` if the other end is alive.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.agreed && self.heard.is_some_and(|heard| heard <= Self::SILENCE)
    }
}

/// The other end of a trunk.
pub(super) struct Peer {
    end: TrunkEnd,
    pub(super) session: Session,
    /// Template of the datagram headers.
    pub(super) envelope: Envelope,
    /// Index of the neighbour (next hop) of this trunk.
    pub(super) neighbour: usize,
    pub(super) channels: u16,
    pub(super) dscp: u8,
    pub(super) hello: Time,
    /// VLAN tag of its datagrams.
    pub(super) tag: Option<VlanTag>,
    /// Bytes by which encapsulation lengthens a user packet. Zero without encapsulation.
    pub(super) overhead: u32,
    pub(super) path: PathMtu,
    pub(super) carried: Carried,
    pub(super) taken: Taken,
}

impl Peer {
    /// The end of the trunk at this port.
    pub(super) const fn end(&self) -> &TrunkEnd {
        &self.end
    }

    /// The peer of trunk `end`, whose next hop is neighbour number `neighbour`. `before` is the
    /// earlier state of this trunk, if any. `mac` is the own MAC address, and `random` is unique
    /// for each run.
    fn new(
        end: TrunkEnd,
        random: [u8; 32],
        neighbour: usize,
        mac: Mac,
        memory: &PacketMemory,
        before: Option<Self>,
    ) -> Self {
        let overhead = end.wire.overhead(end.ends.local);
        let form = end.form();
        let counted = before.as_ref().map(|it| (it.carried, it.taken));
        let (carried, taken) = counted.unwrap_or_default();
        let same = before.filter(|it| {
            (it.end.ends, it.end.key.0, it.overhead, it.end.form())
                == (end.ends, end.key.0, overhead, form)
        });
        let (session, hello, path) = match same {
            Some(it) if it.end.mtu == end.mtu => (it.session, it.hello, it.path),
            Some(it) => (it.session, it.hello, carrier::path(end.mtu, memory)),
            None => {
                let session = Session::new(&end.key, end.ends, random).like(form);
                (session, Time::ZERO, carrier::path(end.mtu, memory))
            }
        };
        let (tag, channels, dscp) = (tag(end.wire), 2 * end.connections, end.dscp);
        let envelope = Envelope::new(end.ends, mac, tag);
        Self {
            end,
            session,
            envelope,
            neighbour,
            channels,
            dscp,
            hello,
            tag,
            overhead,
            path,
            carried,
            taken,
        }
    }
}

impl TrunkPort {
    /// Makes `trunks` end at `port`, whose MAC address is `mac` and whose frames are in `memory`.
    /// Each trunk comes with random bytes that are unique for each run.
    #[must_use]
    pub fn new(
        port: Box<dyn Port>,
        memory: PacketMemory,
        mac: Mac,
        trunks: Vec<(TrunkEnd, [u8; 32])>,
    ) -> Self {
        let mut all = Self {
            port,
            memory,
            mac,
            coming: Default::default(),
            made: Default::default(),
            neighbours: Vec::new(),
            ours: Default::default(),
            numbers: Default::default(),
            carries: false,
            stations: Stations::default(),
            answers: VecDeque::new(),
            errors: (0, Time::ZERO),
            trunks: Vec::new(),
            now: Time::ZERO,
            due: Time::MAX,
            drops: ByReason::default(),
        };
        all.change(trunks);
        all
    }

    /// Replaces the trunks. A trunk keeps its session and its path MTU if its number, ends, key and
    /// encapsulation stay the same. Other trunks start a session.
    pub(super) fn change(&mut self, trunks: Vec<(TrunkEnd, [u8; 32])>) {
        let mut before = std::mem::take(&mut self.trunks);
        let mut known = std::mem::take(&mut self.neighbours);
        for (end, random) in trunks {
            let found = before.iter().position(|it| it.end.number == end.number);
            let found = found.map(|at| before.swap_remove(at));
            let neighbour = self.neighbour(&end, &mut known);
            self.trunks.push(Peer::new(end, random, neighbour, self.mac, &self.memory, found));
        }
        let number = |end: &Peer| Endpoint::at(end.session.ends().local, 0).number();
        self.ours = self.trunks.iter().map(number).collect();
        self.made.clear();
        for (at, peer) in self.trunks.iter().enumerate() {
            let channels = (0..peer.channels).filter_map(|it| u8::try_from(it).ok());
            self.made.extend(channels.map(|it| (key_of(peer.session.ends(), it), (at, it))));
        }
        let all = || self.trunks.iter().enumerate();
        self.coming = all().map(|(at, it)| (datagram(it.session.ends()).reverse(), at)).collect();
        self.numbers = all().map(|(at, it)| (it.end.number, at)).collect();
        self.carries = self.trunks.iter().any(|peer| peer.overhead > 0);
        self.due = if self.trunks.is_empty() { Time::MAX } else { self.now };
    }

    /// The index of the neighbour for `end`. Reuses a neighbour of `known` if possible.
    fn neighbour(
        &mut self,
        end: &TrunkEnd,
        known: &mut Vec<(Neighbour, Option<VlanTag>)>,
    ) -> usize {
        let tag = tag(end.wire);
        let same = |(it, its): &(Neighbour, Option<VlanTag>)| {
            (it.local(), it.next_hop(), *its) == (end.ends.local, end.next_hop, tag)
        };
        if let Some(at) = self.neighbours.iter().position(same) {
            return at;
        }
        let new = || (Neighbour::new(end.ends.local, self.mac, end.next_hop), tag);
        let found = known.iter().position(same).map(|at| known.swap_remove(at));
        self.neighbours.push(found.unwrap_or_else(new));
        self.neighbours.len() - 1
    }

    /// The current state of `peer`.
    pub(super) fn report(&self, peer: &Peer) -> PeerReport {
        PeerReport {
            ends: peer.session.ends(),
            next_hop: self.neighbours[peer.neighbour].0.found(),
            agreed: peer.session.is_agreed(),
            sessions: peer.session.sessions(),
            heard: peer.session.alive().map(|at| self.now.since(at)),
            taken: peer.taken,
            refused: *peer.session.refused(),
            difference: peer.session.difference(),
            carried: (peer.overhead > 0).then_some(peer.carried),
            path_mtu: peer.path.get(self.now),
            ignored: peer.path.ignored(),
        }
    }
}
