//! The gate of a class: it releases ACKs while the queue of the class is below its target.
//!
//! Source: `postack`, R001-9 P3, and R001-10 for downloads.
//!
//! Differs:
//! - Credit expires after one and a half round trips, after 2 ms at least (not 4) and a second at most: 200
//!   ms are less than a round trip by satellite. A recovering sender uses half of its credit only, and the
//!   queue would run empty until the rest expires.
//! - Data uses credit of one round trip before, not the oldest credit. Otherwise newer credit would keep
//!   unused credit from expiring, and the gate would request less than the rate for ever.
//! - The time that credit is outstanding is measured (Little's law), not assumed to be the shortest round
//!   trip. With round trips that vary by 1 ms, the gate would request nine tenths of 300 Mbit/s.
//! - While packets of other flows wait too, the target is a segment of every flow with held ACKs.
//! - Flows that have sent FIN get no credit, as no data would use it. Application-limited flows get no credit
//!   while the rate carries their calls within 20 ms.

use std::time::Duration;

use super::calendar::Calendar;
use super::hold::{Flow, Holds};
use super::place::Wanted;
use super::shares::Shares;
use super::uncalled::Uncalled;
use super::{Call, Queue};
use crate::packet::{Fifo, Member, Ring, make_room};
use crate::time::nanos;
use crate::{Bytes, Cx, Rate, Time};

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
    response: Response,
    /// When the rate has carried what was called for of answers.
    answers: Time,
}

/// Leave lasts at least this, and at most that.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_secs(1);

/// Answers are called for so far ahead of what the rate carries; what is called for beyond that is waited for.
const AHEAD: Duration = Duration::from_millis(20);

impl Gate {
    /// Data has come from a sender that is `near` by.
    pub(super) fn on_data(&mut self, now: Time, near: Duration, bytes: u32, segments: u16) {
        self.response.look(now, self.outstanding.total(now));
        self.outstanding.take(now, lasts(near).saturating_sub(near), bytes);
        self.wanted.see(bytes / u32::from(segments.max(1)));
        if let Some(span) = self.response.came(bytes) {
            self.wanted.respond(span);
        }
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
        let others = queue.others || queue.apart || queue.ahead.others;
        self.wanted.bytes(rate, queue.ahead.grain, others)
    }

    /// An ACK of `flow` that calls for `bytes` went on, while what all send leaves at `rate`.
    pub(super) fn asks(&mut self, now: Time, rate: Rate, flow: &mut Flow, bytes: u32) {
        if bytes == 0 || flow.has_ended() {
            return;
        }
        flow.asked(now);
        if flow.is_answering() && self.carries(now, rate, bytes) {
            self.called += u64::from(bytes);
        } else {
            self.give(now, flow.near(), bytes);
        }
    }

    /// Whether `rate` carries so much more of answers by [`AHEAD`] from now.
    fn carries(&mut self, now: Time, rate: Rate, bytes: u32) -> bool {
        let begins = self.answers.max(now);
        let carries = begins.since(now) <= AHEAD;
        if carries {
            self.answers = begins + rate.time_for(Bytes(bytes.into()));
        }
        carries
    }

    /// Gives leave for `bytes` to a sender that is `near` by.
    fn give(&mut self, now: Time, near: Duration, bytes: u32) {
        self.wanted.called(near, bytes);
        self.called += u64::from(bytes);
        self.response.look(now, self.outstanding.total(now));
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
        shares: &Shares,
        queue: Queue,
        holds: &mut Holds,
        uncalled: &mut Uncalled,
        out: &mut Fifo,
    ) -> Call {
        let (rate, mut more) = (shares.rate(), false);
        while let Some(member) = self.turns.first() {
            if holds.releasable(member) == 0 {
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
                *credit += i64::from(quantum(holds, member, shares.weight(member)));
                self.turns.rotate();
                continue;
            }
            let Some(cost) = holds.release(cx, member, out) else { continue };
            *credit -= i64::from(cost);
            uncalled.asked(member, cost);
            self.asks(cx.now, queue.ahead.carries_of(rate), holds.flow(member), cost);
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

/// How long leave is outstanding on average, until it is used or has run out.
///
/// Source: Little's law, doi 10.1287/opre.9.3.383: the mean number in a system is the rate of arrivals times
/// the mean time in it.
#[derive(Default)]
struct Response {
    /// Outstanding bytes times nanoseconds, since the last sample.
    area: u64,
    /// Bytes that came since then.
    came: u64,
    last: Time,
}

impl Response {
    /// Since it was last looked, `outstanding` bytes were on their way.
    fn look(&mut self, now: Time, outstanding: u64) {
        let span = nanos(now.since(self.last));
        self.area = self.area.saturating_add(outstanding.saturating_mul(span));
        self.last = self.last.max(now);
    }

    /// So many came; how long leave for them was outstanding, if enough have come to say.
    fn came(&mut self, bytes: u32) -> Option<Duration> {
        self.came += u64::from(bytes);
        if self.came < SAMPLE {
            return None;
        }
        let span = self.area / self.came;
        (self.area, self.came) = (0, 0);
        Some(Duration::from_nanos(span))
    }
}

/// Bytes that a sample is of.
const SAMPLE: u64 = 1 << 16;

/// How long leave lasts for a sender that is `near` by.
pub(super) fn lasts(near: Duration) -> Duration {
    (near + near / 2).clamp(SHORTEST, LONGEST)
}

/// Two full segments for each unit of weight.
///
/// Source: `postack`, R001-9.
pub(super) fn quantum(holds: &mut Holds, member: Member, weight: u32) -> u32 {
    holds.flow(member).segment().saturating_mul(2).saturating_mul(weight.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::Ahead;
    use super::*;

    const FRAME: u32 = 1_514;

    /// Of 5,000 turns, each what a segment takes, in how many one leaves, and how many wait on average, if
    /// data takes up to `varies` more than the shortest round trip of 200 us to come.
    fn play(varies: u64) -> (u32, u64) {
        let (near, rate) = (Duration::from_micros(200), Rate::from_mbps(300));
        let turn = rate.time_for(Bytes(FRAME.into()));
        let (mut gate, mut coming) = (Gate::default(), Vec::new());
        let ahead = Ahead { room: Bytes(u64::MAX), ..Ahead::default() };
        let mut queue = Queue { ahead, ..Queue::default() };
        let (mut left, mut waited, mut called) = (0, 0, 0_u64);
        for n in 0..6_000_u32 {
            let now = Time::ZERO + turn * n;
            for _ in coming.extract_if(.., |at| *at <= now) {
                gate.on_data(now, near, FRAME, 1);
                queue.own.0 += u64::from(FRAME);
            }
            if queue.own.0 > 0 {
                queue.own.0 -= u64::from(FRAME);
                left += u32::from(n >= 1_000);
            }
            waited += queue.own.0;
            while gate.is_open(now, rate, queue) {
                gate.give(now, near, FRAME);
                gate.called = 0;
                called += 1;
                coming.push(now + near + Duration::from_micros(called * 617 % (varies + 1)));
            }
        }
        (left, waited / u64::from(FRAME) / 6_000)
    }

    /// Kills: an underflow; a span that is counted twice when time is where it was.
    #[test]
    fn a_clock_that_steps_back_makes_no_leave_outstanding_for_longer() {
        let mut response = Response::default();
        response.look(Time::from_millis(10), 0);
        for ms in [4, 10, 11] {
            response.look(Time::from_millis(ms), SAMPLE);
        }
        assert_eq!(response.came(1 << 16), Some(Duration::from_millis(1)));
    }

    /// Kills: asking by the shortest round trip.
    #[test]
    fn as_much_is_asked_for_as_is_carried_while_data_comes_sooner_and_later() {
        for varies in [0, 300, 1_000, 1_800] {
            let (left, waited) = play(varies);
            assert!(left >= 4_950 && waited <= 8, "{varies} us: {left} left, {waited} waited");
        }
    }
}
