//! RED: drops or marks arriving packets at random, with a probability that follows the average
//! queue length. A *hit* is a drop or a mark.
//!
//! Source: doi 10.1109/90.251892; RFC 3168, section 5 (ECN); ns-2.35 (`gentle_`, `wait_`, and
//! `mark_p_` for `mark_up_to`).
//! Differs: a packet that does not fit into `limit` is dropped, while ns-2 accepts one packet more.
//! Probabilities are compared with `<`, not `<=`.

use super::Backlog;
use super::detector::{Curve, Detector, Odds, Spread};
use super::length::{Measure, Ruler};
use super::managed::{Aqm, Managed, Verdict};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Chance, Packet, Rate, Time, parameters};

parameters! {
    /// Thresholds and probabilities.
    ///
    /// The defaults are the example of Linux, `tc-red(8)`, with packets of full size.
    pub Config, checked {
        /// Most frame bytes that may wait.
        limit: Bytes = Bytes(400_000), in more_than(Bytes::ZERO), "nothing could wait";
        /// Average length below which no packet is marked or dropped.
        min: Bytes = Bytes(30_000);
        /// Average length at which packets are dropped or marked with probability `max_p`. More
        /// than `min`.
        max: Bytes = Bytes(90_000);
        /// Probability of a drop or mark at an average length of `max`.
        max_p: Chance = Chance::from_ppb(100_000_000);
        /// Weight of the present length in the average, which each arrival updates.
        weight: Chance = Chance::from_ppb(2_000_000), in more_than(Chance::NEVER), "the average would never change";
        /// Above `max`, the probability rises linearly to 1 at twice `max`. If false, it is 1 above
        /// `max`.
        gentle: bool = true;
        /// At the probability `p`, `1/p` to `2/p` packets pass between two drops or marks. If false,
        /// fewer than `1/p`.
        wait: bool = false;
        /// ECN-capable packets are marked in place of being dropped.
        ecn: bool = true;
        /// Packets are marked while the probability is at most this value, and dropped above it.
        mark_up_to: Chance = Chance::ALWAYS;
        /// Unit of the queue length: bytes or packets.
        measure: Measure = Measure::Bytes;
        /// Size of a typical packet. Converts bytes and idle time into packets.
        packet: Bytes = Bytes(1_514), in more_than(Bytes::ZERO);
        /// Longer packets are more likely to be dropped or marked.
        by_size: bool = false;
    }
}

impl Config {
    /// Checks the fields together.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.min >= self.max {
            return Err("`min` must be less than `max`");
        }
        Ok(())
    }

    pub(super) fn build(&self, rate: Option<Rate>, random: Random) -> Managed<Red> {
        let red = Red { detector: self.detector(rate), marking: self.marking(), random };
        Managed::new(red, self.ruler().limit(self.limit))
    }

    pub(super) fn detector(&self, rate: Option<Rate>) -> Detector {
        let ruler = self.ruler();
        let curve = Curve {
            min: ruler.packets(self.min),
            max: ruler.packets(self.max),
            max_p: self.max_p.real(),
            gentle: self.gentle,
        };
        let spread = Spread { wait: self.wait, by_size: self.by_size };
        Detector::new(ruler, curve, spread, self.weight.real(), rate)
    }

    pub(super) fn ruler(&self) -> Ruler {
        Ruler::new(self.measure, self.packet)
    }

    pub(super) fn marking(&self) -> MarkRule {
        MarkRule { up_to: self.ecn.then(|| self.mark_up_to.real()) }
    }
}

/// The decision between a mark and a drop.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkRule {
    /// Highest probability at which packets are marked. `None` if packets are never marked.
    up_to: Option<f64>,
}

impl MarkRule {
    /// The decision for a packet that was selected at the probability `base`.
    pub(super) fn verdict(self, base: f64) -> Verdict {
        if self.up_to.is_some_and(|most| base <= most) { Verdict::Mark } else { Verdict::Drop }
    }
}

/// The queue's average length, and the decision between marks and drops.
pub(super) struct Red {
    detector: Detector,
    marking: MarkRule,
    random: Random,
}

impl Aqm for Red {
    fn arrival(&mut self, now: Time, packet: &Packet, waiting: Backlog, room: bool) -> Verdict {
        let odds = self.detector.arrival(now, packet, waiting);
        if !room {
            self.detector.signalled();
            return Verdict::Drop;
        }
        match odds {
            Some(Odds { base, spread }) if self.random.unit() < spread => {
                self.detector.signalled();
                self.marking.verdict(base)
            }
            _ => Verdict::Pass,
        }
    }

    fn departure(&mut self, now: Time, packet: &Packet, waiting: Backlog) {
        self.detector.departure(now, packet, waiting);
    }

    fn set_rate(&mut self, rate: Rate) {
        self.detector.set_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::packet::Ecn;
    use crate::{Reason, Tally};

    /// A configuration whose average follows the queue length within a hundred packets.
    fn config(text: &str) -> Config {
        let text = format!(
            "limit = \"20 kB\"\nmin = \"5 kB\"\nmax = \"10 kB\"\npacket = \"1 kB\"\nweight = \"5 %\"\n{text}"
        );
        toml::from_str(&text).unwrap()
    }

    /// Drops and marks of `n` packets of 1 kB that arrive at a queue with a steady length of
    /// `kilobytes`.
    fn at(config: &Config, kilobytes: u32, n: u32, ecn: Ecn) -> Tally {
        let mut bench = Bench::new(config.build(None, chance()));
        bench.kind.ecn = ecn;
        (0..kilobytes).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!(bench.waiting(), kilobytes, "dropped before its average has risen");
        for step in 0..n + 500 {
            if step == 500 {
                bench.tally = Tally::default();
            }
            bench.enqueue(0, 1_000);
            if bench.waiting() > kilobytes {
                bench.dequeue();
            }
        }
        bench.tally
    }

    #[test]
    fn no_packet_is_hit_below_the_lower_threshold() {
        assert_eq!(at(&config(""), 4, 1_000, Ecn::Ect0), Tally::default());
    }

    /// Half way between the thresholds, the probability is `max_p / 2` = 5 %. The spacing of hits
    /// is uniform from 1 to 19 packets, so one packet in ten is hit.
    #[test]
    fn between_the_thresholds_some_packets_are_marked_or_dropped() {
        let config = Config { min: Bytes(4_000), max: Bytes(12_000), ..config("") };
        let marked = at(&config, 8, 20_000, Ecn::Ect0);
        assert_eq!((marked.marks.total(), marked.drops.total()), (marked.marks.of(Reason::Aqm), 0));
        // Uniform from 1 to 19: mean 10, standard deviation 5.5. The bounds are four deviations of
        // 2,000 spacings.
        assert!((1_900..2_100).contains(&marked.marks.total()), "{marked:?}");
        let config = Config { ecn: false, ..config };
        let dropped = at(&config, 8, 20_000, Ecn::Ect0);
        assert_eq!(
            (dropped.marks.total(), dropped.drops.of(Reason::Aqm)),
            (0, marked.marks.total())
        );
    }

    /// Catches: marks of packets that are not ECN-capable.
    #[test]
    fn packets_that_cannot_be_marked_are_dropped() {
        let config = Config { min: Bytes(4_000), max: Bytes(12_000), ..config("") };
        let tally = at(&config, 8, 2_000, Ecn::NotEct);
        assert!(tally.marks.total() == 0 && tally.drops.of(Reason::Aqm) > 100, "{tally:?}");
    }

    /// Above the upper threshold, RFC 3168 and Linux continue to mark packets, while ns-2 drops
    /// them (`use_mark_p_`).
    ///
    /// Catches: `mark_up_to` compared with the probability after hits are spread evenly, which is
    /// mostly above `max_p`.
    #[test]
    fn above_the_marking_limit_packets_are_dropped() {
        let steep = config("gentle = false");
        let marks = at(&steep, 11, 100, Ecn::Ect0);
        assert_eq!((marks.marks.total(), marks.drops.total()), (100, 0));
        let ns_2 = config("gentle = false\nmark_up_to = \"10 %\"");
        let drops = at(&ns_2, 11, 100, Ecn::Ect0);
        assert_eq!((drops.marks.total(), drops.drops.of(Reason::Aqm)), (0, 100));
        let below = at(&ns_2, 8, 1_000, Ecn::Ect0);
        assert!(below.marks.total() > 50 && below.drops.total() == 0, "{below:?}");
    }

    #[test]
    fn a_packet_without_room_is_counted_as_such() {
        let config = Config { max: Bytes(30_000), max_p: Chance::NEVER, ..config("") };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..25).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!((bench.tally.drops.of(Reason::QueueFull), bench.tally.drops.total()), (5, 5));
        let packets = Config { measure: Measure::Packets, ..config };
        let mut bench = Bench::new(packets.build(None, chance()));
        (0..25).for_each(|_| bench.enqueue(0, 60));
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 5);
    }

    #[test]
    fn fields_that_contradict_each_other_are_refused() {
        let error = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error("min = \"90 kB\"").contains("`min` must be less than `max`"));
        assert!(error("packet = \"0 B\"").contains("`packet`"));
        assert!(error("weight = \"0 %\"").contains("`weight`"));
        assert!(error("maximum = \"90 kB\"").contains("unknown field"));
    }
}
