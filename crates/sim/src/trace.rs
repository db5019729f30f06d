//! The fingerprint of a run. Two runs have the same fingerprint if every packet arrived at the same
//! places at the same times.

use tidegate_core::packet::Ecn;
use tidegate_core::{Packet, Time};

/// Sequence and acknowledgement number, which identify a packet within its flow. The simulator
/// stores them in the packet's tag, so that a hop need not read the packet's descriptor.
pub(crate) fn numbers(packet: &Packet) -> u64 {
    packet.tcp.map_or(0, |tcp| u64::from(tcp.seq) << 32 | u64::from(tcp.ack))
}

/// A hash over all arrivals so far, in order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Trace(u64);

impl Trace {
    /// Adds an arrival over link direction `way`. `end` is the receiver's number; `numbers` are the
    /// packet's [`numbers`].
    #[inline]
    pub(crate) fn note(&mut self, now: Time, way: u32, end: u32, numbers: u64, packet: &Packet) {
        let place = u64::from(way) << 32 | u64::from(end);
        let length = u64::from(packet.len) << 1 | u64::from(packet.ecn == Ecn::Ce);
        self.add(now.nanos());
        self.add(place);
        self.add(numbers);
        self.add(length);
    }

    /// The final hash.
    pub(crate) const fn fingerprint(self) -> u64 {
        self.0
    }

    /// One step of the hash. Source: doi 10.1145/2714064.2660195 (the multiplier of SplitMix64's
    /// first step).
    #[inline]
    const fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = mixed ^ (mixed >> 29);
    }
}
