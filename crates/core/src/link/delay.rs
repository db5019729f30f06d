//! The propagation delay of packets, and its jitter.

use std::time::Duration;

use serde::de::{
    self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer,
};

use super::LinkConfig;
use crate::parameters::Form;
use crate::random::Random;
use crate::{Time, parameters, units};

/// Random variation of a packet's delay around the delay of the link.
///
/// Files write `"2 ms"` for a uniform variation of up to 2 ms in either direction, or
/// `{ normal = "2 ms" }` for an almost normal distribution with a standard deviation of 2 ms. No
/// packet arrives before it was sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Jitter {
    /// Every packet has the delay of the link.
    #[default]
    None,
    /// Uniform distribution, up to this much in either direction.
    Uniform(Duration),
    /// Almost normal distribution with this standard deviation.
    Normal(Duration),
}

/// The propagation delay of one link.
pub(super) struct Delay {
    /// The delay without jitter, in nanoseconds.
    constant: u64,
    /// The jitter, if the link has any.
    variation: Option<Box<Variation>>,
}

/// The jitter of one link.
struct Variation {
    jitter: Jitter,
    reorder: bool,
    random: Random,
    /// The latest arrival time so far.
    latest: Time,
}

impl Delay {
    pub(super) fn new(config: &LinkConfig, random: Random) -> Self {
        let LinkConfig { delay, jitter, reorder, .. } = *config;
        let varies = jitter != Jitter::None;
        let variation = || Box::new(Variation { jitter, reorder, random, latest: Time::ZERO });
        Self { constant: (Time::ZERO + delay).nanos(), variation: varies.then(variation) }
    }

    /// Sets the delay of later packets. The jitter does not change.
    pub(super) fn set(&mut self, delay: Duration) {
        self.constant = (Time::ZERO + delay).nanos();
    }

    /// Arrival time of a packet that is sent at `sent`.
    #[inline]
    pub(super) fn arrival(&mut self, sent: Time) -> Time {
        match &mut self.variation {
            None => Time::from_nanos(sent.nanos().saturating_add(self.constant)),
            Some(variation) => variation.arrival(sent, Duration::from_nanos(self.constant)),
        }
    }
}

impl Variation {
    fn arrival(&mut self, sent: Time, constant: Duration) -> Time {
        let off_by = match self.jitter {
            Jitter::None => 0,
            Jitter::Uniform(most) => self.random.uniform(most),
            Jitter::Normal(deviation) => self.random.normal(deviation),
        };
        let later = Duration::from_nanos(u64::try_from(off_by).unwrap_or(0));
        let sooner =
            if off_by < 0 { Duration::from_nanos(off_by.unsigned_abs()) } else { Duration::ZERO };
        let arrives = sent + (constant + later).saturating_sub(sooner);
        if self.reorder {
            return arrives;
        }
        self.latest = self.latest.max(arrives);
        self.latest
    }
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(JitterVisitor)
    }
}

parameters! {
    /// The table form of [`Jitter`], with exactly one of both fields.
    Named {
        /// Largest deviation in either direction. All deviations up to it are equally likely.
        uniform: Option<Duration> = None;
        /// Standard deviation of an almost normal distribution.
        normal: Option<Duration> = None;
    }
}

crate::value! {
    Jitter: Form::Any(vec![Duration::form(), Named::form()]), |_it| None, <Self as Deserialize>::deserialize;
}

struct JitterVisitor;

impl<'de> Visitor<'de> for JitterVisitor {
    type Value = Jitter;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a time such as \"2 ms\", or { normal = \"2 ms\" }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Jitter, E> {
        units::duration::parse(text).map(Jitter::Uniform).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Jitter, A::Error> {
        match Named::deserialize(MapAccessDeserializer::new(map))? {
            Named { uniform: Some(most), normal: None } => Ok(Jitter::Uniform(most)),
            Named { uniform: None, normal: Some(deviation) } => Ok(Jitter::Normal(deviation)),
            _ => Err(de::Error::custom("write either `uniform` or `normal`")),
        }
    }
}
