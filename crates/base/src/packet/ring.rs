//! Rings: lists whose members take turns, such as the flows of a round robin. A ring contains indices of one kind `I`.

use std::marker::PhantomData;

use super::{Index, make_room, slot};

/// A ring of members, each at most once. The first member has the turn.
pub type Ring<I> = Rings<I, 1>;

/// `N` rings that share their links. A member is in at most one ring. Every operation takes
/// constant time.
#[derive(Clone, Debug)]
pub struct Rings<I, const N: usize> {
    links: Links<I>,
    first: [First<I>; N],
}

/// The first member of a ring, or [`NOBODY`](Self::NOBODY). In a ring, the last member precedes the
/// first.
#[derive(Clone, Copy, Debug)]
pub struct First<I>(u32, PhantomData<I>);

/// The links of members in any number of rings. The caller stores the [`First`] of each ring. A
/// member is in at most one ring.
#[derive(Clone, Debug)]
pub struct Links<I>(Vec<Link>, PhantomData<I>);

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The next member. [`NIL`] for a member that is in no ring.
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;

impl<I: Index> Ring<I> {
    /// Appends `member` unless it is in the ring. Returns `true` if it was appended.
    #[inline]
    pub fn push(&mut self, member: I) -> bool {
        self.push_to(0, member)
    }

    /// The member whose turn it is.
    #[inline]
    pub fn first(&self) -> Option<I> {
        self.first_of(0)
    }

    /// Removes the first member.
    #[inline]
    pub fn pop(&mut self) {
        if let Some(member) = self.first() {
            self.remove(member);
        }
    }

    /// Ends the turn of the first member, which becomes the last.
    #[inline]
    pub fn rotate(&mut self) {
        self.rotate_in(0);
    }

    /// Removes `member`. Returns `true` if the ring contained it.
    #[inline]
    pub fn remove(&mut self, member: I) -> bool {
        self.links.remove(&mut self.first[0], member)
    }
}

impl<I: Index, const N: usize> Rings<I, N> {
    /// Appends `member` to a ring unless it is in some ring. Returns `true` if it was appended.
    #[inline]
    pub fn push_to(&mut self, ring: usize, member: I) -> bool {
        self.links.push(&mut self.first[ring], member)
    }

    /// The member whose turn it is in a ring.
    #[inline]
    pub fn first_of(&self, ring: usize) -> Option<I> {
        self.first[ring].member()
    }

    /// Returns `true` if `ring` contains no other member than `member`.
    #[inline]
    pub fn is_empty_but(&self, ring: usize, member: I) -> bool {
        self.links.is_empty_but(self.first[ring], member)
    }

    /// Ends the turn of a ring's first member, which becomes the last.
    #[inline]
    pub fn rotate_in(&mut self, ring: usize) {
        self.links.rotate(&mut self.first[ring]);
    }

    /// Removes `member` from `ring`, if it is in this ring. It must not be in another ring.
    #[inline]
    pub fn remove_from(&mut self, ring: usize, member: I) {
        self.links.remove(&mut self.first[ring], member);
    }
}

impl<I: Index> First<I> {
    /// An empty ring.
    pub const NOBODY: Self = Self(NIL, PhantomData);

    /// The member whose turn it is.
    #[inline]
    pub fn member(self) -> Option<I> {
        (self.0 != NIL).then(|| I::from_number(self.0))
    }
}

impl<I: Index> Default for First<I> {
    fn default() -> Self {
        Self::NOBODY
    }
}

impl<I> Default for Links<I> {
    fn default() -> Self {
        Self(Vec::new(), PhantomData)
    }
}

impl<I: Index> Links<I> {
    /// Appends `member` to the ring of `first` unless it is in some ring. Returns `true` if it was
    /// appended.
    #[inline]
    pub fn push(&mut self, first: &mut First<I>, member: I) -> bool {
        let links = &mut self.0;
        make_room(links, slot(member.number()), Link { next: NIL, previous: NIL });
        if links[slot(member.number())].next != NIL {
            return false;
        }
        if first.0 == NIL {
            first.0 = member.number();
            links[slot(member.number())] =
                Link { next: member.number(), previous: member.number() };
            return true;
        }
        let last = std::mem::replace(&mut links[slot(first.0)].previous, member.number());
        links[slot(last)].next = member.number();
        links[slot(member.number())] = Link { next: first.0, previous: last };
        true
    }

    /// Returns `true` if the ring of `first` contains no other member than `member`.
    #[inline]
    fn is_empty_but(&self, first: First<I>, member: I) -> bool {
        first.0 == NIL
            || (first.0 == member.number() && self.0[slot(first.0)].next == member.number())
    }

    /// Ends the turn of the ring's first member, which becomes the last.
    #[inline]
    pub fn rotate(&self, first: &mut First<I>) {
        if let Some(link) = self.0.get(slot(first.0)) {
            first.0 = link.next;
        }
    }

    /// Removes `member` from the ring of `first`. Returns `true` if the ring contained it. It must
    /// not be in another ring.
    #[inline]
    pub fn remove(&mut self, first: &mut First<I>, member: I) -> bool {
        let inside = self.0.get_mut(slot(member.number())).filter(|link| link.next != NIL);
        let Some(link) = inside else { return false };
        let Link { next, previous } = std::mem::replace(link, Link { next: NIL, previous: NIL });
        if next == member.number() {
            first.0 = NIL;
            return true;
        }
        self.0[slot(previous)].next = next;
        self.0[slot(next)].previous = previous;
        if first.0 == member.number() {
            first.0 = next;
        }
        true
    }
}

impl<I: Index, const N: usize> Default for Rings<I, N> {
    #[inline]
    fn default() -> Self {
        Self { links: Links::default(), first: [First::NOBODY; N] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowIndex;

    #[test]
    fn members_take_turns_and_each_can_be_removed_at_any_time() {
        let mut ring = Ring::default();
        for number in [4, 2, 7, 9] {
            assert!(ring.push(FlowIndex(number)) && !ring.push(FlowIndex(number)));
        }
        ring.rotate();
        ring.remove(FlowIndex(7));
        ring.remove(FlowIndex(4)); // the last member
        ring.remove(FlowIndex(3)); // never inside
        assert!(ring.push(FlowIndex(7)));
        for number in [2, 9, 7] {
            assert_eq!(ring.first(), Some(FlowIndex(number)));
            ring.rotate();
            ring.remove(FlowIndex(number));
        }
        assert_eq!(ring.first(), None);
    }
}
