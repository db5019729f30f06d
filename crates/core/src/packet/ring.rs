//! Flows that take turns.

use super::{Member, make_room, slot};

/// Members in the order of their turns, each at most once.
pub(crate) type Ring = Rings<1>;

/// Several rings of which a member is in at most one; every change takes constant time.
#[derive(Clone, Debug)]
pub(crate) struct Rings<const N: usize> {
    links: Vec<Link>,
    /// Whose turn it is in each ring; the last is before the first.
    first: [u32; N],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// [`NIL`] for a member that is in no ring.
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;

impl Ring {
    /// Appends `member` unless it is inside; says whether it was not.
    pub(crate) fn push(&mut self, member: Member) -> bool {
        self.push_to(0, member)
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<Member> {
        self.first_of(0)
    }

    /// Ends the turn of the first; it has nothing more.
    pub(crate) fn pop(&mut self) {
        if let Some(member) = self.first() {
            self.remove(member);
        }
    }

    /// Ends the turn of the first; it has more.
    pub(crate) fn rotate(&mut self) {
        self.rotate_in(0);
    }

    /// Takes `member` out, if it is inside.
    pub(crate) fn remove(&mut self, member: Member) {
        self.remove_from(0, member);
    }
}

impl<const N: usize> Rings<N> {
    /// Appends `member` to a ring, unless it is in one; says whether it was not.
    pub(crate) fn push_to(&mut self, ring: usize, member: Member) -> bool {
        make_room(&mut self.links, member.index(), Link { next: NIL, previous: NIL });
        if self.links[member.index()].next != NIL {
            return false;
        }
        let first = self.first[ring];
        if first == NIL {
            self.first[ring] = member.0;
            self.links[member.index()] = Link { next: member.0, previous: member.0 };
            return true;
        }
        let last = std::mem::replace(&mut self.links[slot(first)].previous, member.0);
        self.links[slot(last)].next = member.0;
        self.links[member.index()] = Link { next: first, previous: last };
        true
    }

    /// Whose turn it is in a ring.
    pub(crate) fn first_of(&self, ring: usize) -> Option<Member> {
        (self.first[ring] != NIL).then_some(Member(self.first[ring]))
    }

    /// Ends the turn of the first of a ring; it has more.
    pub(crate) fn rotate_in(&mut self, ring: usize) {
        if let Some(link) = self.links.get(slot(self.first[ring])) {
            self.first[ring] = link.next;
        }
    }

    /// Takes `member` out of the ring it is in, if it is in one; it must be in no other than `ring`.
    pub(crate) fn remove_from(&mut self, ring: usize, member: Member) {
        let inside = self.links.get_mut(member.index()).filter(|link| link.next != NIL);
        let Some(link) = inside else { return };
        let Link { next, previous } = std::mem::replace(link, Link { next: NIL, previous: NIL });
        if next == member.0 {
            self.first[ring] = NIL;
            return;
        }
        self.links[slot(previous)].next = next;
        self.links[slot(next)].previous = previous;
        if self.first[ring] == member.0 {
            self.first[ring] = next;
        }
    }
}

impl<const N: usize> Default for Rings<N> {
    fn default() -> Self {
        Self { links: Vec::new(), first: [NIL; N] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_turns_and_may_go_out_of_turn() {
        let mut ring = Ring::default();
        for number in [4, 2, 7, 9] {
            assert!(ring.push(Member(number)) && !ring.push(Member(number)));
        }
        ring.rotate();
        ring.remove(Member(7));
        ring.remove(Member(4)); // the last
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
