//! The flow table: it finds the flow of a packet in one look-up, and has a fixed number of entries.

use std::hash::{BuildHasher, Hasher};
use std::ops::{Index, IndexMut};
use std::time::Duration;

use foldhash::fast::FixedState;

use super::opening::Openings;
use super::tunnels::{NO_TUNNEL, Tunnels};
use super::{Flow, Key, TICK_BITS, low_half, ticks};
use crate::Time;
use crate::packet::{Direction, FlowId, NO_VLAN, Outer, Packet, TcpFlags, slot};

/// A flow without a packet for this time is removed, whether it was closed or not.
///
/// Source: Linux include/net/tcp.h, `TCP_TIMEWAIT_LEN`: the time for which a closed connection is
/// kept.
pub const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// Number of flows examined to find one that can be replaced.
const SAMPLE: usize = 8;

/// Every flow that crosses the gateway, up to a fixed number.
///
/// In a full table, a new flow replaces one of the next `SAMPLE` flows that have no packets
/// [inside](Flow::inside). Closed and unanswered flows go first, then the flow that has been idle for
/// longest. If all have packets inside, the new flow is untracked.
///
/// All memory is allocated at the beginning. Flows with equal hashes form a list, as in the kernel's connection table. The
/// table never grows, so no packet waits while the table is copied.
///
/// Both directions of a connection are one flow:
///
/// ```
/// use tidegate_core::Time;
/// use tidegate_core::flow::FlowTable;
/// use tidegate_core::packet::{Direction, Endpoint, FlowKey, Network, Packet, Protocol};
///
/// let key = FlowKey {
///     src: Endpoint::v4([10, 0, 0, 1], 5_000),
///     dst: Endpoint::v4([192, 0, 2, 1], 443),
///     protocol: Protocol::TCP,
/// };
/// let packet = |key| Packet { len: 66, key, network: Network::Ipv4, ..Packet::default() };
/// let mut table = FlowTable::new(1_024, 7);
/// assert_eq!(table.find(&packet(key), Direction::Up), None);
/// let new = table.insert(Time::ZERO, &packet(key), Direction::Up).unwrap();
/// assert_eq!(table.find(&packet(key.reverse()), Direction::Down), Some(new.id));
/// ```
#[derive(Debug)]
pub struct FlowTable {
    /// First flow of each list. There are as many lists as flows, rounded up to a power of two.
    heads: Vec<u32>,
    slots: Vec<FlowSlot>,
    tunnels: Tunnels,
    flows: usize,
    seed: FixedState,
    capacity: usize,
    free: u32,
    /// Next index that is examined for removal.
    hand: usize,
    untracked: u64,
    openings: Openings,
    /// Flows whose directions have different VLANs.
    joined: usize,
}

#[derive(Debug)]
enum FlowSlot {
    /// A free slot, and the next free one.
    Free(u32),
    /// A flow, and the next one of its list.
    Used(Flow, u32),
}

const NIL: u32 = u32::MAX;

impl FlowTable {
    /// A table for up to `capacity` flows. `seed` is the seed of its hashes.
    #[must_use]
    pub fn new(capacity: u32, seed: u64) -> Self {
        Self {
            heads: vec![NIL; slot(capacity).next_power_of_two()],
            slots: Vec::with_capacity(slot(capacity)),
            tunnels: Tunnels::new(seed),
            flows: 0,
            seed: FixedState::with_seed(seed),
            capacity: slot(capacity),
            free: NIL,
            hand: 0,
            untracked: 0,
            openings: Openings::new(),
            joined: 0,
        }
    }

    /// The flow of `packet`, which travels in `direction` in no tunnel.
    #[must_use]
    pub fn find(&self, packet: &Packet, direction: Direction) -> Option<FlowId> {
        self.find_inside(packet, None, direction)
    }

    /// The flow of `packet`, which travels in `direction` behind the headers `outer`.
    #[must_use]
    #[inline]
    pub fn find_inside(
        &self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> Option<FlowId> {
        let tunnel = self.tunnels.find(outer, direction)?;
        if self.joined > 0
            && let Some(joined) = self.find_joined(packet, tunnel, direction)
        {
            return Some(joined);
        }
        let key = Key::of(packet, direction, tunnel);
        let [vlan, _] = key.vlans;
        self.find_in(self.list(&key, vlan), |flow| *flow == key)
    }

    #[inline(never)]
    fn find_joined(&self, packet: &Packet, tunnel: u32, direction: Direction) -> Option<FlowId> {
        let key = Key::of(packet, direction, tunnel);
        self.find_in(self.list(&key, JOINED), |flow| flow.has(&key, direction))
    }

    #[inline]
    fn find_in(&self, list: usize, is: impl Fn(&Key) -> bool) -> Option<FlowId> {
        let mut at = self.heads[list];
        while let Some(FlowSlot::Used(flow, next)) = self.slots.get(slot(at)) {
            if is(&flow.key) {
                return Some(FlowId(at));
            }
            at = *next;
        }
        None
    }

    /// [`join_inside`](Self::join_inside) for a packet in no tunnel.
    pub fn join(&mut self, packet: &Packet, direction: Direction) -> Option<FlowId> {
        self.join_inside(packet, None, direction)
    }

    /// Joins `packet`, which [`find_inside`](Self::find_inside) did not find, to the flow of the SYN that it
    /// answers. The directions of this flow then have different VLANs.
    ///
    /// The packet must be a SYN with ACK that acknowledges the SYN's number + 1, or the data in the SYN too. Each
    /// direction must have been seen under one tag only, so that tenants with equal addresses stay apart.
    pub fn join_inside(
        &mut self,
        packet: &Packet,
        outer: Option<&Outer>,
        direction: Direction,
    ) -> Option<FlowId> {
        let tcp = packet.tcp.as_ref()?;
        if !(tcp.flags.any(TcpFlags::SYN) && tcp.flags.any(TcpFlags::ACK)) {
            return None;
        }
        let key = Key::of(packet, direction, self.tunnels.find(outer, direction)?);
        let (id, number) = self.openings.find(self.hash(&key, JOINED))?;
        let flow = self.get(id)?;
        let sent = flow.tracker.next_seq(direction.reverse())?;
        let answers = (flow.key.ends, flow.key.tunnel) == (key.ends, key.tunnel)
            && !flow.key.is_joined()
            && flow.tracker.is_half_open()
            && flow.packets(direction) == 0
            && tcp.ack.wrapping_sub(number) <= sent.wrapping_sub(number);
        if !answers {
            return None;
        }
        self.unlink(id);
        let Some(FlowSlot::Used(flow, _)) = self.slots.get_mut(slot(id.0)) else { return None };
        flow.key.vlans[direction.index()] = packet.vlan;
        self.joined += 1;
        self.link(id);
        Some(id)
    }

    /// [`insert_inside`](Self::insert_inside) for a packet in no tunnel.
    pub fn insert(&mut self, now: Time, packet: &Packet, direction: Direction) -> Option<Inserted> {
        self.insert_inside(now, (packet, None), direction)
    }

    /// Adds a flow for a packet and its outer headers, which [`find_inside`](Self::find_inside) did
    /// not find. Returns the new flow and the replaced one. `None` if no flow can be replaced.
    pub fn insert_inside(
        &mut self,
        now: Time,
        (packet, outer): (&Packet, Option<&Outer>),
        direction: Direction,
    ) -> Option<Inserted> {
        let evicted = if self.flows < self.capacity {
            None
        } else if let Some(victim) = self.victim(now) {
            Some(self.remove(victim)?)
        } else {
            self.untracked += 1;
            return None;
        };
        let key = Key::of(packet, direction, self.tunnels.join(outer, direction));
        let id = self.place(Flow::new(now, key));
        if let Some(tcp) = &packet.tcp
            && key.tunnel == NO_TUNNEL
            && tcp.flags.any(TcpFlags::SYN)
            && !tcp.flags.any(TcpFlags::ACK)
        {
            self.note_opening(now, (id, tcp.seq.wrapping_add(1)), &key);
        }
        Some(Inserted { id, evicted })
    }

    fn note_opening(&mut self, now: Time, opened: (FlowId, u32), key: &Key) {
        let hash = self.hash(key, JOINED);
        let slots = &self.slots;
        let is_rival = |other: FlowId| {
            let flow = slots.get(slot(other.0)).and_then(FlowSlot::flow);
            other != opened.0
                && flow.is_some_and(|it| (it.key.ends, it.key.tunnel) == (key.ends, key.tunnel))
        };
        self.openings.add(hash, opened, (ticks(now), IDLE_TICKS), is_rival);
    }

    /// Examines the next `budget` entries. Removes flows that have been idle for [`IDLE_LIMIT`] and have no
    /// packets inside, and passes each to `removed`.
    pub fn sweep(&mut self, now: Time, budget: usize, mut removed: impl FnMut(FlowId, Flow)) {
        for _ in 0..budget.min(self.slots.len()) {
            let id = self.advance();
            let is_over = |flow: &Flow| flow.idle(now) >= IDLE_LIMIT && flow.inside == 0;
            if self.get(id).is_some_and(is_over)
                && let Some(flow) = self.remove(id)
            {
                removed(id, flow);
            }
        }
    }

    /// The flow `id`, if it exists.
    #[must_use]
    pub fn get(&self, id: FlowId) -> Option<&Flow> {
        self.slots.get(slot(id.0))?.flow()
    }

    /// The flow `id`, if it exists, for changes.
    #[inline]
    pub fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        match self.slots.get_mut(slot(id.0))? {
            FlowSlot::Used(flow, _) => Some(flow),
            FlowSlot::Free(_) => None,
        }
    }

    /// The headers outside the packets of `flow` in `direction`. `None` if it is in no tunnel. The
    /// ports are those of the first packet in the tunnel.
    #[must_use]
    pub fn outer(&self, flow: &Flow, direction: Direction) -> Option<Outer> {
        self.tunnels.get(flow.key.tunnel, direction)
    }

    /// Records that ACKs in the tunnel of the flow `id` must stay whole, if the headers `outer`
    /// require it.
    pub fn restrict(&mut self, id: FlowId, outer: &Outer) {
        if let Some(flow) = self.slots.get(slot(id.0)).and_then(FlowSlot::flow) {
            self.tunnels.restrict(flow.key.tunnel, outer);
        }
    }

    /// Every flow.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        (0..).map(FlowId).zip(&self.slots).filter_map(|(id, place)| Some((id, place.flow()?)))
    }

    /// The flows in up to `most` slots of the table, beginning with slot `from`. `None` if `from` is beyond
    /// the table.
    pub fn some(&self, from: u32, most: usize) -> Option<impl Iterator<Item = (FlowId, &Flow)>> {
        let places = self.slots.get(slot(from)..).filter(|places| !places.is_empty())?;
        let numbered = (from..).map(FlowId).zip(places.iter().take(most));
        Some(numbered.filter_map(|(id, place)| Some((id, place.flow()?))))
    }

    /// Number of flows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.flows
    }

    /// Returns `true` if the table has no flow.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Number of new flows that got no entry.
    #[must_use]
    pub const fn untracked(&self) -> u64 {
        self.untracked
    }

    /// Selects the least useful of the next flows for replacement.
    fn victim(&mut self, now: Time) -> Option<FlowId> {
        let sample = SAMPLE.min(self.slots.len());
        let candidates: [FlowId; SAMPLE] =
            std::array::from_fn(|nth| if nth < sample { self.advance() } else { FlowId::NONE });
        let flows = candidates.into_iter().filter_map(|id| Some((id, self.get(id)?)));
        let may_go = flows.filter(|(_, flow)| flow.inside == 0);
        may_go.max_by_key(|(_, flow)| (flow.is_spent(), flow.idle(now))).map(|(id, _)| id)
    }

    /// Advances `hand` to the next index, and returns this index.
    fn advance(&mut self) -> FlowId {
        self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
        FlowId(u32::try_from(self.hand).unwrap_or(NIL))
    }

    /// Puts `flow` into a free slot and at the head of its list.
    fn place(&mut self, flow: Flow) -> FlowId {
        let used = FlowSlot::Used(flow, NIL);
        let mut at = self.free;
        if let Some(place) = self.slots.get_mut(slot(at)) {
            if let FlowSlot::Free(next) = std::mem::replace(place, used) {
                self.free = next;
            }
        } else {
            at = u32::try_from(self.slots.len()).unwrap_or(NIL);
            self.slots.push(used);
        }
        self.link(FlowId(at));
        self.flows += 1;
        FlowId(at)
    }

    /// Puts the flow `id` at the head of its list.
    fn link(&mut self, id: FlowId) {
        let Some(list) = self.get(id).map(|flow| self.list_of(&flow.key)) else { return };
        if let Some(FlowSlot::Used(_, next)) = self.slots.get_mut(slot(id.0)) {
            *next = std::mem::replace(&mut self.heads[list], id.0);
        }
    }

    /// Removes the flow `id` from its list.
    fn unlink(&mut self, id: FlowId) {
        let Some(FlowSlot::Used(flow, after)) = self.slots.get(slot(id.0)) else { return };
        let (list, after) = (self.list_of(&flow.key), *after);
        if self.heads[list] == id.0 {
            self.heads[list] = after;
            return;
        }
        let mut at = self.heads[list];
        while let Some(FlowSlot::Used(_, next)) = self.slots.get_mut(slot(at)) {
            if *next == id.0 {
                *next = after;
                break;
            }
            at = *next;
        }
    }

    /// Removes the flow `id` and frees its slot.
    fn remove(&mut self, id: FlowId) -> Option<Flow> {
        self.get(id)?;
        self.unlink(id);
        let freed = std::mem::replace(&mut self.slots[slot(id.0)], FlowSlot::Free(self.free));
        let FlowSlot::Used(flow, _) = freed else { return None };
        self.tunnels.leave(flow.key.tunnel);
        (self.free, self.flows) = (id.0, self.flows - 1);
        self.joined -= usize::from(flow.key.is_joined());
        Some(flow)
    }

    fn list_of(&self, key: &Key) -> usize {
        self.list(key, if key.is_joined() { JOINED } else { key.vlans[0] })
    }

    #[inline]
    fn list(&self, key: &Key, vlan: u16) -> usize {
        slot(low_half(self.hash(key, vlan))) & (self.heads.len() - 1)
    }

    /// Hash of `key` with `vlan` in place of its VLANs.
    #[inline]
    fn hash(&self, &Key { ends, tunnel, .. }: &Key, vlan: u16) -> u64 {
        let mut hasher = self.seed.build_hasher();
        hasher.write_u128(ends.src.number());
        hasher.write_u128(ends.dst.number());
        // One write costs less than five.
        let [src, dst, vlan] = [ends.src.port, ends.dst.port, vlan].map(u64::from);
        let others = src << 48 | dst << 32 | vlan << 16 | u64::from(ends.protocol.0);
        hasher.write_u128(u128::from(tunnel) << 64 | u128::from(others));
        hasher.finish()
    }
}

/// Replaces the VLAN in the hash of joined flows. No VLAN has this number.
const JOINED: u16 = NO_VLAN - 1;

/// [`IDLE_LIMIT`] in [`ticks`].
const IDLE_TICKS: u32 = low_half(60_000_000_000 >> TICK_BITS);

/// A flow that was new to the table.
#[derive(Debug)]
pub struct Inserted {
    /// Index of the new flow.
    pub id: FlowId,
    /// The flow that the new flow replaced.
    pub evicted: Option<Flow>,
}

impl FlowSlot {
    const fn flow(&self) -> Option<&Flow> {
        match self {
            Self::Used(flow, _) => Some(flow),
            Self::Free(_) => None,
        }
    }
}

impl Index<FlowId> for FlowTable {
    type Output = Flow;

    /// Panics if the flow does not exist. Use [`get`](FlowTable::get) where it may have been
    /// removed.
    #[inline]
    fn index(&self, id: FlowId) -> &Flow {
        match &self.slots[slot(id.0)] {
            FlowSlot::Used(flow, _) => flow,
            FlowSlot::Free(_) => panic!("{id:?} is no flow"),
        }
    }
}

impl IndexMut<FlowId> for FlowTable {
    #[inline]
    fn index_mut(&mut self, id: FlowId) -> &mut Flow {
        match &mut self.slots[slot(id.0)] {
            FlowSlot::Used(flow, _) => flow,
            FlowSlot::Free(_) => panic!("{id:?} is no flow"),
        }
    }
}

// With the head of a list, of which there are at most two, a flow takes 188 to 192 bytes.
const _: () = assert!(size_of::<FlowSlot>() <= 188);
