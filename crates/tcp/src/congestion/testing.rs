//! Shared helpers for tests of congestion controls: ACKs, and round trips of ACKs.

use std::time::Duration;

use tidegate_base::Time;

use super::{Ack, CongestionControl, Window};

/// Bytes of a full-sized segment in these tests.
pub(super) const SEGMENT: u64 = 1_460;

/// A window of `segments`, and a threshold in bytes.
pub(super) fn window(segments: u64, threshold: u64) -> Window {
    Window { congestion: segments * SEGMENT, threshold, segment: SEGMENT, floor: SEGMENT }
}

/// The window in segments after `rounds` round trips of `cwnd += 1 / cwnd` for each ACK, in reals.
pub(super) fn equation_3(segments: u64, rounds: usize) -> f64 {
    let mut window = real(segments);
    for _ in 0..rounds {
        let mut acks = window.floor();
        while acks > 0.0 {
            window += 1.0 / window;
            acks -= 1.0;
        }
    }
    window
}

/// A count as a real number; exact below 2^53.
#[expect(clippy::as_conversions, reason = "there is no other way, and these counts are small")]
pub(super) fn real(count: u64) -> f64 {
    count as f64
}

/// An ACK for `bytes`, with all other fields at their defaults.
pub(super) fn acknowledged(bytes: u64) -> Ack {
    Ack {
        now: Time::ZERO,
        bytes,
        flight_before: bytes,
        flight: 0,
        acknowledged: bytes,
        sent: bytes,
        rtt: None,
        smoothed_rtt: Duration::ZERO,
        least_rtt: Duration::ZERO,
        echo: false,
        marked: 0,
        may_grow: true,
        in_recovery: false,
        lost: 0,
        delivery: None,
    }
}

/// The window after each of `count` round trips with a full window and an ACK for every
/// `per_ack` segments. Fractions of a segment are not sent.
pub(super) fn rounds(
    control: &mut dyn CongestionControl,
    window: &mut Window,
    count: usize,
    per_ack: u64,
) -> Vec<u64> {
    let mut round = || {
        let mut segments = window.congestion / SEGMENT;
        while segments > 0 {
            let covered = segments.min(per_ack);
            control.on_ack(window, &acknowledged(covered * SEGMENT));
            segments -= covered;
        }
        window.congestion
    };
    (0..count).map(|_| round()).collect()
}
