//! A machine that only forwards packets between two ports, without shaping. A [`Machine`] is the
//! logic between the ports of a driver, such as a gateway.

use tidegate_core::packet::Fifo;
use tidegate_core::{Machine, PacketId, PacketPool, PortId, Time};

/// Forwards packets between port 0 and port 1. Benchmarks measure it as the baseline for the cost of a
/// gateway.
#[derive(Debug)]
pub struct Bare {
    pool: PacketPool,
    departing: [Fifo; 2],
}

impl Bare {
    /// A machine whose pool has room for `packets` packets.
    #[must_use]
    pub fn new(packets: u32) -> Self {
        Self { pool: PacketPool::with_capacity(packets), departing: [Fifo::new(); 2] }
    }
}

impl Machine for Bare {
    fn pool(&mut self) -> &mut PacketPool {
        &mut self.pool
    }

    fn handle_packet(&mut self, _now: Time, port: PortId, packet: PacketId) {
        self.departing[usize::from(port.0 == 0)].push(&mut self.pool, packet);
    }

    fn poll_transmit(&mut self, _now: Time, port: PortId) -> Option<PacketId> {
        self.departing.get_mut(usize::from(port.0))?.pop(&self.pool)
    }

    fn poll_timeout(&mut self, now: Time) -> Option<Time> {
        self.departing.iter().any(|fifo| fifo.packets() > 0).then_some(now)
    }
}
