//! A counter of packets and their bytes.

use std::ops::AddAssign;

use serde::Serialize;

/// A number of packets, and the bytes of their frames. A super-packet counts as one packet, with
/// the bytes of all its frames on the wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Count {
    /// Counts one packet of `bytes`.
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}
