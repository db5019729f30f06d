//! The sending gateway of a trunk with epochs: it paces user packets at the rate `window / RTT` of
//! its congestion control.
//!
//! An *epoch* ends with a *boundary*: a user packet that both gateways select by its hash. The
//! receiving gateway answers each boundary with a *congestion ACK*. The *spacing* is the mean
//! number of packets from one boundary to the next. The sending gateway sets it with *spacing
//! requests*.
//!
//! Source: doi 10.1145/3447786.3456260 (Bundler), and Copa (NSDI 2018) for the window.
//! Differs: Bundler limits the rate only. Here at most 1.5 windows of bytes may depart after the last acknowledged
//! boundary, if the congestion ACK of a boundary is overdue. While none is overdue, the pacing rate alone decides. A
//! hash selects the boundaries, so a whole round trip may pass without one.

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

/// The bandwidth probe `epochs`, at the sending gateway.
pub(in crate::trunk) struct Epochs {
    /// Flow key of spacing requests.
    key: FlowKey,
    /// DS codepoint of spacing requests.
    dscp: u8,
    /// Frame format of spacing requests.
    frame: Frame,
    /// `true` if `frame` must follow the format of the latest user packet.
    follows: bool,
    control: AggregateWindow,
    ledger: Ledger,
    spacing: Spacing,
    sent: SentTotals,
    /// Bytes that did not arrive, minus bytes that arrived late. The second number is the maximum of the first
    /// so far.
    missing: (i64, u64),
    /// Totals sent up to the last acknowledged boundary. All bytes beyond it count as in flight.
    heard: SentTotals,
    /// Time of the last congestion ACK, or of the last timeout.
    heard_at: Time,
    /// Time when the tunnel queue last became backlogged.
    backlogged_since: Time,
    /// Time at which pacing permits the next departure.
    next: Time,
    /// Timeouts since the last congestion ACK.
    timeouts: u32,
    /// Time of the last adaptation of the spacing, and the number of packets sent by then.
    adapted: (Time, u64),
    /// `true` if a spacing request must be sent.
    wants_request: bool,
    /// Time of the last spacing request.
    requested_at: Option<Time>,
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
            wants_request: false,
            requested_at: None,
        }
    }

    /// Returns `true` if the window permits the next packet. The window does not limit while no boundary is
    /// overdue.
    fn has_room(&self) -> bool {
        let in_flight = self.sent.bytes - self.heard.bytes;
        in_flight < self.control.window() + self.control.window() / 2 || !self.is_overdue()
    }

    /// Returns `true` if a boundary is overdue: when the next packet departs, 1.5 round trips will have passed
    /// since the boundary departed, without a congestion ACK. Before the first measurement of the round-trip
    /// time, the answer is `true`.
    fn is_overdue(&self) -> bool {
        let Some(srtt) = self.control.srtt() else { return true };
        self.ledger.oldest().is_some_and(|left| left + srtt + srtt / 2 <= self.next)
    }

    /// A packet of `len` bytes departs: delays the next departure by `len / rate`.
    fn pace(&mut self, now: Time, len: u64) {
        let from = self.next.max(Time::from_nanos(now.nanos().saturating_sub(CATCH_UP)));
        self.next = match self.control.rate() {
            Some(rate) => from + rate.time_for(Bytes(len)),
            None => now,
        };
    }

    /// Counts the frames of a departing packet, and records those that are boundaries.
    fn record(&mut self, now: Time, packet: &Packet) {
        for frame in frames(packet) {
            let bytes = network_len(&frame);
            self.control.on_sent(&packet.key, bytes);
            self.sent.bytes += bytes;
            self.sent.packets += 1;
            if let Some(name) = boundary(&frame, self.spacing) {
                let in_flight = self.sent.bytes - self.heard.bytes;
                let full = in_flight + in_flight / 8 >= self.control.window();
                self.ledger.depart(now, name, self.sent, full);
            }
        }
    }

    /// Handles a congestion ACK. Returns the new window if the ACK gave a round-trip time.
    fn on_ack(
        &mut self,
        now: Time,
        header: &TcpSegment,
        counts: &mut TrunkCounters,
    ) -> Option<Bytes> {
        let ack = CongestionAck::read(header)?;
        self.wants_request |= ack.spacing != self.spacing && self.may_request(now);
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

    /// Adds bytes that did not arrive, or subtracts bytes that arrived late if `bytes` is negative. Returns by how much
    /// the maximum of the sum has grown.
    ///
    /// Example: after +3000, -1500 and +4500, the results are 3000, 0 and 3000, and the sum is 6000.
    fn add_missing(&mut self, bytes: i64) -> u64 {
        self.missing.0 = self.missing.0.saturating_add(bytes);
        let most = self.missing.1.max(u64::try_from(self.missing.0).unwrap_or(0));
        most - std::mem::replace(&mut self.missing.1, most)
    }

    /// Adapts the spacing to the number of packets sent in a round trip, once per round trip.
    fn adapt_spacing(&mut self, now: Time) {
        let srtt = self.control.srtt().unwrap_or_default();
        let (at, packets) = self.adapted;
        let span = now.since(at);
        if span >= srtt && !span.is_zero() {
            let sent = u128::from(self.sent.packets - packets) * srtt.as_nanos() / span.as_nanos();
            let spacing = self.spacing.adapted(u64::try_from(sent).unwrap_or(u64::MAX));
            self.wants_request |= spacing != self.spacing;
            self.spacing = spacing;
            self.adapted = (now, self.sent.packets);
        }
    }

    /// Returns `true` if a round trip has passed since the last spacing request, so that the next
    /// may be sent.
    fn may_request(&self, now: Time) -> bool {
        let srtt = self.control.srtt().unwrap_or(FIRST_TIMEOUT);
        self.requested_at.is_none_or(|at| now.since(at) >= srtt)
    }

    /// Expiry of the timeout without a congestion ACK. `None` unless the tunnel queue is `backlogged`.
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

    /// If the timeout has expired, considers all packets in flight lost, and begins with a small window.
    fn handle_timeout(&mut self, now: Time, backlogged: bool) {
        if self.timeout_at(backlogged).is_some_and(|at| at <= now) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.control.on_silence(now, self.timeouts >= SILENCE);
            self.ledger.forget();
            self.heard = self.sent;
            (self.heard_at, self.next) = (now, now);
            (self.spacing, self.wants_request) = (Spacing::default(), true);
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

    /// Sends a spacing request if one is due.
    fn transmit(&mut self, to: &mut TrunkOutput<'_, '_>, _tunnel: &mut Tunnel) -> bool {
        if std::mem::take(&mut self.wants_request) {
            self.requested_at = Some(to.cx.now);
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
            // The other gateway is alive again. The next timeout is as short as it was when this gateway
            // was first considered dead.
            self.timeouts = self.timeouts.min(SILENCE);
            return None;
        };
        self.on_ack(now, &segment.header, counts)
    }

    /// The pacing rate. Before the first round-trip time, it is one window per second.
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

/// Timeouts without a congestion ACK after which the other gateway is considered dead.
const SILENCE: u32 = 3;

/// Timeout before the first round-trip time is known.
///
/// Source: RFC 6298, section 2.1.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// Least timeout.
///
/// Source: `TCP_RTO_MIN` of Linux.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// Greatest number of doublings of the timeout. Each further timeout is as long as the last.
const MOST_BACKOFF: u32 = 6;

/// If a call is late, packets depart faster until pacing is on schedule again. At most this delay,
/// in nanoseconds, is made up for in this way.
const CATCH_UP: u64 = 1_000_000;
