//! What boundaries, or ACKs, tell of the path: its round-trip times, and whether its queue is ever empty.
//!
//! Source: Copa (NSDI 2018), sections 2.1 and 2.2: the standing round-trip time, and a queue that is nearly empty.
//! Differs: a queue is held for nearly empty also when it is below a millisecond, which is what packets
//! of others and of its own bursts make of it.

use std::time::Duration;

use super::arrivals::{Arrivals, Arrived};
use super::extreme::Extreme;
use crate::Time;

/// What is known of the path.
#[derive(Default)]
pub(crate) struct Path {
    srtt: Option<Duration>,
    least: Extreme,
    standing: Extreme,
    greatest: Extreme,
    arrivals: Arrivals,
    /// Since when the queue was not nearly empty, and when that was last seen.
    filled: Option<(Time, Time)>,
}

impl Path {
    /// Takes in what a boundary told; the least round-trip time is forgotten after `memory`.
    pub(crate) fn on_boundary(
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

    pub(crate) const fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The least round-trip time; zero before there is any.
    pub(crate) fn least(&self) -> Duration {
        self.least.get().unwrap_or_default()
    }

    /// The least of the last half of a round trip; zero before there is any.
    pub(crate) fn standing(&self) -> Duration {
        self.standing.get().unwrap_or_default()
    }

    /// What the queue adds to the least round-trip time.
    fn queued(&self) -> Duration {
        self.standing().saturating_sub(self.least())
    }

    /// How long the queue has not been nearly empty.
    pub(crate) fn filled_for(&self, now: Time) -> Duration {
        self.filled.map_or(Duration::ZERO, |(since, _)| now.since(since))
    }

    /// Whether it is nearly empty.
    pub(crate) const fn is_empty(&self) -> bool {
        self.filled.is_none()
    }

    /// Bytes that arrive within the least round-trip time; of a `window` that is full, if that is all
    /// there is to tell by.
    pub(crate) fn carries(&self, window: u64) -> u64 {
        let part = u128::from(window) * self.least().as_nanos();
        let part = || u64::try_from(part / self.standing().as_nanos().max(1)).unwrap_or(u64::MAX);
        self.arrivals.within(self.least()).unwrap_or_else(part)
    }

    /// What a `window` of an empty path is where its queue is as it stands, for the same rate.
    pub(crate) fn lengthened(&self, window: u64) -> u64 {
        let longer = u128::from(window) * self.standing().as_nanos();
        u64::try_from(longer / self.least().as_nanos().max(1)).unwrap_or(u64::MAX)
    }
}

/// A queue that is held for empty.
const UNSEEN: Duration = Duration::from_millis(1);

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
