//! The last stage: everything downstream of the aggregates, in one direction.
//!
//! ```text
//! aggregate -> [trunk ->] leaf class, or the only queue -> rate of the link -> port
//! ```
//!
//! An egress owns the link with its classes, and the trunks that send to the link. Each aggregate has an [`EgressRoute`]:
//! the trunk and the class of its packets. The trunk, or else the leaf class, is the queue at which these packets wait,
//! its [`EgressQueue`].
//!
//! For ACK control, each such queue has an account: how many bytes the aggregates have requested from their senders by
//! releasing ACKs. The bytes that wait and the bytes that are requested together stay below a target.

mod accounts;
mod balance;
mod change;
mod classes;
mod control;
mod link;
mod trunks;
mod untracked;

use std::num::NonZeroU16;
use std::time::Duration;

pub(super) use accounts::EgressQueue;
use accounts::WorkList;
pub use classes::{ClassChangeError, ClassContents, Retired};
pub(super) use classes::{Classes, plus};
pub(super) use link::AccessLink;
pub(super) use trunks::{TrunkId, Trunks, stays_here};

use tidegate_core::ack::EgressGates;
use tidegate_core::class::ClassId;
use tidegate_core::flow::Flow;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{Direction, Fifo, FlowId, QueueIndex, Which};
use tidegate_core::{Cx, Packet, PacketId, PacketPool, Rate, Time};

use super::GatewayConfig;
use super::aggregates::Aggregates;
use super::sorter::Sorter;
use crate::policy::{Policy, PolicySet};

/// Everything downstream of the aggregates, in one direction.
pub(super) struct Egress {
    direction: Direction,
    overhead: Overhead,
    link: AccessLink,
    /// The trunks that begin here. Only the direction up has any.
    trunks: Option<Box<Trunks>>,
    /// The number of the newest trunk.
    last_trunk: NonZeroU16,
    accounts: EgressGates,
    /// Slots of the aggregates that may release ACKs.
    releases: WorkList<u32>,
    /// Bottlenecks whose queues have room, and for which aggregates wait.
    room: WorkList<EgressQueue>,
    /// Longest interval between two calls of the driver.
    poll_interval: Duration,
}

/// The trunk and the class of the link that an aggregate's packets take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EgressRoute {
    /// The trunk that carries the packets.
    pub(super) trunk: Option<TrunkId>,
    /// The class of the link that sends the packets.
    pub(super) class: Option<ClassId>,
    /// The policy drops packets of a protocol or port that it names, so it also applies to control traffic.
    pub(super) drops_control: bool,
}

/// The stages upstream of an egress, lent to it for one call.
pub(super) struct Upstream<'a> {
    pub(super) cx: Cx<'a>,
    pub(super) sorter: &'a mut Sorter,
    pub(super) aggregates: &'a Aggregates,
}

impl Egress {
    /// An egress without packets and without trunks.
    pub(super) fn new(config: &GatewayConfig, direction: Direction, now: Time) -> Self {
        Self {
            direction,
            overhead: config.overhead,
            link: AccessLink::new(config, direction, now),
            trunks: None,
            last_trunk: NonZeroU16::MAX,
            accounts: EgressGates::default(),
            releases: WorkList::default(),
            room: WorkList::default(),
            poll_interval: Duration::ZERO,
        }
    }

    /// Charged bytes of `packet`: its length on the link.
    #[inline]
    pub(super) fn charge(&self, packet: &Packet) -> u32 {
        self.overhead.charge(packet)
    }

    /// Sets the longest interval between two calls of the driver.
    pub(super) const fn set_poll_interval(&mut self, poll_interval: Duration) {
        self.poll_interval = poll_interval;
    }

    /// Sets the rate of the link and the overhead of its packets. Queued packets stay.
    pub(super) fn set_rate(&mut self, cx: &mut Cx<'_>, rate: Option<Rate>, overhead: &Overhead) {
        self.overhead = *overhead;
        self.link.set_rate(cx, rate, overhead);
    }

    /// The link.
    pub(super) const fn link(&self) -> &AccessLink {
        &self.link
    }

    /// The trunks that begin here.
    pub(super) fn trunks(&self) -> Option<&Trunks> {
        self.trunks.as_deref()
    }

    /// The trunk and the class of a policy's packets. `set` is the policy set in force.
    pub(super) fn route_of(&self, set: &PolicySet, policy: &Policy) -> EgressRoute {
        // During a swap, links may have classes that the set in force does not have.
        let class = policy.class.as_ref().filter(|_| !set.classes().is_empty());
        let trunks = self.trunks.as_ref();
        EgressRoute {
            trunk: trunks.and_then(|trunks| trunks.find(policy.trunk.as_ref()?)),
            class: class.and_then(|name| self.link.class(name)),
            drops_control: policy.drops_by_name(),
        }
    }

    /// Passes packets that an aggregate has released to its trunk or to the link.
    pub(super) fn take(&mut self, up: &mut Upstream<'_>, route: EgressRoute, mut packets: Fifo) {
        while let Some(packet) = packets.pop(up.cx.pool) {
            match route.trunk {
                Some(id) if !stays_here(up.cx.pool, &packet) => {
                    up.cx.pool[&packet].queue_index =
                        QueueIndex::at_egress(up.cx.pool[&packet].flow);
                    self.call_trunk(up, id, |trunk, cx, out| trunk.send(cx, packet, out));
                }
                _ => self.send(up, route.class, packet),
            }
        }
    }

    /// Sends a packet of `class` to the link. Waiting packets of its flow move to the same class,
    /// so that no packet overtakes another.
    pub(super) fn send(&mut self, up: &mut Upstream<'_>, class: Option<ClassId>, packet: PacketId) {
        let (leaf, direction) = (self.link.leaf(class), self.direction);
        if let Some(classes) = self.link.classes_mut()
            && let Some(flow) = up.sorter.flow_of(&up.cx.pool[&packet])
            && flow.class(direction) != leaf
        {
            let id = up.cx.pool[&packet].flow;
            classes.move_flow(&mut up.cx, id, flow.class(direction), leaf);
            flow.set_class(direction, leaf);
        }
        if up.sorter.has_markings() {
            up.cx.pool[&packet].queue_index = QueueIndex::at_egress(up.cx.pool[&packet].flow);
            let described = &up.cx.pool[&packet];
            let flow = up.sorter.flow_of(described);
            self.link.sight(up.cx.now, leaf, described, flow.as_deref());
        }
        self.link.push(&mut up.cx, leaf, packet);
    }

    /// Sends packets of `class` to the link.
    pub(super) fn send_all(
        &mut self,
        up: &mut Upstream<'_>,
        class: Option<ClassId>,
        mut packets: Fifo,
    ) {
        while let Some(packet) = packets.pop(up.cx.pool) {
            self.send(up, class, packet);
        }
    }

    /// Sends packets that a swap of policies has released. With classes, they enter the queue of
    /// their class, which may drop some. Without, they follow the packets that wait.
    pub(super) fn send_displaced(
        &mut self,
        up: &mut Upstream<'_>,
        class: Option<ClassId>,
        packets: Fifo,
    ) {
        match self.link.classes() {
            Some(_) => self.send_all(up, class, packets),
            None => self.link.take_over(&mut up.cx, packets),
        }
    }

    /// Sends a packet of control traffic that `source` has sent.
    pub(super) fn send_control(&mut self, cx: &mut Cx<'_>, source: QueueIndex, packet: PacketId) {
        self.link.push_control(cx, source, packet);
    }

    /// Shows `ack`, which departs to the sender of `flow`, to the marking of the queue of that flow.
    #[inline]
    pub(super) fn acknowledge(&mut self, now: Time, ack: &Packet, flow: &Flow) {
        self.link.acknowledge(now, flow.class(self.direction), ack, flow);
    }

    /// Lets the marking of the queue of `flow` forget it. Its index was `id`.
    pub(super) fn forget(&mut self, id: FlowId, flow: &Flow) {
        self.link.forget(flow.class(self.direction), id);
    }

    /// Removes the packet that departs now.
    #[inline]
    pub(super) fn pop(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.link.pop(cx)
    }

    /// Earliest time at which a packet departs, or the timeout of a trunk expires.
    #[inline]
    pub(super) fn ready_at(&mut self, cx: &mut Cx<'_>) -> Option<Time> {
        let trunks = self.trunks.as_ref().and_then(|trunks| trunks.next());
        Time::earliest(trunks, self.link.ready_at(cx))
    }

    /// Moves packets queued as untracked to `flow`, whose aggregate has this `route`. `which`
    /// selects the packets. Returns the leaf class if packets of the flow waited there.
    pub(super) fn give_back(
        &mut self,
        pool: &mut PacketPool,
        route: EgressRoute,
        flow: FlowId,
        which: Which<'_>,
    ) -> Option<ClassId> {
        if let (Some(trunks), Some(trunk)) = (&mut self.trunks, route.trunk) {
            trunks.give_back(pool, trunk, flow, which);
        }
        let leaf = self.link.leaf(route.class);
        self.link.give_back(pool, leaf, flow, which).then_some(leaf)
    }

    /// Packets that wait at the trunks.
    pub(super) fn packets_at_trunks(&self) -> u32 {
        let trunks = self.trunks.iter().flat_map(|trunks| trunks.iter());
        trunks.map(|trunk| trunk.backlog().packets).sum()
    }
}
