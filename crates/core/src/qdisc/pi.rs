//! PI: a proportional-integral controller that holds a queue at a target length.
//!
//! At each tick of a clock, the controller computes the probability with which arriving packets are
//! dropped or marked, with the present length `q` and the previous length `q'`:
//! `p += a (q - target) - b (q' - target)`.
//!
//! Source: Hollot, Misra, Towsley and Gong, doi 10.1109/INFCOM.2001.916670, as in ns-2.35,
//! `queue/pi.cc`; parameters in `marking`, section 5.1.
//! Differs: the queue has no timer. The next arrival or departure computes the ticks since the last
//! event. The queue length did not change in between, so for up to [`EXACT_TICKS`] ticks, the
//! result equals the result of a timer. Further ticks of a longer idle time are computed as one
//! product, whose rounding differs from the rounding of the sums. Their result is still exact if
//! the probability stays at 0, at 1, or constant.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer};

use super::Backlog;
use super::length::{Measure, Ruler};
use super::managed::{Aqm, Managed, Verdict};
use crate::parameters::more_than;
use crate::parameters::{Form, Value, Written};
use crate::random::Random;
use crate::units::real;
use crate::{Bytes, Packet, Rate, Time, parameters};

parameters! {
    /// Target length, and the parameters of the controller.
    ///
    /// Source: doi 10.1109/INFCOM.2001.916670 (60 flows, 246 ms, 160 Hz); `marking`, section 5.1 (a
    /// target of two thirds of the limit).
    pub Config, checked {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(300_000), in more_than(Bytes::ZERO), "nothing could wait";
        /// Target length of the queue.
        target: Bytes = Bytes(200_000);
        /// Interval at which the probability is computed.
        every: Duration = Duration::from_micros(6_250);
        /// Strength of the reaction: the coefficients `a` and `b` per packet, or the traffic
        /// (`flows` and `rtt`) from which they are computed.
        gains: Gains = Gains::Designed { flows: 60, rtt: Duration::from_millis(246), rate: None };
        /// ECN-capable packets are marked instead of being dropped.
        ecn: bool = true;
        /// Unit of the queue length: bytes or packets.
        measure: Measure = Measure::Bytes;
        /// Size of a typical packet, the unit of lengths and gains.
        packet: Bytes = Bytes(1_514);
        /// Longer packets are more likely to be dropped or marked.
        by_size: bool = false;
    }
}

/// Strength of the controller's reaction to the queue length.
///
/// Written `{ a = 1.822e-5, b = 1.816e-5 }`, or `{ flows = 60, rtt = "246 ms" }` for a design.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gains {
    /// The coefficients, per packet: `p += a (q - target) - b (q' - target)`, with the present
    /// length `q` and the length `q'` of the previous tick.
    Given {
        /// Coefficient of the present length.
        a: Gain,
        /// Coefficient of the previous length; less than `a`.
        b: Gain,
    },
    /// Coefficients derived from the traffic: see [`pi_design`].
    Designed {
        /// Least number of long-lived TCP flows.
        flows: u32,
        /// Longest round-trip time, queueing included.
        rtt: Duration,
        /// Rate of the link. `None`: the rate of the link that the queue serves.
        rate: Option<Rate>,
    },
}

/// A coefficient: a real number above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain(f64);

// Values are finite and above zero, never NaN, so every value equals itself.
impl Eq for Gain {}

impl Gain {
    /// `value`, if it is above zero and finite.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value > 0.0 && value.is_finite()).then_some(Self(value))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Gain {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let gain = Self::new(f64::deserialize(from)?);
        gain.ok_or_else(|| de::Error::custom("expected a number above zero"))
    }
}

impl Config {
    fn check(&self) -> Result<(), &'static str> {
        if self.every.is_zero() {
            return Err("`every` must not be zero");
        }
        if self.packet == Bytes::ZERO {
            return Err("`packet` must not be zero");
        }
        if self.target >= self.limit {
            return Err("`target` must be less than `limit`, or it is never reached");
        }
        Ok(())
    }

    pub(super) fn build(&self, rate: Option<Rate>, random: Random) -> Managed<Pi> {
        let ruler = Ruler::new(self.measure, self.packet);
        let mut pi = Pi {
            controller: Controller {
                every: nanos(self.every),
                target: ruler.packets(self.target),
                a: 0.0,
                b: 0.0,
                ticks: 0,
                before: 0.0,
                p: 0.0,
            },
            ruler,
            gains: self.gains,
            every: self.every,
            ecn: self.ecn,
            by_size: self.by_size,
            random,
        };
        pi.tune(rate);
        Managed::new(pi, ruler.limit(self.limit))
    }
}

/// The coefficients `(a, b)` of a stable controller. The traffic is at least `flows` long-lived TCP
/// flows with round-trip times of at most `rtt` seconds. The link sends `capacity` packets per
/// second. The probability is computed `frequency` times per second.
///
/// The zero of the controller is the corner frequency of the window dynamics, `z = 2N / (R^2 C)`.
/// The gain `k = |1 + i z R| (2N)^2 / (R C)^3` makes the loop cross over at this frequency. Then
/// `a = k (1 + z / 2f)` and `b = k (1 - z / 2f)`.
///
/// Source: doi 10.1109/INFCOM.2001.916670 (design rule and bilinear transform). The rule yields the
/// coefficients of `marking`, section 5.1.
#[must_use]
pub fn pi_design(flows: f64, rtt: f64, capacity: f64, frequency: f64) -> (f64, f64) {
    let zero = 2.0 * flows / (rtt * rtt * capacity);
    let corner = (1.0 + zero * rtt * (zero * rtt)).sqrt();
    let bandwidth_delay = rtt * capacity;
    let loop_gain = bandwidth_delay * bandwidth_delay * bandwidth_delay / (4.0 * flows * flows);
    let gain = corner / loop_gain;
    let half = zero / (2.0 * frequency);
    (gain * (1.0 + half), gain * (1.0 - half))
}

/// Proportional-integral active queue management.
pub(super) struct Pi {
    controller: Controller,
    ruler: Ruler,
    gains: Gains,
    every: Duration,
    ecn: bool,
    by_size: bool,
    random: Random,
}

impl Pi {
    /// Computes the coefficients for a link of this rate. Without a rate, a designed controller
    /// never drops or marks.
    fn tune(&mut self, link: Option<Rate>) {
        let (a, b) = match self.gains {
            Gains::Given { a, b } => (a.get(), b.get()),
            Gains::Designed { flows, rtt, rate } => {
                let rate = rate.or(link).filter(|rate| rate.bps() > 0);
                let capacity = rate.map(|rate| self.ruler.per_second(rate));
                let frequency = 1.0 / self.every.as_secs_f64();
                capacity.map_or((0.0, 0.0), |capacity| {
                    pi_design(f64::from(flows), rtt.as_secs_f64(), capacity, frequency)
                })
            }
        };
        (self.controller.a, self.controller.b) = (a, b);
    }
}

impl Aqm for Pi {
    fn arrival(&mut self, now: Time, packet: &Packet, waiting: Backlog, room: bool) -> Verdict {
        let p = self.controller.advance(now, self.ruler.length(waiting));
        if !room {
            return Verdict::Drop;
        }
        let p = if self.by_size { p * self.ruler.size(packet) } else { p };
        if self.random.unit() >= p {
            Verdict::Pass
        } else if self.ecn {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn departure(&mut self, now: Time, packet: &Packet, left: Backlog) {
        let bytes = left.bytes + packet.frame_len();
        let before = Backlog { packets: left.packets + 1, bytes };
        self.controller.advance(now, self.ruler.length(before));
    }

    fn set_rate(&mut self, rate: Rate) {
        self.tune(Some(rate));
    }
}

/// The drop probability, with the state that each tick needs.
#[derive(Clone, Debug)]
struct Controller {
    /// Nanoseconds between two ticks. Ticks are at multiples of this time.
    every: u64,
    /// Target length in packets. All lengths of the controller are in packets.
    target: f64,
    a: f64,
    b: f64,
    /// Number of ticks computed so far.
    ticks: u64,
    /// Queue length at the last tick.
    before: f64,
    p: f64,
}

impl Controller {
    /// Computes the ticks up to `now`. The queue has had the constant `length` since the last call.
    /// Returns the probability.
    fn advance(&mut self, now: Time, length: f64) -> f64 {
        let due = (now.nanos() / self.every).saturating_sub(self.ticks);
        self.ticks += due;
        for done in 0..due {
            let was = (self.p, self.before);
            self.tick(length);
            if was == (self.p, self.before) {
                break;
            }
            if done == EXACT_TICKS {
                let left = real(due - done - 1);
                let each = (self.a - self.b) * (length - self.target);
                self.p = (self.p + left * each).clamp(0.0, 1.0);
                break;
            }
        }
        self.p
    }

    fn tick(&mut self, length: f64) {
        let (now, before) = (length - self.target, self.before - self.target);
        self.p = (self.a * now - self.b * before + self.p).clamp(0.0, 1.0);
        self.before = length;
    }
}

/// Number of ticks computed one by one. At 160 Hz, this is an idle time of more than six seconds.
const EXACT_TICKS: u64 = 1_024;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1)
}

parameters! {
    /// The fields of both notations of [`Gains`].
    GainFields {
        /// Coefficient of the present length, per packet.
        a: Option<Gain> = None;
        /// Coefficient of the previous length, less than `a`.
        b: Option<Gain> = None;
        /// Least number of long-lived TCP flows.
        flows: Option<u32> = None;
        /// Longest round-trip time, queueing included.
        rtt: Option<Duration> = None;
        /// Rate of the link. Default: the rate of the link that the queue serves.
        rate: Option<Rate> = None;
    }
}

crate::value! {
    Gain: Form::Number, |_it| None, <Self as Deserialize>::deserialize;
    Gains: <GainFields as Value>::form(), |it| it.as_written(), <Self as Deserialize>::deserialize;
}

impl Gains {
    /// The notation of a design. `None` for coefficients, which have no default to show.
    fn as_written(&self) -> Option<Written> {
        let Self::Designed { flows, rtt, rate } = self else { return None };
        let fields = [("flows", flows.written()), ("rtt", rtt.written()), ("rate", rate.written())];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        Some(Written::Table(fields.collect()))
    }
}

impl<'de> Deserialize<'de> for Gains {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match GainFields::deserialize(from)? {
            GainFields { a: Some(a), b: Some(b), flows: None, rtt: None, rate: None } => {
                if b.get() >= a.get() {
                    return Err(de::Error::custom("`b` must be less than `a`"));
                }
                Ok(Self::Given { a, b })
            }
            GainFields { a: None, b: None, flows: Some(flows), rtt: Some(rtt), rate } => {
                let zero = rate.is_some_and(|rate| rate.bps() == 0);
                if flows == 0 || rtt.is_zero() || zero {
                    return Err(de::Error::custom("neither `flows`, `rtt` nor `rate` may be zero"));
                }
                Ok(Self::Designed { flows, rtt, rate })
            }
            _ => Err(de::Error::custom(
                "write { a, b } for the coefficients, or { flows, rtt } and perhaps `rate` to design them",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::Reason;
    use crate::packet::Ecn;

    /// `marking`, section 5.1: 10 Mbit/s of 500-byte packets at 160 Hz. The paper's coefficients
    /// match a design for about 50 flows and 300 ms. One of them matches exactly a design for 60
    /// flows and 180 ms.
    ///
    /// Catches: the cube of `R C` computed as a square; a missing factor `R` in the zero.
    #[test]
    fn the_design_yields_the_coefficients_of_the_paper() {
        let (a, b) = pi_design(50.0, 0.3, 2_500.0, 160.0);
        assert_eq!(
            (format!("{a:.4e}"), format!("{b:.4e}")),
            ("2.3947e-5".into(), "2.3880e-5".into())
        );
        let (a, b) = pi_design(60.0, 0.18, 2_500.0, 160.0);
        assert_eq!(
            (format!("{a:.5e}"), format!("{b:.5e}")),
            ("1.64304e-4".into(), "1.62790e-4".into())
        );
        let config: Config = toml::from_str(
            "target = \"100 kB\"\nlimit = \"150 kB\"\npacket = \"500 B\"\ngains = { flows = 60, rtt = \"180 ms\" }",
        )
        .unwrap();
        let mut built = config.build(None, chance());
        assert_eq!((built.aqm.controller.a, built.aqm.controller.target), (0.0, 200.0));
        built.aqm.set_rate(Rate::from_mbps(10));
        assert!((built.aqm.controller.a - a).abs() < 1e-15);
        assert!((built.aqm.controller.b - b).abs() < 1e-15);
    }

    fn controller(a: f64, b: f64, target: f64) -> Controller {
        Controller { every: 6_250_000, target, a, b, ticks: 0, before: 0.0, p: 0.0 }
    }

    /// A trace of ns-2.35: 500-byte packets arrive every 1.3 ms from 0.10004 s to 0.2 s at a link
    /// of 1 Mbit/s. `a_` is 0.002395, `b_` is 0.002388, and `qref_` is 8. Six packets were dropped.
    ///
    /// Catches: a tick that counts the packet of the current event; a missing tick; a previous
    /// length that is not stored.
    #[test]
    fn the_probability_equals_the_trace_of_ns_2() {
        let dropped = BTreeSet::from([43, 44, 56, 66, 68, 73]);
        let accepted = (0..77u64).filter(|n| !dropped.contains(n)).map(|n| 100_040 + 1_300 * n);
        // Arrival of each packet and its departure from the queue, in microseconds.
        let mut changes = Vec::new();
        let mut free_at = 0;
        for arrives in accepted {
            let leaves = arrives.max(free_at);
            free_at = leaves + 4_000;
            changes.extend([(arrives, 1), (leaves, -1)]);
        }
        changes.sort_by_key(|(at, change)| (*at, -change));
        let traced = [
            (106_250, 0.007_129),
            (125_000, 0.031_044),
            (150_000, 0.062_459),
            (175_000, 0.087_011),
            (200_000, 0.111_864),
            (250_000, 0.082_528),
            (300_000, 0.054_88),
            (350_000, 0.024_144),
            (381_250, 0.004_872),
            (500_000, 0.003_808),
            (700_000, 0.002_016),
            (918_750, 5.6e-5),
            (925_000, 0.0),
        ];
        let mut controller = controller(0.002_395, 0.002_388, 8.0);
        let (mut queue, mut changes) = (0i32, changes.into_iter().peekable());
        for (at, p) in traced {
            while let Some((when, change)) = changes.next_if(|(when, _)| *when < at) {
                controller.advance(Time::from_micros(when), f64::from(queue));
                queue += change;
            }
            let now = controller.advance(Time::from_micros(at), f64::from(queue));
            assert!((now - p).abs() < 1e-6, "at {at} us: {now}, not {p}");
        }
    }

    proptest! {
    /// Extra calls between the events do not change the result, to the last bit. After a long idle
    /// time, the result equals the sum over all ticks.
        ///
        /// Catches: the product used from the first tick on; one tick too few.
        #[test]
        fn missed_ticks_are_computed_exactly(
            lengths in prop::collection::vec((0u32..400, 1u64..2_000), 1..20),
            parts in 1u64..5,
        ) {
            let (a, b) = pi_design(60.0, 0.18, 2_500.0, 160.0);
            let mut lazy = controller(a, b, 200.0);
            let (mut asked, mut timer) = (lazy.clone(), lazy.clone());
            let mut now = 0;
            for (length, ticks) in lengths {
                let length = f64::from(length);
                for part in 1..=parts {
                    let at = now + ticks * 6_250_000 * part / parts;
                    asked.advance(Time::from_nanos(at), length);
                }
                now += ticks * 6_250_000;
                lazy.advance(Time::from_nanos(now), length);
                (0..ticks).for_each(|_| timer.tick(length));
                if ticks <= EXACT_TICKS {
                    prop_assert_eq!(lazy.p.to_bits(), timer.p.to_bits());
                    prop_assert_eq!(asked.p.to_bits(), timer.p.to_bits());
                }
                prop_assert!((lazy.p - timer.p).abs() < 1e-12);
                (lazy.p, asked.p) = (timer.p, timer.p);
            }
        }
    }

    /// Catches: a probability that is assumed to be constant, because one tick did not change it.
    #[test]
    fn a_probability_that_one_tick_did_not_change_can_change_in_the_next_tick() {
        let mut controller = controller(0.01, 0.009, 8.0);
        controller.before = 400.0;
        assert_eq!(controller.clone().advance(Time::from_micros(6_250), 20.0), 0.0);
        assert!((controller.advance(Time::from_micros(12_500), 20.0) - 0.012).abs() < 1e-12);
    }

    #[test]
    fn a_queue_above_its_target_is_hit_more_and_more_often_and_recovers() {
        let config: Config = toml::from_str(
            "limit = \"30 kB\"\ntarget = \"10 kB\"\npacket = \"1 kB\"\ngains = { a = 1e-2, b = 9e-3 }",
        )
        .unwrap();
        let mut bench = Bench::new(config.build(None, chance()));
        bench.kind.ecn = Ecn::Ect1;
        (0..20).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!(bench.tally.marks.total(), 0);
        bench.now = Time::from_secs(20);
        (0..5).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!((bench.tally.marks.of(Reason::Aqm), bench.tally.drops.total()), (5, 0));
        bench.kind.ecn = Ecn::NotEct;
        (0..3).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!(bench.tally.drops.of(Reason::Aqm), 3);
        assert_eq!(bench.drain().len(), 25);
        bench.now = Time::from_secs(3_600);
        (0..10).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!((bench.tally.drops.total(), bench.drain().len()), (3, 10));
    }

    #[test]
    fn gains_are_read_as_coefficients_or_as_a_design() {
        let error = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error("gains = { a = 0, b = 0 }").contains("above zero"));
        assert!(error("gains = { a = 1e-5 }").contains("write { a, b }"));
        assert!(error("gains = { a = 1e-5, b = 2e-5 }").contains("`b` must be less"));
        assert!(error("gains = { flows = 0, rtt = \"1 s\" }").contains("may be zero"));
        assert!(error("gains = { a = 1e-5, b = 1e-6, flows = 1 }").contains("write { a, b }"));
        assert!(error("target = \"1 MB\"").contains("`target`"));
        assert!(error("every = \"0 s\"").contains("`every`"));
    }
}
