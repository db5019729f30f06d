//! The reserve: the time for which windows let ACKs be held, as short as the held ACKs permit.
//!
//! A window has the data of a round trip and of the reserve. If a sender fills it, its ACKs are held for about
//! the reserve. While other senders pause or recover, these ACKs request the data that fills the rate. The fewest
//! ACKs that were held at any time of an interval were not needed in it. By Little's law their hold was
//!
//! `standing = interval * fewest / departed`. If it exceeds 20 ms: `reserve -= standing - 20 ms`.
//!
//! The reserve is 20 ms at least, and half of the longest hold at most. It begins there. If an ACK arrives
//! while none is held, windows may be too small. The reserve then grows by an eighth of a round trip and of
//! itself, once in a round trip: as fast as windows grow. A flow that recovers from a loss uses up its held
//! ACKs, so the reserve stays long while losses are frequent.
//!
//! Source: RFC 8289, section 3.2 (the standing queue is the minimum over an interval); Little's law, doi
//! 10.1287/opre.9.3.383.
//!
//! Differs: an interval lasts for the longest hold and two round trips. It begins an interval after the
//! reserve became shorter, as few ACKs are held while windows shrink. If an interval has lasted for four times its
//! length, as in a pause, the reserve is that of the beginning.

use std::time::Duration;

use super::constants::{AHEAD, GROWTH};
use super::hold::Counts;
use crate::Time;

/// The reserve of an aggregate's windows, and the measurement that corrects it.
pub(super) struct Reserve {
    span: Duration,
    /// Beginning of the interval. It may lie in the future.
    since: Time,
    /// Fewest held ACKs in the interval.
    fewest: u32,
    /// Held ACKs that had departed before the interval.
    departed: u64,
}

impl Reserve {
    /// The reserve of an aggregate whose ACKs are held for `longest` at most.
    pub(super) fn new(longest: Duration) -> Self {
        Self { span: longest / 2, since: Time::ZERO, fewest: 0, departed: 0 }
    }

    /// The time for which windows let ACKs be held.
    pub(super) const fn span(&self) -> Duration {
        self.span
    }

    /// Notes the state at the arrival of an ACK: `counts` of the held ACKs, and the flow's round trip `way`.
    pub(super) fn look(&mut self, now: Time, way: Duration, longest: Duration, counts: &Counts) {
        let departed = counts.delayed.saturating_sub(counts.held.into());
        let (passed, interval) = (now.since(self.since), longest + way * 2);
        self.fewest = self.fewest.min(counts.held);
        let mut next = now;
        if passed > interval * 4 {
            self.span = longest / 2;
        } else if counts.held == 0 && passed >= way {
            self.span = (self.span + (way + self.span) / GROWTH).min(longest / 2);
        } else if passed >= interval {
            let all = departed.saturating_sub(self.departed).max(1);
            let standing = passed * self.fewest / u32::try_from(all).unwrap_or(u32::MAX);
            if self.fewest > 0 && standing > AHEAD {
                let least = AHEAD.min(longest / 2);
                self.span = (self.span + AHEAD).saturating_sub(standing).max(least);
                next = now + interval;
            }
        } else if now >= self.since {
            return;
        } else {
            next = self.since;
        }
        (self.since, self.fewest, self.departed) = (next, counts.held, departed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(1);
    const WAY: Duration = Duration::from_millis(50);

    /// ACKs arrive and depart every 5 ms from `from` to `until`, both in ms. `held(ms)` ACKs are held.
    fn play(reserve: &mut Reserve, from: u64, until: u64, held: impl Fn(u64) -> u32) {
        for ms in (from..until).step_by(5) {
            let held = held(ms);
            let delayed = ms / 5 + u64::from(held);
            let counts = Counts { held, delayed, ..Counts::default() };
            reserve.look(Time::from_millis(ms), WAY, LONGEST, &counts);
        }
    }

    /// Milliseconds of the reserve.
    fn ms(reserve: &Reserve) -> u128 {
        reserve.span().as_millis()
    }

    /// Catches: a reserve that becomes shorter by the mean hold, or by all of the standing hold.
    /// Catches: a second correction by ACKs that were held before the first one has an effect.
    #[test]
    fn acks_that_stand_for_long_shorten_the_reserve_to_20_ms_of_standing_hold() {
        let mut reserve = Reserve::new(LONGEST);
        // In the second interval of 1.1 s, 60 of up to 120 ACKs stand for 300 ms.
        play(&mut reserve, 0, 2_300, |ms| if ms % 100 < 50 { 120 } else { 60 });
        assert_eq!(ms(&reserve), 220);
        // In the 1.1 s that follow, windows become smaller.
        play(&mut reserve, 2_300, 5_500, |ms| if ms < 3_300 { 60 } else { 4 });
        assert_eq!(ms(&reserve), 220);
        play(&mut reserve, 5_500, 9_000, |_| 200);
        assert_eq!(ms(&reserve), 20);
    }

    /// Catches: a reserve that becomes shorter although held ACKs were used up for a moment.
    /// Catches: a reserve that stays short while no ACK is held, or grows beyond half of the longest hold.
    #[test]
    fn acks_that_are_used_up_keep_the_reserve_and_make_a_short_one_longer() {
        let mut reserve = Reserve::new(LONGEST);
        play(&mut reserve, 0, 5_000, |ms| if ms % 1_000 == 0 { 0 } else { 100 });
        assert_eq!(ms(&reserve), 500);
        play(&mut reserve, 5_000, 9_000, |_| 200);
        assert_eq!(ms(&reserve), 20);
        // By an eighth of 50 ms and of itself in each of three round trips.
        play(&mut reserve, 9_500, 9_655, |_| 0);
        assert!((40..60).contains(&ms(&reserve)), "{}", ms(&reserve));
        play(&mut reserve, 9_655, 14_000, |_| 0);
        assert_eq!(ms(&reserve), 500);
    }

    /// Catches: a short reserve at the first ACKs after a pause of all flows.
    #[test]
    fn after_a_pause_the_reserve_is_that_of_the_beginning() {
        let mut reserve = Reserve::new(LONGEST);
        play(&mut reserve, 0, 5_000, |_| 200);
        assert_eq!(ms(&reserve), 20);
        play(&mut reserve, 15_000, 15_005, |_| 0);
        assert_eq!(ms(&reserve), 500);
    }
}
