//! Counters of departures from an aggregate.

use std::ops::AddAssign;

use crate::Count;
use crate::packet::Controlled;
use crate::{Packet, Time};

/// Departures within one call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    pub(super) conforming: Count,
    pub(super) exceeding: Count,
    pub(super) waited_ns: u64,
    pub(super) late: u64,
    /// Departures from the queue of ACK-controlled flows.
    pub(super) controlled: Controlled,
    /// Charged bytes of other departures.
    pub(super) others: u64,
}

impl Progress {
    /// Number of packets that departed.
    pub(super) const fn departed(&self) -> u64 {
        self.conforming.packets + self.exceeding.packets
    }

    /// Counts `packet`, which departs at `now` in profile.
    pub(super) fn conforms(&mut self, packet: &Packet, now: Time) {
        self.conforming.add(packet.wire_len());
        let waited = now.since(packet.arrived).as_nanos();
        self.waited_ns += u64::try_from(waited).unwrap_or(u64::MAX);
        self.controlled.add(packet);
        self.others += if packet.is_controlled() { 0 } else { u64::from(packet.cost) };
    }
}

impl AddAssign for Progress {
    fn add_assign(&mut self, more: Self) {
        self.conforming += more.conforming;
        self.exceeding += more.exceeding;
        self.waited_ns += more.waited_ns;
        self.late += more.late;
        self.controlled += more.controlled;
        self.others += more.others;
    }
}
