//! Moves packets from the queue of a class, for another class or another flow index.
//!
//! Methods of `Classes`, whose fields are in `classes.rs`.

use super::{Classes, marking};
use tidegate_core::ack::Waiting;
use tidegate_core::class::ClassId;
use tidegate_core::packet::{FlowId, Handover};
use tidegate_core::{Cx, PacketId, PacketPool};

impl Classes {
    /// Moves the backlog of `flow` to another leaf class.
    pub(in crate::gateway) fn move_flow(
        &mut self,
        cx: &mut Cx<'_>,
        flow: FlowId,
        from: ClassId,
        to: ClassId,
    ) {
        while let Some(packet) = self.withdraw(cx, from, |queue, cx| queue.dequeue_flow(cx, flow)) {
            self.enqueue(cx, to, packet);
        }
    }

    /// Hands packets at a leaf class over to another queue index. Returns `true` if there were any.
    pub(in crate::gateway) fn hand_over(
        &mut self,
        pool: &mut PacketPool,
        leaf: ClassId,
        what: &mut Handover<'_>,
    ) -> bool {
        let queue = self.lines.get_mut(leaf.index()).and_then(|line| line.queue.as_mut());
        queue.is_some_and(|queue| queue.hand_over(pool, what))
    }

    /// Removes the newest packet of untracked flows from class `from`.
    pub(in crate::gateway) fn withdraw_newest_untracked(
        &mut self,
        cx: &mut Cx<'_>,
        from: ClassId,
    ) -> Option<PacketId> {
        self.withdraw(cx, from, Waiting::dequeue_newest_untracked)
    }

    /// Returns `true` if the number of the class is in use, or was.
    pub(in crate::gateway) const fn contains(&self, id: ClassId) -> bool {
        id.index() < self.lines.len()
    }

    /// Removes the packet that `take` removes from the queue of class `from`, for another class.
    fn withdraw(
        &mut self,
        cx: &mut Cx<'_>,
        from: ClassId,
        take: impl FnOnce(&mut Waiting, &mut Cx<'_>) -> Option<PacketId>,
    ) -> Option<PacketId> {
        let packet =
            marking::withdraw(cx, &mut self.lines, &mut *self.scheduler, from.index(), take)?;
        let old = &mut self.lines[from.index()];
        old.arrived = old.arrived.saturating_sub(1);
        Some(packet)
    }
}
