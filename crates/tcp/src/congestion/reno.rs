//! Reno: the window grows by a segment per round trip and halves on a loss.
//!
//! Law, in segments: `cwnd += acked` below the threshold (slow start). Above it, `cwnd += 1` for
//! each window acknowledged. A loss, ECN-Echo or timeout sets `ssthresh = beta * flight`. Under
//! random loss of probability `p` the mean window is about `sqrt(3 / (2 b p))` segments, with `b`
//! segments per counted ACK.
//!
//! Source: RFC 5681, section 3.1 (windows, equations 2 to 4; a repeated timeout keeps the
//! threshold); RFC 3465, section 2 (byte counting); RFC 8511, section 3 (`beta_ecn`).
//! Differs: an ACK may cross the threshold. Its bytes below the threshold count for slow start, and
//! the other bytes for congestion avoidance, as in Linux. RFC 5681 leaves this open.

use tidegate_base::{Factor, Time, parameters};

use super::{Ack, CongestionControl, Counting, Signal, Window, growth::Growth};

parameters! {
    /// Counting rule and reduction factors.
    pub Config {
        /// The unit of growth. Default: the unit of the sender's profile.
        counting: Option<Counting> = None;
        /// Factor of the window after a loss (RFC 5681).
        beta: Factor = HALF, in ..=Factor::ONE;
        /// Factor of the window after ECN-Echo (RFC 3168). 0.8 is the alternative backoff of RFC
        /// 8511.
        beta_ecn: Factor = HALF, in ..=Factor::ONE;
    }
}

/// RFC 5681, equation 4.
const HALF: Factor = Factor::from_millionths(500_000);

impl Config {
    pub(super) fn build(&self, counting: Counting) -> Reno {
        Reno {
            beta: self.beta,
            beta_ecn: self.beta_ecn,
            growth: Growth::new(self.counting.unwrap_or(counting)),
        }
    }
}

pub(super) struct Reno {
    beta: Factor,
    beta_ecn: Factor,
    growth: Growth,
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if ack.may_grow {
            self.growth.advance(window, ack);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        match signal {
            Signal::Timeout { again: true } => {}
            Signal::Echo => window.threshold = self.beta_ecn.of(flight).max(window.floor),
            Signal::Loss | Signal::Timeout { again: false } => {
                window.threshold = self.beta.of(flight).max(window.floor);
            }
        }
    }
}

/// Halves the threshold on a signal, for algorithms that differ from Reno only in their growth.
pub(super) fn halve(window: &mut Window, flight: u64, signal: Signal) {
    if signal != (Signal::Timeout { again: true }) {
        window.threshold = HALF.of(flight).max(window.floor);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_base::Rate;

    use super::super::testing::{SEGMENT, acknowledged, equation_3, real, rounds, window};
    use super::super::toy_network::{Bottleneck, ToyNetwork, mean};
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn reno(counting: Counting) -> Reno {
        Config::default().build(counting)
    }

    #[test]
    fn slow_start_doubles_per_round_trip_when_each_segment_is_acknowledged() {
        // RFC 5681, section 3.1: "increments cwnd by at most SMSS bytes for each ACK".
        for counting in [Counting::Acks, Counting::RFC, Counting::LINUX] {
            let mut window = window(2, u64::MAX);
            let sizes = rounds(&mut reno(counting), &mut window, 4, 1);
            assert_eq!(sizes, [4, 8, 16, 32].map(|it| it * SEGMENT));
        }
    }

    #[test]
    fn delayed_acks_slow_growth_only_if_acks_are_counted() {
        // Each ACK covers two segments. RFC 3465, section 2.3: a limit of two segments per ACK
        // compensates for this, and a limit of one segment does not.
        // Catches: bytes that are counted without the limit per ACK; bytes that are counted
        // although the unit is the ACK.
        let limit_1 = Counting::Bytes { limit: 1, after_timeout: 1 };
        for (counting, after) in [(Counting::RFC, 16), (limit_1, 12), (Counting::Acks, 12)] {
            let mut window = window(8, u64::MAX);
            assert_eq!(rounds(&mut reno(counting), &mut window, 1, 2), [after * SEGMENT]);
        }
        // In congestion avoidance, the window grows by one segment per window if bytes are counted,
        // and by half a segment if ACKs are counted.
        let grown = |counting| {
            let mut window = window(100, 0);
            rounds(&mut reno(counting), &mut window, 10, 2)[9] - 100 * SEGMENT
        };
        assert_eq!(grown(Counting::RFC), 10 * SEGMENT);
        assert!((4 * SEGMENT..=5 * SEGMENT).contains(&grown(Counting::Acks)));
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_round_trip_at_any_window() {
        // RFC 3465, section 2.1, gives exactly one segment. Equation 3 of RFC 5681 is a recurrence
        // in reals and gives slightly less. Without the carried remainder the window would not grow
        // above 1,460 segments (cwnd > mss^2), and 7 % would be missing at 100.
        // Catches: a remainder that is not carried to the next ACK, with either unit.
        for segments in [10, 100, 1_000, 3_000] {
            let grown = |counting| {
                let mut window = window(segments, 0);
                rounds(&mut reno(counting), &mut window, 10, 1)[9]
            };
            assert_eq!(grown(Counting::RFC), (segments + 10) * SEGMENT);
            let exact = equation_3(segments, 10) * real(SEGMENT);
            let missing = exact - real(grown(Counting::Acks));
            assert!(missing.abs() < 0.02 * 10.0 * real(SEGMENT), "{segments}: {missing} bytes");
        }
    }

    #[test]
    fn bytes_acknowledged_beyond_a_window_count_for_the_next() {
        // 7,000 segments complete the windows of 100 to 154 segments (6,985), for any number of
        // segments per ACK.
        // Catches: a remainder that is lost when a window is complete.
        let mut window = window(100, 0);
        let mut reno = reno(Counting::RFC);
        for _ in 0..1_000 {
            reno.on_ack(&mut window, &acknowledged(7 * SEGMENT));
        }
        assert_eq!(window.congestion, 155 * SEGMENT);
    }

    #[test]
    fn an_ack_across_the_threshold_counts_for_both_phases() {
        let mut reno = reno(Counting::LINUX);
        let mut window = window(10, 12 * SEGMENT);
        reno.on_ack(&mut window, &acknowledged(4 * SEGMENT));
        assert_eq!(window.congestion, 12 * SEGMENT);
        // Two of the four segments count for congestion avoidance, so ten more complete a window.
        reno.on_ack(&mut window, &acknowledged(10 * SEGMENT - 1));
        assert_eq!(window.congestion, 12 * SEGMENT);
        reno.on_ack(&mut window, &acknowledged(1));
        assert_eq!(window.congestion, 13 * SEGMENT);
    }

    #[test]
    fn after_a_timeout_one_ack_adds_one_segment_until_the_threshold() {
        // RFC 3465, section 2.3: in the slow start after a timeout, an ACK adds at most one
        // segment.
        // Catches: a timeout after which an ACK still adds two segments.
        let mut reno = reno(Counting::RFC);
        let mut window = window(16, u64::MAX);
        reno.on_signal(Time::ZERO, &mut window, 16 * SEGMENT, Signal::Timeout { again: false });
        assert_eq!(window.threshold, 8 * SEGMENT);
        window.congestion = SEGMENT;
        for segments in 2..=8 {
            reno.on_ack(&mut window, &acknowledged(2 * SEGMENT));
            assert_eq!(window.congestion, segments * SEGMENT);
        }
    }

    #[test]
    fn the_reduction_depends_on_the_kind_of_congestion_signal() {
        // RFC 5681, equation 4; RFC 8511, section 3: 0.8 for Reno; RFC 5681, section 3.1: a
        // repeated timeout keeps the threshold.
        let mut reno = Config { beta_ecn: Factor::from_millionths(800_000), ..Config::default() }
            .build(Counting::RFC);
        let again = |again| Signal::Timeout { again };
        for (signal, segments) in
            [(Signal::Loss, 10), (Signal::Echo, 16), (again(false), 10), (again(true), 77)]
        {
            let mut window = window(20, 77 * SEGMENT);
            reno.on_signal(Time::ZERO, &mut window, 20 * SEGMENT, signal);
            assert_eq!(window.threshold, segments * SEGMENT, "{signal:?}");
        }
    }

    #[test]
    fn no_reduction_goes_below_the_floor() {
        for signal in [Signal::Loss, Signal::Echo, Signal::Timeout { again: false }] {
            let mut window = Window { floor: 2 * SEGMENT, ..window(3, u64::MAX) };
            reno(Counting::RFC).on_signal(Time::ZERO, &mut window, 3 * SEGMENT, signal);
            assert_eq!(window.threshold, 2 * SEGMENT, "RFC 5681, equation 4");
        }
    }

    #[test]
    fn an_ack_that_may_not_grow_the_window_changes_nothing() {
        let mut window = window(10, u64::MAX);
        let before = window;
        let ack = Ack { may_grow: false, ..acknowledged(2 * SEGMENT) };
        reno(Counting::RFC).on_ack(&mut window, &ack);
        assert_eq!(window, before);
    }

    /// One Reno sender on a link of 11.68 Mbit/s, whose bandwidth-delay product is 100 segments.
    fn alone(bottleneck: Bottleneck, warm: u64, span: u64) -> (ToyNetwork, f64, f64) {
        let mut pipe = ToyNetwork::new(bottleneck);
        pipe.add(Box::new(reno(Counting::RFC)), RTT, 2, Duration::ZERO);
        pipe.senders[0].window.threshold = 50 * SEGMENT;
        pipe.run(Duration::from_secs(warm));
        let (rates, queue) = pipe.run(Duration::from_secs(span));
        (pipe, rates[0] / 11_680_000.0, queue)
    }

    fn link(buffer: u64) -> Bottleneck {
        Bottleneck::new(Rate::from_kbps(11_680), buffer)
    }

    #[test]
    fn reno_uses_three_quarters_of_a_link_without_a_buffer_and_all_with_a_buffer() {
        // The window moves between W / 2 and W. Without a buffer, W is the bandwidth-delay product,
        // and the mean window is three quarters of it. With a buffer as large as the product, W / 2
        // is the product. (SIGCOMM 2004 "Sizing Router Buffers", section 2.) Two segments of buffer
        // add one percent.
        // Catches: a window that grows by two segments or by half a segment; a window that is
        // halved twice.
        let (_, used, _) = alone(link(2), 200, 500);
        assert!((0.74..0.79).contains(&used), "{used}");
        let (_, used, queue) = alone(link(101), 200, 500);
        assert!(used > 0.995, "{used}");
        // Then the queue grows from 0 to 101, linearly in rounds, and rounds become longer with the
        // queue. The mean queue seen by packets is the integral of (w - B)w divided by the integral
        // of w.
        let expected = 101.0 * (2.0 / 3.0 * 7.0 / 3.0 - 1.0);
        assert!((queue / expected - 1.0).abs() < 0.06, "{queue} {expected}");
    }

    #[test]
    fn losses_at_long_intervals_give_the_theoretical_mean_window() {
        // The window grows by one segment per round trip and halves every T = 10 s. It moves from
        // W / 2 to W = 2 n, with mean 1.5 n. Here n is the number of round trips in T, without the
        // round trip of the recovery.
        let mut far = Bottleneck::new(Rate::from_mbps(10_000), 100_000);
        far.lose_every = Some(Duration::from_secs(10));
        let (pipe, _, _) = alone(far, 100, 200);
        let sender = &pipe.senders[0];
        assert_eq!(sender.signals, 300 / 10 - 1);
        let mean = mean(&sender.trace, Time::from_secs(100));
        assert!((mean / (1.5 * 99.0) - 1.0).abs() < 0.03, "{mean}");
    }
}
