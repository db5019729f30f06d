//! Round-trip times and the retransmission timeout.
//!
//! Source: RFC 6298; with [`Floor::Variation`] as Linux 6.12, `tcp_rtt_estimator`.

use std::time::Duration;

use super::profile::{Details, Floor};

/// What is known about the round-trip time, and the timeout that follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rto {
    /// Smoothed round-trip time in ns; zero before the first measurement.
    smoothed: u64,
    /// Its mean deviation in ns.
    deviation: u64,
    least: u64,
    /// Timeouts in a row.
    backoff: u8,
}

impl Rto {
    pub(super) const fn new() -> Self {
        Self { smoothed: 0, deviation: 0, least: u64::MAX, backoff: 0 }
    }

    /// Takes in a measurement; only segments sent once measure anything (Karn).
    ///
    /// Source: RFC 6298, sections 2.2 and 2.3, with alpha = 1/8 and beta = 1/4.
    ///
    /// It also ends the backoff: one from a segment sent twice could not (section 5.7; Karn).
    pub(super) fn sample(&mut self, details: &Details, rtt: Duration) {
        self.backoff = 0;
        let exact = nanos(rtt).max(1);
        self.least = self.least.min(exact);
        let rtt = stepped(exact, details).max(1);
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (rtt, rtt / 2);
        } else {
            let off = self.smoothed.abs_diff(rtt);
            self.deviation = self.deviation - self.deviation / 4 + off / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
    }

    /// It expired: the next is twice as long (RFC 6298, section 5.5).
    pub(super) const fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Times it expired in a row.
    pub(super) const fn backoff(&self) -> u8 {
        self.backoff
    }

    /// Takes back what was undone with it.
    pub(super) const fn set_backoff(&mut self, backoff: u8) {
        self.backoff = backoff;
    }

    /// The timeout as it stands, backed off.
    pub(super) fn timeout(&self, details: &Details) -> Duration {
        self.backed_off(details, self.backoff)
    }

    /// The timeout, doubled so many times.
    pub(super) fn backed_off(&self, details: &Details, times: u8) -> Duration {
        let base = nanos(self.base(details));
        let backed = base.saturating_mul(1 << times.min(MOST_DOUBLINGS));
        Duration::from_nanos(backed.min(nanos(details.rto_max)))
    }

    /// The timeout without backoff.
    pub(super) fn base(&self, details: &Details) -> Duration {
        let least = nanos(details.rto_min);
        let base = if self.smoothed == 0 {
            nanos(details.rto_initial)
        } else {
            let variation = self.deviation.saturating_mul(4).max(nanos(details.clock_granularity));
            match details.rto_floor {
                Floor::Timeout => {
                    stepped(self.smoothed.saturating_add(variation), details).max(least)
                }
                Floor::Variation => self.smoothed.saturating_add(variation.max(least)),
            }
        };
        Duration::from_nanos(base.min(nanos(details.rto_max)))
    }

    /// Smoothed round-trip time; `None` before the first measurement.
    pub(super) const fn smoothed(&self) -> Option<Duration> {
        match self.smoothed {
            0 => None,
            smoothed => Some(Duration::from_nanos(smoothed)),
        }
    }

    /// The least round-trip time seen.
    pub(super) const fn least(&self) -> Option<Duration> {
        match self.least {
            u64::MAX => None,
            least => Some(Duration::from_nanos(least)),
        }
    }
}

/// Doublings after which every timeout is at its greatest value.
const MOST_DOUBLINGS: u8 = 16;

/// `span` as a clock of the profile's step shows it.
fn stepped(span: u64, details: &Details) -> u64 {
    match nanos(details.clock_granularity) {
        0 => span,
        step => span.div_ceil(step).saturating_mul(step),
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
