//! Flows, and the groups (traffic entries of the scenario) to which they belong.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::packet::{Endpoint, FlowKey, NO_VLAN, Protocol};
use tidegate_core::random::Random;
use tidegate_core::tcp::Config;
use tidegate_core::{Count, Packet, Time, report};

use crate::aggregate::{Aggregate, Sinks};
use crate::draw::stream;
use crate::engine::apps::App;
use crate::histogram::Histogram;
use crate::network::Network;
use crate::routes::{index, names, number};
use crate::scenario::{Host, Kind, Node, NodeKind, Scenario, Start, Traffic};
use crate::stream::SenderCounts;
use crate::udp::Emitter;

/// A flow: its hosts, the state of its source, and its counters.
pub(crate) struct Flow {
    pub(crate) group: u32,
    /// Nodes of the hosts: the sender of the data, then its receiver.
    pub(crate) hosts: [u32; 2],
    /// First link direction on the path of the sender's packets, and on the path of the receiver's.
    pub(crate) first: [u32; 2],
    /// Start time.
    pub(crate) start: Time,
    pub(crate) random: Random,
    /// The UDP source; `None` for TCP.
    pub(crate) datagrams: Option<Box<Datagrams>>,
    /// The state of the TCP application, and the TCP settings of either end.
    pub(crate) app: App,
    pub(crate) configs: [u32; 2],
    pub(crate) counts: Counts,
    /// Counters of its TCP senders, summed over closed connections.
    pub(crate) past: Option<Box<SenderCounts>>,
    /// Counters at the end of the warm-up.
    before: Option<Box<Before>>,
}

/// The UDP source of a flow.
pub(crate) struct Datagrams {
    pub(crate) emitter: Emitter,
    pub(crate) key: FlowKey,
}

/// Counters of a flow and of its senders at the end of the warm-up.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Before {
    pub(crate) counts: Counts,
    pub(crate) senders: SenderCounts,
}

report! {
    /// Counters of a flow.
    #[derive(Copy, Eq)]
    pub(crate) Counts, counted {
        /// Data packets sent.
        sent: Count => { column "sent_packets" of packets, column "sent_bytes" of bytes };
        /// Data packets that arrived.
        received: Count => {
            column "received_packets" of packets,
            column "received_bytes" of bytes,
        };
        /// Payload bytes that the application received, each byte once. For TCP, these are bytes in
        /// order.
        goodput: u64 => { column "goodput_bytes" };
    }
}

/// The flows of one traffic entry of the scenario.
pub(crate) struct Group<'a> {
    pub(crate) traffic: &'a Traffic,
    /// Indexes of the group's flows.
    pub(crate) flows: std::ops::Range<u32>,
    /// Bytes that arrived at its receivers.
    pub(crate) received: u64,
    /// Payload bytes that its applications received, each byte once.
    pub(crate) goodput: u64,
    /// One-way delay of data packets, from host to host.
    pub(crate) delay: Histogram,
    /// Transfers whose connection failed before they were complete.
    pub(crate) failed: u64,
    /// Indexes of two groups: the group whose flows this one forwards as a relay, and the group
    /// that forwards this one's flows.
    pub(crate) relay: [Option<u32>; 2],
    /// How relays forward the flows of this group.
    pub(crate) chain: Chain,
    /// `carrier`: the aggregate gateway at which the group's local connections end. `gateway`: the
    /// aggregate gateway whose aggregate connection this group is.
    pub(crate) carrier: Option<u32>,
    pub(crate) gateway: Option<u32>,
    /// The congestion control of the group needs the mean round-trip time of the whole group.
    pub(crate) shares_rtt: bool,
    /// Sum of the round-trip times in nanoseconds, over those connections that have measured one.
    rtt_sum: u64,
    rtt_count: u64,
}

/// All flows of a scenario, with their settings and gateways.
pub(crate) struct Flows<'a> {
    pub(crate) groups: Vec<Group<'a>>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) hosts: Hosts<'a>,
    /// The TCP settings of all end points.
    pub(crate) configs: Vec<Arc<Config>>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) sinks: Sinks,
}

impl<'a> Group<'a> {
    fn new(traffic: &'a Traffic, flows: std::ops::Range<u32>, shares_rtt: bool) -> Self {
        Self {
            traffic,
            flows,
            received: 0,
            goodput: 0,
            delay: Histogram::default(),
            failed: 0,
            relay: [None; 2],
            chain: Chain::Single,
            carrier: None,
            gateway: None,
            shares_rtt,
            rtt_sum: 0,
            rtt_count: 0,
        }
    }

    /// Indexes of the group's flows, as `usize`.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        index(self.flows.start)..index(self.flows.end)
    }

    /// The mean round-trip time of the group's connections, and the number of connections with a
    /// measurement. `None` unless the congestion control needs them.
    #[inline]
    pub(crate) fn aggregate(&self) -> Option<(Duration, u32)> {
        let mean = self.rtt_sum.checked_div(self.rtt_count)?;
        Some((Duration::from_nanos(mean), u32::try_from(self.rtt_count).unwrap_or(u32::MAX)))
    }

    /// A connection has measured `rtt`. `known` is this connection's present part of the sum; zero
    /// means no measurement.
    pub(crate) fn learn_rtt(&mut self, known: &mut u64, rtt: Duration) {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(0);
        self.rtt_sum = self.rtt_sum + rtt - *known;
        self.rtt_count = self.rtt_count + u64::from(rtt > 0) - u64::from(*known > 0);
        *known = rtt;
    }

    /// A connection has ended. `known` is its part of the sum.
    pub(crate) fn forget_rtt(&mut self, mut known: u64) {
        self.learn_rtt(&mut known, Duration::ZERO);
    }
}

/// Addresses of hosts, and their ports in use.
pub(crate) struct Hosts<'a> {
    nodes: &'a [Node],
    /// The next free port of each node.
    ports: Vec<u16>,
}

/// The first ephemeral port (Linux, `ip_local_port_range`).
const FIRST_PORT: u16 = 32_768;

impl<'a> Flows<'a> {
    /// All flows of a scenario that has passed its check.
    pub(crate) fn new(scenario: &'a Scenario, network: &Network) -> Self {
        let (names, mut hosts) = (names(&scenario.nodes), Hosts::new(scenario));
        let of_group = |it: &Traffic| it.pairs.len() * index(it.flows);
        let mut flows = Vec::with_capacity(scenario.traffic.iter().map(of_group).sum());
        let mut groups = Vec::new();
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
                    // Each TCP connection gets a key of its own when it opens, so only UDP flows
                    // get one here.
                    let datagrams = (!traffic.kind.is_tcp()).then(|| {
                        let key = hosts.key(ends, 0, traffic);
                        Box::new(Datagrams { emitter: Emitter::new(start), key })
                    });
                    flows.push(Flow::new(group, ends, ways, start, random, datagrams, configs));
                }
            }
            let range = first..number(flows.len());
            let sender = flows.last().map(|flow: &Flow| &configs.all[index(flow.configs[0])]);
            let shares_rtt = sender.is_some_and(|sender| {
                sender.congestion.build(sender.details.counting).wants_aggregate()
            });
            groups.push(Group::new(traffic, range, shares_rtt));
        }
        relays(&mut groups);
        let (mut aggregates, mut sinks) = (Vec::new(), Sinks::default());
        for place in 0..groups.len() {
            let Kind::Aggregate { of, .. } = &groups[place].traffic.kind else { continue };
            let gateway = number(aggregates.len());
            let of_group = groups[place].flows.start;
            let flow = &flows[index(of_group)];
            let sink = sinks.add(flow.hosts[1]);
            let tcp = &configs.all[index(flow.configs[0])];
            aggregates.push(Aggregate::new(of_group, sink, groups[place].traffic, tcp));
            groups[place].gateway = Some(gateway);
            let carried = |it: &&mut Group<'_>| of.contains(&it.traffic.name);
            groups.iter_mut().filter(carried).for_each(|it| it.carrier = Some(gateway));
        }
        Self { groups, flows, hosts, configs: configs.all, aggregates, sinks }
    }
}

/// Links the groups of relays with the groups that they forward.
fn relays(groups: &mut [Group<'_>]) {
    for relay in 0..groups.len() {
        let Kind::Relay { of, .. } = &groups[relay].traffic.kind else { continue };
        if let Some(first) = groups.iter().position(|it| it.traffic.name == *of) {
            groups[relay].relay[0] = Some(number(first));
            groups[first].relay[1] = Some(number(relay));
            if groups[first].relay[0].is_none() {
                groups[first].chain = Chain::of(&groups[first].traffic.kind);
            }
            groups[relay].chain = groups[first].chain;
        }
    }
}

/// How relays forward a group's flows over a chain of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Chain {
    /// One connection for one transfer.
    Single,
    /// One connection with many transfers on it.
    Parts,
    /// A new connection for each transfer, opened by the sender of the data.
    Each,
    /// A new connection for each transfer, opened by the receiver of the data (`web`).
    Asks,
}

impl Chain {
    pub(crate) const fn of(kind: &Kind) -> Self {
        match kind {
            Kind::OnOff { reconnect: false, .. } | Kind::Trace { .. } => Self::Parts,
            Kind::OnOff { reconnect: true, .. } | Kind::Arrivals { .. } => Self::Each,
            Kind::Web { .. } => Self::Asks,
            _ => Self::Single,
        }
    }
}

/// All TCP settings: of the run, of hosts with their own settings, and of groups with their own
/// settings.
struct Configs {
    all: Vec<Arc<Config>>,
    /// Index of the settings of each node.
    of_host: Vec<u32>,
}

impl Configs {
    fn new(scenario: &Scenario) -> Self {
        let mut this = Self { all: vec![Arc::new(scenario.run.tcp.clone())], of_host: Vec::new() };
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
        self.all.push(Arc::new(config.clone()));
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
        datagrams: Option<Box<Datagrams>>,
        configs: [u32; 2],
    ) -> Self {
        Self {
            group,
            hosts,
            first,
            start,
            random,
            datagrams,
            app: App::default(),
            configs,
            counts: Counts::default(),
            past: None,
            before: None,
        }
    }

    /// The counters at the end of the warm-up.
    pub(crate) fn before(&self) -> Before {
        self.before.as_deref().copied().unwrap_or_default()
    }

    /// The counters since the end of the warm-up.
    pub(crate) fn counted(&self) -> Counts {
        self.counts - self.before().counts
    }

    /// Ends the warm-up. `senders` are the current counters of the flow's TCP senders.
    pub(crate) fn restart(&mut self, senders: SenderCounts) {
        let before = Before { counts: self.counts, senders };
        self.before = (before != Before::default()).then(|| Box::new(before));
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

impl<'a> Hosts<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        Self { nodes: &scenario.nodes, ports: vec![FIRST_PORT; scenario.nodes.len()] }
    }

    /// The first IPv4 and the first IPv6 address of a host, if it has them.
    fn addresses(&self, node: u32) -> [Option<Endpoint>; 2] {
        let NodeKind::Host(host) = &self.nodes[index(node)].kind else { return [None; 2] };
        let addresses = host.addresses(index(node));
        let v4 = addresses.iter().find(|it| it.is_ipv4());
        let v6 = addresses.iter().find(|it| it.is_ipv6());
        [v4, v6].map(|address| match address? {
            IpAddr::V4(v4) => Some(Endpoint::v4(v4.octets(), 0)),
            IpAddr::V6(v6) => Some(Endpoint::v6(v6.octets(), 0)),
        })
    }

    /// The addresses and ports of a new connection between `ends`, as packets from side 0 to side 1
    /// show them. Side `opener` uses an ephemeral port. The connection uses IPv4 if both ends have
    /// an IPv4 address.
    pub(crate) fn key(&mut self, ends: [u32; 2], opener: usize, traffic: &Traffic) -> FlowKey {
        let [from, to] = ends.map(|node| self.addresses(node));
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

/// A stand-in for the UDP checksum of datagram `number`. Consecutive datagrams get different
/// values, as if their contents differed.
pub(crate) fn checksum(number: u64) -> u16 {
    u16::try_from(number % u64::from(u16::MAX)).unwrap_or(0) + 1
}

/// A UDP packet. `len` is its length in bytes with all headers; `link_header` is the length of the
/// link-layer header.
pub(crate) fn datagram(key: FlowKey, len: u32, link_header: u32, dscp: u8) -> Packet {
    let (network, ip_header) = key.network_header();
    let network_offset = u16::try_from(link_header).unwrap_or(0);
    Packet {
        len,
        cost: len,
        key,
        network_offset,
        transport_offset: network_offset + ip_header,
        vlan: NO_VLAN,
        segments: 1,
        network,
        dscp,
        ..Packet::default()
    }
}
