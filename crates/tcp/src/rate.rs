//! The delivery rate, sampled with every ACK.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation-02, section 3.

use std::time::Duration;

use tidegate_base::{Rate, Time};

use super::congestion::Delivery;
use super::scoreboard::Sent;

/// State at the send time of a segment: bytes delivered until then, the time of the last delivery,
/// and the send time of the first segment of its flight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: Time,
    flight_began: Time,
}

/// Samples the delivery rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateSampler {
    delivered: u64,
    delivered_at: Time,
    /// Send time of the first segment of the flight that is measured.
    flight_began: Time,
    /// Samples are application-limited until `delivered` exceeds this value.
    limited_until: u64,
}

impl RateSampler {
    /// Stamps a segment that is sent now. `idle` is `true` if nothing was in flight before.
    pub(super) fn stamp(&mut self, now: Time, idle: bool, start: u64, end: u64) -> (Sent, Stamp) {
        if idle {
            (self.flight_began, self.delivered_at) = (now, now);
        }
        let Self { delivered, delivered_at, flight_began, limited_until } = *self;
        let sent = Sent::new(start, end, now, limited_until > delivered);
        (sent, Stamp { delivered, delivered_at, flight_began })
    }

    /// Notes that the application has no more data, with `flight` bytes in flight.
    pub(super) fn limited(&mut self, flight: u64) {
        self.limited_until = (self.delivered + flight).max(1);
    }

    /// Bytes delivered since the beginning.
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Counts `bytes` as delivered. `latest` is the segment among them that was sent last. Returns
    /// `None` without a stamp, or if the interval is shorter than `least_rtt`.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        bytes: u64,
        latest: &Sent,
        stamp: Option<Stamp>,
        least_rtt: Duration,
    ) -> Option<Delivery> {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        self.flight_began = self.flight_began.max(latest.at);
        let stamp = stamp?;
        let sending = latest.at.since(stamp.flight_began);
        let interval = now.since(stamp.delivered_at).max(sending);
        if interval.is_zero() || interval < least_rtt {
            return None;
        }
        let bits = u128::from(self.delivered - stamp.delivered) * 8_000_000_000;
        let rate = u64::try_from(bits / interval.as_nanos()).unwrap_or(u64::MAX);
        Some(Delivery {
            rate: Rate::from_bps(rate),
            delivered: self.delivered,
            delivered_before: stamp.delivered,
            application_limited: latest.limited(),
        })
    }
}
