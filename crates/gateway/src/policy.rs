//! Policies: a policy selects packets with a filter, and limits, shares or marks them with an action.
//!
//! The packets of one policy in one direction are an *aggregate*.

mod classes;
mod filter;
mod index;
pub mod parse;
mod set;
mod succession;

pub use classes::{Class, ClassChange, ClassFault, ClassFaultKind, ClassSet, TermChange};
pub use filter::{Filter, Range, Specificity};
pub use set::{PolicyIndex, PolicySet, PolicySetError};
pub use succession::Succession;
pub use tidegate_core::meter::{Profile, ProfileError};

use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::{Direction, Outer, Packet};
use tidegate_core::qdisc::QdiscSpec;

/// A policy: a filter, and the treatment of the packets that match it (RFC 3198: policy rule).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Name of the policy, unique in its set. Metrics and commands use it for the aggregates of the policy.
    pub name: String,
    /// If several policies match a packet, the one with the highest priority applies. Among equal
    /// priorities, the policy with the most specific filter applies, and then the first name in
    /// alphabetical order.
    pub priority: i32,
    /// Selects the packets of the policy.
    pub filter: Filter,
    /// Treatment of these packets.
    pub action: Action,
    /// `Enforce`: the policy acts. `Observe`: it only reports.
    pub mode: Mode,
    /// Class of the access link for the packets. `None`: the class `default`.
    pub class: Option<String>,
    /// Trunk that carries the packets from the LAN. `None`: no trunk.
    pub trunk: Option<String>,
}

impl Policy {
    /// Returns `true` if the policy drops packets of a protocol or port that its filter names.
    #[must_use]
    pub fn drops_by_name(&self) -> bool {
        let drops = matches!(self.action, Action::Police { exceed: Exceed::Drop, .. });
        drops && self.mode == Mode::Enforce && self.filter.names_protocol()
    }
}

/// The effect of a policy on its packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// The policy treats packets by its action.
    #[default]
    Enforce,
    /// The policy classifies, meters and counts packets, and all packets pass unchanged.
    Observe,
}

/// Treatment of the packets of an aggregate (RFC 2475, section 2.3.3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Packets pass, and are counted.
    Pass,
    /// Shaping: packets wait until they conform to the profile.
    Shape {
        /// Profile, and its allocation to flows or hosts.
        conditioning: Conditioning,
        /// Queue of the packets that wait.
        queue: QdiscSpec,
        /// ACK control, which slows the senders down by holding ACKs or reducing windows. `None`: no ACK control.
        ack_control: Option<AckSpec>,
    },
    /// Policing: packets never wait. Packets in profile pass.
    Police {
        /// Profile, and its allocation to flows or hosts.
        conditioning: Conditioning,
        /// Treatment of packets out of profile.
        exceed: Exceed,
    },
}

/// Treatment of a packet that exceeds the profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exceed {
    /// Packets in profile and out of profile get different DS codepoints, so that routers downstream can treat them
    /// differently.
    Mark {
        /// DS codepoint of packets in profile. `None`: unchanged.
        in_profile: Option<u8>,
        /// DS codepoint of packets out of profile.
        out_of_profile: u8,
    },
    /// The packet is dropped.
    Drop,
}

/// The profile of an aggregate, and the rule that shares it between flows or hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conditioning {
    /// Rate and burst to which the aggregate must conform.
    pub profile: Profile,
    /// Rule that selects the flow or host that sends next.
    pub allocation: AllocationSpec,
    /// Weights of flows. The first entry whose filter matches applies. Other flows have the weight 1.
    pub weights: Vec<FlowWeight>,
    /// Units that share the profile: flows or hosts.
    pub fair_between: FairBetween,
}

/// The units between which the profile of an aggregate is shared. Each unit gets one share.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FairBetween {
    /// Flows, hosts or pairs of hosts.
    pub by: Sharers,
    /// IPv6 addresses with a common prefix of this length count as one host.
    pub ipv6: u8,
}

/// Kind of unit that gets a share of a profile.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sharers {
    /// Each flow.
    #[default]
    Flow,
    /// Each sending host, with all its flows.
    SourceHost,
    /// Each receiving host, with all its flows.
    DestinationHost,
    /// Each pair of a sending and a receiving host.
    Hosts,
}

/// Identity of a host or of a pair of hosts: source and destination address. An irrelevant address
/// is zero.
pub type HostKey = [u128; 2];

impl FairBetween {
    /// Prefix length with which each IPv6 address is a host of its own.
    pub const WHOLE_ADDRESS: u8 = 128;

    /// Identity of the host or pair of hosts of `packet`. `None` if the profile is shared between flows.
    #[must_use]
    pub fn key(self, packet: &Packet) -> Option<HostKey> {
        let ends = [packet.key.src, packet.key.dst];
        let [src, dst] = ends.map(|end| end.prefix(self.ipv6));
        match self.by {
            Sharers::Flow => None,
            Sharers::SourceHost => Some([src, 0]),
            Sharers::DestinationHost => Some([0, dst]),
            Sharers::Hosts => Some([src, dst]),
        }
    }
}

impl From<Sharers> for FairBetween {
    fn from(by: Sharers) -> Self {
        Self { by, ipv6: Self::WHOLE_ADDRESS }
    }
}

impl Default for FairBetween {
    fn default() -> Self {
        Sharers::Flow.into()
    }
}

/// The weight of the flows that a filter matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FlowWeight {
    /// Selects the flows, by packets in the direction of the aggregate.
    pub filter: Filter,
    /// Weight of the matching flows, at least 1.
    pub weight: u32,
}

impl Conditioning {
    /// Weight of the flow of `packet`, at least 1. The packet travels in `direction`, in a tunnel with the headers
    /// `outer`.
    #[must_use]
    pub fn weight_of(&self, packet: &Packet, outer: Option<&Outer>, direction: Direction) -> u32 {
        let matches = |it: &&FlowWeight| it.filter.matches_inside(packet, outer, direction);
        let matching = self.weights.iter().find(matches);
        matching.map_or(1, |each| each.weight.max(1))
    }
}

impl Action {
    /// The ACK control of a shaping action. `None` without ACK control.
    #[must_use]
    pub const fn ack_control(&self) -> Option<&AckSpec> {
        match self {
            Self::Shape { ack_control, .. } => ack_control.as_ref(),
            Self::Pass | Self::Police { .. } => None,
        }
    }

    /// The marking of the queue, if it has one.
    #[must_use]
    pub const fn marking(&self) -> Option<&MarkingSpec> {
        match self {
            Self::Shape { queue, .. } => queue.marking(),
            Self::Pass | Self::Police { .. } => None,
        }
    }

    /// The units that share the profile. With ACK control, these are always flows.
    #[must_use]
    pub fn fair_between(&self) -> FairBetween {
        let conditioning = self.conditioning().filter(|_| self.ack_control().is_none());
        conditioning.map_or_else(FairBetween::default, |conditioning| conditioning.fair_between)
    }

    /// Profile and allocation. `None` for [`Pass`](Self::Pass).
    #[must_use]
    pub const fn conditioning(&self) -> Option<&Conditioning> {
        match self {
            Self::Pass => None,
            Self::Shape { conditioning, .. } | Self::Police { conditioning, .. } => {
                Some(conditioning)
            }
        }
    }
}
