//! A queue for the flows of a trunk, a path between two gateways. It signals a flow (drops or marks
//! a packet) only after the flow has recovered from its last signal.
//!
//! A TCP flow that is signalled with a window of W packets sends U = W/2 + ... + W = 3 W (W + 2) /
//! 8 packets until its window is W again. The queue does not signal the flow again before U/2 of
//! its packets have departed.
//!
//! Source: `trunking`, section 6 (a single FIFO with per-flow accounting).
//! Differs: the paper does not print the following rules.
//! - The queue keeps its backlog below `threshold` by signalling flows at random. A flow's fair
//!   share of the queue is `threshold` over the number of active flows. The probability rises from
//!   0 at this share to 1 at twice the share.
//! - W is the window of the trunk over the number of active flows, but at least four packets.
//! - A flow is active if it has sent in the present period of two seconds or in the period before.

use super::{Qdisc, drop_tail};
use crate::packet::{FlowFifo, QueueIndex, make_room};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, Reason, parameters};

parameters! {
    /// Limits of the queue.
    pub Config {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(150_000), in more_than(Bytes::ZERO), "nothing could wait";
        /// Backlog that the queue exceeds only for a short time. A value above `limit` counts as
        /// `limit`.
        threshold: Bytes = Bytes(50_000), in more_than(Bytes::ZERO), "every packet would be hit";
    }
}

impl Config {
    pub(super) fn build(&self, rate: Option<Rate>, random: Random) -> Sparing {
        Sparing {
            line: drop_tail::Config { limit: self.limit }.build(rate, random.clone()),
            threshold: self.threshold.min(self.limit).0,
            random,
            window: 0,
            flows: Vec::new(),
            era: 0,
            active: [0; 2],
        }
    }
}

pub(super) struct Sparing {
    line: drop_tail::DropTail,
    threshold: u64,
    random: Random,
    /// Window of the trunk that transmits the packets of this queue, in bytes.
    window: u64,
    flows: Vec<SparedFlow>,
    /// Number of the present period of two seconds, counted from 1.
    era: u64,
    /// Number of flows that sent in the present period, and in the period before.
    active: [u64; 2],
}

/// State of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct SparedFlow {
    /// The last period in which the flow has sent.
    era: u64,
    /// Number of packets of the flow that must depart before its next signal.
    spared: u32,
}

impl Sparing {
    /// Records that a packet of the flow `member` arrives.
    fn note(&mut self, cx: &Cx<'_>, member: QueueIndex) {
        let era = cx.now.nanos() / ERA + 1;
        if era != self.era {
            let last = if era == self.era + 1 { self.active[0] } else { 0 };
            (self.era, self.active) = (era, [0, last]);
        }
        make_room(&mut self.flows, member.index(), SparedFlow::default());
        let flow = &mut self.flows[member.index()];
        self.active[0] += u64::from(flow.era != era);
        flow.era = era;
    }

    /// Number of active flows.
    fn active(&self) -> u64 {
        self.active[0].max(self.active[1]).max(1)
    }

    /// Returns `true` if a flow with `waiting` bytes in the queue is to be signalled, unless it is
    /// still recovering.
    fn must_signal(&mut self, waiting: u64) -> bool {
        let fair = (self.threshold / self.active()).max(1);
        self.random.below(fair) < waiting.saturating_sub(fair)
    }

    /// U/2: half of the packets that a flow sends while it recovers. Its packets have `len` bytes.
    fn half_a_recovery(&self, len: u64) -> u32 {
        let window = (self.window / self.active() / len.max(1)).clamp(LEAST_WINDOW, MOST_WINDOW);
        let all = 3 * window * (window + 2) / 8;
        u32::try_from(all / 2).unwrap_or(u32::MAX)
    }

    fn departed(&mut self, packet: Option<PacketId>, pool: &PacketPool) -> Option<PacketId> {
        let member = packet.as_ref().map(|packet| pool[packet].queue_index);
        if let Some(flow) = member.and_then(|member| self.flows.get_mut(member.index())) {
            flow.spared = flow.spared.saturating_sub(1);
        }
        packet
    }
}

/// Length of a period in nanoseconds.
const ERA: u64 = 2_000_000_000;

/// Bounds of a window in packets. Below the lower bound, TCP has no fast retransmit. The upper
/// bound keeps the products small.
const LEAST_WINDOW: u64 = 4;
const MOST_WINDOW: u64 = 10_000;

impl Qdisc for Sparing {
    fn packets(&self) -> &FlowFifo {
        self.line.packets()
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        self.line.packets_mut()
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let (member, len) = (cx.pool[&packet].queue_index, cx.pool[&packet].frame_len().0);
        self.note(cx, member);
        let waiting = self.line.bytes_of(member).0;
        if self.flows[member.index()].spared == 0 && self.must_signal(waiting) {
            self.flows[member.index()].spared = self.half_a_recovery(len);
            if !cx.mark(&packet, Reason::Aqm) {
                return cx.drop(packet, Reason::Aqm);
            }
        }
        self.line.enqueue(cx, packet);
    }

    fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.note(cx, cx.pool[&packet].queue_index);
        self.line.put_back(cx, packet);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.line.dequeue(cx);
        self.departed(packet, cx.pool)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        let packet = self.line.dequeue_flow(cx, member);
        self.departed(packet, cx.pool)
    }

    fn dequeue_newest(&mut self, cx: &mut Cx<'_>, flow: QueueIndex) -> Option<PacketId> {
        let packet = self.line.dequeue_newest(cx, flow);
        self.departed(packet, cx.pool)
    }

    fn set_window(&mut self, window: Bytes) {
        self.window = window.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::Time;

    fn bench() -> Bench<Sparing> {
        Bench::new(Config::default().build(None, chance()))
    }

    /// Enqueues packets of `flows` flows in rotation, two for each departure. Returns, for each
    /// signal, the number of packets of the flow that departed since its last signal.
    fn gaps(flows: u32, window: u64) -> Vec<u32> {
        let mut bench = bench();
        bench.qdisc.set_window(Bytes(window));
        let mut left = vec![0; usize::try_from(flows).unwrap()];
        let mut gaps = Vec::new();
        for step in 0..20_000_u32 {
            bench.now = Time::from_micros(u64::from(step) * 600);
            let member = step % flows;
            let before = bench.tally.drops.of(Reason::Aqm);
            bench.enqueue(member, 1_000);
            if bench.tally.drops.of(Reason::Aqm) > before {
                gaps.push(std::mem::take(&mut left[usize::try_from(member).unwrap()]));
            }
            if step % 2 == 1
                && let Some((member, _)) = bench.dequeue()
            {
                left[usize::try_from(member).unwrap()] += 1;
            }
        }
        gaps.split_off(usize::try_from(flows).unwrap())
    }

    /// For a window of 8 packets, U (the packets that a flow sends until it has recovered) is 30,
    /// and half of it is 15. For 16 packets, U is 108 and half of it is 54.
    ///
    /// Catches: flows that are spared for U packets instead of half of U; the window of the whole
    /// trunk used for one flow; arrivals counted instead of departures.
    #[test]
    fn no_flow_is_signalled_again_before_half_a_recovery_has_departed() {
        for (flows, window, half) in [(4, 32_000, 15), (2, 32_000, 54), (5, 4_000, 4)] {
            let gaps = gaps(flows, window);
            let least = gaps.iter().min().unwrap();
            assert_eq!(*least, half, "{flows} flows: {gaps:?}");
        }
    }

    #[test]
    fn a_flow_with_at_most_a_fair_share_is_not_signalled() {
        let mut bench = bench();
        for step in 0..1_000 {
            (0..10).for_each(|member| bench.enqueue(member, 100));
            (0..if step < 40 { 5 } else { 10 }).for_each(|_| _ = bench.dequeue());
        }
        assert_eq!((bench.waiting(), bench.tally.drops.total()), (200, 0));
    }

    #[test]
    fn idle_flows_leave_their_share_to_active_flows() {
        let mut bench = bench();
        (0..10).for_each(|member| bench.enqueue(member, 100));
        assert_eq!(bench.qdisc.active(), 10);
        for (seconds, active) in [(1, 10), (2, 10), (4, 1), (60, 1)] {
            bench.now = Time::from_secs(seconds);
            bench.enqueue(0, 100);
            assert_eq!(bench.qdisc.active(), active, "{seconds}");
        }
    }

    #[test]
    fn a_full_queue_drops_packets_of_any_flow() {
        let mut bench = Bench::new(
            Config { limit: Bytes(2_000), threshold: Bytes(2_000) }.build(None, chance()),
        );
        (0..3).for_each(|member| bench.enqueue(member, 800));
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 1);
        let error = toml::from_str::<Config>("threshold = \"0 B\"").unwrap_err().to_string();
        assert!(error.contains("`threshold`"));
    }
}
