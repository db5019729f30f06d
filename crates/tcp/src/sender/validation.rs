//! Window validation: checks that the sender has recently used its window.
//!
//! `pipeACK` is the most bytes acknowledged in one round trip, over the last max(3 RTT, 1 s). The
//! window is validated while `pipeACK >= cwnd / 2`. Otherwise the window is kept for five minutes
//! without growth, and a loss reduces `max(pipeACK, flight)`.
//!
//! Source: RFC 7661, section 4.
//! Differs: samples are kept in four bins of a quarter of the period each, so a sample may count
//! for a quarter longer. Section 4.5.1 allows this.
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use std::time::Duration;

use tidegate_base::Time;

use super::recovery::Phase;
use super::{Cx, Sender};
use crate::profile::IdleRule;

/// Recent use of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Validation {
    /// Largest number of bytes acknowledged in a round trip, for each quarter of the sampling
    /// period.
    bins: [Option<u64>; BINS],
    /// Index and start time of the newest bin.
    newest: usize,
    since: Time,
    /// The current round trip: offset at its start, and the offset whose acknowledgement ends it.
    round: Option<(u64, u64)>,
    /// Time when the window was last validated, or last reduced for lack of use.
    validated_at: Time,
    /// Number of retransmissions before the current recovery, if it began with an unvalidated
    /// window.
    copies_before: Option<u64>,
}

impl Validation {
    /// `pipeACK`; `None` if undefined.
    fn used(&self) -> Option<u64> {
        self.bins.iter().flatten().max().copied()
    }

    /// Forgets samples older than the sampling period.
    fn expire_bins(&mut self, now: Time, period: Duration) {
        let span = period / u32::try_from(BINS).unwrap_or(1);
        if now.since(self.since) >= period {
            (self.bins, self.since) = ([None; BINS], now);
        }
        while now.since(self.since) >= span {
            self.newest = (self.newest + 1) % BINS;
            self.bins[self.newest] = None;
            self.since += span;
        }
    }
}

impl Sender {
    /// True if the window was used sufficiently, or if `pipeACK` is undefined.
    pub(super) fn is_validated(&self) -> bool {
        self.used().is_none_or(|used| used >= self.window.congestion / 2)
    }

    /// The base of a reduction, if the window is not validated.
    ///
    /// Source: RFC 7661, section 4.4.1 (`Max(pipeACK, LossFlightSize)`).
    pub(super) fn unvalidated(&self, cx: Cx<'_>, flight: u64) -> Option<u64> {
        let on = cx.details.idle == IdleRule::Validate && !self.is_validated();
        on.then(|| self.used().unwrap_or(0).max(flight))
    }

    /// `pipeACK`; `None` if undefined.
    fn used(&self) -> Option<u64> {
        self.validation.as_ref()?.used()
    }

    /// Samples the acknowledged bytes; `una_before` is the first unacknowledged offset before this
    /// ACK. Recoveries are not sampled (section 4.2).
    pub(super) fn validate(&mut self, cx: Cx<'_>, una_before: u64) {
        if cx.details.idle != IdleRule::Validate || self.phase != Phase::Open {
            return;
        }
        let period = self.rto.smoothed().map_or(LEAST_PERIOD, |rtt| (3 * rtt).max(LEAST_PERIOD));
        let (una, next) = (self.una(), self.board.end());
        let validation = self.validation.get_or_insert_default();
        validation.expire_bins(cx.now, period);
        let (from, until) = *validation.round.get_or_insert((una_before, next));
        if una >= until {
            let bin = &mut validation.bins[validation.newest];
            *bin = (*bin).max(Some(una - from));
            validation.round = (next > una).then_some((una, next));
        }
        self.keep_no_longer(cx);
    }

    /// Halves a window that was not used for five minutes.
    ///
    /// Source: RFC 7661, section 4.4.3.
    pub(super) fn keep_no_longer(&mut self, cx: Cx<'_>) {
        if cx.details.idle != IdleRule::Validate {
            return;
        }
        let idle = self.board.is_empty() && cx.now > self.last_sent + self.rto.base(cx.details);
        let validated = self.is_validated();
        let validation = self.validation.get_or_insert_default();
        if validated && !idle {
            validation.validated_at = cx.now;
            return;
        }
        while cx.now.since(validation.validated_at) > MOST_KEPT {
            validation.validated_at += MOST_KEPT;
            let least = u64::from(cx.details.initial_window) * self.window.segment;
            let kept = self.window.congestion / 4 * 3;
            self.window.threshold = self.window.threshold.max(kept);
            self.window.congestion = (self.window.congestion / 2).max(least);
        }
    }

    /// Notes that a recovery begins. `unvalidated` is `true` if the window was not validated.
    pub(super) fn begin_unvalidated(&mut self, unvalidated: bool) {
        if let Some(validation) = &mut self.validation {
            validation.copies_before = unvalidated.then_some(self.counters.retransmitted);
        }
    }

    /// A recovery ends. The threshold shrinks by half of the retransmitted bytes, and `pipeACK` is
    /// measured again.
    ///
    /// Source: RFC 7661, section 4.4.1 (`(Max(pipeACK, LossFlightSize) - R) / 2`).
    pub(super) fn end_unvalidated(&mut self) {
        let Some(validation) = &mut self.validation else { return };
        let Some(before) = validation.copies_before.take() else { return };
        (validation.bins, validation.round) = ([None; BINS], None);
        let repeated = (self.counters.retransmitted - before) * self.window.segment;
        let left = self.window.threshold.saturating_sub(repeated / 2);
        self.window.threshold = left.max(self.window.segment);
        if !self.congestion.keeps_window() {
            self.window.congestion = self.window.congestion.min(self.window.threshold);
        }
    }
}

/// Number of bins of the sampling period (RFC 7661, section 4.5.1).
const BINS: usize = 4;

/// The least sampling period (section 4.2).
const LEAST_PERIOD: Duration = Duration::from_secs(1);

/// Time for which an unused window is kept (section 4.4.3).
const MOST_KEPT: Duration = Duration::from_secs(300);
