//! Connections that were opened a moment ago, found by their addresses and ports without the VLAN.
//!
//! Some networks tag the two directions of a connection differently. The answer to a SYN then belongs to no
//! flow of its VLAN. The flow of the SYN is looked up here and [joined](super::FlowTable::join).
//!
//! The list is an array of fixed size. A hash of addresses and ports is the index of a SYN, so each SYN costs one write.
//! A SYN replaces an older one with the same index. The two directions of that older connection then remain two flows.

use crate::packet::FlowId;

/// The newest SYNs.
#[derive(Debug)]
pub(super) struct Openings {
    places: Vec<Opening>,
}

/// A SYN without an answer.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// Hash of addresses and ports, without the VLAN.
    hash: u64,
    /// The flow of the SYN; [`FlowId::NONE`] if SYNs with these addresses and ports arrived under two VLAN tags.
    flow: FlowId,
    /// The sequence number after the SYN, without its data.
    number: u32,
    /// Arrival of the SYN, in [`ticks`](super::ticks).
    seen: u32,
}

impl Openings {
    /// An empty list.
    pub(super) fn new() -> Self {
        let empty = Opening { hash: 0, flow: FlowId::NONE, number: 0, seen: 0 };
        Self { places: vec![empty; PLACES] }
    }

    /// Adds `flow`, opened by a SYN before sequence number `number` that arrived at `now`, in
    /// [`ticks`](super::ticks).
    ///
    /// `is_rival` returns `true` for a flow of the same addresses and ports under another VLAN tag. Then neither
    /// flow can be found for `memory` ticks.
    pub(super) fn add(
        &mut self,
        hash: u64,
        (flow, number): (FlowId, u32),
        (now, memory): (u32, u32),
        is_rival: impl Fn(FlowId) -> bool,
    ) {
        let place = &mut self.places[place_of(hash)];
        let recent = place.hash == hash && now.wrapping_sub(place.seen) < memory;
        let contested = recent && (place.flow == FlowId::NONE || is_rival(place.flow));
        let flow = if contested { FlowId::NONE } else { flow };
        *place = Opening { hash, flow, number, seen: now };
    }

    /// The flow of the SYN with this hash and the sequence number after the SYN, if there is exactly one.
    pub(super) fn find(&self, hash: u64) -> Option<(FlowId, u32)> {
        let place = &self.places[place_of(hash)];
        (place.hash == hash && place.flow != FlowId::NONE).then_some((place.flow, place.number))
    }
}

fn place_of(hash: u64) -> usize {
    usize::try_from(hash % PLACES_IN_HASH).unwrap_or(0)
}

/// Number of SYNs in the list: enough for 40,000 new connections per second with a round-trip time of 100 ms.
const PLACES: usize = 4_096;
const PLACES_IN_HASH: u64 = 4_096;
