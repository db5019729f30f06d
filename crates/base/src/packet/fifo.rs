//! A first-in-first-out queue of packets.

use super::pool::NIL;
use super::{Packet, PacketId, PacketPool};
use crate::Bytes;

/// A first-in-first-out queue of packets. It is a list linked through the pool, so it allocates no
/// memory.
///
/// ```
/// use tidegate_base::packet::Fifo;
/// use tidegate_base::{Bytes, Packet, PacketPool};
///
/// let mut pool = PacketPool::with_capacity(2);
/// let mut queue = Fifo::new();
/// for len in [100, 1_500] {
///     let packet = pool.insert(Packet { len, ..Packet::default() }).unwrap();
///     queue.push(&mut pool, packet);
/// }
/// assert!(pool.insert(Packet::default()).is_none(), "every buffer is in use");
/// assert_eq!((queue.packets(), queue.bytes()), (2, Bytes(1_600)));
/// let oldest = queue.pop(&pool).unwrap();
/// assert_eq!(pool[&oldest].len, 100);
/// pool.release(oldest);
/// assert_eq!(pool.in_use(), 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fifo {
    head: u32,
    tail: u32,
    packets: u32,
    bytes: Bytes,
}

impl Fifo {
    /// An empty queue.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { head: NIL, tail: NIL, packets: 0, bytes: Bytes::ZERO }
    }

    /// Appends `id`.
    #[expect(clippy::needless_pass_by_value, reason = "the list owns it from here on")]
    #[inline]
    pub fn push(&mut self, pool: &mut PacketPool, id: PacketId) {
        self.bytes += pool[&id].frame_len();
        self.packets += 1;
        pool.links_mut(id.0).next = NIL;
        if self.tail == NIL {
            self.head = id.0;
        } else {
            pool.links_mut(self.tail).next = id.0;
        }
        self.tail = id.0;
    }

    /// Puts `id` before the oldest packet.
    #[expect(clippy::needless_pass_by_value, reason = "the list owns it from here on")]
    #[inline]
    pub fn push_front(&mut self, pool: &mut PacketPool, id: PacketId) {
        self.bytes += pool[&id].frame_len();
        self.packets += 1;
        pool.links_mut(id.0).next = self.head;
        if self.head == NIL {
            self.tail = id.0;
        }
        self.head = id.0;
    }

    /// Removes the oldest packet.
    #[inline]
    pub fn pop(&mut self, pool: &PacketPool) -> Option<PacketId> {
        if self.head == NIL {
            return None;
        }
        let id = PacketId(self.head);
        self.head = pool.links(id.0).next;
        if self.head == NIL {
            self.tail = NIL;
        }
        self.bytes -= pool[&id].frame_len();
        self.packets -= 1;
        Some(id)
    }

    /// The oldest packet, which stays in the queue.
    #[must_use]
    #[inline]
    pub fn peek<'p>(&self, pool: &'p PacketPool) -> Option<&'p Packet> {
        (self.head != NIL).then(|| pool.at(self.head))
    }

    /// Slot of the newest packet.
    #[inline]
    pub(super) const fn last(&self) -> u32 {
        self.tail
    }

    /// Removes `id` from any position. The caller must have set the `previous` link of every packet,
    /// because [`push`](Self::push) does not set these links.
    #[inline]
    pub(super) fn unlink(&mut self, pool: &mut PacketPool, id: &PacketId) {
        let (next, previous) = (pool.links(id.0).next, pool.links(id.0).previous);
        if previous == NIL {
            self.head = next;
        } else {
            pool.links_mut(previous).next = next;
        }
        if next == NIL {
            self.tail = previous;
        } else {
            pool.links_mut(next).previous = previous;
        }
        self.bytes -= pool[id].frame_len();
        self.packets -= 1;
    }

    /// Number of packets.
    #[must_use]
    #[inline]
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Total frame bytes of the packets.
    #[must_use]
    #[inline]
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }
}

impl Default for Fifo {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_in_is_first_out() {
        let mut pool = PacketPool::with_capacity(4);
        let mut fifo = Fifo::new();
        for len in [60, 70, 80] {
            let id = pool.insert(Packet { len, ..Packet::default() }).unwrap();
            fifo.push(&mut pool, id);
        }
        assert_eq!((fifo.packets(), fifo.bytes()), (3, Bytes(210)));
        assert_eq!(fifo.peek(&pool).unwrap().len, 60);
        for len in [60, 70, 80] {
            let id = fifo.pop(&pool).unwrap();
            assert_eq!(pool[&id].len, len);
            pool.release(id);
        }
        assert!(fifo.pop(&pool).is_none() && fifo.bytes() == Bytes::ZERO);
    }
}
