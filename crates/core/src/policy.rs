//! Policies: a filter of traffic, its rate, and the treatment of packets beyond that rate.

mod classes;
mod filter;
mod index;
pub mod parse;
mod set;
mod succession;

pub use crate::meter::{Profile, ProfileError};
pub use classes::{Class, ClassChange, ClassFault, ClassFaultKind, ClassSet, TermChange};
pub use filter::{Filter, Range, Specificity};
pub use set::{PolicyIndex, PolicySet, PolicySetError};
pub use succession::Succession;

use crate::ack::AckSpec;
use crate::allocation::AllocationSpec;
use crate::marking::MarkingSpec;
use crate::packet::{Direction, Outer, Packet};
use crate::qdisc::QdiscSpec;

/// A rule: a filter, and the treatment of its packets (RFC 3198: policy rule).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Its name, unique in its set. Metrics and commands use it for its aggregates.
    pub name: String,
    /// Precedence: the highest priority first, then the most specific filter, then the first name
    /// in alphabetical order.
    pub priority: i32,
    /// The packets that it treats.
    pub filter: Filter,
    /// The treatment.
    pub action: Action,
    /// The policy acts, or only reports.
    pub mode: Mode,
    /// The class of the link for its packets. `None`: the class `default`.
    pub class: Option<String>,
    /// The trunk for its packets from the LAN. `None`: no trunk.
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
    /// The policy acts.
    #[default]
    Enforce,
    /// The policy classifies, meters and counts. All packets pass unchanged.
    Observe,
}

/// Treatment of the packets of an aggregate (RFC 2475, section 2.3.3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Packets pass, and are counted.
    Pass,
    /// Packets wait until they conform.
    Shape {
        /// Profile and allocation.
        conditioning: Conditioning,
        /// The queue.
        queue: QdiscSpec,
        /// ACK control of the senders. `None` for none.
        signal: Option<AckSpec>,
    },
    /// Packets never wait. Packets in profile pass.
    Police {
        /// Profile and allocation.
        conditioning: Conditioning,
        /// Treatment of packets out of profile.
        exceed: Exceed,
    },
}

/// Treatment of a packet out of profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exceed {
    /// Both kinds of packets get a DS codepoint, by which routers downstream distinguish them.
    Mark {
        /// DS codepoint of packets in profile. `None`: unchanged.
        in_profile: Option<u8>,
        /// DS codepoint of packets out of profile.
        out_of_profile: u8,
    },
    /// The packet is dropped.
    Drop,
}

/// The profile, and the rule that shares it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conditioning {
    /// The traffic that conforms.
    pub profile: Profile,
    /// The rule that selects the flow that sends next.
    pub allocation: AllocationSpec,
    /// Weights of flows, first match first. A flow that matches none has weight 1.
    pub weights: Vec<FlowWeight>,
    /// The sharers.
    pub fair_between: FairBetween,
}

/// The sharers of an aggregate. All packets of a sharer share one turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FairBetween {
    /// Flows, hosts or pairs of hosts.
    pub by: Sharers,
    /// Length of the prefix that makes IPv6 addresses one host.
    pub ipv6: u8,
}

/// The kinds of sharers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sharers {
    /// Flows.
    #[default]
    Flow,
    /// Sending hosts, with any number of flows.
    SourceHost,
    /// Receiving hosts.
    DestinationHost,
    /// Pairs of a sending and a receiving host.
    Hosts,
}

/// Identity of a sharer that is not a flow: its addresses, with zero for an address that does not
/// count.
pub type HostKey = [u128; 2];

impl FairBetween {
    /// Length of an IPv6 address in bits: each address is a host.
    pub const WHOLE_ADDRESS: u8 = 128;

    /// The sharer of `packet`. `None` if flows are the sharers.
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

/// The weight of the flows a filter matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FlowWeight {
    /// The flows, matched in the direction of the policy.
    pub filter: Filter,
    /// Their weight, at least 1.
    pub weight: u32,
}

impl Conditioning {
    /// The weight of the flow of `packet`, which travels in `direction` behind the headers `outer`.
    /// Never zero.
    #[must_use]
    pub fn weight_of(&self, packet: &Packet, outer: Option<&Outer>, direction: Direction) -> u32 {
        let matches = |it: &&FlowWeight| it.filter.matches_inside(packet, outer, direction);
        let matching = self.weights.iter().find(matches);
        matching.map_or(1, |each| each.weight.max(1))
    }
}

impl Action {
    /// The ACK control of the senders. `None` for none.
    #[must_use]
    pub const fn signal(&self) -> Option<&AckSpec> {
        match self {
            Self::Shape { signal, .. } => signal.as_ref(),
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

    /// The sharers of the profile. Under ACK control these are always flows.
    #[must_use]
    pub fn fair_between(&self) -> FairBetween {
        let conditioning = self.conditioning().filter(|_| self.signal().is_none());
        conditioning.map_or_else(FairBetween::default, |conditioning| conditioning.fair_between)
    }

    /// Profile and allocation. `None` if all packets conform.
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
