//! The service rate `C` of a queue with a marking: fixed, or measured over the last two round trips.
//!
//! A link has a fixed rate. A class borrows capacity that other classes do not use, so its rate changes. The rate is
//! measured over two *spans*, each as long as the longest round-trip time of the flows in the queue:
//!
//! ```text
//! C = (bytes that departed + idle time * most) / time, but at least `least` and at most `most`
//! ```
//!
//! `least` is the guarantee of the class, `most` its ceiling or the rate of the link. The rate is constant within a span,
//! because each new rate makes the marking compute its projection again.
//!
//! Source: `marking`, section 2 (the rate of the link).
//! Differs: the paper has only links with a fixed rate. While a class has no waiting packets, it could be served faster
//! than its packets arrive. So idle time counts as service at the rate `most`. Otherwise a marking would throttle the
//! flows of a class that is never backlogged.

use std::time::Duration;

use crate::{Bytes, Rate, Time};

/// The service rate of a queue, with its measurement.
#[derive(Debug)]
pub(crate) struct ServiceRate {
    /// Lower bound of the rate.
    least: Rate,
    /// Upper bound of the rate. The rate is fixed if both bounds are equal.
    most: Rate,
    /// Measured rates of the last two spans, in bits per second.
    spans: [u64; 2],
    /// Start of the current span.
    since: Time,
    /// Bytes that departed in the current span.
    bytes: Bytes,
    /// Idle time in the current span. The present idle time, which began at `idle_since`, is not included yet.
    idle: Duration,
    /// Start of the idle time that has not been added to `idle` yet. `None` while packets wait.
    idle_since: Option<Time>,
}

/// Least length of a span. For each new rate, the marking `reference` computes all its rounds
/// again. With 1,000 flows and this length, it spends less than 1 % of the time on this
/// computation.
const SHORTEST: Duration = Duration::from_millis(10);

impl ServiceRate {
    /// A fixed rate.
    pub(crate) const fn fixed(rate: Rate) -> Self {
        Self {
            least: rate,
            most: rate,
            spans: [u64::MAX; 2],
            since: Time::ZERO,
            bytes: Bytes::ZERO,
            idle: Duration::ZERO,
            idle_since: Some(Time::ZERO),
        }
    }

    /// Sets the bounds of the rate. The rate is fixed if they are equal.
    pub(crate) fn set_range(&mut self, least: Rate, most: Rate) {
        (self.least, self.most) = (least, most.max(least));
    }

    /// Returns `true` if the rate is measured, because the bounds differ.
    pub(crate) fn is_measured(&self) -> bool {
        self.least != self.most
    }

    /// The rate at which packets depart.
    pub(crate) fn rate(&self) -> Rate {
        if !self.is_measured() {
            return self.most;
        }
        // The mean of both spans. Each is halved before the sum, so that the sum cannot overflow.
        let measured = self.spans.iter().map(|bps| bps / 2).sum();
        Rate::from_bps(measured).clamp(self.least, self.most)
    }

    /// The upper bound of the rate at which packets depart.
    pub(crate) const fn most(&self) -> Rate {
        self.most
    }

    /// Notes a packet that arrives. `rtt` is the longest round-trip time of the flows.
    pub(crate) fn arrives(&mut self, now: Time, rtt: Duration) {
        self.rest(now);
        self.idle_since = None;
        self.end_span(now, rtt);
    }

    /// Notes the departure of a packet of `len`. `more` is `true` if other packets wait.
    pub(crate) fn departs(&mut self, now: Time, rtt: Duration, len: Bytes, more: bool) {
        self.rest(now);
        self.bytes += len;
        self.end_span(now, rtt);
        self.idle_since = (!more).then_some(now);
    }

    /// Adds the idle time up to `now`.
    fn rest(&mut self, now: Time) {
        if let Some(since) = &mut self.idle_since {
            self.idle += now.since(*since);
            *since = now;
        }
    }

    /// Ends the current span if it is long enough.
    fn end_span(&mut self, now: Time, rtt: Duration) {
        let length = now.since(self.since);
        if length < rtt.max(SHORTEST) {
            return;
        }
        let served = u128::from(self.bytes.0) * 8_000_000_000;
        let unused = u128::from(self.most.bps()) * self.idle.as_nanos();
        let bps = (served + unused) / length.as_nanos().max(1);
        self.spans = [self.spans[1], u64::try_from(bps).unwrap_or(u64::MAX)];
        (self.since, self.bytes, self.idle) = (now, Bytes::ZERO, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const LEAST: Rate = Rate::from_mbps(1);
    const MOST: Rate = Rate::from_mbps(10);

    fn class() -> ServiceRate {
        let mut service = ServiceRate::fixed(MOST);
        service.set_range(LEAST, MOST);
        service
    }

    /// From `from` to `end`, a packet of 1,250 bytes departs every `ms` milliseconds, while other
    /// packets wait.
    fn serve(service: &mut ServiceRate, from: u64, end: u64, ms: u64) {
        service.arrives(Time::from_millis(from), RTT);
        for at in (from..=end).step_by(usize::try_from(ms).unwrap()).skip(1) {
            service.departs(Time::from_millis(at), RTT, Bytes(1_250), true);
        }
    }

    fn is_near(service: &ServiceRate, mbps: u64) -> bool {
        let error = service.rate().bps().abs_diff(mbps * 1_000_000);
        error * 100 <= mbps * 1_000_000 * 5
    }

    /// Catches: a rate measured over one span only; a rate that is always the guarantee, or always
    /// the rate of the link.
    #[test]
    fn the_rate_is_the_mean_of_two_round_trips() {
        let mut service = class();
        assert_eq!(service.rate(), MOST);
        serve(&mut service, 0, 200, 2);
        assert!(is_near(&service, 5), "{service:?}");
        serve(&mut service, 200, 300, 10);
        assert!(is_near(&service, 3), "{service:?}");
        serve(&mut service, 300, 400, 10);
        assert_eq!(service.rate(), LEAST);
        serve(&mut service, 400, 800, 100);
        assert_eq!(service.rate(), LEAST);
    }

    /// Catches: idle time that counts as time without service, so that the rate of an idle class falls to its guarantee.
    #[test]
    fn idle_time_counts_at_the_highest_rate() {
        let mut service = class();
        for at in (0..1_000).step_by(50) {
            service.arrives(Time::from_millis(at), RTT);
            service.departs(Time::from_millis(at + 1), RTT, Bytes(1_250), false);
        }
        assert_eq!(service.rate(), MOST);
        serve(&mut service, 60_000, 60_300, 2);
        assert!(is_near(&service, 5), "{service:?}");
    }

    /// Catches: a queue with a fixed rate that uses its measurements.
    #[test]
    fn a_fixed_rate_stays() {
        let mut service = ServiceRate::fixed(MOST);
        serve(&mut service, 0, 1_000, 10);
        assert_eq!(service.rate(), MOST);
    }
}
