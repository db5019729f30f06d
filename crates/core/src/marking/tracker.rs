//! Trackers: a tracker estimates the window, the round-trip time and the rounds of one TCP flow.
//!
//! The tracker sees the packets of the flow at a gateway in the middle of the path. A *round*
//! consists of the packets of one window, which arrive within one round-trip time. A tracker
//! belongs to one flow in one direction. A marking, the algorithm that marks packets early, has a
//! tracker for each large flow. So a tracker takes at most 76 bytes.
//!
//! Source: `marking`, section 2.1 (tracker).

mod paper;
mod rounds;
mod two_way;

use std::time::Duration;

use rounds::RoundState;

use crate::flow::Flow;
use crate::packet::Direction;
use crate::registry;
use crate::{Bytes, Factor, Packet, Time};

/// Input of a tracker: a packet of the flow, or an ACK for its data, with the present time.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// Current time.
    pub now: Time,
    /// The packet.
    pub packet: &'a Packet,
    /// Direction of the packet.
    pub direction: Direction,
    /// State of both directions of the flow. `None` if the gateway knows this direction only.
    pub flow: Option<&'a Flow>,
}

/// A tracker's estimate of its flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Estimate {
    /// Start of the current round: `s` in the paper.
    pub round_start: Time,
    /// Round-trip time of the flow.
    pub rtt: Duration,
    /// Window of the current round in frame bytes: `W` in the paper.
    pub window: Bytes,
    /// Frame bytes by which the next round is larger than `window` if the flow is not marked: one segment. Zero if the
    /// receiver's window or the application limits the sender.
    pub growth: Bytes,
    /// The flow had a mark or a loss in the current round.
    pub marked: bool,
    /// `false` if a mark does not halve the window, because the flow uses ECT(1) or has ignored marks.
    pub responds: bool,
}

impl Estimate {
    /// The time at which the next round is expected to begin.
    #[must_use]
    pub fn next_round(&self) -> Time {
        self.round_start + self.rtt
    }

    /// Frame bytes of the next round.
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

/// A short form of [`Estimate`] without times, for sums over many flows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Brief {
    /// Window in frame bytes.
    pub(super) window: u32,
    /// Growth of the next round in frame bytes.
    pub(super) growth: u32,
    /// Round-trip time in microseconds, at least one.
    pub(super) rtt: u32,
    /// The flow had a mark or a loss in the current round.
    pub(super) marked: bool,
    /// `false` if a mark does not halve the window.
    pub(super) responds: bool,
}

impl Brief {
    /// Frame bytes of the next round, as [`Estimate::next_window`].
    pub(super) const fn next_window(&self) -> u32 {
        if self.marked { self.window / 2 } else { self.window.saturating_add(self.growth) }
    }

    /// Returns `true` if a mark would reduce the next round: the flow responds to marks, and has not been marked in this
    /// round.
    pub(super) const fn is_markable(&self) -> bool {
        self.responds && !self.marked
    }
}

registry! { @names
    /// A tracker as a policy file names it.
    TrackerSpec, "a tracker":
    /// Compares the sequence numbers of data and ACKs. It sees both directions.
    TwoWay => two_way, "two-way";
    /// Counts packets; a gap between two packets ends a round. It sees one direction.
    Paper => paper, "paper";
    /// Like `paper`, but a gap of more than two round trips gives no round-trip sample.
    PaperIdle => paper, "paper+idle";
}

impl Default for TrackerSpec {
    fn default() -> Self {
        Self::TwoWay(two_way::Config::default())
    }
}

impl TrackerSpec {
    /// The same tracker with the parameters `k` and `a`, if a marking's table sets them.
    ///
    /// # Errors
    ///
    /// If a parameter is out of its range.
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
    /// The tracker of [`TrackerSpec::Paper`] and [`TrackerSpec::PaperIdle`].
    Paper(paper::Paper),
    /// The tracker of [`TrackerSpec::TwoWay`].
    TwoWay(two_way::TwoWay),
}

impl Track {
    /// A tracker of the flow whose first packet is `first`.
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

    /// Notes a packet of the flow that arrives. Returns `true` if start or window of the next round changed.
    pub fn on_arrival(&mut self, seen: &Sighting<'_>) -> bool {
        match self {
            Self::Paper(paper) => paper.on_arrival(seen),
            Self::TwoWay(two_way) => two_way.on_arrival(seen),
        }
    }

    /// Notes an ACK for the flow's data, which departs to the sender. Returns `true` if the start of the next round
    /// changed.
    pub fn on_ack(&mut self, seen: &Sighting<'_>) -> bool {
        match self {
            Self::Paper(_) => false,
            Self::TwoWay(two_way) => two_way.on_ack(seen),
        }
    }

    /// Notes that this gateway marked a packet of the flow.
    pub fn on_mark(&mut self, _: Time) {
        self.rounds_mut().mark();
    }

    /// Notes that this gateway dropped a packet of the flow.
    pub fn on_drop(&mut self, _: Time) {
        self.rounds_mut().mark();
    }

    /// The estimate of the flow. If no packet has arrived for two round trips, the window is zero.
    #[must_use]
    pub fn estimate(&self, now: Time) -> Estimate {
        let estimate = self.rounds().estimate(now);
        let (window, growth) = match self.rounds().is_idle(now) {
            true => (Bytes::ZERO, Bytes::ZERO),
            false => (estimate.window, estimate.growth),
        };
        Estimate { window, growth, ..estimate }
    }

    /// The estimate of the flow in short form, also if the flow is idle.
    #[must_use]
    pub(super) fn brief(&self) -> Brief {
        self.rounds().brief()
    }

    /// The time at which the next round is expected to begin, also if the flow is idle.
    #[must_use]
    pub(super) fn next_round(&self, now: Time) -> Time {
        self.rounds().estimate(now).next_round()
    }

    /// Returns `true` if a mark would reduce the next round of the flow.
    #[must_use]
    pub(super) const fn is_markable(&self) -> bool {
        self.rounds().is_markable()
    }

    /// Returns `true` if the flow has not responded to its recent marks.
    #[must_use]
    pub(super) const fn ignores(&self) -> bool {
        self.rounds().ignores()
    }

    /// Returns `true` if the flow has sent nothing for two round trips.
    #[must_use]
    pub(super) fn is_idle(&self, now: Time) -> bool {
        self.rounds().is_idle(now)
    }

    const fn rounds(&self) -> &RoundState {
        match self {
            Self::Paper(paper) | Self::TwoWay(two_way::TwoWay { gaps: paper, .. }) => &paper.rounds,
        }
    }

    const fn rounds_mut(&mut self) -> &mut RoundState {
        match self {
            Self::Paper(paper) | Self::TwoWay(two_way::TwoWay { gaps: paper, .. }) => {
                &mut paper.rounds
            }
        }
    }
}

// The marking itself keeps 20 bytes more, so a tracked flow takes 96.
const _: () = assert!(size_of::<Track>() <= 76);

#[cfg(test)]
mod tests;
