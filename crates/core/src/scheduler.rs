//! Schedulers of a link: the class that sends next, and the class that loses a packet to a full buffer.
//!
//! A scheduler knows no packets. Its caller keeps a queue for each class, reports arrivals and departures, and
//! asks for the next class. Some schedulers have one buffer for all classes. They answer an arrival with the
//! class whose newest packet the caller drops.
//!
//! To add one: write `scheduler/<name>.rs` with a `Config`, its `build` and its terms. Then add its `mod` line
//! and its line in `registry!` below. Policy files, the simulator and the live gateway know it by that name.

mod class_tree;

use std::time::Duration;

use crate::class::{ClassId, Sent, Terms};
use crate::registry::registry;
use crate::{Bytes, Rate, Time};

/// Selects among the classes of a link.
///
/// Class 0 is the link itself. [`add`](Self::add) returns the number of a new class; numbers of removed classes
/// are used again.
pub trait Scheduler: Send {
    /// The terms that its classes can have.
    fn declares(&self) -> &'static [Term];

    /// Makes room for `more` classes.
    fn reserve(&mut self, more: usize);

    /// Adds a class under `parent`, without packets.
    fn add(&mut self, now: Time, parent: ClassId, terms: Terms) -> ClassId;

    /// Removes a class that has no children and no packets.
    fn remove(&mut self, id: ClassId);

    /// Changes the terms of a class. Its packets and counts stay.
    fn set(&mut self, now: Time, id: ClassId, terms: Terms);

    /// Makes a class, with all classes below it, a child of `parent`, which must not be below it.
    fn move_to(&mut self, now: Time, id: ClassId, parent: ClassId) {
        let _ = (now, id, parent);
    }

    /// The link has `rate` from now on.
    fn set_rate(&mut self, now: Time, rate: Rate) {
        let _ = (now, rate);
    }

    /// The terms of a class.
    fn terms(&self, id: ClassId) -> Terms;

    /// The class above `id`.
    fn parent(&self, id: ClassId) -> ClassId {
        let _ = id;
        ClassId::ROOT
    }

    /// Returns `true` if packets can wait at the class.
    fn is_leaf(&self, id: ClassId) -> bool;

    /// Packets and bytes that a class has sent.
    fn counts(&self, id: ClassId) -> Sent;

    /// A packet of `len` was added to the queue of `leaf`. Returns the class whose newest packet the caller has
    /// to drop now.
    fn arrived(&mut self, now: Time, leaf: ClassId, len: Bytes) -> Option<ClassId> {
        let _ = (now, leaf, len);
        None
    }

    /// The queue of `leaf` has packets.
    fn wait(&mut self, now: Time, leaf: ClassId);

    /// The queue of `leaf` became empty, although nothing was sent.
    fn idle(&mut self, leaf: ClassId);

    /// The class that sends next. The caller reports what it [`sent`](Self::sent) before it asks again.
    fn next(&mut self, now: Time) -> Option<ClassId>;

    /// The class `leaf`, which was [`next`](Self::next), has sent `len`, zero if all its packets were dropped.
    /// `more` is true if its queue has further packets.
    fn sent(&mut self, now: Time, leaf: ClassId, len: Bytes, more: bool);

    /// The earliest time at which a packet may depart. `None` if none waits.
    fn ready_at(&mut self, now: Time) -> Option<Time>;

    /// The state of each class at `now`, by class number. Empty if the scheduler keeps no such state.
    fn class_states(&mut self, now: Time) -> &[ClassState] {
        let _ = now;
        &[]
    }
}

/// The state of a class, as a marking that protects guarantees sees it (`marking`, section 2.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClassState {
    /// Current service rate `r_n`.
    pub rate: Rate,
    /// Bytes that wait, `R_in - R_out`.
    pub backlog: Bytes,
    /// Guaranteed rate `mu_n`; zero if it has none.
    pub guarantee: Rate,
    /// Delay bound `d_n`.
    pub delay_bound: Option<Duration>,
    /// Queueing delay `D_n` of the packet that was sent last.
    pub delay: Duration,
}

/// A term of a class: one of its rights, duties or properties.
///
/// Each scheduler [declares](Scheduler::declares) its terms. `check` refuses any other term of a class.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Term {
    /// The class above.
    Parent,
    /// The least rate while backlogged.
    Guarantee,
    /// The highest rate.
    Ceiling,
    /// Its part in the excess.
    Weight,
    /// Its place in the order of the excess.
    Priority,
    /// Bytes it may send at once.
    Burst,
    /// The longest queueing delay.
    DelayBound,
    /// Its own queue discipline.
    Queue,
}

impl Term {
    /// Its name in policy files, reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Guarantee => "guarantee",
            Self::Ceiling => "ceiling",
            Self::Weight => "weight",
            Self::Priority => "priority",
            Self::Burst => "burst",
            Self::DelayBound => "delay_bound",
            Self::Queue => "queue",
        }
    }
}

registry! {
    /// A scheduler as a policy file names it. It is built with the rate of its link.
    SchedulerSpec, "a scheduler", build(rate: Rate) -> Scheduler:
    /// A tree of classes with guarantees, ceilings, weights and delay bounds; each class has its own queue.
    ClassTree => class_tree, "class-tree";
}

impl Default for SchedulerSpec {
    fn default() -> Self {
        Self::ClassTree(class_tree::Config::default())
    }
}

impl SchedulerSpec {
    /// The terms that its classes can have.
    #[must_use]
    pub fn terms(&self) -> &'static [Term] {
        self.build(Rate::from_bps(0)).declares()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_tree_is_the_default() {
        assert_eq!(SchedulerSpec::default().name(), "class-tree");
        assert!(SchedulerSpec::default().terms().contains(&Term::Ceiling));
    }
}
