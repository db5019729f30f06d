//! The tracker `paper`: it sees the data packets only, and finds rounds by the gaps between them.
//!
//! A sender transmits its window in a burst, then waits for ACKs. So a packet begins a round if it arrives more than
//! `RTT / k` after the previous packet. The time between the starts of two rounds is a sample of the round-trip time:
//! `RTT = a * RTT + (1 - a) * sample`. The packets of a round are the window.
//!
//! A window grows by at most one segment per round. After a round of 10 segments, the next round
//! has at most 11, so the twelfth segment begins another round even without a gap. The paper calls
//! this rule the *safeguard*.
//!
//! Source: `marking`, section 2.1, equation (4) (gap) and the safeguard.
//!
//! Differs:
//! - A flow without an observed handshake begins with an RTT of 100 ms. The paper takes the time between its first two
//!   packets.
//! - The first round ends after one RTT at the latest, because there is no previous round for the safeguard.
//! - The variant `paper+idle` takes no sample from a gap of more than two RTT.

use super::Sighting;
use super::rounds::{FIRST_RTT, IDLE_ROUNDS, Micros, RoundState, SegmentOrder, data, segments};
use crate::packet::{Packet, TcpFlags, TcpSegment};
use crate::{Factor, Time, parameters};

parameters! {
    /// Parameters of the rule that finds rounds.
    ///
    /// Source: `marking`, section 2.1 (K from 10 to 100 and a from 0.7 to 1 differ little).
    pub Config {
        /// A gap of more than `RTT / k` between packets ends a round.
        k: u32 = 10, in 1.., "write 10 for gaps of a tenth of a round trip";
        /// Weight of the old round-trip time against a new sample.
        a: Factor = Factor::from_millionths(900_000), in Factor::ZERO..=Factor::ONE, "write 0.9 to give a new sample a tenth";
    }
}

impl Config {
    pub(super) fn with(self, k: Option<u32>, a: Option<Factor>) -> Result<Self, &'static str> {
        let config = Self { k: k.unwrap_or(self.k), a: a.unwrap_or(self.a) };
        if config.k == 0 {
            return Err("`k` must not be zero; write 10 for gaps of a tenth of a round trip");
        }
        if config.a > Factor::ONE {
            return Err("`a` must be from 0 to 1; write 0.9 to give a new sample a tenth");
        }
        Ok(config)
    }

    /// The parameters in compact form. `skips_idle` is `true` for `paper+idle`.
    pub(super) fn gaps(&self, skips_idle: bool) -> Gaps {
        let a = self.a.of(1 << 16).min(u64::from(u16::MAX));
        Gaps {
            k: u16::try_from(self.k).unwrap_or(u16::MAX),
            a: u16::try_from(a).unwrap_or(u16::MAX),
            skips_idle,
        }
    }
}

/// The parameters of a tracker, in compact form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Gaps {
    /// A gap of more than `RTT / k` begins a round.
    k: u16,
    /// Weight of the old RTT against a new sample, in units of 1/65536.
    a: u16,
    /// `true` if a gap of more than two RTT gives no sample.
    skips_idle: bool,
}

/// State of the tracker for one flow.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// The current round and the previous one.
    pub(super) rounds: RoundState,
    gaps: Gaps,
    /// Only the SYN has arrived yet, at the time `rounds.start`.
    opening: bool,
}

impl Paper {
    /// A tracker for a flow whose first packet is `seen`.
    pub(super) fn new(gaps: Gaps, seen: &Sighting<'_>) -> Self {
        let mut paper = Self { rounds: RoundState::default(), gaps, opening: false };
        paper.restart(seen);
        paper
    }

    /// Forgets all earlier packets, because `seen` is the first packet of a new connection.
    pub(super) fn restart(&mut self, seen: &Sighting<'_>) {
        (self.rounds, self.opening) = (RoundState::default(), false);
        self.rounds.rtt = FIRST_RTT;
        self.rounds.begin(seen.now);
        self.rounds.last = Micros::of(seen.now);
        let Some(segment) = data(seen) else { return };
        if segment.flags.any(TcpFlags::SYN) {
            self.opening = true;
            self.rounds.expect(segment.end_seq());
        } else {
            let order = self.rounds.order(segment);
            self.rounds.count(seen, segment, order);
        }
    }

    /// Notes a packet. Returns `true` if start, RTT or window of the round changed.
    pub(super) fn on_arrival(&mut self, seen: &Sighting<'_>) -> bool {
        let Some(segment) = data(seen) else { return false };
        self.on_segment(seen, segment, self.rounds.order(segment))
    }

    /// Notes a SYN or a data segment, whose position is `order`. Returns the same as [`on_arrival`](Self::on_arrival).
    pub(super) fn on_segment(
        &mut self,
        seen: &Sighting<'_>,
        segment: &TcpSegment,
        order: SegmentOrder,
    ) -> bool {
        if segment.flags.any(TcpFlags::SYN) {
            // A SYN opens a new connection only if the flow was idle. A SYN between data is stray (RFC 9293,
            // section 3.10.7.4).
            let begins = self.opening || self.rounds.is_idle(seen.now);
            if begins {
                self.restart(seen);
            }
            return begins;
        }
        if order == SegmentOrder::Elsewhere {
            self.restart(seen);
            return true;
        }
        if self.opening {
            self.opening = false;
            self.rounds.rtt = Micros::of(seen.now).since(self.rounds.start).max(1);
            self.rounds.begin(seen.now);
            self.rounds.count(seen, segment, order);
            return true;
        }
        let begins = self.begins(seen.now, seen.packet);
        if begins {
            self.begin(seen.now);
        }
        self.rounds.count(seen, segment, order) || begins
    }

    /// Returns `true` if this packet begins a round, by the gap before it (equation 4) or by the safeguard.
    fn begins(&self, now: Time, packet: &Packet) -> bool {
        let rounds = &self.rounds;
        let gap = u64::from(Micros::of(now).since(rounds.last));
        let overfull = match rounds.segments_before {
            0 => Micros::of(now).since(rounds.start) > rounds.rtt,
            before => rounds.segments.saturating_add(segments(packet)) > before.saturating_add(1),
        };
        overfull || gap * u64::from(self.gaps.k) > u64::from(rounds.rtt)
    }

    fn begin(&mut self, now: Time) {
        let (clock, rounds) = (Micros::of(now), &mut self.rounds);
        let idle = clock.since(rounds.last) > rounds.rtt.saturating_mul(IDLE_ROUNDS);
        if !(idle && self.gaps.skips_idle) {
            let (old, new) = (u64::from(self.gaps.a), (1 << 16) - u64::from(self.gaps.a));
            let sample = u64::from(clock.since(rounds.start));
            let sum = old * u64::from(rounds.rtt) + new * sample;
            // Rounded to the nearest microsecond. If it were rounded down, the RTT would shrink by half a microsecond
            // per round.
            rounds.rtt = u32::try_from((sum + (1 << 15)) >> 16).unwrap_or(u32::MAX).max(1);
        }
        rounds.begin(now);
    }

    /// Returns `true` if only a SYN has arrived yet.
    pub(super) const fn is_opening(&self) -> bool {
        self.opening
    }
}
