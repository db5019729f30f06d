//! Full buffer: selects the class that drops its newest packet.
//!
//! A newcomer without a loss ratio drops its own packet, if its loss bound permits this. Otherwise
//! the class with the smallest `e_i = w_i p_i - mean(w_j p_j)` drops its newest packet. Here `w_i`
//! is the weight of a class and `p_i` its loss. The mean is over the backlogged classes `j` with
//! loss ratios. The class with the smallest `e_i` has lost least in relation to the others. If
//! several classes have the same `e_i`, the lowest priority decides. If the drop would break the
//! loss bound of this class, the class furthest below its loss bound drops.
//!
//! Source: `marking`, section 3; ns-2 2.35, `queue/jobs.cc`.
//!
//! This file contains methods of `Jobs`, whose fields are in `jobs.rs`.

use super::class::JobsClass;
use super::{Jobs, Search};

impl Jobs {
    /// The class that drops its newest packet because the buffer is full.
    pub(super) fn overflow_victim(&mut self) -> usize {
        let newcomer = &self.classes[self.newcomer];
        if newcomer.loss_weight.is_none() && may_drop(newcomer) {
            return self.newcomer;
        }
        if let Some(at) = self.least_lossy() {
            if may_drop(&self.classes[at]) {
                return at;
            }
            self.classes[at].record.relaxed.loss_ratio += 1;
        }
        let at = self.furthest_below_loss_bound();
        if !may_drop(&self.classes[at]) {
            self.classes[at].record.relaxed.loss_bound += 1;
        }
        at
    }

    /// The backlogged class with the least loss in relation to others.
    fn least_lossy(&mut self) -> Option<usize> {
        for class in &mut self.classes {
            class.scratch = (0.0, 0.0);
        }
        for at in 0..self.classes.len() {
            if let Some((group, loss)) = weighted_loss(&self.classes[at]) {
                let (sum, count) = self.classes[group].scratch;
                self.classes[group].scratch = (sum + loss, count + 1.0);
            }
        }
        let mut least: Option<(usize, f64)> = None;
        for at in self.order.iter().copied() {
            let Some((group, loss)) = weighted_loss(&self.classes[at]) else { continue };
            let (sum, count) = self.classes[group].scratch;
            let error = loss - sum / count;
            if least.is_none_or(|(_, smallest)| error <= smallest) {
                least = Some((at, error));
            }
        }
        least.map(|(at, _)| at)
    }

    /// The backlogged class with the largest distance between loss and loss bound.
    fn furthest_below_loss_bound(&self) -> usize {
        let mut furthest = (self.newcomer, f64::NEG_INFINITY);
        for at in self.order.iter().copied() {
            let class = &self.classes[at];
            if class.newest().is_none() {
                continue;
            }
            let bound = class.promises.loss_bound.map_or(f64::INFINITY, |bound| bound.real());
            let room = bound - class.loss();
            if self.search == Search::Ns2 || room >= furthest.1 {
                furthest = (at, room);
            }
        }
        furthest.0
    }
}

/// Returns `true` if the class keeps its loss bound when it drops its newest packet.
pub(super) fn may_drop(class: &JobsClass) -> bool {
    class.newest().is_some_and(|len| class.keeps_loss_bound(len))
}

/// The root of the tree of ratios to which a class belongs, and its weighted loss. `None` unless
/// the class has packets and a loss ratio.
fn weighted_loss(class: &JobsClass) -> Option<(usize, f64)> {
    let weight = class.loss_weight.filter(|_| class.newest().is_some())?;
    Some((weight.group, weight.part * class.loss()))
}
