//! Repair of losses: fast recovery with and without SACK, and recovery after a timeout.
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use tidegate_base::Time;

use super::{ANY, AckInfo, Cx, Sender, UNTIMED};
use crate::congestion::Signal;
use crate::delivered::Delivered;
use crate::profile::{Duplicates, Recovery, ReduceFrom};
use crate::scoreboard::DUPLICATES;
use crate::sequence::tick;

/// The recovery state of the sender.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Phase {
    /// No loss or mark is being handled.
    #[default]
    Open,
    /// After ECN-Echo: the window shrinks as segments are delivered (Linux, `CWR`).
    Reduced,
    /// Fast recovery.
    Fast,
    /// After a timeout, until the data in flight at the timeout is acknowledged.
    Loss,
}

/// Proportional rate reduction.
///
/// Source: RFC 9937, section 6.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    delivered: u64,
    out: u64,
    flight: u64,
}

impl Sender {
    /// Marks lost segments. Returns the time when RACK may find further lost segments.
    pub(super) fn find_losses(
        &mut self,
        cx: Cx<'_>,
        info: &AckInfo,
        delivered: &Delivered,
    ) -> Option<Time> {
        if !self.sack {
            return None;
        }
        let before_copy = |at: Time| info.echoed.is_some_and(|echoed| echoed < tick(at));
        let original = delivered.latest.is_some_and(|latest| before_copy(latest.at));
        let rack = self.rack.get_or_insert_default();
        rack.deliver(cx.now, delivered, &self.rto, original);
        if self.estimates(cx.details) {
            if self.phase == Phase::Fast {
                self.board.lose_by_count(1);
            }
        } else if !cx.details.rack {
            self.board.lose_by_count(DUPLICATES);
        }
        self.detect_by_time(cx)
    }

    pub(super) fn detect_by_time(&mut self, cx: Cx<'_>) -> Option<Time> {
        let recovering = matches!(self.phase, Phase::Fast | Phase::Loss);
        let rack = self.rack.as_ref()?;
        rack.detect(cx.now, cx.details, &mut self.board, &self.rto, recovering)
    }

    /// Enters, continues or ends recovery.
    pub(super) fn recover_on_ack(
        &mut self,
        cx: Cx<'_>,
        una: u64,
        advanced: bool,
        duplicate: bool,
        delivered: &Delivered,
        newly_lost: u64,
    ) {
        let acknowledged = self.board.una() - una;
        let over = match self.phase {
            Phase::Open => false,
            Phase::Reduced => self.is_past(self.marked_until),
            Phase::Fast | Phase::Loss => {
                self.lost_until.is_none_or(|until| self.board.una() >= until)
            }
        };
        if self.phase == Phase::Fast && self.holds(cx) {
            // The recovery continues until data beyond `lost_until` is acknowledged.
            self.implied = 0;
        } else if advanced && over {
            self.end_recovery(cx);
        } else if self.phase == Phase::Fast {
            self.fast_on_ack(cx, advanced, duplicate, acknowledged);
        }
        if self.estimates(cx.details) && advanced {
            match self.phase {
                Phase::Open => self.board.forget_all(),
                Phase::Loss => self.board.forget_names(),
                Phase::Fast | Phase::Reduced => {}
            }
        }
        self.allowance = if self.phase == Phase::Fast { self.burst(cx) } else { ANY };
        if matches!(self.phase, Phase::Open | Phase::Reduced) && self.loss_is_plain(cx) {
            if cx.details.recovery == Recovery::Tahoe {
                self.start_slowly(cx);
            } else {
                self.enter(cx, delivered, newly_lost);
            }
        }
    }

    /// True if fast recovery must begin.
    ///
    /// Source: RFC 6675, section 5; RFC 6582, section 3.2, step 2. Duplicate ACKs for data of the
    /// last recovery or timeout do not count.
    fn loss_is_plain(&self, cx: Cx<'_>) -> bool {
        if self.sack && !self.estimates(cx.details) {
            return self.board.lost() > 0;
        }
        self.duplicates >= DUPLICATES && self.is_past(self.lost_until)
    }

    fn enter(&mut self, cx: Cx<'_>, delivered: &Delivered, newly_lost: u64) {
        self.counters.recoveries += 1;
        self.save(cx);
        // Data that this ACK delivers was in flight when the loss was found.
        self.begin_prr(cx, self.board.pipe() + newly_lost + delivered.bytes);
        if self.is_past(self.marked_until) {
            self.signal(cx, Signal::Loss, self.board.outstanding());
        } else {
            // The window already shrinks in this round trip (RFC 3168, section 6.1.2).
            self.lost_until = Some(self.board.end());
            if self.phase == Phase::Open {
                self.window.threshold = self.window.congestion.max(2 * self.window.segment);
            }
        }
        self.phase = Phase::Fast;
        self.repair = true;
        self.timed = UNTIMED;
        self.arm(cx);
        let left = u64::from(DUPLICATES) * self.window.segment;
        self.estimate = self.board.outstanding().saturating_sub(left).cast_signed();
        self.allowance = if self.estimates(cx.details) { 0 } else { self.burst(cx) };
        self.partial_seen = false;
        self.rescued = 0;
        self.implied = 0;
        if self.goes_by_delivery(cx.details) {
            if !self.sack {
                self.imply_delivered(u64::from(self.duplicates));
            }
            if !self.sack || self.estimates(cx.details) {
                self.board.lose_first();
            }
            if !cx.details.prr {
                self.reduce(cx.details);
            }
        } else {
            self.reduce(cx.details);
            self.inflation = u64::from(DUPLICATES) * self.window.segment;
        }
    }

    /// Processes an ACK in fast recovery.
    ///
    /// Source: RFC 6582, section 3.2, steps 3 and 5.
    fn fast_on_ack(&mut self, cx: Cx<'_>, advanced: bool, duplicate: bool, acknowledged: u64) {
        if self.sack {
            let left = if advanced { 2 * self.window.segment } else { self.window.segment };
            self.estimate = self.estimate.saturating_sub_unsigned(left);
            return;
        }
        if cx.details.duplicates == Duplicates::Deliver {
            if advanced {
                // One segment filled the hole. Duplicate ACKs have already reported the other
                // segments.
                let eaten = acknowledged.saturating_sub(self.window.segment);
                self.implied = self.implied.saturating_sub(eaten);
                self.board.lose_first();
            } else if duplicate {
                self.imply_delivered(1);
            }
            return;
        }
        if !advanced {
            if duplicate {
                self.inflation += self.window.segment;
            }
            return;
        }
        if cx.details.recovery == Recovery::Reno {
            self.end_recovery(cx);
            return;
        }
        self.repair = true;
        if cx.details.inflation_stays {
            self.deflate(acknowledged);
            return;
        }
        let back = if acknowledged >= self.window.segment { self.window.segment } else { 0 };
        let total = self.window.congestion + self.inflation + back;
        let total = total.saturating_sub(acknowledged).max(self.window.segment);
        self.inflation = total.saturating_sub(self.window.congestion);
        self.window.congestion = total - self.inflation;
    }

    /// Subtracts a partial ACK from the inflation, down to one segment, and the remainder from the
    /// window.
    ///
    /// Source: ns-2.35, `tcp-newreno.cc`, `partialnewack`.
    fn deflate(&mut self, acknowledged: u64) {
        let segment = self.window.segment;
        if self.inflation > acknowledged {
            self.inflation -= acknowledged.saturating_sub(segment);
        } else {
            let rest = acknowledged - self.inflation;
            self.window.congestion = self.window.congestion.saturating_sub(rest).max(segment);
            self.inflation = segment;
        }
    }

    /// Number of new segments that an ACK may release in this recovery.
    fn burst(&self, cx: Cx<'_>) -> u8 {
        let limit = cx.details.recovery_burst;
        let limited = limit > 0 && !self.sack && cx.details.recovery == Recovery::NewReno;
        if limited { limit } else { ANY }
    }

    /// Counts `segments` more segments as delivered, as duplicate ACKs imply. At least one segment
    /// stays outstanding.
    fn imply_delivered(&mut self, segments: u64) {
        let most = self.board.outstanding().saturating_sub(self.window.segment);
        self.implied = (self.implied + segments * self.window.segment).min(most);
    }

    /// Ends a recovery.
    fn end_recovery(&mut self, cx: Cx<'_>) {
        match self.phase {
            Phase::Fast => {
                if let Some(rack) = &mut self.rack {
                    rack.recovered();
                }
                self.end_unvalidated();
                (self.inflation, self.implied) = (0, 0);
                if self.estimates(cx.details) {
                    // The next three duplicate ACKs start a recovery, even for old data.
                    self.lost_until = None;
                }
                if self.goes_by_delivery(cx.details) {
                    if cx.details.prr {
                        self.reduce(cx.details);
                    }
                } else if cx.details.eased_exit && !self.congestion.keeps_window() {
                    let most = self.board.outstanding().max(self.window.segment);
                    let eased = most + self.window.segment;
                    self.window.congestion = self.window.threshold.min(eased);
                }
            }
            Phase::Reduced => self.reduce(cx.details),
            Phase::Open | Phase::Loss => {}
        }
        self.phase = Phase::Open;
        self.repair = false;
        self.prefer_new = false;
    }

    /// Starts proportional rate reduction: the window shrinks in proportion to the delivered bytes.
    ///
    /// Source: RFC 9937, section 6.1, with `flight` bytes in flight. If the profile reduces from
    /// the window, the window replaces `flight` (Linux 6.12, `tcp_init_cwnd_reduction`).
    pub(super) fn begin_prr(&mut self, cx: Cx<'_>, flight: u64) {
        let from = match cx.details.reduce_from {
            ReduceFrom::Flight => flight,
            ReduceFrom::Window | ReduceFrom::Congestion => self.window.congestion,
        };
        self.prr = Prr { delivered: 0, out: 0, flight: from.max(1) };
    }

    /// Sets the window in recovery with SACK.
    ///
    /// Source: RFC 9937, section 6.
    pub(super) fn prr_window(
        &mut self,
        cx: Cx<'_>,
        newly_lost: u64,
        delivered: u64,
        advanced: bool,
    ) {
        let on = match self.phase {
            Phase::Fast => cx.details.prr && self.goes_by_delivery(cx.details),
            Phase::Reduced => true,
            Phase::Open | Phase::Loss => false,
        };
        if !on || self.congestion.keeps_window() {
            return;
        }
        let (pipe, threshold, segment) =
            (self.pipe(cx.details), self.window.threshold, self.window.segment);
        self.prr.delivered += delivered;
        let mut more = if pipe > threshold {
            let share = u128::from(self.prr.delivered) * u128::from(threshold);
            let share = share.div_ceil(u128::from(self.prr.flight));
            u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(self.prr.out)
        } else {
            let mut more = self.prr.delivered.saturating_sub(self.prr.out).max(delivered);
            if advanced && newly_lost == 0 {
                more += segment;
            }
            more.min(threshold - pipe)
        };
        if self.prr.out == 0 {
            more = more.max(segment);
        }
        // The examples of RFC 6937, section 3.1, round up to segments. Linux also
        // rounds up.
        self.window.congestion = pipe + more.next_multiple_of(segment);
    }

    /// Counts `bytes` sent in recovery.
    pub(super) fn prr_sent(&mut self, bytes: u64) {
        self.prr.out += bytes;
    }

    /// True if the window was already reduced for the data in flight.
    ///
    /// Source: Linux 6.12, `tcp_enter_loss`.
    fn has_reduced(&self, cx: Cx<'_>) -> bool {
        let until = match self.phase {
            Phase::Fast => self.lost_until,
            Phase::Reduced => self.marked_until,
            Phase::Open | Phase::Loss => return false,
        };
        !cx.details.timeout_reduces_again && until.is_some_and(|until| self.board.una() < until)
    }

    /// The retransmission timer expired.
    ///
    /// Source: RFC 6298, sections 5.4 to 5.6; RFC 5681, section 3.1 (the window is one segment).
    pub(super) fn time_out(&mut self, cx: Cx<'_>) {
        self.counters.timeouts += 1;
        let again = self.expired > 0 || self.has_reduced(cx);
        self.expired = self.expired.saturating_add(1);
        self.save_for_timeout(cx, again);
        self.restart_slowly(cx, again);
        self.rto.back_off(cx.details);
        // In ns-2, Tahoe still counts duplicate ACKs, but they release nothing more.
        let tahoe = cx.details.recovery == Recovery::Tahoe && self.duplicates > 0;
        self.duplicates = if tahoe { self.duplicates.max(DUPLICATES) } else { 0 };
    }

    /// Responds to three duplicate ACKs with slow start.
    ///
    /// Source: ns-2.35, `TcpAgent::dupack_action`; 4.3BSD-Tahoe.
    fn start_slowly(&mut self, cx: Cx<'_>) {
        self.counters.recoveries += 1;
        self.restart_slowly(cx, false);
        self.arm(cx);
    }

    /// Marks all data in flight as lost and restarts with a window of one segment.
    fn restart_slowly(&mut self, cx: Cx<'_>, again: bool) {
        self.signal(cx, Signal::Timeout { again }, self.board.outstanding());
        if !self.congestion.keeps_window() {
            self.window.congestion = self.window.segment;
        }
        self.phase = Phase::Loss;
        (self.inflation, self.implied) = (0, 0);
        self.repair = true;
        self.allowance = ANY;
        self.timed = UNTIMED;
        self.tail = None;
        if self.estimates(cx.details) {
            self.board.forget_all();
        }
        self.board.lose_all();
    }
}
