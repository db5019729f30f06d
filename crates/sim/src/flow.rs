//! Flows, and the groups they belong to.

use std::time::Duration;

use tidegate_core::packet::{Endpoint, FlowKey, NO_VLAN, Network as Family, Protocol};
use tidegate_core::random::Random;
use tidegate_core::report::Count;
use tidegate_core::{Packet, Time};

use crate::draw::stream;
use crate::histogram::Histogram;
use crate::network::Network;
use crate::routes::{index, names, number};
use crate::scenario::{NodeKind, Scenario, Start, Traffic};
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
    pub(crate) counts: Counts,
    /// The same, when figures began to be taken.
    pub(crate) before: Counts,
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
pub(crate) struct Group {
    pub(crate) traffic: Traffic,
    /// The numbers of its flows.
    pub(crate) flows: std::ops::Range<u32>,
    /// Bytes that arrived at its receivers.
    pub(crate) received: u64,
    /// How long packets with data took from host to host.
    pub(crate) delay: Histogram,
}

impl Group {
    /// The places of its flows.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        index(self.flows.start)..index(self.flows.end)
    }
}

/// Who there is at which address, and which ports are taken.
struct Hosts {
    /// By node: an IPv4 and an IPv6 address, where it has them.
    addresses: Vec<[Option<Endpoint>; 2]>,
    /// By node, the next port a flow may begin at.
    ports: Vec<u16>,
}

/// The first port that hosts choose themselves.
///
/// Source: Linux, `ip_local_port_range`.
const FIRST_PORT: u16 = 32_768;

/// All flows of a scenario that has passed its check, by group.
pub(crate) fn all(scenario: &Scenario, network: &Network) -> (Vec<Group>, Vec<Flow>) {
    let names = names(&scenario.nodes);
    let mut hosts = Hosts::new(scenario);
    let (mut groups, mut flows) = (Vec::new(), Vec::new());
    for (group, traffic) in (0..).zip(&scenario.traffic) {
        let first = number(flows.len());
        for pair in &traffic.pairs {
            let ends = [&pair.from, &pair.to].map(|name| number(names[name.as_str()]));
            for _ in 0..traffic.flows {
                let place = u64::from(number(flows.len()) - first);
                let mut random =
                    Random::new(scenario.run.seed, stream("flow", &traffic.name, place));
                flows.push(Flow {
                    group,
                    hosts: ends,
                    first: [
                        network.first_way(ends[0], ends[1]),
                        network.first_way(ends[1], ends[0]),
                    ],
                    start: start(traffic.start, &mut random),
                    random,
                    emitter: Emitter::new(Time::ZERO),
                    key: hosts.key(ends, traffic),
                    counts: Counts::default(),
                    before: Counts::default(),
                });
            }
        }
        let range = first..number(flows.len());
        let (traffic, delay) = (traffic.clone(), Histogram::default());
        groups.push(Group { traffic, flows: range, received: 0, delay });
    }
    (groups, flows)
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

    /// The key of the next flow between `ends`: of IPv4 if both have it.
    fn key(&mut self, ends: [u32; 2], traffic: &Traffic) -> FlowKey {
        let [from, to] = ends.map(|node| self.addresses[index(node)]);
        let pairs = from.into_iter().zip(to).filter_map(|(from, to)| Some((from?, to?)));
        let (mut src, mut dst) = pairs.into_iter().next().unwrap_or_default();
        src.port = self.port(ends[0]);
        dst.port = traffic.port;
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
