//! Changes of the numbers of packets of flows.
//!
//! Methods of `PacketPool`, whose fields are in `pool.rs`.

use super::PacketPool;
use crate::packet::FlowId;

/// The number of packets of a flow has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlowChange {
    /// A packet was made from another packet of the flow.
    Made(FlowId),
    /// A packet of the flow was released.
    Released(FlowId),
}

impl PacketPool {
    /// Begins to record the [changes](Self::flow_change) of the numbers of packets of flows.
    pub fn count_flows(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// A change of the number of packets of a flow that was not returned yet: a packet made from another
    /// packet, or a packet released.
    #[inline]
    #[must_use]
    pub fn flow_change(&mut self) -> Option<FlowChange> {
        self.changes.as_mut()?.pop()
    }
}
