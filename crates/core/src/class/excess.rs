//! Shares the excess of a class among its backlogged children, by priority and weight, in constant time.
//!
//! The excess is the rate of a class beyond the guarantees of its children. Each child has a start: the bytes
//! that it has sent from the excess, divided by its weight. The child with the least start sends next.
//!
//! Example: a child with weight 3 has sent 3,000 bytes and a child with weight 1 has sent 1,000
//! bytes. Both starts are 1,000. A child that was idle returns with the least start of the other
//! children. It does not catch up.
//!
//! While two children wait, their starts differ by at most one packet of each, divided by their weights.
//!
//! Source: SIGCOMM 1996, start-time fair queueing.
//! Differs: starts are sorted into slots, as in quick fair queueing (doi
//! 10.1109/TNET.2012.2215881). All weights between two powers of two share one row of slots. A slot
//! is 1 KiB divided by the lower power of two. Children within a slot go in the order of arrival.

use super::{ClassId, Terms};
use crate::Bytes;
use crate::packet::{First, Links, slot};

/// Weight and priority of a class, and its use of its parent's excess.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Bytes that the class has sent from the excess, divided by its weight. [`UNIT`] units are one byte.
    start: u128,
    weight: u32,
    priority: u8,
    /// Index of the slot in which the class waits.
    slot: u8,
}

/// Units of a start for one byte of a class with weight 1. All bytes that a link ever sends fit in 128 bits.
const UNIT: u128 = 1 << 32;

impl Claim {
    pub(super) fn new(priority: u8, weight: u32) -> Self {
        let (weight, priority) = (weight.max(1), priority.min(Terms::MAX_PRIORITY));
        Self { start: 0, weight, priority, slot: 0 }
    }

    /// Changes priority and weight. The class must not be in an [`Excess`] at this time.
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

    /// Adds `len` bytes that the class has sent from the excess.
    pub(super) fn charge(&mut self, len: Bytes) {
        self.start += u128::from(len.0) * UNIT / u128::from(self.weight);
    }
}

/// The backlogged children of a class, by priority.
#[derive(Debug, Default)]
pub(super) struct Excess {
    bands: Vec<Band>,
    /// Bit `n` is set if the band of priority `n` has children.
    busy: u8,
}

/// The backlogged children of one priority.
#[derive(Debug, Default)]
struct Band {
    /// A lower bound of all starts: the start of the slot that was served last. A child that joins gets at
    /// least this start.
    reached: u128,
    rows: Vec<Row>,
}

/// The backlogged children of one priority whose weights have the same highest bit.
#[derive(Debug)]
struct Row {
    /// Index of the highest bit of the weights: 3 for weights from 8 to 15.
    bit: u32,
    /// Bit `n` is set if slot `n` has children.
    busy: u64,
    slots: [First<ClassId>; SLOTS],
}

/// Number of slots in a row, as many as `busy` has bits.
const SLOTS: usize = 64;

impl Excess {
    /// Adds the child `member`.
    pub(super) fn join(&mut self, links: &mut Links<ClassId>, member: ClassId, claim: &mut Claim) {
        let priority = usize::from(claim.priority);
        if self.bands.len() <= priority {
            self.bands.resize_with(priority + 1, Band::default);
        }
        self.busy |= 1 << claim.priority;
        self.bands[priority].join(links, member, claim);
    }

    /// Removes the child `member`.
    pub(super) fn remove(&mut self, links: &mut Links<ClassId>, member: ClassId, claim: &Claim) {
        let band = &mut self.bands[usize::from(claim.priority)];
        if band.remove(links, member, claim) {
            self.busy &= !(1 << claim.priority);
        }
    }

    /// The child that sends next.
    pub(super) fn first(&mut self) -> Option<ClassId> {
        let band = self.busy.checked_ilog2()?;
        self.bands[slot(band)].first()
    }
}

impl Band {
    fn join(&mut self, links: &mut Links<ClassId>, member: ClassId, claim: &mut Claim) {
        claim.start = claim.start.max(self.reached);
        let bit = claim.weight.ilog2();
        let reached = self.reached >> width(bit);
        let ahead = (claim.start >> width(bit)) - reached;
        // Only a packet longer than 64 KiB moves a start beyond the last slot.
        let ahead = u8::try_from(ahead).unwrap_or(u8::MAX).min(LAST);
        claim.slot = (low_bits(reached) + ahead) & LAST;
        let row = match self.rows.iter().position(|row| row.bit == bit) {
            Some(at) => &mut self.rows[at],
            None => self.rows.push_mut(Row { bit, busy: 0, slots: [First::NOBODY; SLOTS] }),
        };
        row.busy |= 1 << claim.slot;
        links.push(&mut row.slots[usize::from(claim.slot)], member);
    }

    /// Removes the child `member`. Returns `true` if the band has no other children.
    fn remove(&mut self, links: &mut Links<ClassId>, member: ClassId, claim: &Claim) -> bool {
        let bit = claim.weight.ilog2();
        let Some(row) = self.rows.iter_mut().find(|row| row.bit == bit) else { return false };
        let first = &mut row.slots[usize::from(claim.slot)];
        links.remove(first, member);
        if first.member().is_none() {
            row.busy &= !(1 << claim.slot);
        }
        self.rows.iter().all(|row| row.busy == 0)
    }

    fn first(&mut self) -> Option<ClassId> {
        let reached = self.reached;
        let busy = self.rows.iter().filter(|row| row.busy != 0);
        let (start, first) = busy.map(|row| row.first(reached)).min_by_key(|(start, _)| *start)?;
        self.reached = reached.max(start);
        first.member()
    }
}

impl Row {
    /// The least start in the first slot with children, and the list of these children.
    fn first(&self, reached: u128) -> (u128, First<ClassId>) {
        let reached = reached >> width(self.bit);
        let ahead = self.busy.rotate_right(low_bits(reached).into()).trailing_zeros();
        let at = reached + u128::from(ahead);
        (at << width(self.bit), self.slots[usize::from(low_bits(at))])
    }
}

/// Binary logarithm of the width of a slot, in units of a start. The width is 1 KiB (2^10 bytes of 2^32 units),
/// divided by the least weight of the row.
const fn width(bit: u32) -> u32 {
    (32 + 10) - bit
}

/// Index of the slot at position `at`. Positions grow without end, and the slots are used again in
/// cyclic order.
fn low_bits(at: u128) -> u8 {
    at.to_le_bytes()[0] & LAST
}

/// The last index of a slot.
const LAST: u8 = 63;
