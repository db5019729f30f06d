//! Classes of a scheduler that manages one buffer for all classes, such as JoBS: ratios between classes, promises to them,
//! and drops when the buffer is full.
//!
//! Methods of `Classes`, whose fields are in `classes.rs`.

use super::{ClassChangeError, Classes};
use crate::class::ClassId;
use crate::packet::number;
use crate::policy::{Class, ClassChange, ClassSet, Ratio};
use crate::qdisc::QdiscSpec;
use crate::report::PromiseReport;
use crate::scheduler::{Relation, Relations, Term};
use crate::{Bytes, Cx, Rate, Reason};

/// Ratios of a class, as in the policy file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Ratios {
    pub(super) delay: Option<Ratio>,
    pub(super) loss: Option<Ratio>,
}

impl Ratios {
    /// The ratios of `class`. `None` if it has none.
    pub(super) fn of(class: &Class) -> Option<Box<Self>> {
        let ratios = Self { delay: class.delay_ratio.clone(), loss: class.loss_ratio.clone() };
        (ratios != Self::default()).then(|| Box::new(ratios))
    }
}

impl Classes {
    /// Notifies the scheduler of the relations between the classes.
    pub(super) fn relate(&mut self) {
        if !self.scheduler.declares().contains(&Term::DelayRatio) {
            return;
        }
        for at in 1..self.lines.len() {
            let id = ClassId(number(at));
            let line = &self.lines[at];
            if self.find(&line.name) != Some(id) && id != self.control {
                continue;
            }
            let ratios = line.ratios.as_deref().cloned().unwrap_or_default();
            let relation = |ratio: Option<Ratio>| {
                let Ratio { of, factor } = ratio?;
                Some(Relation { of: self.find(&of)?, factor })
            };
            let (delay, loss) = (relation(ratios.delay), relation(ratios.loss));
            let rank = if id == self.control { u32::MAX } else { line.rank };
            self.scheduler.relate(id, Relations { rank, delay, loss });
        }
    }

    /// Returns `true` if classes have no parents, and a scheduler that keeps bounds and ratios.
    pub(in crate::gateway) fn is_flat(&self) -> bool {
        !self.scheduler.declares().contains(&Term::Parent)
    }

    /// Checks that the scheduler has all these terms.
    pub(in crate::gateway) fn check_terms(&self, terms: &[Term]) -> Result<(), ClassChangeError> {
        let undeclared = terms.iter().find(|term| !self.scheduler.declares().contains(term));
        undeclared.map_or(Ok(()), |term| Err(ClassChangeError::NotOfScheduler(*term)))
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

    /// A class as a file would have it for this direction.
    pub(in crate::gateway) fn written(&self, id: ClassId) -> Class {
        let (terms, line) = (self.scheduler.terms(id), &self.lines[id.index()]);
        let ratios = line.ratios.as_deref().cloned().unwrap_or_default();
        Class {
            guarantee: [terms.guarantee; 2],
            delay_bound: [terms.delay_bound; 2],
            loss_bound: terms.loss_bound,
            delay_ratio: ratios.delay,
            loss_ratio: ratios.loss,
            ..Class::new(&line.name, line.spec.clone())
        }
    }

    /// Changes the relations of a class.
    pub(in crate::gateway) fn change_ratios(&mut self, id: ClassId, change: &ClassChange) {
        if self.is_flat() {
            let changed = change.apply(&self.written(id));
            self.lines[id.index()].ratios = Ratios::of(&changed);
            self.relate();
        }
    }

    /// A class with a ratio that refers to the class called `name`.
    pub(super) fn refers_to(&self, name: &str) -> Option<String> {
        let refers = |ratio: &Option<Ratio>| ratio.as_ref().is_some_and(|ratio| ratio.of == name);
        let refers = |ratios: &Ratios| refers(&ratios.delay) || refers(&ratios.loss);
        let line = self.lines.iter().find(|line| line.ratios.as_deref().is_some_and(refers))?;
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

    /// The promises of a class, and measurements of them.
    pub(super) fn promises(&self, id: ClassId) -> Vec<PromiseReport> {
        let promise = |kept: crate::scheduler::Kept| PromiseReport {
            term: kept.term,
            of: kept.of.map(|of| self.name(of)),
            promised: kept.promised,
            kept: kept.kept,
            violations: kept.violations,
            relaxed: kept.relaxed,
        };
        self.scheduler.kept(id).into_iter().map(promise).collect()
    }
}
