//! A station: a gateway or a cloud (a network of emulated routes), and the code that drives it.
//!
//! Methods of `Network`, whose fields are in `network.rs`.

use std::collections::HashMap;
use std::net::IpAddr;

use tidegate_core::emulator::{Emulator, EmulatorConfig, EmulatorReport, RouteReport};
use tidegate_core::packet::{Direction, Facts, FlowId, QueueIndex};
use tidegate_core::random::Random;
use tidegate_core::trunk::TrunkReport;
use tidegate_core::{Machine, Packet, PacketId, PortId, Reason, Tally, Time};
use tidegate_gateway::report::{AggregateReport, ClassReport, Report};
use tidegate_gateway::{Gateway, GatewayConfig};

use super::passage::Passages;
use super::{NO_WAY, Network, Tag};
use crate::agenda::Agenda;
use crate::draw::stream;
use crate::routes::{index, number};
use crate::scenario::{Node, NodeKind, Side};

/// A gateway or cloud, and the links at its ports.
pub(crate) struct Station {
    /// Index of its node.
    pub(crate) node: u32,
    works: Works,
    /// The tag of the packet in each slot of the station's own pool.
    tags: Vec<Tag>,
    exits: Vec<Exit>,
    /// For a gateway with trunks: the destinations of the packets that it creates for its trunks.
    trunks: Option<Box<TrunkEnds>>,
    /// Time of its entry in the agenda; [`Time::MAX`] for none.
    armed: Time,
    /// Packets dropped because the station's pool was full.
    tally: Tally,
    /// Counters of packets that pass a gateway, if a probe requests them.
    pub(crate) passages: Option<Box<Passages>>,
    /// The station's part number in the agenda.
    pub(crate) part: u32,
    /// The station's counters at the end of the warm-up.
    pub(crate) before: Tally,
    aggregates_before: Vec<AggregateReport>,
    trunks_before: Vec<TrunkReport>,
}

/// The node of a trunk's peer. The key is the trunk's local and peer address.
pub(super) type TrunkEnds = HashMap<[IpAddr; 2], u32>;

/// An aggregate in a gateway.
pub(crate) struct Passed {
    /// Its report now.
    pub(crate) now: AggregateReport,
    /// Its report at the end of the warm-up.
    before: AggregateReport,
}

impl Passed {
    /// The increase of a counter since the end of the warm-up.
    pub(crate) fn counted(&self, of: fn(&AggregateReport) -> u64) -> u64 {
        of(&self.now) - of(&self.before)
    }
}

/// The gateway or emulator of the core that a station drives.
enum Works {
    Gateway(Box<Gateway>),
    Cloud(Box<Emulator>),
}

/// A port, as the start of links that lead away from the station.
#[derive(Clone, Copy)]
struct Exit {
    /// The vertex of the routing graph at which packets depart from this port.
    vertex: u32,
    /// The link direction that begins at this port, if it is the only one; [`NO_WAY`] if there is
    /// none.
    only: u32,
    ways: u32,
}

impl Station {
    /// The station at `node`: a gateway or a cloud.
    pub(super) fn new(seed: u64, node: u32, place: &Node) -> Self {
        let seed = Random::new(seed, stream("station", &place.name, 0)).below(u64::MAX);
        let (works, ports, packets) = match &place.kind {
            NodeKind::Gateway(it) => {
                let config = GatewayConfig { seed, ..it.config.clone() };
                let mut gateway = Gateway::new(&config, it.policies.clone(), Time::ZERO);
                gateway.pool().make_copies();
                (Works::Gateway(Box::new(gateway)), 2, config.packets)
            }
            NodeKind::Cloud(config) => {
                let config = EmulatorConfig { seed, ..(**config).clone() };
                let cloud = Emulator::new(&config);
                (Works::Cloud(Box::new(cloud)), config.ports.len(), config.packets)
            }
            NodeKind::Host(_) | NodeKind::Router => {
                (Works::Cloud(Box::new(Emulator::new(&EmulatorConfig::default()))), 0, 0)
            }
        };
        Self {
            node,
            works,
            tags: vec![Tag::default(); index(packets)],
            exits: vec![Exit { vertex: 0, only: NO_WAY, ways: 0 }; ports],
            trunks: None,
            armed: Time::MAX,
            tally: Tally::default(),
            passages: None,
            part: 0,
            before: Tally::default(),
            aggregates_before: Vec::new(),
            trunks_before: Vec::new(),
        }
    }

    /// The number of the port at `side`.
    pub(super) const fn port(side: Side) -> u8 {
        match side {
            Side::Lan | Side::Only => Gateway::LAN.0,
            Side::Wan => Gateway::WAN.0,
            Side::Port(port) => port,
        }
    }

    /// Link direction `way` begins at port `side`, at `vertex` of the routing graph.
    pub(super) fn attach(&mut self, side: Side, way: u32, vertex: u32) {
        if let Some(exit) = self.exits.get_mut(usize::from(Self::port(side))) {
            *exit = Exit { vertex, only: way, ways: exit.ways + 1 };
        }
    }

    /// Sets the destinations of the packets that the gateway creates for its trunks.
    pub(super) fn lead(&mut self, trunks: TrunkEnds) {
        self.trunks = (!trunks.is_empty()).then(|| Box::new(trunks));
    }

    /// The destination node of `packet`, if the gateway created it for one of its trunks.
    fn made_for(&mut self, packet: &PacketId) -> Option<u32> {
        let key = self.machine().pool()[packet].key;
        self.trunks.as_ref()?.get(&[key.src.address(), key.dst.address()]).copied()
    }

    /// The vertex at which packets depart after they have entered through `port`.
    pub(super) fn across(&self, port: u8) -> u32 {
        let other = match self.works {
            Works::Gateway(_) => 1 - usize::from(port.min(1)),
            Works::Cloud(_) => usize::from(port),
        };
        self.exits.get(other).map_or(0, |exit| exit.vertex)
    }

    /// Number of packets inside.
    pub(super) fn held(&mut self) -> u32 {
        self.machine().pool().in_use()
    }

    /// Two numbers of packets, which must be equal. First: packets that entered or were created
    /// inside. Second: packets that departed, were dropped or absorbed, or are still inside.
    pub(crate) fn balance(&mut self) -> (u64, u64) {
        let held = u64::from(self.held());
        match &self.works {
            Works::Gateway(gateway) => {
                let Report { received, transmitted, drops, absorbed, made, .. } = gateway.report();
                let [taken, left] = [received, transmitted].map(|it| it[0].packets + it[1].packets);
                (taken + made, left + drops.total() + absorbed + held)
            }
            Works::Cloud(cloud) => {
                let report = cloud.report();
                let sum = |of: fn(&RouteReport) -> u64| report.routes.iter().map(of).sum::<u64>();
                let left = sum(|it| it.delivered.packets + it.drops.total());
                (sum(|it| it.offered.packets), left + held)
            }
        }
    }

    /// Number of packets created inside, and number absorbed inside.
    pub(crate) fn made_and_absorbed(&self) -> (u64, u64) {
        match &self.works {
            Works::Gateway(gateway) => {
                let Report { made, absorbed, .. } = gateway.report();
                (made, absorbed)
            }
            Works::Cloud(_) => (0, 0),
        }
    }

    /// Drops and marks inside, including packets dropped because the pool was full.
    pub(crate) fn tally(&self) -> Tally {
        let mut all = self.tally;
        all += match &self.works {
            Works::Gateway(gateway) => {
                let Report { drops, marks, .. } = gateway.report();
                Tally { drops, marks, ..Tally::default() }
            }
            Works::Cloud(cloud) => {
                let EmulatorReport { drops, marks, .. } = cloud.report();
                Tally { drops, marks, ..Tally::default() }
            }
        };
        all
    }

    /// Ends the warm-up.
    pub(super) fn restart(&mut self) {
        self.before = self.tally();
        self.aggregates_before = self.aggregate_reports();
        self.trunks_before = self.trunk_reports();
        self.passages.as_mut().into_iter().for_each(|it| it.restart());
    }

    /// Reports of a gateway's trunks since the end of the warm-up.
    pub(crate) fn trunks(&self) -> Vec<TrunkReport> {
        let mut all = self.trunk_reports();
        for (now, before) in all.iter_mut().zip(&self.trunks_before) {
            now.counts = now.counts - before.counts;
        }
        all
    }

    /// Reports of a gateway's classes since the beginning of the run.
    pub(crate) fn classes(&self) -> Vec<ClassReport> {
        match &self.works {
            Works::Gateway(gateway) => gateway.classes(),
            Works::Cloud(_) => Vec::new(),
        }
    }

    fn trunk_reports(&self) -> Vec<TrunkReport> {
        match &self.works {
            Works::Gateway(gateway) => gateway.trunks(),
            Works::Cloud(_) => Vec::new(),
        }
    }

    /// The aggregates of a gateway.
    pub(crate) fn aggregates(&self) -> Vec<Passed> {
        let passed = |now: AggregateReport| {
            let mut before = self.aggregates_before.iter();
            let before = before.find(|it| it.policy == now.policy && it.direction == now.direction);
            Passed { before: before.cloned().unwrap_or_default(), now }
        };
        self.aggregate_reports().into_iter().map(passed).collect()
    }

    fn aggregate_reports(&self) -> Vec<AggregateReport> {
        match &self.works {
            Works::Gateway(gateway) => gateway.report().aggregates,
            Works::Cloud(_) => Vec::new(),
        }
    }

    #[inline]
    fn machine(&mut self) -> &mut dyn Machine {
        match &mut self.works {
            Works::Gateway(gateway) => &mut **gateway,
            Works::Cloud(cloud) => &mut **cloud,
        }
    }

    /// Gives each copy that the gateway has made of a packet the tag of the original.
    #[inline]
    fn copy_tags(&mut self) {
        let Works::Gateway(gateway) = &mut self.works else { return };
        if gateway.pool().has_copies() {
            for copy in gateway.pool().copies() {
                self.tags[copy.to] = self.tags[copy.from];
            }
        }
    }

    /// Records the flows that the marking tracks, if a probe requests this record. Call after the
    /// marking has seen `packet`.
    #[inline]
    fn record_tracked(&mut self, now: Time, direction: Direction, packet: &Packet) {
        if let Some(passages) = &mut self.passages
            && let Some(record) = passages.tracking(direction)
            && let Works::Gateway(gateway) = &self.works
            && let Some(seen) = gateway.tracked(direction)
        {
            if record.has_ended(&seen) {
                record.end(now, &seen, |key| gateway.tracks(direction, *key));
            }
            record.add(packet);
        }
    }

    /// Counts the packets that the gateway dropped in its last call.
    #[inline]
    fn settle_passages(&mut self, now: Time) {
        if let (Some(passages), Works::Gateway(gateway)) = (&mut self.passages, &mut self.works) {
            passages.settle(now, gateway.pool());
        }
    }

    /// Schedules the station's next call. Must be called whenever the agenda has
    /// called the station, and whenever a packet has arrived.
    fn arm(&mut self, agenda: &mut impl Agenda, now: Time) {
        let at = self.machine().poll_timeout(now).map_or(Time::MAX, |at| at.max(now));
        // The call may have copied ACKs and dropped packets.
        self.copy_tags();
        self.settle_passages(now);
        if at == self.armed {
            return;
        }
        self.armed = at;
        match at {
            Time::MAX => agenda.cancel(self.part),
            at => agenda.set(self.part, at),
        }
    }
}

impl Network {
    /// Hands `packet` to a station at `port`. A full station drops the packet.
    pub(super) fn enter(
        &mut self,
        agenda: &mut impl Agenda,
        now: Time,
        station: u32,
        port: u8,
        packet: PacketId,
    ) {
        let (tag, sack) = (self.tag(&packet), self.pool.sack(&packet));
        let described = self.pool[&packet];
        self.pool.release(packet);
        let it = &mut self.stations[index(station)];
        let empty = it.passages.is_some() && it.held() == 0;
        let inside = it.machine().pool().insert(described);
        let slot = inside.as_ref().map(PacketId::index);
        if let Some(passages) = &mut it.passages {
            passages.enter(now, entered_by(port), tag, &described, (slot, empty));
        }
        let Some(inside) = inside else {
            return it.tally.drops.count(Reason::NoBuffer);
        };
        if !sack.is_empty() {
            it.machine().pool().set_sack(&inside, sack);
        }
        it.tags[inside.index()] = tag;
        it.machine().handle_packet(now, PortId(port), inside);
        it.record_tracked(now, entered_by(port), &described);
        it.copy_tags();
        it.settle_passages(now);
        self.drain(agenda, now, station);
    }

    /// The timer of a station has expired.
    pub(crate) fn station_due(&mut self, agenda: &mut impl Agenda, now: Time, station: u32) {
        self.stations[index(station)].armed = Time::MAX;
        self.drain(agenda, now, station);
    }

    /// Sends the packets that may depart from a station now.
    fn drain(&mut self, agenda: &mut impl Agenda, now: Time, station: u32) {
        for port in 0..self.stations[index(station)].exits.len() {
            let port_id = PortId(u8::try_from(port).unwrap_or(u8::MAX));
            loop {
                let it = &mut self.stations[index(station)];
                let departing = it.machine().poll_transmit(now, port_id);
                it.settle_passages(now);
                let Some(inside) = departing else { break };
                it.copy_tags();
                let (mut tag, exit) = (it.tags[inside.index()], it.exits[port]);
                if it.trunks.is_some()
                    && let Some(host) = it.made_for(&inside)
                {
                    tag = Tag { sent: now, host, end: u32::MAX, ..Tag::default() };
                }
                let pool = it.machine().pool();
                let (packet, sack, slot) =
                    (outside(&pool[&inside]), pool.sack(&inside), inside.index());
                pool.release(inside);
                if let Some(passages) = &mut it.passages {
                    passages.depart(now, slot, &packet);
                }
                let packet = self.insert(packet, tag);
                if !sack.is_empty() {
                    self.pool.set_sack(&packet, sack);
                }
                let way = match exit.ways {
                    0 | 1 => exit.only,
                    _ => self.routes.next(exit.vertex, tag.host),
                };
                self.send(agenda, now, way, packet);
            }
        }
        self.stations[index(station)].arm(agenda, now);
    }
}

/// The direction of packets that enter a gateway through this port.
const fn entered_by(port: u8) -> Direction {
    if port == Gateway::LAN.0 { Direction::Up } else { Direction::Down }
}

/// The packet as it travels on: a copy without the fields that only the gateway or emulator uses.
fn outside(packet: &Packet) -> Packet {
    Packet {
        cost: packet.len,
        flow: FlowId::NONE,
        queue_index: QueueIndex::default(),
        seen_before: false,
        facts: Facts::default(),
        rewritten: false,
        ..*packet
    }
}

/// Gives stations their part numbers in the agenda, starting with `first`. Returns the next free
/// number.
pub(crate) fn number_parts(stations: &mut [Station], first: u32) -> u32 {
    for (part, station) in (first..).zip(&mut *stations) {
        station.part = part;
    }
    first + number(stations.len())
}
