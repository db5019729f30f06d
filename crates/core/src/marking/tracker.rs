//! Trackers: estimate the window, the round-trip time and the rounds of one flow, from the middle
//! of its path.
//!
//! A tracker belongs to one flow in one direction. Markings store their trackers inline.
//!
//! Source: `marking`, section 2.1.

mod paper;
mod rounds;
mod two_way;

use std::time::Duration;

use rounds::Rounds;

use crate::flow::Flow;
use crate::packet::Direction;
use crate::registry;
use crate::{Bytes, Factor, Packet, Time};

/// A packet of the flow that arrives at the queue: a SYN, or a segment with data.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Current time.
    pub now: Time,
    /// The packet.
    pub packet: &'a Packet,
    /// Direction of the packet.
    pub direction: Direction,
    /// State of both directions of the flow; `None` if only its packets are seen.
    pub flow: Option<&'a Flow>,
}

/// A tracker's estimate of its flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Estimate {
    /// Start of the current round, `s`.
    pub round_start: Time,
    /// Round-trip time, `RTT`.
    pub rtt: Duration,
    /// Window of the current round in frame bytes, `W`.
    pub window: Bytes,
    /// Growth of the next round beyond `window` without a mark: one segment. Zero if the receiver's
    /// window or the application limits the sender.
    pub growth: Bytes,
    /// A mark or a loss was seen in the current round.
    pub marked: bool,
    /// `false` if marks do not halve the window: ECT(1), or marks that were ignored.
    pub responds: bool,
}

impl Estimate {
    /// The time at which the next round is expected to begin.
    #[must_use]
    pub fn next_round(&self) -> Time {
        self.round_start + self.rtt
    }

    /// Bytes of the next round.
    ///
    /// Source: `marking`, equation (5).
    #[must_use]
    pub const fn next_window(&self) -> Bytes {
        match self.marked {
            true => Bytes(self.window.0 / 2),
            false => Bytes(self.window.0 + self.growth.0),
        }
    }
}

/// The part of an [`Estimate`] that sums over many flows need, in the units of the trackers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Brief {
    /// Window and growth in frame bytes.
    pub(super) window: u32,
    pub(super) growth: u32,
    /// Round-trip time in microseconds, at least one.
    pub(super) rtt: u32,
    pub(super) marked: bool,
    pub(super) responds: bool,
}

impl Brief {
    /// Bytes of the next round, as [`Estimate::next_window`].
    pub(super) const fn next_window(&self) -> u32 {
        if self.marked { self.window / 2 } else { self.window.saturating_add(self.growth) }
    }

    /// True if a mark would reduce the next round of the flow: it responds to marks, and has none
    /// in this round.
    pub(super) const fn is_markable(&self) -> bool {
        self.responds && !self.marked
    }
}

registry! { @names
    /// A tracker as a policy file names it.
    TrackerSpec, "a tracker":
    /// Compares the numbers of data and ACKs. It sees both directions.
    TwoWay => two_way, "two-way";
    /// Counts packets; a gap between two packets ends a round. It sees one direction.
    Paper => paper, "paper";
    /// As `paper`, but a gap of more than two round trips gives no sample of the round-trip time.
    PaperIdle => paper, "paper+idle";
}

impl Default for TrackerSpec {
    fn default() -> Self {
        Self::TwoWay(two_way::Config::default())
    }
}

impl TrackerSpec {
    /// The tracker with other parameters, which a marking's table may name beside it.
    ///
    /// # Errors
    ///
    /// If a value is not allowed.
    pub fn with(self, k: Option<u32>, a: Option<Factor>) -> Result<Self, &'static str> {
        match self {
            Self::Paper(config) => config.with(k, a).map(Self::Paper),
            Self::PaperIdle(config) => config.with(k, a).map(Self::PaperIdle),
            Self::TwoWay(config) => config.with(k, a).map(Self::TwoWay),
        }
    }
}

/// The tracker of a flow.
#[derive(Clone, Copy, Debug)]
pub enum Track {
    /// Of [`TrackerSpec::Paper`] and [`TrackerSpec::PaperIdle`].
    Paper(paper::Paper),
    /// Of [`TrackerSpec::TwoWay`].
    TwoWay(two_way::TwoWay),
}

impl Track {
    /// A tracker whose first packet is `first`.
    #[must_use]
    pub fn new(spec: &TrackerSpec, first: &Sighting<'_>) -> Self {
        match spec {
            TrackerSpec::Paper(config) => Self::Paper(paper::Paper::new(config.gaps(false), first)),
            TrackerSpec::PaperIdle(config) => {
                Self::Paper(paper::Paper::new(config.gaps(true), first))
            }
            TrackerSpec::TwoWay(config) => Self::TwoWay(two_way::TwoWay::new(config, first)),
        }
    }

    /// Notes the next packet. Returns `true` if the next round's start or window changed.
    pub fn on_arrival(&mut self, seen: &Sighting<'_>) -> bool {
        match self {
            Self::Paper(paper) => paper.on_arrival(seen),
            Self::TwoWay(two_way) => two_way.on_arrival(seen),
        }
    }

    /// Notes an ACK of the flow's data that departs to the sender. Returns `true` if the next
    /// round's start changed.
    pub fn on_ack(&mut self, seen: &Sighting<'_>) -> bool {
        match self {
            Self::Paper(_) => false,
            Self::TwoWay(two_way) => two_way.on_ack(seen),
        }
    }

    /// Notes that a packet of the flow was marked here.
    pub fn on_mark(&mut self, _: Time) {
        self.rounds_mut().mark();
    }

    /// Notes that a packet of the flow was dropped here.
    pub fn on_drop(&mut self, _: Time) {
        self.rounds_mut().mark();
    }

    /// The estimate of the flow. After two round trips without a packet its window is zero.
    #[must_use]
    pub fn estimate(&self, now: Time) -> Estimate {
        let estimate = self.rounds().estimate(now);
        let (window, growth) = match self.rounds().is_idle(now) {
            true => (Bytes::ZERO, Bytes::ZERO),
            false => (estimate.window, estimate.growth),
        };
        Estimate { window, growth, ..estimate }
    }

    /// The estimate of the flow, idle or not.
    #[must_use]
    pub(super) fn brief(&self) -> Brief {
        self.rounds().brief()
    }

    /// The time at which the next round is expected to begin, idle or not.
    #[must_use]
    pub(super) fn next_round(&self, now: Time) -> Time {
        self.rounds().estimate(now).next_round()
    }

    /// True if a mark would reduce the next round of the flow.
    #[must_use]
    pub(super) const fn is_markable(&self) -> bool {
        self.rounds().is_markable()
    }

    /// True if the flow did not respond to marks.
    #[must_use]
    pub(super) const fn ignores(&self) -> bool {
        self.rounds().ignores()
    }

    /// True if the flow has sent nothing for two round trips.
    #[must_use]
    pub(super) fn is_idle(&self, now: Time) -> bool {
        self.rounds().is_idle(now)
    }

    const fn rounds(&self) -> &Rounds {
        match self {
            Self::Paper(paper) | Self::TwoWay(two_way::TwoWay { gaps: paper, .. }) => &paper.rounds,
        }
    }

    const fn rounds_mut(&mut self) -> &mut Rounds {
        match self {
            Self::Paper(paper) | Self::TwoWay(two_way::TwoWay { gaps: paper, .. }) => {
                &mut paper.rounds
            }
        }
    }
}

// With the marking's own state, a flow takes 96 bytes.
const _: () = assert!(size_of::<Track>() <= 76);

#[cfg(test)]
mod tests;
