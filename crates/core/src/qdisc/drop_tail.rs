//! Drop-Tail: one queue in order of arrival. A packet that does not fit is dropped.
//!
//! Source: RFC 7567, section 1 ("tail drop").
//! Differs: the limit is in bytes, so that small packets take less room than large packets.

use super::Qdisc;
use crate::packet::{FlowFifo, QueueIndex};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, Rate, Reason, parameters};

parameters! {
    /// Limit of the queue.
    pub Config {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(1 << 20), in more_than(Bytes::ZERO), "nothing could wait";
    }
}

impl Config {
    pub(super) fn build(&self, _: Option<Rate>, _: Random) -> DropTail {
        DropTail { limit: self.limit, line: None }
    }
}

/// The contents of a queue before its first packet.
static NOTHING: FlowFifo = FlowFifo::new();

pub(super) struct DropTail {
    limit: Bytes,
    /// `None` before the first packet, because most queues of a large simulated network stay empty.
    line: Option<Box<FlowFifo>>,
}

impl Qdisc for DropTail {
    fn packets(&self) -> &FlowFifo {
        self.line.as_deref().unwrap_or(&NOTHING)
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        self.line.get_or_insert_default()
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let line = self.line.get_or_insert_default();
        if line.bytes() + cx.pool[&packet].frame_len() > self.limit {
            cx.drop(packet, Reason::QueueFull);
        } else {
            line.push(cx.pool, packet);
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.line.as_mut()?.pop(cx.pool)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        self.line.as_mut()?.pop_flow(cx.pool, member)
    }

    fn dequeue_last(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.line.as_mut()?.pop_last(cx.pool)
    }

    fn limit(&self) -> Option<Bytes> {
        Some(self.limit)
    }

    fn passes(&self) -> Option<Bytes> {
        Some(self.limit)
    }

    fn is_one_line(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, chance};
    use super::*;

    #[test]
    fn a_packet_that_does_not_fit_is_dropped_and_waiting_packets_keep_their_order() {
        let mut bench = Bench::new(Config { limit: Bytes(3_000) }.build(None, chance()));
        for (member, len) in [(0, 1_000), (1, 1_500), (0, 600), (2, 500)] {
            bench.enqueue(member, len);
        }
        assert_eq!(bench.tally.drops.of(Reason::QueueFull), 1);
        assert_eq!(bench.drain(), [(0, 1_000), (1, 1_500), (2, 500)]);
    }

    #[test]
    fn the_caller_can_select_the_flow_to_dequeue() {
        let mut bench = Bench::new(Config::default().build(None, chance()));
        for (member, len) in [(0, 100), (1, 200), (0, 300)] {
            bench.enqueue(member, len);
        }
        assert_eq!(bench.dequeue_flow(1), Some((1, 200)));
        assert_eq!(bench.dequeue_flow(1), None);
        assert_eq!(bench.drain(), [(0, 100), (0, 300)]);
    }
}
