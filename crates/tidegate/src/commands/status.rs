//! `tidegate status` shows the state of the running gateway; `tidegate flows` shows its busiest
//! flows.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::iter;

use tidegate_core::ack::Counts;

use super::Context;
use super::table::{Table, cells, headings};
use crate::api::{AckControl, Aggregate, Flow, Flows, LinkDirection, Status};
use crate::client;
use crate::output::Exit;

/// Arguments of `flows`.
#[derive(Debug, clap::Args)]
pub(crate) struct FlowsArgs {
    /// Maximum number of flows to show, the busiest first
    #[arg(long, default_value_t = 20)]
    most: usize,
}

/// Prints the state of the running gateway.
pub(crate) fn run(context: &Context) -> anyhow::Result<Exit> {
    let status: Status = client::get(&context.socket, "/v1/status")?;
    let degraded = !status.alarms.is_empty();
    if context.output.is_json() {
        context.output.json(&status)?;
    } else {
        context.output.text(show(&status).trim_end())?;
    }
    Ok(if degraded { Exit::Degraded } else { Exit::Done })
}

/// Prints the busiest flows.
pub(crate) fn flows(args: &FlowsArgs, context: &Context) -> anyhow::Result<Exit> {
    let flows: Flows = client::get(&context.socket, &format!("/v1/flows?most={}", args.most))?;
    if context.output.is_json() {
        context.output.json(&flows)?;
    } else {
        context.output.text(show_flows(&flows.flows).trim_end())?;
    }
    Ok(Exit::Done)
}

/// The state as text, with its tables.
pub(crate) fn show(status: &Status) -> String {
    let ports = &status.ports;
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{label:<12} {value}");
    };
    let state = match (status.alarms.is_empty(), status.passing) {
        (false, _) => "DEGRADED",
        (true, true) => "nothing to manage, so frames bypass the gateway,",
        (true, false) => "running",
    };
    let uptime = seconds(status.uptime_ms);
    line("state", &format!("{state} for {uptime}, version {}", status.version));
    status.alarms.iter().for_each(|alarm| line("alarm", alarm));
    line("policies", &format!("generation {} from {}", status.generation, status.file));
    if status.started_file != status.file && !status.started_file.is_empty() {
        line("", &format!("SIGHUP reads this file, a restart {}", status.started_file));
    }
    if let Some(left) = status.unconfirmed_ms {
        line("unconfirmed", &format!("rolled back in {} unless `tidegate confirm`", seconds(left)));
    }
    line(
        "ports",
        &format!("{} (users) to {} (Internet) on {}", ports.lan, ports.wan, ports.backend),
    );
    line("fail-to-wire", ports.fail_to_wire.words());
    ports.notes.iter().for_each(|note| line("", note));
    for (direction, it) in [("up", &status.up), ("down", &status.down)] {
        line(direction, &crossed(it));
        bypassed(it).iter().for_each(|it| line("", it));
    }
    let held = status.held;
    line(
        "flows",
        &format!(
            "{}, {} without room in the table; {held} packets in the gateway",
            status.flows, status.untracked
        ),
    );
    line("drops", &listed(&status.drops.by_name()));
    if status.redundant_acks > 0 {
        line("thinned", &format!("{} redundant-ack", status.redundant_acks));
    }
    line("marks", &listed(&status.marks.by_name()));
    if status.hangs > 0 {
        line("hangs", &status.hangs.to_string());
    }
    text + &table(&status.aggregates) + &others(status) + &ack_controls(&status.aggregates)
}

fn crossed(it: &LinkDirection) -> String {
    let waiting = it.waiting.packets;
    let (received, sent) = (it.received, it.transmitted);
    let all = format!(
        "{} packets ({}) in, {} ({}) out, {waiting} wait for the link",
        received.packets,
        size(received.bytes),
        sent.packets,
        size(sent.bytes)
    );
    let all = match it.marking {
        Some(marking) => {
            let (dropped, tracked) = (marking.not_ect + marking.unmarkable, marking.tracked);
            format!(
                "{all}; marking: {} marked, {dropped} dropped, {} flows tracked with {} of {}",
                marking.marked,
                tracked.flows,
                size(tracked.tracked_bytes),
                size(tracked.all_bytes)
            )
        }
        None => all,
    };
    match it.control.filter(|it| it.backlog.packets > 0 || it.drops > 0) {
        Some(control) => format!(
            "{all}; control traffic: {} wait, {} dropped",
            control.backlog.packets, control.drops
        ),
        None => all,
    }
}

/// The frames that bypassed the gateway, by reason. `None` if there are none.
fn bypassed(it: &LinkDirection) -> Option<String> {
    let it = it.bypassed?;
    let by_reason = [
        (it.idle, "with nothing to manage"),
        (it.silent, "while the gateway was silent"),
        (it.no_socket, "while it was dead"),
        (it.requested, "while it started or was stopped"),
    ];
    let each = by_reason.into_iter().filter(|(count, _)| count.packets > 0);
    let each: Vec<_> = each
        .map(|(count, when)| format!("{} packets ({}) {when}", count.packets, size(count.bytes)))
        .collect();
    (!each.is_empty()).then(|| format!("bypassed: {}", each.join(", ")))
}

/// The counts by reason, in words.
pub(super) fn listed<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let each = counts.iter().map(|(reason, count)| format!("{count} {reason}"));
    let each: Vec<_> = each.collect();
    if each.is_empty() { "none".to_owned() } else { each.join(", ") }
}

/// Maximum number of policies in the table.
pub(super) const MOST_ROWS: usize = 20;

/// The busiest of `aggregates`, at most [`MOST_ROWS`], in their original order.
fn busiest(aggregates: &[Aggregate]) -> Vec<&Aggregate> {
    let mut order: Vec<usize> = (0..aggregates.len()).collect();
    order.sort_by_key(|at| {
        let it = &aggregates[*at];
        Reverse((it.backlog.bytes, it.offered.bytes))
    });
    order.truncate(MOST_ROWS);
    order.sort_unstable();
    order.into_iter().map(|at| &aggregates[at]).collect()
}

/// A note on the policies that the table leaves out: policies without packets, and all
/// policies but the busiest.
fn others(status: &Status) -> String {
    let mut text = String::new();
    if let more @ 1.. = status.aggregates.len().saturating_sub(MOST_ROWS) {
        text += &format!("{more} more that are less busy; --json lists them\n");
    }
    let idle = &status.idle_policies;
    match idle.len() {
        0 => {}
        1..=MOST_ROWS => text += &format!("\nwithout a packet so far: {}\n", idle.join(", ")),
        count => {
            text += &format!("\n{count} policies without a packet so far; --json lists them\n")
        }
    }
    text
}

fn table(aggregates: &[Aggregate]) -> String {
    let mut table = Table::new(headings::<Aggregate>());
    busiest(aggregates).into_iter().for_each(|it| table.row(cells(it)));
    if aggregates.is_empty() { String::new() } else { format!("\n{}", table.text()) }
}

/// A table of the aggregates with ACK control.
fn ack_controls(aggregates: &[Aggregate]) -> String {
    let place = ["policy", "direction"].map(str::to_owned).to_vec();
    let mut table = Table::new([place, headings::<AckControl>(), headings::<Counts>()].concat());
    let with = busiest(aggregates).into_iter();
    for (it, control) in with.filter_map(|it| Some((it, it.ack_control.as_ref()?))) {
        let place = vec![it.policy.clone(), it.direction.name().to_owned()];
        table.row([place, cells(control), cells(&control.counts)].concat());
    }
    let text = table.text();
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// A table of `flows`.
pub(crate) fn show_flows(flows: &[Flow]) -> String {
    let rows = flows.iter().map(cells);
    columns(&iter::once(headings::<Flow>()).chain(rows).collect::<Vec<_>>())
}

/// Formats `rows` as a table with aligned columns.
pub(crate) fn columns<R: AsRef<[String]>>(rows: &[R]) -> String {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.as_ref().len()), 0);
        let lengths = row.as_ref().iter().map(|cell| cell.chars().count());
        widths.iter_mut().zip(lengths).for_each(|(width, length)| *width = length.max(*width));
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row
            .as_ref()
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

/// Formats `bytes` in the largest decimal unit not above it, with one decimal.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{}.{} {unit}", bytes / size, bytes % size / (size / 10)),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Catches: a gateway of the previous version whose ACK control is not shown.
    #[test]
    fn ack_control_is_read_under_its_earlier_name() {
        let count = json!({ "packets": 0, "bytes": 0 });
        let control = json!({
            "kind": "postack", "mean_hold_us": 70, "held": 3, "packets": 3, "peak_held": 4,
            "delayed": 9, "held_ns": 420_000, "absorbed": 0, "made": 0, "split": 5, "overdue": 6,
            "windows": 0, "unsent": 0, "stale": 0, "ungoverned": 8,
        });
        let aggregate = serde_json::from_value(json!({
            "policy": "web", "direction": "down", "mean_bps": null, "flows": 1, "offered": count,
            "conforming": count, "exceeding": count, "waiting": count, "peak_waiting_bytes": 0,
            "mean_wait_us": 0, "waited_ns": 0, "late": 0, "drops": {}, "marks": {}, "triggers": {},
            "signal": control,
        }));
        let text = ack_controls(&[aggregate.unwrap()]);
        let row: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["web", "down", "postack", "3", "70", "us", "5", "6", "8"]);
    }
}
