//! The law `proportional`: the weight `w` of the aggregate connection is proportional to the
//! offered load.
//!
//! `w = n a / c`, where
//!
//! - `n` is the greatest weight,
//! - `a` is the offered load, averaged over rounds,
//! - `c` is the capacity: the largest service rate of any sample in which the gateway was always
//!   busy. It is the rate of the bottleneck, if all other gateways were idle in this sample.
//!
//! In the average, the load of a round counts as `c` at most. Otherwise a huge file, which arrives over the fast local
//! network within one round, would give the gateway all of the bottleneck.
//!
//! Gateways with the same `n` and `c` get the shares `rho_i / rho`, where `rho` is the sum of all loads `rho_i`. Each share
//! exceeds its load while `rho < 1`. A weight does not depend on the weights of other gateways.
//!
//! Source: ours. The laws of the paper converge to the same shares (`itcp`, equation 12). The
//! experiment `itcp/ideal` compares all laws.
//!
//! Differs: the queue has no influence. If the bottleneck becomes slower, `c` stays too large. All weights are then too
//! small by the same factor, and the shares are unchanged.

use super::round::RoundObservation;
use super::{Config, Most, WeightChange};
use crate::Factor;

/// State of the law: averaged load and capacity, in bits per second.
#[derive(Clone, Debug, Default)]
pub(super) struct Proportional {
    /// Rounds in the average, up to [`MEMORY`].
    rounds: u64,
    offered: u64,
    capacity: u64,
}

/// The latest round has the weight `1 / MEMORY` in the average.
///
/// Chosen with three seeds of the ideal model in `itcp/ideal`: with a weight of 1/5, a single large
/// file takes the shares of the other gateways.
const MEMORY: u64 = 20;

impl Proportional {
    pub(super) fn decide(&mut self, config: &Config, it: &RoundObservation) -> WeightChange {
        self.rounds = (self.rounds + 1).min(MEMORY);
        self.capacity = self.capacity.max(it.fastest.bps());
        let most = if self.capacity == 0 { u64::MAX } else { self.capacity };
        self.offered = toward(self.offered, it.round.offered.bps().min(most), self.rounds);
        let n = match config.most {
            Most::Constant(most) => most,
            Most::Connections => it.most_connections,
        };
        let whole = u128::from(Factor::whole(n).millionths());
        let share = whole * u128::from(self.offered);
        match share.checked_div(u128::from(self.capacity)) {
            Some(weight) => WeightChange::Set(Factor::from_millionths(
                u64::try_from(weight).unwrap_or(u64::MAX),
            )),
            None => WeightChange::Hold,
        }
    }
}

/// `mean + (newest - mean) / rounds`.
const fn toward(mean: u64, newest: u64, rounds: u64) -> u64 {
    let step = mean.abs_diff(newest) / rounds;
    if newest > mean { mean + step } else { mean - step }
}
