//! The parameters of a rate adjuster, and their ranges.
//!
//! Source: `itcp`, section 4 and Table I (samples, interval, weight, epsilon, beta, thresholds, longest queue).
//!
//! Differs: the longest queue is in bytes; 200,000 packets of 1,000 bytes are 200 MB. `margin` is ours.

use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{Bytes, Factor, units};

/// Parameters of a rate adjuster. A file names the kind alone, or writes a table with `kind`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// The law.
    pub kind: Kind,
    /// Samples of a round: `C`.
    pub samples: u32,
    /// Time between two samples: `P`. It is not below the round-trip time.
    #[serde(with = "units::duration")]
    pub every: Duration,
    /// The initial weight.
    pub weight: Factor,
    /// The least weight, at least one.
    pub least: Factor,
    /// The greatest weight: `n`.
    pub most: Most,
    /// `literal`: margin of the wanted share above the load.
    pub epsilon: Factor,
    /// `measured`: margin of the wanted share above the load, as a part of the load.
    pub margin: Factor,
    /// `measured`: the samples that define the service rate.
    pub service: Service,
    /// A decrease takes this part of the weight.
    pub beta: Factor,
    /// `literal`: no increase while the mean queue is below this part of `max_queue`.
    pub low_threshold: Factor,
    /// `literal`: no decrease while the mean queue is above this part of `max_queue`, and a forced increase.
    pub high_threshold: Factor,
    /// `literal`: the queue to which the thresholds refer.
    pub max_queue: Bytes,
}

impl Default for Config {
    /// Source: `itcp`, Table I.
    fn default() -> Self {
        Self {
            kind: Kind::Fixed,
            samples: 180,
            every: Duration::from_millis(500),
            weight: Factor::whole(10),
            least: Factor::ONE,
            most: Most::Constant(10),
            epsilon: TENTH,
            margin: TENTH,
            service: Service::Mean,
            beta: FIFTH,
            low_threshold: FIFTH,
            high_threshold: Factor::ONE,
            max_queue: Bytes(200_000_000),
        }
    }
}

const TENTH: Factor = Factor::from_millionths(100_000);
const FIFTH: Factor = Factor::from_millionths(200_000);

/// The law that changes the weight.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The weight does not change.
    #[default]
    Fixed,
    /// The slope of the gateway's queue decides, as in the paper.
    Literal,
    /// The measured load and the measured service rate decide.
    Measured,
    /// The weight is the measured load, as a part of the rate of the bottleneck.
    Proportional,
}

impl Kind {
    /// The names of all kinds.
    pub const NAMES: &[&str] = &["fixed", "literal", "measured", "proportional"];

    /// A sentence on each of [`NAMES`](Self::NAMES).
    pub const ABOUT: &[&str] = &[
        "The weight does not change.",
        "The slope of the gateway's queue decides, as in the paper.",
        "The measured load and the measured service rate decide.",
        "The weight is the measured load, as a part of the rate of the bottleneck.",
    ];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Literal => "literal",
            Self::Measured => "measured",
            Self::Proportional => "proportional",
        }
    }
}

/// The samples that define the service rate of a round.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// All busy time. The rate contains capacity that idle neighbours leave over.
    #[default]
    Mean,
    /// The samples with the lowest rates, in which the neighbours were busy too.
    Contended,
}

/// The greatest weight. The paper uses a constant in its runs, and the number of connections in its
/// text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Most {
    /// This number, at least one.
    Constant(u32),
    /// The number of local connections: the aggregate is then no more aggressive than they are together.
    Connections,
}

impl Config {
    /// The samples of a round take this long: `C P`. The random wait is at most as long.
    #[must_use]
    pub fn round(&self) -> Duration {
        self.every.saturating_mul(self.samples)
    }

    /// Checks the sampling interval against the round-trip time of a path.
    ///
    /// # Errors
    ///
    /// If the round-trip time is zero or longer than `every`.
    pub fn check_path(&self, rtt: Duration) -> Result<(), &'static str> {
        if rtt.is_zero() {
            return Err(
                "the round-trip time is zero; the slope of the queue needs a path with delay",
            );
        }
        if self.every < rtt {
            return Err(
                "`every` is shorter than the round-trip time; the queue reacts after one round trip",
            );
        }
        Ok(())
    }

    /// `sum (rho_i + epsilon)` over the gateways of a bottleneck.
    ///
    /// The weights of all are certain to converge if it is below one (Proposition 1 of the paper).
    #[must_use]
    pub fn demanded(&self, loads: &[Factor]) -> Factor {
        let each = |load: &Factor| load.millionths().saturating_add(self.epsilon.millionths());
        Factor::from_millionths(loads.iter().map(each).fold(0, u64::saturating_add))
    }

    /// `weight`, bounded as required by the current number of local connections.
    pub(super) fn bounded(&self, weight: Factor, connections: u32) -> Factor {
        let most = match self.most {
            Most::Constant(most) => most,
            Most::Connections => connections,
        };
        weight.min(Factor::whole(most)).max(self.least)
    }

    /// Checks the ranges of all parameters, as the reader of files does.
    ///
    /// # Errors
    ///
    /// If a parameter is out of its range. The text names it and the value to write instead.
    pub fn check(&self) -> Result<(), &'static str> {
        if !(LEAST_SAMPLES..=MOST_SAMPLES).contains(&self.samples) {
            return Err("`samples` must be from 3 to 10000; write for example 180");
        }
        if self.every.is_zero() || self.round() > LONGEST_ROUND {
            return Err(
                "`every` must be above zero, and `samples` times `every` at most a day; write for example \"500 ms\"",
            );
        }
        if self.least < Factor::ONE {
            return Err("`least` must be at least 1");
        }
        let most = match self.most {
            Most::Constant(most) => Factor::whole(most),
            Most::Connections => Factor::from_millionths(u64::MAX),
        };
        if most < self.least {
            return Err(
                "`most` must be at least `least`; write for example 10, or \"connections\"",
            );
        }
        if self.weight < self.least || self.weight > most {
            return Err("`weight` must be from `least` to `most`; write for example 10");
        }
        if [self.epsilon, self.margin, self.beta].iter().any(|part| *part >= Factor::ONE) {
            return Err("`epsilon`, `margin` and `beta` must be below 1; write for example 0.1");
        }
        if self.low_threshold >= self.high_threshold {
            return Err(
                "`low_threshold` must be below `high_threshold`; write for example 0.2 and 1",
            );
        }
        if self.max_queue == Bytes::ZERO {
            return Err("`max_queue` must not be zero; write for example \"64 MiB\"");
        }
        Ok(())
    }
}

/// Two samples always lie on a line; the third shows whether the queue has a trend.
const LEAST_SAMPLES: u32 = 3;

/// With [`LONGEST_ROUND`] it keeps the sums of least squares within 128 bits (`slope`).
const MOST_SAMPLES: u32 = 10_000;

/// The longest round: a load changes over a day.
const LONGEST_ROUND: Duration = Duration::from_secs(86_400);

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;

        impl<'de> Visitor<'de> for Written {
            type Value = Config;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a rate adjuster: one of {}, or a table with `kind`",
                    Kind::NAMES.join(", ")
                )
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Config, E> {
                let kind = Kind::deserialize(serde::de::value::StrDeserializer::new(name))?;
                Ok(Config { kind, ..Config::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Config, A::Error> {
                let config = Config::deserialize(MapAccessDeserializer::new(map))?;
                config.check().map_err(Error::custom)?;
                Ok(config)
            }
        }

        from.deserialize_any(Written)
    }
}

impl<'de> Deserialize<'de> for Most {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written;

        impl Visitor<'_> for Written {
            type Value = Most;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 1, or \"connections\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Most, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Signed(number), &self);
                u64::try_from(number).map_err(|_| wrong()).and_then(|number| self.visit_u64(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Most, E> {
                let wrong = || E::invalid_value(serde::de::Unexpected::Unsigned(number), &self);
                match u32::try_from(number) {
                    Ok(0) | Err(_) => Err(wrong()),
                    Ok(number) => Ok(Most::Constant(number)),
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Most, E> {
                match text {
                    "connections" => Ok(Most::Connections),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }

        from.deserialize_any(Written)
    }
}
