//! Spurious reductions of the window, and their reversal.
//!
//! Source: RFC 3522 and RFC 4015 (Eifel, by timestamps); RFC 5682 with SACK as in Linux 6.12
//! (`tcp_process_loss`: F-RTO); RFC 3708 (by D-SACK).
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use tidegate_base::Time;

use super::recovery::Phase;
use super::{AckInfo, Cx, Sender};
use crate::congestion::Window;
use crate::delivered::Delivered;
use crate::profile::Spurious;
use crate::sequence::tick;

/// State before a reduction that may prove spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    window: Window,
    /// Send time of the first retransmission. If an ACK echoes an older timestamp, the
    /// retransmission was spurious.
    copied_at: Option<Time>,
    /// Retransmissions that no D-SACK has reported as spurious.
    copies: u32,
    /// F-RTO is active: later ACKs may still show that the timeout was spurious.
    f_rto: bool,
}

impl Sender {
    /// Saves the state that an undo restores.
    pub(super) fn save(&mut self, cx: Cx<'_>) {
        if cx.details.spurious == Spurious::Off {
            return;
        }
        self.undo = Some(Box::new(Undo {
            window: self.window,
            copied_at: None,
            // A tail loss probe in flight that is a retransmission counts too (Linux 6.12,
            // `tcp_init_undo`).
            copies: u32::from(self.tail.is_some_and(|tail| tail.copied)),
            f_rto: false,
        }));
    }

    /// Saves the state before a timeout. If the timeout is repeated or happens in a recovery, the
    /// state before the first reduction stays saved.
    pub(super) fn save_for_timeout(&mut self, cx: Cx<'_>, again: bool) {
        let fresh = self.phase == Phase::Open || self.undo.is_none();
        if fresh && !again {
            self.save(cx);
        }
        let f_rto = cx.details.spurious == Spurious::All && self.sack;
        let fast = self.phase == Phase::Fast;
        if let Some(undo) = &mut self.undo {
            // F-RTO does not start in a fast recovery (RFC 5682, section 2.1, step 1).
            undo.f_rto = f_rto && !fast;
            if fresh {
                undo.copied_at = None;
            }
        }
        self.prefer_new = false;
    }

    /// Records a retransmission.
    pub(super) fn note_copy(&mut self, now: Time) {
        if let Some(undo) = &mut self.undo {
            undo.copied_at.get_or_insert(now);
            undo.copies = undo.copies.saturating_add(1);
        }
    }

    /// Undoes a reduction if this ACK shows that it was spurious.
    pub(super) fn check_undo(
        &mut self,
        cx: Cx<'_>,
        info: &AckInfo,
        delivered: &Delivered,
        advanced: bool,
    ) {
        let Some(undo) = &mut self.undo else { return };
        if info.duplicate.is_some() && cx.details.spurious == Spurious::All {
            undo.copies = undo.copies.saturating_sub(1);
            if undo.copies == 0 && undo.copied_at.is_some() {
                self.take_back(cx);
                return;
            }
        }
        if !matches!(self.phase, Phase::Fast | Phase::Loss) {
            return;
        }
        let copied_before = |echoed| undo.copied_at.is_some_and(|at| echoed < tick(at));
        if advanced && delivered.bytes > 0 && info.echoed.is_some_and(copied_before) {
            self.take_back(cx);
        } else if self.phase == Phase::Loss && undo.f_rto {
            self.f_rto(cx, delivered, advanced);
        }
    }

    /// Evaluates an ACK after a timeout: F-RTO finds out whether the timeout was spurious.
    ///
    /// Source: RFC 5682, section 3 (with SACK); Linux 6.12, `tcp_process_loss`.
    fn f_rto(&mut self, cx: Cx<'_>, delivered: &Delivered, advanced: bool) {
        let until = self.lost_until.unwrap_or_default();
        if delivered.original_below(until) {
            self.take_back(cx);
            return;
        }
        let selective = delivered.bytes > 0 && !advanced;
        let sent_new = self.board.end() > until;
        let recovered = self.board.una() >= until;
        let new_data = self.next() < self.total() && self.limit > self.next();
        self.prefer_new = false;
        let go_on = if sent_new {
            !selective && self.duplicates == 0
        } else if advanced && !recovered {
            self.lost_until = Some(self.board.end());
            self.prefer_new = new_data;
            new_data
        } else {
            true
        };
        if let Some(undo) = &mut self.undo {
            undo.f_rto = go_on;
        }
    }

    /// Restores the saved state, but not the backoff. A valid round-trip sample ends the backoff
    /// (RFC 6298, section 5; Linux 6.12, `tcp_undo_cwnd_reduction`).
    fn take_back(&mut self, cx: Cx<'_>) {
        let Some(undo) = self.undo.take() else { return };
        self.counters.spurious += 1;
        if !self.congestion.keeps_window() {
            self.window.congestion = self.window.congestion.max(undo.window.congestion);
        }
        self.window.threshold = undo.window.threshold.max(self.window.threshold);
        self.board.forget_losses();
        self.phase = Phase::Open;
        (self.repair, self.prefer_new, self.inflation) = (false, false, 0);
        self.congestion.on_undo(cx.now, &mut self.window);
    }
}
