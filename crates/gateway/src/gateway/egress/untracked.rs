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
//! Methods of `Egress`, whose fields are in `egress.rs`, and of `AccessLink`, whose fields are in `link.rs`.

use super::link::AccessLink;
use super::{Egress, Upstream};
use crate::gateway::sorter::PER_STEP;
use tidegate_core::class::ClassId;
use tidegate_core::packet::{Fifo, FlowId};
use tidegate_core::{Cx, Packet, PacketId};

/// Packets of untracked flows that wait outside of the classes during a swap, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The swap is between its first step of gathering and its last step of returning.
    holds: bool,
    waiting: Fifo,
}

impl AccessLink {
    /// Packets of untracked flows that wait outside of the classes.
    pub(in crate::gateway) const fn gathered(&self) -> &Fifo {
        &self.gathered.waiting
    }

    /// Returns `true` if `packet` must wait behind the gathered packets.
    pub(in crate::gateway) fn holds_back(&self, packet: &Packet) -> bool {
        self.gathered.holds && packet.flow == FlowId::NONE
    }

    /// Appends `packet` to the gathered packets.
    pub(in crate::gateway) fn hold(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.gathered.waiting.push(cx.pool, packet);
    }

    /// Removes all gathered packets.
    pub(in crate::gateway) fn take_gathered(&mut self) -> Fifo {
        std::mem::take(&mut self.gathered).waiting
    }

    /// Gathers up to [`PER_STEP`] packets of untracked flows from class `nth`. Returns `true` if there may be more, and
    /// `None` if class `nth` does not exist.
    pub(in crate::gateway) fn gather(&mut self, cx: &mut Cx<'_>, nth: u32) -> Option<bool> {
        let (classes, id) = (self.classes_mut()?, ClassId(nth));
        if !classes.contains(id) {
            return None;
        }
        let mut newest = Fifo::new();
        while newest.packets() < PER_STEP
            && let Some(packet) = classes.withdraw_newest_untracked(cx, id)
        {
            newest.push(cx.pool, packet);
        }
        let more = newest.packets() == PER_STEP;
        self.gathered.holds = true;
        while let Some(packet) = newest.pop(cx.pool) {
            self.gathered.waiting.push_front(cx.pool, packet);
        }
        Some(more)
    }
}

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
            let policies = up.sorter.policies();
            let policy = up.sorter.lookup(up.cx.pool, &packet, self.direction);
            let policy = policy.and_then(|policy| policies.get(policy));
            let class = policy.and_then(|policy| self.link.class(policy.class.as_deref()?));
            let leaf = self.link.leaf(class);
            self.link.put_back(&mut up.cx, leaf, packet);
        }
        true
    }
}

impl AccessLink {
    /// Puts a gathered packet into class `leaf`. Nothing is dropped for want of buffers, since the packet has one.
    fn put_back(&mut self, cx: &mut Cx<'_>, leaf: ClassId, packet: PacketId) {
        match self.classes_mut() {
            Some(classes) => classes.enqueue(cx, leaf, packet),
            None => self.push(cx, leaf, packet),
        }
    }

    /// Removes the oldest gathered packet. If there is none, packets no longer wait behind it.
    fn next_gathered(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let packet = self.gathered.waiting.pop(cx.pool);
        self.gathered.holds &= packet.is_some();
        packet
    }
}
