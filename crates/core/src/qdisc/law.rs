//! The control law of CoDel: after how long, and how often, packets that waited too long are hit.
//!
//! Source: RFC 8289, section 5; marking in place of dropping, with one mark at most for a packet that
//! leaves, as in Linux, `include/net/codel_impl.h`.
//! Differs: the interval over the root of the count is an integer root, exact to the nanosecond, where
//! Linux approximates it by Newton's steps. A caller that was told the length of the packet that leaves
//! next gets that packet: what should have been dropped in front of it is dropped behind it.

use std::time::Duration;

use crate::packet::PacketId;
use crate::{Bytes, Cx, Reason, Time};

/// What the law is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// How long a packet may wait.
    pub(super) target: Duration,
    /// For how long packets may wait longer than that.
    pub(super) interval: Duration,
    /// Bytes that may wait for however long: a packet of full size.
    pub(super) packet: Bytes,
    /// ECN-capable packets are marked in place of being dropped.
    pub(super) ecn: bool,
}

/// A line of packets to take from.
pub(super) trait Line {
    /// Takes the oldest packet.
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<PacketId>;

    /// What waits, as frames.
    fn bytes(&self) -> Bytes;
}

/// Which packet leaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Leaves {
    /// The oldest that is not dropped.
    Oldest,
    /// The oldest, for its length was told.
    Promised,
}

/// Where a line stands under the law.
#[derive(Clone, Debug, Default)]
pub(super) struct Law {
    /// When packets will have waited too long for an interval, if they now do.
    first_above: Option<Time>,
    /// Packets are being hit, the next one at `next`.
    dropping: bool,
    next: Time,
    /// Packets hit since it began.
    count: u32,
    /// What `count` was when it began.
    began_with: u32,
}

impl Law {
    /// The packet of `line` that leaves now.
    pub(super) fn dequeue(
        &mut self,
        standing: &Standing,
        cx: &mut Cx<'_>,
        line: &mut impl Line,
        leaves: Leaves,
    ) -> Option<PacketId> {
        let mut packet = line.take(cx);
        let mut too_long = self.waited_too_long(standing, cx, packet.as_ref(), line);
        if !self.dropping {
            if too_long {
                packet = self.hit(standing, cx, packet?, line, leaves).0;
                self.waited_too_long(standing, cx, packet.as_ref(), line);
                self.begin(standing, cx.now);
            }
            return packet;
        }
        while too_long && cx.now >= self.next {
            self.count = self.count.saturating_add(1);
            let (left, marked) = self.hit(standing, cx, packet?, line, leaves);
            packet = left;
            too_long = marked || self.waited_too_long(standing, cx, packet.as_ref(), line);
            if too_long {
                self.next += spacing(standing.interval, self.count);
            }
            if marked {
                break;
            }
        }
        self.dropping = too_long;
        packet
    }

    /// Whether `packet`, just taken from `line`, is to be hit if it is time.
    fn waited_too_long(
        &mut self,
        standing: &Standing,
        cx: &Cx<'_>,
        packet: Option<&PacketId>,
        line: &impl Line,
    ) -> bool {
        let waited = packet.map(|packet| cx.now.since(cx.pool[packet].queued));
        if waited.is_none_or(|waited| waited < standing.target) || line.bytes() <= standing.packet {
            self.first_above = None;
            return false;
        }
        cx.now >= *self.first_above.get_or_insert(cx.now + standing.interval)
    }

    /// Marks `packet`, or drops one; what leaves now, and whether it was marked.
    fn hit(
        &self,
        standing: &Standing,
        cx: &mut Cx<'_>,
        packet: PacketId,
        line: &mut impl Line,
        leaves: Leaves,
    ) -> (Option<PacketId>, bool) {
        if standing.ecn && cx.mark(&packet, Reason::Aqm) {
            return (Some(packet), true);
        }
        match leaves {
            Leaves::Oldest => {
                cx.drop(packet, Reason::Aqm);
                (line.take(cx), false)
            }
            Leaves::Promised => {
                if let Some(behind) = line.take(cx) {
                    cx.drop(behind, Reason::Aqm);
                }
                (Some(packet), false)
            }
        }
    }

    /// One packet was hit, and more will be: soon again at the rate that worked last, if that was
    /// lately.
    fn begin(&mut self, standing: &Standing, now: Time) {
        let worked = self.count - self.began_with;
        let lately = now.since(self.next) < standing.interval * 16;
        self.count = if worked > 1 && lately { worked } else { 1 };
        self.began_with = self.count;
        self.dropping = true;
        self.next = now + spacing(standing.interval, self.count);
    }
}

/// `interval` over the root of `count`, rounded down to the nanosecond.
fn spacing(interval: Duration, count: u32) -> Duration {
    let nanos = interval.as_nanos();
    Duration::from_nanos_u128((nanos * nanos / u128::from(count.max(1))).isqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STANDING: Standing = Standing {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        packet: Bytes(1_514),
        ecn: true,
    };

    /// RFC 8289, section 5.3: `interval / sqrt(count)`.
    #[test]
    fn hits_come_closer_with_the_root_of_their_count() {
        let spacings = [1, 2, 3, 4, 100].map(|count| spacing(STANDING.interval, count).as_nanos());
        assert_eq!(spacings, [100_000_000, 70_710_678, 57_735_026, 50_000_000, 10_000_000]);
    }

    /// RFC 8289, section 5.4 and its pseudocode: dropping resumes at the rate that worked last, if it
    /// ended less than 16 intervals ago and had hit more than one packet.
    ///
    /// Kills: resuming with the whole count; forgetting what it began with; resuming after a day.
    #[test]
    fn what_begins_again_soon_begins_at_the_rate_that_worked() {
        let ended = Time::from_secs(1);
        let law = |count, began_with| Law { next: ended, count, began_with, ..Law::default() };
        let begins = |mut law: Law, now| {
            law.begin(&STANDING, now);
            (law.count, law.began_with, law.next.since(now).as_micros())
        };
        let soon = Time::from_millis(1_500);
        assert_eq!(begins(law(5, 1), soon), (4, 4, 50_000));
        assert_eq!(begins(law(8, 4), soon), (4, 4, 50_000));
        assert_eq!(begins(law(2, 1), soon), (1, 1, 100_000));
        assert_eq!(begins(law(5, 1), Time::from_millis(2_599)), (4, 4, 50_000));
        assert_eq!(begins(law(5, 1), Time::from_millis(2_600)), (1, 1, 100_000));
        assert_eq!(begins(Law::default(), soon), (1, 1, 100_000));
    }

    proptest! {
        /// Kills: rounding the square of the interval before the division.
        #[test]
        fn the_root_is_exact_to_the_nanosecond(nanos in 1u64..10_000_000_000, count in 1u32..100_000) {
            let spaced = spacing(Duration::from_nanos(nanos), count).as_nanos();
            let square = u128::from(nanos) * u128::from(nanos);
            prop_assert!(spaced * spaced * u128::from(count) <= square);
            prop_assert!((spaced + 1) * (spaced + 1) * u128::from(count) > square);
        }
    }
}
