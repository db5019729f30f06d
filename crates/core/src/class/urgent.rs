//! Finds the backlogged child with the tightest delay bound, in constant time.
//!
//! Bounds between two powers of two of nanoseconds count as equal, such as 9 ms and 16 ms. Children
//! with equal bounds send in cyclic order. They are in one ring, and a bit shows whether the ring
//! has children.
//!
//! Source: doi 10.1016/0166-5316(82)90024-4 (static priorities in the order of the bounds, deadline
//! monotonic).
//! Differs: earliest deadline first meets somewhat tighter bounds, but sorts all waiting packets.

use std::time::Duration;

use super::ClassId;
use crate::packet::{First, Links};

/// Urgency of a delay bound: the binary logarithm of its nanoseconds. Children with lower values go first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Urgency(u8);

impl Urgency {
    /// The urgency of a delay bound.
    pub(super) fn of(bound: Duration) -> Self {
        let nanos = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Self(nanos.max(1).ilog2().to_le_bytes()[0])
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The urgent children of one parent.
#[derive(Debug, Default)]
pub(super) struct Urgent {
    /// Bit `n` is set if the ring of urgency `n` has children.
    busy: u64,
    rings: Vec<First<ClassId>>,
}

impl Urgent {
    /// The child that sends next.
    #[inline]
    pub(super) fn first(&self) -> Option<ClassId> {
        self.tightest().and_then(|at| self.rings[at.index()].member())
    }

    /// The urgency of the child with the tightest bound.
    pub(super) fn tightest(&self) -> Option<Urgency> {
        (self.busy != 0).then(|| Urgency(self.busy.trailing_zeros().to_le_bytes()[0]))
    }

    /// Appends `member` to the ring of `urgency`.
    pub(super) fn join(&mut self, links: &mut Links<ClassId>, member: ClassId, urgency: Urgency) {
        let at = urgency.index();
        if self.rings.len() <= at {
            self.rings.resize(at + 1, First::NOBODY);
        }
        links.push(&mut self.rings[at], member);
        self.busy |= 1 << at;
    }

    /// Removes `member`.
    pub(super) fn remove(&mut self, links: &mut Links<ClassId>, member: ClassId, urgency: Urgency) {
        let Some(ring) = self.rings.get_mut(urgency.index()) else { return };
        links.remove(ring, member);
        if ring.member().is_none() {
            self.busy &= !(1 << urgency.index());
        }
    }
}
