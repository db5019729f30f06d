//! Addition, change and removal of classes under live traffic. Waiting packets stay in their queues.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::Time;
use tidegate_core::packet::Direction;
use tidegate_core::scheduler::Term;

use super::Gateway;
use super::egress::{ClassChangeError, ClassContents, Classes};
use crate::policy::{Class, ClassChange, ClassSet};

impl Gateway {
    /// Changes the rights of the class called `name`, in both directions or in neither. The change
    /// holds until policies are installed.
    ///
    /// # Errors
    ///
    /// If no class has that name, or its rights would contradict those of others.
    pub fn change_class(
        &mut self,
        now: Time,
        name: &str,
        change: &ClassChange,
    ) -> Result<(), ClassChangeError> {
        let mut terms = [None; 2];
        for way in Direction::BOTH {
            let Some(classes) = self.egress[way.index()].link().classes() else { continue };
            let id = classes.find(name).ok_or(ClassChangeError::NoClass)?;
            classes.check_terms(change.terms())?;
            let changed = change.of(classes.terms(id), way);
            let rate = self.sorter.config().rate[way.index()];
            if classes.is_flat() {
                classes.check_flat(Some(&change.apply(&classes.written(id))), rate)?;
            } else {
                classes.check(id, changed, rate)?;
            }
            terms[way.index()] = Some((id, changed));
        }
        if terms == [None; 2] {
            return Err(ClassChangeError::NoClass);
        }
        for (egress, terms) in self.egress.iter_mut().zip(terms) {
            if let Some(terms) = terms {
                egress.change_class(now, terms, change);
            }
        }
        Ok(())
    }

    /// Adds a class until policies are installed. Its parent must hold no packets. If it is the
    /// first class, waiting packets move to the class `default`.
    ///
    /// # Errors
    ///
    /// If a class of that name exists, its parent does not exist or holds packets, or its rights
    /// would contradict those of others.
    pub fn add_class(&mut self, now: Time, class: &Class) -> Result<(), ClassChangeError> {
        if self.sharing().next().is_none() {
            return self.add_first(now, class);
        }
        if let Some(parent) = &class.parent
            && let Some(policy) = self.policy_of(parent)
        {
            let of = ClassContents::Policy(policy);
            return Err(ClassChangeError::ParentHolds { parent: parent.clone(), of });
        }
        for (way, classes) in self.sharing() {
            classes.check_terms(class.written())?;
            classes.check_new(class, self.sorter.config().rate[way.index()])?;
        }
        self.sorter.rearrange();
        self.egress.iter_mut().for_each(|egress| egress.insert_class(now, class));
        Ok(())
    }

    /// Removes the class of that name, until policies are installed.
    ///
    /// # Errors
    ///
    /// If no class has that name, it has parts, a policy or a ratio names it, or packets wait
    /// there.
    pub fn remove_class(&mut self, name: &str) -> Result<(), ClassChangeError> {
        if self.sharing().next().is_none() {
            return Err(ClassChangeError::NoClass);
        }
        for (_, classes) in self.sharing() {
            classes.check_gone(name)?;
        }
        if let Some(policy) = self.policy_of(name) {
            return Err(ClassChangeError::Holds(ClassContents::Policy(policy)));
        }
        self.sorter.rearrange();
        self.egress.iter_mut().for_each(|egress| egress.take_out_class(name));
        Ok(())
    }

    /// Adds the first class to links that had one queue each.
    fn add_first(&mut self, now: Time, class: &Class) -> Result<(), ClassChangeError> {
        while self.go_on_installing(now) {}
        if let Some(parent) = &class.parent {
            return Err(ClassChangeError::NoParent(parent.clone()));
        }
        let frame = self.sorter.policies().classes().frame();
        let scheduler = &self.sorter.config().scheduler;
        let undeclared = |term: &Term| !scheduler.terms().contains(term);
        if let Some(term) = class.written().into_iter().find(undeclared) {
            return Err(ClassChangeError::NotOfScheduler(term));
        }
        let set = ClassSet::of(vec![class.clone()], self.sorter.config().rate, frame, scheduler);
        let set = set.map_err(|faults| ClassChangeError::from(faults[0].kind))?;
        self.sorter.rearrange();
        self.sorter.set_classes(set);
        self.share_links(now);
        self.look_again(now);
        Ok(())
    }

    /// A policy that names a class.
    fn policy_of(&self, class: &str) -> Option<String> {
        let mut policies = self.sorter.policies().iter().map(|(_, policy)| policy);
        let named = policies.find(|policy| policy.class.as_deref() == Some(class))?;
        Some(named.name.clone())
    }

    /// The directions that classes share.
    fn sharing(&self) -> impl Iterator<Item = (Direction, &Classes)> {
        let classes = |way: Direction| Some((way, self.egress[way.index()].link().classes()?));
        Direction::BOTH.into_iter().filter_map(classes)
    }
}
