//! The scenario: the network, its traffic, and the probes.
//!
//! These are plain values; the reader of a scenario (a file, Python, a test) fills in all defaults.
//! Names are unique within their kind, and [`Scenario::check`] finds errors.

mod check;
mod demand;
mod problem;
mod traffic;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::emulator::EmulatorConfig;
use tidegate_core::link::{LinkChange, LinkConfig};
use tidegate_core::packet::Direction;
use tidegate_core::{tcp, trunk};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::PolicySet;

pub use demand::Demand;
pub use problem::{Place, Problem, What};
pub use traffic::{Distribution, Kind, Overflow, Pair, Start, Traffic};

/// A network with its traffic and probes.
///
/// ```
/// use tidegate_core::link::LinkConfig;
/// use tidegate_sim::scenario::{End, Host, Link, Node, NodeKind, Scenario};
///
/// let host = |name: &str| Node { name: name.into(), kind: NodeKind::Host(Host::default()) };
/// let link = |to| Link::new(End::of("a"), End::of(to), LinkConfig::default());
/// let (nodes, links) = (vec![host("a"), host("b")], vec![link("c")]);
/// let scenario = Scenario { nodes, links, ..Scenario::default() };
/// // The link leads to a node that does not exist.
/// assert!(!scenario.check().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Duration, seed and common settings.
    pub run: Run,
    /// Hosts, routers, gateways and clouds.
    pub nodes: Vec<Node>,
    /// The links between nodes.
    pub links: Vec<Link>,
    /// The traffic: groups of flows.
    pub traffic: Vec<Traffic>,
    /// Measurements beyond the counters of every run.
    pub probes: Vec<Probe>,
    /// Links that change during the run, in any order.
    pub changes: Vec<Change>,
}

/// Duration and seed of a run, and its common settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Virtual duration of the run.
    pub duration: Duration,
    /// Warm-up at the beginning, which the results leave out.
    pub warmup: Duration,
    /// Interval between two samples of time series; `None` for no series.
    pub sample: Option<Duration>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Bytes of link-layer header that count in the length of every packet. With 14, a length is
    /// that of the Ethernet frame, as a gateway counts it. With 0, a length is that of the IP
    /// packet, as in papers and ns-2.
    pub link_header: u32,
    /// TCP settings for end points whose host and traffic do not set their own.
    pub tcp: tcp::Config,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            warmup: Duration::ZERO,
            sample: None,
            seed: 1,
            link_header: ETHERNET,
            tcp: tcp::Config::default(),
        }
    }
}

/// Bytes of an Ethernet header (IEEE 802.3, without tags and frame check sequence).
pub const ETHERNET: u32 = 14;

/// A host, router, gateway or cloud.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its unique name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
}

impl Node {
    /// The trunks that end at this node.
    #[must_use]
    pub fn trunks(&self) -> &[trunk::Config] {
        match &self.kind {
            NodeKind::Gateway(gateway) => &gateway.config.trunks,
            NodeKind::Host(_) | NodeKind::Router | NodeKind::Cloud(_) => &[],
        }
    }
}

/// The kinds of nodes.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// An end system.
    Host(Host),
    /// Forwards packets on the shortest path. Queues belong to its links.
    Router,
    /// A gateway between its LAN side and its WAN side.
    Gateway(Box<Gateway>),
    /// A network whose routes have emulated delay, jitter and loss, as in the lab.
    Cloud(Box<EmulatorConfig>),
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Configured addresses. If empty, the host gets one IPv4 and one IPv6 address by its node
    /// number.
    pub addresses: Vec<IpAddr>,
    /// TCP settings of its end points; `None` for the settings of the run.
    pub tcp: Option<Box<tcp::Config>>,
}

impl Host {
    /// The addresses of this host as node `node`: the configured ones, or 10.0.0.1 and fd00::1 for
    /// node 0, and so on.
    #[must_use]
    pub fn addresses(&self, node: usize) -> Vec<IpAddr> {
        if !self.addresses.is_empty() {
            return self.addresses.clone();
        }
        let place = u32::try_from(node).unwrap_or(u32::MAX).saturating_add(1);
        let v4 = Ipv4Addr::from_bits((10 << 24) | (place % (1 << 24)));
        let v6 = Ipv6Addr::from_bits((0xfd00 << 112) | u128::from(place));
        vec![v4.into(), v6.into()]
    }
}

/// A gateway.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its configuration. The run derives `seed` from its own seed.
    pub config: GatewayConfig,
    /// Its policies.
    pub policies: PolicySet,
}

/// A link between two nodes. Each direction has its own queue, rate and delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// One end.
    pub a: End,
    /// The other end.
    pub b: End,
    /// Properties from `a` to `b`; `None` if nothing travels in this direction.
    pub forward: Option<Arc<LinkConfig>>,
    /// Properties from `b` to `a`; `None` if nothing travels in this direction.
    pub back: Option<Arc<LinkConfig>>,
}

/// An end of a link.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct End {
    /// Name of the node.
    pub node: String,
    /// The side of the node.
    pub side: Side,
}

/// A side of a node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// The only side of a host or a router.
    #[default]
    Only,
    /// The side of a gateway towards the hosts that it serves.
    Lan,
    /// The side of a gateway towards the Internet.
    Wan,
    /// The port of a cloud with this number in its configuration.
    Port(u8),
}

impl End {
    /// The only side of a host or a router.
    #[must_use]
    pub fn of(node: impl Into<String>) -> Self {
        Self { node: node.into(), side: Side::Only }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.side {
            Side::Only => f.write_str(&self.node),
            Side::Lan => write!(f, "{}.lan", self.node),
            Side::Wan => write!(f, "{}.wan", self.node),
            Side::Port(port) => write!(f, "{}.{port}", self.node),
        }
    }
}

impl Link {
    /// A link with the same properties in both directions. Many links can share an `Arc` of the
    /// properties.
    #[must_use]
    pub fn new(a: End, b: End, config: impl Into<Arc<LinkConfig>>) -> Self {
        let config = config.into();
        Self { a, b, forward: Some(config.clone()), back: Some(config) }
    }

    /// The directions in which the link carries packets, with their properties.
    pub fn ways(&self) -> impl Iterator<Item = (Way, &LinkConfig)> {
        let way = |from: &End, to: &End| Way { from: from.clone(), to: to.clone() };
        let forward = self.forward.as_deref().map(|config| (way(&self.a, &self.b), config));
        let back = self.back.as_deref().map(|config| (way(&self.b, &self.a), config));
        forward.into_iter().chain(back)
    }
}

/// One direction of a link. At most one link leads from one end to another.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Way {
    /// The end at which packets enter.
    pub from: End,
    /// The end at which packets arrive.
    pub to: End,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.from, self.to)
    }
}

/// A change of one direction of a link during the run.
///
/// Packets that are already on the link arrive at their old times. After a shorter delay, later
/// packets may overtake earlier ones; a link whose jitter keeps the order of packets keeps it here
/// too. The routes, and the ideal shares in the results, remain those of the beginning of the run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Time since the beginning of the run.
    pub at: Duration,
    /// The direction that changes.
    pub way: Way,
    /// Its new rate and delay.
    pub change: LinkChange,
}

/// A measurement beyond the counters of every run. Time series have the interval [`Run::sample`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Probe {
    /// Backlog and delay of a link direction: means, and time series if [`Run::sample`] is set.
    Queue(Way),
    /// Delivered bytes of each flow.
    Throughput {
        /// Name of the traffic.
        traffic: String,
    },
    /// Congestion window, slow-start threshold and round-trip time of flows.
    Window {
        /// Name of the traffic.
        traffic: String,
        /// Indexes of the flows within the traffic, from zero; empty for all.
        flows: Vec<u32>,
    },
    /// The gateway of an aggregate connection: its queue, its weight, and the bytes it has sent.
    Aggregate {
        /// Name of the traffic of the aggregate connection.
        traffic: String,
    },
    /// A capture of the packets that arrive at the far end of a link.
    Capture(Way),
    /// Packets that pass a gateway: delays, drops and marks of each traffic, and time series if
    /// [`Run::sample`] is set.
    Passage {
        /// Name of the gateway.
        gateway: String,
        /// The direction of the packets.
        direction: Direction,
        /// Packets with a longer delay are late.
        bound: Option<Duration>,
        /// Follows the rounds of each flow (one window of data, sent in one round trip) with the
        /// tracker `paper`.
        rounds: bool,
        /// Records the flows that the marking of the link tracks, one row for each interval.
        tracked: bool,
    },
}
