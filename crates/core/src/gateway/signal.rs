//! The third stage: control of senders by their ACKs.
//!
//! Source: `postack`, R001-7 (ACKs are held, data is not), R001-19 (a flow with one visible
//! direction is queued like any other).
//! Differs: a departing ACK passes the aggregate of its own direction at once, and is charged
//! there.

use super::Gateway;
use super::link::Link;
use super::status::show;
use super::trunks::{TrunkId, Trunks};
use crate::ack::{Ahead, Call, Known, Returning};
use crate::aggregate::Aggregate;
use crate::class::ClassId;
use crate::flow::{Arrival, Claiming, Flow, Handle, Tracking};
use crate::packet::{Direction, Facts, Fifo, FlowId};
use crate::report::UnresponsiveFlow;
use crate::{PacketId, Time};

impl Gateway {
    /// Offers `id` to the aggregate whose data it acknowledges, and releases ACKs that may depart.
    /// Returns `id` if no aggregate controls that data.
    pub(super) fn offer_ack(
        &mut self,
        now: Time,
        direction: Direction,
        of: FlowId,
        id: PacketId,
    ) -> Option<PacketId> {
        let flow = &self.flows[of];
        let Some(tcp) = self.pool[&id].tcp else { return Some(id) };
        let own = flow.handle(direction);
        if tcp.authenticated || !is_governable(flow) {
            let aggregate = self.aggregates.meant(own).filter(|it| it.has_signal());
            if let (Some(aggregate), 1..) = (aggregate, tcp.payload) {
                aggregate.on_ungoverned();
            }
            return Some(id);
        }
        if let Some(aggregate) = self.aggregates.meant(own)
            && aggregate.has_signal()
        {
            let responds = tcp.sequence_len() == 0 || aggregate.on_data(now, &self.pool, &id);
            let packet = &mut self.pool[&id];
            packet.facts = packet.facts.with(Facts::CONTROLLED, responds);
            if !responds {
                aggregate.on_ungoverned();
                self.unresponsive.note(of, direction);
            }
        }
        let data = self.flows[of].handle(direction.reverse());
        if !self.aggregates.now(data).is_some_and(Aggregate::has_signal) {
            return Some(id);
        }
        let way = direction.reverse();
        let ahead = self.ahead_of(way, data.aggregate);
        let known = self.known(of, way);
        let Some(aggregate) = self.aggregates.meant(data) else { return Some(id) };
        let back = Returning { member: data.member, known: &known, packet: id };
        let mut acks = Fifo::new();
        aggregate.on_ack(now, &mut self.pool, ahead, back, &mut acks);
        self.go_on(now, direction, acks);
        self.release_acks(now, data.aggregate);
        None
    }

    /// A connection begins on the ports of the flow of `handles`, or a SYN claims these ports.
    ///
    /// The SYN stops the held ACKs of the old connection. A SYN with ACK that acknowledges it drops these
    /// ACKs and the sequence state of the old connection. Any other segment lets them depart.
    pub(super) fn begin_again(&mut self, now: Time, handles: [Handle; 2], arrival: Arrival) {
        for handle in handles {
            let Some(aggregate) = self.aggregates.meant(handle).filter(|it| it.has_signal()) else {
                continue;
            };
            let member = handle.member;
            let forgets = arrival.connection || aggregate.held_acks(member) > 0;
            match arrival.claiming {
                Claiming::Asked if aggregate.held_acks(member) > 0 => {
                    aggregate.stop_acks(now, member);
                    self.timers.arm(handle.aggregate, aggregate.ready_at());
                }
                Claiming::Denied => {
                    aggregate.resume_acks(now, &mut self.pool, member);
                    self.release_acks(now, handle.aggregate);
                }
                _ if forgets => aggregate.discard_acks(now, &mut self.pool, member),
                _ => {}
            }
        }
    }

    /// The remembered flows that do not respond now.
    pub(super) fn unresponsive(&self) -> Vec<UnresponsiveFlow> {
        let named = self.unresponsive.0.iter().filter_map(|(id, direction)| {
            let flow = self.flows.get(*id)?;
            let (key, handle) = (flow.key(*direction), flow.handle(*direction));
            let aggregate = self.aggregates.now(handle).filter(|it| !it.responds(handle.member))?;
            let [src, dst] = show(&key);
            Some(UnresponsiveFlow {
                src,
                dst,
                direction: *direction,
                policy: aggregate.policy().to_owned(),
            })
        });
        named.collect()
    }

    /// Releases ACKs that the aggregate in `slot` need not hold any longer. The freed room at the
    /// egress then releases ACKs of other aggregates.
    pub(super) fn release_acks(&mut self, now: Time, slot: u32) {
        let Some(aggregate) = self.aggregates.get(slot).filter(|it| it.has_signal()) else {
            return;
        };
        let way = aggregate.direction();
        let stop = self.stop(way, slot);
        let ahead = self.ahead(way, stop);
        self.release_of(now, slot, way, stop, ahead);
        if ahead.rate.is_some() {
            self.take_turns(now, way, stop);
        }
    }

    /// Releases ACKs in rounds while there is room at `stop`.
    fn take_turns(&mut self, now: Time, way: Direction, stop: Stop) {
        let (at, grain, place) = (way.index(), self.grain, self.place(stop));
        loop {
            let (link, trunks) = (&self.links[at], self.trunks.as_deref());
            let ahead = || Ahead { grain, ..stop.ahead(link, trunks) };
            let Some((slot, room)) = self.places[at].turn(place, ahead) else { return };
            let ahead = Ahead { room, ..self.places[at].complete(place, ahead()) };
            self.release_of(now, slot, way, stop, ahead);
        }
    }

    /// Releases ACKs of the aggregate in `slot`, whose data waits at `stop`. An aggregate that no
    /// longer exists leaves the rounds.
    fn release_of(&mut self, now: Time, slot: u32, way: Direction, stop: Stop, ahead: Ahead) {
        let place = self.place(stop);
        let there = self.aggregates.get_mut(slot).filter(|it| it.direction() == way);
        let Some(aggregate) = there else {
            return self.places[way.index()].note(place, slot, Call::default(), ahead.rate);
        };
        let mut acks = Fifo::new();
        let call = aggregate.release(now, &mut self.pool, ahead, &mut acks);
        self.timers.arm(slot, aggregate.ready_at());
        if ahead.rate.is_some() {
            self.places[way.index()].note(place, slot, call, ahead.rate);
        }
        self.go_on(now, way.reverse(), acks);
    }

    /// Egress of the aggregate in `slot`.
    fn stop(&self, way: Direction, slot: u32) -> Stop {
        let exit = self.aggregates.exit(slot);
        let leaf = || self.links[way.index()].leaf(exit.class);
        exit.trunk.map_or_else(|| Stop::Leaf(leaf()), Stop::Trunk)
    }

    /// Index of an egress within its direction: trunks come before leaf classes.
    fn place(&self, stop: Stop) -> usize {
        match stop {
            Stop::Trunk(id) => id.index(),
            Stop::Leaf(leaf) => leaf.index() + self.config.trunks.len(),
        }
    }

    /// Facts about a flow whose data travels in direction `way`.
    pub(super) fn known(&self, flow: FlowId, way: Direction) -> Known {
        let flow = &self.flows[flow];
        // ACKs in tunnels that number their packets are held whole, like those of extended connections.
        let whole = self.flows.outer(flow, way).is_some_and(|outer| !outer.may_edit());
        let known = known(flow, way);
        Known { extended: known.extended || whole, ..known }
    }

    /// State of the egress of the aggregate in `slot`, for an aggregate that did not wait for its round.
    pub(super) fn ahead_of(&self, way: Direction, slot: u32) -> Ahead {
        self.ahead(way, self.stop(way, slot))
    }

    /// State of the egress `stop`, for aggregates that did not wait for their round.
    fn ahead(&self, way: Direction, stop: Stop) -> Ahead {
        let ahead = stop.ahead(&self.links[way.index()], self.trunks.as_deref());
        let ahead = Ahead { grain: self.grain, ..ahead };
        self.places[way.index()].complete(self.place(stop), ahead)
    }

    /// A packet of an ACK-controlled flow departs from the link: its queue has room.
    pub(super) fn made_room(&mut self, now: Time, direction: Direction, packet: &PacketId) {
        if let Some(flow) = self.flows.of_packet(&self.pool[packet], direction) {
            let leaf = match self.links[direction.index()].classes() {
                Some(_) => flow.class(direction),
                None => ClassId::ROOT,
            };
            self.take_turns(now, direction, Stop::Leaf(leaf));
        }
    }

    /// Packets of ACK-controlled flows departed from a trunk: its queue has room.
    pub(super) fn made_room_at_trunk(&mut self, now: Time, id: TrunkId) {
        self.take_turns(now, Direction::Up, Stop::Trunk(id));
    }

    /// Forwards released packets. Packets with data continue to the aggregate of `direction`. ACKs
    /// pass this aggregate, which is charged.
    pub(super) fn go_on(&mut self, now: Time, direction: Direction, mut acks: Fifo) {
        while let Some(id) = acks.pop(&self.pool) {
            let handle = self.flows[self.pool[&id].flow].handle(direction);
            self.pool[&id].member = handle.member;
            let data = self.pool[&id].tcp.is_some_and(|tcp| tcp.sequence_len() > 0);
            let Some(aggregate) = self.aggregates.meant(handle) else {
                self.send_one(now, direction, None, id);
                continue;
            };
            if data {
                self.condition(now, direction, handle.aggregate, id);
                continue;
            }
            let mut out = Fifo::new();
            let back = aggregate.pass(now, &mut self.pool, id, &mut out);
            self.timers.arm(handle.aggregate, aggregate.ready_at());
            self.leave(now, direction, handle.aggregate, out);
            if let Some(id) = back {
                self.condition(now, direction, handle.aggregate, id);
            }
        }
    }
}

/// At most [`NAMED`] flows whose senders did not respond to their ACKs at the arrival of their newest data.
#[derive(Default)]
pub(super) struct Unresponsive(Vec<(FlowId, Direction)>);

/// Number of named flows. An operator stops the first flow and then looks for further ones.
const NAMED: usize = 8;

impl Unresponsive {
    fn note(&mut self, flow: FlowId, direction: Direction) {
        if self.0.contains(&(flow, direction)) {
            return;
        }
        if self.0.len() == NAMED {
            self.0.remove(0);
        }
        self.0.push((flow, direction));
    }
}

/// Egress of an aggregate.
#[derive(Clone, Copy)]
enum Stop {
    /// The tunnel queue of a trunk.
    Trunk(TrunkId),
    /// A leaf class of the link.
    Leaf(ClassId),
}

impl Stop {
    /// State of the queue at the egress, for ACK control.
    fn ahead(self, link: &Link, trunks: Option<&Trunks>) -> Ahead {
        match self {
            Self::Trunk(id) => trunks.map_or_else(Ahead::default, |trunks| trunks.ahead(id)),
            Self::Leaf(leaf) => link.ahead(leaf),
        }
    }
}

/// Returns `true` if ACK control may hold and rebuild the ACKs of the flow.
fn is_governable(flow: &Flow) -> bool {
    flow.tracking() != Tracking::QueueOnly
}

/// Facts about `flow`, whose data travels in direction `way`.
fn known(flow: &Flow, way: Direction) -> Known {
    let (rtt, connection) = (flow.min_rtt(), flow.connection());
    let (near, far) = match way {
        Direction::Up => (rtt.near, rtt.far),
        Direction::Down => (rtt.far, rtt.near),
    };
    Known {
        sent: connection.next_seq(way),
        scale: connection.scale(way.reverse()),
        mss: connection.mss(way).zip(connection.mss(way.reverse())).map(|(a, b)| a.min(b)),
        near,
        far,
        extended: connection.is_extended(),
        weight: 1,
    }
}
