//! Terms of a class (guarantee, ceiling, weight and others) by name, and changes of a class in force.
//!
//! This file contains methods of `Class`, whose fields are in `classes.rs`.

use std::collections::BTreeMap;

use tidegate_core::class::Terms;
use tidegate_core::packet::Direction;
use tidegate_core::scheduler::{SchedulerSpec, Term, TermType, TermValue};
use tidegate_core::{Bytes, Rate};

use super::Class;

/// A change of one term in one direction. `None`: the value stays. `Some(None)`: the value is removed.
pub type TermChange = Option<Option<TermValue>>;

/// Changes of a class in force, for each direction. Terms without a change keep their values.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClassChange(BTreeMap<Term, [TermChange; 2]>);

impl ClassChange {
    /// The changed terms.
    pub fn terms(&self) -> impl Iterator<Item = Term> {
        self.0.keys().copied()
    }

    /// The changes, up and down.
    pub fn iter(&self) -> impl Iterator<Item = (Term, &[TermChange; 2])> {
        self.0.iter().map(|(term, changes)| (*term, changes))
    }

    /// Sets the changes of `term`, up and down.
    pub fn set(&mut self, term: Term, changes: [TermChange; 2]) {
        if changes != [None, None] {
            self.0.insert(term, changes);
        }
    }

    /// The same changes, and `value` for `term` in both directions.
    #[must_use]
    pub fn with(mut self, term: Term, value: impl Into<TermValue>) -> Self {
        let value = Some(Some(value.into()));
        self.set(term, [value.clone(), value]);
        self
    }

    /// Returns `class` with the changes.
    #[must_use]
    pub fn apply(&self, class: &Class) -> Class {
        let mut changed = class.clone();
        for (term, changes) in self.iter() {
            let mut values = changed.get(term);
            for (value, change) in values.iter_mut().zip(changes) {
                if let Some(change) = change {
                    value.clone_from(change);
                }
            }
            changed.set(term, values);
        }
        changed
    }

    /// Returns the terms of a class in `direction` with the changes.
    #[must_use]
    pub fn of(&self, mut terms: Terms, direction: Direction) -> Terms {
        for (term, changes) in self.iter() {
            let Some(change) = &changes[direction.index()] else { continue };
            if let Some(field) = right(&mut terms, term) {
                field.set([change.clone(), change.clone()]);
            }
        }
        terms
    }
}

impl Class {
    /// The terms whose values differ from the defaults of a class. The queue and its marking are left out.
    #[must_use]
    pub fn written(&self) -> Vec<Term> {
        let without = Self::new("", self.queue.clone());
        let differs = |term: &Term| self.get(*term) != without.get(*term);
        let parent = self.parent.as_ref().map(|_| Term::PARENT);
        parent.into_iter().chain(self.possible_terms().filter(differs)).collect()
    }

    /// The terms of all schedulers in the registry, then those of the class that another crate's scheduler declares.
    pub fn possible_terms(&self) -> impl Iterator<Item = Term> {
        let of_others = self.own.terms().filter(|term| SchedulerSpec::term(term.name()).is_none());
        SchedulerSpec::all_terms().chain(of_others)
    }

    /// The values of `term`, up and down.
    #[must_use]
    pub fn get(&self, term: Term) -> [Option<TermValue>; 2] {
        let fields: [(Term, &dyn TermField); 6] = [
            (Term::GUARANTEE, &self.guarantee),
            (Term::CEILING, &self.ceiling),
            (Term::WEIGHT, &self.weight),
            (Term::PRIORITY, &self.priority),
            (Term::BURST, &self.burst),
            (Term::DELAY_BOUND, &self.delay_bound),
        ];
        let field = fields.into_iter().find(|(name, _)| *name == term);
        field.map_or_else(|| self.own.get(term), |(_, field)| field.get())
    }

    /// Sets the values of `term`, up and down.
    pub fn set(&mut self, term: Term, values: [Option<TermValue>; 2]) {
        let fields: [(Term, &mut dyn TermField); 6] = [
            (Term::GUARANTEE, &mut self.guarantee),
            (Term::CEILING, &mut self.ceiling),
            (Term::WEIGHT, &mut self.weight),
            (Term::PRIORITY, &mut self.priority),
            (Term::BURST, &mut self.burst),
            (Term::DELAY_BOUND, &mut self.delay_bound),
        ];
        match fields.into_iter().find(|(name, _)| *name == term) {
            Some((_, field)) => field.set(values),
            None => self.own.set(term, values),
        }
    }
}

/// The field of `terms` with the value of `term`. `None` for terms that only a scheduler knows.
fn right(terms: &mut Terms, term: Term) -> Option<&mut dyn TermField> {
    let fields: [(Term, &mut dyn TermField); 6] = [
        (Term::GUARANTEE, &mut terms.guarantee),
        (Term::CEILING, &mut terms.ceiling),
        (Term::WEIGHT, &mut terms.weight),
        (Term::PRIORITY, &mut terms.priority),
        (Term::BURST, &mut terms.burst),
        (Term::DELAY_BOUND, &mut terms.delay_bound),
    ];
    fields.into_iter().find(|(name, _)| *name == term).map(|(_, field)| field)
}

/// A field with the values of a term.
trait TermField {
    /// The values, up and down.
    fn get(&self) -> [Option<TermValue>; 2];

    /// Sets the values, up and down.
    fn set(&mut self, values: [Option<TermValue>; 2]);
}

/// A field with one value of a term.
trait OneValue {
    /// The value.
    fn value(&self) -> Option<TermValue>;

    /// Sets the value. `None` removes it, except from a field that always has a value.
    fn set_value(&mut self, value: Option<TermValue>);
}

/// The values for each direction.
impl<T: OneValue> TermField for [T; 2] {
    fn get(&self) -> [Option<TermValue>; 2] {
        self.each_ref().map(T::value)
    }

    fn set(&mut self, values: [Option<TermValue>; 2]) {
        for (field, value) in self.iter_mut().zip(values) {
            field.set_value(value);
        }
    }
}

/// One value for both directions.
impl<T: OneValue> TermField for T {
    fn get(&self) -> [Option<TermValue>; 2] {
        let value = self.value();
        [value.clone(), value]
    }

    fn set(&mut self, [value, _]: [Option<TermValue>; 2]) {
        self.set_value(value);
    }
}

impl<T: TermType<Used = T> + Clone + Into<TermValue>> OneValue for Option<T> {
    fn value(&self) -> Option<TermValue> {
        self.clone().map(T::into)
    }

    fn set_value(&mut self, value: Option<TermValue>) {
        *self = value.and_then(|value| T::used(&value, &|_| None));
    }
}

/// Implements [`OneValue`] for fields that always have a value.
macro_rules! always {
    ($($type:ty: $variant:ident;)+) => {$(
        impl OneValue for $type {
            fn value(&self) -> Option<TermValue> {
                Some(TermValue::$variant((*self).into()))
            }

            fn set_value(&mut self, value: Option<TermValue>) {
                if let Some(TermValue::$variant(value)) = value
                    && let Ok(value) = value.try_into()
                {
                    *self = value;
                }
            }
        }
    )+};
}

always! {
    Rate: Rate;
    Bytes: Bytes;
    u32: Whole;
    u8: Whole;
}
