//! The scheduler `class-tree`: implements the trait [`Scheduler`] for [`ClassTree`].

use super::{Scheduler, Term};
use crate::class::{ClassId, ClassTree, Sent, Terms};
use crate::{Bytes, Rate, Time, parameters};

parameters! {
    /// No parameters.
    pub Config {}
}

impl Config {
    /// The terms that classes of this scheduler can have.
    pub(super) const TERMS: &'static [Term] = &[
        Term::PARENT,
        Term::GUARANTEE,
        Term::CEILING,
        Term::WEIGHT,
        Term::PRIORITY,
        Term::BURST,
        Term::DELAY_BOUND,
        Term::QUEUE,
        Term::MARKING,
    ];

    pub(super) fn build(&self, _: Rate) -> ClassTree {
        ClassTree::default()
    }
}

impl Scheduler for ClassTree {
    fn declares(&self) -> &'static [Term] {
        Config::TERMS
    }

    fn reserve(&mut self, more: usize) {
        Self::reserve(self, more);
    }

    fn add(&mut self, now: Time, parent: ClassId, terms: Terms) -> ClassId {
        Self::add(self, now, parent, terms)
    }

    fn remove(&mut self, id: ClassId) {
        Self::remove(self, id);
    }

    fn set(&mut self, now: Time, id: ClassId, terms: Terms) {
        Self::set(self, now, id, terms);
    }

    fn move_to(&mut self, now: Time, id: ClassId, parent: ClassId) {
        Self::move_to(self, now, id, parent);
    }

    fn terms(&self, id: ClassId) -> Terms {
        Self::terms(self, id)
    }

    fn parent(&self, id: ClassId) -> ClassId {
        Self::parent(self, id)
    }

    fn is_leaf(&self, id: ClassId) -> bool {
        Self::is_leaf(self, id)
    }

    fn counts(&self, id: ClassId) -> Sent {
        Self::counts(self, id)
    }

    fn wait(&mut self, now: Time, leaf: ClassId) {
        Self::wait(self, now, leaf);
    }

    fn idle(&mut self, leaf: ClassId) {
        Self::idle(self, leaf);
    }

    fn next(&mut self, now: Time) -> Option<ClassId> {
        Self::next(self, now)
    }

    fn sent(&mut self, now: Time, leaf: ClassId, len: Bytes, more: bool) {
        Self::sent(self, now, leaf, len, more);
    }

    fn ready_at(&mut self, now: Time) -> Option<Time> {
        Self::ready_at(self, now)
    }
}
