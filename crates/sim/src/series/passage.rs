//! Time series of the packets that pass a gateway.

use std::time::Duration;

use tidegate_core::packet::Direction;

use crate::network::Station;
use crate::table::{Table, Values};

/// Samples of one gateway in one direction.
pub(super) struct PassageSeries {
    /// The names of the gateway and the direction, for titles of tables.
    pub(super) name: String,
    station: usize,
    direction: Direction,
    groups: Vec<(String, GroupSeries)>,
}

/// Time series of one traffic.
#[derive(Default)]
struct GroupSeries {
    whole: [Vec<u64>; COUNTS.len()],
    real: [Vec<f64>; MEASURES.len()],
}

/// Columns of counts: totals since the start of the run, the backlog in bytes now, and bytes of the
/// gateway's current busy period.
const COUNTS: [&str; 11] = [
    "arrived_packets",
    "arrived_bytes",
    "departed_packets",
    "departed_bytes",
    "dropped_packets",
    "dropped_bytes",
    "marked_packets",
    "late_packets",
    "waiting_bytes",
    "busy_arrived_bytes",
    "busy_dropped_bytes",
];

/// Columns of delays, for packets that departed since the last sample.
const MEASURES: [&str; 2] = ["delay_mean_seconds", "delay_max_seconds"];

impl PassageSeries {
    /// Empty series for the station with index `station`. `groups` are the names of all traffic.
    pub(super) fn new(
        gateway: &str,
        station: usize,
        direction: Direction,
        groups: Vec<String>,
    ) -> Box<Self> {
        let groups = groups.into_iter().map(|name| (name, GroupSeries::default())).collect();
        let name = format!("{gateway} {}", direction.name());
        Box::new(Self { name, station, direction, groups })
    }

    /// Takes a sample of every group.
    pub(super) fn sample(&mut self, stations: &mut [Station]) {
        let passages = stations.get_mut(self.station).and_then(|it| it.passages.as_mut());
        let Some(passages) = passages else { return };
        let recent = passages.take_recent(self.direction);
        let groups = passages.way(self.direction).into_iter().flat_map(|it| &it.groups);
        for (((_, seen), passed), (count, sum, most)) in
            self.groups.iter_mut().zip(groups).zip(recent)
        {
            let it = &passed.counts;
            let [busy_arrived, busy_dropped] = passed.in_busy_period();
            let counts = [
                it.arrived.packets,
                it.arrived.bytes,
                it.departed.packets,
                it.departed.bytes,
                it.dropped.packets,
                it.dropped.bytes,
                it.marked,
                it.late,
                it.waiting().bytes,
                busy_arrived,
                busy_dropped,
            ];
            seen.whole.iter_mut().zip(counts).for_each(|(seen, now)| seen.push(now));
            let of_step = |value: f64| if count == 0 { f64::NAN } else { value };
            let mean = Duration::from_nanos(sum / count.max(1)).as_secs_f64();
            let measures = [of_step(mean), of_step(most.as_secs_f64())];
            seen.real.iter_mut().zip(measures).for_each(|(seen, now)| seen.push(now));
        }
    }

    /// The rounds of flows as a table, if they were recorded.
    pub(super) fn rounds(&self, stations: &mut [Station]) -> Option<Table> {
        let passages = stations.get_mut(self.station)?.passages.as_mut()?;
        let rounds = passages.take_rounds(self.direction)?;
        Some(rounds.table(format!("rounds {}", self.name)))
    }

    /// The flows that a marking tracked as a table, if they were recorded.
    pub(super) fn tracking(&self, stations: &mut [Station]) -> Option<Table> {
        let passages = stations.get_mut(self.station)?.passages.as_mut()?;
        let tracking = passages.take_tracking(self.direction)?;
        Some(tracking.table(format!("tracked {}", self.name)))
    }

    /// Adds the samples of all traffic that entered the gateway to `table`.
    pub(super) fn columns(self, table: Table) -> Table {
        let came = |seen: &GroupSeries| seen.whole[0].last().is_some_and(|it| *it > 0);
        let groups = self.groups.into_iter().filter(|(_, seen)| came(seen));
        groups.fold(table, |table, (name, seen)| {
            let counts = COUNTS.into_iter().zip(seen.whole.map(Values::from));
            let measures = MEASURES.into_iter().zip(seen.real.map(Values::from));
            counts
                .chain(measures)
                .fold(table, |table, (what, values)| table.with(format!("{name}_{what}"), values))
        })
    }
}
