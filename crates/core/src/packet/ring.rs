//! Flows that take turns.

use std::collections::VecDeque;

use super::Member;

/// Members in the order of their turns, each at most once.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    order: VecDeque<Member>,
    inside: Vec<bool>,
}

impl Ring {
    /// Appends `member` unless it is inside; says whether it was not.
    pub(crate) fn push(&mut self, member: Member) -> bool {
        if member.index() >= self.inside.len() {
            self.inside.resize(member.index() + 1, false);
        }
        let new = !std::mem::replace(&mut self.inside[member.index()], true);
        if new {
            self.order.push_back(member);
        }
        new
    }

    /// Whose turn it is.
    pub(crate) fn first(&self) -> Option<Member> {
        self.order.front().copied()
    }

    /// Ends the turn of the first; it has nothing more.
    pub(crate) fn pop(&mut self) {
        if let Some(member) = self.order.pop_front() {
            self.inside[member.index()] = false;
        }
    }

    /// Ends the turn of the first; it has more.
    pub(crate) fn rotate(&mut self) {
        if let Some(member) = self.order.pop_front() {
            self.order.push_back(member);
        }
    }
}
