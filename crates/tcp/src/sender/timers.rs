//! Timers of a sender. One timer serves all purposes.
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use tidegate_base::Time;

use super::recovery::Phase;
use super::{Cx, Sender};
use crate::profile::Details;

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Timer {
    /// The retransmission timeout (RFC 6298).
    Retransmit,
    /// RACK: at this time, a segment may count as lost (RFC 8985, section 6.3).
    Reorder,
    /// The tail may be lost (RFC 8985, section 7).
    TailProbe,
    /// The peer's window may have opened (RFC 9293, section 3.8.6.1).
    Persist,
}

impl Sender {
    /// Time of the next timer.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let timer = self.timer.map(|(at, _)| at);
        let release = (self.release != Time::ZERO).then_some(self.release);
        [timer, release].into_iter().flatten().min()
    }

    /// Runs an expired timer. Returns true if a window probe must be sent.
    pub(crate) fn handle_time(&mut self, cx: Cx<'_>) -> bool {
        let Some((_, timer)) = self.timer.filter(|(at, _)| *at <= cx.now) else { return false };
        self.timer = None;
        match timer {
            Timer::Retransmit => {
                if !self.board.is_empty() {
                    self.time_out(cx);
                    self.arm(cx);
                }
            }
            Timer::Reorder => self.reorder_timeout(cx),
            Timer::TailProbe => self.tail_timeout(cx),
            Timer::Persist => return self.persist_timeout(cx),
        }
        false
    }

    /// Sets the timer after an ACK.
    ///
    /// Source: RFC 6298, sections 5.2 and 5.3; RFC 6582, section 3.2, step 3 (only the first
    /// partial ACK restarts the timer); Linux 6.12, `tcp_clean_rtx_queue` (every ACK restarts the
    /// timer).
    pub(super) fn set_timer_on_ack(&mut self, cx: Cx<'_>, advanced: bool, waiting: Option<Time>) {
        if self.board.is_empty() {
            self.timer = None;
        } else if let Some(at) = waiting {
            self.timer = Some((at, Timer::Reorder));
        } else if advanced || matches!(self.timer, Some((_, Timer::Reorder)) | None) {
            let impatient = !self.goes_by_delivery(cx.details)
                && self.phase == Phase::Fast
                && std::mem::replace(&mut self.partial_seen, true);
            if let Some(at) = self.probe_at(cx) {
                self.timer = Some((at, Timer::TailProbe));
            } else if !impatient {
                self.arm(cx);
            }
        }
    }

    /// Sets the retransmission timer.
    pub(super) fn arm(&mut self, cx: Cx<'_>) {
        self.timer = Some((cx.now + self.rto.timeout(cx.details), Timer::Retransmit));
    }

    /// Removes the backoff from the retransmission timer, which may then be due at once.
    pub(crate) fn hasten(&mut self, details: &Details) {
        if let Some((at, Timer::Retransmit)) = self.timer {
            let sooner = at.before(self.rto.revert(details));
            self.timer = Some((sooner, Timer::Retransmit));
        }
    }

    fn reorder_timeout(&mut self, cx: Cx<'_>) {
        let lost_before = self.board.lost_ever();
        let waiting = self.detect_by_time(cx);
        let newly_lost = self.board.lost_ever() - lost_before;
        let nothing = crate::delivered::Delivered::default();
        self.recover_on_ack(cx, self.board.una(), false, false, &nothing, newly_lost);
        self.prr_window(cx, newly_lost, 0, false);
        match waiting {
            Some(at) => self.timer = Some((at, Timer::Reorder)),
            None => self.arm_for_head(cx),
        }
    }

    /// Probes a closed window with growing intervals while nothing is in flight. Returns `true` if
    /// a probe without data must be sent.
    fn persist_timeout(&mut self, cx: Cx<'_>) -> bool {
        if !self.board.is_empty() || self.next() >= self.total() {
            return false;
        }
        self.persisted = self.persisted.saturating_add(1);
        self.set_persist(cx);
        self.counters.probes += 1;
        self.override_window = self.limit > self.next();
        !self.override_window
    }

    /// Starts the persist timer: the peer's window blocks the next segment, and no ACK is
    /// outstanding.
    pub(super) fn set_persist(&mut self, cx: Cx<'_>) {
        let timeout = self.rto.backed_off(cx.details, self.persisted);
        self.timer = Some((cx.now + timeout, Timer::Persist));
    }
}
