//! A queue with a marking predictor. The predictor drops or marks packets of selected flows before the queue overflows.
//!
//! The predictor expects an overflow at the limit of the whole queue, or at the bytes that depart
//! within 1 s if these are less. The queue `per-flow` has no limit per flow here, unless the file
//! sets one: such a limit would drop packets before the predictor expects a drop.
//!
//! For each arriving packet, the gateway calls [`Marked::sight`] and then enqueues the packet.

use super::per_flow::LONGEST_WAIT;
use super::{Qdisc, QdiscSpec};
use crate::flow::Flow;
use crate::marking::{MarkedBuffer, Marker, MarkingSpec, Observed, ServiceRate, Target};
use crate::packet::{Direction, FlowFifo, FlowId, Handover, QueueIndex};
use crate::parameters::Written;
use crate::random::Random;
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Time};

/// The configuration of the queue, and of its marking predictor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    queue: Box<QdiscSpec>,
    marking: MarkingSpec,
}

/// `queue` with the marking predictor `marking`, if there is one.
#[must_use]
pub fn with_marking(queue: QdiscSpec, marking: Option<MarkingSpec>) -> QdiscSpec {
    match marking {
        Some(marking) => QdiscSpec::Marked(Config { queue: Box::new(queue), marking }),
        None => queue,
    }
}

impl QdiscSpec {
    /// The marking predictor of the queue, if it has one.
    #[must_use]
    pub const fn marking(&self) -> Option<&MarkingSpec> {
        match self {
            Self::Marked(Config { marking, .. }) => Some(marking),
            _ => None,
        }
    }

    /// Returns `true` if the queue drops packets only when it is full. Only then can it have a
    /// marking predictor.
    #[must_use]
    pub fn can_be_marked(&self) -> bool {
        self.sample().limit().is_some()
    }

    /// Returns `true` if packets depart in order of arrival, and are dropped only when the queue is
    /// full.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        let queue = self.sample();
        queue.is_one_line() && queue.limit().is_some()
    }

    /// An empty queue without the predictor, whose properties can be read.
    fn sample(&self) -> Box<dyn Qdisc> {
        self.unmarked().build(None, Random::new(0, 0))
    }

    /// The queue without its predictor.
    #[must_use]
    pub fn unmarked(&self) -> &Self {
        match self {
            Self::Marked(Config { queue, .. }) => queue,
            _ => self,
        }
    }
}

impl Config {
    /// The parameters of the queue that differ from their defaults.
    pub(super) fn changed(&self) -> Vec<(&'static str, Written)> {
        self.queue.changed()
    }

    /// The name of the queue.
    pub(super) fn name(&self) -> &'static str {
        self.queue.name()
    }

    pub(super) fn build(&self, rate: Option<Rate>, mut random: Random) -> Marked {
        let marker = Marker::new(self.marking.build(Random::new(random.below(u64::MAX), 0)));
        let mut queue = self.queue.build(rate, random);
        queue.expect_marking();
        let service = ServiceRate::fixed(rate.unwrap_or(Rate::from_bps(0)));
        Marked { place: ObservedQueue::new(queue, service), marker }
    }
}

/// A queue with a marking predictor.
pub struct Marked {
    place: ObservedQueue,
    marker: Marker,
}

/// The queue, and the rate at which its packets depart.
struct ObservedQueue {
    queue: Box<dyn Qdisc>,
    service: ServiceRate,
    tokens: Bytes,
    /// The limit at which the predictor expects an overflow.
    limit: Bytes,
}

impl ObservedQueue {
    fn new(queue: Box<dyn Qdisc>, service: ServiceRate) -> Self {
        let (tokens, limit) = (Bytes::ZERO, Bytes::ZERO);
        let mut line = Self { queue, service, tokens, limit };
        line.set_limit();
        line
    }

    /// Computes the limit again after a change of the departure rate's bounds.
    fn set_limit(&mut self) {
        let limit = self.service.most().bytes_in(LONGEST_WAIT);
        self.limit = self.queue.limit().map_or(limit, |bytes| bytes.min(limit));
    }
}

impl MarkedBuffer for ObservedQueue {
    fn observed(&mut self, now: Time, direction: Direction) -> Observed<'_> {
        let empty = Observed::empty(now, direction, self.service.rate(), self.limit);
        Observed { tokens: self.tokens, backlog: self.queue.backlog().bytes, ..empty }
    }

    fn visit(&self, pool: &mut PacketPool, of: Target, which: &mut dyn FnMut(&mut Packet) -> bool) {
        self.queue.visit(pool, of.queue_index, which);
    }

    fn take(&mut self, cx: &mut Cx<'_>, of: Target) -> Option<PacketId> {
        self.queue.dequeue_flow(cx, of.queue_index)
    }
}

impl Marked {
    /// Tells the predictor that `packet` is about to be enqueued. `flow` is `None` if the flow has
    /// no table entry.
    pub fn sight(&mut self, now: Time, direction: Direction, packet: &Packet, flow: Option<&Flow>) {
        if self.place.service.is_measured() {
            self.place.service.arrives(now, self.marker.longest_rtt());
        }
        let seen = Observed { flow, ..self.place.observed(now, direction) };
        self.marker.sight(&seen, packet);
    }

    /// Tells the predictor that `ack` departs to the sender of `flow`, whose data goes in
    /// `direction`.
    pub fn acknowledge(&mut self, now: Time, direction: Direction, ack: &Packet, flow: &Flow) {
        let seen = Observed { flow: Some(flow), ..self.place.observed(now, direction) };
        self.marker.acknowledge(&seen, ack);
    }

    /// The predictor with its counters.
    #[must_use]
    pub const fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Removes the state of `flow`, whose index may be given to another flow.
    pub fn forget(&mut self, flow: FlowId) {
        self.marker.forget(flow);
    }

    /// Sets the number of bytes that can depart at once beyond the rate (tokens of the policy).
    pub const fn set_tokens(&mut self, tokens: Bytes) {
        self.place.tokens = tokens;
    }

    /// Sets the bounds of the measured departure rate, for the queue of a class.
    pub(crate) fn set_range(&mut self, least: Rate, most: Rate) {
        self.place.service.set_range(least, most);
        self.place.set_limit();
    }

    fn departs(&mut self, cx: &Cx<'_>, packet: Option<PacketId>) -> Option<PacketId> {
        let packet = packet?;
        if self.place.service.is_measured() {
            let (len, more) = (cx.pool[&packet].frame_len(), self.backlog().packets > 0);
            self.place.service.departs(cx.now, self.marker.longest_rtt(), len, more);
        }
        self.marker.departs(&cx.pool[&packet]);
        Some(packet)
    }
}

impl Qdisc for Marked {
    fn packets(&self) -> &FlowFifo {
        self.place.queue.packets()
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        self.place.queue.packets_mut()
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        if let Some(packet) = self.marker.prevent(cx, &mut self.place, packet) {
            self.place.queue.enqueue(cx, packet);
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.place.queue.dequeue(cx);
        self.departs(cx, packet)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        let packet = self.place.queue.dequeue_flow(cx, member);
        self.departs(cx, packet)
    }

    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        self.place.queue.hand_over(pool, what)
    }

    fn limit(&self) -> Option<Bytes> {
        self.place.queue.limit()
    }

    fn marked(&self) -> Option<&Marked> {
        Some(self)
    }

    fn marked_mut(&mut self) -> Option<&mut Marked> {
        Some(self)
    }

    fn set_window(&mut self, window: Bytes) {
        self.place.queue.set_window(window);
    }

    fn set_rate(&mut self, rate: Rate) {
        self.place.service.set_range(rate, rate);
        self.place.queue.set_rate(rate);
        self.place.set_limit();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::super::testing::{Bench, chance};
    use super::*;
    use crate::marking::{Decision, Marking, Outcome, Tracked};

    /// A predictor that drops every packet, and counts the drops that are reported to it.
    struct Drops(Arc<AtomicU32>);

    impl Marking for Drops {
        fn arrived(&mut self, _: &Observed<'_>, _: &Packet) -> bool {
            false
        }

        fn departed(&mut self, _: &Packet) {}

        fn acknowledged(&mut self, _: &Observed<'_>, _: &Packet) {}

        fn decide(&mut self, _: &Observed<'_>, _: &Packet) -> Decision {
            Decision::Drop
        }

        fn done(&mut self, _: Time, target: Target, outcome: Outcome) {
            assert_eq!((target.queue_index, outcome), (QueueIndex(1), Outcome::Dropped));
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn forget(&mut self, _: FlowId) {}

        fn ignores(&self, _: FlowId) -> bool {
            false
        }

        fn longest_rtt(&self) -> Duration {
            Duration::ZERO
        }

        fn tracks(&self, _: FlowId) -> bool {
            false
        }

        fn tracked(&self) -> Tracked {
            Tracked::default()
        }
    }

    /// Catches: a packet that was handed over from another queue and is dropped, because the
    /// overflow of the last arrival is applied to it; a drop that is not reported to the predictor.
    #[test]
    fn only_packets_that_arrived_at_this_queue_are_dropped() {
        let reported = Arc::<AtomicU32>::default();
        let queue = QdiscSpec::DropTail(Default::default()).build(None, chance());
        let service = ServiceRate::fixed(Rate::from_mbps(1));
        let place = ObservedQueue::new(queue, service);
        let mut bench =
            Bench::new(Marked { place, marker: Marker::new(Box::new(Drops(reported.clone()))) });
        let packet = Packet::default();
        bench.qdisc.sight(bench.now, Direction::Up, &packet, None);
        bench.enqueue(1, 500);
        assert_eq!((bench.waiting(), bench.qdisc.marker.marks().unmarkable), (0, 1));
        bench.enqueue(1, 500);
        assert_eq!((bench.waiting(), bench.qdisc.marker.marks().unmarkable), (1, 1));
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }
}
