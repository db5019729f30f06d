//! Policies: a filter of traffic, its rate, and the treatment of packets beyond that rate.

mod classes;
mod filter;
mod index;
pub mod parse;
mod set;
mod succession;

pub use crate::meter::{Profile, ProfileError};
pub use classes::{Class, ClassChange, ClassFault, ClassFaultKind, ClassSet, Ratio};
pub use filter::{Filter, Range, Specificity};
pub use set::{PolicyIndex, PolicySet, PolicySetError};
pub use succession::Succession;

use crate::ack::AckSpec;
use crate::allocation::AllocationSpec;
use crate::marking::MarkingSpec;
use crate::packet::{Direction, Outer, Packet};
use crate::qdisc::QdiscSpec;

/// A rule: what it is for, and what is done with that (RFC 3198: policy rule).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// Its name, unique in its set; metrics and commands call its aggregates by it.
    pub name: String,
    /// The highest wins; then the most specific filter; then the name, in alphabetical order.
    pub priority: i32,
    /// The packets it is for.
    pub filter: Filter,
    /// What is done with them.
    pub action: Action,
    /// Whether it is done, or only reported.
    pub mode: Mode,
    /// The class of the link its packets are of; `None` for the one of packets without a class.
    pub class: Option<String>,
    /// The trunk that its packets from the LAN go through; `None` for the link itself.
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

/// Whether a policy acts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// It acts.
    #[default]
    Enforce,
    /// It classifies, meters and counts, and lets everything pass unchanged.
    Observe,
}

/// What is done with the packets of an aggregate (RFC 2475, section 2.3.3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Nothing; they are counted.
    Pass,
    /// They wait until they conform.
    Shape {
        /// How much conforms, and how that is shared.
        conditioning: Conditioning,
        /// Where they wait.
        queue: QdiscSpec,
        /// How the senders are told by their ACKs, if they are.
        signal: Option<AckSpec>,
    },
    /// They never wait; those in profile go on.
    Police {
        /// How much conforms, and how that is shared.
        conditioning: Conditioning,
        /// What becomes of the others.
        exceed: Exceed,
    },
}

/// What becomes of a packet out of profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exceed {
    /// It is coloured: both kinds get a DS codepoint, and a router further on tells them apart.
    Mark {
        /// DS codepoint of packets in profile; `None` leaves theirs.
        in_profile: Option<u8>,
        /// DS codepoint of packets out of profile.
        out_of_profile: u8,
    },
    /// It is dropped.
    Drop,
}

/// How much conforms, and how that is shared between flows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conditioning {
    /// How much conforms.
    pub profile: Profile,
    /// How it is shared.
    pub allocation: AllocationSpec,
    /// Weights of flows, first match first; a flow that none matches has weight 1.
    pub weights: Vec<FlowWeight>,
    /// Between whom.
    pub fair_between: FairBetween,
}

/// Between whom an aggregate is shared: whose packets count as those of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FairBetween {
    /// Flows, hosts or pairs of hosts.
    pub by: Sharers,
    /// IPv6 addresses with equal first bits, as many as this, are one host.
    pub ipv6: u8,
}

/// What a profile is shared between.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Sharers {
    /// Flows.
    #[default]
    Flow,
    /// Hosts that send, whatever flows they have.
    SourceHost,
    /// Hosts that receive.
    DestinationHost,
    /// Pairs of a host that sends and one that receives.
    Hosts,
}

/// What tells sharers that are not flows apart: addresses, or zero where they do not count.
pub type HostKey = [u128; 2];

impl FairBetween {
    /// Length of an IPv6 address in bits: each address is a host.
    pub const WHOLE_ADDRESS: u8 = 128;

    /// Whose `packet` is; `None` if its flow is told from others by itself.
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
    /// The weight of the flow of `packet`, crossing in `direction` behind the headers `outer`; never zero.
    #[must_use]
    pub fn weight_of(&self, packet: &Packet, outer: Option<&Outer>, direction: Direction) -> u32 {
        let matches = |it: &&FlowWeight| it.filter.matches_inside(packet, outer, direction);
        let matching = self.weights.iter().find(matches);
        matching.map_or(1, |each| each.weight.max(1))
    }
}

impl Action {
    /// How the senders are told by their ACKs, if they are.
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

    /// Between whom what conforms is shared; flows, where senders are told by their ACKs.
    #[must_use]
    pub fn fair_between(&self) -> FairBetween {
        let conditioning = self.conditioning().filter(|_| self.signal().is_none());
        conditioning.map_or_else(FairBetween::default, |conditioning| conditioning.fair_between)
    }

    /// How much conforms and how that is shared, unless everything does.
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
