//! Common part of `heuristic` and `coverage`: trackers for the flows that a filter finds, and sums
//! over them.
//!
//! Source: `marking`, section 2.3.

use std::time::Duration;

use super::memory::{Memory, TrackedFlow};
use super::sums::{Projected, ProjectionTerms, Walk};
use super::tracker::{Sighting, Track, TrackerSpec};
use super::{Decision, Marking, Observed, Outcome, Target, Tracked, acknowledges, last_resort};
use crate::packet::FlowId;
use crate::{Bytes, Packet, Time};

/// A marking that tracks the flows which its filter finds.
pub(super) trait Filtered: Send {
    /// True if a packet without a tracker is marked when no flow is left to mark.
    const MARKS_ARRIVALS: bool;

    fn common(&self) -> &Common;

    fn common_mut(&mut self) -> &mut Common;

    /// Ends the interval, which is over.
    fn end_interval(&mut self, now: Time);

    /// Checks the next entry in turn.
    fn tidy(&mut self, now: Time);

    /// Notes an arriving packet. Returns the entry of its flow. The flag is true if the projection
    /// counts the flow's rounds.
    fn track(&mut self, sighting: &Sighting<'_>) -> Option<(u32, bool)>;

    /// Changes the tracker of an entry, and the sums with it.
    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track));

    /// Notes the class of a flow.
    fn classify(&mut self, entry: u32, class: u16, now: Time);

    /// Removes a flow from the sums.
    fn take_out(&mut self, entry: u32);

    /// The sums of the projection, the traffic beside them, and the state that a search of the
    /// queue changes.
    fn projection(&mut self) -> (Projected<'_>, ProjectionTerms, &mut Common);

    /// True if the projection in an interval counts the rounds of an entry's flow.
    fn is_projected(entry: &TrackedFlow, interval: u16) -> bool;

    /// The longest round-trip time of the tracked flows.
    fn longest(&self) -> Duration;

    /// Number of flows in the projection, and the factor of their rounds.
    fn projected(&self) -> (u64, f64);
}

/// State that both markings share.
pub(super) struct Common {
    pub(super) tracker: TrackerSpec,
    /// Length of an interval.
    pub(super) span: Duration,
    pub(super) seed: u64,
    pub(super) memory: Memory,
    /// Start of the interval, its end, and its number.
    pub(super) began: Time,
    ends: Time,
    pub(super) interval: u16,
    /// Bytes in the interval.
    pub(super) arrived: u64,
    pub(super) record: FilterRecord,
    walk: Walk,
    /// The last packet that arrived has not been tested.
    tests: bool,
    /// The last packet that arrived is of a flow in the projection.
    ours: bool,
}

/// Statistics of the intervals that have ended, and of the flows tracked through the current one.
#[derive(Default)]
pub(super) struct FilterRecord {
    intervals: u64,
    /// Threshold of the last interval.
    threshold: u32,
    false_positives: u64,
    /// Flows tracked since the start of the interval, and the part of them that sent the threshold
    /// in it.
    pub(super) whole: u64,
    pub(super) large: u64,
}

impl FilterRecord {
    /// Ends an interval with `threshold`. In the next one, `whole` flows are tracked from its
    /// beginning.
    pub(super) const fn end(&mut self, threshold: u32, whole: u64) {
        self.intervals += 1;
        self.threshold = threshold;
        self.false_positives = self.whole.saturating_sub(self.large);
        (self.whole, self.large) = (whole, 0);
    }

    /// Notes bytes of a flow that was tracked at the start of the interval: its bytes before and
    /// after this packet.
    pub(super) fn count(&mut self, before: u32, bytes: u32, threshold: u32) {
        self.large += u64::from(before < threshold && bytes >= threshold);
    }

    /// Removes a flow that was tracked at the start of the interval and has sent `bytes` in it.
    pub(super) fn forget(&mut self, bytes: u32, threshold: u32) {
        self.whole = self.whole.saturating_sub(1);
        self.large = self.large.saturating_sub(u64::from(bytes >= threshold));
    }
}

impl Common {
    /// An empty state for at most `most` flows.
    pub(super) fn new(tracker: TrackerSpec, span: Duration, seed: u64, most: usize) -> Self {
        Self {
            tracker,
            span,
            seed,
            memory: Memory::new(most),
            began: Time::ZERO,
            ends: Time::ZERO + span,
            interval: 1,
            arrived: 0,
            record: FilterRecord::default(),
            walk: Walk::default(),
            tests: false,
            ours: false,
        }
    }

    /// True if the interval is over.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.ends
    }

    /// Begins an interval and increases the number by `steps`.
    pub(super) fn begin(&mut self, at: Time, steps: u16) {
        (self.began, self.ends) = (at, at + self.span);
        self.interval = self.interval.wrapping_add(steps);
    }
}

impl<F: Filtered> Marking for F {
    fn arrived(&mut self, seen: &Observed<'_>, packet: &Packet) -> bool {
        let Observed { now, direction, flow, backlog, .. } = *seen;
        if self.common().is_over(now) {
            self.end_interval(now);
        }
        self.tidy(now);
        self.common_mut().arrived += u64::from(packet.len);
        let found = self.track(&Sighting { now, packet, direction, flow });
        if let Some((entry, _)) = found {
            if self.common().memory.class(entry) != seen.class_number() {
                self.classify(entry, seen.class_number(), now);
            }
            self.common_mut().memory.queued(entry, packet, backlog == Bytes::ZERO);
        }
        let ours = found.is_some_and(|(_, ours)| ours);
        let common = self.common_mut();
        (common.tests, common.ours) = (true, ours);
        ours
    }

    fn leaving(&mut self, packet: &Packet) {
        self.common_mut().memory.departed(packet);
    }

    fn acknowledged(&mut self, seen: &Observed<'_>, ack: &Packet) {
        let Some(entry) = self.common().memory.find(ack.flow) else { return };
        self.change(entry, seen.now, |track| {
            track.on_ack(&acknowledges(seen, ack));
        });
    }

    fn decide(&mut self, seen: &Observed<'_>, packet: &Packet) -> Decision {
        let (accounts, others, common) = self.projection();
        if std::mem::replace(&mut common.tests, false) {
            common.walk = Walk::default();
        }
        let Common { memory, walk, interval, .. } = common;
        let found = walk.next(accounts, (seen, packet.frame_len()), &others, memory, |entry| {
            F::is_projected(entry, *interval) && entry.track.is_markable()
        });
        if let Some(target) = found {
            return Decision::Mark(target);
        }
        if !common.walk.is_short || common.walk.found || common.ours {
            return Decision::Pass;
        }
        match last_resort(packet, self.ignores(packet.flow)) {
            Decision::MarkArrival if !F::MARKS_ARRIVALS => Decision::Pass,
            decision => decision,
        }
    }

    fn done(&mut self, now: Time, target: Target, outcome: Outcome) {
        let Some(entry) = self.common().memory.find(target.flow) else { return };
        match outcome {
            Outcome::Marked => self.change(entry, now, |track| track.on_mark(now)),
            Outcome::Dropped => self.change(entry, now, |track| track.on_drop(now)),
            Outcome::NoPacket => return self.common_mut().memory.emptied(entry),
        }
        self.common_mut().walk.marked();
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(entry) = self.common().memory.find(flow) {
            self.take_out(entry);
            self.common_mut().memory.remove(entry);
        }
    }

    fn ignores(&self, flow: FlowId) -> bool {
        let entry = self.common().memory.find(flow).map(|entry| self.common().memory.get(entry));
        entry.is_some_and(|entry| entry.track.ignores())
    }

    fn longest_rtt(&self) -> Duration {
        self.longest()
    }

    fn tracks(&self, flow: FlowId) -> bool {
        let Common { memory, interval, .. } = self.common();
        let entry = memory.find(flow).map(|entry| memory.get(entry));
        entry.is_some_and(|entry| F::is_projected(entry, *interval))
    }

    fn tracked(&self) -> Tracked {
        let ((flows, rho), record) = (self.projected(), &self.common().record);
        Tracked {
            flows,
            rho,
            intervals: record.intervals,
            threshold: Bytes(record.threshold.into()),
            false_positives: record.false_positives,
            ..Tracked::default()
        }
    }
}
