//! The network at run time: its links, routers and stations, and the packets in them.

mod ahead;
mod changes;
mod lane;
mod passage;
mod rounds;
mod station;
mod tracking;

use tidegate_core::packet::Note;
use tidegate_core::{Cx, Packet, PacketId, PacketPool, Reason, Tally, Time, trunk};

pub(crate) use changes::Changes;
pub(crate) use lane::Lane;
pub(crate) use passage::{GroupPassage, PassageCounts, Passages};
pub(crate) use station::{Passed, Station, number_parts};

use crate::agenda::Agenda;
use crate::routes::{Graph, NOWHERE, Routes, index, names, number};
use crate::scenario::{NodeKind, Scenario};
use crate::trace::{Trace, numbers};

/// Everything between the hosts.
pub(crate) struct Network {
    /// Packets on links and at hosts. Packets inside a station are in the station's own pool.
    pub(crate) pool: PacketPool,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) stations: Vec<Station>,
    routes: Routes,
    /// Packets dropped outside of links and stations.
    pub(crate) tally: Tally,
    /// Drops and marks of the link that is called now. After each call, the link adds them to its
    /// own counters and clears them.
    scratch: Tally,
    pub(crate) trace: Trace,
}

/// The simulator's own data about a packet. The mechanisms do not see this data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tag {
    /// Departure time at the sender.
    pub(crate) sent: Time,
    /// Node of the destination host.
    pub(crate) host: u32,
    /// The receiving connection end, as the number of an [`EndId`](crate::stream::EndId).
    pub(crate) end: u32,
    /// The flow of the packet.
    pub(crate) flow: u32,
    /// Distinguishes successive connections that have the same number.
    pub(crate) life: u16,
    /// Header fields for the fingerprint of the run; set by [`insert`](Network::insert).
    pub(crate) numbers: u64,
}

impl Tag {
    /// Packs the tag into the note that the pool keeps with each packet.
    fn note(self) -> Note {
        let ends = u64::from(self.host) << 32 | u64::from(self.end);
        let of = u64::from(self.flow) << 32 | u64::from(self.life);
        [ends, self.numbers, self.sent.nanos(), of]
    }

    fn of([ends, numbers, sent, of]: Note) -> Self {
        let low = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        Self {
            sent: Time::from_nanos(sent),
            host: low(ends >> 32),
            end: low(ends),
            flow: low(of >> 32),
            life: u16::try_from(low(of)).unwrap_or(0),
            numbers,
        }
    }
}

/// A step of a packet's path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Hop {
    /// One direction of a link.
    Link(u32),
    /// The gateway or cloud at this node, entered through this port.
    Station(u32, u8),
}

/// The part at the far end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leads {
    /// A router, as a vertex of the routing graph.
    Router(u32),
    /// A host, as its node.
    Host(u32),
    /// A station, and the port at which packets enter it.
    Station(u32, u8),
}

/// Memory in bytes for each packet in the network.
pub const PACKET_BYTES: usize = PacketPool::SLOT_BYTES;

/// Smallest number of packets by which the pool grows; also its initial capacity.
const PACKETS: u32 = 256;

impl Network {
    /// Builds the network of a scenario that has passed its check.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let graph = Graph::new(scenario);
        let names = names(&scenario.nodes);
        let mut stations: Vec<Station> = Vec::new();
        let mut leads = Vec::new();
        for (node, place) in (0_u32..).zip(&scenario.nodes) {
            leads.push(match &place.kind {
                NodeKind::Host(_) => Leads::Host(node),
                NodeKind::Router => Leads::Router(0),
                NodeKind::Gateway(_) | NodeKind::Cloud(_) => {
                    stations.push(Station::new(scenario.run.seed, node, place));
                    Leads::Station(number(stations.len() - 1), 0)
                }
            });
        }
        lead_trunks(scenario, &mut stations);
        let ways = scenario.links.iter().flat_map(|link| link.ways()).count();
        let mut lanes = Vec::with_capacity(ways);
        for (way, config) in scenario.links.iter().flat_map(|link| link.ways()) {
            let [from, to] = [&way.from, &way.to].map(|end| names[end.node.as_str()]);
            if let Leads::Station(station, _) = leads[from] {
                let vertex = graph.vertex(from, way.from.side, false);
                stations[index(station)].attach(way.from.side, number(lanes.len()), vertex);
            }
            let leads = match leads[to] {
                Leads::Router(_) => Leads::Router(graph.vertex(to, way.to.side, true)),
                Leads::Station(station, _) => Leads::Station(station, Station::port(way.to.side)),
                host @ Leads::Host(_) => host,
            };
            lanes.push(Lane::new(&way, config, leads, scenario.run.seed));
        }
        Self {
            pool: PacketPool::with_capacity(PACKETS),
            lanes,
            stations,
            routes: Routes::new(graph),
            tally: Tally::default(),
            scratch: Tally::default(),
            trace: Trace::default(),
        }
    }

    /// The first link direction on the path from the host at node `from` to the host at node `to`.
    pub(crate) fn first_way(&self, from: u32, to: u32) -> u32 {
        self.routes.first(from, to)
    }

    /// All steps of a packet's path to the host at node `to`, from link direction `first` on.
    pub(crate) fn path(&self, first: u32, to: u32) -> Vec<Hop> {
        let (mut path, mut way) = (Vec::new(), first);
        while let Some(lane) = self.lanes.get(index(way))
            && path.len() <= 2 * self.lanes.len()
        {
            path.push(Hop::Link(way));
            way = match lane.leads {
                Leads::Router(vertex) => self.routes.next(vertex, to),
                Leads::Host(_) => NO_WAY,
                Leads::Station(station, port) => {
                    let station = &self.stations[index(station)];
                    path.push(Hop::Station(station.node, port));
                    self.routes.next(station.across(port), to)
                }
            };
        }
        path
    }

    /// Puts a new packet into the pool.
    pub(crate) fn insert(&mut self, packet: Packet, tag: Tag) -> PacketId {
        let id = loop {
            match self.pool.reserve() {
                Some(id) => break id,
                None => self.pool.grow((number(self.pool.capacity()) / 32).max(PACKETS)),
            }
        };
        self.pool.set_note(&id, Tag { numbers: numbers(&packet), ..tag }.note());
        self.pool[&id] = packet;
        id
    }

    /// The tag of a packet.
    pub(crate) fn tag(&self, id: &PacketId) -> Tag {
        Tag::of(self.pool.note(id))
    }

    /// Sends `packet` over link direction `way`.
    pub(crate) fn send(&mut self, agenda: &mut impl Agenda, now: Time, way: u32, packet: PacketId) {
        let Some(lane) = self.lanes.get_mut(index(way)) else {
            self.tally.drops.count(Reason::NoRoute);
            return self.pool.release(packet);
        };
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.scratch };
        lane.send(&mut cx, packet);
        lane.arm_after_send(agenda, way);
    }

    /// Takes the packets that have reached the far end of link direction `way`, and hands them to
    /// the next link or station. Packets for a host are added to `arrived`.
    pub(crate) fn advance(
        &mut self,
        agenda: &mut impl Agenda,
        now: Time,
        way: u32,
        arrived: &mut Vec<PacketId>,
    ) {
        let leads = self.lanes[index(way)].leads;
        loop {
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.scratch };
            let Some(packet) = self.lanes[index(way)].poll(&mut cx) else { break };
            let tag = self.tag(&packet);
            self.trace.note(now, way, tag.end, tag.numbers, &self.pool[&packet]);
            match leads {
                Leads::Router(vertex) => {
                    let next = self.routes.next(vertex, tag.host);
                    self.send(agenda, now, next, packet);
                }
                Leads::Host(host) if host == tag.host => arrived.push(packet),
                Leads::Host(_) => {
                    self.tally.drops.count(Reason::NoRoute);
                    self.pool.release(packet);
                }
                Leads::Station(station, port) => self.enter(agenda, now, station, port, packet),
            }
        }
        self.lanes[index(way)].arm(agenda, way);
        if self.is_large() {
            self.fetch_packet(way);
        }
    }

    /// Ends the warm-up at `now`: results count from this time on.
    pub(crate) fn warm(&mut self, now: Time) {
        self.lanes.iter_mut().for_each(|lane| lane.restart(now));
        self.stations.iter_mut().for_each(Station::restart);
    }

    /// The network with an empty packet pool, to free memory.
    pub(crate) fn without_packets(self) -> Self {
        Self { pool: PacketPool::with_capacity(0), ..self }
    }

    /// Number of packets in the whole network, stations included.
    pub(crate) fn held(&mut self) -> u64 {
        let inside = |station: &mut Station| u64::from(station.held());
        u64::from(self.pool.in_use()) + self.stations.iter_mut().map(inside).sum::<u64>()
    }

    /// Drops and marks in the whole network.
    pub(crate) fn tally(&self) -> Tally {
        let mut all = self.tally;
        self.lanes.iter().for_each(|lane| all += lane.tally());
        self.stations.iter().for_each(|station| all += station.tally());
        all
    }
}

/// The number that means "no link direction".
pub(crate) const NO_WAY: u32 = NOWHERE;

/// Passes the nodes of the trunks' peers to each gateway with trunks.
fn lead_trunks(scenario: &Scenario, stations: &mut [Station]) {
    let nodes = || (0_u32..).zip(&scenario.nodes);
    let node_of = |address| {
        nodes().find(|(_, node)| node.trunks().iter().any(|it| it.local == address)).map(|it| it.0)
    };
    for station in stations {
        let trunks = scenario.nodes[index(station.node)].trunks().iter();
        let end = |it: &trunk::Config| Some(([it.local, it.peer], node_of(it.peer)?));
        station.lead(trunks.filter_map(end).collect());
    }
}
