//! What an end point tells about itself.

use std::time::Duration;

/// Counts of a sender since the connection began.
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

/// How a sender gets on.
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

/// The state of an end point, and its counts since the connection began.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Statistics {
    /// Congestion window in bytes, without what duplicate ACKs add to it for a while.
    pub congestion_window: u64,
    /// What duplicate ACKs add to it in fast recovery without SACK (RFC 6582), in bytes.
    pub inflation: u64,
    /// Slow start threshold in bytes; `u64::MAX` until the first reduction.
    pub threshold: u64,
    /// Full-sized segment in bytes.
    pub segment: u64,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub smoothed_rtt: Option<Duration>,
    /// Least round-trip time.
    pub least_rtt: Option<Duration>,
    /// Retransmission timeout, backed off.
    pub timeout: Duration,
    /// Bytes in flight, as far as the sender knows.
    pub flight: u64,
    /// Bytes handed over by the application.
    pub written: u64,
    /// Bytes acknowledged cumulatively.
    pub acknowledged: u64,
    /// Bytes delivered to the peer, in order or not.
    pub delivered: u64,
    /// Bytes received in order.
    pub received: u64,
    /// Bytes received that were there already.
    pub duplicate: u64,
    /// Segments sent with data or FIN, copies included.
    pub segments_sent: u64,
    /// Of these, copies.
    pub retransmitted: u64,
    /// Fast recoveries.
    pub recoveries: u32,
    /// Expiries of the retransmission timer.
    pub timeouts: u32,
    /// Tail loss probes and window probes.
    pub probes: u32,
    /// Timeouts and recoveries that turned out not to have been called for.
    pub spurious: u32,
    /// Segments received that were marked on the way.
    pub marks: u64,
    /// ACKs received that carry ECN-Echo.
    pub echoes: u64,
    /// Reductions of the window for ECN-Echo.
    pub reductions: u32,
    /// A loss is being recovered from.
    pub in_recovery: bool,
}
