//! The projection of the marking `reference`: the future rounds of all flows, in 64 slots of time.
//!
//! The projection assumes that all packets of a round arrive together at its start. At the start of round `i`, the queue
//! then holds
//!
//! ```text
//! backlog now + bytes of all rounds that start until i - bytes that depart until i
//! ```
//!
//! The largest of these values must fit into the queue. A slot holds the sum of the rounds that
//! start in it, as if they all began at the start of the slot. So a change of one round takes one
//! step, and a test of all rounds takes 64 steps.
//!
//! Source: `marking`, section 2.2, equations (7) to (9) (the test for each round).
//! Differs: rounds count up to one slot too early. The error is at most the number of bytes that
//! depart within a slot.

use std::time::Duration;

use crate::packet::{make_room, slot};
use crate::time::nanos;
use crate::{Bytes, Rate, Time};

/// A future round of a flow: the packets of one window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FutureRound {
    /// Expected start of the round.
    pub(super) due: Time,
    /// Bytes of the round.
    pub(super) bytes: Bytes,
}

/// Rate at which the backlog shrinks between rounds: service rate minus untracked traffic. May be negative.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Net {
    /// Absolute value of the rate.
    rate: Rate,
    /// `true` if the backlog grows, because untracked traffic arrives faster than packets depart.
    grows: bool,
}

impl Net {
    /// Packets depart at the rate `out`, and untracked traffic arrives at the rate `untracked`.
    pub(super) const fn new(out: Rate, untracked: Rate) -> Self {
        let (out, untracked) = (out.bps(), untracked.bps());
        Self { rate: Rate::from_bps(out.abs_diff(untracked)), grows: untracked > out }
    }

    /// Bytes by which the backlog shrinks within `span`. Negative if the backlog grows.
    fn bytes(self, span: Duration) -> i64 {
        let bytes = signed(self.rate.bytes_in(span));
        if self.grows { -bytes } else { bytes }
    }
}

/// Number of slots.
///
/// With 64 slots, a slot is at most 1/32 of the longest round-trip time, because slot lengths are powers of two. The error
/// of the projection is then at most 1/32 of a buffer of one bandwidth-delay product.
const SLOTS: u32 = 64;

/// The future rounds of all flows, by round number, and their sums in slots of time.
pub(super) struct RoundSlots {
    /// Each round with its slot.
    placed: Vec<Option<Placed>>,
    /// Number of rounds in `placed`.
    count: usize,
    /// Sum of the rounds in each slot after the current one. Slot `n` is stored twice, at `n % SLOTS` and at
    /// `n % SLOTS + SLOTS`. So the next 64 slots are always contiguous in memory.
    slots: [i64; 2 * slot(SLOTS)],
    /// Sum of the rounds in the current slot and in earlier slots.
    late: i64,
    /// Number of the current slot.
    present: u64,
    /// A slot lasts `2^shift` nanoseconds. Slot `n` starts at `n << shift`.
    shift: u32,
    net: Net,
    /// Bytes by which the backlog shrinks in a slot.
    step: i64,
}

/// A round, and the number of its slot. A round that begins after the last slot is put into the last slot.
#[derive(Clone, Copy, Debug)]
struct Placed {
    round: FutureRound,
    slot: u64,
}

impl RoundSlots {
    pub(super) const fn new() -> Self {
        Self {
            placed: Vec::new(),
            count: 0,
            slots: [0; 2 * slot(SLOTS)],
            late: 0,
            present: 0,
            shift: 0,
            net: Net::new(Rate::from_bps(0), Rate::from_bps(0)),
            step: 0,
        }
    }

    /// Sets round `number`. `None` removes it.
    pub(super) fn set(&mut self, number: u32, round: Option<FutureRound>) {
        make_room(&mut self.placed, slot(number), None);
        let old = self.placed[slot(number)];
        if old.map(|old| old.round) == round {
            return;
        }
        if let Some(old) = old {
            self.add(old.slot, -signed(old.round.bytes));
            self.count -= 1;
        }
        let new = round.map(|round| self.place(round));
        self.count += usize::from(new.is_some());
        self.placed[slot(number)] = new;
    }

    /// Returns `true` if there is a round `number`.
    pub(super) fn has(&self, number: u32) -> bool {
        self.placed.get(slot(number)).is_some_and(Option::is_some)
    }

    /// Sets the rate at which the backlog shrinks between rounds.
    pub(super) fn set_net(&mut self, net: Net) {
        self.net = net;
        self.step = net.bytes(Duration::from_nanos(1 << self.shift));
    }

    /// Makes the slots longer if 64 of them do not cover the time `span` from `now` on.
    pub(super) fn reach(&mut self, now: Time, span: Duration) {
        let shift = shift_for(span);
        if shift > self.shift {
            self.resize(now, shift);
        }
    }

    /// Makes the slots as short as possible, if they still cover `span` and all rounds. The cost is proportional to
    /// the number of rounds.
    pub(super) fn shrink(&mut self, now: Time, span: Duration) {
        let latest = self.placed.iter().flatten().map(|placed| placed.round.due).max();
        let ahead = latest.map_or(Duration::ZERO, |latest| latest.since(now));
        let shift = shift_for(span.max(ahead));
        if shift != self.shift {
            self.resize(now, shift);
        }
    }

    /// Changes the length of the slots to `2^shift` ns, and assigns all rounds to the new slots.
    #[cold]
    fn resize(&mut self, now: Time, shift: u32) {
        (self.shift, self.present) = (shift, now.nanos() >> shift);
        (self.slots, self.late) = ([0; 2 * slot(SLOTS)], 0);
        self.set_net(self.net);
        for number in 0..self.placed.len() {
            self.placed[number] = self.placed[number].map(|old| self.place(old.round));
        }
    }

    /// Advances the current slot to `now`.
    pub(super) fn advance(&mut self, now: Time) {
        let present = now.nanos() >> self.shift;
        let passed = present.saturating_sub(self.present).min(u64::from(SLOTS));
        for number in self.present + 1..=self.present + passed {
            self.late += std::mem::take(&mut self.slots[index(number)]);
            self.slots[index(number) + slot(SLOTS)] = 0;
        }
        self.present = self.present.max(present);
    }

    /// Largest growth of the backlog from `now` to the start of any round, in bytes; at least zero.
    ///
    /// A round that should have begun already counts as if it began now. `None` if there are no rounds.
    pub(super) fn growth(&mut self, now: Time) -> Option<i64> {
        self.advance(now);
        if self.count == 0 {
            return None;
        }
        let next = Time::from_nanos((self.present + 1) << self.shift);
        let from = index(self.present + 1);
        let slots = &self.slots[from..from + slot(SLOTS)];
        let (mut growth, mut most) = (self.late - self.net.bytes(next.since(now)), self.late);
        // If the backlog grows between rounds too, it would be largest at the end of all slots. Only the starts of
        // rounds are tested, so the slots after the last round are left out.
        let slots = match slots.iter().rposition(|bytes| *bytes != 0) {
            Some(last) if self.net.grows => &slots[..=last],
            None => &[],
            _ => slots,
        };
        for bytes in slots {
            growth += bytes;
            most = most.max(growth);
            growth -= self.step;
        }
        Some(most)
    }

    /// Adds a round to the slot in which it starts.
    fn place(&mut self, round: FutureRound) -> Placed {
        let slot = (round.due.nanos() >> self.shift).min(self.present + u64::from(SLOTS));
        self.add(slot, signed(round.bytes));
        Placed { round, slot }
    }

    /// Adds `bytes` to the sum of slot `number`.
    fn add(&mut self, number: u64, bytes: i64) {
        if number <= self.present {
            self.late += bytes;
        } else {
            self.slots[index(number)] += bytes;
            self.slots[index(number) + slot(SLOTS)] += bytes;
        }
    }
}

/// The `shift` for the shortest slots of which 64 cover `span`.
fn shift_for(span: Duration) -> u32 {
    nanos(span).div_ceil(u64::from(SLOTS)).next_power_of_two().ilog2()
}

/// Index of slot `number` in [`RoundSlots::slots`].
fn index(number: u64) -> usize {
    slot(u32::try_from(number % u64::from(SLOTS)).unwrap_or(0))
}

/// Bytes as a signed number. Larger values are cut off, so that sums cannot overflow.
pub(super) fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The model for comparison: a map of all rounds, which tests each round at its exact start.
    #[derive(Default)]
    struct Model(BTreeMap<u32, FutureRound>);

    impl Model {
        fn growth(&self, now: Time, net: Net) -> Option<i64> {
            let terms = self.0.values().map(|round| {
                let until = round.due.max(now);
                let begun = self.0.values().filter(|other| other.due.max(now) <= until);
                let sum: i64 = begun.map(|other| signed(other.bytes)).sum();
                sum - net.bytes(until.since(now))
            });
            terms.max().map(|most| most.max(0))
        }
    }

    /// A change of the test: the number of a round; its start in microseconds from now and its bytes, or `None` to
    /// remove it; and the microseconds until the next change.
    type Change = (u32, Option<(u64, u64)>, u64);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let round = proptest::option::weighted(0.8, (0..SPAN, 1u64..9_000));
        prop::collection::vec((0u32..40, round, prop_oneof![Just(0), 0..SPAN / 10]), 1..200)
    }

    /// The longest round-trip time in microseconds.
    const SPAN: u64 = 200_000;

    proptest! {
        /// The result may differ from the model by the bytes that depart in one slot, and by one byte per slot.
        ///
        /// Catches: rounds that stay in a slot that has passed; a late round that is not counted.
        /// Catches: old bytes of a changed round that stay in the sum; slots that do not cover all rounds, or are
        /// more than twice as long as necessary.
        /// Catches: a backlog that seems to shrink although untracked traffic exceeds the service
        /// rate; a projection that counts growth after the last round.
        #[test]
        fn the_slots_agree_with_a_search_of_all_rounds(
            changes in changes(), spans in (0..SPAN, 0..SPAN), out in 0u64..40, untracked in 0u64..40,
        ) {
            let (out, untracked) = (Rate::from_mbps(out), Rate::from_mbps(untracked));
            let (mut net, mut now) = (Net::new(out, untracked), Time::from_millis(1));
            let (mut rounds, mut model) = (RoundSlots::new(), Model::default());
            // Set another horizon first, so that the slots have another length before the test.
            for micros in [spans.0, spans.1, SPAN] {
                rounds.set(99, Some(FutureRound { due: now, bytes: Bytes(micros) }));
                rounds.reach(now, Duration::from_micros(micros));
            }
            rounds.set(99, None);
            rounds.set_net(net);
            let half = changes.len() / 2;
            for (n, (flow, round, pause)) in changes.into_iter().enumerate() {
                let round = round.map(|(ahead, bytes)| {
                    FutureRound { due: now + Duration::from_micros(ahead), bytes: Bytes(bytes) }
                });
                rounds.reach(now, Duration::from_micros(SPAN));
                rounds.advance(now);
                rounds.set(flow, round);
                model.0.remove(&flow);
                model.0.extend(round.map(|round| (flow, round)));
                if n == half {
                    net = Net::new(untracked, out);
                    rounds.set_net(net);
                }
                now += Duration::from_micros(pause);
                if n % 16 == 0 {
                    rounds.shrink(now, Duration::from_micros(spans.0));
                }
                prop_assert_eq!(rounds.has(flow), round.is_some());
                let (found, exact) = (rounds.growth(now), model.growth(now, net));
                prop_assert_eq!(found.is_some(), exact.is_some());
                let more = found.unwrap_or(0) - exact.unwrap_or(0);
                let more = if net.grows { -more } else { more };
                let slot = Duration::from_micros(SPAN) / (SLOTS / 2);
                let most = net.bytes(slot).abs() + i64::from(SLOTS);
                prop_assert!((0..=most).contains(&more), "{found:?} for {exact:?}");
            }
        }
    }

    /// Catches: a round beyond the last slot that counts in an earlier slot; slots that cover too short a time.
    #[test]
    fn a_round_beyond_the_last_slot_counts_in_the_last_slot() {
        let mut rounds = RoundSlots::new();
        let (now, ms) = (Time::from_millis(900), Duration::from_millis);
        rounds.reach(now, ms(64));
        rounds.set_net(Net::new(Rate::from_mbps(8), Rate::from_bps(0)));
        let round = |ahead| Some(FutureRound { due: now + ms(ahead), bytes: Bytes(100_000) });
        // 8 Mbit/s are 1,000 bytes each millisecond.
        for (ahead, least) in [(40, 58_000), (1_000, 30_000), (9_000, 30_000)] {
            rounds.set(3, round(ahead));
            let growth = rounds.growth(now).unwrap();
            assert!((least..=least + 6_000).contains(&growth), "{ahead} ms ahead: {growth}");
        }
    }
}
