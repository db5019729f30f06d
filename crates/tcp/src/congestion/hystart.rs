//! HyStart++: ends slow start before packets are lost.
//!
//! Law: if the least round-trip time of a round exceeds that of the previous round by an eighth
//! (clamped to 4 to 16 ms), growth is divided by four. After five such rounds slow start ends. If
//! the round-trip time falls again, the increase was jitter, and slow start continues. This applies
//! to the first slow start of a connection only.
//!
//! Source: RFC 9406, sections 4.2 and 4.3, with its constants.
//! Differs: the limit of growth per ACK (L: 8 segments, or none with pacing) is that of the
//! sender's profile, as in any slow start.

use std::time::Duration;

use super::Ack;

/// Mode of slow start after an ACK.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The window grows at the full rate.
    Full,
    /// The growth is divided by [`GROWTH_DIVISOR`].
    Conservative,
    /// Slow start ends.
    Leave,
}

/// Divisor of the growth in conservative slow start (`CSS_GROWTH_DIVISOR`).
pub(super) const GROWTH_DIVISOR: u64 = 4;

/// Observes round-trip times in slow start.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    /// The round ends when this offset is acknowledged; `None` before the first ACK.
    round_end: Option<u64>,
    last_least: Option<Duration>,
    least: Option<Duration>,
    samples: u32,
    /// Conservative slow start: the least round-trip time at its start, and its number of rounds.
    conservative: Option<(Duration, u32)>,
}

impl HyStart {
    /// Evaluates an ACK that permits growth.
    pub(super) fn observe(&mut self, ack: &Ack) -> Verdict {
        let end = *self.round_end.get_or_insert(ack.sent);
        if let Some(rtt) = ack.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= ENOUGH {
            self.compare();
        }
        if ack.acknowledged >= end && self.end_round(ack.sent) {
            return Verdict::Leave;
        }
        if self.conservative.is_some() { Verdict::Conservative } else { Verdict::Full }
    }

    fn compare(&mut self) {
        let Some(least) = self.least else { return };
        match (self.conservative, self.last_least) {
            (Some((baseline, _)), _) if least < baseline => self.conservative = None,
            (None, Some(last)) if least >= last + threshold(last) => {
                self.conservative = Some((least, 0));
            }
            _ => {}
        }
    }

    /// Begins a round that ends at `end`. Returns true if slow start is over.
    fn end_round(&mut self, end: u64) -> bool {
        self.round_end = Some(end);
        self.last_least = self.least.take();
        self.samples = 0;
        let Some((_, rounds)) = &mut self.conservative else { return false };
        *rounds += 1;
        *rounds >= ROUNDS
    }
}

/// The least increase of the round-trip time that starts conservative slow start.
fn threshold(last: Duration) -> Duration {
    (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

// Bounds of the threshold (RFC 9406, section 4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// Least number of samples in a round (`N_RTT_SAMPLE`).
const ENOUGH: u32 = 8;
/// Rounds of conservative slow start (`CSS_ROUNDS`).
const ROUNDS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::super::testing::{SEGMENT, acknowledged};
    use super::*;

    /// Verdicts after each of the `acks` ACKs of round `round`, at this round-trip time.
    fn round(hystart: &mut HyStart, round: u64, acks: u64, micros: u64) -> Vec<Verdict> {
        let ack = |number: u64| Ack {
            rtt: Some(Duration::from_micros(micros)),
            acknowledged: (round * 100 + number * 100 / acks) * SEGMENT,
            sent: (round * 100 + 100 + number * 100 / acks) * SEGMENT,
            ..acknowledged(SEGMENT)
        };
        let first = Ack { sent: (round * 100 + 100) * SEGMENT, ..ack(1) };
        let mut verdicts = vec![hystart.observe(&first)];
        verdicts.extend((2..=acks).map(|number| hystart.observe(&ack(number))));
        verdicts
    }

    #[test]
    fn growth_slows_down_when_the_round_trip_time_has_grown_by_an_eighth() {
        // RFC 9406: RttThresh = max(4 ms, min(lastRoundMinRTT / 8, 16 ms)).
        // Catches: `>` in place of `>=`; a threshold without its bounds; an eighth of the current
        // round's value.
        for (base, least) in [(100_000, 112_500), (10_000, 14_000), (400_000, 416_000)] {
            for (micros, expected) in [(least - 1, Verdict::Full), (least, Verdict::Conservative)] {
                let mut hystart = HyStart::default();
                round(&mut hystart, 0, 10, base);
                let verdicts = round(&mut hystart, 1, 10, micros);
                assert_eq!(verdicts[9], expected, "{base} {micros}");
            }
        }
    }

    #[test]
    fn eight_samples_are_needed() {
        // Catches: a limit of seven or nine samples.
        let mut hystart = HyStart::default();
        round(&mut hystart, 0, 10, 100_000);
        let verdicts = round(&mut hystart, 1, 10, 130_000);
        assert_eq!((verdicts[6], verdicts[7]), (Verdict::Full, Verdict::Conservative));
        let mut hystart = HyStart::default();
        round(&mut hystart, 0, 10, 100_000);
        assert!(!round(&mut hystart, 1, 7, 130_000).contains(&Verdict::Conservative));
    }

    #[test]
    fn slow_start_ends_after_five_conservative_rounds() {
        // Catches: an end after four or six rounds; a partial round that does not count.
        let mut hystart = HyStart::default();
        round(&mut hystart, 0, 10, 100_000);
        for number in 1..=4 {
            let verdicts = round(&mut hystart, number, 10, 120_000);
            assert_eq!(verdicts[9], Verdict::Conservative, "round {number}");
        }
        assert_eq!(round(&mut hystart, 5, 10, 120_000)[9], Verdict::Leave);
    }

    #[test]
    fn a_lower_round_trip_time_resumes_full_slow_start() {
        // RFC 9406, section 4.2: slow start resumes, with HyStart++.
        // Catches: `<=` in place of `<`; a conservative slow start that never ends.
        let mut hystart = HyStart::default();
        round(&mut hystart, 0, 10, 100_000);
        round(&mut hystart, 1, 10, 120_000);
        assert_eq!(round(&mut hystart, 2, 10, 120_000)[9], Verdict::Conservative);
        assert_eq!(round(&mut hystart, 3, 10, 119_999)[9], Verdict::Full);
        // The threshold is now 119.999 + 14.999 ms.
        assert_eq!(round(&mut hystart, 4, 10, 134_990)[9], Verdict::Full);
        assert_eq!(round(&mut hystart, 5, 10, 160_000)[9], Verdict::Conservative);
    }
}
