//! Segments in flight in order of send time. Time-based loss detection looks only at the head of
//! the list.
//!
//! Usually the order of send times is that of the stream, and no list is kept. A list exists while
//! the two orders may differ. This begins when a segment is delivered out of order, found lost or
//! retransmitted. It ends when all data sent by then is acknowledged.
//!
//! Source: RFC 8985, section 6.2, step 5.
//!
//! Methods of `Scoreboard`, whose fields are in `scoreboard.rs`.

use super::entry::Sent;
use super::{Neighbour, Scoreboard, count};

impl Scoreboard {
    /// Marks the oldest segments as lost while `is_lost` is true. Returns the first segment that is
    /// not lost.
    pub(crate) fn lose_older(&mut self, mut is_lost: impl FnMut(&Sent) -> bool) -> Option<Sent> {
        while let Some(oldest) = self.oldest() {
            let index = self.index(oldest);
            let sent = self.get(index)?;
            if !is_lost(&sent) {
                return Some(sent);
            }
            if sent.is(Sent::COPY) {
                self.sent[index].flags &= !Sent::COPY;
                self.copies -= sent.len();
                self.lost_ever += sent.len();
                self.rewind(oldest);
            }
            self.lose(index);
        }
        None
    }

    /// Appends a segment to the list.
    pub(super) fn append(&mut self, id: u32) {
        if !self.by_time {
            return;
        }
        let index = self.index(id);
        self.list = match self.list {
            None => {
                *self.neighbour(index) = Neighbour { older: id, newer: id };
                Some((id, id))
            }
            Some((oldest, newest)) => {
                *self.neighbour(index) = Neighbour { older: newest, newer: id };
                let last = self.index(newest);
                self.neighbour(last).newer = id;
                Some((oldest, id))
            }
        };
        self.sent[index].flags |= Sent::LISTED;
    }

    /// The oldest segment by send time.
    fn oldest(&self) -> Option<u32> {
        if self.in_order {
            return (self.by_time && !self.sent.is_empty()).then_some(self.first);
        }
        self.list.map(|(oldest, _)| oldest)
    }

    /// Notes that a segment was delivered out of order, lost or retransmitted. From now on a list
    /// is kept.
    pub(super) fn disturb(&mut self) {
        self.disturbed = self.end;
        if std::mem::take(&mut self.in_order) && self.by_time {
            self.rebuild_list();
        }
    }

    /// Removes a segment from the list, if it is in the list.
    pub(super) fn unlink(&mut self, id: u32) {
        let index = self.index(id);
        if !self.is(index, Sent::LISTED) {
            return;
        }
        let Some((mut oldest, mut newest)) = self.list else { return };
        self.sent[index].flags &= !Sent::LISTED;
        if (oldest, newest) == (id, id) {
            self.list = None;
            return;
        }
        let Neighbour { older, newer } = *self.neighbour(index);
        let (before, behind) = (self.index(older), self.index(newer));
        if oldest == id {
            oldest = newer;
            self.neighbour(behind).older = newer;
        } else if newest == id {
            newest = older;
            self.neighbour(before).newer = older;
        } else {
            self.neighbour(before).newer = newer;
            self.neighbour(behind).older = older;
        }
        self.list = Some((oldest, newest));
    }

    /// Rebuilds the list from all segments that are not delivered.
    pub(super) fn rebuild_list(&mut self) {
        let mut out: Vec<_> = (0..self.sent.len())
            .filter(|index| !self.sent[*index].is(Sent::SACKED))
            .map(|index| (self.sent[index].at(self.latest), index))
            .collect();
        out.sort_unstable();
        self.list = None;
        for (_, index) in out {
            self.append(self.first.wrapping_add(count(index)));
        }
    }
}
