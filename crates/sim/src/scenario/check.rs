//! Finds the errors of a scenario.
//!
//! Methods of `Scenario`, whose fields are in `scenario.rs`.

mod aggregate;
mod change;
mod probe;
mod relay;

use std::collections::HashSet;
use std::fmt::Display;
use std::time::Duration;

use tidegate_core::link::LinkConfig;
use tidegate_core::packet::LEAST_MSS;
use tidegate_core::{Bytes, Rate, tcp, trunk};

use super::{
    Distribution, End, Kind, Node, NodeKind, Pair, Place, Problem, Scenario, Side, Start, Traffic,
    What,
};
use crate::routes::{Graph, NOWHERE, Names, Routes, names, number};

/// Largest number of flows in a scenario.
const MOST_FLOWS: u64 = 10_000_000;

/// Largest number of samples in a series.
const MOST_SAMPLES: u128 = 10_000_000;

/// Longest packet: the largest total length of IPv4.
const LONGEST_PACKET: u32 = 65_535;

/// Longest link-layer header: Ethernet with more tags than any known use.
const LONGEST_HEADER: u32 = 64;

impl Scenario {
    /// Lists all errors. [`Simulation::new`](crate::Simulation::new) accepts a scenario without
    /// errors.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let names = names(&self.nodes);
        let mut check = Check { scenario: self, names, found: Vec::new() };
        check.run();
        check.nodes();
        check.links();
        (0..).zip(&self.traffic).for_each(|(n, traffic)| check.traffic(n, traffic));
        check.groups();
        (0..).zip(&self.probes).for_each(|(n, probe)| check.probe(n, probe));
        (0..).zip(&self.changes).for_each(|(n, change)| check.change(n, change));
        if check.found.is_empty() {
            check.ways();
        }
        if check.found.is_empty() {
            check.adjusters();
        }
        check.found
    }
}

struct Check<'a> {
    scenario: &'a Scenario,
    names: Names<'a>,
    found: Vec<Problem>,
}

impl<'a> Check<'a> {
    fn wrong(&mut self, place: Place, what: What) {
        self.found.push(Problem { place, what });
    }

    fn range(&mut self, place: Place, fits: bool, value: impl Display, expected: impl Display) {
        if !fits {
            let (value, expected) = (value.to_string(), expected.to_string());
            self.wrong(place, What::OutOfRange { value, expected });
        }
    }

    fn run(&mut self) {
        let run = &self.scenario.run;
        if run.duration.is_zero() {
            self.wrong(Place::Run("duration"), What::Zero("simulates nothing"));
        } else if run.warmup >= run.duration {
            let what = "the warm-up takes all of the run; make it shorter than the duration";
            self.wrong(Place::Run("warmup"), What::Contradiction(what));
        }
        let years = "at most 100 years";
        self.range(Place::Run("duration"), run.duration.as_secs() <= 100 * YEAR, "it", years);
        if let Some(step) = run.sample {
            let place = Place::Run("sample");
            if step.is_zero() {
                self.wrong(place, What::Zero("would sample without end"));
            } else {
                let samples = run.duration.as_nanos() / step.as_nanos();
                let most = format!("at most {MOST_SAMPLES} samples in a run");
                self.range(place, samples <= MOST_SAMPLES, samples, most);
            }
        }
        self.tcp(Place::Run("tcp"), &run.tcp);
        let fits = run.link_header <= LONGEST_HEADER;
        let most = format!("at most {LONGEST_HEADER} bytes");
        self.range(Place::Run("link_header"), fits, run.link_header, most);
    }

    fn nodes(&mut self) {
        let (mut seen, mut addresses) = (HashSet::new(), HashSet::new());
        if self.scenario.nodes.is_empty() {
            self.wrong(Place::Node(0, "name"), What::None("a network needs nodes"));
        }
        for (n, node) in self.scenario.nodes.iter().enumerate() {
            let place = Place::Node(n, "name");
            if node.name.is_empty() {
                self.wrong(place, What::NoName);
            } else if !seen.insert(&node.name) {
                self.wrong(place, What::Twice(node.name.clone()));
            }
            match &node.kind {
                NodeKind::Host(host) => {
                    if let Some(config) = &host.tcp {
                        self.tcp(Place::Node(n, "tcp"), config);
                    }
                    for address in host.addresses(n) {
                        if !addresses.insert(address) {
                            let what = What::Twice(address.to_string());
                            self.wrong(Place::Node(n, "addresses"), what);
                        }
                    }
                }
                NodeKind::Gateway(gateway) => {
                    self.buffers(n, gateway.config.packets);
                    if gateway.config.rate.contains(&Some(NOTHING)) {
                        self.wrong(Place::Node(n, "rate"), What::Zero(HOLDS));
                    }
                    self.trunks(n, &gateway.config.trunks);
                    self.guarantees(n, &gateway.config.trunks);
                }
                NodeKind::Cloud(cloud) => {
                    self.buffers(n, cloud.packets);
                    cloud.routes.iter().for_each(|route| {
                        self.link_config(&route.link, |field| Place::Node(n, field));
                    });
                }
                NodeKind::Router => {}
            }
        }
    }

    /// Checks that the peer of each trunk is a gateway with a trunk back to this one.
    fn trunks(&mut self, node: usize, trunks: &[trunk::Config]) {
        let scenario = self.scenario;
        for trunk in trunks {
            let mut all = scenario.nodes.iter().flat_map(Node::trunks);
            if !all.any(|it| it.is_other_end_of(trunk)) {
                let (kind, name) = ("gateway with the other end of trunk", trunk.name.clone());
                self.wrong(Place::Node(node, "trunk"), What::Unknown { kind, name });
            }
        }
    }

    /// Checks that the trunks' guarantees together do not exceed the rate of the gateway's WAN
    /// link.
    fn guarantees(&mut self, node: usize, trunks: &[trunk::Config]) {
        let name = &self.scenario.nodes[node].name;
        let wan = |end: &End| end.node == *name && end.side == Side::Wan;
        let ways = self.scenario.links.iter().flat_map(|link| link.ways());
        let rate = ways.filter(|(way, _)| wan(&way.from)).find_map(|(_, link)| link.rate);
        let all = trunks.iter().filter_map(|trunk| trunk.guarantee);
        let all = Rate::from_bps(all.map(Rate::bps).fold(0, u64::saturating_add));
        if let Some(rate) = rate.filter(|rate| all > *rate) {
            let value = format!("the guarantee of all trunks together, {all},");
            let expected = format!("the link at `{name}.wan` carries {rate}");
            self.range(Place::Node(node, "trunk"), false, value, expected);
        }
    }

    fn buffers(&mut self, node: usize, packets: u32) {
        if packets == 0 {
            self.wrong(Place::Node(node, "packets"), What::Zero("would drop every packet"));
        }
        let most = format!("at most {MOST_BUFFERS} buffers");
        self.range(Place::Node(node, "packets"), packets <= MOST_BUFFERS, packets, most);
    }

    fn links(&mut self) {
        let mut seen = HashSet::new();
        for (n, link) in self.scenario.links.iter().enumerate() {
            for (field, end) in [("a", &link.a), ("b", &link.b)] {
                self.end(Place::Link(n, field), end);
            }
            if link.a.node == link.b.node {
                self.wrong(Place::Link(n, "b"), What::Loop(link.a.node.clone()));
            }
            if link.forward.is_none() && link.back.is_none() {
                let what = What::None("a link needs at least one direction");
                self.wrong(Place::Link(n, "forward"), what);
            }
            for (way, config) in link.ways() {
                let field = if way.from == link.a { "forward" } else { "back" };
                if way.from != way.to && !seen.insert(way.clone()) {
                    self.wrong(Place::Link(n, field), What::SecondLink(way.to_string()));
                }
                self.link_config(config, |field| Place::Link(n, field));
            }
        }
        self.ports();
    }

    /// Checks that each port of a cloud has at most one link.
    fn ports(&mut self) {
        let mut seen = HashSet::new();
        for (n, link) in self.scenario.links.iter().enumerate() {
            for (field, end) in [("a", &link.a), ("b", &link.b)] {
                if matches!(end.side, Side::Port(_)) && !seen.insert(end) {
                    self.wrong(Place::Link(n, field), What::Twice(end.to_string()));
                }
            }
        }
    }

    fn link_config(&mut self, config: &LinkConfig, place: impl Fn(&'static str) -> Place) {
        if config.rate == Some(NOTHING) {
            self.wrong(place("rate"), What::Zero(HOLDS));
        }
        let fits = config.delay.as_secs() <= YEAR;
        self.range(place("delay"), fits, "the delay", "at most a year");
    }

    fn end(&mut self, place: Place, end: &End) {
        let Some(node) = self.names.get(end.node.as_str()) else {
            let what = What::Unknown { kind: "node", name: end.node.clone() };
            return self.wrong(place, what);
        };
        let (fits, expected) = match (&self.scenario.nodes[*node].kind, end.side) {
            (NodeKind::Host(_) | NodeKind::Router, side) => {
                (side == Side::Only, "hosts and routers have no sides: write the name alone")
            }
            (NodeKind::Gateway(_), side) => {
                (matches!(side, Side::Lan | Side::Wan), "say which side of the gateway: lan or wan")
            }
            (NodeKind::Cloud(cloud), Side::Port(port)) => (
                usize::from(port) < cloud.ports.len(),
                "a cloud has only the ports in its configuration",
            ),
            (NodeKind::Cloud(_), _) => (false, "say which port of the cloud"),
        };
        if !fits {
            self.wrong(place, What::NoSuchSide { end: end.to_string(), expected });
        }
    }

    fn groups(&mut self) {
        let mut seen = HashSet::new();
        let mut flows = 0_u64;
        for (n, traffic) in self.scenario.traffic.iter().enumerate() {
            if traffic.name.is_empty() {
                self.wrong(Place::Traffic(n, "name"), What::NoName);
            } else if !seen.insert(&traffic.name) {
                self.wrong(Place::Traffic(n, "name"), What::Twice(traffic.name.clone()));
            }
            flows += u64::from(traffic.flows) * u64::from(number(traffic.pairs.len()));
        }
        let most = format!("at most {MOST_FLOWS} flows");
        self.range(Place::Traffic(0, "flows"), flows <= MOST_FLOWS, flows, most);
    }

    fn traffic(&mut self, n: usize, traffic: &Traffic) {
        let place = |field| Place::Traffic(n, field);
        if traffic.pairs.is_empty() {
            self.wrong(place("pairs"), What::None("name at least one sender and one receiver"));
        }
        if traffic.flows == 0 {
            self.wrong(place("flows"), What::Zero("sends nothing; leave the traffic out"));
        }
        self.range(place("dscp"), traffic.dscp < 64, traffic.dscp, "0 to 63");
        for Pair { from, to } in &traffic.pairs {
            self.host(place("from"), from);
            self.host(place("to"), to);
            if from == to {
                self.wrong(place("to"), What::Loop(from.clone()));
            }
        }
        let begins = match traffic.start {
            Start::At(at) => at,
            Start::Between(first, last) => {
                if last < first {
                    let what = "the first time is after the last; swap the two times";
                    self.wrong(place("start"), What::Contradiction(what));
                }
                first
            }
        };
        if traffic.stop.is_some_and(|stop| stop <= begins) {
            let what = "it stops before it starts; make `stop` later than `start`";
            self.wrong(place("stop"), What::Contradiction(what));
        }
        if let Some(config) = &traffic.tcp {
            self.tcp(place("tcp"), config);
        }
        self.kind(&traffic.kind, place);
        self.relay(n, traffic);
        self.aggregate(n, traffic);
    }

    fn tcp(&mut self, place: Place, config: &tcp::Config) {
        let (mss, window) = (config.mss, config.receive_window);
        let least = format!("segments have at least {LEAST_MSS} bytes");
        self.range(place, mss >= LEAST_MSS, mss, least);
        let fits = (Bytes(mss.into())..=LARGEST_WINDOW).contains(&window);
        self.range(place, fits, window, "a window takes one segment to 1023 MiB");
        let scale = config.window_scale.unwrap_or(0);
        self.range(place, scale <= 14, scale, "a window scale is at most 14");
        if config.details.initial_window == 0 || config.details.ack_every == 0 {
            let what = What::Zero("lets no connection begin: see `initial_window`, `ack_every`");
            self.wrong(place, what);
        }
    }

    fn host(&mut self, place: Place, name: &str) {
        let node = self.names.get(name).map(|node| &self.scenario.nodes[*node].kind);
        if !matches!(node, Some(NodeKind::Host(_))) {
            self.wrong(place, What::Unknown { kind: "host", name: name.to_owned() });
        }
    }

    fn kind(&mut self, kind: &Kind, place: impl Fn(&'static str) -> Place + Copy) {
        match kind {
            Kind::Greedy | Kind::Relay { .. } | Kind::Aggregate { .. } => {}
            Kind::File { size } => self.size(place("size"), size),
            Kind::OnOff { burst, pause, .. } => {
                self.size(place("burst"), burst);
                self.drawn(place("pause"), pause, |pause| pause.is_zero(), false);
            }
            Kind::Web { request, answer, think } => {
                self.size(place("request"), request);
                self.size(place("answer"), answer);
                self.drawn(place("think"), think, |think| think.is_zero(), false);
            }
            Kind::Arrivals { every, size } => {
                if every.is_zero() {
                    self.wrong(
                        place("every"),
                        What::Zero("would start endlessly many files at once"),
                    );
                }
                self.size(place("size"), size);
            }
            Kind::Constant { rate, packet } => self.sender(*rate, *packet, place),
            Kind::Bursts { rate, packet, on, off } => {
                self.sender(*rate, *packet, place);
                self.drawn(place("on"), on, |on| on.is_zero(), true);
                self.drawn(place("off"), off, |off| off.is_zero(), false);
            }
            Kind::Trace { writes } => {
                self.in_order(place("writes"), writes.iter().map(|(at, _)| *at));
                if writes.iter().any(|(_, bytes)| *bytes == Bytes::ZERO) {
                    self.wrong(place("writes"), What::Zero("writes nothing; leave the line out"));
                }
            }
            Kind::Packets { packets } => {
                self.in_order(place("packets"), packets.iter().map(|(at, _)| *at));
                packets.iter().for_each(|(_, len)| self.packet(place("packets"), *len));
            }
        }
    }

    fn in_order(&mut self, place: Place, times: impl Iterator<Item = Duration>) {
        if !times.is_sorted() {
            let what = "the times are not in order; sort them";
            self.wrong(place, What::Contradiction(what));
        }
    }

    fn size(&mut self, place: Place, size: &Distribution<Bytes>) {
        self.drawn(place, size, |bytes| bytes.0 == 0, true);
    }

    fn drawn<T: Copy + PartialOrd>(
        &mut self,
        place: Place,
        distribution: &Distribution<T>,
        is_zero: impl Fn(T) -> bool,
        positive: bool,
    ) {
        match *distribution {
            Distribution::Uniform(least, most) if most < least => {
                let what = "the smallest value is above the largest; swap them";
                self.wrong(place, What::Contradiction(what));
            }
            Distribution::Pareto(_, shape) => {
                let fits = shape > 1.0 && shape <= 1_000.0;
                self.range(place, fits, shape, "the shape is above 1, at most 1000");
            }
            Distribution::Weibull(_, shape) => {
                let fits = (0.1..=1_000.0).contains(&shape);
                self.range(place, fits, shape, "the shape is 0.1 to 1000");
            }
            _ => {}
        }
        // A random distribution needs a mean above zero. To draw zero always, a scenario uses a
        // constant.
        let constant =
            matches!(distribution, Distribution::Constant(_) | Distribution::Uniform(..));
        if (positive || !constant) && distribution.parameters().any(is_zero) {
            self.wrong(place, What::Zero("makes every drawn value zero"));
        }
    }

    fn sender(&mut self, rate: Rate, len: u32, place: impl Fn(&'static str) -> Place) {
        if rate.bps() == 0 {
            self.wrong(place("rate"), What::Zero("never sends"));
        }
        self.packet(place("packet"), len);
    }

    fn packet(&mut self, place: Place, len: u32) {
        let header = self.scenario.run.link_header;
        let (least, most) = (header + UDP_HEADERS, header + LONGEST_PACKET);
        let fits = (least..=most).contains(&len);
        self.range(place, fits, len, format!("{least} to {most} bytes, headers included"));
    }

    /// Checks that packets can reach their destinations. Call it only if there are no other errors.
    fn ways(&mut self) {
        let routes = Routes::new(Graph::new(self.scenario));
        let mut known = HashSet::new();
        for (n, traffic) in self.scenario.traffic.iter().enumerate() {
            for Pair { from, to } in &traffic.pairs {
                let both = traffic.kind.is_tcp();
                for (field, from, to, asked) in [("to", from, to, true), ("from", to, from, both)] {
                    if !asked || !known.insert((from, to)) {
                        continue;
                    }
                    let [start, end] = [from, to].map(|it| number(self.names[it.as_str()]));
                    if routes.first(start, end) == NOWHERE {
                        let what = What::NoRoute { from: from.clone(), to: to.clone() };
                        self.wrong(Place::Traffic(n, field), what);
                    }
                }
            }
        }
    }
}

/// Largest receive window: 65,535 bytes scaled by 2^14, rounded (RFC 7323, section 2.3).
const LARGEST_WINDOW: Bytes = Bytes((1 << 30) - 1);

/// Seconds in a year, leap or not.
const YEAR: u64 = 366 * 24 * 3_600;

/// Largest number of packet buffers of a gateway or a cloud: some gigabytes of descriptors.
const MOST_BUFFERS: u32 = 1 << 24;

/// Bytes of an IPv6 and a UDP header (RFC 8200, RFC 768), so either IP version fits.
const UDP_HEADERS: u32 = 48;

const NOTHING: Rate = Rate::from_bps(0);

const HOLDS: &str = "would hold every packet forever";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Host, Link, Probe};

    /// Two hosts with a router in between. Host `a` sends a file to `b`.
    fn scenario() -> Scenario {
        let node = |name: &str, kind| Node { name: name.to_owned(), kind };
        let host = || NodeKind::Host(Host::default());
        let link = |a, b| Link::new(End::of(a), End::of(b), LinkConfig::default());
        let pair = Pair { from: "a".into(), to: "b".into() };
        let traffic = Traffic { name: "file".into(), pairs: vec![pair], ..Traffic::default() };
        Scenario {
            nodes: vec![node("a", host()), node("r", NodeKind::Router), node("b", host())],
            links: vec![link("a", "r"), link("r", "b")],
            traffic: vec![traffic],
            ..Scenario::default()
        }
    }

    type Change = fn(&mut Scenario);

    fn back(scenario: &mut Scenario) -> &mut LinkConfig {
        std::sync::Arc::make_mut(scenario.links[0].back.as_mut().unwrap())
    }

    /// The errors of [`scenario`] after `change`, one in each line.
    fn said(change: impl FnOnce(&mut Scenario)) -> String {
        let mut scenario = scenario();
        change(&mut scenario);
        let found = scenario.check();
        found.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_valid_scenario_has_no_errors() {
        assert_eq!(said(|_| {}), "");
    }

    #[test]
    fn each_error_is_reported_at_its_field() {
        let cases: [(Change, &str); 19] = [
            (|it| it.run.duration = Duration::ZERO, "run.duration: it is zero"),
            (|it| it.run.warmup = it.run.duration, "run.warmup: the warm-up takes all"),
            (|it| it.run.sample = Some(Duration::ZERO), "run.sample: it is zero"),
            (|it| it.run.sample = Some(Duration::from_nanos(1)), "run.sample: 10000000000 is out"),
            (|it| it.nodes[1].name = "a".into(), "nodes[1].name: `a` is used twice"),
            (|it| it.links[1].a.node = "q".into(), "links[1].a: there is no node `q`"),
            (|it| it.links[1].a.side = Side::Lan, "links[1].a: `r.lan` is no place"),
            (|it| it.links[1].b.node = "r".into(), "links[1].b: `r` is at both ends"),
            (|it| it.links.push(it.links[0].clone()), "links[2].forward: a second link leads"),
            (|it| back(it).rate = Some(NOTHING), "links[0].rate: it is"),
            (|it| it.traffic[0].pairs[0].to = "r".into(), "traffic[0].to: there is no host `r`"),
            (|it| it.traffic[0].pairs.clear(), "traffic[0].pairs: there are none"),
            (|it| it.traffic[0].flows = 0, "traffic[0].flows: it is zero"),
            (|it| it.traffic[0].dscp = 64, "traffic[0].dscp: 64 is out of range"),
            (|it| it.traffic.push(it.traffic[0].clone()), "traffic[1].name: `file` is used twice"),
            (|it| it.traffic[0].stop = Some(Duration::ZERO), "traffic[0].stop: it stops before"),
            (|it| it.run.tcp.receive_window = Bytes(99), "run.tcp: 99 B is out of range: a window"),
            (
                |it| {
                    let size = Distribution::Pareto(Bytes(9), 1.0);
                    it.traffic[0].kind = Kind::File { size };
                },
                "traffic[0].size: 1 is out of range",
            ),
            (
                |it| it.probes.push(Probe::Throughput { traffic: "files".into() }),
                "probes[0].traffic: there is no traffic `files`",
            ),
        ];
        for (change, expected) in cases {
            let said = said(change);
            assert!(said.starts_with(expected), "{expected}: {said}");
        }
    }

    #[test]
    fn a_packet_needs_a_path_and_tcp_also_a_path_back() {
        let one_way = |it: &mut Scenario| it.links[0].back = None;
        assert!(said(one_way).starts_with("traffic[0].from: no links lead from `b` to `a`"));
        let (rate, packet) = (Rate::from_mbps(1), 500);
        let udp = said(|it| {
            one_way(it);
            it.traffic[0].kind = Kind::Constant { rate, packet };
        });
        assert_eq!(udp, "");
        let cut = said(|it| it.links.truncate(1));
        assert!(cut.starts_with("traffic[0].to: no links lead from `a` to `b`"), "{cut}");
    }
}
