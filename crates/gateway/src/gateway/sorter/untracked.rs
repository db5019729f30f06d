//! Packets of untracked flows that wait during a swap of policies, until all older packets are in the same
//! list.
//!
//! An untracked flow has no table entry, so nothing else keeps its packets in order when their aggregate changes. From
//! the moment at which the new policies are in force, arriving packets of untracked flows are appended to this list.
//! The swap puts the packets of each aggregate before them, the newest first. When all packets of untracked flows are
//! in the list, the swap offers them to the policies in force, the oldest first.
//!
//! This file contains methods of `Sorter`, whose fields are in `sorter.rs`.

use super::Sorter;
use tidegate_core::packet::{Direction, Facts, Fifo, QueueIndex};
use tidegate_core::{Cx, Packet, PacketId, PacketPool, Reason};

/// Most packets of untracked flows that one step of a swap moves. A packet takes a look-up of its policy, so a step takes
/// about as long as one that adds a class.
pub(in crate::gateway) const PER_STEP: u32 = 32;

/// The origin of a held packet that no aggregate has counted.
pub(in crate::gateway) const NOT_OFFERED: QueueIndex = QueueIndex(u32::MAX);

/// Packets of untracked flows during a swap. While a packet waits here, its queue index is its origin: the slot of the
/// aggregate that has counted it as offered, or [`NOT_OFFERED`].
#[derive(Debug, Default)]
pub(super) struct HeldUntracked {
    /// Number of packets of untracked flows in the gateway, wherever they wait.
    inside: u32,
    /// `true` if arriving packets of untracked flows must wait.
    holds: bool,
    /// The waiting packets by direction, in the order of arrival.
    waiting: [Fifo; 2],
}

impl Sorter {
    /// Lets arriving packets of untracked flows wait from now on.
    pub(in crate::gateway) const fn begin_holding(&mut self) {
        self.change.untracked.holds = true;
    }

    /// Ends the wait: arriving packets of untracked flows pass again.
    pub(in crate::gateway) const fn end_holding(&mut self) {
        self.change.untracked.holds = false;
    }

    /// Returns `true` if arriving packets of untracked flows wait.
    pub(in crate::gateway) const fn is_holding(&self) -> bool {
        self.change.untracked.holds
    }

    /// Counts an arriving packet of an untracked flow.
    #[cold]
    pub(in crate::gateway) fn count_untracked(&mut self, packet: &mut Packet) {
        packet.facts = packet.facts.with(Facts::UNTRACKED, true);
        self.change.untracked.inside += 1;
    }

    /// Counts packets that were released, or whose flow has got a table entry.
    pub(in crate::gateway) const fn count_untracked_released(&mut self, packets: u32) {
        let inside = &mut self.change.untracked.inside;
        *inside = inside.saturating_sub(packets);
    }

    /// Returns `true` if no flow may get a table entry. The flow may have older packets that the swap moves, and later
    /// packets of a tracked flow do not wait for them.
    pub(in crate::gateway) const fn refuses_flows(&self) -> bool {
        self.change.untracked.holds && self.change.untracked.inside > 0
    }

    /// Number of packets that wait.
    pub(in crate::gateway) fn held(&self) -> u32 {
        self.change.untracked.waiting.iter().map(Fifo::packets).sum()
    }

    /// Appends an arriving packet.
    ///
    /// If buffers are scarce, the packet is dropped unless none waits in its direction. This leaves buffers
    /// for tracked flows and for the other direction.
    #[cold]
    pub(in crate::gateway) fn hold(&mut self, cx: &mut Cx<'_>, direction: Direction, id: PacketId) {
        cx.pool[&id].queue_index = NOT_OFFERED;
        let waiting = &mut self.change.untracked.waiting[direction.index()];
        if cx.pool.is_scarce() && waiting.packets() > 0 {
            cx.drop(id, Reason::NoBuffer);
        } else {
            waiting.push(cx.pool, id);
        }
    }

    /// Puts a packet of the aggregate in `slot` before all others, which are younger.
    pub(in crate::gateway) fn hold_first(
        &mut self,
        pool: &mut PacketPool,
        direction: Direction,
        slot: u32,
        id: PacketId,
    ) {
        pool[&id].queue_index = QueueIndex(slot);
        self.change.untracked.waiting[direction.index()].push_front(pool, id);
    }

    /// Removes the oldest packet of `direction`.
    pub(in crate::gateway) fn next_held(
        &mut self,
        pool: &PacketPool,
        direction: Direction,
    ) -> Option<PacketId> {
        self.change.untracked.waiting[direction.index()].pop(pool)
    }
}
