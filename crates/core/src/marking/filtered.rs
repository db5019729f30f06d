//! Common part of two markings, `heuristic` and `coverage`. A marking marks packets before the buffer overflows.
//!
//! A filter finds the flows with many bytes. Only these have trackers, which estimate a flow's
//! window and round trip. The *projection* predicts the backlog from the tracked flows: the bytes
//! that they will send until each flow has reacted to a mark. The projection needs only sums over
//! these flows (see `sums`).
//!
//! Both markings count bytes in *intervals* of about a second. At the end of an interval, the list of tracked flows
//! changes.
//!
//! Source: `marking`, section 2.3 (filter and heuristic).

use std::time::Duration;

use super::memory::{Memory, TrackedFlow};
use super::sums::{Projected, ProjectionTerms, Walk};
use super::tracker::{Sighting, Track, TrackerSpec};
use super::{Decision, Marking, Observed, Outcome, Target, Tracked, acknowledges, last_resort};
use crate::packet::FlowId;
use crate::{Bytes, Packet, Time};

/// A marking with a filter for the flows to track. Below, [`Marking`] is implemented for all types
/// with this trait.
pub(super) trait Filtered: Send {
    /// `true` if the arriving packet may be marked although its flow has no tracker. This happens when no tracked flow
    /// is left to mark.
    const MARKS_ARRIVALS: bool;

    fn common(&self) -> &Common;

    fn common_mut(&mut self) -> &mut Common;

    /// Ends the present interval, and begins the next.
    fn end_interval(&mut self, now: Time);

    /// Checks the next entry of the flow memory, and removes it if its flow is no longer tracked.
    /// It is called once for each arriving packet, so that all entries are checked in cyclic order.
    fn tidy(&mut self, now: Time);

    /// Notes an arriving packet. Returns the entry of its flow in the flow memory, and `true` if the projection
    /// counts the flow. `None` if the flow is not tracked.
    fn track(&mut self, sighting: &Sighting<'_>) -> Option<(u32, bool)>;

    /// Applies `how` to the tracker of an entry, and updates the sums.
    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track));

    /// Sets the class of an entry, and updates the sums.
    fn classify(&mut self, entry: u32, class: u16, now: Time);

    /// Removes the flow of an entry from the sums.
    fn take_out(&mut self, entry: u32);

    /// The sums and the other terms of the projection, with access to the common state.
    fn projection(&mut self) -> (Projected<'_>, ProjectionTerms, &mut Common);

    /// Returns `true` if the projection counts the flow of an entry during `interval`.
    fn is_projected(entry: &TrackedFlow, interval: u16) -> bool;

    /// The longest round-trip time of the tracked flows.
    fn longest(&self) -> Duration;

    /// Number of flows that the projection counts, and `rho`: the bytes of all flows divided by the
    /// bytes of the tracked flows.
    fn projected(&self) -> (u64, f64);
}

/// State that both markings share.
pub(super) struct Common {
    pub(super) tracker: TrackerSpec,
    /// Length of an interval.
    pub(super) span: Duration,
    pub(super) seed: u64,
    pub(super) memory: Memory,
    /// Start of the present interval.
    pub(super) began: Time,
    /// End of the present interval.
    ends: Time,
    /// Number of the present interval.
    pub(super) interval: u16,
    /// Bytes of all packets that arrived in the present interval.
    pub(super) arrived: u64,
    pub(super) record: FilterRecord,
    walk: Walk,
    /// A packet has arrived, and `decide` has not been called for it yet.
    tests: bool,
    /// The projection counts the flow of the last packet that arrived.
    ours: bool,
}

/// Statistics of the filter: the number of flows that it tracks although they send little.
#[derive(Default)]
pub(super) struct FilterRecord {
    /// Number of intervals that have ended.
    intervals: u64,
    /// Threshold of the last interval, in bytes.
    threshold: u32,
    /// Flows that were tracked throughout the last interval, but sent less than the threshold in it.
    false_positives: u64,
    /// Number of flows that have been tracked since the start of the present interval.
    pub(super) whole: u64,
    /// Number of flows of `whole` that have sent the threshold in the present interval.
    pub(super) large: u64,
}

impl FilterRecord {
    /// Ends an interval with this `threshold`. `whole` is the number of flows that the filter
    /// tracks at the start of the next interval.
    pub(super) const fn end(&mut self, threshold: u32, whole: u64) {
        self.intervals += 1;
        self.threshold = threshold;
        self.false_positives = self.whole.saturating_sub(self.large);
        (self.whole, self.large) = (whole, 0);
    }

    /// Counts a packet of a flow that has been tracked since the start of the interval. The flow has
    /// sent `before` bytes in this interval without the packet, and `bytes` with it.
    pub(super) fn count(&mut self, before: u32, bytes: u32, threshold: u32) {
        self.large += u64::from(before < threshold && bytes >= threshold);
    }

    /// Removes a flow that has been tracked since the start of the interval, and has sent `bytes` in it.
    pub(super) fn forget(&mut self, bytes: u32, threshold: u32) {
        self.whole = self.whole.saturating_sub(1);
        self.large = self.large.saturating_sub(u64::from(bytes >= threshold));
    }
}

impl Common {
    /// State without flows. At most `most` flows will be tracked.
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

    /// Returns `true` if the present interval is over.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.ends
    }

    /// Begins an interval at the time `at`, and adds `steps` to the number of the interval.
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

    fn departed(&mut self, packet: &Packet) {
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
