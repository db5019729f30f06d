//! FQ-CoDel: one queue for each flow, served in deficit round robin, with CoDel in each queue.
//! Flows that became backlogged just now (*new* flows) are served before the other flows (*old*
//! flows).
//!
//! Source: RFC 8290; Linux, `net/sched/sch_fq_codel.c` (drops from a full queue).
//! Differs: the index of a flow's queue is its [`queue_index`](crate::Packet::queue_index). At a link, this is a hash of the
//! flow's key, from 0 to 1,023, as in the RFC. In the gateway, each flow has its own index, so
//! flows never share a queue. The longest queue is found in constant time, but only to within a
//! factor of two.

use std::time::Duration;

use super::Qdisc;
use super::codel;
use super::law::{CodelLaw, CodelQueue, Departing, Standing};
use super::longest::Longest;
use crate::packet::{DeficitRoundRobin, First, FlowFifo, Handover, QueueIndex, make_room};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, Reason, parameters};

parameters! {
    /// Limits of the queue, parameters of CoDel, and the quantum of a flow.
    ///
    /// Source: RFC 8290, section 5.2; Linux, `tc-fq_codel(8)` (the limit in bytes).
    pub Config, checked {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(32 << 20), in more_than(Bytes::ZERO), "nothing could wait";
        /// Largest number of waiting packets.
        packets: u32 = 10_240, in 1.., "no packet could wait";
        /// Bytes that a flow may send per round of the scheduler.
        quantum: Bytes = Bytes(1_514), in LEAST_QUANTUM..;
        /// Queueing delay that is tolerated permanently. At low rates, it rises to the time that
        /// two full packets take.
        target: Duration = Duration::from_millis(5);
        /// Time for which a longer queueing delay is tolerated: the longest usual round-trip time.
        /// If `target` rises at low rates, the interval rises by as much.
        interval: Duration = Duration::from_millis(100);
        /// ECN-capable packets are marked instead of being dropped.
        ecn: bool = true;
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        codel::check(self.target, self.interval)
    }

    /// The quantum in the unit of the round-robin credit, bytes.
    pub(super) fn credit(&self) -> i64 {
        i64::try_from(self.quantum.max(LEAST_QUANTUM).0).unwrap_or(i64::MAX)
    }

    /// The parameters of CoDel for each flow.
    pub(super) const fn standing(&self) -> Standing {
        Standing { target: self.target, interval: self.interval, packet: MTU, ecn: self.ecn }
    }

    pub(super) fn build(&self, rate: Option<Rate>, _: Random) -> FqCodel {
        let usual = self.standing();
        FqCodel {
            limit: self.limit,
            packets: self.packets,
            quantum: self.credit(),
            usual,
            standing: usual.at(rate),
            lines: FlowQueues::default(),
            robin: DeficitRoundRobin::default(),
            new: First::NOBODY,
            old: First::NOBODY,
            laws: Vec::new(),
        }
    }
}

/// The queues of all flows, and their schedule.
pub(super) struct FqCodel {
    limit: Bytes,
    packets: u32,
    quantum: i64,
    /// Parameters of CoDel as configured, and adapted to the present rate.
    usual: Standing,
    standing: Standing,
    lines: FlowQueues,
    robin: DeficitRoundRobin<QueueIndex>,
    /// The first new flow and the first old flow. `robin` links the other flows of each list to
    /// them.
    new: First<QueueIndex>,
    old: First<QueueIndex>,
    /// State of CoDel, by flow index.
    laws: Vec<CodelLaw>,
}

/// Drops packets from the front of the queue `line` until half of its bytes are dropped, but at most
/// [`BATCH`] packets. `bytes` returns the backlog of `line`.
pub(super) fn drop_half<L: CodelQueue>(cx: &mut Cx<'_>, line: &mut L, bytes: impl Fn(&L) -> Bytes) {
    let half = Bytes(bytes(line).0 / 2);
    for _ in 0..BATCH {
        let Some(packet) = line.take(cx) else { break };
        cx.drop(packet, Reason::QueueFull);
        if bytes(line) <= half {
            break;
        }
    }
}

/// The packets of all flows, and the flow with the most bytes.
#[derive(Default)]
struct FlowQueues {
    all: FlowFifo,
    longest: Longest<QueueIndex>,
}

/// The packets of one flow.
struct FlowQueue<'a> {
    lines: &'a mut FlowQueues,
    member: QueueIndex,
}

impl CodelQueue for FlowQueue<'_> {
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.lines.all.pop_flow(cx.pool, self.member)?;
        self.lines.longest.set(self.member, self.bytes());
        Some(packet)
    }

    fn backlog(&self) -> Bytes {
        self.lines.all.bytes()
    }
}

impl FlowQueue<'_> {
    fn bytes(&self) -> Bytes {
        self.lines.all.bytes_of(self.member)
    }
}

impl FqCodel {
    /// Drops packets from the front of the longest flow queue until the limits hold.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while self.lines.all.bytes() > self.limit || self.lines.all.packets() > self.packets {
            let Some(member) = self.lines.longest.member() else { return };
            let mut line = FlowQueue { lines: &mut self.lines, member };
            drop_half(cx, &mut line, FlowQueue::bytes);
        }
    }

    /// Records that packets of `member` have arrived. If the flow was in neither list, it becomes a
    /// new flow.
    fn on_arrival(&mut self, member: QueueIndex) {
        self.lines.longest.set(member, self.lines.all.bytes_of(member));
        make_room(&mut self.laws, member.index(), CodelLaw::default());
        self.robin.join(&mut self.new, member, self.quantum);
    }

    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        member: QueueIndex,
        departing: Departing,
    ) -> Option<PacketId> {
        let law = self.laws.get_mut(member.index())?;
        let mut line = FlowQueue { lines: &mut self.lines, member };
        law.dequeue(&self.standing, cx, &mut line, departing)
    }

    /// Removes the next packet of a new flow.
    fn of_new(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        while let Some(member) = self.new.member() {
            if self.robin.refills(member, |_| self.quantum) {
                self.robin.relocate(&mut self.new, &mut self.old, member);
            } else if let Some(packet) = self.take(cx, member, Departing::Oldest) {
                self.robin.charge(member, i64::from(cx.pool[&packet].cost));
                return Some(packet);
            } else if self.old.member().is_some() {
                // Otherwise the flow could be new again with its next packet, and so delay the old
                // flows forever.
                self.robin.relocate(&mut self.new, &mut self.old, member);
            } else {
                self.robin.remove(&mut self.new, member);
            }
        }
        None
    }

    /// Removes the next packet of an old flow.
    fn of_old(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let quantum = self.quantum;
        while let Some(member) = self.robin.next(&mut self.old, |_| quantum) {
            if let Some(packet) = self.take(cx, member, Departing::Oldest) {
                self.robin.charge(member, i64::from(cx.pool[&packet].cost));
                return Some(packet);
            }
            self.robin.remove(&mut self.old, member);
        }
        None
    }
}

impl Qdisc for FqCodel {
    fn packets(&self) -> &FlowFifo {
        &self.lines.all
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.lines.all
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        cx.pool[&packet].queued = cx.now;
        self.put_back(cx, packet);
    }

    fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let member = cx.pool[&packet].queue_index;
        self.lines.all.push(cx.pool, packet);
        self.on_arrival(member);
        self.make_room(cx);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.of_new(cx).or_else(|| self.of_old(cx))
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        self.lines.all.peek_flow(cx.pool, member)?;
        self.take(cx, member, Departing::Promised)
    }

    fn dequeue_newest(&mut self, cx: &mut Cx<'_>, flow: QueueIndex) -> Option<PacketId> {
        let packet = self.lines.all.pop_flow_last(cx.pool, flow)?;
        self.lines.longest.set(flow, self.lines.all.bytes_of(flow));
        Some(packet)
    }

    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        let moved = self.lines.all.hand_over(pool, what);
        if moved {
            self.lines.longest.set(what.from, self.lines.all.bytes_of(what.from));
            self.on_arrival(what.to);
        }
        moved
    }

    fn set_rate(&mut self, rate: Rate) {
        self.standing = self.usual.at(Some(rate));
    }
}

/// Length of a full Ethernet frame.
///
/// Source: Linux, `net/sched/sch_fq_codel.c`, `psched_mtu`.
const MTU: Bytes = Bytes(1_514);

/// The least quantum, and the most packets that are dropped at a time.
///
/// Source: Linux, `net/sched/sch_fq_codel.c` (`fq_codel_change`, `drop_batch_size`).
pub(super) const LEAST_QUANTUM: Bytes = Bytes(256);
const BATCH: u32 = 64;

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::Time;

    fn bench() -> Bench<FqCodel> {
        Bench::new(Config::default().build(None, chance()))
    }

    #[test]
    fn flows_share_by_bytes_whatever_the_size_of_their_packets() {
        let mut bench = bench();
        (0..20).for_each(|_| bench.enqueue(0, 1_500));
        (0..300).for_each(|_| bench.enqueue(1, 100));
        let sent: Vec<_> = (0..160).map_while(|_| bench.dequeue()).collect();
        let bytes = |of| sent.iter().filter(|(m, _)| *m == of).map(|(_, len)| len).sum::<u32>();
        assert!(bytes(0).abs_diff(bytes(1)) <= 3_028, "{} and {}", bytes(0), bytes(1));
    }

    /// RFC 8290, section 4.2: a queue that becomes active is appended to the new queues, which are
    /// served before the old queues.
    ///
    /// Catches: one list for new and old queues.
    #[test]
    fn a_flow_that_was_idle_is_served_first() {
        let mut bench = bench();
        (0..4).for_each(|_| bench.enqueue(0, 1_514));
        (0..4).for_each(|_| bench.enqueue(1, 1_514));
        assert_eq!([bench.dequeue(), bench.dequeue()], [Some((0, 1_514)), Some((1, 1_514))]);
        bench.enqueue(2, 100);
        assert_eq!(bench.dequeue(), Some((2, 100)));
    }

    /// RFC 8290, section 4.2, last paragraph: a new queue that becomes empty moves to the old
    /// queues. A flow whose packets always arrive just in time therefore cannot starve the old
    /// queues.
    ///
    /// Catches: a flow that is removed from both lists as soon as its queue is empty.
    #[test]
    fn a_flow_cannot_stay_new_by_sending_just_in_time() {
        let mut bench = bench();
        (0..6).for_each(|_| bench.enqueue(0, 700));
        assert_eq!(bench.dequeue(), Some((0, 700)));
        bench.enqueue(1, 100);
        // Both flows are new. The first has credit for two packets, and then becomes old.
        assert_eq!([bench.dequeue(), bench.dequeue()], [Some((0, 700)); 2]);
        assert_eq!(bench.dequeue(), Some((1, 100)));
        assert_eq!(bench.dequeue(), Some((0, 700)), "the other has nothing");
        bench.enqueue(1, 100);
        assert_eq!(bench.dequeue(), Some((0, 700)), "the other flow is old now, and must wait");
        assert_eq!(bench.drain(), [(1, 100), (0, 700)]);
    }

    /// Linux, `net/sched/sch_fq_codel.c`: a full queue drops half of the longest flow queue from
    /// its front, but at most 64 packets.
    ///
    /// Catches: a full queue that drops the arriving packet, drops only one packet, or drops more
    /// than 64 packets.
    #[test]
    fn a_full_queue_drops_half_of_the_longest_flow_queue() {
        let config = Config { packets: 100, ..Config::default() };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..60).for_each(|_| bench.enqueue(0, 1_000));
        (0..40).for_each(|_| bench.enqueue(1, 500));
        bench.enqueue(2, 60);
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 30);
        let left = bench.drain();
        let of = |member| left.iter().filter(|(of, _)| *of == member).count();
        assert_eq!([of(0), of(1), of(2)], [30, 40, 1]);

        let config = Config { limit: Bytes(400_000), ..Config::default() };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..401).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!((bench.tally.drops.of(Reason::QueueFull), bench.waiting()), (64, 337));
    }

    /// Catches: a flow that still counts as the longest after its packets have departed.
    #[test]
    fn the_longest_flow_queue_is_known_after_departures() {
        let mut bench =
            Bench::new(Config { packets: 60, ..Config::default() }.build(None, chance()));
        (0..50).for_each(|_| bench.enqueue(0, 1_000));
        (0..48).for_each(|_| assert!(bench.dequeue_flow(0).is_some()));
        (0..59).for_each(|_| bench.enqueue(1, 100));
        let left = bench.drain();
        assert_eq!(left.iter().filter(|(member, _)| *member == 0).count(), 2);
    }

    /// CoDel works in each flow separately: the flow with a standing queue loses packets, the other
    /// flow loses none.
    #[test]
    fn only_a_flow_that_keeps_a_queue_is_hit() {
        let mut bench = bench();
        (0..500).for_each(|_| bench.enqueue(0, 1_000));
        let mut sent = Vec::new();
        for millis in 1..400 {
            bench.now = Time::from_millis(millis);
            bench.enqueue(1, 100);
            sent.extend([bench.dequeue(), bench.dequeue()]);
        }
        let of_other = sent.iter().flatten().filter(|(member, _)| *member == 1).count();
        assert!(of_other >= 398, "{of_other}");
        assert!(bench.tally.drops.of(Reason::Aqm) > 3);
        assert_eq!(bench.tally.drops.total(), bench.tally.drops.of(Reason::Aqm));
    }

    /// Linux, `include/net/codel_impl.h`, `codel_should_drop`: CoDel drops nothing while the
    /// backlog of the whole queue is at most one MTU. Here, 20 flows have only one packet each, but
    /// together they wait for 240 ms.
    ///
    /// Catches: a check of the backlog of one flow instead of the whole queue; a check against the
    /// quantum instead of the MTU.
    #[test]
    fn flows_with_one_packet_each_are_hit_while_the_whole_queue_is_long() {
        let config = Config { ecn: false, quantum: Bytes(65_536), ..Config::default() };
        for (flows, at_least) in [(20, 20), (1, 0)] {
            let mut bench = Bench::new(config.build(None, chance()));
            (0..flows).for_each(|member| bench.enqueue(member, 1_500));
            for n in 1..1_000 {
                bench.now = Time::from_millis(12 * n);
                let (member, _) = bench.dequeue().unwrap();
                let waits = |member: &u32| bench.qdisc.bytes_of(QueueIndex(*member)) > Bytes::ZERO;
                let lost: Vec<_> = (0..flows).filter(|it| *it != member && !waits(it)).collect();
                bench.enqueue(member, 1_500);
                lost.into_iter().for_each(|member| bench.enqueue(member, 1_500));
            }
            let hits = bench.tally.drops.of(Reason::Aqm);
            assert!(hits >= at_least && (hits > 0) == (at_least > 0), "{flows} flows: {hits}");
        }
    }

    /// The caller dequeues the oldest packet of a flow, which must depart. CoDel drops the next
    /// packet, although it is the flow's last packet.
    ///
    /// Catches: a check of the backlog of this flow instead of the whole queue.
    #[test]
    fn if_the_caller_selects_the_flow_its_last_packet_can_be_dropped() {
        let config = Config { ecn: false, ..Config::default() };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..2).for_each(|_| bench.enqueue(0, 1_000));
        (0..9).for_each(|_| bench.enqueue(1, 1_000));
        bench.now = Time::from_millis(50);
        assert_eq!(bench.dequeue_flow(0), Some((0, 1_000)));
        bench.enqueue(0, 1_000);
        bench.now = Time::from_millis(200);
        assert_eq!(bench.dequeue_flow(0), Some((0, 1_000)));
        assert_eq!((bench.dequeue_flow(0), bench.tally.drops.of(Reason::Aqm)), (None, 1));
    }

    /// Each packet waits for 36 ms. At 650 kbit/s, two packets take 37 ms, so no packet may be
    /// dropped.
    ///
    /// Catches: a target of 5 ms at every rate; a target that ignores a change of the rate.
    #[test]
    fn at_a_low_rate_a_packet_may_wait_for_the_time_of_two_packets() {
        let hits = |build: Option<Rate>, change: Option<Rate>| {
            let config = Config { ecn: false, ..Config::default() };
            let mut bench = Bench::new(config.build(build, chance()));
            change.into_iter().for_each(|rate| bench.qdisc.set_rate(rate));
            (0..3).for_each(|_| bench.enqueue(0, 1_500));
            for n in 1..200 {
                bench.now = Time::from_millis(12 * n);
                bench.dequeue();
                let missing = 3 - bench.waiting();
                (0..missing).for_each(|_| bench.enqueue(0, 1_500));
            }
            bench.tally.drops.of(Reason::Aqm)
        };
        let slow = Some(Rate::from_kbps(650));
        assert!(hits(None, None) > 9 && hits(slow, Some(Rate::from_mbps(100))) > 9);
        assert_eq!([hits(slow, None), hits(None, slow)], [0, 0]);
    }

    #[test]
    fn the_caller_may_select_any_flow() {
        let mut bench = bench();
        for (member, len) in [(0, 100), (1, 200), (0, 300)] {
            bench.enqueue(member, len);
        }
        assert_eq!(bench.dequeue_flow(1), Some((1, 200)));
        assert_eq!(bench.dequeue_flow(1), None);
        assert_eq!(bench.dequeue_flow(9), None);
        assert_eq!(bench.drain(), [(0, 100), (0, 300)]);
    }

    #[test]
    fn contradictory_fields_are_refused() {
        let error = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
        assert!(error("quantum = \"1 B\"").contains("`quantum` must be at least"));
        assert!(error("target = \"100 ms\"").contains("`target` must be less"));
    }
}
