//! Succession: the policies of a new set that take over from policies of the previous set.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Filter, Policy, PolicyIndex, PolicySet};

/// Pairs of policies of the previous and the new set.
///
/// A policy takes over from the previous policy of its name, if both share their tokens between the same
/// units: flows, or hosts. A policy of a new name takes over from a policy whose name has vanished, if they
/// differ by their names only.
#[derive(Clone, Debug, Default)]
pub struct Succession {
    /// For each policy of the previous set, the policy that takes over from it.
    heirs: Vec<Option<PolicyIndex>>,
    /// For each policy of the new set, the policy that it takes over from.
    origins: Vec<Option<PolicyIndex>>,
}

impl Succession {
    /// The succession from `before` to `after`. Takes time in proportion to the policies of both.
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

    /// The policy that takes over from `old`, of the previous set.
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

    /// Pairs policies that differ by their names only. Policies with equal filters are paired in their order.
    fn pair_renamed(&mut self, before: &PolicySet, after: &PolicySet) {
        let mut vanished: HashMap<u64, Vec<PolicyIndex>, FixedState> = HashMap::default();
        // In reverse order, so that the first policy is popped first.
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

/// Returns `true` if both policies share their tokens between the same units.
fn are_shared_alike(old: &Policy, new: &Policy) -> bool {
    old.action.fair_between() == new.action.fair_between()
}

/// Returns `true` if the policies differ by their names only.
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
