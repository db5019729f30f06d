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

use super::Queue;
use super::calendar::Calendar;
use super::hold::Holds;
use crate::packet::{Fifo, Member, Ring, make_room};
use crate::{Cx, Rate, Time};

/// What a class has asked for, and whose ACK goes on next.
#[derive(Default)]
pub(super) struct Gate {
    outstanding: Calendar,
    turns: Ring,
    /// By member: bytes left of its turn; negative if its last ACK was worth more.
    credits: Vec<i64>,
    waiting: u32,
    /// Round trip to the senders, in microseconds, averaged over what they are asked for.
    near_us: u64,
    /// The longest full segment, as charged.
    segment: u32,
}

/// Full segments the queue holds at least, and beyond what is on its way.
///
/// Source: `postack`, R001-9: `max(2..4 MTU, rate * rtt_near + 2 MTU)`.
const LEAST: u64 = 3;
const BEYOND: u64 = 2;

/// An Ethernet frame, until a longer one is seen.
const FRAME: u32 = 1_514;

/// Leave lasts at least this, and at most that.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_secs(1);

/// The average is over this many bytes.
const AVERAGED: u64 = 1 << 16;

impl Gate {
    /// Data has come from a sender that is `near` by.
    pub(super) fn on_data(&mut self, now: Time, near: Duration, bytes: u32, segments: u16) {
        self.outstanding.take(now, lasts(near).saturating_sub(near), bytes);
        self.segment = self.segment.max(bytes / u32::from(segments.max(1)));
    }

    /// Whether more is wanted.
    pub(super) fn is_open(&mut self, now: Time, rate: Rate, queue: Queue) -> bool {
        queue.controlled.0 + self.outstanding.total(now) < self.target(rate, queue)
    }

    /// What the queue, and what is on its way to it, should be.
    fn target(&self, rate: Rate, queue: Queue) -> u64 {
        let segment = u64::from(self.segment.max(FRAME));
        let on_its_way = rate.bytes_in(Duration::from_micros(self.near_us) + queue.grain).0;
        let own = (segment * LEAST).max(on_its_way + segment * BEYOND);
        if queue.others { own.max(on_its_way + segment * u64::from(self.waiting)) } else { own }
    }

    /// An ACK that calls for `bytes` of `member` went on.
    pub(super) fn called(&mut self, now: Time, near: Duration, bytes: u32) {
        if bytes == 0 {
            return;
        }
        let near_us = u64::try_from(near.as_micros()).unwrap_or(u64::MAX).min(1_000_000);
        let part = u64::from(bytes).min(AVERAGED);
        self.near_us = (self.near_us * (AVERAGED - part) + near_us * part) / AVERAGED;
        self.outstanding.add(now, lasts(near), bytes);
    }

    /// ACKs of `member` wait.
    pub(super) fn wait(&mut self, member: Member, quantum: u32) {
        if self.turns.push(member) {
            make_room(&mut self.credits, member.index(), 0);
            self.credits[member.index()] = i64::from(quantum);
            self.waiting += 1;
        }
    }

    /// Lets ACKs go on, byte for byte in turn, as long as more is wanted.
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
    ) {
        while let Some(member) = self.turns.first() {
            if holds.held(member) == 0 {
                self.turns.pop();
                self.waiting -= 1;
                continue;
            }
            if !self.is_open(cx.now, rate, queue) {
                return;
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
    }

    /// When so much of the leave that was given has run out that more is wanted; none if what is in the
    /// queue has to leave it first.
    pub(super) fn ready_at(&self, rate: Rate, queue: Queue) -> Option<Time> {
        self.turns.first()?;
        self.outstanding.below(self.target(rate, queue).checked_sub(queue.controlled.0)?)
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
