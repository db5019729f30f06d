//! Round-trip times and the retransmission timeout.
//!
//! Source: RFC 6298; with [`Floor::Variation`] as in Linux 6.12, `tcp_rtt_estimator`.

use std::time::Duration;

use tidegate_base::Time;
use tidegate_base::time::nanos;

use super::profile::{Details, Floor};

/// The estimates of the round-trip time, and the retransmission timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rto {
    /// Smoothed round-trip time in ns; zero before the first measurement.
    smoothed: u64,
    /// Mean deviation of the round-trip time in ns.
    deviation: u64,
    /// With [`Floor::Variation`], as in Linux: the term added to the smoothed round-trip time, its
    /// largest value in this round, and the offset whose acknowledgement ends the round.
    variation: u64,
    most: u64,
    round: u64,
    least: u64,
    /// Timeout after the last measurement, without backoff and without the upper bound.
    follows: u64,
    /// Timeouts in a row.
    backoff: u8,
}

impl Rto {
    pub(super) const fn new() -> Self {
        Self {
            smoothed: 0,
            deviation: 0,
            variation: 0,
            most: 0,
            round: 0,
            least: u64::MAX,
            follows: 0,
            backoff: 0,
        }
    }

    /// Updates the estimates with a measured round-trip time. `una` is the first unacknowledged
    /// offset and `next` the next offset to send. Only segments that were sent once may be measured
    /// (Karn).
    ///
    /// Source: RFC 6298, sections 2.2 and 2.3, with alpha = 1/8 and beta = 1/4.
    ///
    /// The sample also ends the backoff (RFC 6298, section 5.7).
    pub(super) fn sample(&mut self, details: &Details, rtt: Duration, una: u64, next: u64) {
        self.backoff = 0;
        let exact = nanos(rtt).max(1);
        self.least = self.least.min(exact);
        let rtt = stepped(exact, details).max(1);
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (rtt, rtt / 2);
            self.variation = (4 * self.deviation).max(nanos(details.rto_min));
            (self.most, self.round) = (self.variation, next);
        } else {
            self.smooth(details, rtt, una, next);
        }
        self.follows = self.following(details);
    }

    /// Integer estimator: the mean in eighths of a clock step, its deviation in quarters.
    ///
    /// Source: Jacobson, "Congestion avoidance and control", appendix A, doi 10.1145/52325.52356;
    /// ns-2.35, `rtt_update`.
    fn smooth_steps(&mut self, rtt: u64, step: u64) {
        let whole = |value: u64, parts: u64| (value * parts + step / 2) / step;
        let (mean, deviation) = (whole(self.smoothed, 8), whole(self.deviation, 4));
        let measured = rtt / step;
        let off = measured.abs_diff(mean / 8);
        let mean = (mean + measured).saturating_sub(mean / 8).max(1);
        let deviation = (deviation + off).saturating_sub(deviation / 4).max(1);
        (self.smoothed, self.deviation) = (mean * step / 8, deviation * step / 4);
    }

    fn smooth(&mut self, details: &Details, rtt: u64, una: u64, next: u64) {
        let step = nanos(details.clock_granularity);
        if details.rtt_in_steps && step > 0 {
            return self.smooth_steps(rtt, step);
        }
        let off = self.smoothed.abs_diff(rtt);
        if details.rto_floor == Floor::Variation {
            self.vary(details, off, rtt < self.smoothed);
            self.end_round(details, una, next);
        } else {
            self.deviation = self.deviation - self.deviation / 4 + off / 4;
        }
        self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
    }

    /// The timeout that results from the estimates.
    fn following(&self, details: &Details) -> u64 {
        match details.rto_floor {
            Floor::Variation => self.smoothed.saturating_add(self.variation),
            Floor::Timeout => {
                let variation = self.deviation.saturating_mul(4);
                let variation = variation.max(nanos(details.clock_granularity));
                let least = nanos(details.rto_min);
                let follows = self.smoothed.saturating_add(variation);
                let step = nanos(details.clock_granularity);
                let follows = if details.rtt_in_steps && step > 0 {
                    follows - follows % step
                } else {
                    stepped(follows, details)
                };
                follows.max(least)
            }
        }
    }

    /// Updates the deviation, which grows slowly while round-trip times fall, and its maximum in
    /// this round.
    ///
    /// Source: Linux 6.12, `tcp_rtt_estimator`.
    fn vary(&mut self, details: &Details, off: u64, below: bool) {
        let (more, less) = (off.saturating_sub(self.deviation), self.deviation.saturating_sub(off));
        self.deviation = self.deviation - less / 4 + more / if below { 32 } else { 4 };
        self.most = self.most.max(4 * self.deviation).max(nanos(details.rto_min));
        self.variation = self.variation.max(self.most);
    }

    /// Once per round trip, lets the variation decay towards the maximum of the round.
    ///
    /// Source: Linux 6.12, `tcp_rtt_estimator`.
    fn end_round(&mut self, details: &Details, una: u64, next: u64) {
        if una > self.round {
            self.variation -= self.variation.saturating_sub(self.most) / 4;
            (self.round, self.most) = (next, nanos(details.rto_min));
        }
    }

    /// The timer expired: the timeout doubles (RFC 6298, section 5.5).
    pub(super) const fn back_off(&mut self, details: &Details) {
        self.backoff = self.backoff.saturating_add(1);
        if details.rtt_in_steps && self.backoff >= FORGETTING {
            self.smoothed = 0;
        }
    }

    /// Ends the backoff.
    pub(super) const fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Ends the backoff because the path seems to work again. Returns the reduction of the timeout.
    pub(super) fn revert(&mut self, details: &Details) -> Duration {
        let before = self.timeout(details);
        self.backoff = 0;
        before.saturating_sub(self.timeout(details))
    }

    /// The current timeout, with backoff.
    pub(super) fn timeout(&self, details: &Details) -> Duration {
        self.backed_off(details, self.backoff)
    }

    /// The timeout, doubled `times` times.
    pub(super) fn backed_off(&self, details: &Details, times: u8) -> Duration {
        Duration::from_nanos(self.doubled(details, times))
    }

    /// The timeout without backoff.
    pub(super) fn base(&self, details: &Details) -> Duration {
        self.backed_off(details, 0)
    }

    /// Wait in ns before a tail loss probe: two smoothed round-trip times plus `slack`, at most the
    /// timeout. Before the first measurement, `initial_wait` replaces the sum.
    #[inline]
    pub(super) fn probe(&self, details: &Details, slack: Duration, initial_wait: Duration) -> u64 {
        let wait = match self.smoothed {
            0 => nanos(initial_wait),
            smoothed => smoothed.saturating_mul(2).saturating_add(nanos(slack)),
        };
        wait.min(self.doubled(details, self.backoff))
    }

    /// The timeout in ns, doubled `times` times.
    #[inline]
    fn doubled(&self, details: &Details, times: u8) -> u64 {
        let base = if self.follows == 0 { nanos(details.rto_initial) } else { self.follows };
        let doubled = base.saturating_mul(1 << times.min(MOST_DOUBLINGS));
        doubled.min(nanos(details.rto_max))
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

/// Number of doublings with which every timeout reaches its maximum.
const MOST_DOUBLINGS: u8 = 16;

/// Timeouts in a row after which an estimate counted in steps is discarded (ns-2.35,
/// `rtt_backoff`).
const FORGETTING: u8 = 4;

/// Round-trip time of a segment sent at `sent` and acknowledged `now`, in the steps of the
/// profile's clock.
pub(super) fn elapsed(details: &Details, sent: Time, now: Time) -> Duration {
    let step = nanos(details.clock_granularity);
    if !details.rtt_in_steps || step == 0 {
        return now.since(sent);
    }
    let steps = (now.nanos() / step).saturating_sub(sent.nanos() / step);
    Duration::from_nanos(steps.max(1) * step)
}

/// `span` rounded up to the steps of the profile's clock.
fn stepped(span: u64, details: &Details) -> u64 {
    match nanos(details.clock_granularity) {
        0 => span,
        step => span.div_ceil(step).saturating_mul(step),
    }
}
