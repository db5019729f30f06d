//! The `proportional` law: the weight follows the offered load itself.
//!
//! Formula: `w = n a / c`, with the greatest weight `n`, the offered load `a` averaged over rounds, and the capacity
//! `c`: the largest service rate of any sample in which the gateway was always busy. That is the rate of the
//! bottleneck, at a moment when all neighbours are idle. A round counts for at most `c` in the average: a huge file
//! arrives over the fast local network in one round, and no share serves a load above the capacity.
//!
//! Gateways with the same `n` and `c` then have the shares `rho_i / rho`. Each share exceeds its load while
//! `rho < 1`, and no weight depends on another.
//!
//! Source: ours; `itcp`, equation 12: its shares converge to `rho_i / rho`. `itcp/ideal` compares it with the others.
//!
//! Differs: the queue decides nothing. A bottleneck that becomes slower leaves `c` as it is: all weights stay too
//! small by the same factor, and the shares are the same.

use super::round::RoundObservation;
use super::{Config, Most, WeightChange};
use crate::Factor;

/// Its memory: the averaged load and the capacity in bit/s.
#[derive(Clone, Debug, Default)]
pub(super) struct Proportional {
    /// Rounds in the average, up to [`MEMORY`].
    rounds: u64,
    offered: u64,
    capacity: u64,
}

/// A round counts for one part in this many. Chosen by three seeds of the ideal model of
/// `itcp/ideal`: with one in five, a single large file takes the shares of the other gateways.
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

/// `mean`, moved by `1 / rounds` of the way to `newest`.
const fn toward(mean: u64, newest: u64, rounds: u64) -> u64 {
    let step = mean.abs_diff(newest) / rounds;
    if newest > mean { mean + step } else { mean - step }
}
