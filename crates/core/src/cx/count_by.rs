//! Counters by kind, for a fixed set of kinds such as reasons for drops.

use std::marker::PhantomData;
use std::ops::AddAssign;

/// An enum whose variants are counted separately.
pub trait Countable: Copy + 'static {
    /// All variants, in the order of their [`index`](Self::index).
    const ALL: &'static [Self];

    /// Index of the variant in [`ALL`](Self::ALL).
    fn index(self) -> usize;
}

/// Declares an enum of kinds with their names in metrics and reports, and a type with a counter for
/// each.
///
/// ```
/// tidegate_core::countable! {
///     /// Why a letter comes back.
///     pub enum Return, counts Returns {
///         /// The address does not exist.
///         Unknown = "unknown",
///         /// The stamp is missing.
///         Unpaid = "unpaid",
///     }
/// }
/// let mut returns = Returns::default();
/// returns.count(Return::Unpaid);
/// assert_eq!((returns.of(Return::Unpaid), returns.total()), (1, 1));
/// assert_eq!(Return::ALL.map(Return::name), ["unknown", "unpaid"]);
/// ```
#[macro_export]
macro_rules! countable {
    (
        $(#[$about:meta])*
        $vis:vis enum $kinds:ident, counts $counts:ident {
            $($(#[$doc:meta])* $kind:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        $vis enum $kinds {
            $($(#[$doc])* $kind,)+
        }

        impl $kinds {
            /// All variants, in the order of the declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// Name in metrics and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }

        impl $crate::Countable for $kinds {
            const ALL: &'static [Self] = &Self::ALL;

            #[expect(
                clippy::as_conversions,
                reason = "a fieldless enum's discriminant is its index in ALL"
            )]
            fn index(self) -> usize {
                self as usize
            }
        }

        #[doc = concat!("Number of packets by [`", stringify!($kinds), "`].")]
        $vis type $counts = $crate::CountBy<$kinds, { $kinds::ALL.len() }>;
    };
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

impl<K: Countable, const N: usize> FromIterator<(K, u64)> for CountBy<K, N> {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(counts: I) -> Self {
        let mut all = Self::default();
        for (kind, count) in counts {
            all.counts[kind.index()] += count;
            all.total += count;
        }
        all
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
