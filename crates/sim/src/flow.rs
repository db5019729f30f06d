//! Flows, and the groups they belong to.

use std::time::Duration;

use tidegate_core::packet::{Endpoint, FlowKey, NO_VLAN, Network as Family, Protocol};
use tidegate_core::random::Random;
use tidegate_core::report::Count;
use tidegate_core::tcp::Config;
use tidegate_core::{Packet, Time};

use crate::draw::stream;
use crate::engine::apps::App;
use crate::histogram::Histogram;
use crate::network::Network;
use crate::routes::{index, names, number};
use crate::scenario::{Host, NodeKind, Scenario, Start, Traffic};
use crate::stream::SenderCounts;
use crate::udp::Emitter;

/// One flow: from whom to whom, what it sends next, and what arrived.
pub(crate) struct Flow {
    pub(crate) group: u32,
    /// Nodes of the hosts: who sends the data, who receives it.
    pub(crate) hosts: [u32; 2],
    /// The ways their packets begin with.
    pub(crate) first: [u32; 2],
    /// When it begins.
    pub(crate) start: Time,
    pub(crate) random: Random,
    pub(crate) emitter: Emitter,
    /// The key of its packets, of UDP; of TCP each connection has its own.
    pub(crate) key: FlowKey,
    /// The application above it, of TCP, and the settings of either side.
    pub(crate) app: App,
    pub(crate) configs: [u32; 2],
    pub(crate) counts: Counts,
    /// What its senders counted on connections that are no more.
    pub(crate) past: SenderCounts,
    /// The same as `counts`, and of all senders, when figures began to be taken.
    pub(crate) before: Counts,
    pub(crate) senders_before: SenderCounts,
}

/// What is counted of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Packets with data its sender sent.
    pub(crate) sent: Count,
    /// Of these, those that arrived.
    pub(crate) received: Count,
    /// Bytes of payload, each counted once, in order where that matters.
    pub(crate) goodput: u64,
}

/// A group of flows.
pub(crate) struct Group<'a> {
    pub(crate) traffic: &'a Traffic,
    /// The numbers of its flows.
    pub(crate) flows: std::ops::Range<u32>,
    /// Bytes that arrived at its receivers.
    pub(crate) received: u64,
    /// How long packets with data took from host to host.
    pub(crate) delay: Histogram,
    /// Transfers whose connection ended before all was there.
    pub(crate) failed: u64,
    /// Its congestion controls want to know the mean round-trip time of all.
    pub(crate) shares_rtt: bool,
    /// The sum of the round-trip times of its connections that have measured one, in nanoseconds.
    rtt_sum: u64,
    rtt_count: u64,
}

/// All flows of a scenario, and what they use.
pub(crate) struct Flows<'a> {
    pub(crate) groups: Vec<Group<'a>>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) hosts: Hosts,
    /// What there is of settings for end points.
    pub(crate) configs: Vec<Config>,
}

impl<'a> Group<'a> {
    fn new(traffic: &'a Traffic, flows: std::ops::Range<u32>, shares_rtt: bool) -> Self {
        Self {
            traffic,
            flows,
            received: 0,
            delay: Histogram::default(),
            failed: 0,
            shares_rtt,
            rtt_sum: 0,
            rtt_count: 0,
        }
    }

    /// The places of its flows.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        index(self.flows.start)..index(self.flows.end)
    }

    /// The mean round-trip time of its connections, and how many have measured one; only where
    /// their congestion controls want to know.
    #[inline]
    pub(crate) fn aggregate(&self) -> Option<(Duration, u32)> {
        let mean = self.rtt_sum.checked_div(self.rtt_count)?;
        Some((Duration::from_nanos(mean), u32::try_from(self.rtt_count).unwrap_or(u32::MAX)))
    }

    /// A connection has measured `rtt`, and `known` before; zero is not to have measured any.
    pub(crate) fn learn_rtt(&mut self, known: &mut u64, rtt: Duration) {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(0);
        self.rtt_sum = self.rtt_sum + rtt - *known;
        self.rtt_count = self.rtt_count + u64::from(rtt > 0) - u64::from(*known > 0);
        *known = rtt;
    }

    /// A connection that has measured `known` is no more.
    pub(crate) fn forget_rtt(&mut self, mut known: u64) {
        self.learn_rtt(&mut known, Duration::ZERO);
    }
}

/// Who there is at which address, and which ports are taken.
pub(crate) struct Hosts {
    /// By node: an IPv4 and an IPv6 address, where it has them.
    addresses: Vec<[Option<Endpoint>; 2]>,
    /// By node, the next port a flow may begin at.
    ports: Vec<u16>,
}

/// The first port that hosts choose themselves.
///
/// Source: Linux, `ip_local_port_range`.
const FIRST_PORT: u16 = 32_768;

impl<'a> Flows<'a> {
    /// All flows of a scenario that has passed its check.
    pub(crate) fn new(scenario: &'a Scenario, network: &Network) -> Self {
        let (names, mut hosts) = (names(&scenario.nodes), Hosts::new(scenario));
        let (mut groups, mut flows) = (Vec::new(), Vec::new());
        let mut configs = Configs::new(scenario);
        for (group, traffic) in (0..).zip(&scenario.traffic) {
            let first = number(flows.len());
            let of_group = traffic.tcp.as_ref().map(|config| configs.add(config));
            for pair in &traffic.pairs {
                let ends = [&pair.from, &pair.to].map(|name| number(names[name.as_str()]));
                let [from, to] = ends;
                let ways = [network.first_way(from, to), network.first_way(to, from)];
                let configs =
                    ends.map(|end| of_group.unwrap_or_else(|| configs.of_host[index(end)]));
                for _ in 0..traffic.flows {
                    let place = u64::from(number(flows.len()) - first);
                    let stream = stream("flow", &traffic.name, place);
                    let mut random = Random::new(scenario.run.seed, stream);
                    let start = start(traffic.start, &mut random);
                    // Of TCP each connection has a key of its own.
                    let tcp = traffic.kind.is_tcp();
                    let key = if tcp { FlowKey::default() } else { hosts.key(ends, 0, traffic) };
                    flows.push(Flow::new(group, ends, ways, start, random, key, configs));
                }
            }
            let range = first..number(flows.len());
            let control = flows.last().map(|flow: &Flow| flow.configs[0]);
            let control = control.map(|config| configs.all[index(config)].congestion.name());
            let shares_rtt = control == Some(AGGREGATE_FAIR);
            groups.push(Group::new(traffic, range, shares_rtt));
        }
        Self { groups, flows, hosts, configs: configs.all }
    }
}

/// The congestion control that wants to know the mean round-trip time of its group.
const AGGREGATE_FAIR: &str = "aggregate-fair";

/// Settings of end points, each once: those of the run, of hosts, and of groups.
struct Configs {
    all: Vec<Config>,
    /// By node.
    of_host: Vec<u32>,
}

impl Configs {
    fn new(scenario: &Scenario) -> Self {
        let mut this = Self { all: vec![scenario.run.tcp.clone()], of_host: Vec::new() };
        for node in &scenario.nodes {
            let config = match &node.kind {
                NodeKind::Host(Host { tcp: Some(config), .. }) => this.add(config),
                _ => 0,
            };
            this.of_host.push(config);
        }
        this
    }

    fn add(&mut self, config: &Config) -> u32 {
        self.all.push(config.clone());
        number(self.all.len() - 1)
    }
}

impl Flow {
    fn new(
        group: u32,
        hosts: [u32; 2],
        first: [u32; 2],
        start: Time,
        random: Random,
        key: FlowKey,
        configs: [u32; 2],
    ) -> Self {
        Self {
            group,
            hosts,
            first,
            start,
            random,
            emitter: Emitter::new(start),
            key,
            app: App::default(),
            configs,
            counts: Counts::default(),
            past: SenderCounts::default(),
            before: Counts::default(),
            senders_before: SenderCounts::default(),
        }
    }
}

fn start(start: Start, random: &mut Random) -> Time {
    let at = match start {
        Start::At(at) => at,
        Start::Between(first, last) => {
            let span = u64::try_from((last - first).as_nanos()).unwrap_or(u64::MAX);
            first + Duration::from_nanos(random.below(span.saturating_add(1)))
        }
    };
    Time::ZERO + at
}

impl Hosts {
    fn new(scenario: &Scenario) -> Self {
        let of = |(node, place): (usize, &crate::scenario::Node)| {
            let NodeKind::Host(host) = &place.kind else { return [None; 2] };
            let endpoint = |address| match address {
                std::net::IpAddr::V4(v4) => Endpoint::v4(v4.octets(), 0),
                std::net::IpAddr::V6(v6) => Endpoint::v6(v6.octets(), 0),
            };
            let addresses = host.addresses(node);
            let v4 = addresses.iter().find(|it| it.is_ipv4());
            let v6 = addresses.iter().find(|it| it.is_ipv6());
            [v4, v6].map(|address| address.copied().map(endpoint))
        };
        let nodes = &scenario.nodes;
        let ports = vec![FIRST_PORT; nodes.len()];
        Self { addresses: nodes.iter().enumerate().map(of).collect(), ports }
    }

    /// The key of what the side `opener` opens between `ends`, from side 0 to side 1: of IPv4 if both
    /// have it.
    pub(crate) fn key(&mut self, ends: [u32; 2], opener: usize, traffic: &Traffic) -> FlowKey {
        let [from, to] = ends.map(|node| self.addresses[index(node)]);
        let pairs = from.into_iter().zip(to).filter_map(|(from, to)| Some((from?, to?)));
        let (mut src, mut dst) = pairs.into_iter().next().unwrap_or_default();
        let (own, well_known) = (self.port(ends[opener]), traffic.port);
        (src.port, dst.port) = if opener == 0 { (own, well_known) } else { (well_known, own) };
        let protocol = if traffic.kind.is_tcp() { Protocol::TCP } else { Protocol::UDP };
        FlowKey { src, dst, protocol }
    }

    fn port(&mut self, node: u32) -> u16 {
        let next = &mut self.ports[index(node)];
        let port = *next;
        *next = port.checked_add(1).unwrap_or(FIRST_PORT);
        port
    }
}

/// A packet of UDP of `len` bytes with all headers, the first of which has `link_header`.
pub(crate) fn datagram(key: FlowKey, len: u32, link_header: u32, dscp: u8) -> Packet {
    let (family, ip_header) = family(&key);
    let network_offset = u16::try_from(link_header).unwrap_or(0);
    Packet {
        len,
        cost: len,
        key,
        network_offset,
        transport_offset: network_offset + ip_header,
        vlan: NO_VLAN,
        segments: 1,
        network: family,
        dscp,
        ..Packet::default()
    }
}

/// The version of IP, and the length of its header.
pub(crate) fn family(key: &FlowKey) -> (Family, u16) {
    if key.src.address().is_ipv4() { (Family::Ipv4, 20) } else { (Family::Ipv6, 40) }
}
