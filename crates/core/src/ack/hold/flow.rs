//! State of a flow whose ACKs are held.

mod awaited;
mod rounds;
mod window;

use std::time::Duration;

use self::rounds::Rounds;
use super::super::Known;
use super::super::constants::{SHORTEST_RTO, SMOOTHING};
use super::super::record::NONE;
use super::MOST_OF_FLOW;
use crate::flow::before;
use crate::packet::{FRAME, LEAST_MSS, Packet, SackBlocks, TcpFlags, TcpSegment, USUAL_MSS};
use crate::{Bytes, Time};

/// State of a flow, and the list of its held ACKs.
#[derive(Clone, Copy, Debug)]
pub(in crate::ack) struct HeldFlow {
    /// Index of the record of the newest held ACK. The record after it is that of the oldest one.
    pub(super) last: u32,
    /// Number of held ACKs.
    pub(super) count: u32,
    /// Index of the newest plain ACK's record. Its packet keeps a buffer, and is cloned to rebuild older ACKs.
    pub(super) template: u32,
    /// The highest acknowledgement number that arrived here from the receiver.
    pub(super) seen: u32,
    /// The highest acknowledgement number that departed to the sender.
    pub(super) released: u32,
    /// The highest right edge of an advertised window that departed.
    right: u32,
    /// The sequence number after the highest data byte of the sender.
    pub(super) sent: u32,
    /// The sequence number after the highest byte that the receiver sent back.
    pub(super) back: u32,
    /// Bytes beyond `seen` that SACK blocks or duplicate ACKs reported as arrived.
    sacked: u32,
    /// Bytes beyond `released` for which an ACK has already requested new data.
    pub(super) credited: u32,
    /// The newest timestamp (TSval) of the receiver that departed to the sender.
    timestamp: u32,
    /// Payload bytes that passed towards the receiver and that no departed ACK acknowledges.
    carried: u32,
    /// Payload bytes of a full segment.
    mss: u32,
    /// Charged bytes of the headers of a segment.
    header: u32,
    /// The cap of the advertised window, in bytes. Zero: no cap.
    cap: u32,
    /// Smoothed time for which ACKs of the flow are held, in microseconds.
    hold_us: u32,
    /// Shortest round trip between gateway and sender, in microseconds. Zero: unknown.
    near_us: u32,
    /// Shortest round trip between gateway and receiver, in microseconds. Zero: unknown.
    far_us: u32,
    /// Time, in ticks, of the last request, or of the first data after a pause. Zero: never.
    heard: u32,
    /// Sequence number at which the data after the last pause begins, or the first flight.
    since: u32,
    /// Outstanding credit as payload bytes, at the last ACK, and requests since. Without the gate, credit is zero.
    outstanding: u32,
    /// Counts of round trips, if the release rule counts data.
    rounds: Rounds,
    pub(super) window: u16,
    /// Window scale of the receiver. `None`: unknown, as the SYNs were not seen.
    scale: Option<u8>,
    marks: u16,
    blocks: SackBlocks,
}

/// `seen`, `released` and `back` are known.
const KNOWN: u16 = 1;
/// `timestamp` is known.
const TIMED: u16 = 2;
/// `right` is known.
const EDGE: u16 = 4;
/// `rounds` counts the data and the requests.
const COUNTED: u16 = 8;
/// The first flight began at `since`, and it is not acknowledged yet.
const BEGUN: u16 = 16_384;
/// The window of the last departed ACK was reduced.
const CAPPED: u16 = 16;
/// A segment of `mss` bytes was observed.
const SIZED: u16 = 32;
/// The newest data of the sender is a retransmission, but no probe for a lost tail: such a probe repeats the last
/// data (RFC 8985, section 7.3) and begins no recovery.
const AGAIN: u16 = 64;
/// The sender has sent FIN, or the receiver has sent RST.
const ENDED: u16 = 128;
/// Application-limited: the sender has sent at most 64 KiB since a pause.
const PAUSED: u16 = 256;

/// AccECN or MPTCP was negotiated: all ACKs are kept whole.
const EXTENDED: u16 = 512;
/// ACKs are not held: too many had to be kept whole.
const UNHELD: u16 = 1_024;
/// The newest ACK that departed echoes congestion (ECE).
const ECHOES: u16 = 2_048;

/// A SYN claims the flow's ports: held ACKs do not depart.
const STOPPED: u16 = 4_096;
/// The sender is in slow start.
const DOUBLES: u16 = 8_192;

/// Source: `postack`, section 2 (state for each flow).
const _: () = assert!(size_of::<HeldFlow>() <= 152);

impl Default for HeldFlow {
    fn default() -> Self {
        Self {
            last: NONE,
            count: 0,
            template: NONE,
            seen: 0,
            released: 0,
            right: 0,
            sent: 0,
            back: 0,
            sacked: 0,
            credited: 0,
            timestamp: 0,
            carried: 0,
            mss: USUAL_MSS,
            header: FRAME - USUAL_MSS,
            cap: 0,
            hold_us: 0,
            near_us: 0,
            far_us: 0,
            heard: 0,
            since: 0,
            outstanding: 0,
            rounds: Rounds::default(),
            scale: None,
            window: 0,
            marks: 0,
            blocks: SackBlocks::default(),
        }
    }
}

impl HeldFlow {
    pub(super) const fn is_known(&self) -> bool {
        self.marks & KNOWN != 0
    }

    /// The flow's state after its departed ACKs only, as if the held ACKs had not arrived.
    pub(super) fn as_departed(&self) -> Self {
        Self {
            last: NONE,
            count: 0,
            template: NONE,
            seen: self.released,
            sacked: self.credited,
            blocks: SackBlocks::default(),
            cap: 0,
            outstanding: 0,
            marks: self.marks & !(STOPPED | UNHELD | BEGUN),
            ..*self
        }
    }

    /// Copies the facts about the flow that the flow table has.
    pub(in crate::ack) fn learn(&mut self, known: &Known) {
        let micros = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        self.near_us = known.near.map_or(0, micros);
        self.far_us = known.far.map_or(0, micros);
        self.scale = known.scale;
        self.marks = self.marks & !EXTENDED | if known.extended { EXTENDED } else { 0 };
    }

    /// Returns `true` if all ACKs are kept whole, and no ACK is made, merged or cut from a data segment.
    pub(in crate::ack) const fn is_extended(&self) -> bool {
        self.marks & EXTENDED != 0
    }

    /// Largest window of a flow whose ACKs are all kept whole, in addition to the data of its round trip.
    /// This bound keeps the held ACKs of the flow within an eighth of their budget.
    pub(in crate::ack) fn holdable(&self) -> Bytes {
        Bytes(u64::from(self.mss) * u64::from(MOST_OF_FLOW / 8))
    }

    /// Number of held ACKs that may depart.
    pub(super) const fn releasable(&self) -> u32 {
        if self.marks & STOPPED == 0 { self.count } else { 0 }
    }

    /// Stops the held ACKs, or permits their departure again.
    pub(super) const fn set_stopped(&mut self, stopped: bool) {
        self.marks = self.marks & !STOPPED | if stopped { STOPPED } else { 0 };
    }

    /// Lets all ACKs of the flow pass, until an ACK can be a record or acknowledges all data.
    pub(super) const fn stop_holding(&mut self) {
        self.marks |= UNHELD;
    }

    /// Returns `true` if the arriving ACK `tcp` is not held. `record` is true if it can be a record.
    pub(super) fn is_unheld(&mut self, tcp: &TcpSegment, record: bool) -> bool {
        if self.marks & UNHELD != 0 && (record || !before(tcp.ack, self.sent)) {
            self.marks &= !UNHELD;
        }
        self.marks & UNHELD != 0
    }

    /// Flags of a data segment that departs with the number of the last departed ACK. ECE is taken from that
    /// ACK, as each echo belongs to a number (RFC 3168, section 6.1.3).
    pub(super) const fn flags_of_last(&self, flags: TcpFlags) -> TcpFlags {
        let echo = if self.marks & ECHOES != 0 { TcpFlags::ECE } else { 0 };
        TcpFlags(flags.0 & !TcpFlags::ECE | echo)
    }

    /// The shortest round trip to the sender of the flow. Zero if unknown.
    pub(in crate::ack) fn near(&self) -> Duration {
        Duration::from_micros(u64::from(self.near_us))
    }

    /// Notes a data packet.
    pub(super) fn on_data(&mut self, now: Time, packet: &Packet, tcp: &TcpSegment) {
        self.hear(now, packet, tcp);
        self.carried = self.carried.saturating_add(tcp.payload);
        if tcp.payload > 0 {
            self.marks &= !AGAIN;
            let again = packet.seen_before && before(tcp.end_seq(), self.sent);
            self.marks |= if again { AGAIN } else { 0 };
            if before(self.sent, tcp.end_seq()) {
                self.sent = tcp.end_seq();
            }
        }
        let segments = u32::from(packet.segments.max(1));
        let payload = tcp.payload / segments;
        let long = payload >= u32::from(LEAST_MSS);
        let full = payload > self.mss || (segments > 1 && long);
        // The first segment may be shorter than a usual one.
        let first = self.marks & SIZED == 0 && long;
        if full || first {
            self.marks |= SIZED;
            self.mss = payload;
            self.header = packet.cost.saturating_sub(tcp.payload) / segments;
        }
    }

    /// Wire bytes of data of which `payload` bytes are payload.
    ///
    /// Source: `postack`, R001-8 (data that an ACK requests).
    pub(super) fn charge(&self, payload: u32) -> u32 {
        let headers = payload.div_ceil(self.mss).saturating_mul(self.header);
        payload.saturating_add(headers)
    }

    pub(in crate::ack) const fn mss(&self) -> u32 {
        self.mss
    }

    /// A full segment on the wire.
    pub(in crate::ack) const fn segment(&self) -> u32 {
        self.mss + self.header
    }

    /// Longest permitted hold of an ACK, at most `policy`.
    ///
    /// Source: `postack`, R001-11 (b) (a hold must cause no spurious timeout).
    ///
    /// Differs: a hold may grow by one round trip of the sender, and by at most 150 ms. It may not double
    /// in each round trip, as the double of zero is zero. After two such round trips a sender probes for a
    /// lost tail (RFC 8985, section 7.2).
    pub(in crate::ack) fn longest(&self, policy: Duration) -> Duration {
        policy.min(Duration::from_micros(self.hold_us.into()) + self.more())
    }

    /// Permitted growth of a hold. This growth also bounds the hold of the ACK that follows an ACK by which the
    /// sender's timer restarted.
    pub(in crate::ack) fn more(&self) -> Duration {
        let round_trip_us = [self.near_us, self.far_us, self.hold_us].map(u64::from).iter().sum();
        let most = SHORTEST_RTO * 3 / 4;
        if self.far_us == 0 { most } else { most.min(Duration::from_micros(round_trip_us)) }
    }

    /// The highest acknowledgement number that departed.
    pub(in crate::ack) const fn departed(&self) -> u32 {
        self.released
    }

    /// Notes that an ACK was held for `span`.
    pub(super) fn was_held(&mut self, span: Duration) {
        let span = u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        self.hold_us = self.hold_us - self.hold_us / SMOOTHING + span / SMOOTHING;
    }

    /// Notes that the ACK `tcp` departs as it arrives. The sender's timer follows this round trip too, so the
    /// next hold may be no longer than after a hold of zero.
    pub(super) fn passes(&mut self, tcp: &TcpSegment) {
        if self.is_known() && before(self.seen, tcp.ack) {
            self.was_held(Duration::ZERO);
        }
    }

    /// Returns `true` if an ACK of `worth` bytes may depart in steps. The steps never exceed the observed
    /// data, even if a receiver acknowledges more.
    pub(super) const fn may_split(&self, worth: u32) -> bool {
        worth <= self.carried
    }

    /// Notes the numbers and the window of a returning packet.
    pub(in crate::ack) fn note(&mut self, tcp: &TcpSegment) {
        if !self.is_known() {
            self.marks |= KNOWN;
            (self.seen, self.released, self.back) = (tcp.ack, tcp.ack, tcp.end_seq());
        }
        if !before(tcp.ack, self.seen) {
            let advance = tcp.ack.wrapping_sub(self.seen);
            self.sacked = self.sacked.saturating_sub(advance);
            (self.seen, self.window) = (tcp.ack, tcp.window);
        }
        self.note_back(tcp);
    }

    pub(super) const fn note_back(&mut self, tcp: &TcpSegment) {
        if before(self.back, tcp.end_seq()) {
            self.back = tcp.end_seq();
        }
    }

    /// Returns `true` if the pure ACK `tcp` has SACK blocks, or repeats number and window while data is
    /// outstanding.
    pub(super) fn is_duplicate(&self, tcp: &TcpSegment) -> bool {
        let outstanding = before(tcp.ack, self.sent);
        tcp.has_sack || (tcp.ack == self.seen && outstanding && tcp.window == self.window)
    }

    /// Returns `true` if the data packet `tcp` has a new number or window for the sender, or SACK blocks.
    pub(super) fn has_news_beside_data(&self, tcp: &TcpSegment) -> bool {
        let opens = tcp.ack == self.seen && tcp.window != self.window;
        tcp.has_sack || before(self.seen, tcp.ack) || opens
    }

    /// Newly reported bytes that have left the network, by a duplicate ACK or SACK blocks. At most the
    /// outstanding bytes.
    ///
    /// Source: `postack`, R001-8 (data that an ACK requests).
    ///
    /// Differs: only the first block counts, without the bytes that the ACK before reported. The first block
    /// is the block that has grown (RFC 2018, section 4).
    pub(super) fn selective(&mut self, tcp: &TcpSegment, blocks: SackBlocks) -> u32 {
        let duplicate = self.is_duplicate(tcp);
        let from = if before(self.seen, tcp.ack) { tcp.ack } else { self.seen };
        let sacked = self.sacked.saturating_sub(from.wrapping_sub(self.seen));
        let room = self.sent.wrapping_sub(from).saturating_sub(sacked);
        let news = if tcp.has_sack {
            let first = blocks.as_slice().first();
            let news = first.map_or(0, |first| news(*first, &self.blocks, tcp.ack));
            self.blocks = blocks;
            news
        } else if duplicate {
            self.mss
        } else {
            0
        };
        let news = news.min(room);
        if news > 0 {
            self.loses();
        }
        self.sacked = self.sacked.saturating_add(news);
        news
    }

    /// Bytes that `ack` newly acknowledges and that have not been requested yet.
    pub(super) fn worth(&self, ack: u32) -> u32 {
        self.advance(ack).saturating_sub(self.credited)
    }

    const fn advance(&self, ack: u32) -> u32 {
        if before(self.released, ack) { ack.wrapping_sub(self.released) } else { 0 }
    }

    /// Notes that `tcp` departs. Raises its timestamp and sequence number to those of data that overtook it,
    /// unless all ACKs are kept whole.
    pub(super) fn goes(&mut self, tcp: &mut TcpSegment, pure: bool) {
        let whole = self.is_extended();
        if let Some((value, _)) = &mut tcp.timestamps {
            // `postack`, R001-13: PAWS would drop an ACK older than the data that overtook it.
            if !whole && self.marks & TIMED != 0 && before(*value, self.timestamp) {
                *value = self.timestamp;
            }
            self.timestamp = *value;
            self.marks |= TIMED;
        }
        if !whole && pure && self.is_known() && before(tcp.seq, self.back) {
            tcp.seq = self.back;
        }
        let advance = self.advance(tcp.ack);
        self.credited = self.credited.saturating_sub(advance);
        self.carried = self.carried.saturating_sub(advance);
        self.released = self.released.wrapping_add(advance);
        if tcp.ack == self.released {
            let echoes = tcp.flags.any(TcpFlags::ECE);
            self.marks = self.marks & !ECHOES | if echoes { ECHOES } else { 0 };
        }
        if let Some(edge) = self.edge(tcp)
            && (self.marks & EDGE == 0 || before(self.right, edge))
        {
            self.right = edge;
            self.marks |= EDGE;
        }
    }
}

/// Bytes of the SACK block `block` beyond `ack` that are in no block of `known`, the blocks of the ACK before.
fn news(block: (u32, u32), known: &SackBlocks, ack: u32) -> u32 {
    let (mut start, end) = block;
    if before(start, ack) {
        start = ack; // a duplicate (RFC 2883), or a lie
    }
    if !before(start, end) {
        return 0;
    }
    let all = end.wrapping_sub(start);
    let overlap = |(from, to): &(u32, u32)| {
        let from = if before(*from, start) { start } else { *from };
        let to = if before(end, *to) { end } else { *to };
        if before(from, to) { to.wrapping_sub(from) } else { 0 }
    };
    let old: u32 = known.as_slice().iter().map(overlap).fold(0, u32::saturating_add);
    all.saturating_sub(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(of: &[(u32, u32)]) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        of.iter().for_each(|block| assert!(blocks.push(*block)));
        blocks
    }

    #[test]
    fn a_block_counts_the_bytes_that_the_ack_before_did_not_report() {
        assert_eq!(news((100, 200), &blocks(&[]), 0), 100);
        assert_eq!(news((100, 300), &blocks(&[(100, 200)]), 0), 100);
        // A hole is filled, and two blocks become one.
        assert_eq!(news((100, 600), &blocks(&[(100, 300), (400, 600)]), 0), 100);
        // A block that is below the acknowledgement number (reported twice, RFC 2883), and a block that ends
        // before it begins.
        assert_eq!(news((100, 200), &blocks(&[]), 500), 0);
        assert_eq!(news((200, 100), &blocks(&[]), 0), 0);
    }

    /// Catches: a receiver whose false SACK block requests more data than is in flight.
    #[test]
    fn blocks_count_for_at_most_the_outstanding_bytes() {
        let mut flow = HeldFlow { sent: 10_000, ..HeldFlow::default() };
        flow.note(&TcpSegment { ack: 1_000, ..TcpSegment::default() });
        let tcp = TcpSegment { ack: 1_000, has_sack: true, ..TcpSegment::default() };
        assert_eq!(flow.selective(&tcp, blocks(&[(2_000, 1 << 31)])), 9_000);
        assert_eq!(flow.selective(&tcp, blocks(&[(1_000, 2_000)])), 0);
    }

    /// Catches: a bound that follows from old holds, and exceeds the timeout of a sender whose ACKs now
    /// depart at once.
    /// Catches: an ACK without new information that shortens the next hold.
    #[test]
    fn the_next_hold_is_short_again_after_acks_that_were_not_held() {
        let mut flow = HeldFlow { near_us: 2_000, far_us: 50_000, ..HeldFlow::default() };
        let longest = |flow: &HeldFlow| flow.longest(Duration::from_secs(1)).as_millis();
        let pass = |flow: &mut HeldFlow, ack| {
            let tcp = TcpSegment { ack, ..TcpSegment::default() };
            flow.passes(&tcp);
            flow.note(&tcp);
        };
        pass(&mut flow, 0);
        (0..99).for_each(|_| flow.was_held(Duration::from_millis(150)));
        (0..99).for_each(|_| pass(&mut flow, 0));
        // The hold, and a growth by 150 ms.
        assert_eq!(longest(&flow), 150 + 150);
        (1..99).for_each(|n| pass(&mut flow, n * USUAL_MSS));
        // A round trip without a hold.
        assert_eq!(longest(&flow), 52);
    }

    /// Catches: a full segment that is taken for a short last segment, because an earlier segment was short.
    #[test]
    fn segments_are_as_long_as_the_longest_observed_segment() {
        let mut flow = HeldFlow::default();
        for (payload, mss) in
            [(80, 1_448), (517, 517), (1_448, 1_448), (100, 1_448), (8_948, 8_948)]
        {
            let tcp = TcpSegment { payload, ..TcpSegment::default() };
            flow.on_data(
                Time::ZERO,
                &Packet { cost: payload + 66, segments: 1, ..Packet::default() },
                &tcp,
            );
            assert_eq!(flow.mss(), mss);
        }
    }
}
