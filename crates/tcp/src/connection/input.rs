//! Handling of arriving segments.
//!
//! Methods of `Connection`, whose fields are in `connection.rs`.

use tidegate_base::Time;
use tidegate_base::packet::{SackBlocks, TcpFlags, TcpSegment};

use super::{Connection, Ending, PAWS_LIFE, State};
use crate::receiver::Arrival;
use crate::segment::Segment;
use crate::sender::{AckInfo, Sender};
use crate::sequence::{distance, low};

impl Connection {
    /// Processes a segment.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        match self.state {
            State::Closed => self.in_closed(&segment.header),
            State::Listen => self.in_listen(now, segment),
            State::SynSent => self.in_syn_sent(now, segment),
            State::SynReceived | State::Open | State::TimeWait => self.in_window(now, segment),
        }
    }

    /// A segment for a closed connection: answers with a reset, unless it is a reset itself.
    ///
    /// Source: RFC 9293, section 3.10.7.1.
    fn in_closed(&mut self, header: &TcpSegment) {
        if !header.flags.any(TcpFlags::RST) && header.flags.any(TcpFlags::ACK) {
            self.reset = Some(header.ack);
        }
    }

    /// A segment in state LISTEN: accepts a SYN.
    ///
    /// Source: RFC 9293, section 3.10.7.2.
    fn in_listen(&mut self, now: Time, segment: &Segment) {
        let header = &segment.header;
        let plain = !header.flags.any(TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN);
        if header.flags.any(TcpFlags::SYN) && plain {
            self.learn(now, header);
            self.state = State::SynReceived;
            self.handshake.begin(now);
        }
    }

    /// A segment in state SYN-SENT: accepts a SYN-ACK, a SYN or a reset.
    ///
    /// Source: RFC 9293, section 3.10.7.3.
    fn in_syn_sent(&mut self, now: Time, segment: &Segment) {
        let header = &segment.header;
        let acknowledges = header.flags.any(TcpFlags::ACK);
        if acknowledges && header.ack != self.send_base {
            if !header.flags.any(TcpFlags::RST) {
                self.reset = Some(header.ack);
            }
            return;
        }
        if header.flags.any(TcpFlags::RST) {
            if acknowledges {
                self.end(Ending::Reset);
            }
            return;
        }
        if !header.flags.any(TcpFlags::SYN) {
            return;
        }
        self.learn(now, header);
        if acknowledges {
            self.establish(now, segment);
            self.receiver.acknowledge_at_once();
        } else {
            // Simultaneous open (RFC 9293, section 3.5, figure 7).
            self.state = State::SynReceived;
            self.handshake.again();
        }
    }

    /// A segment in a later state, except TIME-WAIT: checks its sequence number, and processes its
    /// flags, ACK and data.
    ///
    /// Source: RFC 9293, section 3.10.7.4.
    fn in_window(&mut self, now: Time, segment: &Segment) {
        let header = &segment.header;
        let base = self.receive_base.wrapping_add(low(self.receiver.next()));
        let offset = distance(header.seq, base);
        if self.is_stale(now, header)
            || !self.receiver.accepts(offset, u64::from(header.sequence_len()))
        {
            self.refuse(now, segment, offset);
            return;
        }
        if header.flags.any(TcpFlags::RST) {
            // Only the exact sequence number resets the connection (RFC 5961, section 3.2).
            if offset == 0 {
                // With all data sent and received, this end only waits for the last ACK.
                let ended = self.sender.busy().is_some_and(Sender::waits_for_end);
                let over = ended && self.receiver.is_finished();
                self.end(if over { Ending::Closed } else { Ending::Reset });
            } else {
                self.receiver.acknowledge_at_once();
            }
            return;
        }
        if header.flags.any(TcpFlags::SYN) {
            self.receiver.acknowledge_at_once();
            return;
        }
        if !header.flags.any(TcpFlags::ACK) {
            return;
        }
        if self.state == State::SynReceived {
            if header.ack != self.send_base {
                self.reset = Some(header.ack);
                return;
            }
            self.establish(now, segment);
        }
        self.note_timestamp(now, header);
        if self.acknowledge(now, segment) {
            self.take(now, segment, offset);
            self.finish_if_done(now);
        }
    }

    /// True if the timestamp shows an old duplicate (PAWS).
    ///
    /// Source: RFC 7323, section 5.3, rules R1 and R2; resets are exempt (section 5.2).
    fn is_stale(&self, now: Time, header: &TcpSegment) -> bool {
        let Some((value, _)) = header.timestamps.filter(|_| self.timestamps) else { return false };
        !header.flags.any(TcpFlags::RST)
            && distance(value, self.recent) < 0
            && now.since(self.recent_at) < PAWS_LIFE
    }

    /// Stores the timestamp of a segment, to echo it.
    ///
    /// Source: RFC 7323, section 4.3, rule 2.
    fn note_timestamp(&mut self, now: Time, header: &TcpSegment) {
        let Some((value, _)) = header.timestamps.filter(|_| self.timestamps) else { return };
        if distance(header.seq, self.last_ack) <= 0 {
            (self.recent, self.recent_at) = (value, now);
        }
    }

    /// Answers a segment outside the window with an ACK. If the peer lost the SYN-ACK, sends
    /// the SYN-ACK again.
    fn refuse(&mut self, now: Time, segment: &Segment, offset: i64) {
        let flags = segment.header.flags;
        if flags.any(TcpFlags::RST) {
            return;
        }
        if self.state == State::SynReceived && flags.any(TcpFlags::SYN) && offset == -1 {
            if flags.any(TcpFlags::ACK) && segment.header.ack == self.send_base {
                // Simultaneous open (RFC 9293, section 3.5, figure 7, line 5).
                self.establish(now, segment);
                self.receiver.acknowledge_at_once();
            } else {
                self.handshake.again();
            }
            return;
        }
        if self.state == State::TimeWait {
            self.time_wait_until = now + self.config.details.time_wait;
        }
        // A zero window accepts no data, but ACKs count.
        if offset == 0 && flags.any(TcpFlags::ACK) && self.state == State::Open {
            self.acknowledge(now, segment);
        }
        let details = &self.config.details;
        self.receiver.refuse(now, details, offset, u64::from(segment.header.payload));
    }

    /// Processes the acknowledgement. Returns `true` if the remainder of the segment may be
    /// processed.
    fn acknowledge(&mut self, now: Time, segment: &Segment) -> bool {
        let header = &segment.header;
        let una = self.sender.una();
        let una_number = self.send_base.wrapping_add(low(una));
        let ahead = distance(header.ack, una_number);
        let to = una.saturating_add_signed(ahead);
        if ahead > 0 && to > self.sender.next() {
            // The ACK is for data that was never sent.
            self.receiver.acknowledge_at_once();
            return false;
        }
        if ahead < 0 {
            return true;
        }
        let mut info = AckInfo {
            to,
            window: self.offered_window(header),
            pure: header.sequence_len() == 0,
            echo: header.flags.any(TcpFlags::ECE),
            echoed: self.echoed(now, header),
            ..AckInfo::default()
        };
        if header.has_sack {
            self.translate(&segment.sack, to, &mut info);
        }
        self.sender.acknowledge(&self.config, now, &info);
        true
    }

    /// Converts SACK blocks to stream offsets and omits invalid ones.
    ///
    /// Source: RFC 2018, section 5; RFC 2883, section 4 (a first block below the acknowledgement, or
    /// within the second, is a D-SACK).
    fn translate(&self, sack: &SackBlocks, to: u64, info: &mut AckInfo) {
        let number = self.send_base.wrapping_add(low(to));
        let mut first_range = None;
        for (index, (from, until)) in sack.as_slice().iter().enumerate() {
            let (left, right) = (distance(*from, number), distance(*until, number));
            if left >= right {
                continue;
            }
            let range = (to.saturating_add_signed(left), to.saturating_add_signed(right));
            if right <= 0 {
                if index == 0 {
                    info.duplicate = Some(range);
                }
                continue;
            }
            if left < 0 || range.1 > self.sender.next() {
                continue;
            }
            match (index, first_range) {
                (0, _) => first_range = Some(range),
                (1, Some((start, end))) if range.0 <= start && end <= range.1 => {
                    info.duplicate = Some((start, end));
                }
                _ => {}
            }
            info.blocks[info.count] = range;
            info.count += 1;
        }
    }

    /// The peer's window, unless the segment is older than the segment of the last update.
    ///
    /// Source: RFC 9293, section 3.10.7.4 (SND.WL1, SND.WL2).
    fn offered_window(&mut self, header: &TcpSegment) -> Option<u64> {
        let newer = distance(header.seq, self.window_from.0);
        if newer < 0 || (newer == 0 && distance(header.ack, self.window_from.1) < 0) {
            return None;
        }
        self.window_from = (header.seq, header.ack);
        Some(u64::from(header.window) << self.send_scale)
    }

    /// Send time of the segment whose timestamp is echoed.
    fn echoed(&self, now: Time, header: &TcpSegment) -> Option<Time> {
        let (_, echo) = header.timestamps.filter(|_| self.timestamps)?;
        let ago = u64::try_from(distance(self.clock(now), echo)).ok()?;
        (now.nanos() / 1_000_000).checked_sub(ago).map(Time::from_millis)
    }

    fn take(&mut self, now: Time, segment: &Segment, offset: i64) {
        let header = &segment.header;
        let fin = header.flags.any(TcpFlags::FIN);
        if header.payload == 0 && !fin {
            return;
        }
        let (before, finished) = (self.receiver.received(), self.receiver.is_finished());
        // After a FIN the next expected number is one beyond the last byte.
        let offset = offset + i64::from(finished);
        let arrival = Arrival {
            offset,
            len: u64::from(header.payload),
            fin,
            ecn: segment.ecn,
            reduced: header.flags.any(TcpFlags::CWR),
        };
        let taken = self.receiver.take(now, &self.config.details, arrival);
        if let (Some((from, to)), Some(arrived)) = (taken, &mut self.arrived) {
            arrived.push_back((from, to - from));
        }
        self.happened.readable |= self.receiver.received() > before;
        if !finished && self.receiver.is_finished() {
            self.happened.peer_closed = true;
            self.passive = !self.sender.busy().is_some_and(Sender::has_finished);
        }
    }

    /// Closes the connection if both streams have ended.
    fn finish_if_done(&mut self, now: Time) {
        let all_sent = self.sender.busy().is_some_and(Sender::is_done);
        if self.state != State::Open || !all_sent || !self.receiver.is_finished() {
            return;
        }
        if self.passive {
            self.end(Ending::Closed);
        } else {
            self.state = State::TimeWait;
            self.time_wait_until = now + self.config.details.time_wait;
        }
    }
}
