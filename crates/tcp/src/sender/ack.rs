//! The sender's processing of an ACK.
//!
//! Methods of `Sender`, whose fields are in `sender.rs`.

use std::time::Duration;

use tidegate_base::Time;

use super::recovery::Phase;
use super::{Cx, Sender, UNTIMED};

use crate::congestion::{Ack, Delivery, Signal};
use crate::delivered::Delivered;
use crate::profile::{Duplicates, IdleRule};
use crate::rto::elapsed;

/// An acknowledgement, in stream offsets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckInfo {
    /// Offset up to which all data has arrived.
    pub(crate) to: u64,
    /// SACK blocks without the D-SACK.
    pub(crate) blocks: [(u64, u64); 4],
    pub(crate) count: usize,
    /// The range of a D-SACK, which arrived twice.
    pub(crate) duplicate: Option<(u64, u64)>,
    /// The peer's window in bytes from `to` on, if this segment may change it.
    pub(crate) window: Option<u64>,
    /// The segment is a pure ACK: no data, no SYN, no FIN.
    pub(crate) pure: bool,
    /// The segment carries ECN-Echo.
    pub(crate) echo: bool,
    /// Send time of the segment whose timestamp is echoed, in ticks of the timestamp clock.
    pub(crate) echoed: Option<Time>,
}

impl AckInfo {
    /// True if the ACK reports SACK blocks or ECN-Echo. Without them, an end that has never sent
    /// data needs only the window of the ACK.
    pub(crate) const fn says_more_than_window(&self) -> bool {
        self.count > 0 || self.duplicate.is_some() || self.echo
    }
}

impl Sender {
    /// Processes an ACK whose number lies between the last acknowledged and the last sent offset.
    pub(crate) fn acknowledge(&mut self, cx: Cx<'_>, info: &AckInfo) {
        // ns-2's `Sack1` does not grow with the ACK that ends recovery.
        let stays = !cx.details.grow_on_exit || self.estimates(cx.details);
        let ends_recovery = self.phase == Phase::Fast && stays;
        let (una, flight_before) = (self.board.una(), self.board.pipe());
        let (outstanding, implied) = (self.board.outstanding(), self.already_counted(cx));
        let window_moved = self.move_window(info);
        let mut delivered = Delivered::default();
        let lost_before = self.board.lost_ever();
        self.board.acknowledge(info.to, &mut delivered);
        let advanced = info.to > una;
        let named = self.take_blocks(cx, info, &mut delivered);
        let news = delivered.bytes > 0 || named;
        if advanced {
            self.expired = 0;
        }
        let rtt = self.measure(cx, info, &delivered);
        let duplicate = !advanced && outstanding > 0 && info.pure && (news || !window_moved);
        let counts = duplicate && (news || (!self.sack && !self.holds(cx)));
        self.duplicates = match (advanced, counts) {
            (true, _) => 0,
            (false, true) => self.duplicates.saturating_add(1),
            (false, false) => self.duplicates,
        };
        let delivery = self.sample_rate(cx, &delivered);
        self.validate(cx, una);
        self.probe_on_ack(cx, info, advanced, news);
        self.check_undo(cx, info, &delivered, advanced);
        let waiting = self.find_losses(cx, info, &delivered);
        let newly_lost = self.board.lost_ever() - lost_before;
        self.recover_on_ack(cx, una, advanced, counts, &delivered, newly_lost);
        let newly_lost = self.board.lost_ever() - lost_before;
        self.counters.echoes += u64::from(info.echo);
        let reported = match (self.counts_duplicates(cx), advanced, counts) {
            (true, false, true) => self.window.segment,
            (true, true, _) => delivered.bytes.saturating_sub(implied).max(self.window.segment),
            _ => delivered.bytes,
        };
        let ack = Ack {
            now: cx.now,
            bytes: if advanced { reported } else { delivered.bytes },
            flight_before,
            flight: self.board.pipe(),
            acknowledged: self.board.una(),
            sent: self.board.end(),
            rtt,
            smoothed_rtt: self.rto.smoothed().unwrap_or_default(),
            least_rtt: self.rto.least().unwrap_or_default(),
            echo: info.echo,
            marked: if info.echo { delivered.bytes } else { 0 },
            may_grow: advanced && !ends_recovery && self.may_grow(cx, info.echo),
            in_recovery: self.phase != Phase::Open,
            lost: newly_lost,
            delivery,
        };
        if news || info.echo {
            self.report_ack(&ack);
        }
        self.answer_echo(cx, info, outstanding);
        self.prr_window(cx, newly_lost, reported, advanced);
        self.set_timer_on_ack(cx, advanced, waiting);
        if advanced && self.phase == Phase::Fast && self.estimates(cx.details) {
            self.rto.end_backoff();
        }
    }

    /// True if each duplicate ACK counts as a delivered segment, because SACK is not in use.
    fn counts_duplicates(&self, cx: Cx<'_>) -> bool {
        !self.sack && cx.details.duplicates == Duplicates::Deliver
    }

    /// Bytes that duplicate ACKs have already reported as delivered. The next ACK does not count
    /// them again.
    ///
    /// Source: Linux 6.12, `tcp_remove_reno_sacks`.
    fn already_counted(&self, cx: Cx<'_>) -> u64 {
        match self.phase {
            _ if !self.counts_duplicates(cx) => 0,
            Phase::Fast => self.implied,
            Phase::Open | Phase::Reduced => u64::from(self.duplicates) * self.window.segment,
            Phase::Loss => 0,
        }
    }

    /// True if a recovery without SACK has just repaired all its losses. Further duplicates of
    /// the last ACK report spurious retransmissions and do not count.
    ///
    /// Source: Linux 6.12, `tcp_try_undo_recovery`.
    pub(super) fn holds(&self, cx: Cx<'_>) -> bool {
        let repaired = self.lost_until == Some(self.board.una());
        self.counts_duplicates(cx) && repaired && self.phase != Phase::Loss
    }

    /// Reports the ACK to the congestion control. In recovery the sender itself sets the window.
    fn report_ack(&mut self, ack: &Ack) {
        let before = self.window.congestion;
        self.congestion.on_ack(&mut self.window, ack);
        if matches!(self.phase, Phase::Fast | Phase::Reduced) && !self.congestion.keeps_window() {
            self.window.congestion = before;
        }
    }

    /// Updates the peer's window, unless the segment is older than the segment of the last update.
    /// If the right edge moves left, data that was sent stays in flight, but new data obeys the
    /// smaller window. Returns `true` if the right edge moved.
    ///
    /// Source: RFC 9293, sections 3.10.7.4 and 3.8.6.
    fn move_window(&mut self, info: &AckInfo) -> bool {
        let Some(window) = info.window else { return false };
        let limit = info.to + window;
        let moved = limit != self.limit;
        self.limit = limit;
        self.largest_window = self.largest_window.max(window);
        moved
    }

    /// Marks the ranges of SACK blocks as delivered.
    ///
    /// In the slow start after a timeout, [`Pipe::Estimate`] retransmits these segments
    /// nevertheless. Then only ACKs with new blocks are counted: the result is `true` if a block
    /// reports a segment for the first time.
    ///
    /// [`Pipe::Estimate`]: crate::profile::Pipe::Estimate
    fn take_blocks(&mut self, cx: Cx<'_>, info: &AckInfo, delivered: &mut Delivered) -> bool {
        if !self.sack {
            return false;
        }
        if self.phase == Phase::Loss && self.estimates(cx.details) {
            let mut news = false;
            for (from, to) in &info.blocks[..info.count] {
                // Duplicate ACKs do not count until the first new ACK after a timeout.
                news |= self.expired == 0 && self.board.name(*from, *to);
            }
            return news;
        }
        for (from, to) in &info.blocks[..info.count] {
            self.board.sack(*from, *to, delivered);
        }
        if info.duplicate.is_some() {
            let (una, end) = (self.board.una(), self.board.end());
            self.rack.get_or_insert_default().duplicate(una, end);
        }
        false
    }

    /// Measures a round-trip time from segments that were sent once. The congestion control gets a
    /// sample with every ACK, even if the timeout uses fewer (ns-2 2.35, `tcp-vegas.cc`, keeps the
    /// time of every packet).
    ///
    /// Source: RFC 6298, section 3 (Karn); RFC 7323, section 4.1; Linux 6.12, `tcp_ack_update_rtt`.
    fn measure(&mut self, cx: Cx<'_>, info: &AckInfo, delivered: &Delivered) -> Option<Duration> {
        if !cx.details.rtt_every_ack {
            if self.timed.0 <= info.to {
                let (_, sent_at) = std::mem::replace(&mut self.timed, UNTIMED);
                let rtt = elapsed(cx.details, sent_at, cx.now);
                self.rto.sample(cx.details, rtt, self.board.una(), self.board.end());
            }
            let newest = delivered.last_once.filter(|_| !delivered.repeated);
            return newest.map(|at| cx.now.since(at));
        }
        let by_clock = if delivered.repeated { None } else { delivered.first_once };
        let rtt = match (by_clock, delivered.selective_once) {
            (Some(at), _) | (None, Some(at)) => cx.now.since(at),
            (None, None) if delivered.bytes > 0 => cx.now.since(info.echoed?),
            (None, None) => return None,
        };
        self.rto.sample(cx.details, rtt, self.board.una(), self.board.end());
        Some(delivered.last_once.map_or(rtt, |at| cx.now.since(at)))
    }

    fn sample_rate(&mut self, cx: Cx<'_>, delivered: &Delivered) -> Option<Delivery> {
        let latest = delivered.latest.as_ref()?;
        let least = self.rto.least().unwrap_or_default();
        self.rate.deliver(cx.now, delivered.bytes, latest, delivered.stamp, least)
    }

    /// True if the window may grow with this ACK.
    ///
    /// Source: RFC 3168, section 6.1.2 (not with ECN-Echo); Linux 6.12, `tcp_is_cwnd_limited`.
    fn may_grow(&self, cx: Cx<'_>, echo: bool) -> bool {
        let used = match cx.details.idle {
            IdleRule::Keep | IdleRule::Restart => true,
            IdleRule::Validate => self.is_validated(),
            IdleRule::Halve if self.usage.blocked => true,
            IdleRule::Halve => {
                self.window.in_slow_start() && self.window.congestion < 2 * self.usage.most
            }
        };
        let ignored = echo && self.ecn && !cx.details.grow_on_echo;
        used && !ignored && matches!(self.phase, Phase::Open | Phase::Loss)
    }

    /// Responds to ECN-Echo, at most once per window. `flight` is the number of bytes in flight
    /// before the ACK.
    ///
    /// Source: RFC 3168, section 6.1.2.
    fn answer_echo(&mut self, cx: Cx<'_>, info: &AckInfo, flight: u64) {
        let fresh = self.is_past(self.lost_until) && self.is_past(self.marked_until);
        if !info.echo || !self.ecn || !fresh || self.phase != Phase::Open {
            return;
        }
        self.counters.reductions += 1;
        let at_one = self.window.congestion <= self.window.segment;
        self.begin_prr(cx, self.board.pipe());
        self.signal(cx, Signal::Echo, flight);
        if cx.details.echo_gradually {
            self.phase = Phase::Reduced;
        } else {
            self.reduce(cx.details);
        }
        self.send_cwr = true;
        if at_one && cx.details.echo_at_one_waits {
            self.release = cx.now + self.rto.timeout(cx.details);
        }
    }
}
