//! Children with delay bounds to keep, the tightest first, in constant time.
//!
//! Bounds within one power of two of nanoseconds are alike: they take turns. So that one is found without
//! looking at the others, there is a ring for each such power, and one bit that says whether somebody is in it.
//!
//! Source: doi 10.1016/0166-5316(82)90024-4 (static priorities in the order of the
//! bounds, deadline monotonic). Differs: earliest deadline
//! first meets somewhat tighter bounds, but sorts all that wait.

use std::time::Duration;

use crate::packet::{First, Links, Member};

/// How urgent a delay bound is: the less, the sooner.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Urgency(u8);

impl Urgency {
    /// How urgent what must go within `bound` is.
    pub(super) fn of(bound: Duration) -> Self {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Self(nanos.max(1).ilog2().to_le_bytes()[0])
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Those of one parent.
#[derive(Debug, Default)]
pub(super) struct Urgent {
    /// Which rings have somebody in them.
    busy: u64,
    rings: Vec<First>,
}

impl Urgent {
    /// Whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Member> {
        self.tightest().and_then(|at| self.rings[at.index()].member())
    }

    /// How urgent it is.
    pub(super) fn tightest(&self) -> Option<Urgency> {
        (self.busy != 0).then(|| Urgency(self.busy.trailing_zeros().to_le_bytes()[0]))
    }

    /// Appends `member` to those that are as urgent.
    pub(super) fn join(&mut self, links: &mut Links, member: Member, urgency: Urgency) {
        let at = urgency.index();
        if self.rings.len() <= at {
            self.rings.resize(at + 1, First::NOBODY);
        }
        links.push(&mut self.rings[at], member);
        self.busy |= 1 << at;
    }

    /// Takes `member` out.
    pub(super) fn leave(&mut self, links: &mut Links, member: Member, urgency: Urgency) {
        let Some(ring) = self.rings.get_mut(urgency.index()) else { return };
        links.remove(ring, member);
        if ring.member().is_none() {
            self.busy &= !(1 << urgency.index());
        }
    }
}
