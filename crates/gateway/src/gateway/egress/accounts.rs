//! ACK control at an egress: an account for each bottleneck, which counts the bytes that its aggregates have
//! requested from senders, and the turns of these aggregates.
//!
//! Events only note work: an aggregate that may release ACKs, or a bottleneck whose queue has room.
//! The gateway drains both lists at the end of a call. The released ACKs may note further work, but
//! never release ACKs themselves, so the depth of calls is bounded.
//!
//! This file contains methods of `Egress`, whose fields are in `egress.rs`.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::ack::{CreditAccount, EgressGates, EgressState};
use tidegate_core::class::ClassId;
use tidegate_core::packet::{FlowId, make_room};
use tidegate_core::{Packet, PacketPool, Rate};

use super::{AccessLink, Egress, EgressRoute, TrunkId, Trunks};

/// The queue at which an aggregate's packets wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::gateway) enum EgressQueue {
    /// The tunnel queue of a trunk.
    Trunk(TrunkId),
    /// A leaf class of the link.
    Leaf(ClassId),
}

impl Egress {
    /// The bottleneck on `route`.
    pub(in crate::gateway) fn bottleneck(&self, route: EgressRoute) -> EgressQueue {
        let leaf = || self.link.leaf(route.class);
        route.trunk.map_or_else(|| EgressQueue::Leaf(leaf()), EgressQueue::Trunk)
    }

    /// Index of an account: trunks come before leaf classes.
    fn account(&self, at: EgressQueue) -> usize {
        match at {
            EgressQueue::Trunk(id) => id.index(),
            EgressQueue::Leaf(leaf) => {
                leaf.index() + self.trunks.as_ref().map_or(0, |trunks| trunks.len())
            }
        }
    }

    /// State of a bottleneck, for an aggregate that did not wait for its turn.
    pub(in crate::gateway) fn ahead(&self, at: EgressQueue) -> EgressState {
        let queue = queue_at(at, &self.link, self.trunks.as_deref(), self.poll_interval);
        self.accounts.complete(self.account(at), queue)
    }

    /// The aggregate whose turn it is at a bottleneck, and the state of the bottleneck with the
    /// room for its requests. `None` without room.
    pub(in crate::gateway) fn next_turn(&mut self, at: EgressQueue) -> Option<(u32, EgressState)> {
        let account = self.account(at);
        let (link, trunks, poll_interval) =
            (&self.link, self.trunks.as_deref(), self.poll_interval);
        let turn = self.accounts.turn(account, || queue_at(at, link, trunks, poll_interval));
        let (slot, room) = turn?;
        Some((slot, EgressState { room, ..self.ahead(at) }))
    }

    /// Notes the account that the aggregate in `slot` reports. Its bottleneck has this egress `rate`.
    pub(in crate::gateway) fn note_report(
        &mut self,
        at: EgressQueue,
        slot: u32,
        report: CreditAccount,
        rate: Option<Rate>,
    ) {
        let account = self.account(at);
        self.accounts.note(account, slot, report, rate);
    }

    /// Closes all accounts. The aggregates must repeat their requests, because their routes may have changed.
    pub(in crate::gateway) fn close_accounts(&mut self) {
        self.accounts = EgressGates::default();
        self.room = WorkList::default();
    }

    /// Notes that packets of ACK-controlled flows departed from a bottleneck, so its queue has room.
    pub(in crate::gateway) fn made_room(&mut self, at: EgressQueue) {
        if self.accounts.is_waited_for() {
            self.room.note(self.account(at), at);
        }
    }

    /// Returns `true` if the departure of `packet` makes room for which an aggregate may wait.
    #[inline]
    pub(in crate::gateway) fn makes_room(&self, packet: &Packet) -> bool {
        self.accounts.is_waited_for() && packet.is_controlled()
    }

    /// The sender of `flow` no longer responds to ACKs. Its packets at a bottleneck hold back no ACK of other flows
    /// any more.
    pub(in crate::gateway) fn end_ack_control(
        &mut self,
        at: EgressQueue,
        pool: &mut PacketPool,
        flow: FlowId,
    ) {
        match (at, &mut self.trunks) {
            (EgressQueue::Leaf(leaf), _) => self.link.end_ack_control(leaf, pool, flow),
            (EgressQueue::Trunk(id), Some(trunks)) => trunks.end_ack_control(id, pool, flow),
            (EgressQueue::Trunk(_), None) => {}
        }
        self.made_room(at);
    }

    /// Notes that the aggregate in `slot` may release ACKs.
    pub(in crate::gateway) fn may_release(&mut self, slot: u32) {
        self.releases.note(tidegate_core::packet::slot(slot), slot);
    }

    /// Returns `true` if ACKs may be released.
    #[inline]
    pub(in crate::gateway) fn has_work(&self) -> bool {
        !(self.releases.is_empty() && self.room.is_empty())
    }

    /// The next aggregate that may release ACKs. Call this until it returns `None`.
    pub(in crate::gateway) fn next_release(&mut self) -> Option<u32> {
        self.releases.next()
    }

    /// The next bottleneck whose queue has room. Call this until it returns `None`.
    pub(in crate::gateway) fn next_with_room(&mut self) -> Option<EgressQueue> {
        self.room.next()
    }
}

/// A work list, which contains each item at most once, however often the item was noted.
pub(super) struct WorkList<T> {
    due: VecDeque<(usize, T)>,
    /// `true` for each item in the list, by index of the item.
    noted: Vec<bool>,
}

impl<T> Default for WorkList<T> {
    fn default() -> Self {
        Self { due: VecDeque::new(), noted: Vec::new() }
    }
}

impl<T> WorkList<T> {
    /// Adds `item`, which has this index, unless the list contains the item.
    fn note(&mut self, index: usize, item: T) {
        make_room(&mut self.noted, index, false);
        if !std::mem::replace(&mut self.noted[index], true) {
            self.due.push_back((index, item));
        }
    }

    /// Removes the item that was noted first.
    #[inline]
    fn next(&mut self) -> Option<T> {
        let (index, item) = self.due.pop_front()?;
        self.noted[index] = false;
        Some(item)
    }

    /// Returns `true` if nothing is noted.
    #[inline]
    fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

/// State of the queue at a bottleneck, without the account of its aggregates.
fn queue_at(
    at: EgressQueue,
    link: &AccessLink,
    trunks: Option<&Trunks>,
    poll_interval: Duration,
) -> EgressState {
    let queue = match at {
        EgressQueue::Trunk(id) => {
            trunks.map_or_else(EgressState::default, |trunks| trunks.ahead(id))
        }
        EgressQueue::Leaf(leaf) => link.ahead(leaf),
    };
    EgressState { poll_interval, ..queue }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: an item that is noted twice; an item that cannot be noted again after its turn; the
    /// last item first.
    #[test]
    fn a_work_list_has_each_item_once_in_the_order_of_the_notes() {
        let mut list = WorkList::default();
        for item in [7, 2, 7, 7, 2] {
            list.note(item, item);
        }
        assert_eq!((list.next(), list.is_empty()), (Some(7), false));
        list.note(7, 7);
        assert_eq!([list.next(), list.next(), list.next()], [Some(2), Some(7), None]);
    }
}
