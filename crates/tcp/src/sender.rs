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

use tidegate_base::Time;
use tidegate_base::time::nanos;

use super::congestion::{CongestionControl, Signal, Window};
use super::profile::{Config, Details, Duplicates, EcnMode, Pipe, Recovery, ReduceFrom};
use super::rack::Rack;
use super::rate::RateSampler;
use super::rto::{Rto, elapsed};
use super::scoreboard::Scoreboard;
use super::statistics::Counters;

pub(super) use ack::AckInfo;
use recovery::{Phase, Prr};
use tail::Tail;
use timers::Timer;
pub(super) use transmit::Span;
use undo::Undo;
use validation::Validation;

/// Time and settings, passed to each step of a sender.
#[derive(Clone, Copy)]
pub(super) struct Cx<'a> {
    pub(super) now: Time,
    pub(super) details: &'a Details,
}

/// The sending half of an end point.
pub(super) struct Sender {
    board: Scoreboard,
    /// Bytes that the application has written.
    written: u64,
    /// The application has no more data.
    finished: bool,
    /// Offset of the right edge of the peer's window, and the largest window that the peer
    /// advertised.
    limit: u64,
    largest_window: u64,
    window: Window,
    congestion: Box<dyn CongestionControl>,
    phase: Phase,
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// Inflation of the window by duplicate ACKs in fast recovery without SACK (RFC 6582).
    inflation: u64,
    /// End of the sent data at the last response to a loss, and to ECN-Echo; `None` before the
    /// first response. Until data beyond this offset is acknowledged, further losses or marks
    /// belong to the same window.
    lost_until: Option<u64>,
    marked_until: Option<u64>,
    /// Delivered bytes that duplicate ACKs imply in a recovery without SACK
    /// ([`Duplicates::Deliver`]).
    implied: u64,
    /// The next retransmission ignores the window.
    repair: bool,
    /// The first partial ACK of this recovery was seen.
    partial_seen: bool,
    prr: Prr,
    /// Estimated bytes in flight in a recovery with SACK ([`Pipe::Estimate`]). Negative after many
    /// partial ACKs.
    estimate: i64,
    /// Number of segments that the last ACK still releases, in addition to a forced retransmission.
    allowance: u8,
    undo: Option<Box<Undo>>,
    /// F-RTO: new data is sent before retransmissions.
    prefer_new: bool,
    tail: Option<Tail>,
    /// A tail loss probe is to be sent.
    probing: bool,
    rto: Rto,
    /// Created with the first use of SACK.
    rack: Option<Box<Rack>>,
    rate: RateSampler,
    /// Expiry and purpose of the timer: a retransmission, or one of the other purposes.
    timer: Option<(Time, Timer)>,
    /// Earliest time of the next paced transmission.
    release: Time,
    /// Expiries of the retransmission timer in a row.
    expired: u8,
    /// Window probes in a row.
    persisted: u8,
    /// The persist timer permits a small segment.
    override_window: bool,
    /// Time of the last transmission.
    last_sent: Time,
    /// End and send time of the segment whose round trip is timed; [`UNTIMED`] for none.
    timed: (u64, Time),
    usage: Usage,
    /// Created when the profile first needs it.
    validation: Option<Box<Validation>>,
    /// Until this offset is acknowledged, the end of the window is not retransmitted again (RFC
    /// 6675, `RescueRxt`).
    rescued: u64,
    /// SACK is in use: the peer permits it and the profile selects it.
    sack: bool,
    /// The handshake agreed on ECN.
    ecn: bool,
    /// The next new segment carries CWR.
    send_cwr: bool,
    pub(super) counters: Counters,
}

/// Recent use of the congestion window.
///
/// Source: Linux 6.12, `tcp_cwnd_validate`.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    most: u64,
    until: u64,
    /// The congestion window limited the sender.
    blocked: bool,
    /// Time when the window last limited the sender.
    blocked_at: Time,
}

/// Result of the handshake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    /// Largest payload of a segment.
    pub(super) segment: u32,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    /// The peer's receive window in bytes.
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
            implied: 0,
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
            send_cwr: false,
            counters: Counters::default(),
        }
    }

    /// The connection is established, and data may be sent. `rtt` is the round-trip time of the
    /// handshake, `lost` the number of lost SYNs.
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

    /// Sets the right edge of the peer's window, and the largest window seen.
    pub(super) fn set_window(&mut self, limit: u64, largest: u64) {
        (self.limit, self.largest_window) = (limit, largest);
    }

    /// The application writes `bytes` more.
    pub(super) fn write(&mut self, bytes: u64) {
        if !self.finished {
            self.written = self.written.saturating_add(bytes).min(MOST);
        }
    }

    /// The application has no more data.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// Offset after the last byte, FIN included.
    fn total(&self) -> u64 {
        self.written + u64::from(self.finished)
    }

    /// True if all data and the FIN are acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.finished && self.board.una() == self.total()
    }

    /// True if the application has no more data.
    pub(super) const fn has_finished(&self) -> bool {
        self.finished
    }

    /// True if all data is acknowledged and only the FIN may be outstanding.
    pub(super) fn waits_for_end(&self) -> bool {
        self.finished && self.board.una() >= self.written
    }

    /// True if `span` ends with the last written byte.
    pub(super) fn is_last(&self, span: &Span) -> bool {
        span.start + span.payload == self.written
    }

    /// Expiries of the retransmission timer in a row.
    pub(super) const fn expired(&self) -> u8 {
        self.expired
    }

    /// Bytes delivered to the peer, in order or not.
    pub(super) const fn delivered(&self) -> u64 {
        self.rate.delivered()
    }

    /// The next offset to send.
    pub(super) fn next(&self) -> u64 {
        self.board.end()
    }

    /// Offset up to which all data is acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.board.una()
    }

    /// Number of data bytes acknowledged.
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

    /// Estimate of the bytes in flight in a recovery.
    fn pipe(&self, details: &Details) -> u64 {
        match details.pipe {
            Pipe::Estimate if self.sack => u64::try_from(self.estimate).unwrap_or(0),
            Pipe::Estimate | Pipe::Scoreboard => self.board.pipe().saturating_sub(self.implied),
        }
    }

    /// True if recovery works as in ns-2's `Sack1`.
    fn estimates(&self, details: &Details) -> bool {
        self.sack && details.pipe == Pipe::Estimate
    }

    /// True if recovery counts delivered segments, reported by SACK or implied by duplicate ACKs.
    fn goes_by_delivery(&self, details: &Details) -> bool {
        self.sack || details.duplicates == Duplicates::Deliver
    }

    /// Reports `signal` to the congestion control, which sets the threshold. `flight` is the number
    /// of bytes in flight.
    fn signal(&mut self, cx: Cx<'_>, signal: Signal, flight: u64) {
        let segments = match signal {
            Signal::Echo => cx.details.ecn_floor,
            Signal::Loss => cx.details.loss_floor,
            Signal::Timeout { .. } => 2,
        };
        self.window.floor = u64::from(segments) * self.window.segment;
        let from = match cx.details.reduce_from {
            // Segments of limited transmit do not count (RFC 5681, section 3.2, step 2).
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

    /// True if data beyond the stream offset `until` is acknowledged.
    fn is_past(&self, until: Option<u64>) -> bool {
        until.is_none_or(|until| self.board.una() > until)
    }

    /// Reduces the window to the threshold, unless the congestion control sets the window itself.
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

/// The longest stream. The value leaves room for additions without overflow.
const MOST: u64 = 1 << 62;
