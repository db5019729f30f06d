//! The guaranteed minimum bandwidth (GMB) of a trunk: user packets depart at this rate, even if congestion control
//! permits none.
//!
//! A token bucket fills at the guaranteed rate. Every millisecond, packets depart while the bucket has at least one byte
//! of tokens. The last packet may exceed the tokens. The bucket is then in debt, which delays the next packet.
//!
//! Source: `trunking`, section 4.3 (GMB controller with a leaky bucket).
//! Differs: the paper gives no depth of the bucket. Here it is `rate * 10 ms`, so a timer that is up to 10 ms late loses
//! no tokens.

use std::time::Duration;

use super::packet::network_len;
use super::tunnel::Tunnel;
use crate::meter::{TokenBucket, nanobits};
use crate::packet::Fifo;
use crate::{Bytes, Cx, Rate, Time};

/// Sends user packets at a guaranteed rate, once per millisecond.
pub(super) struct Guarantee {
    bucket: TokenBucket,
    /// Time of the next call of [`serve`](Self::serve) that may send. `None` while the tunnel queue is empty.
    due: Option<Time>,
}

impl Guarantee {
    pub(super) fn new(rate: Rate, now: Time) -> Self {
        Self { bucket: TokenBucket::new(rate, depth(rate), now), due: None }
    }

    /// Changes the rate of the guarantee `held` to `rate` from `now` on. `None` removes the guarantee.
    pub(super) fn follow(held: &mut Option<Self>, rate: Option<Rate>, now: Time) {
        match (&mut *held, rate) {
            (Some(it), Some(rate)) => it.set(now, rate),
            (_, rate) => *held = rate.map(|rate| Self::new(rate, now)),
        }
    }

    fn set(&mut self, now: Time, rate: Rate) {
        self.bucket.set(now, rate, depth(rate));
        // The old value was computed with the old rate. `arm` computes a new one.
        self.due = None;
    }

    /// If the timer has expired, sends user packets while there are tokens. Returns their bytes, from the IP header on.
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

    /// Sets the timer if the tunnel queue is `backlogged`, and stops it otherwise.
    pub(super) fn arm(&mut self, now: Time, backlogged: bool) {
        if !backlogged {
            self.due = None;
        } else if self.due.is_none() {
            let soonest = self.bucket.reaches(nanobits(ONE)).max(now + Duration::from_nanos(1));
            self.due = Some(soonest.round_up_to(TICK));
        }
    }

    /// The guaranteed rate.
    pub(super) const fn rate(&self) -> Rate {
        self.bucket.rate()
    }

    /// Time for the next call of [`serve`](Self::serve). `None` if the timer is stopped.
    pub(super) const fn due(&self) -> Option<Time> {
        self.due
    }
}

/// Depth of the token bucket for `rate`.
pub(super) fn depth(rate: Rate) -> Bytes {
    rate.bytes_in(DEPTH).max(ONE)
}

/// Period of the timer.
///
/// Source: `trunking`, section 4.3 (period of the GMB controller).
pub(super) const TICK: Duration = Duration::from_millis(1);

/// Depth of the bucket as a time: ten periods of the timer.
const DEPTH: Duration = Duration::from_millis(10);

/// Least tokens with which a packet may depart.
pub(super) const ONE: Bytes = Bytes(1);

#[cfg(test)]
mod tests {
    use super::super::testing::user;
    use super::*;
    use crate::qdisc::QdiscSpec;
    use crate::random::Random;
    use crate::{PacketPool, Tally};

    /// Bytes sent in each millisecond, from a queue that never runs empty.
    fn each_millisecond(rate: Rate, lengths: &[u32], span: u64) -> Vec<u64> {
        let mut pool = PacketPool::with_capacity(4_096);
        let mut tally = Tally::default();
        let queue = QdiscSpec::DropTail(Default::default()).build(None, Random::new(1, 1));
        let mut tunnel = Tunnel::new(queue, 10);
        let mut guarantee = Guarantee::new(rate, Time::ZERO);
        let mut lengths = lengths.iter().copied().cycle();
        let milliseconds_of = |millisecond| {
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
        (0..span).map(milliseconds_of).collect()
    }

    /// In any span after the start, `rate * span` bytes depart, with an error of one packet at most. The first span may also
    /// carry the initial tokens of the bucket.
    ///
    /// Catches: a debt of the bucket that is forgiven after a millisecond; a timer of 2 ms with a bucket of 1 ms.
    #[test]
    fn every_time_span_carries_its_part_of_the_guarantee() {
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
    fn the_timer_expires_once_a_millisecond_and_only_while_packets_wait() {
        let mut guarantee = Guarantee::new(Rate::from_mbps(100), Time::ZERO);
        guarantee.arm(Time::from_micros(300), true);
        assert_eq!(guarantee.due(), Some(Time::from_millis(1)));
        guarantee.arm(Time::from_micros(400), false);
        assert_eq!(guarantee.due(), None);
        guarantee.arm(Time::from_millis(2), true);
        assert_eq!(guarantee.due(), Some(Time::from_millis(3)));
    }
}
