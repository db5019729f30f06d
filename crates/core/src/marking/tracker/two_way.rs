//! The tracker that uses both directions: sequence numbers of the data, and the ACKs of it.
//!
//! A round begins with a data segment. It ends when the sender reacts to the ACK of that segment:
//!
//! ```text
//! RTT        = (departure of the ACK - arrival of the segment) + round trip from here to the sender
//! next round = first data that arrives after the ACK's departure + round trip to the sender,
//!              and echoes the ACK's timestamp or a later one
//! window     = bytes that arrive from one start to the next
//! ```
//!
//! All segments in flight at the start of a round arrived in the previous round. Their bytes are
//! therefore the sender's window at that time. Spacing does not matter, so the tracker tolerates
//! pacing, super-packets and delayed ACKs. Gaps begin rounds while no ACK was seen, or while the
//! round trip to the sender is unknown.
//!
//! Source: `marking`, section 8 (both directions); RFC 7323, section 3.2 (echo of timestamps);
//! Karn's algorithm, RFC 6298, section 3 (a retransmission of the first segment voids the sample).

use super::Sighting;
pub(super) use super::paper::Config;
use super::paper::Paper;
use super::rounds::{Micros, SegmentOrder, data, micros};
use crate::flow::{Rtt, before};
use crate::packet::{Direction, TcpFlags, TcpSegment};

/// State of a flow, observed in both directions.
#[derive(Clone, Copy, Debug)]
pub struct TwoWay {
    /// The rounds, and the rule based on gaps.
    pub(super) gaps: Paper,
    /// The sequence number of the segment that began the round.
    from: u32,
    /// The highest acknowledgement number.
    ack: u32,
    /// Departure of the last ACK that acknowledged new data.
    heard: Micros,
    /// Departure of the ACK for the beginning of the round. While gaps begin rounds: arrival of the
    /// segment at `from`.
    acked: Micros,
    /// Bytes before the beginning of the round that this ACK also acknowledged. While gaps begin
    /// rounds: frame bytes since the segment at `from`.
    stretch: u32,
    /// Timestamp of the ACK at `acked`; valid with `has_echo`.
    echo: u32,
    has_echo: bool,
    state: AckState,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AckState {
    /// No ACK was seen: gaps begin rounds. The tracker waits for the next new segment.
    Deaf,
    /// As `Deaf`, and the tracker waits for the ACK of a segment.
    Listening,
    /// The first ACK was seen: the next reaction begins the first round without gaps.
    Met,
    /// The tracker waits for the ACK of the beginning of the round.
    Waiting,
    /// As `Waiting`, but the segment was sent twice, so its ACK gives no sample.
    Repeated,
    /// The beginning of the round is acknowledged.
    Acked,
}

/// If no ACK was seen for this long, ACKs take another path. Source: RFC 6298, section 2.4 (the
/// least timeout).
const LONGEST_SILENCE: u32 = 1_000_000;

/// Without outstanding data, the application limits a flow if the sender reacts later than this
/// part of an RTT.
///
/// Chosen, not measured: a jitter of some milliseconds is shorter at round-trip times of 24 ms and more.
const LATE: u32 = 4;

/// A reaction may arrive earlier than the shortest round trip to the sender by this part of it.
///
/// Chosen, not measured: a reaction may be faster than all samples so far, which may be of the handshake only.
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

    /// Starts to wait for the ACK of this segment, if it has data.
    fn listen(&mut self, seen: &Sighting<'_>) {
        if let Some(segment) = data(seen).filter(|_| !self.gaps.is_opening()) {
            (self.from, self.ack) = (segment.seq, segment.seq);
            (self.acked, self.state) = (Micros::of(seen.now), AckState::Listening);
            self.stretch = seen.packet.len;
        }
    }

    /// Notes a packet of the flow. Returns `true` if start, RTT or window changed.
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
            // This round was longer than an RTT and gives no sample.
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

    /// True if the awaited ACK may be the ACK of a retransmission, or wait for one.
    const fn repeats(&self, segment: &TcpSegment, order: SegmentOrder) -> bool {
        matches!(order, SegmentOrder::Again) && !before(self.from, segment.seq)
    }

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

    fn is_reaction(&self, clock: Micros, segment: &TcpSegment, seen: &Sighting<'_>) -> bool {
        let least = seen.flow.and_then(|flow| half(flow.min_rtt(), seen.direction)).unwrap_or(0);
        let echoed = match segment.timestamps {
            Some((_, echo)) if self.has_echo => !before(echo, self.echo),
            _ => true,
        };
        echoed && clock.since(self.acked) >= least - least / EARLY
    }

    fn begin(&mut self, seen: &Sighting<'_>, segment: &TcpSegment, order: SegmentOrder) {
        let span = segment.seq.wrapping_sub(self.from);
        let rounds = &mut self.gaps.rounds;
        let waited = Micros::of(seen.now).since(self.heard);
        let to_sender = seen.flow.and_then(|flow| half(flow.rtt(), seen.direction)).unwrap_or(0);
        let late = self.ack == rounds.next && waited > to_sender + rounds.rtt / LATE;
        // Data that this ACK acknowledged was in flight until then.
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
            // The ACK may be for the first transmission.
            SegmentOrder::Again => (rounds.next.wrapping_sub(1), AckState::Repeated),
            _ => (segment.seq, AckState::Waiting),
        };
    }

    /// Notes an ACK that departs to the sender. Returns `true` if the RTT changed.
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

/// Round trip between the gateway and the sender of `direction`, in microseconds.
fn half(rtt: Rtt, direction: Direction) -> Option<u32> {
    let half = match direction {
        Direction::Up => rtt.near,
        Direction::Down => rtt.far,
    };
    half.map(micros)
}
