//! Aggregate-fair congestion avoidance: equal rates at any round-trip times.
//!
//! Law, in segments: above the threshold the window grows by `g = a * rtt^2` per round trip, with
//! `a = omega / (n * mean^2)`. Here `mean` is the mean round-trip time of the `n` connections of
//! the aggregate. If losses hit all connections equally often, the rate of a connection is `g /
//! rtt^2` times a constant, so all rates are equal. With `omega = n`, the aggregate is as fast as
//! `n` connections with the mean round-trip time. With `omega = 1`, it is as fast as one such
//! connection. Slow start and reductions are those of Reno. Until the aggregate is known, `g = 1`.
//!
//! Source: `aggregates`, section 5: `g(rtt) = (rtt / mean)^2`, here with `omega = n`; the text of
//! the paper says "one connection", which is `omega = 1`.
//! Differs: an ACK adds at most one segment, so the sender is never burstier than in slow start.
//! The paper has no such limit.

use std::time::Duration;

use tidegate_base::{Factor, Time, parameters};

use super::growth::{Growth, Pace};
use super::{Ack, CongestionControl, Counting, Signal, Window, reno};

parameters! {
    /// Rate of the whole aggregate.
    pub Config {
        /// The aggregate is as fast as this many connections with the mean round-trip time.
        /// Default: the number of its connections.
        omega: Option<Factor> = None;
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> AggregateFair {
        AggregateFair { omega: self.omega, growth: Growth::new(counting), aggregate: None }
    }
}

pub(super) struct AggregateFair {
    omega: Option<Factor>,
    growth: Growth,
    /// Mean round-trip time, and number of connections.
    aggregate: Option<(Duration, u32)>,
}

impl CongestionControl for AggregateFair {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if ack.may_grow {
            let pace = self.pace(ack.smoothed_rtt);
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

    fn on_aggregate(&mut self, mean_rtt: Duration, connections: u32) {
        self.aggregate =
            (!mean_rtt.is_zero() && connections > 0).then_some((mean_rtt, connections));
    }
}

impl AggregateFair {
    /// `g` for a round-trip time.
    fn pace(&self, rtt: Duration) -> Pace {
        let Some((mean, connections)) = self.aggregate else { return Pace::ONE };
        let all = Factor::whole(connections);
        let omega = self.omega.map_or(all, |omega| omega.clamp(Factor::ONE, all));
        let square = |span: Duration| {
            let micros = u128::from(u32::try_from(span.as_micros()).unwrap_or(u32::MAX));
            micros * micros
        };
        Pace::ratio(
            square(rtt) * u128::from(omega.millionths()),
            square(mean).max(1) * u128::from(all.millionths()),
        )
    }
}

#[cfg(test)]
mod tests {
    use tidegate_base::Rate;

    use super::super::testing::{SEGMENT, acknowledged, real, window};
    use super::super::toy_network::{Bottleneck, ToyNetwork};
    use super::*;

    /// Growth of a window of ten segments, if each segment gets an ACK.
    fn growth(config: &Config, rtt_ms: u64, mean_ms: u64, connections: u32) -> f64 {
        let mut control = config.build(Counting::RFC);
        control.on_aggregate(Duration::from_millis(mean_ms), connections);
        let mut window = window(1_000, 0);
        for _ in 0..1_000 {
            let smoothed_rtt = Duration::from_millis(rtt_ms);
            control.on_ack(&mut window, &Ack { smoothed_rtt, ..acknowledged(SEGMENT) });
        }
        real(window.congestion) / real(SEGMENT) - 1_000.0
    }

    #[test]
    fn it_grows_with_the_square_of_the_round_trip_time() {
        // g = omega / n * (rtt / mean)^2. The window grows while its own ACKs are counted, so the
        // exact result is w ln(1 + g / w), within half a percent of g here.
        // Catches: rtt / mean without the square; omega left out; omega that is not limited to 1 to
        // n.
        let omega = |millionths| Config { omega: Some(Factor::from_millionths(millionths)) };
        let formula = Config::default();
        for (config, rtt, mean, n, expected) in [
            (&formula, 100, 100, 4, 1.0),
            (&formula, 300, 100, 4, 9.0),
            (&formula, 50, 100, 4, 0.25),
            (&omega(1_000_000), 300, 100, 4, 2.25),
            (&omega(2_500_000), 200, 100, 5, 2.0),
            (&omega(9_000_000), 200, 100, 5, 4.0),
            (&omega(0), 200, 100, 4, 1.0),
        ] {
            let grown = growth(config, rtt, mean, n);
            assert!((grown / expected - 1.0).abs() < 0.006, "{rtt} {mean} {n}: {grown}");
        }
    }

    #[test]
    fn an_ack_adds_at_most_one_segment() {
        // (60 s / 10 ms)^2 would be 36 million segments per round trip.
        // Catches: growth without a limit per ACK.
        let mut control = Config::default().build(Counting::LINUX);
        control.on_aggregate(Duration::from_millis(10), 1);
        let mut window = window(10, 0);
        let smoothed_rtt = Duration::from_secs(60);
        control.on_ack(&mut window, &Ack { smoothed_rtt, ..acknowledged(10 * SEGMENT) });
        assert_eq!(window.congestion, 11 * SEGMENT);
    }

    #[test]
    fn without_an_aggregate_it_is_reno() {
        let mut control = Config::default().build(Counting::RFC);
        let mut window = window(10, 0);
        for _ in 0..1_000 {
            control.on_ack(&mut window, &acknowledged(SEGMENT));
        }
        // 10 + 11 + ... + 44 = 945 segments, and 55 more towards the window of 45.
        let segments = real(window.congestion) / real(SEGMENT);
        assert!((45.0..46.3).contains(&segments), "{segments}");
    }

    const RTTS: [u64; 4] = [50, 100, 300, 600];

    /// Rates of connections with these round-trip times, each of which loses a packet every 20 s.
    /// In theory half of the largest window is `half_window(rtt in s)` segments.
    fn rates(
        build: &dyn Fn() -> Box<dyn CongestionControl>,
        half_window: &dyn Fn(f64) -> f64,
    ) -> Vec<f64> {
        let mut path = Bottleneck::new(Rate::from_mbps(10_000), 100_000);
        path.lose_every = Some(Duration::from_secs(20));
        let mut pipe = ToyNetwork::new(path);
        let mean = RTTS.iter().sum::<u64>() / 4;
        for rtt in RTTS {
            let mut control = build();
            control.on_aggregate(Duration::from_millis(mean), 4);
            pipe.add(control, Duration::from_millis(rtt), 2, Duration::ZERO);
            let segments = half_window(real(rtt) / 1_000.0);
            let threshold = (1..).find(|it| real(*it) >= segments).unwrap() * SEGMENT;
            pipe.senders.last_mut().unwrap().window.threshold = threshold;
        }
        pipe.run(Duration::from_secs(60));
        pipe.run(Duration::from_secs(100)).0
    }

    #[test]
    fn with_equally_frequent_losses_rates_are_equal_at_any_round_trip_time() {
        // The rate is 1.5 T g / rtt^2 segments. The rates of two Reno connections with 50 and 600
        // ms differ by 144 to 1. Here the rates are equal, and as fast as a Reno connection with
        // the mean round-trip time.
        // Catches: g = rtt / mean; the mean of the aggregate left out.
        let mean = 0.2625;
        let fair = rates(&|| Box::new(Config::default().build(Counting::RFC)), &|rtt| {
            rtt / mean / mean * 20.0
        });
        let expected = 1.5 * 20.0 / (mean * mean) * 8.0 * real(SEGMENT);
        for rate in &fair {
            assert!((rate / expected - 1.0).abs() < 0.1, "{fair:?}, expected {expected}");
        }
        let reno =
            rates(&|| Box::new(reno::Config::default().build(Counting::RFC)), &|rtt| 20.0 / rtt);
        let bias = reno[0] / reno[3];
        assert!((130.0..160.0).contains(&bias), "{reno:?}");
    }
}
