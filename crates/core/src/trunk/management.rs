//! A management connection, at the end that sends: TCP over a stream that is not there.
//!
//! Source: `trunking`, sections 4.1 and 4.2.
//! Differs: after the second timeout in a row without an acknowledgement, three timeouts' time after the
//! last, it gives no credit until one comes (the paper says nothing of a path that is gone); one that ends is opened anew when there is something
//! to send.

use std::sync::Arc;
use std::time::Duration;

use crate::Time;
use crate::packet::{FlowKey, TcpFlags};
use crate::random::Random;
use crate::tcp::{Config, Connection, Event, Outgoing, Segment};

/// A management connection, and what it lets go.
pub(super) struct Management {
    pub(super) key: FlowKey,
    config: Arc<Config>,
    random: Random,
    /// Once there was something to send.
    tcp: Option<Connection>,
    /// Bytes of a management packet of the virtual stream, once the other end has agreed.
    segment: Option<u64>,
    /// Bytes of the stream handed over, and sent.
    written: u64,
    sent: u64,
    /// User bytes that may be sent; less than zero is what was borrowed.
    credit: i64,
    /// Packets that may be in flight.
    window: u64,
    /// Up to where all is acknowledged, and the timeouts there had been then.
    heard: (u64, u32),
    /// SYNs sent since it was opened.
    syns: u32,
    /// Nothing has been heard for so long that the path is held for gone.
    silent: bool,
    /// It has nothing to send before it hears something, is asked, or its timer is due; and when that is,
    /// as of the last time it was polled.
    settled: bool,
    due: Time,
}

/// What a segment that is sent is.
pub(super) struct Sent {
    /// It is a management packet; not an acknowledgement, or part of a handshake.
    pub(super) probes: bool,
    /// It gives credit.
    pub(super) counts: bool,
    /// It was sent before.
    pub(super) again: bool,
}

impl Management {
    pub(super) const fn new(key: FlowKey, config: Arc<Config>, random: Random) -> Self {
        Self {
            key,
            config,
            random,
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

    /// Whether it may send user packets now.
    pub(super) const fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// A user packet of `len` bytes is sent.
    pub(super) fn spend(&mut self, len: u64) {
        self.credit = self.credit.saturating_sub_unsigned(len);
    }

    /// User packets wait, and all that it gave credit for was sent: its next segment may go.
    pub(super) fn ask(&mut self, now: Time) {
        if self.tcp.as_ref().is_none_or(Connection::is_closed) {
            let isn = u32::try_from(self.random.below(1 << 32)).unwrap_or(0);
            self.tcp = Some(Connection::connect(&self.config, now, isn));
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

    /// What its receiver says.
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

    /// Whether it can neither send nor be asked to: packets wait or not, as `waits` says.
    pub(super) fn rests(&self, now: Time, waits: bool) -> bool {
        let asked = self.credit <= 0 && self.sent != self.written;
        self.settled && self.due > now && (asked || !waits)
    }

    /// What it sends next.
    pub(super) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        let tcp = self.tcp.as_mut()?;
        let outgoing = tcp.poll_transmit(now);
        if outgoing.is_none() {
            (self.settled, self.due) = (!tcp.is_closed(), tcp.poll_timeout().unwrap_or(Time::MAX));
        }
        outgoing
    }

    /// Takes note of what is sent.
    pub(super) fn note_sent(&mut self, outgoing: &Outgoing) -> Sent {
        let payload = u64::from(outgoing.segment.header.payload);
        if payload > 0 {
            self.sent = self.sent.max(outgoing.offset + payload);
        }
        let probes = payload > 0;
        let timeouts = self.tcp.as_ref().map_or(0, Connection::timeouts);
        let answered = !probes || timeouts - self.heard.1 < SILENCE;
        self.syns += u32::from(outgoing.segment.header.flags.any(TcpFlags::SYN));
        self.silent |= !answered || self.syns > SILENCE;
        Sent { probes, counts: probes && answered, again: probes && outgoing.retransmission }
    }

    /// A management packet gives `vmss` bytes of credit: more is not saved up while nothing waits.
    pub(super) fn earn(&mut self, vmss: u64) {
        let vmss = vmss.cast_signed();
        self.credit = self.credit.saturating_add(vmss).min(vmss);
    }

    /// Management packets that may be in flight.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// Forgets a path that was held for gone, for another connection has been answered: it is opened anew when
    /// there is something to send, and does not wait out its timeout, which may be minutes by now.
    pub(super) fn begin_anew(&mut self) {
        if self.silent {
            (self.tcp, self.silent, self.settled, self.due) = (None, false, false, Time::MAX);
        }
    }

    /// Sends its next question, if it waits for the end of a timeout that was backed off, as soon as one is over
    /// that was not.
    pub(super) fn hasten(&mut self) {
        if let Some(tcp) = &mut self.tcp {
            tcp.hasten();
            self.settled = false;
        }
    }

    /// Has its connection opened at once, if that waits for an answer to a first question that nobody was there to
    /// hear.
    pub(super) fn knock_again(&mut self) {
        if let Some(tcp) = &mut self.tcp {
            tcp.knock_again();
            (self.syns, self.settled) = (0, false);
        }
    }

    /// Whether the path is held for gone: two timeouts in a row, and nothing was heard.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether something that it sent has not been answered yet.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.sent > self.heard.0 || (self.tcp.is_some() && self.segment.is_none())
    }

    /// User bytes that may be sent; less than zero is what was borrowed.
    pub(super) const fn credit(&self) -> i64 {
        self.credit
    }

    /// The smoothed round-trip time; none before the first measurement.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.tcp.as_ref()?.progress().smoothed_rtt
    }

    /// Bits per second that its window allows of `vmss` bytes for each packet; none before the first answer.
    pub(super) fn rate(&self, vmss: u64) -> u64 {
        let Some(rtt) = self.rtt().map(|rtt| rtt.as_nanos().max(1)) else { return 0 };
        let bits = u128::from(self.window) * u128::from(vmss) * 8;
        u64::try_from(bits * 1_000_000_000 / rtt).unwrap_or(u64::MAX)
    }

    /// When it is to be polled again, if nothing else happens; [`Time::MAX`] for never.
    pub(super) const fn due(&self) -> Time {
        self.due
    }
}

/// Timeouts in a row after which the path is held for gone. As each is twice as long as the one before it,
/// the second is over three times as long as the first (RTO) after the last answer.
const SILENCE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Kills: resting with credit while packets wait; being asked twice; sleeping past a timer.
    #[test]
    fn it_rests_until_it_hears_something_may_be_asked_or_its_timer_is_due() {
        let config = Arc::new(Config::default());
        let mut it = Management::new(FlowKey::default(), config, Random::new(1, 1));
        let (now, later) = (Time::from_millis(1), Time::from_millis(2));
        assert!(!it.rests(now, false), "it was never polled");
        (it.settled, it.due, it.written) = (true, later, 1_460);
        assert!(it.rests(now, false) && it.rests(now, true) && !it.rests(later, false));
        it.sent = it.written;
        assert!(it.rests(now, false) && !it.rests(now, true), "it may be asked");
        (it.sent, it.credit) = (0, 1);
        assert!(it.rests(now, false) && !it.rests(now, true), "it has credit");
    }

    /// Kills: saving up the credit of retransmissions that nothing waited for.
    #[test]
    fn no_more_than_one_vmss_is_saved_up_and_what_was_borrowed_is_paid_back() {
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
