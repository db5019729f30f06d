//! The tracker `two-way`: it finds rounds by the sequence numbers of the data and the ACKs for them.
//!
//! A round begins with a data segment. It lasts until the sender reacts to the ACK for this segment:
//!
//! ```text
//! RTT        = (departure of the ACK - arrival of the segment) + round-trip time from the gateway to the sender
//! next round = first data that arrives later than the departure of the ACK + round-trip time to the sender,
//!              and that echoes the timestamp of this ACK or a later one
//! window     = bytes that arrive between the starts of two rounds
//! ```
//!
//! In this time exactly one window arrives, with any spacing of its packets. So the tracker also works with pacing,
//! super-packets and delayed ACKs.
//!
//! Without ACKs, or while the round-trip time to the sender is unknown, a gap between packets
//! begins a round, as in the tracker `paper`.
//!
//! Source: `marking`, section 8 (use of both directions); RFC 7323, section 3.2 (echo of timestamps). RFC 6298, section 3
//! (Karn's algorithm): a round whose first segment is retransmitted gives no sample.

use super::Sighting;
pub(super) use super::paper::Config;
use super::paper::Paper;
use super::rounds::{Micros, SegmentOrder, data, micros};
use crate::flow::{Rtt, before};
use crate::packet::{Direction, TcpFlags, TcpSegment};

/// State of the tracker for one flow.
#[derive(Clone, Copy, Debug)]
pub struct TwoWay {
    /// The rounds, and the tracker `paper` for the time without ACKs.
    pub(super) gaps: Paper,
    /// Sequence number of the segment that began the round. Its ACK ends the round.
    from: u32,
    /// The highest acknowledgement number so far.
    ack: u32,
    /// Departure time of the last ACK that acknowledged new data.
    heard: Micros,
    /// Departure time of the ACK for the segment at `from`. While gaps begin rounds: arrival time of this segment.
    acked: Micros,
    /// Payload bytes before `from` that the same ACK also acknowledged. While gaps begin rounds: frame bytes that have
    /// arrived since the segment at `from`.
    stretch: u32,
    /// Timestamp value of the ACK that departed at `acked`. Valid if `has_echo` is `true`.
    echo: u32,
    /// The ACK that departed at `acked` had a timestamp.
    has_echo: bool,
    state: AckState,
}

/// The ACK or the reaction that the tracker waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AckState {
    /// No ACKs arrive here, so gaps begin rounds. The tracker waits for the next new segment.
    Deaf,
    /// Gaps begin rounds. The tracker waits for the ACK for a segment.
    Listening,
    /// The first ACK has departed. The sender's reaction to it will begin the first round that does not need gaps.
    Met,
    /// The tracker waits for the ACK for the first segment of the round.
    Waiting,
    /// The same as `Waiting`, but the segment was sent twice. Its ACK gives no sample of the RTT.
    Repeated,
    /// The ACK has departed. The tracker waits for the sender's reaction to it.
    Acked,
}

/// Microseconds without an ACK after which the tracker assumes that the ACKs take another path.
///
/// Source: RFC 6298, section 2.4 (the least timeout).
const LONGEST_SILENCE: u32 = 1_000_000;

/// The application limits a flow if all data is acknowledged, and the sender then pauses for more than `RTT / LATE`.
///
/// Chosen, not measured: at round-trip times of 24 ms and more, a quarter is longer than a jitter of some milliseconds.
const LATE: u32 = 4;

/// A reaction may be faster than the least round-trip time `T` to the sender by `T / EARLY`.
///
/// Chosen, not measured: the only samples of `T` so far may be those of the handshake.
const EARLY: u32 = 16;

impl TwoWay {
    pub(super) fn new(config: &Config, seen: &Sighting<'_>) -> Self {
        let mut tracker = Self {
            gaps: Paper::new(config.gaps(true), seen),
            from: 0,
            ack: 0,
            heard: Micros::of(seen.now),
            acked: Micros::default(),
            stretch: 0,
            echo: 0,
            has_echo: false,
            state: AckState::Deaf,
        };
        tracker.restart(seen);
        tracker
    }

    fn restart(&mut self, seen: &Sighting<'_>) {
        self.state = AckState::Deaf;
        let known = seen.flow.and_then(|flow| flow.rtt().end_to_end());
        if let Some(rtt) = known.filter(|_| !self.gaps.is_opening()) {
            self.gaps.rounds.rtt = micros(rtt);
        }
        self.listen(seen);
    }

    /// Begins to wait for the ACK for this segment, if it has data.
    fn listen(&mut self, seen: &Sighting<'_>) {
        if let Some(segment) = data(seen).filter(|_| !self.gaps.is_opening()) {
            (self.from, self.ack) = (segment.seq, segment.seq);
            (self.acked, self.state) = (Micros::of(seen.now), AckState::Listening);
            self.stretch = seen.packet.len;
        }
    }

    /// Notes a packet of the flow. Returns `true` if start, RTT or window of the round changed.
    pub(super) fn on_arrival(&mut self, seen: &Sighting<'_>) -> bool {
        let Some(segment) = data(seen) else { return false };
        let order = self.gaps.rounds.order(segment);
        let clock = Micros::of(seen.now);
        let is_syn = segment.flags.any(TcpFlags::SYN);
        let by_gaps = matches!(self.state, AckState::Deaf | AckState::Listening);
        if by_gaps || is_syn || order == SegmentOrder::Elsewhere {
            return self.by_gaps(seen, segment, order);
        }
        let silent = clock.since(self.heard).min(clock.since(self.gaps.rounds.start));
        if self.state == AckState::Waiting && silent > self.gaps.rounds.rtt.max(LONGEST_SILENCE) {
            // No ACK has departed for a long time. This round has lasted longer than an RTT, so it gives no sample.
            self.gaps.rounds.begin(seen.now);
            self.gaps.rounds.count(seen, segment, order);
            self.listen(seen);
            return true;
        }
        if self.state == AckState::Waiting && self.repeats(segment, order) {
            self.state = AckState::Repeated;
        }
        let begins = match self.state {
            AckState::Acked | AckState::Met => self.is_reaction(clock, segment, seen),
            AckState::Repeated => clock.since(self.gaps.rounds.start) >= self.gaps.rounds.rtt,
            AckState::Deaf | AckState::Listening | AckState::Waiting => false,
        };
        if begins {
            self.begin(seen, segment, order);
        } else if self.state == AckState::Met {
            self.stretch = self.stretch.saturating_add(seen.packet.len);
        }
        self.gaps.rounds.count_reaction(seen, segment, order) || begins
    }

    /// Returns `true` if the segment retransmits data up to `from`. The awaited ACK may then be for the retransmission.
    const fn repeats(&self, segment: &TcpSegment, order: SegmentOrder) -> bool {
        matches!(order, SegmentOrder::Again) && !before(self.from, segment.seq)
    }

    /// Handles a segment while gaps begin rounds. Returns the same as [`on_arrival`](Self::on_arrival).
    fn by_gaps(&mut self, seen: &Sighting<'_>, segment: &TcpSegment, order: SegmentOrder) -> bool {
        let was_opening = self.gaps.is_opening();
        let changed = self.gaps.on_segment(seen, segment, order);
        if was_opening || self.gaps.is_opening() || order == SegmentOrder::Elsewhere {
            self.restart(seen);
            return true;
        }
        let waited = Micros::of(seen.now).since(self.acked);
        if self.repeats(segment, order) || waited > LONGEST_SILENCE {
            self.state = AckState::Deaf;
        }
        if self.state == AckState::Deaf && order != SegmentOrder::Again {
            self.listen(seen);
        } else {
            self.stretch = self.stretch.saturating_add(seen.packet.len);
        }
        changed
    }

    /// Returns `true` if the sender may have received the awaited ACK before it sent this segment.
    fn is_reaction(&self, clock: Micros, segment: &TcpSegment, seen: &Sighting<'_>) -> bool {
        let least = seen.flow.and_then(|flow| half(flow.min_rtt(), seen.direction)).unwrap_or(0);
        let echoed = match segment.timestamps {
            Some((_, echo)) if self.has_echo => !before(echo, self.echo),
            _ => true,
        };
        echoed && clock.since(self.acked) >= least - least / EARLY
    }

    /// Ends the round, and begins the next with this segment.
    fn begin(&mut self, seen: &Sighting<'_>, segment: &TcpSegment, order: SegmentOrder) {
        let span = segment.seq.wrapping_sub(self.from);
        let rounds = &mut self.gaps.rounds;
        let waited = Micros::of(seen.now).since(self.heard);
        let to_sender = seen.flow.and_then(|flow| half(flow.rtt(), seen.direction)).unwrap_or(0);
        let late = self.ack == rounds.next && waited > to_sender + rounds.rtt / LATE;
        // The ACK also acknowledged `stretch` bytes before the round. They were in flight too, so they belong to the
        // window.
        let payload = (segment.payload / u32::from(seen.packet.segments).max(1)).max(1);
        if self.state == AckState::Met {
            rounds.bytes = self.stretch;
        } else {
            rounds.widen(self.stretch / payload);
        }
        self.stretch = 0;
        rounds.begin_reaction(seen.now);
        let window = seen.flow.and_then(|flow| flow.connection().window(seen.direction.reverse()));
        if late || window.is_some_and(|window| span.saturating_add(payload) > window) {
            rounds.limit();
        }
        (self.from, self.state) = match order {
            // A retransmission begins the round. Its ACK may be for the first transmission, so it gives no sample.
            SegmentOrder::Again => (rounds.next.wrapping_sub(1), AckState::Repeated),
            _ => (segment.seq, AckState::Waiting),
        };
    }

    /// Notes an ACK that departs to the sender. Returns `true` if it gave a sample of the RTT.
    pub(super) fn on_ack(&mut self, seen: &Sighting<'_>) -> bool {
        let (Some(segment), Some(flow)) = (&seen.packet.tcp, seen.flow) else { return false };
        let is_ack =
            segment.flags.any(TcpFlags::ACK) && !segment.flags.any(TcpFlags::SYN | TcpFlags::RST);
        let unsent = before(self.gaps.rounds.next, segment.ack);
        let Some(to_sender) = half(flow.rtt(), seen.direction.reverse()) else { return false };
        if !is_ack || unsent || self.gaps.is_opening() {
            return false;
        }
        let clock = Micros::of(seen.now);
        if segment.flags.any(TcpFlags::ECE) && !flow.connection().is_extended() {
            self.gaps.rounds.echoed();
        }
        let ack = self.ack;
        if before(ack, segment.ack) {
            (self.ack, self.heard) = (segment.ack, clock);
        }
        let began = match self.state {
            AckState::Deaf | AckState::Met | AckState::Acked => return false,
            _ if !before(self.from, segment.ack) => return false,
            AckState::Listening => Some(self.acked),
            AckState::Waiting => Some(self.gaps.rounds.start),
            AckState::Repeated => None,
        };
        self.state =
            if self.state == AckState::Listening { AckState::Met } else { AckState::Acked };
        self.acked = clock;
        (self.has_echo, self.echo) =
            segment.timestamps.map_or((false, 0), |(value, _)| (true, value));
        if let Some(began) = began {
            if self.state == AckState::Acked {
                let stretch = self.from.wrapping_sub(ack);
                self.stretch = if before(ack, self.from) { stretch } else { 0 };
            }
            self.gaps.rounds.rtt = clock.since(began).saturating_add(to_sender).max(1);
        }
        began.is_some()
    }
}

/// Round-trip time between the gateway and the sender of packets in `direction`, in microseconds.
fn half(rtt: Rtt, direction: Direction) -> Option<u32> {
    let half = match direction {
        Direction::Up => rtt.near,
        Direction::Down => rtt.far,
    };
    half.map(micros)
}
