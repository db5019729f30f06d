//! The marking `coverage`: it tracks the largest flows, as many as are needed for 80 to 90 % of all bytes.
//!
//! A flow gets a tracker when it has passed a filter (see [`Parallel`]). At the end of each
//! interval, the threshold of the filter changes. It is lowered if less than 80 % of the bytes
//! belong to tracked flows. It is raised if more than 90 % belong to tracked flows, or if the
//! memory for trackers is full. The *projection*, the predicted backlog, adds all other traffic at
//! its rate of the last interval.
//!
//! Two rules of the source apply:
//!
//! - Shielding: the filter does not count packets of tracked flows.
//! - Preserved entries: a flow keeps its tracker for the next interval if it has sent at least as
//!   many bytes as the threshold. A flow that got its tracker in this interval keeps it too.
//!
//! The second rule is applied when the next packet of the flow arrives. A cyclic search, one entry per packet, finds flows
//! without further packets. So the cost per packet is constant.
//!
//! Source: Estan and Varghese, doi 10.1145/859716.859719, section 3.3; `marking`, section 5 (a filter that tracks few
//! flows needs a large factor `rho`, which also multiplies noise).

use std::time::Duration;

use super::filter::{Parallel, Shape, fingerprint};
use super::filtered::{Common, Filtered};
use super::heuristic::{MOST_BUCKETS, MOST_BYTES, MOST_STAGES};
use super::memory::{TrackedFlow, is_trackable};
use super::sums::{Accounts, Projected, ProjectedRounds, ProjectionTerms, Rho};
use super::tracker::{Sighting, Track, TrackerSpec};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Factor, Rate, Time, parameters};

parameters! {
    /// Filter and tracker.
    ///
    /// The same parameters as for `heuristic`, with the largest filter that is allowed.
    pub Config, checked {
        /// Estimator of the window and the round trips of a flow.
        tracker: TrackerSpec = TrackerSpec::default();
        /// Parameter of the tracker: a gap of more than `RTT / k` between packets ends a round. The tracker
        /// `two-way` uses it only until it has seen an ACK. Default: 10.
        k: Option<u32> = None, in 1.., "write 10 for gaps of a tenth of a round trip";
        /// Parameter of the tracker: weight of the old round-trip time against a new sample. Default: 0.9.
        a: Option<Factor> = None, in Factor::ZERO..=Factor::ONE, "write 0.9 to give a new sample a tenth";
        /// Interval over which bytes are counted.
        interval: Duration = Duration::from_secs(1), in more_than(Duration::ZERO);
        /// A flow that sends this many bytes within the first interval gets a tracker. The
        /// threshold then follows the traffic.
        threshold: Bytes = Bytes(12_500), in Bytes(1)..=MOST_BYTES;
        /// Stages of the filter.
        stages: u32 = 4, in 1..=MOST_STAGES;
        /// Counters of a stage of the filter.
        buckets: u32 = 4_096, in 1..=MOST_BUCKETS;
    }
}

/// Most counters of a filter: four bytes each, and 64 KiB in total.
const MOST_COUNTERS: u64 = (64 << 10) / 4;

/// Most flows that are tracked.
const MOST_FLOWS: usize = 4_096;

/// Least threshold: the bytes of the smallest Ethernet frame without its check sequence (IEEE 802.3, section 4A.4.2).
const LEAST_THRESHOLD: u32 = 60;

impl Config {
    const fn shape(&self) -> Shape {
        Shape { stages: self.stages, buckets: self.buckets }
    }

    fn check(&self) -> Result<(), &'static str> {
        if u64::from(self.stages) * u64::from(self.buckets) > MOST_COUNTERS {
            return Err("`stages` times `buckets` must be at most 16384: a filter has 64 KiB");
        }
        self.tracker.clone().with(self.k, self.a).map(drop)
    }

    pub(super) fn build(&self, mut random: Random) -> Coverage {
        let tracker = self.tracker.clone().with(self.k, self.a);
        let tracker = tracker.unwrap_or_else(|_| self.tracker.clone());
        let threshold = u32::try_from(self.threshold.0).unwrap_or(u32::MAX);
        Coverage {
            common: Common::new(tracker, self.interval, random.below(u64::MAX), MOST_FLOWS),
            filter: Parallel::new(self.shape(), threshold),
            threshold,
            preserves: threshold,
            was_full: false,
            sums: Accounts::new(ProjectedRounds::All),
            longest_before: Duration::ZERO,
            untracked: Rate::from_bps(0),
        }
    }
}

/// The marking `coverage`.
pub(super) struct Coverage {
    common: Common,
    filter: Parallel,
    /// A flow that has sent this many bytes in this interval has a tracker.
    threshold: u32,
    /// A tracked flow stays tracked if it sent at least this many bytes in the last interval.
    preserves: u32,
    /// The memory was full in this interval.
    was_full: bool,
    /// Sums over the tracked flows, and the bytes that they have sent in this interval.
    sums: Accounts,
    /// Longest round-trip time of tracked flows in the last interval.
    longest_before: Duration,
    /// Rate of untracked traffic in the last interval.
    untracked: Rate,
}

/// The threshold for the next interval. Of `all` bytes in this interval, `tracked` belong to tracked flows.
///
/// Source: `marking`, section 5, asks for a small factor `rho`. With 80 % of the bytes, `rho` would
/// be 1.25.
///
/// The factors are chosen, not measured. A step up undoes a step down, and ten steps change the threshold ninefold.
fn adapted(threshold: u32, tracked: u64, all: u64, full: bool) -> u32 {
    let (tracked, all) = (u128::from(tracked) * 100, u128::from(all));
    let next = if full || tracked > 90 * all {
        u64::from(threshold) * 5 / 4 + 1
    } else if tracked < 80 * all {
        u64::from(threshold) * 4 / 5
    } else {
        u64::from(threshold)
    };
    u32::try_from(next).unwrap_or(u32::MAX).clamp(LEAST_THRESHOLD, u32::MAX / 2)
}

/// Value of [`TrackedFlow::counted`] while the flow is in the sums. Zero while the flow is idle.
///
/// In this marking, [`TrackedFlow::interval`] is the interval in which [`TrackedFlow::bytes`] were sent. The flag
/// [`TrackedFlow::flag`] is set if the flow got its tracker in that interval.
const IN_SUMS: u8 = 1;

impl Coverage {
    /// Applies the rule of preserved entries. Returns `true` if the flow keeps its tracker, whose byte count then begins
    /// with this interval. Otherwise the entry is removed.
    fn settle(&mut self, entry: u32) -> bool {
        let (interval, preserves) = (self.common.interval, self.preserves);
        let it = self.common.memory.get_mut(entry);
        let age = interval.wrapping_sub(it.interval);
        let stays = match age {
            0 => return true,
            1 => it.flag || it.bytes >= preserves,
            _ => false,
        };
        if stays {
            (it.interval, it.bytes, it.flag) = (interval, 0, false);
            self.common.record.whole += 1;
        } else {
            self.quiet(entry);
            self.common.memory.remove(entry);
        }
        stays
    }

    /// Removes a flow from the sums, because it is idle or no longer tracked.
    fn quiet(&mut self, entry: u32) {
        let class = self.common.memory.class(entry);
        let it = self.common.memory.get_mut(entry);
        if std::mem::replace(&mut it.counted, 0) == IN_SUMS {
            self.sums.remove_flow(class, &it.track.brief());
        }
    }

    /// Passes the packet to the tracker of its flow. Returns the entry, or `None` if the flow is
    /// not tracked.
    fn entry(&mut self, sighting: &Sighting<'_>) -> Option<u32> {
        let (now, packet) = (sighting.now, sighting.packet);
        let known = self.common.memory.find(packet.flow);
        if let Some(entry) = known.filter(|entry| self.settle(*entry)) {
            self.change(entry, now, |track| {
                track.on_arrival(sighting);
            });
            return Some(entry);
        }
        let Common { memory, tracker, seed, interval, .. } = &mut self.common;
        if !self.filter.passes(fingerprint(*seed, packet), packet.len) {
            return None;
        }
        let Some(entry) = memory.insert(tracker, sighting) else {
            self.was_full = true;
            return None;
        };
        let it = memory.get_mut(entry);
        (it.interval, it.flag) = (*interval, true);
        self.change(entry, now, |_| {});
        Some(entry)
    }
}

impl Filtered for Coverage {
    const MARKS_ARRIVALS: bool = true;

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn end_interval(&mut self, now: Time) {
        let common = &mut self.common;
        let passed = now.since(common.began);
        let tracked = std::mem::take(&mut self.sums.all.bytes);
        let others = common.arrived.saturating_sub(tracked);
        let bps = u128::from(others) * 8_000_000_000 / passed.as_nanos().max(1);
        self.untracked = Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX));
        common.record.end(self.threshold, 0);
        self.preserves = self.threshold;
        self.threshold = adapted(self.threshold, tracked, common.arrived, self.was_full);
        self.filter.clear(self.threshold);
        (common.arrived, self.was_full) = (0, common.memory.is_full());
        self.longest_before = self.sums.all.take_longest_rtt();
        // After a pause of two intervals no flow keeps its tracker.
        let steps = if passed >= common.span * 2 { 2 } else { 1 };
        common.begin(now, steps);
    }

    /// Checks the next entry. Removes it if it is not preserved, and removes an idle flow from the sums.
    fn tidy(&mut self, now: Time) {
        if let Some(entry) = self.common.memory.advance()
            && self.settle(entry)
            && self.common.memory.get(entry).track.is_idle(now)
        {
            self.quiet(entry);
        }
    }

    fn track(&mut self, sighting: &Sighting<'_>) -> Option<(u32, bool)> {
        let packet = sighting.packet;
        if !is_trackable(packet) {
            return None;
        }
        let entry = self.entry(sighting)?;
        let it = self.common.memory.get_mut(entry);
        let before = it.bytes;
        it.bytes = before.saturating_add(packet.len);
        if !it.flag {
            self.common.record.count(before, it.bytes, self.threshold);
        }
        if !it.track.brief().responds {
            return None;
        }
        self.sums.all.bytes += u64::from(packet.len);
        Some((entry, true))
    }

    /// Applies `how` to the tracker of a flow, and updates the sums. A flow that was idle is added to the sums again.
    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track)) {
        let class = self.common.memory.class(entry);
        let it = self.common.memory.get_mut(entry);
        let was_in = std::mem::replace(&mut it.counted, IN_SUMS) == IN_SUMS;
        let before = it.track.brief();
        how(&mut it.track);
        let (after, due) = (it.track.brief(), self.sums.due(&it.track, now));
        if !was_in {
            self.sums.add_flow(class, &after, due);
        } else if before != after {
            self.sums.changes(class, &before, &after, due);
        } else if after.responds {
            self.sums.reach(class, after.rtt, due);
        }
        if !before.is_markable() && after.is_markable() {
            self.common.memory.may_be_chosen(entry);
        }
    }

    fn classify(&mut self, entry: u32, class: u16, now: Time) {
        let old = self.common.memory.set_class(entry, class);
        self.sums.move_flow(old, class, &self.common.memory.get(entry).track, now);
    }

    fn take_out(&mut self, entry: u32) {
        let Common { memory, interval, record, .. } = &mut self.common;
        let it = memory.get(entry);
        if !it.flag && it.interval == *interval {
            record.forget(it.bytes, self.threshold);
        }
        self.quiet(entry);
    }

    fn projection(&mut self) -> (Projected<'_>, ProjectionTerms, &mut Common) {
        let others = ProjectionTerms {
            rho: Rho::ONE,
            untracked: self.untracked,
            rounds: ProjectedRounds::All,
        };
        (Projected(&self.sums, None), others, &mut self.common)
    }

    /// All tracked flows. Idle flows have no waiting packet that could be marked.
    fn is_projected(_: &TrackedFlow, _: u16) -> bool {
        true
    }

    fn longest(&self) -> Duration {
        self.sums.all.longest_rtt().max(self.longest_before)
    }

    fn projected(&self) -> (u64, f64) {
        (self.sums.all.flows(), Rho::ONE.factor())
    }
}

#[cfg(test)]
mod tests;
