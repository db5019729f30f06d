//! The three-way handshake: the options that SYNs offer and their negotiated result.
//!
//! Methods of `Connection`, whose fields are in `connection.rs`.

use std::time::Duration;

use tidegate_base::Time;
use tidegate_base::packet::{Ecn, LEAST_MSS, TcpFlags, TcpSegment};

use super::{Connection, MOST_SYNS, State};
use crate::profile::{Config, Details, EcnMode, Recovery};
use crate::segment::Segment;
use crate::sender::{Agreed, Cx};

/// Offers of a SYN, and the state of its retransmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    /// A SYN must be sent now.
    waiting: bool,
    sent: u8,
    /// Number of doublings of the next wait.
    backoff: u8,
    sent_at: Time,
    deadline: Time,
    mss: u16,
    scale: u8,
    /// Options of the peer's SYN.
    peer_mss: u16,
    peer_ecn: bool,
    peer_scaled: bool,
}

impl Handshake {
    pub(super) fn new(config: &Config) -> Self {
        let needed = (0..14).find(|scale| config.receive_window.0 >> scale <= u64::from(u16::MAX));
        Self {
            waiting: false,
            sent: 0,
            backoff: 0,
            sent_at: Time::ZERO,
            deadline: Time::MAX,
            mss: config.mss,
            scale: config.window_scale.or(needed).unwrap_or(14),
            peer_mss: DEFAULT_MSS,
            peer_ecn: false,
            peer_scaled: false,
        }
    }

    pub(super) fn begin(&mut self, now: Time) {
        (self.waiting, self.deadline) = (true, now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        (self.deadline != Time::MAX).then_some(self.deadline)
    }

    /// True if a SYN must be sent by now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.waiting || self.deadline <= now
    }

    /// True if the SYN was sent so often that the connection is given up.
    pub(super) const fn is_hopeless(&self) -> bool {
        self.sent > MOST_SYNS
    }

    /// Notes that a SYN departs. Returns `true` if it is the first.
    pub(super) fn sent(&mut self, now: Time, details: &Details) -> bool {
        self.waiting = false;
        self.deadline = now + syn_timeout(details, self.backoff);
        (self.sent, self.backoff) = (self.sent + 1, self.backoff + 1);
        if self.sent == 1 {
            self.sent_at = now;
        }
        self.sent == 1
    }

    /// Removes the backoff: the next SYN is due as after a single SYN.
    pub(super) fn hasten(&mut self, details: &Details) {
        if self.deadline != Time::MAX && self.backoff > 1 {
            let (first, last) = (syn_timeout(details, 0), syn_timeout(details, self.backoff - 1));
            self.deadline = self.deadline.before(last.saturating_sub(first));
            self.backoff = 1;
        }
    }

    /// Repeats the SYN, because the peer did not receive it.
    pub(super) fn again(&mut self) {
        self.waiting = true;
    }

    /// Repeats the SYN at once, because the peer did not listen before. This SYN counts as the
    /// second. The wait for its answer is as long as for the first SYN.
    pub(super) fn retry_at_once(&mut self) {
        (self.waiting, self.backoff, self.sent) = (true, 0, self.sent.min(1));
    }

    /// Round-trip time of a SYN that was sent once (Karn).
    fn rtt(&self, now: Time) -> Option<Duration> {
        (self.sent == 1).then(|| now.since(self.sent_at))
    }
}

/// The peer's segment size if its SYN does not state it (RFC 9293, section 3.7.1).
const DEFAULT_MSS: u16 = 536;

/// Bytes of the timestamp option in every segment (RFC 7323, appendix A).
const TIMESTAMP_BYTES: u16 = 12;

/// Wait for an answer to a SYN that follows `earlier_syns` SYNs.
fn syn_timeout(details: &Details, earlier_syns: u8) -> Duration {
    (details.rto_initial * (1 << earlier_syns.min(10))).min(details.rto_max)
}

impl Connection {
    /// The SYN or SYN-ACK that this end sends.
    pub(super) fn syn(&mut self, now: Time) -> Segment {
        let answer = self.state == State::SynReceived;
        let offers = self.handshake.sent == 0 || !self.config.details.ecn_fallback;
        let mut flags = TcpFlags::SYN;
        if answer {
            flags |= TcpFlags::ACK;
        }
        if self.config.details.ecn != EcnMode::Off {
            match answer {
                true if self.handshake.peer_ecn => flags |= TcpFlags::ECE,
                // Some paths drop SYNs with these bits.
                false if offers => flags |= TcpFlags::ECE | TcpFlags::CWR,
                _ => {}
            }
        }
        let timestamps = if answer { self.timestamps } else { self.config.details.timestamps };
        let scaling = self.config.details.window_scaling && (!answer || self.handshake.peer_scaled);
        let sack = self.config.details.recovery == Recovery::Sack && (!answer || self.peer_sack);
        let ack = if answer { self.receive_base } else { 0 };
        self.last_ack = ack;
        // A SYN also advertises the window and acknowledges all received data.
        self.receiver.acknowledged();
        Segment {
            header: TcpSegment {
                seq: self.send_base.wrapping_sub(1),
                ack,
                timestamps: timestamps.then(|| (self.clock(now), self.recent)),
                // The window of a SYN is not scaled.
                window: self.receiver.offer(),
                mss: self.handshake.mss,
                flags: TcpFlags(flags),
                window_scale: scaling.then_some(self.handshake.scale),
                sack_permitted: sack,
                ..TcpSegment::default()
            },
            ecn: Ecn::NotEct,
            ..Segment::default()
        }
    }

    /// Stores the offers of the peer's SYN.
    pub(super) fn learn(&mut self, now: Time, syn: &TcpSegment) {
        self.receive_base = syn.seq.wrapping_add(1);
        if syn.mss != 0 {
            self.handshake.peer_mss = syn.mss.max(LEAST_MSS);
        }
        if let (true, Some(scale)) = (self.config.details.window_scaling, syn.window_scale) {
            self.send_scale = scale.min(14);
            self.receive_scale = self.handshake.scale;
            self.handshake.peer_scaled = true;
        }
        self.peer_sack = syn.sack_permitted && self.config.details.recovery == Recovery::Sack;
        if let (true, Some((value, _))) = (self.config.details.timestamps, syn.timestamps) {
            self.timestamps = true;
            (self.recent, self.recent_at) = (value, now);
        }
        let bits = syn.flags;
        // A SYN requests ECN with both bits. The answer to it grants ECN with one bit (RFC 3168,
        // section 6.1.1).
        let asks = bits.any(TcpFlags::ECE) && bits.any(TcpFlags::CWR);
        let grants = bits.any(TcpFlags::ECE) && !bits.any(TcpFlags::CWR);
        let answered = bits.any(TcpFlags::ACK);
        let can = self.config.details.ecn != EcnMode::Off;
        self.handshake.peer_ecn = can && if answered { grants } else { asks };
    }

    /// Notes that the handshake is complete. `segment` completed it.
    pub(super) fn establish(&mut self, now: Time, segment: &Segment) {
        let syn = segment.header.flags.any(TcpFlags::SYN);
        let scale = if syn { 0 } else { self.send_scale };
        let options = if self.timestamps { TIMESTAMP_BYTES } else { 0 };
        let payload =
            self.handshake.mss.min(self.handshake.peer_mss).saturating_sub(options).max(1);
        let agreed = Agreed {
            segment: u32::from(payload),
            sack: self.peer_sack,
            ecn: self.handshake.peer_ecn,
            window: u64::from(segment.header.window) << scale,
        };
        let cx = Cx { now, details: &self.config.details };
        let lost = self.handshake.sent.saturating_sub(1);
        self.sender.establish(cx, agreed, self.handshake.rtt(now), lost);
        self.receiver.establish(self.receive_scale, self.handshake.peer_ecn, &self.config.details);
        self.window_from = (segment.header.seq, segment.header.ack);
        self.state = State::Open;
        self.happened.established = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    /// Catches: a profile that repeats its offer of ECN too rarely or too often.
    #[test]
    fn a_repeated_syn_offers_ecn_only_if_the_profile_says_so() {
        for (profile, again) in [(Profile::Ns2, true), (Profile::Rfc, false)] {
            let mut config = Config::new(profile);
            config.details.ecn = EcnMode::Classic;
            let mut connection = Connection::connect(&config, Time::ZERO, 1);
            let mut offers = |now| {
                let flags = connection.poll_transmit(now).unwrap().segment.header.flags;
                flags.any(TcpFlags::ECE) && flags.any(TcpFlags::CWR)
            };
            assert_eq!((offers(Time::ZERO), offers(Time::from_millis(3_000))), (true, again));
        }
    }

    /// Catches: a connection that is given up for its earlier SYNs although the peer now listens.
    #[test]
    fn a_peer_that_now_listens_gets_a_syn_after_any_number_of_syns() {
        let config = Config::new(Profile::Linux);
        let mut connection = Connection::connect(&config, Time::ZERO, 1);
        let mut asked = 0;
        while let Some(at) = connection.poll_timeout().filter(|_| asked <= MOST_SYNS) {
            asked += u8::from(connection.poll_transmit(at).is_some());
        }
        let now = connection.poll_timeout().unwrap().before(Duration::from_secs(1));
        assert!(connection.poll_transmit(now).is_none());
        connection.knock_again();
        assert!(connection.poll_transmit(now).is_some());
        assert_eq!(connection.poll_timeout(), Some(now + config.details.rto_initial));
    }
}
