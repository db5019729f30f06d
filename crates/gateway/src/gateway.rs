//! The gateway: it takes packets in at one port, shapes, polices or holds them, and sends them from the other port.
//!
//! A packet passes three stages. Each stage keeps its fields private, so no stage can change another:
//!
//! - `sorter` looks up the flow of the packet and the policy of the flow.
//! - `aggregates` has one aggregate for each policy and direction. The aggregate queues the packet until the packet
//!   conforms to the rate of the policy, drops it, or lets it pass.
//! - `egress`, one for each direction, queues the packet for the access link: in a trunk (a tunnel to another
//!   gateway), in a class of the link, or in the only queue of the link.
//!
//! This file moves packets from stage to stage. Steps that need several stages have files of their own:
//!
//! - `classify`: find the flow and the aggregate of a packet, and move a flow to another aggregate.
//! - `track`: update the TCP state of the flow from the headers of the packet.
//! - `ack_control`: hold an ACK while the data that it would release has no room.
//! - `control`: forward control traffic, such as ARP, past the policies.
//! - `marking`: show packets to the markings of queues.
//! - `install`, `dissolve` and `change`: replace policies, classes and settings while packets pass.
//! - `status` and `survey`: report the state of the gateway.

mod ack_control;
mod aggregates;
mod change;
mod classify;
mod config;
mod control;
mod dissolve;
mod egress;
mod install;
mod marking;
mod sorter;
mod status;
mod survey;
mod track;

use std::time::Duration;

use aggregates::Aggregates;
pub use config::GatewayConfig;
pub use egress::{ClassChangeError, ClassContents, Retired};
use egress::{Egress, Upstream};
pub use install::{Generation, StillInstalling};
use sorter::Sorter;
pub use survey::{FlowSurvey, Survey};

use tidegate_core::Count;
use tidegate_core::machine::{Machine, PortId};
use tidegate_core::packet::{Direction, Fifo, FlowId, Kind};
use tidegate_core::{Cx, PacketId, PacketPool, Tally, Time};

use crate::aggregate::Trigger;
use crate::policy::PolicySet;

/// A bump in the wire between a LAN and a WAN port.
///
/// Each packet departs from the other port, or is dropped with a [`Reason`](tidegate_core::Reason), or is held.
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
/// use tidegate_gateway::{Gateway, GatewayConfig};
/// use tidegate_core::link::Overhead;
/// use tidegate_core::packet::{Endpoint, FlowKey, Network, Packet, Protocol};
/// use tidegate_gateway::policy::PolicySet;
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
    sorter: Sorter,
    aggregates: Aggregates,
    /// The egress of each direction.
    egress: [Egress; 2],
    counts: GatewayCounters,
}

/// Counters of the gateway itself.
#[derive(Clone, Copy, Debug, Default)]
struct GatewayCounters {
    received: [Count; 2],
    transmitted: [Count; 2],
    /// Fragments whose first fragment is unknown.
    without_first: [u64; 2],
    /// Drops and marks at the links, and of removed aggregates.
    tally: Tally,
    /// Counters of ACK control in removed aggregates.
    acks: tidegate_core::ack::Counts,
    /// Counters of removed trunks.
    trunks: tidegate_core::trunk::TrunkCounters,
}

impl Gateway {
    /// The port towards the hosts of the site.
    pub const LAN: PortId = PortId(0);
    /// The port towards the Internet.
    pub const WAN: PortId = PortId(1);

    /// A gateway without traffic.
    #[must_use]
    pub fn new(config: &GatewayConfig, policies: PolicySet, now: Time) -> Self {
        let mut pool = PacketPool::with_capacity(config.packets);
        pool.keep_stations();
        pool.count_flows();
        if policies.has_ack_control() {
            pool.keep_sack();
        }
        let mut gateway = Self {
            pool,
            sorter: Sorter::new(config, policies, now),
            aggregates: Aggregates::new(config.shaping_interval),
            egress: Direction::BOTH.map(|way| Egress::new(config, way, now)),
            counts: GatewayCounters::default(),
        };
        gateway.change_trunks(now, &config.trunks);
        gateway.share_links(now);
        gateway
    }

    /// Returns `true` if the gateway does not change the traffic. A driver may then let frames
    /// bypass it.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        self.sorter.policies().policies().is_empty()
            && self.sorter.config().rate == [None, None]
            && self.sorter.config().trunks.is_empty()
            && !self.is_installing()
            && self.held() == 0
    }

    /// The policies that are in force.
    #[must_use]
    pub fn policies(&self) -> &PolicySet {
        self.sorter.policies()
    }

    /// The settings other than the policies.
    #[must_use]
    pub const fn config(&self) -> &GatewayConfig {
        self.sorter.config()
    }

    /// The egress of `direction`, and the stages upstream of it.
    #[inline]
    fn at_egress(&mut self, now: Time, direction: Direction) -> (&mut Egress, Upstream<'_>) {
        let cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        let upstream = Upstream { cx, sorter: &mut self.sorter, aggregates: &self.aggregates };
        (&mut self.egress[direction.index()], upstream)
    }

    /// Takes in a packet that arrives in `direction`.
    fn take_in(&mut self, now: Time, direction: Direction, mut id: PacketId) {
        if self.egress[Direction::Up.index()].trunks().is_some() {
            let Some(back) = self.end_at_trunk(now, direction, id) else { return };
            id = back;
        }
        let is_control = self.pool[&id].kind == Kind::Control;
        if is_control && self.egress[direction.index()].link().keeps_rate() {
            return self.handle_control(now, direction, id);
        }
        if self.pool[&id].fragment.is_part() && !self.sorter.take_fragment(now, &mut self.pool, &id)
        {
            self.counts.without_first[direction.index()] += 1;
        }
        let (flow, slot) = self.classify(now, direction, &id);
        if flow.is_none() {
            self.sorter.count_untracked(&mut self.pool[&id]);
            if self.sorter.is_holding() {
                let tally = &mut self.counts.tally;
                let mut cx = Cx { now, pool: &mut self.pool, tally };
                return self.sorter.hold(&mut cx, direction, id);
            }
        }
        self.handle_classified(now, direction, flow, slot, id);
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
            if self.sorter.has_ack_control() {
                let Some(back) = self.offer_ack(now, direction, flow, id) else { return };
                id = back;
            }
        }
        self.condition(now, direction, slot, id);
    }

    /// The aggregate in `slot` decides about `id`. Without an aggregate, the packet is sent.
    fn condition(&mut self, now: Time, direction: Direction, slot: u32, id: PacketId) {
        if self.sorter.has_markings() {
            self.sight_at_aggregate(now, direction, slot, &id);
        }
        let Some(aggregate) = self.aggregates.get_mut(slot) else {
            let (egress, mut up) = self.at_egress(now, direction);
            return egress.send(&mut up, None, id);
        };
        let mut out = Fifo::new();
        aggregate.offer(now, &mut self.pool, id, &mut out);
        self.settle(now, slot, out);
    }

    /// Forwards packets that the aggregate in `slot` has released. The aggregate may then release ACKs.
    fn settle(&mut self, now: Time, slot: u32, out: Fifo) {
        let Some(aggregate) = self.aggregates.get(slot) else { return };
        let (direction, has_ack_control) = (aggregate.direction(), aggregate.has_ack_control());
        if !has_ack_control {
            let ready_at = aggregate.ready_at();
            self.aggregates.arm(slot, ready_at);
        }
        self.depart(now, direction, slot, out);
        if has_ack_control {
            self.egress[direction.index()].may_release(slot);
        }
    }

    /// Hands packets that the aggregate in `slot` has released to the egress.
    fn depart(&mut self, now: Time, direction: Direction, slot: u32, out: Fifo) {
        if out.packets() == 0 {
            return;
        }
        let route = self.aggregates.route(slot);
        let (egress, mut up) = self.at_egress(now, direction);
        egress.take(&mut up, route, out);
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

    /// Runs expired timers: checks of aggregates, sweeps of the flow table, and timers of trunks.
    #[inline(never)]
    fn advance(&mut self, now: Time) {
        while let Some(slot) = self.aggregates.next_due(now) {
            self.trigger(now, slot, Trigger::Timer);
        }
        if self.sorter.is_due(now) {
            self.sweep(now);
        }
        let (egress, mut up) = self.at_egress(now, Direction::Up);
        egress.turn_trunks(&mut up);
        self.drain(now);
    }

    /// Hands `id`, which arrives in `direction`, to the trunk at which it terminates. Returns `id` if it
    /// terminates at no trunk.
    fn end_at_trunk(&mut self, now: Time, direction: Direction, id: PacketId) -> Option<PacketId> {
        if direction == Direction::Up {
            return Some(id);
        }
        let (egress, mut up) = self.at_egress(now, Direction::Up);
        egress.end_at_trunk(&mut up, id)
    }
}

impl Machine for Gateway {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, now: Time, port: PortId, id: PacketId) {
        let direction = if port == Self::LAN { Direction::Up } else { Direction::Down };
        let packet = &mut self.pool[&id];
        packet.arrived = now;
        // In a simulation, the previous gateway on the path may have set the flow.
        packet.flow = FlowId::NONE;
        packet.cost = self.egress[direction.index()].charge(packet);
        self.counts.received[direction.index()].add(packet.wire_len());
        self.take_in(now, direction, id);
        self.drain(now);
    }

    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId> {
        let trunks_are_due = self.egress[Direction::Up.index()].trunks_are_due(now);
        if self.aggregates.is_due(now) || self.sorter.is_due(now) || trunks_are_due {
            self.advance(now);
        }
        let direction = if port == Self::WAN { Direction::Up } else { Direction::Down };
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        let packet = self.egress[direction.index()].pop(&mut cx)?;
        self.note_room(direction, &packet);
        self.counts.transmitted[direction.index()].add(self.pool[&packet].wire_len());
        self.note_departure(now, direction, &packet);
        Some(packet)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        if self.is_installing() && self.go_on_installing(now) {
            return Some(now);
        }
        // Departures have made room.
        self.drain(now);
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        let mut next = self.aggregates.next();
        for egress in &mut self.egress {
            next = Time::earliest(next, egress.ready_at(&mut cx));
        }
        next
    }

    fn is_working(&self) -> bool {
        self.is_installing()
    }

    fn wants_frames(&self, port: PortId) -> bool {
        let direction = if port == Self::LAN { Direction::Up } else { Direction::Down };
        self.egress[direction.index()].link().wants_frames()
    }

    fn set_poll_interval(&mut self, poll_interval: Duration) {
        self.egress.iter_mut().for_each(|egress| egress.set_poll_interval(poll_interval));
    }
}
