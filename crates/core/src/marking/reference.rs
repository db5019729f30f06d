//! The marking `reference`: every flow has a tracker, and the projection includes the rounds of every flow.
//!
//! The next round of a flow is one segment larger than the present round, or half as large after a mark. The marking
//! projects the backlog at the start of each of these rounds. If it would exceed the limit of the queue, the flow with
//! projects the backlog at the start of each of these rounds. If this backlog would exceed the limit of the
//! queue, the flow with
//! marked.
//!
//! Source: `marking`, section 2.2, equations (5) to (10) (next window, projection, selection).
//! Differs:
//! - The projection looks ahead for the longest round-trip time. In this time, a flow with a short round trip may have
//!   several rounds, each a segment larger than the previous. The paper counts only the first (`rounds = 1`).
//! - The next round of a marked flow has at least one segment.
//! - Traffic without a tracker arrives at its rate of the last interval.
//! - A flow is removed from the projection two round trips after the start of its round, if it has
//!   sent nothing since.
//! - The projection is tested only if the arriving packet changed the next round of its flow, or has no tracker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::largest::Largest;
use super::rounds::{FutureRound, Net, RoundSlots, signed};
use super::tracker::{Estimate, Sighting, Track, TrackerSpec};
use super::{Decision, Marking, Observed, Outcome, Target, Tracked, acknowledges, last_resort};
use crate::packet::{FlowId, Ring, TcpFlags, make_room, number, slot};
use crate::parameters::more_than;
use crate::random::Random;
use crate::time::nanos;
use crate::{Bytes, Factor, Packet, Rate, Time, parameters};

parameters! {
    /// Tracker and horizon.
    pub Config, checked {
        /// Estimator of the window and the round trips of a flow.
        tracker: TrackerSpec = TrackerSpec::default();
        /// Parameter of the tracker: a gap of more than `RTT / k` between packets ends a round. The tracker
        /// `two-way` uses it only until it has seen an ACK. Default: 10.
        k: Option<u32> = None, in 1.., "write 10 for gaps of a tenth of a round trip";
        /// Parameter of the tracker: weight of the old round-trip time against a new sample. Default: 0.9.
        a: Option<Factor> = None, in Factor::ZERO..=Factor::ONE, "write 0.9 to give a new sample a tenth";
        // The default comes from the paper's first experiment (seeds 1 to 5, 20 s). With one round,
        // 1.4 % of the packets are lost with the tracker `paper`, and 0.1 % with `two-way`. With
        // four rounds, none are lost.
        /// Most rounds of a flow that are projected, up to the longest round-trip time. The paper projects 1.
        rounds: u32 = 4, in 1..=MOST_ROUNDS, "write 1 for the projection of the paper";
        /// Time over which the rate of untracked traffic is measured.
        interval: Duration = Duration::from_secs(1), in more_than(Duration::ZERO);
    }
}

impl Config {
    fn check(&self) -> Result<(), &'static str> {
        self.tracker.clone().with(self.k, self.a).map(drop)
    }

    pub(super) fn build(&self, _: Random) -> Reference {
        let tracker = self.tracker.clone().with(self.k, self.a);
        Reference {
            tracker: tracker.unwrap_or_else(|_| self.tracker.clone()),
            interval: self.interval,
            rounds_each: self.rounds,
            entries: Vec::new(),
            entry_of: Vec::new(),
            idle: Ring::default(),
            rounds: RoundSlots::new(),
            largest: Largest::new(),
            expiries: BinaryHeap::new(),
            untracked: Untracked::default(),
            arriving: Rate::from_bps(0),
            out: Rate::from_bps(0),
            longest_rtt: Duration::ZERO,
            longest_now: Duration::ZERO,
            tests: false,
            ours: false,
        }
    }
}

/// Most rounds of a flow in the projection. Eight are enough for flows with 25 and 200 ms on one link.
const MOST_ROUNDS: u32 = 8;

/// Most flows with a tracker. Packets of further flows count as untracked traffic.
const MOST_FLOWS: usize = 1_000;

/// The marking `reference`.
pub(super) struct Reference {
    tracker: TrackerSpec,
    /// Interval over which the rate of untracked traffic is measured.
    interval: Duration,
    /// Number of rounds in the projection for each flow.
    rounds_each: u32,
    entries: Vec<ProjectedFlow>,
    /// Entry number of each flow, or [`NONE`].
    entry_of: Vec<u32>,
    /// Entries of flows that are not in the projection. The flow that has been idle for longest is first.
    idle: Ring<u32>,
    /// Future rounds of the flows. Entry `n` owns `rounds_each` of them from number `n * rounds_each` on, the earliest
    /// first.
    rounds: RoundSlots,
    /// Windows of the flows in the projection that may be marked, by entry.
    largest: Largest,
    /// For each flow with a timer: a time to check whether the flow must be removed from the
    /// projection, and its entry. The time is at or before [`ProjectedFlow::expires`].
    expiries: BinaryHeap<Reverse<(Time, u32)>>,
    /// Measurement of untracked traffic in the present interval.
    untracked: Untracked,
    /// Rate of untracked traffic in the last interval.
    arriving: Rate,
    /// Service rate that the projection assumes.
    out: Rate,
    /// Longest round-trip time of flows that changed their rounds in this interval or the last.
    longest_rtt: Duration,
    /// Longest round-trip time of flows that changed their rounds in this interval.
    longest_now: Duration,
    /// The last packet that arrived may have changed the projection, so `decide` must test it.
    tests: bool,
    /// The flow of the last packet that arrived is in the projection.
    ours: bool,
}

/// Value in [`Reference::entry_of`] for a flow without an entry.
const NONE: u32 = u32::MAX;

/// A flow with a tracker.
#[derive(Clone, Copy)]
struct ProjectedFlow {
    target: Target,
    track: Track,
    /// Time at which the flow is removed from the projection if it sends nothing.
    expires: Time,
    /// The flow is in [`Reference::expiries`].
    is_timed: bool,
    /// No packet of the flow waits that may be marked.
    is_empty: bool,
}

/// Measurement of the rate of traffic without trackers.
#[derive(Default)]
struct Untracked {
    /// Start of the interval.
    since: Time,
    /// Bytes in the interval.
    bytes: Bytes,
}

impl Untracked {
    /// Ends the interval, and begins the next. Returns the rate in the ended interval.
    fn rate(&mut self, now: Time) -> Rate {
        let span = now.since(self.since).as_nanos().max(1);
        let bytes = std::mem::replace(&mut self.bytes, Bytes::ZERO).0;
        self.since = now;
        let bps = u128::from(bytes) * 8_000_000_000 / span;
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }
}

impl Reference {
    /// Updates the service rate and the rate of untracked traffic in the projection.
    fn keep_rates(&mut self, seen: &Observed<'_>) {
        let ended = seen.now.since(self.untracked.since) >= self.interval;
        if ended {
            self.longest_rtt = std::mem::take(&mut self.longest_now);
            self.rounds.shrink(seen.now, self.longest_rtt);
        }
        if ended || seen.rate != self.out {
            let untracked = if ended { self.untracked.rate(seen.now) } else { self.arriving };
            (self.out, self.arriving) = (seen.rate, untracked);
            self.rounds.set_net(Net::new(seen.rate, untracked));
        }
    }

    /// Removes idle flows from the projection.
    fn expire(&mut self, now: Time) {
        while let Some(Reverse((at, entry))) = self.expiries.peek().copied()
            && at <= now
        {
            self.expiries.pop();
            let it = &mut self.entries[slot(entry)];
            if it.expires > now {
                self.expiries.push(Reverse((it.expires, entry)));
                continue;
            }
            it.is_timed = false;
            if self.is_projected(entry) {
                self.retire(entry);
            }
        }
    }

    /// Passes a packet to the tracker of its flow, and updates the projection. Returns `true` if
    /// the flow is in the projection.
    fn track(&mut self, seen: &Observed<'_>, packet: &Packet) -> bool {
        let Some(tcp) = packet.tcp else { return false };
        let counts = tcp.payload > 0 || tcp.flags.any(TcpFlags::SYN);
        if packet.flow == FlowId::NONE || !counts {
            return false;
        }
        let Observed { now, direction, flow, .. } = *seen;
        let sighting = Sighting { now, packet, direction, flow };
        let (entry, mut changed) = match self.entry(packet.flow) {
            Some(entry) => (entry, self.entries[slot(entry)].track.on_arrival(&sighting)),
            None => {
                let target = Target { flow: packet.flow, queue_index: packet.queue_index };
                let Some(entry) = self.begin(target, &sighting) else { return false };
                (entry, true)
            }
        };
        let it = &mut self.entries[slot(entry)];
        it.target.queue_index = packet.queue_index;
        changed |= std::mem::replace(&mut it.is_empty, false);
        let estimate = it.track.estimate(now);
        if !estimate.responds {
            self.retire(entry);
            return false;
        }
        self.tests = changed || !self.is_projected(entry);
        if self.tests {
            self.schedule(now, entry, &estimate);
        }
        true
    }

    /// Entry number of `flow`. `None` if the flow has no tracker.
    fn entry(&self, flow: FlowId) -> Option<u32> {
        self.entry_of.get(slot(flow.0)).copied().filter(|entry| *entry != NONE)
    }

    /// Creates an entry for a new flow. If all entries are in use, the flow takes the entry of the flow that has been idle
    /// for longest. Returns `None` if no flow is idle.
    fn begin(&mut self, target: Target, first: &Sighting<'_>) -> Option<u32> {
        let entry = if self.entries.len() < MOST_FLOWS {
            number(self.entries.len())
        } else {
            self.idle.first()?
        };
        self.idle.remove(entry);
        let is_timed = self.entries.get(slot(entry)).is_some_and(|old| old.is_timed);
        if let Some(old) =
            self.entries.get(slot(entry)).filter(|old| old.target.flow != FlowId::NONE)
        {
            self.entry_of[slot(old.target.flow.0)] = NONE;
        }
        let new = ProjectedFlow {
            target,
            track: Track::new(&self.tracker, first),
            expires: first.now,
            is_timed,
            is_empty: false,
        };
        make_room(&mut self.entries, slot(entry), new);
        self.entries[slot(entry)] = new;
        make_room(&mut self.entry_of, slot(target.flow.0), NONE);
        self.entry_of[slot(target.flow.0)] = entry;
        Some(entry)
    }

    /// Computes the future rounds of a flow from `estimate`, and puts them into the projection.
    fn schedule(&mut self, now: Time, entry: u32, estimate: &Estimate) {
        let it = &mut self.entries[slot(entry)];
        let window = if estimate.marked || it.is_empty { Bytes::ZERO } else { estimate.window };
        let due = estimate.next_round();
        let bytes = estimate.next_window().max(estimate.growth);
        it.expires = (due + estimate.rtt).max(now + Duration::from_nanos(1));
        self.idle.remove(entry);
        self.longest_now = self.longest_now.max(estimate.rtt);
        if estimate.rtt > self.longest_rtt {
            self.longest_rtt = estimate.rtt;
            self.rounds.reach(now, estimate.rtt);
        }
        self.rounds.advance(now);
        self.largest.set(entry, u32::try_from(window.0).unwrap_or(u32::MAX));
        let (number, horizon) = (entry * self.rounds_each, now + self.longest_rtt);
        self.rounds.set(number, Some(FutureRound { due, bytes }));
        let rtt = nanos(estimate.rtt);
        let mut round = FutureRound { due, bytes };
        for later in 1..self.rounds_each {
            round.due = Time::from_nanos(round.due.nanos() + rtt);
            round.bytes += estimate.growth;
            self.rounds.set(number + later, (round.due <= horizon).then_some(round));
        }
        let it = &mut self.entries[slot(entry)];
        if !it.is_timed {
            it.is_timed = true;
            self.expiries.push(Reverse((it.expires, entry)));
        }
    }

    fn is_projected(&self, entry: u32) -> bool {
        self.rounds.has(entry * self.rounds_each)
    }

    /// Removes the rounds of a flow from the projection.
    fn retire(&mut self, entry: u32) {
        let number = entry * self.rounds_each;
        (number..number + self.rounds_each).for_each(|round| self.rounds.set(round, None));
        self.largest.set(entry, 0);
        self.idle.push(entry);
    }
}

impl Marking for Reference {
    fn arrived(&mut self, seen: &Observed<'_>, packet: &Packet) -> bool {
        self.keep_rates(seen);
        self.expire(seen.now);
        self.tests = true;
        self.ours = self.track(seen, packet);
        if !self.ours {
            self.untracked.bytes += packet.frame_len();
        }
        self.ours
    }

    fn departed(&mut self, _: &Packet) {}

    fn acknowledged(&mut self, seen: &Observed<'_>, ack: &Packet) {
        let Some(entry) = self.entry(ack.flow) else { return };
        let track = &mut self.entries[slot(entry)].track;
        let changed = track.on_ack(&acknowledges(seen, ack));
        let estimate = track.estimate(seen.now);
        if changed && self.is_projected(entry) {
            self.schedule(seen.now, entry, &estimate);
        }
    }

    fn decide(&mut self, seen: &Observed<'_>, packet: &Packet) -> Decision {
        if !self.tests {
            return Decision::Pass;
        }
        let room = signed(seen.limit + seen.tokens) - signed(seen.backlog);
        if self.rounds.growth(seen.now).is_none_or(|growth| growth <= room) {
            self.tests = false;
            return Decision::Pass;
        }
        match self.largest.flow() {
            Some(entry) => Decision::Mark(self.entries[slot(entry)].target),
            None if self.ours => Decision::Pass,
            None => last_resort(packet, self.ignores(packet.flow)),
        }
    }

    fn done(&mut self, now: Time, target: Target, outcome: Outcome) {
        let Some(entry) = self.entry(target.flow) else { return };
        let it = &mut self.entries[slot(entry)];
        match outcome {
            Outcome::Marked => it.track.on_mark(now),
            Outcome::Dropped => it.track.on_drop(now),
            Outcome::NoPacket => it.is_empty = true,
        }
        let estimate = it.track.estimate(now);
        self.schedule(now, entry, &estimate);
    }

    fn forget(&mut self, flow: FlowId) {
        let Some(entry) = self.entry(flow) else { return };
        self.entry_of[slot(flow.0)] = NONE;
        self.entries[slot(entry)].target.flow = FlowId::NONE;
        self.retire(entry);
    }

    fn ignores(&self, flow: FlowId) -> bool {
        self.entry(flow).is_some_and(|entry| self.entries[slot(entry)].track.ignores())
    }

    fn longest_rtt(&self) -> Duration {
        self.longest_rtt
    }

    fn tracks(&self, flow: FlowId) -> bool {
        self.entry(flow).is_some_and(|entry| self.is_projected(entry))
    }

    fn tracked(&self) -> Tracked {
        let flows = (0..number(self.entries.len())).filter(|entry| self.is_projected(*entry));
        Tracked { flows: flows.map(|_| 1).sum(), rho: 1.0, ..Tracked::default() }
    }
}
