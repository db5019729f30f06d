//! Finds the flow with the largest backlog in constant time, to within a factor of two.
//!
//! List `k` contains the flows with a backlog from `2^(k-1)` to `2^k - 1` bytes. Any flow of the
//! highest list that is not empty has more than half of the largest backlog.

use crate::Bytes;
use std::marker::PhantomData;

use crate::packet::{Index, make_room, slot};

/// The lists of all flows.
#[derive(Debug, Default)]
pub(super) struct Longest<I> {
    heads: BacklogLists,
    places: ListLinks<I>,
}

/// Lists for many groups of flows. A group is, for example, a host with its flows. A flow is in at
/// most one group.
///
/// A group has lists only while it has a backlog, because the lists take more memory than all other
/// state of an idle group.
#[derive(Debug, Default)]
pub(super) struct Groups<I> {
    heads: Vec<BacklogLists>,
    /// Indices of lists that belong to no group now.
    free: Vec<u32>,
    places: ListLinks<I>,
}

/// A group of [`Groups`]: the index of its lists, while it has a backlog.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Group(Option<u32>);

/// List heads for one group.
#[derive(Clone, Debug)]
struct BacklogLists {
    /// For each list, the index of its first flow.
    first: [u32; CLASSES],
    /// Bit `k` is set if list `k` contains flows.
    used: u64,
}

/// The links of flows in the lists of all groups. A flow is in at most one list.
#[derive(Debug, Default)]
struct ListLinks<I>(Vec<ListNode>, PhantomData<I>);

#[derive(Clone, Copy, Debug)]
struct ListNode {
    class: u32,
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;

/// Number of lists. The last list contains all backlogs from 8 GiB on.
const CLASSES: usize = 35;
const LAST: u32 = 34;
const OUTSIDE: ListNode = ListNode { class: 0, next: NIL, previous: NIL };

impl<I: Index> Longest<I> {
    /// Sets the backlog of the flow `member`.
    pub(super) fn set(&mut self, member: I, backlog: Bytes) {
        self.places.set(&mut self.heads, member, backlog);
    }

    /// A flow with the largest backlog, to within a factor of two. `None` without any backlog.
    pub(super) fn member(&self) -> Option<I> {
        self.heads.first()
    }
}

impl<I: Index> Groups<I> {
    /// Sets the backlog of the flow `member` of `group`. A flow without backlog may then appear in
    /// another group.
    pub(super) fn set(&mut self, group: &mut Group, member: I, backlog: Bytes) {
        let at = match group.0 {
            Some(at) => at,
            None if backlog == Bytes::ZERO => return,
            None => *group.0.insert(self.lists()),
        };
        let heads = &mut self.heads[slot(at)];
        self.places.set(heads, member, backlog);
        if heads.used == 0 {
            self.free.push(at);
            group.0 = None;
        }
    }

    /// Takes the index of empty lists.
    fn lists(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let at = u32::try_from(self.heads.len()).unwrap_or(NIL);
            self.heads.push(BacklogLists::default());
            at
        })
    }

    /// A flow of `group` with the largest backlog, to within a factor of two. `None` without any
    /// backlog.
    pub(super) fn member(&self, group: Group) -> Option<I> {
        self.heads[slot(group.0?)].first()
    }
}

impl Default for BacklogLists {
    fn default() -> Self {
        Self { first: [NIL; CLASSES], used: 0 }
    }
}

impl BacklogLists {
    /// A flow with the largest backlog, to within a factor of two. `None` without any backlog.
    fn first<I: Index>(&self) -> Option<I> {
        let class = self.used.checked_ilog2()?;
        Some(I::from_number(self.first[slot(class)]))
    }
}

impl<I: Index> ListLinks<I> {
    /// Sets the backlog of the flow `member` in the lists `heads`. A flow without backlog may then
    /// appear in another group's lists.
    fn set(&mut self, heads: &mut BacklogLists, member: I, backlog: Bytes) {
        let class = (u64::BITS - backlog.0.leading_zeros()).min(LAST);
        make_room(&mut self.0, slot(member.number()), OUTSIDE);
        if self.0[slot(member.number())].class != class {
            self.remove(heads, member);
            self.insert(heads, member, class);
        }
    }

    fn insert(&mut self, heads: &mut BacklogLists, member: I, class: u32) {
        if class == 0 {
            return;
        }
        let next = std::mem::replace(&mut heads.first[slot(class)], member.number());
        if next != NIL {
            self.0[slot(next)].previous = member.number();
        }
        self.0[slot(member.number())] = ListNode { class, next, previous: NIL };
        heads.used |= 1 << class;
    }

    fn remove(&mut self, heads: &mut BacklogLists, member: I) {
        let ListNode { class, next, previous } = self.0[slot(member.number())];
        if class == 0 {
            return;
        }
        if next != NIL {
            self.0[slot(next)].previous = previous;
        }
        if previous != NIL {
            self.0[slot(previous)].next = next;
        } else {
            heads.first[slot(class)] = next;
            if next == NIL {
                heads.used &= !(1 << class);
            }
        }
        self.0[slot(member.number())] = OUTSIDE;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::QueueIndex;

    proptest! {
        /// Catches: a bit in `used` that stays set for an empty list; a flow that does not move to
        /// a lower list when its backlog falls.
        #[test]
        fn no_flow_has_twice_the_backlog_of_the_returned_flow(
            changes in prop::collection::vec((0u32..6, 0u64..5_000), 1..100),
        ) {
            let mut longest = Longest::<QueueIndex>::default();
            let mut backlog = [0u64; 6];
            for (member, bytes) in changes {
                longest.set(QueueIndex(member), Bytes(bytes));
                backlog[QueueIndex(member).index()] = bytes;
                let most = *backlog.iter().max().unwrap();
                match longest.member() {
                    Some(named) => prop_assert!(2 * backlog[named.index()] > most),
                    None => prop_assert_eq!(most, 0),
                }
            }
        }

        /// Catches: an idle group that keeps its lists; lists that two groups use at once.
        #[test]
        fn each_group_has_a_longest_flow_and_lists_only_while_it_has_a_backlog(
            changes in prop::collection::vec((0u32..9, 0u64..3_000), 1..100),
        ) {
            let (mut groups, mut each) = (Groups::<QueueIndex>::default(), [Group::default(); 3]);
            let mut backlog = [0u64; 9];
            let mut most_at_once = 0;
            for (member, bytes) in changes {
                let bytes = bytes.saturating_sub(1_500);
                groups.set(&mut each[slot(member % 3)], QueueIndex(member), Bytes(bytes));
                backlog[slot(member)] = bytes;
                let mut busy = 0;
                for (at, group) in each.iter().enumerate() {
                    let of_group = backlog.iter().skip(at).step_by(3);
                    let most = of_group.copied().max().unwrap();
                    busy += usize::from(most > 0);
                    let named = groups.member(*group).map(|it| it.index());
                    prop_assert_eq!(named.is_some(), most > 0);
                    prop_assert!(named.is_none_or(|it| it % 3 == at && 2 * backlog[it] > most));
                }
                most_at_once = most_at_once.max(busy);
                prop_assert_eq!(groups.heads.len(), most_at_once);
            }
        }
    }
}
