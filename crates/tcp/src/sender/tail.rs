//! Tail loss probe: a segment sent before the timeout, whose ACK reveals losses at the tail.
//!
//! Source: RFC 8985, section 7; Linux 6.12, `tcp_schedule_loss_probe` and `tcp_process_tlp_ack`.
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use std::time::Duration;

use tidegate_base::Time;

use super::recovery::Phase;
use super::timers::Timer;
use super::{AckInfo, Cx, Sender};
use crate::congestion::Signal;

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// End of the sent data, probe included.
    until: u64,
    /// The probe was a retransmission.
    pub(super) copied: bool,
}

impl Sender {
    /// Time of the next probe, if the profile and state allow one.
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

    /// Handles an expired probe timer: sends new data, or the last segment again. If another probe
    /// is in flight, it only sets the retransmission timer.
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

    /// Sets the retransmission timer for the oldest segment. If that time has passed, the timer
    /// expires shortly.
    pub(super) fn arm_for_head(&mut self, cx: Cx<'_>) {
        let since = self.board.front().map_or(cx.now, |sent| sent.at);
        let at = since + self.rto.timeout(cx.details);
        self.timer = Some((at.max(cx.now + cx.details.probe_slack), Timer::Retransmit));
    }

    /// Records a probe.
    pub(super) fn probed(&mut self, copied: bool) {
        self.probing = false;
        self.counters.probes += 1;
        self.tail = Some(Tail { until: self.board.end(), copied });
    }

    /// Evaluates an ACK for the probe. If only the probe repaired a loss, the window is reduced.
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

/// Wait before a probe while no round-trip time is known.
///
/// Source: RFC 8985, section 7.2.
const PROBE_WITHOUT_RTT: Duration = Duration::from_secs(1);

/// The longest time for which a receiver may delay an ACK.
///
/// Source: RFC 8985, section 7.2 (`TLP.max_ack_delay`); Linux 6.12, `TCP_RTO_MIN`.
const MOST_ACK_DELAY: Duration = Duration::from_millis(200);
