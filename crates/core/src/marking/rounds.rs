//! The next rounds of the tracked flows, in the order of their starts.
//!
//! The projection takes the packets of a round as a batch at its start. A queue of backlog `q` needs
//! `q + sum of the rounds up to i - service until i` bytes at the start of round `i`. A balanced tree
//! keeps the largest of these terms, so that a change and a test take time in proportion to the
//! logarithm of the number of flows.
//!
//! Source: `marking`, section 2.2, equations (7) to (9); a treap (doi 10.1109/SFCS.1989.63531).

use std::time::Duration;

use crate::packet::{make_room, slot};
use crate::{Bytes, Rate, Time};

/// A round of a flow that is yet to come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Round {
    /// Its start.
    pub(super) due: Time,
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// Window of the flow, if this is its next round and the flow may be marked.
    pub(super) candidate: Option<Bytes>,
}

/// Rate at which the backlog shrinks or grows between rounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Net {
    rate: Rate,
    /// Untracked traffic arrives faster than packets depart.
    grows: bool,
}

impl Net {
    /// Service at `out`, and untracked traffic that arrives at `untracked`.
    pub(super) const fn new(out: Rate, untracked: Rate) -> Self {
        let (out, untracked) = (out.bps(), untracked.bps());
        Self { rate: Rate::from_bps(out.abs_diff(untracked)), grows: untracked > out }
    }

    /// Bytes that the backlog shrinks by within `span`.
    fn bytes(self, span: Duration) -> i64 {
        let bytes = signed(self.rate.bytes_in(span));
        if self.grows { -bytes } else { bytes }
    }
}

/// The rounds of flows, by a small number for each round.
pub(super) struct Rounds {
    nodes: Vec<Node>,
    root: u32,
    base: Time,
    net: Net,
}

/// A round in the tree. Its priority is at least that of its children.
#[derive(Clone, Copy, Debug)]
struct Node {
    due: Time,
    left: u32,
    right: u32,
    /// Net service from the base to `due`, in bytes.
    served: i64,
    bytes: i64,
    /// Sum of `bytes` in this subtree.
    sum: i64,
    /// The largest `sum of bytes up to a node - served` in this subtree.
    most: i64,
    /// Window if this is the next round of a flow that may be marked, otherwise zero.
    window: u64,
    /// The largest `window` in this subtree, and its round.
    best: (u64, u32),
    present: bool,
}

const NIL: u32 = u32::MAX;

/// The tree without nodes is below every maximum.
const NOTHING: i64 = i64::MIN / 2;

impl Node {
    const ABSENT: Self = Self {
        due: Time::ZERO,
        left: NIL,
        right: NIL,
        served: 0,
        bytes: 0,
        sum: 0,
        most: NOTHING,
        window: 0,
        best: (0, NIL),
        present: false,
    };
}

impl Rounds {
    pub(super) const fn new() -> Self {
        let net = Net::new(Rate::from_bps(0), Rate::from_bps(0));
        Self { nodes: Vec::new(), root: NIL, base: Time::ZERO, net }
    }

    /// Puts `round` in place of round `number`; `None` removes it.
    pub(super) fn set(&mut self, number: u32, round: Option<Round>) {
        make_room(&mut self.nodes, slot(number), Node::ABSENT);
        let old = &self.nodes[slot(number)];
        let stays = round.is_some_and(|round| old.present && old.due == round.due);
        if old.present && !stays {
            self.root = self.remove(self.root, number);
            self.nodes[slot(number)] = Node::ABSENT;
        }
        let Some(Round { due, bytes, candidate }) = round else { return };
        let served = self.net.bytes(due.since(self.base));
        let (bytes, window) = (signed(bytes), candidate.map_or(0, |window| window.0));
        let node = &mut self.nodes[slot(number)];
        *node = Node { due, served, bytes, window, present: true, ..*node };
        if stays {
            self.update(self.root, number);
        } else {
            self.root = self.insert(self.root, number);
        }
    }

    /// Returns `true` if there is a round `number`.
    pub(super) fn has(&self, number: u32) -> bool {
        self.nodes.get(slot(number)).is_some_and(|node| node.present)
    }

    /// Counts service at `net` from `base` on. Takes time in proportion to the number of rounds.
    pub(super) fn set_net(&mut self, base: Time, net: Net) {
        (self.base, self.net) = (base, net);
        for node in &mut self.nodes {
            node.served = net.bytes(node.due.since(base));
        }
        self.refresh(self.root);
    }

    /// The largest growth of the backlog from `now` to the start of a round, in bytes. A round that should
    /// have begun counts as if it began now. At least zero, the growth until now. `None` without rounds.
    pub(super) fn growth(&self, now: Time) -> Option<i64> {
        let (mut late, mut most, mut at) = (0, NOTHING, self.root);
        if at == NIL {
            return None;
        }
        while at != NIL {
            let node = &self.nodes[slot(at)];
            let upto = late + self.sum(node.left) + node.bytes;
            if node.due > now {
                let right = upto + self.most(node.right);
                most = most.max(upto - node.served).max(right);
                at = node.left;
            } else {
                (late, at) = (upto, node.right);
            }
        }
        Some(late.max(most + self.net.bytes(now.since(self.base))))
    }

    /// The round of the flow with the largest window of those that may be marked.
    pub(super) fn best(&self) -> Option<u32> {
        let (window, flow) = self.nodes.get(slot(self.root))?.best;
        (window > 0).then_some(flow)
    }

    fn sum(&self, at: u32) -> i64 {
        self.nodes.get(slot(at)).map_or(0, |node| node.sum)
    }

    fn most(&self, at: u32) -> i64 {
        self.nodes.get(slot(at)).map_or(NOTHING, |node| node.most)
    }

    fn best_of(&self, at: u32) -> (u64, u32) {
        self.nodes.get(slot(at)).map_or((0, NIL), |node| node.best)
    }

    /// Order of two rounds: by their starts, then by their numbers.
    fn precedes(&self, a: u32, b: u32) -> bool {
        (self.nodes[slot(a)].due, a) < (self.nodes[slot(b)].due, b)
    }

    /// Computes the sums of a node from those of its children.
    fn pull(&mut self, at: u32) {
        let Node { left, right, bytes, served, window, .. } = self.nodes[slot(at)];
        let upto = self.sum(left) + bytes;
        let sum = upto + self.sum(right);
        let most = self.most(left).max(upto - served).max(upto + self.most(right));
        let (a, b) = (self.best_of(left), self.best_of(right));
        let best = if a.0 >= window { a } else { (window, at) };
        let best = if best.0 >= b.0 { best } else { b };
        let node = &mut self.nodes[slot(at)];
        (node.sum, node.most, node.best) = (sum, most, best);
    }

    /// Inserts a node into the tree `at`. Returns the new root of the tree.
    fn insert(&mut self, at: u32, new: u32) -> u32 {
        if at == NIL {
            self.pull(new);
            return new;
        }
        if priority(new) > priority(at) {
            let (left, right) = self.split(at, new);
            (self.nodes[slot(new)].left, self.nodes[slot(new)].right) = (left, right);
            self.pull(new);
            return new;
        }
        if self.precedes(new, at) {
            let left = self.insert(self.nodes[slot(at)].left, new);
            self.nodes[slot(at)].left = left;
        } else {
            let right = self.insert(self.nodes[slot(at)].right, new);
            self.nodes[slot(at)].right = right;
        }
        self.pull(at);
        at
    }

    /// Splits the tree `at` into the rounds before `key` and those after it.
    fn split(&mut self, at: u32, key: u32) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.precedes(at, key) {
            let (middle, right) = self.split(self.nodes[slot(at)].right, key);
            self.nodes[slot(at)].right = middle;
            self.pull(at);
            (at, right)
        } else {
            let (left, middle) = self.split(self.nodes[slot(at)].left, key);
            self.nodes[slot(at)].left = middle;
            self.pull(at);
            (left, at)
        }
    }

    /// Removes a node from the tree `at`. Returns the new root of the tree.
    fn remove(&mut self, at: u32, gone: u32) -> u32 {
        if at == gone {
            let Node { left, right, .. } = self.nodes[slot(at)];
            return self.merge(left, right);
        }
        if self.precedes(gone, at) {
            let left = self.remove(self.nodes[slot(at)].left, gone);
            self.nodes[slot(at)].left = left;
        } else {
            let right = self.remove(self.nodes[slot(at)].right, gone);
            self.nodes[slot(at)].right = right;
        }
        self.pull(at);
        at
    }

    /// Joins two trees; all rounds of `left` precede those of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL || right == NIL {
            return left.min(right);
        }
        let root = if priority(left) > priority(right) {
            self.nodes[slot(left)].right = self.merge(self.nodes[slot(left)].right, right);
            left
        } else {
            self.nodes[slot(right)].left = self.merge(left, self.nodes[slot(right)].left);
            right
        };
        self.pull(root);
        root
    }

    /// Computes the sums above a node that has changed.
    fn update(&mut self, at: u32, changed: u32) {
        if at != changed {
            let node = &self.nodes[slot(at)];
            let next = if self.precedes(changed, at) { node.left } else { node.right };
            self.update(next, changed);
        }
        self.pull(at);
    }

    /// Computes all sums in the tree `at`.
    fn refresh(&mut self, at: u32) {
        if at == NIL {
            return;
        }
        let Node { left, right, .. } = self.nodes[slot(at)];
        self.refresh(left);
        self.refresh(right);
        self.pull(at);
    }
}

/// A priority that looks random and is different for every round.
///
/// Source: the last steps of MurmurHash3 for 32 bits. Numbers that differ by four, as those of flows do, get a tree
/// of little depth.
const fn priority(number: u32) -> u32 {
    let mut hash = number;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Bytes as a difference: as many as `i64` holds.
pub(super) fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All rounds in a list, searched from the front.
    #[derive(Default)]
    struct Model(Vec<(u32, Round)>);

    impl Model {
        fn growth(&self, now: Time, net: Net) -> Option<i64> {
            let terms = self.0.iter().map(|(_, round)| {
                let until = round.due.max(now);
                let begun = self.0.iter().filter(|(_, other)| other.due.max(now) <= until);
                let sum: i64 = begun.map(|(_, other)| signed(other.bytes)).sum();
                sum - net.bytes(until.since(now))
            });
            terms.max().map(|most| most.max(0))
        }

        fn best(&self) -> Option<Bytes> {
            self.0.iter().filter_map(|(_, round)| round.candidate).max()
        }
    }

    /// A flow, and its new round: start in ms, bytes, and whether it may be marked.
    type Change = (u32, Option<(u64, u64, bool)>);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let round = proptest::option::weighted(0.8, (0u64..200, 1u64..9_000, any::<bool>()));
        prop::collection::vec((0u32..40, round), 1..200)
    }

    proptest! {
        /// Kills: sums that are not renewed along the path of a change; a round that is late left out, or
        /// served before now; the window of a flow that may not be marked in the maximum; growth where
        /// untracked traffic exceeds the rate.
        #[test]
        fn the_tree_knows_what_a_search_of_all_rounds_finds(
            changes in changes(), now in 0u64..200, out in 0u64..40, untracked in 0u64..40,
        ) {
            let (out, untracked) = (Rate::from_mbps(out), Rate::from_mbps(untracked));
            let (now, net) = (Time::from_millis(now), Net::new(out, untracked));
            let (mut rounds, mut model) = (Rounds::new(), Model::default());
            rounds.set_net(Time::ZERO, net);
            for (flow, round) in changes {
                let round = round.map(|(due, bytes, free)| {
                    let (due, bytes) = (Time::from_millis(due), Bytes(bytes));
                    Round { due, bytes, candidate: free.then_some(bytes) }
                });
                rounds.set(flow, round);
                model.0.retain(|(of, _)| *of != flow);
                model.0.extend(round.map(|round| (flow, round)));
                prop_assert_eq!(rounds.has(flow), round.is_some());
                prop_assert_eq!(rounds.growth(now), model.growth(now, net));
                let best = rounds.best();
                let of = |flow| model.0.iter().find(|(of, _)| *of == flow).map(|(_, it)| it);
                let window = best.and_then(|flow| of(flow)?.candidate);
                prop_assert_eq!(window, model.best());
            }
            let slower = Net::new(untracked, out);
            rounds.set_net(Time::ZERO, slower);
            prop_assert_eq!(rounds.growth(now), model.growth(now, slower));
        }
    }

    /// Kills: priorities that make the tree a list.
    #[test]
    fn a_thousand_rounds_in_order_are_a_tree_of_little_depth() {
        let mut rounds = Rounds::new();
        let numbers = (0..1_000).map(|flow| 4 * flow);
        for flow in numbers.clone() {
            let due = Time::from_micros(u64::from(flow));
            rounds.set(flow, Some(Round { due, bytes: Bytes(1), candidate: None }));
        }
        let depth = |flow: u32| {
            let (mut at, mut depth) = (rounds.root, 1);
            while at != flow {
                let node = &rounds.nodes[slot(at)];
                at = if rounds.precedes(flow, at) { node.left } else { node.right };
                depth += 1;
            }
            depth
        };
        let deepest = numbers.map(depth).max();
        assert!(deepest <= Some(30), "{deepest:?}");
    }
}
