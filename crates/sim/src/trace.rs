//! The fingerprint of a run. It is equal for two runs if every packet arrived everywhere at the
//! same times.

use tidegate_core::packet::Ecn;
use tidegate_core::{Packet, Time};

/// Distinguishes the packets of a flow. It is stored beside the packet, so a hop reads
/// as little of the descriptor as possible.
pub(crate) fn numbers(packet: &Packet) -> u64 {
    packet.tcp.map_or(0, |tcp| u64::from(tcp.seq) << 32 | u64::from(tcp.ack))
}

/// A hash over all arrivals so far, in order.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Trace(u64);

impl Trace {
    /// Adds the arrival over link `way` of `packet`, with these [`numbers`] and for end point
    /// `end`.
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

    /// Source: doi 10.1145/2714064.2660195 (the multiplier of SplitMix64's first step).
    #[inline]
    const fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = mixed ^ (mixed >> 29);
    }
}
