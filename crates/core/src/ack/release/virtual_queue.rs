//! P2, the virtual queue: an ACK is held for as long as its data would have waited in a queue of its flow.
//!
//! Source: `postack`, R001-9 (the release rule P2).
//!
//! Differs: P2 has the drain (a lower rate while the queue is long) that the source has for the bucket P1
//! alone. Otherwise P2 would keep the queue of slow start too, and half of the backlog would be data.

use std::collections::VecDeque;
use std::time::Duration;

use super::paced::Paced;
use crate::ack::Queue;
use crate::ack::constants::{MAX_HOLD, SHORTEST_RTO};
use crate::ack::hold::Holds;
use crate::ack::shares::Shares;
use crate::ack::uncalled::Uncalled;
use crate::flow::before;
use crate::packet::{Fifo, FlowIndex, Packet};
use crate::{Cx, PacketId, Time};

/// The virtual queues of all flows, and the scheduled departures of their oldest held ACKs.
#[derive(Default)]
pub(in crate::ack) struct VirtualQueue {
    flows: Vec<Virtual>,
    /// The `free` time of a flow is when all arrived data would have departed from its virtual queue.
    pace: Paced,
}

/// The virtual queue of a flow.
#[derive(Clone, Default)]
struct Virtual {
    /// For each segment in flight: the sequence number after it, and its time in the virtual queue.
    waits: VecDeque<(u32, Duration)>,
    /// Acknowledgement numbers, each with the time at which an ACK of this number may depart.
    times: VecDeque<(u32, Time)>,
}

/// Most entries of `waits`, and of `times`, of a flow.
const MOST: usize = 4_096;

impl VirtualQueue {
    pub(in crate::ack) fn on_data(
        &mut self,
        now: Time,
        member: FlowIndex,
        packet: &Packet,
        shares: &Shares,
        queue: Queue,
    ) {
        let Some(tcp) = packet.tcp.filter(|tcp| tcp.payload > 0) else { return };
        // While packets of other flows wait, a decision takes effect only after the hold, for which windows
        // have room. With a shorter time, the queue and the rate oscillate.
        let within = if queue.others > 0 { MAX_HOLD / 2 } else { SHORTEST_RTO };
        let rate = shares.drained(member, queue, within);
        let free = self.pace.free(member);
        *free = (*free).max(now) + rate.time_for(packet.charged());
        let wait = free.since(now);
        let waits = &mut self.flow(member).waits;
        if !packet.seen_before && waits.len() < MOST {
            waits.push_back((tcp.end_seq(), wait));
        }
    }

    /// Returns `true` if the ACK need not wait.
    pub(in crate::ack) fn on_ack(
        &mut self,
        cx: &Cx<'_>,
        member: FlowIndex,
        packet: &PacketId,
    ) -> bool {
        let Some(tcp) = cx.pool[packet].tcp else { return true };
        let flow = self.flow(member);
        let mut wait = None;
        while let Some((_, span)) = flow.waits.pop_front_if(|(end, _)| !before(tcp.ack, *end)) {
            wait = Some(span);
        }
        if let Some(wait) = wait {
            let last = flow.times.back().map_or(Time::ZERO, |(_, at)| *at);
            if flow.times.len() >= MOST {
                flow.times.pop_back();
            }
            flow.times.push_back((tcp.ack, last.max(cx.now + wait)));
        }
        wait.is_none() && flow.times.is_empty()
    }

    pub(in crate::ack) fn arm(&mut self, cx: &Cx<'_>, member: FlowIndex, holds: &Holds) {
        if self.pace.is_set(member) {
            return;
        }
        let Some(head) = holds.head(cx.pool, member) else { return };
        let flow = self.flow(member);
        while flow.times.len() > 1 && flow.times.front().is_some_and(|it| before(it.0, head.ack)) {
            flow.times.pop_front();
        }
        let at = flow.times.front().map_or(cx.now, |(_, at)| *at);
        self.pace.set(member, at.max(cx.now));
    }

    /// Lets ACKs of `member` that were stopped depart again. If the first of them is late by now, all depart
    /// later by as much, with the same gaps.
    pub(in crate::ack) fn go_on(&mut self, now: Time, member: FlowIndex) {
        let times = &mut self.flow(member).times;
        let late = times.front().map_or(Duration::ZERO, |(_, at)| now.since(*at));
        if late > Duration::ZERO {
            times.iter_mut().for_each(|(_, at)| *at += late);
        }
    }

    pub(in crate::ack) fn serve(
        &mut self,
        cx: &mut Cx<'_>,
        holds: &mut Holds,
        uncalled: &mut Uncalled,
        out: &mut Fifo,
    ) {
        while let Some((_, member)) = self.pace.due(cx.now) {
            if let Some(cost) = holds.release(cx, member, out) {
                uncalled.asked(member, cost);
            }
            if holds.releasable(member) > 0 {
                self.arm(cx, member, holds);
            } else if holds.held(member) == 0 {
                self.flow(member).times.clear();
            }
        }
    }

    pub(in crate::ack) fn ready_at(&self) -> Option<Time> {
        self.pace.next()
    }

    pub(in crate::ack) fn forget(&mut self, member: FlowIndex) {
        self.pace.forget(member);
        *self.flow(member) = Virtual::default();
    }

    fn flow(&mut self, member: FlowIndex) -> &mut Virtual {
        crate::packet::make_room(&mut self.flows, member.index(), Virtual::default());
        &mut self.flows[member.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack::testing::{Bench, MSS, US};

    /// Catches: stopped ACKs that later depart all at once.
    #[test]
    fn acks_that_were_stopped_depart_with_the_same_gaps() {
        let gaps = |stop: bool| {
            let mut bench = Bench::new("{ kind = 'postack', release = 'virtual-queue' }", 10);
            (0..=100).for_each(|n| bench.data(US(0), 0, n * MSS));
            bench.ack(US(0), 0, 0);
            (1..=100).for_each(|n| assert!(bench.ack(US(1), 0, n * MSS).is_empty()));
            if stop {
                bench.control.stop(US(2), FlowIndex(0));
                assert!(bench.run_until(US(50_000)).is_empty());
                bench.resume(US(50_000), 0);
            }
            let departed = bench.run_until(US(400_000));
            assert_eq!(departed.len(), 100);
            departed.windows(2).map(|it| it[1].0.since(it[0].0)).collect::<Vec<_>>()
        };
        let plain = gaps(false);
        assert!(plain.iter().all(|gap| gap.as_micros() == 1_211), "{plain:?}");
        assert_eq!(gaps(true), plain);
    }
}
