//! Integrated TCP: the rate adjuster of an aggregate gateway.
//!
//! An *aggregate gateway* terminates the local TCP connections of a site. It carries their bytes over one long-lived TCP
//! connection, the *aggregate connection*. The congestion control of this connection has a *weight* `w`. If several
//! aggregate connections share a bottleneck, connection `i` gets the *share* `phi_i = w_i / sum w` of its rate
//! (equation 3).
//!
//! The *load* `rho_i` of a site is the rate at which its bytes arrive at the gateway, as a part of the bottleneck's rate.
//! If the share is below the load, the queue of the gateway grows. So the [`RateAdjuster`] measures the gateway in rounds
//! of `C` samples, with the time `P` between two samples. At the end of a round, it may change the weight:
//!
//! ```text
//! random wait, at most C P  ->  C samples, in the time C P  ->  increase, decrease or keep w  ->  least <= w <= n
//! ```
//!
//! One of three laws decides. [`LawKind::Literal`] uses the slope of the queue, [`LawKind::Measured`] the measured load and
//! service rate, and [`LawKind::Proportional`] the load alone.
//!
//! Source: `itcp`, sections 3 (weights and shares) and 4 (rate adjuster).
//!
//! Differs:
//! - A round has an additional first sample. The law `measured` subtracts its totals from those of the last sample.
//! - With [`Most::Connections`], the weight that a law chooses is at most the largest number of connections in its round.
//!   If the last sample counted instead, an idle moment would reset the weight to its least value. The applied weight is
//!   also at most the present number of connections.
//! - If samples are missing or a total decreases, the round is abandoned, and the weight stays.

mod config;
mod literal;
mod measured;
mod proportional;
mod round;
mod slope;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use config::{Config, LawKind, Most, ServiceSamples, mechanisms};
pub use round::LoadRound;

use crate::random::Random;
use crate::time::nanos;
use crate::{Bytes, Factor, Time};
use literal::Literal;
use measured::Measured;
use proportional::Proportional;
use round::{RoundObservation, Sampling};

/// A sample: the state of an aggregate gateway now, and totals since the start of the aggregate connection. All bytes are
/// payload.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GatewayLoad {
    /// Bytes that wait in the gateway now to be sent over the aggregate connection.
    pub queue: Bytes,
    /// Total of bytes that arrived from local connections.
    pub arrived: u64,
    /// Total of bytes sent over the aggregate connection, each counted once.
    pub sent: u64,
    /// Part of `sent` that was sent while the gateway was busy: see `busy`.
    pub sent_busy: u64,
    /// Total time in which the gateway was busy: at least one local connection had bytes that waited, or was stopped by the
    /// gateway.
    pub busy: Duration,
    /// The gateway stops at least one local connection from sending now, because its buffers are full.
    pub blocked: bool,
    /// Congestion window of the aggregate connection.
    pub window: Bytes,
    /// Least round-trip time of the aggregate connection. `None` until it is measured.
    pub least_rtt: Option<Duration>,
    /// Number of local connections that are open now: `n_i` of the paper.
    pub connections: u32,
}

/// Finds the weight of an aggregate connection from the load of its gateway.
///
/// The driver calls [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout).
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::itcp::{Config, GatewayLoad, LawKind, RateAdjuster};
/// use tidegate_core::random::Random;
/// use tidegate_core::{Bytes, Factor, Time};
///
/// let weight = Factor::whole(2);
/// let config = Config { kind: LawKind::Measured, samples: 10, weight, ..Config::default() };
/// let mut adjuster = RateAdjuster::new(&config, Random::new(1, 0), Time::ZERO);
///
/// // Users offer 200 kB/s, and the aggregate connection carries 100 kB/s.
/// while adjuster.report().decisions.increased == 0 {
///     let now = adjuster.poll_timeout();
///     let busy = now.since(Time::ZERO);
///     let carried = u64::try_from(busy.as_millis()).unwrap() * 100;
///     let seen = GatewayLoad {
///         queue: Bytes(carried),
///         arrived: 2 * carried,
///         sent: carried,
///         sent_busy: carried,
///         busy,
///         window: Bytes(10_000),
///         least_rtt: Some(Duration::from_millis(100)),
///         connections: 8,
///         ..GatewayLoad::default()
///     };
///     adjuster.handle_timeout(now, &seen);
///     assert!(now < Time::from_secs(60));
/// }
/// assert!(adjuster.weight() > weight);
/// ```
#[derive(Clone, Debug)]
pub struct RateAdjuster {
    config: Config,
    law: WeightLaw,
    random: Random,
    /// The weight that the law has chosen.
    chosen: Factor,
    /// The weight in force: `chosen`, limited to the present bounds.
    applied: Factor,
    /// The round in progress. `None` during the random wait before a round.
    sampling: Option<Sampling>,
    /// Time of the next sample.
    due: Time,
    /// The latest complete round.
    last: Option<LoadRound>,
    decisions: Decisions,
}

/// The latest round of a [`RateAdjuster`], and its decisions so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AdjusterReport {
    /// The weight in force.
    pub weight: Factor,
    /// The latest complete round. `None` before the first.
    pub last: Option<LoadRound>,
    /// Decisions since the start.
    pub decisions: Decisions,
}

/// Number of rounds by their outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Decisions {
    /// The weight was increased: the load exceeded the share.
    pub increased: u64,
    /// The weight was increased because the queue exceeded `high_threshold` (law `literal` only).
    pub forced: u64,
    /// The weight was decreased.
    pub decreased: u64,
    /// The weight was kept.
    pub held: u64,
    /// Samples were missing or a total decreased, so the round was abandoned.
    pub abandoned: u64,
}

impl RateAdjuster {
    /// Starts at `now` with a random wait, and with the weight of `config`.
    #[must_use]
    pub fn new(config: &Config, random: Random, now: Time) -> Self {
        let law = match config.kind {
            LawKind::Fixed => WeightLaw::Fixed,
            LawKind::Literal => WeightLaw::Literal(Literal::default()),
            LawKind::Measured => WeightLaw::Measured(Measured::default()),
            LawKind::Proportional => WeightLaw::Proportional(Proportional::default()),
        };
        let mut adjuster = Self {
            config: config.clone(),
            law,
            random,
            chosen: config.weight,
            applied: config.bounded(config.weight, 0),
            sampling: None,
            due: now,
            last: None,
            decisions: Decisions::default(),
        };
        adjuster.wait(now);
        adjuster
    }

    /// The time of the next sample.
    #[must_use]
    pub const fn poll_timeout(&self) -> Time {
        self.due
    }

    /// Takes a sample if one is due. Returns the weight if it changed.
    ///
    /// A call before [`poll_timeout`](Self::poll_timeout) takes no sample. But it limits the weight to the present number
    /// of connections, with [`Most::Connections`].
    pub fn handle_timeout(&mut self, now: Time, seen: &GatewayLoad) -> Option<Factor> {
        if now >= self.due {
            self.sample(now, seen);
        }
        let weight = self.config.bounded(self.chosen, seen.connections);
        let changed = weight != self.applied;
        self.applied = weight;
        changed.then_some(weight)
    }

    /// The weight in force.
    #[must_use]
    pub const fn weight(&self) -> Factor {
        self.applied
    }

    /// The latest round, and the decisions so far.
    #[must_use]
    pub const fn report(&self) -> AdjusterReport {
        AdjusterReport { weight: self.applied, last: self.last, decisions: self.decisions }
    }

    fn sample(&mut self, now: Time, seen: &GatewayLoad) {
        let Some(mut sampling) = self.sampling.take() else {
            self.sampling = Some(Sampling::new(now, seen));
            self.due = now + self.config.every;
            return;
        };
        if !sampling.add(now, seen, &self.config) {
            self.decisions.abandoned += 1;
            self.wait(now);
        } else if sampling.samples() >= self.config.samples {
            self.end_round(&sampling.end(self.config.service));
            self.wait(now);
        } else {
            self.sampling = Some(sampling);
            let next = self.due + self.config.every;
            self.due = if next > now { next } else { now + self.config.every };
        }
    }

    fn end_round(&mut self, observed: &RoundObservation) {
        self.last = Some(observed.round);
        let decision = self.law.decide(&self.config, observed, self.chosen);
        let weight = match decision {
            WeightChange::Hold => self.chosen,
            WeightChange::Set(weight) => weight,
            WeightChange::Increase(step) | WeightChange::Force(step) => plus(self.chosen, step),
            WeightChange::Decrease => less_part(self.chosen, self.config.beta),
        };
        let before = self.chosen;
        self.chosen = self.config.bounded(weight, observed.most_connections);
        let count = match decision {
            WeightChange::Set(_) if self.chosen > before => &mut self.decisions.increased,
            WeightChange::Set(_) if self.chosen < before => &mut self.decisions.decreased,
            WeightChange::Hold | WeightChange::Set(_) => &mut self.decisions.held,
            WeightChange::Increase(_) => &mut self.decisions.increased,
            WeightChange::Force(_) => &mut self.decisions.forced,
            WeightChange::Decrease => &mut self.decisions.decreased,
        };
        *count += 1;
    }

    /// Begins the random wait before a round. The wait keeps the gateways of one bottleneck from changing
    /// their weights at the same time.
    fn wait(&mut self, now: Time) {
        let span = self.random.below(nanos(self.config.round()));
        self.due = now + Duration::from_nanos(span);
    }
}

/// Decision of a law at the end of a round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WeightChange {
    /// Keep the weight.
    Hold,
    /// Set the weight to this value.
    Set(Factor),
    /// Increase the weight by this value.
    Increase(Factor),
    /// Increase the weight by this value, because the queue is too long.
    Force(Factor),
    /// Decrease the weight by the part `beta` of it.
    Decrease,
}

/// The law that decides, with its state from earlier rounds.
#[derive(Clone, Debug)]
enum WeightLaw {
    Fixed,
    Literal(Literal),
    Measured(Measured),
    Proportional(Proportional),
}

impl WeightLaw {
    fn decide(
        &mut self,
        config: &Config,
        observed: &RoundObservation,
        weight: Factor,
    ) -> WeightChange {
        match self {
            Self::Fixed => WeightChange::Hold,
            Self::Literal(law) => law.decide(config, observed, weight),
            Self::Measured(law) => law.decide(config, observed, weight),
            Self::Proportional(law) => law.decide(config, observed),
        }
    }
}

/// The increase `0.5 (delta + epsilon) weight`, rounded down (equation 10).
fn step(delta: Factor, epsilon: Factor, weight: Factor) -> Factor {
    let sum = u128::from(delta.millionths()) + u128::from(epsilon.millionths());
    let twice = sum.saturating_mul(u128::from(weight.millionths()));
    let step = twice / (2 * u128::from(Factor::ONE.millionths()));
    Factor::from_millionths(u64::try_from(step).unwrap_or(u64::MAX))
}

fn plus(weight: Factor, step: Factor) -> Factor {
    Factor::from_millionths(weight.millionths().saturating_add(step.millionths()))
}

/// `weight (1 - part)`.
fn less_part(weight: Factor, part: Factor) -> Factor {
    let rest = Factor::ONE.millionths().saturating_sub(part.millionths());
    Factor::from_millionths(Factor::from_millionths(rest).of(weight.millionths()))
}
