//! Detection of flows whose sender has no data for an ACK's request: application-limited flows, and
//! senders of FIN.
//!
//! This file contains methods of `HeldFlow`, whose fields are in `flow.rs`.
//!
//! A departing ACK requests the data that its sender may send then. The gate counts this data as
//! credit until it arrives. Requests to the flows of this file get less credit, or none.

use super::{AGAIN, ENDED, HeldFlow, PAUSED};
use crate::Time;
use crate::ack::constants::{SHORTEST_RTO, UNSCALED};
use crate::ack::release::lasts;
use crate::flow::{before, ticks};
use crate::packet::{Packet, TcpFlags, TcpSegment};

impl HeldFlow {
    /// Returns `true` if the sender has sent at most 64 KiB since a pause. An application caused this
    /// data, not the ACKs.
    pub(in crate::ack) const fn is_answering(&self) -> bool {
        self.marks & PAUSED != 0
    }

    /// Returns `true` if the sender has sent FIN, and none of its data is known to be missing. ACKs of
    /// this flow request nothing.
    pub(in crate::ack) fn has_ended(&self) -> bool {
        let lacks = self.sacked > 0 || self.marks & AGAIN != 0;
        self.marks & ENDED != 0 && (!lacks || self.is_all(self.seen))
    }

    /// Returns the value of [`has_ended`](Self::has_ended) after the ACK `tcp`.
    pub(in crate::ack) fn has_ended_with(&self, tcp: &TcpSegment) -> bool {
        let all = self.marks & ENDED != 0 && self.is_all(tcp.ack);
        all || (self.has_ended() && !self.is_duplicate(tcp))
    }

    /// Returns `true` if no data was sent beyond `ack`.
    const fn is_all(&self, ack: u32) -> bool {
        self.is_known() && !before(ack, self.sent)
    }

    /// Notes that the receiver has sent RST.
    pub(in crate::ack) const fn on_reset(&mut self) {
        (self.marks, self.sacked) = (self.marks & !AGAIN | ENDED, 0);
    }

    /// Notes data or FIN. Data beyond a FIN revokes it, as the FIN may never have reached the receiver.
    pub(super) fn hear(&mut self, now: Time, packet: &Packet, tcp: &TcpSegment) {
        let is_next = tcp.seq == self.sent;
        if tcp.payload > 0 && before(self.sent, tcp.end_seq()) {
            self.marks &= !ENDED;
        }
        if tcp.payload > 0 && !packet.seen_before {
            if self.has_paused(now) {
                (self.marks, self.since) = (self.marks | PAUSED, tcp.seq);
                self.heard = ticks(now).max(1);
            } else if before(self.since.wrapping_add(UNSCALED - 1), tcp.end_seq()) {
                self.marks &= !PAUSED;
            }
        }
        if is_next && tcp.flags.any(TcpFlags::FIN) {
            self.marks |= ENDED;
        }
    }

    /// Returns `true` if data that arrives now follows a pause: more than the lifetime of credit plus
    /// [`SHORTEST_RTO`] has passed since the last request or the last unrequested data.
    fn has_paused(&self, now: Time) -> bool {
        let known = self.heard != 0 && self.near_us != 0;
        let answered =
            self.heard.wrapping_add(ticks(Time::ZERO + lasts(self.near()) + SHORTEST_RTO));
        known && before(answered, ticks(now).max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NEAR: Duration = Duration::from_millis(20);

    /// A segment from `seq` to `end` of a flow at a round trip of [`NEAR`] arrives at `ms`.
    fn segment(flow: &mut HeldFlow, ms: u64, (seq, end): (u32, u32), seen_before: bool, flags: u8) {
        let (payload, flags) = (end - seq, TcpFlags(flags));
        let tcp = TcpSegment { seq, payload, flags, ..TcpSegment::default() };
        flow.near_us = 20_000;
        let packet = Packet { seen_before, segments: 1, ..Packet::default() };
        flow.on_data(Time::from_millis(ms), &packet, &tcp);
    }

    /// The next data, up to `end`, arrives at `ms`.
    fn comes(flow: &mut HeldFlow, ms: u64, end: u32) {
        segment(flow, ms, (flow.sent, end), false, 0);
    }

    /// A flow with 1,000 bytes of data, a request at 1,000 ms, and 1,000 more bytes `ms` later.
    fn after(ms: u64) -> HeldFlow {
        let mut flow = HeldFlow::default();
        comes(&mut flow, 900, 1_000);
        flow.asked(Time::from_millis(1_000), 0);
        comes(&mut flow, 1_000 + ms, 2_000);
        flow
    }

    /// Catches: slow data that counts as unrequested; a pause before the first request.
    /// Catches: a pause after a clock that stepped back, or without a known round trip.
    #[test]
    fn a_sender_of_requested_data_has_not_paused() {
        let mut flow = HeldFlow::default();
        comes(&mut flow, 5_000, 1_000);
        assert!(!flow.is_answering());
        assert_eq!(lasts(NEAR) + SHORTEST_RTO, Duration::from_millis(230));
        assert!([20, 229].iter().all(|ms| !after(*ms).is_answering()));
        let mut flow = after(20);
        comes(&mut flow, 990, 3_000);
        assert!(!flow.is_answering());
        flow.near_us = 0;
        assert!(!flow.has_paused(Time::from_millis(2_000)));
    }

    /// Catches: an application-limited sender that is never detected; a sender that stays application-limited
    /// for ever.
    /// Catches: 64 KiB counted from the beginning; a retransmission that counts as data after a pause.
    #[test]
    fn a_sender_is_application_limited_from_a_pause_until_it_has_sent_much() {
        let mut flow = after(240);
        assert!(flow.is_answering());
        flow.asked(Time::from_millis(1_300), 0);
        comes(&mut flow, 1_310, 1_000 + UNSCALED - 1);
        assert!(flow.is_answering());
        comes(&mut flow, 1_320, 1_001 + UNSCALED - 1);
        assert!(!flow.is_answering());
        segment(&mut flow, 2_000, (1, 1_001), true, 0);
        assert!(!flow.is_answering());
    }

    /// Catches: a pause that begins again with each segment of an unrequested window.
    #[test]
    fn a_short_window_after_a_pause_is_application_limited() {
        let mut flow = after(240);
        (1..=32).for_each(|n| comes(&mut flow, 1_240, 2_000 + n * 2_000));
        assert!(flow.is_answering());
        comes(&mut flow, 1_240, 1_001 + UNSCALED - 1);
        assert!(!flow.is_answering());
    }

    /// Catches: a FIN that is not seen; a FIN that stays valid although data follows; a FIN out of order.
    #[test]
    fn a_flow_has_ended_after_a_fin_without_later_data() {
        let mut flow = after(20);
        segment(&mut flow, 1_020, (60_000, 61_000), false, TcpFlags::FIN);
        assert!(!flow.has_ended());
        flow.sent = 2_000;
        segment(&mut flow, 1_020, (2_000, 500_000), false, TcpFlags::FIN);
        assert!(flow.has_ended());
        flow.sent = 500_001;
        segment(&mut flow, 1_030, (500_001, 501_000), false, 0);
        assert!(!flow.has_ended());
    }

    /// Catches: ACKs that request missing data, and count as requesting none; arrived data that counts as
    /// missing.
    #[test]
    fn a_flow_with_missing_data_has_not_ended() {
        let mut flow = after(20);
        let ack = |ack| TcpSegment { ack, ..TcpSegment::default() };
        flow.note(&ack(1_000));
        segment(&mut flow, 1_020, (2_000, 500_000), false, TcpFlags::FIN);
        flow.sent = 500_001;
        assert!(flow.has_ended_with(&ack(2_000)));
        assert!(!flow.has_ended_with(&TcpSegment { has_sack: true, ..ack(2_000) }));
        segment(&mut flow, 1_030, (2_000, 3_000), true, 0);
        assert!(!flow.has_ended() && !flow.has_ended_with(&ack(3_000)));
        assert!(flow.has_ended_with(&ack(500_001)));
        flow.note(&ack(500_001));
        assert!(flow.has_ended());
    }

    /// Catches: a reset connection that still gets credit, as some of its data was lost.
    #[test]
    fn a_reset_flow_has_ended() {
        let mut flow = after(20);
        segment(&mut flow, 1_030, (1_000, 2_000), true, 0);
        flow.sacked = 1_000;
        flow.on_reset();
        assert!(flow.has_ended());
    }
}
