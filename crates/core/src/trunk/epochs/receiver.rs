//! The end that sees user packets arrive, and says which boundary came.

use super::boundary::{Spacing, boundary};
use super::message::{CongestionAck, micros};
use crate::packet::TcpSegment;
use crate::trunk::packet::network_len;
use crate::{Packet, Time};

pub(super) struct Receiver {
    spacing: Spacing,
    /// User bytes that have arrived.
    received: u64,
    life: u32,
}

impl Receiver {
    pub(super) const fn new(life: u32, spacing: Spacing) -> Self {
        Self { spacing, received: 0, life }
    }

    /// A user packet goes by; what is to be said of it.
    pub(super) fn sees(&mut self, now: Time, packet: &Packet) -> Option<CongestionAck> {
        self.received = self.received.wrapping_add(network_len(packet));
        let name = boundary(packet, self.spacing)?;
        let received = u32::try_from(self.received & u64::from(u32::MAX)).unwrap_or(0);
        let (micros, life, spacing) = (micros(now), self.life, self.spacing);
        Some(CongestionAck { name, received, micros, life, spacing })
    }

    /// The other end says how far apart boundaries are.
    pub(super) fn told(&mut self, header: &TcpSegment) {
        self.spacing = Spacing::of_power(header.window);
    }
}
