//! A machine that only forwards packets between two ports. A [`Machine`] is the logic between the
//! ports; this one has no shaping.

use tidegate_core::packet::Fifo;
use tidegate_core::{Machine, PacketId, PacketPool, PortId, Time};

/// Forwards packets between port 0 and port 1. Benchmarks measure it as the baseline for a
/// gateway's cost.
#[derive(Debug)]
pub struct Bare {
    pool: PacketPool,
    leaving: [Fifo; 2],
}

impl Bare {
    /// A machine whose pool has room for `packets` packets.
    #[must_use]
    pub fn new(packets: u32) -> Self {
        Self { pool: PacketPool::with_capacity(packets), leaving: [Fifo::new(); 2] }
    }
}

impl Machine for Bare {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, _now: Time, port: PortId, packet: PacketId) {
        self.leaving[usize::from(port.0 == 0)].push(&mut self.pool, packet);
    }

    fn poll_transmit(&mut self, _now: Time, port: PortId) -> Option<PacketId> {
        self.leaving.get_mut(usize::from(port.0))?.pop(&self.pool)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.leaving.iter().any(|fifo| fifo.packets() > 0).then_some(now)
    }
}
