//! The sending end of one management connection: TCP over a virtual stream.
//!
//! Source: `trunking`, sections 4.1 and 4.2.
//! Differs: after the second timeout in a row without an answer, the connection gives no credit until an answer comes.
//! The paper does not say what happens when the path fails. A connection that has ended is opened again when user
//! packets wait.

use std::sync::Arc;
use std::time::Duration;

use crate::packet::{FlowKey, TcpFlags};
use crate::random::Random;
use crate::tcp::{Config, Connection, Event, Outgoing, Segment};
use crate::{Factor, Time};

/// The sending end of a management connection, and its credit.
pub(super) struct Management {
    /// Key of its packets.
    pub(super) key: FlowKey,
    config: Arc<Config>,
    random: Random,
    /// Weight of its congestion control. `None`: that of the configuration.
    weight: Option<Factor>,
    /// `None` until the first user packet waits.
    tcp: Option<Connection>,
    /// Bytes of the virtual stream for each management packet. `None` until the handshake has ended.
    segment: Option<u64>,
    /// Bytes of the virtual stream written to TCP, and sent by it.
    written: u64,
    sent: u64,
    /// User bytes that may be sent. Negative credit is borrowed.
    credit: i64,
    /// Congestion window in packets.
    window: u64,
    /// Bytes acknowledged cumulatively, and the number of timeouts before that ACK.
    heard: (u64, u32),
    /// SYNs sent since the connection was opened.
    syns: u32,
    /// [`SILENCE`] timeouts in a row have brought no answer.
    silent: bool,
    /// TCP has nothing to send until a segment arrives, more is written, or its timer expires at `due`. Both are as of
    /// the last poll.
    settled: bool,
    due: Time,
}

/// Kind of a segment that departs.
pub(super) struct SentSegment {
    /// It is a management packet, not an ACK or part of a handshake.
    pub(super) probes: bool,
    /// It gives credit.
    pub(super) counts: bool,
    /// It is a retransmission.
    pub(super) again: bool,
}

impl Management {
    pub(super) const fn new(key: FlowKey, config: Arc<Config>, random: Random) -> Self {
        Self {
            key,
            config,
            random,
            weight: None,
            tcp: None,
            segment: None,
            written: 0,
            sent: 0,
            credit: 0,
            window: 0,
            heard: (0, 0),
            syns: 0,
            silent: false,
            settled: false,
            due: Time::MAX,
        }
    }

    /// Returns `true` if a user packet may be sent for its credit.
    pub(super) const fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// Takes `len` bytes of a user packet from the credit.
    pub(super) fn spend(&mut self, len: u64) {
        self.credit = self.credit.saturating_sub_unsigned(len);
    }

    /// Asks for credit: user packets wait. Opens the connection if necessary, and writes one more segment if TCP has
    /// sent all earlier ones.
    pub(super) fn ask(&mut self, now: Time) {
        if self.tcp.as_ref().is_none_or(Connection::is_closed) {
            let isn = u32::try_from(self.random.below(1 << 32)).unwrap_or(0);
            let tcp = self.tcp.insert(Connection::connect(&self.config, now, isn));
            if let Some(weight) = self.weight {
                tcp.congestion().set_weight(weight);
            }
            (self.segment, self.written, self.sent) = (None, 0, 0);
            (self.heard, self.syns, self.settled) = ((0, 0), 0, false);
        }
        if let (Some(tcp), Some(segment)) = (&mut self.tcp, self.segment)
            && self.sent == self.written
        {
            tcp.write(segment);
            self.written += segment;
            self.settled = false;
        }
    }

    /// A segment from the other end.
    pub(super) fn handle(&mut self, now: Time, segment: &Segment) {
        let Some(tcp) = &mut self.tcp else { return };
        tcp.handle_segment(now, segment);
        self.settled = false;
        let told = tcp.progress();
        self.window = told.congestion_window / told.segment.max(1);
        while let Some(event) = tcp.poll_event() {
            if event == Event::Established {
                self.segment = Some(told.segment);
                (self.syns, self.silent) = (0, false);
            }
        }
        if told.acknowledged > self.heard.0 {
            self.heard = (told.acknowledged, tcp.timeouts());
            self.silent = false;
        }
    }

    /// Returns `true` if the pump may skip the connection: neither TCP nor a user packet could
    /// depart. `backlogged`: user packets wait.
    pub(super) fn rests(&self, now: Time, backlogged: bool) -> bool {
        let asked = self.credit <= 0 && self.sent != self.written;
        self.settled && self.due > now && (asked || !backlogged)
    }

    /// The next segment that TCP sends.
    pub(super) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        let tcp = self.tcp.as_mut()?;
        let outgoing = tcp.poll_transmit(now);
        if outgoing.is_none() {
            (self.settled, self.due) = (!tcp.is_closed(), tcp.poll_timeout().unwrap_or(Time::MAX));
        }
        outgoing
    }

    /// A segment departs. Returns its kind.
    pub(super) fn note_sent(&mut self, outgoing: &Outgoing) -> SentSegment {
        let payload = u64::from(outgoing.segment.header.payload);
        if payload > 0 {
            self.sent = self.sent.max(outgoing.offset + payload);
        }
        let probes = payload > 0;
        let timeouts = self.tcp.as_ref().map_or(0, Connection::timeouts);
        let answered = !probes || timeouts - self.heard.1 < SILENCE;
        self.syns += u32::from(outgoing.segment.header.flags.any(TcpFlags::SYN));
        self.silent |= !answered || self.syns > SILENCE;
        SentSegment { probes, counts: probes && answered, again: probes && outgoing.retransmission }
    }

    /// A management packet gives `vmss` bytes of credit. An empty queue accumulates no more than that.
    pub(super) fn earn(&mut self, vmss: u64) {
        let vmss = vmss.cast_signed();
        self.credit = self.credit.saturating_add(vmss).min(vmss);
    }

    /// Congestion window in management packets.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// Discards a silent connection, because another one was answered. It is opened again when user packets wait. Its
    /// timeout may have become minutes by now, and is not waited for.
    pub(super) fn start_again(&mut self) {
        if self.silent {
            (self.tcp, self.silent, self.settled, self.due) = (None, false, false, Time::MAX);
        }
    }

    /// Ends the backoff of the current timeout: TCP retransmits at the latest one RTO after its last segment.
    pub(super) fn hasten(&mut self) {
        if let Some(tcp) = &mut self.tcp {
            tcp.hasten();
            self.settled = false;
        }
    }

    /// Sends the SYN again at once, if it was not answered.
    pub(super) fn knock_again(&mut self) {
        if let Some(tcp) = &mut self.tcp {
            tcp.knock_again();
            (self.syns, self.settled) = (0, false);
        }
    }

    /// Returns `true` if [`SILENCE`] timeouts in a row have brought no answer.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Returns `true` if a SYN or a segment has not been answered yet.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.sent > self.heard.0 || (self.tcp.is_some() && self.segment.is_none())
    }

    /// User bytes that may be sent. Negative credit is borrowed.
    pub(super) const fn credit(&self) -> i64 {
        self.credit
    }

    /// The smoothed round-trip time. `None` before the first measurement.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.tcp.as_ref()?.progress().smoothed_rtt
    }

    /// The least round-trip time. `None` before the first measurement.
    pub(super) fn least_rtt(&self) -> Option<Duration> {
        self.tcp.as_ref()?.statistics().least_rtt
    }

    /// Changes the weight of the congestion control, now and for later connections.
    pub(super) fn set_weight(&mut self, weight: Factor) {
        self.weight = Some(weight);
        if let Some(tcp) = &mut self.tcp {
            tcp.congestion().set_weight(weight);
        }
    }

    /// `window * vmss / rtt` in bits per second. Zero before the first answer.
    pub(super) fn rate(&self, vmss: u64) -> u64 {
        let Some(rtt) = self.rtt().map(|rtt| rtt.as_nanos().max(1)) else { return 0 };
        let bits = u128::from(self.window) * u128::from(vmss) * 8;
        u64::try_from(bits * 1_000_000_000 / rtt).unwrap_or(u64::MAX)
    }

    /// Latest time for the next poll of TCP. [`Time::MAX`] for never.
    pub(super) const fn due(&self) -> Time {
        self.due
    }
}

/// Timeouts in a row after which a connection is silent. Each timeout is twice as long as the
/// previous one. The second ends three RTO after the last answer.
const SILENCE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a connection with credit that rests while packets wait; two requests at once; a timer that is missed.
    #[test]
    fn a_connection_rests_until_a_segment_arrives_or_it_may_be_asked_or_its_timer_expires() {
        let config = Arc::new(Config::default());
        let mut it = Management::new(FlowKey::default(), config, Random::new(1, 1));
        let (now, later) = (Time::from_millis(1), Time::from_millis(2));
        assert!(!it.rests(now, false), "not polled yet");
        (it.settled, it.due, it.written) = (true, later, 1_460);
        assert!(it.rests(now, false) && it.rests(now, true) && !it.rests(later, false));
        it.sent = it.written;
        assert!(it.rests(now, false) && !it.rests(now, true), "may be asked");
        (it.sent, it.credit) = (0, 1);
        assert!(it.rests(now, false) && !it.rests(now, true), "has credit");
    }

    /// Catches: credit of retransmissions that accumulates while the queue is empty.
    #[test]
    fn credit_is_at_most_one_vmss_and_borrowed_credit_is_repaid() {
        let config = Arc::new(Config::default());
        let mut management = Management::new(FlowKey::default(), config, Random::new(1, 1));
        (0..5).for_each(|_| management.earn(1_500));
        management.spend(1_499);
        assert!(management.has_credit());
        management.spend(1_501);
        management.earn(1_500);
        assert!(!management.has_credit());
        management.earn(1_500);
        assert!(management.has_credit());
    }
}
