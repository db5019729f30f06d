//! The law `measured`: it compares the offered load with the service rate of the aggregate connection.
//!
//! Let `w` be the weight of the aggregate connection, `busy` the busy part of a round, `a` the
//! offered load, and `s` the service rate (see `round`):
//!
//! - `busy > 0.95`: `w += 0.5 (max((a - s) / s, 0) + margin) w`;
//! - `busy < 0.95` and `a (1 + margin) < s` in two consecutive rounds: `w *= 1 - beta`.
//!
//! For an unbounded queue, `(a - s) / s` equals `delta'` of equation 9, because the slope of the queue is `a - s`.
//!
//! Source: `itcp`, section 4 (equation 10, two consecutive rounds, assumption iii of Proposition 1).
//!
//! Differs:
//! - The law of the paper uses the slope of the queue. In a stable system, the queue is mostly empty and the slope is
//!   noise, which drives all weights to one. With full buffers, the slope is always zero.
//! - `s` includes capacity that other gateways do not use. So the law may decrease the weight while
//!   the other gateways are idle. The weight is then too small when they send again. `service =
//!   "contended"` measures `s` while they are busy.
//! - The next decrease needs two new rounds, as with `literal`. A round with an unknown `s` changes nothing.

use super::round::RoundObservation;
use super::{Config, WeightChange, step};
use crate::{Factor, Rate};

/// State of the law: the number of consecutive rounds in which the service rate exceeded the load by the margin.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    ample: u32,
}

/// A gateway whose busy part is larger than this is saturated.
///
/// Chosen below one, because a busy gateway pauses for a short time between two files.
const SATURATED: Factor = Factor::from_millionths(950_000);

/// Consecutive rounds with a spare service rate that a decrease needs.
///
/// Source: `itcp`, section 4 (two consecutive rounds).
const ROUNDS_TO_DECREASE: u32 = 2;

impl Measured {
    pub(super) fn decide(
        &mut self,
        config: &Config,
        it: &RoundObservation,
        weight: Factor,
    ) -> WeightChange {
        let round = &it.round;
        let Some(service) = round.service else {
            self.ample = 0;
            return WeightChange::Hold;
        };
        let wanted = round.offered.bps().saturating_add(config.margin.of(round.offered.bps()));
        let ample = round.busy < SATURATED && wanted < service.bps();
        self.ample = if ample { self.ample + 1 } else { 0 };
        if round.busy > SATURATED {
            let lacking = excess(round.offered, service);
            return WeightChange::Increase(step(lacking, config.margin, weight));
        }
        if self.ample < ROUNDS_TO_DECREASE {
            return WeightChange::Hold;
        }
        self.ample = 0;
        WeightChange::Decrease
    }
}

/// `max((offered - service) / service, 0)`.
fn excess(offered: Rate, service: Rate) -> Factor {
    let above = u128::from(offered.bps().saturating_sub(service.bps()));
    let millionths =
        above * u128::from(Factor::ONE.millionths()) / u128::from(service.bps().max(1));
    Factor::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX))
}
