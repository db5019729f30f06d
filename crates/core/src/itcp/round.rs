//! A round of measurement: its samples, and the load and the rates computed from them.
//!
//! ```text
//! busy   = busy time / length of the round
//! a      = bytes arrived / length of the round                  (offered load)
//! s      = bytes sent while busy / busy time                    (service rate)
//!          or cwnd / minRTT (equation 8), if busy is below 5 %
//! delta' = slope * minRTT / cwnd                                (equation 9)
//! ```
//!
//! With [`ServiceSamples::Contended`], `s` is a low quantile of the rates in single samples: one
//! sample in twenty has a lower rate. While the other gateways at the bottleneck are idle, this
//! gateway can use their capacity, so its samples have higher rates. A low quantile ignores these
//! samples.
//!
//! Source: `itcp`, section 4, equations 8 and 9.
//!
//! Differs: the paper has no `busy`, `a` and `s`. These values also describe a gateway with full
//! buffers, whose queue cannot grow. `delta'` is zero while window or round-trip time are unknown.

use std::cmp::Ordering;
use std::time::Duration;

use super::slope::LeastSquares;
use super::{Config, GatewayLoad, ServiceSamples};
use crate::time::nanos;
use crate::{Bytes, Factor, Rate, Time};

/// Results of a round.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoadRound {
    /// Part of the round in which the gateway was busy.
    pub busy: Factor,
    /// Offered load: the rate at which bytes arrived.
    pub offered: Rate,
    /// The rate at which bytes were sent.
    pub sent: Rate,
    /// Service rate: the rate of the aggregate connection while the gateway is busy. `None` if
    /// unknown.
    pub service: Option<Rate>,
    /// Growth of the queue, in bytes per second.
    pub slope: i64,
    /// Mean queue length.
    pub queue: Bytes,
}

/// Results of a round for the law that changes the weight: the public results and further details.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct RoundObservation {
    pub(super) round: LoadRound,
    /// Sign of the slope: `Greater` if the queue grew.
    pub(super) trend: Ordering,
    /// `delta'` of equation 9 if the queue grew, and zero otherwise.
    pub(super) delta: Factor,
    /// In at least half of the samples, the gateway stopped local connections from sending, because
    /// its buffers were full.
    pub(super) blocked: bool,
    /// Largest number of local connections in a sample.
    pub(super) most_connections: u32,
    /// Largest service rate of a sample in which the gateway was always busy. Zero if there was no
    /// such sample.
    pub(super) fastest: Rate,
}

/// A round in progress.
#[derive(Clone, Debug)]
pub(super) struct Sampling {
    /// Time of the first sample.
    began: Time,
    first: GatewayLoad,
    /// The latest sample, with its time.
    latest: (Time, GatewayLoad),
    line: LeastSquares,
    /// Number of samples in which the gateway stopped local connections from sending.
    blocked: u32,
    most_connections: u32,
    /// Service rates of the samples that were busy for long enough, with
    /// [`ServiceSamples::Contended`].
    rates: Vec<Rate>,
    /// The value of [`RoundObservation::fastest`] so far.
    fastest: Rate,
}

impl Sampling {
    pub(super) fn new(now: Time, seen: &GatewayLoad) -> Self {
        Self {
            began: now,
            first: *seen,
            latest: (now, *seen),
            line: LeastSquares::default(),
            blocked: 0,
            most_connections: seen.connections,
            rates: Vec::new(),
            fastest: NONE,
        }
    }

    pub(super) const fn samples(&self) -> u32 {
        self.line.count()
    }

    /// Adds a sample. Returns `false` if the round must be abandoned, because samples are missing
    /// or a total since the start, such as the bytes sent, has decreased.
    pub(super) fn add(&mut self, now: Time, seen: &GatewayLoad, config: &Config) -> bool {
        let (at, before) = self.latest;
        let backwards = seen.arrived < before.arrived
            || seen.sent < before.sent
            || seen.sent_busy < before.sent_busy
            || seen.busy < before.busy;
        if backwards || now <= at || now.since(at) > config.every.saturating_mul(LONGEST_GAP) {
            return false;
        }
        let (span, busy) = (now.since(at), seen.busy - before.busy);
        let (rate, busy) =
            (rate(seen.sent_busy - before.sent_busy, busy.min(span)), part(busy, span));
        if config.service == ServiceSamples::Contended {
            self.rates.extend(rate.filter(|_| busy >= BUSY_SAMPLE));
        }
        let whole = rate.filter(|_| busy >= WHOLE_SAMPLE);
        self.fastest = self.fastest.max(whole.unwrap_or(NONE));
        self.latest = (now, *seen);
        self.line.add(now.since(self.began), seen.queue.0);
        self.blocked += u32::from(seen.blocked);
        self.most_connections = self.most_connections.max(seen.connections);
        true
    }

    /// Ends the round, and computes its results.
    pub(super) fn end(mut self, service: ServiceSamples) -> RoundObservation {
        let (now, last) = self.latest;
        let length = now.since(self.began);
        let busy_time = (last.busy - self.first.busy).min(length);
        let busy = part(busy_time, length);
        let service = if busy < RARELY_BUSY {
            expected(&last)
        } else if service == ServiceSamples::Contended && self.rates.len() >= LEAST_RATES {
            let low = self.rates.len() / LOW_QUANTILE;
            Some(*self.rates.select_nth_unstable(low).1)
        } else {
            rate(last.sent_busy - self.first.sent_busy, busy_time)
        };
        let slope = self.line.slope();
        let round = LoadRound {
            busy,
            offered: rate(last.arrived - self.first.arrived, length).unwrap_or(NONE),
            sent: rate(last.sent - self.first.sent, length).unwrap_or(NONE),
            service: service.filter(|rate| *rate > NONE),
            slope,
            queue: Bytes(self.line.mean()),
        };
        RoundObservation {
            round,
            trend: self.line.trend(),
            delta: delta(slope, &last),
            blocked: 2 * u64::from(self.blocked) >= u64::from(self.line.count()),
            most_connections: self.most_connections,
            fastest: self.fastest,
        }
    }
}

/// A round is abandoned if the time between two samples is longer than this many intervals: the
/// clock was set, or the host slept.
///
/// Chosen: on an overloaded host, samples are late by less than this.
const LONGEST_GAP: u32 = 4;

/// If a smaller part of the round is busy, too few bytes are sent to measure a service rate.
///
/// Chosen: nine of 180 samples.
const RARELY_BUSY: Factor = Factor::from_millionths(50_000);

/// A sample counts for [`ServiceSamples::Contended`] if at least this part of it was busy.
///
/// Chosen: in a shorter time, a few packets determine the rate.
const BUSY_SAMPLE: Factor = Factor::from_millionths(200_000);

/// A sample counts as always busy if at least this part of it was busy.
///
/// Chosen below one, because a busy gateway pauses for a short time between two files.
const WHOLE_SAMPLE: Factor = Factor::from_millionths(950_000);

/// With fewer busy samples than this, the service rate is the mean.
///
/// Chosen: a quantile of few samples is an outlier.
const LEAST_RATES: usize = 10;

/// One sample in this many has a lower rate than the quantile.
///
/// Chosen (docs/decisions.md): samples in which the other gateways at the bottleneck are always
/// busy are rare. A quantile of 20 % is often higher than the rates of these samples.
const LOW_QUANTILE: usize = 20;

/// Value for an unknown rate.
const NONE: Rate = Rate::from_bps(0);

/// `cwnd / minRTT` (equation 8).
fn expected(seen: &GatewayLoad) -> Option<Rate> {
    seen.least_rtt.and_then(|rtt| rate(seen.window.0, rtt))
}

/// `slope * minRTT / cwnd` (equation 9). Zero if the slope is negative, or if window or round-trip
/// time are unknown.
fn delta(slope: i64, seen: &GatewayLoad) -> Factor {
    let grown = u128::from(u64::try_from(slope).unwrap_or(0));
    let rtt = u128::from(nanos(seen.least_rtt.unwrap_or(Duration::ZERO)));
    let Some(product) = grown.checked_mul(rtt) else { return Factor::from_millionths(u64::MAX) };
    // Converts nanoseconds to seconds, and the quotient to millionths.
    let delta = (product / 1_000).checked_div(u128::from(seen.window.0)).unwrap_or(0);
    Factor::from_millionths(u64::try_from(delta).unwrap_or(u64::MAX))
}

/// `bytes / span` as a rate. `None` if no time passed.
fn rate(bytes: u64, span: Duration) -> Option<Rate> {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    let bps = bits.checked_div(u128::from(nanos(span)))?;
    Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
}

fn part(of: Duration, whole: Duration) -> Factor {
    let millionths = u128::from(nanos(of)) * 1_000_000 / u128::from(nanos(whole).max(1));
    Factor::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX))
}
