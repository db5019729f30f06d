//! Succession: when a new policy set replaces the previous one, a policy may take over the state of a previous policy.
//!
//! The state consists of tokens, counters, queued packets and held ACKs.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Filter, Policy, PolicyIndex, PolicySet};

/// Pairs of policies: a policy of the previous set, and the policy of the new set that takes over
/// its tokens, counters, queued packets and held ACKs.
///
/// A policy takes over from the previous policy with the same name, if both share their profile
/// between the same units (flows or hosts). A renamed policy also takes over. A policy is renamed
/// if its name is new, the previous name has disappeared, and the two policies differ in their
/// names only.
#[derive(Clone, Debug, Default)]
pub struct Succession {
    /// For each policy of the previous set, its successor in the new set.
    heirs: Vec<Option<PolicyIndex>>,
    /// For each policy of the new set, its predecessor in the previous set.
    origins: Vec<Option<PolicyIndex>>,
}

impl Succession {
    /// Pairs the policies of `before` and `after`, in time proportional to their number.
    #[must_use]
    pub fn new(before: &PolicySet, after: &PolicySet) -> Self {
        let mut it = Self {
            heirs: vec![None; before.policies().len()],
            origins: vec![None; after.policies().len()],
        };
        for (at, policy) in after.iter() {
            let earlier = before.find(&policy.name).and_then(|at| Some((at, before.get(at)?)));
            if let Some((old, _)) = earlier.filter(|(_, old)| are_shared_alike(old, policy)) {
                it.pair(old, at);
            }
        }
        it.pair_renamed(before, after);
        it
    }

    /// The policy of the new set that takes over from `old`.
    pub(crate) fn heir(&self, old: PolicyIndex) -> Option<PolicyIndex> {
        *self.heirs.get(old.index())?
    }

    /// The policy of the previous set from which `new` takes over.
    pub(crate) fn origin(&self, new: PolicyIndex) -> Option<PolicyIndex> {
        *self.origins.get(new.index())?
    }

    fn pair(&mut self, old: PolicyIndex, new: PolicyIndex) {
        self.heirs[old.index()] = Some(new);
        self.origins[new.index()] = Some(old);
    }

    /// Pairs renamed policies. If several of them are equal except for their names, they are paired in their order.
    fn pair_renamed(&mut self, before: &PolicySet, after: &PolicySet) {
        let mut vanished: HashMap<u64, Vec<PolicyIndex>, FixedState> = HashMap::default();
        // Filled in reverse order and searched from the end, so that the first policy is found first.
        for (at, policy) in before.iter().rev() {
            if after.find(&policy.name).is_none() {
                vanished.entry(hash(&policy.filter)).or_default().push(at);
            }
        }
        for (new, policy) in after.iter() {
            if before.find(&policy.name).is_some() {
                continue;
            }
            let Some(alike) = vanished.get_mut(&hash(&policy.filter)) else { continue };
            let is_same =
                |old: &PolicyIndex| before.get(*old).is_some_and(|it| renames(it, policy));
            if let Some(found) = alike.iter().rposition(is_same) {
                self.pair(alike.remove(found), new);
            }
        }
    }
}

/// Returns `true` if both policies share their profile between the same units.
fn are_shared_alike(old: &Policy, new: &Policy) -> bool {
    old.action.fair_between() == new.action.fair_between()
}

/// Returns `true` if the policies differ in their names only.
fn renames(old: &Policy, new: &Policy) -> bool {
    let Policy { name: _, priority, filter, action, mode, class, trunk } = old;
    (*priority, *mode) == (new.priority, new.mode)
        && (class, trunk) == (&new.class, &new.trunk)
        && *filter == new.filter
        && *action == new.action
}

fn hash(filter: &Filter) -> u64 {
    FixedState::default().hash_one(filter)
}
