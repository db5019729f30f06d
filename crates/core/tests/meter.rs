//! Invariants of the token bucket, and of the spacing that keeps the peak rate, for random
//! schedules.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::meter::{PeakSpacing, TokenBucket};
use tidegate_core::{Bytes, Rate, Time};

/// A token bucket's rate and depth, and requests as pairs: nanoseconds since the last request, and
/// bytes.
///
/// Rates cover all magnitudes from 1 kbit/s to 100 Gbit/s. Requests come at about the rate, with
/// pauses. A bucket that is always full or always empty would reveal no faults.
fn schedules() -> impl Strategy<Value = (Rate, Bytes, Vec<(u64, u64)>)> {
    let rate = (1u64..1_000, 3u32..9).prop_map(|(digits, zeros)| digits * 10u64.pow(zeros));
    let requests = prop::collection::vec((pauses(), 1u64..1_500), 1..100);
    (rate, 1_500u64..6_000, requests).prop_map(|(rate, depth, requests)| {
        let rate = Rate::from_bps(rate);
        let gap = |(percent, n)| {
            let nanos = rate.time_for(Bytes(n)).as_nanos() * percent / 100;
            (u64::try_from(nanos).unwrap_or(u64::MAX), n)
        };
        (rate, Bytes(depth), requests.into_iter().map(gap).collect())
    })
}

/// Time before a request, in percent of the time that its bytes take at the bucket's rate.
fn pauses() -> impl Strategy<Value = u128> {
    prop_oneof![8 => 50u128..120, 1 => 120u128..2_000]
}

/// Bytes of one granted request.
struct Sent {
    /// Start of a window that begins with these bytes.
    from: Time,
    /// End of a window that ends with these bytes.
    to: Time,
    bytes: u64,
}

/// Returns the first window whose bytes exceed `extra + rate * window`. `extra` is in
/// `bits/s * ns`.
fn exceeded(sent: &[Sent], extra: u128, rate: Rate) -> Option<String> {
    for (first, Sent { from, .. }) in sent.iter().enumerate() {
        let mut sum = 0;
        for Sent { to, bytes, .. } in &sent[first..] {
            sum += u128::from(*bytes) * 8_000_000_000;
            let window = to.since(*from).as_nanos();
            if sum > extra + u128::from(rate.bps()) * window {
                return Some(format!("{sum} bit/s * ns within {window} ns"));
            }
        }
    }
    None
}

proptest! {
    /// A source that takes as much as it can get stays within the arrival curve
    /// `depth + rate * window`.
    ///
    /// Catches: tokens beyond the depth; a refill that counts the same time twice; an elapsed time
    /// that is one nanosecond too long.
    #[test]
    fn a_greedy_source_stays_within_the_profile((rate, depth, requests) in schedules()) {
        let mut bucket = TokenBucket::new(rate, depth, Time::ZERO);
        let mut now = Time::ZERO;
        let mut taken = Vec::new();
        for (gap, _) in requests {
            now += Duration::from_nanos(gap);
            let n = bucket.available(now);
            prop_assert!(bucket.try_take(now, n));
            taken.push(Sent { from: now, to: now, bytes: n.0 });
        }
        let over = exceeded(&taken, u128::from(depth.0) * 8_000_000_000, rate);
        prop_assert!(over.is_none(), "{over:?}");
    }

    /// A query for the tokens changes no later grant.
    ///
    /// Catches: tokens that are rounded down to bytes at each refill.
    #[test]
    fn queries_change_no_later_grant((rate, depth, requests) in schedules()) {
        let mut watched = TokenBucket::new(rate, depth, Time::ZERO);
        let mut alone = watched.clone();
        let mut now = 0;
        for (gap, n) in requests {
            for look in 1..=7 {
                watched.available(Time::from_nanos(now + gap * look / 7));
            }
            now += gap;
            let at = Time::from_nanos(now);
            prop_assert_eq!(watched.try_take(at, Bytes(n)), alone.try_take(at, Bytes(n)));
        }
    }

    /// `ready_at` is neither too late nor too early, even for packets longer than the depth.
    ///
    /// Catches: a time that is rounded down; a packet longer than the depth that waits forever.
    #[test]
    fn ready_at_is_tight((rate, depth, requests) in schedules()) {
        let mut bucket = TokenBucket::new(rate, depth, Time::ZERO);
        let mut now = Time::ZERO;
        for (_, n) in requests {
            let n = Bytes(n * 3);
            let at = bucket.ready_at(n);
            if at > now {
                let just_before = Time::from_nanos(at.nanos() - 1);
                prop_assert!(!bucket.clone().try_take(just_before, n));
            }
            now = at.max(now);
            prop_assert!(bucket.try_take(now, n));
        }
    }

    /// A new rate applies from the time of the change. Tokens within the new depth are kept.
    ///
    /// Catches: a change without a refill at the old rate; a change that fills the bucket.
    #[test]
    fn a_change_keeps_the_tokens((rate, depth, requests) in schedules(), factor in 1u64..9, after in 1_000u64..6_000) {
        let mut bucket = TokenBucket::new(rate, depth, Time::ZERO);
        let mut now = Time::ZERO;
        for (gap, n) in requests {
            now += Duration::from_nanos(gap);
            bucket.try_take(now, Bytes(n));
        }
        let later = now + rate.time_for(Bytes(100));
        let before = bucket.clone().available(later);
        bucket.set(later, Rate::from_bps(rate.bps() * factor), Bytes(after));
        prop_assert_eq!(bucket.available(later), before.min(Bytes(after)));
    }

    /// A source that sends as early as possible keeps the peak rate in every window.
    ///
    /// Catches: a due time that is rounded down; a tolerance that is granted twice; a source that
    /// catches up on an idle time.
    #[test]
    fn packets_keep_the_peak_rate((rate, _, requests) in schedules(), tolerance in 0u64..3) {
        let tolerance = rate.time_for(Bytes(1_000)) * u32::try_from(tolerance).unwrap();
        let mut peak = PeakSpacing::new(rate, tolerance);
        let mut now = Time::from_secs(1_000_000);
        let mut taken: Vec<Sent> = Vec::new();
        for (gap, n) in requests {
            now = now.max(peak.ready_at());
            if gap % 5 == 0 {
                now += Duration::from_nanos(gap);
            }
            prop_assert!(peak.try_take(now, Bytes(n)));
            if let Some(last) = taken.last_mut() {
                last.to = now; // A packet's time ends when the next packet departs.
            }
            taken.push(Sent { from: now, to: Time::MAX, bytes: n });
        }
        // Times are whole nanoseconds, so a packet may be up to one nanosecond late. Later packets
        // catch up.
        let allowed = u128::from(rate.bps()) * (tolerance.as_nanos() + 1);
        let over = exceeded(&taken, allowed, rate);
        prop_assert!(over.is_none(), "{over:?}");
    }
}
