//! PostACK: an ACK waits in place of the data that it requests, so that the data need not wait.
//!
//! Source: `postack`, section 5 (R001-7 to R001-22), with the three rules of R001-9.
//!
//! Differs: P1 and P2 have the drain factor that P1 needs. The options of R001-14 are absent: a faster
//! release after a loss, and priority of retransmitted data, did harm. PreAck (R001-21) exists only for
//! relays in the simulator: an ACK of data that no receiver has breaks a promise of TCP (RFC 3135, section
//! 4.1).
//!
//! Windows are reduced by the rule in `windows.rs`. The rate of a trunk falls with each loss of its
//! management connections, so windows follow the aggregate's part of the egress rate over the longest hold.
//! Otherwise they would shrink faster than ACKs depart, and some 4 % of the rate would be unused.
//!
//! An ACK that acknowledges new data restarts the sender's timer (RFC 6298, section 5.3). So the overdue
//! ACKs of a flow (R001-11 (b)) depart one by one, with a pause of `min(cost / share, more)`. The first
//! term is the time that the data takes at the flow's share. The second is the growth of a hold that the
//! sender's timer allows. If all departed together, their data would wait behind all that passed before,
//! and no ACK would restart the timer meanwhile. A queue for each flow separates them likewise. So does
//! that of an upload, whose ACKs are therefore not separated.

use std::time::Duration;

use super::constants::{AHEAD, MAX_HOLD};
use super::hold::{Holds, Taken};
use super::release::{Bound, Bucket, Rule, VirtualQueue, quantum};
use super::reserve::Reserve;
use super::shares::Shares;
use super::uncalled::Uncalled;
use super::windows::clamp;
use super::{AckControl, Counts, CreditAccount, Known, Numbers, Placement, Queue, Sender};
use crate::meter::Profile;
use crate::packet::{Fifo, FlowIndex, Packet};
use crate::{Bytes, Cx, PacketId, Rate, Time, choice, parameters};

parameters! {
    /// Parameters of `postack`.
    pub Config {
        /// Rule that releases the next ACK.
        release: Release = Release::default();
        /// Longest hold of an ACK. Windows that would cause holds of more than half of it are reduced.
        max_hold: Duration = MAX_HOLD;
        /// Side of the bottleneck on which the gateway is.
        placement: Placement = Placement::default();
    }
}

choice! {
    /// Release rules (`postack`, R001-9).
    #[derive(Default)]
    pub enum Release {
        /// P1: ACKs depart at the rate of their flow.
        Bucket = "bucket",
        /// P2: an ACK is held for as long as its data would have waited in a queue of its flow.
        VirtualQueue = "virtual-queue",
        /// P3: ACKs depart while the queue of the class wants more data.
        Gate = "gate" [default],
    }
}

impl Config {
    pub(super) fn build(&self, profile: &Profile, _: Time) -> PostAck {
        PostAck {
            config: self.clone(),
            holds: Holds::default(),
            shares: Shares::new(profile.mean(), self.max_hold),
            mean: profile.mean(),
            bound: Bound::default(),
            uncalled: Uncalled::default(),
            reserve: Reserve::new(self.max_hold),
            queue: Queue::default(),
            rule: match self.release {
                Release::Bucket => Rule::Bucket(Bucket::default()),
                Release::VirtualQueue => Rule::VirtualQueue(VirtualQueue::default()),
                Release::Gate => Rule::Gate(Default::default()),
            },
        }
    }
}

/// The held ACKs of an aggregate, and their release.
pub(super) struct PostAck {
    config: Config,
    holds: Holds,
    shares: Shares,
    /// Mean rate of the profile.
    mean: Rate,
    bound: Bound,
    uncalled: Uncalled,
    rule: Rule,
    reserve: Reserve,
    /// State of the aggregate at the last `serve`.
    queue: Queue,
}

impl PostAck {
    /// Returns `true` if `member` would send more: its ACKs are held for long, or it fills a reduced
    /// window.
    fn is_pressed(&mut self, member: FlowIndex) -> bool {
        self.holds.flow(member).is_pressed(self.config.max_hold / 4)
    }

    /// Releases ACKs by the peak rate while its tokens last for more than the data on its way. So the rate is
    /// the mean again before the tokens are spent.
    fn spend(&mut self, queue: Queue) {
        let way = || if let Rule::Gate(gate) = &self.rule { gate.way() } else { Duration::ZERO };
        let lasts = |(tokens, peak): &(Bytes, Rate)| {
            *peak > self.mean && *tokens > peak.bytes_in(way() + AHEAD)
        };
        let rate = queue.burst.filter(lasts).map_or(self.mean, |(_, peak)| peak);
        if rate != self.shares.rate() {
            self.shares.set_rate(rate);
        }
    }

    /// Notes the outstanding credit of `member`, which its ACKs do not request again.
    fn note_credit(&mut self, member: FlowIndex) {
        let credit = if let Rule::Gate(gate) = &self.rule { gate.credit_of(member) } else { 0 };
        self.holds.flow(member).set_outstanding(credit);
    }

    /// Releases ACKs that have reached their bound. Each flow releases its share at most, as far as the
    /// sender's timer permits.
    fn overdue(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        while let Some(member) = self.bound.overdue(cx, &mut self.holds, self.config.max_hold) {
            self.note_credit(member);
            let before = self.holds.flow(member).departed();
            let Some(cost) = self.holds.release(cx, member, out) else { continue };
            self.holds.counts.overdue += 1;
            self.gone(cx, member, before, cost);
            let pause = self.pause(cx.now, member, before, cost);
            self.bound.forget(member);
            self.bound.watch(cx.now, member, pause);
        }
    }

    /// Longest hold of the next ACK of `member`, after an ACK for `cost` bytes departed at its bound.
    /// Before that ACK, `before` was the highest departed number. Zero if the ACK did not restart the
    /// sender's timer, or if data waits here.
    fn pause(&mut self, now: Time, member: FlowIndex, before: u32, cost: u32) -> Duration {
        let flow = self.holds.flow(member);
        if !self.queue.passes || flow.departed() == before {
            return Duration::ZERO;
        }
        let pause = flow.more().min(self.shares.of(member).time_for(Bytes(cost.into())));
        let age = self.holds.age(member, now).unwrap_or_default();
        pause.min(self.config.max_hold.saturating_sub(age))
    }

    /// Schedules the held ACKs of `member`: by the release rule, and at their bound.
    fn wait(&mut self, cx: &Cx<'_>, member: FlowIndex, weight: u32, queue: Queue) {
        let longest = self.holds.flow(member).longest(self.config.max_hold);
        self.bound.watch(cx.now, member, longest);
        let quantum = quantum(&mut self.holds, member, weight);
        match &mut self.rule {
            Rule::Gate(gate) => gate.wait(member, quantum),
            Rule::Bucket(bucket) => bucket.arm(cx, member, &self.holds, &self.shares, queue),
            Rule::VirtualQueue(queue) => queue.arm(cx, member, &self.holds),
        }
    }

    /// Schedules the held ACKs of `member` again after a stop.
    fn go_on(&mut self, cx: &Cx<'_>, member: FlowIndex) {
        if self.holds.held(member) > 0 {
            self.rule.go_on(cx.now, member);
            self.wait(cx, member, self.shares.weight(member), self.queue);
        }
    }

    /// Counts ACKs for `cost` bytes of the unresponsive `member` by what their number acknowledges: an ACK shows the
    /// newest SACK blocks only, so blocks come back and would count twice. Before them, `before` was the highest
    /// departed number.
    fn delivered(&mut self, member: FlowIndex, before: u32, cost: u32) {
        let bytes = self.holds.flow(member).acknowledged(before, cost);
        self.uncalled.asked(member, bytes);
    }

    /// Counts an ACK for `cost` bytes of `member` that the release rule did not release.
    /// Before it, `before` was the highest departed number.
    fn gone(&mut self, cx: &Cx<'_>, member: FlowIndex, before: u32, cost: u32) {
        self.uncalled.asked(member, self.holds.flow(member).called_for(before, cost));
        self.called(cx, member, cost);
    }

    /// Charges the release rule for an ACK for `cost` bytes of `member` that departed without it.
    fn called(&mut self, cx: &Cx<'_>, member: FlowIndex, cost: u32) {
        if self.uncalled.refuses(member) {
            return;
        }
        match &mut self.rule {
            Rule::Gate(gate) => {
                let flow = self.holds.flow(member);
                gate.asks(cx.now, &self.shares, self.queue.ahead, member, flow, cost);
            }
            Rule::Bucket(bucket) => bucket.passed(cx.now, member, cost, &self.shares),
            Rule::VirtualQueue(_) => {}
        }
    }
}

impl AckControl for PostAck {
    fn placement(&self) -> Placement {
        self.config.placement
    }

    fn set_profile(&mut self, _: Time, profile: &Profile) {
        self.mean = profile.mean();
        self.shares.set_rate(profile.mean());
    }

    fn on_data(&mut self, now: Time, member: FlowIndex, packet: &Packet, waiting: Bytes) -> Sender {
        self.rule.advance(now);
        self.holds.on_data(now, member, packet);
        self.shares.waits(member, waiting);
        // `most` treats bytes of unresponsive flows as taken, and would leave such a flow nothing.
        let (shares, excluded) = (&self.shares, self.uncalled.refusing());
        let may_have = |refuses| {
            if refuses { shares.part_if_active(member, excluded) } else { shares.most(member) }
        };
        let sender = self.uncalled.came(now, member, packet.cost, may_have);
        if sender != Sender::Responsive {
            return sender;
        }
        self.shares.note(now, member, None);
        let pressed = self.is_pressed(member);
        self.shares.came(member, packet.cost, pressed);
        match &mut self.rule {
            Rule::Gate(gate) => {
                gate.on_data(now, member, self.holds.flow(member), packet);
            }
            Rule::VirtualQueue(queue) => {
                queue.on_data(now, member, packet, &self.shares, self.queue);
            }
            Rule::Bucket(_) => {}
        }
        sender
    }

    fn on_ack(
        &mut self,
        cx: &mut Cx<'_>,
        known: &Known,
        packet: PacketId,
        queue: Queue,
        out: &mut Fifo,
    ) {
        self.rule.advance(cx.now);
        let member = known.member;
        let tcp = cx.pool[&packet].tcp;
        let refuses = self.uncalled.refuses(member);
        if refuses {
            let before = self.holds.flow(member).departed();
            let cost = self.holds.withdraw(cx, member, out);
            self.delivered(member, before, cost);
        } else if self.holds.acknowledges(cx.pool, member, &packet) {
            self.shares.note(cx.now, member, Some(known.weight));
            let pressed = self.is_pressed(member);
            self.shares.came(member, 0, pressed);
        }
        self.spend(queue);
        self.shares.note_others(cx.now, queue.left);
        let part = queue.ahead.part_of(self.shares.rate());
        self.shares.note_leaves(cx.now, part, self.config.max_hold);
        if let (Rule::Gate(_), Some(near), Some(far)) = (&self.rule, known.near, known.far) {
            let longest = self.config.max_hold;
            self.reserve.look(cx.now, near + far, longest, &self.holds.counts);
        }
        self.note_credit(member);
        let is_short = matches!(self.rule, Rule::Gate(_));
        let reserve = if is_short { self.reserve.span() } else { self.config.max_hold / 2 };
        let flow = self.holds.flow(member);
        let window = tcp.and_then(|it| clamp(flow, member, &self.shares, known, &it, reserve));
        flow.cap_to(window);
        let rate = self.shares.rate();
        let open = match &mut self.rule {
            _ if refuses => true,
            Rule::Gate(gate) => {
                let ended = tcp.is_some_and(|tcp| self.holds.ends_with(cx, member, &tcp, out));
                ended || (gate.is_idle() && gate.is_open(cx.now, rate, queue))
            }
            Rule::Bucket(_) => false,
            Rule::VirtualQueue(queue) => queue.on_ack(cx, member, &packet),
        };
        let before = self.holds.flow(member).departed();
        match self.holds.take_in(cx, known, packet, open, out) {
            Taken::Passed(cost) if refuses => self.delivered(member, before, cost),
            Taken::Passed(cost) => self.gone(cx, member, before, cost),
            Taken::Held => {}
        }
        // Under scarce buffers an ACK departs by a step only, and the remainder is held.
        if self.holds.held(member) > 0 {
            self.wait(cx, member, known.weight, queue);
        }
    }

    fn serve(&mut self, cx: &mut Cx<'_>, queue: Queue, out: &mut Fifo) -> CreditAccount {
        self.rule.advance(cx.now);
        self.queue = queue;
        self.spend(queue);
        self.uncalled.expire(cx.now);
        while let Some(member) = self.holds.unanswered(cx.now) {
            self.go_on(cx, member);
        }
        if self.holds.counts.held > 0 {
            self.overdue(cx, out);
        }
        let (holds, shares, called) = (&mut self.holds, &self.shares, &mut self.uncalled);
        match &mut self.rule {
            Rule::Gate(gate) => return gate.serve(cx, shares, queue, holds, called, out),
            Rule::Bucket(bucket) => bucket.serve(cx, queue, holds, shares, called, out),
            Rule::VirtualQueue(it) => it.serve(cx, holds, called, out),
        }
        CreditAccount::default()
    }

    fn ready_at(&self) -> Option<Time> {
        let rule = match &self.rule {
            Rule::Gate(gate) => gate.ready_at(&self.shares, self.queue),
            Rule::Bucket(bucket) => bucket.ready_at(),
            Rule::VirtualQueue(queue) => queue.ready_at(),
        };
        let bound = self.bound.next().filter(|_| self.holds.counts.held > 0);
        let others = [bound, self.holds.next_unanswered(), self.uncalled.expires_at()];
        others.into_iter().fold(rule, Time::earliest)
    }

    fn held(&self, member: FlowIndex) -> u32 {
        self.holds.held(member)
    }

    fn left(&self, member: FlowIndex) -> Option<Bytes> {
        self.holds.left(member)
    }

    fn responds(&self, member: FlowIndex) -> bool {
        !self.uncalled.refuses(member)
    }

    fn unresponsive(&self) -> u32 {
        self.uncalled.refusing()
    }

    fn withdraw(&mut self, cx: &mut Cx<'_>, member: FlowIndex, out: &mut Fifo) {
        self.rule.advance(cx.now);
        self.holds.resume(member);
        self.note_credit(member);
        let before = self.holds.flow(member).departed();
        let cost = self.holds.withdraw(cx, member, out);
        self.gone(cx, member, before, cost);
    }

    fn stop(&mut self, now: Time, member: FlowIndex) {
        self.holds.stop(now, member);
    }

    fn resume(&mut self, cx: &mut Cx<'_>, member: FlowIndex) {
        self.holds.resume(member);
        self.go_on(cx, member);
    }

    fn discard(&mut self, cx: &mut Cx<'_>, member: FlowIndex) {
        self.holds.discard(cx, member);
    }

    fn numbers(&self, member: FlowIndex) -> Option<Numbers> {
        self.holds.numbers(member)
    }

    fn set_numbers(&mut self, member: FlowIndex, numbers: Numbers) {
        self.holds.set_numbers(member, numbers);
        if !matches!(self.rule, Rule::Gate(_)) {
            self.holds.flow(member).forget_requests();
        }
    }

    fn leave(&mut self, member: FlowIndex) {
        self.bound.forget(member);
        match &mut self.rule {
            Rule::Gate(gate) => gate.give_back(member),
            Rule::Bucket(bucket) => bucket.forget(member),
            Rule::VirtualQueue(queue) => queue.forget(member),
        }
        self.shares.leave(member);
        self.uncalled.leave(member);
        self.holds.leave(member);
    }

    fn counts(&self) -> Counts {
        self.holds.counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, MSS, US, plain};
    use super::*;
    use crate::Rate;
    use crate::packet::{TcpFlags, TcpSegment};

    /// Sequence number after `segments` segments of `member`.
    fn end(member: u32, segments: u32) -> u32 {
        (member << 24) + segments * MSS
    }

    /// Holds ACKs of `segments` segments of `member`.
    fn hold(bench: &mut Bench, member: u32, segments: u32) {
        bench.fill(US(0), true);
        bench.data(US(0), member, end(member, 0));
        bench.ack(US(0), member, end(member, 0));
        (1..=segments + 2).for_each(|n| bench.data(US(0), member, end(member, n)));
        (1..=segments).for_each(|n| assert!(bench.ack(US(1), member, end(member, n)).is_empty()));
    }

    /// Catches: credit for a sender that has sent FIN, so that other flows wait until it expires.
    #[test]
    fn what_nobody_will_send_is_not_waited_for() {
        for ends in [false, true] {
            let mut bench = Bench::new("'postack'", 10);
            (0..2).for_each(|member| hold(&mut bench, member, 20));
            if ends {
                bench.data_with(US(1), 0, end(0, 23), TcpFlags::FIN);
            }
            let went = bench.fill(US(1), false);
            let of = |member| went.iter().filter(|tcp| tcp.ack >> 24 == member).count();
            assert_eq!([of(0), of(1)], if ends { [2, 2] } else { [1, 1] });
        }
    }

    /// Catches: ACKs held in place of data although none is left; paced ACKs of TCR that depart too.
    #[test]
    fn acks_of_who_has_sent_its_last_go_on_at_once_but_those_that_are_paced() {
        for (spec, goes) in [("'postack'", true), ("'tcr'", false)] {
            let mut bench = Bench::new(spec, 10);
            bench.fill(US(0), true);
            (0..=8).for_each(|n| bench.data(US(0), 0, end(0, n)));
            (0..=7).for_each(|n| drop(bench.ack(US(0), 0, end(0, n))));
            bench.data_with(US(1), 0, end(0, 9), TcpFlags::FIN);
            assert_eq!(bench.ack(US(2), 0, end(0, 8)).last() == Some(&end(0, 8)), goes, "{spec}");
        }
    }

    /// Catches: credit for all held ACKs of a reset connection, so that other flows wait until it expires.
    #[test]
    fn nobody_waits_for_data_of_a_connection_that_was_reset() {
        let mut bench = Bench::new("'postack'", 10);
        (0..2).for_each(|member| hold(&mut bench, member, 20));
        bench.queue.own = Bytes::ZERO;
        let reset = TcpFlags(TcpFlags::RST | TcpFlags::ACK);
        let went = bench.back(US(2), 0, TcpSegment { flags: reset, ..plain(end(0, 20)) }, &[]);
        let of = |member| went.iter().filter(|tcp| tcp.ack >> 24 == member).count();
        assert_eq!([of(0), of(1)], [21, 2]);
    }

    /// Catches: credit for application-limited flows as for other flows; the rate of the profile instead of
    /// the egress.
    /// Catches: no credit for them at any rate, so that all held ACKs depart at once.
    #[test]
    fn who_answers_a_request_is_waited_for_only_where_the_rate_carries_no_more() {
        for profile in [10, 1_000] {
            answers_through_10_mbps(profile);
        }
    }

    fn answers_through_10_mbps(profile: u64) {
        let mut bench = Bench::new("'postack'", profile);
        if profile > 10 {
            let rate = Rate::from_mbps(10);
            bench.queue.ahead.rate = Some(rate);
            bench.queue.ahead.ask(&[profile * 1_000_000], rate.bps());
        }
        (0..2).for_each(|n| bench.data(US(0), 0, end(0, n)));
        (0..2).for_each(|n| assert_eq!(bench.ack(US(0), 0, end(0, n)).len(), 1));
        let later = Time::from_millis(300);
        bench.fill(later, true);
        (2..=43).for_each(|n| bench.data(later, 0, end(0, n)));
        (2..=40).for_each(|n| assert!(bench.ack(later, 0, end(0, n)).is_empty()));
        // 20 ms at 10 Mbit/s, and the target: three segments, or a round trip of the profile and two segments.
        // Each ACK requests two segments, as its sender is in slow start. Its second one may exceed each limit.
        let requested = 2 * bench.fill(later, false).len();
        let target = if profile > 10 { 18 } else { 3 };
        assert!((17 + target..=20 + target).contains(&requested), "{profile}: {requested}");
        assert!(bench.run_until(Time::from_millis(305)).len() >= 3);
    }

    /// Catches: a window by the current egress rate; a window that never follows that rate.
    #[test]
    fn no_sender_stops_when_what_may_leave_falls_and_its_window_follows() {
        let mut bench = Bench::new("'postack'", 100);
        bench.queue.ahead.ask(&[100_000_000], 10_000_000);
        let mut acked = 0;
        // Right edge of the window after `times` ACKs of two segments every 5 ms, at an egress rate of
        // `mbps`.
        let mut go = |mbps, times: u32| {
            bench.queue.ahead.rate = Some(Rate::from_mbps(mbps));
            let mut edge = 0;
            for _ in 0..times {
                acked += 2;
                let now = Time::from_millis(u64::from(acked) / 2 * 5);
                (acked - 1..=acked).for_each(|n| bench.data(now, 0, n * MSS));
                let ack = TcpSegment { window: 60_000, ..plain(acked * MSS) };
                let went = bench.back(now, 0, ack, &[]);
                edge = acked * MSS + (u32::from(went[0].window) << 7);
            }
            (edge, edge - acked * MSS)
        };
        let (before, window) = go(10, 2_000);
        // 550.2 ms at 10 Mbit/s, and the bytes of an ACK.
        assert!(window.abs_diff(687_750 + 2 * MSS) < 2_000, "{window}");
        let (after, _) = go(5, 10);
        assert!(after > before + 5 * MSS, "{before} to {after}");
        let (_, window) = go(5, 1_200);
        assert!(window.abs_diff(343_875 + 2 * MSS) < 5_000, "{window}");
    }

    /// Catches: steps of an ACK that requests nothing, with a buffer for each step.
    #[test]
    fn an_ack_with_which_the_window_does_not_move_goes_on_as_it_came() {
        for (kbps, acks) in [(10, 1), (10_000, 19)] {
            let mut bench = Bench::new("'postack'", 10);
            bench.queue.ahead.ask(&[10_000_000], 1_000_000);
            let ack = |acked| TcpSegment { window: 60_000, ..plain(acked * MSS) };
            bench.queue.ahead.rate = Some(Rate::from_mbps(10));
            assert_eq!(bench.back(US(0), 0, ack(0), &[]).len(), 1);
            (1..=45).for_each(|n| bench.data(US(1), 0, n * MSS)); // of 65,536 bytes
            bench.queue.ahead.rate = Some(Rate::from_kbps(kbps));
            let later = Time::from_millis(5_000);
            bench.fill(later, true);
            assert!(bench.back(later, 0, ack(40), &[]).is_empty());
            let mut went = bench.fill(later, false).len();
            went += bench.run_until(Time::from_millis(6_500)).len();
            assert_eq!(went, acks, "{kbps} kbit/s");
        }
    }
}
