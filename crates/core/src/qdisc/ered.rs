//! ERED: RED that drops or marks packets in profile less often than packets out of profile.
//!
//! A packet is *in profile* if it was sent within the rate of its aggregate; its DS codepoint shows
//! this. A *hit* is a drop or a mark. Above the lower threshold, a packet out of profile is hit
//! with probability `p`, and a packet in profile with probability `p / k`.
//!
//! Source: `aggregates`, sections 3.2 and 4.1 (`k` = 1.5).
//! Differs: the paper does not print the parameters of RED. They are the parameters of the queue
//! `red` here. `p` is RED's probability after hits are spread evenly. The ratio of both
//! probabilities is therefore exactly `k` at each arrival.

use super::Backlog;
use super::detector::{Detector, Odds};
use super::managed::{Aqm, Managed, Verdict};
use super::red::{self, MarkRule};
use crate::packet::Codepoint;
use crate::random::Random;
use crate::{Factor, Packet, Rate, Time, parameters};

parameters! {
    /// Parameters of RED, and the packets in profile.
    pub Config {
        /// Probability of a drop or mark for packets out of profile, divided by the probability for
        /// packets in profile.
        k: Factor = Factor::from_millionths(1_500_000), in Factor::ONE.., "it spares packets in profile";
        /// The DS codepoints of packets in profile, by name or number.
        in_profile: Vec<Codepoint> = Codepoint::LOW_DROP_PRECEDENCE.to_vec();
        /// Parameters of RED.
        red: red::Config = red::Config::default();
    }
}

impl Config {
    pub(super) fn build(&self, rate: Option<Rate>, random: Random) -> Managed<Ered> {
        let bit = |codepoint: &Codepoint| 1u64 << codepoint.number();
        let ered = Ered {
            detector: self.red.detector(rate),
            marking: self.red.marking(),
            spared: self.in_profile.iter().map(bit).fold(0, |all, one| all | one),
            k: self.k.real(),
            random,
        };
        Managed::new(ered, self.red.ruler().limit(self.red.limit))
    }
}

/// The state of RED, and the packets in profile.
pub(super) struct Ered {
    detector: Detector,
    marking: MarkRule,
    /// Bit `n` is set if packets with DS codepoint `n` are in profile.
    spared: u64,
    k: f64,
    random: Random,
}

impl Aqm for Ered {
    fn arrival(&mut self, now: Time, packet: &Packet, waiting: Backlog, room: bool) -> Verdict {
        let odds = self.detector.arrival(now, packet, waiting);
        if !room {
            self.detector.signalled();
            return Verdict::Drop;
        }
        let spared = self.spared >> packet.dscp & 1 == 1;
        let k = if spared { self.k } else { 1.0 };
        match odds {
            Some(Odds { base, spread }) if self.random.unit() < spread / k => {
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
    use crate::Reason;

    /// Hits among about 100,000 packets in profile, and as many out of profile. The queue length is
    /// half way between the thresholds.
    fn hits(k: &str) -> [f64; 2] {
        let text = format!(
            "k = {k}\nin_profile = [\"AF11\", 46]\n[red]\nlimit = \"20 kB\"\nmin = \"4 kB\"\nmax = \"12 kB\"\npacket = \"1 kB\"\nweight = \"100 %\""
        );
        let config: Config = toml::from_str(&text).unwrap();
        let mut bench = Bench::new(config.build(None, chance()));
        let mut which = Random::new(9, 9);
        let mut hit = [0u32; 2];
        (0..8).for_each(|_| bench.enqueue(0, 1_000));
        for _ in 0..200_000 {
            while bench.waiting() > 8 {
                bench.dequeue();
            }
            let in_profile = which.below(2) == 0;
            bench.kind.dscp = if in_profile { 10 } else { 12 };
            let before = bench.tally.drops.of(Reason::Aqm);
            bench.enqueue(0, 1_000);
            if bench.tally.drops.of(Reason::Aqm) > before {
                hit[usize::from(!in_profile)] += 1;
            }
        }
        hit.map(f64::from)
    }

    /// Catches: `k` applied before hits are spread evenly, so that the ratio is 1.8; `k` applied
    /// to packets out of profile.
    #[test]
    fn a_packet_in_profile_is_hit_k_times_less_often() {
        let [marked, unmarked] = hits("1.5");
        // With about 7,000 and 10,000 hits, four standard deviations of the ratio are 6 %.
        assert!((unmarked / marked - 1.5).abs() < 0.09, "{unmarked} / {marked}");
        let [marked, unmarked] = hits("1");
        assert!((unmarked / marked - 1.0).abs() < 0.06, "{unmarked} / {marked}");
    }

    #[test]
    fn by_default_the_lowest_drop_precedences_are_in_profile() {
        let config: Config = toml::from_str("").unwrap();
        assert_eq!(config.in_profile, Codepoint::LOW_DROP_PRECEDENCE);
        assert!((config.k.real() - 1.5).abs() < 1e-12);
        let error = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error("k = 0.5").contains("`k` must be at least 1"));
        assert!(error("k = -1").contains("a number from 0"));
        assert!(error("in_profile = [\"AF99\"]").contains("AF11 to AF43"));
    }
}
