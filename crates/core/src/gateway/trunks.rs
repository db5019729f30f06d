//! Trunks of the gateway: what policies send through them, and what their other ends say.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::{Gateway, GatewayConfig};
use crate::ack::{Ahead, line};
use crate::class::ClassId;
use crate::packet::{Direction, Fifo, FlowId, FlowKey, Handover, Member, Network, Packet};
use crate::trunk::{Arriving, Report, Trunk, Wire};
use crate::wheel::TimerWheel;
use crate::{Cx, PacketId, PacketPool, Time};

/// The trunks that end here.
pub(super) struct Trunks {
    trunks: Vec<Trunk>,
    /// Whether user packets leave in datagrams of any.
    carries: bool,
    /// By trunk, the class of the user packet that left it last.
    classes: Vec<Option<ClassId>>,
    /// By the key of packets that end at one: which, and what they are there.
    arriving: HashMap<FlowKey, (TrunkId, Arriving), FixedState>,
    /// By DS codepoint, those that watch what their other ends have sent.
    watching: Vec<(u8, TrunkId)>,
    wheel: TimerWheel,
}

/// Whose datagrams user packets leave in.
struct Carrier {
    number: Option<NonZeroU16>,
    wire: Wire,
    local: IpAddr,
}

/// A trunk of the gateway.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TrunkId(u32);

impl TrunkId {
    pub(super) const fn index(self) -> usize {
        Member(self.0).index()
    }
}

impl Trunks {
    /// Those that `config` names; `None` if there are none.
    pub(super) fn new(config: &GatewayConfig, now: Time) -> Option<Box<Self>> {
        let trunks: Vec<_> =
            config.trunks.iter().map(|it| Trunk::new(it, config.seed, now)).collect();
        let hash = FixedState::with_seed(config.seed);
        let mut arriving = HashMap::with_hasher(hash);
        for (id, trunk) in (0..).map(TrunkId).zip(&trunks) {
            arriving.extend(trunk.arriving().map(|(key, what)| (key, (id, what))));
        }
        let watching = (0..).map(TrunkId).zip(&trunks);
        let watching = watching.filter_map(|(id, it)| Some((it.watches()?, id))).collect();
        let (classes, wheel) = (vec![None; trunks.len()], TimerWheel::new());
        let carries = trunks.iter().any(|it| it.config().wire.overhead(it.config().local) > 0);
        (!trunks.is_empty())
            .then(|| Box::new(Self { trunks, carries, classes, arriving, watching, wheel }))
    }

    /// The trunk of that name, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<TrunkId> {
        (0..).map(TrunkId).zip(&self.trunks).find(|(_, it)| it.config().name == name).map(|it| it.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Trunk> {
        self.trunks.iter()
    }

    /// Whether packets of `flow` wait at a trunk.
    pub(super) fn has_waiting(&self, id: TrunkId, flow: FlowId) -> bool {
        self.trunks[id.index()].has_waiting(flow)
    }

    /// What waits at a trunk, as a signal sees it.
    pub(super) fn ahead(&self, id: TrunkId) -> Ahead {
        self.trunks[id.index()].ahead()
    }

    /// Lets `flow` have what waits of it at a trunk among what is in no flow: what `which` says yes to.
    pub(super) fn give_back(
        &mut self,
        pool: &mut PacketPool,
        id: TrunkId,
        flow: FlowId,
        which: &mut dyn FnMut(&mut Packet) -> bool,
    ) {
        let mut what = Handover { from: line(FlowId::NONE), to: line(flow), which };
        self.trunks[id.index()].hand_over(pool, &mut what);
    }

    /// Whether a trunk may have something to do now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next().is_some_and(|at| at <= now)
    }

    /// When a trunk next has something to do.
    pub(super) fn next(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    /// What user packets that leave the trunk now leave in; none if they leave as they came.
    fn carrier(&self, id: TrunkId) -> Option<Carrier> {
        if !self.carries {
            return None;
        }
        let trunk = self.trunks.get(id.index()).filter(|it| it.carries())?;
        let (wire, local) = (trunk.config().wire, trunk.config().local);
        let number = u16::try_from(id.0 + 1).ok().and_then(NonZeroU16::new);
        Some(Carrier { number, wire, local })
    }

    /// Calls a trunk, and sees to it that it is called again when it asks for.
    fn call(
        &mut self,
        cx: &mut Cx<'_>,
        id: TrunkId,
        what: impl FnOnce(&mut Trunk, &mut Cx<'_>, &mut Fifo),
    ) -> Fifo {
        let mut out = Fifo::new();
        let trunk = &mut self.trunks[id.index()];
        what(trunk, cx, &mut out);
        match trunk.poll_timeout() {
            Some(at) => self.arm(id, at.max(cx.now + Duration::from_nanos(1))),
            None => _ = self.wheel.cancel(id.0),
        }
        out
    }

    /// Sees to it that a trunk is called at `at`, or earlier: its timeouts move on with each answer, and who
    /// comes too early for one is told of the next.
    fn arm(&mut self, id: TrunkId, at: Time) {
        if self.wheel.deadline(id.0).is_none_or(|armed| at < armed) {
            self.wheel.set(id.0, at);
        }
    }
}

impl Gateway {
    /// Hands what may leave, all of it of the aggregate in `slot`, to its trunk, or to the link.
    pub(super) fn leave(&mut self, now: Time, direction: Direction, slot: u32, mut out: Fifo) {
        let Some(id) = self.aggregates.exit(slot).trunk else {
            return self.send(now, direction, self.aggregates.class(slot), out);
        };
        while let Some(packet) = out.pop(&self.pool) {
            if stays_here(&self.pool[&packet]) {
                self.send_one(now, direction, self.aggregates.class(slot), packet);
                continue;
            }
            self.pool[&packet].member = line(self.pool[&packet].flow);
            self.call_trunk(now, id, |trunk, cx, out| trunk.send(cx, packet, out));
        }
    }

    /// Hands `id` to the trunk it ends at; hands it back if there is none. A trunk it came through may
    /// take note of it.
    pub(super) fn end_at_trunk(
        &mut self,
        now: Time,
        direction: Direction,
        id: PacketId,
    ) -> Option<PacketId> {
        let trunks = self.trunks.as_ref().filter(|_| direction == Direction::Down);
        match trunks.and_then(|it| it.arriving.get(&self.pool[&id].key)) {
            Some(&(trunk, what)) => {
                self.call_trunk(now, trunk, |it, cx, out| it.handle(cx, what, id, out));
                None
            }
            None => {
                let dscp = self.pool[&id].dscp;
                let watching = trunks.and_then(|it| it.watching.iter().find(|it| it.0 == dscp));
                if let Some(&(_, trunk)) = watching {
                    self.call_trunk(now, trunk, |it, cx, out| it.watch(cx, &id, out));
                }
                Some(id)
            }
        }
    }

    /// Lets trunks do what is due.
    #[inline(never)]
    pub(super) fn turn_trunks(&mut self, now: Time) {
        while let Some(id) = self.trunks.as_mut().and_then(|it| it.wheel.pop(now)) {
            self.call_trunk(now, TrunkId(id), Trunk::turn);
        }
    }

    /// Calls a trunk; what it lets go waits for the link.
    fn call_trunk(
        &mut self,
        now: Time,
        id: TrunkId,
        what: impl FnOnce(&mut Trunk, &mut Cx<'_>, &mut Fifo),
    ) {
        let Some(trunks) = &mut self.trunks else { return };
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        let mut out = trunks.call(&mut cx, id, what);
        let carrier = trunks.carrier(id);
        let mut governed = false;
        while let Some(packet) = out.pop(&self.pool) {
            let described = &mut self.pool[&packet];
            described.cost = match &carrier {
                Some(it) if !described.made => {
                    described.carried = it.number;
                    let longer = it.wire.longer(it.local, described);
                    self.config.overhead.charge_longer(described, longer)
                }
                _ => self.config.overhead.charge(described),
            };
            governed |= described.controlled;
            let class = self.class_from_trunk(id, &packet);
            self.send_one(now, Direction::Up, class, packet);
        }
        if governed && self.places[Direction::Up.index()].is_waited_for() {
            self.made_room_at_trunk(now, id);
        }
    }

    /// The class of a packet that leaves a trunk: that of its policy; what the trunk made is of the class
    /// of the user packet before it.
    fn class_from_trunk(&mut self, id: TrunkId, packet: &PacketId) -> Option<ClassId> {
        self.links[Direction::Up.index()].classes()?;
        let class = &mut self.trunks.as_mut()?.classes[id.index()];
        if let Some(flow) = self.flows.of_packet(&self.pool[packet], Direction::Up) {
            *class = self.aggregates.class(flow.handle(Direction::Up).aggregate);
        }
        *class
    }

    /// Lets all that waits at trunks leave now.
    pub(super) fn flush_trunks(&mut self, now: Time) {
        let all = self.trunks.as_ref().map_or(0, |it| it.trunks.len());
        for id in (0..).map(TrunkId).take(all) {
            self.call_trunk(now, id, Trunk::flush);
        }
    }

    /// The trunks that end here, in the order of the configuration.
    #[must_use]
    pub fn trunks(&self) -> Vec<Report> {
        self.trunks.iter().flat_map(|it| it.iter()).map(Trunk::report).collect()
    }
}

/// Whether `packet` is for this network and no other, so that the other end of a trunk could not have it:
/// what is not IP, such as ARP, and IP to a group, to a link-local address, or to all.
fn stays_here(packet: &Packet) -> bool {
    packet.network == Network::Opaque
        || match packet.key.dst.address() {
            IpAddr::V4(to) => to.is_multicast() || to.is_broadcast(),
            IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kills: a timer that is moved on; one that is not moved forward.
    #[test]
    fn a_trunk_is_called_at_the_earliest_time_it_has_asked_for() {
        let (trunks, classes, watching) = (Vec::new(), Vec::new(), Vec::new());
        let (arriving, wheel) = (HashMap::with_hasher(FixedState::default()), TimerWheel::new());
        let mut trunks = Trunks { trunks, carries: false, classes, arriving, watching, wheel };
        for (asked, next) in [(20, 20), (30, 20), (10, 10), (15, 10)] {
            trunks.arm(TrunkId(0), Time::from_millis(asked));
            assert_eq!(trunks.next(), Some(Time::from_millis(next)));
        }
    }
}
