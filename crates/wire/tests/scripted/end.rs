//! A scripted TCP end point: sends data with a fixed window, and acknowledges data according to its
//! script.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_core::Time;
use tidegate_core::packet::{Ecn, TcpFlags, TcpSegment};
use tidegate_wire::build::Frame;

pub(crate) const MSS: u32 = 1_400;

/// The TCP features that the end points of a run use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Script {
    pub(crate) v6: bool,
    /// The end that accepts the connection sends data, too.
    pub(crate) both_ways: bool,
    pub(crate) ecn: EcnScript,
    pub(crate) mptcp: bool,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    /// Type of an option that every ACK has. The body of the option is a counter.
    pub(crate) option: Option<u8>,
    /// Number of segments per ACK.
    pub(crate) stretch: u32,
    /// One of `loss` segments is lost between the gateway and its receiver. Zero means no losses.
    pub(crate) loss: u32,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum EcnScript {
    #[default]
    None,
    Classic,
    Accurate,
    /// AccECN counters, although the SYNs did not negotiate AccECN.
    Unsaid,
}

/// The fields of a segment that belong to its ACK.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SegmentFields {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) payload: u32,
    /// All twelve control bits.
    pub(crate) flags: u16,
    pub(crate) window: u16,
    /// Timestamp value. In `options`, it is set to zero.
    pub(crate) value: u32,
    pub(crate) options: Vec<u8>,
}

impl SegmentFields {
    /// The fields of the segment in `frame`, whose TCP header is `tcp`.
    pub(crate) fn of(frame: &[u8], tcp: &TcpSegment) -> Self {
        let at = if frame[12..14] == [0x86, 0xdd] { 54 } else { 34 };
        let header = &frame[at..at + usize::from(frame[at + 12] >> 4) * 4];
        let mut options = header[20..].to_vec();
        if tcp.timestamps.is_some() {
            options[4..8].fill(0); // The timestamps option comes first, after two NOPs.
        }
        Self {
            seq: tcp.seq,
            ack: tcp.ack,
            payload: tcp.payload,
            flags: u16::from_be_bytes([header[12] & 15, header[13]]),
            window: tcp.window,
            value: tcp.timestamps.map_or(0, |(value, _)| value),
            options,
        }
    }

    /// The SACK blocks as bytes.
    pub(crate) fn blocks(&self) -> &[u8] {
        let at = self.options.windows(3).position(|it| it == [1, 1, 5]);
        at.map_or(&[], |at| &self.options[at + 4..])
    }

    pub(crate) const fn has(&self, flags: u8) -> bool {
        self.flags & u16::from_be_bytes([0, flags]) != 0
    }
}

/// One end of the connection.
pub(crate) struct End {
    script: Script,
    addresses: [SocketAddr; 2],
    /// This end opened the connection.
    pub(crate) first: bool,
    pub(crate) next: u32,
    una: u32,
    end: u32,
    recover: u32,
    duplicates: u32,
    progress: Time,
    pub(crate) received_up_to: u32,
    /// Ranges of data that arrived beyond a gap, newest first.
    beyond: Vec<(u32, u32)>,
    pending: u32,
    recent: u32,
    /// Number of received packets with CE. `echo`: ECE is due (RFC 3168). `reduced`: CWR is due.
    pub(crate) marked: u32,
    echo: bool,
    reduced: bool,
    reduce_at: u32,
    emitted: u32,
    pub(crate) sent: Vec<SegmentFields>,
    pub(crate) received: Vec<SegmentFields>,
}

const fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}

/// Segments in flight: more than the bandwidth-delay product, so that the gateway holds ACKs.
const WINDOW: u32 = 40;

impl End {
    pub(crate) fn new(script: Script, first: bool, bytes: u32) -> Self {
        let pair = |a: &str, b: &str| [a, b].map(|it| it.parse().unwrap());
        let ends = match script.v6 {
            true => pair("[fd00::1]:1000", "[fd00::2]:80"),
            false => pair("10.0.0.1:1000", "192.0.2.1:80"),
        };
        let isn: u32 = if first { 1_000 } else { 0_u32.wrapping_sub(50_000) };
        Self {
            script,
            addresses: if first { ends } else { [ends[1], ends[0]] },
            first,
            next: isn,
            una: isn.wrapping_add(1),
            end: isn.wrapping_add(1).wrapping_add(bytes),
            recover: isn,
            duplicates: 0,
            progress: Time::ZERO,
            received_up_to: 0,
            beyond: Vec::new(),
            pending: 0,
            recent: 0,
            marked: 0,
            echo: false,
            reduced: false,
            reduce_at: isn,
            emitted: 0,
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.una == self.end
    }

    /// The SYN of this end. If `answers` is `true`, it is a SYN-ACK.
    pub(crate) fn syn(&mut self, now: Time, answers: bool) -> Vec<u8> {
        let mut flags = TcpFlags::SYN | if answers { TcpFlags::ACK } else { 0 };
        let mut high = 0;
        match (self.script.ecn, answers) {
            (EcnScript::Accurate, false) => {
                (flags, high) = (flags | TcpFlags::ECE | TcpFlags::CWR, 1);
            }
            (EcnScript::Accurate, true) => flags |= TcpFlags::CWR,
            (EcnScript::Classic, false) => flags |= TcpFlags::ECE | TcpFlags::CWR,
            (EcnScript::Classic, true) => flags |= TcpFlags::ECE,
            (EcnScript::None | EcnScript::Unsaid, _) => {}
        }
        let mut more = vec![2, 4, 5, 120, 1, 3, 3, 7];
        if self.script.sack {
            more.extend([1, 1, 4, 2]);
        }
        if self.script.mptcp {
            more.extend([30, 4, 0x01, 0x01]);
        }
        let frame = self.frame(now, self.next, flags, high, 0, &more);
        self.next = self.next.wrapping_add(1);
        frame
    }

    /// Processes a segment. Returns the frames to send in response.
    pub(crate) fn receive(&mut self, now: Time, sent: SegmentFields, ce: bool) -> Vec<Vec<u8>> {
        self.received.push(sent.clone());
        if sent.has(TcpFlags::SYN) {
            self.received_up_to = sent.seq.wrapping_add(1);
            self.recent = sent.value;
            self.progress = now;
            let answer = if self.first { self.ack(now) } else { self.syn(now, true) };
            let data = if self.first { self.send(now) } else { Vec::new() };
            return [vec![answer], data].concat();
        }
        let mut out = self.on_ack(now, &sent);
        if sent.payload > 0 {
            self.on_data(&sent, ce);
        }
        out.extend(self.send(now));
        let due = self.pending >= self.script.stretch.max(1) || !self.beyond.is_empty();
        if sent.payload > 0 && self.pending > 0 && due {
            out.push(self.ack(now));
        }
        out
    }

    fn on_ack(&mut self, now: Time, sent: &SegmentFields) -> Vec<Vec<u8>> {
        let echoes = self.script.ecn == EcnScript::Classic && sent.has(TcpFlags::ECE);
        if echoes && !before(self.una, self.reduce_at) {
            (self.reduced, self.reduce_at) = (true, self.next);
        }
        if before(self.una, sent.ack) {
            (self.una, self.duplicates, self.progress) = (sent.ack, 0, now);
            if before(self.una, self.recover) {
                return vec![self.data(now, self.una)];
            }
        } else if sent.ack == self.una && sent.payload == 0 && self.next != self.una {
            self.duplicates += 1;
            if self.duplicates == 3 {
                self.recover = self.next;
                return vec![self.data(now, self.una)];
            }
        }
        Vec::new()
    }

    fn on_data(&mut self, sent: &SegmentFields, ce: bool) {
        if sent.has(TcpFlags::CWR) && self.script.ecn == EcnScript::Classic {
            self.echo = false;
        }
        if ce {
            self.marked += 1;
            self.echo = true;
        }
        self.pending += 1;
        let range = (sent.seq, sent.seq.wrapping_add(sent.payload));
        if range.0 == self.received_up_to {
            self.recent = sent.value;
            self.received_up_to = range.1;
            while let Some(at) = self.beyond.iter().position(|it| it.0 == self.received_up_to) {
                self.received_up_to = self.beyond.remove(at).1;
            }
        } else {
            self.pending = self.script.stretch.max(1);
            if before(self.received_up_to, range.0) {
                self.beyond.retain(|it| *it != range);
                self.beyond.insert(0, range);
            }
        }
    }

    /// The frames with new data that the window permits.
    pub(crate) fn send(&mut self, now: Time) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while self.next != self.end && self.next.wrapping_sub(self.una) < WINDOW * MSS {
            out.push(self.data(now, self.next));
            self.next = self.next.wrapping_add(MSS);
        }
        out
    }

    /// The retransmissions after a timeout. Empty if no timeout has expired.
    pub(crate) fn time_out(&mut self, now: Time) -> Vec<Vec<u8>> {
        if self.una == self.next || now.since(self.progress) < Duration::from_millis(2_500) {
            return Vec::new();
        }
        (self.progress, self.recover) = (now, self.next);
        vec![self.data(now, self.una)]
    }

    fn data(&mut self, now: Time, seq: u32) -> Vec<u8> {
        let flags = TcpFlags::ACK | TcpFlags::PSH;
        let flags = flags | if std::mem::take(&mut self.reduced) { TcpFlags::CWR } else { 0 };
        self.segment(now, seq, flags, MSS)
    }

    fn ack(&mut self, now: Time) -> Vec<u8> {
        self.segment(now, self.next, TcpFlags::ACK, 0)
    }

    fn segment(&mut self, now: Time, seq: u32, flags: u8, payload: u32) -> Vec<u8> {
        self.pending = 0;
        self.emitted += 1;
        let (mut flags, mut high) = (flags, 0);
        match self.script.ecn {
            EcnScript::None => {}
            EcnScript::Classic => flags |= if self.echo { TcpFlags::ECE } else { 0 },
            EcnScript::Accurate | EcnScript::Unsaid => {
                // RFC 9768, section 3.2.2.1: the ACE counter begins with 5.
                let ace = (self.marked + 5) & 7;
                high = u8::try_from(ace >> 2).unwrap();
                let [cwr, ece] = [ace & 2 != 0, ace & 1 != 0];
                flags = flags & !(TcpFlags::CWR | TcpFlags::ECE)
                    | if cwr { TcpFlags::CWR } else { 0 }
                    | if ece { TcpFlags::ECE } else { 0 };
            }
        }
        let mut more = Vec::new();
        let counter = self.emitted.to_be_bytes();
        if self.script.mptcp {
            // A DSS option with a four-byte DATA_ACK (RFC 8684, section 3.3.1).
            more.extend([30, 8, 0x20, 0x01]);
            more.extend(counter);
        }
        if let Some(kind) = self.script.option {
            more.extend([kind, 6]);
            more.extend(counter);
            more.extend([1, 1]);
        }
        if self.script.sack && !self.beyond.is_empty() {
            let blocks = &self.beyond[..self.beyond.len().min(2)];
            more.extend([1, 1, 5, u8::try_from(2 + 8 * blocks.len()).unwrap()]);
            blocks
                .iter()
                .for_each(|(a, b)| more.extend([a, b].map(|it| it.to_be_bytes()).concat()));
        }
        self.frame(now, seq, flags, high, payload, &more)
    }

    fn frame(
        &mut self,
        now: Time,
        seq: u32,
        flags: u8,
        high_flags: u8,
        payload: u32,
        more: &[u8],
    ) -> Vec<u8> {
        let mut frame = Frame::tcp(self.addresses[0], self.addresses[1]);
        frame.payload = vec![0; usize::try_from(payload).unwrap()];
        if payload > 0 && self.script.ecn != EcnScript::None {
            frame.ip_mut().unwrap().ecn = Ecn::Ect0;
        }
        let tcp = frame.tcp_mut().unwrap();
        (tcp.seq, tcp.flags, tcp.high_flags) = (seq, TcpFlags(flags), high_flags);
        tcp.ack = if flags & TcpFlags::ACK != 0 { self.received_up_to } else { 0 };
        // A window of 64,000 bytes, which ACK control never reduces at this rate.
        tcp.window = 500;
        let value = u32::try_from(now.nanos() / 100_000).unwrap() + 1;
        if self.script.timestamps {
            tcp.options.extend([1, 1, 8, 10]);
            tcp.options.extend([value, self.recent].map(u32::to_be_bytes).as_flattened());
        }
        tcp.options.extend(more);
        let options = tcp.options.clone();
        let mut sent = SegmentFields {
            seq,
            ack: tcp.ack,
            payload,
            flags: u16::from_be_bytes([high_flags, flags]),
            window: 500,
            value: if self.script.timestamps { value } else { 0 },
            options,
        };
        if self.script.timestamps {
            sent.options[4..8].fill(0);
        }
        self.sent.push(sent);
        frame.bytes()
    }
}
