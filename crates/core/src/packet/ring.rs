//! Flows that take turns.

use super::{Member, slot};

/// Members in the order of their turns, each at most once; every change takes constant time.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// [`OUTSIDE`] for a member that is not in the ring.
    next: u32,
    previous: u32,
}

const NIL: u32 = u32::MAX;
const OUTSIDE: u32 = u32::MAX - 1;

impl Ring {
    /// Appends `member` unless it is inside; says whether it was not.
    pub(crate) fn push(&mut self, member: Member) -> bool {
        if member.index() >= self.links.len() {
            self.links.resize(member.index() + 1, Link { next: OUTSIDE, previous: NIL });
        }
        if self.links[member.index()].next != OUTSIDE {
            return false;
        }
        self.links[member.index()] = Link { next: NIL, previous: self.last };
        match self.last {
            NIL => self.first = member.0,
            last => self.links[slot(last)].next = member.0,
        }
        self.last = member.0;
        true
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<Member> {
        (self.first != NIL).then_some(Member(self.first))
    }

    /// Ends the turn of the first; it has nothing more.
    pub(crate) fn pop(&mut self) {
        if let Some(member) = self.first() {
            self.remove(member);
        }
    }

    /// Ends the turn of the first; it has more.
    pub(crate) fn rotate(&mut self) {
        if let Some(member) = self.first().filter(|_| self.first != self.last) {
            self.remove(member);
            self.push(member);
        }
    }

    /// Takes `member` out, if it is inside.
    pub(crate) fn remove(&mut self, member: Member) {
        let inside = self.links.get_mut(member.index()).filter(|link| link.next != OUTSIDE);
        let Some(Link { next, previous }) = inside.copied() else { return };
        self.links[member.index()].next = OUTSIDE;
        match previous {
            NIL => self.first = next,
            _ => self.links[slot(previous)].next = next,
        }
        match next {
            NIL => self.last = previous,
            _ => self.links[slot(next)].previous = previous,
        }
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self { links: Vec::new(), first: NIL, last: NIL }
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
