//! The marking `coverage`: as many flows are tracked as carry most of the bytes.
//!
//! A parallel filter finds the flows to track. Its threshold follows the traffic: at the end of each interval it
//! falls if less than 80 % of the bytes are of tracked flows, and rises if more than 90 % are or if the memory is
//! full. All other traffic counts in the projection at its rate of the last interval.
//!
//! Tracked flows are shielded: the filter does not count their packets. A flow stays tracked if it sent the
//! threshold within the last interval, or began to be tracked in it (preserved entries). Both are decided when
//! the flow's next packet arrives or its turn comes, so no packet pays for all flows.
//!
//! Source: Estan and Varghese, doi 10.1145/859716.859719, section 3.3; `marking`, section 5 (a filter that tracks
//! few flows needs a large factor rho, which multiplies noise).

use std::time::Duration;

use serde::Deserialize;

use super::filter::{Parallel, Shape, fingerprint};
use super::heuristic::check_filter;
use super::memory::{Memory, is_trackable};
use super::sums::{Accounts, Others, Part, Rho, Rounds, Walk, is_markable};
use super::tracker::{Sighting, Track, TrackerSpec};
use super::{Decision, Marking, Observed, Outcome, Target, acknowledges, last_resort};
use crate::packet::FlowId;
use crate::random::Random;
use crate::registry::checked;
use crate::{Bytes, Factor, Packet, Rate, Time, units};

/// The filter, and how flows are tracked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields, remote = "Self")]
pub struct Config {
    /// How the window and the round trips of a flow are estimated.
    pub tracker: TrackerSpec,
    /// Parameter of the tracker: a gap of more than `RTT / k` ends a round.
    pub k: Option<u32>,
    /// Parameter of the tracker: weight of the old round-trip time against a new sample.
    pub a: Option<Factor>,
    /// Length of an interval.
    #[serde(with = "units::duration")]
    pub interval: Duration,
    /// Bytes within the first interval after which a flow is tracked at the latest.
    pub threshold: Bytes,
    /// Stages of the filter.
    pub stages: u32,
    /// Counters of a stage.
    pub buckets: u32,
}

impl Default for Config {
    /// As `heuristic`, with as large a filter as is allowed.
    fn default() -> Self {
        Self {
            tracker: TrackerSpec::default(),
            k: None,
            a: None,
            interval: Duration::from_secs(1),
            threshold: Bytes(12_500),
            stages: 4,
            buckets: 4_096,
        }
    }
}

checked!(Config);

/// Memory of a filter: counters of four bytes.
const MOST_COUNTERS: u64 = (64 << 10) / 4;

/// Flows that are tracked at most.
const MOST_FLOWS: usize = 4_096;

/// The threshold is at least the smallest frame (IEEE 802.3, section 4A.4.2, without the check sequence).
const LEAST_THRESHOLD: u32 = 60;

impl Config {
    const fn shape(&self) -> Shape {
        Shape { stages: self.stages, buckets: self.buckets }
    }

    fn check(&self) -> Result<(), &'static str> {
        check_filter(self.interval, self.threshold, self.shape())?;
        if u64::from(self.stages) * u64::from(self.buckets) > MOST_COUNTERS {
            return Err("`stages` times `buckets` must be at most 16384: a filter has 64 KiB");
        }
        self.tracker.clone().with(self.k, self.a).map(drop)
    }

    pub(super) fn build(&self, mut random: Random) -> Coverage {
        let tracker = self.tracker.clone().with(self.k, self.a);
        let threshold = u32::try_from(self.threshold.0).unwrap_or(u32::MAX);
        Coverage {
            tracker: tracker.unwrap_or_else(|_| self.tracker.clone()),
            span: self.interval,
            filter: Parallel::new(self.shape(), threshold),
            threshold,
            preserves: threshold,
            seed: random.below(u64::MAX),
            memory: Memory::new(MOST_FLOWS),
            began: Time::ZERO,
            interval: 1,
            arrived: 0,
            was_full: false,
            sums: Accounts::default(),
            longest_before: Duration::ZERO,
            untracked: Rate::from_bps(0),
            walk: Walk::default(),
            tests: false,
            ours: false,
        }
    }
}

pub(super) struct Coverage {
    tracker: TrackerSpec,
    span: Duration,
    filter: Parallel,
    /// Bytes of a flow in this interval after which it is tracked at the latest.
    threshold: u32,
    /// Bytes of a tracked flow in the last interval from which on it stays tracked.
    preserves: u32,
    seed: u64,
    memory: Memory,
    /// Start of the interval, and its number.
    began: Time,
    interval: u16,
    /// Bytes in the interval; those of tracked flows are in `sums`.
    arrived: u64,
    /// The memory was full in this interval.
    was_full: bool,
    sums: Accounts,
    longest_before: Duration,
    /// Rate of untracked traffic in the last interval.
    untracked: Rate,
    walk: Walk,
    /// The last packet that arrived has not been tested.
    tests: bool,
    /// The last packet that arrived is of a tracked flow.
    ours: bool,
}

/// The threshold for the next interval, if `tracked` of `all` bytes were of tracked flows.
///
/// If 80 % are tracked, rho would be 1.25; `marking`, section 5, asks for a small rho. The factors are chosen, not
/// measured: one step undoes the other, and ten intervals change the threshold ninefold.
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

// Of an entry, `interval` is that of `bytes`; `flag`: it began to be tracked in that interval. `counted` is 1 if the
// flow is in the sums, 0 while it is idle.
const IN_SUMS: u8 = 1;

impl Coverage {
    /// Ends the interval if it is over.
    fn turn(&mut self, now: Time) {
        let passed = now.since(self.began);
        if passed < self.span {
            return;
        }
        let tracked = std::mem::take(&mut self.sums.all.bytes);
        let others = self.arrived.saturating_sub(tracked);
        let bps = u128::from(others) * 8_000_000_000 / passed.as_nanos().max(1);
        self.untracked = Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX));
        self.preserves = self.threshold;
        self.threshold = adapted(self.threshold, tracked, self.arrived, self.was_full);
        self.filter.clear(self.threshold);
        (self.arrived, self.was_full) = (0, self.memory.is_full());
        self.longest_before = std::mem::take(&mut self.sums.all.longest_rtt);
        // After a longer silence no flow is preserved.
        let steps = if passed >= self.span * 2 { 2 } else { 1 };
        self.interval = self.interval.wrapping_add(steps);
        self.began = now;
    }

    /// Returns `true` if the flow of an entry stays tracked. Its count of bytes then begins with this interval.
    fn settle(&mut self, entry: u32, now: Time) -> bool {
        let (interval, preserves) = (self.interval, self.preserves);
        let it = self.memory.get_mut(entry);
        let age = interval.wrapping_sub(it.interval);
        let stays = match age {
            0 => return true,
            1 => it.flag || it.bytes >= preserves,
            _ => false,
        };
        if stays {
            (it.interval, it.bytes, it.flag) = (interval, 0, false);
        } else {
            self.quiet(entry, now);
            self.memory.remove(entry);
        }
        stays
    }

    /// Takes a flow out of the sums.
    fn quiet(&mut self, entry: u32, now: Time) {
        let class = self.memory.class(entry);
        let it = self.memory.get_mut(entry);
        if std::mem::replace(&mut it.counted, 0) == IN_SUMS {
            self.sums.remove(class, &it.track, now);
        }
    }

    /// Looks at the next entry in turn: whether it stays, and whether its flow is idle.
    fn tidy(&mut self, now: Time) {
        if let Some(entry) = self.memory.advance()
            && self.settle(entry, now)
            && self.memory.get(entry).track.is_idle(now)
        {
            self.quiet(entry, now);
        }
    }

    /// Notes a packet of a flow that can be tracked. Returns its entry if it is tracked.
    fn track(&mut self, sighting: &Sighting<'_>) -> Option<u32> {
        let (now, packet) = (sighting.now, sighting.packet);
        let known = self.memory.find(packet.flow).filter(|entry| self.settle(*entry, now));
        let entry = match known {
            Some(entry) => {
                self.change(entry, now, |track| {
                    track.on_arrival(sighting);
                });
                entry
            }
            None => {
                if !self.filter.passes(fingerprint(self.seed, packet), packet.len) {
                    return None;
                }
                let Some(entry) = self.memory.insert(&self.tracker, sighting) else {
                    self.was_full = true;
                    return None;
                };
                let it = self.memory.get_mut(entry);
                (it.interval, it.flag) = (self.interval, true);
                self.change(entry, now, |_| {});
                entry
            }
        };
        let it = self.memory.get_mut(entry);
        it.bytes = it.bytes.saturating_add(packet.len);
        let counts = Part::of(&it.track.last_estimate(now)).counts();
        if counts {
            self.sums.all.bytes += u64::from(packet.len);
        }
        counts.then_some(entry)
    }

    /// Lets the tracker of an entry change, and the sums with it. The flow is in the sums then.
    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track)) {
        let class = self.memory.class(entry);
        let it = self.memory.get_mut(entry);
        let was_in = std::mem::replace(&mut it.counted, IN_SUMS) == IN_SUMS;
        let before = it.track.last_estimate(now);
        how(&mut it.track);
        let after = it.track.last_estimate(now);
        let part = if was_in { Part::of(&before) } else { Part::default() };
        self.sums.change(class, part, &after);
        if !is_markable(&before) && is_markable(&after) {
            self.memory.may_be_chosen(entry);
        }
    }
}

impl Marking for Coverage {
    fn arrived(&mut self, seen: &Observed<'_>, packet: &Packet) {
        let Observed { now, direction, flow, backlog, .. } = *seen;
        self.turn(now);
        self.tidy(now);
        self.arrived += u64::from(packet.len);
        (self.tests, self.ours) = (true, false);
        if is_trackable(packet) {
            let sighting = Sighting { now, packet, direction, flow };
            if let Some(entry) = self.track(&sighting) {
                let (old, class) = (self.memory.class(entry), seen.class_number());
                if old != class {
                    self.memory.set_class(entry, class);
                    let estimate = self.memory.get(entry).track.last_estimate(now);
                    self.sums.move_flow(old, class, &estimate);
                }
                self.memory.queued(entry, packet, backlog == Bytes::ZERO);
                self.ours = true;
            }
        }
    }

    fn leaving(&mut self, _: &Observed<'_>, packet: &Packet) {
        self.memory.departed(packet);
    }

    fn acknowledged(&mut self, seen: &Observed<'_>, ack: &Packet) {
        let Some(entry) = self.memory.find(ack.flow) else { return };
        self.change(entry, seen.now, |track| {
            track.on_ack(&acknowledges(seen, ack));
        });
    }

    fn decide(&mut self, seen: &Observed<'_>, packet: &Packet) -> Decision {
        if std::mem::replace(&mut self.tests, false) {
            self.walk = Walk::default();
        }
        let seen = (seen, packet.frame_len());
        let others = Others { rho: Rho::ONE, untracked: self.untracked, rounds: Rounds::All };
        let found = self.walk.next(&self.sums, seen, &others, &mut self.memory, |entry| {
            is_markable(&entry.track.last_estimate(seen.0.now))
        });
        if let Some(target) = found {
            return Decision::Mark(target);
        }
        if !self.walk.is_short || self.walk.found || self.ours {
            Decision::Pass
        } else {
            last_resort(packet, self.ignores(packet.flow))
        }
    }

    fn done(&mut self, now: Time, target: Target, outcome: Outcome) {
        let Some(entry) = self.memory.find(target.flow) else { return };
        match outcome {
            Outcome::Marked => self.change(entry, now, |track| track.on_mark(now)),
            Outcome::Dropped => self.change(entry, now, |track| track.on_drop(now)),
            Outcome::NoPacket => return self.memory.emptied(entry),
        }
        self.walk.marked();
    }

    fn forget(&mut self, flow: FlowId) {
        if let Some(entry) = self.memory.find(flow) {
            self.quiet(entry, self.began);
            self.memory.remove(entry);
        }
    }

    fn ignores(&self, flow: FlowId) -> bool {
        let entry = self.memory.find(flow).map(|entry| self.memory.get(entry));
        entry.is_some_and(|entry| entry.track.ignores())
    }

    fn longest_rtt(&self) -> Duration {
        self.sums.all.longest_rtt.max(self.longest_before)
    }
}

#[cfg(test)]
mod tests;
