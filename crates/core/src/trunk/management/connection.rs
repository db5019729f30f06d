//! The sending end of one management connection, and its credit.
//!
//! TCP sends a *virtual stream*: it counts sequence numbers, loses and retransmits as usual, but its segments depart
//! without their payload. While user packets wait, one further segment is written to the stream whenever TCP has sent
//! the previous one. So TCP always has data to send.
//!
//! Source: `trunking`, sections 4.1 (management packets) and 4.2 (credit).
//! Differs:
//! - After two timeouts in a row without an ACK, retransmissions give no credit until an ACK
//!   arrives. The paper does not discuss a path that fails.
//! - A connection that has ended is opened again when user packets wait.

use std::sync::Arc;
use std::time::Duration;

use crate::packet::{FlowKey, TcpFlags};
use crate::random::Random;
use crate::tcp::{Config, Connection, Event, Outgoing, Segment};
use crate::{Factor, Time};

/// The sending end of a management connection, and its credit.
pub(super) struct Management {
    /// Flow key of the packets of the connection.
    pub(super) key: FlowKey,
    config: Arc<Config>,
    random: Random,
    /// Weight of the congestion control. `None`: the weight in `config`.
    weight: Option<Factor>,
    /// The TCP connection. `None` until the first user packet waits.
    tcp: Option<Connection>,
    /// Bytes of the virtual stream in each management packet. `None` until the handshake has ended.
    segment: Option<u64>,
    /// Bytes of the virtual stream that were written to TCP.
    written: u64,
    /// Bytes of the virtual stream that TCP has sent at least once.
    sent: u64,
    /// User bytes that may be sent. Negative if the last user packet was longer than the credit.
    credit: i64,
    /// Congestion window in packets.
    window: u64,
    /// Bytes of the virtual stream that were acknowledged, and the number of timeouts up to the last ACK.
    heard: (u64, u32),
    /// SYNs sent since the connection was opened.
    syns: u32,
    /// The connection has had [`SILENCE`] timeouts in a row without an ACK.
    silent: bool,
    /// TCP had nothing to send at the last call of [`poll`](Self::poll). This remains so until a segment arrives, more
    /// is written, or the timer expires at `due`.
    settled: bool,
    /// Expiry of the TCP timer, as of the last call of [`poll`](Self::poll).
    due: Time,
}

/// Kind of a segment that departs.
pub(super) struct SentSegment {
    /// The segment is a management packet, not an ACK or part of a handshake.
    pub(super) probes: bool,
    /// The segment gives credit for user packets.
    pub(super) counts: bool,
    /// The segment is a retransmitted management packet.
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

    /// Returns `true` if the credit permits a user packet.
    pub(super) const fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// Subtracts `len` bytes of a user packet from the credit.
    pub(super) fn spend(&mut self, len: u64) {
        self.credit = self.credit.saturating_sub_unsigned(len);
    }

    /// Asks for credit, because user packets wait. Opens the connection if necessary. Writes one segment to the virtual
    /// stream if TCP has sent all earlier ones.
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

    /// Handles a segment from the other gateway.
    pub(super) fn handle(&mut self, now: Time, segment: &Segment) {
        let Some(tcp) = &mut self.tcp else { return };
        tcp.handle_segment(now, segment);
        self.settled = false;
        let progress = tcp.progress();
        self.window = progress.congestion_window / progress.segment.max(1);
        while let Some(event) = tcp.poll_event() {
            if event == Event::Established {
                self.segment = Some(progress.segment);
                (self.syns, self.silent) = (0, false);
            }
        }
        if progress.acknowledged > self.heard.0 {
            self.heard = (progress.acknowledged, tcp.timeouts());
            self.silent = false;
        }
    }

    /// Returns `true` if nothing could depart: TCP has no segment to send, and the credit permits
    /// no user packet. `backlogged` is `true` if user packets wait for this connection.
    pub(super) fn rests(&self, now: Time, backlogged: bool) -> bool {
        let asked = self.credit <= 0 && self.sent != self.written;
        self.settled && self.due > now && (asked || !backlogged)
    }

    /// The next segment that TCP sends. `None` if it has none now.
    pub(super) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        let tcp = self.tcp.as_mut()?;
        let outgoing = tcp.poll_transmit(now);
        if outgoing.is_none() {
            (self.settled, self.due) = (!tcp.is_closed(), tcp.poll_timeout().unwrap_or(Time::MAX));
        }
        outgoing
    }

    /// Notes a segment that departs. Returns its kind.
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

    /// Adds `vmss` bytes of credit for a management packet. The credit never exceeds `vmss`, so it does not accumulate
    /// while the tunnel queue is empty.
    pub(super) fn earn(&mut self, vmss: u64) {
        let vmss = vmss.cast_signed();
        self.credit = self.credit.saturating_add(vmss).min(vmss);
    }

    /// Congestion window in management packets.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// Discards the TCP connection if it is silent, because the other gateway has answered another connection. A new TCP
    /// connection is opened as soon as user packets wait. The timeout of the old one may be minutes long.
    pub(super) fn start_again(&mut self) {
        if self.silent {
            (self.tcp, self.silent, self.settled, self.due) = (None, false, false, Time::MAX);
        }
    }

    /// Ends the backoff of the present timeout: TCP retransmits at the latest one RTO after its last segment.
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

    /// Returns `true` after [`SILENCE`] timeouts in a row without an ACK.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Returns `true` if a SYN or a management packet has not been acknowledged yet.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.sent > self.heard.0 || (self.tcp.is_some() && self.segment.is_none())
    }

    /// User bytes that may be sent. Negative if the last user packet was longer than the credit.
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

    /// Sets the weight of the congestion control, also for TCP connections that are opened later.
    pub(super) fn set_weight(&mut self, weight: Factor) {
        self.weight = Some(weight);
        if let Some(tcp) = &mut self.tcp {
            tcp.congestion().set_weight(weight);
        }
    }

    /// `window * vmss / rtt` in bits per second. Zero before the first ACK.
    pub(super) fn rate(&self, vmss: u64) -> u64 {
        let Some(rtt) = self.rtt().map(|rtt| rtt.as_nanos().max(1)) else { return 0 };
        let bits = u128::from(self.window) * u128::from(vmss) * 8;
        u64::try_from(bits * 1_000_000_000 / rtt).unwrap_or(u64::MAX)
    }

    /// Latest time for the next call of [`poll`](Self::poll). [`Time::MAX`] for never.
    pub(super) const fn due(&self) -> Time {
        self.due
    }
}

/// Timeouts in a row after which a connection is silent. Each timeout is twice as long as the previous one, so the
/// second expires three RTO after the last ACK.
const SILENCE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a connection with credit that is skipped while user packets wait; two segments that
    /// are written at once; a timer that is missed.
    #[test]
    fn a_connection_is_skipped_until_a_segment_a_user_packet_or_its_timer() {
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

    /// Catches: credit of several management packets that accumulates while no user packet waits.
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
