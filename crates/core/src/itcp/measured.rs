//! The `measured` law: the offered load against the rate that the aggregate connection gets while busy.
//!
//! Formula, with `busy`, the offered load `a` and the service rate `s` of a round:
//! - `busy > 0.95`: `w += 0.5 (max((a - s) / s, 0) + margin) w`;
//! - `busy < 0.95` and `a (1 + margin) < s` in two consecutive rounds: `w *= 1 - beta`.
//!
//! `(a - s) / s` equals `delta'` of equation 9 where the queue is unbounded, because its slope is `a - s`.
//!
//! Source: `itcp`, section 4 (equation 10, two consecutive rounds, assumption iii of Proposition 1).
//!
//! Differs:
//! - The paper's law reads the slope. In a stable system the queue is mostly empty and the slope is noise, which
//!   drives all weights to one. With bounded buffers the slope is always zero.
//! - `s` contains capacity that idle neighbours leave over. A weight that was given away may therefore be missed
//!   when they return, until the law has raised it again. `service = "contended"` takes `s` beside busy neighbours.
//! - After a decrease two new rounds are needed, as for `literal`. A round without a known `s` changes nothing.

use super::round::RoundObservation;
use super::{Config, WeightChange, step};
use crate::{Factor, Rate};

/// Its memory: consecutive rounds in which the service rate exceeded the load by the margin.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    ample: u32,
}

/// Above it the gateway is saturated: a busy gateway pauses shortly between two files. Chosen.
const SATURATED: Factor = Factor::from_millionths(950_000);

/// A decrease needs so many rounds: `itcp`, section 4.
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
