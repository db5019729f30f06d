//! Unresponsive flows: their senders send more than their ACKs request.
//!
//! A responsive sender sends the data that its ACKs request. Beyond that it sends only the growth of its
//! window, and retransmissions. The gateway counts the excess of each flow:
//!
//! `uncalled = max(0, uncalled + came - 9/8 * max(asked, rate * time))`.
//!
//! Here `came` is the data that arrived, and `rate` is the flow's max-min fair share. `asked` counts the
//! requests of departed ACKs (`HeldFlow::called_for`). A flow is unresponsive once `uncalled` exceeds one
//! second of its rate, or 128 KiB. It is responsive again once `uncalled` has fallen to a half of that, or once
//! no data has come for three seconds. The data of an unresponsive flow is queued like UDP, outside the queue
//! by which the ACKs of other flows are held.
//!
//! ACKs of an unresponsive flow are not held. Each ACK counts for the data that its number acknowledges. In an
//! interval, the ACKs count for no more than the data that came in it: an ACK after a repaired loss acknowledges
//! the data of several seconds.
//!
//! When a sender stops responding, ACK control also ends for its data that is already in the gateway
//! (`Qdisc::end_ack_control`). Otherwise the gate would stay closed until the sender's own share has paid for
//! that data.
//!
//! Source: RFC 2914, section 3.2 (unresponsive flows); constants: `postack/aggressors`.

use std::time::Duration;

use super::Sender;
use super::constants::{FIRST_RTO, GROWTH, MAX_HOLD, UNSCALED};
use super::shares::least_interval;
use crate::flow::{span_of, ticks};
use crate::packet::{FlowIndex, make_room};
use crate::wheel::TimerWheel;
use crate::{Rate, Time};

/// The uncalled bytes of each member.
#[derive(Default)]
pub(super) struct Uncalled {
    flows: Vec<UncalledFlow>,
    refusing: u32,
    /// For each unresponsive flow, the time at which to check whether its data still arrives.
    looks: TimerWheel,
}

#[derive(Clone, Copy, Default)]
struct UncalledFlow {
    /// Uncalled bytes at the time `since`.
    uncalled: u32,
    /// Charged bytes of data that arrived after `since`.
    came: u32,
    /// Charged bytes that departed ACKs requested after `since`.
    asked: u32,
    /// Time, in ticks, at which the counts of arrived and requested bytes began.
    since: u32,
}

impl UncalledFlow {
    /// Time since the counts began: up to 52 days, as ticks wrap. Zero if the clock stepped back by less than 18
    /// minutes.
    fn span(&self, now: Time) -> Duration {
        let passed = ticks(now).wrapping_sub(self.since);
        if passed > u32::MAX - (1 << 20) { Duration::ZERO } else { span_of(passed) }
    }
}

impl Uncalled {
    /// Counts data of `member` and returns whether its sender responds. The flow's fair share is `rate(refuses)`.
    pub(super) fn came(
        &mut self,
        now: Time,
        member: FlowIndex,
        bytes: u32,
        rate: impl FnOnce(bool) -> Rate,
    ) -> Sender {
        make_room(&mut self.flows, member.index(), UncalledFlow::default());
        let refused = self.refuses(member);
        let flow = &mut self.flows[member.index()];
        flow.came = flow.came.saturating_add(bytes);
        let (count, least) = (flow.uncalled.saturating_add(flow.came), 2 * UNSCALED);
        if count < least && !refused {
            return Sender::Responsive;
        }
        let rate = rate(refused);
        let limit = u32::try_from(rate.bytes_in(MAX_HOLD).0).unwrap_or(u32::MAX).max(least);
        let span = flow.span(now);
        let asked = if refused { flow.asked.min(flow.came) } else { flow.asked };
        let may = rate.bytes_in(span).0.max(asked.into());
        let may = u32::try_from(may.saturating_add(may / u64::from(GROWTH))).unwrap_or(u32::MAX);
        let count = count.saturating_sub(may).min(limit);
        let refuses = count >= limit || (refused && count > limit / 2);
        if span >= least_interval() {
            *flow = UncalledFlow { uncalled: count, since: ticks(now), ..UncalledFlow::default() };
        }
        self.refusing = self.refusing - u32::from(refused) + u32::from(refuses);
        match (refused, refuses) {
            (false, true) => {
                self.looks.set(member.0, now + silence());
                Sender::StopsResponding
            }
            (true, true) => Sender::Unresponsive,
            (_, false) => {
                self.looks.cancel(member.0);
                Sender::Responsive
            }
        }
    }

    /// Unresponsive flows of which no data has come for three seconds, or up to [`least_interval`] longer,
    /// count as responsive.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(number) = self.looks.pop(now) {
            let span = self.flows[FlowIndex(number).index()].span(now);
            if span < silence() {
                self.looks.set(number, now + (silence() - span));
            } else {
                self.refusing -= 1;
            }
        }
    }

    /// Time at which [`expire`](Self::expire) is next due.
    pub(super) fn expires_at(&self) -> Option<Time> {
        self.looks.next_deadline()
    }

    /// Counts an ACK of `member` that departed and permits `bytes`.
    pub(super) fn asked(&mut self, member: FlowIndex, bytes: u32) {
        if let Some(flow) = self.flows.get_mut(member.index()) {
            flow.asked = flow.asked.saturating_add(bytes);
        }
    }

    /// Returns `true` if the sender of `member` does not respond.
    pub(super) fn refuses(&self, member: FlowIndex) -> bool {
        self.looks.deadline(member.0).is_some()
    }

    /// The number of senders that do not respond.
    pub(super) const fn refusing(&self) -> u32 {
        self.refusing
    }

    /// Forgets `member`, whose index another flow may get next.
    pub(super) fn leave(&mut self, member: FlowIndex) {
        self.refusing -= u32::from(self.looks.cancel(member.0));
        if let Some(flow) = self.flows.get_mut(member.index()) {
            *flow = UncalledFlow::default();
        }
    }
}

/// After so long without a new count, an unresponsive flow is silent. A sender that only retransmits sends
/// within its first two timeouts, of which the second is twice as long.
///
/// Source: RFC 6298, sections 2.1 and 5.5.
fn silence() -> Duration {
    least_interval() + FIRST_RTO + FIRST_RTO * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FRAME;

    const MEMBER: FlowIndex = FlowIndex(3);
    const RATE: fn(bool) -> Rate = |_| Rate::from_mbps(4);

    /// Sends frames at `kbps` for `ms` milliseconds. ACKs request `asked` 1024ths of each frame. Returns the
    /// first time in milliseconds at which the sender is unresponsive.
    fn play(uncalled: &mut Uncalled, from: u64, ms: u64, kbps: u64, asked: u32) -> Option<u64> {
        let gap = Rate::from_kbps(kbps).time_for(crate::Bytes(FRAME.into()));
        let (mut now, mut found) = (Time::from_millis(from), None);
        while now < Time::from_millis(from + ms) {
            if uncalled.came(now, MEMBER, FRAME, RATE) != Sender::Responsive {
                found = found.or_else(|| Some(now.nanos() / 1_000_000));
            }
            uncalled.asked(MEMBER, FRAME * asked / 1_024);
            now += gap;
        }
        found
    }

    /// Catches: a sender that counts as unresponsive although ACKs requested its data, or its fair share carries
    /// the data; a sender that counts as unresponsive for 11 % of losses.
    #[test]
    fn a_sender_is_unresponsive_only_beyond_its_rate_and_the_requests_of_its_acks() {
        // 4 Mbit/s carry 500 kB in a second. Of 25 Mbit/s, 20.5 are uncalled beyond the tolerance.
        let found = play(&mut Uncalled::default(), 0, 10_000, 25_000, 0).unwrap();
        assert!((170..230).contains(&found), "{found} ms");
        let found = play(&mut Uncalled::default(), 0, 10_000, 5_000, 0).unwrap();
        assert!((7_500..8_500).contains(&found), "{found} ms");
        assert!(play(&mut Uncalled::default(), 0, 10_000, 25_000, 819).is_some());
        // 1,024 / 915 corresponds to 11 % of losses.
        for (kbps, asked) in [(25_000, 1_024), (25_000, 915), (4_450, 0), (1_000, 0)] {
            assert_eq!(play(&mut Uncalled::default(), 0, 20_000, kbps, asked), None, "{kbps}");
        }
    }

    /// Catches: a window of 64 KiB of payload whose headers exceed the limit.
    #[test]
    fn two_windows_without_scaling_may_arrive_at_once_at_any_rate() {
        let mut uncalled = Uncalled::default();
        let slow = |_| Rate::from_kbps(8);
        let frames = 2 * UNSCALED / FRAME;
        let mut came = || uncalled.came(Time::ZERO, MEMBER, FRAME, slow);
        assert!((0..frames).all(|_| came() == Sender::Responsive));
        assert_eq!([came(), came()], [Sender::StopsResponding, Sender::Unresponsive]);
    }

    /// Catches: a sender that stays unresponsive for ever, or responds again at once; a wrong count of flows.
    ///
    /// Catches: a new flow that is unresponsive because the flow before with its index was.
    #[test]
    fn a_sender_that_slows_down_is_responsive_again_after_some_seconds() {
        let mut uncalled = Uncalled::default();
        play(&mut uncalled, 0, 1_000, 25_000, 0);
        assert!(uncalled.refuses(MEMBER) && uncalled.refusing() == 1);
        // At 4 Mbit/s, the tolerated eighth takes 4 s for half of the limit.
        play(&mut uncalled, 1_000, 3_000, 4_000, 1_024);
        assert!(uncalled.refuses(MEMBER));
        play(&mut uncalled, 4_000, 2_000, 4_000, 1_024);
        assert!(!uncalled.refuses(MEMBER) && uncalled.refusing() == 0);
        play(&mut uncalled, 6_000, 1_000, 25_000, 0);
        uncalled.leave(MEMBER);
        assert!(!uncalled.refuses(MEMBER) && uncalled.refusing() == 0);
        let sender = uncalled.came(Time::from_secs(7), MEMBER, FRAME, RATE);
        assert_eq!(sender, Sender::Responsive);
    }

    /// A sender of 6 Mbit/s has a share of 4, and the rest is dropped. Each two seconds, an ACK acknowledges the 1 MB
    /// that passed.
    ///
    /// Catches: an unresponsive sender forgiven by the ACK that follows a repaired loss.
    #[test]
    fn an_ack_of_seconds_of_data_does_not_make_a_sender_responsive() {
        let mut uncalled = Uncalled::default();
        assert!(play(&mut uncalled, 0, 4_000, 6_000, 0).is_some());
        for from in (4_000..30_000).step_by(2_000) {
            uncalled.asked(MEMBER, 1_000_000);
            play(&mut uncalled, from, 2_000, 6_000, 0);
            assert!(uncalled.refuses(MEMBER), "{from} ms");
        }
    }

    /// Catches: a silent sender that stays unresponsive; a sender that is responsive again although its data
    /// arrives.
    /// Catches: a silence that forgives earlier excess; a deadline of a removed flow.
    #[test]
    fn a_silent_sender_no_longer_counts_and_is_detected_again_when_it_sends() {
        let mut uncalled = Uncalled::default();
        let slow = |_| Rate::from_kbps(8);
        let send = |uncalled: &mut Uncalled, ms| {
            uncalled.came(Time::from_millis(ms), MEMBER, FRAME, slow) == Sender::Responsive
        };
        assert!(!(0..100).all(|ms| send(&mut uncalled, ms)));
        assert!((100..110).all(|ms| !send(&mut uncalled, ms)));
        // A packet each two seconds keeps it unresponsive.
        for ms in (1_000..20_000).step_by(2_000) {
            uncalled.expire(Time::from_millis(ms));
            assert!(!send(&mut uncalled, ms));
        }
        while let Some(at) = uncalled.expires_at() {
            assert!(uncalled.refuses(MEMBER));
            uncalled.expire(at);
            assert!(at <= Time::from_millis(19_000 + 3_400), "{at:?}");
        }
        assert!(!uncalled.refuses(MEMBER) && uncalled.refusing() == 0);
        assert!(!(24_000..24_010).all(|ms| send(&mut uncalled, ms)));
        assert!(uncalled.refuses(MEMBER) && uncalled.refusing() == 1);
        uncalled.leave(MEMBER);
        assert_eq!((uncalled.expires_at(), uncalled.refusing()), (None, 0));
    }

    /// Catches: a flow whose requests and share permit nothing after 26 days, as ticks wrap after 52.
    #[test]
    fn a_new_flow_is_counted_and_a_silent_one_forgotten_after_any_uptime() {
        for days in [1, 25, 27, 40, 51, 53, 80] {
            let mut uncalled = Uncalled::default();
            let from = days * 86_400_000;
            assert_eq!(play(&mut uncalled, from, 10_000, 4_450, 0), None, "{days} days");
            assert!(play(&mut uncalled, from + 10_000, 5_000, 25_000, 0).is_some(), "{days} days");
            uncalled.expire(Time::from_millis(from + 19_000));
            assert_eq!(uncalled.expires_at(), None, "{days} days");
        }
    }

    /// Catches: excess forgiven twice after a clock that stepped back.
    #[test]
    fn a_clock_that_steps_back_grants_no_tolerance() {
        let mut uncalled = Uncalled::default();
        play(&mut uncalled, 5_000, 1_000, 25_000, 0);
        for ms in [5_000, 6_000, 5_000, 6_000, 5_500] {
            let sender = uncalled.came(Time::from_millis(ms), MEMBER, FRAME, RATE);
            assert_ne!(sender, Sender::Responsive);
        }
    }
}
