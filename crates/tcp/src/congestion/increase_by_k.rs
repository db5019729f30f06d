//! Increase-by-K: connections with long round-trip times grow by several segments per round trip.
//!
//! Law, in segments: above the threshold the window grows by `k` per round trip if `rtt >= from`,
//! otherwise by one. The default of `from` is the mean round-trip time of the aggregate. Slow start
//! and reductions are those of Reno.
//!
//! Source: `aggregates`, section 5, which names it as the alternative to growth by the square of
//! the round-trip time. The paper prints no numbers, so the defaults are chosen here.
//! Differs: an ACK adds at most one segment, as in `aggregate-fair`.

use std::time::Duration;

use tidegate_base::{Factor, Time, parameters};

use super::growth::{Growth, Pace};
use super::{Ack, CongestionControl, Counting, Signal, Window, reno};

parameters! {
    /// Growth of connections with long round-trip times.
    pub Config {
        /// Segments per round trip by which the window grows.
        k: Factor = Factor::whole(4);
        /// Least round-trip time with growth by `k`. Default: the mean of the aggregate, or 100 ms
        /// until the mean is known.
        from: Option<Duration> = None;
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> IncreaseByK {
        IncreaseByK {
            k: Pace::ratio(u128::from(self.k.millionths()), u128::from(Factor::ONE.millionths())),
            from: self.from,
            mean: UNKNOWN_MEAN,
            growth: Growth::new(counting),
        }
    }
}

pub(super) struct IncreaseByK {
    k: Pace,
    from: Option<Duration>,
    /// Mean round-trip time of the aggregate.
    mean: Duration,
    growth: Growth,
}

impl CongestionControl for IncreaseByK {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if ack.may_grow {
            let pace =
                if ack.smoothed_rtt >= self.from.unwrap_or(self.mean) { self.k } else { Pace::ONE };
            self.growth.advance_at(window, ack, pace);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        reno::halve(window, flight, signal);
    }

    fn wants_aggregate(&self) -> bool {
        true
    }

    fn on_aggregate(&mut self, mean_rtt: Duration, _connections: u32) {
        self.mean = if mean_rtt.is_zero() { UNKNOWN_MEAN } else { mean_rtt };
    }
}

/// Assumed mean until the mean is known. Chosen.
const UNKNOWN_MEAN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::super::testing::{SEGMENT, acknowledged, real, window};
    use super::*;

    #[test]
    fn connections_with_a_long_round_trip_grow_by_k_and_others_by_one() {
        // Catches: `>` in place of `>=`; `k` for all connections; a mean that overrides the
        // configured `from`.
        let grown = |from: Option<u64>, mean_ms: u64, rtt_ms| {
            let config = Config { from: from.map(Duration::from_millis), ..Config::default() };
            let mut control = config.build(Counting::RFC);
            control.on_aggregate(Duration::from_millis(mean_ms), 3);
            let mut window = window(1_000, 0);
            for _ in 0..1_000 {
                let smoothed_rtt = Duration::from_millis(rtt_ms);
                control.on_ack(&mut window, &Ack { smoothed_rtt, ..acknowledged(SEGMENT) });
            }
            real(window.congestion) / real(SEGMENT) - 1_000.0
        };
        let cases = [
            (None, 0, [(99, 1.0), (100, 4.0), (600, 4.0)]),
            (None, 300, [(100, 1.0), (299, 1.0), (300, 4.0)]),
            (Some(200), 300, [(199, 1.0), (200, 4.0), (300, 4.0)]),
        ];
        for (from, mean, growths) in cases {
            for (rtt_ms, expected) in growths {
                let grown = grown(from, mean, rtt_ms);
                assert!((grown / expected - 1.0).abs() < 0.003, "{from:?} {mean} {rtt_ms} ms");
            }
        }
    }
}
