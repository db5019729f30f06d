//! Compares the flows that a marking tracks with the bytes that each flow really sent.
//!
//! A marking predicts when a queue will overflow, and marks packets before. It finds large flows
//! with a filter of hashed counters, which it restarts at fixed intervals. It does not know how
//! many bytes a flow sent before the flow passed the filter, but the simulator knows. Each row
//! covers one interval:
//!
//! - `true_false_positives`: tracked flows that sent less than the threshold.
//! - `missed_flows`: flows that sent at least the threshold, but are not tracked.
//!
//! Source: `marking`, section 2.3 (the filter); Estan and Varghese, doi 10.1145/859716.859719,
//! section 5.1 (false positives and false negatives).

use std::collections::HashMap;

use tidegate_core::marking::Tracked;
use tidegate_core::packet::FlowKey;
use tidegate_core::{Packet, Time};

use crate::series::seconds;
use crate::table::Table;

/// The record of the marking in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracking {
    /// The marking's counters at the end of the last interval.
    last: Tracked,
    /// Bytes sent in this interval, for each flow.
    sent: HashMap<FlowKey, u64>,
    rows: Vec<Row>,
}

/// A completed interval.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: Time,
    /// The report of the marking. Its byte counts cover this interval only.
    tracked: Tracked,
    /// Flows that sent a packet, and flows that sent at least the threshold.
    flows: u64,
    large: u64,
    /// Large flows that the marking tracks.
    found: u64,
}

impl Tracking {
    /// Returns `true` if an interval has ended since the last row.
    pub(super) const fn has_ended(&self, seen: &Tracked) -> bool {
        seen.intervals != self.last.intervals
    }

    /// Adds a row for the interval that has ended. `is_tracked` tells whether the marking tracks a
    /// flow after this interval.
    pub(super) fn end(&mut self, now: Time, seen: &Tracked, is_tracked: impl Fn(&FlowKey) -> bool) {
        let large = self.sent.iter().filter(|(_, sent)| **sent >= seen.threshold.0);
        let large: Vec<_> = large.map(|(key, _)| key).collect();
        let found = count(large.iter().filter(|key| is_tracked(key)).count());
        let tracked = Tracked {
            all_bytes: seen.all_bytes - self.last.all_bytes,
            tracked_bytes: seen.tracked_bytes - self.last.tracked_bytes,
            ..*seen
        };
        let (flows, large) = (count(self.sent.len()), count(large.len()));
        self.rows.push(Row { at: now, tracked, flows, large, found });
        self.last = *seen;
        self.sent.clear();
    }

    /// Counts a packet that has arrived.
    pub(super) fn add(&mut self, packet: &Packet) {
        *self.sent.entry(packet.key).or_default() += u64::from(packet.len);
    }

    /// The table, with one row for each completed interval.
    pub(crate) fn table(self, name: String) -> Table {
        let whole = |of: fn(&Row) -> u64| self.rows.iter().map(of).collect::<Vec<_>>();
        let real = |of: fn(&Row) -> f64| self.rows.iter().map(of).collect::<Vec<_>>();
        Table::new(name)
            .with("time_seconds", real(|it| seconds(it.at)))
            .with("all_bytes", whole(|it| it.tracked.all_bytes))
            .with("tracked_bytes", whole(|it| it.tracked.tracked_bytes))
            .with("tracked_flows", whole(|it| it.tracked.flows))
            .with("rho", real(|it| it.tracked.rho))
            .with("threshold_bytes", whole(|it| it.tracked.threshold.0))
            .with("false_positives", whole(|it| it.tracked.false_positives))
            .with("flows", whole(|it| it.flows))
            .with("large_flows", whole(|it| it.large))
            .with("true_false_positives", whole(|it| it.tracked.flows.saturating_sub(it.found)))
            .with("missed_flows", whole(|it| it.large - it.found))
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
