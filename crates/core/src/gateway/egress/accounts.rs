//! ACK control at an egress: the accounts of its bottlenecks, and the turns of their aggregates.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Egress, Link, Route, TrunkId, Trunks};
use crate::ack::{Ahead, Call, Places};
use crate::class::ClassId;
use crate::packet::make_room;
use crate::{Packet, Rate};

/// The queue at which an aggregate's packets wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::gateway) enum Bottleneck {
    /// The tunnel queue of a trunk.
    Trunk(TrunkId),
    /// A leaf class of the link.
    Leaf(ClassId),
}

impl Egress {
    /// The bottleneck on `route`.
    pub(in crate::gateway) fn bottleneck(&self, route: Route) -> Bottleneck {
        let leaf = || self.link.leaf(route.class);
        route.trunk.map_or_else(|| Bottleneck::Leaf(leaf()), Bottleneck::Trunk)
    }

    /// Index of an account: trunks come before leaf classes.
    fn account(&self, at: Bottleneck) -> usize {
        match at {
            Bottleneck::Trunk(id) => id.index(),
            Bottleneck::Leaf(leaf) => {
                leaf.index() + self.trunks.as_ref().map_or(0, |trunks| trunks.len())
            }
        }
    }

    /// State of a bottleneck, for an aggregate that did not wait for its turn.
    pub(in crate::gateway) fn ahead(&self, at: Bottleneck) -> Ahead {
        let queue = queue_at(at, &self.link, self.trunks.as_deref(), self.grain);
        self.accounts.complete(self.account(at), queue)
    }

    /// The aggregate whose turn it is at a bottleneck, and the state of the bottleneck with the
    /// room for its requests. `None` without room.
    pub(in crate::gateway) fn next_turn(&mut self, at: Bottleneck) -> Option<(u32, Ahead)> {
        let account = self.account(at);
        let (link, trunks, grain) = (&self.link, self.trunks.as_deref(), self.grain);
        let turn = self.accounts.turn(account, || queue_at(at, link, trunks, grain));
        let (slot, room) = turn?;
        Some((slot, Ahead { room, ..self.ahead(at) }))
    }

    /// Notes the requests of the aggregate in `slot`, whose bottleneck has this egress rate.
    pub(in crate::gateway) fn note_call(
        &mut self,
        at: Bottleneck,
        slot: u32,
        call: Call,
        rate: Option<Rate>,
    ) {
        let account = self.account(at);
        self.accounts.note(account, slot, call, rate);
    }

    /// Closes all accounts. The aggregates must repeat their calls, because their routes may have
    /// changed.
    pub(in crate::gateway) fn close_accounts(&mut self) {
        self.accounts = Places::default();
    }

    /// Packets of ACK-controlled flows departed from a bottleneck: its queue has room.
    pub(in crate::gateway) fn made_room(&mut self, at: Bottleneck) {
        if self.accounts.is_waited_for() {
            self.room.note(self.account(at), at);
        }
    }

    /// Returns `true` if the departure of `packet` makes room for which an aggregate may wait.
    #[inline]
    pub(in crate::gateway) fn makes_room(&self, packet: &Packet) -> bool {
        self.accounts.is_waited_for() && packet.is_controlled()
    }

    /// The next bottleneck whose queue has room. Call this until it returns `None`.
    #[inline]
    pub(in crate::gateway) fn next_with_room(&mut self) -> Option<Bottleneck> {
        self.room.next()
    }
}

/// A work list: each item is there at most once, whatever the number of notes.
pub(in crate::gateway) struct WorkList<T> {
    due: VecDeque<(usize, T)>,
    /// By index of the item.
    noted: Vec<bool>,
}

impl<T> Default for WorkList<T> {
    fn default() -> Self {
        Self { due: VecDeque::new(), noted: Vec::new() }
    }
}

impl<T> WorkList<T> {
    /// Adds `item`, which has this index, unless it is there.
    pub(in crate::gateway) fn note(&mut self, index: usize, item: T) {
        make_room(&mut self.noted, index, false);
        if !std::mem::replace(&mut self.noted[index], true) {
            self.due.push_back((index, item));
        }
    }

    /// Removes the item that was noted first.
    #[inline]
    pub(in crate::gateway) fn next(&mut self) -> Option<T> {
        let (index, item) = self.due.pop_front()?;
        self.noted[index] = false;
        Some(item)
    }

    /// Returns `true` if nothing is noted.
    #[inline]
    pub(in crate::gateway) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

/// State of the queue at a bottleneck, without the account of its aggregates.
fn queue_at(at: Bottleneck, link: &Link, trunks: Option<&Trunks>, grain: Duration) -> Ahead {
    let queue = match at {
        Bottleneck::Trunk(id) => trunks.map_or_else(Ahead::default, |trunks| trunks.ahead(id)),
        Bottleneck::Leaf(leaf) => link.ahead(leaf),
    };
    Ahead { grain, ..queue }
}
