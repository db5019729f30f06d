//! Counters of packets of ACK-controlled flows, whose ACKs the gateway may hold.

use std::ops::{AddAssign, SubAssign};

use super::Packet;

/// Number of packets of ACK-controlled flows, and their charged bytes: frames with the overhead of the link.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Controlled {
    /// Number of packets.
    pub packets: u64,
    /// Charged bytes.
    pub bytes: u64,
}

impl Controlled {
    /// Counts `packet`, if its flow is ACK-controlled.
    #[inline]
    pub fn add(&mut self, packet: &Packet) {
        *self += Self::of(packet);
    }

    /// The count of `packet` alone, if its flow is ACK-controlled.
    #[must_use]
    #[inline]
    pub fn of(packet: &Packet) -> Self {
        if packet.is_controlled() {
            Self { packets: 1, bytes: u64::from(packet.cost) }
        } else {
            Self::default()
        }
    }
}

impl AddAssign for Controlled {
    #[inline]
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

impl SubAssign for Controlled {
    #[inline]
    fn sub_assign(&mut self, less: Self) {
        self.packets -= less.packets;
        self.bytes -= less.bytes;
    }
}
