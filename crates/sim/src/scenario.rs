//! What is simulated: the network, who sends, and what is watched.
//!
//! These are plain values with every default filled in; where they come from (a file, Python, a
//! test) is not known here. Names are unique in their kind, and [`Scenario::check`] finds what cannot
//! be.

mod check;
mod demand;
mod problem;
mod traffic;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::emulator::EmulatorConfig;
use tidegate_core::gateway::GatewayConfig;
use tidegate_core::link::{LinkChange, LinkConfig};
use tidegate_core::packet::Direction;
use tidegate_core::policy::PolicySet;
use tidegate_core::{tcp, trunk};

pub use demand::Demand;
pub use problem::{Place, Problem, What};
pub use traffic::{Distribution, Kind, Overflow, Pair, Start, Traffic};

/// A network, its traffic, and what is watched.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// How long, and from what seed.
    pub run: Run,
    /// What there is.
    pub nodes: Vec<Node>,
    /// What connects it.
    pub links: Vec<Link>,
    /// Who sends what to whom.
    pub traffic: Vec<Traffic>,
    /// What is watched beside the counters every run keeps.
    pub probes: Vec<Probe>,
    /// Links that change during the run, in any order.
    pub changes: Vec<Change>,
}

/// How long a run is, and from what seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How much time passes in the network.
    pub duration: Duration,
    /// How much of it passes before figures are taken.
    pub warmup: Duration,
    /// How often series are sampled; `None` keeps no series.
    pub sample: Option<Duration>,
    /// What every random choice derives from.
    pub seed: u64,
    /// Bytes of link-layer header that the length of every packet counts: 14 for Ethernet frames as
    /// a gateway sees them, 0 for lengths from the IP header on, as papers and ns-2 give them.
    pub link_header: u32,
    /// Settings of TCP end points whose host and traffic have none of their own.
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

/// A part of the network that packets begin at, end at, or pass.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is called; unique.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
}

impl Node {
    /// The trunks that end at it.
    #[must_use]
    pub fn trunks(&self) -> &[trunk::Config] {
        match &self.kind {
            NodeKind::Gateway(gateway) => &gateway.config.trunks,
            NodeKind::Host(_) | NodeKind::Router | NodeKind::Cloud(_) => &[],
        }
    }
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Where packets begin and end.
    Host(Host),
    /// Passes packets on the shortest way; what it queues, and how, its links say.
    Router,
    /// A gateway between what is at its LAN side and what is at its WAN side.
    Gateway(Box<Gateway>),
    /// A network of routes, as the lab emulates it.
    Cloud(Box<EmulatorConfig>),
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// What it was given; nothing for one IPv4 and one IPv6 address by its place among the nodes.
    pub addresses: Vec<IpAddr>,
    /// Settings of its TCP end points; `None` for those of the run.
    pub tcp: Option<Box<tcp::Config>>,
}

impl Host {
    /// Its addresses as the node of this number: what it was given, or 10.0.0.1 and fd00::1 for node
    /// 0, and so on.
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
    /// What it is told beside its policies; its `seed` is drawn from that of the run.
    pub config: GatewayConfig,
    /// Its policies.
    pub policies: PolicySet,
}

/// A link between two nodes, each way with its own queue, rate and delay.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// One end.
    pub a: End,
    /// The other end.
    pub b: End,
    /// What it is like from `a` to `b`; `None` if nothing goes that way.
    pub forward: Option<Arc<LinkConfig>>,
    /// What it is like from `b` to `a`; `None` if nothing goes that way.
    pub back: Option<Arc<LinkConfig>>,
}

/// Where a link ends.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct End {
    /// Name of the node.
    pub node: String,
    /// Which side of it.
    pub side: Side,
}

/// A side of a node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// Of a host or a router, which have but one.
    #[default]
    Only,
    /// Of a gateway, towards the hosts it serves.
    Lan,
    /// Of a gateway, towards the Internet.
    Wan,
    /// Of a cloud: the port of this number in its configuration.
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
    /// A link that is the same both ways. Many links can share an `Arc` of what they are like.
    #[must_use]
    pub fn new(a: End, b: End, config: impl Into<Arc<LinkConfig>>) -> Self {
        let config = config.into();
        Self { a, b, forward: Some(config.clone()), back: Some(config) }
    }

    /// The ways there are, each as from where to where, and what it is like.
    pub fn ways(&self) -> impl Iterator<Item = (Way, &LinkConfig)> {
        let way = |from: &End, to: &End| Way { from: from.clone(), to: to.clone() };
        let forward = self.forward.as_deref().map(|config| (way(&self.a, &self.b), config));
        let back = self.back.as_deref().map(|config| (way(&self.b, &self.a), config));
        forward.into_iter().chain(back)
    }
}

/// One way of a link: there is at most one from one end to another.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Way {
    /// Where packets enter it.
    pub from: End,
    /// Where they leave it.
    pub to: End,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.from, self.to)
    }
}

/// A change of one way of a link during the run.
///
/// Packets that are on the link arrive at their old time. After a shorter delay, later packets may overtake them;
/// a link with jitter that keeps packets in order delivers them in order here too. Routes and the ideal shares of
/// results are those of the beginning.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Time since the beginning of the run.
    pub at: Duration,
    /// The way that changes.
    pub way: Way,
    /// Its new rate and delay.
    pub change: LinkChange,
}

/// What is watched beside the counters every run keeps; series have [`Run::sample`] as their step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Probe {
    /// What waits before a link, and how long it takes: the means, and series if there is a step.
    Queue(Way),
    /// What each flow of this traffic delivers.
    Throughput {
        /// Name of the traffic.
        traffic: String,
    },
    /// Congestion window, threshold and round-trip time of flows of this traffic.
    Window {
        /// Name of the traffic.
        traffic: String,
        /// Numbers of the flows, from zero; none for all.
        flows: Vec<u32>,
    },
    /// The gateway of an aggregate connection: its queue, its weight, and the bytes it has sent.
    Aggregate {
        /// Name of the traffic of the aggregate connection.
        traffic: String,
    },
    /// A capture of the packets that arrive at the far end of a link.
    Capture(Way),
    /// Packets that pass a gateway: delays, drops and marks of each traffic, and series if there is a step.
    Passage {
        /// Name of the gateway.
        gateway: String,
        /// The direction of the packets.
        direction: Direction,
        /// Packets inside for longer are late.
        bound: Option<Duration>,
        /// Follows the rounds of each flow with the tracker `paper`.
        rounds: bool,
        /// Records the flows that the marking of the link tracks, interval by interval.
        tracked: bool,
    },
}
