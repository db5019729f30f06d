//! Invariants of a link, for random packets and random times of calls.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::link::{Link, LinkConfig};
use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Reason, Tally, Time};

/// A link with the packets that were sent and received, numbered by their `vlan` field.
struct Bench {
    link: Link,
    pool: PacketPool,
    tally: Tally,
    sent: u32,
    arrived: Vec<(u32, Time)>,
}

impl Bench {
    fn new(config: &LinkConfig, seed: u64) -> Self {
        let pool = PacketPool::with_capacity(1_000);
        let (tally, sent, arrived) = (Tally::default(), 0, Vec::new());
        Self { link: Link::new(config, seed, 0), pool, tally, sent, arrived }
    }

    fn send(&mut self, now: Time, len: u32) {
        let packet = Packet { len, cost: len, vlan: self.number(), ..Packet::default() };
        let id = self.pool.insert(packet).unwrap();
        self.sent += 1;
        self.link.send(&mut Cx { now, pool: &mut self.pool, tally: &mut self.tally }, id);
    }

    fn number(&self) -> u16 {
        u16::try_from(self.sent).unwrap()
    }

    /// Takes all packets that have arrived by `now`.
    fn poll(&mut self, now: Time) {
        while let Some(id) = self.poll_one(now) {
            self.arrived.push((u32::from(self.pool[&id].vlan), now));
            self.pool.release(id);
        }
    }

    fn poll_one(&mut self, now: Time) -> Option<PacketId> {
        self.link.poll(&mut Cx { now, pool: &mut self.pool, tally: &mut self.tally })
    }

    /// Takes each packet at its arrival time, until `end`.
    fn run_until(&mut self, end: Time) {
        while let Some(at) = self.link.ready_at().filter(|at| *at <= end) {
            self.poll(at);
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.arrived.iter().map(|(number, _)| *number).collect()
    }
}

fn config(text: &str) -> LinkConfig {
    toml::from_str(text).unwrap()
}

/// Packets as pairs: nanoseconds since the last packet, and bytes. The load is 0.5 to 1.5 times 8
/// Mbit/s, with pauses. A queue that is always empty or always full would reveal no faults.
fn packets() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let packet = (prop_oneof![8 => 50u64..150, 1 => 150u64..2_000], 60u32..1_514);
    let timed = packet.prop_map(|(percent, len)| (u64::from(len) * 10 * percent, len));
    prop::collection::vec(timed, 1..200)
}

proptest! {
    /// Each packet arrives in order, is dropped and counted, or is still inside.
    ///
    /// Catches: a packet with less jitter that overtakes an earlier packet; a packet that is
    /// inserted before earlier packets with the same arrival time.
    #[test]
    fn every_packet_is_accounted_for_and_none_overtakes(
        packets in packets(), polls in 1usize..20, seed: u64,
    ) {
        let mut bench = Bench::new(&config(
            "rate = '8 Mbit/s'\nqueue = { kind = 'drop-tail', limit = '4 kB' }\n\
             delay = '3 ms'\njitter = { normal = '1 ms' }\nloss = '5 %'",
        ), seed);
        let mut now = Time::ZERO;
        for (n, (gap, len)) in packets.into_iter().enumerate() {
            now += Duration::from_nanos(gap);
            bench.send(now, len);
            if n % polls == 0 {
                bench.poll(now);
            }
            let arrived = u64::try_from(bench.arrived.len()).unwrap();
            let held = u64::try_from(bench.link.held()).unwrap();
            prop_assert_eq!(u64::from(bench.sent), arrived + bench.tally.drops.total() + held);
            prop_assert_eq!(u64::from(bench.pool.in_use()), held);
        }
        bench.run_until(Time::MAX);
        prop_assert_eq!((bench.link.held(), bench.pool.in_use()), (0, 0));
        prop_assert!(bench.numbers().is_sorted());
    }

    /// A link that is called rarely drops the same packets and yields the same arrival times.
    ///
    /// Catches: a transmission that begins at the time of the call, not at the end of the previous
    /// transmission; waiting packets that still occupy the queue when a packet arrives late.
    #[test]
    fn the_times_of_calls_change_nothing(packets in packets(), polls in 1usize..50) {
        let config = config(
            "rate = '8 Mbit/s'\nqueue = { kind = 'drop-tail', limit = '6 kB' }\ndelay = '1 ms'",
        );
        let (mut eager, mut lazy) = (Bench::new(&config, 0), Bench::new(&config, 0));
        let mut now = Time::ZERO;
        for (n, (gap, len)) in packets.into_iter().enumerate() {
            now += Duration::from_nanos(gap);
            eager.run_until(now);
            eager.send(now, len);
            if n % polls == 0 {
                lazy.poll(now);
            }
            lazy.send(now, len);
        }
        eager.run_until(Time::MAX);
        lazy.run_until(Time::MAX);
        prop_assert_eq!(eager.numbers(), lazy.numbers());
        prop_assert_eq!(eager.arrived.last(), lazy.arrived.last());
    }

    /// Each packet departs exactly when the earlier bits of the busy period, and its own bits, are
    /// sent.
    ///
    /// Catches: transmission times that are rounded for each packet alone; a rounding that is
    /// carried over an idle time.
    #[test]
    fn a_busy_link_sends_exactly_its_rate(packets in packets(), bps in 7_000_000u64..9_000_000) {
        let config = LinkConfig { rate: Some(Rate::from_bps(bps)), ..LinkConfig::default() };
        let mut bench = Bench::new(&config, 0);
        // With a unit of `1 / bps` nanoseconds, no time is rounded.
        let (mut now, mut through, mut expected) = (Time::ZERO, 0, Vec::new());
        let bps = u128::from(bps);
        for (number, (gap, len)) in (0..).zip(packets) {
            now += Duration::from_nanos(gap);
            bench.run_until(now);
            bench.send(now, len);
            if u128::from(now.nanos()) > u128::div_ceil(through, bps) {
                through = u128::from(now.nanos()) * bps;
            }
            through += u128::from(len) * 8_000_000_000;
            let at = Time::from_nanos(u64::try_from(through.div_ceil(bps)).unwrap());
            expected.push((number, at));
        }
        bench.run_until(Time::MAX);
        prop_assert_eq!(bench.arrived, expected);
    }
}

#[test]
fn a_packet_travels_for_its_delay() {
    let mut bench = Bench::new(&config("delay = '25 ms'"), 0);
    bench.send(Time::from_millis(5), 100);
    assert_eq!(bench.link.ready_at(), Some(Time::from_millis(30)));
    bench.poll(Time::from_nanos(29_999_999));
    assert!(bench.arrived.is_empty());
    bench.poll(Time::from_millis(30));
    assert_eq!(bench.numbers(), [0]);
    assert_eq!(bench.link.ready_at(), None);
}

#[test]
fn jitter_reorders_only_where_it_may() {
    for (reorder, sorted) in [(false, true), (true, false)] {
        let text = format!("delay = '10 ms'\njitter = '10 ms'\nreorder = {reorder}");
        let mut bench = Bench::new(&config(&text), 0);
        (0..100).for_each(|n| bench.send(Time::from_millis(n), 100));
        bench.run_until(Time::MAX);
        assert_eq!(bench.numbers().is_sorted(), sorted);
        assert!(bench.arrived.iter().all(|(n, at)| *at >= Time::from_millis(u64::from(*n))));
        assert!(bench.arrived.is_sorted_by_key(|(_, at)| *at));
    }
}

#[test]
fn a_link_of_rate_zero_sends_nothing() {
    let mut bench = Bench::new(&config("rate = '0 bit/s'"), 0);
    bench.send(Time::ZERO, 100);
    bench.run_until(Time::MAX);
    assert_eq!((bench.link.held(), bench.link.ready_at()), (1, None));
}

#[test]
fn flows_alternate_if_the_queue_separates_them() {
    let mut bench = Bench::new(&config("rate = '8 Mbit/s'\nqueue = 'per-flow'"), 0);
    let key = |port| {
        let end = |port| tidegate_core::packet::Endpoint::v4([10, 0, 0, 1], port);
        tidegate_core::packet::FlowKey { src: end(port), dst: end(80), ..Default::default() }
    };
    for (number, port) in (0u16..).zip([1, 1, 1, 1, 2]) {
        let packet =
            Packet { len: 1_514, cost: 1_514, vlan: number, key: key(port), ..Packet::default() };
        let id = bench.pool.insert(packet).unwrap();
        let mut cx = Cx { now: Time::ZERO, pool: &mut bench.pool, tally: &mut bench.tally };
        bench.link.send(&mut cx, id);
    }
    bench.run_until(Time::MAX);
    let position = |number| bench.numbers().iter().position(|it| *it == number);
    assert!(position(4) < position(2), "{:?}", bench.numbers());
    assert_eq!(
        bench.arrived.last().unwrap().1,
        Time::ZERO + Rate::from_mbps(8).time_for(Bytes(5 * 1_514))
    );
}

#[test]
fn impossible_links_are_refused() {
    for (text, about) in [
        ("delay = 25", "`25` has no unit"),
        ("delay = '25'", "no unit"),
        ("jitter = { pareto = '1 ms' }", "unknown field"),
        ("loss = 0.1", "a chance such as"),
        ("loss = '101 %'", "not a chance"),
        ("loss = { p = '1 %' }", "missing field `r`"),
        ("rate = '8 Mbps'", "Mbit/s"),
        ("queue = 'fifo'", "drop-tail"),
        ("latency = '1 ms'", "unknown field"),
    ] {
        let error = toml::from_str::<LinkConfig>(text).unwrap_err().to_string();
        assert!(error.contains(about), "{text}: {error}");
    }
}

/// Catches: an empty queue that accepts packets of any length.
#[test]
fn a_packet_longer_than_the_queue_limit_is_dropped_by_an_idle_link() {
    let queue = "rate = '8 Mbit/s'\nqueue = { kind = 'drop-tail', limit = '1 kB' }";
    let mut bench = Bench::new(&config(queue), 0);
    bench.send(Time::ZERO, 1_001);
    bench.send(Time::ZERO, 1_000);
    bench.run_until(Time::MAX);
    assert_eq!((bench.numbers(), bench.tally.drops.of(Reason::QueueFull)), (vec![1], 1));
}
