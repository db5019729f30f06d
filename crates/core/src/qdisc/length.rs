//! Queue lengths in packets, or in bytes divided by the size of a typical packet.

use std::time::Duration;

use super::Backlog;
use super::managed::QueueLimit;
use crate::units::real;
use crate::{Bytes, Packet, Rate, choice};

choice! {
    /// The unit in which a queue's length is measured.
    #[derive(Default)]
    pub enum Measure {
        /// Bytes, so that a short packet counts less than a long one.
        Bytes = "bytes" [default],
        /// Packets, whatever their lengths.
        Packets = "packets",
    }
}

/// Computes queue lengths, in units of a typical packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruler {
    measure: Measure,
    packet: Bytes,
}

impl Ruler {
    /// Measures lengths in packets with the typical size `packet`.
    pub(super) fn new(measure: Measure, packet: Bytes) -> Self {
        Self { measure, packet: packet.max(Bytes(1)) }
    }

    /// `bytes` in typical packets.
    pub(super) fn packets(&self, bytes: Bytes) -> f64 {
        real(bytes.0) / real(self.packet.0)
    }

    /// Length of a queue with the backlog `waiting`.
    pub(super) fn length(&self, waiting: Backlog) -> f64 {
        match self.measure {
            Measure::Bytes => self.packets(waiting.bytes),
            Measure::Packets => f64::from(waiting.packets),
        }
    }

    /// Size of `packet` in typical packets.
    pub(super) fn size(&self, packet: &Packet) -> f64 {
        self.packets(packet.frame_len())
    }

    /// `bytes` in typical packets, rounded down.
    pub(super) const fn whole_packets(&self, bytes: Bytes) -> u64 {
        bytes.0 / self.packet.0
    }

    /// Number of typical packets that depart within `span` at `rate`, rounded down.
    pub(super) fn packets_in(&self, span: Duration, rate: Rate) -> u64 {
        self.whole_packets(rate.bytes_in(span))
    }

    /// Typical packets per second at `rate`.
    pub(super) fn per_second(&self, rate: Rate) -> f64 {
        real(rate.bps()) / (8.0 * real(self.packet.0))
    }

    /// The limit of a queue that is configured as `bytes`, as a number of bytes or packets.
    pub(super) fn limit(&self, bytes: Bytes) -> QueueLimit {
        match self.measure {
            Measure::Bytes => QueueLimit { bytes, packets: u32::MAX },
            Measure::Packets => {
                let packets = u32::try_from(self.whole_packets(bytes)).unwrap_or(u32::MAX);
                QueueLimit { bytes: Bytes(u64::MAX), packets }
            }
        }
    }

    /// Returns `true` if the queue is so short that the link would idle after a drop.
    ///
    /// Source: ns-2.35, `queue/red.cc` (drops only above a length of 1, in packets or in bytes).
    pub(super) const fn is_short(&self, waiting: Backlog) -> bool {
        match self.measure {
            Measure::Bytes => waiting.packets == 0,
            Measure::Packets => waiting.packets <= 1,
        }
    }
}
