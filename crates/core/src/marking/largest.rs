//! A binary tree that finds the flow with the largest window among the flows that may be marked.
//!
//! The windows of all flows are the leaves of the tree. Each inner node holds the larger of its two children, so the root
//! is the largest. A change takes one step per level: ten steps with 1,000 flows.

use crate::packet::{number, slot};

/// Windows of flows, by flow number.
pub(super) struct Largest {
    /// The root is node 1, and node `n` has the children `2 n` and `2 n + 1`. The second half of the list are the
    /// leaves.
    nodes: Vec<WindowNode>,
}

/// A window in bytes, and the flow that it belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct WindowNode {
    window: u32,
    flow: u32,
}

impl Largest {
    /// No windows.
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Sets the window of `flow`. Zero means that the flow may not be marked.
    pub(super) fn set(&mut self, flow: u32, window: u32) {
        if slot(flow) >= self.nodes.len() / 2 {
            self.grow(slot(flow) + 1);
        }
        let mut at = self.nodes.len() / 2 + slot(flow);
        let mut new = WindowNode { window, flow };
        while self.nodes[at] != new {
            self.nodes[at] = new;
            if at == 1 {
                break;
            }
            let beside = self.nodes[at ^ 1];
            new = if beside.window > new.window { beside } else { new };
            at /= 2;
        }
    }

    /// The flow with the largest window. `None` if all windows are zero.
    pub(super) fn flow(&self) -> Option<u32> {
        self.nodes.get(1).filter(|root| root.window > 0).map(|root| root.flow)
    }

    /// Grows the tree to at least `flows` leaves.
    #[cold]
    fn grow(&mut self, flows: usize) {
        let old = std::mem::take(&mut self.nodes);
        let leaves = flows.next_power_of_two();
        self.nodes = vec![WindowNode::default(); 2 * leaves];
        let windows = old.iter().skip(old.len() / 2).map(|leaf| leaf.window);
        for (flow, window) in windows.enumerate() {
            self.set(number(flow), window);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Catches: an update that ends before the root although the largest window changes; a node
        /// with the smaller of its two windows; windows that are lost when the tree grows; a flow
        /// with the window zero as the largest.
        #[test]
        fn the_largest_window_agrees_with_a_search(
            changes in prop::collection::vec((0u32..70, prop_oneof![Just(0), 0u32..50]), 1..300),
        ) {
            let (mut largest, mut all) = (Largest::new(), BTreeMap::new());
            for (flow, window) in changes {
                largest.set(flow, window);
                all.insert(flow, window);
                let most = all.values().copied().max().filter(|window| *window > 0);
                prop_assert_eq!(largest.flow().map(|flow| all[&flow]), most);
            }
        }
    }
}
