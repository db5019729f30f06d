//! A short list of flows for the operator: their senders send more data than their ACKs permit, so ACK control cannot slow
//! them down.

use tidegate_core::packet::{Direction, FlowId};

/// At most [`NAMED`] flows whose senders did not respond to their ACKs at the arrival of their
/// newest data.
#[derive(Default)]
pub(super) struct Unresponsive(Vec<(FlowId, Direction)>);

/// Number of named flows. An operator stops the first flow and then looks for further ones.
const NAMED: usize = 8;

impl Unresponsive {
    /// Adds a flow. The oldest one is removed if there are too many.
    pub(super) fn note(&mut self, flow: FlowId, direction: Direction) {
        if self.0.contains(&(flow, direction)) {
            return;
        }
        if self.0.len() == NAMED {
            self.0.remove(0);
        }
        self.0.push((flow, direction));
    }

    /// Removes the flow that had the index `id`. Another flow may get this index.
    pub(super) fn forget(&mut self, id: FlowId) {
        self.0.retain(|(flow, _)| *flow != id);
    }

    /// The flows, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FlowId, Direction)> {
        self.0.iter().copied()
    }
}
