//! The access link in one direction: its rate, and its queue or classes.

mod gathered;

use gathered::Gathered;
use tidegate_core::ack::{EgressState, Waiting};
use tidegate_core::class::ClassId;
use tidegate_core::flow::Flow;
use tidegate_core::link::Overhead;
use tidegate_core::marking::{Marker, Marks};
use tidegate_core::packet::{Direction, Fifo, FlowId, Handover, QueueIndex, Which};
use tidegate_core::qdisc::{Backlog, QdiscSpec};
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Cx, Packet, PacketId, PacketPool, Rate, Reason, Time};

use super::balance::Balance;
use super::classes::{Classes, plus};
use super::control::Control;
use crate::gateway::GatewayConfig;
use crate::policy::{Class, ClassSet};
use crate::report::Mechanisms;

/// The access link in one direction.
pub(in crate::gateway) struct AccessLink {
    direction: Direction,
    /// Permits departures. `None` if the link has no rate.
    balance: Option<Balance>,
    /// The queue of a link without classes.
    queue: Waiting,
    queue_spec: QdiscSpec,
    /// The classes. `None` without classes or without a rate.
    classes: Option<Box<Classes>>,
    /// Packets that a swap of policies left over. They precede the queue.
    rest: Fifo,
    /// Packets of untracked flows that wait for their new class during a swap.
    gathered: Gathered,
    /// Control traffic, from its first packet on. Only with a rate.
    control: Option<Box<Control>>,
    seed: u64,
    /// Packets that depart next. With a rate, at most one packet, which is longer than a frame. Without a
    /// rate, all packets.
    next: Fifo,
}

impl AccessLink {
    pub(in crate::gateway) fn new(config: &GatewayConfig, direction: Direction, now: Time) -> Self {
        let rate = config.rate[direction.index()];
        let balance = rate.map(|rate| Balance::new(rate, &config.overhead, now));
        let queue = queue(config, direction, rate);
        Self {
            direction,
            balance,
            queue,
            queue_spec: config.queue.clone(),
            classes: None,
            rest: Fifo::new(),
            gathered: Gathered::default(),
            control: None,
            seed: config.seed,
            next: Fifo::new(),
        }
    }

    /// Puts the classes of `set` in force at the link. Packets that no longer have a queue are appended to
    /// `displaced`, for the caller to enqueue again. Returns the old classes if the link has none any more.
    pub(in crate::gateway) fn share(
        &mut self,
        cx: &mut Cx<'_>,
        set: &ClassSet,
        config: &GatewayConfig,
        displaced: &mut Fifo,
    ) -> Option<Box<Classes>> {
        let rate = self.balance.as_ref().map(Balance::rate).filter(|_| !set.is_empty());
        let Some(rate) = rate else {
            let mut gone = self.classes.take();
            if let Some(classes) = &mut gone {
                classes.clear_all(cx, displaced);
            }
            return gone;
        };
        if self.classes.is_none() {
            self.empty(cx, displaced);
        }
        let make = || Box::new(Classes::new(self.direction, rate, config));
        let classes = self.classes.get_or_insert_with(make);
        classes.install(cx, set, (rate, &config.queue), displaced);
        if self.control.as_ref().is_some_and(|control| control.waits()) {
            classes.control_waits(cx.now);
        }
        None
    }

    /// Begins to put the classes of `set` in force. The caller then adds or changes each class
    /// separately. If the link had no classes, all packets wait at the class `default` meanwhile.
    /// If the set has none, only `default` remains until the link is [closed](Self::close).
    pub(in crate::gateway) fn begin_change(
        &mut self,
        cx: &mut Cx<'_>,
        set: &ClassSet,
        config: &GatewayConfig,
        displaced: &mut Fifo,
    ) {
        let shared = !set.is_empty() || self.classes.is_some();
        let rate = self.balance.as_ref().map(Balance::rate).filter(|_| shared);
        let Some(rate) = rate else {
            return;
        };
        if self.classes.is_none() {
            self.empty(cx, displaced);
            let mut classes = Classes::new(self.direction, rate, config);
            classes.insert(cx.now, &Class::new(Class::DEFAULT, config.queue.clone()));
            classes.end_change(cx.now);
            if self.control.as_ref().is_some_and(|control| control.waits()) {
                classes.control_waits(cx.now);
            }
            self.classes = Some(Box::new(classes));
        }
        if let Some(classes) = &mut self.classes {
            classes.begin_change(cx.now, set, (rate, &config.queue));
        }
    }

    /// Removes the remaining classes. Their packets are appended to `displaced`. Takes time in
    /// proportion to these packets and classes.
    pub(in crate::gateway) fn close(
        &mut self,
        cx: &mut Cx<'_>,
        displaced: &mut Fifo,
    ) -> Option<Box<Classes>> {
        let mut gone = self.classes.take()?;
        gone.clear_named(cx, displaced);
        Some(gone)
    }

    /// The class called `name`.
    pub(in crate::gateway) fn class(&self, name: &str) -> Option<ClassId> {
        self.classes.as_ref()?.find(name)
    }

    /// The leaf class at which packets of `class` wait. `None`: packets whose policy names no
    /// class.
    #[inline]
    pub(in crate::gateway) fn leaf(&self, class: Option<ClassId>) -> ClassId {
        self.classes.as_ref().map_or(ClassId::ROOT, |classes| classes.leaf(class))
    }

    /// The classes of the link.
    pub(in crate::gateway) fn classes(&self) -> Option<&Classes> {
        self.classes.as_deref()
    }

    /// The classes of the link, for changes.
    pub(in crate::gateway) fn classes_mut(&mut self) -> Option<&mut Classes> {
        self.classes.as_deref_mut()
    }

    /// The marking at `leaf`, if there is one.
    pub(in crate::gateway) fn marker(&self, leaf: ClassId) -> Option<&Marker> {
        match &self.classes {
            Some(classes) => classes.marker(leaf),
            None => Some(self.queue.marked()?.marker()),
        }
    }

    /// The queue of a link without classes, or the scheduler of its classes. Empty without a rate.
    pub(in crate::gateway) fn mechanisms(&self) -> Mechanisms {
        match &self.classes {
            _ if self.balance.is_none() => Mechanisms::default(),
            Some(classes) => classes.mechanisms_of_link(),
            None => Mechanisms::of_queue(&self.queue_spec),
        }
    }

    /// Packets marked and dropped by the marking of the link's queue or of the shared buffer, if there is one.
    pub(in crate::gateway) fn marks(&self) -> Option<Marks> {
        Some(self.whole_marker()?.marks())
    }

    /// The marking of the link's queue or of the shared buffer, if there is one.
    pub(in crate::gateway) fn whole_marker(&self) -> Option<&Marker> {
        match &self.classes {
            Some(classes) => classes.shared_marker(),
            None => Some(self.queue.marked()?.marker()),
        }
    }

    /// Shows `packet` of `flow`, which is going to be queued at `leaf`, to the marking there.
    pub(in crate::gateway) fn sight(
        &mut self,
        now: Time,
        leaf: ClassId,
        packet: &Packet,
        flow: Option<&Flow>,
    ) {
        match (&self.balance, &mut self.classes) {
            (None, _) => {}
            (Some(_), Some(classes)) => classes.sight(now, leaf, packet, flow),
            (Some(_), None) => {
                if let Some(marked) = self.queue.marked_mut() {
                    marked.sight(now, self.direction, packet, flow);
                }
            }
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
        match (&self.balance, &mut self.classes) {
            (None, _) => {}
            (Some(_), Some(classes)) => classes.acknowledge(now, leaf, ack, flow),
            (Some(_), None) => {
                if let Some(marked) = self.queue.marked_mut() {
                    marked.acknowledge(now, self.direction, ack, flow);
                }
            }
        }
    }

    /// Lets the marking at `leaf` forget `flow`.
    pub(in crate::gateway) fn forget(&mut self, leaf: ClassId, flow: FlowId) {
        match &mut self.classes {
            Some(classes) => classes.forget(leaf, flow),
            None => {
                if let Some(marked) = self.queue.marked_mut() {
                    marked.forget(flow);
                }
            }
        }
    }

    /// Queues a packet that its policy has released, at `leaf`.
    ///
    /// If buffers are scarce, the packet is dropped unless the queue is empty. This leaves buffers
    /// for the other direction.
    pub(in crate::gateway) fn push(&mut self, cx: &mut Cx<'_>, leaf: ClassId, packet: PacketId) {
        if self.balance.is_none() {
            self.next.push(cx.pool, packet);
            return;
        }
        cx.pool[&packet].queue_index = QueueIndex::at_egress(cx.pool[&packet].flow);
        if let Some(classes) = &mut self.classes {
            classes.push(cx, leaf, packet);
        } else if cx.pool.is_scarce() && self.queue.backlog().packets > 0 {
            cx.drop(packet, Reason::NoBuffer);
        } else {
            self.queue.enqueue(cx, packet);
        }
    }

    /// Returns `true` if the link has a rate.
    #[inline]
    pub(in crate::gateway) const fn keeps_rate(&self) -> bool {
        self.balance.is_some()
    }

    /// Returns `true` if super-packets are cut into frames, because a super-packet would occupy the link for
    /// long.
    pub(in crate::gateway) fn wants_frames(&self) -> bool {
        self.balance.as_ref().is_some_and(|balance| balance.rate() < WHOLE)
    }

    /// Enqueues a packet of control traffic that `source` has sent.
    pub(in crate::gateway) fn push_control(
        &mut self,
        cx: &mut Cx<'_>,
        source: QueueIndex,
        packet: PacketId,
    ) {
        let Some(balance) = &self.balance else { return self.next.push(cx.pool, packet) };
        let make = || Box::new(Control::new(self.direction, self.seed, balance.rate(), cx.now));
        let control = self.control.get_or_insert_with(make);
        control.push(cx, source, packet);
        if let Some(classes) = self.classes.as_mut().filter(|_| control.waits()) {
            classes.control_waits(cx.now);
        }
    }

    /// The control traffic. `None` before its first packet.
    pub(in crate::gateway) fn control(&self) -> Option<&Control> {
        self.control.as_deref()
    }

    /// Queues all packets that a swap of policies releases, behind the packets that wait here.
    /// Later packets follow them. Only for a link without classes.
    pub(in crate::gateway) fn take_over(&mut self, cx: &mut Cx<'_>, mut more: Fifo) {
        if more.packets() == 0 {
            return;
        }
        if self.balance.is_none() {
            return append(cx, &mut more, &mut self.next);
        }
        let mut waiting = Fifo::new();
        self.empty(cx, &mut waiting);
        append(cx, &mut waiting, &mut self.rest);
        append(cx, &mut more, &mut self.rest);
    }

    /// The queue at `leaf`, as ACK control sees it.
    pub(in crate::gateway) fn ahead(&self, leaf: ClassId) -> EgressState {
        let Some(balance) = &self.balance else { return EgressState::default() };
        match &self.classes {
            Some(classes) => classes.ahead(leaf, balance.rate()),
            None => self.queue.ahead(balance.rate()),
        }
    }

    /// Frame bytes of `flow` in the queue of its class `leaf`, without the packet that departs next.
    pub(in crate::gateway) fn bytes_of(&self, leaf: ClassId, flow: FlowId) -> Bytes {
        match &self.classes {
            Some(classes) => classes.bytes_of(leaf, flow),
            None => self.queue.bytes_of(flow),
        }
    }

    /// Ends ACK control for the packets of `flow` in the queue of its class `leaf`.
    pub(super) fn end_ack_control(&mut self, leaf: ClassId, pool: &mut PacketPool, flow: FlowId) {
        match &mut self.classes {
            Some(classes) => classes.end_ack_control(leaf, pool, flow),
            None => self.queue.end_ack_control(pool, flow),
        }
    }

    /// Frame bytes of the packet that departs next, if it belongs to `flow`.
    pub(in crate::gateway) fn next_of(&self, pool: &PacketPool, flow: FlowId) -> Bytes {
        let next = self.next.peek(pool).filter(|packet| packet.flow == flow);
        next.map_or(Bytes::ZERO, |packet| Bytes(packet.len.into()))
    }

    /// Moves packets queued as untracked to `flow` if `which` selects them. Its class is `leaf`.
    /// Returns `true` if there were any.
    pub(in crate::gateway) fn give_back(
        &mut self,
        pool: &mut PacketPool,
        leaf: ClassId,
        flow: FlowId,
        which: Which<'_>,
    ) -> bool {
        let mut what = Handover {
            from: QueueIndex::at_egress(FlowId::NONE),
            to: QueueIndex::at_egress(flow),
            which,
        };
        match &mut self.classes {
            Some(classes) => classes.hand_over(pool, leaf, &mut what),
            None => self.queue.hand_over(pool, &mut what),
        }
    }

    /// Removes the packet that departs now.
    #[inline]
    pub(in crate::gateway) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        if self.balance.is_some() && !self.take(cx) {
            return None;
        }
        self.next.pop(cx.pool)
    }

    /// Chooses the next packet if the balance permits one, and pays for it. Returns `false` if no packet departs.
    fn take(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.next.packets() == 0 {
            if !self.balance.as_mut().is_some_and(|balance| balance.permits(cx.now)) {
                return false;
            }
            self.choose_next(cx);
        }
        let Some(next) = self.next.peek(cx.pool) else { return false };
        let len = next.charged();
        self.balance.as_mut().is_some_and(|balance| balance.pay(cx.now, len))
    }

    /// Earliest time at which [`pop`](Self::pop) has a packet. `None` if the link is idle.
    #[inline]
    pub(in crate::gateway) fn ready_at(&mut self, cx: &mut Cx<'_>) -> Option<Time> {
        if self.balance.is_none() {
            return (self.next.packets() > 0).then_some(cx.now);
        }
        self.permits_at(cx)
    }

    /// Earliest time at which the balance and a class permit the next packet.
    fn permits_at(&mut self, cx: &mut Cx<'_>) -> Option<Time> {
        let balance = self.balance.as_ref()?;
        if let Some(next) = self.next.peek(cx.pool) {
            return Some(balance.pays_at(next.charged()));
        }
        let permitted = balance.permits_at();
        let control = self.control.as_ref().is_some_and(|control| control.waits());
        if control || self.rest.packets() + self.queue.backlog().packets > 0 {
            return Some(permitted);
        }
        let class = self.classes.as_mut()?.ready_at(cx.now)?;
        Some(class.max(permitted))
    }

    /// Changes the rate and the overhead. Queued packets stay.
    pub(in crate::gateway) fn set_rate(
        &mut self,
        cx: &mut Cx<'_>,
        rate: Option<Rate>,
        overhead: &Overhead,
    ) {
        if let Some(rate) = rate {
            self.queue.set_rate(rate);
        }
        match (&mut self.balance, rate) {
            (Some(balance), Some(rate)) => {
                balance.set(cx.now, rate, overhead);
                if let Some(classes) = &mut self.classes {
                    classes.set_link_rate(cx.now, rate);
                }
                if let Some(control) = &mut self.control {
                    control.set_rate(cx.now, rate);
                }
            }
            (None, Some(rate)) => self.balance = Some(Balance::new(rate, overhead, cx.now)),
            (_, None) => self.open(cx),
        }
    }

    /// Replaces the queue by the one in `config`. Waiting packets keep their order within a flow. The new
    /// queue may have no room for all of them.
    pub(in crate::gateway) fn set_queue(&mut self, cx: &mut Cx<'_>, config: &GatewayConfig) {
        let mut waiting = Fifo::new();
        self.empty(cx, &mut waiting);
        let rate = self.balance.as_ref().map(Balance::rate);
        self.queue = queue(config, self.direction, rate);
        self.queue_spec = config.queue.clone();
        while let Some(packet) = waiting.pop(cx.pool) {
            self.queue.enqueue(cx, packet);
        }
    }

    /// Removes the rate. All waiting packets depart at once, in the order of the queues, and later packets
    /// never wait.
    pub(in crate::gateway) fn open(&mut self, cx: &mut Cx<'_>) {
        self.balance = None;
        if let Some(mut control) = self.control.take() {
            while let Some(packet) = control.pop(cx) {
                self.next.push(cx.pool, packet);
            }
        }
        let mut waiting = std::mem::take(&mut self.rest);
        if let Some(mut classes) = self.classes.take() {
            classes.clear_all(cx, &mut waiting);
        }
        append(cx, &mut self.take_gathered(), &mut waiting);
        self.empty(cx, &mut waiting);
        append(cx, &mut waiting, &mut self.next);
    }

    /// Removes all packets from the queue.
    fn empty(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        while let Some(packet) = self.queue.dequeue(cx) {
            out.push(cx.pool, packet);
        }
    }

    /// Backlog of the link, classes included. Takes time in proportion to the number of classes.
    pub(in crate::gateway) fn backlog(&self) -> Backlog {
        let classes = self.classes.as_ref().and_then(|it| it.waiting(0, usize::MAX));
        plus(self.beside_classes(), classes.unwrap_or_default())
    }

    /// Backlog of the link without its classes: the queue, control traffic, and packets that depart next.
    pub(in crate::gateway) fn beside_classes(&self) -> Backlog {
        let control = self.control.as_ref().map_or_else(Backlog::default, |it| it.backlog());
        let line = |it: &Fifo| Backlog { packets: it.packets(), bytes: it.bytes() };
        let lines = [line(&self.rest), line(self.gathered()), line(&self.next)];
        lines.into_iter().fold(plus(self.queue.backlog(), control), plus)
    }

    /// Moves the next packet from the queues of a link with a rate to `next`.
    fn choose_next(&mut self, cx: &mut Cx<'_>) {
        let packet = match self.control.take_if(|control| control.waits()) {
            Some(mut control) => {
                let packet = self.choose(cx, &mut control);
                self.control = Some(control);
                packet
            }
            None => self.others(cx, None),
        };
        if let Some(packet) = packet {
            self.next.push(cx.pool, packet);
        }
    }

    /// Removes the next packet while control traffic waits. Control traffic comes first within its allowance,
    /// and borrows beyond it.
    fn choose(&mut self, cx: &mut Cx<'_>, control: &mut Control) -> Option<PacketId> {
        let allowed = control.pop_allowed(cx);
        let chosen = if allowed.is_some() {
            allowed
        } else if self.classes.is_some() && self.rest.packets() == 0 {
            return self.others(cx, Some(control));
        } else {
            self.take_turns(cx, control)
        };
        if let Some(classes) = self.classes.as_mut().filter(|_| !control.waits()) {
            classes.control_idle();
        }
        chosen
    }

    /// Removes the next packet of control traffic or of the queue, in rounds of equal shares.
    fn take_turns(&mut self, cx: &mut Cx<'_>, control: &mut Control) -> Option<PacketId> {
        let others_wait = self.rest.packets() + self.queue.backlog().packets > 0;
        let borrowed = control.pop_beside(cx, others_wait);
        if borrowed.is_some() {
            return borrowed;
        }
        let packet = self.others(cx, None)?;
        control.yielded(cx.pool[&packet].charged());
        Some(packet)
    }

    /// Removes the next packet of other traffic. With classes, `control` may borrow here.
    fn others(&mut self, cx: &mut Cx<'_>, control: Option<&mut Control>) -> Option<PacketId> {
        if let Some(packet) = self.rest.pop(cx.pool) {
            return Some(packet);
        }
        match &mut self.classes {
            Some(classes) => classes.pop(cx, control),
            None => self.queue.dequeue(cx),
        }
    }
}

/// Appends all packets of `from` to `to`.
fn append(cx: &mut Cx<'_>, from: &mut Fifo, to: &mut Fifo) {
    while let Some(packet) = from.pop(cx.pool) {
        to.push(cx.pool, packet);
    }
}

/// An empty queue for a link of `rate`.
fn queue(config: &GatewayConfig, direction: Direction, rate: Option<Rate>) -> Waiting {
    let random = Random::named(config.seed, &["link", direction.name()]);
    Waiting::new(config.queue.build(rate, random))
}

/// From this rate on, super-packets are not cut: 64 KiB take about half a millisecond.
const WHOLE: Rate = Rate::from_mbps(1_000);
