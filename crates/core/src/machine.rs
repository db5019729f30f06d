//! The contract between a mechanism and its driver: packets in, packets out, and the time of the
//! next call.

use std::time::Duration;

use crate::{PacketId, PacketPool, Time};

/// One of the ports of a [`Machine`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortId(pub u8);

/// A device with ports: the gateway, or the emulator of a network.
///
/// A driver hands in one packet. It then drains [`poll_transmit`](Self::poll_transmit) of every
/// port until `None`. It calls again at the next packet, or at
/// [`poll_timeout`](Self::poll_timeout). Early calls are harmless. Late calls cost quality, never
/// correctness. Time does not run backwards. If a driver's does, nothing is granted.
pub trait Machine {
    /// The pool of all packets inside, with its free slots.
    fn pool(&mut self) -> &mut PacketPool;

    /// Hands in a packet that arrived at `port`.
    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId);

    /// A packet to send out of `port` now.
    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId>;

    /// Latest time for the next call of [`poll_transmit`](Self::poll_transmit). `None` if no packet
    /// waits.
    fn poll_timeout(&mut self, now: Time) -> Option<Time>;

    /// Returns `true` if [`poll_timeout`](Self::poll_timeout) also does a slice of other work, such
    /// as a policy change.
    fn is_working(&self) -> bool {
        false
    }

    /// Returns `true` if super-packets that arrive at `port` are to be cut into frames before they are handed in.
    fn wants_frames(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// Sets the poll interval of the driver. Packets that arrive or depart within one interval are
    /// handled together. Zero, the default: each packet at its own time.
    fn set_grain(&mut self, grain: Duration) {
        let _ = grain;
    }
}
