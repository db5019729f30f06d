//! Flows that take turns.

use super::{Member, slot};

/// Members in the order of their turns, each at most once.
pub(crate) type Ring = Rings<1>;

/// Several rings of which a member is in at most one; every change takes constant time.
#[derive(Clone, Debug)]
pub(crate) struct Rings<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// [`OUTSIDE`] for a member that is in no ring.
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;
const OUTSIDE: u32 = u32::MAX - 1;

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
        if let Some(member) = self.first() {
            self.move_to(0, member);
        }
    }

    /// Takes `member` out, if it is inside.
    pub(crate) fn remove(&mut self, member: Member) {
        self.remove_from(0, member);
    }
}

impl<const N: usize> Rings<N> {
    /// Appends `member` to a ring, unless it is in one; says whether it was not.
    pub(crate) fn push_to(&mut self, ring: usize, member: Member) -> bool {
        if member.index() >= self.links.len() {
            self.links.resize(member.index() + 1, Link { next: OUTSIDE, previous: NIL });
        }
        if self.links[member.index()].next != OUTSIDE {
            return false;
        }
        let last = std::mem::replace(&mut self.ends[ring].last, member.0);
        self.links[member.index()] = Link { next: NIL, previous: last };
        match last {
            NIL => self.ends[ring].first = member.0,
            _ => self.links[slot(last)].next = member.0,
        }
        true
    }

    /// Whose turn it is in a ring.
    pub(crate) fn first_of(&self, ring: usize) -> Option<Member> {
        (self.ends[ring].first != NIL).then_some(Member(self.ends[ring].first))
    }

    /// Moves `member` within the ring it is in to its end.
    pub(crate) fn move_to(&mut self, ring: usize, member: Member) {
        if self.ends[ring].last != member.0 {
            self.remove_from(ring, member);
            self.push_to(ring, member);
        }
    }

    /// Takes `member` out of the ring it is in, if it is in one.
    pub(crate) fn remove_from(&mut self, ring: usize, member: Member) {
        let inside = self.links.get_mut(member.index()).filter(|link| link.next != OUTSIDE);
        let Some(Link { next, previous }) = inside.copied() else { return };
        self.links[member.index()].next = OUTSIDE;
        match previous {
            NIL => self.ends[ring].first = next,
            _ => self.links[slot(previous)].next = next,
        }
        match next {
            NIL => self.ends[ring].last = previous,
            _ => self.links[slot(next)].previous = previous,
        }
    }
}

impl<const N: usize> Default for Rings<N> {
    fn default() -> Self {
        Self { links: Vec::new(), ends: [Ends { first: NIL, last: NIL }; N] }
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
