//! The law `literal`: the slope of the gateway's queue decides, as in the paper.
//!
//! Let `w` be the weight of the aggregate connection, `b` the slope of the queue, `q` its mean, and
//! `delta' = b minRTT / cwnd`. The first case that applies decides:
//!
//! - `q > high_threshold max_queue` and `b >= 0`: `w += max(1, 0.5 (delta' + epsilon) w)`;
//! - `q > low_threshold max_queue` and `b > 0`: `w += 0.5 (delta' + epsilon) w` (equation 10);
//! - `q <= high_threshold max_queue` and `b < 0` in two consecutive rounds: `w *= 1 - beta`.
//!
//! Source: `itcp`, section 4 (equations 9 and 10, thresholds).
//!
//! Differs:
//! - The paper leaves two cases open. Here, the next decrease needs two new rounds with `b < 0`. A round with `b = 0` does
//!   not change the weight, and ends a sequence of rounds with `b < 0`.
//! - The queue of the paper is unbounded. Here, a gateway with full buffers stops local
//!   connections, and the backlog grows in the clients. If this happens in at least half of a
//!   round's samples, the round counts as a round with `b > 0` and a queue above the low threshold.

use super::round::RoundObservation;
use super::{Config, WeightChange, step};
use crate::{Bytes, Factor};

/// State of the law: the number of consecutive rounds with a negative slope.
#[derive(Clone, Debug, Default)]
pub(super) struct Literal {
    falling: u32,
}

/// Consecutive rounds with a negative slope that a decrease needs.
///
/// Source: `itcp`, section 4 (two consecutive rounds).
const ROUNDS_TO_DECREASE: u32 = 2;

impl Literal {
    pub(super) fn decide(
        &mut self,
        config: &Config,
        it: &RoundObservation,
        weight: Factor,
    ) -> WeightChange {
        let above = |part: Factor| it.round.queue > Bytes(part.of(config.max_queue.0));
        let grows = it.trend.is_gt() || it.blocked;
        let falls = it.trend.is_lt() && !it.blocked;
        self.falling = if falls { self.falling + 1 } else { 0 };
        let increase = step(it.delta, config.epsilon, weight);
        if above(config.high_threshold) {
            return if falls {
                WeightChange::Hold
            } else {
                WeightChange::Force(increase.max(Factor::ONE))
            };
        }
        if grows {
            let enough = it.blocked || above(config.low_threshold);
            return if enough { WeightChange::Increase(increase) } else { WeightChange::Hold };
        }
        if self.falling < ROUNDS_TO_DECREASE {
            return WeightChange::Hold;
        }
        self.falling = 0;
        WeightChange::Decrease
    }
}
