//! Tests of all queue disciplines through their interface only: packets depart in order or are
//! counted as dropped, and the limits hold.

#![expect(clippy::unwrap_used, reason = "a test that cannot build its packets has failed")]

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use serde::Deserialize;
use tidegate_core::packet::{
    Ecn, Endpoint, FlowKey, Handover, Outer, QueueIndex, TcpFlags, TcpSegment,
};
use tidegate_core::qdisc::{Backlog, Qdisc, QdiscSpec};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Tally, Time};

/// Every discipline, with limits and intervals so small that a few packets make it drop.
const HASTY: &[&str] = &[
    "{ kind = \"drop-tail\", limit = \"8 kB\" }",
    "{ kind = \"per-flow\", limit = \"8 kB\", flow_limit = \"4 kB\" }",
    "{ kind = \"red\", limit = \"8 kB\", min = \"1 kB\", max = \"3 kB\", weight = \"30 %\" }",
    "{ kind = \"red\", limit = \"8 kB\", packet = \"1 kB\", min = \"2 kB\", max = \"4 kB\", weight = \"30 %\", measure = \"packets\", gentle = false, wait = true, by_size = true, mark_up_to = \"5 %\" }",
    "{ kind = \"ered\", red = { limit = \"8 kB\", min = \"1 kB\", max = \"3 kB\", weight = \"30 %\", ecn = false } }",
    "{ kind = \"pi\", limit = \"8 kB\", target = \"2 kB\", packet = \"1 kB\", gains = { a = 1e-1, b = 9e-2 } }",
    "{ kind = \"pi\", limit = \"8 kB\", target = \"2 kB\", packet = \"1 kB\", gains = { flows = 2, rtt = \"900 ms\" }, measure = \"packets\", by_size = true, ecn = false }",
    "{ kind = \"pie\", limit = \"8 kB\", target = \"1 ms\", every = \"1 ms\", burst = \"5 ms\", packet = \"100 B\" }",
    "{ kind = \"codel\", limit = \"8 kB\", target = \"1 ms\", interval = \"5 ms\", packet = \"100 B\" }",
    "{ kind = \"codel\", limit = \"8 kB\", target = \"1 ms\", interval = \"5 ms\", packet = \"100 B\", ecn = false }",
    "{ kind = \"fq-codel\", limit = \"8 kB\", packets = 30, quantum = \"256 B\", target = \"1 ms\", interval = \"5 ms\", ecn = false }",
    "{ kind = \"hosts\", limit = \"8 kB\", packets = 30, quantum = \"256 B\", target = \"1 ms\", interval = \"5 ms\", ecn = false }",
    "{ kind = \"sparing\", limit = \"8 kB\", threshold = \"2 kB\" }",
    "{ kind = \"trunk-fifo\", limit = \"8 kB\", threshold = 3 }",
];

fn spec(text: &str) -> QdiscSpec {
    #[derive(Deserialize)]
    struct File {
        queue: QdiscSpec,
    }
    toml::from_str::<File>(&format!("queue = {text}")).unwrap().queue
}

#[test]
fn every_discipline_is_among_those_tested() {
    for name in QdiscSpec::NAMES {
        assert!(HASTY.iter().any(|text| spec(text).name() == *name), "{name}");
        assert_eq!(spec(&format!("\"{name}\"")).name(), *name);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue { member: u32, len: u32, ecn: Ecn, dscp: u8 },
    Dequeue,
    DequeueFlow { member: u32 },
    DequeueNewest { member: u32 },
    Wait { micros: u64 },
    Rate { mbps: u64 },
    HandOver { from: u32, to: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let len = prop_oneof![Just(60u32), Just(1_514), 60u32..1_514];
    let step = prop_oneof![
        6 => (0u32..5, len, ecn, prop_oneof![Just(0u8), Just(10), Just(14)])
            .prop_map(|(member, len, ecn, dscp)| Step::Enqueue { member, len, ecn, dscp }),
        2 => Just(Step::Dequeue),
        2 => (0u32..6).prop_map(|member| Step::DequeueFlow { member }),
        1 => (0u32..6).prop_map(|member| Step::DequeueNewest { member }),
        3 => prop_oneof![0u64..2_000, 5_000u64..400_000].prop_map(|micros| Step::Wait { micros }),
        1 => (0u64..50).prop_map(|mbps| Step::Rate { mbps }),
        1 => (0u32..6, 0u32..6).prop_map(|(from, to)| Step::HandOver { from, to }),
    ];
    prop::collection::vec(step, 1..300)
}

/// A discipline, and the packets that it should contain.
struct Run {
    qdisc: Box<dyn Qdisc>,
    pool: PacketPool,
    tally: Tally,
    now: Time,
    /// For each flow: numbers and lengths of the packets that were enqueued and have not departed.
    inside: Vec<VecDeque<(u32, u32)>>,
    offered: u64,
    left: u64,
    /// Limit of waiting packets and bytes.
    limit: Backlog,
}

impl Run {
    fn new(text: &str) -> Self {
        let qdisc = spec(text).build(Some(Rate::from_mbps(10)), Random::new(7, 7));
        let (pool, tally) = (PacketPool::with_capacity(512), Tally::default());
        let inside = vec![VecDeque::new(); 6];
        let limit = if text.contains("\"packets\"") {
            Backlog { packets: 8, bytes: Bytes(u64::MAX) }
        } else {
            Backlog { packets: u32::MAX, bytes: Bytes(8_000) }
        };
        Self { qdisc, pool, tally, now: Time::ZERO, inside, offered: 0, left: 0, limit }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut dyn Qdisc, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx { now: self.now, pool: &mut self.pool, tally: &mut self.tally };
        call(&mut *self.qdisc, &mut cx)
    }

    fn step(&mut self, number: u32, step: &Step) {
        match *step {
            Step::Enqueue { member, len, ecn, dscp } => {
                let packet = Packet { ecn, dscp, ..packet(member, len, number) };
                let id = self.pool.insert(packet).unwrap();
                self.offered += 1;
                self.inside[QueueIndex(member).index()].push_back((number, len));
                self.with(|qdisc, cx| qdisc.enqueue(cx, id));
            }
            Step::Dequeue => {
                let id = self.with(|qdisc, cx| qdisc.dequeue(cx));
                self.depart(id);
            }
            Step::DequeueFlow { member } => {
                let promised = self.qdisc.head(&self.pool, QueueIndex(member));
                let id = self.with(|qdisc, cx| qdisc.dequeue_flow(cx, QueueIndex(member)));
                let len = id.as_ref().map(|id| self.pool[id].charged());
                assert_eq!(promised, len, "the packet whose length was reported");
                if let Some(id) = &id {
                    assert_eq!(self.pool[id].queue_index, QueueIndex(member));
                }
                self.depart(id);
            }
            Step::DequeueNewest { member } => {
                let id = self.with(|qdisc, cx| qdisc.dequeue_newest(cx, QueueIndex(member)));
                self.depart_newest(QueueIndex(member), id);
            }
            Step::Wait { micros } => self.now += Duration::from_micros(micros),
            Step::HandOver { from, to } => self.hand_over(from, to),
            Step::Rate { mbps } => self.qdisc.set_rate(Rate::from_mbps(mbps)),
        }
        self.check();
    }

    /// Moves the packets with even numbers from flow `old_flow` to flow `new_flow`, if `new_flow`
    /// has no packets.
    fn hand_over(&mut self, old_flow: u32, new_flow: u32) {
        let [from, to] = [old_flow, new_flow].map(QueueIndex);
        if self.qdisc.bytes_of(to) > Bytes::ZERO {
            return;
        }
        let which = &mut |packet: &mut Packet, _: Option<&Outer>| packet.vlan.is_multiple_of(2);
        let moved = self.qdisc.hand_over(&mut self.pool, &mut Handover { from, to, which });
        let old = std::mem::take(&mut self.inside[from.index()]);
        let (go, stay): (VecDeque<_>, VecDeque<_>) =
            old.into_iter().partition(|(n, _)| n.is_multiple_of(2));
        self.inside[from.index()] = stay;
        assert_eq!(moved, self.qdisc.bytes_of(to) > Bytes::ZERO);
        self.inside[to.index()] = go;
    }

    /// Counts a departure. Earlier packets of the same flow have departed or were dropped.
    fn depart(&mut self, id: Option<PacketId>) {
        let Some(id) = id else { return };
        let (member, number) = (self.pool[&id].queue_index, self.pool[&id].vlan);
        let inside = &mut self.inside[member.index()];
        let at = inside.iter().position(|(n, _)| *n == u32::from(number));
        inside.drain(..=at.expect("it left twice, or overtook one of its member"));
        self.pool.release(id);
        self.left += 1;
    }

    /// Counts a departure of the newest packet of `flow`. Later packets of the flow were dropped.
    fn depart_newest(&mut self, flow: QueueIndex, id: Option<PacketId>) {
        let Some(id) = id else { return assert_eq!(self.qdisc.bytes_of(flow), Bytes::ZERO) };
        let (index, number) = (self.pool[&id].queue_index, u32::from(self.pool[&id].vlan));
        assert_eq!(index, flow);
        let inside = &mut self.inside[flow.index()];
        let at = inside.iter().position(|(n, _)| *n == number).expect("it was removed twice");
        inside.truncate(at);
        self.pool.release(id);
        self.left += 1;
    }

    fn check(&self) {
        let backlog = self.qdisc.backlog();
        let waiting = u64::from(backlog.packets);
        assert_eq!(self.offered, self.left + self.tally.drops.total() + waiting);
        assert_eq!(self.pool.in_use(), backlog.packets);
        let of_members: Bytes = (0..6).map(|member| self.qdisc.bytes_of(QueueIndex(member))).sum();
        assert_eq!(of_members, backlog.bytes);
        assert!(backlog.bytes <= self.limit.bytes && backlog.packets <= self.limit.packets);
        for member in (0..6).map(QueueIndex) {
            let some = self.qdisc.bytes_of(member) > Bytes::ZERO;
            assert_eq!(self.qdisc.head(&self.pool, member).is_some(), some);
        }
    }
}

/// A packet whose number is stored in its VLAN field, which no discipline reads or changes. The
/// shortest packets are ACKs. The flows have three different source hosts.
fn packet(member: u32, len: u32, number: u32) -> Packet {
    let vlan = u16::try_from(number).unwrap();
    let key = FlowKey {
        src: Endpoint::v4([10, 0, 0, u8::try_from(member % 3).unwrap()], 1),
        ..FlowKey::default()
    };
    let ack = TcpSegment { ack: number, flags: TcpFlags(TcpFlags::ACK), ..TcpSegment::default() };
    let tcp = (len == 60).then_some(ack);
    Packet { queue_index: QueueIndex(member), len, cost: len, vlan, key, tcp, ..Packet::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Catches: a backlog that still counts the bytes of dropped packets; a marked packet that is
    /// enqueued twice; a `head` that is not the packet of `dequeue_flow`.
    #[test]
    fn packets_depart_in_order_or_are_counted(steps in steps(), which in 0..HASTY.len()) {
        let mut run = Run::new(HASTY[which]);
        for (number, step) in (0u32..).zip(&steps) {
            run.step(number, step);
        }
        while run.qdisc.backlog().packets > 0 {
            run.step(u32::MAX, &Step::Dequeue);
        }
        prop_assert_eq!(run.pool.in_use(), 0);
    }

    /// Equal seeds yield equal drops, and a discipline never exceeds its limit.
    #[test]
    fn equal_seeds_yield_equal_drops(steps in steps(), which in 0..HASTY.len()) {
        let mut runs = [Run::new(HASTY[which]), Run::new(HASTY[which])];
        for (number, step) in (0u32..).zip(&steps) {
            runs.iter_mut().for_each(|run| run.step(number, step));
            let [one, other] = &runs;
            prop_assert_eq!(one.tally, other.tally);
            prop_assert_eq!(one.qdisc.backlog(), other.qdisc.backlog());
        }
    }
}
