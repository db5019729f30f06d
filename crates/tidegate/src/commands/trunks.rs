//! `tidegate trunks`.

use std::time::Duration;

use tidegate_core::Rate;
use tidegate_core::units::duration;

use super::Context;
use super::status::{columns, size};
use crate::api::{Trunk, Trunks};
use crate::client;
use crate::output::Exit;

/// Prints the trunks that end here.
pub(crate) fn list(context: &Context) -> anyhow::Result<Exit> {
    let trunks: Trunks = client::get(&context.socket, "/v1/trunks")?;
    if context.output.is_json() {
        context.output.json(&trunks)?;
    } else if trunks.trunks.is_empty() {
        context.output.text("no trunks end here")?;
    } else {
        context.output.text(table(&trunks.trunks).trim_end())?;
    }
    Ok(Exit::Done)
}

fn table(trunks: &[Trunk]) -> String {
    let head = [
        "trunk",
        "peer",
        "state",
        "rate",
        "window",
        "rtt",
        "management",
        "lost",
        "credit",
        "waiting",
        "sent",
        "refused",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(trunks.iter().map(row));
    columns(&rows)
}

fn row(it: &Trunk) -> [String; 12] {
    let rtt = it.rtt_us.map(|rtt| duration::show(Duration::from_micros(rtt)));
    let refused = it.other_end.as_ref().map_or(0, |end| end.refused.values().sum());
    [
        it.name.clone(),
        it.peer.clone(),
        state(it),
        Rate::from_bps(it.rate_bps).to_string(),
        it.window_packets.to_string(),
        rtt.unwrap_or_else(|| "-".to_owned()),
        it.management_packets.to_string(),
        it.lost_packets.to_string(),
        format!("{} B", it.credit_bytes),
        size(it.waiting.bytes),
        size(it.elastic_bytes + it.guaranteed_bytes + it.past_bytes),
        refused.to_string(),
    ]
}

/// The other gateway, and in brackets how many connections get no answer, if any.
fn state(it: &Trunk) -> String {
    let state = it.other_end.as_ref().map_or("no port", |end| end.state.as_str());
    match it.silent {
        0 => state.to_owned(),
        silent => format!("{state} ({silent} of {} without an answer)", it.connections),
    }
}
