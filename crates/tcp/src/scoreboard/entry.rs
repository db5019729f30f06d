//! A sent segment, and its compact storage in the scoreboard of segments in flight.

use tidegate_base::Time;

use crate::sequence::low;

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Stream offset of the first byte.
    pub(crate) start: u64,
    /// Time of the last transmission.
    pub(crate) at: Time,
    /// Length in bytes; a FIN counts as one.
    len: u32,
    flags: u8,
}

impl Sent {
    pub(super) const SACKED: u8 = 1;
    pub(super) const LOST: u8 = 2;
    /// A retransmission is in flight.
    pub(super) const COPY: u8 = 4;
    /// The segment was sent more than once.
    pub(super) const REPEATED: u8 = 8;
    /// The application had no more data after this segment.
    pub(super) const LIMITED: u8 = 16;
    /// A SACK block reported the segment, without effect on its state ([`Scoreboard::name`]).
    ///
    /// [`Scoreboard::name`]: super::Scoreboard::name
    pub(super) const NAMED: u8 = 64;
    /// The segment is in the list by send time.
    pub(super) const LISTED: u8 = 32;

    pub(crate) fn new(start: u64, end: u64, at: Time, limited: bool) -> Self {
        let flags = if limited { Self::LIMITED } else { 0 };
        let len = u32::try_from(end - start).unwrap_or(u32::MAX);
        Self { start, at, len, flags }
    }

    /// Offset after the last byte.
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len()
    }

    pub(super) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) const fn flags(&self) -> u8 {
        self.flags
    }

    #[expect(clippy::as_conversions, reason = "it widens")]
    pub(crate) const fn len(&self) -> u64 {
        self.len as u64
    }

    pub(crate) const fn repeated(&self) -> bool {
        self.is(Self::REPEATED)
    }

    pub(crate) const fn limited(&self) -> bool {
        self.is(Self::LIMITED)
    }

    /// True if this segment was sent before the segment that ends at offset `end` and was sent at
    /// `at`. If both were sent at the same time, the lower offset counts as earlier.
    pub(crate) fn sent_before(&self, at: Time, end: u64) -> bool {
        (self.at, self.end()) < (at, end)
    }
}

/// Compact form of a segment. Connections have many, and most are read only twice. A segment ends
/// at the start of the next segment. Times and offsets are stored modulo powers of two that are
/// larger than any window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    start: u32,
    /// Time of the last transmission: 48 bits of nanoseconds last three days.
    at: [u16; 3],
    pub(super) flags: u8,
}

/// Bits of a time that are stored.
const KEPT: u64 = (1 << 48) - 1;

impl Entry {
    pub(super) fn new(sent: &Sent) -> Self {
        let mut this = Self { start: 0, at: [0; 3], flags: sent.flags };
        this.begin(sent.start);
        this.send(sent.at);
        this
    }

    /// Sets the offset of the first byte.
    pub(super) const fn begin(&mut self, start: u64) {
        self.start = low(start);
    }

    /// Sets the send time.
    pub(super) fn send(&mut self, at: Time) {
        let [a, b, c, d, e, f, ..] = at.nanos().to_le_bytes();
        self.at = [[a, b], [c, d], [e, f]].map(u16::from_le_bytes);
    }

    /// Stream offset, which is at `una` or above.
    pub(super) fn start(&self, una: u64) -> u64 {
        una + u64::from(self.start.wrapping_sub(low(una)))
    }

    /// Send time, which is at `latest` or before.
    pub(super) fn at(&self, latest: Time) -> Time {
        let [low, middle, high] = self.at.map(u64::from);
        let age = latest.nanos().wrapping_sub(low | middle << 16 | high << 32) & KEPT;
        Time::from_nanos(latest.nanos().saturating_sub(age))
    }

    /// The full segment, which ends at `end`.
    #[inline]
    pub(super) fn sent(&self, una: u64, end: u64, latest: Time) -> Sent {
        let start = self.start(una);
        let len = u32::try_from(end - start).unwrap_or(u32::MAX);
        Sent { start, at: self.at(latest), len, flags: self.flags }
    }

    pub(super) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

// Thousands of connections have millions of entries.
const _: () = assert!(size_of::<Entry>() == 12);

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a time of which only 32 bits are stored; an offset below `una` after the numbers
    /// wrap.
    #[test]
    fn offsets_and_times_are_restored_at_any_position_of_the_stream() {
        for far in [0, (1 << 32) - 10, 1 << 40, (1 << 48) - 7, 1 << 50] {
            for further in [0, 20, 1 << 30] {
                let (una, latest) = (far, Time::from_nanos(far + (further << 10)));
                let sent = Sent::new(una + further, una + further + 9, Time::from_nanos(far), true);
                let again = Entry::new(&sent).sent(una, una + further + 9, latest);
                assert_eq!((again.start, again.at, again.len), (sent.start, sent.at, sent.len));
                assert!(again.limited() && !again.repeated());
            }
        }
    }
}
