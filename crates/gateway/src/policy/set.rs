//! The set of policies of a gateway: it finds the policy of a packet. A policy selects packets by
//! their header fields and states their treatment.

use std::cmp::Reverse;

use tidegate_core::packet::{Direction, Outer, Packet, number, slot};

use super::index::Index;
use super::{ClassSet, Filter, Policy};

/// Index of a policy in its set, in the order of precedence: if policies 0 and 1 match a packet, policy 0 applies.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PolicyIndex(pub u32);

/// Policies, with an index that finds the policy of a packet.
///
/// If several policies match a packet, the one with the highest priority applies. Among equal
/// priorities, the policy with the most specific filter ([`Filter::specificity`]) applies, and then
/// the first name in alphabetical order.
///
/// Source: `aggregates`, sections 2 and 4.1 (policies and their filters).
/// Differs: the paper defines no order for overlapping policies.
///
/// # Call order
///
/// [`new`](Self::new) sorts the policies and builds the index. A set is immutable afterwards, so any
/// number of threads may read it. [`lookup`](Self::lookup) takes the key, the codepoint and the VLAN
/// from a packet.
///
/// # Time
///
/// A set reads no clock and keeps no state: equal packets have equal policies.
///
/// # Example
///
/// Web traffic has a policy of its own. All other packets belong to the policy without conditions.
///
/// ```
/// use tidegate_core::packet::{Direction, Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_gateway::policy::{Action, Filter, Mode, Policy, PolicySet, PolicySetError, parse};
///
/// let policy = |name: &str, filter| Policy {
///     name: name.to_owned(),
///     priority: 0,
///     filter,
///     action: Action::Pass,
///     mode: Mode::Enforce,
///     class: None,
///     trunk: None,
/// };
/// let to_web = Filter {
///     protocol: vec![parse::protocol("tcp").unwrap()],
///     dst_port: vec![parse::ports("443").unwrap()],
///     ..Filter::default()
/// };
/// let policies = vec![policy("rest", Filter::default()), policy("web", to_web.clone())];
/// let set = PolicySet::new(policies).unwrap();
///
/// let packet_to = |port| {
///     let (src, dst) = (Endpoint::v4([10, 0, 0, 1], 5_000), Endpoint::v4([192, 0, 2, 1], port));
///     let key = FlowKey { src, dst, protocol: Protocol::TCP };
///     Packet { len: 66, key, network: Network::Ipv4, ..Packet::default() }
/// };
/// let name_of = |packet: &Packet| {
///     let index = set.lookup(packet, Direction::Up).unwrap();
///     set.get(index).unwrap().name.as_str()
/// };
/// assert_eq!(name_of(&packet_to(443)), "web");
/// assert_eq!(name_of(&packet_to(22)), "rest");
///
/// // Names are unique.
/// let twice = vec![policy("web", to_web.clone()), policy("web", to_web)];
/// assert!(matches!(PolicySet::new(twice), Err(PolicySetError::Duplicate { .. })));
/// ```
#[derive(Clone, Debug)]
pub struct PolicySet {
    policies: Vec<Policy>,
    /// Indices of the policies, sorted by name.
    by_name: Vec<u32>,
    classes: ClassSet,
    index: Index,
    /// A filter reads the DS codepoint.
    reads_dscp: bool,
    /// A policy has ACK control.
    has_ack_control: bool,
    /// A policy or a class of the link names a queue with a marking.
    has_markings: bool,
}

/// The reason why policies do not form a set.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicySetError {
    /// Two policies have the same name.
    #[error("two policies are called \"{name}\"; give each its own name")]
    Duplicate {
        /// The name.
        name: String,
    },
}

impl PolicySet {
    /// Sorts `policies`, which may be in any order, and builds the index.
    ///
    /// # Errors
    ///
    /// If two policies have the same name.
    pub fn new(mut policies: Vec<Policy>) -> Result<Self, PolicySetError> {
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = policies.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(PolicySetError::Duplicate { name: pair[0].name.clone() });
        }
        // The sort is stable: policies with equal priority and specificity stay in the order of their names.
        policies.sort_by_cached_key(|policy| {
            (Reverse(policy.priority), Reverse(policy.filter.specificity()))
        });
        let filters: Vec<&Filter> = policies.iter().map(|policy| &policy.filter).collect();
        let index = Index::new(&filters);
        let reads_dscp = policies.iter().any(reads_dscp);
        let has_ack_control = policies.iter().any(|policy| policy.action.ack_control().is_some());
        let has_markings = policies.iter().any(|policy| policy.action.marking().is_some());
        let mut by_name: Vec<u32> = (0..).take(policies.len()).collect();
        by_name.sort_unstable_by_key(|at| &policies[slot(*at)].name);
        let classes = ClassSet::default();
        Ok(Self { by_name, policies, classes, index, reads_dscp, has_ack_control, has_markings })
    }

    /// The same policies on a link whose rate these `classes` share.
    #[must_use]
    pub fn with_classes(mut self, classes: ClassSet) -> Self {
        self.share(classes);
        self
    }

    /// Replaces the classes of the link.
    pub(crate) fn share(&mut self, classes: ClassSet) {
        let marks = classes.classes().iter().any(|class| class.queue.marking().is_some());
        self.has_markings |= marks;
        self.classes = classes;
    }

    /// The classes of the link.
    #[must_use]
    pub const fn classes(&self) -> &ClassSet {
        &self.classes
    }

    /// The policy of a `packet` outside of tunnels that crosses the gateway in `direction`. `None` if no policy matches.
    #[must_use]
    pub fn lookup(&self, packet: &Packet, direction: Direction) -> Option<PolicyIndex> {
        self.lookup_inside(packet, None, direction)
    }

    /// The policy of `packet`, which travels in `direction`. `outer` has the outer headers of a packet in a tunnel. `None`
    /// if no policy matches.
    #[must_use]
    pub fn lookup_inside(
        &self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> Option<PolicyIndex> {
        self.index.first(packet, outer, direction).map(PolicyIndex)
    }

    /// Returns `true` if a filter reads the DS codepoint. Packets of one flow may then belong to
    /// different policies.
    #[must_use]
    pub const fn reads_dscp(&self) -> bool {
        self.reads_dscp
    }

    /// Returns `true` if a policy uses ACK control, which slows down senders by their ACKs.
    #[must_use]
    pub const fn has_ack_control(&self) -> bool {
        self.has_ack_control
    }

    /// Returns `true` if the queue of a policy or class may have a marking.
    #[must_use]
    pub const fn has_markings(&self) -> bool {
        self.has_markings
    }

    /// All policies that match `packet`, which is not in a tunnel, in the order of precedence. The time is proportional
    /// to the number of all policies.
    pub fn matching(
        &self,
        packet: &Packet,
        direction: Direction,
    ) -> impl Iterator<Item = PolicyIndex> {
        self.matching_inside(packet, None, direction)
    }

    /// The same as [`matching`](Self::matching), for a packet in a tunnel with the outer headers
    /// `outer`.
    pub fn matching_inside(
        &self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> impl Iterator<Item = PolicyIndex> {
        let matches = move |policy: &Policy| policy.filter.matches_inside(packet, outer, direction);
        self.iter().filter(move |(_, policy)| matches(policy)).map(|(at, _)| at)
    }

    /// The policies, in the order of precedence.
    #[must_use]
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The policies with their indices, in the order of precedence.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (PolicyIndex, &Policy)> {
        let indexed = |(at, policy)| (PolicyIndex(number(at)), policy);
        self.policies.iter().enumerate().map(indexed)
    }

    /// The policy at `index`.
    #[must_use]
    pub fn get(&self, index: PolicyIndex) -> Option<&Policy> {
        self.policies.get(index.index())
    }

    /// The weight that the policy at `index` gives to the flow of `packet`. `outer` has the outer headers of a packet in a
    /// tunnel.
    #[must_use]
    pub fn weight_of(
        &self,
        index: PolicyIndex,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> u32 {
        let conditioning = self.get(index).and_then(|policy| policy.action.conditioning());
        conditioning.map_or(1, |conditioning| conditioning.weight_of(packet, outer, direction))
    }

    /// Index of the policy with this `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PolicyIndex> {
        let name_of = |at: &u32| self.policies[slot(*at)].name.as_str();
        let found = self.by_name.binary_search_by(|at| name_of(at).cmp(name));
        found.ok().map(|found| PolicyIndex(self.by_name[found]))
    }

    /// The first policy that makes the policy at `index` useless: this first policy has precedence,
    /// and its filter matches every packet that the policy at `index` matches (see
    /// [`Filter::covers`]).
    #[must_use]
    pub fn hidden_by(&self, index: PolicyIndex) -> Option<PolicyIndex> {
        let hidden = &self.get(index)?.filter;
        let covers = |at: u32| self.policies[slot(at)].filter.covers(hidden);
        self.index.first_around(index.0, hidden, covers).map(PolicyIndex)
    }

    /// Memory of the index in bytes.
    ///
    /// Each range of each field takes at most about 200 bytes, and one bit for every 8 policies. With ranges in every
    /// field, 10,000 policies take about 8 MB.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.index.memory()
    }
}

fn reads_dscp(policy: &Policy) -> bool {
    let weights = policy.action.conditioning().map_or(&[][..], |it| &it.weights);
    let mut filters = weights.iter().map(|weight| &weight.filter).chain([&policy.filter]);
    filters.any(|filter| !filter.dscp.is_empty())
}

impl PolicyIndex {
    /// The index as `usize`.
    #[must_use]
    pub const fn index(self) -> usize {
        slot(self.0)
    }
}

impl Default for PolicySet {
    /// A set without policies.
    fn default() -> Self {
        let index = Index::new(&[]);
        Self {
            policies: Vec::new(),
            by_name: Vec::new(),
            classes: ClassSet::default(),
            index,
            reads_dscp: false,
            has_ack_control: false,
            has_markings: false,
        }
    }
}
