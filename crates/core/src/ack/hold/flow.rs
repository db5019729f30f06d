//! State of a flow whose ACKs are held.

mod awaited;
mod window;

use std::time::Duration;

use super::super::Known;
use super::super::record::NONE;
use crate::flow::before;
use crate::packet::{Packet, SackBlocks, TcpFlags, TcpSegment};
use crate::{Bytes, Time};

/// What is known of a flow, and where its held ACKs are.
#[derive(Clone, Copy, Debug)]
pub(in crate::ack) struct Flow {
    /// Its records, oldest first.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) count: u32,
    /// The record with the packet that others are made of.
    pub(super) template: u32,
    /// The highest acknowledgement that arrived, and that went on.
    pub(super) seen: u32,
    pub(super) released: u32,
    /// The right edge of the window as far as it went on.
    right: u32,
    /// The highest sequence number the sender of the data sent, and the receiver did.
    pub(super) sent: u32,
    pub(super) back: u32,
    /// Bytes beyond `seen` that were acknowledged selectively.
    sacked: u32,
    /// Bytes beyond `released` that were paid for already.
    pub(super) credited: u32,
    /// The highest timestamp that went on.
    timestamp: u32,
    /// Bytes of data that came and are not acknowledged by what went on.
    carried: u32,
    /// Bytes of payload in a full segment, and of headers with it, as charged.
    mss: u32,
    header: u32,
    /// Most window it may be told, in bytes; none if zero.
    cap: u32,
    /// How long its ACKs are held, smoothed, in microseconds.
    hold_us: u32,
    /// Shortest round trips to the sender and to the receiver, in microseconds; zero if not known.
    near_us: u32,
    far_us: u32,
    /// When its sender was last called for data, or sent some uncalled, in ticks; zero for never.
    heard: u32,
    /// Where what it sent after a pause begins.
    since: u32,
    pub(super) window: u16,
    /// Held ACKs that are kept whole.
    pub(super) whole: u16,
    /// How many bits the receiver's window is shifted by, if that is known.
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
/// What went on last told of less window than the receiver did.
const CAPPED: u16 = 16;
/// Its segments are known to be as long as `mss` at least.
const SIZED: u16 = 32;
/// Its newest data was sent before.
const AGAIN: u16 = 64;
/// Its sender has sent its last.
const ENDED: u16 = 128;
/// It has sent no more than an answer since a pause.
const PAUSED: u16 = 256;

/// AccECN or MPTCP was negotiated: all ACKs are kept whole.
const EXTENDED: u16 = 512;
/// ACKs are not held: too many had to be kept whole.
const UNHELD: u16 = 1_024;
/// The newest ACK that departed echoes congestion (ECE).
const ECHOES: u16 = 2_048;

/// A SYN claims the flow's ports: held ACKs do not depart.
const STOPPED: u16 = 4_096;

/// Source: `postack`, section 2.
const _: () = assert!(size_of::<Flow>() <= 128);

impl Default for Flow {
    fn default() -> Self {
        Self {
            first: NONE,
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
            header: USUAL_HEADER,
            cap: 0,
            hold_us: 0,
            near_us: 0,
            far_us: 0,
            heard: 0,
            since: 0,
            scale: None,
            window: 0,
            whole: 0,
            marks: 0,
            blocks: SackBlocks::default(),
        }
    }
}

/// Full segments of Ethernet with timestamps, until one was seen.
const USUAL_MSS: u32 = 1_448;
const USUAL_HEADER: u32 = 66;
/// Payload of less is no full segment, and says nothing about those.
const LEAST_MSS: u32 = 88;

/// Segments in flight beyond a round trip that a flow may have if all its ACKs are kept whole. It is an
/// eighth of the ACK budget of a flow.
const HOLDABLE: u64 = 512;

/// What is smoothed has this many parts of its past, one of its present.
///
/// Source: RFC 6298, section 2 (alpha = 1/8).
const SMOOTHING: u32 = 8;

/// What the sender's retransmission timer allows beyond what it has got used to.
///
/// Source: Linux, `tcp_rto_min` (200 ms), less a margin of a quarter.
const ALLOWED: Duration = Duration::from_millis(150);

impl Flow {
    pub(super) const fn is_known(&self) -> bool {
        self.marks & KNOWN != 0
    }

    /// The flow's state after its departed ACKs only, as if the held ACKs had not arrived.
    pub(super) fn as_departed(&self) -> Self {
        Self {
            first: NONE,
            last: NONE,
            count: 0,
            template: NONE,
            whole: 0,
            seen: self.released,
            sacked: self.credited,
            blocks: SackBlocks::default(),
            cap: 0,
            marks: self.marks & !(STOPPED | UNHELD),
            ..*self
        }
    }

    /// Takes note of what the flow table knows of it.
    pub(super) fn learn(&mut self, known: &Known) {
        let micros = |span: Duration| u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        self.near_us = known.near.map_or(0, micros);
        self.far_us = known.far.map_or(0, micros);
        self.scale = known.scale;
        self.marks = self.marks & !EXTENDED | if known.extended { EXTENDED } else { 0 };
    }

    /// Returns `true` if all ACKs are kept whole, and none is made, merged or cut from data.
    pub(in crate::ack) const fn is_extended(&self) -> bool {
        self.marks & EXTENDED != 0
    }

    /// Most data beyond its round trip that a flow may have if all its ACKs are kept whole. This keeps its
    /// held ACKs well within their budget.
    pub(in crate::ack) fn holdable(&self) -> Bytes {
        Bytes(u64::from(self.mss) * HOLDABLE)
    }

    /// Number of held ACKs that may depart.
    pub(super) const fn releasable(&self) -> u32 {
        if self.marks & STOPPED == 0 { self.count } else { 0 }
    }

    /// Stops the held ACKs, or permits their departure again.
    pub(super) const fn set_stopped(&mut self, stopped: bool) {
        self.marks = self.marks & !STOPPED | if stopped { STOPPED } else { 0 };
    }

    /// Holds no ACKs of the flow until one can be a record or acknowledges all data.
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

    /// The shortest round trip to its sender, as far as it is known.
    pub(in crate::ack) fn near(&self) -> Duration {
        Duration::from_micros(u64::from(self.near_us))
    }

    /// Takes note of data.
    pub(super) fn on_data(&mut self, now: Time, packet: &Packet, tcp: &TcpSegment) {
        self.hear(now, packet, tcp);
        self.carried = self.carried.saturating_add(tcp.payload);
        if tcp.payload > 0 {
            self.marks = self.marks & !AGAIN | if packet.seen_before { AGAIN } else { 0 };
            if before(self.sent, tcp.end_seq()) {
                self.sent = tcp.end_seq();
            }
        }
        let segments = u32::from(packet.segments.max(1));
        let payload = tcp.payload / segments;
        let full = payload > self.mss || (segments > 1 && payload >= LEAST_MSS);
        // Smaller than usual, until a larger one is seen.
        let first = self.marks & SIZED == 0 && payload >= LEAST_MSS;
        if full || first {
            self.marks |= SIZED;
            self.mss = payload;
            self.header = packet.cost.saturating_sub(tcp.payload) / segments;
        }
    }

    /// Wire bytes of data of which `payload` bytes are payload.
    ///
    /// Source: `postack`, R001-8.
    pub(super) fn charge(&self, payload: u32) -> u32 {
        let headers = payload.div_ceil(self.mss).saturating_mul(self.header);
        payload.saturating_add(headers)
    }

    /// A position that grows with each acknowledged byte, cumulative or selective. `None` before the first
    /// ACK. The flow must have no held ACK.
    pub(in crate::ack) fn delivered(&self) -> Option<u32> {
        self.is_known().then_some(self.released.wrapping_add(self.sacked))
    }

    /// Wire bytes of the data acknowledged since [`delivered`](Self::delivered) returned `before`.
    pub(in crate::ack) fn charge_since(&self, before: Option<u32>) -> u32 {
        let [Some(before), Some(now)] = [before, self.delivered()] else { return 0 };
        if self::before(before, now) { self.charge(now.wrapping_sub(before)) } else { 0 }
    }

    pub(in crate::ack) const fn mss(&self) -> u32 {
        self.mss
    }

    /// A full segment on the wire.
    pub(in crate::ack) const fn segment(&self) -> u32 {
        self.mss + self.header
    }

    /// The longest an ACK of it may be held.
    ///
    /// Source: `postack`, R001-11 (b). Differs: it may grow by a round trip as the sender has got used
    /// to it, and by 150 ms at most, not to the double in a round trip: from nothing, the double is
    /// nothing. After two such round trips a sender probes for a lost tail (RFC 8985, section 7.2).
    pub(in crate::ack) fn longest(&self, policy: Duration) -> Duration {
        policy.min(Duration::from_micros(self.hold_us.into()) + self.more())
    }

    /// How much longer than before an ACK of it may be held, and how long after one that restarted the sender's
    /// timer.
    pub(in crate::ack) fn more(&self) -> Duration {
        let span = |us: u32| Duration::from_micros(u64::from(us));
        let round_trip = span(self.near_us) + span(self.far_us) + span(self.hold_us);
        if self.far_us == 0 { ALLOWED } else { ALLOWED.min(round_trip) }
    }

    /// The highest number that departed.
    pub(in crate::ack) const fn departed(&self) -> u32 {
        self.released
    }

    /// One of its ACKs was held for `span`.
    pub(super) fn was_held(&mut self, span: Duration) {
        let span = u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        self.hold_us = self.hold_us - self.hold_us / SMOOTHING + span / SMOOTHING;
    }

    /// Whether so much may be acknowledged in steps: no more of them than data was carried, whatever
    /// a receiver says of data that was not.
    pub(super) const fn may_split(&self, worth: u32) -> bool {
        worth <= self.carried
    }

    /// Takes note of what arrived.
    pub(super) fn note(&mut self, tcp: &TcpSegment) {
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

    /// Whether `tcp`, a pure ACK, tells that something has left the network, but not what is next.
    pub(super) fn is_duplicate(&self, tcp: &TcpSegment) -> bool {
        let outstanding = before(tcp.ack, self.sent);
        tcp.has_sack || (tcp.ack == self.seen && outstanding && tcp.window == self.window)
    }

    /// Whether `tcp`, which carries data, tells what no ACK before it did.
    pub(super) fn tells_beside_data(&self, tcp: &TcpSegment) -> bool {
        let opens = tcp.ack == self.seen && tcp.window != self.window;
        tcp.has_sack || before(self.seen, tcp.ack) || opens
    }

    /// Bytes that have left the network according to a duplicate or selective ACK, beyond those that
    /// one before has told of; never more than are outstanding.
    ///
    /// Source: `postack`, R001-8. Differs: newly acknowledged selectively is what the first block has
    /// beyond those of the ACK before (RFC 2018, section 4: it is the one that has grown).
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
        self.sacked = self.sacked.saturating_add(news);
        news
    }

    /// Bytes that `ack` newly acknowledges and nobody has paid for yet.
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
            // `postack`, R001-13: PAWS drops what is older than what has passed it.
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

/// Bytes of `block` that none of `known` has, as far as they lie beyond `ack`.
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
    fn a_block_is_worth_what_the_ack_before_did_not_tell() {
        assert_eq!(news((100, 200), &blocks(&[]), 0), 100);
        assert_eq!(news((100, 300), &blocks(&[(100, 200)]), 0), 100);
        // A hole is filled, and two blocks become one.
        assert_eq!(news((100, 600), &blocks(&[(100, 300), (400, 600)]), 0), 100);
        // Reported twice (RFC 2883), below what is acknowledged, and upside down.
        assert_eq!(news((100, 200), &blocks(&[]), 500), 0);
        assert_eq!(news((200, 100), &blocks(&[]), 0), 0);
    }

    /// Kills: believing a block however long it is.
    #[test]
    fn blocks_count_for_no_more_than_is_outstanding_however_long_they_are() {
        let mut flow = Flow { sent: 10_000, ..Flow::default() };
        flow.note(&TcpSegment { ack: 1_000, ..TcpSegment::default() });
        let tcp = TcpSegment { ack: 1_000, has_sack: true, ..TcpSegment::default() };
        assert_eq!(flow.selective(&tcp, blocks(&[(2_000, 1 << 31)])), 9_000);
        assert_eq!(flow.selective(&tcp, blocks(&[(1_000, 2_000)])), 0);
    }

    /// Kills: full segments held for as short as a tail.
    #[test]
    fn segments_are_as_long_as_the_longest_that_was_seen() {
        let mut flow = Flow::default();
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
