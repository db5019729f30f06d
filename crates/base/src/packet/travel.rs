//! Packets in flight on a link, in order of their arrival times.

use std::mem::replace;

use super::pool::NIL;
use super::{Note, Packet, PacketId, PacketPool};
use crate::Time;

/// A list of packets in flight, linked through the pool. The next packet to arrive is first.
///
/// The list itself stores the arrival times of its first and last packet. It can therefore return
/// the next arrival time, or append a packet that arrives last, without reading a packet. Each
/// packet stores the arrival time of the packet after it, so a packet is only read when it is
/// removed. The `previous` link of the first packet is not maintained.
#[derive(Debug)]
pub struct Travelling {
    first: u32,
    last: u32,
    packets: u32,
    /// Arrival times of the first and the last packet.
    first_at: Time,
    last_at: Time,
}

impl Default for Travelling {
    fn default() -> Self {
        Self::new()
    }
}

impl Travelling {
    /// A list without packets.
    #[inline]
    pub const fn new() -> Self {
        Self { first: NIL, last: NIL, packets: 0, first_at: Time::ZERO, last_at: Time::ZERO }
    }

    /// Number of packets.
    #[inline]
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Arrival time of the next packet to arrive.
    #[inline]
    pub const fn next_at(&self) -> Option<Time> {
        if self.first == NIL { None } else { Some(self.first_at) }
    }

    /// The next packet to arrive, with the driver's private data. The packet stays in the list.
    #[inline]
    pub fn peek<'p>(&self, pool: &'p PacketPool) -> Option<(&'p Packet, &'p Note)> {
        (self.first != NIL).then(|| pool.with_note(self.first))
    }

    /// Adds a packet that arrives at `at`. Packets with the same time stay in the order of their
    /// calls.
    #[inline]
    pub fn push(&mut self, pool: &mut PacketPool, at: Time, id: PacketId) {
        let mut before = self.last;
        if at < self.last_at {
            while before != NIL && self.due(pool, before) > at {
                before = if before == self.first { NIL } else { pool.links(before).previous };
            }
        }
        self.insert(pool, at, id, before);
    }

    /// Arrival time of `id`.
    #[inline]
    fn due(&self, pool: &PacketPool, id: u32) -> Time {
        if id == self.first {
            return self.first_at;
        }
        pool.links(pool.links(id).previous).next_at
    }

    /// Inserts the packet after the packet `before`. [`NIL`] inserts it as the first.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "the list owns it from here on")]
    fn insert(&mut self, pool: &mut PacketPool, at: Time, id: PacketId, before: u32) {
        let (next, next_at) = match before {
            NIL => (&mut self.first, &mut self.first_at),
            _ => {
                let links = pool.links_mut(before);
                (&mut links.next, &mut links.next_at)
            }
        };
        let (behind, behind_at) = (replace(next, id.0), replace(next_at, at));
        match behind {
            NIL => (self.last, self.last_at) = (id.0, at),
            _ => pool.links_mut(behind).previous = id.0,
        }
        let links = pool.links_mut(id.0);
        (links.next, links.previous, links.next_at) = (behind, before, behind_at);
        self.packets += 1;
    }

    /// Removes the first packet if it arrives at or before `now`.
    #[inline]
    pub fn pop(&mut self, pool: &PacketPool, now: Time) -> Option<PacketId> {
        if self.first == NIL || self.first_at > now {
            return None;
        }
        let id = PacketId(self.first);
        let links = pool.links(id.0);
        (self.first, self.first_at) = (links.next, links.next_at);
        self.packets -= 1;
        if self.first == NIL {
            (self.last, self.last_at) = (NIL, Time::ZERO);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use crate::random::Random;

    /// Comparison with a sorted list. Many packets arrive at the same time, and some overtake
    /// others.
    ///
    /// Catches: two packets with the same arrival time that change their order; a stored time of the
    /// first arrival that is not updated when a packet overtakes all others.
    /// Catches: a wrong order after a use of the first packet's `previous` link, which is not
    /// maintained.
    #[test]
    fn packets_arrive_in_order_of_their_times_and_equal_times_in_order_of_sending() {
        let mut random = Random::new(3, 0);
        let mut pool = PacketPool::with_capacity(64);
        let (mut travelling, mut sorted) = (Travelling::new(), Vec::new());
        for step in 0..20_000 {
            let now = Time::from_nanos(step / 4);
            if pool.in_use() < 60 && random.below(5) > 1 {
                let at = now + std::time::Duration::from_nanos(random.below(12));
                let id = pool.insert(Packet::default()).unwrap();
                let place = sorted.partition_point(|(other, _)| *other <= at);
                sorted.insert(place, (at, id.index()));
                travelling.push(&mut pool, at, id);
            } else {
                let due = sorted.first().is_some_and(|(at, _)| *at <= now);
                let expected = due.then(|| sorted.remove(0).1);
                let found = travelling.pop(&pool, now);
                assert_eq!(found.as_ref().map(PacketId::index), expected);
                found.into_iter().for_each(|id| pool.release(id));
            }
            assert_eq!(travelling.next_at(), sorted.first().map(|(at, _)| *at));
            assert_eq!(usize::try_from(travelling.packets()).unwrap(), sorted.len());
        }
    }
}
