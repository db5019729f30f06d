//! What guarantees leave, shared by priority and weight in constant time.
//!
//! Each class has a start: how much it has had, divided by its weight. The class with the least goes
//! next. One that comes back begins where the others are, so that it has no claim on what was shared
//! without it. Two classes that both wait differ by no more than a packet each, divided by their
//! weights.
//!
//! Source: SIGCOMM 1996, start-time fair queueing. Differs: starts are sorted into slots, one row
//! of them for all weights between two powers of two, as in quick fair queueing (doi
//! 10.1109/TNET.2012.2215881): a slot is 1 KiB divided by that weight, and classes within one slot
//! go in the order in which they came. So the next is found without looking at the others.

use super::Terms;
use crate::Bytes;
use crate::packet::{First, Links, Member, slot};

/// The claim of one class on the excess of its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Bytes divided by weight, in parts of [`UNIT`].
    start: u128,
    weight: u32,
    priority: u8,
    /// The slot it is in.
    slot: u8,
}

/// What a byte of a class of weight 1 counts; 128 bits of it do not overflow.
const UNIT: u128 = 1 << 32;

impl Claim {
    pub(super) fn new(priority: u8, weight: u32) -> Self {
        let (weight, priority) = (weight.max(1), priority.min(Terms::MAX_PRIORITY));
        Self { start: 0, weight, priority, slot: 0 }
    }

    /// Changes what it counts for; it must not be among those that share.
    pub(super) fn set(&mut self, priority: u8, weight: u32) {
        let new = Self::new(priority, weight);
        let start = if new.priority == self.priority { self.start } else { 0 };
        *self = Self { start, ..new };
    }

    pub(super) const fn weight(&self) -> u32 {
        self.weight
    }

    pub(super) const fn priority(&self) -> u8 {
        self.priority
    }

    /// It has had `len`.
    pub(super) fn charge(&mut self, len: Bytes) {
        self.start += u128::from(len.0) * UNIT / u128::from(self.weight);
    }
}

/// Those that share, by priority.
#[derive(Debug, Default)]
pub(super) struct Excess {
    bands: Vec<Band>,
    /// Which bands have somebody in them.
    busy: u8,
}

/// Those of one priority.
#[derive(Debug, Default)]
struct Band {
    /// Nobody's start lies before the slot of this.
    reached: u128,
    rows: Vec<Row>,
}

/// Those of one priority whose weights have the same highest bit.
#[derive(Debug)]
struct Row {
    /// That bit.
    bit: u32,
    /// Which slots have somebody in them.
    busy: u64,
    slots: [First; SLOTS],
}

const SLOTS: usize = 64;

impl Excess {
    /// Lets `member` share from now on.
    pub(super) fn join(&mut self, links: &mut Links, member: Member, claim: &mut Claim) {
        let priority = usize::from(claim.priority);
        if self.bands.len() <= priority {
            self.bands.resize_with(priority + 1, Band::default);
        }
        self.busy |= 1 << claim.priority;
        self.bands[priority].join(links, member, claim);
    }

    /// Takes `member` out.
    pub(super) fn leave(&mut self, links: &mut Links, member: Member, claim: &Claim) {
        let band = &mut self.bands[usize::from(claim.priority)];
        if band.leave(links, member, claim) {
            self.busy &= !(1 << claim.priority);
        }
    }

    /// Whose turn it is.
    pub(super) fn first(&mut self) -> Option<Member> {
        let band = self.busy.checked_ilog2()?;
        self.bands[slot(band)].first()
    }
}

impl Band {
    fn join(&mut self, links: &mut Links, member: Member, claim: &mut Claim) {
        claim.start = claim.start.max(self.reached);
        let bit = claim.weight.ilog2();
        let reached = self.reached >> width(bit);
        let ahead = (claim.start >> width(bit)) - reached;
        // Only a packet beyond 64 KiB gets so far ahead.
        let ahead = u8::try_from(ahead).unwrap_or(u8::MAX).min(LAST);
        claim.slot = (low_bits(reached) + ahead) & LAST;
        let row = match self.rows.iter().position(|row| row.bit == bit) {
            Some(at) => &mut self.rows[at],
            None => self.rows.push_mut(Row { bit, busy: 0, slots: [First::NOBODY; SLOTS] }),
        };
        row.busy |= 1 << claim.slot;
        links.push(&mut row.slots[usize::from(claim.slot)], member);
    }

    /// Takes `member` out; says whether nobody is left.
    fn leave(&mut self, links: &mut Links, member: Member, claim: &Claim) -> bool {
        let bit = claim.weight.ilog2();
        let Some(row) = self.rows.iter_mut().find(|row| row.bit == bit) else { return false };
        let first = &mut row.slots[usize::from(claim.slot)];
        links.remove(first, member);
        if first.member().is_none() {
            row.busy &= !(1 << claim.slot);
        }
        self.rows.iter().all(|row| row.busy == 0)
    }

    fn first(&mut self) -> Option<Member> {
        let reached = self.reached;
        let busy = self.rows.iter().filter(|row| row.busy != 0);
        let (start, first) = busy.map(|row| row.first(reached)).min_by_key(|(start, _)| *start)?;
        self.reached = reached.max(start);
        first.member()
    }
}

impl Row {
    /// Where its first slot that has somebody in it begins, and whose turn it is there.
    fn first(&self, reached: u128) -> (u128, First) {
        let reached = reached >> width(self.bit);
        let ahead = self.busy.rotate_right(low_bits(reached).into()).trailing_zeros();
        let at = reached + u128::from(ahead);
        (at << width(self.bit), self.slots[usize::from(low_bits(at))])
    }
}

/// Binary digits of what a slot is wide: 1 KiB, divided by the least weight of the row.
const fn width(bit: u32) -> u32 {
    (32 + 10) - bit
}

/// The slot that a place in the endless row of them is in.
fn low_bits(at: u128) -> u8 {
    at.to_le_bytes()[0] & LAST
}

const LAST: u8 = 63;
