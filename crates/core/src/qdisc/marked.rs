//! A queue with a marking.
//!
//! The marking uses the limit of the whole queue, or the bytes that depart within 1 s if these are
//! less. Flows of a queue `per-flow` have no limit of their own unless the file sets one. Such a
//! limit would drop packets before the marking expects it.
//!
//! The gateway hands in every packet that arrives with [`Marked::sight`], and then enqueues it.

use super::per_flow::LONGEST_WAIT;
use super::{Qdisc, QdiscSpec};
use crate::flow::Flow;
use crate::marking::{Marker, MarkingSpec, Observed, Place, Service, Target};
use crate::packet::{Direction, FlowFifo, FlowId, Handover, Member};
use crate::parameters::Written;
use crate::random::Random;
use crate::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Time};

/// The queue, and the marking.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    queue: Box<QdiscSpec>,
    marking: MarkingSpec,
}

/// `queue` with `marking`.
#[must_use]
pub fn with_marking(queue: QdiscSpec, marking: Option<MarkingSpec>) -> QdiscSpec {
    match marking {
        Some(marking) => QdiscSpec::Marked(Config { queue: Box::new(queue), marking }),
        None => queue,
    }
}

impl QdiscSpec {
    /// The marking of the queue, if it has one.
    #[must_use]
    pub const fn marking(&self) -> Option<&MarkingSpec> {
        match self {
            Self::Marked(Config { marking, .. }) => Some(marking),
            _ => None,
        }
    }

    /// Returns `true` if the queue drops packets only when it is full, so that it can have a marking.
    #[must_use]
    pub fn can_be_marked(&self) -> bool {
        self.sample().limit().is_some()
    }

    /// Returns `true` if packets depart in the order of arrival, and none is dropped unless the queue is full.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        let queue = self.sample();
        queue.is_one_line() && queue.limit().is_some()
    }

    /// An empty queue without the marking, to ask for its properties.
    fn sample(&self) -> Box<dyn Qdisc> {
        self.unmarked().build(None, Random::new(0, 0))
    }

    /// The queue without its marking.
    #[must_use]
    pub fn unmarked(&self) -> &Self {
        match self {
            Self::Marked(Config { queue, .. }) => queue,
            _ => self,
        }
    }
}

impl Config {
    /// The changed parameters of the queue.
    pub(super) fn changed(&self) -> Vec<(&'static str, Written)> {
        self.queue.changed()
    }

    /// The name of the queue.
    pub(super) fn name(&self) -> &'static str {
        self.queue.name()
    }

    pub(super) fn build(&self, rate: Option<Rate>, mut random: Random) -> Marked {
        let marker = Marker::new(self.marking.build(Random::new(random.below(u64::MAX), 0)));
        let queue = match &*self.queue {
            QdiscSpec::PerFlow(queue) => {
                QdiscSpec::PerFlow(queue.without_flow_limit()).build(rate, random)
            }
            queue => queue.build(rate, random),
        };
        let service = Service::fixed(rate.unwrap_or(Rate::from_bps(0)));
        Marked { place: Line::new(queue, service), marker }
    }
}

/// A queue with a marking.
pub struct Marked {
    place: Line,
    marker: Marker,
}

/// The queue, and the rate at which its packets depart.
struct Line {
    queue: Box<dyn Qdisc>,
    service: Service,
    tokens: Bytes,
    /// The limit of the queue, or the bytes that depart within [`LONGEST_WAIT`] if these are less.
    limit: Bytes,
}

impl Line {
    fn new(queue: Box<dyn Qdisc>, service: Service) -> Self {
        let (tokens, limit) = (Bytes::ZERO, Bytes::ZERO);
        let mut line = Self { queue, service, tokens, limit };
        line.set_limit();
        line
    }

    /// Notes that the bounds of the rate changed.
    fn set_limit(&mut self) {
        let limit = self.service.most().bytes_in(LONGEST_WAIT);
        self.limit = self.queue.limit().map_or(limit, |bytes| bytes.min(limit));
    }
}

impl Place for Line {
    fn observed(&mut self, now: Time, direction: Direction) -> Observed<'_> {
        let empty = Observed::empty(now, direction, self.service.rate(), self.limit);
        Observed { tokens: self.tokens, backlog: self.queue.backlog().bytes, ..empty }
    }

    fn visit(&self, pool: &mut PacketPool, of: Target, which: &mut dyn FnMut(&mut Packet) -> bool) {
        self.queue.visit(pool, of.member, which);
    }

    fn take(&mut self, cx: &mut Cx<'_>, of: Target) -> Option<PacketId> {
        self.queue.dequeue_flow(cx, of.member)
    }
}

impl Marked {
    /// Notes `packet` of `flow`, which is going to be enqueued. `None`: its flow is not in the flow table.
    pub fn sight(&mut self, now: Time, direction: Direction, packet: &Packet, flow: Option<&Flow>) {
        if self.place.service.is_measured() {
            self.place.service.arrives(now, self.marker.longest_rtt());
        }
        let seen = Observed { flow, ..self.place.observed(now, direction) };
        self.marker.sight(&seen, packet);
    }

    /// Notes `ack`, a packet that departs to the sender of `flow`, whose packets go in `direction`.
    pub fn acknowledge(&mut self, now: Time, direction: Direction, ack: &Packet, flow: &Flow) {
        let seen = Observed { flow: Some(flow), ..self.place.observed(now, direction) };
        self.marker.acknowledge(&seen, ack);
    }

    /// The marking with its counters.
    #[must_use]
    pub const fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Forgets `flow`, because its index may be assigned to another flow.
    pub fn forget(&mut self, flow: FlowId) {
        self.marker.forget(flow);
    }

    /// Bytes that depart at once beyond the rate.
    pub const fn set_tokens(&mut self, tokens: Bytes) {
        self.place.tokens = tokens;
    }

    /// Sets bounds of the measured departure rate, for the queue of a class.
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

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: Member) -> Option<PacketId> {
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

    /// A marking that drops every packet, and counts its notifications of drops.
    struct Drops(Arc<AtomicU32>);

    impl Marking for Drops {
        fn arrived(&mut self, _: &Observed<'_>, _: &Packet) -> bool {
            false
        }

        fn leaving(&mut self, _: &Packet) {}

        fn acknowledged(&mut self, _: &Observed<'_>, _: &Packet) {}

        fn decide(&mut self, _: &Observed<'_>, _: &Packet) -> Decision {
            Decision::Drop
        }

        fn done(&mut self, _: Time, target: Target, outcome: Outcome) {
            assert_eq!((target.member, outcome), (Member(1), Outcome::Dropped));
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

    /// Catches: a drop of a packet from another queue because of the overflow that the last arrival
    /// predicted; a drop without a notification of the marking, which then never marks its sender
    /// again.
    #[test]
    fn only_a_packet_that_was_seen_is_judged() {
        let told = Arc::<AtomicU32>::default();
        let queue = QdiscSpec::DropTail(Default::default()).build(None, chance());
        let service = Service::fixed(Rate::from_mbps(1));
        let place = Line::new(queue, service);
        let mut bench =
            Bench::new(Marked { place, marker: Marker::new(Box::new(Drops(told.clone()))) });
        let packet = Packet::default();
        bench.qdisc.sight(bench.now, Direction::Up, &packet, None);
        bench.enqueue(1, 500);
        assert_eq!((bench.waiting(), bench.qdisc.marker.marks().unmarkable), (0, 1));
        bench.enqueue(1, 500);
        assert_eq!((bench.waiting(), bench.qdisc.marker.marks().unmarkable), (1, 1));
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}
