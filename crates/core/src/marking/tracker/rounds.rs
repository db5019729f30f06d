//! State of a flow's rounds, common to both trackers.

use std::time::Duration;

use super::{Brief, Estimate, Sighting};
use crate::packet::{Ecn, Packet, TcpFlags, TcpSegment};
use crate::{Bytes, Time};

/// Microseconds, modulo 2^32: the clock wraps after 71 minutes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Micros(u32);

impl Micros {
    /// The time `now`, rounded down.
    pub(super) fn of(now: Time) -> Self {
        Self(u32::try_from((now.nanos() / 1_000) & u64::from(u32::MAX)).unwrap_or(0))
    }

    /// Microseconds since `earlier`.
    pub(super) const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The latest time up to `now` at which the clock had this value.
    fn time(self, now: Time) -> Time {
        let passed = u64::from(Self::of(now).since(self));
        Time::from_micros((now.nanos() / 1_000).saturating_sub(passed))
    }
}

/// `span` in whole microseconds, at least one.
pub(super) fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX).max(1)
}

/// RTT of a flow whose handshake was not observed, until it is measured.
///
/// Chosen, not measured: the middle of the round-trip times that `marking`, section 5, uses (24 to 180 ms).
pub(super) const FIRST_RTT: u32 = 100_000;

/// After this many RTT without a packet a flow is idle. The next packet begins a round.
///
/// Source: `marking`, section 2.1 (restart).
pub(super) const IDLE_ROUNDS: u32 = 2;

/// The current round of a flow, and the size of the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundState {
    /// Arrival of the first packet of the round.
    pub(super) start: Micros,
    /// Arrival of the last packet.
    pub(super) last: Micros,
    /// Round-trip time, in microseconds; not zero once a round has begun.
    pub(super) rtt: u32,
    /// Segments of this round, and bytes of their frames.
    pub(super) segments: u16,
    pub(super) bytes: u32,
    /// Segments of the previous round; zero in the first round.
    pub(super) segments_before: u16,
    /// Bytes of the previous round, as frames.
    pub(super) bytes_before: u32,
    /// The sequence number after the highest seen.
    pub(super) next: u32,
    /// Frame length of the largest segment of the flow.
    frame: u16,
    flags: u8,
    response: MarkResponse,
}

/// A mark or drop was seen in this round.
const MARKED: u8 = 1;
/// A mark or drop was seen in the previous round.
const MARKED_BEFORE: u8 = 2;
/// `next` is known.
const SENT: u8 = 4;
/// The sender uses ECT(1), so it does not halve its window after a mark (RFC 9331, section 4.1).
const SCALABLE: u8 = 8;
/// The receiver's window or the application limits the flow.
const LIMITED: u8 = 16;
/// The sender reduced its window in this round.
const REDUCED: u8 = 32;
/// The sender reduced its window in the previous round.
const REDUCED_BEFORE: u8 = 64;
/// The mark of `MARKED` was seen in the previous round. The sender has not reacted yet.
const PENDING: u8 = 128;

/// Position of a segment relative to earlier ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SegmentOrder {
    /// The segment follows the highest sequence number seen.
    Next,
    /// Segments before it are missing: they were dropped or overtaken upstream.
    Gap,
    /// A part of the segment was seen before, or it fills a gap.
    Again,
    /// The sequence number is outside any window: the addresses and ports belong to a new
    /// connection.
    Elsewhere,
}

/// A larger distance between two sequence numbers cannot be a window (RFC 7323, section 2.3).
const MAX_WINDOW: u32 = 1 << 30;

impl RoundState {
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    const fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.flags |= flag;
        } else {
            self.flags &= !flag;
        }
    }

    /// Notes the numbers and marks of a data segment of the current round.
    fn look(&mut self, packet: &Packet, segment: &TcpSegment, order: SegmentOrder) {
        if matches!(order, SegmentOrder::Next | SegmentOrder::Gap | SegmentOrder::Elsewhere) {
            self.next = segment.end_seq();
        }
        self.set(SENT, true);
        if packet.ecn == Ecn::Ce {
            self.set(MARKED, true);
        } else {
            self.set(SCALABLE, packet.ecn == Ecn::Ect1);
        }
        self.frame = self.frame.max(u16::try_from(frame(packet)).unwrap_or(u16::MAX));
    }

    /// Position of a segment relative to earlier ones.
    pub(super) fn order(&self, segment: &TcpSegment) -> SegmentOrder {
        let ahead = segment.seq.wrapping_sub(self.next);
        let behind = self.next.wrapping_sub(segment.seq);
        if !self.has(SENT) || ahead == 0 {
            SegmentOrder::Next
        } else if ahead < MAX_WINDOW {
            SegmentOrder::Gap
        } else if behind < MAX_WINDOW {
            SegmentOrder::Again
        } else {
            SegmentOrder::Elsewhere
        }
    }

    /// Notes a SYN; its data begins at `next`.
    pub(super) fn expect(&mut self, next: u32) {
        self.next = next;
        self.set(SENT, true);
    }

    /// Adds a data segment with this order to the round. Returns `true` if the window changes.
    pub(super) fn count(
        &mut self,
        seen: &Sighting<'_>,
        segment: &TcpSegment,
        order: SegmentOrder,
    ) -> bool {
        let before = self.window();
        self.look(seen.packet, segment, order);
        // The sender halves its window once per loss: the retransmission belongs to the mark of the
        // previous round.
        let copy = order == SegmentOrder::Again && !self.has(MARKED_BEFORE);
        if order == SegmentOrder::Gap || copy {
            self.set(MARKED, true);
        }
        self.add(seen.now, seen.packet);
        self.window() != before
    }

    /// As [`count`](Self::count), for a tracker that observes the sender's reaction to a mark or
    /// loss: CWR or a retransmission.
    pub(super) fn count_reaction(
        &mut self,
        seen: &Sighting<'_>,
        segment: &TcpSegment,
        order: SegmentOrder,
    ) -> bool {
        let before = self.window();
        self.look(seen.packet, segment, order);
        if order == SegmentOrder::Gap {
            self.set(MARKED, true);
        }
        let copy = order == SegmentOrder::Again && !self.has(REDUCED | REDUCED_BEFORE);
        if copy || (says_reduced(segment) && !self.has(REDUCED)) {
            self.bytes_before = self.window() / 2;
            self.set(REDUCED, true);
            self.set(MARKED | PENDING, false);
        }
        self.add(seen.now, seen.packet);
        self.window() != before
    }

    fn add(&mut self, now: Time, packet: &Packet) {
        self.last = Micros::of(now);
        self.segments = self.segments.saturating_add(segments(packet));
        self.bytes = self.bytes.saturating_add(packet.len);
    }

    /// Begins a round with the packet that arrives now, which is not counted yet.
    pub(super) fn begin(&mut self, now: Time) {
        let marked = self.has(MARKED);
        self.turn(now);
        self.set(MARKED_BEFORE, marked);
    }

    /// As [`begin`](Self::begin), for a tracker that observes the sender's reaction: a mark remains
    /// for one more round.
    pub(super) fn begin_reaction(&mut self, now: Time) {
        let pending = self.has(MARKED) && !self.has(PENDING);
        self.turn(now);
        self.set(MARKED | PENDING, pending);
        self.set(MARKED_BEFORE, false);
    }

    fn turn(&mut self, now: Time) {
        if self.segments > 0 {
            self.response.round(self.bytes);
            (self.segments_before, self.bytes_before) = (self.segments, self.bytes);
        }
        (self.segments, self.bytes) = (0, 0);
        self.start = Micros::of(now);
        let reduced = self.has(REDUCED);
        self.set(REDUCED_BEFORE, reduced);
        self.set(MARKED | PENDING | REDUCED | LIMITED, false);
    }

    /// Adds segments of the previous round to the round that ends now.
    ///
    /// After a reduction `bytes_before` is half of the larger of both rounds. If that is the
    /// current one, its bytes would count twice.
    pub(super) fn widen(&mut self, segments: u32) {
        if self.has(REDUCED) && self.bytes / 2 >= self.bytes_before {
            return;
        }
        let bytes = segments.saturating_mul(u32::from(self.frame));
        self.bytes = self.bytes.saturating_add(bytes.min(self.bytes_before));
    }

    /// Records that the receiver's window or the application limits the flow in this round.
    pub(super) const fn limit(&mut self) {
        self.set(LIMITED, true);
    }

    /// Notes an ACK with ECN-Echo. A reduction explains the ACKs of its round and of the next.
    pub(super) const fn echoed(&mut self) {
        if !self.has(REDUCED | REDUCED_BEFORE) {
            self.set(MARKED, true);
        }
    }

    /// Notes a mark that this place set.
    pub(super) fn mark(&mut self) {
        self.set(MARKED, true);
        let least = u32::from(self.frame) * LEAST_WINDOW;
        self.response.asked(self.window(), least);
    }

    /// Bytes of the window, as frames.
    ///
    /// A round that has just begun counts as the previous round, or as half of it if that was
    /// marked.
    ///
    /// Source: `marking`, section 2.1 (implementation warning).
    pub(super) fn window(&self) -> u32 {
        if self.has(REDUCED) {
            return self.bytes_before;
        }
        let before =
            if self.has(MARKED_BEFORE) { self.bytes_before / 2 } else { self.bytes_before };
        self.bytes.max(before)
    }

    /// True if the flow did not respond to marks.
    pub(super) const fn ignores(&self) -> bool {
        !self.response.is_seen()
    }

    /// True if no packet arrived for [`IDLE_ROUNDS`].
    pub(super) fn is_idle(&self, now: Time) -> bool {
        Micros::of(now).since(self.last) > self.rtt.saturating_mul(IDLE_ROUNDS)
    }

    /// The estimate, as if the last packet of the flow had just arrived.
    pub(super) fn estimate(&self, now: Time) -> Estimate {
        let Brief { window, growth, rtt, marked, responds } = self.brief();
        Estimate {
            round_start: self.start.time(now),
            rtt: Duration::from_micros(u64::from(rtt)),
            window: Bytes(u64::from(window)),
            growth: Bytes(u64::from(growth)),
            marked,
            responds,
        }
    }

    /// The part of the estimate that does not depend on the present.
    pub(super) fn brief(&self) -> Brief {
        Brief {
            window: self.window(),
            growth: if self.has(LIMITED) { 0 } else { u32::from(self.frame) },
            rtt: self.rtt,
            marked: self.has(MARKED),
            responds: self.responds(),
        }
    }

    const fn responds(&self) -> bool {
        !self.has(SCALABLE) && self.response.is_seen()
    }

    /// True if a mark would reduce the next round.
    pub(super) const fn is_markable(&self) -> bool {
        self.responds() && !self.has(MARKED)
    }
}

/// Least window in segments at which a response is judged: CUBIC multiplies it by 0.7 and adds two
/// segments in two rounds. From seven segments that leaves more than six (RFC 9438, section 4.6).
const LEAST_WINDOW: u32 = 8;

/// Checks that the sender reduces its window after marks: the third round that ends after the mark
/// must be smaller.
///
/// The first is the round of the mark. In the second the sender learns of it. CWR is no proof:
/// Linux also sends it if the congestion control keeps its window, as BBR does.
#[derive(Clone, Copy, Debug, Default)]
struct MarkResponse {
    /// The window at the mark that is being judged.
    window: u32,
    /// Rounds until the mark is judged; zero if none is.
    left: u8,
    /// Number of successive marks that were ignored.
    ignored: u8,
}

const ROUNDS_TO_RESPOND: u8 = 3;

/// Successive marks that a flow must ignore to be condemned. A tracker that joins two rounds misses
/// the response to one mark.
///
/// Chosen by `marking/exp1`, 40 seeds of 240 flows that respond: four marks condemned a flow in three seeds.
const IGNORED_MARKS: u8 = 8;

impl MarkResponse {
    const fn asked(&mut self, window: u32, least: u32) {
        if self.left == 0 && window >= least {
            (self.window, self.left) = (window, ROUNDS_TO_RESPOND);
        }
    }

    /// Notes that a round of `bytes` ended.
    const fn round(&mut self, bytes: u32) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.left == 0 {
            let ignored = bytes >= self.window;
            self.ignored = if ignored { self.ignored.saturating_add(1) } else { 0 };
        }
    }

    const fn is_seen(self) -> bool {
        self.ignored < IGNORED_MARKS
    }
}

/// True if a data segment has CWR: its sender has reduced the window (RFC 3168, section 6.1.2).
const fn says_reduced(segment: &TcpSegment) -> bool {
    segment.flags.any(TcpFlags::CWR) && !segment.flags.any(TcpFlags::SYN)
}

/// Number of segments that the sender sent as `packet`.
pub(super) fn segments(packet: &Packet) -> u16 {
    packet.segments.max(1)
}

/// Frame length of a segment of `packet`.
fn frame(packet: &Packet) -> u32 {
    if packet.segments > 1 { packet.headers() + u32::from(packet.segment) } else { packet.len }
}

/// The TCP header of `seen` if it is a SYN or has data.
pub(super) fn data<'a>(seen: &Sighting<'a>) -> Option<&'a TcpSegment> {
    let segment = seen.packet.tcp.as_ref()?;
    (segment.payload > 0 || segment.flags.any(TcpFlags::SYN)).then_some(segment)
}
