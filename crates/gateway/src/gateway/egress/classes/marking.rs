//! The markings of classes: one for each queue, or one for the buffer that all classes share.
//!
//! The marking of a shared buffer sees the packets of all classes, and the state that the scheduler keeps of each class. So it can protect the
//! guarantees of the classes as well as the buffer (`marking`, section 2.4).
//!
//! This file contains methods of `Classes`, whose fields are in `classes.rs`.

use std::sync::Arc;

use tidegate_core::ack::Waiting;
use tidegate_core::class::ClassId;
use tidegate_core::flow::Flow;
use tidegate_core::marking::{MarkedBuffer, Marker, Observed, Target};
use tidegate_core::packet::{Direction, FlowId, number};
use tidegate_core::qdisc::{Backlog, Marked, QdiscSpec};
use tidegate_core::random::Random;
use tidegate_core::scheduler::Scheduler;
use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Time};

use super::{Classes, Line};

/// The queues of all classes, and the scheduler that shares the buffer between them.
struct Buffer<'a> {
    lines: &'a mut [Line],
    scheduler: &'a mut dyn Scheduler,
    rate: Rate,
    class: ClassId,
}

impl<'a> Buffer<'a> {
    /// State of the buffer, for as long as the queues and the scheduler are lent.
    fn into_observed(self, now: Time, direction: Direction) -> Observed<'a> {
        let backlog = self.lines.iter().map(Line::backlog).fold(Backlog::default(), super::plus);
        let limit = self.scheduler.buffer().unwrap_or(Bytes(u64::MAX / 4));
        let empty = Observed::empty(now, direction, self.rate, limit);
        let classes = self.scheduler.class_states(now);
        Observed { backlog: backlog.bytes, classes, class: self.class, ..empty }
    }
}

impl MarkedBuffer for Buffer<'_> {
    fn observed(&mut self, now: Time, direction: Direction) -> Observed<'_> {
        let Self { lines, scheduler, rate, class } = self;
        let lent = Buffer { lines, scheduler: &mut **scheduler, rate: *rate, class: *class };
        lent.into_observed(now, direction)
    }

    fn visit(&self, pool: &mut PacketPool, of: Target, which: &mut dyn FnMut(&mut Packet) -> bool) {
        for queue in self.lines.iter().filter_map(|line| line.queue.as_ref()) {
            queue.visit(pool, of.flow, which);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, of: Target) -> Option<PacketId> {
        let leaf = self.lines.iter().position(|line| {
            line.queue.as_ref().is_some_and(|queue| queue.bytes_of(of.flow) > Bytes::ZERO)
        })?;
        withdraw(cx, self.lines, self.scheduler, leaf, |queue, cx| queue.dequeue_flow(cx, of.flow))
    }
}

/// Removes the packet that `take` removes from the queue of class `leaf`, and subtracts it from the scheduler's counts.
pub(super) fn withdraw(
    cx: &mut Cx<'_>,
    lines: &mut [Line],
    scheduler: &mut dyn Scheduler,
    leaf: usize,
    take: impl FnOnce(&mut Waiting, &mut Cx<'_>) -> Option<PacketId>,
) -> Option<PacketId> {
    let line = lines.get_mut(leaf)?;
    let packet = take(line.queue.as_mut()?, cx);
    let leaf = ClassId(number(leaf));
    if let Some(packet) = packet.as_ref().filter(|_| scheduler.buffer().is_some()) {
        scheduler.withdrawn(leaf, cx.pool[packet].queued);
    }
    if line.backlog().packets == 0 {
        scheduler.idle(leaf);
    }
    packet
}

impl Classes {
    /// Sets the queue of the link, which classes without a queue of their own have, and the marking of a shared
    /// buffer. A marking that stays the same keeps its trackers.
    pub(super) fn set_link_queue(&mut self, spec: &QdiscSpec) {
        let link = &mut self.lines[ClassId::ROOT.index()];
        if self.marker.is_none() || link.spec.marking() != spec.marking() {
            let random = Random::named(self.seed, &["marking", self.direction.name()]);
            let marking = spec.marking().filter(|_| self.one_buffer);
            self.marker = marking.map(|marking| Box::new(Marker::new(marking.build(random))));
        }
        link.spec = Arc::new(spec.clone());
    }

    /// The marking of a leaf class's queue, if it has one.
    pub(super) fn marked(&self, leaf: ClassId) -> Option<&Marked> {
        self.lines.get(leaf.index())?.queue.as_ref()?.marked()
    }

    /// The marking of a leaf class's queue, if it has one. The rate of the class is measured. Its
    /// lower bound is the guarantee. Its upper bound is the least of its ceiling, the ceilings of
    /// its ancestors, and the rate of the link.
    fn marked_mut(&mut self, leaf: ClassId) -> Option<&mut Marked> {
        self.lines.get(leaf.index())?.spec.marking()?;
        let least = self.scheduler.terms(leaf).guarantee;
        let ceilings = self.way(leaf).filter_map(|id| self.scheduler.terms(id).ceiling);
        let most = ceilings.min().map_or(self.rate, |ceiling| ceiling.min(self.rate));
        let marked = self.queue(leaf).marked_mut()?;
        marked.set_range(least, most);
        Some(marked)
    }

    /// The marking of the shared buffer, if it has one.
    pub(in crate::gateway) fn shared_marker(&self) -> Option<&Marker> {
        self.marker.as_deref()
    }

    /// The marking at `leaf`, if there is one.
    pub(in crate::gateway) fn marker(&self, leaf: ClassId) -> Option<&Marker> {
        match &self.marker {
            Some(marker) => Some(marker),
            None => Some(self.marked(leaf)?.marker()),
        }
    }

    /// The marking of the shared buffer, and the state that it observes. `class` is the class of
    /// the packet.
    fn sees(&mut self, now: Time, class: ClassId) -> Option<(&mut Marker, Observed<'_>)> {
        let marker = self.marker.as_deref_mut()?;
        let rate = self.rate;
        let buffer =
            Buffer { lines: &mut self.lines, scheduler: &mut *self.scheduler, rate, class };
        Some((marker, buffer.into_observed(now, self.direction)))
    }

    /// Shows `packet` of `flow`, which is going to be queued at `leaf`, to the marking there.
    pub(in crate::gateway) fn sight(
        &mut self,
        now: Time,
        leaf: ClassId,
        packet: &Packet,
        flow: Option<&Flow>,
    ) {
        let direction = self.direction;
        if let Some((marker, seen)) = self.sees(now, leaf) {
            marker.sight(&Observed { flow, ..seen }, packet);
        } else if let Some(marked) = self.marked_mut(leaf) {
            marked.sight(now, direction, packet, flow);
        }
    }

    /// Shows `ack`, which departs to the sender of `flow`, to the marking at `leaf`.
    pub(in crate::gateway) fn acknowledge(
        &mut self,
        now: Time,
        leaf: ClassId,
        ack: &Packet,
        flow: &Flow,
    ) {
        let direction = self.direction;
        if let Some((marker, seen)) = self.sees(now, leaf) {
            marker.acknowledge(&Observed { flow: Some(flow), ..seen }, ack);
        } else if let Some(marked) = self.marked_mut(leaf) {
            marked.acknowledge(now, direction, ack, flow);
        }
    }

    /// Lets the marking at `leaf` forget `flow`.
    pub(in crate::gateway) fn forget(&mut self, leaf: ClassId, flow: FlowId) {
        if let Some(marker) = &mut self.marker {
            marker.forget(flow);
        } else if let Some(marked) = self.marked_mut(leaf) {
            marked.forget(flow);
        }
    }

    /// Lets the marking of the shared buffer mark packets before `packet` is queued at `leaf`. Returns `packet`
    /// unless it was dropped.
    pub(super) fn prevent(
        &mut self,
        cx: &mut Cx<'_>,
        class: ClassId,
        packet: PacketId,
    ) -> Option<PacketId> {
        let Some(marker) = self.marker.as_deref_mut() else { return Some(packet) };
        let (lines, scheduler) = (&mut self.lines[..], &mut *self.scheduler);
        marker.prevent(cx, &mut Buffer { lines, scheduler, rate: self.rate, class }, packet)
    }

    /// Notifies the marking of the shared buffer of a departing packet.
    pub(super) fn departs(&mut self, cx: &Cx<'_>, packet: &PacketId) {
        if let Some(marker) = self.marker.as_deref_mut() {
            marker.departs(&cx.pool[packet]);
        }
    }
}
