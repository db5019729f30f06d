//! The pool of packet descriptors: one slot for each packet that a gateway or a simulation can hold.
//!
//! A packet belongs to one owner, who passes the [`PacketId`] on, or releases it.

mod changes;

pub use changes::FlowChange;

use std::ops::{Index, IndexMut};

use super::{Facts, FlowHosts, FlowId, FlowKey, Outer, Packet, SackBlocks, number, slot};
use crate::Time;

/// The number of a packet's slot, held by the packet's only owner: a queue, a driver, or a caller
/// between them.
///
/// Not `Clone`: the owner passes it on or releases it.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a packet is passed on or released, never forgotten"]
pub struct PacketId(pub(super) u32);

/// All packet descriptors of a run, and data that only some runs need.
#[derive(Debug)]
pub struct PacketPool {
    slots: Vec<Slot>,
    /// SACK blocks by slot. Empty until a machine asks for them.
    sack: Vec<SackBlocks>,
    /// Link-layer source addresses by slot. Empty until a machine asks for them.
    stations: Vec<u64>,
    /// The hosts of flows.
    hosts: FlowHosts,
    /// Tunnel headers and second VLAN tags by slot. Empty until the first packet has some.
    outers: Vec<Outer>,
    /// Frames that the driver must copy, requested since the driver last called `copies`.
    copies: Vec<FrameCopy>,
    /// The driver is able to copy frames.
    makes_copies: bool,
    /// Created and released packets of flows, if a machine counts them.
    changes: Option<Vec<FlowChange>>,
    free: u32,
    in_use: u32,
    /// Number of buffers that hold the complete frame of a held ACK.
    whole_acks: u32,
}

/// A request to the driver: copy the first bytes of one frame into the buffer of another packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameCopy {
    /// Slot of the original frame, which is unchanged since its arrival.
    pub from: usize,
    /// Slot of the copy.
    pub to: usize,
    /// Length of the original frame.
    pub whole: u32,
    /// Length of the copy. An ACK made from a data segment is shorter, because it has no payload.
    pub len: u32,
}

/// A packet, its links in lists, and the driver's private data.
///
/// A slot begins at a cache line. All fields that each hop reads are in this first cache line,
/// because cache misses dominate the cost of large networks.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Slot {
    links: PacketLinks,
    note: Note,
    packet: Packet,
}

/// Private data of a driver about a packet. No mechanism reads it.
pub type Note = [u64; 4];

/// Links of a packet to its neighbours. A packet is in a list: either the packets of a queue, or
/// the packets in flight on a link. In a queue, a second list links the packets of the same flow.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PacketLinks {
    pub(super) next: u32,
    pub(super) previous: u32,
    /// For a packet in flight: the arrival time of the next packet. For a packet in a queue: the
    /// slots of the next and the previous packet of its flow.
    pub(super) next_at: Time,
}

impl PacketLinks {
    /// The links of a free slot. `next` is the next free slot.
    #[inline]
    const fn free(next: u32) -> Self {
        Self { next, previous: NIL, next_at: Time::ZERO }
    }

    #[inline]
    pub(super) const fn next_of_flow(&self) -> u32 {
        low(self.next_at.nanos())
    }

    #[inline]
    pub(super) const fn set_next_of_flow(&mut self, next: u32) {
        let previous = self.next_at.nanos() & !wide(u32::MAX);
        self.next_at = Time::from_nanos(previous | wide(next));
    }

    #[inline]
    pub(super) const fn previous_of_flow(&self) -> u32 {
        low(self.next_at.nanos() >> u32::BITS)
    }

    #[inline]
    pub(super) const fn set_previous_of_flow(&mut self, previous: u32) {
        let next = self.next_at.nanos() & wide(u32::MAX);
        self.next_at = Time::from_nanos(wide(previous) << u32::BITS | next);
    }

    /// Makes the packet the newest of its flow. `previous` is the packet before it.
    #[inline]
    pub(super) const fn set_last_of_flow(&mut self, previous: u32) {
        self.next_at = Time::from_nanos(wide(previous) << u32::BITS | wide(NIL));
    }
}

#[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "it was widened")]
#[inline]
const fn low(word: u64) -> u32 {
    word as u32
}

#[expect(clippy::as_conversions, reason = "it widens")]
#[inline]
const fn wide(slot: u32) -> u64 {
    slot as u64
}

pub(super) const NIL: u32 = u32::MAX;

/// Complete frames of held ACKs occupy at most `1 / WHOLE_ACKS` of the buffers. The other buffers
/// remain for data.
const WHOLE_ACKS: usize = 4;

impl PacketId {
    /// Number of the slot, which is also the number of the driver's buffer.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> usize {
        slot(self.0)
    }
}

impl PacketPool {
    /// Memory of a slot in bytes, without optional data such as SACK blocks.
    pub const SLOT_BYTES: usize = size_of::<Slot>();

    /// A pool of `capacity` free slots.
    #[must_use]
    #[inline]
    pub fn with_capacity(capacity: u32) -> Self {
        let next = (1..capacity).chain([NIL]).take(slot(capacity));
        Self {
            slots: next.map(Slot::free).collect(),
            sack: Vec::new(),
            stations: Vec::new(),
            hosts: FlowHosts::default(),
            outers: Vec::new(),
            copies: Vec::new(),
            makes_copies: false,
            changes: None,
            free: if capacity == 0 { NIL } else { 0 },
            in_use: 0,
            whole_acks: 0,
        }
    }

    /// Puts `packet` into a free slot. `None` if every buffer is in use.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> Option<PacketId> {
        let id = self.reserve()?;
        self[&id] = packet;
        Some(id)
    }

    /// Puts `packet` into a free slot, and requests a copy of the frame of `original` for this slot.
    /// `None` if every buffer is in use, or if the driver cannot [copy](Self::make_copies).
    #[inline]
    pub fn insert_copy(&mut self, original: &PacketId, packet: Packet) -> Option<PacketId> {
        if !self.makes_copies {
            return None;
        }
        let id = self.insert(packet)?;
        if let Some(changes) = &mut self.changes {
            changes.push(FlowChange::Made(packet.flow));
        }
        let (from, to, whole) = (original.index(), id.index(), self[original].len);
        self.copies.push(FrameCopy { from, to, whole, len: packet.len });
        if packet.tcp.is_some_and(|tcp| tcp.has_sack) {
            let blocks = self.sack(original);
            self.set_sack(&id, blocks);
        }
        if let Some(outer) = self.outer(original).copied() {
            self.set_outer(&id, outer);
        }
        Some(id)
    }

    /// Declares that the driver will make the requested [`copies`](Self::copies). Without this
    /// call, [`insert_copy`](Self::insert_copy) fails.
    #[inline]
    pub const fn make_copies(&mut self) {
        self.makes_copies = true;
    }

    /// The frames to copy, oldest request first, as requested since the last call.
    ///
    /// A driver must make the copies after every call of a machine, in this order, and before it
    /// reserves a slot. Until then, even a released slot still holds the bytes of its frame.
    #[inline]
    pub fn copies(&mut self) -> impl Iterator<Item = FrameCopy> + '_ {
        self.copies.drain(..)
    }

    /// Returns `true` if the driver has frames to copy.
    #[must_use]
    #[inline]
    pub const fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    /// The lent packet with the number from [`lend`](Self::lend), before it is taken back.
    #[inline]
    pub fn lent(&self, number: u32) -> &Packet {
        self.at(number)
    }

    /// Takes a free slot, whose descriptor is not reset. `None` if every buffer is in use.
    #[inline]
    pub fn reserve(&mut self) -> Option<PacketId> {
        if self.free == NIL {
            return None;
        }
        let id = PacketId(self.free);
        self.free = self.links(id.0).next;
        self.in_use += 1;
        Some(id)
    }

    /// Adds `more` slots. A driver with a fixed number of buffers never calls this.
    #[inline]
    pub fn grow(&mut self, more: u32) {
        let (old, new) = (self.slots.len(), self.slots.len() + slot(more));
        self.slots.reserve_exact(slot(more));
        let last = self.free;
        let next = |place| if place + 1 == new { last } else { number(place + 1) };
        self.slots.extend((old..new).map(|place| Slot::free(next(place))));
        if new > old {
            self.free = number(old);
        }
        if self.keeps_sack() {
            self.keep_sack();
        }
        if !self.outers.is_empty() {
            self.outers.resize(self.slots.len(), Outer::default());
        }
        if self.keeps_stations() {
            self.keep_stations();
        }
    }

    /// Asks the driver to read the link-layer source address of every arriving frame.
    #[inline]
    pub fn keep_stations(&mut self) {
        self.stations.resize(self.slots.len(), 0);
    }

    /// Returns `true` if the driver must call [`set_station`](Self::set_station) for each packet.
    #[must_use]
    #[inline]
    pub const fn keeps_stations(&self) -> bool {
        !self.stations.is_empty()
    }

    /// Link-layer source address of the packet's frame on arrival. Zero if no driver has read it.
    #[must_use]
    #[inline]
    pub fn station(&self, id: &PacketId) -> u64 {
        self.stations.get(slot(id.0)).copied().unwrap_or(0)
    }

    /// Sets the link-layer source address (48 bits) of the packet's frame. No effect unless a
    /// machine has asked for addresses.
    #[inline]
    pub fn set_station(&mut self, id: &PacketId, station: u64) {
        if let Some(place) = self.stations.get_mut(slot(id.0)) {
            *place = station;
        }
    }

    /// Hosts by flow. A flow without a known host has [`Host::UNKNOWN`](super::Host::UNKNOWN).
    #[must_use]
    #[inline]
    pub const fn hosts(&self) -> &FlowHosts {
        &self.hosts
    }

    /// The hosts of flows, for updates.
    #[inline]
    pub const fn hosts_mut(&mut self) -> &mut FlowHosts {
        &mut self.hosts
    }

    /// Asks the driver to read the SACK blocks of arriving packets. Otherwise, drivers skip them.
    #[inline]
    pub fn keep_sack(&mut self) {
        self.sack.resize(self.slots.len(), SackBlocks::default());
    }

    /// Returns `true` if the driver must call [`set_sack`](Self::set_sack) for each packet that
    /// [`has_sack`](super::TcpSegment::has_sack).
    #[must_use]
    #[inline]
    pub const fn keeps_sack(&self) -> bool {
        !self.sack.is_empty()
    }

    /// SACK blocks of the packet. Empty unless the packet [`has_sack`](super::TcpSegment::has_sack)
    /// and its driver has read the blocks.
    #[must_use]
    #[inline]
    pub fn sack(&self, id: &PacketId) -> SackBlocks {
        let has = self[id].tcp.is_some_and(|tcp| tcp.has_sack);
        let blocks = if has { self.sack.get(slot(id.0)) } else { None };
        blocks.copied().unwrap_or_default()
    }

    /// Sets the SACK blocks of the packet. They are stored outside of the descriptors, so that a
    /// descriptor fits into two cache lines.
    #[inline]
    pub fn set_sack(&mut self, id: &PacketId, blocks: SackBlocks) {
        if self.sack.len() <= slot(id.0) {
            self.keep_sack();
        }
        self.sack[slot(id.0)] = blocks;
    }

    /// The tunnel headers and the second VLAN tag of a packet, if it has any.
    #[must_use]
    #[inline]
    pub fn outer(&self, id: &PacketId) -> Option<&Outer> {
        if self[id].has_outer() { self.outers.get(slot(id.0)) } else { None }
    }

    /// A packet, and its tunnel headers and second VLAN tag, if it has any.
    #[inline]
    pub fn with_outer(&mut self, id: &PacketId) -> (&mut Packet, Option<&Outer>) {
        let packet = &mut self.slots[slot(id.0)].packet;
        let outer = if packet.has_outer() { self.outers.get(slot(id.0)) } else { None };
        (packet, outer)
    }

    /// Addresses, ports and protocol of the outermost IP header of a packet.
    #[must_use]
    #[inline]
    pub fn outermost(&self, id: &PacketId) -> FlowKey {
        self.outer(id).and_then(Outer::key).unwrap_or_else(|| self[id].key)
    }

    /// Returns `true` if the packet is in a tunnel.
    #[must_use]
    #[inline]
    pub fn is_tunnelled(&self, id: &PacketId) -> bool {
        self.outer(id).is_some_and(|outer| !outer.tunnels().is_empty())
    }

    /// Sets the tunnel headers and the second VLAN tag of a packet. The first call allocates memory
    /// for all slots.
    #[inline]
    pub fn set_outer(&mut self, id: &PacketId, outer: Outer) {
        let has = !outer.is_empty();
        let packet = &mut self[id];
        packet.facts = packet.facts.with(Facts::OUTER, has);
        if has {
            if self.outers.len() <= slot(id.0) {
                self.outers.resize(self.slots.len(), Outer::default());
            }
            self.outers[slot(id.0)] = outer;
        }
    }

    /// Releases a packet's slot and its buffer.
    #[expect(clippy::needless_pass_by_value, reason = "the packet ends here")]
    #[inline]
    pub fn release(&mut self, id: PacketId) {
        if let Some(changes) = &mut self.changes {
            let Packet { flow, facts, .. } = &mut self.slots[slot(id.0)].packet;
            if *flow != FlowId::NONE || facts.has(Facts::UNTRACKED) {
                changes.push(FlowChange::Released(std::mem::take(flow)));
            }
        }
        self.links_mut(id.0).next = self.free;
        self.free = id.0;
        self.in_use -= 1;
    }

    /// Lends a packet's buffer to an owner that can store only a number, such as a NIC.
    ///
    /// The slot stays in use until [`take_back`](Self::take_back).
    #[expect(clippy::needless_pass_by_value, reason = "the number stands for it from here on")]
    #[must_use]
    #[inline]
    pub const fn lend(&self, id: PacketId) -> u32 {
        id.0
    }

    /// The packet with a number from [`lend`](Self::lend). `None` if no such slot exists.
    ///
    /// The caller must take each number back only once.
    #[must_use]
    #[inline]
    pub fn take_back(&self, number: u32) -> Option<PacketId> {
        (slot(number) < self.slots.len()).then_some(PacketId(number))
    }

    /// Counts a held ACK that keeps its complete frame. Returns `false`, and counts nothing, if
    /// such ACKs already occupy a quarter of the buffers.
    #[inline]
    pub fn keep_whole_ack(&mut self) -> bool {
        let has_room = slot(self.whole_acks) < self.slots.len() / WHOLE_ACKS;
        self.whole_acks += u32::from(has_room);
        has_room
    }

    /// Uncounts a held ACK that kept its complete frame.
    #[inline]
    pub const fn release_whole_ack(&mut self) {
        self.whole_acks -= 1;
    }

    /// Number of packets in use.
    #[must_use]
    #[inline]
    pub const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// The free slots, the most recently released first.
    ///
    /// A driver compares the number of packets in use before and after a call. The difference tells
    /// it how many slots at the head of this list were released.
    #[inline]
    pub fn free_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let some = |free: u32| (free != NIL).then_some(free);
        std::iter::successors(some(self.free), move |free| some(self.links(*free).next)).map(slot)
    }

    /// Returns `true` if more than seven of eight slots are in use. Packets that would have to wait
    /// should then be dropped.
    #[must_use]
    #[inline]
    pub fn is_scarce(&self) -> bool {
        slot(self.in_use) > self.scarce_line()
    }

    /// Number of slots that can still be used before they are [scarce](Self::is_scarce).
    #[must_use]
    #[inline]
    pub fn room(&self) -> usize {
        self.scarce_line().saturating_sub(slot(self.in_use))
    }

    #[inline]
    const fn scarce_line(&self) -> usize {
        self.slots.len() / 8 * 7
    }

    /// Number of slots.
    #[must_use]
    #[inline]
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(super) fn at(&self, index: u32) -> &Packet {
        &self.slots[slot(index)].packet
    }

    #[inline]
    pub(super) fn with_note(&self, index: u32) -> (&Packet, &Note) {
        let slot = &self.slots[slot(index)];
        (&slot.packet, &slot.note)
    }

    #[inline]
    pub(super) fn links(&self, index: u32) -> &PacketLinks {
        &self.slots[slot(index)].links
    }

    #[inline]
    pub(super) fn links_mut(&mut self, index: u32) -> &mut PacketLinks {
        &mut self.slots[slot(index)].links
    }

    /// The driver's private data about the packet.
    #[inline]
    #[must_use]
    pub fn note(&self, id: &PacketId) -> Note {
        self.slots[slot(id.0)].note
    }

    /// Sets the driver's private data about the packet.
    #[inline]
    pub fn set_note(&mut self, id: &PacketId, note: Note) {
        self.slots[slot(id.0)].note = note;
    }
}

impl Index<&PacketId> for PacketPool {
    type Output = Packet;

    #[inline]
    fn index(&self, id: &PacketId) -> &Packet {
        &self.slots[slot(id.0)].packet
    }
}

impl IndexMut<&PacketId> for PacketPool {
    #[inline]
    fn index_mut(&mut self, id: &PacketId) -> &mut Packet {
        &mut self.slots[slot(id.0)].packet
    }
}

impl Slot {
    /// A free slot. `next` is the next free slot.
    #[inline]
    fn free(next: u32) -> Self {
        Self { links: PacketLinks::free(next), note: Note::default(), packet: Packet::default() }
    }
}

// A slot takes three cache lines.
const _: () = assert!(size_of::<Slot>() == 192);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_out_every_slot_once_and_takes_it_back() {
        let mut pool = PacketPool::with_capacity(3);
        let ids: Vec<_> = (0..3).map(|_| pool.reserve().unwrap()).collect();
        assert!(pool.reserve().is_none());
        ids.into_iter().for_each(|id| pool.release(id));
        assert_eq!(pool.in_use(), 0);
        assert!(PacketPool::with_capacity(0).reserve().is_none());
    }

    #[test]
    fn grows_by_the_requested_slots_and_keeps_those_in_use() {
        let mut pool = PacketPool::with_capacity(2);
        let first = pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
        pool.grow(3);
        let more: Vec<_> = (0..4).map(|_| pool.reserve().unwrap()).collect();
        assert!(pool.reserve().is_none() && pool.capacity() == 5);
        assert_eq!((pool[&first].len, pool.in_use()), (60, 5));
        more.into_iter().for_each(|id| pool.release(id));
        pool.release(first);
        pool.grow(0);
        assert_eq!((0..5).filter(|_| pool.reserve().is_some()).count(), 5);
    }

    #[test]
    fn each_packet_has_its_own_sack_blocks() {
        let mut pool = PacketPool::with_capacity(2);
        let with = |has_sack| Packet {
            tcp: Some(crate::packet::TcpSegment { has_sack, ..Default::default() }),
            ..Packet::default()
        };
        let (one, other) = (pool.insert(with(true)).unwrap(), pool.insert(with(true)).unwrap());
        assert!(pool.sack(&other).is_empty());
        let mut blocks = SackBlocks::default();
        blocks.push((5, 9));
        pool.set_sack(&one, blocks);
        assert_eq!((pool.sack(&one), pool.sack(&other)), (blocks, SackBlocks::default()));
        pool.release(one);
        let next = pool.insert(with(false)).unwrap();
        assert!(pool.sack(&next).is_empty());
        pool.release(next);
        pool.release(other);
    }

    #[test]
    fn a_lent_packet_is_taken_back_by_its_number() {
        let mut pool = PacketPool::with_capacity(2);
        let id = pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
        let number = pool.lend(id);
        let id = pool.take_back(number).unwrap();
        assert_eq!(pool[&id].len, 60);
        pool.release(id);
        assert!(pool.take_back(2).is_none());
    }
}
