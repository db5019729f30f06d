//! What time does to a sender: one timer, for what is waited for longest.

use super::recovery::Phase;
use super::{Cx, Sender};
use crate::Time;
use crate::tcp::profile::Details;

/// What the timer is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Timer {
    /// The retransmission timeout (RFC 6298).
    Retransmit,
    /// A segment may be lost by then (RFC 8985, section 6.3).
    Reorder,
    /// The tail may be lost (RFC 8985, section 7).
    TailProbe,
    /// The peer's window may have opened (RFC 9293, section 3.8.6.1).
    Persist,
}

impl Sender {
    /// When to come back.
    pub(in crate::tcp) fn poll_timeout(&self) -> Option<Time> {
        let timer = self.timer.map(|(at, _)| at);
        let release = (self.release != Time::ZERO).then_some(self.release);
        [timer, release].into_iter().flatten().min()
    }

    /// What the timers do by now; whether the peer is to be asked about its window.
    pub(in crate::tcp) fn handle_time(&mut self, cx: Cx<'_>) -> bool {
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

    /// Source: RFC 6298, sections 5.2 and 5.3; RFC 6582, section 3.2, step 3 (after the first partial
    /// ACK the timer stays); Linux 6.12, `tcp_clean_rtx_queue` (with every ACK it is set anew).
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

    /// The retransmission timer is as if it had never been backed off: it may be due by now.
    pub(in crate::tcp) fn hasten(&mut self, details: &Details) {
        if let Some((at, Timer::Retransmit)) = self.timer {
            let sooner = at.before(self.rto.revert(details));
            self.timer = Some((sooner, Timer::Retransmit));
        }
    }

    fn reorder_timeout(&mut self, cx: Cx<'_>) {
        let lost_before = self.board.lost_ever();
        let waiting = self.detect_by_time(cx);
        let newly_lost = self.board.lost_ever() - lost_before;
        let nothing = crate::tcp::delivered::Delivered::default();
        self.recover_on_ack(cx, self.board.una(), false, false, &nothing, newly_lost);
        self.prr_window(cx, newly_lost, 0, false);
        match waiting {
            Some(at) => self.timer = Some((at, Timer::Reorder)),
            None => self.arm_for_head(cx),
        }
    }

    /// Nothing is out and the window is shut: asks, ever more rarely.
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

    /// The window does not let the next segment go and nothing is out that would open it.
    pub(super) fn set_persist(&mut self, cx: Cx<'_>) {
        let timeout = self.rto.backed_off(cx.details, self.persisted);
        self.timer = Some((cx.now + timeout, Timer::Persist));
    }
}
