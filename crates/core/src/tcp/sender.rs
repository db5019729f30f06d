//! The sending half of an end point.
//!
//! Positions in the stream count from the first byte of data. A FIN takes the position after the last byte.
//! `ack` evaluates ACKs, `recovery` repairs losses, `transmit` selects departures, and `timers` handles
//! timeouts.

mod ack;
mod recovery;
mod tail;
mod timers;
mod transmit;
mod undo;
mod validation;

use std::time::Duration;

use super::congestion::{CongestionControl, Signal, Window};
use super::profile::{Config, Details, Duplicates, EcnMode, Pipe, Recovery, ReduceFrom};
use super::rack::Rack;
use super::rate::RateSampler;
use super::rto::{Rto, elapsed};
use super::scoreboard::Scoreboard;
use super::statistics::Counters;
use crate::Time;
use crate::time::nanos;

pub(super) use ack::AckInfo;
use recovery::{Phase, Prr};
use tail::Tail;
use timers::Timer;
pub(super) use transmit::Span;
use undo::Undo;
use validation::Validation;

/// What every step of a sender is lent.
#[derive(Clone, Copy)]
pub(super) struct Cx<'a> {
    pub(super) now: Time,
    pub(super) details: &'a Details,
}

/// The half of an end point that sends.
pub(super) struct Sender {
    board: Scoreboard,
    /// Bytes the application has handed over.
    written: u64,
    /// It has no more.
    finished: bool,
    /// Place up to which the peer's window reaches; the largest window it showed.
    limit: u64,
    largest_window: u64,
    window: Window,
    congestion: Box<dyn CongestionControl>,
    phase: Phase,
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// What duplicate ACKs add to the window in fast recovery without SACK (RFC 6582).
    inflation: u64,
    /// Until more than this is acknowledged, what is lost or marked was out when a loss, or ECN-Echo,
    /// was answered last; `None` before the first.
    lost_until: Option<u64>,
    marked_until: Option<u64>,
    /// Bytes that duplicate ACKs in a recovery without SACK stand for ([`Duplicates::Deliver`]).
    stood_for: u64,
    /// A segment is repaired whatever the window says.
    repair: bool,
    /// The first partial ACK of this recovery was seen.
    partial_seen: bool,
    prr: Prr,
    /// Bytes in flight in a recovery with SACK, where they are estimated ([`Pipe::Estimate`]); fewer
    /// than none after many partial ACKs.
    estimate: i64,
    /// Segments that the last ACK still releases, beside a forced copy.
    allowance: u8,
    undo: Option<Box<Undo>>,
    /// F-RTO: new data goes before what is held for lost.
    prefer_new: bool,
    tail: Option<Tail>,
    /// A tail loss probe is to be sent.
    probing: bool,
    rto: Rto,
    /// Once there was SACK.
    rack: Option<Box<Rack>>,
    rate: RateSampler,
    /// When the retransmission timer, or what stands in its place, expires.
    timer: Option<(Time, Timer)>,
    /// When a paced sender may send next.
    release: Time,
    /// Times the retransmission timer expired in a row.
    expired: u8,
    /// Times the peer was asked about its window in a row.
    persisted: u8,
    /// The persist timer lets a small segment go.
    override_window: bool,
    /// When anything was sent last.
    last_sent: Time,
    /// The segment whose round trip is being timed ends here; it was sent then. [`UNTIMED`] for none.
    timed: (u64, Time),
    usage: Usage,
    /// Once the profile asked for it.
    validation: Option<Box<Validation>>,
    /// Until this is acknowledged, the end of the window is not repaired again (RFC 6675, `RescueRxt`).
    rescued: u64,
    /// The peer agreed to SACK, and the profile uses it.
    sack: bool,
    /// ECN was agreed on.
    ecn: bool,
    /// The next new segment says that the window was reduced.
    tell_reduced: bool,
    pub(super) counters: Counters,
}

/// How much of the window was in use, of late.
///
/// Source: Linux 6.12, `tcp_cwnd_validate`.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    most: u64,
    until: u64,
    /// The congestion window was what held the sender back.
    blocked: bool,
    /// When it was so last.
    blocked_at: Time,
}

/// What the handshake agreed on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    /// Largest payload of a segment.
    pub(super) segment: u32,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    /// Bytes the peer lets us send.
    pub(super) window: u64,
}

impl Sender {
    pub(super) fn new(config: &Config) -> Self {
        let details = &config.details;
        let segment = u64::from(config.mss);
        let congestion = config.congestion.build(details.counting);
        Self {
            board: Scoreboard::new(details.rack, congestion.wants_delivery_rate()),
            written: 0,
            finished: false,
            limit: 0,
            largest_window: 0,
            window: Window {
                congestion: u64::from(details.initial_window) * segment,
                threshold: u64::MAX,
                segment,
                floor: 2 * segment,
            },
            congestion,
            phase: Phase::Open,
            duplicates: 0,
            inflation: 0,
            stood_for: 0,
            lost_until: None,
            marked_until: None,
            repair: false,
            partial_seen: false,
            prr: Prr::default(),
            estimate: 0,
            allowance: ANY,
            undo: None,
            prefer_new: false,
            tail: None,
            probing: false,
            rto: Rto::new(),
            rack: None,
            rate: RateSampler::default(),
            timer: None,
            release: Time::ZERO,
            expired: 0,
            persisted: 0,
            override_window: false,
            last_sent: Time::ZERO,
            timed: UNTIMED,
            usage: Usage::default(),
            validation: None,
            rescued: 0,
            sack: false,
            ecn: false,
            tell_reduced: false,
            counters: Counters::default(),
        }
    }

    /// The connection is there: data may be sent. `rtt` is that of the handshake, `lost` the number of
    /// SYNs that were lost.
    pub(super) fn establish(
        &mut self,
        cx: Cx<'_>,
        agreed: Agreed,
        rtt: Option<Duration>,
        lost: u8,
    ) {
        let segment = u64::from(agreed.segment);
        self.window.segment = segment;
        // Source: RFC 5681, section 3.1.
        let initial = if lost > 0 { 1 } else { cx.details.initial_window };
        self.window.congestion = u64::from(initial) * segment;
        if let Some(segments) = cx.details.initial_threshold {
            self.window.threshold = u64::from(segments) * segment;
        }
        self.window.floor = 2 * segment;
        if lost > 0 && cx.details.syn_loss_is_a_timeout {
            self.window.threshold = 2 * segment;
            for _ in 0..lost {
                self.rto.back_off(cx.details);
            }
        }
        self.sack = agreed.sack && cx.details.recovery == Recovery::Sack;
        self.ecn = agreed.ecn && cx.details.ecn != EcnMode::Off;
        self.limit = agreed.window;
        self.largest_window = agreed.window;
        self.last_sent = cx.now;
        if let Some(rtt) = rtt {
            let rtt = elapsed(cx.details, Time::from_nanos(cx.now.nanos() - nanos(rtt)), cx.now);
            self.rto.sample(cx.details, rtt, self.board.una(), self.board.end());
        }
        self.congestion.on_start(&self.window, rtt);
    }

    /// How far the peer's window reaches by now, and the largest it showed.
    pub(super) fn set_window(&mut self, limit: u64, largest: u64) {
        (self.limit, self.largest_window) = (limit, largest);
    }

    /// The application hands over `bytes` more.
    pub(super) fn write(&mut self, bytes: u64) {
        if !self.finished {
            self.written = self.written.saturating_add(bytes).min(MOST);
        }
    }

    /// The application has no more.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// The place after the last, FIN included.
    fn total(&self) -> u64 {
        self.written + u64::from(self.finished)
    }

    /// Everything, FIN included, is acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.finished && self.board.una() == self.total()
    }

    /// The application has no more.
    pub(super) const fn has_finished(&self) -> bool {
        self.finished
    }

    /// All data is acknowledged and there will be no more.
    pub(super) fn waits_for_end(&self) -> bool {
        self.finished && self.board.una() >= self.written
    }

    /// Nothing written follows it.
    pub(super) fn is_last(&self, span: &Span) -> bool {
        span.start + span.payload == self.written
    }

    /// Times the retransmission timer expired in a row.
    pub(super) const fn expired(&self) -> u8 {
        self.expired
    }

    /// Bytes delivered to the peer, in order or not.
    pub(super) const fn delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// The next place to send from.
    pub(super) fn next(&self) -> u64 {
        self.board.end()
    }

    /// All data below is acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.board.una()
    }

    /// Data bytes acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.board.una().min(self.written)
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) const fn window(&self) -> &Window {
        &self.window
    }

    pub(super) const fn inflation(&self) -> u64 {
        self.inflation
    }

    pub(super) fn flight(&self) -> u64 {
        self.board.pipe()
    }

    pub(super) const fn rto(&self) -> &Rto {
        &self.rto
    }

    pub(super) fn congestion_mut(&mut self) -> &mut dyn CongestionControl {
        &mut *self.congestion
    }

    pub(super) fn in_recovery(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// Bytes in flight in a recovery.
    fn pipe(&self, details: &Details) -> u64 {
        match details.pipe {
            Pipe::Estimate if self.sack => u64::try_from(self.estimate).unwrap_or(0),
            Pipe::Estimate | Pipe::Scoreboard => self.board.pipe().saturating_sub(self.stood_for),
        }
    }

    /// Losses are repaired as in ns-2's `Sack1`.
    fn estimates(&self, details: &Details) -> bool {
        self.sack && details.pipe == Pipe::Estimate
    }

    /// Recovery goes by what is delivered, told by SACK or by counting duplicates.
    fn goes_by_delivery(&self, details: &Details) -> bool {
        self.sack || details.duplicates == Duplicates::Deliver
    }

    /// Tells the congestion control about `signal`, with `flight` bytes out, and sets the threshold.
    fn signal(&mut self, cx: Cx<'_>, signal: Signal, flight: u64) {
        let segments = match signal {
            Signal::Echo => cx.details.ecn_floor,
            Signal::Loss => cx.details.loss_floor,
            Signal::Timeout { .. } => 2,
        };
        self.window.floor = u64::from(segments) * self.window.segment;
        let from = match cx.details.reduce_from {
            // Limited transmit does not count (RFC 5681, section 3.2, step 2).
            ReduceFrom::Flight => flight.min(self.window.congestion.max(self.window.segment)),
            ReduceFrom::Window => self.window.congestion.min(self.limit.saturating_sub(self.una())),
            ReduceFrom::Congestion => self.window.congestion,
        };
        let unvalidated = self.unvalidated(cx, flight);
        self.begin_unvalidated(unvalidated.is_some() && signal == Signal::Loss);
        let from = unvalidated.unwrap_or(from);
        self.congestion.on_signal(cx.now, &mut self.window, from, signal);
        if cx.details.counts_segments {
            self.window.threshold -= self.window.threshold % self.window.segment;
        }
        match signal {
            Signal::Echo => self.marked_until = Some(self.board.end()),
            Signal::Loss | Signal::Timeout { .. } => self.lost_until = Some(self.board.end()),
        }
    }

    /// Whether more is acknowledged than `until`.
    fn is_past(&self, until: Option<u64>) -> bool {
        until.is_none_or(|until| self.board.una() > until)
    }

    /// Brings the window to the threshold, unless the congestion control keeps it itself.
    fn reduce(&mut self, details: &Details) {
        if !self.congestion.keeps_window() {
            self.window.congestion = self.window.threshold.max(self.window.segment);
            if details.whole_threshold {
                self.window.threshold -= self.window.threshold % self.window.segment;
            }
            // Source: RFC 5681, section 3.1, equation 4.
            self.window.threshold = self.window.threshold.max(2 * self.window.segment);
        }
    }
}

/// An allowance without a limit.
const ANY: u8 = u8::MAX;

/// No segment is being timed.
const UNTIMED: (u64, Time) = (u64::MAX, Time::ZERO);

/// The most a stream may hold: so many bytes that nothing overflows.
const MOST: u64 = 1 << 62;
