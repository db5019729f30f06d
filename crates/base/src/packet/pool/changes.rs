//! Changes of the numbers of packets of flows.
//!
//! Methods of `PacketPool`, whose fields are in `pool.rs`.

use super::{PacketId, PacketPool};
use crate::packet::FlowId;

/// The number of packets of a flow has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlowChange {
    /// A packet was made from another packet of the flow.
    Made(FlowId),
    /// A packet of the flow was released, or left the flow.
    Released(FlowId),
}

impl PacketPool {
    /// Begins to record the [changes](Self::flow_change) of the numbers of packets of flows.
    pub fn count_flows(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// Takes a packet out of its flow, as if it had been released.
    #[inline]
    pub fn leave_flow(&mut self, id: &PacketId) {
        let flow = std::mem::take(&mut self[id].flow);
        if let Some(changes) = &mut self.changes
            && flow != FlowId::NONE
        {
            changes.push(FlowChange::Released(flow));
        }
    }

    /// A change of the number of packets of a flow that was not returned yet: a packet made from another
    /// packet, or a packet released.
    #[inline]
    #[must_use]
    pub fn flow_change(&mut self) -> Option<FlowChange> {
        self.changes.as_mut()?.pop()
    }
}
