//! Measurements of a path: its round-trip times, and the time since its queue was empty. They come
//! from ACKs, or from *boundaries*: the packets of an aggregate that the other end acknowledges.
//!
//! Source: Copa (NSDI 2018), sections 2.1 and 2.2: the standing round-trip time, and a queue that is nearly
//! empty.
//!
//! Differs: a queue below a millisecond also counts as nearly empty. Other traffic and the sender's own
//! bursts cause such a queue.

use std::time::Duration;

use tidegate_base::Time;
use tidegate_base::time::nanos;

use super::arrivals::{Arrivals, Arrived};
use super::extreme::Extreme;

/// Measurements of a path.
#[derive(Default)]
pub struct Path {
    srtt: Option<Duration>,
    least: Extreme,
    standing: Extreme,
    greatest: Extreme,
    arrivals: Arrivals,
    /// Time since which the queue has not been nearly empty, and time of the latest observation.
    filled: Option<(Time, Time)>,
}

impl Path {
    /// Adds the measurements of a boundary. The least round-trip time is forgotten after `memory`.
    pub fn on_boundary(
        &mut self,
        now: Time,
        rtt: Duration,
        arrived: Option<Arrived>,
        memory: Duration,
    ) {
        let srtt = self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8);
        self.srtt = Some(srtt);
        let ago = |span: Duration| Time::from_nanos(now.nanos().saturating_sub(nanos(span)));
        self.least.push(now, rtt, ago(memory), Duration::lt);
        self.standing.push(now, rtt, ago(srtt / 2), Duration::lt);
        self.greatest.push(now, rtt, ago(4 * srtt), Duration::gt);
        if let Some(arrived) = arrived {
            self.arrivals.push(now, arrived, ago(srtt / 2));
        }
        let of = |extreme: &Extreme| extreme.get().unwrap_or(rtt);
        let swing = of(&self.greatest).saturating_sub(self.least());
        let known = self.filled.filter(|(_, seen)| *seen >= ago(4 * srtt));
        let emptied = self.queued() < (swing / 10).max(UNSEEN);
        self.filled = (!emptied).then(|| (known.map_or(now, |(since, _)| since), now));
    }

    /// The smoothed round-trip time, after the first sample.
    pub const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The least round-trip time. Zero before the first measurement.
    pub fn least(&self) -> Duration {
        self.least.get().unwrap_or_default()
    }

    /// The least round-trip time in the last half of a round trip. Zero before the first measurement.
    pub fn standing(&self) -> Duration {
        self.standing.get().unwrap_or_default()
    }

    /// Delay that the queue adds to the least round-trip time.
    fn queued(&self) -> Duration {
        self.standing().saturating_sub(self.least())
    }

    /// Time for which the queue has not been nearly empty.
    pub fn filled_for(&self, now: Time) -> Duration {
        self.filled.map_or(Duration::ZERO, |(since, _)| now.since(since))
    }

    /// Returns `true` if the queue is nearly empty.
    pub const fn is_empty(&self) -> bool {
        self.filled.is_none()
    }

    /// Bytes that arrive within the least round-trip time. Without a known rate, they are estimated from a
    /// full `window`.
    pub fn carries(&self, window: u64) -> u64 {
        let part = u128::from(window) * self.least().as_nanos();
        let part = || u64::try_from(part / self.standing().as_nanos().max(1)).unwrap_or(u64::MAX);
        self.arrivals.within(self.least()).unwrap_or_else(part)
    }

    /// The window that keeps the present queue, and has the rate that `window` has on an empty
    /// path.
    pub fn lengthened(&self, window: u64) -> u64 {
        let longer = u128::from(window) * self.standing().as_nanos();
        u64::try_from(longer / self.least().as_nanos().max(1)).unwrap_or(u64::MAX)
    }
}

/// A queue with a shorter delay counts as empty.
const UNSEEN: Duration = Duration::from_millis(1);
