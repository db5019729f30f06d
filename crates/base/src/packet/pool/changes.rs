//! Records which flows gained or lost a packet in the pool.
//!
//! This file has methods of `PacketPool`, whose fields are in `pool.rs`.

use super::{PacketId, PacketPool};
use crate::packet::FlowId;

/// A change of a flow's number of packets in the pool, by one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlowChange {
    /// A packet of the flow was made as a copy of another packet.
    Made(FlowId),
    /// A packet of the flow was released, or was removed from the flow.
    Released(FlowId),
}

impl PacketPool {
    /// Begins to record [changes](Self::flow_change).
    pub fn count_flows(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// Removes a packet from its flow. This is recorded as if the packet had been released.
    #[inline]
    pub fn remove_from_flow(&mut self, id: &PacketId) {
        let flow = std::mem::take(&mut self[id].flow);
        if let Some(changes) = &mut self.changes
            && flow != FlowId::NONE
        {
            changes.push(FlowChange::Released(flow));
        }
    }

    /// Takes one of the recorded changes. `None` if all are taken.
    #[inline]
    #[must_use]
    pub fn flow_change(&mut self) -> Option<FlowChange> {
        self.changes.as_mut()?.pop()
    }
}
