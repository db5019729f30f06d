//! Which policy of a new set goes on as which policy of the set before.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Filter, Policy, PolicyIndex, PolicySet};

/// Which policy of a new set takes over from which policy of the set before.
///
/// A policy takes over from the one of its name, if both are shared between the same: flows, or hosts. A policy
/// of a new name takes over from one whose name has vanished, if they differ by their names only.
#[derive(Clone, Debug, Default)]
pub struct Succession {
    /// For each policy of the set before, the policy that takes over from it.
    heirs: Vec<Option<PolicyIndex>>,
    /// For each policy of the new set, the policy that it takes over from.
    origins: Vec<Option<PolicyIndex>>,
}

impl Succession {
    /// How `after` goes on from `before`. Takes time in proportion to both.
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

    /// The policy that takes over from `old`, of the set before.
    pub(crate) fn heir(&self, old: PolicyIndex) -> Option<PolicyIndex> {
        *self.heirs.get(old.index())?
    }

    /// The policy of the set before from which `new` takes over.
    pub(crate) fn origin(&self, new: PolicyIndex) -> Option<PolicyIndex> {
        *self.origins.get(new.index())?
    }

    fn pair(&mut self, old: PolicyIndex, new: PolicyIndex) {
        self.heirs[old.index()] = Some(new);
        self.origins[new.index()] = Some(old);
    }

    /// Pairs policies that differ by their names only, those of equal filters in their order.
    fn pair_renamed(&mut self, before: &PolicySet, after: &PolicySet) {
        let mut vanished: HashMap<u64, Vec<PolicyIndex>, FixedState> = HashMap::default();
        // From the last to the first, so that the first is taken first.
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

/// Whether the tokens of both are shared between the same.
fn are_shared_alike(old: &Policy, new: &Policy) -> bool {
    old.action.fair_between() == new.action.fair_between()
}

/// Whether the policies differ by their names only.
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
