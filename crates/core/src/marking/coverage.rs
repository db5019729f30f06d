//! The marking `coverage`: tracks as many flows as carry most of the bytes.
//!
//! A parallel filter finds the flows to track. Its threshold adapts at the end of each interval. It
//! falls if less than 80 % of the bytes belong to tracked flows. It rises if more than 90 % do, or
//! if the memory is full. All other traffic counts in the projection at its rate of the last
//! interval.
//!
//! Tracked flows are shielded: the filter does not count their packets. A flow stays tracked if it
//! sent the threshold within the last interval, or if its tracking began in it (preserved entries).
//! Both are checked when the flow's next packet arrives or its turn comes, so the cost per packet
//! is constant.
//!
//! Source: Estan and Varghese, doi 10.1145/859716.859719, section 3.3; `marking`, section 5 (a
//! filter that tracks few flows needs a large factor rho, which multiplies noise).

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
    /// As `heuristic`, with the largest filter that is allowed.
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
        /// Bytes within the first interval after which a flow is tracked at the latest. The threshold then follows
        /// the traffic.
        threshold: Bytes = Bytes(12_500), in Bytes(1)..=MOST_BYTES;
        /// Stages of the filter.
        stages: u32 = 4, in 1..=MOST_STAGES;
        /// Counters of a stage of the filter.
        buckets: u32 = 4_096, in 1..=MOST_BUCKETS;
    }
}

/// Memory of a filter: counters of four bytes.
const MOST_COUNTERS: u64 = (64 << 10) / 4;

/// Most flows that are tracked.
const MOST_FLOWS: usize = 4_096;

/// The threshold is at least the smallest frame (IEEE 802.3, section 4A.4.2, without the check sequence).
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

pub(super) struct Coverage {
    common: Common,
    filter: Parallel,
    /// Bytes of a flow in this interval after which it is tracked at the latest.
    threshold: u32,
    /// A tracked flow stays tracked if it sent at least this many bytes in the last interval.
    preserves: u32,
    /// The memory was full in this interval.
    was_full: bool,
    /// Sums over the tracked flows, with their bytes in the interval.
    sums: Accounts,
    longest_before: Duration,
    /// Rate of untracked traffic in the last interval.
    untracked: Rate,
}

/// The threshold for the next interval, if `tracked` of `all` bytes belong to tracked flows.
///
/// At 80 %, rho would be 1.25; `marking`, section 5, asks for a small rho. The factors are chosen,
/// not measured: one step reverses the other, and ten intervals change the threshold ninefold.
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

// An entry's `interval` is the interval of its `bytes`; `flag` means that its tracking began in
// that interval. `counted` is 1 if the flow is in the sums, 0 while it is idle.
const IN_SUMS: u8 = 1;

impl Coverage {
    /// Returns `true` if the flow of an entry stays tracked. The byte count then begins with this interval.
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

    /// Removes a flow from the sums.
    fn quiet(&mut self, entry: u32) {
        let class = self.common.memory.class(entry);
        let it = self.common.memory.get_mut(entry);
        if std::mem::replace(&mut it.counted, 0) == IN_SUMS {
            self.sums.leaves(class, &it.track.brief());
        }
    }

    /// The entry of the packet's flow, whose tracker has seen the packet; `None` if the flow is not tracked.
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
        // After a longer pause no flow is preserved.
        let steps = if passed >= common.span * 2 { 2 } else { 1 };
        common.begin(now, steps);
    }

    /// Checks the next entry: removes it if it is not preserved, and takes it out of the sums if it
    /// is idle.
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

    /// Changes the flow, and adds it to the sums if necessary.
    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track)) {
        let class = self.common.memory.class(entry);
        let it = self.common.memory.get_mut(entry);
        let was_in = std::mem::replace(&mut it.counted, IN_SUMS) == IN_SUMS;
        let before = it.track.brief();
        how(&mut it.track);
        let (after, due) = (it.track.brief(), self.sums.due(&it.track, now));
        if !was_in {
            self.sums.enters(class, &after, due);
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

    /// Idle flows count too: none of their packets wait.
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
