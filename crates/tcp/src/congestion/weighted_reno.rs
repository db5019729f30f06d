//! Weighted Reno: one connection with the share of several Reno connections.
//!
//! Law, in segments: above the threshold the window grows by `w` in a round trip. A loss, ECN-Echo
//! or timeout sets `ssthresh = flight (1 - 1 / (2w))`, as if one of `w` connections halved its
//! window. Under random loss of probability `p`, growth and reduction balance at `cwnd = w sqrt(2 /
//! p)`, so shares are `w_i / sum w`.
//!
//! Source: `itcp`, section 3 (weights for controls other than Vegas); MulTCP (doi 10.48550/arXiv.cs/9808004).
//!
//! Differs:
//! - Slow start is that of Reno for any weight.
//! - An ACK adds at most one segment.
//! - A weight below one counts as one. Otherwise a reduction would leave less than half of the
//!   window.

use tidegate_base::{Factor, Time, parameters};

use super::growth::{Growth, Pace};
use super::{Ack, CongestionControl, Counting, Signal, Window};

parameters! {
    /// Parameters of weighted Reno.
    pub Config {
        /// The weight; below 1 it counts as 1. It may change during the connection.
        theta: Factor = Factor::ONE;
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> WeightedReno {
        let mut control =
            WeightedReno { growth: Growth::new(counting), pace: Pace::ONE, left: Factor::ONE };
        control.set_weight(self.theta);
        control
    }
}

pub(super) struct WeightedReno {
    growth: Growth,
    /// Growth per round trip: the weight.
    pace: Pace,
    /// Factor of the window after a loss: `1 - 1 / (2w)`.
    left: Factor,
}

impl CongestionControl for WeightedReno {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if ack.may_grow {
            self.growth.advance_at(window, ack, self.pace);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        if signal != (Signal::Timeout { again: true }) {
            window.threshold = self.left.of(flight).max(window.floor);
        }
    }

    fn set_weight(&mut self, weight: Factor) {
        let (one, weight) = (Factor::ONE.millionths(), weight.max(Factor::ONE).millionths());
        self.pace = Pace::ratio(u128::from(weight), u128::from(one));
        let lost = u128::from(one) * u128::from(one) / (2 * u128::from(weight));
        self.left = Factor::from_millionths(one - u64::try_from(lost).unwrap_or(one));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_base::Rate;

    use super::super::testing::{SEGMENT, acknowledged, real, rounds, window};
    use super::super::toy_network::{Bottleneck, ToyNetwork};
    use super::*;

    fn build(theta: u32) -> WeightedReno {
        Config { theta: Factor::whole(theta) }.build(Counting::RFC)
    }

    #[test]
    fn a_round_trip_adds_the_weight_in_segments() {
        // Catches: growth by one segment for any weight; `set_weight` without effect.
        let grown = |control: &mut WeightedReno| {
            let mut window = window(100, 0);
            real(rounds(control, &mut window, 10, 1)[9]) / real(SEGMENT) - 100.0
        };
        let by_three = grown(&mut build(3));
        assert!((29.4..30.0).contains(&by_three), "{by_three}");
        let mut control = build(3);
        control.set_weight(Factor::from_millionths(1_500_000));
        let by_half_more = grown(&mut control);
        assert!((14.7..15.0).contains(&by_half_more), "{by_half_more}");
    }

    #[test]
    fn an_ack_adds_at_most_one_segment_in_slow_start_and_at_small_windows() {
        // Catches: an ACK that adds several segments.
        let mut below = window(4, u64::MAX);
        assert_eq!(rounds(&mut build(10), &mut below, 2, 1), [8, 16].map(|it| it * SEGMENT));
        let mut above = window(4, 0);
        build(10).on_ack(&mut above, &acknowledged(SEGMENT));
        assert_eq!(above.congestion, 5 * SEGMENT);
    }

    #[test]
    fn a_loss_reduces_by_half_of_one_connection() {
        // Catches: a reduction by half for any weight; a reduction by 1 / w; a repeated timeout
        // that reduces the threshold again; a threshold below the floor.
        let left = |theta: Factor, signal| {
            let mut window = window(60, 77 * SEGMENT);
            let config = Config { theta };
            config.build(Counting::RFC).on_signal(Time::ZERO, &mut window, 60 * SEGMENT, signal);
            window.threshold / SEGMENT
        };
        let again = |again| Signal::Timeout { again };
        for (theta, segments) in [(1, 30), (2, 45), (3, 50), (10, 57)] {
            for signal in [Signal::Loss, Signal::Echo, again(false)] {
                assert_eq!(left(Factor::whole(theta), signal), segments, "{theta} {signal:?}");
            }
        }
        assert_eq!(left(Factor::whole(3), again(true)), 77);
        assert_eq!(left(Factor::from_millionths(300_000), Signal::Loss), 30);
        let mut small = window(1, u64::MAX);
        build(1).on_signal(Time::ZERO, &mut small, SEGMENT, Signal::Loss);
        assert_eq!(small.threshold, SEGMENT);
    }

    /// Relative errors of the shares on one link. Its bandwidth-delay product is 100 segments.
    fn errors(weights: &[u32], buffer: u64, lose_one_in: Option<u64>) -> Vec<f64> {
        let link = Rate::from_kbps(100 * SEGMENT * 8 / 100);
        let mut pipe = ToyNetwork::new(Bottleneck { lose_one_in, ..Bottleneck::new(link, buffer) });
        for (at, theta) in (0..).zip(weights) {
            let start = Duration::from_millis(7 * at);
            pipe.add(Box::new(build(*theta)), Duration::from_millis(100), 2, start);
            pipe.senders.last_mut().unwrap().window.threshold = 10 * SEGMENT;
        }
        pipe.run(Duration::from_secs(60));
        let (rates, _) = pipe.run(Duration::from_secs(240));
        let used = rates.iter().sum::<f64>();
        assert!(used > 0.97 * real(link.bps()), "{weights:?}: {used}");
        let sum = f64::from(weights.iter().sum::<u32>());
        let error = |(rate, weight): (&f64, &u32)| rate / used * sum / f64::from(*weight) - 1.0;
        rates.iter().zip(weights).map(error).collect()
    }

    #[test]
    fn shares_follow_weights_if_losses_hit_all_packets_equally() {
        // A002-10 (weighted Reno: shares follow weights): within 15 % on a full link. Each sender
        // loses one packet in 1,000.
        // Catches: a reduction or growth without the weight.
        for weights in [&[1, 2][..], &[1, 3], &[5, 2], &[1, 10], &[1, 2, 5, 10]] {
            let errors = errors(weights, 10_000, Some(1_000));
            assert!(errors.iter().all(|error| error.abs() < 0.15), "{weights:?}: {errors:?}");
        }
    }

    #[test]
    fn simultaneous_losses_give_shares_by_the_square_of_the_weight() {
        // A limit of the law. If all senders lose one packet in T round trips, growth by w T
        // balances a loss of cwnd / 2w at cwnd = 2 w^2 T. Then weights of 1:3 share 1:9.
        let errors = errors(&[1, 3], 100, None);
        assert!((-0.75..-0.55).contains(&errors[0]), "{errors:?}");
    }
}
