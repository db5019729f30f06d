//! The gate, the default release rule for the held ACKs of an aggregate: an ACK departs while
//!
//! `backlog + credit < target`.
//!
//! The credit is data that departed ACKs have requested and that has not arrived yet. The target is the data
//! of a round trip to the senders plus two frames of 1,514 bytes, and at least three frames.
//!
//! Source: `postack`, R001-9 P3 (the gate of a class; here each aggregate has one), and R001-10 for
//! downloads.
//!
//! Differs: credit expires after one to one and a half round trips, which count as 1.4 ms at least and 1 s at
//! most. The source has 200 ms, which is less than a round trip by satellite. A recovering sender uses half of
//! its credit only, and the queue would run empty until the rest expires.
//!
//! Differs: the time that credit is outstanding is measured (Little's law). The shortest round trip is too
//! little: if round trips vary by 1 ms, the gate would request nine tenths of 300 Mbit/s.
//!
//! Differs: while packets of other flows wait too, the target has room for a further segment of every
//! backlogged flow. One other packet is a ping, which adds nothing.
//!
//! Differs: requests are at most 20 ms ahead of the rate. Without this bound, a gap in the data of a long
//! path stops the releases, so the data of the next round trip has the same gap.
//!
//! Differs: flows that have sent FIN get no credit, as no data would use it. Application-limited flows get
//! no credit while the rate carries their requests within 20 ms.

use std::time::Duration;

use super::credit::Credits;
use crate::ack::constants::{AHEAD, MAX_HOLD, PER_ACK, UNSCALED};
use crate::ack::hold::{HeldFlow, Holds};
use crate::ack::shares::Shares;
use crate::ack::uncalled::Uncalled;
use crate::ack::{CreditAccount, EgressState, Queue};
use crate::flow::span_of;
use crate::packet::{DeficitRoundRobin, FRAME, Fifo, First, FlowIndex, Packet};
use crate::time::nanos;
use crate::{Bytes, Cx, Rate, Time};

/// The requests of an aggregate, and the order in which its ACKs depart.
#[derive(Default)]
pub(in crate::ack) struct Gate {
    outstanding: Credits,
    /// Deficit round robin of the flows with held ACKs, and the flow whose turn it is.
    turns: DeficitRoundRobin<FlowIndex>,
    waiting: First<FlowIndex>,
    response: Response,
    /// Time at which the rate has carried all requests to application-limited flows.
    answers: Time,
    /// Time at which the rate has carried the data of all requests, if it carries them one after the other.
    carried: Time,
    /// Time at which the next request is no longer too early. `None` if it is not too early now.
    paced: Option<Time>,
}

impl Gate {
    /// Notes `packet`, data of `flow`, which is `member`. The data uses credit.
    pub(in crate::ack) fn on_data(
        &mut self,
        now: Time,
        member: FlowIndex,
        flow: &mut HeldFlow,
        packet: &Packet,
    ) {
        let bytes = packet.cost;
        flow.came(now, bytes);
        self.response.look(now, self.outstanding.total());
        self.outstanding.take(member, flow.near(), bytes);
        if let Some(span) = self.response.came(bytes) {
            self.outstanding.account.respond(span);
        }
    }

    /// Outstanding credit of `member`, in bytes.
    pub(in crate::ack) fn credit_of(&self, member: FlowIndex) -> u64 {
        self.outstanding.of(member)
    }

    /// Lets credit get older until `now`.
    pub(in crate::ack) fn advance(&mut self, now: Time) {
        self.outstanding.advance(now);
    }

    /// Ends the credit of `member`, which leaves the aggregate.
    pub(in crate::ack) fn give_back(&mut self, member: FlowIndex) {
        self.outstanding.give_back(member);
    }

    /// Returns `true` if the aggregate wants more data, and its egress has room.
    pub(in crate::ack) fn is_open(&mut self, now: Time, rate: Rate, queue: Queue) -> bool {
        queue.ahead.room.0 > self.outstanding.account.called && self.wants_more(now, rate, queue)
    }

    /// Returns `true` if backlog plus credit is below the target, and the next request is not too early.
    ///
    /// Requests that the rate has not carried yet count as no more than backlog plus credit. So on a short path
    /// the target is reached before the limit of [`AHEAD`].
    fn wants_more(&mut self, now: Time, rate: Rate, queue: Queue) -> bool {
        let all = queue.own.0 + self.outstanding.total();
        let early = rate.bytes_in(self.carried.since(now)).0.min(all);
        let most = self.target(AHEAD, rate, queue);
        let wants = all < most || all < self.target(Duration::MAX, rate, queue);
        let until = || self.carried.before(rate.time_for(Bytes(most - 1))) + TICK;
        self.paced = (wants && early >= most).then(until);
        wants && self.paced.is_none()
    }

    /// Target for backlog plus credit in bytes, if data comes `longest` after its request at the latest.
    fn target(&self, longest: Duration, rate: Rate, queue: Queue) -> u64 {
        let others = if queue.apart { u64::MAX } else { queue.others.max(queue.ahead.others) };
        self.outstanding.account.within(longest, rate, queue.ahead.poll_interval, others)
    }

    /// Notes that an ACK of `flow`, which is `member`, departed and requested `bytes`. `ahead` is the state of the
    /// egress.
    pub(in crate::ack) fn asks(
        &mut self,
        now: Time,
        shares: &Shares,
        ahead: EgressState,
        member: FlowIndex,
        flow: &mut HeldFlow,
        bytes: u32,
    ) {
        if bytes == 0 || flow.has_ended() {
            return;
        }
        let rate = shares.rate();
        let carried = flow.is_answering() && self.carries(now, ahead.carries_of(rate), bytes);
        flow.asked(now, if carried { 0 } else { bytes });
        if carried {
            self.outstanding.account.called += u64::from(bytes);
        } else {
            self.carried = self.carried.max(now) + rate.time_for(Bytes(bytes.into()));
            self.outstanding.account.ask(flow.near(), bytes, shares.is_alone(member));
            self.response.look(now, self.outstanding.total());
            self.outstanding.add(now, member, flow.near(), bytes);
        }
    }

    /// Returns `true` if `rate` carries the earlier requests to application-limited flows within [`AHEAD`].
    /// If so, adds this request to them.
    fn carries(&mut self, now: Time, rate: Rate, bytes: u32) -> bool {
        let begins = self.answers.max(now);
        let carries = begins.since(now) <= AHEAD;
        if carries {
            self.answers = begins + rate.time_for(Bytes(bytes.into()));
        }
        carries
    }

    /// Adds `member`, which has held ACKs, to the flows that release ACKs in turn.
    pub(in crate::ack) fn wait(&mut self, member: FlowIndex, quantum: u32) {
        self.turns.join(&mut self.waiting, member, quantum.into());
    }

    /// Releases ACKs in turn, byte for byte, while the gate is open. Returns the requests.
    ///
    /// Source: `postack`, R001-9 (flows take turns byte for byte). If each turn released one ACK, a flow whose ACKs acknowledge
    /// more bytes would get more.
    pub(in crate::ack) fn serve(
        &mut self,
        cx: &mut Cx<'_>,
        shares: &Shares,
        queue: Queue,
        holds: &mut Holds,
        uncalled: &mut Uncalled,
        out: &mut Fifo,
    ) -> CreditAccount {
        let (rate, mut more) = (shares.rate(), false);
        let segment = self.waiting.member().map_or(FRAME, |it| holds.flow(it).segment().max(FRAME));
        self.outstanding.account.backlogged = u64::from(shares.backlogged()) * u64::from(segment);
        while let Some(member) = self.waiting.member() {
            if holds.releasable(member) == 0 {
                self.turns.remove(&mut self.waiting, member);
                continue;
            }
            if !self.wants_more(cx.now, rate, queue) {
                break;
            }
            if queue.ahead.room.0 <= self.outstanding.account.called {
                more = true;
                break;
            }
            let turn = |it| i64::from(quantum(holds, it, shares.weight(it)));
            if self.turns.skip_spent(&mut self.waiting, turn) {
                continue;
            }
            holds.flow(member).set_outstanding(self.outstanding.of(member));
            let before = holds.flow(member).departed();
            let Some(cost) = holds.release(cx, member, out) else { continue };
            self.turns.charge(member, cost.into());
            uncalled.asked(member, holds.flow(member).called_for(before, cost));
            self.asks(cx.now, shares, queue.ahead, member, holds.flow(member), cost);
        }
        let requests = self.outstanding.total() > 0 || !self.is_idle();
        let active = requests || shares.active_until() > cx.now;
        let account = &mut self.outstanding.account;
        account.more = more;
        (account.rate, account.backlogged) =
            if active { (rate.bps(), account.backlogged) } else { (0, 0) };
        let report = *account;
        account.called = 0;
        report
    }

    /// Time at which credit is next given back, requests are no longer too early, or the aggregate is no longer
    /// active. With an egress rate, ACKs of other aggregates may wait for that credit. Without one, credit matters
    /// only while ACKs are held and the backlog is below the target.
    pub(in crate::ack) fn ready_at(&self, shares: &Shares, queue: Queue) -> Option<Time> {
        let waits = !self.is_idle();
        let may_open = || waits && queue.own.0 < self.target(Duration::MAX, shares.rate(), queue);
        let counts = queue.ahead.rate.is_some() || may_open();
        let credit = self.outstanding.next().filter(|_| counts);
        let rests = !waits && self.outstanding.next().is_none();
        let ends = (rests && self.outstanding.account.rate > 0).then(|| shares.active_until());
        Time::earliest(Time::earliest(credit, ends), self.paced.filter(|_| waits))
    }

    /// Time from a request to its data.
    pub(in crate::ack) fn way(&self) -> Duration {
        self.outstanding.account.way()
    }

    /// Returns `true` if no ACK waits for a turn.
    pub(in crate::ack) fn is_idle(&self) -> bool {
        self.waiting.member().is_none()
    }
}

/// Mean time for which credit is outstanding: until data uses it, or until it expires.
///
/// Source: Little's law, doi 10.1287/opre.9.3.383: the mean number in a system is the rate of arrivals
/// times the mean time in it.
#[derive(Default)]
struct Response {
    /// Outstanding bytes times nanoseconds, since the last sample.
    area: u64,
    /// Bytes that arrived since the last sample.
    came: u64,
    last: Time,
}

impl Response {
    /// Adds the time since the last update, in which `outstanding` bytes of credit were outstanding.
    fn look(&mut self, now: Time, outstanding: u64) {
        let span = nanos(now.since(self.last));
        self.area = self.area.saturating_add(outstanding.saturating_mul(span));
        self.last = self.last.max(now);
    }

    /// Adds arrived bytes. Returns the mean time of their credit, once in [`UNSCALED`] bytes.
    fn came(&mut self, bytes: u32) -> Option<Duration> {
        self.came += u64::from(bytes);
        if self.came < UNSCALED.into() {
            return None;
        }
        let span = self.area / self.came;
        (self.area, self.came) = (0, 0);
        Some(Duration::from_nanos(span))
    }
}

/// Margin above the rounding error of a time that is computed from bytes.
const TICK: Duration = Duration::from_micros(1);

/// Shortest lifetime of credit: two ticks of the clock that ends credit.
fn shortest() -> Duration {
    span_of(2)
}

/// Lifetime of credit for a sender at a round trip of `near`, which counts as [`MAX_HOLD`] at most.
pub(in crate::ack) fn lasts(near: Duration) -> Duration {
    let near = near.min(MAX_HOLD);
    (near + near / 2).max(shortest())
}

/// [`lasts`] in whole microseconds. The gate computes a target several times for each ACK, and integers
/// take fewer instructions than a [`Duration`].
pub(in crate::ack) fn lasts_us(near_us: u64) -> u64 {
    let near = near_us.min(micros(MAX_HOLD));
    (near + near / 2).max(micros(shortest()))
}

/// Whole microseconds of `span`.
pub(in crate::ack) fn micros(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000).saturating_add(span.subsec_micros().into())
}

/// Two full segments for each unit of weight.
///
/// Source: `postack`, R001-9 (a quantum of two segments).
pub(in crate::ack) fn quantum(holds: &mut Holds, member: FlowIndex, weight: u32) -> u32 {
    holds.flow(member).segment().saturating_mul(PER_ACK).saturating_mul(weight.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack::Known;

    const MEMBER: FlowIndex = FlowIndex(0);

    /// Catches: a lifetime in microseconds that differs from the same lifetime as a duration.
    #[test]
    fn the_lifetime_of_credit_is_the_same_in_both_units() {
        for near in [0, 1, 3, 1_397, 1_398, 1_399, 39_999, 999_999, 1_000_000, 1_000_001, u64::MAX]
        {
            assert_eq!(lasts_us(near), micros(lasts(Duration::from_micros(near))), "{near} us");
        }
    }

    const NEAR: Duration = Duration::from_micros(200);

    /// A flow whose sender is at a round trip of `near`.
    fn at(near: Duration) -> HeldFlow {
        let mut flow = HeldFlow::default();
        flow.learn(&Known { near: Some(near), ..Known::default() });
        flow
    }

    /// Departures in 5,000 turns of one segment each, and the mean backlog in segments. Data arrives up to
    /// `varies` us later than the shortest round trip of 200 us.
    fn play(varies: u64) -> (u32, u64) {
        let rate = Rate::from_mbps(300);
        let shares = Shares::new(rate, Duration::ZERO);
        let turn = rate.time_for(Bytes(FRAME.into()));
        let frame = Packet { cost: FRAME, segments: 1, ..Packet::default() };
        let (mut gate, mut flow) = (Gate::default(), at(NEAR));
        let mut coming = Vec::new();
        let ahead = EgressState { room: Bytes(u64::MAX), ..EgressState::default() };
        let mut queue = Queue { ahead, ..Queue::default() };
        let (mut left, mut waited, mut called) = (0, 0, 0_u64);
        for n in 0..6_000_u32 {
            let now = Time::ZERO + turn * n;
            for _ in coming.extract_if(.., |at| *at <= now) {
                gate.on_data(now, MEMBER, &mut flow, &frame);
                queue.own.0 += u64::from(FRAME);
            }
            if queue.own.0 > 0 {
                queue.own.0 -= u64::from(FRAME);
                left += u32::from(n >= 1_000);
            }
            waited += queue.own.0;
            while gate.is_open(now, rate, queue) {
                gate.asks(now, &shares, ahead, MEMBER, &mut flow, FRAME);
                gate.outstanding.account.called = 0;
                called += 1;
                coming.push(now + NEAR + Duration::from_micros(called * 617 % (varies + 1)));
            }
        }
        (left, waited / u64::from(FRAME) / 6_000)
    }

    /// Catches: a credit time that underflows, or counts twice, after a clock that stepped back.
    #[test]
    fn a_clock_that_steps_back_lengthens_no_credit() {
        let mut response = Response::default();
        response.look(Time::from_millis(10), 0);
        for ms in [4, 10, 11] {
            response.look(Time::from_millis(ms), UNSCALED.into());
        }
        assert_eq!(response.came(1 << 16), Some(Duration::from_millis(1)));
    }

    /// Catches: requests for a whole round trip at once, whose data arrives as a burst with a gap behind it.
    /// Catches: no time at which the gate opens again; a time at which the gate is still closed.
    #[test]
    fn requests_on_a_long_path_are_no_more_than_20_ms_ahead_of_the_rate() {
        let (near, rate) = (Duration::from_millis(600), Rate::from_mbps(25));
        let ahead = EgressState { room: Bytes(u64::MAX), ..EgressState::default() };
        let queue = Queue { ahead, ..Queue::default() };
        let shares = Shares::new(rate, Duration::ZERO);
        let (mut gate, mut flow) = (Gate::default(), at(near));
        let mut ask = |now| {
            let mut bytes = 0;
            while gate.wants_more(now, rate, queue) {
                gate.asks(now, &shares, ahead, MEMBER, &mut flow, FRAME);
                bytes += FRAME;
            }
            (bytes, gate.paced)
        };
        let (bytes, opens) = ask(Time::from_secs(1));
        let ahead = rate.bytes_in(AHEAD).0 + 2 * u64::from(FRAME);
        assert!(u64::from(bytes).abs_diff(ahead) <= FRAME.into(), "{bytes}");
        let opens = opens.unwrap();
        assert!(ask(opens.before(TICK * 2)).0 == 0 && ask(opens).0 == FRAME);
    }

    /// Catches: an idle link if data arrives later than after the shortest round trip.
    #[test]
    fn the_gate_requests_the_whole_rate_while_round_trips_vary() {
        for varies in [0, 300, 1_000, 1_800] {
            let (left, waited) = play(varies);
            assert!(left >= 4_950 && waited <= 8, "{varies} us: {left} left, {waited} waited");
        }
    }
}
