//! Counters by kind, for a few known kinds.

use std::marker::PhantomData;
use std::ops::AddAssign;

/// The kinds of a counter.
pub trait Countable: Copy + 'static {
    /// Every kind, each at its [`index`](Self::index).
    const ALL: &'static [Self];

    /// Index of the kind in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// A counter for each of the `N` kinds of `K`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CountBy<K, const N: usize> {
    counts: [u64; N],
    total: u64,
    kind: PhantomData<K>,
}

impl<K: Countable, const N: usize> CountBy<K, N> {
    /// Adds one to the counter of `kind`.
    pub fn count(&mut self, kind: K) {
        self.counts[kind.index()] += 1;
        self.total += 1;
    }

    /// The count of `kind`.
    #[must_use]
    pub fn of(&self, kind: K) -> u64 {
        self.counts[kind.index()]
    }

    /// The sum over all kinds.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        K::ALL.iter().copied().zip(self.counts)
    }
}

impl<K, const N: usize> Default for CountBy<K, N> {
    fn default() -> Self {
        Self { counts: [0; N], total: 0, kind: PhantomData }
    }
}

impl<K, const N: usize> AddAssign for CountBy<K, N> {
    fn add_assign(&mut self, more: Self) {
        self.counts.iter_mut().zip(more.counts).for_each(|(count, more)| *count += more);
        self.total += more.total;
    }
}
