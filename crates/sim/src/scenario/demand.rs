//! Compares the load that aggregate gateways offer to a sink with the capacity of the link to the
//! sink.
//!
//! Formula: `sum (rho_i + epsilon) < 1` is sufficient for the weights to converge. `rho_i` is the
//! load of gateway `i` as a fraction of the link's rate. `epsilon` is the constant in the adjuster's
//! increase of a weight, `w += 0.5 (delta' + epsilon) w`.
//!
//! Source: `itcp`, Proposition 1 (stability of the weights).
//!
//! Methods of `Scenario`, whose fields are in `scenario.rs`.

use std::time::Duration;

use tidegate_core::{Factor, Rate, itcp};

use super::{Distribution, Kind, Scenario};
use crate::draw::{Quantity, real, rounded};
use crate::routes::{Graph, Names, Routes, index, names, number};

/// The demand of all gateways that send to one sink.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Demand {
    /// Index in [`Scenario::traffic`] of the last aggregate connection to this sink.
    pub traffic: usize,
    /// `sum (rho_i + epsilon)`, which should be below 1.
    pub sum: Factor,
}

/// The paths between the hosts of a scenario that has passed its check.
pub(super) struct Paths<'a> {
    scenario: &'a Scenario,
    names: Names<'a>,
    graph: Graph,
    routes: Routes,
}

impl<'a> Paths<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Self {
        let names = names(&scenario.nodes);
        let routes = Routes::new(Graph::new(scenario));
        Self { scenario, names, graph: Graph::new(scenario), routes }
    }

    /// The delay of the path from one host to another, and the rate of its slowest link.
    pub(super) fn between(&self, from: &str, to: &str) -> (Duration, Option<Rate>) {
        let [from, to] = [from, to].map(|name| number(self.names[name]));
        let path = self.graph.path(&self.routes, from, to);
        let links: Vec<_> = self.scenario.links.iter().flat_map(super::Link::ways).collect();
        let links = path.iter().map(|way| links[index(*way)].1);
        let rate = links.clone().filter_map(|link| link.rate).min();
        (links.map(|link| link.delay).sum(), rate)
    }
}

impl Scenario {
    /// The demand at each sink, for aggregates whose rate adjuster is `literal` (the paper's rule).
    /// A demand is known only if all local traffic is [`Kind::Arrivals`] and some link on the path
    /// has a rate.
    #[must_use]
    pub fn demands(&self) -> Vec<Demand> {
        let is_aggregate = |kind: &Kind| matches!(kind, Kind::Aggregate { weight: Some(_), .. });
        if !self.traffic.iter().any(|it| is_aggregate(&it.kind)) {
            return Vec::new();
        }
        let paths = Paths::new(self);
        let mut sinks: Vec<(&str, usize, Option<Vec<Factor>>, &itcp::Config)> = Vec::new();
        for (place, traffic) in self.traffic.iter().enumerate() {
            let Kind::Aggregate { of, weight: Some(config), .. } = &traffic.kind else { continue };
            let Some(pair) = traffic.pairs.first() else { continue };
            let load = paths.between(&pair.from, &pair.to).1.and_then(|rate| self.load(of, rate));
            if config.kind != itcp::LawKind::Literal {
                continue;
            }
            match sinks.iter_mut().find(|(sink, ..)| *sink == pair.to) {
                Some((_, last, loads, _)) => {
                    *last = place;
                    *loads =
                        loads.take().zip(load).map(|(loads, load)| [loads, vec![load]].concat());
                }
                None => sinks.push((&pair.to, place, load.map(|load| vec![load]), config)),
            }
        }
        let demand =
            |(_, traffic, loads, config): &(_, usize, Option<Vec<Factor>>, &itcp::Config)| {
                Some(Demand { traffic: *traffic, sum: config.demanded(loads.as_ref()?) })
            };
        sinks.iter().filter_map(demand).collect()
    }

    /// The mean payload rate of the traffic groups `names`, as a fraction of `rate`.
    fn load(&self, names: &[String], rate: Rate) -> Option<Factor> {
        let mut bits = 0.0;
        for traffic in self.traffic.iter().filter(|it| names.contains(&it.name)) {
            let Kind::Arrivals { every, size } = &traffic.kind else { return None };
            let flows = traffic.pairs.len() * index(traffic.flows);
            bits += real(u64::try_from(flows).ok()?) * 8.0 * mean(size) / every.as_secs_f64();
        }
        Some(Factor::from_millionths(rounded(1e6 * bits / real(rate.bps()))))
    }
}

fn mean<T: Quantity>(distribution: &Distribution<T>) -> f64 {
    match *distribution {
        Distribution::Uniform(least, most) => {
            f64::midpoint(real(least.whole()), real(most.whole()))
        }
        Distribution::Constant(mean)
        | Distribution::Exponential(mean)
        | Distribution::Pareto(mean, _)
        | Distribution::Lognormal(mean, _)
        | Distribution::Weibull(mean, _) => real(mean.whole()),
    }
}
