//! The tail loss probe: a segment sent before the timeout, so that an ACK tells what is lost.
//!
//! Source: RFC 8985, section 7; Linux 6.12, `tcp_schedule_loss_probe` and `tcp_process_tlp_ack`.

use std::time::Duration;

use super::recovery::Phase;
use super::timers::Timer;
use super::{AckInfo, Cx, Sender};
use crate::Time;
use crate::tcp::congestion::Signal;

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// End of what was sent with it.
    until: u64,
    /// It was a copy.
    pub(super) copied: bool,
}

impl Sender {
    /// When to probe, if the tail is to be probed for.
    ///
    /// Source: RFC 8985, sections 7.2 and 7.3.
    pub(super) fn probe_at(&self, cx: Cx<'_>) -> Option<Time> {
        let eligible = cx.details.tail_loss_probe
            && self.sack
            && matches!(self.phase, Phase::Open | Phase::Reduced)
            && self.board.sacked() == 0
            && !self.board.is_empty();
        if !eligible {
            return None;
        }
        let alone = self.board.segments() == 1;
        let slack = if alone { MOST_ACK_DELAY } else { cx.details.probe_slack };
        let wait = self.rto.probe(cx.details, slack, PROBE_WITHOUT_RTT);
        Some(Time::from_nanos(cx.now.nanos().saturating_add(wait)))
    }

    /// It is time: what was not sent yet goes, or the last segment once more. While another probe is out
    /// none goes, and the timeout is what it would have been.
    ///
    /// Source: RFC 8985, section 7.3; Linux 6.12, `tcp_send_loss_probe`.
    pub(super) fn tail_timeout(&mut self, cx: Cx<'_>) {
        if self.board.is_empty() {
            return;
        }
        if self.tail.is_some() {
            self.arm_for_head(cx);
            return;
        }
        self.probing = true;
        self.arm(cx);
    }

    /// The timeout of the oldest segment; soon, if it has passed.
    pub(super) fn arm_for_head(&mut self, cx: Cx<'_>) {
        let since = self.board.front().map_or(cx.now, |sent| sent.at);
        let at = since + self.rto.timeout(cx.details);
        self.timer = Some((at.max(cx.now + cx.details.probe_slack), Timer::Retransmit));
    }

    /// A probe was sent.
    pub(super) fn probed(&mut self, copied: bool) {
        self.probing = false;
        self.counters.probes += 1;
        self.tail = Some(Tail { until: self.board.end(), copied });
    }

    /// What an ACK says of the probe; whether it shows that the probe repaired a loss.
    ///
    /// Source: RFC 8985, section 7.4.
    pub(super) fn probe_on_ack(&mut self, cx: Cx<'_>, info: &AckInfo, advanced: bool, news: bool) {
        let Some(tail) = self.tail.filter(|tail| info.to >= tail.until) else { return };
        let both_arrived = info.duplicate.is_some() || (!advanced && !news);
        if !tail.copied || both_arrived {
            self.tail = None;
        } else if info.to > tail.until {
            self.tail = None;
            if self.phase == Phase::Open {
                self.signal(cx, Signal::Loss, self.board.outstanding());
                self.reduce(cx.details);
            }
        }
    }
}

/// Source: RFC 8985, section 7.2 (without a round-trip time, a second).
const PROBE_WITHOUT_RTT: Duration = Duration::from_secs(1);

/// Source: RFC 8985, section 7.2 (`TLP.max_ack_delay`); Linux 6.12, `TCP_RTO_MIN`.
const MOST_ACK_DELAY: Duration = Duration::from_millis(200);
