//! The tracker of the paper: packets in one direction, and the gaps between them.
//!
//! A packet that arrives more than RTT/K after the previous one begins a round. The round's RTT sample is
//! the time between the starts of two rounds: `RTT = a RTT + (1 - a) sample`. The window is the number of
//! packets in a round. It grows by at most one segment per round, so a further packet also begins a round
//! (the safeguard).
//!
//! Source: `marking`, section 2.1.
//!
//! Differs: a flow without an observed handshake begins with an RTT of 100 ms, and no spacing of two
//! packets. The first round has no predecessor, so it ends after an RTT at the latest. The variant
//! `paper+idle` takes no sample from a gap of more than two RTT.

use super::Sighting;
use super::rounds::{FIRST_RTT, IDLE_ROUNDS, Micros, RoundState, SegmentOrder, data, segments};
use crate::packet::{Packet, TcpFlags, TcpSegment};
use crate::{Factor, Time, parameters};

parameters! {
    /// Rule that separates rounds.
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

    /// The parameters in the form that a tracker stores.
    pub(super) fn gaps(&self, skips_idle: bool) -> Gaps {
        let a = self.a.of(1 << 16).min(u64::from(u16::MAX));
        Gaps {
            k: u16::try_from(self.k).unwrap_or(u16::MAX),
            a: u16::try_from(a).unwrap_or(u16::MAX),
            skips_idle,
        }
    }
}

/// The parameters of one tracker, in compact form.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Gaps {
    /// A gap of more than RTT/K begins a round.
    k: u16,
    /// Weight of the old RTT, in 65536ths.
    a: u16,
    /// A gap of more than two RTT gives no sample.
    skips_idle: bool,
}

/// State of a flow, observed in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    pub(super) rounds: RoundState,
    gaps: Gaps,
    /// Only the SYN was seen; it arrived at `rounds.start`.
    opening: bool,
}

impl Paper {
    /// A tracker whose only packet so far is `seen`.
    pub(super) fn new(gaps: Gaps, seen: &Sighting<'_>) -> Self {
        let mut paper = Self { rounds: RoundState::default(), gaps, opening: false };
        paper.restart(seen);
        paper
    }

    /// Forgets the flow's earlier connection, and begins with `seen`.
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

    /// Notes a packet. Returns `true` if start, RTT or window changed.
    pub(super) fn on_arrival(&mut self, seen: &Sighting<'_>) -> bool {
        let Some(segment) = data(seen) else { return false };
        self.on_segment(seen, segment, self.rounds.order(segment))
    }

    /// Notes a SYN or data segment with this order. Returns the same as
    /// [`on_arrival`](Self::on_arrival).
    pub(super) fn on_segment(
        &mut self,
        seen: &Sighting<'_>,
        segment: &TcpSegment,
        order: SegmentOrder,
    ) -> bool {
        if segment.flags.any(TcpFlags::SYN) {
            // A SYN between data is stray (RFC 9293, section 3.10.7.4); a closed connection has
            // been idle.
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

    /// True if this packet begins a round, by equation (4) or the safeguard.
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
            // Rounded to the nearest microsecond; otherwise each round would lose half of one.
            rounds.rtt = u32::try_from((sum + (1 << 15)) >> 16).unwrap_or(u32::MAX).max(1);
        }
        rounds.begin(now);
    }

    /// True if only a SYN was seen.
    pub(super) const fn is_opening(&self) -> bool {
        self.opening
    }
}
