//! Per-flow queueing: one queue for each flow, served in deficit round robin.
//!
//! Source: RFC 8290, section 4.2 (deficit round robin, without its priority for new flows).
//! Differs:
//! - There is a limit for each flow, and a limit for all flows together.
//! - When the whole queue is full, packets are dropped from the front of the longest flow queue.
//!   This queue is found in constant time, to within a factor of two. RFC 8290 searches all queues.

use std::time::Duration;

use super::Qdisc;
use super::longest::Longest;
use crate::packet::{DeficitRoundRobin, First, FlowFifo, Handover, ListIndex, QueueIndex};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, Reason, parameters};

parameters! {
    /// Limits of the queue.
    pub Config {
        /// Most frame bytes that may wait.
        limit: Bytes = Bytes(4 << 20), in more_than(Bytes::ZERO), "nothing could wait";
        /// Most frame bytes of one flow that may wait. A single packet always fits. Default: the
        /// bytes that the rate carries in 1 s, at most 256 KiB. With a `marking`, the default is
        /// `limit`.
        flow_limit: Option<Bytes> = None, in more_than(Bytes::ZERO), "nothing could wait";
    }
}

impl Config {
    pub(super) fn build(&self, rate: Option<Rate>, _: Random) -> PerFlow {
        PerFlow {
            limit: self.limit,
            flow_limit: self.flow_limit.unwrap_or_else(|| usual_flow_limit(rate)),
            by_rate: self.flow_limit.is_none(),
            lines: FlowFifo::default(),
            robin: DeficitRoundRobin::default(),
            waiting: First::NOBODY,
            longest: Longest::default(),
        }
    }
}

/// Limit of a flow's queue if none is configured.
fn usual_flow_limit(rate: Option<Rate>) -> Bytes {
    rate.map_or(MOST_OF_FLOW, |rate| rate.bytes_in(LONGEST_WAIT).min(MOST_OF_FLOW))
}

/// Four windows of 64 KiB, which is the largest window without window scaling (RFC 7323, 2.2).
const MOST_OF_FLOW: Bytes = Bytes(256 << 10);

/// The initial retransmission timeout (RFC 6298, 2.1). If packets waited longer, senders would
/// retransmit them.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The queues of all flows, and the round robin of the flows that have packets.
pub(super) struct PerFlow {
    limit: Bytes,
    flow_limit: Bytes,
    /// No limit per flow is configured, so `flow_limit` follows the rate.
    by_rate: bool,
    lines: FlowFifo,
    /// The round robin's credits, and its first flow.
    robin: DeficitRoundRobin<ListIndex>,
    waiting: First<ListIndex>,
    longest: Longest<ListIndex>,
}

impl PerFlow {
    /// Drops packets from the front of the longest flow queue until the limit holds.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while self.lines.bytes() > self.limit {
            let Some(list) = self.longest.member() else { return };
            let Some(packet) = self.take(cx, self.lines.flow_in(cx.pool, list)) else { return };
            cx.drop(packet, Reason::QueueFull);
        }
    }

    /// Adds a flow to the round robin if the flow is not there.
    fn join_round(&mut self, list: ListIndex) {
        self.robin.join(&mut self.waiting, list, QUANTUM);
    }

    fn take(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        let list = self.lines.list(member)?;
        let packet = self.lines.pop_flow(cx.pool, member)?;
        self.longest.set(list, self.lines.bytes_of(member));
        if self.lines.list(member).is_none() {
            self.robin.remove(&mut self.waiting, list);
        }
        Some(packet)
    }
}

impl Qdisc for PerFlow {
    fn packets(&self) -> &FlowFifo {
        &self.lines
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.lines
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let (member, len) = (cx.pool[&packet].queue_index, cx.pool[&packet].frame_len());
        let bytes = self.lines.bytes_of(member) + len;
        if bytes > self.flow_limit.max(len) {
            cx.drop(packet, Reason::FlowFull);
            return;
        }
        let list = self.lines.push_to_list(cx.pool, packet);
        self.longest.set(list, bytes);
        self.join_round(list);
        self.make_room(cx);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let list = self.robin.next(&mut self.waiting, |_| QUANTUM)?;
        let member = self.lines.flow_in(cx.pool, list);
        let cost = self.lines.peek_flow(cx.pool, member)?.cost;
        self.robin.charge(list, i64::from(cost));
        self.take(cx, member)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        self.take(cx, member)
    }

    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        let (from, to) = (what.from, what.to);
        let Some(old) = self.lines.list(from) else { return false };
        if !self.lines.hand_over(pool, what) {
            return false;
        }
        self.longest.set(old, self.lines.bytes_of(from));
        if self.lines.list(from).is_none() {
            self.robin.remove(&mut self.waiting, old);
        }
        if let Some(new) = self.lines.list(to) {
            self.longest.set(new, self.lines.bytes_of(to));
            self.join_round(new);
        }
        true
    }

    fn limit(&self) -> Option<Bytes> {
        Some(self.limit)
    }

    fn expect_marking(&mut self) {
        if std::mem::take(&mut self.by_rate) {
            self.flow_limit = self.limit;
        }
    }

    fn set_rate(&mut self, rate: Rate) {
        if self.by_rate {
            self.flow_limit = usual_flow_limit(Some(rate));
        }
    }
}

/// Bytes that a flow may send per round: a full-size Ethernet frame (RFC 8290, section 5.2.4).
const QUANTUM: i64 = 1_514;

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;

    #[test]
    fn flows_share_by_bytes_whatever_the_size_of_their_packets() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        (0..20).for_each(|_| bench.enqueue(0, 1_500));
        (0..300).for_each(|_| bench.enqueue(1, 100));
        let sent: Vec<_> = (0..160).map_while(|_| bench.dequeue()).collect();
        let bytes = |of| sent.iter().filter(|(m, _)| *m == of).map(|(_, len)| len).sum::<u32>();
        assert!(bytes(0).abs_diff(bytes(1)) <= 3_000, "{} and {}", bytes(0), bytes(1));
    }

    #[test]
    fn one_flow_cannot_use_the_room_of_other_flows() {
        let config = Config { limit: Bytes(20_000), flow_limit: Some(Bytes(5_000)) };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..10).for_each(|_| bench.enqueue(0, 1_000));
        assert_eq!(bench.tally.drops.of(Reason::FlowFull), 5);
        bench.enqueue(1, 1_000);
        assert_eq!(bench.tally.drops.total(), 5);
    }

    /// Catches: one limit for all rates; a limit that ignores a change of the rate; a configured
    /// limit that follows the rate.
    #[test]
    fn a_flow_has_a_second_of_the_rate_unless_its_limit_is_configured() {
        let waits = |flow_limit, build: Option<Rate>, change: Option<Rate>| {
            let config = Config { flow_limit, ..Config::default() };
            let mut bench = Bench::new(config.build(build, chance()));
            change.into_iter().for_each(|rate| bench.qdisc.set_rate(rate));
            (0..300).for_each(|_| bench.enqueue(0, 1_000));
            bench.waiting()
        };
        let (slow, fast) = (Some(Rate::from_kbps(80)), Some(Rate::from_mbps(80)));
        assert_eq!([waits(None, None, None), waits(None, fast, None)], [262, 262]);
        assert_eq!([waits(None, slow, None), waits(None, fast, slow)], [10, 10]);
        assert_eq!(waits(Some(Bytes(50_000)), fast, slow), 50);
    }

    /// A super-packet may be longer than the bytes that depart in a second.
    ///
    /// Catches: a limit below the length of a single packet.
    #[test]
    fn a_single_packet_of_any_length_may_wait() {
        let config = Config { flow_limit: Some(Bytes(5_000)), ..Config::default() };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..2).for_each(|_| bench.enqueue(0, 65_226));
        assert_eq!((bench.waiting(), bench.tally.drops.of(Reason::FlowFull)), (1, 1));
        assert_eq!(bench.dequeue(), Some((0, 65_226)));
    }

    #[test]
    fn a_full_queue_drops_from_the_longest_flow_queue() {
        let config = Config { limit: Bytes(10_000), flow_limit: Some(Bytes(10_000)) };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..9).for_each(|_| bench.enqueue(0, 1_000));
        (1..4).for_each(|member| bench.enqueue(member, 1_000));
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 2);
        let sent = bench.drain();
        for member in 1..4 {
            assert!(sent.contains(&(member, 1_000)));
        }
    }

    /// Catches: a flow that still counts as the longest after its packets have departed.
    #[test]
    fn a_flow_queue_that_was_served_is_no_longer_the_longest() {
        let config = Config { limit: Bytes(10_000), flow_limit: Some(Bytes(10_000)) };
        let mut bench = Bench::new(config.build(None, chance()));
        (0..9).for_each(|_| bench.enqueue(0, 1_000));
        (0..8).for_each(|_| assert_eq!(bench.dequeue(), Some((0, 1_000))));
        (0..5).for_each(|_| bench.enqueue(1, 1_000));
        (0..5).for_each(|_| bench.enqueue(2, 1_000));
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 1);
        assert!(bench.drain().contains(&(0, 1_000)));
    }

    #[test]
    fn a_flow_with_new_packets_waits_until_it_is_served() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        bench.enqueue(0, 1_514);
        bench.enqueue(1, 1_514);
        bench.enqueue(1, 1_514);
        assert_eq!(bench.dequeue(), Some((0, 1_514)));
        bench.enqueue(0, 1_514);
        assert_eq!(bench.dequeue(), Some((1, 1_514)));
    }
}
