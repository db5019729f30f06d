//! Link sharing: selects the class of a tree that sends next.
//!
//! The root is a link. A class has a guaranteed rate, and may have a ceiling. The guarantees of a class's
//! children add up to no more than its own. The excess is the rate of a link or class beyond these
//! guarantees. It goes to backlogged children: to the highest priority first, and within a priority by
//! weight, max-min fairly. An idle class lends its whole rate to its siblings, and is not paid back.
//!
//! A leaf may have a delay bound. Its guaranteed traffic precedes all other traffic in the tree, tighter
//! bounds first. [`delay`] computes which bounds can be met.
//!
//! The tree knows no packets. Its caller reports that packets [wait](ClassTree::wait) at a leaf, asks for the
//! [next](ClassTree::next) leaf, and reports the bytes [sent](ClassTree::sent). Each call follows one path
//! between a leaf and the root. Its time does not grow with the number of classes.
//!
//! Source: `postack`, section 3 (link sharing); the tree of classes with a guarantee and a ceiling is that of
//! Linux, net/sched/sch_htb.c.
//! Differs: start-time fair queueing (SIGCOMM 1996), sorted as in `excess`, shares the excess. Deficit round
//! robin would need quanta that match weights and packet lengths. A backlogged class keeps its guarantee
//! while its round is late. An inner class has the same rights as a leaf.

pub mod control;
pub mod delay;
mod excess;
mod node;
mod urgent;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::packet::{First, Links, Member, number, slot};
use crate::wheel::TimerWheel;
use crate::{Bytes, Chance, Rate, Time};
use excess::Excess;
use node::Node;
use urgent::Urgent;

/// A class of a tree, by number; numbers are used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The link: the parent of classes that have no other.
    pub const ROOT: Self = Self(0);

    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        slot(self.0)
    }
}

/// What a class has a right to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// What it may send whatever its siblings do; zero for nothing.
    pub guarantee: Rate,
    /// The most it may send; `None` for as much as its parent.
    pub ceiling: Option<Rate>,
    /// Its part in what the guarantees leave, in relation to its siblings of the same priority; at
    /// least 1.
    pub weight: u32,
    /// Among siblings, the highest gets what the guarantees leave first; at most
    /// [`MAX_PRIORITY`](Self::MAX_PRIORITY).
    pub priority: u8,
    /// What it may send at once, at its guarantee or its ceiling, when it has sent less before. One
    /// packet may go beyond, and is paid off.
    pub burst: Bytes,
    /// How long a packet may wait at a leaf, as long as what comes there keeps to `guarantee` and `burst`;
    /// `None` for as long as it takes. Whether that can be promised is said by [`delay`].
    pub delay_bound: Option<Duration>,
    /// The largest part of its bytes that may be dropped. The tree ignores it: `jobs` keeps it.
    pub loss_bound: Option<Chance>,
}

impl Terms {
    /// No rights but a part in the excess.
    pub const NONE: Self = Self {
        guarantee: Rate::from_bps(0),
        ceiling: None,
        weight: 1,
        priority: 0,
        burst: Bytes::ZERO,
        delay_bound: None,
        loss_bound: None,
    };

    /// The highest priority.
    pub const MAX_PRIORITY: u8 = 7;
}

/// Classes that share a link.
#[derive(Debug)]
pub struct ClassTree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// The delay bounds of those that have one.
    bounds: BTreeMap<ClassId, Duration>,
    /// Places of classes whose guarantee lets them send, in the rings of their parents.
    guaranteed: Links,
    /// Places of classes that have, or have below them, a delay bound to keep now.
    urgent: Links,
    /// Places of classes in the excess of their parents.
    excess: Links,
    /// When a class may be let go by its ceiling, or else its guarantee lets it send again.
    wheel: TimerWheel,
    /// Classes held by their ceiling.
    held: u32,
}

/// What a class that has children keeps of them.
#[derive(Debug)]
struct Children {
    count: u32,
    /// Those that have something to send and may.
    active: u32,
    /// Whose turn it is among those whose guarantee lets them.
    guaranteed: First,
    /// Those with delay bounds, which go before.
    urgent: Urgent,
    excess: Excess,
}

impl Default for Children {
    fn default() -> Self {
        Self {
            count: 0,
            active: 0,
            guaranteed: First::NOBODY,
            urgent: Urgent::default(),
            excess: Excess::default(),
        }
    }
}

impl Default for ClassTree {
    /// A link without classes.
    fn default() -> Self {
        Self {
            nodes: vec![Node::new(ClassId::ROOT, Terms::NONE, Time::ZERO)],
            free: Vec::new(),
            bounds: BTreeMap::new(),
            guaranteed: Links::default(),
            urgent: Links::default(),
            excess: Links::default(),
            wheel: TimerWheel::new(),
            held: 0,
        }
    }
}

impl ClassTree {
    /// Makes room for so many more classes, and for no others.
    pub fn reserve(&mut self, more: usize) {
        self.nodes.reserve_exact(more);
        // Then no removal moves the list of free numbers.
        self.free.reserve_exact(self.nodes.capacity().saturating_sub(self.free.len()));
    }

    /// A new class under `parent`, at which nothing may wait.
    pub fn add(&mut self, now: Time, parent: ClassId, terms: Terms) -> ClassId {
        let node = Node::new(parent, terms, now);
        let id = match self.free.pop() {
            Some(free) => {
                self.nodes[slot(free)] = node;
                ClassId(free)
            }
            None => {
                self.nodes.push(node);
                ClassId(number(self.nodes.len() - 1))
            }
        };
        self.children(parent).count += 1;
        self.note_bound(id, terms.delay_bound);
        id
    }

    fn note_bound(&mut self, id: ClassId, bound: Option<Duration>) {
        match bound {
            Some(bound) => self.bounds.insert(id, bound),
            None => self.bounds.remove(&id),
        };
    }

    /// Ends a class that has no children and at which nothing waits.
    pub fn remove(&mut self, id: ClassId) {
        self.deactivate(id);
        self.release(id);
        self.wheel.cancel(id.0);
        self.bounds.remove(&id);
        let parent = self.nodes[id.index()].parent;
        self.children(parent).count -= 1;
        self.free.push(id.0);
    }

    /// Changes what a class has a right to; what it has left of its bursts stays.
    pub fn set(&mut self, now: Time, id: ClassId, terms: Terms) {
        self.deactivate(id);
        self.nodes[id.index()].set(now, terms);
        self.note_bound(id, terms.delay_bound);
        self.resume(now, id);
    }

    /// Makes a class, and all below it, a child of `parent`, which must not lie below it.
    pub fn move_to(&mut self, now: Time, id: ClassId, parent: ClassId) {
        self.deactivate(id);
        let old = std::mem::replace(&mut self.nodes[id.index()].parent, parent);
        self.children(old).count -= 1;
        self.children(parent).count += 1;
        self.nodes[id.index()].begin_anew();
        self.resume(now, id);
    }

    /// What a class has a right to.
    #[must_use]
    pub fn terms(&self, id: ClassId) -> Terms {
        self.nodes[id.index()].terms(self.bounds.get(&id).copied())
    }

    /// The class it is a child of.
    #[must_use]
    pub fn parent(&self, id: ClassId) -> ClassId {
        self.nodes[id.index()].parent
    }

    /// Whether it has no children: packets wait at leaves only.
    #[must_use]
    pub fn is_leaf(&self, id: ClassId) -> bool {
        self.nodes[id.index()].is_leaf()
    }

    /// Bytes sent by a class, and those of them that were more than its guarantee.
    #[must_use]
    pub fn counts(&self, id: ClassId) -> Sent {
        self.nodes[id.index()].sent
    }

    /// Packets wait at `leaf`.
    pub fn wait(&mut self, now: Time, leaf: ClassId) {
        let node = &mut self.nodes[leaf.index()];
        debug_assert!(node.is_leaf(), "packets wait at a class that has parts");
        if node.waiting {
            return;
        }
        node.waiting = true;
        node.awake(now);
        if !node.held {
            self.activate(now, leaf);
        }
    }

    /// Nothing waits at `leaf` any more, though nothing was sent.
    pub fn idle(&mut self, leaf: ClassId) {
        let node = &mut self.nodes[leaf.index()];
        node.waiting = false;
        // It may have got children meanwhile.
        if !node.is_busy() {
            self.deactivate(leaf);
        }
    }

    /// The leaf whose packet goes next; the caller sends it, and says so, before it asks again.
    pub fn next(&mut self, now: Time) -> Option<ClassId> {
        self.advance(now);
        let mut at = ClassId::ROOT;
        while let Some(children) = self.nodes[at.index()].children.as_mut() {
            if children.count == 0 {
                break;
            }
            let guaranteed = children.urgent.first().or_else(|| children.guaranteed.member());
            let child = guaranteed.or_else(|| children.excess.first())?;
            self.nodes[child.index()].by_guarantee = guaranteed.is_some();
            at = ClassId(child.0);
        }
        (at != ClassId::ROOT).then_some(at)
    }

    /// `leaf`, which was [`next`](Self::next), has sent `len`, nothing if its packets were all
    /// dropped; whether `more` wait there.
    pub fn sent(&mut self, now: Time, leaf: ClassId, len: Bytes, more: bool) {
        self.nodes[leaf.index()].waiting = more;
        let mut at = leaf;
        while at != ClassId::ROOT {
            self.charge(now, at, len);
            at = self.nodes[at.index()].parent;
        }
    }

    /// When a packet may go: now, or when a ceiling lets one; early by as much as a ceiling was
    /// raised. `None` if none waits.
    pub fn ready_at(&mut self, now: Time) -> Option<Time> {
        self.advance(now);
        if self.nodes[0].is_busy() {
            return Some(now);
        }
        if self.held > 0 { self.wheel.next_deadline() } else { None }
    }

    /// Accounts for `len` at one class, and finds its next place.
    fn charge(&mut self, now: Time, id: ClassId, len: Bytes) {
        let node = &mut self.nodes[id.index()];
        node.held = node.charge(now, len);
        let (goes_on, by_guarantee) = (node.is_busy() && !node.held, node.by_guarantee);
        if node.held {
            self.held += 1;
            self.wheel.set(id.0, node.released_at());
        }
        if !goes_on {
            return self.withdraw(id);
        }
        if by_guarantee {
            self.leave_guaranteed(id);
            self.join_guaranteed(now, id);
            self.end_urgent_turn(id);
        } else {
            self.leave_excess(id);
            self.join_excess(id);
        }
    }

    /// Lets time pass: what was held is let go, and guarantees fill up.
    fn advance(&mut self, now: Time) {
        while let Some(number) = self.wheel.pop(now) {
            let id = ClassId(number);
            let node = &self.nodes[id.index()];
            if node.held {
                self.resume(now, id);
            } else if node.active {
                self.join_guaranteed(now, id);
                self.hurry(id);
            }
        }
    }

    /// Looks anew whether a class that is not active is held, and may send.
    fn resume(&mut self, now: Time, id: ClassId) {
        self.release(id);
        let node = &mut self.nodes[id.index()];
        if !node.may_send(now) {
            node.held = true;
            self.held += 1;
            self.wheel.set(id.0, node.released_at());
        } else if node.is_busy() {
            self.activate(now, id);
        }
    }

    fn release(&mut self, id: ClassId) {
        if std::mem::take(&mut self.nodes[id.index()].held) {
            self.held -= 1;
        }
    }

    /// A class that is not held has something to send: it takes its place, and so do those above.
    fn activate(&mut self, now: Time, id: ClassId) {
        let mut at = id;
        loop {
            self.nodes[at.index()].active = true;
            self.join_guaranteed(now, at);
            self.join_excess(at);
            let parent = self.nodes[at.index()].parent;
            let children = self.children(parent);
            children.active += 1;
            let node = &mut self.nodes[parent.index()];
            if node.active || node.held || parent == ClassId::ROOT {
                break;
            }
            node.awake(now);
            at = parent;
        }
        self.hurry(id);
    }

    /// A class gives up its place, and so do those above that have nothing else to send.
    fn deactivate(&mut self, id: ClassId) {
        let mut at = id;
        while self.nodes[at.index()].active {
            self.withdraw(at);
            at = self.nodes[at.index()].parent;
            if self.nodes[at.index()].is_busy() {
                return;
            }
        }
    }

    /// Takes one class out of its places.
    fn withdraw(&mut self, id: ClassId) {
        self.leave_guaranteed(id);
        self.leave_excess(id);
        let node = &mut self.nodes[id.index()];
        node.active = false;
        let parent = node.parent;
        self.children(parent).active -= 1;
        self.hurry(id);
    }

    /// Queues a class up for its guarantee, if that lets it send; else sees to it that it will.
    fn join_guaranteed(&mut self, now: Time, id: ClassId) {
        let node = &mut self.nodes[id.index()];
        let parent = node.parent;
        match node.guaranteed_at(now) {
            Some(at) if at <= now => {
                node.due = true;
                if let Some(children) = &mut self.nodes[parent.index()].children {
                    self.guaranteed.push(&mut children.guaranteed, Member(id.0));
                }
            }
            Some(at) => self.wheel.set(id.0, at),
            None => {}
        }
    }

    fn leave_guaranteed(&mut self, id: ClassId) {
        let node = &mut self.nodes[id.index()];
        node.due = false;
        let parent = node.parent;
        if let Some(children) = &mut self.nodes[parent.index()].children {
            self.guaranteed.remove(&mut children.guaranteed, Member(id.0));
        }
    }

    /// Sees to it that a class, and those above it, stand where the tightest delay bound to be kept below
    /// them belongs.
    fn hurry(&mut self, id: ClassId) {
        let mut at = id;
        while at != ClassId::ROOT {
            let node = &self.nodes[at.index()];
            let (was, is, parent) = (node.urgency, node.wanted_urgency(), node.parent);
            if was == is {
                return;
            }
            let (links, member) = (&mut self.urgent, Member(at.0));
            let children = self.nodes[parent.index()].children.get_or_insert_default();
            if let Some(was) = was {
                children.urgent.leave(links, member, was);
            }
            if let Some(is) = is {
                children.urgent.join(links, member, is);
            }
            self.nodes[at.index()].urgency = is;
            at = parent;
        }
    }

    /// A class has had its turn, if it has a place among those with delay bounds: others like it go first.
    fn end_urgent_turn(&mut self, id: ClassId) {
        self.hurry(id);
        let node = &self.nodes[id.index()];
        let (Some(urgency), parent) = (node.urgency, node.parent) else { return };
        if let Some(children) = &mut self.nodes[parent.index()].children {
            children.urgent.leave(&mut self.urgent, Member(id.0), urgency);
            children.urgent.join(&mut self.urgent, Member(id.0), urgency);
        }
    }

    fn join_excess(&mut self, id: ClassId) {
        let node = &self.nodes[id.index()];
        let (parent, mut claim) = (node.parent, node.claim);
        if let Some(children) = &mut self.nodes[parent.index()].children {
            children.excess.join(&mut self.excess, Member(id.0), &mut claim);
        }
        self.nodes[id.index()].claim = claim;
    }

    fn leave_excess(&mut self, id: ClassId) {
        let node = &self.nodes[id.index()];
        let (parent, claim) = (node.parent, node.claim);
        if let Some(children) = &mut self.nodes[parent.index()].children {
            children.excess.leave(&mut self.excess, Member(id.0), &claim);
        }
    }

    fn children(&mut self, of: ClassId) -> &mut Children {
        self.nodes[of.index()].children.get_or_insert_default()
    }
}

/// What a class has sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Charged bytes.
    pub bytes: u64,
    /// Charged bytes of these that its guarantee did not cover: lent by others, or by nobody.
    pub borrowed: u64,
}
