//! What was sent and is not acknowledged: one entry for each segment, in the order of the stream.
//!
//! Everything an ACK asks for costs O(1) amortised: what is lost by the count of segments delivered
//! above it is an edge that only moves up (RFC 6675, `IsLost`); what was delivered selectively is
//! skipped in runs; what is lost by time is the head of a list by time of sending (RFC 8985).
//!
//! Differs: a selective acknowledgement of a part of a segment counts for nothing until the rest is
//! covered too (RFC 2018 leaves the use of blocks to the sender); three segments count as three
//! sequences whether they are contiguous or not, as in Linux (RFC 6675 wants more than two full
//! segments' bytes if they are).

mod by_time;
mod entry;

use std::collections::VecDeque;

use self::entry::Entry;
pub(super) use self::entry::Sent;
use super::delivered::Delivered;
use super::rate::Stamp;
use crate::Time;

/// Segments delivered above one that make it lost.
///
/// Source: RFC 5681, section 3.2; RFC 6675, section 2 (`DupThresh`).
pub(super) const DUPLICATES: u32 = 3;

/// Segments there is room for at first, and an eighth of what is out each time more is needed.
const ROOM: usize = 2;

/// A stamp for each segment that is out.
#[derive(Debug, Default)]
struct Stamps(VecDeque<Stamp>);

/// Neighbours of each segment that is out.
#[derive(Debug, Default)]
struct Neighbours(VecDeque<Neighbour>);

/// The neighbours of a segment in the list by time of sending; itself where there is none. Of one
/// that was delivered, `newer` is one up to which all are.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbour {
    older: u32,
    newer: u32,
}

/// The segments that are out.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    sent: VecDeque<Entry>,
    /// When the last was sent.
    latest: Time,
    /// The neighbours of each, while there is a list by time that is not the stream, or since any was
    /// delivered out of order.
    neighbours: Option<Box<Neighbours>>,
    /// A stamp for each, if anybody asks for the delivery rate.
    stamps: Option<Box<Stamps>>,
    /// Number of the first; numbers wrap.
    first: u32,
    /// All below is acknowledged.
    una: u64,
    /// End of the last segment.
    end: u64,
    sacked: u64,
    sacked_segments: u32,
    lost: u64,
    copies: u64,
    /// A segment is [`Sent::NAMED`].
    named: bool,
    /// Bytes that have been found lost, ever.
    lost_ever: u64,
    /// Highest place that was delivered.
    highest: u64,
    /// Segments delivered from index `edge` on, where all below is delivered or lost.
    edge: u32,
    above_edge: u32,
    /// No segment below is lost and without a copy.
    cursor: u32,
    /// The list by time, if it is not the stream: oldest and newest.
    list: Option<(u32, u32)>,
    by_time: bool,
    /// All below was sent when a segment last was delivered out of order, found lost or sent again; once that is
    /// acknowledged the list by time is the stream, which is `in_order`.
    disturbed: u64,
    in_order: bool,
}

impl Scoreboard {
    /// None out; `by_time` if [`lose_older`](Self::lose_older) will be asked, `stamped` if
    /// [`Delivered::stamp`] will be.
    pub(super) fn new(by_time: bool, stamped: bool) -> Self {
        let stamps = stamped.then(Box::default);
        Self { by_time, stamps, in_order: true, ..Self::default() }
    }

    /// All below is acknowledged.
    pub(super) const fn una(&self) -> u64 {
        self.una
    }

    /// End of what was sent.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Bytes sent and not acknowledged cumulatively (`FlightSize`, RFC 5681).
    pub(super) const fn outstanding(&self) -> u64 {
        self.end - self.una
    }

    /// Bytes in the network, as far as is known (`pipe`, RFC 6675).
    pub(super) const fn pipe(&self) -> u64 {
        self.outstanding() + self.copies - self.sacked - self.lost
    }

    /// Segments that are out.
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

    /// Bytes that are lost.
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

    /// Whether there is one at `index` that is so.
    fn is(&self, index: usize, flag: u8) -> bool {
        self.sent.get(index).is_some_and(|entry| entry.is(flag))
    }

    /// Takes note of a new segment, the next in the stream.
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

    /// All below `to` is acknowledged.
    pub(super) fn acknowledge(&mut self, to: u64, delivered: &mut Delivered) {
        while let Some(sent) = self.front().filter(|sent| sent.end() <= to) {
            let stamp = self.stamps.as_mut().and_then(|stamps| stamps.0.pop_front());
            if !self.in_order {
                self.leave(self.first);
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

    /// A window that was once large does not keep its room: what is left is as if it had grown to that,
    /// so that a window that comes and goes moves little.
    #[cold]
    fn give_back(&mut self) {
        let left = self.sent.len() + room(self.sent.len());
        self.sent.shrink_to(left);
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.0.shrink_to(left);
        }
    }

    /// An ACK in the middle of a segment: what is left of it stays as it is.
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

    /// The segments within `from..to` are delivered.
    pub(super) fn sack(&mut self, from: u64, to: u64, delivered: &mut Delivered) {
        let mut index = self.find(from.max(self.una));
        while let Some(sent) = self.get(index).filter(|sent| sent.end() <= to) {
            if sent.is(Sent::SACKED) {
                index = self.run_end(index);
                continue;
            }
            let id = self.first.wrapping_add(count(index));
            self.disturb();
            self.leave(id);
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

    /// Segments that have so many delivered ones above them are lost now.
    pub(super) fn lose_by_count(&mut self, enough: u32) {
        while self.above_edge >= enough {
            let index = self.index(self.edge);
            let Some(sent) = self.sent.get(index) else { break };
            if sent.is(Sent::SACKED) {
                if self.above_edge == enough {
                    break;
                }
                self.above_edge -= 1;
            } else {
                self.lose(index);
            }
            self.edge = self.edge.wrapping_add(1);
        }
    }

    /// Everything not delivered is lost, copies too.
    ///
    /// If the first is delivered, its ACK should have come: the peer no longer has what it told of
    /// (RFC 2018, section 8).
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

    /// Marks the segments within `from..to` as named by a SACK block; returns whether one is new.
    ///
    /// They still count as outstanding: the slow start after a timeout sends them again.
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

    /// The first segment is lost, unless it is delivered or lost already.
    pub(super) fn lose_first(&mut self) {
        if !self.sent.is_empty() && !self.is(0, Sent::SACKED | Sent::LOST) {
            self.lose(0);
        }
    }

    /// Losses found after a timeout that was not called for are none.
    pub(super) fn forget_losses(&mut self) {
        for index in 0..self.sent.len() {
            let lost = |sent: &Sent| sent.is(Sent::LOST) && !sent.is(Sent::COPY);
            let Some(sent) = self.get(index).filter(lost) else { continue };
            self.sent[index].flags &= !Sent::LOST;
            self.lost -= sent.len();
        }
        (self.edge, self.above_edge) = (self.first, self.sacked_segments);
        if !self.in_order {
            self.list_anew();
        }
    }

    /// The lowest lost segment that has no copy on the way.
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

    /// The lowest segment below what was delivered last of which nothing is known.
    pub(super) fn next_hole(&self) -> Option<Sent> {
        let untold = Sent::SACKED | Sent::LOST | Sent::COPY;
        let index = self.sent.iter().position(|sent| !sent.is(untold))?;
        self.get(index).filter(|sent| sent.end() <= self.highest)
    }

    /// The highest segment that is out and not delivered, as far as is known.
    pub(super) fn last_unknown(&self) -> Option<Sent> {
        self.get(self.sent.iter().rposition(|sent| !sent.is(Sent::SACKED))?)
    }

    /// A copy of the segment at `start` is sent as `sent` says; returns the place after it.
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
        self.leave(id);
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
            self.leave(id);
        }
    }

    fn rewind(&mut self, id: u32) {
        if ahead(id, self.cursor) < 0 {
            self.cursor = id;
        }
    }

    /// Takes a segment that goes, or is delivered, out of the counts.
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

    /// Index of the first segment that begins at `place` or above.
    ///
    /// Most segments have the same length, so a guess is mostly right.
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

    /// The neighbours of the segment at `index`.
    #[inline]
    fn neighbour(&mut self, index: usize) -> &mut Neighbour {
        let all = &mut self.neighbours.get_or_insert_default().0;
        if all.len() < self.sent.len() {
            all.resize(self.sent.len(), Neighbour::default());
        }
        &mut all[index]
    }

    /// The index after the delivered segments of which `index` is one; later it takes one step.
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

/// How far number `id` is ahead of `reference`.
const fn ahead(id: u32, reference: u32) -> i32 {
    id.wrapping_sub(reference).cast_signed()
}

/// What a list of so many has in reserve once it has grown.
const fn room(len: usize) -> usize {
    ROOM + len / 8
}

/// Appends to a list that has little in reserve.
fn push<T>(list: &mut VecDeque<T>, last: T) {
    if list.len() == list.capacity() {
        list.reserve_exact(room(list.len()));
    }
    list.push_back(last);
}

/// A number of segments: a window holds fewer than 2^30 bytes.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
