//! Creation of departing segments.
//!
//! Methods of `Connection`, whose fields are in `connection.rs`.

use tidegate_base::Time;
use tidegate_base::packet::{Ecn, TcpFlags, TcpSegment};

use super::{Connection, Ending, MOST_TIMEOUTS, Outgoing, State};
use crate::profile::Details;
use crate::segment::Segment;
use crate::sender::{Cx, Span};
use crate::sequence::{distance, low, short};

impl Connection {
    /// The next segment to send now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        if let Some(seq) = self.reset.take() {
            return Some(self.reset_segment(seq));
        }
        match self.state {
            State::Listen | State::Closed => None,
            State::SynSent | State::SynReceived => self.transmit_syn(now),
            State::Open => self.transmit(now),
            State::TimeWait => {
                if self.time_wait_until <= now {
                    self.end(Ending::Closed);
                    return None;
                }
                self.receiver.must_acknowledge(now).then(|| self.pure_ack(now))
            }
        }
    }

    fn transmit_syn(&mut self, now: Time) -> Option<Outgoing> {
        if !self.handshake.is_due(now) {
            return None;
        }
        if self.handshake.is_hopeless() {
            self.end(Ending::TimedOut);
            return None;
        }
        let segment = self.syn(now);
        let first = self.handshake.sent(now, &self.config.details);
        Some(Outgoing { segment, offset: 0, retransmission: !first })
    }

    fn transmit(&mut self, now: Time) -> Option<Outgoing> {
        if let Some((place, echo)) = self.receiver.before_change.take().map(|it| *it) {
            return Some(self.ack_for(now, place, echo));
        }
        if let Some(sender) = self.sender.busy_mut() {
            let probe = sender.handle_time(Cx { now, details: &self.config.details });
            if sender.expired() > MOST_TIMEOUTS {
                self.end(Ending::TimedOut);
                return None;
            }
            if probe {
                return Some(self.window_probe(now));
            }
        }
        let due = self.receiver.must_acknowledge(now);
        if due && self.receiver.has_blocks() {
            return Some(self.pure_ack(now));
        }
        if let Some(sender) = self.sender.busy_mut()
            && let Some(span) = sender.poll_transmit(Cx { now, details: &self.config.details })
        {
            let last = sender.is_last(&span);
            return Some(self.data(now, span, last));
        }
        due.then(|| self.pure_ack(now))
    }

    fn data(&mut self, now: Time, span: Span, last: bool) -> Outgoing {
        let mut segment = self.header(now);
        segment.header.seq = self.send_base.wrapping_add(low(span.start));
        segment.header.payload = short(span.payload);
        let mut flags = segment.header.flags.0;
        if span.fin {
            flags |= TcpFlags::FIN;
        }
        if span.reduced {
            flags |= TcpFlags::CWR;
        }
        if span.payload > 0 && last {
            flags |= TcpFlags::PSH;
        }
        segment.header.flags = TcpFlags(flags);
        if span.markable {
            segment.ecn = Ecn::Ect0;
        }
        Outgoing { segment, offset: span.start, retransmission: span.retransmission }
    }

    fn pure_ack(&mut self, now: Time) -> Outgoing {
        let last = self.last_ack;
        let mut segment = self.header(now);
        if self.peer_sack && self.receiver.has_blocks() {
            let room = usize::from(self.config.details.sack_blocks).min(if self.timestamps {
                3
            } else {
                4
            });
            segment.sack = self.receiver.blocks(self.receive_base, room);
            segment.header.has_sack = !segment.sack.is_empty();
        }
        self.misbehave(&mut segment, last);
        self.receiver.blocks_sent();
        Outgoing { segment, offset: self.sender.next(), retransmission: false }
    }

    /// Changes the acknowledgement number of an ACK, as a misbehaving receiver does to speed up its
    /// sender. `last` is the number of the previous ACK.
    ///
    /// Source: Savage, Cardwell, Wetherall and Anderson, "TCP congestion control with a misbehaving
    /// receiver", sections 2.2 and 2.3, doi 10.1145/505696.505704.
    /// Differs: ACKs are optimistic only while data arrives in order. Otherwise a sender with no data in
    /// flight would be stuck.
    fn misbehave(&mut self, segment: &mut Segment, last: u32) {
        let Details { ack_step, acks_ahead, .. } = self.config.details;
        let ack = &mut segment.header.ack;
        if acks_ahead > 0 && self.receiver.received() > 0 && !self.receiver.has_blocks() {
            *ack = ack.wrapping_add(u32::from(acks_ahead) * u32::from(self.config.mss));
        }
        let more = u32::try_from(distance(*ack, last)).unwrap_or(0);
        if ack_step > 0 && more > ack_step {
            *ack = last.wrapping_add(ack_step);
            self.receiver.acknowledge_at_once();
        }
        self.last_ack = *ack;
    }

    /// The ACK of the data below stream offset `place`, with ECN-Echo if `echo` is `true`. It is
    /// due because the next data has another mark (RFC 8257, section 3.2).
    fn ack_for(&mut self, now: Time, place: u64, echo: bool) -> Outgoing {
        let mut ack = self.pure_ack(now);
        ack.segment.header.ack = self.receive_base.wrapping_add(low(place));
        let flags = ack.segment.header.flags.0 & !TcpFlags::ECE;
        ack.segment.header.flags = TcpFlags(if echo { flags | TcpFlags::ECE } else { flags });
        ack
    }

    /// A window probe: a segment with an old sequence number, which the peer must answer.
    fn window_probe(&mut self, now: Time) -> Outgoing {
        let mut probe = self.pure_ack(now);
        probe.segment.header.seq = probe.segment.header.seq.wrapping_sub(1);
        probe
    }

    fn reset_segment(&self, seq: u32) -> Outgoing {
        let header = TcpSegment { seq, flags: TcpFlags(TcpFlags::RST), ..TcpSegment::default() };
        let segment = Segment { header, ..Segment::default() };
        Outgoing { segment, offset: 0, retransmission: false }
    }

    /// Header of every segment of an open connection. It acknowledges all received data.
    fn header(&mut self, now: Time) -> Segment {
        let ack = self.receive_base.wrapping_add(low(self.receiver.next()));
        self.last_ack = ack;
        self.receiver.acknowledged();
        let echo = if self.receiver.echo() { TcpFlags::ECE } else { 0 };
        Segment {
            header: TcpSegment {
                seq: self.send_base.wrapping_add(low(self.sender.next())),
                ack,
                timestamps: self.timestamps.then(|| (self.clock(now), self.recent)),
                window: self.receiver.offer(),
                flags: TcpFlags(TcpFlags::ACK | echo),
                ..TcpSegment::default()
            },
            ..Segment::default()
        }
    }

    /// This end's timestamp clock in milliseconds, with an offset per connection.
    pub(super) fn clock(&self, now: Time) -> u32 {
        low(now.nanos() / 1_000_000).wrapping_add(self.send_base)
    }
}
