//! The packets of untracked flows that a swap of policies has gathered from the classes: see `egress/untracked.rs`.
//!
//! This file contains methods of `AccessLink`, whose fields are in `link.rs`.

use tidegate_core::class::ClassId;
use tidegate_core::packet::{Fifo, FlowId, QueueIndex};
use tidegate_core::{Cx, Packet, PacketId};

use super::AccessLink;
use crate::gateway::sorter::PER_STEP;

/// Packets of untracked flows that wait outside of the classes during a swap, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// `true` from the first step in which the swap gathers packets to the last step in which it returns
    /// them.
    holds: bool,
    /// The queue index of each packet is the number of its class before the swap.
    waiting: Fifo,
    /// Number of packets that waited in their class. They are the first of the list.
    withdrawn: u32,
}

/// A gathered packet, and the class in which it waited. `None` if it has not yet entered a class.
pub(in crate::gateway) type GatheredPacket = (PacketId, Option<ClassId>);

impl AccessLink {
    /// Packets of untracked flows that wait outside of the classes.
    pub(in crate::gateway) const fn gathered(&self) -> &Fifo {
        &self.gathered.waiting
    }

    /// Returns `true` if `packet` must wait behind the gathered packets.
    pub(in crate::gateway) fn holds_back(&self, packet: &Packet) -> bool {
        self.gathered.holds && packet.flow == FlowId::NONE
    }

    /// Appends `packet`, which would enter class `leaf`, to the gathered packets.
    pub(in crate::gateway) fn hold(&mut self, cx: &mut Cx<'_>, leaf: ClassId, packet: PacketId) {
        cx.pool[&packet].queue_index = QueueIndex(leaf.0);
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
            cx.pool[&packet].queue_index = QueueIndex(nth);
            newest.push(cx.pool, packet);
        }
        let more = newest.packets() == PER_STEP;
        self.gathered.holds = true;
        self.gathered.withdrawn += newest.packets();
        while let Some(packet) = newest.pop(cx.pool) {
            self.gathered.waiting.push_front(cx.pool, packet);
        }
        Some(more)
    }

    /// Puts a gathered packet into class `leaf`. The packet is not dropped for lack of buffers, because it
    /// has a buffer.
    pub(in crate::gateway) fn put_back(
        &mut self,
        cx: &mut Cx<'_>,
        leaf: ClassId,
        (packet, before): GatheredPacket,
    ) {
        cx.pool[&packet].queue_index = QueueIndex::at_egress(cx.pool[&packet].flow);
        match self.classes_mut() {
            Some(classes) if before == Some(leaf) => classes.put_back(cx, leaf, packet),
            Some(classes) => classes.enqueue(cx, leaf, packet),
            None => self.push(cx, leaf, packet),
        }
    }

    /// Removes the oldest gathered packet. If no gathered packet is left, later packets no longer wait.
    pub(in crate::gateway) fn next_gathered(&mut self, cx: &mut Cx<'_>) -> Option<GatheredPacket> {
        let Some(packet) = self.gathered.waiting.pop(cx.pool) else {
            self.gathered = Gathered::default();
            return None;
        };
        let waited = self.gathered.withdrawn > 0;
        self.gathered.withdrawn = self.gathered.withdrawn.saturating_sub(1);
        let before = waited.then(|| ClassId(cx.pool[&packet].queue_index.0));
        Some((packet, before))
    }
}
