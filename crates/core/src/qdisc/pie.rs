//! PIE: one queue whose controller sets the drop probability so that packets wait for a target
//! time.
//!
//! At each *tick* of a clock, the controller computes the probability from the delay and its change.
//! A *hit* is a drop or a mark.
//!
//! Source: RFC 8033, sections 4 and 5 and appendix A. Three of its options are included: marking
//! (5.1), limited steps (5.5) and derandomisation (5.4). The delay is measured at the last departed
//! packet with time stamps (4.3), not estimated from the departure rate (5.2).
//! Differs:
//! - The queue has no timer, as in `pi`. The next event computes the missed ticks exactly, but at
//!   most [`MOST_TICKS`] of them. An idle queue reaches its initial state in fewer ticks.
//! - The controller is never switched off (5.3).
//! - Linux reduces the probability only while packets do not wait at all, and counts its burst
//!   allowance in packets, not ticks. This file follows the RFC in both.

use std::time::Duration;

use super::Backlog;
use super::length::{Measure, Ruler};
use super::managed::{Aqm, Managed, Verdict};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Chance, Packet, Rate, Time, parameters};

parameters! {
    /// Target delay, and the parameters of the controller.
    ///
    /// Source: RFC 8033, section 4 (15 ms, 150 ms) and section 5.1 (10 %).
    pub Config {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(4 << 20), in more_than(Bytes::ZERO), "nothing could wait";
        /// Target delay of packets.
        target: Duration = Duration::from_millis(15), in more_than(Duration::ZERO);
        /// Interval at which the probability is computed.
        every: Duration = Duration::from_millis(15), in more_than(Duration::ZERO);
        /// Duration of a burst after which the first packet may be dropped or marked.
        burst: Duration = Duration::from_millis(150);
        /// ECN-capable packets are marked instead of being dropped.
        ecn: bool = true;
        /// Packets are marked while the probability is at most this value, and dropped above it.
        mark_up_to: Chance = Chance::from_ppb(100_000_000);
        /// Size of a typical packet. While at most two of them wait, no packet is dropped or
        /// marked.
        packet: Bytes = Bytes(1_514);
    }
}

impl Config {
    pub(super) fn build(&self, _: Option<Rate>, random: Random) -> Managed<Pie> {
        let pie = Pie {
            steering: Steering::new(self.target, self.every, self.burst),
            mark_up_to: self.ecn.then(|| self.mark_up_to.real()),
            few: Bytes(self.packet.0.saturating_mul(2)),
            random,
        };
        Managed::new(pie, Ruler::new(Measure::Bytes, self.packet).limit(self.limit))
    }
}

/// Proportional integral controller enhanced (PIE).
pub(super) struct Pie {
    steering: Steering,
    /// Highest probability at which ECN-capable packets are marked. `None` if packets are never
    /// marked.
    mark_up_to: Option<f64>,
    /// Backlog up to which no packet is dropped or marked.
    few: Bytes,
    random: Random,
}

impl Aqm for Pie {
    fn arrival(&mut self, now: Time, _: &Packet, waiting: Backlog, room: bool) -> Verdict {
        self.steering.advance(now);
        if !room {
            self.steering.since_hit = 0.0;
            return Verdict::Drop;
        }
        let hit = self.steering.burst_left == 0
            && waiting.bytes > self.few
            && self.steering.hits(&mut self.random);
        self.steering.allow_burst();
        if !hit {
            Verdict::Pass
        } else if self.mark_up_to.is_some_and(|most| self.steering.p <= most) {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn departure(&mut self, now: Time, packet: &Packet, waiting: Backlog) {
        self.steering.advance(now);
        let waited = now.since(packet.queued);
        // An empty queue is not congested, however long the last packet waited.
        self.steering.delay = if waiting.packets == 0 { 0.0 } else { waited.as_secs_f64() };
    }
}

/// The drop probability, with the state that each tick needs.
#[derive(Clone, Debug, PartialEq)]
struct Steering {
    /// Nanoseconds between two ticks. Ticks are at multiples of this time.
    every: u64,
    /// Allowance of a burst, in nanoseconds.
    burst: u64,
    /// Target delay in seconds.
    target: f64,
    /// Number of ticks computed so far.
    ticks: u64,
    /// Delay of the last departed packet in seconds. `before` is its value at the last tick.
    delay: f64,
    before: f64,
    p: f64,
    /// Remaining nanoseconds of the burst allowance.
    burst_left: u64,
    /// Sum of the probabilities of all packets since the last drop or mark.
    since_hit: f64,
}

impl Steering {
    fn new(target: Duration, every: Duration, burst: Duration) -> Self {
        Self {
            every: nanos(every).max(1),
            burst: nanos(burst),
            target: target.as_secs_f64(),
            ticks: 0,
            delay: 0.0,
            before: 0.0,
            p: 0.0,
            burst_left: nanos(burst),
            since_hit: 0.0,
        }
    }

    /// Computes the ticks up to `now`. No packet arrived or departed since the last call.
    fn advance(&mut self, now: Time) {
        let due = (now.nanos() / self.every).saturating_sub(self.ticks);
        self.ticks += due;
        for _ in 0..due.min(MOST_TICKS) {
            let was = (self.p, self.before, self.burst_left);
            self.tick();
            if was == (self.p, self.before, self.burst_left) {
                break;
            }
        }
    }

    /// Computes the probability of the next interval.
    ///
    /// Source: RFC 8033, section 4.2 and appendix A.
    fn tick(&mut self) {
        let (error, trend) = (self.delay - self.target, self.delay - self.before);
        let step = (ALPHA * error + BETA * trend) / gentleness(self.p);
        let step = if self.p >= 0.1 { step.min(LARGEST_STEP) } else { step };
        self.p += step;
        if self.is_calm() {
            self.p *= DECAY;
        }
        self.p = self.p.clamp(0.0, 1.0);
        self.burst_left = self.burst_left.saturating_sub(self.every);
        self.before = self.delay;
    }

    /// Returns `true` if the delay is below half of the target, both now and at the last tick.
    fn is_calm(&self) -> bool {
        self.delay < self.target / 2.0 && self.before < self.target / 2.0
    }

    /// Restores the burst allowance when congestion has ended.
    fn allow_burst(&mut self) {
        if self.p == 0.0 && self.is_calm() {
            self.burst_left = self.burst;
        }
    }

    /// Returns `true` if an arriving packet is to be dropped or marked. More than two packets wait.
    ///
    /// Source: RFC 8033, section 4.1; section 5.4 (never before the probabilities add up to 0.85,
    /// and always at 8.5).
    fn hits(&mut self, random: &mut Random) -> bool {
        if self.before < self.target / 2.0 && self.p < 0.2 {
            return false;
        }
        if self.p == 0.0 {
            self.since_hit = 0.0;
        }
        self.since_hit += self.p;
        let hit = self.since_hit >= 0.85 && (self.since_hit >= 8.5 || random.unit() < self.p);
        if hit {
            self.since_hit = 0.0;
        }
        hit
    }
}

/// Divisor of the controller's steps, larger for smaller probabilities.
///
/// Source: RFC 8033, section 4.2.
fn gentleness(p: f64) -> f64 {
    match p {
        p if p < 0.000_001 => 2_048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

/// Change of the probability per second of delay (RFC 8033, section 4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Largest increase of the probability per tick, and its factor per tick without congestion (RFC
/// 8033, sections 5.5 and 4.2).
const LARGEST_STEP: f64 = 0.02;
const DECAY: f64 = 0.98;
/// Largest number of ticks that one event computes. The probability of an idle queue falls from 1 to
/// 0 in about 300 ticks.
const MOST_TICKS: u64 = 1_024;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::packet::Ecn;
    use crate::{Reason, Tally};

    const T: Duration = Duration::from_millis(15);

    fn steering() -> Steering {
        Steering::new(T, T, Duration::from_millis(150))
    }

    /// RFC 8033, section 4.2, computed by hand:
    /// `p += (alpha (d - target) + beta (d - d_old)) / gentleness`, with delays of 30, 30, 40, 400,
    /// 400, 10 and 5 ms.
    ///
    /// Catches: the two coefficients exchanged; a previous delay that is overwritten before the
    /// trend is computed; no largest step; decay at any delay.
    #[test]
    fn the_probability_follows_the_formula_of_the_rfc() {
        let mut steering = steering();
        let mut next = |delay| {
            steering.delay = delay;
            steering.tick();
            steering.p
        };
        let first = (0.125 * 0.015 + 1.25 * 0.030) / 2_048.0;
        let second = first + 0.125 * 0.015 / 128.0;
        let third = second + (0.125 * 0.025 + 1.25 * 0.010) / 128.0;
        let fourth = third + (0.125 * 0.385 + 1.25 * 0.360) / 32.0;
        let fifth = fourth + 0.125 * 0.385 / 2.0;
        let expected = [(0.030, first), (0.030, second), (0.040, third), (0.400, fourth)];
        for (delay, p) in expected {
            assert!((next(delay) - p).abs() < 1e-12, "{delay}: {p}");
        }
        assert!((0.01..0.1).contains(&fourth));
        assert!((next(0.400) - fifth).abs() < 1e-12);
        let sixth = fifth + (0.125 * -0.005 + 1.25 * -0.390) / 2.0;
        assert!(sixth < 0.0 && next(0.010) == 0.0);
        assert_eq!(next(0.005), 0.0);
    }

    #[test]
    fn a_high_probability_rises_by_two_percent_at_most_and_decays_in_calm() {
        let mut steering = steering();
        (steering.p, steering.delay) = (0.3, 0.5);
        steering.tick();
        assert!((steering.p - 0.32).abs() < 1e-12);
        (steering.p, steering.delay, steering.before) = (0.5, 0.004, 0.004);
        steering.tick();
        assert!((steering.p - (0.5 - 0.125 * 0.011) * 0.98).abs() < 1e-12);
        (steering.p, steering.delay, steering.before) = (0.5, 0.008, 0.008);
        steering.tick();
        assert!((steering.p - (0.5 - 0.125 * 0.007)).abs() < 1e-12);
    }

    /// RFC 8033, section 5.4: between two hits, the probabilities add up to 0.85 to 8.5.
    ///
    /// Catches: a sum that omits packets before 0.85; a sum that is not reset by a hit.
    #[test]
    fn hits_are_neither_too_close_nor_too_far_apart() {
        let mut random = chance();
        let mut steering = steering();
        (steering.p, steering.before) = (0.05, 0.03);
        let (mut distance, mut distances) = (0u32, Vec::new());
        for _ in 0..40_000 {
            distance += 1;
            if steering.hits(&mut random) {
                distances.push(std::mem::take(&mut distance));
            }
        }
        assert_eq!(distances.iter().min(), Some(&17));
        assert!(*distances.iter().max().unwrap() <= 171);
        // 16 packets before the first possible hit, and then 20 on average.
        assert!((1_050..1_180).contains(&distances.len()), "{}", distances.len());
        (steering.p, steering.since_hit) = (1e-9, 8.5);
        assert!(steering.hits(&mut random) && steering.since_hit == 0.0);
    }

    /// Drops and marks of 4,000 packets of 1 kB that arrive at 2 per ms, while the link sends 1 per
    /// ms.
    fn overload(config: &Config, ecn: Ecn) -> (Tally, u64) {
        let mut bench = Bench::new(config.build(None, chance()));
        bench.kind.ecn = ecn;
        let mut first = 0;
        for half in 0..4_000 {
            bench.now = Time::from_micros(500 * half);
            bench.enqueue(0, 1_000);
            if half % 2 == 0 {
                bench.dequeue();
            }
            if first == 0 && bench.tally != Tally::default() {
                first = half / 2;
            }
        }
        let tally = bench.tally;
        bench.drain();
        (tally, first)
    }

    /// RFC 8033, section 4.4: no packet of the first 150 ms is hit. Section 5.1: packets are marked
    /// while the probability is at most 10 %.
    ///
    /// Catches: no burst allowance; marks at any probability; marks of packets that are not
    /// ECN-capable.
    #[test]
    fn packets_are_marked_after_the_burst_and_dropped_when_the_overload_lasts() {
        let config = Config { limit: Bytes(1_000_000), ..Config::default() };
        let (tally, first) = overload(&config, Ecn::Ect0);
        assert!((150..1_000).contains(&first), "{first} ms");
        assert!(tally.marks.of(Reason::Aqm) > 3 && tally.drops.of(Reason::Aqm) > 100, "{tally:?}");
        let (tally, _) = overload(&config, Ecn::NotEct);
        assert!(tally.marks.total() == 0 && tally.drops.of(Reason::Aqm) > 100, "{tally:?}");
        let always = Config { mark_up_to: Chance::ALWAYS, ..config.clone() };
        let (tally, _) = overload(&always, Ecn::Ect1);
        assert!(tally.drops.of(Reason::Aqm) == 0 && tally.marks.total() > 100, "{tally:?}");
        let patient = Config { burst: Duration::from_secs(10), ..config };
        assert_eq!(overload(&patient, Ecn::NotEct).0.drops.of(Reason::Aqm), 0);
    }

    /// RFC 8033, section 4.1: no packet is hit while the delay is short and the probability is
    /// below 20 %. Also, no packet is hit while at most two packets wait.
    ///
    /// Catches: a controller without one of these two exceptions; a delay that stays above zero in
    /// an empty queue.
    #[test]
    fn a_short_queue_is_not_hit() {
        let mut random = chance();
        let mut steering = steering();
        (steering.p, steering.before) = (0.19, 0.007);
        assert!((0..1_000).all(|_| !steering.hits(&mut random)));
        steering.p = 0.21;
        assert!((0..1_000).any(|_| steering.hits(&mut random)));

        let mut bench = Bench::new(Config::default().build(None, chance()));
        let congested = Steering { p: 1.0, before: 0.1, delay: 0.1, burst_left: 0, ..steering };
        bench.qdisc.aqm.steering = Steering { ticks: 0, since_hit: 1.0, ..congested };
        (0..3).for_each(|_| bench.enqueue(0, 1_514));
        assert_eq!((bench.waiting(), bench.tally.drops.total()), (3, 0));
        bench.enqueue(0, 1_514);
        assert_eq!(bench.tally.drops.of(Reason::Aqm), 1);
        bench.now = Time::from_millis(9);
        bench.dequeue();
        assert_eq!(bench.qdisc.aqm.steering.delay, 0.009);
        bench.drain();
        assert_eq!(bench.qdisc.aqm.steering.delay, 0.0);
        // Much later, a burst is permitted again.
        bench.now = Time::from_secs(60);
        bench.enqueue(0, 1_514);
        assert_eq!(bench.qdisc.aqm.steering.burst_left, 150_000_000);
    }

    #[test]
    fn the_state_is_reset_after_an_idle_time() {
        let mut steering = steering();
        (steering.p, steering.burst_left) = (1.0, 0);
        let mut ticks = 0;
        while steering.p > 0.0 {
            steering.tick();
            ticks += 1;
        }
        assert!(ticks < 300, "{ticks}");
        steering.allow_burst();
        assert_eq!(steering.burst_left, 150_000_000);
    }

    proptest! {
        /// Catches: a loop that ends although the burst allowance still changes; one tick too few.
        #[test]
        fn missed_ticks_are_computed_exactly(
            delays in prop::collection::vec((0u32..100, 1u64..600), 1..20),
            parts in 1u64..5,
        ) {
            let mut lazy = steering();
            let (mut asked, mut timer) = (lazy.clone(), lazy.clone());
            let mut now = 0;
            for (millis, ticks) in delays {
                for steering in [&mut lazy, &mut asked, &mut timer] {
                    steering.delay = f64::from(millis) / 1e3;
                }
                for part in 1..=parts {
                    asked.advance(Time::from_nanos(now + ticks * nanos(T) * part / parts));
                }
                now += ticks * nanos(T);
                lazy.advance(Time::from_nanos(now));
                (0..ticks).for_each(|_| timer.tick());
                timer.ticks += ticks;
                prop_assert_eq!(&lazy, &timer);
                prop_assert_eq!(&asked, &timer);
            }
        }
    }
}
