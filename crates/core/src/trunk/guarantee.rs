//! The GMB controller: what leaves whatever congestion control says.
//!
//! Source: `trunking`, section 4.3. Differs: the depth of its leaky bucket is not printed; it is what the
//! rate carries in 10 ms, so that a late timer loses nothing. A packet goes as soon as there is a byte of
//! credit, and is paid off afterwards.

use std::time::Duration;

use super::packet::network_len;
use super::tunnel::Tunnel;
use crate::meter::{TokenBucket, nanobits};
use crate::packet::Fifo;
use crate::{Bytes, Cx, Rate, Time};

/// Lets `rate` go, a little each millisecond.
pub(super) struct Guarantee {
    bucket: TokenBucket,
    /// When it looks next; only while something waits.
    due: Option<Time>,
}

impl Guarantee {
    pub(super) fn new(rate: Rate, now: Time) -> Self {
        Self { bucket: TokenBucket::new(rate, depth(rate), now), due: None }
    }

    /// From `now` on `held` lets `rate` go, if any.
    pub(super) fn follow(held: &mut Option<Self>, rate: Option<Rate>, now: Time) {
        match (&mut *held, rate) {
            (Some(it), Some(rate)) => it.set(now, rate),
            (_, rate) => *held = rate.map(|rate| Self::new(rate, now)),
        }
    }

    fn set(&mut self, now: Time, rate: Rate) {
        self.bucket.set(now, rate, depth(rate));
        self.due = None; // what it was is by the rate of before
    }

    /// Lets go what may by now; says how many bytes, from the IP header on.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, tunnel: &mut Tunnel, out: &mut Fifo) -> u64 {
        let mut sent = 0;
        if self.due.is_some_and(|at| at <= cx.now) {
            self.due = None;
            while self.bucket.available(cx.now) >= ONE {
                let Some(packet) = tunnel.pop(cx) else { break };
                let described = &cx.pool[&packet];
                self.bucket.charge(nanobits(Bytes(tunnel.takes(described))));
                sent += network_len(described);
                out.push(cx.pool, packet);
            }
        }
        sent
    }

    /// Sees to it that it looks again if something waits.
    pub(super) fn arm(&mut self, now: Time, waits: bool) {
        if !waits {
            self.due = None;
        } else if self.due.is_none() {
            let soonest = self.bucket.reaches(nanobits(ONE)).max(now + Duration::from_nanos(1));
            self.due = Some(soonest.round_up_to(TICK));
        }
    }

    /// What it lets go.
    pub(super) const fn rate(&self) -> Rate {
        self.bucket.rate()
    }

    /// When it looks next.
    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }
}

/// How deep the bucket of a rate is.
pub(super) fn depth(rate: Rate) -> Bytes {
    rate.bytes_in(DEPTH).max(ONE)
}

/// Source: `trunking`, section 4.3.
pub(super) const TICK: Duration = Duration::from_millis(1);

const DEPTH: Duration = Duration::from_millis(10);

pub(super) const ONE: Bytes = Bytes(1);

#[cfg(test)]
mod tests {
    use super::super::testing::user;
    use super::*;
    use crate::qdisc::QdiscSpec;
    use crate::random::Random;
    use crate::{PacketPool, Tally};

    /// What leaves in each millisecond, of a queue that never empties.
    fn each_millisecond(rate: Rate, lengths: &[u32], span: u64) -> Vec<u64> {
        let mut pool = PacketPool::with_capacity(4_096);
        let mut tally = Tally::default();
        let queue = QdiscSpec::DropTail(Default::default()).build(None, Random::new(1, 1));
        let mut tunnel = Tunnel::new(queue, 10);
        let mut guarantee = Guarantee::new(rate, Time::ZERO);
        let mut lengths = lengths.iter().copied().cycle();
        let turn = |millisecond| {
            let now = Time::from_millis(millisecond);
            let mut cx = Cx { now, pool: &mut pool, tally: &mut tally };
            while tunnel.backlog().packets < 500 {
                let packet = cx.pool.insert(user(lengths.next().unwrap_or(60))).unwrap();
                tunnel.push(&mut cx, packet);
            }
            let mut out = Fifo::new();
            let sent = guarantee.serve(&mut cx, &mut tunnel, &mut out);
            guarantee.arm(now, true);
            while let Some(packet) = out.pop(cx.pool) {
                cx.pool.release(packet);
            }
            sent
        };
        (0..span).map(turn).collect()
    }

    /// Over any Y ms, X * Y bytes: less by at most a packet, more by at most the bucket and a packet.
    ///
    /// Kills: starting each tick without the debt of the one before; looking every other millisecond
    /// with a bucket as deep as one.
    #[test]
    fn any_span_of_milliseconds_carries_its_part_of_the_guarantee() {
        for (mbps, lengths) in
            [(3, &[1_500][..]), (1, &[40, 1_500, 576]), (80, &[1_500, 60]), (6, &[60])]
        {
            let sent = each_millisecond(Rate::from_mbps(mbps), lengths, 700);
            let (each, longest) = (mbps * 125, u64::from(*lengths.iter().max().unwrap()));
            for (from, until) in [(11, 12), (11, 31), (50, 180), (100, 700), (333, 433)] {
                let span = u64::try_from(until - from).unwrap();
                let bytes: u64 = sent[from..until].iter().sum();
                assert!(bytes + longest >= each * span, "{mbps} {lengths:?} {from} {bytes}");
                assert!(bytes <= each * span + longest, "{mbps} {lengths:?} {from} {bytes}");
            }
            let all: u64 = sent.iter().sum();
            assert!(all <= each * (700 + 10) + longest, "{mbps}: {all}");
        }
    }

    #[test]
    fn it_looks_once_a_millisecond_and_only_while_something_waits() {
        let mut guarantee = Guarantee::new(Rate::from_mbps(100), Time::ZERO);
        guarantee.arm(Time::from_micros(300), true);
        assert_eq!(guarantee.due(), Some(Time::from_millis(1)));
        guarantee.arm(Time::from_micros(400), false);
        assert_eq!(guarantee.due(), None);
        guarantee.arm(Time::from_millis(2), true);
        assert_eq!(guarantee.due(), Some(Time::from_millis(3)));
    }
}
