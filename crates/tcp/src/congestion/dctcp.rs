//! DCTCP: reduces the window in proportion to the marked bytes.
//!
//! Law: once per window, `alpha += gain * (marked - alpha)`. Here `marked` is the marked fraction
//! of the bytes acknowledged in that window. ECN-Echo reduces the window to `cwnd * (1 - alpha /
//! 2)`, at most once per window. A loss halves the window. The window grows as in Reno. DCTCP needs
//! accurate feedback: a receiver that repeats ECN-Echo until CWR makes `alpha` too large.
//!
//! Source: RFC 8257, sections 3.3 to 3.5 (`alpha` begins at 1, the estimation gain is 1/16).
//! Differs: `alpha` is kept in units of 2^-32 and never rounded up. Without marks it falls to
//! 2^-28, practically zero.

use tidegate_base::{Factor, Time, parameters};

use super::growth::Growth;
use super::{Ack, CongestionControl, Counting, Signal, Window, reno};

parameters! {
    /// Parameters of the estimate.
    pub Config {
        /// Weight of the newest window in the estimate.
        gain: Factor = Factor::from_millionths(62_500), in ..=Factor::ONE;
        /// The estimate before the first window. With 1, all bytes count as marked.
        alpha: Factor = Factor::ONE, in ..=Factor::ONE;
    }
}

impl Config {
    pub(super) fn build(&self, counting: Counting) -> Dctcp {
        Dctcp {
            gain: self.gain,
            alpha: self.alpha.of(ALL),
            acknowledged: 0,
            marked: 0,
            window_end: 0,
            growth: Growth::new(counting),
        }
    }
}

pub(super) struct Dctcp {
    gain: Factor,
    /// Estimate in units of 1/[`ALL`].
    alpha: u64,
    /// Bytes acknowledged in the current observation window, and the marked part of them.
    acknowledged: u64,
    marked: u64,
    /// The window ends when more than this offset is acknowledged.
    window_end: u64,
    growth: Growth,
}

/// The value of `alpha` for 1.
const ALL: u64 = 1 << 32;

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        self.acknowledged += ack.bytes;
        self.marked += ack.marked.min(ack.bytes);
        if ack.acknowledged > self.window_end {
            self.window_end = ack.sent;
            self.estimate();
        }
        if ack.may_grow {
            self.growth.advance(window, ack);
        }
    }

    fn on_signal(&mut self, _now: Time, window: &mut Window, flight: u64, signal: Signal) {
        self.growth.restart(matches!(signal, Signal::Timeout { .. }));
        match signal {
            Signal::Echo => {
                let off = u128::from(flight) * u128::from(self.alpha) / u128::from(2 * ALL);
                let left = flight - u64::try_from(off).unwrap_or(flight);
                window.threshold = left.max(window.floor);
            }
            Signal::Loss | Signal::Timeout { .. } => reno::halve(window, flight, signal),
        }
    }
}

impl Dctcp {
    fn estimate(&mut self) {
        if self.acknowledged > 0 {
            let marked = u128::from(self.marked) * u128::from(ALL) / u128::from(self.acknowledged);
            let marked = u64::try_from(marked).unwrap_or(ALL);
            self.alpha = self.alpha - self.gain.of(self.alpha) + self.gain.of(marked);
        }
        (self.acknowledged, self.marked) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_base::Rate;

    use super::super::testing::{SEGMENT, acknowledged, real, window};
    use super::super::toy_network::{Bottleneck, ToyNetwork};
    use super::*;

    fn dctcp() -> Dctcp {
        Config::default().build(Counting::RFC)
    }

    /// An observation window of ten segments up to `offset`, of which `marked` were marked.
    fn observe(dctcp: &mut Dctcp, offset: u64, marked: u64) {
        let mut window = window(10, 0);
        for number in 1..=10 {
            let echo = number <= marked;
            let ack = Ack {
                acknowledged: (offset + number) * SEGMENT,
                sent: (offset + 9 + number) * SEGMENT,
                marked: if echo { SEGMENT } else { 0 },
                echo,
                may_grow: false,
                ..acknowledged(SEGMENT)
            };
            dctcp.on_ack(&mut window, &ack);
        }
    }

    fn alpha(dctcp: &Dctcp) -> f64 {
        real(dctcp.alpha) / real(ALL)
    }

    #[test]
    fn alpha_follows_the_marked_part_with_a_gain_of_a_sixteenth() {
        // RFC 8257, section 3.3: alpha = alpha * (1 - g) + g * M, from 1.
        // Catches: a gain of an eighth; counters of marked and acknowledged bytes that are not
        // reset; an alpha that begins at 0.
        let mut dctcp = dctcp();
        // The first ACK ends a window of one marked segment. Each later window has ten segments,
        // three of them marked: 1, then 1 - 0.7 / 16, and so on towards 0.3.
        let mut expected = 1.0;
        observe(&mut dctcp, 0, 3);
        assert!((alpha(&dctcp) - expected).abs() < 1e-6);
        for round in 1..=20 {
            observe(&mut dctcp, round * 10, 3);
            expected = expected * 15.0 / 16.0 + 0.3 / 16.0;
            assert!((alpha(&dctcp) - expected).abs() < 1e-6, "{} {expected}", alpha(&dctcp));
        }
        for round in 21..400 {
            observe(&mut dctcp, round * 10, 0);
        }
        assert!(alpha(&dctcp) < 1e-6);
    }

    #[test]
    fn an_echo_reduces_by_half_of_alpha_and_a_loss_by_half() {
        // RFC 8257, sections 3.3 and 3.4. Catches: cwnd * (1 - alpha); alpha applied to a loss.
        for (alpha, segments) in [(ALL, 50), (ALL / 2, 75), (ALL / 10, 95), (0, 100)] {
            let mut dctcp = dctcp();
            dctcp.alpha = alpha;
            let mut window = window(100, u64::MAX);
            dctcp.on_signal(Time::ZERO, &mut window, 100 * SEGMENT, Signal::Echo);
            assert_eq!((window.threshold + 1) / SEGMENT, segments);
            dctcp.on_signal(Time::ZERO, &mut window, 100 * SEGMENT, Signal::Loss);
            assert_eq!(window.threshold, 50 * SEGMENT);
        }
    }

    #[test]
    fn the_queue_stays_near_the_threshold_and_the_link_full() {
        // SIGCOMM 2010 "Data Center TCP", section 3.3: with n connections the queue peaks at K + n
        // segments, and oscillates by sqrt(n (C rtt + K) / 2). A link stays full if K > C rtt / 7.
        // Here C rtt = 100, K = 20, n = 2: up to 22, oscillating by 11, around 16. Reno under the
        // same marks empties the queue.
        let mut bottleneck = Bottleneck::new(Rate::from_mbps(1_168), 1_000);
        bottleneck.mark_above = Some(20 * SEGMENT);
        let run = |build: &dyn Fn() -> Box<dyn CongestionControl>| {
            let mut pipe = ToyNetwork::new(bottleneck);
            for _ in 0..2 {
                pipe.add(build(), Duration::from_millis(1), 2, Duration::ZERO);
            }
            pipe.run(Duration::from_millis(300));
            let (rates, queue) = pipe.run(Duration::from_millis(700));
            (rates[0] + rates[1], queue)
        };
        let (rate, queue) = run(&|| Box::new(dctcp()));
        assert!(rate > 0.995 * 1_168e6, "{rate}");
        assert!((11.0..=22.0).contains(&queue), "{queue}");
        let (reno, _) = run(&|| Box::new(reno::Config::default().build(Counting::RFC)));
        assert!(reno < 0.98 * 1_168e6, "{reno}");
    }
}
