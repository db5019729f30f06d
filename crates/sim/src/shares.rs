//! Fairness: compares the throughput of each flow with its demand.

use std::collections::HashMap;
use std::time::Duration;

use tidegate_core::Packet;
use tidegate_core::emulator::Route;
use tidegate_core::packet::Direction;
use tidegate_gateway::Gateway;

use crate::agenda::Agenda;
use crate::draw::real;
use crate::engine::Engine;
use crate::fairness::{fair_shares, jain, max_min};
use crate::flow::datagram;
use crate::network::Hop;
use crate::routes::index;
use crate::scenario::{Kind, NodeKind, Scenario};

/// Throughput and demand of all flows in bit/s after the warm-up, and the flows of each aggregate.
///
/// The demand of a flow is the rate of the slowest link on its path. For UDP, it is at most the
/// rate that the source sent. Weights of flows are ignored.
pub(crate) struct Shares<'a> {
    got: Vec<f64>,
    asked: Vec<f64>,
    /// The flows of each aggregate. The key is the gateway's node, the direction and the policy.
    members: HashMap<(u32, &'static str, &'a str), Vec<usize>>,
}

/// Jain's index and the max-min index of several sets of flows: one element for each set.
#[derive(Default)]
pub(crate) struct Indices {
    pub(crate) jain: Vec<f64>,
    pub(crate) max_min: Vec<f64>,
}

impl<'a> Shares<'a> {
    /// Evaluates a finished run. `span` is the time after the warm-up.
    pub(crate) fn new<A: Agenda>(
        scenario: &'a Scenario,
        engine: &mut Engine<'_, A>,
        span: Duration,
    ) -> Self {
        let rate = |bytes: u64| real(bytes) * 8.0 / span.as_secs_f64();
        let mut this = Self { got: Vec::new(), asked: Vec::new(), members: HashMap::new() };
        let ways = scenario.links.iter().flat_map(|link| link.ways());
        let rates: Vec<f64> = ways
            .map(|(_, config)| config.rate.map_or(f64::INFINITY, |it| real(it.bps())))
            .collect();
        for (place, flow) in engine.flows.iter().enumerate() {
            let traffic = engine.groups[index(flow.group)].traffic;
            let opener = usize::from(matches!(traffic.kind, Kind::Web { .. }));
            let key = match &flow.datagrams {
                Some(datagrams) => datagrams.key,
                None => engine.hosts.key(flow.hosts, opener, traffic),
            };
            let packet = datagram(key, 0, 0, traffic.dscp);
            let before = flow.before().counts;
            let mut asked = match flow.datagrams {
                Some(_) => rate(flow.counts.sent.bytes - before.sent.bytes),
                None => f64::INFINITY,
            };
            for hop in engine.network.path(flow.first[0], flow.hosts[1]) {
                asked = asked.min(match hop {
                    Hop::Link(way) => rates[index(way)],
                    Hop::Station(node, port) => this.cross(scenario, node, port, &packet, place),
                });
            }
            this.got.push(rate(flow.counts.received.bytes - before.received.bytes));
            this.asked.push(asked);
        }
        this
    }

    /// The rate at which the station at `node` forwards packets that enter through `port`. Also
    /// adds `flow` to its aggregate there.
    fn cross(
        &mut self,
        scenario: &'a Scenario,
        node: u32,
        port: u8,
        packet: &Packet,
        flow: usize,
    ) -> f64 {
        let rate = match &scenario.nodes[index(node)].kind {
            NodeKind::Gateway(it) => {
                let direction =
                    if port == Gateway::LAN.0 { Direction::Up } else { Direction::Down };
                let policy = it.policies.lookup(packet, direction);
                if let Some(policy) = policy.and_then(|policy| it.policies.get(policy)) {
                    let aggregate = (node, direction.name(), policy.name.as_str());
                    self.members.entry(aggregate).or_default().push(flow);
                }
                it.config.rate[direction.index()]
            }
            NodeKind::Cloud(it) => it
                .routes
                .iter()
                .find(|route| takes(route, packet))
                .and_then(|route| route.link.rate),
            NodeKind::Host(_) | NodeKind::Router => None,
        };
        rate.map_or(f64::INFINITY, |rate| real(rate.bps()))
    }

    /// Jain's index and the max-min index of an aggregate's flows. NaN if the aggregate has no
    /// flows or no throughput.
    pub(crate) fn of_aggregate(&self, node: u32, direction: Direction, policy: &str) -> [f64; 2] {
        let members = self.members.get(&(node, direction.name(), policy));
        self.of(members.map_or(&[], Vec::as_slice))
    }

    /// Jain's index and the max-min index of the throughput of these flows.
    pub(crate) fn of(&self, flows: &[usize]) -> [f64; 2] {
        let [got, asked] =
            [&self.got, &self.asked].map(|all| flows.iter().map(|it| all[*it]).collect::<Vec<_>>());
        [jain(&got), max_min(&got, &fair_shares(got.iter().sum(), &asked))]
    }
}

/// Returns `true` if the packet's source and destination match the route.
fn takes(route: &Route, packet: &Packet) -> bool {
    [(&route.from, packet.key.src), (&route.to, packet.key.dst)]
        .into_iter()
        .all(|(nets, end)| nets.is_empty() || nets.iter().any(|net| net.contains(&end.address())))
}

impl Indices {
    pub(crate) fn push(&mut self, [jain, max_min]: [f64; 2]) {
        self.jain.push(jain);
        self.max_min.push(max_min);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use tidegate_core::Rate;
    use tidegate_core::link::LinkConfig;

    use super::*;
    use crate::scenario::{End, Link};
    use crate::testing::dumbbell;
    use crate::{Results, Simulation};

    /// Jain's index and the max-min index of three flows. The last flow has an access link of 1
    /// Mbit/s.
    fn indices(kind: Kind) -> [f64; 2] {
        let mut scenario = dumbbell(3, kind);
        scenario.run.warmup = Duration::from_millis(500);
        let slow = LinkConfig { rate: Some(Rate::from_mbps(1)), ..LinkConfig::default() };
        let [from, to] = ["d2", "r"].map(End::of);
        scenario.links[6] = Link::new(from, to, slow);
        let simulation = Simulation::new(&scenario).unwrap();
        let results: Results = simulation.run(|_| ControlFlow::Continue(())).unwrap();
        let groups = results.table("groups").unwrap();
        ["jain", "max_min"].map(|name| groups.real(name)[0])
    }

    #[test]
    fn a_flow_limited_by_its_access_link_does_not_lower_the_max_min_index() {
        let constant = Kind::Constant { rate: Rate::from_mbps(4), packet: 1_000 };
        for kind in [constant, Kind::Greedy] {
            let [jain, fair] = indices(kind.clone());
            assert!(jain < 0.85 && fair > 0.98, "{kind:?}: {jain} {fair}");
        }
    }
}
