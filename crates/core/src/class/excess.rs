//! The excess of a class, shared by priority and weight in constant time.
//!
//! Each child has a start: its bytes so far, divided by its weight. The child with the least start
//! sends next. A child that returns starts at the current minimum, so it has no claim on the past.
//! Two children that both wait differ by at most one packet each, divided by their weights.
//!
//! Source: SIGCOMM 1996, start-time fair queueing.
//! Differs: starts are sorted into slots, with one row of slots for all weights between two powers
//! of two. Quick fair queueing does the same (doi 10.1109/TNET.2012.2215881). A slot is 1 KiB
//! divided by that weight, and children within a slot go in the order of arrival.

use super::Terms;
use crate::Bytes;
use crate::packet::{First, Links, Member, slot};

/// Claim of a class on its parent's excess.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Bytes divided by weight, in parts of [`UNIT`].
    start: u128,
    weight: u32,
    priority: u8,
    /// The slot that holds the class.
    slot: u8,
}

/// Value of a byte for a class of weight 1; sums of 128 bits do not overflow.
const UNIT: u128 = 1 << 32;

impl Claim {
    pub(super) fn new(priority: u8, weight: u32) -> Self {
        let (weight, priority) = (weight.max(1), priority.min(Terms::MAX_PRIORITY));
        Self { start: 0, weight, priority, slot: 0 }
    }

    /// Changes priority and weight. The class must not be a member at this time.
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

    /// Charges `len`.
    pub(super) fn charge(&mut self, len: Bytes) {
        self.start += u128::from(len.0) * UNIT / u128::from(self.weight);
    }
}

/// The backlogged children, by priority.
#[derive(Debug, Default)]
pub(super) struct Excess {
    bands: Vec<Band>,
    /// Bits of the bands that have members.
    busy: u8,
}

/// The backlogged children of one priority.
#[derive(Debug, Default)]
struct Band {
    /// No start lies before the slot of this value.
    reached: u128,
    rows: Vec<Row>,
}

/// The backlogged children of one priority whose weights have the same highest bit.
#[derive(Debug)]
struct Row {
    /// The highest bit of the weights.
    bit: u32,
    /// Bits of the slots that have members.
    busy: u64,
    slots: [First; SLOTS],
}

const SLOTS: usize = 64;

impl Excess {
    /// Adds `member`.
    pub(super) fn join(&mut self, links: &mut Links, member: Member, claim: &mut Claim) {
        let priority = usize::from(claim.priority);
        if self.bands.len() <= priority {
            self.bands.resize_with(priority + 1, Band::default);
        }
        self.busy |= 1 << claim.priority;
        self.bands[priority].join(links, member, claim);
    }

    /// Removes `member`.
    pub(super) fn leave(&mut self, links: &mut Links, member: Member, claim: &Claim) {
        let band = &mut self.bands[usize::from(claim.priority)];
        if band.leave(links, member, claim) {
            self.busy &= !(1 << claim.priority);
        }
    }

    /// The child whose turn it is.
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
        // Only a packet beyond 64 KiB gets this far ahead.
        let ahead = u8::try_from(ahead).unwrap_or(u8::MAX).min(LAST);
        claim.slot = (low_bits(reached) + ahead) & LAST;
        let row = match self.rows.iter().position(|row| row.bit == bit) {
            Some(at) => &mut self.rows[at],
            None => self.rows.push_mut(Row { bit, busy: 0, slots: [First::NOBODY; SLOTS] }),
        };
        row.busy |= 1 << claim.slot;
        links.push(&mut row.slots[usize::from(claim.slot)], member);
    }

    /// Removes `member`. Returns true if no member is left.
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
    /// Beginning of the first slot with members, and its first member.
    fn first(&self, reached: u128) -> (u128, First) {
        let reached = reached >> width(self.bit);
        let ahead = self.busy.rotate_right(low_bits(reached).into()).trailing_zeros();
        let at = reached + u128::from(ahead);
        (at << width(self.bit), self.slots[usize::from(low_bits(at))])
    }
}

/// Binary logarithm of the width of a slot: 1 KiB, divided by the least weight of the row.
const fn width(bit: u32) -> u32 {
    (32 + 10) - bit
}

/// Slot index of a position in the endless row of slots.
fn low_bits(at: u128) -> u8 {
    at.to_le_bytes()[0] & LAST
}

const LAST: u8 = 63;
