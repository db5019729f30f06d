//! Moves packets of untracked flows to the classes of the policies in force, a few in each step.
//!
//! A swap of policies changes the class of waiting packets. A tracked flow moves to its new class with its next packet.
//! Untracked flows have no table entry, so a swap has to look at each of their packets:
//!
//! ```text
//! gather:  newest packet of a class -> front of the list;  packets of trunks -> end of the list
//! return:  front of the list -> class of the policy in force
//! ```
//!
//! The packets of a flow keep their order. Packets that still wait in a class are older than all packets of the list,
//! so they may depart in the meantime. The list is complete before its first packet returns.
//!
//! This file contains methods of `Egress`, whose fields are in `egress.rs`.

use tidegate_core::PacketId;
use tidegate_core::class::ClassId;
use tidegate_core::packet::Kind;

use super::{Egress, Upstream};
use crate::gateway::sorter::PER_STEP;

impl Egress {
    /// Gathers up to [`PER_STEP`] packets of untracked flows from class `nth`. Returns `true` if there may be more, and
    /// `None` if class `nth` does not exist.
    pub(in crate::gateway) fn gather(&mut self, up: &mut Upstream<'_>, nth: u32) -> Option<bool> {
        self.link.gather(&mut up.cx, nth)
    }

    /// Returns up to [`PER_STEP`] gathered packets to the classes of the policies in force. Returns `false` if no packets
    /// are left. Other packets then no longer wait behind them.
    pub(in crate::gateway) fn return_gathered(&mut self, up: &mut Upstream<'_>) -> bool {
        for _ in 0..PER_STEP {
            let Some(packet) = self.link.next_gathered(&mut up.cx) else { return false };
            let leaf = self.leaf_in_force(up, &packet.0);
            self.link.put_back(&mut up.cx, leaf, packet);
        }
        true
    }

    /// The class of a gathered packet under the policies in force. A packet that a trunk made stays in its class, if
    /// that class still exists.
    fn leaf_in_force(&self, up: &Upstream<'_>, packet: &PacketId) -> ClassId {
        if up.cx.pool[packet].kind == Kind::Made {
            let leaf = ClassId(up.cx.pool[packet].queue_index.0);
            let exists = self.link.classes().is_some_and(|classes| classes.contains(leaf));
            return if exists { leaf } else { self.link.leaf(None) };
        }
        let policies = up.sorter.policies();
        let policy = up.sorter.lookup(up.cx.pool, packet, self.direction);
        let policy = policy.and_then(|policy| policies.get(policy));
        let class = policy.and_then(|policy| self.link.class(policy.class.as_deref()?));
        self.link.leaf(class)
    }
}
