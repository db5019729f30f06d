//! Results of a run.

mod classes;

use std::time::Duration;

use tidegate_core::link::LinkConfig;
use tidegate_core::packet::Direction;
use tidegate_core::trunk::TrunkReport;
use tidegate_core::{Tally, Time, itcp};

use crate::agenda::Agenda;
use crate::aggregate::Aggregate;
use crate::draw::real;
use crate::engine::Engine;
use crate::flow::{Flow, Group};
use crate::histogram::Histogram;
use crate::network::{GroupPassage, Lane, Network, PassageCounts, Passed, Station};
use crate::routes::index;
use crate::scenario::{Scenario, Way};
use crate::series::seconds;
use crate::shares::{Indices, Shares};
use crate::stream::Transfers;
use crate::table::Table;

/// The results of a run. Unless a field says otherwise, figures count from the end of the warm-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The seed of the run.
    pub seed: u64,
    /// The duration of the run.
    pub duration: Duration,
    /// The length of the warm-up.
    pub warmup: Duration,
    /// Number of events.
    pub events: u64,
    /// Packets sent by hosts in the whole run.
    pub packets: u64,
    /// Packets that arrived over a link in the whole run. A packet counts once for each link that
    /// it crosses.
    pub packet_hops: u64,
    /// A hash over every arrival of every packet at the end of a link. Two runs with the same hash
    /// had the same events.
    pub fingerprint: u64,
    /// The tables of figures.
    pub tables: Vec<Table>,
}

impl Results {
    /// A table by its name: `groups`, `flows`, `links`, `drops`, `aggregates`, `trunks`, `classes`,
    /// `promises`, `passages`, `transfers`, or the name of a table of a time series, a probe or a
    /// rate adjuster.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    pub(crate) fn new<A: Agenda>(scenario: &Scenario, mut engine: Engine<'_, A>) -> Self {
        engine.settle();
        let series = std::mem::take(&mut engine.series);
        let span = scenario.run.duration.saturating_sub(scenario.run.warmup);
        let shares = Shares::new(scenario, &mut engine, span);
        let groups = groups(&engine.groups, &engine.flows, &shares, span);
        let (flows, transfers) = (flows(scenario, &engine, span), transfers(&engine));
        let adjustments = adjustments(&mut engine);
        let names: Vec<_> = engine.groups.iter().map(|it| it.traffic.name.clone()).collect();
        let series = match scenario.run.sample {
            Some(_) => series.tables(scenario, &mut engine),
            None => Vec::new(),
        };
        // The tables of links are large, so `dismantle` first frees memory that is no longer
        // needed.
        let (Network { lanes, stations, trace, .. }, counts) = engine.dismantle();
        let mut tables = vec![
            groups,
            flows,
            links(scenario, &lanes, span),
            drops(scenario, &lanes, &stations),
            aggregates(scenario, &stations, &shares, span),
            trunks(scenario, &stations),
            classes::classes(scenario, &stations),
            classes::promises(scenario, &stations),
            passages(scenario, &stations, &names, span),
            transfers,
        ];
        tables.extend(adjustments);
        tables.extend(series);
        Self {
            seed: scenario.run.seed,
            duration: scenario.run.duration,
            warmup: scenario.run.warmup,
            events: counts.events,
            packets: counts.created,
            packet_hops: lanes.iter().map(|lane| lane.delivered.packets).sum(),
            fingerprint: trace.fingerprint(),
            tables,
        }
    }
}

/// One table for each rate adjuster of an aggregate connection, with its measurement rounds.
fn adjustments<A: Agenda>(engine: &mut Engine<'_, A>) -> Vec<Table> {
    let (groups, flows) = (&engine.groups, &engine.flows);
    let of = |it: &mut Aggregate| {
        let group = &groups[index(flows[index(it.flow)].group)];
        Some(it.adjuster.as_mut()?.table(format!("adjustments {}", group.traffic.name)))
    };
    engine.aggregates.iter_mut().filter_map(of).collect()
}

/// The rate in bit/s of `bytes` over `span`.
fn bps(bytes: u64, span: Duration) -> f64 {
    real(bytes) * 8.0 / span.as_secs_f64()
}

/// A column with an integer for each element of `all`.
fn whole<T>(all: &[T], of: impl Fn(&T) -> u64) -> Vec<u64> {
    all.iter().map(of).collect()
}

fn reals<T>(all: &[T], of: impl Fn(&T) -> f64) -> Vec<f64> {
    all.iter().map(of).collect()
}

fn groups(groups: &[Group<'_>], flows: &[Flow], shares: &Shares<'_>, span: Duration) -> Table {
    let of = |group: &Group<'_>| &flows[group.range()];
    let sum = |group: &Group<'_>, each: fn(&Flow) -> u64| of(group).iter().map(each).sum::<u64>();
    let mut fair = Indices::default();
    groups.iter().for_each(|it| fair.push(shares.of(&it.range().collect::<Vec<_>>())));
    let table = Table::new("groups")
        .with("group", groups.iter().map(|it| it.traffic.name.clone()).collect::<Vec<_>>())
        .with("flows", whole(groups, |it| real_len(of(it).len())))
        .with(
            "throughput_bps",
            reals(groups, |it| bps(sum(it, |it| it.counted().received.bytes), span)),
        )
        .with("goodput_bps", reals(groups, |it| bps(sum(it, |it| it.counted().goodput), span)))
        .with("jain", fair.jain)
        .with("max_min", fair.max_min)
        .with("failed_transfers", whole(groups, |it| it.failed));
    delays(table, &groups.iter().map(|it| Some(&it.delay)).collect::<Vec<_>>())
}

fn real_len(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Adds columns of one-way delays in seconds; NaN without a measurement.
fn delays(table: Table, all: &[Option<&Histogram>]) -> Table {
    let column = |of: &dyn Fn(&Histogram) -> Option<Duration>| {
        let seconds =
            |it: &Option<&Histogram>| it.and_then(of).map_or(f64::NAN, |it| it.as_secs_f64());
        all.iter().map(seconds).collect::<Vec<_>>()
    };
    table
        .with("delay_mean_seconds", column(&Histogram::mean))
        .with("delay_p50_seconds", column(&|it| it.percentile(50.0)))
        .with("delay_p95_seconds", column(&|it| it.percentile(95.0)))
        .with("delay_p99_seconds", column(&|it| it.percentile(99.0)))
        .with("delay_max_seconds", column(&|it| it.percentile(100.0)))
}

fn flows<A: Agenda>(scenario: &Scenario, engine: &Engine<'_, A>, span: Duration) -> Table {
    let flows = &engine.flows;
    let name = |node: u32| scenario.nodes[index(node)].name.clone();
    let text = |of: &dyn Fn(&Flow) -> String| flows.iter().map(of).collect::<Vec<_>>();
    let group = |it: &Flow| engine.groups[index(it.group)].traffic.name.clone();
    let counts: Vec<_> = flows.iter().map(Flow::counted).collect();
    let senders = engine.senders().into_iter().zip(flows);
    let senders: Vec<_> = senders.map(|(now, flow)| now - flow.before().senders).collect();
    Table::new("flows")
        .with("group", text(&group))
        .with("from", text(&|it| name(it.hosts[0])))
        .with("to", text(&|it| name(it.hosts[1])))
        .with("start_seconds", reals(flows, |it| seconds(it.start)))
        .with_counts(&counts)
        .with("throughput_bps", reals(&counts, |it| bps(it.received.bytes, span)))
        .with("goodput_bps", reals(&counts, |it| bps(it.goodput, span)))
        .with_counts(&senders)
}

/// All completed transfers (files, bursts and answers) of the whole run, in order of completion.
fn transfers<A: Agenda>(engine: &Engine<'_, A>) -> Table {
    let Transfers { flow, began, ended, bytes } = &engine.transfers;
    let flows: Vec<&Flow> = flow.iter().map(|flow| &engine.flows[index(*flow)]).collect();
    let group = |it: &&Flow| engine.groups[index(it.group)].traffic.name.clone();
    let took = |(ended, began): (&Time, &Time)| ended.since(*began).as_secs_f64();
    Table::new("transfers")
        .with("group", flows.iter().map(group).collect::<Vec<_>>())
        .with("flow", whole(flow, |it| u64::from(*it)))
        .with("began_seconds", reals(began, |it| seconds(*it)))
        .with("took_seconds", ended.iter().zip(began).map(took).collect::<Vec<_>>())
        .with("bytes", bytes.clone())
}

fn links(scenario: &Scenario, lanes: &[Lane], span: Duration) -> Table {
    let ways = || scenario.links.iter().flat_map(|link| link.ways());
    let text = |of: fn(&Way) -> String| ways().map(|(way, _)| of(&way)).collect::<Vec<_>>();
    let offered = |it: &Lane| it.counted()[0];
    let delivered = |it: &Lane| it.counted()[1];
    let dropped = |it: &Lane| it.tally().drops.losses() - it.tally_before().drops.losses();
    let marked = |it: &Lane| it.tally().marks.total() - it.tally_before().marks.total();
    let used = |(lane, (_, config)): (&Lane, (Way, &LinkConfig))| match config.rate {
        Some(rate) => bps(delivered(lane).bytes, span) / real(rate.bps()),
        None => f64::NAN,
    };
    let waiting = |n: usize| {
        reals(lanes, |it| it.watched().map_or(f64::NAN, |watch| watch.mean_backlog()[n]))
    };
    let table = Table::new("links")
        .with("from", text(|way| way.from.to_string()))
        .with("to", text(|way| way.to.to_string()))
        .with("offered_packets", whole(lanes, |it| offered(it).packets))
        .with("offered_bytes", whole(lanes, |it| offered(it).bytes))
        .with("delivered_packets", whole(lanes, |it| delivered(it).packets))
        .with("delivered_bytes", whole(lanes, |it| delivered(it).bytes))
        .with("dropped_packets", whole(lanes, dropped))
        .with("marked_packets", whole(lanes, marked))
        .with("utilisation", lanes.iter().zip(ways()).map(used).collect::<Vec<_>>())
        .with("queue_mean_packets", waiting(0))
        .with("queue_mean_bytes", waiting(1));
    delays(table, &lanes.iter().map(|it| it.watched().map(|it| &it.delay)).collect::<Vec<_>>())
}

/// Drops and marks after the warm-up. Each row is a place and a reason with at least one drop or
/// mark.
fn drops(scenario: &Scenario, lanes: &[Lane], stations: &[Station]) -> Table {
    let (mut place, mut reason, mut drops, mut marks) = (vec![], vec![], vec![], vec![]);
    let mut add = |name: &dyn Fn() -> String, now: Tally, before: Tally| {
        for (why, dropped) in now.drops.iter() {
            let dropped = dropped - before.drops.of(why);
            let marked = now.marks.of(why) - before.marks.of(why);
            if dropped + marked > 0 {
                place.push(name());
                reason.push(why.name().to_owned());
                drops.push(dropped);
                marks.push(marked);
            }
        }
    };
    let ways = scenario.links.iter().flat_map(|link| link.ways());
    for ((way, _), lane) in ways.zip(lanes) {
        add(&|| way.to_string(), lane.tally(), lane.tally_before());
    }
    for station in stations {
        let name = || scenario.nodes[index(station.node)].name.clone();
        add(&name, station.tally(), station.before);
    }
    Table::new("drops")
        .with("place", place)
        .with("reason", reason)
        .with("dropped_packets", drops)
        .with("marked_packets", marks)
}

/// A row for each aggregate of every gateway.
fn aggregates(
    scenario: &Scenario,
    stations: &[Station],
    shares: &Shares<'_>,
    span: Duration,
) -> Table {
    let (mut gateways, mut all) = (Vec::new(), Vec::new());
    let mut fair = Indices::default();
    for station in stations {
        let name = &scenario.nodes[index(station.node)].name;
        let aggregates = station.aggregates();
        for it in &aggregates {
            gateways.push(name.clone());
            fair.push(shares.of_aggregate(station.node, it.now.direction, &it.now.policy));
        }
        all.extend(aggregates);
    }
    let policies: Vec<_> = all.iter().map(|it| it.now.policy.clone()).collect();
    let ways: Vec<_> = all.iter().map(|it| it.now.direction.name().to_owned()).collect();
    let counted = |of| whole(&all, |it| it.counted(of));
    let rate = |of| reals(&all, |it| bps(it.counted(of), span));
    let waited = |it: &Passed| {
        let time = Duration::from_nanos(it.counted(|it| it.waited_ns));
        time.as_secs_f64() / real(it.counted(|it| it.departed().packets))
    };
    let held = |it: &Passed| real(it.counted(|it| it.acks.held_ns)) / 1e9 / span.as_secs_f64();
    Table::new("aggregates")
        .with("gateway", gateways)
        .with("policy", policies)
        .with("direction", ways)
        .with("flows", whole(&all, |it| it.now.flows.into()))
        .with("offered_packets", counted(|it| it.offered.packets))
        .with("offered_bytes", counted(|it| it.offered.bytes))
        .with("conforming_packets", counted(|it| it.conforming.packets))
        .with("conforming_bytes", counted(|it| it.conforming.bytes))
        .with("exceeding_packets", counted(|it| it.exceeding.packets))
        .with("exceeding_bytes", counted(|it| it.exceeding.bytes))
        .with("dropped_packets", counted(|it| it.drops.losses()))
        .with("marked_packets", counted(|it| it.marks.total()))
        .with("conforming_bps", rate(|it| it.conforming.bytes))
        .with("exceeding_bps", rate(|it| it.exceeding.bytes))
        .with("jain", fair.jain)
        .with("max_min", fair.max_min)
        .with("waited_mean_seconds", reals(&all, waited))
        .with("late_packets", counted(|it| it.late))
        .with("timer_looks", counted(|it| it.triggers.timer))
        .with("peak_waiting_bytes", whole(&all, |it| it.now.peak_backlog))
        .with("held_acks", reals(&all, held))
        .with("peak_held_acks", whole(&all, |it| it.now.acks.peak_held.0.into()))
        .with("uncontrolled_segments", whole(&all, |it| it.now.acks.uncontrolled))
        // The earlier name of the same column, kept for old scripts.
        .with("ungoverned_segments", whole(&all, |it| it.now.acks.uncontrolled))
        .with("delayed_acks", counted(|it| it.acks.delayed))
        .with("overdue_acks", counted(|it| it.acks.overdue))
        .with("smaller_windows", counted(|it| it.acks.windows))
}

/// Packets of each traffic entry that passed a gateway with a probe. Traffic without packets there
/// has no row.
fn passages(scenario: &Scenario, stations: &[Station], groups: &[String], span: Duration) -> Table {
    let (mut gateways, mut ways, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut all: Vec<&GroupPassage> = Vec::new();
    for (station, direction) in stations.iter().flat_map(|it| Direction::BOTH.map(|way| (it, way)))
    {
        let passage = station.passages.as_ref().and_then(|it| it.way(direction));
        for (group, passed) in groups.iter().zip(passage.into_iter().flat_map(|it| &it.groups)) {
            if passed.counts.arrived.packets > 0 {
                gateways.push(scenario.nodes[index(station.node)].name.clone());
                ways.push(direction.name().to_owned());
                names.push(group.clone());
                all.push(passed);
            }
        }
    }
    let counts: Vec<_> = all.iter().map(|it| it.counted()).collect();
    let area = |it: &PassageCounts| {
        let nanos = span.as_nanos().max(1);
        real(u64::try_from(it.area / nanos).unwrap_or(u64::MAX))
    };
    let table = Table::new("passages")
        .with("gateway", gateways)
        .with("direction", ways)
        .with("group", names)
        .with_counts(&counts)
        .with("waiting_mean_bytes", reals(&counts, area));
    delays(table, &all.iter().map(|it| Some(&it.delay)).collect::<Vec<_>>())
}

/// A row for each trunk end of every gateway. User bytes count from the IP header on.
fn trunks(scenario: &Scenario, stations: &[Station]) -> Table {
    let (mut gateways, mut all) = (Vec::new(), Vec::new());
    for station in stations {
        let trunks = station.trunks();
        gateways.extend(trunks.iter().map(|_| scenario.nodes[index(station.node)].name.clone()));
        all.extend(trunks);
    }
    Table::new("trunks")
        .with("gateway", gateways)
        .with("trunk", all.iter().map(|it| it.name.clone()).collect::<Vec<_>>())
        .with("management_packets", whole(&all, |it| it.counts.management))
        .with("repeated_packets", whole(&all, |it| it.counts.again))
        .with("elastic_bytes", whole(&all, |it| it.counts.elastic))
        .with("guaranteed_bytes", whole(&all, |it| it.counts.guaranteed))
        .with("waiting_bytes", whole(&all, |it| it.backlog.bytes.0))
        .with("weight", reals(&all, |it| it.weight.map_or(f64::NAN, |it| it.weight.real())))
        .with("busy", reals(&all, |it| last_round(it).map_or(f64::NAN, |it| it.busy.real())))
        .with(
            "weight_increases",
            whole(&all, |it| it.weight.map_or(0, |it| it.decisions.increased)),
        )
        .with(
            "weight_decreases",
            whole(&all, |it| it.weight.map_or(0, |it| it.decisions.decreased)),
        )
}

/// The last measurement round of the rate adjuster that sets a trunk's weight.
fn last_round(trunk: &TrunkReport) -> Option<itcp::LoadRound> {
    trunk.weight.and_then(|it| it.last)
}
