//! Transmission: the next segment, and its time.
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use std::time::Duration;

use tidegate_base::{Bytes, Rate, Time};

use super::recovery::Phase;
use super::timers::Timer;
use super::{ANY, Cx, Sender, UNTIMED};
use crate::profile::{IdleRule, LimitedTransmit};
use crate::scoreboard::{DUPLICATES, Sent};

/// A range of the stream to send now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    /// Bytes of payload.
    pub(crate) payload: u64,
    pub(crate) fin: bool,
    pub(crate) retransmission: bool,
    /// The packet is ECN-capable (ECT).
    pub(crate) markable: bool,
    /// The segment carries CWR.
    pub(crate) reduced: bool,
}

impl Sender {
    /// The next range of the stream to send now.
    pub(crate) fn poll_transmit(&mut self, cx: Cx<'_>) -> Option<Span> {
        if cx.now < self.release {
            return None;
        }
        self.release = Time::ZERO;
        let nothing_new = self.next() >= self.total();
        let nothing_lost = self.board.lost() == 0 && self.phase != Phase::Fast;
        if nothing_new && nothing_lost && !self.repair && !self.probing {
            return None;
        }
        if self.probing {
            return self.probe(cx);
        }
        if self.prefer_new
            && let Some(span) = self.new_data(cx)
        {
            return Some(span);
        }
        self.retransmission(cx).or_else(|| self.new_data(cx)).or_else(|| self.hole(cx))
    }

    fn retransmission(&mut self, cx: Cx<'_>) -> Option<Span> {
        let forced = self.repair;
        if !forced && self.board.lost() == 0 {
            return None;
        }
        let lost = self.board.next_lost();
        let sent = if forced { lost.or_else(|| self.board.front()) } else { lost }?;
        if !forced && self.allowance == 0 {
            return None;
        }
        let (flight, window) = self.occupied(cx);
        if !forced && flight + sent.len() > window {
            self.note_blocked(cx);
            return None;
        }
        self.repair = false;
        if !forced {
            self.estimate = self.estimate.saturating_add_unsigned(sent.len());
        }
        let linux = self.sack && self.phase == Phase::Fast && !self.estimates(cx.details);
        let head = sent.start == self.una() && linux;
        let span = self.copy(cx, &sent);
        if head {
            // Source: Linux 6.12, `tcp_xmit_retransmit_queue`.
            self.arm(cx);
        }
        Some(span)
    }

    /// If nothing is lost and there is no new data: retransmits a hole that may be a loss. If there
    /// is no hole, retransmits the last segment that is not known to be delivered, once per
    /// recovery.
    ///
    /// Source: RFC 6675, section 4, `NextSeg`, rules 3 and 4.
    fn hole(&mut self, cx: Cx<'_>) -> Option<Span> {
        let counts = self.sack && !cx.details.rack && !self.estimates(cx.details);
        if !counts || self.phase != Phase::Fast {
            return None;
        }
        let hole = self.board.next_hole();
        let rescue = || cx.details.rescue && self.una() >= self.rescued;
        let sent = hole.or_else(|| if rescue() { self.board.last_unknown() } else { None })?;
        let (flight, window) = self.occupied(cx);
        if flight + sent.len() > window {
            return None;
        }
        if hole.is_none() {
            self.rescued = self.lost_until.map_or(0, |until| until + 1);
        }
        Some(self.copy(cx, &sent))
    }

    /// Sends new data, or the last segment again (RFC 8985, section 7.3).
    fn probe(&mut self, cx: Cx<'_>) -> Option<Span> {
        let timer = self.timer;
        let span = self.new_segment(cx, true).or_else(|| {
            let last = self.board.back()?;
            Some(self.copy(cx, &last))
        });
        self.probed(span.is_some_and(|span| span.retransmission));
        self.timer = timer;
        span
    }

    /// Retransmits a segment.
    fn copy(&mut self, cx: Cx<'_>, sent: &Sent) -> Span {
        let stamped = self.rate.stamp(cx.now, false, sent.start, sent.end());
        self.board.repeat(sent.start, stamped);
        self.counters.retransmitted += 1;
        if self.timed.0 == sent.end() {
            self.timed = UNTIMED;
        }
        self.note_copy(cx.now);
        let payload = sent.end().min(self.written) - sent.start;
        let span = Span {
            start: sent.start,
            payload,
            fin: sent.end() > self.written,
            retransmission: true,
            markable: false,
            reduced: false,
        };
        self.sent(cx, sent.len());
        span
    }

    fn new_data(&mut self, cx: Cx<'_>) -> Option<Span> {
        self.new_segment(cx, false)
    }

    /// The next new segment, if the windows permit it. A probe ignores the congestion window.
    fn new_segment(&mut self, cx: Cx<'_>, probe: bool) -> Option<Span> {
        let start = self.next();
        if start >= self.total() || (self.allowance == 0 && !probe) {
            return None;
        }
        let payload = self.window.segment.min(self.written - start);
        let fin = self.finished && start + payload == self.written;
        self.restart_if_idle(cx);
        let payload = self.within_peer_window(cx, start, payload)?;
        let fin = fin && start + payload == self.written;
        let len = payload + u64::from(fin);
        let (flight, window) = self.occupied(cx);
        if flight + payload > window && flight > 0 && !probe {
            self.note_blocked(cx);
            return None;
        }
        self.persisted = 0;
        let idle = self.board.is_empty();
        self.board.push(self.rate.stamp(cx.now, idle, start, start + len));
        if self.next() >= self.written {
            self.rate.limited(self.board.pipe());
        }
        if self.timed == UNTIMED {
            self.timed = (start + len, cx.now);
        }
        let reduced = payload > 0 && std::mem::take(&mut self.send_cwr);
        let span = Span {
            start,
            payload,
            fin,
            retransmission: false,
            markable: self.ecn && payload > 0,
            reduced,
        };
        if idle {
            self.timer = None;
        }
        self.estimate = self.estimate.saturating_add_unsigned(len);
        if self.allowance != ANY {
            self.allowance -= 1;
        }
        self.sent(cx, len);
        self.note_usage(cx, flight + len + self.window.segment > window);
        Some(span)
    }

    /// Bytes that count as in flight, and the window that limits them.
    ///
    /// Source: RFC 6675 (`pipe`); RFC 6582 and RFC 3042 (window inflation, limited transmit).
    fn occupied(&self, cx: Cx<'_>) -> (u64, u64) {
        let (congestion, open) = (self.window.congestion, self.phase == Phase::Open);
        let limited = match cx.details.limited_transmit {
            LimitedTransmit::Open => open,
            LimitedTransmit::Always => open || self.phase == Phase::Loss,
            LimitedTransmit::Off => false,
        };
        let ahead = match cx.details.limited_transmit {
            _ if !limited => 0,
            // The third and later duplicate ACKs release nothing.
            LimitedTransmit::Always if self.duplicates >= DUPLICATES => 0,
            _ => self.duplicates.min(DUPLICATES - 1),
        };
        let more = u64::from(ahead) * self.window.segment;
        match self.phase {
            Phase::Loss => (self.board.pipe(), congestion + more),
            Phase::Fast if self.estimates(cx.details) => {
                let below_zero = self.estimate.min(0).unsigned_abs();
                (self.pipe(cx.details), congestion + below_zero)
            }
            Phase::Fast if self.goes_by_delivery(cx.details) => (self.pipe(cx.details), congestion),
            Phase::Fast => (self.board.outstanding(), congestion + self.inflation),
            Phase::Open => (self.board.outstanding(), congestion + more),
            Phase::Reduced => (self.board.pipe(), congestion),
        }
    }

    /// The part of `payload` that the peer's window permits.
    ///
    /// Source: RFC 9293, sections 3.8.6.1 (probing) and 3.8.6.2.1 (silly window syndrome).
    fn within_peer_window(&mut self, cx: Cx<'_>, start: u64, payload: u64) -> Option<u64> {
        let usable = self.limit.saturating_sub(start);
        if payload <= usable || cx.details.ignores_window {
            return Some(payload);
        }
        let overridden = std::mem::take(&mut self.override_window) && usable > 0;
        if overridden || (usable > 0 && usable * 2 >= self.largest_window) {
            return Some(usable);
        }
        if self.board.is_empty() && !matches!(self.timer, Some((_, Timer::Persist))) {
            self.set_persist(cx);
        }
        None
    }

    /// Counts a transmission, and sets the timer and the pacing release time.
    fn sent(&mut self, cx: Cx<'_>, len: u64) {
        self.counters.segments_sent += 1;
        self.last_sent = cx.now;
        if matches!(self.phase, Phase::Fast | Phase::Reduced) {
            self.prr_sent(len);
        }
        if let Some(at) = self.probe_at(cx) {
            self.timer = Some((at, Timer::TailProbe));
        } else if self.timer.is_none() {
            self.arm(cx);
        }
        if let Some(rate) = self.pace(cx) {
            self.release = cx.now + rate.time_for(Bytes(len));
        }
    }

    /// The pacing rate, if the sender paces.
    ///
    /// Source: Linux 6.12, `tcp_update_pacing_rate`: twice the window per round-trip time in slow
    /// start, 1.2 times otherwise; `tcp_update_skb_after_send`: the first ten segments are not
    /// paced.
    /// Differs: after an idle time, Linux halves the gap between two segments.
    fn pace(&self, cx: Cx<'_>) -> Option<Rate> {
        let own = self.congestion.pacing_rate(&self.window);
        if own.is_some() || !cx.details.pacing {
            return own.filter(|rate| rate.bps() > 0);
        }
        if self.counters.segments_sent < UNPACED {
            return None;
        }
        let rtt = self.rto.smoothed()?.as_nanos().max(1);
        let percent: u128 =
            if self.window.congestion < self.window.threshold / 2 { 200 } else { 120 };
        let bits = u128::from(self.window.congestion) * 8 * 10_000_000 * percent / rtt;
        Some(Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }

    /// Records that the congestion window limits the sender.
    fn note_blocked(&mut self, cx: Cx<'_>) {
        self.note_usage(cx, true);
    }

    /// Records once per window, and at each new maximum, the bytes in flight and whether the window
    /// blocked the sender.
    ///
    /// Source: Linux 6.12, `tcp_cwnd_validate`.
    fn note_usage(&mut self, cx: Cx<'_>, blocked: bool) {
        let flight = self.board.outstanding();
        if blocked {
            self.usage.blocked_at = cx.now;
        }
        if self.board.una() >= self.usage.until || blocked || flight > self.usage.most {
            self.usage.blocked = blocked;
            self.usage.most = flight;
            self.usage.until = self.next();
        }
    }

    /// After an idle time, shrinks the window by the rule of the profile, and notifies the
    /// congestion control.
    ///
    /// Source: RFC 5681, section 4.1; RFC 2861 as in Linux, `tcp_cwnd_restart`.
    fn restart_if_idle(&mut self, cx: Cx<'_>) {
        let idle = cx.now.since(self.last_sent);
        if !self.board.is_empty() || self.next() == 0 || idle.is_zero() {
            return;
        }
        if idle > self.rto.base(cx.details) && self.rto.smoothed().is_some() {
            self.shrink_after(cx, idle);
        }
        self.keep_no_longer(cx);
        self.last_sent = cx.now;
        self.congestion.on_idle(cx.now, &mut self.window, idle);
    }

    fn shrink_after(&mut self, cx: Cx<'_>, idle: Duration) {
        let timeout = self.rto.base(cx.details);
        let restart = u64::from(cx.details.initial_window) * self.window.segment;
        let restart = restart.min(self.window.congestion);
        match cx.details.idle {
            IdleRule::Keep | IdleRule::Validate => {}
            IdleRule::Restart => self.window.congestion = restart,
            IdleRule::Halve => {
                let kept = self.window.congestion / 4 * 3;
                if self.window.threshold != u64::MAX {
                    self.window.threshold = self.window.threshold.max(kept);
                }
                let mut left = idle;
                while left > timeout && self.window.congestion > restart {
                    self.window.congestion /= 2;
                    left -= timeout;
                }
                self.window.congestion = self.window.congestion.max(restart);
            }
        }
    }
}

/// Number of segments at the beginning that are not paced (Linux 6.12,
/// `tcp_update_skb_after_send`).
const UNPACED: u64 = 10;
