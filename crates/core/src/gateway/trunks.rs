//! Trunks of the gateway: packets that policies send through them, and feedback of the other ends.

mod change;

use std::net::IpAddr;
use std::num::NonZeroU16;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Gateway;
use crate::ack::{Ahead, line};
use crate::class::ClassId;
use crate::packet::{Direction, Fifo, FlowId, FlowKey, Handover, Kind, Member, Network, Which};
use crate::trunk::{Arriving, Report, Trunk, Wire};
use crate::wheel::TimerWheel;
use crate::{Bytes, Cx, PacketId, PacketPool, Time};

/// The trunks that end here.
pub(super) struct Trunks {
    /// In the order of the configuration.
    places: Vec<Place>,
    /// Whether user packets leave in datagrams of any.
    carries: bool,
    /// By the key of packets that end at one: which, and what they are there.
    arriving: HashMap<FlowKey, (TrunkId, Arriving), FixedState>,
    /// By DS codepoint, those that watch what their other ends have sent.
    watching: Vec<(u8, TrunkId)>,
    wheel: TimerWheel,
    /// When one may next have something to do; [`Time::MAX`] for never.
    due: Time,
}

/// A trunk, and what is known of it here.
struct Place {
    trunk: Trunk,
    /// The number by which packets say that they leave in its datagrams; nobody else's while it is there.
    number: NonZeroU16,
    /// The class of the user packet that left it last.
    class: Option<ClassId>,
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
    /// Those at `places`; `None` if there are none.
    fn of(places: Vec<Place>, seed: u64) -> Option<Box<Self>> {
        let mut arriving = HashMap::with_hasher(FixedState::with_seed(seed));
        let mut watching = Vec::new();
        for (id, Place { trunk, .. }) in (0..).map(TrunkId).zip(&places) {
            arriving.extend(trunk.arriving().map(|(key, what)| (key, (id, what))));
            watching.extend(trunk.watches().map(|dscp| (dscp, id)));
        }
        let longer = |it: &Place| it.trunk.config().wire.overhead(it.trunk.config().local) > 0;
        let (carries, wheel) = (places.iter().any(longer), TimerWheel::new());
        let any = !places.is_empty();
        let due = Time::MAX;
        any.then(|| Box::new(Self { places, carries, arriving, watching, wheel, due }))
    }

    /// The trunk of that name, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<TrunkId> {
        let mut all = (0..).map(TrunkId).zip(self.iter());
        all.find(|(_, it)| it.config().name == name).map(|it| it.0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Trunk> {
        self.places.iter().map(|it| &it.trunk)
    }

    /// Frame bytes of `flow` in the queue of a trunk.
    pub(super) fn bytes_of(&self, id: TrunkId, flow: FlowId) -> Bytes {
        self.places[id.index()].trunk.bytes_of(flow)
    }

    /// Name of a trunk.
    pub(super) fn name(&self, id: TrunkId) -> &str {
        &self.places[id.index()].trunk.config().name
    }

    /// What waits at a trunk, as a signal sees it.
    pub(super) fn ahead(&self, id: TrunkId) -> Ahead {
        self.places[id.index()].trunk.ahead()
    }

    /// Lets `flow` have what waits of it at a trunk among what is in no flow: what `which` says yes to.
    pub(super) fn give_back(
        &mut self,
        pool: &mut PacketPool,
        id: TrunkId,
        flow: FlowId,
        which: Which<'_>,
    ) {
        let mut what = Handover { from: line(FlowId::NONE), to: line(flow), which };
        self.places[id.index()].trunk.hand_over(pool, &mut what);
    }

    /// Whether a trunk may have something to do now.
    pub(super) const fn is_due(&self, now: Time) -> bool {
        self.due.nanos() <= now.nanos()
    }

    /// When a trunk next has something to do.
    pub(super) fn next(&self) -> Option<Time> {
        (self.due < Time::MAX).then_some(self.due)
    }

    /// The next that has something to do now.
    fn next_due(&mut self, now: Time) -> Option<TrunkId> {
        let id = self.wheel.pop(now);
        self.due = self.wheel.next_deadline().unwrap_or(Time::MAX);
        id.map(TrunkId)
    }

    /// What user packets that leave the trunk now leave in; none if they leave as they came.
    fn carrier(&self, id: TrunkId) -> Option<Carrier> {
        if !self.carries {
            return None;
        }
        let place = self.places.get(id.index()).filter(|it| it.trunk.carries())?;
        let config = place.trunk.config();
        Some(Carrier { number: Some(place.number), wire: config.wire, local: config.local })
    }

    /// Calls a trunk, and sees to it that it is called again when it asks for.
    fn call(
        &mut self,
        cx: &mut Cx<'_>,
        id: TrunkId,
        what: impl FnOnce(&mut Trunk, &mut Cx<'_>, &mut Fifo),
    ) -> Fifo {
        let mut out = Fifo::new();
        let trunk = &mut self.places[id.index()].trunk;
        what(trunk, cx, &mut out);
        match trunk.poll_timeout() {
            Some(at) => self.arm(id, at.max(Time::from_nanos(cx.now.nanos().saturating_add(1)))),
            None => self.disarm(id),
        }
        out
    }

    /// Sees to it that a trunk is called at `at`, or earlier: its timeouts move on with each answer, and who
    /// comes too early for one is told of the next.
    fn arm(&mut self, id: TrunkId, at: Time) {
        if self.wheel.deadline(id.0).is_none_or(|armed| at < armed) {
            self.wheel.set(id.0, at);
            self.due = self.due.min(at);
        }
    }

    /// Sees to it that a trunk is not called.
    fn disarm(&mut self, id: TrunkId) {
        if self.wheel.cancel(id.0) {
            self.due = self.wheel.next_deadline().unwrap_or(Time::MAX);
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
            if stays_here(&self.pool, &packet) {
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
        let key = self.pool.outermost(&id);
        match trunks.and_then(|it| it.arriving.get(&key)) {
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
        while let Some(id) = self.trunks.as_mut().and_then(|it| it.next_due(now)) {
            self.call_trunk(now, id, Trunk::turn);
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
                Some(it) if described.kind != Kind::Made => {
                    described.carried = it.number;
                    let longer = it.wire.longer(it.local, described);
                    let offset = it.wire.network_offset().unwrap_or(described.network_offset);
                    self.config.overhead.charge_carried(described, longer, offset)
                }
                _ => self.config.overhead.charge(described),
            };
            governed |= described.is_controlled();
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
        let own = (self.pool[packet].kind != Kind::Made).then(|| self.class_of_user(packet));
        let class = &mut self.trunks.as_mut()?.places[id.index()].class;
        *class = own.unwrap_or(*class);
        *class
    }

    /// The class of a user packet, also where the flow table has no room for its flow, or the policies have
    /// changed since that was sorted.
    fn class_of_user(&mut self, id: &PacketId) -> Option<ClassId> {
        let packet = &self.pool[id];
        let handle = self.flows.of_packet(packet, Direction::Up).map(|it| it.handle(Direction::Up));
        if let Some(handle) = handle.filter(|it| it.generation == self.generation) {
            return self.aggregates.class(handle.aggregate);
        }
        let policy = self.lookup(id, Direction::Up)?;
        self.exit_of(self.policies.get(policy)?, Direction::Up).class
    }

    /// Lets all that waits at trunks leave now.
    pub(super) fn flush_trunks(&mut self, now: Time) {
        let all = self.trunks.as_ref().map_or(0, |it| it.places.len());
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

/// Returns `true` if `id` is for this network only, so that no other end of a trunk may have it: frames
/// without IP, such as ARP, and IP to a group, to a link-local address, or to all.
pub(super) fn stays_here(pool: &PacketPool, id: &PacketId) -> bool {
    pool[id].network == Network::Opaque
        || match pool.outermost(id).dst.address() {
            IpAddr::V4(to) => to.is_multicast() || to.is_broadcast(),
            IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kills: a timer that is moved on; one that is not moved forward; a trunk that is still due when it was called.
    #[test]
    fn a_trunk_is_called_at_the_earliest_time_it_has_asked_for() {
        let (arriving, wheel) = (HashMap::with_hasher(FixedState::default()), TimerWheel::new());
        let (places, watching) = (Vec::new(), Vec::new());
        let (carries, due) = (false, Time::MAX);
        let mut trunks = Trunks { places, carries, arriving, watching, wheel, due };
        for (asked, next) in [(20, 20), (30, 20), (10, 10), (15, 10)] {
            trunks.arm(TrunkId(0), Time::from_millis(asked));
            assert_eq!(trunks.next(), Some(Time::from_millis(next)));
        }
        assert!(trunks.is_due(Time::from_millis(10)) && !trunks.is_due(Time::from_millis(9)));
        assert_eq!(trunks.next_due(Time::from_millis(10)), Some(TrunkId(0)));
        assert_eq!((trunks.next(), trunks.next_due(Time::from_millis(20))), (None, None));
        for (id, at) in [(0, 30), (1, 40), (2, 50)] {
            trunks.arm(TrunkId(id), Time::from_millis(at));
        }
        assert_eq!(trunks.next_due(Time::from_millis(30)), Some(TrunkId(0)));
        assert_eq!(trunks.next(), Some(Time::from_millis(40)));
        trunks.disarm(TrunkId(1));
        assert!(trunks.next().is_some_and(|at| at <= Time::from_millis(50)));
        assert_eq!(trunks.next_due(Time::from_millis(50)), Some(TrunkId(2)));
    }
}
