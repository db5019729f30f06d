//! `tidegate trunks` shows the trunks that end at the running gateway. A trunk carries the user
//! packets between two gateways.

use super::Context;
use super::status::{columns, size};
use crate::api::{Trunk, TrunkWeight, Trunks};
use crate::client;
use crate::output::Exit;

/// Prints the trunks that end at this gateway.
pub(crate) fn list(context: &Context) -> anyhow::Result<Exit> {
    let trunks: Trunks = client::get(&context.socket, "/v1/trunks")?;
    if context.output.is_json() {
        context.output.json(&trunks)?;
    } else if trunks.trunks.is_empty() {
        context.output.text("no trunks end here")?;
    } else {
        context.output.text(tables(&trunks).trim_end())?;
    }
    Ok(Exit::Done)
}

/// The tables of the trunks and of their weights.
pub(crate) fn tables(trunks: &Trunks) -> String {
    table(&trunks.trunks) + &weights(&trunks.trunks)
}

fn table(trunks: &[Trunk]) -> String {
    let head = [
        "trunk",
        "peer",
        "state",
        "rate",
        "window",
        "weight",
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

/// A table of the trunks' weights, after an empty line. Empty if no trunk has a weight.
fn weights(trunks: &[Trunk]) -> String {
    let head =
        ["trunk", "law", "weight", "busy", "offered", "service", "increased", "decreased", "held"];
    let mut rows = vec![head.map(str::to_owned)];
    let all = trunks.iter().filter_map(|it| Some((it, it.weight.as_ref()?)));
    rows.extend(all.map(|(trunk, weight)| weight_row(trunk, weight)));
    if rows.len() == 1 {
        return String::new();
    }
    format!("\n{}", columns(&rows))
}

fn weight_row(trunk: &Trunk, it: &TrunkWeight) -> [String; 9] {
    let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rate = |bps: u64| format!("{} Mbit/s", thousandths(bps / 1_000));
    [
        trunk.name.clone(),
        it.kind.clone(),
        format!("{:.1}", it.weight),
        known(it.busy.map(|busy| format!("{:.0} %", 100.0 * busy))),
        known(it.offered_bps.map(rate)),
        known(it.service_bps.map(rate)),
        it.increased.to_string(),
        it.decreased.to_string(),
        it.held.to_string(),
    ]
}

fn row(it: &Trunk) -> [String; 13] {
    let rtt = it.rtt_us.map(|rtt| format!("{} ms", thousandths(rtt)));
    let refused = it.other_end.as_ref().map_or(0, |end| end.refused.values().sum());
    [
        it.name.clone(),
        it.peer.clone(),
        state(it),
        format!("{} Mbit/s", thousandths(it.rate_bps / 1_000)),
        it.window_packets.to_string(),
        it.weight.as_ref().map_or_else(|| "-".to_owned(), |it| format!("{:.1}", it.weight)),
        rtt.unwrap_or_else(|| "-".to_owned()),
        it.management_packets.to_string(),
        it.missing_bytes.map_or_else(|| it.lost_packets.to_string(), size),
        format!("{} B", it.credit_bytes),
        size(it.waiting.bytes),
        size(it.elastic_bytes + it.guaranteed_bytes + it.past_bytes),
        refused.to_string(),
    ]
}

/// The state of the other gateway. If some management connections (TCP connections of the two
/// gateways, which find the trunk's rate) get no answer, their number follows in brackets.
fn state(it: &Trunk) -> String {
    let state = it.other_end.as_ref().map_or("no port", |end| end.state.as_str());
    match it.silent {
        0 => state.to_owned(),
        silent => format!("{state} ({silent} of {} without an answer)", it.connections),
    }
}

/// Formats a number given in thousandths, rounded down to one decimal.
fn thousandths(n: u64) -> String {
    format!("{}.{}", n / 1_000, n % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_the_rate_of_a_trunk_and_the_state_of_its_peer() {
        let end = crate::api::OtherEnd {
            difference: None,
            state: "silent".to_owned(),
            heard_ms: Some(4_000),
            sessions: 1,
            next_hop: None,
            hellos: 4,
            segments: 5,
            refused: [("forged".to_owned(), 2), ("replayed".to_owned(), 1)].into(),
        };
        let trunk = Trunk {
            name: "south".to_owned(),
            local: "192.0.2.1".to_owned(),
            peer: "192.0.2.2".to_owned(),
            other_end: Some(end),
            encapsulation: None,
            rate_bps: 9_459_309,
            window_packets: 20,
            rtt_us: Some(44_657),
            credit_bytes: -300,
            management_packets: 4_637,
            lost_packets: 143,
            missing_bytes: None,
            elastic_bytes: 6_900_000,
            guaranteed_bytes: 0,
            past_bytes: 100_000,
            waiting: crate::api::Count { packets: 1, bytes: 900 },
            connections: 4,
            active: 4,
            weight: None,
            silent: 4,
        };
        let epochs = Trunk { lost_packets: 0, missing_bytes: Some(1_200), ..trunk.clone() };
        assert_eq!(row(&epochs)[8], "1.2 kB");
        let shown = row(&trunk).join("|");
        let expected = "south|192.0.2.2|silent (4 of 4 without an answer)|9.4 Mbit/s|20|-|44.6 ms|4637|143|-300 B|900 B|7.0 MB|3";
        assert_eq!(shown, expected);
        assert_eq!(weights(std::slice::from_ref(&trunk)), "");
        let weight = TrunkWeight {
            weight: 6.24,
            kind: "measured".to_owned(),
            busy: Some(0.974),
            offered_bps: Some(9_000_000),
            service_bps: None,
            increased: 4,
            decreased: 1,
            held: 7,
            abandoned: 0,
        };
        let shown = weight_row(&trunk, &weight).join("|");
        assert_eq!(shown, "south|measured|6.2|97 %|9.0 Mbit/s|-|4|1|7");
    }
}
