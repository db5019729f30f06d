//! The current and the previous round of a flow: their bytes, marks and losses. A round has the
//! packets of one window. Both trackers, which estimate the window of a flow, use this state.
//!
//! The trackers differ in the packet that begins a round. Then they call [`RoundState::begin`].

use std::time::Duration;

use super::{Brief, Estimate, Sighting};
use crate::packet::{Ecn, Packet, TcpFlags, TcpSegment};
use crate::{Bytes, Time};

/// A time in microseconds, modulo 2^32. The clock wraps after 71 minutes.
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

    /// This time as a [`Time`], if it is not later than `now` and less than 71 minutes ago.
    fn time(self, now: Time) -> Time {
        let passed = u64::from(Self::of(now).since(self));
        Time::from_micros((now.nanos() / 1_000).saturating_sub(passed))
    }
}

/// `span` in whole microseconds, at least one.
pub(super) fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX).max(1)
}

/// First estimate of the RTT, in microseconds, of a flow whose handshake was not observed.
///
/// Chosen, not measured: the middle of the round-trip times in `marking`, section 5 (24 to 180 ms).
pub(super) const FIRST_RTT: u32 = 100_000;

/// A flow is idle after this many RTT without a packet. The next packet then begins a round.
///
/// Source: `marking`, section 2.1 (restart).
pub(super) const IDLE_ROUNDS: u32 = 2;

/// The current round of a flow, and the size of the previous one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundState {
    /// Arrival time of the first packet of the round.
    pub(super) start: Micros,
    /// Arrival time of the last packet.
    pub(super) last: Micros,
    /// Round-trip time in microseconds. Not zero after the first round has begun.
    pub(super) rtt: u32,
    /// Segments of this round so far.
    pub(super) segments: u16,
    /// Frame bytes of this round so far.
    pub(super) bytes: u32,
    /// Segments of the previous round. Zero in the first round.
    pub(super) segments_before: u16,
    /// Frame bytes of the previous round, or the window after a reduction.
    pub(super) bytes_before: u32,
    /// Next expected sequence number: the end of the data with the highest sequence number.
    pub(super) next: u32,
    /// Bytes of the flow's largest frame.
    frame: u16,
    /// A sum of the flags below, such as [`MARKED`].
    flags: u8,
    response: MarkResponse,
}

/// The flow had a mark or a loss in this round.
const MARKED: u8 = 1;
/// The flow had a mark or a loss in the previous round.
const MARKED_BEFORE: u8 = 2;
/// The field `next` is valid.
const SENT: u8 = 4;
/// The sender uses ECT(1), so a mark does not halve its window (RFC 9331, section 4.1).
const SCALABLE: u8 = 8;
/// The receiver's window or the application limits the flow in this round.
const LIMITED: u8 = 16;
/// The sender reduced its window in this round.
const REDUCED: u8 = 32;
/// The sender reduced its window in the previous round.
const REDUCED_BEFORE: u8 = 64;
/// `MARKED` is set because of a mark in the previous round. The sender has not reduced its window since this mark.
const PENDING: u8 = 128;

/// Position of a segment relative to earlier segments, by its sequence number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SegmentOrder {
    /// The segment begins at the next expected sequence number.
    Next,
    /// The segment leaves a gap: the segments before it were lost or reordered upstream.
    Gap,
    /// The segment begins below the next expected sequence number: it is a retransmission, or fills a gap.
    Again,
    /// The sequence number is too far away for any window. So a new connection uses the same addresses and ports.
    Elsewhere,
}

/// Largest window of TCP (RFC 7323, section 2.3). Sequence numbers of one connection do not differ by more.
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

    /// Notes sequence number, ECN field and frame length of a data segment.
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

    /// Position of a segment relative to earlier segments.
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

    /// Notes a SYN. The first data will have the sequence number `next`.
    pub(super) fn expect(&mut self, next: u32) {
        self.next = next;
        self.set(SENT, true);
    }

    /// Adds a data segment to the round, whose position is `order`. Returns `true` if the window changes.
    pub(super) fn count(
        &mut self,
        seen: &Sighting<'_>,
        segment: &TcpSegment,
        order: SegmentOrder,
    ) -> bool {
        let before = self.window();
        self.look(seen.packet, segment, order);
        // A retransmission after a round with a loss repairs this loss. The sender does not halve its window again.
        let copy = order == SegmentOrder::Again && !self.has(MARKED_BEFORE);
        if order == SegmentOrder::Gap || copy {
            self.set(MARKED, true);
        }
        self.add(seen.now, seen.packet);
        self.window() != before
    }

    /// The same as [`count`](Self::count), for the tracker `two-way`. It recognises the moment at
    /// which the sender reduces its window: a retransmission, or a segment with the flag CWR.
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

    /// Begins a round. The packet that begins it must be counted after this call.
    pub(super) fn begin(&mut self, now: Time) {
        let marked = self.has(MARKED);
        self.start_round(now);
        self.set(MARKED_BEFORE, marked);
    }

    /// The same as [`begin`](Self::begin), for the tracker `two-way`. If the sender has not reduced
    /// its window after a mark, the mark stays for one more round.
    pub(super) fn begin_reaction(&mut self, now: Time) {
        let pending = self.has(MARKED) && !self.has(PENDING);
        self.start_round(now);
        self.set(MARKED | PENDING, pending);
        self.set(MARKED_BEFORE, false);
    }

    fn start_round(&mut self, now: Time) {
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

    /// Adds the bytes of `segments` segments to the round that ends now. These segments arrived in the previous round, but
    /// belong to the same window.
    ///
    /// After a reduction, `bytes_before` is half of the larger of both rounds. If the present round is the larger one,
    /// nothing is added, because its bytes would count twice.
    pub(super) fn widen(&mut self, segments: u32) {
        if self.has(REDUCED) && self.bytes / 2 >= self.bytes_before {
            return;
        }
        let bytes = segments.saturating_mul(u32::from(self.frame));
        self.bytes = self.bytes.saturating_add(bytes.min(self.bytes_before));
    }

    /// Notes that the receiver's window or the application limits the flow in this round.
    pub(super) const fn limit(&mut self) {
        self.set(LIMITED, true);
    }

    /// Notes an ACK with ECN-Echo, which reports a mark. If the sender has reduced its window in this round or the previous
    /// one, the report is about the same mark, and is ignored.
    pub(super) const fn echoed(&mut self) {
        if !self.has(REDUCED | REDUCED_BEFORE) {
            self.set(MARKED, true);
        }
    }

    /// Notes that this gateway marked or dropped a packet of the flow.
    pub(super) fn mark(&mut self) {
        self.set(MARKED, true);
        let least = u32::from(self.frame) * LEAST_WINDOW;
        self.response.asked(self.window(), least);
    }

    /// The window in frame bytes.
    ///
    /// At first, the present round has fewer bytes than the previous round. Until it has more, the window is that of the
    /// previous round, or half of it if the previous round was marked.
    ///
    /// Source: `marking`, section 2.1 (the paper's warning about rounds that have just begun).
    pub(super) fn window(&self) -> u32 {
        if self.has(REDUCED) {
            return self.bytes_before;
        }
        let before =
            if self.has(MARKED_BEFORE) { self.bytes_before / 2 } else { self.bytes_before };
        self.bytes.max(before)
    }

    /// Returns `true` if the flow has ignored [`IGNORED_MARKS`] marks in a row.
    pub(super) const fn ignores(&self) -> bool {
        !self.response.is_seen()
    }

    /// Returns `true` if no packet has arrived for [`IDLE_ROUNDS`] RTT.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        Micros::of(now).since(self.last) > self.rtt.saturating_mul(IDLE_ROUNDS)
    }

    /// The estimate of an active flow. The caller must check whether the flow is idle.
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

    /// The estimate without its times.
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

    /// Returns `true` if a mark would reduce the next round.
    pub(super) const fn is_markable(&self) -> bool {
        self.responds() && !self.has(MARKED)
    }
}

/// Least window, in segments, at which the response to a mark is judged.
///
/// CUBIC multiplies its window by 0.7 after a mark, and adds two segments in the next two rounds. From a window of seven,
/// this gives `7 * 0.7 + 2 = 6.9`, which hardly differs from no response (RFC 9438, section 4.6).
const LEAST_WINDOW: u32 = 8;

/// Checks that the sender reduces its window after a mark. The third round that ends after the mark must be smaller than
/// the window at the mark.
///
/// The mark belongs to the first of these rounds. In the second, the sender learns of the mark. The third shows its
/// response. The flag CWR does not prove a response: Linux also sends it if the congestion control keeps its window, as
/// BBR does.
#[derive(Clone, Copy, Debug, Default)]
struct MarkResponse {
    /// Window in bytes at the mark that is being judged.
    window: u32,
    /// Rounds until the mark is judged. Zero if no mark is being judged.
    left: u8,
    /// Number of marks in a row that the sender ignored.
    ignored: u8,
}

/// Rounds that end after a mark until it is judged.
const ROUNDS_TO_RESPOND: u8 = 3;

/// A flow that ignores this many marks in a row does not respond to marks.
///
/// A single mark proves nothing: a tracker that counts two rounds as one misses the response to it.
/// Chosen by `marking/exp1`, 40 seeds of 240 flows that respond: with a limit of four marks, the
/// tracker was wrong about one flow in three of the seeds.
const IGNORED_MARKS: u8 = 8;

impl MarkResponse {
    /// Notes a mark. It is judged unless an earlier mark is being judged, or the window is below `least`.
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

    /// Returns `true` if the sender responds to marks, as far as is known.
    const fn is_seen(self) -> bool {
        self.ignored < IGNORED_MARKS
    }
}

/// Returns `true` if a data segment has the flag CWR: its sender has reduced the window (RFC 3168, section 6.1.2).
const fn says_reduced(segment: &TcpSegment) -> bool {
    segment.flags.any(TcpFlags::CWR) && !segment.flags.any(TcpFlags::SYN)
}

/// Number of TCP segments in `packet`, which may be a super-packet.
pub(super) fn segments(packet: &Packet) -> u16 {
    packet.segments.max(1)
}

/// Frame bytes of a single segment in `packet`.
fn frame(packet: &Packet) -> u32 {
    if packet.segments > 1 { packet.headers() + u32::from(packet.segment) } else { packet.len }
}

/// The TCP header of `seen` if it is a SYN or has data.
pub(super) fn data<'a>(seen: &Sighting<'a>) -> Option<&'a TcpSegment> {
    let segment = seen.packet.tcp.as_ref()?;
    (segment.payload > 0 || segment.flags.any(TcpFlags::SYN)).then_some(segment)
}
