//! Congestion controls: how much may be in flight.
//!
//! The sender finds out what happened (what was acknowledged, lost, marked) and how to send again;
//! a congestion control only sets the window. To add one: write `congestion/<name>.rs` with a
//! `Config` and its `build`, then add its `mod` line and its line in the registry.

use std::time::Duration;

use crate::{Rate, Time};

/// How much may be in flight, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// Congestion window (RFC 5681, section 2).
    pub congestion: u64,
    /// Slow start threshold: below it the window grows exponentially.
    pub threshold: u64,
    /// Full-sized segment: what counts are scaled by.
    pub segment: u64,
    /// The least a reduction may leave of it: two segments (RFC 5681, section 3.1), or what the
    /// profile says for this signal. The sender sets it before every signal.
    pub floor: u64,
}

impl Window {
    /// Whether the window grows exponentially (RFC 5681, section 3.1: a tie may be either).
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.congestion < self.threshold
    }
}

/// What an acknowledgement told the sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ack {
    /// When it came.
    pub now: Time,
    /// Bytes it newly acknowledged, cumulatively or selectively.
    pub bytes: u64,
    /// Bytes of it by which slow start may grow: what the profile's byte counting makes of `bytes`
    /// (one segment for every ACK, RFC 3465 with its limit, or all).
    pub counted: u64,
    /// Bytes in flight before it came, by the sender's own count.
    pub flight_before: u64,
    /// Bytes in flight now.
    pub flight: u64,
    /// Stream offset up to which all is acknowledged, and the highest sent.
    pub acknowledged: u64,
    /// The highest stream offset sent so far.
    pub sent: u64,
    /// Round-trip time it measured, if it did.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time (RFC 6298).
    pub smoothed_rtt: Duration,
    /// Least round-trip time seen.
    pub least_rtt: Duration,
    /// It carries ECN-Echo.
    pub echo: bool,
    /// Bytes whose packets were marked, as far as the echo tells (for DCTCP: all of `bytes` or none).
    pub marked: u64,
    /// The sender was short of data or of the receiver's window, not of congestion window.
    pub limited_elsewhere: bool,
    /// The sender is in recovery from a loss.
    pub in_recovery: bool,
    /// How fast data is being delivered, where this ACK allows an estimate.
    pub delivery: Option<Delivery>,
}

/// An estimate of the delivery rate.
///
/// Source: draft-cheng-iccrg-delivery-rate-estimation, section 3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Delivery {
    /// Bytes per second, as a rate.
    pub rate: Rate,
    /// Bytes delivered since the connection began.
    pub delivered: u64,
    /// `delivered` when the packet this sample is of was sent.
    pub delivered_before: u64,
    /// Bytes lost over the span of the sample.
    pub lost: u64,
    /// The sample may be low because the sender had nothing to send.
    pub application_limited: bool,
}

/// Why the window must shrink.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Signal {
    /// Packets were lost (three duplicate ACKs, SACK or RACK say so): at most once per window.
    Loss,
    /// ECN-Echo: at most once per window.
    Echo,
    /// The retransmission timer expired; `again` when it is not the first time for this segment.
    Timeout {
        /// It expired for the same segment before.
        again: bool,
    },
}

/// How much may be in flight, and how fast it may be sent.
pub trait CongestionControl: Send {
    /// Lets the window grow, or shrink, after an acknowledgement.
    ///
    /// In recovery the sender itself keeps `window.congestion` (NewReno, PRR), unless
    /// [`keeps_window`](Self::keeps_window).
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// Sets `window.threshold` to what the window is to come down to, not below `window.floor`, after
    /// `signal`, with `flight` bytes in flight. The sender brings `window.congestion` there.
    ///
    /// Where the profile reduces from the window and not from what is in flight (ns-2, Linux),
    /// `flight` is the window.
    fn on_signal(&mut self, now: Time, window: &mut Window, flight: u64, signal: Signal);

    /// The last reduction was not called for (RFC 4015, F-RTO, DSACK); the sender has restored the
    /// window.
    fn on_undo(&mut self, _now: Time, _window: &mut Window) {}

    /// Nothing was sent for longer than the retransmission timeout; the sender is about to send.
    fn on_idle(&mut self, _now: Time, _window: &mut Window, _idle: Duration) {}

    /// A new estimate of the mean round-trip time of the aggregate this connection belongs to.
    fn on_aggregate_rtt(&mut self, _mean: Duration) {}

    /// The rate to send at; `None` to leave that to the sender.
    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        None
    }

    /// It sets `window.congestion` itself, in recovery as well.
    fn keeps_window(&self) -> bool {
        false
    }
}
