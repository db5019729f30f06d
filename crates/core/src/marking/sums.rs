//! The projection that two numbers make: the sum of all next rounds, and the latest of their starts.
//!
//! ```text
//! tau*   = latest start - now
//! excess = backlog + rho * sum of next rounds + (untracked - C) * tau* - limit
//! marks  = excess / (rho * (mean window / 2 + mean growth)), rounded up
//! ```
//!
//! Arrivals between now and tau* are interpolated linearly, so tau* is the only time to test. A mark changes the
//! next round of its flow from window and growth to half a window.
//!
//! Source: `marking`, section 2.3.
//! Differs: the latest start is that of the flow that last had it. If an estimate moves it to an earlier time, the
//! starts of other flows count again from their next packet on.

use std::time::Duration;

use super::Observed;
use super::tracker::{Estimate, Track};
use crate::{Bytes, Rate, Time};

/// Part of one flow in the sums.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Part {
    flows: u64,
    window: u64,
    next: u64,
    growth: u64,
}

impl Part {
    /// Nothing if the flow does not respond to marks: it counts as untracked traffic.
    pub(super) fn of(estimate: &Estimate) -> Self {
        if !estimate.responds {
            return Self::default();
        }
        let next = estimate.next_window().0;
        Self { flows: 1, window: estimate.window.0, next, growth: estimate.growth.0 }
    }

    /// Whether the flow counts as tracked.
    pub(super) const fn counts(&self) -> bool {
        self.flows == 1
    }
}

/// Whether a mark would make the next round of the flow smaller: it responds, and has none in this round.
pub(super) const fn is_markable(estimate: &Estimate) -> bool {
    estimate.responds && !estimate.marked
}

/// Sums over the flows of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    part: Part,
    /// Bytes of these flows in this interval.
    pub(super) bytes: u64,
    /// The latest start of a next round.
    due: Time,
    pub(super) longest_rtt: Duration,
}

impl Sums {
    /// Replaces the part of a flow, `before`, by that of its present `estimate`. Returns the new part.
    pub(super) fn change(&mut self, before: Part, estimate: &Estimate) -> Part {
        let after = Part::of(estimate);
        let of = |sum: u64, before: u64, after: u64| (sum + after).saturating_sub(before);
        let part = &mut self.part;
        part.flows = of(part.flows, before.flows, after.flows);
        part.window = of(part.window, before.window, after.window);
        part.next = of(part.next, before.next, after.next);
        part.growth = of(part.growth, before.growth, after.growth);
        if after.counts() {
            self.due = self.due.max(estimate.next_round());
            self.longest_rtt = self.longest_rtt.max(estimate.rtt);
        }
        after
    }

    #[cfg(test)]
    pub(super) const fn part(&self) -> Part {
        self.part
    }

    /// Takes the part of a flow out.
    pub(super) fn remove(&mut self, track: &Track, now: Time) {
        let estimate = track.last_estimate(now);
        self.change(Part::of(&estimate), &Estimate { responds: false, ..estimate });
    }

    /// Marks that the projection calls for, with untracked traffic at a rate.
    pub(super) fn marks(&self, seen: &Observed<'_>, rho: Rho, untracked: Rate) -> u64 {
        let ahead = self.due.since(seen.now);
        let more = seen.backlog + rho.of(self.part.next) + untracked.bytes_in(ahead);
        let room = seen.limit + seen.tokens + seen.rate.bytes_in(ahead);
        let excess = more.saturating_sub(room);
        let relief = rho.of(self.part.window / 2 + self.part.growth);
        if excess == Bytes::ZERO || relief == Bytes::ZERO {
            return 0;
        }
        let marks = u128::from(excess.0) * u128::from(self.part.flows);
        u64::try_from(marks.div_ceil(u128::from(relief.0))).unwrap_or(u64::MAX)
    }
}

/// All bytes, and those of the flows that stand for them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Rho {
    all: u64,
    tracked: u64,
}

impl Rho {
    /// Tracked flows stand for themselves.
    pub(super) const ONE: Self = Self { all: 1, tracked: 1 };

    /// `all / tracked`, at least one.
    pub(super) fn new(all: u64, tracked: u64) -> Self {
        if tracked == 0 { Self::ONE } else { Self { all: all.max(tracked), tracked } }
    }

    fn of(self, bytes: u64) -> Bytes {
        if self.all == self.tracked {
            return Bytes(bytes);
        }
        let scaled = u128::from(bytes) * u128::from(self.all) / u128::from(self.tracked);
        Bytes(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

/// Marks that one arrival calls for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// Marks that are still to be set.
    pub(super) left: u64,
    /// A mark was set.
    pub(super) found: bool,
}
