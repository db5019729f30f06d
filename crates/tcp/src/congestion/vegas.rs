//! Vegas: keeps a small, fixed number of its own packets in the queue.
//!
//! Law, once per round trip, in segments: `queued = cwnd - cwnd * base / rtt`. Here `base` is the
//! least round-trip time ever seen and `rtt` the least of this round. The window grows by one if
//! `queued < alpha`, and shrinks by one if `queued > beta`. In slow start it doubles until
//! `queued > gamma`.
//!
//! Source: Linux, `tcp_vegas.c` (doubling each round trip, window at the end of slow start, at
//! least three samples in a round, reaction to losses as in Reno).
//! Differs: `queued` is `cwnd - cwnd * base / rtt`, as in ns-3, rounded up to whole segments. Linux
//! divides by `base` in place of `rtt`, so its result is larger.

use std::time::Duration;

use tidegate_base::{Factor, Time, parameters};

use super::growth::Growth;
use super::{Ack, CongestionControl, Counting, Signal, Window};

parameters! {
    /// Thresholds of the queue, in segments.
    pub Config {
        /// The window grows if fewer segments than this are queued. Linux has 2, ns-2 has 1.
        alpha: Factor = Factor::whole(2);
        /// The window shrinks if more segments than this are queued. Linux has 4, ns-2 has 3.
        beta: Factor = Factor::whole(4);
        /// Slow start ends if more segments than this are queued.
        gamma: Factor = Factor::ONE;
        /// In slow start the window doubles once per this many round trips. The paper of Vegas and ns-2
        /// have 2.
        double_every: u32 = 1;
        /// Factor of the window after a loss or ECN-Echo. ns-2 uses 0.75 for a segment lost once.
        after_loss: Factor = Factor::from_millionths(500_000), in ..=Factor::ONE;
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> Vegas {
        Vegas::new(self.clone(), Factor::ONE, VegasLaw::Segments, counting)
    }
}

/// Rounding of the queue, and size of the step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum VegasLaw {
    /// Queue rounded up to whole segments; step `theta`.
    Segments,
    /// Exact queue; step `theta`.
    Exact,
    /// Exact queue; step at most `theta` and at most the distance to `alpha`.
    Bounded,
}

/// Vegas for a connection of weight `theta`.
pub(super) struct Vegas {
    config: Config,
    theta: Factor,
    law: VegasLaw,
    growth: Growth,
    /// Least round-trip time ever seen.
    base: Duration,
    /// Least round-trip time in this round, and the number of samples.
    least: Duration,
    samples: u32,
    /// Number of rounds, for `double_every`.
    round: u32,
    /// The round ends when more than this offset is acknowledged.
    round_end: u64,
    /// The window at the start of this round, and the window at the start of the previous round.
    /// The latter was in flight when the first packet that this round acknowledges was sent.
    began_with: (u64, u64),
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt.map(|rtt| rtt.max(Duration::from_nanos(1))) {
            self.base = self.base.min(rtt);
            self.least = self.least.min(rtt);
            self.samples += 1;
        }
        if ack.in_recovery {
            // Samples in recovery say nothing about the window.
            self.begin_round(window, ack.sent);
            if ack.may_grow {
                self.growth.advance(window, ack);
            }
        } else if ack.acknowledged > self.round_end {
            self.end_round(window, ack);
            self.begin_round(window, ack.sent);
        } else if window.in_slow_start() {
            self.double(window, ack);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        if signal != (Signal::Timeout { again: true }) {
            window.threshold = self.config.after_loss.of(flight).max(window.floor);
        }
    }

    fn on_idle(&mut self, _now: Time, window: &mut Window, _idle: Duration) {
        // The path may have changed.
        self.base = Duration::MAX;
        self.begin_round(window, self.round_end);
    }
}

impl Vegas {
    pub(super) fn new(config: Config, theta: Factor, law: VegasLaw, counting: Counting) -> Self {
        Self {
            config,
            theta,
            law,
            growth: Growth::new(counting),
            base: Duration::MAX,
            least: Duration::MAX,
            samples: 0,
            round: 0,
            round_end: 0,
            began_with: (0, 0),
        }
    }

    pub(super) fn set_theta(&mut self, theta: Factor) {
        self.theta = theta;
    }

    fn begin_round(&mut self, window: &Window, end: u64) {
        self.began_with = (window.congestion, self.began_with.0);
        self.round_end = end;
        self.round = self.round.wrapping_add(1);
        self.samples = 0;
        self.least = Duration::MAX;
    }

    fn end_round(&mut self, window: &mut Window, ack: &Ack) {
        match (window.in_slow_start(), self.samples < ENOUGH) {
            (true, true) => self.double(window, ack),
            (true, false) => self.slow_start(window, ack),
            (false, true) if ack.may_grow => self.growth.advance(window, ack),
            (false, true) => {}
            (false, false) => self.avoid(window, ack.may_grow),
        }
    }

    fn slow_start(&mut self, window: &mut Window, ack: &Ack) {
        let flight = match self.law {
            VegasLaw::Segments => window.congestion,
            VegasLaw::Exact | VegasLaw::Bounded => self.began_with.1.min(window.congestion),
        };
        let unqueued = self.unqueued(flight);
        if self.queued(window, flight, unqueued) > self.weighted(window, self.config.gamma) {
            // One more segment compensates for the rounding.
            let enough = (unqueued / window.segment + 1) * window.segment;
            window.congestion = window.congestion.min(enough).max(2 * window.segment);
            self.leave_slow_start(window);
        } else {
            self.double(window, ack);
        }
    }

    fn avoid(&mut self, window: &mut Window, may_grow: bool) {
        let flight = window.congestion;
        let queued = self.queued(window, flight, self.unqueued(flight));
        let wanted = self.weighted(window, self.config.alpha);
        let step = match self.law {
            VegasLaw::Segments | VegasLaw::Exact => self.theta.of(window.segment),
            VegasLaw::Bounded => self.theta.of(window.segment).min(queued.abs_diff(wanted)),
        };
        if queued > self.weighted(window, self.config.beta) {
            window.congestion = window.congestion.saturating_sub(step).max(2 * window.segment);
            self.leave_slow_start(window);
        } else if may_grow && queued < wanted {
            window.congestion += step;
        }
    }

    /// Lowers the threshold below the window, but at least to three quarters of the window. This
    /// limits the cost of an idle time.
    fn leave_slow_start(&mut self, window: &mut Window) {
        let below = window.congestion.saturating_sub(window.segment);
        window.threshold = window.threshold.min(below).max(window.congestion * 3 / 4);
        self.growth.restart(false);
    }

    fn double(&mut self, window: &mut Window, ack: &Ack) {
        if ack.may_grow && self.round.is_multiple_of(self.config.double_every.max(1)) {
            self.growth.slow_start(window, ack.bytes);
        }
    }

    /// Bytes in flight that are on the path and not in a queue.
    fn unqueued(&self, flight: u64) -> u64 {
        let product = u128::from(flight) * self.base.as_nanos();
        u64::try_from(product / self.least.as_nanos().max(1)).unwrap_or(flight)
    }

    /// Bytes in flight that are in a queue.
    fn queued(&self, window: &Window, flight: u64, unqueued: u64) -> u64 {
        let bytes = flight.saturating_sub(unqueued);
        match self.law {
            VegasLaw::Segments => bytes.next_multiple_of(window.segment),
            VegasLaw::Exact | VegasLaw::Bounded => bytes,
        }
    }

    /// `theta * segments`, in bytes.
    fn weighted(&self, window: &Window, segments: Factor) -> u64 {
        self.theta.of(segments.of(window.segment))
    }
}

/// Least number of samples in a round. With fewer samples, all may be those of delayed ACKs
/// (Linux).
const ENOUGH: u32 = 3;

#[cfg(test)]
mod tests {
    use tidegate_base::Rate;

    use super::super::testing::{SEGMENT, acknowledged, window};
    use super::super::toy_network::{Bottleneck, ToyNetwork, mean};
    use super::*;

    const BASE: Duration = Duration::from_millis(100);

    fn build() -> Vegas {
        Config::default().build(Counting::LINUX)
    }

    /// Window and threshold in segments after a round with a round-trip time of `millis`.
    fn after_a_round(mut vegas: Vegas, segments: u64, millis: u64, threshold: u64) -> (u64, u64) {
        vegas.base = BASE;
        let mut window = window(segments, threshold * SEGMENT);
        let rtt = Some(Duration::from_millis(millis));
        // Three samples in the round, without growth, then the ACK that ends it.
        vegas.round_end = 10 * SEGMENT;
        for acknowledged in 1..=3 {
            let ack = Ack { rtt, may_grow: false, acknowledged, ..acknowledged_one() };
            vegas.on_ack(&mut window, &ack);
        }
        let ack = Ack { rtt, acknowledged: 11 * SEGMENT, ..acknowledged_one() };
        vegas.on_ack(&mut window, &ack);
        (window.congestion / SEGMENT, window.threshold / SEGMENT)
    }

    fn acknowledged_one() -> Ack {
        acknowledged(SEGMENT)
    }

    #[test]
    fn changes_of_the_window_agree_with_hand_calculations() {
        // The rows of ns-3's tests of Vegas: base 100 ms, alpha 2, beta 4, gamma 1. The queued
        // segments are 38 - 35 > gamma: window 35 + 1, threshold one less; 5 - 4 = gamma: slow
        // start; 60 - 29 > beta; 15 - 14 < alpha; 20 - 18 = alpha. The last row is not from ns-3:
        // 40 - 36 = beta.
        // Catches: `queued` rounded down; `<=` or `>=` in place of `<` and `>`; no segment added at
        // the end of slow start.
        for (segments, millis, threshold, expected) in [
            (38, 106, 40, 36),
            (5, 118, 10, 6),
            (60, 206, 40, 59),
            (15, 106, 10, 16),
            (20, 109, 10, 20),
            (40, 111, 10, 40),
        ] {
            let after = after_a_round(build(), segments, millis, threshold);
            assert_eq!(after.0, expected, "{segments} segments, {millis} ms");
            if segments == 38 {
                assert_eq!(after.1, 35);
            }
        }
    }

    #[test]
    fn with_few_samples_vegas_grows_like_reno() {
        let mut vegas = build();
        vegas.base = BASE;
        let mut window = window(20, 10 * SEGMENT);
        let ack = |bytes| Ack { rtt: Some(BASE * 9), ..acknowledged(bytes) };
        vegas.on_ack(&mut window, &ack(20 * SEGMENT));
        assert_eq!(window.congestion, 21 * SEGMENT);
    }

    #[test]
    fn doubling_every_other_round_trip_takes_twice_as_long() {
        let at = |double_every| {
            let control = Config { double_every, ..Config::default() }.build(Counting::LINUX);
            let mut pipe = ToyNetwork::new(Bottleneck::new(Rate::from_mbps(10_000), 10_000));
            pipe.add(Box::new(control), BASE, 4, Duration::ZERO);
            pipe.run(BASE * 13 / 2);
            pipe.senders[0].window.congestion / SEGMENT
        };
        // A round ends with the ACK of the first segment sent after its start. Three doublings in
        // every other round are 2w + 1 each: 9, 19, 39.
        assert_eq!((at(1), at(2)), (4 << 6, 39));
    }

    #[test]
    fn a_single_sender_keeps_alpha_to_beta_segments_queued_and_the_link_full() {
        // The bandwidth-delay product is 100 segments.
        // Catches: `base` that is never measured; a window that does not shrink above beta.
        let mut pipe = ToyNetwork::new(Bottleneck::new(Rate::from_kbps(11_680), 1_000));
        pipe.add(Box::new(build()), BASE, 2, Duration::ZERO);
        pipe.run(Duration::from_secs(30));
        let (rates, queue) = pipe.run(Duration::from_secs(30));
        assert!(rates[0] > 0.99 * 11_680e3, "{}", rates[0]);
        assert!((1.0..=4.5).contains(&queue), "{queue}");
        let mean = mean(&pipe.senders[0].trace, Time::from_secs(30));
        assert!((102.0..=105.0).contains(&mean), "{mean}");
        assert_eq!(pipe.senders[0].signals, 0);
    }
}
