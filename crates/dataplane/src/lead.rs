//! How long before a deadline to come back, so as to be there in time.
//!
//! A thread that sleeps runs some time after its timer: the processor finishes what it is at, and
//! fetches what the thread needs. Who comes back that much earlier and waits out the rest is exact.

/// How long before a deadline to come back: as long as that has lately taken at most.
///
/// Who then comes back as fast as ever waits awake for [`MOST`](Self::MOST), and never for more than
/// one nanosecond in [`SHARE`](Self::SHARE): what is longer is slept through, however late that
/// ends. All times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Lead {
    /// The longest that coming back has lately taken, and the shortest.
    longest: u64,
    shortest: u64,
    /// How long there may be waiting awake now; negative after more than that.
    credit: i64,
    /// When `credit` was that.
    since: u64,
}

impl Lead {
    /// The longest wait for those who come back as fast as ever.
    ///
    /// Source: measured, on two busy processors: coming back takes 10 to 40 us, in one case of
    /// twenty more. HTB, which need not come back, is 30 us off between its 1st and 99th percentile.
    pub(crate) const MOST: u64 = 50_000;

    /// What part of all time may be spent waiting, as a divisor.
    ///
    /// Source: measured, at 100 Mbit/s (8,300 packets per second) the loop takes 16 to 20 % of a
    /// core, and with this 23 to 27 %.
    const SHARE: u64 = 8;

    /// What part of what is remembered is forgotten with each deadline, as a divisor.
    const FORGET: u64 = 256;

    pub(crate) const fn new(now: u64) -> Self {
        Self { longest: Self::MOST, shortest: 2 * Self::MOST, credit: 0, since: now }
    }

    /// How long before a deadline to come back.
    pub(crate) fn at(&mut self, now: u64) -> u64 {
        let earned = now.saturating_sub(self.since) / Self::SHARE;
        self.credit = self.credit.saturating_add_unsigned(earned).min(Self::MOST.cast_signed());
        self.since += earned * Self::SHARE;
        self.longest.min(self.shortest.saturating_add_signed(self.credit))
    }

    /// The thread slept, and came back `latency` after its timer.
    pub(crate) fn came_back(&mut self, latency: u64) {
        let latency = latency.min(2 * Self::MOST);
        self.longest = latency.max(self.longest - self.longest / Self::FORGET);
        self.shortest = latency.min(self.shortest + self.shortest / Self::FORGET + 1);
    }

    /// The thread waited awake for so long.
    pub(crate) const fn waited(&mut self, span: u64) {
        self.credit = self.credit.saturating_sub_unsigned(span);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Meets deadlines `gap` apart, coming back late as told; what was waited, and how often late.
    fn meet(lead: &mut Lead, start: u64, gap: u64, latencies: &[u64]) -> (u64, usize) {
        let (mut waited, mut late) = (0, 0);
        let mut now = start;
        for latency in latencies {
            let deadline = now + gap;
            let back = deadline - lead.at(now).min(gap) + latency;
            lead.came_back(*latency);
            lead.waited(deadline.saturating_sub(back));
            waited += deadline.saturating_sub(back);
            late += usize::from(back > deadline);
            now = back.max(deadline);
        }
        (waited, late)
    }

    #[test]
    fn it_is_in_time_as_soon_as_it_knows_how_long_coming_back_takes() {
        let mut lead = Lead::new(0);
        let (_, late) = meet(&mut lead, 10_000_000, 1_000_000, &[35_000; 100]);
        assert_eq!(late, 0);
        assert!(lead.at(500_000_000) < 45_000, "it learns");
        let (_, late) = meet(&mut lead, 500_000_000, 1_000_000, &[75_000; 100]);
        assert_eq!(late, 1);
    }

    #[test]
    fn who_comes_back_at_once_waits_hardly_at_all() {
        let mut lead = Lead::new(0);
        meet(&mut lead, 0, 1_000_000, &[1_000; 2_000]);
        let (waited, late) = meet(&mut lead, 3_000_000_000, 1_000_000, &[1_000; 100]);
        assert!(waited < 100 * 1_000 && late == 0, "{waited} ns, {late} late");
    }

    proptest! {
        /// Waiting takes no more than its share of the time, and what it may have saved up or owe.
        ///
        /// Kills: `self.longest` for the least of it and the credit; `waited` without effect; a
        /// credit that `MOST` does not limit.
        #[test]
        fn waiting_takes_no_more_than_its_share(
            pause in 0u64..10_000_000,
            gap in 1_000u64..200_000,
            latencies in prop::collection::vec(
                prop_oneof![9 => 0u64..3_000, 1 => 0u64..120_000],
                1..400,
            ),
        ) {
            let mut lead = Lead::new(0);
            let most = Lead::MOST;
            let (waited, _) = meet(&mut lead, pause, gap, &latencies);
            let count = u64::try_from(latencies.len()).unwrap();
            let longest = count * gap + latencies.iter().sum::<u64>();
            prop_assert!(lead.at(u64::MAX) <= 2 * most);
            prop_assert!(waited <= 3 * most + longest / Lead::SHARE, "{waited} of {longest}");
        }
    }
}
