//! Schedulers of a link: the class that sends next, and the class that loses a packet to a full buffer.
//!
//! A scheduler knows no packets. Its caller keeps a queue for each class, reports arrivals and departures, and
//! asks for the next class. Some schedulers have one buffer for all classes. They answer an arrival with the
//! class whose newest packet the caller drops.
//!
//! To add a scheduler: write `scheduler/<name>.rs` with a `Config`, its `build` and its `TERMS`. Then
//! add its `mod` line and its line in `registry!` below. Policy files, the simulator and the live
//! gateway know it by that name.
//!
//! To add a term of its classes: write one line in the `terms!` of its file, and use its value in
//! [`Scheduler::set_own`]. Policy files, their schema, the manual, the API and `tidegate class` know it by its name.

mod class_tree;
pub mod jobs;
mod terms;

pub use terms::{
    OwnTerms, Ratio, Term, TermDeclaration, TermForm, TermType, TermValue, TermValues,
};

use std::time::Duration;

use crate::class::{ClassId, Sent, Terms};
use crate::{Bytes, Factor, Rate, Time, registry, report};

/// Selects among the classes of a link.
///
/// Class 0 is the link itself. [`add`](Self::add) returns the number of a new class; numbers of removed classes
/// are used again.
///
/// # Call order
///
/// 1. After a packet was queued: [`arrived`](Self::arrived), then [`dropped`](Self::dropped) for each
///    class that must drop, until `None`. Then [`wait`](Self::wait), unless the packet was dropped.
/// 2. If the link is free: [`next`](Self::next), then [`sent`](Self::sent) before the next call of `next`.
/// 3. If `next` returns `None`: return at [`ready_at`](Self::ready_at), or at the next packet.
///
/// # Time
///
/// `now` does not run backwards. Early calls are harmless.
///
/// # Example
///
/// Two classes without guarantees share the link by their weights, three to one.
///
/// ```
/// use tidegate_core::class::{ClassId, Terms};
/// use tidegate_core::scheduler::SchedulerSpec;
/// use tidegate_core::{Bytes, Rate, Time};
///
/// let mut scheduler = SchedulerSpec::default().build(Rate::from_mbps(8));
/// let [office, guests] = [3, 1].map(|weight| {
///     let class = scheduler.add(Time::ZERO, ClassId::ROOT, Terms { weight, ..Terms::NONE });
///     scheduler.wait(Time::ZERO, class);
///     class
/// });
/// for ms in 0..400 {
///     let now = Time::from_millis(ms);
///     let class = scheduler.next(now).unwrap();
///     scheduler.sent(now, class, Bytes(1_000), true);
/// }
/// assert_eq!(scheduler.counts(office).packets, 300);
/// assert_eq!(scheduler.counts(guests).packets, 100);
///
/// // Without packets nobody is next.
/// [office, guests].map(|class| scheduler.idle(class));
/// assert_eq!(scheduler.next(Time::from_millis(400)), None);
/// ```
pub trait Scheduler: Send {
    /// The terms that classes of this scheduler can have.
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

    /// Sets the terms of a class that only this scheduler [declares](crate::terms!). All classes that they name
    /// exist. `rank` is the position of the class in the file: a class that comes earlier has the higher priority.
    /// Not called if the scheduler declares terms of the link only.
    fn set_own(&mut self, id: ClassId, rank: u32, own: &OwnTerms<'_>) {
        let _ = (id, rank, own);
    }

    /// Size of the buffer that all classes share. `None` if each class has a queue with a limit of
    /// its own.
    fn buffer(&self) -> Option<Bytes> {
        None
    }

    /// Sets the rate of the link.
    fn set_rate(&mut self, now: Time, rate: Rate) {
        let _ = (now, rate);
    }

    /// The terms of a class.
    fn terms(&self, id: ClassId) -> Terms;

    /// The parent of the class `id`.
    fn parent(&self, id: ClassId) -> ClassId {
        let _ = id;
        ClassId::ROOT
    }

    /// Returns `true` if the class is a leaf, at which packets can wait.
    fn is_leaf(&self, id: ClassId) -> bool;

    /// Packets and bytes that a class has sent.
    fn counts(&self, id: ClassId) -> Sent;

    /// A packet of `len` was added to the queue of `leaf`. Returns the class whose newest packet
    /// the caller must drop now.
    fn arrived(&mut self, now: Time, leaf: ClassId, len: Bytes) -> Option<ClassId> {
        let _ = (now, leaf, len);
        None
    }

    /// The newest packet of `leaf` was dropped on request of the scheduler. `more` is true if its
    /// queue has further packets. Returns the next class that must drop.
    fn dropped(&mut self, now: Time, leaf: ClassId, more: bool) -> Option<ClassId> {
        let _ = (now, leaf, more);
        None
    }

    /// Notes that a packet of `leaf`, which arrived at `since`, was moved to another class.
    fn withdrawn(&mut self, leaf: ClassId, since: Time) {
        let _ = (leaf, since);
    }

    /// The queue of `leaf` has packets.
    fn wait(&mut self, now: Time, leaf: ClassId);

    /// The queue of `leaf` became empty without a transmission.
    fn idle(&mut self, leaf: ClassId);

    /// The class that sends next. The caller reports the bytes [`sent`](Self::sent) before the next
    /// call.
    fn next(&mut self, now: Time) -> Option<ClassId>;

    /// The class `leaf`, returned by [`next`](Self::next), has sent `len` bytes; zero if all its
    /// packets were dropped. `more` is true if its queue has further packets.
    fn sent(&mut self, now: Time, leaf: ClassId, len: Bytes, more: bool);

    /// The earliest time at which a packet may depart. `None` if no packet waits.
    fn ready_at(&mut self, now: Time) -> Option<Time>;

    /// The state of each class at `now`, by class number. Empty if the scheduler keeps no such state.
    fn class_states(&mut self, now: Time) -> &[ClassState] {
        let _ = now;
        &[]
    }

    /// The promises to a class and their fulfilment, as far as the scheduler records them.
    fn kept(&self, id: ClassId) -> Vec<Kept> {
        let _ = id;
        Vec::new()
    }

    /// Queueing delays of the packets that a class has sent, if the scheduler records them.
    fn delays(&self, id: ClassId) -> Option<Delays> {
        let _ = id;
        None
    }
}

/// A ratio: a class has `factor` times the delay or loss of the class `of`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Relation {
    /// The other class.
    pub of: ClassId,
    /// Factor above zero.
    pub factor: Factor,
}

/// A promise to a class, and its fulfilment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// The term that makes the promise.
    pub term: Term,
    /// The class that a ratio refers to.
    pub of: Option<ClassId>,
    /// The promised value, in the [unit](Term::unit) of the term.
    pub promised: f64,
    /// The measured value. `None` before the first measurement.
    pub kept: Option<f64>,
    /// Number of violations.
    pub violations: u64,
    /// Number of times the promise was relaxed because other promises have precedence.
    pub relaxed: u64,
}

impl Kept {
    /// A promise of `term` without values.
    const fn of(term: Term) -> Self {
        Self { term, of: None, promised: 0.0, kept: None, violations: 0, relaxed: 0 }
    }
}

report! {
    /// Queueing delays of packets.
    #[derive(Copy, Eq)]
    pub Delays {
        /// Number of packets.
        packets: u64;
        /// Sum of their delays.
        total as "total_us": Duration;
        /// The longest delay.
        longest as "longest_us": Duration;
    }
}

impl Delays {
    /// The mean delay. `None` without packets.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.total.as_nanos().checked_div(u128::from(self.packets))?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

/// State of a class, for markings that protect guarantees (`marking`, section 2.4).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClassState {
    /// Current service rate `r_n`.
    pub rate: Rate,
    /// Waiting bytes, `R_in - R_out`.
    pub backlog: Bytes,
    /// Guaranteed rate `mu_n`; zero for none.
    pub guarantee: Rate,
    /// Delay bound `d_n`.
    pub delay_bound: Option<Duration>,
    /// Queueing delay `D_n` of the packet that was sent last.
    pub delay: Duration,
}

registry! {
    /// A scheduler as a policy file names it. It is built with the rate of its link.
    SchedulerSpec, "a scheduler", each with TERMS: &'static [Term], build(rate: Rate) -> Scheduler:
    /// A tree of classes with guarantees, ceilings, weights and delay bounds. Each class has its own queue.
    ClassTree => class_tree, "class-tree";
    /// JoBS: bounds and ratios of delay and loss for classes that share one buffer.
    Jobs => jobs, "jobs";
}

impl Default for SchedulerSpec {
    fn default() -> Self {
        Self::ClassTree(class_tree::Config::default())
    }
}

impl SchedulerSpec {
    /// Sets the size of the buffer that all classes share. Returns `false` if there is no such buffer.
    pub fn set_buffer(&mut self, buffer: Bytes) -> bool {
        self.set_apart("buffer", &buffer)
    }

    /// The terms that classes of this scheduler can have.
    #[must_use]
    pub fn terms(&self) -> &'static [Term] {
        self.constant().unwrap_or_else(|| self.build(Rate::from_bps(0)).declares())
    }

    /// The terms of each scheduler of the registry, in the order of [`NAMES`](Self::NAMES).
    #[must_use]
    pub const fn terms_of_each() -> &'static [&'static [Term]] {
        Self::TERMS
    }

    /// The terms that classes of any scheduler of the registry can have, each once.
    pub fn all_terms() -> impl Iterator<Item = Term> {
        Self::TERMS.iter().enumerate().flat_map(|(at, terms)| {
            let earlier = &Self::TERMS[..at];
            terms.iter().copied().filter(|term| !earlier.iter().any(|it| it.contains(term)))
        })
    }

    /// The term called `name` of classes of any scheduler of the registry.
    #[must_use]
    pub fn term(name: &str) -> Option<Term> {
        Self::TERMS.iter().copied().flatten().copied().find(|term| term.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_tree_is_the_default() {
        assert_eq!(SchedulerSpec::default().name(), "class-tree");
        assert!(SchedulerSpec::default().terms().contains(&Term::CEILING));
    }
}
