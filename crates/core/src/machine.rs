//! What a driver drives: packets in, packets out, and when to come back.

use std::time::Duration;

use crate::{PacketId, PacketPool, Time};

/// One of the ports of a [`Machine`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortId(pub u8);

/// Something between ports: the gateway, or the emulator of a network.
///
/// A driver hands in one thing, then drains [`poll_transmit`](Self::poll_transmit) of every port
/// until `None`, then comes back when something arrives or at [`poll_timeout`](Self::poll_timeout),
/// whichever is first. Coming back early is harmless; coming back late costs quality, never
/// correctness. Time does not run backwards; if a driver's does, nothing is granted.
pub trait Machine {
    /// Every packet inside, and the free slots for more.
    fn pool(&mut self) -> &mut PacketPool;

    /// Takes in a packet that arrived at `port`.
    fn handle_packet(&mut self, now: Time, port: PortId, packet: PacketId);

    /// A packet to send out of `port` now.
    fn poll_transmit(&mut self, now: Time, port: PortId) -> Option<PacketId>;

    /// When [`poll_transmit`](Self::poll_transmit) may next have a packet; `None` if nothing waits.
    fn poll_timeout(&mut self, now: Time) -> Option<Time>;

    /// Whether [`poll_timeout`](Self::poll_timeout) also does a slice of other work, such as a policy change.
    fn is_working(&self) -> bool {
        false
    }

    /// Returns `true` if super-packets that arrive at `port` are to be cut into frames before they are handed in.
    fn wants_frames(&self, port: PortId) -> bool {
        let _ = port;
        false
    }

    /// The driver comes back only so often: what arrives in between is taken in together, and what
    /// leaves does so together. Zero, as long as nothing is said, for each at its own time.
    fn set_grain(&mut self, grain: Duration) {
        let _ = grain;
    }
}
