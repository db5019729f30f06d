//! Delay bounds of classes that share a buffer, as limits of their backlogs.
//!
//! Let class `n` have the guaranteed rate `mu_n`, the delay bound `d_n` and the backlog `B_n`. The packet that it sent last
//! had waited `D_n`. To keep its bound, the class needs the rate
//!
//! ```text
//! r_n = max(mu_n, B_n / (d_n - D_n))     (11), and the whole link rate C if d_n <= D_n
//! ```
//!
//! All bounds hold while the sum of these rates is at most `C`, the rate of the link (equation 12).
//! For class `n`, this is a limit of its backlog:
//!
//! ```text
//! B_n <= (d_n - D_n) * (C - sum of r_m of the other classes)
//! ```
//!
//! So the marking tests the projection several times: once for the whole buffer, and once for each class with a delay
//! bound. The class has the limit above, and the rate in parentheses takes the place of `C`. If a class would exceed its
//! limit, its own flows are marked.
//!
//! Source: `marking`, section 2.4, equations (11) and (12).
//! Differs: the paper projects with the present rate `r_n` of the class, which is zero while it has no backlog. Flows were
//! then marked although the scheduler would have served them, and the class kept 3.7 to 4.0 of its 5 Mbit/s
//! (`marking/exp2`, three seeds). Here the class may use all of the rate that the other classes do not need.

use super::Observed;
use crate::class::ClassId;
use crate::packet::number;
use crate::scheduler::ClassState;
use crate::{Bytes, Rate};

/// Class `n` as if it were a queue of its own, with limit, rate and backlog. `None` if it has no delay bound.
///
/// `len` is the length of the arriving packet. `projected` returns the projected backlog of another class.
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

/// The rate `r_n` that a class with this backlog needs: equation (11).
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

    /// Catches: a limit that ignores the past delay; a limit with the whole link rate; a guarantee that is subtracted
    /// twice.
    #[test]
    fn a_delay_bound_limits_the_backlog_to_what_departs_within_it() {
        let link = class(0, 0, None, 0);
        let gold = class(0, 5, Some(10), 4);
        let silver = class(50_000, 8, None, 70);
        let classes = [link, gold, silver];
        // 40 - 8 = 32 Mbit/s for 10 - 4 = 6 ms are 24,000 bytes.
        assert_eq!(limit(&classes, 1), Some(Bytes(24_000)));
        assert_eq!(limit(&classes, 2), None);
    }

    /// Catches: a limit that leaves other classes only their guarantees, although their delay bounds need more; a class whose
    /// packets are late already, but that needs no rate.
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
