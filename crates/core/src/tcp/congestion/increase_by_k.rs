//! Increase-by-K: connections with long round-trip times grow by several segments per round trip.
//!
//! Law, in segments: above the threshold the window grows by `k` per round trip where the round-trip
//! time is at least `from`, by one where it is shorter. Slow start and reductions are Reno's.
//!
//! Source: `aggregates`, section 5, which names it as the alternative to growth by the square of the
//! round-trip time and prints no number; the defaults are ours.
//!
//! Differs: an ACK adds at most one segment, as in `aggregate-fair`.

use std::time::Duration;

use serde::Deserialize;

use super::growth::{Growth, Pace};
use super::{Ack, CongestionControl, Counting, Signal, Window, reno};
use crate::{Factor, Time, units};

/// Who grows by how much.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Segments per round trip: 4.
    pub k: Factor,
    /// From this round-trip time on: 100 ms.
    #[serde(with = "units::duration")]
    pub from: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { k: Factor::whole(4), from: Duration::from_millis(100) }
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> IncreaseByK {
        IncreaseByK {
            k: Pace::ratio(u128::from(self.k.millionths()), u128::from(Factor::ONE.millionths())),
            from: self.from,
            growth: Growth::new(counting),
        }
    }
}

pub(super) struct IncreaseByK {
    k: Pace,
    from: Duration,
    growth: Growth,
}

impl CongestionControl for IncreaseByK {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if ack.may_grow {
            let pace = if ack.smoothed_rtt >= self.from { self.k } else { Pace::ONE };
            self.growth.advance_at(window, ack, pace);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        reno::halve(window, flight, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SEGMENT, acknowledged, real, window};
    use super::*;

    #[test]
    fn the_long_grow_by_k_per_round_trip_and_the_short_by_one() {
        // Kills: `>` in place of `>=`; `k` for all.
        let grown = |rtt_ms| {
            let mut control = Config::default().build(Counting::RFC);
            let mut window = window(1_000, 0);
            for _ in 0..1_000 {
                let smoothed_rtt = Duration::from_millis(rtt_ms);
                control.on_ack(&mut window, &Ack { smoothed_rtt, ..acknowledged(SEGMENT) });
            }
            real(window.congestion) / real(SEGMENT) - 1_000.0
        };
        for (rtt_ms, expected) in [(99, 1.0), (100, 4.0), (600, 4.0)] {
            assert!((grown(rtt_ms) / expected - 1.0).abs() < 0.003, "{rtt_ms} ms");
        }
    }
}
