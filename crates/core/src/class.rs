//! Link sharing: the classes of a link form a tree, which selects the class that sends next.
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
//! Differs: start-time fair queueing (SIGCOMM 1996), sorted as in `excess`, shares the excess.
//! Deficit round robin would need quanta that match weights and packet lengths. A backlogged class
//! does not lose its guarantee if the tree serves it late. An inner class has the same rights as a
//! leaf.

pub mod control;
pub mod delay;
mod excess;
mod node;
mod urgent;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::packet::{First, Index, Links, number, slot};
use crate::wheel::TimerWheel;
use crate::{Bytes, Rate, Time};
use excess::Excess;
use node::Node;
use urgent::Urgent;

/// Number of a class in a tree; numbers of removed classes are used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ClassId(pub u32);

impl Index for ClassId {
    #[inline]
    fn from_number(number: u32) -> Self {
        Self(number)
    }

    #[inline]
    fn number(self) -> u32 {
        self.0
    }
}

impl ClassId {
    /// The link: the parent of classes that have no other.
    pub const ROOT: Self = Self(0);

    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        slot(self.0)
    }
}

/// Terms of a class: its rights to the rate of the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// Rate that the class gets regardless of its siblings; zero for none.
    pub guarantee: Rate,
    /// Highest rate; `None` for the rate of the parent.
    pub ceiling: Option<Rate>,
    /// Share of the excess, relative to siblings of the same priority; at least 1.
    pub weight: u32,
    /// Among siblings, the highest priority gets the excess first; at most
    /// [`MAX_PRIORITY`](Self::MAX_PRIORITY).
    pub priority: u8,
    /// Bytes that the class may send at once, at its guarantee or its ceiling, after sending less
    /// before. One packet may exceed these bytes. Later tokens then pay for the excess.
    pub burst: Bytes,
    /// Longest wait of a packet at a leaf whose arrivals conform to `guarantee` and `burst`; `None`
    /// for no bound. [`delay`] computes whether the bound can be promised.
    pub delay_bound: Option<Duration>,
}

impl Terms {
    /// No rights except a share of the excess.
    pub const NONE: Self = Self {
        guarantee: Rate::from_bps(0),
        ceiling: None,
        weight: 1,
        priority: 0,
        burst: Bytes::ZERO,
        delay_bound: None,
    };

    /// The highest priority.
    pub const MAX_PRIORITY: u8 = 7;

    /// The largest weight in files and requests.
    pub const MAX_WEIGHT: u32 = 65_535;
}

/// Classes that share a link.
///
/// # Call order
///
/// 1. [`add`](Self::add) the classes; the link is [`ClassId::ROOT`].
/// 2. Report a leaf with packets by [`wait`](Self::wait).
/// 3. While the link is free: ask for the [`next`](Self::next) leaf, transmit one of its packets, and
///    report the bytes [`sent`](Self::sent) before the next call of `next`.
/// 4. If no leaf may send, return at [`ready_at`](Self::ready_at).
///
/// # Time
///
/// `now` does not run backwards. A late call lets a class catch up with its guarantee by 100 ms at most,
/// or by its delay bound if that is longer.
///
/// # Example
///
/// A voice class has a guarantee. A bulk class has none, and gets the excess.
///
/// ```
/// use tidegate_core::class::{ClassId, ClassTree, Terms};
/// use tidegate_core::{Bytes, Rate, Time};
///
/// let mut tree = ClassTree::default();
/// let guaranteed = Terms { guarantee: Rate::from_mbps(2), ..Terms::NONE };
/// let voice = tree.add(Time::ZERO, ClassId::ROOT, guaranteed);
/// let bulk = tree.add(Time::ZERO, ClassId::ROOT, Terms { priority: 7, ..Terms::NONE });
/// tree.wait(Time::ZERO, voice);
/// tree.wait(Time::ZERO, bulk);
///
/// // A second on a link of 8 Mbit/s, on which a packet takes a millisecond.
/// for ms in 0..1_000 {
///     let now = Time::from_millis(ms);
///     let leaf = tree.next(now).unwrap();
///     tree.sent(now, leaf, Bytes(1_000), true);
/// }
/// let sent = |class| tree.counts(class).packets;
/// assert!(sent(voice).abs_diff(250) <= 1, "a quarter of the link");
/// assert_eq!(sent(voice) + sent(bulk), 1_000);
/// ```
#[derive(Debug)]
pub struct ClassTree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Delay bounds by class.
    bounds: BTreeMap<ClassId, Duration>,
    /// Links of the lists of children whose guarantees have tokens. Each parent has such a list.
    guaranteed: Links<ClassId>,
    /// Links of the lists of children with delay bounds, whose packets go first.
    urgent: Links<ClassId>,
    /// Links of the lists of children that share the excess of their parents.
    excess: Links<ClassId>,
    /// For each class, the time at which its ceiling permits packets again, or its guarantee has tokens again.
    wheel: TimerWheel,
    /// Number of classes that may not send because of their ceilings.
    held: u32,
}

/// State of the children of a class.
#[derive(Debug)]
struct Children {
    count: u32,
    /// Number of children that have packets and may send.
    active: u32,
    /// The children whose guarantees have tokens.
    guaranteed: First<ClassId>,
    /// The children with delay bounds that wait. They send first.
    urgent: Urgent,
    /// The children that share the excess.
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
    /// Reserves memory for exactly `more` classes.
    pub fn reserve(&mut self, more: usize) {
        self.nodes.reserve_exact(more);
        // Then a removal never reallocates the list of free numbers.
        self.free.reserve_exact(self.nodes.capacity().saturating_sub(self.free.len()));
    }

    /// Adds a class without packets under `parent`.
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

    /// Removes a class that has no children and no packets.
    pub fn remove(&mut self, id: ClassId) {
        self.deactivate(id);
        self.release(id);
        self.wheel.cancel(id.0);
        self.bounds.remove(&id);
        let parent = self.nodes[id.index()].parent;
        self.children(parent).count -= 1;
        self.free.push(id.0);
    }

    /// Changes the terms of a class. Its unused bursts stay.
    pub fn set(&mut self, now: Time, id: ClassId, terms: Terms) {
        self.deactivate(id);
        self.nodes[id.index()].set(now, terms);
        self.note_bound(id, terms.delay_bound);
        self.resume(now, id);
    }

    /// Makes a class, with all classes below it, a child of `parent`, which must not be below it.
    pub fn move_to(&mut self, now: Time, id: ClassId, parent: ClassId) {
        self.deactivate(id);
        let old = std::mem::replace(&mut self.nodes[id.index()].parent, parent);
        self.children(old).count -= 1;
        self.children(parent).count += 1;
        self.nodes[id.index()].restart();
        self.resume(now, id);
    }

    /// The terms of a class.
    #[must_use]
    pub fn terms(&self, id: ClassId) -> Terms {
        self.nodes[id.index()].terms(self.bounds.get(&id).copied())
    }

    /// The parent of a class.
    #[must_use]
    pub fn parent(&self, id: ClassId) -> ClassId {
        self.nodes[id.index()].parent
    }

    /// True if the class has no children. Packets wait only at leaves.
    #[must_use]
    pub fn is_leaf(&self, id: ClassId) -> bool {
        self.nodes[id.index()].is_leaf()
    }

    /// Bytes that a class sent, and the part beyond its guarantee.
    #[must_use]
    pub fn counts(&self, id: ClassId) -> Sent {
        self.nodes[id.index()].sent
    }

    /// Notes that packets wait at `leaf`.
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

    /// Notes that the queue of `leaf` became empty without a transmission.
    pub fn idle(&mut self, leaf: ClassId) {
        let node = &mut self.nodes[leaf.index()];
        node.waiting = false;
        // Since the packets were queued, the class may have got children.
        if !node.is_busy() {
            self.deactivate(leaf);
        }
    }

    /// The leaf that sends next. The caller sends the packet and reports it before the next call.
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

    /// Notes that `leaf`, which [`next`](Self::next) returned, has sent `len` bytes; zero if all
    /// its packets were dropped. `more`: further packets wait.
    pub fn sent(&mut self, now: Time, leaf: ClassId, len: Bytes, more: bool) {
        self.nodes[leaf.index()].waiting = more;
        let mut at = leaf;
        while at != ClassId::ROOT {
            self.charge(now, at, len);
            at = self.nodes[at.index()].parent;
        }
    }

    /// Time at which a packet may depart: now, or when a ceiling permits it. If a ceiling was
    /// raised, the time may be too early. `None` if no packet waits.
    pub fn ready_at(&mut self, now: Time) -> Option<Time> {
        self.advance(now);
        if self.nodes[0].is_busy() {
            return Some(now);
        }
        if self.held > 0 { self.wheel.next_deadline() } else { None }
    }

    /// Charges `len` bytes to one class, and moves it in the lists of its parent.
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
            self.remove_from_guaranteed(id);
            self.join_guaranteed(now, id);
            self.end_urgent_round(id);
        } else {
            self.remove_from_excess(id);
            self.join_excess(id);
        }
    }

    /// Handles the timers until `now`: ceilings that permit packets again, and guarantees that have tokens
    /// again.
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

    /// Checks a class that is not active. If its ceiling forbids packets, it is held. Otherwise it becomes active
    /// if it has packets.
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

    /// Activates a class that has packets and is not held, and the classes above it.
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

    /// Deactivates a class, and the classes above it that have no other packets.
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

    /// Removes one class from all lists of its parent.
    fn withdraw(&mut self, id: ClassId) {
        self.remove_from_guaranteed(id);
        self.remove_from_excess(id);
        let node = &mut self.nodes[id.index()];
        node.active = false;
        let parent = node.parent;
        self.children(parent).active -= 1;
        self.hurry(id);
    }

    /// Adds a class to the list of guarantees if its guarantee has tokens. Otherwise sets a timer.
    fn join_guaranteed(&mut self, now: Time, id: ClassId) {
        let node = &mut self.nodes[id.index()];
        let parent = node.parent;
        match node.guaranteed_at(now) {
            Some(at) if at <= now => {
                node.due = true;
                if let Some(children) = &mut self.nodes[parent.index()].children {
                    self.guaranteed.push(&mut children.guaranteed, id);
                }
            }
            Some(at) => self.wheel.set(id.0, at),
            None => {}
        }
    }

    fn remove_from_guaranteed(&mut self, id: ClassId) {
        let node = &mut self.nodes[id.index()];
        node.due = false;
        let parent = node.parent;
        if let Some(children) = &mut self.nodes[parent.index()].children {
            self.guaranteed.remove(&mut children.guaranteed, id);
        }
    }

    /// Updates the urgency of a class and of the classes above it, by the tightest delay bound
    /// below them.
    fn hurry(&mut self, id: ClassId) {
        let mut at = id;
        while at != ClassId::ROOT {
            let node = &self.nodes[at.index()];
            let (was, is, parent) = (node.urgency, node.wanted_urgency(), node.parent);
            if was == is {
                return;
            }
            let (links, member) = (&mut self.urgent, at);
            let children = self.nodes[parent.index()].children.get_or_insert_default();
            if let Some(was) = was {
                children.urgent.remove(links, member, was);
            }
            if let Some(is) = is {
                children.urgent.join(links, member, is);
            }
            self.nodes[at.index()].urgency = is;
            at = parent;
        }
    }

    /// Moves a class that has an urgency behind the other classes of equal urgency.
    fn end_urgent_round(&mut self, id: ClassId) {
        self.hurry(id);
        let node = &self.nodes[id.index()];
        let (Some(urgency), parent) = (node.urgency, node.parent) else { return };
        if let Some(children) = &mut self.nodes[parent.index()].children {
            children.urgent.remove(&mut self.urgent, id, urgency);
            children.urgent.join(&mut self.urgent, id, urgency);
        }
    }

    fn join_excess(&mut self, id: ClassId) {
        let node = &self.nodes[id.index()];
        let (parent, mut claim) = (node.parent, node.claim);
        if let Some(children) = &mut self.nodes[parent.index()].children {
            children.excess.join(&mut self.excess, id, &mut claim);
        }
        self.nodes[id.index()].claim = claim;
    }

    fn remove_from_excess(&mut self, id: ClassId) {
        let node = &self.nodes[id.index()];
        let (parent, claim) = (node.parent, node.claim);
        if let Some(children) = &mut self.nodes[parent.index()].children {
            children.excess.remove(&mut self.excess, id, &claim);
        }
    }

    fn children(&mut self, of: ClassId) -> &mut Children {
        self.nodes[of.index()].children.get_or_insert_default()
    }
}

/// Counters of a class.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Charged bytes.
    pub bytes: u64,
    /// Charged bytes beyond the guarantee.
    pub borrowed: u64,
}
