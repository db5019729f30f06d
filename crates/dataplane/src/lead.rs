//! Predicts how long before a deadline a thread must wake up to be in time.
//!
//! A thread runs some time after its timer expires, because the processor first finishes other work
//! and loads the thread's data. To be in time, a thread wakes up earlier by this latency, and then
//! spins until the deadline.

/// The lead time before a deadline: the longest recent wake-up latency.
///
/// If a thread wakes up faster, it spins until the deadline. It spins for at most
/// [`MOST`](Self::MOST) per deadline, and for at most one nanosecond in [`SHARE`](Self::SHARE).
/// If these limits shorten the lead time, the thread may be late. All times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Lead {
    /// The longest and the shortest recent latency; both decay.
    longest: u64,
    shortest: u64,
    /// Time that may be spent spinning now. Negative if too much was spent.
    credit: i64,
    /// Time at which `credit` was computed.
    since: u64,
}

impl Lead {
    /// Upper bound of spinning per deadline, in nanoseconds.
    ///
    /// Source: measured on two busy processors. The latency is 10 to 40 us, and more in one of
    /// twenty cases. For comparison, HTB in the kernel deviates by 30 us between its 1st and 99th
    /// percentile.
    pub(crate) const MOST: u64 = 50_000;

    /// The fraction of all time that may be spent spinning, as a divisor.
    ///
    /// Source: measured at 100 Mbit/s (8,300 packets per second): the loop takes 16 to 20 % of a
    /// core without spinning, and 23 to 27 % with it.
    const SHARE: u64 = 8;

    /// Decay of both latencies per deadline, as a divisor.
    const FORGET: u64 = 256;

    pub(crate) const fn new(now: u64) -> Self {
        Self { longest: Self::MOST, shortest: 2 * Self::MOST, credit: 0, since: now }
    }

    /// The lead time for the next deadline.
    pub(crate) fn at(&mut self, now: u64) -> u64 {
        let earned = now.saturating_sub(self.since) / Self::SHARE;
        self.credit = self.credit.saturating_add_unsigned(earned).min(Self::MOST.cast_signed());
        self.since += earned * Self::SHARE;
        self.longest.min(self.shortest.saturating_add_signed(self.credit))
    }

    /// Notes that the thread slept, and ran `latency` after its timer.
    pub(crate) fn woke(&mut self, latency: u64) {
        let latency = latency.min(2 * Self::MOST);
        self.longest = latency.max(self.longest - self.longest / Self::FORGET);
        self.shortest = latency.min(self.shortest + self.shortest / Self::FORGET + 1);
    }

    /// Notes that the thread spun for `span`.
    pub(crate) const fn spun(&mut self, span: u64) {
        self.credit = self.credit.saturating_sub_unsigned(span);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Simulates deadlines at intervals of `gap` with the given wake-up latencies. Returns the
    /// total time spent spinning, and the number of late returns.
    fn meet(lead: &mut Lead, start: u64, gap: u64, latencies: &[u64]) -> (u64, usize) {
        let (mut waited, mut late) = (0, 0);
        let mut now = start;
        for latency in latencies {
            let deadline = now + gap;
            let back = deadline - lead.at(now).min(gap) + latency;
            lead.woke(*latency);
            lead.spun(deadline.saturating_sub(back));
            waited += deadline.saturating_sub(back);
            late += usize::from(back > deadline);
            now = back.max(deadline);
        }
        (waited, late)
    }

    #[test]
    fn a_thread_is_in_time_once_its_wake_up_latency_is_known() {
        let mut lead = Lead::new(0);
        let (_, late) = meet(&mut lead, 10_000_000, 1_000_000, &[35_000; 100]);
        assert_eq!(late, 0);
        assert!(lead.at(500_000_000) < 45_000, "it learns");
        let (_, late) = meet(&mut lead, 500_000_000, 1_000_000, &[75_000; 100]);
        assert_eq!(late, 1);
    }

    #[test]
    fn a_thread_with_a_short_wake_up_latency_hardly_spins() {
        let mut lead = Lead::new(0);
        meet(&mut lead, 0, 1_000_000, &[1_000; 2_000]);
        let (waited, late) = meet(&mut lead, 3_000_000_000, 1_000_000, &[1_000; 100]);
        assert!(waited < 100 * 1_000 && late == 0, "{waited} ns, {late} late");
    }

    proptest! {
        /// Spinning takes no more than its share of the time, plus the credit at the start and the
        /// debt at the end.
        ///
        /// Catches: a lead time that the credit does not limit; spinning that uses up no credit;
        /// credit that grows without limit while the thread sleeps.
        #[test]
        fn spinning_takes_no_more_than_its_share(
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
