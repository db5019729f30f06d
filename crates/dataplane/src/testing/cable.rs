//! A test port whose frames arrive and depart as bytes, as at a real port.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use tidegate_core::packet::FrameCopy;
use tidegate_core::{PacketId, PacketPool, Reason, Time};

use crate::frame;
use crate::memory::PacketMemory;
use crate::port::{Port, PortCounters};

/// Frames in transit on a cable, in order.
pub type Frames = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// A port that receives the frames of one list, and appends sent frames to another list.
#[derive(Debug)]
pub struct Cable {
    memory: PacketMemory,
    arriving: Frames,
    departing: Frames,
    spare: Frames,
    counters: PortCounters,
}

impl Cable {
    /// A port whose frames are in `memory`. It receives the frames in `arriving`, and appends sent
    /// frames to `departing`.
    #[must_use]
    pub fn new(memory: PacketMemory, [arriving, departing]: [Frames; 2]) -> Self {
        let (spare, counters) = (Frames::default(), PortCounters::default());
        Self { memory, arriving, departing, spare, counters }
    }

    /// A port that sends frames in byte vectors from `spare`. The port puts the vectors of received
    /// frames into `spare`. If a port that mostly sends shares `spare` with a port that mostly
    /// receives, neither of them allocates memory.
    #[must_use]
    pub fn with_spare(self, spare: Frames) -> Self {
        Self { spare, ..self }
    }
}

impl Port for Cable {
    fn receive(&mut self, pool: &mut PacketPool, now: Time) -> Option<PacketId> {
        let bytes = self.arriving.borrow_mut().pop_front()?;
        let Some(packet) = pool.reserve() else {
            self.counters.drops.count(Reason::NoBuffer);
            return None;
        };
        let room = self.memory.place(pool, &packet, bytes.len());
        if room.map(|mut room| room.copy_from_slice(&bytes)).is_none() {
            self.counters.drops.count(Reason::TooLong);
            pool.release(packet);
            return None;
        }
        let len = pool[&packet].len;
        frame::arrive(&self.memory, pool, &packet, len, now, &mut self.counters);
        self.spare.borrow_mut().push_back(bytes);
        Some(packet)
    }

    fn can_send(&self) -> bool {
        true
    }

    fn copy(&mut self, copy: &FrameCopy) {
        frame::copy(&self.memory, copy);
    }

    fn send(&mut self, pool: &mut PacketPool, packet: PacketId) {
        frame::write_back(&self.memory, pool, &packet);
        if self.memory.frame(&packet).is_none() {
            return pool.release(packet);
        }
        let mut bytes = self.spare.borrow_mut().pop_front().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(&self.memory.bytes(&packet, pool[&packet].len));
        self.counters.sent += 1;
        self.departing.borrow_mut().push_back(bytes);
        pool.release(packet);
    }

    fn flush(&mut self, _pool: &mut PacketPool) {}

    fn drop_arrived(&mut self, _pool: &mut PacketPool, _copies: &dyn Fn() -> u64) -> u64 {
        0
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
