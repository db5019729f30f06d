//! The control law of CoDel: drops or marks packets whose sojourn time stays above the target.
//!
//! A *hit* is a drop or a mark. The first hit happens when the sojourn time has exceeded the target
//! for one interval. After hit `n`, the next hit is due `interval / sqrt(n)` later.
//!
//! Source: RFC 8289, section 5; Linux, `include/net/codel_impl.h` (at most one mark per dequeue).
//! Differs:
//! - The square root is exact to the nanosecond. Linux approximates it by Newton steps.
//! - An allocation (a scheme that divides the tokens of a policy between flows) may have paid for
//!   the oldest packet of a flow before it dequeues. That packet must depart, so the law drops the
//!   next packet instead. Without a next packet, the drop remains due: see [`CodelLaw::dequeue`].

use std::time::Duration;

use crate::packet::PacketId;
use crate::{Bytes, Cx, Rate, Reason, Time};

/// Parameters of the control law.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Sojourn time that is tolerated without limit.
    pub(super) target: Duration,
    /// Time for which a sojourn time above the target is tolerated.
    pub(super) interval: Duration,
    /// Length of one full packet (MTU). No packet is hit while the backlog of the whole queue is at
    /// most this.
    pub(super) packet: Bytes,
    /// ECN-capable packets are marked in place of being dropped.
    pub(super) ecn: bool,
}

impl Standing {
    /// The parameters for a queue that is served at `rate`. The target becomes at least the
    /// transmission time of two full packets. The interval grows by as much as the target.
    ///
    /// At low rates, a shorter target would drop packets of flows that have only one packet
    /// waiting.
    ///
    /// Source: RFC 8290, 5.2.2 (at least one packet); Linux, `net/sched/sch_cake.c`,
    /// `cake_set_rate` (one and a half packets, and the interval).
    /// Differs: two packets, one in the queue and one in transmission.
    pub(super) fn at(self, rate: Option<Rate>) -> Self {
        let two_packets = Bytes(2 * self.packet.0);
        let least = rate.filter(|rate| rate.bps() > 0).map(|rate| rate.time_for(two_packets));
        let longer = least.unwrap_or_default().saturating_sub(self.target);
        let (target, interval) = (self.target + longer, self.interval + longer);
        Self { target, interval, ..self }
    }
}

/// A subqueue whose packets share one control law. The queue may contain other subqueues.
pub(super) trait CodelQueue {
    /// Removes the oldest packet of the subqueue.
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<PacketId>;

    /// Backlog of the whole queue in frame bytes, including other subqueues.
    fn backlog(&self) -> Bytes;
}

/// The packet that departs when a drop is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Departing {
    /// The oldest packet that is not dropped.
    Oldest,
    /// The oldest packet in any case, because the caller has paid for its length.
    Promised,
}

/// The outcome when a packet is due to be hit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Hit {
    Marked,
    Dropped,
    /// No packet could be dropped: the packet that must depart was the only one.
    NoPacket,
}

/// The state of a subqueue under the law.
#[derive(Clone, Debug, Default)]
pub(super) struct CodelLaw {
    /// Time at which the sojourn time will have exceeded the target for one interval. `None` while
    /// the sojourn time is below the target.
    first_above: Option<Time>,
    /// Dropping state: the next hit is due at `next`.
    dropping: bool,
    next: Time,
    /// Number of hits, which determines the spacing to the next hit.
    count: u32,
    /// Value of `count` on entry to the dropping state.
    began_with: u32,
}

impl CodelLaw {
    /// Removes and returns the next packet to depart, and makes all drops that are due.
    ///
    /// The cost does not depend on the time since the last call. Each round of the loop drops one
    /// packet, or is the last round. A pause of any length therefore drops at most the backlog (RFC
    /// 8289, 5.5).
    ///
    /// [`Hit::NoPacket`] ends the loop. One drop is then due at the next call, and earlier overdue
    /// drops are forgiven. Otherwise, many calls with a single packet would accumulate drops, and
    /// the first longer backlog would suffer them all. `count` does not count [`Hit::NoPacket`].
    pub(super) fn dequeue(
        &mut self,
        standing: &Standing,
        cx: &mut Cx<'_>,
        line: &mut impl CodelQueue,
        departing: Departing,
    ) -> Option<PacketId> {
        let mut packet = line.take(cx);
        let mut too_long = self.waited_too_long(standing, cx, packet.as_ref(), line);
        if !self.dropping {
            if too_long {
                let (left, hit) = self.hit(standing, cx, packet?, line, departing);
                packet = left;
                if hit != Hit::NoPacket {
                    self.waited_too_long(standing, cx, packet.as_ref(), line);
                    self.begin(standing, cx.now);
                }
            }
            return packet;
        }
        while too_long && cx.now >= self.next {
            let (left, hit) = self.hit(standing, cx, packet?, line, departing);
            packet = left;
            if hit == Hit::NoPacket {
                self.next = cx.now;
                break;
            }
            self.count = self.count.saturating_add(1);
            let marked = hit == Hit::Marked;
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

    /// Returns `true` if the sojourn time has exceeded the target for one interval. `packet` was
    /// just removed from `line`.
    fn waited_too_long(
        &mut self,
        standing: &Standing,
        cx: &Cx<'_>,
        packet: Option<&PacketId>,
        line: &impl CodelQueue,
    ) -> bool {
        let waited = packet.map(|packet| cx.now.since(cx.pool[packet].queued));
        if waited.is_none_or(|waited| waited < standing.target) || line.backlog() <= standing.packet
        {
            self.first_above = None;
            return false;
        }
        cx.now >= *self.first_above.get_or_insert(cx.now + standing.interval)
    }

    /// Marks `packet`, or drops one packet. Returns the packet that departs, and the outcome.
    fn hit(
        &self,
        standing: &Standing,
        cx: &mut Cx<'_>,
        packet: PacketId,
        line: &mut impl CodelQueue,
        departing: Departing,
    ) -> (Option<PacketId>, Hit) {
        if standing.ecn && cx.mark(&packet, Reason::Aqm) {
            return (Some(packet), Hit::Marked);
        }
        match departing {
            Departing::Oldest => {
                cx.drop(packet, Reason::Aqm);
                (line.take(cx), Hit::Dropped)
            }
            Departing::Promised => match line.take(cx) {
                Some(behind) => {
                    cx.drop(behind, Reason::Aqm);
                    (Some(packet), Hit::Dropped)
                }
                None => (Some(packet), Hit::NoPacket),
            },
        }
    }

    /// Enters the dropping state after a hit. If the last dropping state ended less than 16
    /// intervals ago, its drop rate is used again.
    fn begin(&mut self, standing: &Standing, now: Time) {
        let worked = self.count - self.began_with;
        let lately = now.since(self.next) < standing.interval * 16;
        self.count = if worked > 1 && lately { worked } else { 1 };
        self.began_with = self.count;
        self.dropping = true;
        self.next = now + spacing(standing.interval, self.count);
    }
}

/// `interval / sqrt(count)`, rounded down to the nanosecond.
fn spacing(interval: Duration, count: u32) -> Duration {
    let nanos = interval.as_nanos();
    Duration::from_nanos_u128((nanos * nanos / u128::from(count.max(1))).isqrt())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{Ecn, Fifo};
    use crate::{Packet, PacketPool, Tally};

    const STANDING: Standing = Standing {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        packet: Bytes(1_514),
        ecn: true,
    };

    /// RFC 8289, section 5.3: `interval / sqrt(count)`.
    #[test]
    fn the_spacing_of_hits_falls_with_the_root_of_their_number() {
        let spacings = [1, 2, 3, 4, 100].map(|count| spacing(STANDING.interval, count).as_nanos());
        assert_eq!(spacings, [100_000_000, 70_710_678, 57_735_026, 50_000_000, 10_000_000]);
    }

    /// RFC 8289, section 5.4: if dropping ended less than 16 intervals ago after more than one hit,
    /// it resumes at the previous rate.
    ///
    /// Catches: a count that includes the hits of an earlier dropping state; an old rate that is
    /// used again after a day.
    #[test]
    fn dropping_that_resumes_soon_begins_at_the_previous_rate() {
        let ended = Time::from_secs(1);
        let law =
            |count, began_with| CodelLaw { next: ended, count, began_with, ..CodelLaw::default() };
        let begins = |mut law: CodelLaw, now| {
            law.begin(&STANDING, now);
            (law.count, law.began_with, law.next.since(now).as_micros())
        };
        let soon = Time::from_millis(1_500);
        assert_eq!(begins(law(5, 1), soon), (4, 4, 50_000));
        assert_eq!(begins(law(8, 4), soon), (4, 4, 50_000));
        assert_eq!(begins(law(2, 1), soon), (1, 1, 100_000));
        assert_eq!(begins(law(5, 1), Time::from_millis(2_599)), (4, 4, 50_000));
        assert_eq!(begins(law(5, 1), Time::from_millis(2_600)), (1, 1, 100_000));
        assert_eq!(begins(CodelLaw::default(), soon), (1, 1, 100_000));
    }

    /// Catches: a target that also grows at high rates; an interval that stays constant and falls
    /// below the target.
    #[test]
    fn target_and_interval_grow_with_the_time_of_two_packets() {
        let at = |rate: Option<Rate>| {
            let standing = STANDING.at(rate);
            (standing.target.as_micros(), standing.interval.as_micros())
        };
        assert_eq!(at(None), (5_000, 100_000));
        assert_eq!(at(Some(Rate::from_bps(0))), (5_000, 100_000));
        assert_eq!(at(Some(Rate::from_mbps(5))), (5_000, 100_000));
        assert_eq!(at(Some(Rate::from_mbps(2))), (12_112, 107_112));
        assert_eq!(at(Some(Rate::from_kbps(64))), (378_500, 473_500));
    }

    /// A subqueue in a queue with other packets. It counts the calls of `take`.
    struct Counted {
        packets: Fifo,
        others: Bytes,
        taken: u32,
        most: u32,
    }

    impl CodelQueue for Counted {
        fn take(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
            self.taken += 1;
            assert!(self.taken <= self.most, "more than {} rounds", self.most);
            self.packets.pop(cx.pool)
        }

        fn backlog(&self) -> Bytes {
            self.packets.bytes() + self.others
        }
    }

    /// Fills a subqueue with `waiting` packets, enters the dropping state, pauses, and dequeues
    /// twice. Returns the drops and the rounds of each of the two calls.
    fn after_a_pause(
        standing: &Standing,
        pause: Duration,
        departing: Departing,
        (ecn, waiting): (Ecn, u32),
    ) -> [(u64, u32); 2] {
        let (mut pool, mut tally) = (PacketPool::with_capacity(512), Tally::default());
        let mut line = Counted { packets: Fifo::new(), others: Bytes(9_000), taken: 0, most: 9 };
        // Two packets are dequeued and one is dropped before the pause.
        for _ in 0..waiting + 3 {
            let id = pool.insert(Packet { len: 1_000, ecn, ..Packet::default() }).unwrap();
            line.packets.push(&mut pool, id);
        }
        let mut law = CodelLaw::default();
        let mut dequeue = |line: &mut Counted, now: Time| {
            let mut cx = Cx { now, pool: &mut pool, tally: &mut tally };
            let departs = law.dequeue(standing, &mut cx, line, departing);
            departs.into_iter().for_each(|id| cx.pool.release(id));
            tally.drops.total()
        };
        let entered = Time::from_millis(10) + standing.interval;
        let mut before = [Time::from_millis(10), entered].map(|now| dequeue(&mut line, now))[1];
        [pause, pause + standing.interval].map(|after| {
            line.taken = 0;
            line.most = line.packets.packets() + 2;
            let drops = dequeue(&mut line, entered + after);
            (drops - std::mem::replace(&mut before, drops), line.taken)
        })
    }

    /// RFC 8289, section 5.5: the number of overdue drops grows with the square of a pause, but the
    /// backlog does not.
    ///
    /// Catches: a count of hits that includes hits without a packet; a mark for each overdue hit; a
    /// drop for which no packet waited, and which is not due again at the next call.
    #[test]
    fn the_cost_of_a_call_does_not_grow_with_a_pause() {
        for (pause, interval) in [(1, 2), (1, 100), (60, 2), (3_600, 2), (3_600, 100)] {
            let standing = Standing {
                target: Duration::from_millis(1),
                interval: Duration::from_millis(interval),
                ..STANDING
            };
            let pause = Duration::from_secs(pause);
            for waiting in [0, 1, 2, 200] {
                for departing in [Departing::Oldest, Departing::Promised] {
                    for ecn in [Ecn::NotEct, Ecn::Ect0] {
                        let calls = after_a_pause(&standing, pause, departing, (ecn, waiting));
                        for (drops, rounds) in calls {
                            assert!(u64::from(rounds) <= drops + 2, "{drops} drops, {rounds}");
                        }
                    }
                }
            }
        }
    }

    /// Catches: overdue drops of many flows with one packet each that all hit the next flow with
    /// more packets.
    #[test]
    fn overdue_drops_of_flows_with_one_packet_do_not_accumulate() {
        let (mut pool, mut tally) = (PacketPool::with_capacity(128), Tally::default());
        let mut law = CodelLaw::default();
        let mut dequeue = |packets: u32, now: Time| {
            let mut line =
                Counted { packets: Fifo::new(), others: Bytes(90_000), taken: 0, most: 99 };
            for _ in 0..packets {
                let id = pool.insert(Packet { len: 1_000, ..Packet::default() }).unwrap();
                line.packets.push(&mut pool, id);
            }
            let mut cx = Cx { now, pool: &mut pool, tally: &mut tally };
            let departs = law.dequeue(&STANDING, &mut cx, &mut line, Departing::Promised).unwrap();
            cx.pool.release(departs);
            while let Some(id) = line.packets.pop(cx.pool) {
                cx.pool.release(id);
            }
            std::mem::take(&mut tally).drops.total()
        };
        assert_eq!([10, 150].map(|ms| dequeue(50, Time::from_millis(ms))), [0, 1]);
        for ms in (160..10_000).step_by(10) {
            assert_eq!(dequeue(1, Time::from_millis(ms)), 0);
        }
        assert_eq!(dequeue(50, Time::from_secs(10)), 1);
    }

    proptest! {
        /// Catches: rounding the square of the interval before the division.
        #[test]
        fn the_root_is_exact_to_the_nanosecond(nanos in 1u64..10_000_000_000, count in 1u32..100_000) {
            let spaced = spacing(Duration::from_nanos(nanos), count).as_nanos();
            let square = u128::from(nanos) * u128::from(nanos);
            prop_assert!(spaced * spaced * u128::from(count) <= square);
            prop_assert!((spaced + 1) * (spaced + 1) * u128::from(count) > square);
        }
    }
}
