//! The LAN host of each flow, for queues that share the rate between hosts.
//!
//! The map has two steps, because a host may have several addresses: from a flow to an address, and
//! from an address to a host. If an address moves to another host, all flows of the address move
//! too.

use super::{FlowId, make_room, slot};

/// A host of the LAN, as an index from zero.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Host(pub u32);

impl Host {
    /// The host of flows whose host is not known.
    pub const UNKNOWN: Self = Self(0);
}

/// A map from flows to hosts.
#[derive(Clone, Debug, Default)]
pub struct FlowHosts {
    flows: Vec<Entry>,
    /// Hosts by address index.
    hosts: Vec<Host>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Index of the address. [`NONE`] if it is not known.
    address: u32,
    /// By direction of the flow's data: ACK control holds the ACKs of this data, so no queue may
    /// merge or drop them.
    whole_acks: [bool; 2],
}

const NONE: u32 = u32::MAX;
const UNKNOWN: Entry = Entry { address: NONE, whole_acks: [false; 2] };

impl FlowHosts {
    /// The host of `flow`.
    #[inline]
    #[must_use]
    pub fn of(&self, flow: FlowId) -> Host {
        let address = self.flows.get(slot(flow.0)).map_or(NONE, |entry| entry.address);
        self.hosts.get(slot(address)).copied().unwrap_or(Host::UNKNOWN)
    }

    /// Index of the address of `flow`, if it is known.
    #[inline]
    pub fn address(&self, flow: FlowId) -> Option<u32> {
        let entry = self.flows.get(slot(flow.0))?;
        (entry.address != NONE).then_some(entry.address)
    }

    /// Sets the address of `flow`. `None` removes all data about the flow.
    #[inline]
    pub fn set_address(&mut self, flow: FlowId, address: Option<u32>) {
        make_room(&mut self.flows, slot(flow.0), UNKNOWN);
        let entry = &mut self.flows[slot(flow.0)];
        *entry = match address {
            Some(address) => Entry { address, ..*entry },
            None => UNKNOWN,
        };
    }

    /// Sets the host of an address.
    #[inline]
    pub fn set_host(&mut self, address: u32, host: Host) {
        make_room(&mut self.hosts, slot(address), Host::UNKNOWN);
        self.hosts[slot(address)] = host;
    }

    /// Returns `true` if no ACK of `flow` may be dropped as redundant.
    #[inline]
    #[must_use]
    pub fn keeps_acks(&self, flow: FlowId) -> bool {
        self.flows.get(slot(flow.0)).is_some_and(|entry| entry.whole_acks != [false; 2])
    }

    /// Sets whether the gateway holds the ACKs for data of `flow` in `direction` (ACK control).
    /// Such ACKs must not be dropped.
    #[inline]
    pub fn keep_acks(&mut self, flow: FlowId, direction: super::Direction, keep: bool) {
        if keep || self.keeps_acks(flow) {
            make_room(&mut self.flows, slot(flow.0), UNKNOWN);
            self.flows[slot(flow.0)].whole_acks[direction.index()] = keep;
        }
    }
}
