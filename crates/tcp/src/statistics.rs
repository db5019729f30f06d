//! State and counters that an end point reports.

use std::time::Duration;

/// Counters of a sender since the connection began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counters {
    pub(super) segments_sent: u64,
    pub(super) retransmitted: u64,
    pub(super) recoveries: u32,
    pub(super) timeouts: u32,
    pub(super) probes: u32,
    pub(super) spurious: u32,
    pub(super) reductions: u32,
    pub(super) echoes: u64,
}

/// Progress of a sender.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Congestion window in bytes.
    pub congestion_window: u64,
    /// Full-sized segment in bytes.
    pub segment: u64,
    /// Bytes acknowledged cumulatively.
    pub acknowledged: u64,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub smoothed_rtt: Option<Duration>,
}

/// State and counters of an end point since the connection began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Congestion window in bytes, without the inflation by duplicate ACKs.
    pub congestion_window: u64,
    /// Inflation of the window by duplicate ACKs in fast recovery without SACK (RFC 6582), in
    /// bytes.
    pub inflation: u64,
    /// Slow start threshold in bytes; `u64::MAX` until the first reduction.
    pub threshold: u64,
    /// Full-sized segment in bytes.
    pub segment: u64,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub smoothed_rtt: Option<Duration>,
    /// Least round-trip time.
    pub least_rtt: Option<Duration>,
    /// Retransmission timeout, with backoff.
    pub timeout: Duration,
    /// Estimate of the bytes in flight.
    pub flight: u64,
    /// Bytes written by the application.
    pub written: u64,
    /// Bytes acknowledged cumulatively.
    pub acknowledged: u64,
    /// Bytes delivered to the peer, in order or not.
    pub delivered: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Bytes received more than once.
    pub duplicate: u64,
    /// Segments sent with data or FIN, retransmissions included.
    pub segments_sent: u64,
    /// Number of retransmissions among these segments.
    pub retransmitted: u64,
    /// Fast recoveries.
    pub recoveries: u32,
    /// Expiries of the retransmission timer.
    pub timeouts: u32,
    /// Tail loss probes and window probes.
    pub probes: u32,
    /// Timeouts and recoveries that proved spurious.
    pub spurious: u32,
    /// Received segments that carried a CE mark.
    pub marks: u64,
    /// Received ACKs with ECN-Echo.
    pub echoes: u64,
    /// Reductions of the window for ECN-Echo.
    pub reductions: u32,
    /// The sender is in recovery.
    pub in_recovery: bool,
}
