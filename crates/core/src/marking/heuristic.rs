//! The marking `heuristic`: only the flows that passed a filter have trackers. These flows
//! represent all flows.
//!
//! Two lists hold the flows with trackers. `L_1` has the flows that have passed the filter in the present interval. At
//! the end of an interval, `L_1` becomes `L_0`, and a new, empty `L_1` begins.
//!
//! The *projection* predicts the backlog. It adds up the next rounds of the flows in `L_0`, and
//! multiplies the sum by `rho`. A round is the packets of one window. If the flows in `L_0` sent a
//! third of all bytes, `rho` is 3. If the projection exceeds the limit, the waiting packets of
//! these flows are marked, the oldest first, and at most one for each flow in its round. Enough
//! packets are marked to compensate the excess.
//!
//! Source: `marking`, section 2.3 (lists and `rho`) and section 10 (number of marks; `rho` after the end of an interval).
//! Differs: if no flow of `L_0` is left to mark, an arriving packet of another flow is dropped, unless it is ECN-capable.

use std::time::Duration;

use super::filter::{Serial, Shape, fingerprint};
use super::filtered::{Common, Filtered};
use super::memory::{TrackedFlow, is_trackable};
use super::sums::{Accounts, Projected, ProjectedRounds, ProjectionTerms, Rho};
use super::tracker::{Sighting, Track, TrackerSpec};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Factor, Rate, Time, parameters};

parameters! {
    /// Filter and tracker.
    ///
    /// Source: `marking`, section 5.
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
        /// A flow that sends this many bytes within an interval passes the filter. Some smaller
        /// flows pass too.
        threshold: Bytes = Bytes(12_500), in Bytes(1)..=MOST_BYTES;
        /// Stages of the filter.
        stages: u32 = 3, in 1..=MOST_STAGES;
        /// Counters of a stage of the filter.
        buckets: u32 = 8, in 1..=MOST_BUCKETS;
        /// The rounds of a flow that the projection counts: one in each round trip, or only the next, as in the paper.
        rounds: ProjectedRounds = ProjectedRounds::default();
    }
}

/// Most counters in a stage of a filter.
pub(super) const MOST_BUCKETS: u32 = 1 << 20;

/// Most stages of a filter. Each stage has its own hash function.
pub(super) const MOST_STAGES: u32 = 16;

/// The greatest threshold: half of the range of a counter, so that counters do not overflow.
pub(super) const MOST_BYTES: Bytes = Bytes((1 << 31) - 1);

impl Config {
    const fn shape(&self) -> Shape {
        Shape { stages: self.stages, buckets: self.buckets }
    }

    fn check(&self) -> Result<(), &'static str> {
        self.tracker.clone().with(self.k, self.a).map(drop)
    }

    pub(super) fn build(&self, mut random: Random) -> Heuristic {
        let tracker = self.tracker.clone().with(self.k, self.a);
        let tracker = tracker.unwrap_or_else(|_| self.tracker.clone());
        let threshold = u32::try_from(self.threshold.0).unwrap_or(u32::MAX);
        Heuristic {
            common: Common::new(tracker, self.interval, random.below(u64::MAX), usize::MAX),
            rounds: self.rounds,
            filter: Serial::new(self.shape(), threshold),
            threshold,
            fresh: Accounts::new(self.rounds),
            both: Accounts::new(self.rounds),
            stale: Accounts::new(self.rounds),
            joined: 0,
            bytes: 0,
            rho: Rho::ONE,
        }
    }
}

/// The marking `heuristic`.
pub(super) struct Heuristic {
    common: Common,
    rounds: ProjectedRounds,
    filter: Serial,
    /// A flow that has sent this many bytes in an interval passes the filter. Some smaller flows
    /// pass too.
    threshold: u32,
    /// Sums over the flows in `L_1` only. A flow is in one of the sums `fresh`, `both` and `stale`, so that a change of the
    /// flow changes one sum only.
    fresh: Accounts,
    /// Sums over the flows in `L_1` and `L_0`.
    both: Accounts,
    /// Sums over the flows in `L_0` only.
    stale: Accounts,
    /// Number of flows in `L_1`.
    joined: u64,
    /// Bytes that the flows in `L_1` have sent in this interval.
    bytes: u64,
    /// Factor for the rounds of the flows in `L_0`.
    rho: Rho,
}

/// The lists that a flow is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Lists {
    /// The flow is in `L_1`: it has passed the filter in this interval.
    now: bool,
    /// The flow is in `L_0`: it passed the filter in the last interval.
    last: bool,
}

/// The lists that the flow of `entry` is in.
///
/// This marking uses the fields of an entry as follows:
///
/// - `interval`: the last interval in which the flow passed the filter.
/// - `flag`: the flow also passed the filter in the interval before `interval`.
/// - `counted`: the interval in which the flow sent `bytes`.
const fn lists(entry: &TrackedFlow, interval: u16) -> Lists {
    match interval.wrapping_sub(entry.interval) {
        0 => Lists { now: true, last: entry.flag },
        1 => Lists { now: false, last: true },
        _ => Lists { now: false, last: false },
    }
}

impl Heuristic {
    /// The sums that include a flow of these lists.
    const fn account(&mut self, lists: Lists) -> Option<&mut Accounts> {
        match (lists.now, lists.last) {
            (true, true) => Some(&mut self.both),
            (true, false) => Some(&mut self.fresh),
            (false, true) => Some(&mut self.stale),
            (false, false) => None,
        }
    }

    /// Passes a packet to the tracker of its flow. Returns the entry and its lists. `passes` is
    /// `true` if the packet passed the filter: the flow then gets a tracker if it has none.
    fn entry(&mut self, sighting: &Sighting<'_>, passes: bool) -> Option<(u32, Lists)> {
        let Common { memory, interval, tracker, .. } = &mut self.common;
        if let Some(entry) = memory.find(sighting.packet.flow) {
            let lists = lists(memory.get(entry), *interval);
            if lists.now || lists.last {
                self.change(entry, sighting.now, |track| {
                    track.on_arrival(sighting);
                });
                return Some((entry, lists));
            }
            memory.remove(entry);
        }
        if !passes {
            return None;
        }
        let entry = memory.insert(tracker, sighting)?;
        Some((entry, Lists { now: false, last: false }))
    }

    /// Counts bytes that a flow sends in this interval.
    fn count(&mut self, entry: u32, lists: Lists, bytes: u32) {
        let [_, counted] = self.common.interval.to_be_bytes();
        let it = self.common.memory.get_mut(entry);
        if it.counted != counted {
            (it.counted, it.bytes) = (counted, 0);
        }
        let before = it.bytes;
        it.bytes = before.saturating_add(bytes);
        if lists.last {
            self.common.record.count(before, it.bytes, self.threshold);
        }
        if lists.now {
            self.bytes += u64::from(bytes);
        }
    }

    /// Adds a flow to `L_1`.
    fn join(&mut self, entry: u32, lists: Lists, now: Time) {
        let interval = self.common.interval;
        let it = self.common.memory.get_mut(entry);
        (it.interval, it.flag) = (interval, lists.last);
        let (flow, due) = (it.track.brief(), self.both.due(&it.track, now));
        self.bytes += u64::from(it.bytes);
        self.joined += 1;
        let class = self.common.memory.class(entry);
        if lists.last {
            self.stale.remove_flow(class, &flow);
            self.both.add_flow(class, &flow, due);
        } else {
            self.fresh.add_flow(class, &flow, due);
        }
    }
}

impl Filtered for Heuristic {
    const MARKS_ARRIVALS: bool = false;

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    /// Ends the interval. If no packet arrived for a while, several intervals end at once.
    fn end_interval(&mut self, now: Time) {
        let common = &mut self.common;
        let (passed, span) = (now.since(common.began).as_nanos(), common.span.as_nanos());
        let over = u64::try_from(passed / span).unwrap_or(u64::MAX);
        // No flow passes the filter in an interval without packets. After three such intervals, all statistics are zero.
        for _ in 0..over.min(3) {
            common.record.end(self.threshold, std::mem::take(&mut self.joined));
        }
        std::mem::swap(&mut self.fresh, &mut self.stale);
        self.stale.add(&self.both);
        let mut bytes = std::mem::take(&mut self.bytes);
        if over > 1 {
            self.stale.clear();
            bytes = 0;
        }
        self.fresh.clear();
        self.both.clear();
        common.memory.begin_again();
        self.rho = Rho::new(common.arrived, bytes);
        common.arrived = 0;
        let whole = Duration::from_nanos(u64::try_from(u128::from(over) * span).unwrap_or(0));
        common.begin(common.began + whole, u16::try_from(over.min(1 << 15)).unwrap_or(u16::MAX));
        self.filter.clear();
    }

    /// Removes the next entry if its flow is in no list.
    fn tidy(&mut self, _: Time) {
        if let Some(entry) = self.common.memory.advance() {
            let Lists { now, last } = lists(self.common.memory.get(entry), self.common.interval);
            if !now && !last {
                self.common.memory.remove(entry);
            }
        }
    }

    fn track(&mut self, sighting: &Sighting<'_>) -> Option<(u32, bool)> {
        let packet = sighting.packet;
        let seed = self.common.seed;
        let passes = self.filter.passes(|| fingerprint(seed, packet), packet.len);
        if !is_trackable(packet) {
            return None;
        }
        let (entry, lists) = self.entry(sighting, passes)?;
        self.count(entry, lists, packet.len);
        if passes && !lists.now {
            self.join(entry, lists, sighting.now);
        }
        Some((entry, lists.last))
    }

    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track)) {
        let Common { memory, interval, .. } = &mut self.common;
        let class = memory.class(entry);
        let it = memory.get_mut(entry);
        let before = it.track.brief();
        how(&mut it.track);
        let (after, lists) = (it.track.brief(), lists(it, *interval));
        let due = self.both.due(&it.track, now);
        if !before.is_markable() && after.is_markable() {
            memory.may_be_chosen(entry);
        }
        let Some(account) = self.account(lists) else { return };
        if before != after {
            account.changes(class, &before, &after, due);
        } else if after.responds {
            account.reach(class, after.rtt, due);
        }
    }

    fn classify(&mut self, entry: u32, class: u16, now: Time) {
        let Common { memory, interval, .. } = &mut self.common;
        let old = memory.set_class(entry, class);
        let it = *memory.get(entry);
        let lists = lists(&it, *interval);
        if let Some(account) = self.account(lists) {
            account.move_flow(old, class, &it.track, now);
        }
    }

    fn take_out(&mut self, entry: u32) {
        let Common { memory, interval, record, .. } = &mut self.common;
        let (it, class) = (memory.get(entry), memory.class(entry));
        let (lists, flow) = (lists(it, *interval), it.track.brief());
        self.joined -= u64::from(lists.now);
        if lists.last {
            let [_, counted] = interval.to_be_bytes();
            record.forget(if it.counted == counted { it.bytes } else { 0 }, self.threshold);
        }
        if let Some(account) = self.account(lists) {
            account.remove_flow(class, &flow);
        }
    }

    fn projection(&mut self) -> (Projected<'_>, ProjectionTerms, &mut Common) {
        let others =
            ProjectionTerms { rho: self.rho, untracked: Rate::from_bps(0), rounds: self.rounds };
        (Projected(&self.stale, Some(&self.both)), others, &mut self.common)
    }

    fn is_projected(entry: &TrackedFlow, interval: u16) -> bool {
        lists(entry, interval).last
    }

    fn longest(&self) -> Duration {
        let lists = [&self.fresh, &self.both, &self.stale].map(|list| list.all.longest_rtt());
        lists.into_iter().max().unwrap_or_default()
    }

    fn projected(&self) -> (u64, f64) {
        (self.stale.all.flows() + self.both.all.flows(), self.rho.factor())
    }
}

#[cfg(test)]
mod tests;
