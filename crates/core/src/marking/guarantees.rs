//! Guarantees of classes that share a buffer: a delay bound is a limit of the class's backlog.
//!
//! A class `n` with the delay bound `d_n`, whose last packet waited `D_n`, needs the rate
//!
//! ```text
//! r_n = max(mu_n, B_n / (d_n - D_n))     (11), and C if d_n <= D_n
//! ```
//!
//! for a backlog `B_n`. The guarantees hold while the sum of these rates is at most the rate `C` of
//! the link (12). For the class this means
//!
//! ```text
//! B_n <= (d_n - D_n) * (C - sum of r_m of the other classes)
//! ```
//!
//! So a class with a delay bound is an account like the buffer, with its own limit and with the
//! rate in parentheses for `C`. Inequality (7) is tested for both. If a class would exceed its
//! limit, its own flows are marked.
//!
//! Source: `marking`, section 2.4.
//! Differs: the rate of an account is the rate that the other classes do not need. The paper
//! projects with the current rate `r_n` of the class. Without a backlog that rate is zero, so flows
//! were marked although the scheduler would have served them. The class then kept 3.7 to 4.0 Mbit/s
//! of its 5 (`marking/exp2`, three seeds).

use super::Observed;
use crate::class::ClassId;
use crate::packet::number;
use crate::scheduler::ClassState;
use crate::{Bytes, Rate};

/// The account of class `n`, in the form of a place of its own. `len` is the length of the arriving
/// packet, and `projected` returns the backlog of another class at the time of the test. `None` if
/// the class has no delay bound.
pub(super) fn account(
    seen: &Observed<'_>,
    len: Bytes,
    n: usize,
    projected: impl Fn(usize, &ClassState) -> Bytes,
) -> Option<Observed<'static>> {
    let class = seen.classes.get(n)?;
    let bound = class.delay_bound?;
    let arrives = |m: usize| if ClassId(number(m)) == seen.class { len } else { Bytes::ZERO };
    let needs = |(m, class): (usize, &ClassState)| {
        required(class, projected(m, class) + arrives(m), seen.rate).bps()
    };
    let others = seen.classes.iter().enumerate().filter(|(m, _)| *m != n);
    let others = others.map(needs).fold(0, u64::saturating_add);
    let left = Rate::from_bps(seen.rate.bps().saturating_sub(others));
    let limit = left.bytes_in(bound.saturating_sub(class.delay));
    let empty = Observed::empty(seen.now, seen.direction, left, limit);
    Some(Observed { backlog: class.backlog + arrives(n), ..empty })
}

/// The rate that a class with this backlog needs for its guarantees.
///
/// Source: `marking`, equation (11).
fn required(class: &ClassState, backlog: Bytes, link: Rate) -> Rate {
    let Some(bound) = class.delay_bound.filter(|_| backlog > Bytes::ZERO) else {
        return class.guarantee;
    };
    let left = bound.saturating_sub(class.delay).as_nanos();
    let needed = u128::from(backlog.0) * 8_000_000_000;
    match needed.checked_div(left) {
        Some(bps) => {
            let bps = u64::try_from(bps).unwrap_or(u64::MAX);
            Rate::from_bps(bps.min(link.bps()).max(class.guarantee.bps()))
        }
        None => link,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Time;
    use crate::packet::Direction;

    const LINK: Rate = Rate::from_mbps(40);

    fn class(backlog: u64, guarantee: u64, bound: Option<u64>, delay: u64) -> ClassState {
        ClassState {
            rate: Rate::from_mbps(10),
            backlog: Bytes(backlog),
            guarantee: Rate::from_mbps(guarantee),
            delay_bound: bound.map(Duration::from_millis),
            delay: Duration::from_millis(delay),
        }
    }

    fn limit(classes: &[ClassState], n: usize) -> Option<Bytes> {
        let empty = Observed::empty(Time::ZERO, Direction::Up, LINK, Bytes(100_000));
        let seen = Observed { classes, class: ClassId(9), ..empty };
        account(&seen, Bytes::ZERO, n, |_, class| class.backlog).map(|account| account.limit)
    }

    /// Catches: the bound without the past delay; the link's whole rate; a guarantee that counts
    /// twice.
    #[test]
    fn a_delay_bound_limits_the_backlog_to_what_departs_within_it() {
        let link = class(0, 0, None, 0);
        let gold = class(0, 5, Some(10), 4);
        let silver = class(50_000, 8, None, 70);
        let classes = [link, gold, silver];
        // 32 of 40 Mbit/s for 6 ms.
        assert_eq!(limit(&classes, 1), Some(Bytes(24_000)));
        assert_eq!(limit(&classes, 2), None);
    }

    /// Catches: other classes that need only their guarantees; a late class that needs nothing.
    #[test]
    fn other_classes_take_the_rate_that_their_bounds_need() {
        let other = class(5_000, 1, Some(10), 8);
        let classes = [class(0, 0, None, 0), class(0, 0, Some(10), 0), other];
        // The other class needs 5,000 B in 2 ms: 20 Mbit/s.
        assert_eq!(limit(&classes, 1), Some(Bytes(25_000)));
        let late = class(5_000, 1, Some(10), 10);
        assert_eq!(limit(&[classes[0], classes[1], late], 1), Some(Bytes::ZERO));
        assert_eq!(limit(&[classes[0], late, class(0, 0, None, 0)], 1), Some(Bytes::ZERO));
    }
}
