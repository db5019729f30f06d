//! Checks before a class is added, changed or removed while packets wait.
//!
//! This file contains methods of `Classes`, whose fields are in `classes.rs`.

use std::collections::BTreeMap;

use tidegate_core::class::ClassId;
use tidegate_core::class::delay::{self, Sharer};
use tidegate_core::scheduler::Term;
use tidegate_core::{Rate, Time};

use super::{Classes, Terms};
use crate::policy::{Class, ClassFaultKind};

/// The reason why a class cannot be added, changed or removed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ClassChangeError {
    /// No class has that name.
    #[error("there is no such class")]
    NoClass,
    /// A class has that name already.
    #[error("there is such a class already")]
    Exists,
    /// No class has the name that the class gives for its parent.
    #[error("its parent `{0}` is no class")]
    NoParent(String),
    /// The scheduler of the link has no such term.
    #[error("the scheduler of the link has no `{}`", .0.name())]
    NotOfScheduler(Term),
    /// The rights would contradict those of the parent or children.
    #[error("{0}")]
    Fault(ClassFaultKind),
    /// With the change, the delay bound of another class could not be met.
    #[error("with it, the delay bound of class `{class}` cannot be met: {fault}")]
    Bound {
        /// The other class.
        class: String,
        /// The fault.
        fault: ClassFaultKind,
    },
    /// The parent of the class would hold packets, which wait at leaf classes only.
    #[error("its parent `{parent}` holds packets: {of}")]
    ParentHolds {
        /// The parent.
        parent: String,
        /// The packets that the parent holds.
        of: ClassContents,
    },
    /// The class has parts.
    #[error("class `{0}` is a part of it")]
    HasParts(String),
    /// Packets wait, or are to wait, at the class.
    #[error("it holds packets: {0}")]
    Holds(ClassContents),
}

/// Packets that a class holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClassContents {
    /// Packets of a policy.
    Policy(String),
    /// Packets whose policy names no class.
    Default,
    /// No packets, but a ratio of this other class refers to the class.
    Ratio(String),
    /// Number of packets that wait now.
    Waiting(u32),
}

impl std::fmt::Display for ClassContents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Policy(policy) => write!(f, "those of policy `{policy}`"),
            Self::Ratio(class) => write!(f, "a ratio of class `{class}` refers to it"),
            Self::Default => f.write_str("those that no policy gives a class"),
            Self::Waiting(packets) => write!(f, "{packets} still wait there, and leave by and by"),
        }
    }
}

impl From<ClassFaultKind> for ClassChangeError {
    fn from(fault: ClassFaultKind) -> Self {
        Self::Fault(fault)
    }
}

impl Classes {
    /// Checks new rights of a class, under a link of `rate`.
    pub(in crate::gateway) fn check(
        &self,
        id: ClassId,
        terms: Terms,
        rate: Option<Rate>,
    ) -> Result<(), ClassChangeError> {
        self.fits(Some(terms.guarantee), self.lines[id.index()].promised)?;
        let own = self.scheduler.terms(id).guarantee;
        let parent = self.scheduler.parent(id);
        let promised = self.lines[parent.index()].promised.saturating_sub(own.bps());
        self.check_under(parent, promised, terms, rate)?;
        if terms.delay_bound.is_some() && !self.scheduler.is_leaf(id) {
            return Err(ClassFaultKind::BoundWithParts.into());
        }
        let in_order = self.lines[id.index()].spec.is_in_order();
        self.keeps_bounds(Some(id), Added { parent, terms, in_order }, rate)
    }

    /// Checks the addition of `class`, under a link of `rate`.
    pub(in crate::gateway) fn check_new(
        &self,
        class: &Class,
        rate: Option<Rate>,
    ) -> Result<(), ClassChangeError> {
        if self.find(&class.name).is_some() {
            return Err(ClassChangeError::Exists);
        }
        if self.is_flat() {
            return self.check_flat(Some(class), rate);
        }
        let parent = self.parent_of(class)?;
        let holds = |of| ClassChangeError::ParentHolds { parent: self.name(parent), of };
        if parent == self.default() {
            return Err(holds(ClassContents::Default));
        }
        match self.backlog(parent).packets {
            0 => {}
            waiting => return Err(holds(ClassContents::Waiting(waiting))),
        }
        if self.scheduler.terms(parent).delay_bound.is_some() {
            return Err(ClassFaultKind::BoundWithParts.into());
        }
        let (terms, promised) = (class.terms(self.direction), self.lines[parent.index()].promised);
        self.check_under(parent, promised, terms, rate)?;
        let added = Added { parent, terms, in_order: class.queue.is_in_order() };
        self.keeps_bounds(None, added, rate)
    }

    /// Checks the removal of the class called `name`.
    pub(in crate::gateway) fn check_gone(&self, name: &str) -> Result<(), ClassChangeError> {
        let id = self.find(name).ok_or(ClassChangeError::NoClass)?;
        if !self.scheduler.is_leaf(id) {
            let part = self.by_name.values().find(|it| self.scheduler.parent(**it) == id);
            let part = part.map_or_else(String::new, |part| self.name(*part));
            return Err(ClassChangeError::HasParts(part));
        }
        if id == self.default() {
            return Err(ClassChangeError::Holds(ClassContents::Default));
        }
        if let Some(class) = self.refers_to(name) {
            return Err(ClassChangeError::Holds(ClassContents::Ratio(class)));
        }
        match self.backlog(id).packets {
            0 => Ok(()),
            waiting => Err(ClassChangeError::Holds(ClassContents::Waiting(waiting))),
        }
    }

    /// Changes the rights of a class.
    pub(in crate::gateway) fn change(&mut self, now: Time, id: ClassId, terms: Terms) {
        let own = self.scheduler.terms(id).guarantee;
        let parent = self.scheduler.parent(id);
        self.promise(parent, own, terms.guarantee);
        self.set(now, id, terms);
    }

    /// Adds `class`, which has been checked.
    pub(in crate::gateway) fn insert(&mut self, now: Time, class: &Class) {
        let Ok(parent) = self.parent_of(class) else { return };
        let terms = class.terms(self.direction);
        self.promise(parent, Rate::from_bps(0), terms.guarantee);
        self.add(now, parent, class, terms);
        self.set_own_terms();
    }

    /// Removes the class called `name`, which has been checked.
    pub(in crate::gateway) fn take_out(&mut self, name: &str) {
        let Some(id) = self.find(name) else { return };
        let parent = self.scheduler.parent(id);
        self.promise(parent, self.scheduler.terms(id).guarantee, Rate::from_bps(0));
        self.lines[id.index()].queue = None;
        Self::remove(self, id);
        self.set_own_terms();
    }

    /// Changes the sum of the children's guarantees of `parent` when one changes from `from` to
    /// `to`.
    fn promise(&mut self, parent: ClassId, from: Rate, to: Rate) {
        let promised = &mut self.lines[parent.index()].promised;
        *promised = promised.saturating_sub(from.bps()).saturating_add(to.bps());
    }

    fn parent_of(&self, class: &Class) -> Result<ClassId, ClassChangeError> {
        let Some(name) = &class.parent else { return Ok(ClassId::ROOT) };
        self.find(name).ok_or_else(|| ClassChangeError::NoParent(name.clone()))
    }

    /// Checks rights under `parent`. `promised` is the sum of its other children's guarantees.
    fn check_under(
        &self,
        parent: ClassId,
        promised: u64,
        terms: Terms,
        rate: Option<Rate>,
    ) -> Result<(), ClassChangeError> {
        if terms.ceiling.is_some_and(|ceiling| ceiling < terms.guarantee) {
            return Err(ClassFaultKind::CeilingBelowGuarantee(self.direction).into());
        }
        let above = match parent {
            ClassId::ROOT => rate,
            _ => Some(self.scheduler.terms(parent).guarantee),
        };
        Ok(self.fits(above, promised.saturating_add(terms.guarantee.bps()))?)
    }

    fn fits(&self, of: Option<Rate>, promised: u64) -> Result<(), ClassFaultKind> {
        let direction = self.direction;
        match of {
            Some(of) if promised > of.bps() => {
                let promised = Rate::from_bps(promised);
                Err(ClassFaultKind::PromisedTooMuch { direction, promised, of })
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the change may delay packets with a delay bound more than now. A leaf
    /// class without a bound never does. `id` is `None` for a new class.
    fn delays(&self, id: Option<ClassId>, terms: Terms) -> bool {
        let rights = |it: Terms| (it.guarantee, it.ceiling, it.burst, it.delay_bound);
        let is_other = id.is_none_or(|id| rights(self.scheduler.terms(id)) != rights(terms));
        let is_leaf = id.is_none_or(|id| self.scheduler.is_leaf(id));
        is_other && (terms.delay_bound.is_some() || !is_leaf)
    }

    /// Checks that all delay bounds are met with `added`. `id` is `None` for a new class.
    fn keeps_bounds(
        &self,
        id: Option<ClassId>,
        added: Added,
        rate: Option<Rate>,
    ) -> Result<(), ClassChangeError> {
        let Some(rate) = rate else { return Ok(()) };
        if !self.delays(id, added.terms) {
            return Ok(());
        }
        let mut ways = Ways {
            classes: self,
            changed: id,
            added,
            above: BTreeMap::new(),
            ids: Vec::with_capacity(self.bounded.len() + 1),
            all: Vec::with_capacity(self.bounded.len() + 1),
        };
        for bounded in self.bounded.iter().filter(|it| Some(ClassId(**it)) != id) {
            ways.push(Some(ClassId(*bounded)));
        }
        if added.terms.delay_bound.is_some() {
            ways.push(id);
        }
        let broken = delay::broken(&ways.all, rate, self.frame);
        let Some(promise) = broken.first() else { return Ok(()) };
        let fault = ClassFaultKind::of(promise, self.direction);
        Err(match ways.ids[promise.leaf] {
            Some(other) if Some(other) != id => {
                ClassChangeError::Bound { class: self.name(other), fault }
            }
            _ => fault.into(),
        })
    }
}

/// State of a class after the change.
#[derive(Clone, Copy)]
struct Added {
    parent: ClassId,
    terms: Terms,
    in_order: bool,
}

/// Leaf classes with delay bounds and their ancestors, as they are after the change.
struct Ways<'a> {
    classes: &'a Classes,
    /// The class that changes. `None` for a new one.
    changed: Option<ClassId>,
    added: Added,
    /// Index in `all` of each ancestor.
    above: BTreeMap<ClassId, usize>,
    /// The class at each index of `all`.
    ids: Vec<Option<ClassId>>,
    all: Vec<Sharer>,
}

impl Ways<'_> {
    /// Index of an ancestor. Adds it if necessary.
    fn place(&mut self, id: ClassId) -> usize {
        if let Some(place) = self.above.get(&id) {
            return *place;
        }
        let place = self.push(Some(id));
        self.above.insert(id, place);
        place
    }

    /// Adds a class, with its ancestors. `None`: the new class. Returns its index.
    fn push(&mut self, id: Option<ClassId>) -> usize {
        let scheduler = &self.classes.scheduler;
        let Added { parent, terms, in_order } = match id {
            Some(id) if Some(id) != self.changed => {
                let in_order = self.classes.lines[id.index()].spec.is_in_order();
                Added { parent: scheduler.parent(id), terms: scheduler.terms(id), in_order }
            }
            _ => self.added,
        };
        let parent = (parent != ClassId::ROOT).then(|| self.place(parent));
        self.all.push(Sharer { parent, terms, in_order });
        self.ids.push(id);
        self.all.len() - 1
    }
}
