//! The `literal` law: the slope of the gateway's queue decides, as in the paper.
//!
//! Formula, with the slope `b`, the mean queue `q` and `delta' = b minRTT / cwnd`:
//! - `q > high_threshold max_queue` and `b >= 0`: `w += max(1, 0.5 (delta' + epsilon) w)`;
//! - `b > 0` and `q > low_threshold max_queue`: `w += 0.5 (delta' + epsilon) w` (equation 10);
//! - `b < 0` in two consecutive rounds and `q <= high_threshold max_queue`: `w *= 1 - beta`.
//!
//! Source: `itcp`, section 4.
//!
//! Differs:
//! - The text leaves two cases open. After a decrease two new rounds with `b < 0` are needed. A round with
//!   `b = 0` neither increases nor decreases, and ends a sequence of rounds with `b < 0`.
//! - The paper's queue is unbounded. A round in which the gateway blocked sources in at least half of the samples
//!   counts as `b > 0` with a queue above the low threshold, because the backlog then grows in the clients.

use super::round::RoundObservation;
use super::{Config, WeightChange, step};
use crate::{Bytes, Factor};

/// Its memory: consecutive rounds with a negative slope.
#[derive(Clone, Debug, Default)]
pub(super) struct Literal {
    falling: u32,
}

/// A decrease needs so many rounds with a negative slope: `itcp`, section 4.
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
