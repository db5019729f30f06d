//! The shortest paths through a network, computed once.
//!
//! The shortest path is the path with the fewest links. Among these, the path with the least delay
//! wins, and then the path whose links come first in the scenario. A gateway is two vertices, one
//! for each direction. So packets cross a gateway and never depart on the side on which they entered.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use crate::scenario::{End, Node, NodeKind, Scenario, Side};

/// The routing graph: the vertices of a network, and the link directions between them.
pub(crate) struct Graph {
    /// The vertex of each node. A gateway has two vertices: the entry is the vertex of upward
    /// packets, and the next number is the vertex of downward packets.
    vertices: Vec<u32>,
    /// For each vertex, `true` if it is a host. Hosts do not forward packets.
    is_host: Vec<bool>,
    /// For each node, the vertex at which packets addressed to this node arrive; [`NOWHERE`] if no
    /// packets are addressed to it. Packets are addressed to hosts, and to gateways with trunks
    /// (management packets from the WAN).
    ends: Vec<u32>,
    ways: Vec<Edge>,
    /// For each vertex, the incoming edges, as indexes into `ways`.
    into: Vec<Vec<u32>>,
}

#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    delay: Duration,
}

/// Nodes by their names.
pub(crate) type Names<'a> = HashMap<&'a str, usize>;

/// The indexes of nodes by their names. If two nodes have the same name, the first counts.
pub(crate) fn names(nodes: &[Node]) -> Names<'_> {
    let mut names = Names::with_capacity(nodes.len());
    for (number, node) in nodes.iter().enumerate() {
        names.entry(&node.name).or_insert(number);
    }
    names
}

impl Graph {
    /// The graph of a network. Links to unknown nodes are left out.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let names = names(&scenario.nodes);
        let (mut vertices, mut is_host, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for node in &scenario.nodes {
            let vertex = number(is_host.len());
            vertices.push(vertex);
            ends.push(match node.kind {
                NodeKind::Host(_) => vertex,
                NodeKind::Gateway(_) if !node.trunks().is_empty() => vertex + 1,
                _ => NOWHERE,
            });
            is_host.push(matches!(node.kind, NodeKind::Host(_)));
            if matches!(node.kind, NodeKind::Gateway(_)) {
                is_host.push(false);
            }
        }
        let into = vec![Vec::new(); is_host.len()];
        let mut this = Self { vertices, is_host, ends, ways: Vec::new(), into };
        for (way, config) in scenario.links.iter().flat_map(|link| link.ways()) {
            let vertex = |end: &End, enters| {
                Some(this.vertex(*names.get(end.node.as_str())?, end.side, enters))
            };
            let (Some(from), Some(to)) = (vertex(&way.from, false), vertex(&way.to, true)) else {
                continue;
            };
            this.ways.push(Edge { from, to, delay: config.delay });
        }
        for (way, edge) in (0..).zip(&this.ways) {
            this.into[index(edge.to)].push(way);
        }
        this
    }

    /// The vertex of packets that enter `node` at `side`; if `enters` is false, of packets that
    /// depart from it there.
    pub(crate) fn vertex(&self, node: usize, side: Side, enters: bool) -> u32 {
        let down = match side {
            Side::Lan => !enters,
            Side::Wan => enters,
            Side::Only | Side::Port(_) => false,
        };
        self.vertices[node] + u32::from(down)
    }

    /// The link directions on the path from one host to another.
    pub(crate) fn path(&self, routes: &Routes, from: u32, to: u32) -> Vec<u32> {
        let (mut vertex, mut path) = (self.vertices[index(from)], Vec::new());
        while vertex != self.ends[index(to)] {
            let way = routes.next(vertex, to);
            if way == NOWHERE {
                break;
            }
            path.push(way);
            vertex = self.ways[index(way)].to;
        }
        path
    }

    /// For each vertex, the next link direction of packets to `target`; [`NOWHERE`] if no path
    /// leads there. Dijkstra's algorithm, from the target backwards.
    fn towards(&self, target: u32) -> Vec<u32> {
        let mut next = vec![NOWHERE; self.is_host.len()];
        let mut least = vec![(u32::MAX, Duration::MAX); self.is_host.len()];
        least[index(target)] = (0, Duration::ZERO);
        let mut heap = BinaryHeap::from([Reverse((0, Duration::ZERO, target))]);
        while let Some(Reverse((links, delay, vertex))) = heap.pop() {
            let passes = vertex == target || !self.is_host[index(vertex)];
            if (links, delay) > least[index(vertex)] || !passes {
                continue;
            }
            for way in &self.into[index(vertex)] {
                let edge = &self.ways[index(*way)];
                let from = index(edge.from);
                let cost = (links + 1, delay.saturating_add(edge.delay));
                if cost < least[from] {
                    (least[from], next[from]) = (cost, *way);
                    heap.push(Reverse((cost.0, cost.1, edge.from)));
                } else if cost == least[from] && from != index(target) {
                    next[from] = next[from].min(*way);
                }
            }
        }
        next
    }
}

/// The routing tables: for each vertex and destination, the next link direction.
pub(crate) struct Routes {
    /// `next[target][vertex]`: the next link direction.
    next: Vec<Vec<u32>>,
    /// For each node, its routing target. Nodes that receive no packets have an empty entry.
    ends: Vec<Attachment>,
    /// For each node, the vertex at which its own packets start.
    vertices: Vec<u32>,
}

/// How packets reach a host or the end of a trunk.
#[derive(Clone, Copy)]
struct Attachment {
    /// Index of the routing target: the node's own vertex, or the router that is its only
    /// neighbour.
    target: u32,
    /// The vertex of this target.
    vertex: u32,
    /// The link direction from the router to the node; [`NOWHERE`] if the target is the node
    /// itself.
    last: u32,
}

/// The number that means "none": no vertex, no link direction, no target.
pub(crate) const NOWHERE: u32 = u32::MAX;

impl Routes {
    pub(crate) fn new(graph: Graph) -> Self {
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut next = Vec::new();
        let attach = |vertex: &u32| {
            if *vertex == NOWHERE {
                return Attachment { target: NOWHERE, vertex: NOWHERE, last: NOWHERE };
            }
            // Hosts at the same router share the router's routing entries.
            let (vertex, last) = match graph.into[index(*vertex)][..] {
                [only] if !graph.is_host[index(graph.ways[index(only)].from)] => {
                    (graph.ways[index(only)].from, only)
                }
                _ => (*vertex, NOWHERE),
            };
            let target = *numbers.entry(vertex).or_insert_with(|| {
                next.push(graph.towards(vertex));
                number(next.len() - 1)
            });
            Attachment { target, vertex, last }
        };
        let ends = graph.ends.iter().map(attach).collect();
        Self { next, ends, vertices: graph.vertices }
    }

    /// The first link direction on the path from the host at node `from` to the host at node `to`.
    pub(crate) fn first(&self, from: u32, to: u32) -> u32 {
        self.next(self.vertices[index(from)], to)
    }

    /// The link direction that packets for node `to` take from `vertex`; [`NOWHERE`] if there is
    /// none.
    #[inline]
    pub(crate) fn next(&self, vertex: u32, to: u32) -> u32 {
        let Attachment { target, vertex: last_vertex, last } = self.ends[index(to)];
        if vertex == last_vertex {
            return last;
        }
        self.next[index(target)][index(vertex)]
    }
}

#[expect(clippy::as_conversions, reason = "u32 fits in usize on every target we build for")]
pub(crate) const fn index(number: u32) -> usize {
    number as usize
}

/// The inverse of [`index`]. Counts in a network stay far below 2^32.
pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tidegate_core::link::LinkConfig;
    use tidegate_core::link::Overhead;
    use tidegate_core::qdisc::QdiscSpec;
    use tidegate_gateway::GatewayConfig;
    use tidegate_gateway::policy::PolicySet;

    use super::*;
    use crate::scenario::{Gateway, Host, Link};

    /// Builds a network. Lower-case letters are hosts, capitals routers, digits gateways. Delays
    /// are in ms.
    fn network(nodes: &str, links: &[(&str, &str, u64)]) -> Scenario {
        let node = |c: char| {
            let kind = match c {
                'a'..='z' => NodeKind::Host(Host::default()),
                'A'..='Z' => NodeKind::Router,
                _ => NodeKind::Gateway(Box::new(gateway())),
            };
            Node { name: c.to_string(), kind }
        };
        let end = |text: &str| match text.split_once('.') {
            Some((node, "lan")) => End { node: node.into(), side: Side::Lan },
            Some((node, _)) => End { node: node.into(), side: Side::Wan },
            None => End::of(text),
        };
        let link = |(a, b, ms): &(&str, &str, u64)| {
            let config = LinkConfig { delay: Duration::from_millis(*ms), ..LinkConfig::default() };
            Link::new(end(a), end(b), config)
        };
        Scenario {
            nodes: nodes.chars().map(node).collect(),
            links: links.iter().map(link).collect(),
            ..Scenario::default()
        }
    }

    fn gateway() -> Gateway {
        let config = GatewayConfig {
            rate: [None, None],
            overhead: Overhead::default(),
            queue: QdiscSpec::DropTail(Default::default()),
            packets: 100,
            flows: 100,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: Vec::new(),
            seed: 0,
            scheduler: Default::default(),
        };
        Gateway { config, policies: PolicySet::default() }
    }

    /// The names of the nodes on the path of a packet; `None` without a path.
    fn path(scenario: &Scenario, from: &str, to: &str) -> Option<String> {
        let (graph, names) = (Graph::new(scenario), names(&scenario.nodes));
        let (mut at, target) = (graph.vertex(names[from], Side::Only, false), names[to]);
        let (vertices, ways) = (graph.vertices.clone(), graph.ways.clone());
        let routes = Routes::new(graph);
        let mut path = from.to_owned();
        while at != vertices[target] {
            let way = routes.next(at, number(target));
            if way == NOWHERE {
                return None;
            }
            at = ways[index(way)].to;
            let node = vertices.partition_point(|vertex| *vertex <= at) - 1;
            path.push_str(&scenario.nodes[node].name);
        }
        Some(path)
    }

    /// Catches: a path with less delay but more links; the last of several equal paths; a path
    /// through a host.
    #[test]
    fn routes_have_the_fewest_links_then_the_least_delay_then_the_first_links() {
        let links = [
            ("a", "A", 9),
            ("A", "B", 9),
            ("B", "b", 9),
            ("a", "C", 1),
            ("C", "D", 1),
            ("D", "E", 1),
            ("E", "b", 1),
        ];
        assert_eq!(path(&network("abABCDE", &links), "a", "b").unwrap(), "aABb");
        let links = [("a", "A", 1), ("A", "b", 9), ("a", "B", 1), ("B", "b", 1)];
        assert_eq!(path(&network("abAB", &links), "a", "b").unwrap(), "aBb");
        let links = [("a", "B", 1), ("B", "b", 1), ("a", "A", 1), ("A", "b", 1)];
        assert_eq!(path(&network("abAB", &links), "a", "b").unwrap(), "aBb");
        let links = [("a", "c", 1), ("c", "b", 1), ("a", "A", 1), ("A", "B", 1), ("B", "b", 1)];
        assert_eq!(path(&network("abcAB", &links), "a", "b").unwrap(), "aABb");
    }

    #[test]
    fn hosts_may_be_linked_directly_and_need_a_path() {
        let network = network("abcd", &[("a", "b", 1), ("c", "d", 1)]);
        assert_eq!(path(&network, "a", "b").unwrap(), "ab");
        assert_eq!(path(&network, "a", "c"), None);
    }

    /// Catches: a gateway with one vertex, inside which packets could turn round.
    #[test]
    fn packets_cross_a_gateway_and_never_return_inside_it() {
        let links = [("a", "1.lan", 1), ("b", "1.lan", 1), ("1.wan", "A", 1), ("A", "c", 1)];
        let network = network("abc1A", &links);
        assert_eq!(path(&network, "a", "c").unwrap(), "a1Ac");
        assert_eq!(path(&network, "c", "b").unwrap(), "cA1b");
        assert_eq!(path(&network, "a", "b").unwrap(), "a1A1b");
    }
}
