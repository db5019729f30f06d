//! Counters of an ACK control.

use serde::{Deserialize, Serialize};

/// Counters of an ACK control, and the number of its held ACKs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// ACKs held now.
    pub held: u32,
    /// Packet buffers of held ACKs.
    pub packets: u32,
    /// Most ACKs that were ever held.
    pub peak_held: u32,
    /// ACKs that were held.
    pub delayed: u64,
    /// Sum of all holds, in nanoseconds.
    pub held_ns: u64,
    /// Packets consumed: ACKs stored as records, ACKs superseded by a newer one, and ACKs of an ended
    /// connection.
    pub absorbed: u64,
    /// Packets rebuilt from records, or cut from data.
    pub made: u64,
    /// Extra ACKs: the steps of stretch ACKs, except the last one of each.
    pub split: u64,
    /// ACKs that departed after their longest hold, or for lack of room.
    pub overdue: u64,
    /// Reduced windows.
    pub windows: u64,
    /// ACKs of data that was never sent, by number or by SACK blocks.
    pub unsent: u64,
    /// Old ACKs: acknowledgement number below the highest that arrived.
    pub stale: u64,
    /// Segments with payload that were queued without ACK control: a digest covers them, their sender does
    /// not respond, or their ACKs take another path.
    pub ungoverned: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.held += more.held;
        self.packets += more.packets;
        self.peak_held = self.peak_held.max(more.peak_held);
        self.delayed += more.delayed;
        self.held_ns += more.held_ns;
        self.absorbed += more.absorbed;
        self.made += more.made;
        self.split += more.split;
        self.overdue += more.overdue;
        self.windows += more.windows;
        self.unsent += more.unsent;
        self.stale += more.stale;
        self.ungoverned += more.ungoverned;
    }
}
