//! Invariants of all meters, for random schedules.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::meter::{PeakSpacing, TokenBucket};
use tidegate_core::{Bytes, Rate, Time};

/// A bucket, and requests as (nanoseconds since the last request, bytes).
///
/// Rates cover all magnitudes from 1 kbit/s to 100 Gbit/s. Requests come at about the rate, with
/// pauses. A bucket that is always full or always empty would reveal no mistakes.
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

/// Time before a request, in percent of its bytes' time at the bucket's rate.
fn pauses() -> impl Strategy<Value = u128> {
    prop_oneof![8 => 50u128..120, 1 => 120u128..2_000]
}

/// Bytes that left at `from`. They count until `to`.
struct Sent {
    from: Time,
    to: Time,
    bytes: u64,
}

/// Returns `true` if the bytes in some window exceed `extra + rate * window` (`extra` in
/// `bits/s * ns`).
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
    /// A source that takes all it can get stays within the arrival curve `depth + rate * window`.
    ///
    /// Catches: no limit at the depth; `updated` not advanced by a refill; one nanosecond too many in
    /// `elapsed`.
    #[test]
    fn admits_no_more_than_its_profile((rate, depth, requests) in schedules()) {
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

    /// A query changes no later grant of the bucket.
    ///
    /// Catches: tokens rounded down to bytes at each refill.
    #[test]
    fn looking_is_free((rate, depth, requests) in schedules()) {
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

    /// `ready_at` is neither late nor early, even for packets longer than the depth.
    ///
    /// Catches: division rounded down; `len` not limited to the depth.
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

    /// A new rate holds from the time of the change. Tokens that fit into the bucket stay the same.
    ///
    /// Catches: `set` without its refill; `set` that fills the bucket.
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
    /// Catches: `due` rounded down; the tolerance granted twice; `due` counted from the last due time
    /// alone.
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
                last.to = now; // A packet's time ends when the next one leaves.
            }
            taken.push(Sent { from: now, to: Time::MAX, bytes: n });
        }
        // The clock counts whole nanoseconds. So a packet may be up to one late, and later ones
        // catch up.
        let allowed = u128::from(rate.bps()) * (tolerance.as_nanos() + 1);
        let over = exceeded(&taken, allowed, rate);
        prop_assert!(over.is_none(), "{over:?}");
    }
}
