//! Rings: lists whose members take turns, such as the flows of a round robin.

use super::{Member, make_room, slot};

/// A ring of members, each at most once. The first member has the turn.
pub type Ring = Rings<1>;

/// `N` rings that share their links. A member is in at most one ring. Every operation takes
/// constant time.
#[derive(Clone, Debug)]
pub struct Rings<const N: usize> {
    links: Links,
    first: [First; N],
}

/// The first member of a ring, or [`NOBODY`](Self::NOBODY). In a ring, the last member precedes the
/// first.
#[derive(Clone, Copy, Debug)]
pub struct First(u32);

/// The links of members in any number of rings. The caller stores the [`First`] of each ring. A
/// member is in at most one ring.
#[derive(Clone, Debug, Default)]
pub struct Links(Vec<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    /// The next member. [`NIL`] for a member that is in no ring.
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;

impl Ring {
    /// Appends `member` unless it is in the ring. Returns `true` if it was appended.
    #[inline]
    pub fn push(&mut self, member: Member) -> bool {
        self.push_to(0, member)
    }

    /// The member whose turn it is.
    #[inline]
    pub fn first(&self) -> Option<Member> {
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
    pub fn remove(&mut self, member: Member) -> bool {
        self.links.remove(&mut self.first[0], member)
    }
}

impl<const N: usize> Rings<N> {
    /// Appends `member` to a ring unless it is in some ring. Returns `true` if it was appended.
    #[inline]
    pub fn push_to(&mut self, ring: usize, member: Member) -> bool {
        self.links.push(&mut self.first[ring], member)
    }

    /// The member whose turn it is in a ring.
    #[inline]
    pub fn first_of(&self, ring: usize) -> Option<Member> {
        self.first[ring].member()
    }

    /// Returns `true` if `ring` contains no other member than `member`.
    #[inline]
    pub fn is_empty_but(&self, ring: usize, member: Member) -> bool {
        self.links.is_empty_but(self.first[ring], member)
    }

    /// Ends the turn of a ring's first member, which becomes the last.
    #[inline]
    pub fn rotate_in(&mut self, ring: usize) {
        self.links.rotate(&mut self.first[ring]);
    }

    /// Removes `member` from `ring`, if it is in this ring. It must not be in another ring.
    #[inline]
    pub fn remove_from(&mut self, ring: usize, member: Member) {
        self.links.remove(&mut self.first[ring], member);
    }
}

impl First {
    /// An empty ring.
    pub const NOBODY: Self = Self(NIL);

    /// The member whose turn it is.
    #[inline]
    pub fn member(self) -> Option<Member> {
        (self.0 != NIL).then_some(Member(self.0))
    }
}

impl Default for First {
    fn default() -> Self {
        Self::NOBODY
    }
}

impl Links {
    /// Appends `member` to the ring of `first` unless it is in some ring. Returns `true` if it was
    /// appended.
    #[inline]
    pub fn push(&mut self, first: &mut First, member: Member) -> bool {
        let links = &mut self.0;
        make_room(links, member.index(), Link { next: NIL, previous: NIL });
        if links[member.index()].next != NIL {
            return false;
        }
        if first.0 == NIL {
            first.0 = member.0;
            links[member.index()] = Link { next: member.0, previous: member.0 };
            return true;
        }
        let last = std::mem::replace(&mut links[slot(first.0)].previous, member.0);
        links[slot(last)].next = member.0;
        links[member.index()] = Link { next: first.0, previous: last };
        true
    }

    /// Returns `true` if the ring of `first` contains no other member than `member`.
    #[inline]
    fn is_empty_but(&self, first: First, member: Member) -> bool {
        first.0 == NIL || (first.0 == member.0 && self.0[slot(first.0)].next == member.0)
    }

    /// Ends the turn of the ring's first member, which becomes the last.
    #[inline]
    pub fn rotate(&self, first: &mut First) {
        if let Some(link) = self.0.get(slot(first.0)) {
            *first = First(link.next);
        }
    }

    /// Removes `member` from the ring of `first`. Returns `true` if the ring contained it. It must
    /// not be in another ring.
    #[inline]
    pub fn remove(&mut self, first: &mut First, member: Member) -> bool {
        let inside = self.0.get_mut(member.index()).filter(|link| link.next != NIL);
        let Some(link) = inside else { return false };
        let Link { next, previous } = std::mem::replace(link, Link { next: NIL, previous: NIL });
        if next == member.0 {
            first.0 = NIL;
            return true;
        }
        self.0[slot(previous)].next = next;
        self.0[slot(next)].previous = previous;
        if first.0 == member.0 {
            first.0 = next;
        }
        true
    }
}

impl<const N: usize> Default for Rings<N> {
    #[inline]
    fn default() -> Self {
        Self { links: Links::default(), first: [First::NOBODY; N] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_turns_and_each_can_be_removed_at_any_time() {
        let mut ring = Ring::default();
        for number in [4, 2, 7, 9] {
            assert!(ring.push(Member(number)) && !ring.push(Member(number)));
        }
        ring.rotate();
        ring.remove(Member(7));
        ring.remove(Member(4)); // the last member
        ring.remove(Member(3)); // never inside
        assert!(ring.push(Member(7)));
        for number in [2, 9, 7] {
            assert_eq!(ring.first(), Some(Member(number)));
            ring.rotate();
            ring.remove(Member(number));
        }
        assert_eq!(ring.first(), None);
    }
}
