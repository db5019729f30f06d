//! The rings that an AF_XDP socket shares with the kernel: one side produces entries, the other
//! side consumes them.
//!
//! Positions count entries since the creation of the ring and wrap at 2^32. The size of a ring is a
//! power of two.
//! Source: Linux `Documentation/networking/af_xdp.rst`, "Rings"; `net/xdp/xsk_queue.h` for the
//! order of loads and stores.

use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;
use crate::memory::index;

/// A ring in shared memory: its pointers and its size.
#[derive(Debug)]
pub(super) struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// The memory that the pointers point into.
    _mapping: Rc<Mapping>,
}

/// The writing side of a ring.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Position of the next entry.
    next: u32,
    /// The consumer's position when it was last read.
    consumed: Cell<u32>,
}

/// The reading side of a ring.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    /// Position of the next entry.
    next: u32,
    /// The producer's position when it was last read.
    produced: u32,
}

impl<T: Copy> Ring<T> {
    /// The ring of `size` entries at `offsets` of `mapping`, as reported by the kernel.
    ///
    /// # Errors
    ///
    /// If the ring exceeds the mapping, or `size` is not a power of two.
    pub(super) fn new(
        mapping: Rc<Mapping>,
        offsets: &libc::xdp_ring_offset,
        size: u32,
    ) -> io::Result<Self> {
        if !size.is_power_of_two() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "ring size: a power of two"));
        }
        let at = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        Ok(Self {
            producer: mapping.at(at(offsets.producer)?, 1)?,
            consumer: mapping.at(at(offsets.consumer)?, 1)?,
            flags: mapping.at(at(offsets.flags)?, 1)?,
            entries: mapping.at(at(offsets.desc)?, index(size))?,
            size,
            _mapping: mapping,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `new` checked that the position lies in the mapping, which lives as long as `self`. The
        // kernel also writes it only atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// Returns `true` if the kernel sleeps on this ring and needs a system call to continue.
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as in `producer`.
        let flags = unsafe { self.flags.as_ref() }.load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, position: u32) -> NonNull<T> {
        // SAFETY: the masked position is below `size`, and `new` checked that the mapping holds
        // `size` entries.
        unsafe { self.entries.add(index(position & (self.size - 1))) }
    }
}

impl<T: Copy> Producer<T> {
    pub(super) fn new(ring: Ring<T>) -> Self {
        let next = ring.producer().load(Ordering::Relaxed);
        let consumed = Cell::new(ring.consumer().load(Ordering::Acquire));
        Self { ring, next, consumed }
    }

    /// Number of free entries. Reads the consumer's position from shared memory only if no entry
    /// seems free.
    pub(super) fn room(&self) -> u32 {
        let room = || self.ring.size.saturating_sub(self.next.wrapping_sub(self.consumed.get()));
        if room() == 0 {
            self.consumed.set(self.ring.consumer().load(Ordering::Acquire));
        }
        room()
    }

    /// Writes `entry` into the ring. The other side sees the entry after
    /// [`publish`](Self::publish). Returns `false` if the ring is full.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.room() == 0 {
            return false;
        }
        // SAFETY: the entry is in the mapping. The ring is not full, so the other side does not use
        // the entry until it is published.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes the pushed entries visible to the other side.
    pub(super) fn publish(&self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Number of entries that the other side has not consumed yet.
    pub(super) fn pending(&self) -> u32 {
        self.consumed.set(self.ring.consumer().load(Ordering::Acquire));
        self.next.wrapping_sub(self.consumed.get())
    }

    /// Returns `true` if the kernel sleeps on this ring and needs a system call to continue.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

impl<T: Copy> Consumer<T> {
    pub(super) fn new(ring: Ring<T>) -> Self {
        let next = ring.consumer().load(Ordering::Relaxed);
        Self { ring, next, produced: next }
    }

    /// Removes and returns the oldest entry.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.next == self.produced {
            self.produced = self.ring.producer().load(Ordering::Acquire);
            if self.next == self.produced {
                return None;
            }
        }
        // SAFETY: the entry is in the mapping and was published by the other side, which does not
        // access it until it is released.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Returns the popped entries to the other side for reuse.
    pub(super) fn release(&self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OFFSETS: libc::xdp_ring_offset =
        libc::xdp_ring_offset { producer: 0, consumer: 64, desc: 192, flags: 128 };

    /// Both sides of a ring of `size` entries whose positions begin at `start`.
    fn ends(size: u32, start: u32) -> (Producer<u64>, Consumer<u64>) {
        let mapping = Rc::new(Mapping::anonymous(4_096).unwrap());
        let ring = || Ring::new(Rc::clone(&mapping), &OFFSETS, size).unwrap();
        ring().producer().store(start, Ordering::Relaxed);
        ring().consumer().store(start, Ordering::Relaxed);
        (Producer::new(ring()), Consumer::new(ring()))
    }

    #[test]
    fn an_entry_is_not_seen_before_it_is_published() {
        let (mut producer, mut consumer) = ends(4, 0);
        assert!(producer.push(7));
        assert_eq!(consumer.pop(), None);
        producer.publish();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(7), None));
    }

    #[test]
    fn an_entry_is_not_reused_before_it_is_released() {
        let (mut producer, mut consumer) = ends(2, 0);
        assert!(producer.push(1) && producer.push(2) && !producer.push(3));
        producer.publish();
        assert_eq!((consumer.pop(), producer.room(), producer.pending()), (Some(1), 0, 2));
        consumer.release();
        assert_eq!((producer.room(), producer.pending()), (1, 1));
    }

    #[test]
    fn a_ring_outside_its_mapping_is_refused() {
        let mapping = || Rc::new(Mapping::anonymous(4_096).unwrap());
        assert!(Ring::<u64>::new(mapping(), &OFFSETS, 512).is_err());
        assert!(Ring::<u64>::new(mapping(), &OFFSETS, 3).is_err());
        let far = libc::xdp_ring_offset { producer: u64::MAX, ..OFFSETS };
        assert!(Ring::<u64>::new(mapping(), &far, 4).is_err());
        let odd = libc::xdp_ring_offset { desc: 193, ..OFFSETS };
        assert!(Ring::<u64>::new(mapping(), &odd, 4).is_err());
    }

    /// Ring sizes, bursts up to the whole ring, and start positions shortly before the wrap, so
    /// that most runs cross it.
    fn schedules() -> impl Strategy<Value = (u32, u32, Vec<(u32, u32)>)> {
        let bursts = prop::collection::vec((0u32..=16, 0u32..=16), 1..40);
        (1u32..=4, 0u32..64, bursts)
            .prop_map(|(log, before, bursts)| (1 << log, u32::MAX - before, bursts))
    }

    proptest! {
        /// Pushed entries come out once and in order, also across the wrap of the positions. The
        /// ring never holds more than `size` entries.
        ///
        /// Catches: lost or repeated entries when the positions wrap at 2^32; entries that are
        /// written beyond the ring.
        #[test]
        fn entries_come_out_once_and_in_order((size, start, bursts) in schedules()) {
            let (mut producer, mut consumer) = ends(size, start);
            let (mut pushed, mut popped) = (0u64, 0u64);
            for (pushes, pops) in bursts {
                for _ in 0..pushes {
                    let inside = pushed - popped;
                    prop_assert_eq!(producer.push(pushed), inside < u64::from(size));
                    pushed += u64::from(inside < u64::from(size));
                }
                producer.publish();
                for _ in 0..pops {
                    prop_assert_eq!(consumer.pop(), (popped < pushed).then_some(popped));
                    popped += u64::from(popped < pushed);
                }
                consumer.release();
                prop_assert_eq!(u64::from(producer.pending()), pushed - popped);
            }
        }
    }
}
