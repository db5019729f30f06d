//! Reduced windows: their size, and the bytes that remain in them.
//!
//! This file contains methods of `HeldFlow`, whose fields are in `flow.rs`.

use std::time::Duration;

use super::{AGAIN, BEGUN, CAPPED, EDGE, HeldFlow};
use crate::Bytes;
use crate::ack::constants::{FIRST_FLIGHT, GROWTH, LEAST_WINDOW};
use crate::flow::before;
use crate::packet::{TcpFlags, TcpSegment, USUAL_MSS};

impl HeldFlow {
    /// Wire bytes of data that `tcp` requests. The ACK also reports `news` bytes beyond its number. If `for_data`
    /// is true, a reduced window limits the request, unless the sender recovers from a loss. In slow start the
    /// request is then twice as large, too.
    pub(in crate::ack::hold) fn cost(&self, tcp: &TcpSegment, news: u32, for_data: bool) -> u32 {
        let worth = self.worth(tcp.ack);
        let recovers = news > 0 || self.sacked > 0 || self.marks & AGAIN != 0;
        let left = if for_data && !recovers { self.left(tcp) } else { None };
        let doubles = for_data && self.doubles();
        let all = worth.saturating_add(news).saturating_mul(if doubles { 2 } else { 1 });
        // If a receiver divides its ACKs, the ACK that opens a full window by a segment requests this segment.
        let full = all.div_ceil(self.mss).saturating_mul(self.mss);
        let opens = if self.fills_window() { full } else { all };
        self.charge(left.map_or(all, |left| opens.min(left)))
    }

    /// Returns `true` if the advertised window has no room for a segment beyond the requested data.
    fn fills_window(&self) -> bool {
        let from = self.requested();
        !before(from, self.right) || self.right.wrapping_sub(from) < self.mss
    }

    /// Bytes beyond the [requested](Self::requested) data in the window of `tcp`, if it is reduced. They are full
    /// segments, as senders fill a window (RFC 9293, section 3.8.6.2.1).
    fn left(&self, tcp: &TcpSegment) -> Option<u32> {
        let window = self.smaller(tcp)?;
        let edge = self.edge(&TcpSegment { window, ..*tcp })?;
        let from = self.requested();
        let left = if before(from, edge) { edge.wrapping_sub(from) } else { 0 };
        Some(left / self.mss * self.mss)
    }

    /// The sequence number after the requested data: `sent`, and the outstanding credit of the flow. It is
    /// within the advertised window.
    fn requested(&self) -> u32 {
        let from = self.sent;
        if self.marks & EDGE == 0 {
            return from;
        }
        let asked = from.wrapping_add(self.outstanding);
        let within = if before(self.right, asked) { self.right } else { asked };
        if before(within, from) { from } else { within }
    }

    /// Notes the charged bytes of the flow's outstanding credit.
    pub(in crate::ack) fn set_outstanding(&mut self, bytes: u64) {
        self.outstanding = self.payload(bytes);
    }

    /// Adds the charged bytes of a request to the outstanding credit. The next ACK does not request them again.
    pub(in crate::ack::hold) fn add_outstanding(&mut self, bytes: u32) {
        self.outstanding = (self.outstanding + self.payload(bytes.into())).min(LARGEST);
    }

    /// Payload of `bytes` of full segments on the wire.
    fn payload(&self, bytes: u64) -> u32 {
        let payload = bytes * u64::from(self.mss) / u64::from(self.segment());
        u32::try_from(payload).unwrap_or(LARGEST).min(LARGEST)
    }

    /// Right edge of the window of `tcp`. `None` if the window scale is unknown.
    pub(super) fn edge(&self, tcp: &TcpSegment) -> Option<u32> {
        Some(tcp.ack.wrapping_add(u32::from(tcp.window) << self.scale?))
    }

    /// Window field of an ACK that acknowledges up to `part` and replaces `tcp`, which acknowledges more. Its
    /// right edge is at most that of `tcp`, and at least the advertised right edge. `None` if no field fits.
    ///
    /// Source: `postack`, R001-11 (d) (the right edge never moves back).
    pub(in crate::ack::hold) fn field(&self, part: u32, tcp: &TcpSegment) -> Option<u16> {
        let scale = self.scale?;
        let edge = self.edge(tcp)?;
        let slides = edge.wrapping_sub(tcp.ack.wrapping_sub(part));
        let shown_before = self.marks & EDGE != 0 && before(slides, self.right);
        let wanted = if shown_before { self.right } else { slides };
        if before(wanted, part) || before(edge, wanted) {
            return None;
        }
        let most = edge.wrapping_sub(part) >> scale;
        let field = wanted.wrapping_sub(part).div_ceil(1 << scale).min(most);
        let shown = part.wrapping_add(field << scale);
        let shrinks = self.marks & EDGE != 0 && before(shown, self.right);
        if shrinks || field == 0 { None } else { u16::try_from(field).ok() }
    }

    /// Caps the advertised window. `None` removes the cap.
    pub(in crate::ack) fn cap_to(&mut self, window: Option<Bytes>) {
        // Sequence numbers wrap: a right edge must stay ahead of its number.
        self.cap = window.map_or(0, |it| u32::try_from(it.0).unwrap_or(LARGEST).min(LARGEST));
    }

    /// The cap, plus an eighth of the bytes that `tcp` newly acknowledges. An ACK beyond `sent` adds
    /// nothing.
    pub(in crate::ack) fn grown(&self, tcp: &TcpSegment, sent: u32) -> Bytes {
        Bytes(u64::from(self.cap) + u64::from(self.newly(tcp, sent) / GROWTH))
    }

    /// Bytes that `tcp` newly acknowledges. Zero if it acknowledges data beyond `sent`. The receiver may leave
    /// as many bytes unacknowledged until more data arrives.
    pub(in crate::ack) fn newly(&self, tcp: &TcpSegment, sent: u32) -> u32 {
        let tells = self.is_known() && tcp.flags.any(TcpFlags::ACK);
        let counts = tells && before(self.seen, tcp.ack) && !before(sent, tcp.ack);
        if counts { tcp.ack.wrapping_sub(self.seen) } else { 0 }
    }

    /// Returns `true` if the ACKs of the flow are held for `long`, or if its sender uses more than half of a
    /// reduced window.
    pub(in crate::ack) fn is_pressed(&self, long: Duration) -> bool {
        let left = self.right.wrapping_sub(self.sent);
        let held = Duration::from_micros(u64::from(self.hold_us));
        (self.count > 0 && held >= long)
            || (self.marks & CAPPED != 0 && (before(self.right, self.sent) || left < self.cap / 2))
    }

    /// Bytes that the sender may still send in the last advertised window. `None` if the gateway did not
    /// reduce this window.
    pub(in crate::ack::hold) fn left_of_smaller(&self) -> Option<Bytes> {
        let left =
            if before(self.sent, self.right) { self.right.wrapping_sub(self.sent) } else { 0 };
        (self.marks & CAPPED != 0).then_some(Bytes(left.into()))
    }

    /// The least cap: four segments, as a loss then leaves three duplicates (RFC 5681, section 3.2), and one
    /// step of the window scale. A segment has the longest length observed, or the `permitted` length.
    pub(in crate::ack) fn least_window(&self, permitted: Option<u16>) -> Bytes {
        let shown = 1 << self.scale.unwrap_or(0);
        let segment = permitted.map_or(USUAL_MSS, u32::from).max(self.mss);
        Bytes(LEAST_WINDOW.saturating_mul(segment).max(shown).into())
    }

    /// Bytes of the sender's first flight beyond those that `tcp` acknowledges. The first ACK begins the flight.
    pub(in crate::ack) fn rest_of_first_flight(&mut self, tcp: &TcpSegment) -> u32 {
        if !tcp.flags.any(TcpFlags::ACK) {
            return 0;
        }
        if !self.is_known() {
            (self.marks, self.since) = (self.marks | BEGUN, tcp.ack);
        }
        let begun = self.marks & BEGUN != 0;
        let acknowledged = if begun { tcp.ack.wrapping_sub(self.since) } else { u32::MAX };
        let rest = (FIRST_FLIGHT * self.mss).saturating_sub(acknowledged);
        if rest == 0 {
            self.marks &= !BEGUN;
        }
        rest
    }

    /// Window field that reduces the bytes in flight to the cap. `None` if the window is already small
    /// enough. The right edge never moves back.
    ///
    /// Source: `postack`, R001-3 (windows).
    ///
    /// Differs: selectively acknowledged bytes are not in flight, and do not count. Otherwise a sender
    /// would have nothing to send for a round trip after each loss.
    pub(in crate::ack::hold) fn capped(&mut self, tcp: &TcpSegment) -> Option<u16> {
        let field = self.smaller(tcp);
        self.marks = self.marks & !CAPPED | if field.is_some() { CAPPED } else { 0 };
        field
    }

    fn smaller(&self, tcp: &TcpSegment) -> Option<u16> {
        let scale = self.scale?;
        if self.cap == 0 || self.cap < 1 << scale {
            return None;
        }
        let wanted = tcp.ack.wrapping_add(self.sacked).wrapping_add(self.cap);
        let keeps = self.marks & EDGE != 0 && before(wanted, self.right);
        let edge = if keeps { self.right } else { wanted };
        // Windows of a SYN or an earlier ACK control are unknown, but the data sent in them is known.
        let edge = if before(edge, self.sent) { self.sent } else { edge };
        let field = edge.wrapping_sub(tcp.ack).div_ceil(1 << scale);
        u16::try_from(field).ok().filter(|field| *field < tcp.window && *field > 0)
    }
}

/// The largest window.
///
/// Source: RFC 7323, section 2.3.
const LARGEST: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::packet::Packet;

    #[test]
    fn a_window_shows_neither_more_than_was_offered_nor_less_than_was_shown() {
        let mut flow = HeldFlow { scale: Some(7), ..HeldFlow::default() };
        let mut tcp = TcpSegment { ack: 1_000, window: 100, ..TcpSegment::default() };
        flow.note(&tcp);
        flow.goes(&mut tcp, true);
        assert_eq!(flow.edge(&tcp), Some(13_800));
        let field = |part, ack, window| {
            flow.field(part, &TcpSegment { ack, window, ..TcpSegment::default() })
        };
        assert_eq!(field(3_000, 5_000, 100), Some(100)); // it slides
        assert_eq!(field(3_000, 5_000, 70), Some(85)); // up to 13,880: 13,800 were shown
        assert_eq!(field(3_000, 5_000, 69), None); // up to 13,832 is offered, 13,752 would be less
        assert_eq!(field(3_000, 13_800, 0), None); // a window that closes is the receiver's to tell
    }

    #[test]
    fn a_window_is_capped_to_the_need_of_the_rate_and_never_to_zero() {
        let mut flow = HeldFlow { scale: Some(2), ..HeldFlow::default() };
        let mut tcp = TcpSegment { ack: 0, window: 2_500, ..TcpSegment::default() };
        assert_eq!(flow.capped(&tcp), None);
        flow.cap_to(Some(Bytes(4_001)));
        assert_eq!(flow.capped(&tcp), Some(1_001)); // rounded up
        flow.note(&tcp);
        flow.goes(&mut tcp, true); // shows up to 10,000
        tcp.ack = 5_000;
        assert_eq!(flow.capped(&tcp), Some(1_250));
        flow.sacked = 2_000; // no longer in flight: up to 11,001
        assert_eq!(flow.capped(&tcp), Some(1_501));
        flow.sacked = 0;
        tcp.window = 900;
        assert_eq!(flow.capped(&tcp), None);
        flow.cap_to(Some(Bytes(3))); // less than a step
        assert_eq!(flow.capped(&tcp), None);
    }

    /// Catches: a window that is too small for three duplicates after a loss, or for its scale.
    #[test]
    fn the_least_window_is_of_four_segments_and_can_be_shown() {
        let least =
            |permitted, scale| HeldFlow { scale, ..HeldFlow::default() }.least_window(permitted).0;
        assert_eq!(
            [None, Some(1_460), Some(536)].map(|permitted| least(permitted, None)),
            [5_792, 5_840, 5_792]
        );
        assert_eq!([0, 12, 14].map(|bits| least(None, Some(bits))), [5_792, 5_792, 16_384]);
        assert_eq!(least(Some(8_948), Some(7)), 35_792);
        let flow = HeldFlow { mss: 8_900, ..HeldFlow::default() };
        assert_eq!(flow.least_window(Some(1_460)), Bytes(35_600));
    }

    /// A flow with 10,000 bytes in flight in a window of that size. `tcp` acknowledges half of them.
    fn filled() -> (HeldFlow, TcpSegment) {
        let mut flow =
            HeldFlow { scale: Some(0), sent: 10_000, header: 0, mss: 500, ..HeldFlow::default() };
        let mut tcp = TcpSegment { ack: 0, window: 60_000, ..TcpSegment::default() };
        flow.cap_to(Some(Bytes(10_000)));
        flow.note(&tcp);
        tcp.window = flow.capped(&tcp).unwrap();
        flow.goes(&mut tcp, true);
        (flow, TcpSegment { ack: 5_000, window: 60_000, ..tcp })
    }

    /// Catches: an ACK that moves no window and still counts as a request; TCR that paces by requested bytes.
    /// Catches: no request by an ACK whose sender fills a hole (RFC 6675), or is limited by its receiver.
    /// Catches: a request beyond the window after a probe for a lost tail (RFC 8985), which begins no recovery.
    #[test]
    fn an_ack_requests_no_more_than_its_window_permits() {
        let (mut flow, tcp) = filled();
        assert_eq!(flow.cost(&tcp, 0, true), 5_000);
        flow.cap_to(Some(Bytes(6_000)));
        assert_eq!(flow.cost(&tcp, 0, true), 1_000);
        flow.cap_to(Some(Bytes(5_499)));
        assert_eq!((flow.cost(&tcp, 0, true), flow.cost(&tcp, 0, false)), (0, 5_000));
        assert_eq!(flow.cost(&TcpSegment { window: 4_000, ..tcp }, 0, true), 5_000);
        assert_eq!(flow.cost(&tcp, 1_000, true), 6_000);
        flow.sacked = 1_000;
        assert_eq!(flow.cost(&tcp, 0, true), 5_000);
        flow.sacked = 0;
        // After a timeout, a probe for a lost tail, and new data.
        for (seq, seen_before, cost) in [(5_000, true, 5_000), (9_500, true, 0), (5_000, false, 0)]
        {
            let data = TcpSegment { seq, payload: 500, ..TcpSegment::default() };
            flow.on_data(Time::ZERO, &Packet { seen_before, ..Packet::default() }, &data);
            assert_eq!(flow.cost(&tcp, 0, true), cost, "{seq}");
        }
    }

    /// Catches: a second request for data that is outstanding, by an ACK that does not move the right edge.
    /// Catches: credit of data that no window permits.
    #[test]
    fn an_ack_requests_nothing_that_an_earlier_ack_requested() {
        let (mut flow, tcp) = filled();
        (flow.sent, flow.cap) = (7_000, 6_000);
        for (credit, cost) in [(0, 4_000), (2_000, 2_000), (3_000, 1_000), (9_000, 1_000)] {
            flow.set_outstanding(credit);
            assert_eq!(flow.cost(&tcp, 0, true), cost, "{credit}");
        }
        assert_eq!(flow.cost(&tcp, 0, false), 5_000);
    }

    /// Catches: divided ACKs that open the window by a segment and are charged for a tenth of it.
    #[test]
    fn the_ack_that_opens_a_window_by_a_segment_requests_the_whole_segment() {
        let (mut flow, tcp) = filled();
        for (acked, cost) in [(50, 0), (450, 0), (500, 500), (950, 500)] {
            flow.released = acked - 50;
            assert_eq!(flow.cost(&TcpSegment { ack: acked, ..tcp }, 0, true), cost, "{acked}");
        }
    }

    /// Catches: small data charged as a segment, although the window had room for a segment before.
    #[test]
    fn an_ack_of_little_data_requests_as_little_while_the_window_has_room() {
        let (mut flow, tcp) = filled();
        (flow.sent, flow.right, flow.cap) = (2_000, 10_000, 12_000);
        assert_eq!(flow.cost(&TcpSegment { ack: 100, ..tcp }, 0, true), 100);
    }

    /// Catches: a sender in slow start whose ACKs request as much as they acknowledge; TCR that paces by twice
    /// the acknowledged bytes; a request of more than the window permits.
    #[test]
    fn an_ack_requests_twice_the_acknowledged_data_in_slow_start() {
        let (mut flow, tcp) = filled();
        flow.near_us = 40_000;
        flow.came(Time::from_secs(1), 1_000);
        (flow.sent, flow.cap) = (5_000, 40_000);
        assert_eq!((flow.cost(&tcp, 0, true), flow.cost(&tcp, 0, false)), (10_000, 5_000));
        flow.cap_to(Some(Bytes(7_500)));
        assert_eq!(flow.cost(&tcp, 0, true), 7_500);
    }

    /// Catches: growth by a sequence number, in a flow without earlier ACKs; growth as fast as in slow start.
    /// Catches: growth by an ACK of unsent data, by an old ACK, or by a reset.
    #[test]
    fn a_window_grows_by_an_eighth_of_the_acknowledged_bytes() {
        let mut flow = HeldFlow::default();
        flow.cap_to(Some(Bytes(20_000)));
        let ack = |ack| TcpSegment { ack, flags: TcpFlags(TcpFlags::ACK), ..TcpSegment::default() };
        assert_eq!(flow.grown(&ack(9_000), 10_000), Bytes(20_000));
        flow.note(&ack(1_000));
        let grown = [9_000, 10_001, 1_000, 999].map(|it| flow.grown(&ack(it), 10_000).0);
        assert_eq!(grown, [21_000, 20_000, 20_000, 20_000]);
        let reset = TcpSegment { flags: TcpFlags(TcpFlags::RST), ..ack(9_000) };
        assert_eq!(flow.grown(&reset, 10_000), Bytes(20_000));
    }

    /// Catches: a reduced window that ends before data that the sender has already sent.
    #[test]
    fn a_first_window_is_not_reduced_below_the_sent_data() {
        let mut flow = HeldFlow { scale: Some(7), sent: 14_480, ..HeldFlow::default() };
        flow.cap_to(Some(Bytes(5_792)));
        let tcp = TcpSegment { ack: 2_896, window: 500, ..TcpSegment::default() };
        assert_eq!(flow.capped(&tcp), Some(91)); // 11,584 bytes, rounded up
    }

    /// Catches: pressure on a sender with little data, or with a small window of its receiver.
    /// Catches: no pressure on a sender that waits for its window, or whose ACKs are held.
    #[test]
    fn a_flow_that_fills_a_reduced_window_or_whose_acks_are_held_for_long_is_pressed() {
        let long = Duration::from_millis(250);
        let (mut flow, mut tcp) = filled();
        assert!(flow.is_pressed(long));
        flow.sent = 4_000;
        assert!(!flow.is_pressed(long));
        (0..50).for_each(|_| flow.was_held(Duration::from_millis(300)));
        assert!(!flow.is_pressed(long));
        flow.count = 1;
        assert!(flow.is_pressed(long));
        (0..50).for_each(|_| flow.was_held(Duration::from_millis(20)));
        assert!(!flow.is_pressed(long));
        (flow.sent, flow.count, tcp.window) = (10_000, 0, 2_000);
        assert_eq!(flow.capped(&tcp), None);
        assert!(!flow.is_pressed(long));
    }

    /// Catches: a cap further ahead than sequence numbers reach. The window then stays as it was, or becomes
    /// the selectively acknowledged bytes.
    #[test]
    fn a_cap_beyond_the_largest_window_takes_nothing_away() {
        for window in [1 << 30, 2 << 30, 3 << 30, (4 << 30) - 1, 4 << 30, 5 << 40] {
            let mut flow = HeldFlow { scale: Some(7), ..HeldFlow::default() };
            let mut tcp = TcpSegment { ack: 0, window: 500, ..TcpSegment::default() };
            flow.cap_to(Some(Bytes(window)));
            flow.note(&tcp);
            flow.goes(&mut tcp, true);
            flow.sacked = 10_000;
            (tcp.ack, tcp.window) = (1_000, 60_000);
            assert_eq!(flow.capped(&tcp), None, "{window}");
        }
    }
}
