//! Time series: samples taken at a fixed interval, [`Run::sample`](crate::scenario::Run::sample).

mod aggregate;
mod passage;

use tidegate_core::Time;

use crate::agenda::Agenda;
use crate::draw::real;
use crate::engine::Engine;
use crate::network::Station;
use crate::routes::index;
use crate::scenario::{Probe, Scenario};
use crate::table::Table;
use aggregate::AggregateSeries;
use passage::PassageSeries;

/// All time series of a run.
#[derive(Default)]
pub(crate) struct Series {
    /// Sample times in seconds.
    times: Vec<f64>,
    /// For each group: bytes that arrived at the receivers, and payload bytes that the applications
    /// received.
    groups: Vec<[Vec<u64>; 2]>,
    probes: Vec<Watched>,
}

/// The samples of one probe.
enum Watched {
    /// The index of a link direction, and its backlog in packets and in bytes.
    Queue(u32, [Vec<u64>; 2]),
    /// The index of a group, and for each flow the bytes that arrived at its receiver.
    Throughput(u32, Vec<Vec<u64>>),
    /// The index of a group, and for each flow: congestion window and slow-start threshold in
    /// bytes, smoothed round-trip time in seconds.
    Window(u32, Vec<(u32, [Vec<f64>; 3])>),
    /// An aggregate gateway. The string is the name of its traffic.
    Aggregate(String, Box<AggregateSeries>),
    /// Packets that passed a gateway in one direction.
    Passage(Box<PassageSeries>),
}

impl Series {
    /// Empty series for the probes of a scenario.
    pub(crate) fn new<A: Agenda>(scenario: &Scenario, engine: &Engine<'_, A>) -> Self {
        let ways: Vec<_> = scenario.links.iter().flat_map(|link| link.ways()).collect();
        let group =
            |name: &str| (0_u32..).zip(&engine.groups).find(|(_, it)| it.traffic.name == name);
        let watched = |probe: &Probe| match probe {
            Probe::Queue(way) => {
                let number = (0_u32..).zip(&ways).find(|(_, (other, _))| other == way)?.0;
                Some(Watched::Queue(number, Default::default()))
            }
            Probe::Throughput { traffic } => {
                let (number, group) = group(traffic)?;
                Some(Watched::Throughput(number, vec![Vec::new(); group.flows.len()]))
            }
            Probe::Window { traffic, flows } => {
                let (number, group) = group(traffic)?;
                let all: Vec<u32> = (0..group.flows.end - group.flows.start).collect();
                let flows = if flows.is_empty() { &all } else { flows };
                let seen = flows.iter().map(|flow| (*flow, Default::default())).collect();
                Some(Watched::Window(number, seen))
            }
            Probe::Aggregate { traffic } => {
                let series = AggregateSeries::new(group(traffic)?.1.gateway?);
                Some(Watched::Aggregate(traffic.clone(), Box::new(series)))
            }
            Probe::Capture(_) => None,
            Probe::Passage { gateway, direction, .. } => {
                let is_it = |it: &Station| scenario.nodes[index(it.node)].name == *gateway;
                let station = engine.network.stations.iter().position(is_it)?;
                let groups = engine.groups.iter().map(|it| it.traffic.name.clone()).collect();
                Some(Watched::Passage(PassageSeries::new(gateway, station, *direction, groups)))
            }
        };
        Self {
            times: Vec::new(),
            groups: vec![Default::default(); engine.groups.len()],
            probes: scenario.probes.iter().filter_map(watched).collect(),
        }
    }

    /// Takes a sample at `now`.
    pub(crate) fn sample<A: Agenda>(&mut self, now: Time, engine: &mut Engine<'_, A>) {
        self.times.push(seconds(now));
        for (seen, group) in self.groups.iter_mut().zip(&engine.groups) {
            seen[0].push(group.received);
            seen[1].push(group.goodput);
        }
        for probe in &mut self.probes {
            match probe {
                Watched::Queue(way, [packets, bytes]) => {
                    let backlog = engine.network.lanes[index(*way)].backlog();
                    packets.push(backlog.packets.into());
                    bytes.push(backlog.bytes.0);
                }
                Watched::Throughput(group, seen) => {
                    let flows = engine.groups[index(*group)].flows.clone();
                    for (seen, flow) in seen.iter_mut().zip(flows) {
                        seen.push(engine.flows[index(flow)].counts.received.bytes);
                    }
                }
                Watched::Window(group, seen) => {
                    let first = engine.groups[index(*group)].flows.start;
                    for (flow, seen) in seen {
                        let now = window(engine, first + *flow);
                        seen.iter_mut().zip(now).for_each(|(seen, now)| seen.push(now));
                    }
                }
                Watched::Aggregate(_, series) => series.sample(now, engine),
                Watched::Passage(series) => series.sample(&mut engine.network.stations),
            }
        }
    }
}

/// Congestion window, slow-start threshold and round-trip time of a flow's current connection. NaN
/// for a value that does not exist.
fn window<A: Agenda>(engine: &Engine<'_, A>, flow: u32) -> [f64; 3] {
    let Some(stream) = engine.flows[index(flow)].app.stream else { return [f64::NAN; 3] };
    let sender = engine.streams.get(stream).ends[0].tcp.statistics();
    let threshold = match sender.threshold {
        u64::MAX => f64::NAN,
        threshold => real(threshold),
    };
    let rtt = sender.smoothed_rtt.map_or(f64::NAN, |rtt| rtt.as_secs_f64());
    [real(sender.congestion_window), threshold, rtt]
}

/// Seconds since the run began.
pub(crate) fn seconds(at: Time) -> f64 {
    at.since(Time::ZERO).as_secs_f64()
}

impl Series {
    /// The series as tables: two for all groups, and one for each probe.
    pub(crate) fn tables<A: Agenda>(
        self,
        scenario: &Scenario,
        engine: &mut Engine<'_, A>,
    ) -> Vec<Table> {
        let ways: Vec<_> = scenario.links.iter().flat_map(|link| link.ways()).collect();
        let at_times = |name: String| Table::new(name).with("time_seconds", self.times.clone());
        let mut groups = at_times("groups over time".to_owned());
        let mut goodput = at_times("goodput over time".to_owned());
        for ([received, read], group) in self.groups.into_iter().zip(&engine.groups) {
            let column = format!("{}_bytes", group.traffic.name);
            groups = groups.with(&column, received);
            goodput = goodput.with(column, read);
        }
        let mut tables = vec![groups, goodput];
        for probe in self.probes {
            let table = match probe {
                Watched::Queue(way, [packets, bytes]) => {
                    let table = at_times(format!("queue of {}", ways[index(way)].0));
                    table.with("packets", packets).with("bytes", bytes)
                }
                Watched::Throughput(group, seen) => {
                    let name = &engine.groups[index(group)].traffic.name;
                    let table = at_times(format!("flows of {name}"));
                    let column = |table: Table, (flow, seen): (usize, _)| {
                        table.with(format!("flow_{flow}_bytes"), seen)
                    };
                    seen.into_iter().enumerate().fold(table, column)
                }
                Watched::Window(group, seen) => {
                    let name = &engine.groups[index(group)].traffic.name;
                    let table = at_times(format!("windows of {name}"));
                    seen.into_iter().fold(table, |table, (flow, [window, threshold, rtt])| {
                        table
                            .with(format!("flow_{flow}_window_bytes"), window)
                            .with(format!("flow_{flow}_threshold_bytes"), threshold)
                            .with(format!("flow_{flow}_rtt_seconds"), rtt)
                    })
                }
                Watched::Aggregate(name, series) => {
                    series.columns(at_times(format!("aggregate {name}")))
                }
                Watched::Passage(series) => {
                    tables.extend(series.rounds(&mut engine.network.stations));
                    tables.extend(series.tracking(&mut engine.network.stations));
                    let table = at_times(format!("passage {}", series.name));
                    series.columns(table)
                }
            };
            tables.push(table);
        }
        tables
    }
}
