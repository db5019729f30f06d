//! The gate of a class: ACKs go on while its queue wants more.
//!
//! Source: `postack`, R001-9 P3, and R001-10 for downloads. Differs: leave that was given runs out
//! after one and a half round trips, within a second and not 200 ms, which is less than a round trip
//! by satellite, and on a LAN after 2 ms and not 4: a sender that recovers uses half of its leave
//! only, and the queue ran empty until the rest had run out (1 % loss: 4 % of the goodput). Data uses the
//! leave of a round trip before, not the oldest: else what was for nothing is kept from running out by
//! what is younger, and less than the rate is asked for for good (downloads: up to a third of it). While packets of others wait too, the queue is to hold a segment of every flow that
//! has ACKs here, so that each has its turn among them.

use std::time::Duration;

use super::calendar::Calendar;
use super::hold::Holds;
use super::place::Wanted;
use super::{Call, Queue};
use crate::packet::{Fifo, Member, Ring, make_room};
use crate::{Cx, Rate, Time};

/// What a class has asked for, and whose ACK goes on next.
#[derive(Default)]
pub(super) struct Gate {
    outstanding: Calendar,
    turns: Ring,
    /// By member: bytes left of its turn; negative if its last ACK was worth more.
    credits: Vec<i64>,
    wanted: Wanted,
    /// Bytes called for since it was last said how many.
    called: u64,
}

/// Leave lasts at least this, and at most that.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_secs(1);

impl Gate {
    /// Data has come from a sender that is `near` by.
    pub(super) fn on_data(&mut self, now: Time, near: Duration, bytes: u32, segments: u16) {
        self.outstanding.take(now, lasts(near).saturating_sub(near), bytes);
        self.wanted.see(bytes / u32::from(segments.max(1)));
    }

    /// Whether more is wanted, here and behind.
    pub(super) fn is_open(&mut self, now: Time, rate: Rate, queue: Queue) -> bool {
        queue.ahead.room.0 > self.called && self.wants_more(now, rate, queue)
    }

    fn wants_more(&mut self, now: Time, rate: Rate, queue: Queue) -> bool {
        queue.own.0 + self.outstanding.total(now) < self.target(rate, queue)
    }

    /// What the queue, and what is on its way to it, should be.
    fn target(&self, rate: Rate, queue: Queue) -> u64 {
        let others = queue.others || queue.ahead.others;
        self.wanted.bytes(rate, queue.ahead.grain, others)
    }

    /// An ACK that calls for `bytes` of `member` went on.
    pub(super) fn called(&mut self, now: Time, near: Duration, bytes: u32) {
        if bytes == 0 {
            return;
        }
        self.wanted.called(near, bytes);
        self.called += u64::from(bytes);
        self.outstanding.add(now, lasts(near), bytes);
    }

    /// ACKs of `member` wait.
    pub(super) fn wait(&mut self, member: Member, quantum: u32) {
        if self.turns.push(member) {
            make_room(&mut self.credits, member.index(), 0);
            self.credits[member.index()] = i64::from(quantum);
            self.wanted.waiting += 1;
        }
    }

    /// Lets ACKs go on, byte for byte in turn, as long as more is wanted; says what was called for.
    ///
    /// Source: `postack`, R001-9: an ACK a turn shares by how much each acknowledges.
    pub(super) fn serve(
        &mut self,
        cx: &mut Cx<'_>,
        rate: Rate,
        queue: Queue,
        holds: &mut Holds,
        weight: impl Fn(Member) -> u32,
        out: &mut Fifo,
    ) -> Call {
        let mut more = false;
        while let Some(member) = self.turns.first() {
            if holds.held(member) == 0 {
                self.turns.pop();
                self.wanted.waiting -= 1;
                continue;
            }
            if !self.wants_more(cx.now, rate, queue) {
                break;
            }
            if queue.ahead.room.0 <= self.called {
                more = true;
                break;
            }
            let credit = &mut self.credits[member.index()];
            if *credit <= 0 {
                *credit += i64::from(quantum(holds, member, weight(member)));
                self.turns.rotate();
                continue;
            }
            let Some(cost) = holds.release(cx, member, out) else { continue };
            *credit -= i64::from(cost);
            self.called(cx.now, holds.flow(member).near(), cost);
        }
        let called = std::mem::take(&mut self.called);
        let outstanding = self.outstanding.total(cx.now);
        let active = outstanding > 0 || self.turns.first().is_some();
        let rate = if active { rate.bps() } else { 0 };
        Call { outstanding, called, rate, wanted: self.wanted, more }
    }

    /// When enough of the leave that was given has run out: that more is wanted, or, where others may wait
    /// for it, any. None if what is in the queue has to leave it first.
    pub(super) fn ready_at(&self, rate: Rate, queue: Queue) -> Option<Time> {
        if queue.ahead.rate.is_some() {
            return self.outstanding.next();
        }
        self.turns.first()?;
        self.outstanding.below(self.target(rate, queue).checked_sub(queue.own.0)?)
    }

    /// Whether nobody's ACKs wait.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.first().is_none()
    }
}

/// How long leave lasts for a sender that is `near` by.
fn lasts(near: Duration) -> Duration {
    (near + near / 2).clamp(SHORTEST, LONGEST)
}

/// Two full segments for each unit of weight.
///
/// Source: `postack`, R001-9.
pub(super) fn quantum(holds: &mut Holds, member: Member, weight: u32) -> u32 {
    holds.flow(member).segment().saturating_mul(2).saturating_mul(weight.max(1))
}
