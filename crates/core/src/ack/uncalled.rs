//! Flows that do not respond: their senders send more than their ACKs ask for.
//!
//! A sender that responds sends what its ACKs ask for, and beyond that only what its window grows by.
//! For each flow the bytes that came are counted, less those that were asked for, less a quarter of
//! the rate that the flow may have. More than that rate carries in a second is no window that grows:
//!
//! `uncalled = max(0, uncalled + came - asked - rate / 4 * time) >= max(rate * 1 s, 128 KiB)`
//!
//! Such a flow is treated like UDP until the count has fallen to a half. Its data is no part of the
//! queue by which ACKs of others are held.
//!
//! Source: RFC 2914, section 3.2 (unresponsive flows); the constants are from `postack/aggressors`.

use std::time::Duration;

use crate::packet::{Member, make_room};
use crate::{Rate, Time};

/// By member, what came uncalled.
#[derive(Default)]
pub(super) struct Uncalled {
    flows: Vec<Flow>,
    refusing: u32,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    bytes: u32,
    refuses: bool,
    /// Until when its rate was taken off.
    looked: Time,
}

/// No window is held for more than half of a second, and none grows by more than its length.
const SPAN: Duration = Duration::from_secs(1);

/// Two windows that are not scaled: with one each flow may begin, whatever its rate (RFC 7323, section 2.2).
const LEAST: u32 = 2 << 16;

/// A flow with losses sends something twice. A quarter of its rate covers 20 % of losses, and a sender
/// that is faster than its part by more than that is found.
const SPARED: u64 = 4;

impl Uncalled {
    /// Data of `member`, which may have a `rate`, has come; says whether its sender responds.
    pub(super) fn came(
        &mut self,
        now: Time,
        member: Member,
        bytes: u32,
        rate: impl FnOnce() -> Rate,
    ) -> bool {
        make_room(&mut self.flows, member.index(), Flow::default());
        let flow = &mut self.flows[member.index()];
        flow.bytes = flow.bytes.saturating_add(bytes);
        if flow.bytes < LEAST && !flow.refuses {
            return true;
        }
        let rate = rate();
        let spared = rate.bytes_in(now.since(flow.looked)).0 / SPARED;
        let limit = u32::try_from(rate.bytes_in(SPAN).0).unwrap_or(u32::MAX).max(LEAST);
        let left = u64::from(flow.bytes).saturating_sub(spared).min(limit.into());
        flow.bytes = u32::try_from(left).unwrap_or(limit);
        flow.looked = flow.looked.max(now);
        let refuses = flow.bytes >= limit || (flow.refuses && flow.bytes > limit / 2);
        self.refusing = self.refusing - u32::from(flow.refuses) + u32::from(refuses);
        flow.refuses = refuses;
        !refuses
    }

    /// An ACK of `member` that asks for `bytes` went on.
    pub(super) fn asked(&mut self, member: Member, bytes: u32) {
        if let Some(flow) = self.flows.get_mut(member.index()) {
            flow.bytes = flow.bytes.saturating_sub(bytes);
        }
    }

    /// Whether the sender of `member` does not respond.
    pub(super) fn refuses(&self, member: Member) -> bool {
        self.flows.get(member.index()).is_some_and(|flow| flow.refuses)
    }

    /// How many senders do not respond.
    pub(super) const fn refusing(&self) -> u32 {
        self.refusing
    }

    /// Forgets `member`, whose number another may have next.
    pub(super) fn leave(&mut self, member: Member) {
        if let Some(flow) = self.flows.get_mut(member.index()) {
            self.refusing -= u32::from(std::mem::take(flow).refuses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u32 = 1_514;
    const MEMBER: Member = Member(3);
    const RATE: fn() -> Rate = || Rate::from_mbps(4);

    /// For so many milliseconds frames come at `kbps`; of each so much is asked for, in 1024ths. Says
    /// when the sender was first found not to respond, in milliseconds.
    fn play(uncalled: &mut Uncalled, from: u64, ms: u64, kbps: u64, asked: u32) -> Option<u64> {
        let gap = Rate::from_kbps(kbps).time_for(crate::Bytes(FRAME.into()));
        let (mut now, mut found) = (Time::from_millis(from), None);
        while now < Time::from_millis(from + ms) {
            if !uncalled.came(now, MEMBER, FRAME, RATE) {
                found = found.or_else(|| Some(now.nanos() / 1_000_000));
            }
            uncalled.asked(MEMBER, FRAME * asked / 1_024);
            now += gap;
        }
        found
    }

    /// Kills: a limit by time or by packets; a count without what is asked for; a rate that is not spared.
    #[test]
    fn a_sender_that_sends_what_it_is_asked_for_responds_however_fast_and_one_that_does_not_is_found()
     {
        // 4 Mbit/s carry 500 kB in a second; 24 of 25 Mbit/s are uncalled and not spared.
        let found = play(&mut Uncalled::default(), 0, 10_000, 25_000, 0).unwrap();
        assert!((150..220).contains(&found), "{found} ms");
        let found = play(&mut Uncalled::default(), 0, 10_000, 5_000, 0).unwrap();
        assert!((900..1_300).contains(&found), "{found} ms");
        for (kbps, asked) in [(25_000, 1_024), (4_500, 819), (1_000, 0)] {
            assert_eq!(play(&mut Uncalled::default(), 0, 20_000, kbps, asked), None, "{kbps}");
        }
    }

    /// Kills: a window that is no larger than 64 KiB of payload, which with headers is more than 64 KiB.
    #[test]
    fn two_windows_that_are_not_scaled_may_come_at_once_whatever_the_rate() {
        let mut uncalled = Uncalled::default();
        let slow = || Rate::from_kbps(8);
        let frames = LEAST / FRAME;
        assert!((0..frames).all(|_| uncalled.came(Time::ZERO, MEMBER, FRAME, slow)));
        assert!(!uncalled.came(Time::ZERO, MEMBER, FRAME, slow));
    }

    /// Kills: a sender that is never forgiven; one that is at once; a count of flows that goes wrong; who comes next
    /// under the number of one that did not respond.
    #[test]
    fn a_sender_that_responds_again_is_governed_after_some_seconds() {
        let mut uncalled = Uncalled::default();
        play(&mut uncalled, 0, 1_000, 25_000, 0);
        assert!(uncalled.refuses(MEMBER) && uncalled.refusing() == 1);
        play(&mut uncalled, 1_000, 1_000, 4_000, 1_024);
        assert!(uncalled.refuses(MEMBER));
        play(&mut uncalled, 2_000, 2_000, 4_000, 1_024);
        assert!(!uncalled.refuses(MEMBER) && uncalled.refusing() == 0);
        play(&mut uncalled, 4_000, 1_000, 25_000, 0);
        uncalled.leave(MEMBER);
        assert!(!uncalled.refuses(MEMBER) && uncalled.refusing() == 0);
        assert!(uncalled.came(Time::from_secs(5), MEMBER, FRAME, RATE));
    }

    /// Kills: time that goes backwards spared twice, or an underflow.
    #[test]
    fn a_clock_that_steps_back_spares_nothing() {
        let mut uncalled = Uncalled::default();
        play(&mut uncalled, 5_000, 1_000, 25_000, 0);
        for ms in [5_000, 6_000, 5_000, 6_000, 5_500] {
            assert!(!uncalled.came(Time::from_millis(ms), MEMBER, FRAME, RATE));
        }
    }
}
