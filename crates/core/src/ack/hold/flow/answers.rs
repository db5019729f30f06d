//! Whether a sender is likely to answer an ACK with data.

use std::time::Duration;

use super::{ENDED, Flow, PAUSED};
use crate::Time;
use crate::ack::gate::lasts;
use crate::flow::{before, ticks};
use crate::packet::{Packet, TcpFlags, TcpSegment};

/// Data that comes so much later than an ACK could have called for it came uncalled.
///
/// Source: `postack`, R001-9: leave lasts for 200 ms at most.
const PAUSE: Duration = Duration::from_millis(200);

/// So much after a pause is an answer to a request.
///
/// Source: RFC 7323, section 2.2: what a window holds that is not scaled; windows begin with it too.
const ANSWER: u32 = 65_535;

impl Flow {
    /// An ACK that calls for data goes on.
    pub(in crate::ack) fn asked(&mut self, now: Time) {
        self.asked = ticks(now).max(1);
    }

    /// Whether data is to be expected of it: not if its last has come, nor of what it sends after a
    /// pause the first 64 KiB, as those do who answer requests: what calls them is not our ACKs.
    pub(in crate::ack) const fn answers(&self) -> bool {
        self.marks & (ENDED | PAUSED) == 0
    }

    /// Whether its last has come: its ACKs call for nothing, and there is no data to hold them in place of.
    pub(in crate::ack::hold) const fn has_ended(&self) -> bool {
        self.marks & ENDED != 0
    }

    /// Data comes, or its end.
    pub(super) fn hear(&mut self, now: Time, packet: &Packet, tcp: &TcpSegment) {
        if tcp.payload > 0 && !packet.seen_before {
            if self.has_paused(now) {
                (self.marks, self.since) = (self.marks | PAUSED, tcp.seq);
            } else if before(self.since.wrapping_add(ANSWER), tcp.end_seq()) {
                self.marks &= !PAUSED;
            }
        }
        if tcp.flags.any(TcpFlags::FIN) {
            self.marks |= ENDED;
        }
    }

    /// Whether what comes now was not called for.
    fn has_paused(&self, now: Time) -> bool {
        let known = self.asked != 0 && self.near_us != 0;
        let pause = ticks(Time::ZERO + lasts(self.near()) + PAUSE);
        known && ticks(now).wrapping_sub(self.asked) > pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Duration = Duration::from_millis(20);

    /// A flow whose sender is [`NEAR`] by, and of which data up to `end` comes at `ms`.
    fn comes(flow: &mut Flow, ms: u64, end: u32, seen_before: bool, flags: u8) {
        let seq = if seen_before { end - 1_000 } else { flow.sent };
        let (payload, flags) = (end - seq, TcpFlags(flags));
        let tcp = TcpSegment { seq, payload, flags, ..TcpSegment::default() };
        flow.near_us = 20_000;
        let packet = Packet { seen_before, segments: 1, ..Packet::default() };
        flow.on_data(Time::from_millis(ms), &packet, &tcp);
    }

    /// One of which 1,000 bytes came, an ACK went on at 1,000 ms, and 1,000 more came so much later.
    fn after(ms: u64) -> Flow {
        let mut flow = Flow::default();
        comes(&mut flow, 900, 1_000, false, 0);
        flow.asked(Time::from_millis(1_000));
        comes(&mut flow, 1_000 + ms, 2_000, false, 0);
        flow
    }

    /// Kills: an answer that took its time taken for data that was not called for; data of before the first call.
    #[test]
    fn who_sends_what_it_was_called_for_answers() {
        let mut flow = Flow::default();
        comes(&mut flow, 5_000, 1_000, false, 0);
        assert!(flow.answers() && after(20).answers() && after(229).answers());
        assert_eq!(lasts(NEAR) + PAUSE, Duration::from_millis(230));
    }

    /// Kills: no pause ever seen; one that never ends, or that what is called for ends at once; one that is
    /// counted from the beginning; a retransmission taken for what comes after a pause.
    #[test]
    fn who_paused_is_not_waited_for_until_it_has_sent_much() {
        let mut flow = after(240);
        assert!(!flow.answers());
        flow.asked(Time::from_millis(1_300));
        comes(&mut flow, 1_310, 1_000 + ANSWER, false, 0);
        assert!(!flow.answers());
        comes(&mut flow, 1_320, 1_001 + ANSWER, false, 0);
        assert!(flow.answers());
        comes(&mut flow, 2_000, 1_001 + ANSWER, true, 0);
        assert!(flow.answers());
    }

    /// Kills: an end that is not seen, or is forgotten; one that counts only after little.
    #[test]
    fn who_has_ended_is_not_waited_for() {
        let mut flow = after(20);
        comes(&mut flow, 1_020, 500_000, false, TcpFlags::FIN);
        assert!(!flow.answers());
        comes(&mut flow, 1_030, 500_000, true, 0);
        assert!(!flow.answers());
    }
}
