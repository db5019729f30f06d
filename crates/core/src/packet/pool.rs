//! All packet descriptors of a run, and who holds them.

use std::ops::{Index, IndexMut};

use super::{Packet, slot};

/// A packet held by exactly one owner: a queue, a driver, or a caller on the way between them.
///
/// Not `Clone`: whoever holds it passes it on or releases it.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a packet is passed on or released, never forgotten"]
pub struct PacketId(pub(super) u32);

/// All packet descriptors of a run.
#[derive(Debug)]
pub struct PacketPool {
    slots: Vec<Packet>,
    pub(super) links: Vec<Links>,
    free: u32,
    in_use: u32,
}

/// Where a packet stands in the lists it is in: one over all packets of a queue, and one over those
/// of its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) next_of_flow: u32,
}

pub(super) const NIL: u32 = u32::MAX;

impl PacketId {
    /// The number of its slot, and of the driver's buffer.
    #[must_use]
    pub const fn index(&self) -> usize {
        slot(self.0)
    }
}

impl PacketPool {
    /// A pool of `capacity` free slots.
    #[must_use]
    pub fn with_capacity(capacity: u32) -> Self {
        let link = |next| Links { next, previous: NIL, next_of_flow: NIL };
        Self {
            slots: vec![Packet::default(); slot(capacity)],
            links: (1..capacity).chain([NIL]).map(link).take(slot(capacity)).collect(),
            free: if capacity == 0 { NIL } else { 0 },
            in_use: 0,
        }
    }

    /// Puts `packet` into a free slot; `None` if every buffer is in use.
    pub fn insert(&mut self, packet: Packet) -> Option<PacketId> {
        let id = self.reserve()?;
        self[&id] = packet;
        Some(id)
    }

    /// A free slot whose description is stale; `None` if every buffer is in use.
    pub fn reserve(&mut self) -> Option<PacketId> {
        if self.free == NIL {
            return None;
        }
        let id = PacketId(self.free);
        self.free = self.links[slot(id.0)].next;
        self.in_use += 1;
        Some(id)
    }

    /// Gives a packet's slot, and the buffer behind it, back.
    #[expect(clippy::needless_pass_by_value, reason = "the packet ends here")]
    pub fn release(&mut self, id: PacketId) {
        self.links[slot(id.0)].next = self.free;
        self.free = id.0;
        self.in_use -= 1;
    }

    /// Hands a packet's buffer to somebody who keeps only its number, such as a NIC.
    ///
    /// It stays in use until [`take_back`](Self::take_back).
    #[expect(clippy::needless_pass_by_value, reason = "the number stands for it from here on")]
    #[must_use]
    pub const fn lend(&self, id: PacketId) -> u32 {
        id.0
    }

    /// The packet of a number from [`lend`](Self::lend); `None` if there is no such slot.
    ///
    /// Each number is taken back once; the lender keeps count.
    #[must_use]
    pub fn take_back(&self, number: u32) -> Option<PacketId> {
        (slot(number) < self.slots.len()).then_some(PacketId(number))
    }

    /// Packets held by anyone.
    #[must_use]
    pub const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Whether seven of eight slots are in use: what would wait had better be dropped now.
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        slot(self.in_use) > self.slots.len() / 8 * 7
    }

    /// Packets there can be.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn at(&self, index: u32) -> &Packet {
        &self.slots[slot(index)]
    }
}

impl Index<&PacketId> for PacketPool {
    type Output = Packet;

    fn index(&self, id: &PacketId) -> &Packet {
        &self.slots[slot(id.0)]
    }
}

impl IndexMut<&PacketId> for PacketPool {
    fn index_mut(&mut self, id: &PacketId) -> &mut Packet {
        &mut self.slots[slot(id.0)]
    }
}

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
    fn a_lent_packet_comes_back_by_its_number() {
        let mut pool = PacketPool::with_capacity(2);
        let id = pool.insert(Packet { len: 60, ..Packet::default() }).unwrap();
        let number = pool.lend(id);
        let id = pool.take_back(number).unwrap();
        assert_eq!(pool[&id].len, 60);
        pool.release(id);
        assert!(pool.take_back(2).is_none());
    }
}
