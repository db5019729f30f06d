//! The emulated links between the two ends of the test connection, one for each direction.

use tidegate_core::link::{Link, LinkConfig};
use tidegate_core::packet::Ecn;
use tidegate_core::{Cx, Packet, PacketId, PacketPool, Reason, Tally, Time};
use tidegate_wire::{Checksum, describe, rewrite};

/// The emulated link to the kernel, and the emulated link to Tidegate's endpoint.
pub(super) struct Path {
    pub(super) to_kernel: Lane,
    pub(super) to_ours: Lane,
}

/// An emulated link, with the packets on it and their bytes.
pub(super) struct Lane {
    link: Link,
    pool: PacketPool,
    frames: Vec<Vec<u8>>,
    tally: Tally,
    mark_one_in: u32,
    markable: u32,
}

/// Maximum number of packets on a link.
const PACKETS: u16 = 1 << 15;

impl Path {
    pub(super) fn new(link: &LinkConfig, mark_one_in: u32, seed: u64) -> Self {
        let lane = |number| Lane {
            link: Link::new(link, seed, number),
            pool: PacketPool::with_capacity(PACKETS.into()),
            frames: vec![Vec::new(); PACKETS.into()],
            tally: Tally::default(),
            mark_one_in,
            markable: 0,
        };
        Self { to_kernel: lane(0), to_ours: lane(1) }
    }

    /// The next time at which a packet may have arrived.
    pub(super) fn ready_at(&self) -> Option<Time> {
        self.to_kernel.link.ready_at().into_iter().chain(self.to_ours.link.ready_at()).min()
    }
}

impl Lane {
    /// Puts a frame on the link. If the link has no buffer left, the frame is lost and TCP
    /// retransmits it.
    pub(super) fn send(&mut self, now: Time, frame: Vec<u8>) {
        let mut packet = Packet::default();
        describe(&frame, u32::try_from(frame.len()).unwrap_or(u32::MAX), &mut packet);
        let Some(id) = self.pool.insert(packet) else {
            self.tally.drops.count(Reason::NoBuffer);
            return;
        };
        self.frames[id.index()] = frame;
        self.mark(&id);
        self.link.send(&mut Cx { now, pool: &mut self.pool, tally: &mut self.tally }, id);
    }

    /// The next frame that has arrived, together with its packet descriptor.
    pub(super) fn poll(&mut self, now: Time) -> Option<(Vec<u8>, Packet)> {
        let cx = &mut Cx { now, pool: &mut self.pool, tally: &mut self.tally };
        let id = self.link.poll(cx)?;
        let (mut frame, packet) = (std::mem::take(&mut self.frames[id.index()]), self.pool[&id]);
        self.pool.release(id);
        if packet.rewritten {
            rewrite(&mut frame, &packet, Checksum::Finished);
        }
        Some((frame, packet))
    }

    /// Number of packets that the link has lost.
    pub(super) fn lost(&self) -> u64 {
        Reason::ALL.iter().map(|reason| self.tally.drops.of(*reason)).sum()
    }

    fn mark(&mut self, id: &PacketId) {
        if self.mark_one_in > 0 && self.pool[id].ecn != Ecn::NotEct {
            self.markable += 1;
            if self.markable.is_multiple_of(self.mark_one_in) {
                self.pool[id].mark_congestion();
            }
        }
    }
}
