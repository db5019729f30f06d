//! Counters of an ACK control.

use serde::{Deserialize, Serialize};

/// What a signal holds and has done.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// ACKs held now.
    pub held: u32,
    /// Packets kept for them.
    pub packets: u32,
    /// Most ACKs that were ever held.
    pub peak_held: u32,
    /// ACKs that had to wait.
    pub delayed: u64,
    /// For how long, all together, in nanoseconds.
    pub held_ns: u64,
    /// Packets consumed: ACKs stored as records, ACKs superseded by a newer one, and ACKs of an ended
    /// connection.
    pub absorbed: u64,
    /// Packets made of others.
    pub made: u64,
    /// Steps, beyond the last, in which ACKs went on.
    pub split: u64,
    /// ACKs that went on because they had been held for as long as may be, or there was no room.
    pub overdue: u64,
    /// Windows made smaller.
    pub windows: u64,
    /// ACKs of data that was never sent, by number or by SACK blocks.
    pub unsent: u64,
    /// ACKs of less than was acknowledged before.
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
