//! The next rounds of the tracked flows, in slots of time.
//!
//! The projection takes the packets of a round as a batch at its start. A queue of backlog `q`
//! needs `q + sum of the rounds up to i - service until i` bytes at the start of round `i`. A slot
//! holds the sum of the rounds that start in it, counted at the start of the slot. A change takes
//! one step, and a test one step per slot, for any number of flows.
//!
//! Source: `marking`, section 2.2, equations (7) to (9).
//! Differs: the service within a part of a slot is left out, so the projection exceeds the paper's
//! by at most that.

use std::time::Duration;

use crate::packet::{make_room, slot};
use crate::time::nanos;
use crate::{Bytes, Rate, Time};

/// A future round of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FutureRound {
    /// Its start.
    pub(super) due: Time,
    /// Its bytes.
    pub(super) bytes: Bytes,
}

/// Rate at which the backlog shrinks or grows between rounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Net {
    rate: Rate,
    /// Untracked traffic arrives faster than packets depart.
    grows: bool,
}

impl Net {
    /// Service at `out`, and untracked traffic that arrives at `untracked`.
    pub(super) const fn new(out: Rate, untracked: Rate) -> Self {
        let (out, untracked) = (out.bps(), untracked.bps());
        Self { rate: Rate::from_bps(out.abs_diff(untracked)), grows: untracked > out }
    }

    /// Net bytes by which the backlog shrinks within `span`; negative if it grows.
    fn bytes(self, span: Duration) -> i64 {
        let bytes = signed(self.rate.bytes_in(span));
        if self.grows { -bytes } else { bytes }
    }
}

/// Number of slots.
///
/// A slot is at most 1/32 of the longest round-trip time. The service of a slot is then at most
/// 1/32 of a buffer of one bandwidth-delay product. The power of two avoids divisions.
const SLOTS: u32 = 64;

/// The rounds of flows, by round number.
pub(super) struct RoundSlots {
    placed: Vec<Option<Placed>>,
    /// Number of rounds.
    count: usize,
    /// Bytes of the rounds in each slot after the current one. Slot `n` is stored at `n % SLOTS`,
    /// and again `SLOTS` later, so all slots follow in order from any slot on.
    slots: [i64; 2 * slot(SLOTS)],
    /// Bytes of the rounds in the current slot and earlier slots.
    late: i64,
    /// Number of the current slot.
    present: u64,
    /// A slot lasts `2^shift` nanoseconds. Slot `n` starts at `n << shift`.
    shift: u32,
    net: Net,
    /// Net service in a slot.
    step: i64,
}

/// A round and its slot. A round beyond the horizon is in the slot that was last at the time of its
/// change.
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

    /// Replaces round `number`; `None` removes it.
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

    /// Sets the net service rate.
    pub(super) fn set_net(&mut self, net: Net) {
        self.net = net;
        self.step = net.bytes(Duration::from_nanos(1 << self.shift));
    }

    /// Lengthens the slots, if necessary, to cover `span` from `now`.
    pub(super) fn reach(&mut self, now: Time, span: Duration) {
        let shift = shift_for(span);
        if shift > self.shift {
            self.resize(now, shift);
        }
    }

    /// Shortens the slots as far as they still cover `span` and all rounds. The cost is
    /// proportional to the number of rounds.
    pub(super) fn shrink(&mut self, now: Time, span: Duration) {
        let latest = self.placed.iter().flatten().map(|placed| placed.round.due).max();
        let ahead = latest.map_or(Duration::ZERO, |latest| latest.since(now));
        let shift = shift_for(span.max(ahead));
        if shift != self.shift {
            self.resize(now, shift);
        }
    }

    /// Changes the length of the slots and places all rounds again. The length changes at least by
    /// a factor of two.
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

    /// Largest growth of the backlog from `now` to the start of a round, in bytes. A round that is
    /// late counts as if it began now. The result is at least zero, the growth at `now`. `None`
    /// without rounds.
    pub(super) fn growth(&mut self, now: Time) -> Option<i64> {
        self.advance(now);
        if self.count == 0 {
            return None;
        }
        let next = Time::from_nanos((self.present + 1) << self.shift);
        let from = index(self.present + 1);
        let slots = &self.slots[from..from + slot(SLOTS)];
        let (mut growth, mut most) = (self.late - self.net.bytes(next.since(now)), self.late);
        // If the backlog grows between rounds, the start of the last round is the last time to
        // test.
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

    /// Adds a round to its slot.
    fn place(&mut self, round: FutureRound) -> Placed {
        let slot = (round.due.nanos() >> self.shift).min(self.present + u64::from(SLOTS));
        self.add(slot, signed(round.bytes));
        Placed { round, slot }
    }

    /// Adds to the bytes of slot `number`.
    fn add(&mut self, number: u64, bytes: i64) {
        if number <= self.present {
            self.late += bytes;
        } else {
            self.slots[index(number)] += bytes;
            self.slots[index(number) + slot(SLOTS)] += bytes;
        }
    }
}

/// The `shift` of the shortest slots that cover `span`.
fn shift_for(span: Duration) -> u32 {
    nanos(span).div_ceil(u64::from(SLOTS)).next_power_of_two().ilog2()
}

/// Index of slot `number`.
fn index(number: u64) -> usize {
    slot(u32::try_from(number % u64::from(SLOTS)).unwrap_or(0))
}

/// Bytes as a signed number, limited to avoid overflows.
pub(super) fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The model: all rounds in a list, searched in order, each at its own start.
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

    /// Number of a round, then its start in microseconds from now and its bytes, or `None`; then
    /// microseconds until the next change.
    type Change = (u32, Option<(u64, u64)>, u64);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let round = proptest::option::weighted(0.8, (0..SPAN, 1u64..9_000));
        prop::collection::vec((0u32..40, round, prop_oneof![Just(0), 0..SPAN / 10]), 1..200)
    }

    /// The longest round-trip time in microseconds.
    const SPAN: u64 = 200_000;

    proptest! {
        /// The slots may differ from the model by the service of one slot, and by one byte per slot.
        ///
        /// Catches: rounds that stay in a slot that has passed; a late round left out, or served too early.
        /// Catches: the old bytes of a round that changes; slots that do not cover all rounds, or are longer
        /// than twice that.
        /// Catches: growth where untracked traffic exceeds the rate; tests in slots without rounds.
        #[test]
        fn the_slots_know_what_a_search_of_all_rounds_finds(
            changes in changes(), spans in (0..SPAN, 0..SPAN), out in 0u64..40, untracked in 0u64..40,
        ) {
            let (out, untracked) = (Rate::from_mbps(out), Rate::from_mbps(untracked));
            let (mut net, mut now) = (Net::new(out, untracked), Time::from_millis(1));
            let (mut rounds, mut model) = (RoundSlots::new(), Model::default());
            // Another horizon first: its slots have another length.
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

    /// Catches: a round beyond the last slot in the slot of an earlier time; a horizon of another
    /// length.
    #[test]
    fn a_round_beyond_the_horizon_counts_at_its_end() {
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
