//! `tidegate trunks` shows the trunks that end at the running gateway. A trunk carries the user
//! packets between two gateways.

use super::Context;
use super::table::{Table, cells, headings};
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
    let mut table = Table::new(headings::<Trunk>());
    trunks.iter().for_each(|it| table.row(cells(it)));
    table.text()
}

/// A table of the trunks' weights, after an empty line. Empty if no trunk has a weight.
fn weights(trunks: &[Trunk]) -> String {
    let mut table = Table::new([vec!["trunk".to_owned()], headings::<TrunkWeight>()].concat());
    let all = trunks.iter().filter_map(|it| Some((it, it.weight.as_ref()?)));
    all.for_each(|(it, weight)| table.row([vec![it.name.clone()], cells(weight)].concat()));
    let text = table.text();
    if text.is_empty() { text } else { format!("\n{text}") }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Bytes;
    use tidegate_core::qdisc::Backlog;
    use tidegate_core::trunk::TrunkCounters;

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
            missing_bytes: None,
            counts: TrunkCounters {
                management: 4_637,
                again: 143,
                elastic: 6_900_000,
                past: 100_000,
                ..TrunkCounters::default()
            },
            waiting: Backlog { packets: 1, bytes: Bytes(900) },
            connections: 4,
            active: 4,
            weight: None,
            silent: 4,
        };
        let epochs = Trunk { missing_bytes: Some(1_200), ..trunk.clone() };
        assert_eq!(cells(&epochs)[8], "1.2 kB");
        let shown = cells(&trunk).join("|");
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
        let shown = cells(&weight).join("|");
        assert_eq!(shown, "measured|6.2|97 %|9.0 Mbit/s|-|4|1|7");
    }
}
