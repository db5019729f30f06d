//! Classes of a scheduler that manages one buffer for all classes, such as JoBS, and the terms that only one scheduler
//! knows, such as ratios between classes.
//!
//! This file contains methods of `Classes`, whose fields are in `classes.rs`.

use std::collections::BTreeMap;

use tidegate_core::class::ClassId;
use tidegate_core::packet::number;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::{OwnTerms, Term, TermValue, TermValues};
use tidegate_core::{Bytes, Cx, Rate, Reason};

use super::{ClassChangeError, Classes};
use crate::policy::{Class, ClassChange, ClassSet};
use crate::report::PromiseReport;

/// The terms of `class` that only its scheduler knows. `None` if it has none.
pub(super) fn own(class: &Class) -> Option<Box<TermValues>> {
    (!class.own.is_empty()).then(|| Box::new(class.own.clone()))
}

impl Classes {
    /// Passes to the scheduler the rank of each class, and the terms that only this scheduler knows.
    pub(super) fn set_own_terms(&mut self) {
        if self.scheduler.declares().iter().all(|term| term.is_of_the_link()) {
            return;
        }
        let none = TermValues::default();
        for at in 1..self.lines.len() {
            let id = ClassId(number(at));
            let line = &self.lines[at];
            if by_name(&self.by_name, &line.name) != Some(id) && id != self.control {
                continue;
            }
            let rank = if id == self.control { u32::MAX } else { line.rank };
            let own = OwnTerms {
                values: line.own.as_deref().unwrap_or(&none),
                direction: self.direction,
                find: &|name| by_name(&self.by_name, name),
            };
            self.scheduler.set_own(id, rank, &own);
        }
    }

    /// Returns `true` if classes have no parents, because the scheduler has no tree of classes.
    pub(in crate::gateway) fn is_flat(&self) -> bool {
        !self.scheduler.declares().contains(&Term::PARENT)
    }

    /// Checks that the scheduler has all these terms.
    pub(in crate::gateway) fn check_terms(
        &self,
        terms: impl IntoIterator<Item = Term>,
    ) -> Result<(), ClassChangeError> {
        let known = self.scheduler.declares();
        let undeclared = terms.into_iter().find(|term| !known.contains(term));
        undeclared.map_or(Ok(()), |term| Err(ClassChangeError::NotOfScheduler(term)))
    }

    /// Checks that a link of `rate` can keep the promises of all classes. `class` replaces the
    /// class of its name.
    pub(in crate::gateway) fn check_flat(
        &self,
        class: Option<&Class>,
        rate: Option<Rate>,
    ) -> Result<(), ClassChangeError> {
        let others = self
            .by_name
            .iter()
            .filter(|(name, _)| class.is_none_or(|class| class.name.as_str() != &***name));
        let mut all: Vec<_> = others.map(|(_, id)| self.written(*id)).collect();
        all.extend(class.cloned());
        let mut rates = [None; 2];
        rates[self.direction.index()] = rate;
        match ClassSet::of(all, rates, self.frame, &self.spec) {
            Ok(_) => Ok(()),
            Err(faults) => faults.first().map_or(Ok(()), |fault| Err(fault.kind.into())),
        }
    }

    /// The class `id`, as a policy file would describe it in this direction.
    pub(in crate::gateway) fn written(&self, id: ClassId) -> Class {
        let (terms, line) = (self.scheduler.terms(id), &self.lines[id.index()]);
        Class {
            guarantee: [terms.guarantee; 2],
            priority: terms.priority,
            delay_bound: [terms.delay_bound; 2],
            own: line.own.as_deref().cloned().unwrap_or_default(),
            ..Class::new(&line.name, line.spec.clone())
        }
    }

    /// Changes the terms of a class that only its scheduler knows.
    pub(in crate::gateway) fn change_own(&mut self, id: ClassId, change: &ClassChange) {
        if change.terms().any(|term| !term.is_of_the_link()) {
            let changed = change.apply(&self.written(id));
            self.lines[id.index()].own = own(&changed);
            self.set_own_terms();
        }
    }

    /// A class with a ratio that refers to the class called `name`.
    pub(super) fn refers_to(&self, name: &str) -> Option<String> {
        let refers = |own: &TermValues| own.ratios(self.direction).any(|(_, it)| it.of == name);
        let line = self.lines.iter().find(|line| line.own.as_deref().is_some_and(refers))?;
        Some(line.name.to_string())
    }

    /// The queue of a class that shares a buffer: in order of arrival, and limited by the buffer alone.
    pub(super) const fn one_line() -> QdiscSpec {
        QdiscSpec::one_line(Bytes(u64::MAX))
    }

    /// Lets classes drop their newest packets, beginning with `victim`, as long as the scheduler wants that.
    pub(super) fn drop_newest(&mut self, cx: &mut Cx<'_>, mut victim: Option<ClassId>) {
        while let Some(class) = victim {
            let queue = self.lines[class.index()].queue.as_mut();
            if let Some(packet) = queue.and_then(|queue| queue.dequeue_last(cx)) {
                cx.drop(packet, Reason::QueueFull);
            }
            let more = self.backlog(class).packets > 0;
            victim = self.scheduler.dropped(cx.now, class, more);
        }
    }

    /// The promises of a class, and measurements of them. Terms that the scheduler does not measure are
    /// listed without a measured value.
    pub(super) fn promises(&self, id: ClassId) -> Vec<PromiseReport> {
        let promise = |kept: tidegate_core::scheduler::Kept| PromiseReport {
            term: kept.term.name().into(),
            unit: kept.term.unit().into(),
            of: kept.of.map(|of| self.name(of)),
            promised: kept.promised,
            kept: kept.kept,
            violations: kept.violations,
            relaxed: kept.relaxed,
        };
        let mut promises: Vec<_> = self.scheduler.kept(id).into_iter().map(promise).collect();
        for term in self.lines[id.index()].own.iter().flat_map(|own| own.terms()) {
            let known = promises.iter().any(|promise| promise.term == term.name());
            promises.extend((!known).then(|| self.unmeasured(id, term)).flatten());
        }
        promises
    }

    /// A term that the scheduler does not measure. `None` if it names a class that does not exist.
    fn unmeasured(&self, id: ClassId, term: Term) -> Option<PromiseReport> {
        let value = self.lines[id.index()].own.as_deref()?.way(term, self.direction)?;
        let of = match value {
            TermValue::Ratio(ratio) => Some(self.find(&ratio.of).map(|of| self.name(of))?),
            _ => None,
        };
        let promised = value.real();
        let (term, unit) = (term.name().into(), term.unit().into());
        Some(PromiseReport { term, unit, of, promised, ..PromiseReport::default() })
    }
}

/// The class called `name`.
fn by_name(classes: &BTreeMap<Box<str>, ClassId>, name: &str) -> Option<ClassId> {
    classes.get(name).copied()
}
