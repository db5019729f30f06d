//! The classes of the access link as policy files describe them, and the checks of a set of classes.
//!
//! Classes form a tree, whose root is the link. A set is faulty if its classes form no tree, or if guarantees and delay
//! bounds cannot be kept.

mod change;
mod flat;

pub use change::{ClassChange, TermChange};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::class::Terms;
use tidegate_core::class::delay::{self, Part, Promise, Sharer};
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::{SchedulerSpec, Term, TermValues};
use tidegate_core::units::duration;
use tidegate_core::{Bytes, Rate};

/// A class of the link (`postack`, section 3). Only rates and delay bounds may differ between the two directions.
/// Fields with two values have one for each direction, upstream first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// Name of the class, unique in its set.
    pub name: String,
    /// Name of the parent class. `None` for a child of the link.
    pub parent: Option<String>,
    /// Rate that the class gets regardless of other classes. Zero means no guarantee. For a class
    /// with children, zero means the sum of their guarantees.
    pub guarantee: [Rate; 2],
    /// Upper bound of the rate. `None`: the bound of the parent.
    pub ceiling: [Option<Rate>; 2],
    /// Share of the excess bandwidth, relative to siblings of equal priority.
    pub weight: u32,
    /// Siblings of the highest priority get excess bandwidth first.
    pub priority: u8,
    /// Bytes that the class may send at once. `None`: the bytes of 2 ms at its ceiling or guarantee,
    /// but at least two full-size frames.
    pub burst: Option<Bytes>,
    /// Longest wait of the packets while the class does not exceed guarantee and burst. `None`: no bound. Only leaf
    /// classes may have one (see [`class::delay`](tidegate_core::class::delay)).
    pub delay_bound: [Option<Duration>; 2],
    /// Terms that only its scheduler knows.
    pub own: TermValues,
    /// The queue of its packets. Both directions share this description.
    pub queue: Arc<QdiscSpec>,
}

impl Class {
    /// Name of the class for packets whose policy names no class. This class exists even if no file declares it.
    pub const DEFAULT: &str = "default";

    /// A class without guarantee or bounds. It gets a share of the excess bandwidth only.
    #[must_use]
    pub fn new(name: &str, queue: impl Into<Arc<QdiscSpec>>) -> Self {
        Self {
            name: name.to_owned(),
            parent: None,
            guarantee: [Rate::from_bps(0); 2],
            ceiling: [None; 2],
            weight: 1,
            priority: 0,
            burst: None,
            delay_bound: [None; 2],
            own: TermValues::default(),
            queue: queue.into(),
        }
    }

    /// The terms of the class in `direction`, for a scheduler.
    #[must_use]
    pub fn terms(&self, direction: Direction) -> Terms {
        let (guarantee, ceiling) =
            (self.guarantee[direction.index()], self.ceiling[direction.index()]);
        let fastest = ceiling.map_or(guarantee, |ceiling| ceiling.max(guarantee));
        let usual = || fastest.bytes_in(CATCH_UP).max(TWO_FRAMES);
        let burst = self.burst.unwrap_or_else(usual);
        Terms {
            guarantee,
            ceiling,
            weight: self.weight,
            priority: self.priority,
            burst,
            delay_bound: self.delay_bound[direction.index()],
        }
    }
}

/// Default burst as a time: a driver's loop that is late by this much loses no bandwidth.
const CATCH_UP: Duration = Duration::from_millis(2);

/// Least default burst.
const TWO_FRAMES: Bytes = Bytes(2 * FULL_SIZE.0);

/// Bytes that a full-size Ethernet frame of 1,514 bytes takes on the wire, with check sequence, preamble and gap.
const FULL_SIZE: Bytes = Bytes(1_538);

/// A checked set of classes, which form a tree under the link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassSet {
    /// The classes. Parents precede their children.
    classes: Vec<Class>,
    /// Charged bytes of the longest packet for which the delay bounds hold.
    frame: Bytes,
    /// The scheduler of the link, which decides the terms that a class may have.
    scheduler: SchedulerSpec,
}

impl Default for ClassSet {
    /// No classes, and packets up to a full-size Ethernet frame.
    fn default() -> Self {
        Self { classes: Vec::new(), frame: FULL_SIZE, scheduler: SchedulerSpec::default() }
    }
}

/// A fault of a class in a set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassFault {
    /// Index of the faulty class in the list that was checked.
    pub at: usize,
    /// Index of the other class in the fault. `None` if it is the link, or if there is none.
    pub other: Option<usize>,
    /// Kind of the fault.
    pub kind: ClassFaultKind,
}

/// Kind of a fault of a class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClassFaultKind {
    /// The other class has the same name.
    Duplicate,
    /// The parent that the class names does not exist.
    Orphan,
    /// The class is its own ancestor. The other class is its parent.
    Loop,
    /// The ceiling is below the guarantee.
    CeilingBelowGuarantee(Direction),
    /// The guarantees of siblings add up to more than the rate of their parent, the other class or the link.
    PromisedTooMuch {
        /// The direction.
        direction: Direction,
        /// Sum of the guarantees of the siblings, up to and including this class.
        promised: Rate,
        /// Guarantee of the parent class, or rate of the link.
        of: Rate,
    },
    /// The class has a delay bound, but also a child, the other class. Packets wait at leaf classes only.
    BoundWithParts,
    /// The delay bound cannot be met, because of the other class or the link.
    DelayBound {
        /// The direction.
        direction: Direction,
        /// Longest possible wait of a packet of the class. `None` if a packet may wait for any time.
        longest: Option<Duration>,
        /// Cause of the largest part of this wait, or the reason why the wait has no bound.
        part: Part,
    },
    /// The delay bound is shorter than the transmission time of one packet of full size.
    BoundBelowPacket {
        /// The direction.
        direction: Direction,
        /// Transmission time of one packet.
        least: Duration,
    },
    /// The guarantees up to and including this class take the whole rate of the link.
    NothingLeft {
        /// The direction.
        direction: Direction,
        /// Sum of these guarantees.
        promised: Rate,
        /// Rate of the link.
        of: Rate,
    },
    /// The ratio of this term refers to a class that does not exist.
    RatioToNone(Term),
    /// The ratio of this term leads back to the class itself. The other class is the next in the circle.
    RatioLoop(Term),
    /// The factor of this term's ratio is zero.
    ZeroFactor(Term),
}

impl fmt::Display for ClassFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate => f.write_str("two classes have the same name"),
            Self::Orphan => f.write_str("its parent does not exist"),
            Self::Loop => f.write_str("it is its own ancestor"),
            Self::CeilingBelowGuarantee(way) => {
                write!(f, "its ceiling {} is below its guarantee", way.name())
            }
            Self::PromisedTooMuch { direction, promised, of } => {
                let way = direction.name();
                write!(
                    f,
                    "with this class, the sum of guarantees {way} is {promised}, more than {of}"
                )
            }
            Self::BoundBelowPacket { direction, least } => {
                let (way, least) = (direction.name(), flat::shown(*least));
                write!(f, "its delay bound {way} is shorter than a full-size packet takes: {least}")
            }
            Self::NothingLeft { direction, promised, of } => {
                let way = direction.name();
                write!(
                    f,
                    "with this class, the sum of guarantees {way} is {promised}, and nothing of {of} is left"
                )
            }
            Self::RatioToNone(term) => {
                write!(f, "its `{}` refers to a class that does not exist", term.name())
            }
            Self::RatioLoop(term) => {
                write!(f, "its `{}` leads back to the class itself", term.name())
            }
            Self::ZeroFactor(term) => {
                write!(f, "the factor of its `{}` must be above zero", term.name())
            }
            Self::BoundWithParts => f.write_str(
                "it has a delay bound and parts, but no packets wait at a class with parts",
            ),
            Self::DelayBound { direction, longest: Some(longest), part } => {
                let way = direction.name();
                write!(f, "its delay bound {way} cannot be met: a packet may wait ")?;
                write!(
                    f,
                    "{}, most of it for {}",
                    duration::show(rounded_up(*longest)),
                    name(*part)
                )
            }
            Self::DelayBound { direction, longest: None, part } => {
                let why = match part {
                    Part::Guarantee => "it has no guarantee",
                    Part::Order => {
                        "later packets may go first, and its guarantee is the whole rate"
                    }
                    Part::ShortBurst => {
                        "its burst is too small for the bytes that its ceiling delays"
                    }
                    Part::Burst | Part::Ceiling | Part::Control | Part::Link => {
                        "a packet may wait forever"
                    }
                };
                write!(f, "its delay bound {} cannot be met: {why}", direction.name())
            }
        }
    }
}

/// The words for a part of a packet's wait in error messages.
const fn name(part: Part) -> &'static str {
    match part {
        Part::Guarantee | Part::Order => "its guarantee",
        Part::Burst | Part::ShortBurst => "a burst",
        Part::Ceiling => "a packet that took the tokens of a ceiling",
        Part::Control => "control traffic",
        Part::Link => "a packet that is being sent",
    }
}

/// Rounds up to whole microseconds, or to whole milliseconds from 10 ms on.
fn rounded_up(span: Duration) -> Duration {
    let unit = if span < Duration::from_millis(10) { 1_000 } else { 1_000_000 };
    let nanos = span.as_nanos().div_ceil(unit) * unit;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl ClassSet {
    /// Checks `classes`, in any order, for a link with `rate` (up and down). Packets are charged with at most 1538 bytes:
    /// a full-size Ethernet frame with preamble and gap.
    ///
    /// # Errors
    ///
    /// All faults of the set.
    pub fn new(classes: Vec<Class>, rate: [Option<Rate>; 2]) -> Result<Self, Vec<ClassFault>> {
        Self::of(classes, rate, FULL_SIZE, &SchedulerSpec::default())
    }

    /// The same as [`new`](Self::new), for packets that are charged with at most `frame`, and with
    /// the terms of `scheduler`.
    ///
    /// # Errors
    ///
    /// All faults of the set.
    pub fn of(
        classes: Vec<Class>,
        rate: [Option<Rate>; 2],
        frame: Bytes,
        scheduler: &SchedulerSpec,
    ) -> Result<Self, Vec<ClassFault>> {
        let mut faults = Vec::new();
        let parents = parents(&classes, &mut faults);
        let scheduler = scheduler.clone();
        if !scheduler.terms().contains(&Term::PARENT) {
            flat::faults(&classes, (rate, frame), scheduler.terms(), &mut faults);
            let set = Self { classes, frame, scheduler };
            return if faults.is_empty() { Ok(set) } else { Err(faults) };
        }
        let order = parents_first(&parents, &mut faults);
        let classes = with_sums_of_children(classes, &parents, &order);
        for direction in Direction::BOTH {
            promises(&classes, &parents, direction, rate[direction.index()], &mut faults);
        }
        have_no_parts(&classes, &parents, &mut faults);
        // Delay bounds cannot be computed if the classes form no tree, or if guarantees are too large.
        if faults.is_empty() {
            delays(&classes, &parents, rate, frame, &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut unordered: Vec<_> = classes.into_iter().map(Some).collect();
        let mut classes = Vec::with_capacity(unordered.len());
        classes.extend(order.into_iter().filter_map(|at| unordered[at].take()));
        Ok(Self { classes, frame, scheduler })
    }

    /// Returns `true` if the set has no classes. The link then has a single queue.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Checks a changed copy of this set for a link with `rate`. `others` maps names to classes that replace the class of
    /// this name or are added. `None` removes the class.
    ///
    /// # Errors
    ///
    /// All faults of the changed set.
    pub fn with(
        &self,
        others: &BTreeMap<String, Option<Class>>,
        rate: [Option<Rate>; 2],
    ) -> Result<Self, Vec<ClassFault>> {
        let stays = self.classes.iter().filter(|class| !others.contains_key(&class.name));
        let classes = stays.chain(others.values().flatten()).cloned().collect();
        Self::of(classes, rate, self.frame, &self.scheduler)
    }

    /// Returns `true` if the set declares the class `default`. Otherwise this class has no guarantee, and uses the queue
    /// discipline of the link.
    pub(crate) fn names_default(&self) -> bool {
        self.classes.iter().any(|class| class.name == Class::DEFAULT)
    }

    /// Charged bytes of the longest packet for which the delay bounds hold.
    pub(crate) const fn frame(&self) -> Bytes {
        self.frame
    }

    /// The scheduler of the link.
    #[must_use]
    pub const fn scheduler(&self) -> &SchedulerSpec {
        &self.scheduler
    }

    /// The classes, parents before their children.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }
}

/// Index of each class's parent. `None` for a child of the link.
fn parents(classes: &[Class], faults: &mut Vec<ClassFault>) -> Vec<Option<usize>> {
    let mut by_name = BTreeMap::<&str, usize>::new();
    for (at, class) in classes.iter().enumerate() {
        let first = *by_name.entry(&class.name).or_insert(at);
        if first != at {
            faults.push(ClassFault { at, other: Some(first), kind: ClassFaultKind::Duplicate });
        }
    }
    let mut parents = Vec::with_capacity(classes.len());
    for (at, class) in classes.iter().enumerate() {
        let parent = class.parent.as_ref().map(|name| by_name.get(name.as_str()).copied());
        if parent == Some(None) {
            faults.push(ClassFault { at, other: None, kind: ClassFaultKind::Orphan });
        }
        parents.push(parent.flatten());
    }
    parents
}

/// Indices of the classes in an order with parents before their children.
fn parents_first(parents: &[Option<usize>], faults: &mut Vec<ClassFault>) -> Vec<usize> {
    let mut order = Vec::with_capacity(parents.len());
    // Walk `n` begins at class `n - 1` and goes to its ancestors. `walk` has the number of the walk that visited each class
    // first, or zero. If a walk comes to a class that it has visited itself, there is a loop.
    let mut walk = vec![0; parents.len()];
    for at in 0..parents.len() {
        let (mut way, mut next) = (Vec::new(), Some(at));
        while let Some(class) = next.filter(|class| walk[*class] == 0) {
            walk[class] = at + 1;
            way.push(class);
            next = parents[class];
        }
        if let Some(class) = next.filter(|class| walk[*class] == at + 1) {
            faults.push(ClassFault {
                at: class,
                other: parents[class],
                kind: ClassFaultKind::Loop,
            });
        }
        order.extend(way.into_iter().rev());
    }
    order
}

/// Sets the guarantee of each parent without one to the sum of its children's guarantees.
fn with_sums_of_children(
    mut classes: Vec<Class>,
    parents: &[Option<usize>],
    order: &[usize],
) -> Vec<Class> {
    let own: Vec<_> = classes.iter().map(|class| class.guarantee).collect();
    for at in order.iter().rev() {
        let Some(parent) = parents[*at] else { continue };
        for way in Direction::BOTH.map(Direction::index) {
            if own[parent][way].bps() == 0 {
                let sum = classes[parent].guarantee[way].bps();
                let sum = sum.saturating_add(classes[*at].guarantee[way].bps());
                classes[parent].guarantee[way] = Rate::from_bps(sum);
            }
        }
    }
    classes
}

/// Reports guarantees of siblings that add up to more than the rate of their parent.
fn promises(
    classes: &[Class],
    parents: &[Option<usize>],
    direction: Direction,
    link: Option<Rate>,
    faults: &mut Vec<ClassFault>,
) {
    let way = direction.index();
    // Sum of the children's guarantees for each class. The last element is the sum for the link.
    let mut promised = vec![0u64; classes.len() + 1];
    for (at, class) in classes.iter().enumerate() {
        let guarantee = class.guarantee[way];
        if class.ceiling[way].is_some_and(|ceiling| ceiling < guarantee) {
            let kind = ClassFaultKind::CeilingBelowGuarantee(direction);
            faults.push(ClassFault { at, other: None, kind });
        }
        let parent = parents[at];
        let Some(of) = parent.map_or(link, |parent| Some(classes[parent].guarantee[way])) else {
            continue;
        };
        let sum = &mut promised[parent.unwrap_or(classes.len())];
        let before = *sum;
        *sum = sum.saturating_add(guarantee.bps());
        // Each parent is reported once, at the first class beyond its rate.
        if *sum > of.bps() && before <= of.bps() {
            let promised = Rate::from_bps(*sum);
            let kind = ClassFaultKind::PromisedTooMuch { direction, promised, of };
            faults.push(ClassFault { at, other: parent, kind });
        }
    }
}

/// Reports classes that have both a delay bound and children.
fn have_no_parts(classes: &[Class], parents: &[Option<usize>], faults: &mut Vec<ClassFault>) {
    let mut said = vec![false; classes.len()];
    for (part, parent) in parents.iter().enumerate() {
        let bound = |at: &usize| classes[*at].delay_bound != [None; 2];
        let Some(at) = parent.filter(bound) else { continue };
        if !std::mem::replace(&mut said[at], true) {
            let kind = ClassFaultKind::BoundWithParts;
            faults.push(ClassFault { at, other: Some(part), kind });
        }
    }
}

/// Reports delay bounds that cannot be met.
fn delays(
    classes: &[Class],
    parents: &[Option<usize>],
    rate: [Option<Rate>; 2],
    frame: Bytes,
    faults: &mut Vec<ClassFault>,
) {
    for direction in Direction::BOTH {
        let Some(rate) = rate[direction.index()] else { continue };
        let sharer = |(class, parent): (&Class, &Option<usize>)| Sharer {
            parent: *parent,
            terms: class.terms(direction),
            in_order: class.queue.is_in_order(),
        };
        let sharers: Vec<_> = classes.iter().zip(parents).map(sharer).collect();
        for promise in delay::broken(&sharers, rate, frame) {
            let kind = ClassFaultKind::of(&promise, direction);
            let of_link = matches!(promise.part, Part::Control | Part::Link);
            let other = (!of_link).then_some(promise.of);
            faults.push(ClassFault { at: promise.leaf, other, kind });
        }
    }
}

impl ClassFaultKind {
    /// The fault of a delay bound that is shorter than the longest wait in `promise`.
    pub(crate) const fn of(promise: &Promise, direction: Direction) -> Self {
        let &Promise { longest, part, .. } = promise;
        Self::DelayBound { direction, longest, part }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, parent: Option<&str>, mbps: u64) -> Class {
        let parent = parent.map(str::to_owned);
        let guarantee = [Rate::from_mbps(mbps); 2];
        Class { parent, guarantee, ..Class::new(name, QdiscSpec::DropTail(Default::default())) }
    }

    fn faults(classes: Vec<Class>) -> Vec<(usize, Option<usize>, ClassFaultKind)> {
        let faults = ClassSet::new(classes, [Some(Rate::from_mbps(100)), None]).err();
        let faults = faults.unwrap_or_default().into_iter();
        faults.map(|ClassFault { at, other, kind }| (at, other, kind)).collect()
    }

    #[test]
    fn parents_come_first_and_guarantee_the_sum_of_their_children() {
        let classes = vec![
            class("voice", Some("staff"), 4),
            class("staff", Some("office"), 0),
            class("web", Some("staff"), 6),
            class("office", None, 20),
        ];
        let set = ClassSet::new(classes, [Some(Rate::from_mbps(20)); 2]).unwrap();
        let names: Vec<_> = set.classes().iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["office", "staff", "voice", "web"]);
        assert_eq!(set.classes()[1].guarantee, [Rate::from_mbps(10); 2]);
    }

    #[test]
    fn classes_that_form_no_tree_are_refused_and_each_is_named() {
        use ClassFaultKind::{Duplicate, Loop, Orphan};
        let classes = vec![
            class("a", Some("b"), 0),
            class("b", Some("c"), 0),
            class("c", Some("b"), 0),
            class("c", None, 0),
            class("d", Some("nobody"), 0),
            class("e", Some("e"), 0),
        ];
        let all =
            [(3, Some(2), Duplicate), (4, None, Orphan), (1, Some(2), Loop), (5, Some(5), Loop)];
        assert_eq!(faults(classes), all);
    }

    #[test]
    fn guarantees_beyond_a_rate_name_the_first_class_in_excess() {
        let mut classes = vec![
            class("a", None, 60),
            class("b", None, 50),
            class("c", Some("a"), 40),
            class("d", Some("a"), 30),
            class("e", Some("a"), 30),
        ];
        classes[2].ceiling = [None, Some(Rate::from_mbps(39))];
        let too_much = |direction, promised, of| {
            let (promised, of) = (Rate::from_mbps(promised), Rate::from_mbps(of));
            ClassFaultKind::PromisedTooMuch { direction, promised, of }
        };
        let all = [
            (1, None, too_much(Direction::Up, 110, 100)),
            (3, Some(0), too_much(Direction::Up, 70, 60)),
            (2, None, ClassFaultKind::CeilingBelowGuarantee(Direction::Down)),
            (3, Some(0), too_much(Direction::Down, 70, 60)),
        ];
        assert_eq!(faults(classes), all);
    }
}
