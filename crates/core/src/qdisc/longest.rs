//! Which flow has most waiting, to within a factor of two.

use crate::Bytes;
use crate::packet::{Member, make_room};

/// Members in lists by the power of two their backlog reaches.
///
/// Finding a longest one and changing a backlog take the same time for any number of members.
#[derive(Debug)]
pub(super) struct Longest {
    /// First member of each list: list `k` holds backlogs from `2^(k-1)` to `2^k - 1` bytes.
    first: [u32; CLASSES],
    /// Bit `k` says whether list `k` has members.
    used: u64,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    class: u32,
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;
const CLASSES: usize = 64;
const OUTSIDE: Node = Node { class: 0, next: NIL, previous: NIL };

impl Default for Longest {
    fn default() -> Self {
        Self { first: [NIL; CLASSES], used: 0, nodes: Vec::new() }
    }
}

impl Longest {
    /// `member` now has `backlog` waiting.
    pub(super) fn set(&mut self, member: Member, backlog: Bytes) {
        let class = (u64::BITS - backlog.0.leading_zeros()).min(63);
        make_room(&mut self.nodes, member.index(), OUTSIDE);
        if self.nodes[member.index()].class != class {
            self.remove(member);
            self.insert(member, class);
        }
    }

    /// A member with a longest backlog; `None` if nobody has any.
    pub(super) fn member(&self) -> Option<Member> {
        let class = self.used.checked_ilog2()?;
        Some(Member(self.first[index(class)]))
    }

    fn insert(&mut self, member: Member, class: u32) {
        if class == 0 {
            return;
        }
        let next = std::mem::replace(&mut self.first[index(class)], member.0);
        if next != NIL {
            self.nodes[Member(next).index()].previous = member.0;
        }
        self.nodes[member.index()] = Node { class, next, previous: NIL };
        self.used |= 1 << class;
    }

    fn remove(&mut self, member: Member) {
        let Node { class, next, previous } = self.nodes[member.index()];
        if class == 0 {
            return;
        }
        if next != NIL {
            self.nodes[Member(next).index()].previous = previous;
        }
        if previous != NIL {
            self.nodes[Member(previous).index()].next = next;
        } else {
            self.first[index(class)] = next;
            if next == NIL {
                self.used &= !(1 << class);
            }
        }
        self.nodes[member.index()] = OUTSIDE;
    }
}

const fn index(class: u32) -> usize {
    Member(class).index()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Kills: forgetting to clear `used`; comparing classes with `<=` instead of `!=`.
        #[test]
        fn nobody_has_twice_as_much_as_the_one_it_names(
            changes in prop::collection::vec((0u32..6, 0u64..5_000), 1..100),
        ) {
            let mut longest = Longest::default();
            let mut backlog = [0u64; 6];
            for (member, bytes) in changes {
                longest.set(Member(member), Bytes(bytes));
                backlog[Member(member).index()] = bytes;
                let most = *backlog.iter().max().unwrap();
                match longest.member() {
                    Some(named) => prop_assert!(2 * backlog[named.index()] > most),
                    None => prop_assert_eq!(most, 0),
                }
            }
        }
    }
}
