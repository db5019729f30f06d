//! The event loop of the simulator: calls the part of the network whose event is next, and advances
//! the virtual time to this event.

mod aggregate;
pub(crate) mod apps;
mod chain;
mod conservation;
mod hosts;
mod relay;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::tcp::Config;
use tidegate_core::{PacketId, Time};

use crate::agenda::Agenda;
use crate::aggregate::{Aggregate, Sinks};
use crate::flow::{Flow, Flows, Group, Hosts, checksum, datagram};
use crate::network::{Changes, Network, Passages, Station, Tag, number_parts};
use crate::prefetch::prefetch;
use crate::routes::{index, number};
use crate::scenario::{Probe, Run, Scenario};
use crate::series::Series;
use crate::stream::{EndId, SenderCounts, Streams, Transfers};

/// A running scenario.
pub(crate) struct Engine<'a, A> {
    pub(crate) run: Run,
    now: Time,
    end: Time,
    agenda: A,
    /// The first number of each kind of part in the agenda. Links begin at zero.
    parts: Parts,
    pub(crate) network: Network,
    changes: Changes,
    pub(crate) groups: Vec<Group<'a>>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) hosts: Hosts<'a>,
    /// The TCP settings of all end points.
    configs: Vec<Arc<Config>>,
    pub(crate) streams: Streams,
    pub(crate) transfers: Transfers,
    /// Unfinished transfers of relayed flows that have many transfers on one connection.
    parts_of: chain::RelayParts,
    /// Aggregate gateways, and the receivers (sinks) of their connections.
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) sinks: Sinks,
    /// Packets that have arrived at a host and await processing.
    arrived: Vec<PacketId>,
    pub(crate) series: Series,
    pub(crate) counts: Totals,
}

/// The agenda numbers all parts without gaps. Links have the smallest numbers, from zero. For each
/// kind of part that follows, a field has the number of the first part.
#[derive(Clone, Copy)]
struct Parts {
    stations: u32,
    /// The end of the warm-up.
    warm: u32,
    /// The next sample of the series.
    step: u32,
    /// The next change of a link.
    change: u32,
    flows: u32,
    /// Aggregate gateways.
    gateways: u32,
    /// Ends of connections. They come last, because their number can grow.
    ends: u32,
}

/// Counters of the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Events: calls of parts by the agenda.
    pub(crate) events: u64,
    /// Packets sent by hosts.
    pub(crate) created: u64,
    /// Packets that reached their host.
    pub(crate) ended: u64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Virtual time that has passed.
    pub now: Duration,
    /// Virtual time at the end of the run.
    pub end: Duration,
    /// Number of events so far.
    pub events: u64,
    /// Packets in the network at this time.
    pub packets: u64,
}

/// Events between two calls of the progress function: some milliseconds of real time.
const LOOK_EVERY: u64 = 1 << 15;

impl<'a, A: Agenda> Engine<'a, A> {
    /// Prepares a scenario that has passed its check.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let mut network = Network::new(scenario);
        let Flows { groups, flows, hosts, configs, aggregates, sinks } =
            Flows::new(scenario, &network);
        let is_tcp = |it: &&Flow| it.datagrams.is_none();
        let streams = Streams::with_capacity(flows.iter().filter(is_tcp).count());
        let stations = number(network.lanes.len());
        let warm = number_parts(&mut network.stations, stations);
        let change = warm + 2;
        let gateways = change + 1 + number(flows.len());
        let ends = gateways + number(aggregates.len());
        let (step, flows_from) = (warm + 1, change + 1);
        let parts = Parts { stations, warm, step, change, flows: flows_from, gateways, ends };
        let mut this = Self {
            run: scenario.run.clone(),
            now: Time::ZERO,
            end: Time::ZERO + scenario.run.duration,
            agenda: A::default(),
            parts,
            network,
            changes: Changes::new(scenario),
            groups,
            flows,
            hosts,
            configs,
            streams,
            transfers: Transfers::default(),
            parts_of: chain::RelayParts::new(),
            aggregates,
            sinks,
            arrived: Vec::new(),
            series: Series::default(),
            counts: Totals::default(),
        };
        this.series = Series::new(scenario, &this);
        this.watch(scenario);
        this.agenda.set(parts.warm, Time::ZERO + scenario.run.warmup);
        if scenario.run.sample.is_some() {
            this.agenda.set(parts.step, Time::ZERO);
        }
        this.await_change();
        for (part, flow) in (parts.flows..).zip(&this.flows) {
            this.agenda.set(part, flow.start);
        }
        this.begin_gateways();
        this
    }

    /// Runs to the end. Returns a break if `look` interrupts the run.
    pub(crate) fn play(
        &mut self,
        mut look: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while let Some((at, part)) = self.next() {
            self.now = at;
            self.counts.events += 1;
            self.call(part);
            if self.counts.events.is_multiple_of(LOOK_EVERY) {
                look(self.progress())?;
            }
        }
        self.now = self.end;
        look(self.progress())
    }

    /// The part whose event is next, with the time of the event. In a large network, this also
    /// prefetches the memory of parts whose events follow.
    #[inline]
    fn next(&mut self) -> Option<(Time, u32)> {
        let network = &self.network;
        if !network.is_large() {
            return self.agenda.next(self.end, |_, _| {});
        }
        let next = self.agenda.next(self.end, |near, part| network.prepare(near, part));
        let upcoming = self.agenda.upcoming();
        if let Some(tag) = upcoming.and_then(|part| network.fetch_beyond(part)) {
            self.streams.fetch(EndId(tag.end));
            self.flows.get(index(tag.flow)).into_iter().for_each(prefetch);
        }
        next
    }

    fn progress(&mut self) -> Progress {
        let (now, end) = (self.now.since(Time::ZERO), self.end.since(Time::ZERO));
        Progress { now, end, events: self.counts.events, packets: self.network.held() }
    }

    /// Calls the part that the agenda returned.
    fn call(&mut self, part: u32) {
        let Parts { stations, warm, step, change, flows, gateways, ends } = self.parts;
        if part < stations {
            self.network.advance(&mut self.agenda, self.now, part, &mut self.arrived);
            self.receive();
        } else if part < warm {
            self.network.station_due(&mut self.agenda, self.now, part - stations);
        } else if part == warm {
            self.warm();
        } else if part == step {
            self.step();
        } else if part == change {
            self.changes.make(&mut self.network, &mut self.agenda, self.now);
            self.await_change();
        } else if part < gateways {
            self.flow(part - flows);
        } else if part < ends {
            self.gateway_due(part - gateways);
        } else {
            self.end_due(EndId(part - ends));
        }
    }

    /// Ends the warm-up: results count from here on.
    fn warm(&mut self) {
        for (number, senders) in self.senders().into_iter().enumerate() {
            self.flows[number].restart(senders);
        }
        self.groups.iter_mut().for_each(|group| group.delay = Default::default());
        self.network.warm(self.now);
    }

    /// Counters of the senders, by flow.
    pub(crate) fn senders(&self) -> Vec<SenderCounts> {
        let past = |flow: &Flow| flow.past.as_deref().copied().unwrap_or_default();
        let mut all: Vec<_> = self.flows.iter().map(past).collect();
        for stream in self.streams.iter() {
            all[index(stream.flow)].add(&stream.ends[0].tcp.statistics());
        }
        all
    }

    /// Schedules the next change of a link.
    fn await_change(&mut self) {
        if let Some(at) = self.changes.next_at() {
            self.agenda.set(self.parts.change, at);
        }
    }

    /// Takes a sample of all series.
    fn step(&mut self) {
        let mut series = std::mem::take(&mut self.series);
        series.sample(self.now, self);
        self.series = series;
        if let Some(step) = self.run.sample {
            self.agenda.set(self.parts.step, self.now + step);
        }
    }

    /// Starts the recording of links and gateways for the probes.
    fn watch(&mut self, scenario: &Scenario) {
        let ways = scenario.links.iter().flat_map(|link| link.ways());
        for ((way, _), lane) in ways.zip(&mut self.network.lanes) {
            if scenario.probes.contains(&Probe::Queue(way)) {
                lane.watch();
            }
        }
        let groups: Vec<u32> = self.flows.iter().map(|flow| flow.group).collect();
        for probe in &scenario.probes {
            let Probe::Passage { gateway, direction, bound, rounds, tracked } = probe else {
                continue;
            };
            let is_it = |it: &&mut Station| scenario.nodes[index(it.node)].name == *gateway;
            let Some(station) = self.network.stations.iter_mut().find(is_it) else { continue };
            let passages = || Box::new(Passages::new(groups.clone()));
            let passages = station.passages.get_or_insert_with(passages);
            passages.watch(*direction, *bound, [*rounds, *tracked], self.groups.len());
        }
    }

    /// Extends the time averages of all links to the end of the run.
    pub(crate) fn settle(&mut self) {
        let now = self.now;
        self.network.lanes.iter_mut().for_each(|lane| lane.settle(now));
    }

    /// Ends the engine. Returns the network without its packets, and the totals. Call it when the
    /// results of flows and connections are complete.
    pub(crate) fn dismantle(self) -> (Network, Totals) {
        (self.network.without_packets(), self.counts)
    }

    /// The timer of a flow has expired: lets its application act, or sends its next datagram.
    fn flow(&mut self, number: u32) {
        let flow = &mut self.flows[index(number)];
        let traffic = &self.groups[index(flow.group)].traffic;
        if traffic.kind.is_tcp() {
            return self.app(number);
        }
        if traffic.stop.is_some_and(|stop| self.now >= Time::ZERO + stop) {
            return;
        }
        let Some(datagrams) = &mut flow.datagrams else { return };
        let next = datagrams.emitter.next(&traffic.kind, &mut flow.random);
        if next.is_some_and(|at| at <= self.now)
            && let Some(len) = datagrams.emitter.emit(&traffic.kind)
        {
            flow.counts.sent.add(len);
            let mut packet = datagram(datagrams.key, len, self.run.link_header, traffic.dscp);
            packet.checksum = checksum(flow.counts.sent.packets);
            let (sent, host) = (self.now, flow.hosts[1]);
            let tag = Tag { sent, host, end: number, flow: number, ..Tag::default() };
            let way = flow.first[0];
            self.counts.created += 1;
            let packet = self.network.insert(packet, tag);
            self.network.send(&mut self.agenda, self.now, way, packet);
        }
        let flow = &mut self.flows[index(number)];
        let traffic = &self.groups[index(flow.group)].traffic;
        if let Some(datagrams) = &mut flow.datagrams
            && let Some(at) = datagrams.emitter.next(&traffic.kind, &mut flow.random)
        {
            self.agenda.set(self.parts.flows + number, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Rate;
    use tidegate_core::wheel::TimerWheel;

    use super::*;
    use crate::agenda::Heap;
    use crate::results::Results;
    use crate::scenario::{Kind, Start};
    use crate::testing::dumbbell;

    fn play<A: Agenda>(scenario: &Scenario) -> Results {
        let mut engine = Engine::<'_, A>::new(scenario);
        assert!(engine.play(|_| ControlFlow::Continue(())).is_continue());
        engine.check_conservation();
        Results::new(scenario, engine)
    }

    /// A scenario with many simultaneous events, so that a wrong order shows.
    fn busy() -> Scenario {
        let kind = Kind::Constant { rate: Rate::from_mbps(4), packet: 1_000 };
        let mut scenario = dumbbell(10, kind);
        scenario.traffic[0].start = Start::At(Duration::ZERO);
        scenario
    }

    /// Catches: a timer wheel that reverses the order of parts scheduled for the same time.
    #[test]
    fn another_agenda_that_keeps_the_order_gives_the_same_run() {
        let scenario = busy();
        let (wheel, heap) = (play::<TimerWheel>(&scenario), play::<Heap>(&scenario));
        assert!(wheel.events > 10_000, "{}", wheel.events);
        assert_eq!(wheel.fingerprint, heap.fingerprint);
        assert!(wheel == heap);
    }
}
