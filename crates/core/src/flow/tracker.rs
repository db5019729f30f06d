//! TCP connection state, tracked from the headers that pass the gateway.

use super::rtt::Halves;
use super::{Arrival, before};
use crate::packet::{Direction, TcpFlags, TcpSegment};

/// State of both directions of a connection, from the headers seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracker {
    ends: [End; 2],
}

/// An unanswered SYN that claims the ports of an earlier connection.
#[derive(Clone, Copy, Debug)]
struct SynClaim {
    /// The sequence number after the SYN and its data.
    next: u32,
    mss: u16,
    scale: u8,
    marks: u8,
    direction: Direction,
}

/// State of a SYN that claims the ports of an earlier connection.
///
/// Source: RFC 5961, section 4: a SYN proves nothing, as any host can send one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Claiming {
    /// No SYN claims the ports, or the state of the claim did not change.
    No,
    /// A SYN claims the ports.
    Asked,
    /// A SYN with ACK acknowledges the SYN: the old connection has ended.
    Granted,
    /// Another segment arrived: the old connection still exists.
    Denied,
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ConnectionState {
    /// Only SYNs were seen, or no packet.
    Opening,
    /// Data or ACKs were seen.
    Open,
    /// Both ends sent FIN, or one RST.
    Closed,
}

/// State of one end, the sender of a direction.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The sequence number after the highest one sent.
    next: u32,
    /// The highest acknowledgement sent.
    ack: u32,
    /// The window field of that acknowledgement.
    window: u16,
    mss: u16,
    retransmissions: u16,
    scale: u8,
    marks: u8,
}

/// `scale` of an end that offered no scaling.
const NO_SCALE: u8 = u8::MAX;
/// The largest shift (RFC 7323, section 2.3).
const MAX_SCALE: u8 = 14;

/// `next` is known.
const SENT: u8 = 1;
/// `ack` is known.
const ACKED: u8 = 2;
/// The SYN of this end was seen.
const SYN: u8 = 4;
/// The end sends no more: it sent FIN, or either end sent a valid RST.
const FIN: u8 = 8;
/// The end permits SACK.
const SACK: u8 = 16;
/// The end offered timestamps.
const TIMESTAMPS: u8 = 32;
/// The end sent segments other than its SYN.
const AT_WORK: u8 = 64;
/// The SYN of this end offers, or accepts, AccECN or MPTCP.
const EXTENDED: u8 = 128;

impl Default for End {
    fn default() -> Self {
        Self { next: 0, ack: 0, window: 0, mss: 0, retransmissions: 0, scale: NO_SCALE, marks: 0 }
    }
}

/// Effect of an ACK on the sender at the other end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AckKind {
    /// The sender may send more: the ACK acknowledges new data, or the window has grown.
    OpensWindow,
    /// A duplicate ACK (RFC 5681, section 2; RFC 6675, section 2, with SACK blocks).
    Duplicate,
    /// Another ACK, or no ACK.
    Other,
}

/// Extent of the tracker's knowledge of a flow.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Tracking {
    /// Not TCP, or only one direction crosses the gateway: packets can be queued only.
    QueueOnly,
    /// Both directions, but without the SYNs: windows are unknown.
    NoWindowScale,
    /// Both directions, from the SYNs on.
    Full,
}

impl Tracking {
    /// Name of the value in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueOnly => "queue-only",
            Self::NoWindowScale => "no-window-scale",
            Self::Full => "full",
        }
    }
}

impl Tracker {
    /// Updates the connection with a segment in `direction`. `halves` store a claim.
    pub(super) fn on_arrival(
        &mut self,
        segment: &TcpSegment,
        direction: Direction,
        halves: &mut Halves,
    ) -> Arrival {
        let flags = segment.flags;
        let was_there = self.state() != ConnectionState::Opening;
        let claiming = self.claim(segment, direction, halves);
        let begins = flags.any(TcpFlags::SYN)
            && !flags.any(TcpFlags::ACK)
            && self.begins(segment, direction);
        if begins {
            self.ends = Default::default();
        }
        let connection = begins || (claiming == Claiming::Granted && was_there);
        let plain = Arrival { claiming, ..Arrival::PLAIN };
        if flags.any(TcpFlags::RST) {
            self.reset(segment, direction);
            return plain;
        }
        if flags.any(TcpFlags::SYN) {
            // In an established connection a SYN is stray (RFC 9293, section 3.10.7.4).
            if self.state() != ConnectionState::Opening {
                return plain;
            }
            self.ends[direction.index()].offer(segment);
        } else {
            self.ends[direction.index()].marks |= AT_WORK;
        }
        let ack = self.acknowledge(segment, direction);
        let seen_before = self.ends[direction.index()].send(segment);
        Arrival { ack, connection, claiming, seen_before, rtt: false }
    }

    /// Tracks a SYN that claims the ports of a connection, and the answer to it. If the SYN is acknowledged,
    /// the tracker changes to the new connection with the options of its SYN.
    fn claim(
        &mut self,
        segment: &TcpSegment,
        direction: Direction,
        halves: &mut Halves,
    ) -> Claiming {
        let flags = segment.flags;
        match (flags.any(TcpFlags::SYN), flags.any(TcpFlags::ACK), SynClaim::kept(halves)) {
            (true, false, _) if self.state() != ConnectionState::Opening => {
                SynClaim::of(segment, direction).keep(halves);
                Claiming::Asked
            }
            (true, true, Some(claim)) if claim.is_granted(segment, direction) => {
                if self.state() != ConnectionState::Opening {
                    self.ends = Default::default();
                    self.ends[claim.direction.index()] = claim.end();
                }
                halves.forget();
                Claiming::Granted
            }
            (false, _, Some(_)) if !flags.any(TcpFlags::RST) => {
                halves.forget();
                Claiming::Denied
            }
            _ => Claiming::No,
        }
    }

    /// Returns `true` if a SYN without ACK opens a connection: it is no repetition, and no other
    /// connection is open.
    fn begins(&self, syn: &TcpSegment, direction: Direction) -> bool {
        let end = &self.ends[direction.index()];
        match self.state() {
            ConnectionState::Closed => true,
            // This end has sent FIN. The FIN of the other end may have taken another path.
            ConnectionState::Open => end.has(FIN),
            ConnectionState::Opening if end.has(SENT) => end.next.wrapping_sub(syn.seq) > MAX_SYN,
            // If the other end has sent a SYN too, this is a simultaneous open.
            ConnectionState::Opening => !self.ends[direction.reverse().index()].has(SENT),
        }
    }

    /// An RST is valid if it is exactly in sequence, as far as the sequence is known.
    ///
    /// Source: RFC 5961, section 3.2, and RFC 9293, section 3.10.7.3, for the answer to a SYN.
    fn reset(&mut self, segment: &TcpSegment, direction: Direction) {
        let (end, other) = (&self.ends[direction.index()], &self.ends[direction.reverse().index()]);
        let refuses =
            segment.flags.any(TcpFlags::ACK) && other.has(SENT) && segment.ack == other.next;
        let in_sequence = (end.has(SENT) && segment.seq == end.next)
            || (other.has(ACKED) && segment.seq == other.ack);
        if refuses || in_sequence || !(end.has(SENT) || other.has(ACKED | SENT)) {
            self.ends.iter_mut().for_each(|end| end.marks |= FIN);
        }
    }

    fn acknowledge(&mut self, segment: &TcpSegment, direction: Direction) -> AckKind {
        if !segment.flags.any(TcpFlags::ACK) {
            return AckKind::Other;
        }
        let other = self.ends[direction.reverse().index()];
        let end = &mut self.ends[direction.index()];
        if end.has(ACKED) && before(segment.ack, end.ack) {
            return AckKind::Other;
        }
        let advances = !end.has(ACKED) || segment.ack != end.ack;
        let last_window = end.window;
        end.marks |= ACKED;
        (end.ack, end.window) = (segment.ack, segment.window);
        let outstanding = other.has(SENT) && before(end.ack, other.next);
        let unchanged = segment.window == last_window || segment.has_sack;
        if advances {
            AckKind::OpensWindow
        } else if outstanding && unchanged && segment.sequence_len() == 0 {
            AckKind::Duplicate
        } else if segment.window > last_window {
            AckKind::OpensWindow
        } else {
            AckKind::Other
        }
    }

    fn state(&self) -> ConnectionState {
        let [one, other] = &self.ends;
        if one.has(FIN) && other.has(FIN) {
            ConnectionState::Closed
        } else if one.has(AT_WORK) || other.has(AT_WORK) {
            ConnectionState::Open
        } else {
            ConnectionState::Opening
        }
    }

    /// Extent of the tracker's knowledge of the connection.
    #[must_use]
    pub const fn tracking(&self) -> Tracking {
        let [one, other] = &self.ends;
        if one.has(SYN) && other.has(SYN) {
            Tracking::Full
        } else if one.has(SENT) && other.has(SENT) {
            Tracking::NoWindowScale
        } else {
            Tracking::QueueOnly
        }
    }

    /// Returns `true` if both ends have sent FIN, or one has sent a valid RST.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state() == ConnectionState::Closed
    }

    /// Returns `true` if only SYNs were seen.
    #[must_use]
    pub fn is_half_open(&self) -> bool {
        self.state() == ConnectionState::Opening && self.ends.iter().any(|end| end.has(SYN))
    }

    /// Segments in `direction` with data that was seen before.
    pub(super) const fn retransmissions(&self, direction: Direction) -> u16 {
        self.ends[direction.index()].retransmissions
    }

    /// The sequence number after the highest sent in `direction`.
    #[must_use]
    pub fn next_seq(&self, direction: Direction) -> Option<u32> {
        let end = &self.ends[direction.index()];
        end.has(SENT).then_some(end.next)
    }

    /// The highest acknowledgement sent in `direction`.
    #[must_use]
    pub fn ack(&self, direction: Direction) -> Option<u32> {
        let end = &self.ends[direction.index()];
        end.has(ACKED).then_some(end.ack)
    }

    /// Window scale of the sender of `direction`. `None` unless the SYNs of both ends were seen.
    #[must_use]
    pub fn scale(&self, direction: Direction) -> Option<u8> {
        let (end, other) = (&self.ends[direction.index()], &self.ends[direction.reverse().index()]);
        let scaled = end.scale != NO_SCALE && other.scale != NO_SCALE;
        (self.tracking() == Tracking::Full).then_some(if scaled { end.scale } else { 0 })
    }

    /// The last window of the sender of `direction`, in bytes. `None` unless the SYNs of both ends
    /// were seen.
    #[must_use]
    pub fn window(&self, direction: Direction) -> Option<u32> {
        let (end, other) = (&self.ends[direction.index()], &self.ends[direction.reverse().index()]);
        let scaled = self.state() != ConnectionState::Opening
            && end.scale != NO_SCALE
            && other.scale != NO_SCALE;
        let scale = if scaled { end.scale } else { 0 };
        (self.tracking() == Tracking::Full).then(|| u32::from(end.window) << scale)
    }

    /// The largest segment that the sender of `direction` accepts.
    #[must_use]
    pub fn mss(&self, direction: Direction) -> Option<u16> {
        let end = &self.ends[direction.index()];
        (end.mss != 0).then_some(end.mss)
    }

    /// Both ends permit selective acknowledgements (RFC 2018).
    #[must_use]
    pub fn uses_sack(&self) -> bool {
        self.ends.iter().all(|end| end.has(SACK))
    }

    /// The SYNs negotiated AccECN (RFC 9768) or MPTCP (RFC 8684).
    #[must_use]
    pub fn is_extended(&self) -> bool {
        self.ends.iter().all(|end| end.has(EXTENDED))
    }

    /// Both ends send timestamps (RFC 7323).
    #[must_use]
    pub fn uses_timestamps(&self) -> bool {
        self.ends.iter().all(|end| end.has(TIMESTAMPS))
    }
}

impl SynClaim {
    fn of(syn: &TcpSegment, direction: Direction) -> Self {
        let mut end = End::default();
        end.offer(syn);
        let End { mss, scale, marks, .. } = end;
        Self { next: syn.end_seq(), mss, scale, marks, direction }
    }

    /// Stores the claim in `halves`, in place of an earlier one.
    fn keep(self, halves: &mut Halves) {
        let [high, low] = self.mss.to_be_bytes();
        let rest = u32::from_be_bytes([high, low, self.scale, self.marks]);
        halves.keep(self.direction, [self.next, rest]);
    }

    /// The claim that `halves` store.
    fn kept(halves: &Halves) -> Option<Self> {
        let (direction, [next, rest]) = halves.kept()?;
        let [high, low, scale, marks] = rest.to_be_bytes();
        Some(Self { next, mss: u16::from_be_bytes([high, low]), scale, marks, direction })
    }

    /// The end that sent the SYN.
    fn end(self) -> End {
        let Self { next, mss, scale, marks, .. } = self;
        End { next, mss, scale, marks: marks | SENT, ..End::default() }
    }

    /// Returns `true` if `syn`, a SYN with ACK, acknowledges the claiming SYN, with or without its data (RFC
    /// 7413).
    fn is_granted(&self, syn: &TcpSegment, direction: Direction) -> bool {
        let missing = self.next.wrapping_sub(syn.ack);
        direction != self.direction && missing < MAX_SYN
    }
}

/// Most sequence space a SYN can take, data with it (RFC 7413).
const MAX_SYN: u32 = 1 << 16;

impl End {
    const fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Records the options of the end's SYN.
    fn offer(&mut self, syn: &TcpSegment) {
        self.marks |= SYN;
        self.mss = syn.mss;
        self.scale = syn.window_scale.map_or(NO_SCALE, |scale| scale.min(MAX_SCALE));
        if syn.sack_permitted {
            self.marks |= SACK;
        }
        if syn.timestamps.is_some() {
            self.marks |= TIMESTAMPS;
        }
        if syn.offers_extension() {
            self.marks |= EXTENDED;
        }
    }

    /// Records a segment of this end. Returns `true` if some of its data was seen before.
    fn send(&mut self, segment: &TcpSegment) -> bool {
        let first = !self.has(SENT);
        let seen_before = !first && segment.sequence_len() > 0 && before(segment.seq, self.next);
        if first || before(self.next, segment.end_seq()) {
            self.next = segment.end_seq();
        }
        self.marks |= SENT;
        if segment.flags.any(TcpFlags::FIN) {
            self.marks |= FIN;
        }
        self.retransmissions = self.retransmissions.saturating_add(u16::from(seen_before));
        seen_before
    }
}
