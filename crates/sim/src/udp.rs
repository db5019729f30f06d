//! UDP sources: when they send, and how long their packets are.

use std::time::Duration;

use tidegate_core::random::Random;
use tidegate_core::{Rate, Time};

use crate::draw::spaced;
use crate::scenario::{Distribution, Kind};

/// A source of UDP packets.
///
/// With bursts, the source sends exactly its rate, averaged over the bursts: a part of a packet
/// that did not fit into one burst counts in the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emitter {
    /// Start of sending. With bursts, every pause moves this time later, as if the source had
    /// started later and never paused.
    began: Time,
    /// Packets sent.
    sent: u64,
    /// End of the current burst.
    until: Time,
}

impl Emitter {
    /// A source that starts at `now`.
    pub(crate) const fn new(now: Time) -> Self {
        Self { began: now, sent: 0, until: now }
    }

    /// The length of the next packet. Call it at the time that [`next`](Self::next) returned.
    pub(crate) fn emit(&mut self, kind: &Kind) -> Option<u32> {
        let len = match kind {
            Kind::Constant { packet, .. } | Kind::Bursts { packet, .. } => *packet,
            Kind::Packets { packets } => packets.get(self.place())?.1,
            _ => return None,
        };
        self.sent += 1;
        Some(len)
    }

    /// Time of the next packet; `None` after the last one.
    pub(crate) fn next(&mut self, kind: &Kind, random: &mut Random) -> Option<Time> {
        match kind {
            Kind::Constant { rate, packet } => Some(self.began + spaced(self.sent, *packet, *rate)),
            Kind::Bursts { rate, packet, on, off } => {
                Some(self.next_in_burst(*rate, *packet, on, off, random))
            }
            Kind::Packets { packets } => {
                packets.get(self.place()).map(|(after, _)| self.began + *after)
            }
            _ => None,
        }
    }

    fn next_in_burst(
        &mut self,
        rate: Rate,
        packet: u32,
        on: &Distribution<Duration>,
        off: &Distribution<Duration>,
        random: &mut Random,
    ) -> Time {
        if self.until == self.began && self.sent == 0 {
            self.until = self.began + on.draw(random);
        }
        loop {
            let next = self.began + spaced(self.sent, packet, rate);
            if next < self.until || self.until == Time::MAX {
                return next;
            }
            let silent = off.draw(random);
            self.began += silent;
            self.until = self.until + silent + on.draw(random);
        }
    }

    fn place(&self) -> usize {
        usize::try_from(self.sent).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Rate;

    use super::*;

    fn times(kind: &Kind, n: usize) -> Vec<u64> {
        let mut random = Random::new(1, 1);
        let mut emitter = Emitter::new(Time::from_millis(10));
        let mut next = || {
            let at = emitter.next(kind, &mut random)?;
            emitter.emit(kind).map(|_| at.nanos() / 1_000_000)
        };
        std::iter::from_fn(&mut next).take(n).collect()
    }

    #[test]
    fn a_constant_rate_sends_packets_at_equal_intervals() {
        let kind = Kind::Constant { rate: Rate::from_mbps(1), packet: 1_000 };
        assert_eq!(times(&kind, 4), [10, 18, 26, 34]);
    }

    /// Catches: a source that starts every burst with a packet.
    #[test]
    fn bursts_send_at_their_rate_while_they_last() {
        let ms = |n| Distribution::Constant(Duration::from_millis(n));
        let (rate, packet) = (Rate::from_mbps(1), 1_000);
        let kind = Kind::Bursts { rate, packet, on: ms(20), off: ms(100) };
        // Packets are 8 ms apart during bursts: from 10 to 30, from 130 to 150, from 250 to 270.
        assert_eq!(times(&kind, 8), [10, 18, 26, 134, 142, 250, 258, 266]);
        let kind = Kind::Bursts { rate, packet, on: ms(3), off: ms(7) };
        assert_eq!(times(&kind, 4), [10, 32, 61, 90]);
    }

    #[test]
    fn listed_packets_are_sent_at_their_times() {
        let ms = Duration::from_millis;
        let kind = Kind::Packets { packets: vec![(ms(0), 60), (ms(5), 90), (ms(5), 60)] };
        assert_eq!(times(&kind, 9), [10, 15, 15]);
    }
}
