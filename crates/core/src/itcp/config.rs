//! The parameters of a rate adjuster, and their ranges.
//!
//! Source: `itcp`, section 4 and Table I (samples, interval, weight, epsilon, beta, thresholds, longest queue).
//!
//! Differs: `max_queue` is in bytes: the 200,000 packets of the paper, with 1,000 bytes each, are
//! 200 MB. The paper has no `margin`.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use crate::parameters::{Declared, Form, Mechanism, Written, more_than};
use crate::{Bytes, Factor, choice, parameters};

parameters! {
    /// Parameters of a rate adjuster. A file names the kind alone, or writes a table with `kind`.
    ///
    /// Source: `itcp`, Table I.
    pub Config, checked; named by kind {
        /// The law that changes the weight.
        kind: LawKind = LawKind::Fixed;
        /// Number of samples in a round.
        samples: u32 = 180, in LEAST_SAMPLES..=MOST_SAMPLES;
        /// Time between two samples, at least the round-trip time.
        every: Duration = Duration::from_millis(500), in more_than(Duration::ZERO);
        /// The initial weight, from `least` to `most`.
        weight: Factor = Factor::whole(10), in Factor::ONE..;
        /// The least weight.
        least: Factor = Factor::ONE, in Factor::ONE..;
        /// The greatest weight: a number, or `connections` for the number of local connections.
        most: Most = Most::Constant(10);
        /// With `literal`: margin of the wanted share above the load.
        epsilon: Factor = TENTH, in ..Factor::ONE;
        /// With `measured`: margin of the wanted share above the load, as a part of the load.
        margin: Factor = TENTH, in ..Factor::ONE;
        /// With `measured`: the samples that define the service rate.
        service: ServiceSamples = ServiceSamples::Mean;
        /// A decrease reduces the weight by this part.
        beta: Factor = FIFTH, in ..Factor::ONE;
        /// With `literal`: no increase while the mean queue is below this part of `max_queue`.
        low_threshold: Factor = FIFTH;
        /// With `literal`: an increase, and no decrease, while the mean queue is above this part of `max_queue`.
        high_threshold: Factor = Factor::ONE;
        /// With `literal`: the queue to which the thresholds refer.
        max_queue: Bytes = Bytes(200_000_000), in more_than(Bytes::ZERO);
    }
}

const TENTH: Factor = Factor::from_millionths(100_000);
const FIFTH: Factor = Factor::from_millionths(200_000);

choice! {
    /// The law that changes the weight.
    #[derive(Default)]
    pub enum LawKind {
        /// The weight does not change.
        Fixed = "fixed" [default],
        /// The slope of the gateway's queue decides, as in the paper.
        Literal = "literal",
        /// The measured load and the measured service rate decide.
        Measured = "measured",
        /// The weight is the measured load, as a part of the rate of the bottleneck.
        Proportional = "proportional",
    }
}

choice! {
    /// The samples that define the service rate of a round.
    #[derive(Default)]
    pub enum ServiceSamples {
        /// All busy time. The rate includes capacity that other gateways leave unused.
        Mean = "mean" [default],
        /// The samples with the lowest rates, in which the other gateways of the bottleneck were
        /// busy too.
        Contended = "contended",
    }
}

/// Upper bound of the weight. The text of the paper uses the number of connections, and its experiments a constant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Most {
    /// A constant, at least one.
    Constant(u32),
    /// The number of local connections. The aggregate connection is then no more aggressive than these connections
    /// together would be.
    Connections,
}

/// Descriptions of all laws and their parameters.
#[must_use]
pub fn mechanisms() -> Vec<Mechanism> {
    let parameters = || Config::parameters().into_iter().filter(|it| it.name != "kind").collect();
    let law = |(name, about): &(&'static str, &'static str)| {
        let parameters = parameters();
        Mechanism { name, about, parameters }
    };
    LawKind::ABOUT.iter().map(law).collect()
}

impl Config {
    /// Time from the first to the last sample of a round: `C P`. The random wait is at most as long.
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

    /// The sum of `rho_i + epsilon` over all gateways of a bottleneck, whose loads `rho_i` are `loads`.
    ///
    /// If the sum is below one, the weights converge (Proposition 1 of the paper).
    #[must_use]
    pub fn demanded(&self, loads: &[Factor]) -> Factor {
        let each = |load: &Factor| load.millionths().saturating_add(self.epsilon.millionths());
        Factor::from_millionths(loads.iter().map(each).fold(0, u64::saturating_add))
    }

    /// `weight`, limited to the bounds. `connections` is the number of local connections for [`Most::Connections`].
    pub(super) fn bounded(&self, weight: Factor, connections: u32) -> Factor {
        let most = match self.most {
            Most::Constant(most) => most,
            Most::Connections => connections,
        };
        weight.min(Factor::whole(most)).max(self.least)
    }

    /// Checks the range of each parameter, and conditions between parameters.
    ///
    /// # Errors
    ///
    /// If a condition is violated. The text names the parameters and the value to write instead.
    pub fn check(&self) -> Result<(), String> {
        self.in_range()?;
        if self.round() > LONGEST_ROUND {
            return Err(
                "`samples` times `every` must be at most a day; write for example \"500 ms\""
                    .to_owned(),
            );
        }
        let most = match self.most {
            Most::Constant(most) => Factor::whole(most),
            Most::Connections => Factor::from_millionths(u64::MAX),
        };
        if most < self.least {
            return Err(
                "`most` must be at least `least`; write for example 10, or \"connections\""
                    .to_owned(),
            );
        }
        if self.weight < self.least || self.weight > most {
            return Err("`weight` must be from `least` to `most`; write for example 10".to_owned());
        }
        if self.low_threshold >= self.high_threshold {
            return Err(
                "`low_threshold` must be below `high_threshold`; write for example 0.2 and 1"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// Fewest samples of a round. Two samples always lie on a line, so a trend needs a third.
const LEAST_SAMPLES: u32 = 3;

/// Most samples of a round. With [`LONGEST_ROUND`], the sums of least squares then fit into 128 bits (see `slope`).
const MOST_SAMPLES: u32 = 10_000;

/// Longest round. A measurement over more than a day would miss changes of the load.
const LONGEST_ROUND: Duration = Duration::from_secs(86_400);

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

crate::value! {
    Most: form(), |it| Some(it.as_written()), <Self as Deserialize>::deserialize;
}

fn form() -> Form {
    let connections = Form::Choice(&[("connections", "The number of local connections.")]);
    Form::Any(vec![connections, Form::Whole(1, u32::MAX.into())])
}

impl Most {
    fn as_written(self) -> Written {
        match self {
            Self::Constant(most) => Written::Whole(most.into()),
            Self::Connections => Written::Text("connections".to_owned()),
        }
    }
}
