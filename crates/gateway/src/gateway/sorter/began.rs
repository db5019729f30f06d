//! The time since which each policy earns tokens.
//!
//! A policy of the first set begins with the tokens of a whole burst. A policy that comes later begins with the tokens of
//! one frame at that time. Otherwise each change of the policies would admit a burst. If a policy takes over from a
//! former policy, it keeps the time of the former one.
//!
//! The list is filled in steps of bounded length. The time of a policy that is not in the list yet is that of the policy
//! from which it takes over.

use tidegate_core::Time;

use crate::policy::{PolicyIndex, Succession};

/// The list for the policies in force. `None` for a policy of the first set, which begins with a burst.
#[derive(Debug, Default)]
pub(super) struct Began {
    since: Vec<Option<Time>>,
    /// The list of the previous set, until `since` is complete.
    before: Vec<Option<Time>>,
    /// The time of the last swap.
    swapped: Time,
}

/// Policies in a step: some 3,000 instructions.
const PART: usize = 64;

impl Began {
    /// Notes that another set is in force. `list` is empty, with room for each policy of the set.
    pub(super) fn begin(&mut self, now: Time, list: Vec<Option<Time>>) {
        self.before = std::mem::replace(&mut self.since, list);
        self.swapped = now;
    }

    /// The time of `policy`. During a swap, `succession` is that of the swap.
    pub(super) fn of(&self, policy: PolicyIndex, succession: Option<&Succession>) -> Option<Time> {
        match (self.since.get(policy.index()), succession) {
            (Some(since), _) => *since,
            (None, Some(succession)) => self.inherited(policy, succession),
            (None, None) => None,
        }
    }

    /// Adds the next policies of `number` to the list. Returns `true` if more are missing.
    pub(super) fn fill(&mut self, number: usize, succession: Option<&Succession>) -> bool {
        let Some(succession) = succession else { return false };
        let begin = self.since.len();
        for at in (begin..number).take(PART) {
            let since = self.inherited(PolicyIndex(tidegate_core::packet::number(at)), succession);
            self.since.push(since);
        }
        let more = self.since.len() < number;
        if !more {
            self.before = Vec::new();
        }
        more
    }

    fn inherited(&self, policy: PolicyIndex, succession: &Succession) -> Option<Time> {
        match succession.origin(policy) {
            Some(origin) => self.before.get(origin.index()).copied().flatten(),
            None => Some(self.swapped),
        }
    }
}
