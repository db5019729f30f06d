//! The sending end of a trunk with epochs: user packets depart at the rate of its congestion control.
//!
//! Differs from Bundler: a window bounds the bytes in flight, as in Copa. When a boundary is overdue, at most 1.5
//! windows depart after the last acknowledged boundary. Chance selects the boundaries, so a round trip or more may pass
//! without any.

use std::time::Duration;

use super::PACKET;
use super::boundary::{Spacing, boundary, frames};
use super::control::{AggregateWindow, BoundaryMeasurement};
use super::ledger::{Ledger, SentTotals};
use super::message::{CongestionAck, ask_for};
use crate::packet::{FlowKey, TcpSegment};
use crate::random::Random;
use crate::tcp::Segment;
use crate::trunk::packet::{Frame, describe, network_len};
use crate::trunk::probe::{BandwidthProbe, Reason, TrunkOutput, TunnelArrival};
use crate::trunk::tunnel::Tunnel;
use crate::trunk::{Config, TrunkCounters, TrunkState};
use crate::{Bytes, Packet, Rate, Time};

/// The sending end of a trunk with epochs.
pub(in crate::trunk) struct Epochs {
    /// Key and DS codepoint of requests for a spacing.
    key: FlowKey,
    dscp: u8,
    /// Frame format of these requests.
    frame: Frame,
    /// `true` if that is the format of user packets.
    follows: bool,
    control: AggregateWindow,
    ledger: Ledger,
    spacing: Spacing,
    sent: SentTotals,
    /// Bytes sent that have not arrived, minus late ones. The second number is their maximum so
    /// far.
    missing: (i64, u64),
    /// Bytes and packets sent up to the last acknowledged boundary.
    heard: SentTotals,
    /// Time of that acknowledgement, or of the last timeout.
    heard_at: Time,
    /// Time when the tunnel queue last became backlogged.
    backlogged_since: Time,
    /// When the next packet may depart.
    next: Time,
    /// Timeouts in a row.
    timeouts: u32,
    /// Time of the last adaptation of the spacing, and the packets sent by then.
    adapted: (Time, u64),
    /// The spacing must be sent to the other end. Then the time of the last request.
    tell: bool,
    told: Option<Time>,
}

impl Epochs {
    pub(in crate::trunk) fn new(config: &Config, random: Random, now: Time) -> Self {
        Self {
            key: config.key(0),
            dscp: config.user_dscp(),
            frame: config.wire.frame().unwrap_or_default(),
            follows: config.wire.frame().is_none(),
            control: AggregateWindow::new(now, random),
            ledger: Ledger::default(),
            spacing: Spacing::default(),
            sent: SentTotals::default(),
            missing: (0, 0),
            heard: SentTotals::default(),
            heard_at: now,
            backlogged_since: now,
            next: now,
            timeouts: 0,
            adapted: (now, 0),
            tell: false,
            told: None,
        }
    }

    /// Returns `true` if the window has room for the next packet. While no boundary is overdue, it
    /// always has.
    fn has_room(&self) -> bool {
        let in_flight = self.sent.bytes - self.heard.bytes;
        in_flight < self.control.window() + self.control.window() / 2 || !self.is_overdue()
    }

    /// Returns `true` if a boundary will be unacknowledged for 1.5 round trips when the next packet
    /// departs. Always, before the first round-trip time is known.
    fn is_overdue(&self) -> bool {
        let Some(srtt) = self.control.srtt() else { return true };
        self.ledger.oldest().is_some_and(|left| left + srtt + srtt / 2 <= self.next)
    }

    /// A packet of `len` bytes departs for the share: delays the next one by `len / rate`.
    fn pace(&mut self, now: Time, len: u64) {
        let from = self.next.max(Time::from_nanos(now.nanos().saturating_sub(CATCH_UP)));
        self.next = match self.control.rate() {
            Some(rate) => from + rate.time_for(Bytes(len)),
            None => now,
        };
    }

    /// Records the frames of a departing packet, and the boundaries among them.
    fn record(&mut self, now: Time, packet: &Packet) {
        for frame in frames(packet) {
            let bytes = network_len(&frame);
            self.control.on_sent(&packet.key, bytes);
            self.sent.bytes += bytes;
            self.sent.packets += 1;
            if let Some(name) = boundary(&frame, self.spacing) {
                let in_flight = self.sent.bytes - self.heard.bytes;
                let full = in_flight + in_flight / 8 >= self.control.window();
                self.ledger.leaves(now, name, self.sent, full);
            }
        }
    }

    /// A congestion ACK. Returns the window if the ACK brought a round-trip time.
    fn on_ack(
        &mut self,
        now: Time,
        header: &TcpSegment,
        counts: &mut TrunkCounters,
    ) -> Option<Bytes> {
        let ack = CongestionAck::read(header)?;
        self.tell |= ack.spacing != self.spacing && self.may_tell(now);
        let sample = self.ledger.acknowledged(now, ack)?;
        let bytes = sample.sent.bytes.saturating_sub(self.heard.bytes);
        self.heard = SentTotals { bytes: self.heard.bytes.max(sample.sent.bytes), ..sample.sent };
        (self.heard_at, self.timeouts) = (now, 0);
        counts.missing += self.add_missing(sample.missing);
        let rtt = sample.rtt?;
        let (missing, arrived, full) = (sample.missing, sample.arrived, sample.full);
        let progress = BoundaryMeasurement { rtt, bytes, missing, arrived, full };
        self.control.on_progress(now, &progress);
        self.adapt_spacing(now);
        Some(Bytes(self.control.window()))
    }

    /// Adds missing bytes; late bytes are negative. Returns the bytes that are missing beyond the largest number so far.
    fn add_missing(&mut self, bytes: i64) -> u64 {
        self.missing.0 = self.missing.0.saturating_add(bytes);
        let most = self.missing.1.max(u64::try_from(self.missing.0).unwrap_or(0));
        most - std::mem::replace(&mut self.missing.1, most)
    }

    /// Adapts the spacing of boundaries to the packets sent in a round trip, once per round trip.
    fn adapt_spacing(&mut self, now: Time) {
        let srtt = self.control.srtt().unwrap_or_default();
        let (at, packets) = self.adapted;
        let span = now.since(at);
        if span >= srtt && !span.is_zero() {
            let sent = u128::from(self.sent.packets - packets) * srtt.as_nanos() / span.as_nanos();
            let spacing = self.spacing.adapted(u64::try_from(sent).unwrap_or(u64::MAX));
            self.tell |= spacing != self.spacing;
            self.spacing = spacing;
            self.adapted = (now, self.sent.packets);
        }
    }

    /// Returns `true` if the spacing may be sent again: once per round trip.
    fn may_tell(&self, now: Time) -> bool {
        let srtt = self.control.srtt().unwrap_or(FIRST_TIMEOUT);
        self.told.is_none_or(|at| now.since(at) >= srtt)
    }

    /// When the next timeout expires, if the tunnel queue is `backlogged`.
    fn timeout_at(&self, backlogged: bool) -> Option<Time> {
        let srtt = self.control.srtt();
        let timeout = srtt.map_or(FIRST_TIMEOUT, |srtt| (3 * srtt).max(LEAST_TIMEOUT));
        let timeout = timeout * (1 << self.timeouts.min(MOST_BACKOFF));
        backlogged.then(|| self.heard_at.max(self.backlogged_since) + timeout)
    }
}

impl BandwidthProbe for Epochs {
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: TunnelArrival) -> bool {
        if self.follows {
            self.frame = Frame::of(packet);
        }
        if arrival == TunnelArrival::First {
            self.backlogged_since = now;
        }
        true
    }

    /// After a timeout, the packets in flight are considered lost.
    fn handle_timeout(&mut self, now: Time, backlogged: bool) {
        if self.timeout_at(backlogged).is_some_and(|at| at <= now) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.control.on_silence(now, self.timeouts >= SILENCE);
            self.ledger.forget();
            self.heard = self.sent;
            (self.heard_at, self.next) = (now, now);
            (self.spacing, self.tell) = (Spacing::default(), true);
        }
    }

    fn may_send(&self, now: Time) -> bool {
        now >= self.next && self.has_room()
    }

    fn on_sent(&mut self, now: Time, packet: &Packet, takes: u64, reason: Reason) {
        if reason == Reason::Share {
            self.pace(now, takes);
        }
        self.record(now, packet);
    }

    /// Sends the spacing to the other end if that has to know it.
    fn transmit(&mut self, to: &mut TrunkOutput<'_, '_>, _tunnel: &mut Tunnel) -> bool {
        if std::mem::take(&mut self.tell) {
            self.told = Some(to.cx.now);
            let segment = ask_for(self.spacing);
            to.make(describe(self.key, &segment, self.frame, self.dscp), &segment);
        }
        false
    }

    fn on_feedback(
        &mut self,
        now: Time,
        _number: u16,
        segment: Option<&Segment>,
        counts: &mut TrunkCounters,
    ) -> Option<Bytes> {
        let Some(segment) = segment else {
            // The other end is back. The next timeout is as short as before the peer was considered
            // dead.
            self.timeouts = self.timeouts.min(SILENCE);
            return None;
        };
        self.on_ack(now, &segment.header, counts)
    }

    /// Before a round-trip time is known, the window in one second.
    fn rate(&self) -> u64 {
        self.control.rate().map_or_else(|| 8 * self.control.window(), Rate::bps)
    }

    fn poll_timeout(&self, tunnel: &Tunnel) -> Option<Time> {
        let timeout = self.timeout_at(!tunnel.is_empty());
        let next = (timeout.is_some() && self.has_room())
            .then(|| tunnel.opens().map_or(self.next, |at| at.max(self.next)));
        Time::earliest(timeout, next)
    }

    fn state(&self) -> TrunkState {
        let in_flight = self.sent.bytes.saturating_sub(self.heard.bytes);
        TrunkState {
            window: self.control.window() / PACKET,
            credit: 0_i64
                .saturating_add_unsigned(self.control.window())
                .saturating_sub_unsigned(in_flight),
            rtt: self.control.srtt(),
            silent: usize::from(self.timeouts >= SILENCE),
            active: 1,
        }
    }
}

/// Timeouts in a row after which the other end is considered dead.
const SILENCE: u32 = 3;

/// Source: RFC 6298, section 2.1.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// The same as `TCP_RTO_MIN` of Linux.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// Timeouts double this many times at most.
const MOST_BACKOFF: u32 = 6;

/// Delay of a pump that pacing makes up for, in nanoseconds.
const CATCH_UP: u64 = 1_000_000;
