//! Trunks of the gateway: packets that policies send through them, and feedback of the other ends.
//!
//! This file contains methods of `Egress`, whose fields are in `egress.rs`.

mod change;

use std::net::IpAddr;
use std::num::NonZeroU16;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tidegate_core::ack::EgressState;
use tidegate_core::class::ClassId;
use tidegate_core::packet::{
    Fifo, FlowId, FlowKey, Handover, Kind, Network, QueueIndex, Which, slot,
};
use tidegate_core::trunk::{Arriving, Trunk, Wire};
use tidegate_core::wheel::TimerWheel;
use tidegate_core::{Bytes, Cx, PacketId, PacketPool, Time};

use super::{Egress, EgressQueue, Upstream};

/// The trunks that terminate here.
pub(in crate::gateway) struct Trunks {
    /// The trunks, in the order of the configuration.
    places: Vec<TrunkSlot>,
    /// User packets of at least one trunk depart in datagrams.
    carries: bool,
    /// By key of terminating packets: the trunk, and the kind of packet.
    arriving: HashMap<FlowKey, (TrunkId, Arriving), FixedState>,
    /// By DS codepoint of user packets: the trunks that watch packets of their other ends.
    watching: Vec<(u8, TrunkId)>,
    wheel: TimerWheel,
    /// Earliest timeout of a trunk. [`Time::MAX`] for never.
    due: Time,
}

/// A trunk, with its state at the gateway.
struct TrunkSlot {
    trunk: Trunk,
    /// Unique number of the trunk. Packets that depart in its datagrams carry this number.
    number: NonZeroU16,
    /// Class of the user packet that departed last.
    class: Option<ClassId>,
}

/// The trunk in whose datagrams user packets depart.
struct Carrier {
    number: Option<NonZeroU16>,
    wire: Wire,
    local: IpAddr,
}

/// A trunk of the gateway.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::gateway) struct TrunkId(u32);

impl TrunkId {
    pub(in crate::gateway) const fn index(self) -> usize {
        slot(self.0)
    }
}

impl Trunks {
    /// The trunks at `places`. `None` if there are none.
    fn of(places: Vec<TrunkSlot>, seed: u64) -> Option<Box<Self>> {
        let mut arriving = HashMap::with_hasher(FixedState::with_seed(seed));
        let mut watching = Vec::new();
        for (id, TrunkSlot { trunk, .. }) in (0..).map(TrunkId).zip(&places) {
            arriving.extend(trunk.arriving().map(|(key, what)| (key, (id, what))));
            watching.extend(trunk.watches().map(|dscp| (dscp, id)));
        }
        let longer = |it: &TrunkSlot| it.trunk.config().wire.overhead(it.trunk.config().local) > 0;
        let (carries, wheel) = (places.iter().any(longer), TimerWheel::new());
        let any = !places.is_empty();
        let due = Time::MAX;
        any.then(|| Box::new(Self { places, carries, arriving, watching, wheel, due }))
    }

    /// The trunk called `name`.
    pub(in crate::gateway) fn find(&self, name: &str) -> Option<TrunkId> {
        let mut all = (0..).map(TrunkId).zip(self.iter());
        all.find(|(_, it)| it.config().name == name).map(|it| it.0)
    }

    pub(in crate::gateway) fn iter(&self) -> impl Iterator<Item = &Trunk> {
        self.places.iter().map(|it| &it.trunk)
    }

    /// Number of trunks.
    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    /// Frame bytes of `flow` in the queue of a trunk.
    pub(in crate::gateway) fn bytes_of(&self, id: TrunkId, flow: FlowId) -> Bytes {
        self.places[id.index()].trunk.bytes_of(flow)
    }

    /// Name of a trunk.
    pub(in crate::gateway) fn name(&self, id: TrunkId) -> &str {
        &self.places[id.index()].trunk.config().name
    }

    /// The tunnel queue of a trunk, as ACK control sees it.
    pub(in crate::gateway) fn ahead(&self, id: TrunkId) -> EgressState {
        self.places[id.index()].trunk.ahead()
    }

    /// Ends ACK control for the packets of `flow` in the queue of a trunk.
    pub(super) fn end_ack_control(&mut self, id: TrunkId, pool: &mut PacketPool, flow: FlowId) {
        self.places[id.index()].trunk.end_ack_control(pool, flow);
    }

    /// Moves packets queued as untracked at a trunk to `flow`, if `which` selects them.
    pub(in crate::gateway) fn give_back(
        &mut self,
        pool: &mut PacketPool,
        id: TrunkId,
        flow: FlowId,
        which: Which<'_>,
    ) {
        let mut what = Handover {
            from: QueueIndex::at_egress(FlowId::NONE),
            to: QueueIndex::at_egress(flow),
            which,
        };
        self.places[id.index()].trunk.hand_over(pool, &mut what);
    }

    /// Returns `true` if the timeout of a trunk may have expired.
    pub(in crate::gateway) const fn is_due(&self, now: Time) -> bool {
        self.due.nanos() <= now.nanos()
    }

    /// Earliest timeout of a trunk.
    pub(in crate::gateway) fn next(&self) -> Option<Time> {
        (self.due < Time::MAX).then_some(self.due)
    }

    /// The next trunk whose timeout has expired.
    fn next_due(&mut self, now: Time) -> Option<TrunkId> {
        let id = self.wheel.pop(now);
        self.due = self.wheel.next_deadline().unwrap_or(Time::MAX);
        id.map(TrunkId)
    }

    /// The datagrams in which user packets of the trunk depart now. `None` if they depart
    /// unchanged.
    fn carrier(&self, id: TrunkId) -> Option<Carrier> {
        if !self.carries {
            return None;
        }
        let place = self.places.get(id.index()).filter(|it| it.trunk.carries())?;
        let config = place.trunk.config();
        Some(Carrier { number: Some(place.number), wire: config.wire, local: config.local })
    }

    /// Calls a trunk, and sets its next timeout.
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

    /// Sets the timer of a trunk to `at`, or leaves it at an earlier time. A timeout often moves to a later
    /// time, with each answer. The timer then stays, and the call at its expiry sets the later time.
    fn arm(&mut self, id: TrunkId, at: Time) {
        if self.wheel.deadline(id.0).is_none_or(|armed| at < armed) {
            self.wheel.set(id.0, at);
            self.due = self.due.min(at);
        }
    }

    /// Cancels the timeout of a trunk.
    fn disarm(&mut self, id: TrunkId) {
        if self.wheel.cancel(id.0) {
            self.due = self.wheel.next_deadline().unwrap_or(Time::MAX);
        }
    }
}

impl Egress {
    /// Hands `id`, which arrives from the WAN, to the trunk at which it terminates. Returns `id` if it
    /// terminates at no trunk. A trunk may watch packets that its other end has sent.
    pub(in crate::gateway) fn end_at_trunk(
        &mut self,
        up: &mut Upstream<'_>,
        id: PacketId,
    ) -> Option<PacketId> {
        let Some(trunks) = &self.trunks else { return Some(id) };
        let key = up.cx.pool.outermost(&id);
        if let Some(&(trunk, what)) = trunks.arriving.get(&key) {
            self.call_trunk(up, trunk, |it, cx, out| it.handle(cx, what, id, out));
            return None;
        }
        let dscp = up.cx.pool[&id].dscp;
        if let Some(&(_, trunk)) = trunks.watching.iter().find(|it| it.0 == dscp) {
            self.call_trunk(up, trunk, |it, cx, out| it.watch(cx, &id, out));
        }
        Some(id)
    }

    /// Returns `true` if the timeout of a trunk may have expired.
    #[inline]
    pub(in crate::gateway) fn trunks_are_due(&self, now: Time) -> bool {
        self.trunks.as_ref().is_some_and(|trunks| trunks.is_due(now))
    }

    /// Calls each trunk whose timeout has expired.
    #[inline(never)]
    pub(in crate::gateway) fn turn_trunks(&mut self, up: &mut Upstream<'_>) {
        while let Some(id) = self.trunks.as_mut().and_then(|it| it.next_due(up.cx.now)) {
            self.call_trunk(up, id, Trunk::handle_timeout);
        }
    }

    /// Releases all packets that wait at trunks.
    pub(in crate::gateway) fn flush_trunks(&mut self, up: &mut Upstream<'_>) {
        let all = self.trunks.as_ref().map_or(0, |it| it.len());
        for id in (0..).map(TrunkId).take(all) {
            self.call_trunk(up, id, Trunk::flush);
        }
    }

    /// Calls a trunk. Packets that it releases are sent to the link.
    pub(super) fn call_trunk(
        &mut self,
        up: &mut Upstream<'_>,
        id: TrunkId,
        what: impl FnOnce(&mut Trunk, &mut Cx<'_>, &mut Fifo),
    ) {
        let Some(trunks) = &mut self.trunks else { return };
        let mut out = trunks.call(&mut up.cx, id, what);
        let carrier = trunks.carrier(id);
        let mut controlled = false;
        while let Some(packet) = out.pop(up.cx.pool) {
            let described = &mut up.cx.pool[&packet];
            described.cost = match &carrier {
                Some(it) if described.kind != Kind::Made => {
                    described.carried = it.number;
                    let longer = it.wire.longer(it.local, described);
                    let offset = it.wire.network_offset().unwrap_or(described.network_offset);
                    self.overhead.charge_carried(described, longer, offset)
                }
                _ => self.overhead.charge(described),
            };
            controlled |= described.is_controlled();
            let class = self.class_from_trunk(up, id, &packet);
            if self.link.holds_back(&up.cx.pool[&packet]) {
                let leaf = self.link.leaf(class);
                self.link.hold(&mut up.cx, leaf, packet);
                continue;
            }
            self.send(up, class, packet);
        }
        if controlled {
            self.made_room(EgressQueue::Trunk(id));
        }
    }

    /// The class of a packet from a trunk: the class of its policy. A packet that the trunk made
    /// has the class of the user packet before it.
    fn class_from_trunk(
        &mut self,
        up: &mut Upstream<'_>,
        id: TrunkId,
        packet: &PacketId,
    ) -> Option<ClassId> {
        self.link.classes()?;
        let own = (up.cx.pool[packet].kind != Kind::Made).then(|| self.class_of_user(up, packet));
        let class = &mut self.trunks.as_mut()?.places[id.index()].class;
        *class = own.unwrap_or(*class);
        *class
    }

    /// The class of a user packet. It is also found for untracked flows, and after a change of
    /// policies.
    fn class_of_user(&self, up: &mut Upstream<'_>, id: &PacketId) -> Option<ClassId> {
        let flow = up.sorter.flow_of(&up.cx.pool[id]);
        let handle = flow.map(|flow| flow.handle(self.direction));
        if let Some(handle) = handle.filter(|it| up.sorter.is_current(*it)) {
            return up.aggregates.route(handle.aggregate).class;
        }
        let policies = up.sorter.policies();
        let policy = up.sorter.lookup(up.cx.pool, id, self.direction)?;
        self.route_of(policies, policies.get(policy)?).class
    }
}

/// Returns `true` if `id` must not enter a trunk, because `id` is for this network only. Such packets are
/// frames without IP, such as ARP, and IP packets to a group, to a link-local address, or to all.
pub(in crate::gateway) fn stays_here(pool: &PacketPool, id: &PacketId) -> bool {
    pool[id].network == Network::Opaque
        || match pool.outermost(id).dst.address() {
            IpAddr::V4(to) => to.is_multicast() || to.is_broadcast(),
            IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a timer that is moved to a later time; a timer that is not moved to an earlier time; a trunk
    /// that is still due after its call.
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
