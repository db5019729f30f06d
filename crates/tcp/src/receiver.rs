//! The receiving half of an end point: reassembly, acknowledgements, the receive window.
//!
//! Source: RFC 9293, section 3.10.7.4; RFC 5681, section 4.2 (delayed ACKs); RFC 2018, section 4 and
//! RFC 2883 (SACK blocks); RFC 3168, section 6.1.3 and RFC 8257, section 3.2 (ECN-Echo).

use tidegate_base::Time;
use tidegate_base::packet::{Ecn, SackBlocks};

use super::profile::{Config, Details, EcnMode};
use super::reassembly::{Reassembly, Taken};
use super::sequence::low;

/// Data of a segment, by stream offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Offset of the first byte, relative to the next expected byte.
    pub(super) offset: i64,
    pub(super) len: u64,
    pub(super) fin: bool,
    pub(super) ecn: Ecn,
    /// The peer has reduced its window (CWR).
    pub(super) reduced: bool,
}

/// Out-of-order data.
#[derive(Debug)]
struct Ahead {
    held: Reassembly,
    /// Offsets of the ranges that SACK blocks report first, latest first; [`NOWHERE`] for none.
    recent: [u64; SackBlocks::MOST],
}

/// An offset outside any range, and before a FIN the unknown end of the stream.
const NOWHERE: u64 = u64::MAX;

impl Default for Ahead {
    fn default() -> Self {
        Self { held: Reassembly::default(), recent: [NOWHERE; SackBlocks::MOST] }
    }
}

/// The receiving half of an end point.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Offset up to which all data has arrived.
    next: u64,
    /// Number of bytes that the application has read.
    read: u64,
    /// Right edge of the offered window.
    offered: u64,
    buffer: u64,
    segment: u64,
    /// A number of bytes. If less of the window was left, a read by the application causes a window
    /// update at once.
    updated_below: u64,
    /// The first SACK block reports duplicate segments (RFC 2883).
    dsack: bool,
    /// Number of recent arrivals whose ranges are reported.
    remembered: usize,
    recent_only: bool,
    /// Shift of the window field (RFC 7323, section 2.2).
    scale: u8,
    /// Out-of-order data, while there is a hole.
    ahead: Option<Box<Ahead>>,
    /// Duplicate range to report; empty for none.
    duplicate: (u64, u64),
    /// Offset of the end of the stream, once a FIN arrived; [`NOWHERE`] before.
    end: u64,
    /// Number of segments not acknowledged yet, and the time when an ACK is due.
    unacknowledged: u8,
    /// [`Time::MAX`] for never.
    deadline: Time,
    at_once: bool,
    quick: u8,
    /// ACKs carry ECN-Echo. In accurate mode: the last data segment was marked.
    echo: bool,
    /// Accurate mode: acknowledgement number and ECN-Echo of the ACK that is due because the
    /// marks changed.
    pub(super) before_change: Option<Box<(u64, bool)>>,
    ecn: EcnMode,
    pub(super) marks: u64,
    pub(super) duplicate_bytes: u64,
}

impl Receiver {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            next: 0,
            read: 0,
            offered: 0,
            buffer: config.receive_window.0,
            segment: u64::from(config.mss),
            updated_below: if config.details.window_updates {
                config.receive_window.0 / 2
            } else {
                u64::from(config.mss)
            },
            dsack: config.details.dsack,
            remembered: usize::from(config.details.sack_blocks),
            recent_only: config.details.sack_recent_only,
            scale: 0,
            ahead: None,
            duplicate: (0, 0),
            end: NOWHERE,
            unacknowledged: 0,
            deadline: Time::MAX,
            at_once: false,
            quick: config.details.quick_acks,
            echo: false,
            before_change: None,
            ecn: EcnMode::Off,
            marks: 0,
            duplicate_bytes: 0,
        }
    }

    /// Stores the result of the handshake.
    pub(super) fn establish(&mut self, scale: u8, ecn: bool, details: &Details) {
        self.scale = scale;
        if ecn {
            self.ecn = details.ecn;
        }
    }

    /// The next expected offset; a received FIN counts as one byte.
    pub(super) fn next(&self) -> u64 {
        self.next + u64::from(self.is_finished())
    }

    /// Data bytes that have arrived in order.
    pub(super) const fn received(&self) -> u64 {
        self.next
    }

    /// Bytes in order that the application has not read.
    pub(super) const fn readable(&self) -> u64 {
        self.next - self.read
    }

    /// True if all data and the FIN have arrived.
    pub(super) fn is_finished(&self) -> bool {
        self.end == self.next
    }

    /// The application has read `bytes` more. If the window grows considerably, an ACK reports
    /// the new window at once.
    ///
    /// Source: RFC 9293, section 3.8.6.2.2 (silly window syndrome).
    pub(super) fn read(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes).min(self.next);
        let gain = self.window_end().saturating_sub(self.offered);
        let left = self.offered.saturating_sub(self.next);
        if gain >= (self.buffer / 2).min(2 * self.segment) && left < self.updated_below {
            self.at_once = true;
        }
    }

    /// Right edge of the window, within the range of the window field.
    fn window_end(&self) -> u64 {
        (self.read + self.buffer).min(self.next + (u64::from(u16::MAX) << self.scale))
    }

    /// The value of the window field, which is recorded as offered. Scaling may move the right edge
    /// left by less than one step; senders must tolerate this (RFC 7323, section 2.4).
    pub(super) fn offer(&mut self) -> u16 {
        let window = self.window_end().saturating_sub(self.next) >> self.scale;
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        self.offered = self.offered.max(self.next + (u64::from(window) << self.scale));
        window
    }

    /// True if the segment at `offset` with `len` sequence numbers overlaps the window.
    ///
    /// Source: RFC 9293, section 3.10.7.4, the four cases.
    pub(super) fn accepts(&self, offset: i64, len: u64) -> bool {
        let window = self.offered.max(self.next) - self.next;
        let inside = |at: i64| at >= 0 && at.unsigned_abs() < window.max(1);
        let last = offset.saturating_add_unsigned(len).saturating_sub(1);
        match (len, window) {
            (0, 0) => offset == 0,
            (0, _) => inside(offset),
            // A zero window accepts no data. The ACK of such a segment is still processed.
            (_, 0) => false,
            (_, _) => inside(offset) || inside(last) || (offset < 0 && last >= 0),
        }
    }

    /// Takes in the data of an acceptable segment. Returns the range that may be new.
    pub(super) fn take(
        &mut self,
        now: Time,
        details: &Details,
        arrival: Arrival,
    ) -> Option<(u64, u64)> {
        self.note_mark(arrival);
        let to =
            self.next.saturating_add_signed(arrival.offset.saturating_add_unsigned(arrival.len));
        let from = self.next.saturating_add_signed(arrival.offset);
        let edge = self.offered.max(self.next).min(self.end);
        if arrival.fin && to >= self.next && to <= edge && self.end == NOWHERE {
            self.end = to;
        }
        let (start, stop) = (from.max(self.next), to.min(edge));
        if stop <= start {
            self.known(from, to);
            if arrival.fin {
                self.at_once = true;
                self.finish_if_whole();
            }
            return None;
        }
        if from < start {
            self.known(from, start);
        }
        let hides = details.acks_ahead > 0;
        let taken = if (start == self.next || hides) && self.ahead.is_none() {
            self.in_order(now, details, stop);
            Some((start, stop))
        } else {
            self.out_of_order(start, stop)
        };
        self.finish_if_whole();
        taken
    }

    /// Takes in the next expected data while there is no hole.
    fn in_order(&mut self, now: Time, details: &Details, to: u64) {
        self.next = to;
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        if self.quick > 0 {
            self.quick -= 1;
            self.at_once = true;
        }
        if self.unacknowledged >= details.ack_every {
            self.at_once = true;
        }
        if self.deadline == Time::MAX {
            self.deadline = now + details.ack_delay;
        }
    }

    /// Takes in data beyond a hole or in a hole, which is acknowledged at once (RFC 5681, section
    /// 4.2).
    fn out_of_order(&mut self, start: u64, stop: u64) -> Option<(u64, u64)> {
        self.at_once = true;
        match self.ahead.get_or_insert_default().held.insert(start, stop) {
            Taken::Full => return None,
            Taken::Known => {
                self.known(start, stop);
                return None;
            }
            Taken::New((from, _)) => {
                let place = if start == self.next { from } else { start };
                if start > self.next || !self.recent_only {
                    self.remember(place);
                }
            }
        }
        if let Some(ahead) = &mut self.ahead {
            self.next = ahead.held.advance(self.next);
        }
        self.ahead.take_if(|ahead| ahead.held.is_empty());
        Some((start, stop))
    }

    /// Sends an ACK at once if the FIN and all data before it have arrived.
    fn finish_if_whole(&mut self) {
        if self.is_finished() {
            self.at_once = true;
        }
    }

    /// Handles a duplicate range: D-SACK reports it at once, and only once.
    fn known(&mut self, from: u64, to: u64) {
        self.at_once = true;
        if to > from {
            self.duplicate_bytes += to - from;
            self.duplicate = (from, to);
        }
    }

    fn remember(&mut self, place: u64) {
        let Some(ahead) = &mut self.ahead else { return };
        let Some((start, end)) = ahead.held.around(place) else { return };
        let mut kept = [NOWHERE; SackBlocks::MOST];
        kept[0] = place;
        let others = ahead.recent.into_iter().filter(|at| *at < start || *at >= end);
        let slots = if self.recent_only { self.remembered } else { SackBlocks::MOST };
        for (slot, at) in kept[1..slots].iter_mut().zip(others) {
            *slot = at;
        }
        ahead.recent = kept;
    }

    /// Notes the ECN mark of a data segment, and updates ECN-Echo.
    ///
    /// Source: RFC 3168, section 6.1.3; RFC 8257, section 3.2.
    fn note_mark(&mut self, arrival: Arrival) {
        let marked = arrival.ecn == Ecn::Ce;
        self.marks += u64::from(marked);
        match self.ecn {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if arrival.reduced {
                    self.echo = false;
                }
                self.echo |= marked;
            }
            EcnMode::Accurate => {
                if marked != self.echo {
                    if self.unacknowledged > 0 {
                        self.before_change = Some(Box::new((self.next, self.echo)));
                        (self.unacknowledged, self.deadline) = (0, Time::MAX);
                    }
                    self.echo = marked;
                }
            }
        }
    }

    /// True if ACKs carry ECN-Echo.
    pub(super) const fn echo(&self) -> bool {
        self.echo
    }

    /// True if an ACK must be sent now.
    pub(super) fn must_acknowledge(&self, now: Time) -> bool {
        self.at_once || self.deadline <= now
    }

    /// Handles a segment outside the window.
    pub(super) fn refuse(&mut self, now: Time, details: &Details, offset: i64, len: u64) {
        let from = self.next.saturating_add_signed(offset);
        let to = from.saturating_add(len);
        let was_due = self.at_once;
        if to <= self.next {
            self.known(from, to);
        }
        self.at_once = true;
        let newest = len > 0 && to == self.next && self.ahead.is_none();
        if details.delays_copies && newest {
            self.at_once = was_due;
            self.in_order(now, details, to);
        }
    }

    /// Sends an ACK with the next poll.
    pub(super) fn acknowledge_at_once(&mut self) {
        self.at_once = true;
    }

    /// Time when the next ACK is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        (self.deadline != Time::MAX).then_some(self.deadline)
    }

    /// Notes that an ACK departs.
    pub(super) fn acknowledged(&mut self) {
        (self.at_once, self.unacknowledged, self.deadline) = (false, 0, Time::MAX);
    }

    /// Notes that an ACK with SACK blocks departs. A duplicate is reported once.
    pub(super) fn blocks_sent(&mut self) {
        self.duplicate = (0, 0);
    }

    /// True if there are SACK blocks to send.
    pub(super) fn has_blocks(&self) -> bool {
        self.ahead.is_some() || self.duplicate.1 > 0
    }

    /// At most `room` SACK blocks in this order: a duplicate, the range that grew last, the ranges
    /// reported before, other ranges. `base` is the sequence number of offset zero.
    ///
    /// Source: RFC 2018, section 4; RFC 2883, section 4.
    pub(super) fn blocks(&mut self, base: u32, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let numbers =
            |(from, to): (u64, u64)| (base.wrapping_add(low(from)), base.wrapping_add(low(to)));
        let mut reported = [(0, 0); SackBlocks::MOST];
        let mut count = 0;
        let (from, to) = std::mem::take(&mut self.duplicate);
        if to > 0 {
            if self.dsack {
                blocks.push(numbers((from, to)));
            }
            // If the duplicate lies within a stored range, that range is reported as well.
            self.remember(from);
        }
        let Some(Ahead { held, recent }) = self.ahead.as_deref() else { return blocks };
        let (remembered, others) = if self.recent_only {
            (self.remembered, 0)
        } else {
            (SackBlocks::MOST, SackBlocks::MOST)
        };
        let recent = recent.iter().take(remembered).filter_map(|place| held.around(*place));
        for range in recent.chain(held.iter().take(others)) {
            if blocks.as_slice().len() >= room || count >= room {
                break;
            }
            if !reported[..count].contains(&range) {
                reported[count] = range;
                count += 1;
                blocks.push(numbers(range));
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests;
