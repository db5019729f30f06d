//! The gateway: packets in, packets out, and the time of its next call.
//!
//! A packet passes these stages, each in its own file:
//!
//! - `control` sends control traffic past the policies, if the link has a rate.
//! - `classify` finds the packet's flow and aggregate.
//! - `track` updates the flow from the packet's headers.
//! - `signal` holds an ACK if the data that it requests would have to wait.
//! - The aggregate conditions the packet.
//! - `link` sends it.
//!
//! `install` swaps the policies under live traffic.

mod aggregates;
mod balance;
mod began;
mod change;
mod classes;
mod classify;
mod config;
mod control;
mod dissolve;
mod hosts;
mod install;
mod link;
mod marking;
mod signal;
mod status;
mod survey;
mod timers;
mod track;
mod trunks;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use aggregates::Aggregates;
use began::Began;
pub use classes::{ClassChangeError, Holds, Retired};
pub use config::{GatewayConfig, Headers, Overhead};
use hosts::LanHosts;
use install::Swap;
pub use install::{Generation, StillInstalling};
use link::Link;
use signal::Unresponsive;
pub use survey::{FlowSurvey, Survey};
use timers::{Due, Timers};
use trunks::Trunks;

use crate::ack::Places;
use crate::aggregate::Trigger;
use crate::class::ClassId;
use crate::flow::{FlowTable, FragmentTable};
use crate::machine::{Machine, PortId};
use crate::packet::{Direction, Fifo, FlowId, Kind};
use crate::policy::PolicySet;
use crate::report::Count;
use crate::{Cx, PacketId, PacketPool, Tally, Time};

/// A bump in the wire between a LAN and a WAN port.
///
/// Each packet departs from the other port, or is dropped with a [`Reason`](crate::Reason), or is held.
/// [`report`](Self::report) counts all three.
///
/// # Call order
///
/// A gateway is driven as any [`Machine`]. [`install`](Self::install) replaces the policies at once.
/// [`begin_install`](Self::begin_install) does so in slices, between packets.
///
/// # Time
///
/// All times come from the driver and do not run backwards. The gateway starts at the `now` of
/// [`new`](Self::new). [`poll_timeout`](Machine::poll_timeout) returns the time at which a held packet
/// may depart.
///
/// # Example
///
/// The access link has 8 Mbit/s. Twenty packets of 1,000 bytes arrive at once. After the first few, each
/// departs a millisecond after the previous one.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::gateway::{Gateway, GatewayConfig, Overhead};
/// use tidegate_core::packet::{Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_core::policy::PolicySet;
/// use tidegate_core::qdisc::QdiscSpec;
/// use tidegate_core::{Machine, Rate, Time};
///
/// let config = GatewayConfig {
///     rate: [Some(Rate::from_mbps(8)), None],
///     overhead: Overhead::default(),
///     queue: QdiscSpec::DropTail(Default::default()),
///     packets: 64,
///     flows: 64,
///     shaping_interval: Duration::ZERO,
///     shaping_triggers: Default::default(),
///     fragments_without_first: Default::default(),
///     trunks: Vec::new(),
///     seed: 1,
///     scheduler: Default::default(),
/// };
/// let mut gateway = Gateway::new(&config, PolicySet::default(), Time::ZERO);
/// let key = FlowKey {
///     src: Endpoint::v4([10, 0, 0, 1], 5_000),
///     dst: Endpoint::v4([192, 0, 2, 1], 443),
///     protocol: Protocol::UDP,
/// };
/// let packet = Packet { len: 1_000, segments: 1, key, network: Network::Ipv4, ..Packet::default() };
///
/// let mut departures = Vec::new();
/// for _ in 0..20 {
///     let id = gateway.pool().insert(packet).unwrap();
///     gateway.handle_packet(Time::ZERO, Gateway::LAN, id);
/// }
/// let mut now = Time::ZERO;
/// while departures.len() < 20 {
///     while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
///         gateway.pool().release(id);
///         departures.push(now);
///     }
///     now = gateway.poll_timeout(now).unwrap_or(now);
/// }
/// assert_eq!(departures[19].since(departures[18]), Duration::from_millis(1));
/// assert_eq!(gateway.report().transmitted[0].packets, 20);
/// ```
pub struct Gateway {
    pool: PacketPool,
    config: GatewayConfig,
    policies: Arc<PolicySet>,
    began: Began,
    /// The swap in progress.
    swap: Option<Box<Swap>>,
    /// State that swaps have replaced.
    retired: Retired,
    /// An aggregate may control senders by their ACKs.
    signals: bool,
    /// A queue may have a marking.
    marks: bool,
    /// Number of policy sets installed. A [`Handle`](crate::flow::Handle) records the number at its creation.
    generation: u32,
    /// Number of changes of the policies, classes and links, without the steps of a swap.
    arrangement: u32,
    flows: FlowTable,
    lan_hosts: LanHosts,
    fragments: FragmentTable,
    aggregates: Aggregates,
    timers: Timers,
    links: [Link; 2],
    /// Longest interval between two calls of the driver.
    grain: Duration,
    trunks: Option<Box<Trunks>>,
    /// The number of the newest trunk.
    last_trunk: NonZeroU16,
    /// The egresses, by direction, for ACK control.
    places: [Places; 2],
    unresponsive: Unresponsive,
    counts: Counts,
}

/// Counters of the gateway itself.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: [Count; 2],
    transmitted: [Count; 2],
    /// Fragments whose first fragment is unknown.
    without_first: [u64; 2],
    /// Drops and marks at the links, and of removed aggregates.
    tally: Tally,
    /// Counters of ACK control in removed aggregates.
    acks: crate::ack::Counts,
    /// Counters of removed trunks.
    trunks: crate::trunk::Counts,
}

impl Gateway {
    /// The port towards the hosts of the site.
    pub const LAN: PortId = PortId(0);
    /// The port towards the Internet.
    pub const WAN: PortId = PortId(1);

    /// A gateway without traffic.
    #[must_use]
    pub fn new(config: &GatewayConfig, policies: PolicySet, now: Time) -> Self {
        let links = Direction::BOTH.map(|way| Link::new(config, way, now));
        let mut pool = PacketPool::with_capacity(config.packets);
        pool.keep_stations();
        let signals = policies.has_signals();
        if signals {
            pool.keep_sack();
        }
        let mut gateway = Self {
            pool,
            config: GatewayConfig { trunks: Vec::new(), ..config.clone() },
            aggregates: Aggregates::default(),
            policies: Arc::new(policies),
            began: Began::default(),
            swap: None,
            retired: Retired::default(),
            signals,
            marks: false,
            generation: 1,
            arrangement: 0,
            flows: FlowTable::new(config.flows, config.seed),
            lan_hosts: LanHosts::default(),
            fragments: FragmentTable::new(config.seed),
            timers: Timers::new(config.shaping_interval, now),
            links,
            grain: Duration::ZERO,
            trunks: None,
            last_trunk: NonZeroU16::MAX,
            places: Default::default(),
            unresponsive: Unresponsive::default(),
            counts: Counts::default(),
        };
        gateway.marks = gateway.has_markings();
        gateway.change_trunks(now, &config.trunks);
        gateway.share_links(now);
        gateway
    }

    /// Returns `true` if the gateway does not change the traffic. A driver may then let frames
    /// bypass it.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        self.policies.policies().is_empty()
            && self.config.rate == [None, None]
            && self.trunks.is_none()
            && !self.is_installing()
            && self.held() == 0
    }

    /// The policies that are in force.
    #[must_use]
    pub fn policies(&self) -> &PolicySet {
        &self.policies
    }

    /// The settings beside the policies.
    #[must_use]
    pub const fn config(&self) -> &GatewayConfig {
        &self.config
    }

    /// The stages after classification. `id` belongs to `flow` and to the aggregate in `slot`.
    #[inline]
    fn handle_classified(
        &mut self,
        now: Time,
        direction: Direction,
        flow: Option<FlowId>,
        slot: u32,
        mut id: PacketId,
    ) {
        if let Some(flow) = flow {
            self.track(now, direction, flow, &id);
            if self.signals {
                let Some(back) = self.offer_ack(now, direction, flow, id) else { return };
                id = back;
            }
        }
        self.condition(now, direction, slot, id);
    }

    /// The aggregate in `slot` decides about `id`. Without an aggregate, the packet is sent.
    fn condition(&mut self, now: Time, direction: Direction, slot: u32, id: PacketId) {
        if self.marks {
            self.sight_at_aggregate(now, direction, slot, &id);
        }
        let Some(aggregate) = self.aggregates.get_mut(slot) else {
            return self.send_one(now, direction, None, id);
        };
        let mut out = Fifo::new();
        aggregate.offer(now, &mut self.pool, id, &mut out);
        self.settle(now, slot, out);
    }

    /// Forwards packets that the aggregate in `slot` has released. Then releases ACKs for which its
    /// egress has room now.
    fn settle(&mut self, now: Time, slot: u32, out: Fifo) {
        let Some(aggregate) = self.aggregates.get(slot) else { return };
        let (direction, has_signal) = (aggregate.direction(), aggregate.has_signal());
        if !has_signal {
            self.timers.arm(slot, aggregate.ready_at());
        }
        self.leave(now, direction, slot, out);
        if has_signal {
            self.release_acks(now, slot);
        }
    }

    /// Hands released packets of one class to the link of `direction`.
    fn send(&mut self, now: Time, direction: Direction, class: Option<ClassId>, mut out: Fifo) {
        while let Some(packet) = out.pop(&self.pool) {
            self.send_one(now, direction, class, packet);
        }
    }

    /// Hands a packet to the link. Waiting packets of its flow move to the same class, so that no
    /// packet overtakes another.
    fn send_one(
        &mut self,
        now: Time,
        direction: Direction,
        class: Option<ClassId>,
        packet: PacketId,
    ) {
        let link = &mut self.links[direction.index()];
        let leaf = link.leaf(class);
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        if let Some(classes) = link.classes_mut()
            && let Some(flow) = self.flows.of_packet(&cx.pool[&packet], direction)
            && flow.class(direction) != leaf
        {
            let id = cx.pool[&packet].flow;
            classes.move_flow(&mut cx, id, flow.class(direction), leaf);
            flow.set_class(direction, leaf);
        }
        if self.marks {
            self.sight_at_link(now, direction, leaf, &packet);
        }
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        self.links[direction.index()].push(&mut cx, leaf, packet);
    }

    /// Lets the aggregate in `slot` check its packets.
    fn trigger(&mut self, now: Time, slot: u32, why: Trigger) {
        let Some(aggregate) = self.aggregates.get_mut(slot) else { return };
        let mut out = Fifo::new();
        // A timer may be for held ACKs. Other triggers release no ACKs by themselves.
        if aggregate.trigger(now, &mut self.pool, why, &mut out) || why == Trigger::Timer {
            self.settle(now, slot, out);
        }
    }

    /// Runs expired timers: checks of aggregates, and sweeps of the flow table.
    #[inline(never)]
    fn advance(&mut self, now: Time) {
        while let Some(due) = self.timers.due(now) {
            match due {
                Due::Aggregate(slot) => self.trigger(now, slot, Trigger::Timer),
                Due::Sweep => self.sweep(now),
            }
        }
    }
}

impl Machine for Gateway {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, now: Time, port: PortId, mut id: PacketId) {
        let direction = if port == Self::LAN { Direction::Up } else { Direction::Down };
        let packet = &mut self.pool[&id];
        packet.arrived = now;
        packet.cost = self.config.overhead.charge(packet);
        self.counts.received[direction.index()].add(packet.wire_len());

        if self.trunks.is_some() {
            let Some(back) = self.end_at_trunk(now, direction, id) else { return };
            id = back;
        }
        let is_control = self.pool[&id].kind == Kind::Control;
        if is_control && self.links[direction.index()].keeps_rate() {
            return self.handle_control(now, direction, id);
        }
        if self.pool[&id].fragment.is_part() {
            self.take_fragment(now, direction, &id);
        }
        let (flow, slot) = self.classify(now, direction, &id);
        self.handle_classified(now, direction, flow, slot, id);
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        if self.timers.is_due(now) {
            self.advance(now);
        }
        if self.trunks.as_ref().is_some_and(|trunks| trunks.is_due(now)) {
            self.turn_trunks(now);
        }
        let direction = if port == Self::WAN { Direction::Up } else { Direction::Down };
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        let packet = self.links[direction.index()].pop(&mut cx)?;
        if self.places[direction.index()].is_waited_for() && self.pool[&packet].is_controlled() {
            self.made_room(now, direction, &packet);
        }
        let leaving = &self.pool[&packet];
        self.counts.transmitted[direction.index()].add(leaving.wire_len());
        if let Some(flow) = self.flows.of_packet(leaving, direction) {
            flow.on_departure(now, leaving, direction);
            if self.marks {
                let (links, aggregates) = (&mut self.links, &mut self.aggregates);
                marking::acknowledge(now, direction, links, aggregates, (leaving, flow));
            }
        }
        Some(packet)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        if self.is_installing() && self.go_on_installing(now) {
            return Some(now);
        }
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        let trunks = self.trunks.as_ref().and_then(|trunks| trunks.next());
        let mut next = [self.timers.next(), trunks].into_iter().flatten().min();
        for link in &mut self.links {
            next = Time::earliest(next, link.ready_at(&mut cx));
        }
        next
    }

    fn is_working(&self) -> bool {
        self.is_installing()
    }

    fn wants_frames(&self, port: PortId) -> bool {
        let direction = if port == Self::LAN { Direction::Up } else { Direction::Down };
        self.links[direction.index()].wants_frames()
    }

    fn set_grain(&mut self, grain: Duration) {
        self.grain = grain;
    }
}
