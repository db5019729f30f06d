//! How long a queue is: in packets, or in bytes that count as packets of a typical size.

use std::time::Duration;

use serde::Deserialize;

use super::Backlog;
use super::managed::Limit;
use crate::units::real;
use crate::{Bytes, Packet, Rate};

/// What the length of a queue counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Bytes, so that a short packet is less than a long one.
    #[default]
    Bytes,
    /// Packets, however long.
    Packets,
}

/// Lengths of one queue, in packets of a typical size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruler {
    measure: Measure,
    packet: Bytes,
}

impl Ruler {
    /// A ruler for packets that are typically this long.
    pub(super) fn new(measure: Measure, packet: Bytes) -> Self {
        Self { measure, packet: packet.max(Bytes(1)) }
    }

    /// So many bytes.
    pub(super) fn packets(&self, bytes: Bytes) -> f64 {
        real(bytes.0) / real(self.packet.0)
    }

    /// What waits.
    pub(super) fn length(&self, waiting: Backlog) -> f64 {
        match self.measure {
            Measure::Bytes => self.packets(waiting.bytes),
            Measure::Packets => f64::from(waiting.packets),
        }
    }

    /// A packet, relative to a typical one.
    pub(super) fn size(&self, packet: &Packet) -> f64 {
        self.packets(packet.frame_len())
    }

    /// The typical packets of `bytes`, rounded down.
    pub(super) const fn whole_packets(&self, bytes: Bytes) -> u64 {
        bytes.0 / self.packet.0
    }

    /// The typical packets that go in `span` at `rate`, rounded down.
    pub(super) fn packets_in(&self, span: Duration, rate: Rate) -> u64 {
        self.whole_packets(rate.bytes_in(span))
    }

    /// The typical packets of a second at `rate`.
    pub(super) fn per_second(&self, rate: Rate) -> f64 {
        real(rate.bps()) / (8.0 * real(self.packet.0))
    }

    /// Room for `bytes`, or for as many packets as that are.
    pub(super) fn limit(&self, bytes: Bytes) -> Limit {
        match self.measure {
            Measure::Bytes => Limit { bytes, packets: u32::MAX },
            Measure::Packets => {
                let packets = u32::try_from(self.whole_packets(bytes)).unwrap_or(u32::MAX);
                Limit { bytes: Bytes(u64::MAX), packets }
            }
        }
    }

    /// Whether so little waits that a packet should not be dropped early: the link would run dry.
    ///
    /// Source: ns-2.35, `queue/red.cc` (a length above 1, whether of packets or bytes).
    pub(super) const fn is_short(&self, waiting: Backlog) -> bool {
        match self.measure {
            Measure::Bytes => waiting.packets == 0,
            Measure::Packets => waiting.packets <= 1,
        }
    }
}
