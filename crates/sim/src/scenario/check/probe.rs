//! Checks of probes.
//!
//! Methods of `Check`, whose fields are in `check.rs`.

use tidegate_core::packet::Direction;

use super::Check;
use crate::routes::number;
use crate::scenario::{Kind, Link, Node, NodeKind, Place, Probe, Scenario, Traffic, Way, What};

impl<'a> Check<'a> {
    pub(super) fn probe(&mut self, n: usize, probe: &Probe) {
        match probe {
            Probe::Queue(way) | Probe::Capture(way) => self.way(Place::Probe(n, "link"), way),
            Probe::Throughput { traffic } => {
                self.group(n, traffic);
            }
            Probe::Aggregate { traffic } => {
                let Some(traffic) = self.group(n, traffic) else { return };
                if !matches!(traffic.kind, Kind::Aggregate { .. }) {
                    let what = "this traffic is no aggregate connection";
                    self.wrong(Place::Probe(n, "traffic"), What::Contradiction(what));
                }
            }
            Probe::Passage { gateway, direction, .. } => self.passage(n, gateway, *direction),
            Probe::Window { traffic, flows } => {
                let Some(traffic) = self.group(n, traffic) else { return };
                if !traffic.kind.is_tcp() {
                    let what = "UDP has no congestion window";
                    self.wrong(Place::Probe(n, "traffic"), What::Contradiction(what));
                }
                let most = u64::from(traffic.flows) * u64::from(number(traffic.pairs.len()));
                for flow in flows {
                    let expected = format!("flows are numbered from 0 to {}", most.max(1) - 1);
                    self.range(Place::Probe(n, "flows"), u64::from(*flow) < most, flow, expected);
                }
            }
        }
        let series = matches!(
            probe,
            Probe::Throughput { .. } | Probe::Window { .. } | Probe::Aggregate { .. }
        );
        if series && self.scenario.run.sample.is_none() {
            let what = "a series needs a step; give run.sample";
            self.wrong(Place::Probe(n, "sample"), What::Contradiction(what));
        }
    }

    fn passage(&mut self, n: usize, gateway: &str, direction: Direction) {
        let is_it = |it: &&Node| it.name == gateway && matches!(it.kind, NodeKind::Gateway(_));
        if self.scenario.nodes.iter().find(is_it).is_none() {
            let what = What::Unknown { kind: "gateway", name: gateway.to_owned() };
            self.wrong(Place::Probe(n, "gateway"), what);
        }
        let same = |it: &&Probe| matches!(it, Probe::Passage { gateway: other, direction: way, .. } if other == gateway && *way == direction);
        if self.scenario.probes.iter().take(n).any(|it| same(&it)) {
            let what = "a second probe of this gateway and direction; one is enough";
            self.wrong(Place::Probe(n, "direction"), What::Contradiction(what));
        }
    }

    fn group(&mut self, probe: usize, name: &str) -> Option<&'a Traffic> {
        let scenario: &'a Scenario = self.scenario;
        let found = scenario.traffic.iter().find(|traffic| traffic.name == name);
        if found.is_none() {
            let what = What::Unknown { kind: "traffic", name: name.to_owned() };
            self.wrong(Place::Probe(probe, "traffic"), what);
        }
        found
    }

    fn way(&mut self, place: Place, way: &Way) {
        let mut ways = self.scenario.links.iter().flat_map(Link::ways);
        if !ways.any(|(there, _)| there == *way) {
            self.wrong(place, What::Unknown { kind: "link", name: way.to_string() });
        }
    }
}
