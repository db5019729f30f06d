//! The results of a simulation, as text and as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use tidegate_core::units::duration;
use tidegate_sim::Results;
use tidegate_sim::table::{Table, Values};

use crate::commands::status::columns;

/// The results of a run, as `--json` prints them. They are serialised directly from the tables,
/// because the tables of many time series are large.
#[derive(Serialize)]
pub(super) struct Data<'a> {
    duration_seconds: f64,
    events: u64,
    fingerprint: String,
    packet_hops: u64,
    packets: u64,
    scenario: String,
    seed: u64,
    tables: BTreeMap<&'a str, Rows<'a>>,
    warmup_seconds: f64,
}

/// Every table as a list of rows. Missing numbers are null.
pub(super) fn data<'a>(scenario: &Path, results: &'a Results) -> Data<'a> {
    Data {
        duration_seconds: results.duration.as_secs_f64(),
        events: results.events,
        fingerprint: format!("{:016x}", results.fingerprint),
        packet_hops: results.packet_hops,
        packets: results.packets,
        scenario: scenario.display().to_string(),
        seed: results.seed,
        tables: results.tables.iter().map(|it| (it.name.as_str(), Rows::of(it))).collect(),
        warmup_seconds: results.warmup.as_secs_f64(),
    }
}

/// The rows of a table, as maps from column names to values.
struct Rows<'a> {
    columns: BTreeMap<&'a str, &'a Values>,
    rows: usize,
}

impl<'a> Rows<'a> {
    fn of(table: &'a Table) -> Self {
        let columns = table.columns().iter().map(|it| (it.name.as_str(), &it.values)).collect();
        Self { columns, rows: table.rows() }
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq((0..self.rows).map(|row| Row { of: self, row }))
    }
}

struct Row<'a> {
    of: &'a Rows<'a>,
    row: usize,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.of.columns.len()))?;
        for (name, values) in &self.of.columns {
            match values {
                Values::Text(all) => map.serialize_entry(name, &all[self.row])?,
                Values::Whole(all) => map.serialize_entry(name, &all[self.row])?,
                // JSON has no NaN and no infinity. They become null.
                Values::Real(all) => {
                    map.serialize_entry(name, &Some(all[self.row]).filter(|it| it.is_finite()))?;
                }
            }
        }
        map.end()
    }
}

/// A summary: the traffic, the most used links, the aggregates, and the drops.
pub(super) fn text(scenario: &Path, results: &Results) -> String {
    let warmup = match results.warmup.is_zero() {
        true => String::new(),
        false => format!(", figures after {}", duration::show(results.warmup)),
    };
    let mut text = format!(
        "{}: {} with seed {}{}; {} packets, {} hops, fingerprint {:016x}\n",
        scenario.display(),
        duration::show(results.duration),
        results.seed,
        warmup,
        results.packets,
        results.packet_hops,
        results.fingerprint,
    );
    for part in [traffic, links, aggregates, drops] {
        let part = part(results);
        if !part.is_empty() {
            text += &format!("\n{part}");
        }
    }
    text
}

/// The text of one cell.
fn cell(table: &Table, column: &str, row: usize) -> String {
    match table.column(column) {
        Some(Values::Text(all)) => all[row].clone(),
        Some(Values::Whole(all)) => all[row].to_string(),
        Some(Values::Real(all)) => shown(column, all[row]),
        None => String::new(),
    }
}

/// Formats `value`, whose unit is at the end of the column's name: rates and bytes in the largest fitting unit,
/// times in milliseconds, the utilisation in percent.
fn shown(column: &str, value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let scaled = |units: &[(f64, &str)], least: &str| {
        let unit = units.iter().find(|(size, _)| value.abs() >= *size);
        unit.map_or_else(
            || format!("{value:.0} {least}"),
            |(size, unit)| format!("{:.2} {unit}", value / size),
        )
    };
    if column.ends_with("_bps") {
        scaled(&[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")], "bit/s")
    } else if column.ends_with("_bytes") {
        scaled(&[(1e6, "MB"), (1e3, "kB")], "B")
    } else if column.ends_with("_seconds") {
        format!("{:.1} ms", value * 1e3)
    } else if column == "utilisation" {
        format!("{:.1} %", value * 1e2)
    } else {
        format!("{value:.3}")
    }
}

/// The rows of `table` that `wanted` selects, under these headings. Empty if it selects none.
fn show<const N: usize>(
    table: Option<&Table>,
    headings: [(&str, &str); N],
    wanted: impl Fn(&Table) -> Vec<usize>,
) -> String {
    let Some(table) = table else { return String::new() };
    let wanted = wanted(table);
    if wanted.is_empty() {
        return String::new();
    }
    let mut all = vec![headings.map(|(heading, _)| heading.to_owned())];
    all.extend(wanted.iter().map(|row| headings.map(|(_, column)| cell(table, column, *row))));
    columns(&all)
}

fn every(table: &Table) -> Vec<usize> {
    (0..table.rows()).collect()
}

fn traffic(results: &Results) -> String {
    let headings = [
        ("traffic", "group"),
        ("flows", "flows"),
        ("throughput", "throughput_bps"),
        ("goodput", "goodput_bps"),
        ("Jain", "jain"),
        ("delay", "delay_mean_seconds"),
        ("99 %", "delay_p99_seconds"),
    ];
    show(results.table("groups"), headings, every)
}

/// Maximum number of links in the summary.
const LINKS: usize = 10;

fn links(results: &Results) -> String {
    let headings = [
        ("from", "from"),
        ("to", "to"),
        ("used", "utilisation"),
        ("queue", "queue_mean_bytes"),
        ("delay", "delay_mean_seconds"),
        ("dropped", "dropped_packets"),
        ("marked", "marked_packets"),
    ];
    show(results.table("links"), headings, |table| {
        let (used, dropped) = (table.real("utilisation"), table.whole("dropped_packets"));
        let mut rows = every(table);
        rows.retain(|row| used[*row] > 0.0 || dropped[*row] > 0);
        rows.sort_by(|a, b| used[*b].total_cmp(&used[*a]));
        rows.truncate(LINKS);
        rows
    })
}

fn aggregates(results: &Results) -> String {
    let headings = [
        ("gateway", "gateway"),
        ("policy", "policy"),
        ("way", "direction"),
        ("flows", "flows"),
        ("conforming", "conforming_bps"),
        ("exceeding", "exceeding_bps"),
        ("wait", "waited_mean_seconds"),
        ("dropped", "dropped_packets"),
    ];
    show(results.table("aggregates"), headings, |table| {
        let offered = table.whole("offered_packets");
        every(table).into_iter().filter(|row| offered[*row] > 0).collect()
    })
}

fn drops(results: &Results) -> String {
    let headings = [
        ("at", "place"),
        ("reason", "reason"),
        ("dropped", "dropped_packets"),
        ("marked", "marked_packets"),
    ];
    show(results.table("drops"), headings, every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_shown_in_the_unit_of_their_column() {
        assert_eq!(shown("throughput_bps", 9_310_000.0), "9.31 Mbit/s");
        assert_eq!(shown("throughput_bps", 12.0), "12 bit/s");
        assert_eq!(shown("delay_mean_seconds", 0.0352), "35.2 ms");
        assert_eq!(shown("queue_mean_bytes", 1_500.0), "1.50 kB");
        assert_eq!(shown("utilisation", 0.9984), "99.8 %");
        assert_eq!(shown("jain", f64::NAN), "-");
    }
}
