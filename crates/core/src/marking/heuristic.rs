//! The marking `heuristic`: the flows that passed a filter in the last interval stand for all.
//!
//! At the end of an interval the list L_1 of flows that passed becomes L_0, and L_1 is empty. The flows of L_0
//! are projected and marked. Their rounds are multiplied by rho, the inverse of their part of all bytes. If the
//! projection exceeds the limit, packets of L_0 are marked from the oldest in the queue on, one of a flow in
//! its round, until the marks make up for the excess.
//!
//! Source: `marking`, section 2.3, and its section 10 (the count of marks; rho on increments after the swap).
//! Differs: packets that no flow of L_0 sent and that are not ECN-capable are dropped when no flow is left to
//! mark.

use std::time::Duration;

use serde::Deserialize;

use super::filter::{Serial, Shape, fingerprint};
use super::memory::{Entry, Memory, is_trackable};
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
    /// Bytes within an interval after which a flow passes the filter at the latest.
    pub threshold: Bytes,
    /// Stages of the filter.
    pub stages: u32,
    /// Counters of a stage.
    pub buckets: u32,
    /// The rounds of a flow that the projection counts: `next` is the paper's.
    pub rounds: Rounds,
}

impl Default for Config {
    /// Source: `marking`, section 5.
    fn default() -> Self {
        Self {
            tracker: TrackerSpec::default(),
            k: None,
            a: None,
            interval: Duration::from_secs(1),
            threshold: Bytes(12_500),
            stages: 3,
            buckets: 8,
            rounds: Rounds::default(),
        }
    }
}

checked!(Config);

/// Most counters of a stage.
const MOST_BUCKETS: u32 = 1 << 20;

/// Most stages: a hash function each.
const MOST_STAGES: u32 = 16;

/// Says which parameter of a filter is not allowed.
pub(super) fn check_filter(
    interval: Duration,
    threshold: Bytes,
    shape: Shape,
) -> Result<(), &'static str> {
    if interval.is_zero() {
        return Err("`interval` must not be zero; write for example \"1 s\"");
    }
    if threshold == Bytes::ZERO || threshold.0 > u64::from(u32::MAX / 2) {
        return Err("`threshold` must be from 1 B to 2 GiB; write for example \"12500 B\"");
    }
    if !(1..=MOST_STAGES).contains(&shape.stages) {
        return Err("`stages` must be from 1 to 16; write for example 3");
    }
    if !(1..=MOST_BUCKETS).contains(&shape.buckets) {
        return Err("`buckets` must be from 1 to 1048576; write for example 8");
    }
    Ok(())
}

impl Config {
    const fn shape(&self) -> Shape {
        Shape { stages: self.stages, buckets: self.buckets }
    }

    fn check(&self) -> Result<(), &'static str> {
        check_filter(self.interval, self.threshold, self.shape())?;
        self.tracker.clone().with(self.k, self.a).map(drop)
    }

    pub(super) fn build(&self, mut random: Random) -> Heuristic {
        let tracker = self.tracker.clone().with(self.k, self.a);
        let threshold = u32::try_from(self.threshold.0).unwrap_or(u32::MAX);
        Heuristic {
            tracker: tracker.unwrap_or_else(|_| self.tracker.clone()),
            span: self.interval,
            rounds: self.rounds,
            filter: Serial::new(self.shape(), threshold),
            seed: random.below(u64::MAX),
            memory: Memory::new(usize::MAX),
            began: Time::ZERO,
            interval: 1,
            arrived: 0,
            now: Accounts::default(),
            last: Accounts::default(),
            rho: Rho::ONE,
            walk: Walk::default(),
            tests: false,
            ours: false,
        }
    }
}

pub(super) struct Heuristic {
    tracker: TrackerSpec,
    span: Duration,
    rounds: Rounds,
    filter: Serial,
    seed: u64,
    memory: Memory,
    /// Start of the interval, and its number.
    began: Time,
    interval: u16,
    /// Bytes in the interval.
    arrived: u64,
    /// L_1, the flows that passed the filter in this interval.
    now: Accounts,
    /// L_0, those of the last.
    last: Accounts,
    rho: Rho,
    walk: Walk,
    /// The last packet that arrived has not been tested.
    tests: bool,
    /// The last packet that arrived is of a flow in L_0.
    ours: bool,
}

/// The lists that a flow is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Lists {
    now: bool,
    last: bool,
}

/// An entry's `interval` is the last in which its flow passed the filter; `flag`: it also passed in the one before.
/// `counted` is the interval of `bytes`.
const fn lists(entry: &Entry, interval: u16) -> Lists {
    match interval.wrapping_sub(entry.interval) {
        0 => Lists { now: true, last: entry.flag },
        1 => Lists { now: false, last: true },
        _ => Lists { now: false, last: false },
    }
}

impl Heuristic {
    /// Ends the intervals that are over.
    fn turn(&mut self, now: Time) {
        let (passed, span) = (now.since(self.began).as_nanos(), self.span.as_nanos());
        if passed < span {
            return;
        }
        let over = passed / span;
        std::mem::swap(&mut self.now, &mut self.last);
        self.now.clear();
        if over > 1 {
            self.last.clear();
        }
        self.memory.begin_again();
        self.rho = Rho::new(self.arrived, self.last.all.bytes);
        self.arrived = 0;
        self.interval =
            self.interval.wrapping_add(u16::try_from(over.min(1 << 15)).unwrap_or(u16::MAX));
        self.began += Duration::from_nanos(u64::try_from(over * span).unwrap_or(0));
        self.filter.clear();
    }

    /// Removes an entry that is in no list, if it is its turn.
    fn tidy(&mut self) {
        if let Some(entry) = self.memory.advance() {
            let Lists { now, last } = lists(self.memory.get(entry), self.interval);
            if !now && !last {
                self.memory.remove(entry);
            }
        }
    }

    /// Notes a packet of a flow that can be tracked; returns the entry and whether it is in L_0.
    fn track(&mut self, sighting: &Sighting<'_>, passes: bool) -> Option<(u32, bool)> {
        let known = self.memory.find(sighting.packet.flow).and_then(|entry| {
            let lists = lists(self.memory.get(entry), self.interval);
            if lists.now || lists.last {
                return Some((entry, lists));
            }
            self.memory.remove(entry);
            None
        });
        let (entry, lists) = match known {
            Some((entry, lists)) => {
                self.change(entry, sighting.now, |track| {
                    track.on_arrival(sighting);
                });
                (entry, lists)
            }
            None if passes => {
                let entry = self.memory.insert(&self.tracker, sighting)?;
                (entry, Lists { now: false, last: false })
            }
            None => return None,
        };
        self.count(entry, lists, sighting.packet.len);
        if passes && !lists.now {
            self.join(entry, lists, sighting.now);
        }
        Some((entry, lists.last))
    }

    /// Counts bytes of a flow in this interval.
    fn count(&mut self, entry: u32, lists: Lists, bytes: u32) {
        let [_, counted] = self.interval.to_be_bytes();
        let it = self.memory.get_mut(entry);
        if it.counted != counted {
            (it.counted, it.bytes) = (counted, 0);
        }
        it.bytes = it.bytes.saturating_add(bytes);
        if lists.now {
            self.now.all.bytes += u64::from(bytes);
        }
    }

    /// Puts a flow into L_1.
    fn join(&mut self, entry: u32, lists: Lists, now: Time) {
        let it = self.memory.get_mut(entry);
        (it.interval, it.flag) = (self.interval, lists.last);
        let (estimate, bytes) = (it.track.last_estimate(now), it.bytes);
        self.now.change(self.memory.class(entry), Part::default(), &estimate);
        self.now.all.bytes += u64::from(bytes);
    }

    /// Lets the tracker of an entry change, and the sums with it.
    fn change(&mut self, entry: u32, now: Time, how: impl FnOnce(&mut Track)) {
        let class = self.memory.class(entry);
        let it = self.memory.get_mut(entry);
        let before = it.track.last_estimate(now);
        how(&mut it.track);
        let after = it.track.last_estimate(now);
        let lists = lists(it, self.interval);
        let part = Part::of(&before);
        if lists.now {
            self.now.change(class, part, &after);
        }
        if lists.last {
            self.last.change(class, part, &after);
        }
        if !is_markable(&before) && is_markable(&after) {
            self.memory.may_be_chosen(entry);
        }
    }

    /// Notes the class of a flow.
    fn classify(&mut self, entry: u32, class: u16, now: Time) {
        let old = self.memory.set_class(entry, class);
        let it = self.memory.get(entry);
        let lists = lists(it, self.interval);
        let estimate = it.track.last_estimate(now);
        if lists.now {
            self.now.move_flow(old, class, &estimate);
        }
        if lists.last {
            self.last.move_flow(old, class, &estimate);
        }
    }
}

impl Marking for Heuristic {
    fn arrived(&mut self, seen: &Observed<'_>, packet: &Packet) {
        let Observed { now, direction, flow, backlog, .. } = *seen;
        self.turn(now);
        self.tidy();
        self.arrived += u64::from(packet.len);
        let passes = self.filter.passes(fingerprint(self.seed, packet), packet.len);
        (self.tests, self.ours) = (true, false);
        if is_trackable(packet) {
            let sighting = Sighting { now, packet, direction, flow };
            if let Some((entry, ours)) = self.track(&sighting, passes) {
                if self.memory.class(entry) != seen.class_number() {
                    self.classify(entry, seen.class_number(), now);
                }
                self.memory.queued(entry, packet, backlog == Bytes::ZERO);
                self.ours = ours;
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
        let (interval, seen) = (self.interval, (seen, packet.frame_len()));
        let others = Others { rho: self.rho, untracked: Rate::from_bps(0), rounds: self.rounds };
        let found = self.walk.next(&self.last, seen, &others, &mut self.memory, |entry| {
            lists(entry, interval).last && is_markable(&entry.track.last_estimate(seen.0.now))
        });
        if let Some(target) = found {
            return Decision::Mark(target);
        }
        if !self.walk.is_short || self.walk.found || self.ours {
            return Decision::Pass;
        }
        match last_resort(packet, self.ignores(packet.flow)) {
            Decision::MarkArrival => Decision::Pass,
            decision => decision,
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
        let Some(entry) = self.memory.find(flow) else { return };
        let (it, class) = (self.memory.get(entry), self.memory.class(entry));
        let lists = lists(it, self.interval);
        if lists.now {
            self.now.remove(class, &it.track, self.began);
        }
        if lists.last {
            self.last.remove(class, &it.track, self.began);
        }
        self.memory.remove(entry);
    }

    fn ignores(&self, flow: FlowId) -> bool {
        let entry = self.memory.find(flow).map(|entry| self.memory.get(entry));
        entry.is_some_and(|entry| entry.track.ignores())
    }

    fn longest_rtt(&self) -> Duration {
        self.now.all.longest_rtt.max(self.last.all.longest_rtt)
    }
}

#[cfg(test)]
mod tests;
