//! Scoreboard: one entry for each segment that was sent and is not acknowledged, in stream order.
//!
//! Each ACK costs O(1) amortised. For loss by count (RFC 6675, `IsLost`), an index moves up past
//! the segments that are delivered or lost. Runs of segments delivered selectively are skipped as a
//! whole. For loss by time (RFC 8985), the oldest segment is the head of a list in order of send
//! time.
//!
//! Differs: a SACK block that covers a part of a segment has no effect until the rest is covered
//! (RFC 2018 leaves this to the sender).
//! Differs: three delivered segments above a segment make it lost even if they are contiguous, as
//! in Linux. RFC 6675 requires more than two full segments of bytes if they are contiguous.

mod by_time;
mod entry;

use std::collections::VecDeque;

use self::entry::Entry;
pub(super) use self::entry::Sent;
use tidegate_base::Time;

use super::delivered::Delivered;
use super::rate::Stamp;

/// Number of delivered segments above a segment that make it lost.
///
/// Source: RFC 5681, section 3.2; RFC 6675, section 2 (`DupThresh`).
pub(super) const DUPLICATES: u32 = 3;

/// Initial capacity in segments. Later growth is an eighth of the segments in flight.
const ROOM: usize = 2;

/// A delivery-rate stamp for each segment in flight.
#[derive(Debug, Default)]
struct Stamps(VecDeque<Stamp>);

/// The list neighbours of each segment in flight.
#[derive(Debug, Default)]
struct Neighbours(VecDeque<Neighbour>);

/// Neighbours of a segment in the list by send time. The first and the last segment are their own
/// neighbours on the outer side. For a delivered segment, `newer` is the end of a run of delivered
/// segments.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbour {
    older: u32,
    newer: u32,
}

/// The segments in flight.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    sent: VecDeque<Entry>,
    /// Time of the last transmission.
    latest: Time,
    /// Kept while the order of send times differs from the stream, or since a segment was delivered
    /// out of order.
    neighbours: Option<Box<Neighbours>>,
    /// Kept if the congestion control uses the delivery rate.
    stamps: Option<Box<Stamps>>,
    /// Number of the first entry; numbers wrap.
    first: u32,
    /// Offset up to which all data is acknowledged.
    una: u64,
    /// End of the last segment.
    end: u64,
    sacked: u64,
    sacked_segments: u32,
    lost: u64,
    copies: u64,
    /// At least one segment has the flag [`Sent::NAMED`]: a SACK block reported it.
    named: bool,
    /// Total of bytes ever found lost.
    lost_ever: u64,
    /// Highest offset that was delivered.
    highest: u64,
    /// All entries with numbers below `edge` are delivered or lost. `above_edge` is the number of
    /// delivered entries from `edge` on.
    edge: u32,
    above_edge: u32,
    /// Below this entry, every lost segment has a retransmission in flight.
    cursor: u32,
    /// Oldest and newest entry of the list by send time, if it differs from the stream.
    list: Option<(u32, u32)>,
    by_time: bool,
    /// End of the sent data when a segment last was delivered out of order, found lost or
    /// retransmitted. Once this offset is acknowledged, send times follow the stream (`in_order`).
    disturbed: u64,
    in_order: bool,
}

impl Scoreboard {
    /// An empty scoreboard. `by_time` permits [`lose_older`](Self::lose_older), `stamped` keeps
    /// [`Delivered::stamp`].
    pub(super) fn new(by_time: bool, stamped: bool) -> Self {
        let stamps = stamped.then(Box::default);
        Self { by_time, stamps, in_order: true, ..Self::default() }
    }

    /// Offset up to which all data is acknowledged.
    pub(super) const fn una(&self) -> u64 {
        self.una
    }

    /// End of the sent data.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Bytes sent and not acknowledged cumulatively (`FlightSize`, RFC 5681).
    pub(super) const fn outstanding(&self) -> u64 {
        self.end - self.una
    }

    /// Estimate of the bytes in the network (`pipe`, RFC 6675).
    pub(super) const fn pipe(&self) -> u64 {
        self.outstanding() + self.copies - self.sacked - self.lost
    }

    /// Number of segments in flight.
    pub(super) fn segments(&self) -> usize {
        self.sent.len()
    }

    /// Bytes delivered out of order.
    pub(super) const fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Segments delivered out of order.
    pub(super) const fn delivered_out_of_order(&self) -> u32 {
        self.sacked_segments
    }

    /// Bytes found lost since the beginning.
    pub(super) const fn lost_ever(&self) -> u64 {
        self.lost_ever
    }

    /// Bytes that count as lost now.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn back(&self) -> Option<Sent> {
        self.get(self.sent.len().checked_sub(1)?)
    }

    pub(super) fn front(&self) -> Option<Sent> {
        self.get(0)
    }

    /// The segment at `index`.
    #[inline]
    fn get(&self, index: usize) -> Option<Sent> {
        let entry = self.sent.get(index)?;
        let end = self.sent.get(index + 1).map_or(self.end, |next| next.start(self.una));
        Some(entry.sent(self.una, end, self.latest))
    }

    /// True if the entry at `index` exists and has `flag`.
    fn is(&self, index: usize, flag: u8) -> bool {
        self.sent.get(index).is_some_and(|entry| entry.is(flag))
    }

    /// Adds a new segment, the next in the stream.
    pub(super) fn push(&mut self, (sent, stamp): (Sent, Stamp)) {
        (self.end, self.latest) = (sent.end(), self.latest.max(sent.at));
        if let Some(stamps) = &mut self.stamps {
            stamps.0.push_back(stamp);
        }
        let id = self.first.wrapping_add(count(self.sent.len()));
        if self.sent.is_empty() {
            (self.edge, self.cursor, self.above_edge) = (id, id, 0);
        }
        push(&mut self.sent, Entry::new(&sent));
        if let Some(neighbours) = &mut self.neighbours {
            push(&mut neighbours.0, Neighbour::default());
        }
        if !self.in_order {
            self.append(id);
        }
    }

    /// Removes the segments below `to`, which are acknowledged.
    pub(super) fn acknowledge(&mut self, to: u64, delivered: &mut Delivered) {
        while let Some(sent) = self.front().filter(|sent| sent.end() <= to) {
            let stamp = self.stamps.as_mut().and_then(|stamps| stamps.0.pop_front());
            if !self.in_order {
                self.unlink(self.first);
                self.uncount(&sent);
            }
            if !sent.is(Sent::SACKED) {
                self.count_delivered(&sent, stamp, delivered);
                delivered.cumulative(&sent);
            } else {
                self.sacked_segments -= 1;
                self.above_edge -= u32::from(ahead(self.first, self.edge) >= 0);
            }
            self.sent.pop_front();
            if let Some(neighbours) = &mut self.neighbours {
                neighbours.0.pop_front();
            }
            let next = self.first.wrapping_add(1);
            for mark in [&mut self.edge, &mut self.cursor] {
                if *mark == self.first {
                    *mark = next;
                }
            }
            self.first = next;
        }
        if self.sent.capacity() > 2 * ROOM + self.sent.len() / 4 * 5 {
            self.give_back();
        }
        self.trim(to, delivered);
        self.una = self.una.max(to);
        self.highest = self.highest.max(to);
        if !self.in_order && self.una >= self.disturbed {
            (self.in_order, self.list, self.neighbours) = (true, None, None);
        }
    }

    /// Releases capacity after a large window. The remaining capacity is that of a window that grew
    /// to this size, so repeated growth and shrinkage rarely reallocates.
    #[cold]
    fn give_back(&mut self) {
        let left = self.sent.len() + room(self.sent.len());
        self.sent.shrink_to(left);
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.0.shrink_to(left);
        }
    }

    /// Handles an ACK inside a segment: the remainder keeps its state.
    fn trim(&mut self, to: u64, delivered: &mut Delivered) {
        if self.sent.front().is_none_or(|first| first.start(self.una) >= to) {
            return;
        }
        let Some(sent) = self.front() else { return };
        let cut = to - sent.start;
        self.sent[0].begin(to);
        for (flag, counter) in [
            (Sent::SACKED, &mut self.sacked),
            (Sent::LOST, &mut self.lost),
            (Sent::COPY, &mut self.copies),
        ] {
            if sent.is(flag) {
                *counter -= cut;
            }
        }
        if !sent.is(Sent::SACKED) {
            delivered.bytes += cut;
        }
    }

    /// Marks the segments within `from..to` as delivered.
    pub(super) fn sack(&mut self, from: u64, to: u64, delivered: &mut Delivered) {
        let mut index = self.find(from.max(self.una));
        while let Some(sent) = self.get(index).filter(|sent| sent.end() <= to) {
            if sent.is(Sent::SACKED) {
                index = self.run_end(index);
                continue;
            }
            let id = self.first.wrapping_add(count(index));
            self.disturb();
            self.unlink(id);
            self.uncount(&sent);
            self.sacked += sent.len();
            self.sacked_segments += 1;
            let stamp = self.stamps.as_ref().and_then(|stamps| stamps.0.get(index)).copied();
            self.count_delivered(&sent, stamp, delivered);
            delivered.selective(&sent);
            let entry = &mut self.sent[index];
            entry.flags = (entry.flags & !(Sent::LOST | Sent::COPY)) | Sent::SACKED;
            self.neighbour(index).newer = id.wrapping_add(1);
            if ahead(id, self.edge) >= 0 {
                self.above_edge += 1;
            }
            index += 1;
        }
    }

    /// Marks as lost all segments with at least `duplicates` delivered segments above them.
    pub(super) fn lose_by_count(&mut self, duplicates: u32) {
        while self.above_edge >= duplicates {
            let index = self.index(self.edge);
            let Some(sent) = self.sent.get(index) else { break };
            if sent.is(Sent::SACKED) {
                if self.above_edge == duplicates {
                    break;
                }
                self.above_edge -= 1;
            } else {
                self.lose(index);
            }
            self.edge = self.edge.wrapping_add(1);
        }
    }

    /// Marks all undelivered segments as lost, retransmissions in flight included.
    ///
    /// If the first segment is marked as delivered, the peer has discarded data that it had
    /// reported (reneging). Then all SACK marks are cleared (RFC 2018, section 8).
    pub(super) fn lose_all(&mut self) {
        if self.is(0, Sent::SACKED) {
            for sent in &mut self.sent {
                sent.flags &= !Sent::SACKED;
            }
            (self.sacked, self.sacked_segments) = (0, 0);
            (self.edge, self.above_edge) = (self.first, 0);
        }
        for index in 0..self.sent.len() {
            let Some(sent) = self.get(index).filter(|sent| !sent.is(Sent::SACKED)) else {
                continue;
            };
            if sent.is(Sent::COPY) {
                self.sent[index].flags &= !Sent::COPY;
                self.copies -= sent.len();
            }
            self.lose(index);
        }
        self.cursor = self.first;
    }

    /// Marks the segments within `from..to` as reported by a SACK block. Returns `true` if one of
    /// them was not reported before.
    ///
    /// The segments still count as outstanding: the slow start after a timeout sends them again.
    pub(super) fn name(&mut self, from: u64, to: u64) -> bool {
        let first = self.find(from.max(self.una));
        let mut news = false;
        for index in first..self.sent.len() {
            if self.get(index).is_none_or(|sent| sent.end() > to) {
                break;
            }
            news |= !self.is(index, Sent::NAMED);
            self.sent[index].flags |= Sent::NAMED;
        }
        self.named |= news;
        news
    }

    /// Forgets every SACK block.
    pub(super) fn forget_names(&mut self) {
        if std::mem::take(&mut self.named) {
            for sent in &mut self.sent {
                sent.flags &= !Sent::NAMED;
            }
        }
    }

    /// Forgets SACK blocks, losses and copies: all segments are outstanding as if sent once.
    pub(super) fn forget_all(&mut self) {
        self.forget_names();
        if self.sacked + self.lost + self.copies == 0 {
            return;
        }
        for sent in &mut self.sent {
            sent.flags &= !(Sent::SACKED | Sent::LOST | Sent::COPY);
        }
        (self.sacked, self.sacked_segments, self.lost, self.copies) = (0, 0, 0, 0);
        (self.edge, self.above_edge, self.cursor) = (self.first, 0, self.first);
    }

    /// Marks the first segment as lost, unless it is delivered or lost already.
    pub(super) fn lose_first(&mut self) {
        if !self.sent.is_empty() && !self.is(0, Sent::SACKED | Sent::LOST) {
            self.lose(0);
        }
    }

    /// Removes the marks of lost segments, because the timeout was spurious.
    pub(super) fn forget_losses(&mut self) {
        for index in 0..self.sent.len() {
            let lost = |sent: &Sent| sent.is(Sent::LOST) && !sent.is(Sent::COPY);
            let Some(sent) = self.get(index).filter(lost) else { continue };
            self.sent[index].flags &= !Sent::LOST;
            self.lost -= sent.len();
        }
        (self.edge, self.above_edge) = (self.first, self.sacked_segments);
        if !self.in_order {
            self.rebuild_list();
        }
    }

    /// The lowest lost segment without a retransmission in flight.
    pub(super) fn next_lost(&mut self) -> Option<Sent> {
        if self.lost == 0 {
            return None;
        }
        let mut index = self.index(self.cursor);
        while let Some(sent) = self.sent.get(index) {
            if sent.is(Sent::SACKED) {
                index = self.run_end(index);
            } else if sent.is(Sent::LOST) && !sent.is(Sent::COPY) {
                break;
            } else {
                index += 1;
            }
        }
        self.cursor = self.first.wrapping_add(count(index));
        self.get(index)
    }

    /// The lowest segment below the highest delivered offset that is neither delivered, lost nor
    /// retransmitted.
    pub(super) fn next_hole(&self) -> Option<Sent> {
        let unknown = Sent::SACKED | Sent::LOST | Sent::COPY;
        let index = self.sent.iter().position(|sent| !sent.is(unknown))?;
        self.get(index).filter(|sent| sent.end() <= self.highest)
    }

    /// The highest segment that is not known to be delivered.
    pub(super) fn last_unknown(&self) -> Option<Sent> {
        self.get(self.sent.iter().rposition(|sent| !sent.is(Sent::SACKED))?)
    }

    /// Records a retransmission of the segment at `start`, with the send time and stamp given.
    pub(super) fn repeat(&mut self, start: u64, (sent, stamp): (Sent, Stamp)) {
        let index = self.find(start);
        let Some(before) = self.get(index) else { return };
        self.disturb();
        if !before.is(Sent::COPY) {
            self.copies += before.len();
        }
        let entry = &mut self.sent[index];
        let kept = entry.flags & !Sent::LIMITED;
        entry.flags = kept | Sent::COPY | Sent::REPEATED | sent.flags();
        entry.send(sent.at);
        self.latest = self.latest.max(sent.at);
        if let Some(of) = self.stamps.as_mut().and_then(|stamps| stamps.0.get_mut(index)) {
            *of = stamp;
        }
        let id = self.first.wrapping_add(count(index));
        self.unlink(id);
        self.append(id);
    }

    fn lose(&mut self, index: usize) {
        let Some(sent) = self.get(index) else { return };
        self.disturb();
        let id = self.first.wrapping_add(count(index));
        if !sent.is(Sent::LOST) {
            self.sent[index].flags |= Sent::LOST;
            self.lost += sent.len();
            self.lost_ever += sent.len();
            self.rewind(id);
        }
        if !sent.is(Sent::COPY) {
            self.unlink(id);
        }
    }

    fn rewind(&mut self, id: u32) {
        if ahead(id, self.cursor) < 0 {
            self.cursor = id;
        }
    }

    /// Removes a segment that is acknowledged or delivered from the counters.
    fn uncount(&mut self, sent: &Sent) {
        for (flag, counter) in [
            (Sent::SACKED, &mut self.sacked),
            (Sent::LOST, &mut self.lost),
            (Sent::COPY, &mut self.copies),
        ] {
            if sent.is(flag) {
                *counter -= sent.len();
            }
        }
    }

    fn count_delivered(&mut self, sent: &Sent, stamp: Option<Stamp>, delivered: &mut Delivered) {
        delivered.add(sent, stamp, self.highest);
        self.highest = self.highest.max(sent.end());
    }

    /// Index of the first segment that begins at the stream offset `place` or above.
    ///
    /// Most segments have the same length, so a division usually finds the index.
    fn find(&self, place: u64) -> usize {
        let Some(front) = self.front() else { return 0 };
        if place <= front.start {
            return 0;
        }
        let typical = self.get(1).unwrap_or(front).len().max(1);
        let guess = usize::try_from((place - front.start) / typical).unwrap_or(usize::MAX);
        if self.sent.get(guess).is_some_and(|sent| sent.start(self.una) == place) {
            return guess;
        }
        self.sent.partition_point(|sent| sent.start(self.una) < place)
    }

    /// List neighbours of the segment at `index`.
    #[inline]
    fn neighbour(&mut self, index: usize) -> &mut Neighbour {
        let all = &mut self.neighbours.get_or_insert_default().0;
        if all.len() < self.sent.len() {
            all.resize(self.sent.len(), Neighbour::default());
        }
        &mut all[index]
    }

    /// Index after the run of delivered segments that contains `index`. Shortens the path, so that
    /// the next call takes one step.
    fn run_end(&mut self, index: usize) -> usize {
        let mut end = index;
        while self.is(end, Sent::SACKED) {
            let newer = self.neighbour(end).newer;
            end = self.index(newer);
        }
        let (id, mut at) = (self.first.wrapping_add(count(end)), index);
        while at < end {
            let next = std::mem::replace(&mut self.neighbour(at).newer, id);
            at = self.index(next);
        }
        end
    }

    fn index(&self, id: u32) -> usize {
        let index = id.wrapping_sub(self.first);
        usize::try_from(index).unwrap_or(usize::MAX)
    }
}

/// Distance from number `reference` to number `id`. It is negative if `id` comes first.
const fn ahead(id: u32, reference: u32) -> i32 {
    id.wrapping_sub(reference).cast_signed()
}

/// Spare capacity of a list with `len` entries.
const fn room(len: usize) -> usize {
    ROOM + len / 8
}

/// Appends to a list and reserves little spare capacity.
fn push<T>(list: &mut VecDeque<T>, last: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(room(list.len()));
    }
    list.push_back(last);
}

/// A number of segments as `u32`: a window holds fewer than 2^30 bytes.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
