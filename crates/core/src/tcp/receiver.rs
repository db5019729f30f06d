//! The half of an end point that receives: reassembly, acknowledgements, the receive window.
//!
//! Source: RFC 9293, section 3.10.7.4; RFC 5681, section 4.2 (delayed ACKs); RFC 2018, section 4 and
//! RFC 2883 (SACK blocks); RFC 3168, section 6.1.3 and RFC 8257, section 3.2 (ECN-Echo).

use super::profile::{Config, Details, EcnMode};
use super::reassembly::{Reassembly, Taken};
use super::sequence::low;
use crate::Time;
use crate::packet::{Ecn, SackBlocks};

/// Data of a segment, by its place in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Place of its first byte, relative to the next expected.
    pub(super) offset: i64,
    pub(super) len: u64,
    pub(super) fin: bool,
    pub(super) ecn: Ecn,
    /// The peer has reduced its window (CWR).
    pub(super) reduced: bool,
}

/// What arrived ahead of what is missing.
#[derive(Debug)]
struct Ahead {
    held: Reassembly,
    /// Places whose ranges are told first, the latest first; [`NOWHERE`] for none.
    recent: [u64; SackBlocks::MOST],
}

/// In no range of the stream, nor its end.
const NOWHERE: u64 = u64::MAX;

impl Default for Ahead {
    fn default() -> Self {
        Self { held: Reassembly::default(), recent: [NOWHERE; SackBlocks::MOST] }
    }
}

/// The half of an end point that receives.
#[derive(Debug)]
pub(super) struct Receiver {
    /// All below has arrived.
    next: u64,
    /// The application has read so much.
    read: u64,
    /// Place up to which the window was offered.
    offered: u64,
    buffer: u64,
    segment: u64,
    /// With less than this left of the window, an ACK reports at once that it has opened by much.
    updated_below: u64,
    /// A segment that arrived twice is reported (RFC 2883).
    dsack: bool,
    /// Only the ranges of so many arrivals are reported.
    remembered: usize,
    recent_only: bool,
    /// Shift of the window field (RFC 7323, section 2.2).
    scale: u8,
    /// What arrived ahead of what is missing, while anything is.
    ahead: Option<Box<Ahead>>,
    /// What arrived twice and is to be told; empty for nothing.
    duplicate: (u64, u64),
    /// Where the stream ends, once a FIN said so; [`NOWHERE`] before.
    end: u64,
    /// Segments not acknowledged yet, and when they must be.
    unacknowledged: u8,
    /// [`Time::MAX`] for never.
    deadline: Time,
    at_once: bool,
    quick: u8,
    /// ECN-Echo is to be told; the last data segment was marked.
    echo: bool,
    /// Before the state of marks changed: what is to be acknowledged with the old state.
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

    /// The handshake agreed on this.
    pub(super) fn establish(&mut self, scale: u8, ecn: bool, details: &Details) {
        self.scale = scale;
        if ecn {
            self.ecn = details.ecn;
        }
    }

    /// The next place expected, a FIN counted.
    pub(super) fn next(&self) -> u64 {
        self.next + u64::from(self.is_finished())
    }

    /// Data bytes that have arrived in order.
    pub(super) const fn received(&self) -> u64 {
        self.next
    }

    /// Data bytes in order that were not read.
    pub(super) const fn readable(&self) -> u64 {
        self.next - self.read
    }

    /// All data and the FIN have arrived.
    pub(super) fn is_finished(&self) -> bool {
        self.end == self.next
    }

    /// The application has read `bytes` more. A window that opens much is told at once.
    ///
    /// Source: RFC 9293, section 3.8.6.2.2 (no silly windows).
    pub(super) fn read(&mut self, bytes: u64) {
        self.read = self.read.saturating_add(bytes).min(self.next);
        let gain = self.window_end().saturating_sub(self.offered);
        let left = self.offered.saturating_sub(self.next);
        if gain >= (self.buffer / 2).min(2 * self.segment) && left < self.updated_below {
            self.at_once = true;
        }
    }

    /// The window field can show no more than this.
    fn window_end(&self) -> u64 {
        (self.read + self.buffer).min(self.next + (u64::from(u16::MAX) << self.scale))
    }

    /// The window to offer now. What was offered is taken; shown, the right edge may move left by less
    /// than a step of the scale, which a sender must bear (RFC 7323, section 2.4).
    pub(super) fn offer(&mut self) -> u16 {
        let window = self.window_end().saturating_sub(self.next) >> self.scale;
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        self.offered = self.offered.max(self.next + (u64::from(window) << self.scale));
        window
    }

    /// Whether a segment at `offset` that takes up `len` lies within what may come.
    ///
    /// Source: RFC 9293, section 3.10.7.4, the four cases.
    pub(super) fn accepts(&self, offset: i64, len: u64) -> bool {
        let window = self.offered.max(self.next) - self.next;
        let inside = |at: i64| at >= 0 && at.unsigned_abs() < window.max(1);
        let last = offset.saturating_add_unsigned(len).saturating_sub(1);
        match (len, window) {
            (0, 0) => offset == 0,
            (0, _) => inside(offset),
            // A window of zero takes no data; ACKs of such segments are looked at all the same.
            (_, 0) => false,
            (_, _) => inside(offset) || inside(last) || (offset < 0 && last >= 0),
        }
    }

    /// Takes in the data of an acceptable segment; returns the range it holds that may be new.
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

    /// The next data that was expected, with nothing behind a hole.
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

    /// Beyond a hole, or into one: told at once (RFC 5681, section 4.2).
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

    /// The FIN is there, and all before it.
    fn finish_if_whole(&mut self) {
        if self.is_finished() {
            self.at_once = true;
        }
    }

    /// A range arrived that was there already: told once, as D-SACK, and at once.
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

    /// Whether ACKs carry ECN-Echo.
    pub(super) const fn echo(&self) -> bool {
        self.echo
    }

    /// An ACK must go now.
    pub(super) fn must_acknowledge(&self, now: Time) -> bool {
        self.at_once || self.deadline <= now
    }

    /// A segment arrived that lies outside the window.
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

    /// An ACK is to go with the next poll.
    pub(super) fn acknowledge_at_once(&mut self) {
        self.at_once = true;
    }

    /// When the next ACK is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        (self.deadline != Time::MAX).then_some(self.deadline)
    }

    /// An ACK leaves.
    pub(super) fn acknowledged(&mut self) {
        (self.at_once, self.unacknowledged, self.deadline) = (false, 0, Time::MAX);
    }

    /// An ACK that carries blocks leaves: a duplicate is told once.
    pub(super) fn blocks_told(&mut self) {
        self.duplicate = (0, 0);
    }

    /// There is something selective to tell.
    pub(super) fn has_blocks(&self) -> bool {
        self.ahead.is_some() || self.duplicate.1 > 0
    }

    /// At most `room` SACK blocks: a duplicate, then the range that grew last, then those told
    /// before, then others; `base` is the sequence number of place zero.
    ///
    /// Source: RFC 2018, section 4; RFC 2883, section 4.
    pub(super) fn blocks(&mut self, base: u32, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let numbers =
            |(from, to): (u64, u64)| (base.wrapping_add(low(from)), base.wrapping_add(low(to)));
        let mut told = [(0, 0); SackBlocks::MOST];
        let mut count = 0;
        let (from, to) = std::mem::take(&mut self.duplicate);
        if to > 0 {
            if self.dsack {
                blocks.push(numbers((from, to)));
            }
            // A duplicate within a range that is held is told together with that range.
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
            if !told[..count].contains(&range) {
                told[count] = range;
                count += 1;
                blocks.push(numbers(range));
            }
        }
        blocks
    }
}

#[cfg(test)]
mod tests;
