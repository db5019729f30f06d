//! Weights of classes with ratios between them.
//!
//! Related classes form trees: each class with a ratio names another class, its parent in the tree.
//! In a tree, class `i` should have `t_i` times the delay (or loss) of the root. Here `t_i` is the
//! product of the factors on the path to the root. With `w_i = min t / t_i` all `w_i D_i` are equal
//! if all ratios hold, and the largest weight is 1.
//!
//! Source: `marking`, section 3 (relative constraints of JoBS).
//! Differs: the paper has one chain of classes. Here the classes form trees.
//!
//! This file contains methods of `Jobs`, whose fields are in `jobs.rs`.

use std::cmp::Reverse;

use super::class::JobsClass;
use super::{Jobs, Promises};
use crate::scheduler::Relation;

/// The weight of a class in its tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weight {
    /// Index of the class at the root of its tree: the class without a ratio of its own.
    pub(super) group: usize,
    /// The weight `w_i`, from 0 to 1.
    pub(super) part: f64,
}

impl Jobs {
    /// Computes all weights, and the order of priority.
    pub(super) fn weigh(&mut self) {
        self.unweighted = false;
        let classes = &self.classes;
        self.order.sort_by_key(|at| (Reverse(classes[*at].terms.priority), classes[*at].rank));
        let delay = weights(&self.classes, |it| it.delay_ratio);
        let loss = weights(&self.classes, |it| it.loss_ratio);
        for (class, (delay, loss)) in self.classes.iter_mut().zip(delay.into_iter().zip(loss)) {
            (class.delay_weight, class.loss_weight) = (delay, loss);
        }
    }
}

fn weights(
    classes: &[JobsClass],
    of: impl Fn(&Promises) -> Option<Relation>,
) -> Vec<Option<Weight>> {
    let mut is_related = vec![false; classes.len()];
    let mut roots = Vec::with_capacity(classes.len());
    let mut least = vec![f64::INFINITY; classes.len()];
    for at in 0..classes.len() {
        let (mut root, mut times) = (at, 1.0);
        // Each class names at most one other class, and `check` refuses cycles.
        for _ in 0..classes.len() {
            let Some(relation) = of(&classes[root].promises) else { break };
            let Some(next) = Some(relation.of.index()).filter(|next| *next < classes.len()) else {
                break;
            };
            (is_related[root], is_related[next]) = (true, true);
            root = next;
            times *= relation.factor.real();
        }
        least[root] = times.min(least[root]);
        roots.push((root, times));
    }
    let weight = |(at, (root, times)): (usize, (usize, f64))| {
        is_related[at].then(|| Weight { group: root, part: least[root] / times })
    };
    roots.into_iter().enumerate().map(weight).collect()
}
