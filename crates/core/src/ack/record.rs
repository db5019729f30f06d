//! Records of held ACKs: 20 bytes each, in lists, in a store of bounded size.

use std::time::Duration;

use crate::Time;
use crate::packet::slot;

/// The records of all held ACKs of an aggregate. Free records form a list of their own.
pub(super) struct Records {
    list: Vec<Record>,
    /// Index of the first free record, or [`NONE`].
    free: u32,
}

impl Default for Records {
    fn default() -> Self {
        Self { list: Vec::new(), free: NONE }
    }
}

/// The record of a held ACK.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Record {
    /// Acknowledgement number. If the packet is kept, the index of its buffer instead.
    pub(super) number: u32,
    /// Timestamp echo (TSecr) of the ACK. Unused if the packet is kept.
    pub(super) echo: u32,
    /// Bytes beyond the acknowledgement number that this ACK was the first to report, by SACK blocks or as a
    /// duplicate.
    pub(super) news: u32,
    pub(super) window: u16,
    /// Time at which the ACK arrived, in [`ticks`].
    at: u16,
    /// Index of the next held ACK's record of the flow. The four highest bits are the [`Kind`].
    link: u32,
}

/// Kind of a held ACK, as bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Kind(pub(super) u32);

impl Kind {
    /// The ACK acknowledges more than the ACK before.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self(0);
    /// The ACK is a duplicate without SACK blocks.
    pub(super) const DUPLICATE: u32 = 1 << 28;
    /// The packet of the ACK is kept in its buffer.
    pub(super) const PACKET: u32 = 2 << 28;
    /// The packet is kept whole: it states more than a record can hold.
    pub(super) const WHOLE: u32 = 4 << 28;

    pub(super) const fn any(self, bits: u32) -> bool {
        self.0 & bits != 0
    }
}

/// No record. Indexes of records have 28 bits.
pub(super) const NONE: u32 = (1 << 28) - 1;

/// Most records of an aggregate. They take 1.25 MiB.
const MOST: u32 = 1 << 16;

const _: () = assert!(size_of::<Record>() == 20);

impl Record {
    /// The record of an ACK whose packet is kept, in the buffer of index `number`.
    pub(super) const fn new(number: u32, news: u32, window: u16, kind: Kind, now: Time) -> Self {
        Self { number, echo: 0, news, window, at: ticks(now), link: NONE | kind.0 }
    }

    pub(super) const fn kind(&self) -> Kind {
        Kind(self.link & !NONE)
    }

    pub(super) const fn next(&self) -> u32 {
        self.link & NONE
    }

    pub(super) const fn set_kind(&mut self, kind: Kind) {
        self.link = (self.link & NONE) | kind.0;
    }

    pub(super) const fn set_next(&mut self, next: u32) {
        self.link = (self.link & !NONE) | next;
    }

    /// Time since the ACK arrived, with a resolution of about a millisecond, and up to a minute.
    pub(super) fn held(&self, now: Time) -> Duration {
        Duration::from_nanos(u64::from(ticks(now).wrapping_sub(self.at)) << TICK_BITS)
    }
}

impl Records {
    /// Stores `record`. `None` if there is no room.
    pub(super) fn insert(&mut self, record: Record) -> Option<u32> {
        if self.free != NONE {
            let number = self.free;
            self.free = self.list[slot(number)].next();
            self.list[slot(number)] = record;
            return Some(number);
        }
        let number = u32::try_from(self.list.len()).ok().filter(|number| *number < MOST)?;
        self.list.push(record);
        Some(number)
    }

    /// Removes a record from the store.
    pub(super) fn remove(&mut self, number: u32) -> Record {
        let record = self.list[slot(number)];
        self.list[slot(number)].set_next(self.free);
        self.free = number;
        record
    }

    pub(super) fn get(&self, number: u32) -> &Record {
        &self.list[slot(number)]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Record {
        &mut self.list[slot(number)]
    }
}

/// A tick is `2^20` ns, about a millisecond; 16 bits of them last a minute.
pub(super) const TICK_BITS: u32 = 20;

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "the clock wraps, and is compared as such"
)]
const fn ticks(now: Time) -> u16 {
    (now.nanos() >> TICK_BITS) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_bounded_and_uses_each_record_again() {
        let mut records = Records::default();
        let record = Record::new(1, 2, 3, Kind::PLAIN, Time::ZERO);
        let numbers: Vec<_> = (0..MOST).map(|_| records.insert(record).unwrap()).collect();
        assert_eq!(records.insert(record), None);
        for number in &numbers {
            assert_eq!(records.remove(*number).number, 1);
        }
        let mut again: Vec<_> = (0..MOST).map(|_| records.insert(record).unwrap()).collect();
        again.sort_unstable();
        assert_eq!(again, numbers);
    }

    #[test]
    fn kind_and_successor_do_not_disturb_each_other() {
        let mut record = Record::new(9, 8, 7, Kind(Kind::PACKET | Kind::WHOLE), Time::ZERO);
        record.set_next(5);
        record.set_kind(Kind(Kind::DUPLICATE));
        assert!(record.next() == 5 && record.kind() == Kind(Kind::DUPLICATE));
        let after = record.held(Time::from_secs(60));
        assert!(after > Duration::from_millis(59_990) && after <= Duration::from_secs(60));
    }
}
