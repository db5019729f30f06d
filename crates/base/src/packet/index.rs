//! The two indices of a flow, and the only conversions between them.
//!
//! - An aggregate gives each of its flows a [`FlowIndex`]. Allocations and ACK controls know a flow by it.
//! - A queue keeps the packets of each flow in a list of their own, with a [`QueueIndex`]. A packet carries the index
//!   of the queue that it is in, or enters next, in [`Packet::queue_index`](super::Packet::queue_index).
//!
//! ```text
//! queue of an aggregate:  queue index = flow index                     (in_aggregate, and back: Packet::flow_index)
//! queue of an egress:     queue index = index in the flow table + 1    (at_egress)
//! ```
//!
//! Rings, such as those of a round robin, contain indices of one kind. The compiler refuses a mixture.

use super::{FlowId, slot};

/// An index from zero into lists, such as that of a flow, a host or a class.
pub trait Index: Copy + Eq {
    /// The index with this number.
    fn from_number(number: u32) -> Self;

    /// The index as a number.
    fn number(self) -> u32;
}

/// Index of a flow in its aggregate. Flows that share the tokens of one host have one index. All untracked flows of an
/// aggregate also have one index.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FlowIndex(pub u32);

/// Index of a flow in one queue.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct QueueIndex(pub u32);

impl FlowIndex {
    /// The number as an index into a list.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        slot(self.0)
    }
}

impl QueueIndex {
    /// The index of a flow in the queue of its aggregate: its index in the aggregate.
    #[must_use]
    #[inline]
    pub const fn in_aggregate(flow: FlowIndex) -> Self {
        Self(flow.0)
    }

    /// The index of a flow in each queue of an egress.
    ///
    /// Packets without a flow have the first index, so a queue for a few flows stays small, whatever the size of the
    /// flow table.
    #[must_use]
    #[inline]
    pub const fn at_egress(flow: FlowId) -> Self {
        // `FlowId::NONE` is the largest number, so its successor is zero.
        Self(flow.0.wrapping_add(1))
    }

    /// The number as an index into a list.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        slot(self.0)
    }
}

/// Implements [`Index`] for types with one number.
macro_rules! index {
    ($($kind:ty),*) => {
        $(impl Index for $kind {
            #[inline]
            fn from_number(number: u32) -> Self {
                Self(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        })*
    };
}

index!(FlowIndex, QueueIndex, super::Host, super::ListIndex);

impl Index for u32 {
    #[inline]
    fn from_number(number: u32) -> Self {
        number
    }

    #[inline]
    fn number(self) -> u32 {
        self
    }
}
