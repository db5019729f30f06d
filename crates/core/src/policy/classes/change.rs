//! Changes of a class while a gateway uses it, and the terms that a policy file declares for a class.
//!
//! Methods of `Class`, whose fields are in `classes.rs`.

use std::time::Duration;

use super::{Class, Ratio};
use crate::class::Terms;
use crate::packet::Direction;
use crate::scheduler::Term;
use crate::{Bytes, Chance, Rate};

impl Class {
    /// The terms whose values differ from the defaults.
    #[must_use]
    pub fn written(&self) -> Vec<Term> {
        let has = [
            (Term::Parent, self.parent.is_some()),
            (Term::Guarantee, self.guarantee.iter().any(|rate| rate.bps() > 0)),
            (Term::Ceiling, self.ceiling != [None; 2]),
            (Term::Weight, self.weight != 1),
            (Term::Priority, self.priority != 0),
            (Term::Burst, self.burst.is_some()),
            (Term::DelayBound, self.delay_bound != [None; 2]),
            (Term::LossBound, self.loss_bound.is_some()),
            (Term::DelayRatio, self.delay_ratio.is_some()),
            (Term::LossRatio, self.loss_ratio.is_some()),
        ];
        has.into_iter().filter_map(|(term, has)| has.then_some(term)).collect()
    }
}

/// Changes of a class while a gateway uses it. `None` keeps the present value. Fields with two values have one for each
/// direction, upstream first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClassChange {
    /// New guarantee.
    pub guarantee: [Option<Rate>; 2],
    /// New ceiling. `Some(None)` removes the ceiling.
    pub ceiling: [Option<Option<Rate>>; 2],
    /// New weight.
    pub weight: Option<u32>,
    /// New priority.
    pub priority: Option<u8>,
    /// New burst.
    pub burst: Option<Bytes>,
    /// New delay bound. `Some(None)` removes the bound.
    pub delay_bound: [Option<Option<Duration>>; 2],
    /// New loss bound. `Some(None)` removes the bound.
    pub loss_bound: Option<Option<Chance>>,
    /// New delay ratio. `Some(None)` removes the ratio.
    pub delay_ratio: Option<Option<Ratio>>,
    /// New loss ratio. `Some(None)` removes the ratio.
    pub loss_ratio: Option<Option<Ratio>>,
}

impl ClassChange {
    /// The terms that the change sets.
    #[must_use]
    pub fn terms(&self) -> Vec<Term> {
        let changes = [
            (Term::Guarantee, self.guarantee != [None; 2]),
            (Term::Ceiling, self.ceiling != [None; 2]),
            (Term::Weight, self.weight.is_some()),
            (Term::Priority, self.priority.is_some()),
            (Term::Burst, self.burst.is_some()),
            (Term::DelayBound, self.delay_bound != [None; 2]),
            (Term::LossBound, self.loss_bound.is_some()),
            (Term::DelayRatio, self.delay_ratio.is_some()),
            (Term::LossRatio, self.loss_ratio.is_some()),
        ];
        changes.into_iter().filter_map(|(term, changes)| changes.then_some(term)).collect()
    }

    /// Returns `class` with the changes.
    #[must_use]
    pub fn apply(&self, class: &Class) -> Class {
        let each = [0, 1];
        Class {
            guarantee: each.map(|way| self.guarantee[way].unwrap_or(class.guarantee[way])),
            ceiling: each.map(|way| self.ceiling[way].unwrap_or(class.ceiling[way])),
            weight: self.weight.unwrap_or(class.weight),
            priority: self.priority.unwrap_or(class.priority),
            burst: self.burst.or(class.burst),
            delay_bound: each.map(|way| self.delay_bound[way].unwrap_or(class.delay_bound[way])),
            loss_bound: self.loss_bound.unwrap_or(class.loss_bound),
            delay_ratio: self.delay_ratio.clone().unwrap_or_else(|| class.delay_ratio.clone()),
            loss_ratio: self.loss_ratio.clone().unwrap_or_else(|| class.loss_ratio.clone()),
            ..class.clone()
        }
    }

    /// Returns the terms of a class in `direction` with the changes.
    #[must_use]
    pub fn of(&self, terms: Terms, direction: Direction) -> Terms {
        Terms {
            guarantee: self.guarantee[direction.index()].unwrap_or(terms.guarantee),
            ceiling: self.ceiling[direction.index()].unwrap_or(terms.ceiling),
            weight: self.weight.unwrap_or(terms.weight),
            priority: self.priority.unwrap_or(terms.priority),
            burst: self.burst.unwrap_or(terms.burst),
            delay_bound: self.delay_bound[direction.index()].unwrap_or(terms.delay_bound),
            loss_bound: self.loss_bound.unwrap_or(terms.loss_bound),
        }
    }
}
