//! Tables of classes: their packets and delays, and the promises that they receive (such as a delay
//! bound).

use std::time::Duration;

use tidegate_core::report::{ClassReport, PromiseReport};

use super::{reals, whole};
use crate::network::Station;
use crate::scenario::Scenario;
use crate::table::Table;

/// All classes of all gateways, each with the name of its gateway.
fn all(scenario: &Scenario, stations: &[Station]) -> Vec<(String, ClassReport)> {
    let of = |station: &Station| {
        let name = scenario.nodes[super::index(station.node)].name.clone();
        station.classes().into_iter().map(move |it| (name.clone(), it)).collect::<Vec<_>>()
    };
    stations.iter().flat_map(of).collect()
}

/// One row for each class of each gateway, over the whole run.
pub(super) fn classes(scenario: &Scenario, stations: &[Station]) -> Table {
    let all = all(scenario, stations);
    let text = |of: &dyn Fn(&(String, ClassReport)) -> String| all.iter().map(of).collect();
    let delay = |of: &dyn Fn(&ClassReport) -> Option<Duration>| {
        reals(&all, |(_, it)| of(it).map_or(f64::NAN, |delay| delay.as_secs_f64()))
    };
    let names: Vec<String> = text(&|(gateway, _)| gateway.clone());
    let classes: Vec<String> = text(&|(_, it)| it.name.clone());
    let ways: Vec<String> = text(&|(_, it)| it.direction.name().to_owned());
    Table::new("classes")
        .with("gateway", names)
        .with("class", classes)
        .with("direction", ways)
        .with("sent_packets", whole(&all, |(_, it)| it.sent.packets))
        .with("sent_bytes", whole(&all, |(_, it)| it.sent.bytes))
        .with("dropped_packets", whole(&all, |(_, it)| it.drops))
        .with("waiting_packets", whole(&all, |(_, it)| it.backlog.packets.into()))
        .with("delay_mean_seconds", delay(&|it| it.delays?.mean()))
        .with("delay_max_seconds", delay(&|it| it.delays.map(|it| it.longest)))
}

/// One row for each promise to a class, over the whole run.
pub(super) fn promises(scenario: &Scenario, stations: &[Station]) -> Table {
    let classes = all(scenario, stations);
    let all: Vec<(&String, &ClassReport, &PromiseReport)> = classes
        .iter()
        .flat_map(|(gateway, class)| class.promises.iter().map(move |it| (gateway, class, it)))
        .collect();
    let names: Vec<String> = all.iter().map(|it| it.0.clone()).collect();
    let classes: Vec<String> = all.iter().map(|it| it.1.name.clone()).collect();
    let ways: Vec<String> = all.iter().map(|it| it.1.direction.name().to_owned()).collect();
    let terms: Vec<String> = all.iter().map(|it| it.2.term.to_string()).collect();
    let of: Vec<String> = all.iter().map(|it| it.2.of.clone().unwrap_or_default()).collect();
    Table::new("promises")
        .with("gateway", names)
        .with("class", classes)
        .with("direction", ways)
        .with("term", terms)
        .with("of", of)
        .with("promised", reals(&all, |it| it.2.promised))
        .with("kept", reals(&all, |it| it.2.kept.unwrap_or(f64::NAN)))
        .with("violations", whole(&all, |it| it.2.violations))
        .with("relaxed", whole(&all, |it| it.2.relaxed))
}
