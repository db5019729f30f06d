//! Outstanding credit: bytes requested from senders that have not arrived yet. Each entry expires.

use std::time::Duration;

use crate::Time;

/// Outstanding credit, by the *day* on which it expires. A day is a tick of about a millisecond.
///
/// Source: `postack`, R001-9 P3 (the `O_C` of a class).
pub(super) struct Calendar {
    /// Bytes whose credit expires on each of the [`days`], modulo [`DAYS`].
    days: Vec<u32>,
    total: u64,
    /// The current day. Credit of earlier days has expired.
    today: u64,
    /// No earlier day holds credit.
    first: u64,
}

impl Default for Calendar {
    fn default() -> Self {
        Self { days: vec![0; DAYS], total: 0, today: 0, first: 0 }
    }
}

impl Calendar {
    /// Adds credit for `bytes`. It expires after `span`, or after about two seconds if that is sooner.
    pub(super) fn add(&mut self, now: Time, span: Duration, bytes: u32) {
        self.expire(now);
        let day = runs_out(now, span).min(self.today + LAST);
        self.first = self.first.min(day);
        let entry = &mut self.days[place(day)];
        let before = *entry;
        *entry = entry.saturating_add(bytes);
        self.total += u64::from(*entry - before);
    }

    /// Notes that `bytes` of data arrived. `left` is the remaining lifetime of the credit that requested
    /// the data. The data uses this credit first, then older credit, and finally credit of up to a day later.
    ///
    /// Credit that is older than the used credit expires unused. If data used the oldest credit first,
    /// newer credit would replace it, and no credit would ever expire. If data used still newer credit,
    /// that credit would be gone before its own data arrives. The gate would then count too little
    /// outstanding data and request more, and a queue that is too long would stay too long.
    pub(super) fn take(&mut self, now: Time, left: Duration, mut bytes: u32) {
        self.expire(now);
        let own = runs_out(now, left).min(self.today + LAST - 1);
        for day in (self.first..=own).rev().chain((own + 1).max(self.first)..=own + 1) {
            if bytes == 0 || self.total == 0 {
                break;
            }
            let entry = &mut self.days[place(day)];
            let used = bytes.min(*entry);
            *entry -= used;
            bytes -= used;
            self.total -= u64::from(used);
        }
        while self.total > 0 && self.days[place(self.first)] == 0 {
            self.first += 1;
        }
    }

    /// Outstanding credit at `now`, in bytes.
    pub(super) fn total(&mut self, now: Time) -> u64 {
        self.expire(now);
        self.total
    }

    /// Time at which credit next expires.
    pub(super) fn next(&self) -> Option<Time> {
        self.below(self.total)
    }

    /// Time at which less than `limit` bytes of credit remain, if no data arrives. `None` without credit.
    pub(super) fn below(&self, limit: u64) -> Option<Time> {
        if self.total == 0 {
            return None;
        }
        let mut left = self.total;
        let runs_low = |day: &u64| {
            left -= u64::from(self.days[place(*day)]);
            left < limit
        };
        let day = (self.first..=self.today + LAST).find(runs_low)?;
        Some(Time::from_nanos((day + 1) << DAY_BITS))
    }

    fn expire(&mut self, now: Time) {
        let now = days(now);
        while self.today < now && self.total > 0 {
            let entry = std::mem::take(&mut self.days[place(self.today)]);
            self.total -= u64::from(entry);
            self.today += 1;
        }
        self.today = self.today.max(now);
        self.first = self.first.max(self.today);
    }
}

/// A day is `2^20` ns, about a millisecond.
const DAY_BITS: u32 = 20;
/// Number of days: they cover two seconds.
const DAYS: usize = 2_048;
const LAST: u64 = 2_047;

/// The day on which credit that lasts for `span` expires. It is rounded up, so no credit expires early.
fn runs_out(now: Time, span: Duration) -> u64 {
    days(now + span) + 1
}

const fn days(time: Time) -> u64 {
    time.nanos() >> DAY_BITS
}

#[expect(clippy::as_conversions, reason = "less than DAYS")]
const fn place(day: u64) -> usize {
    (day & LAST) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    #[test]
    fn leave_runs_out_after_its_span_and_not_before() {
        let mut calendar = Calendar::default();
        calendar.add(MS(1_000), Duration::from_millis(20), 500);
        calendar.add(MS(1_000), Duration::from_secs(9), 70);
        assert_eq!(calendar.total(MS(1_020)), 570);
        let next = calendar.below(570).unwrap();
        assert!(next >= MS(1_020) && next < MS(1_030), "{next:?}");
        assert!(calendar.below(70).unwrap() > MS(3_000), "the rest runs out, to the last byte");
        assert_eq!(calendar.total(next), 70);
        assert_eq!((calendar.total(MS(4_000)), calendar.below(1)), (0, None));
    }

    /// Catches: data without credit that uses the credit of later data.
    #[test]
    fn data_uses_its_own_credit_then_older_and_no_newer_credit() {
        let mut calendar = Calendar::default();
        for ms in [20, 60, 200] {
            calendar.add(MS(0), Duration::from_millis(ms), 100);
        }
        calendar.take(MS(10), Duration::from_millis(50), 150);
        assert_eq!(calendar.total(MS(10)), 150); // half of the oldest, all of the youngest
        calendar.take(MS(10), Duration::from_millis(50), 100); // more than its credit
        assert_eq!(calendar.total(MS(10)), 100);
        calendar.take(MS(50), Duration::ZERO, 60);
        assert_eq!(calendar.total(MS(50)), 100);
        calendar.take(MS(50), Duration::from_millis(150), 60);
        assert_eq!(calendar.total(MS(50)), 40);
        calendar.take(MS(50), Duration::from_secs(9), 100);
        assert_eq!((calendar.total(MS(50)), calendar.below(1)), (0, None));
    }

    /// Catches: use of the oldest credit first.
    #[test]
    fn unused_credit_expires_although_there_is_newer_credit() {
        let mut calendar = Calendar::default();
        let (near, lasts) = (40, Duration::from_millis(60));
        calendar.add(MS(0), lasts, 5_000); // no data arrives
        for ms in 0..400 {
            calendar.add(MS(ms), lasts, 100);
            if ms >= near {
                calendar.take(MS(ms), Duration::from_millis(60 - near), 100);
            }
        }
        assert_eq!(calendar.total(MS(400)), near * 100);
    }
}
