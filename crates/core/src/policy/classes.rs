//! The classes of a link as in policy files, and the faults of sets that form no tree.

mod change;
mod flat;

pub use change::{ClassChange, TermChange};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::class::Terms;
use crate::class::delay::{self, Part, Promise, Sharer};
use crate::packet::Direction;
use crate::qdisc::QdiscSpec;
use crate::scheduler::{SchedulerSpec, Term, TermValues};
use crate::units::duration;
use crate::{Bytes, Rate};

/// A class of the link (`postack`, section 3). Both directions differ in rates and delay bounds
/// only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// Its name, unique in its set.
    pub name: String,
    /// Its parent. `None` for the link.
    pub parent: Option<String>,
    /// Rate that it may send regardless of other traffic, up and down. Zero: no guarantee, or for a
    /// class with children the sum of their guarantees.
    pub guarantee: [Rate; 2],
    /// Upper bound of its rate, up and down. `None`: the bound of its parent.
    pub ceiling: [Option<Rate>; 2],
    /// Its share of the excess, relative to its siblings of equal priority.
    pub weight: u32,
    /// The class of the highest priority gets the excess first.
    pub priority: u8,
    /// Bytes that it may send at once. `None`: the bytes that its rate carries in 2 ms, at least
    /// two full-size frames.
    pub burst: Option<Bytes>,
    /// Longest wait of its packets, up and down, while it keeps to its guarantee and burst. `None`:
    /// no bound. Only for leaf classes: see [`class::delay`](crate::class::delay).
    pub delay_bound: [Option<Duration>; 2],
    /// Terms that only its scheduler knows.
    pub own: TermValues,
    /// The queue of its packets. Both directions share this description.
    pub queue: Arc<QdiscSpec>,
}

impl Class {
    /// The class of packets whose policy names no class. It exists without being declared.
    pub const DEFAULT: &str = "default";

    /// A class without rights other than a share of the excess.
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

    /// Its rights in `direction`.
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

/// Default burst: the bytes that the rate carries while the driver's loop is late, at least two
/// full-size frames.
const CATCH_UP: Duration = Duration::from_millis(2);
const TWO_FRAMES: Bytes = Bytes(2 * FULL_SIZE.0);
const FULL_SIZE: Bytes = Bytes(1_538);

/// Classes that form a tree under a link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassSet {
    /// Parents precede their children.
    classes: Vec<Class>,
    /// The longest charged packet for which its delay bounds hold.
    frame: Bytes,
    /// The scheduler whose classes they are.
    scheduler: SchedulerSpec,
}

impl Default for ClassSet {
    /// No classes, and frames of full size.
    fn default() -> Self {
        Self { classes: Vec::new(), frame: FULL_SIZE, scheduler: SchedulerSpec::default() }
    }
}

/// A fault of a class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassFault {
    /// The class, as its index in the given list.
    pub at: usize,
    /// The other class involved. `None` for the link.
    pub other: Option<usize>,
    /// Kind of the fault.
    pub kind: ClassFaultKind,
}

/// Kind of a fault of a class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClassFaultKind {
    /// The other has the same name.
    Duplicate,
    /// No class has the name of its parent.
    Orphan,
    /// The class is its own ancestor. The other class is its parent.
    Loop,
    /// Its ceiling is below its guarantee.
    CeilingBelowGuarantee(Direction),
    /// The children of the other class, or of the link, have guarantees beyond its own rate.
    PromisedTooMuch {
        /// The direction.
        direction: Direction,
        /// Sum of the children's guarantees so far.
        promised: Rate,
        /// Rate of the parent.
        of: Rate,
    },
    /// The class has a delay bound, and the other is its child. No packets wait at a class with
    /// children.
    BoundWithParts,
    /// Its delay bound cannot be met, because of the other class or the link.
    DelayBound {
        /// The direction.
        direction: Direction,
        /// Longest possible wait of its packets. `None` if it has no bound.
        longest: Option<Duration>,
        /// The largest part of that wait, or the obstacle.
        part: Part,
    },
    /// Its delay bound is shorter than a full-size packet takes.
    BoundBelowPacket {
        /// The direction.
        direction: Direction,
        /// Time of one packet.
        least: Duration,
    },
    /// With it, the guarantees leave nothing of the link.
    NothingLeft {
        /// The direction.
        direction: Direction,
        /// Sum of the guarantees so far.
        promised: Rate,
        /// Rate of the link.
        of: Rate,
    },
    /// This ratio refers to a class that does not exist.
    RatioToNone(Term),
    /// This ratio refers to the class itself, through the other.
    RatioLoop(Term),
    /// The factor of this ratio is zero.
    ZeroFactor(Term),
}

impl fmt::Display for ClassFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate => f.write_str("two classes have the same name"),
            Self::Orphan => f.write_str("its parent is no class"),
            Self::Loop => f.write_str("it lies below itself"),
            Self::CeilingBelowGuarantee(way) => {
                write!(f, "its ceiling {} is below its guarantee", way.name())
            }
            Self::PromisedTooMuch { direction, promised, of } => {
                let way = direction.name();
                write!(f, "with it, guarantees {way} come to {promised}, of {of}")
            }
            Self::BoundBelowPacket { direction, least } => {
                let (way, least) = (direction.name(), flat::shown(*least));
                write!(f, "its delay bound {way} is shorter than a full-size packet takes: {least}")
            }
            Self::NothingLeft { direction, promised, of } => {
                let way = direction.name();
                write!(f, "with it, guarantees {way} come to {promised}, and leave nothing of {of}")
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
            Self::BoundWithParts => {
                f.write_str("it has a delay bound, and parts: no packets wait there")
            }
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
                    Part::Order => "later packets may go first, and its guarantee is all there is",
                    Part::ShortBurst => {
                        "the burst is too small for what the ceiling is to make up for"
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

/// Name of a part of a packet's wait.
const fn name(part: Part) -> &'static str {
    match part {
        Part::Guarantee | Part::Order => "its guarantee",
        Part::Burst | Part::ShortBurst => "a burst",
        Part::Ceiling => "a packet to be paid off at a ceiling",
        Part::Control => "control traffic",
        Part::Link => "a packet that is being sent",
    }
}

/// Rounds up to whole microseconds, or from 10 ms on to milliseconds.
fn rounded_up(span: Duration) -> Duration {
    let unit = if span < Duration::from_millis(10) { 1_000 } else { 1_000_000 };
    let nanos = span.as_nanos().div_ceil(unit) * unit;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl ClassSet {
    /// The set of `classes`, in any order, under a link of `rate`. Packets are charged at most 1538
    /// B: a full-size Ethernet frame with preamble and gap.
    ///
    /// # Errors
    ///
    /// All faults of the set.
    pub fn new(classes: Vec<Class>, rate: [Option<Rate>; 2]) -> Result<Self, Vec<ClassFault>> {
        Self::of(classes, rate, FULL_SIZE, &SchedulerSpec::default())
    }

    /// The same for packets that are charged at most `frame`, and classes of `scheduler`.
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
        let classes = with_what_children_have(classes, &parents, &order);
        for direction in Direction::BOTH {
            promises(&classes, &parents, direction, rate[direction.index()], &mut faults);
        }
        have_no_parts(&classes, &parents, &mut faults);
        // Delay bounds are undefined for sets that form no tree or promise too much.
        if faults.is_empty() {
            delays(&classes, &parents, rate, frame, &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut places: Vec<_> = classes.into_iter().map(Some).collect();
        let mut classes = Vec::with_capacity(places.len());
        classes.extend(order.into_iter().filter_map(|at| places[at].take()));
        Ok(Self { classes, frame, scheduler })
    }

    /// Returns `true` if the set has no classes. The link then has one queue.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The set with changes, under a link of `rate`. `others` replaces classes of the same name,
    /// adds new ones, and removes those with `None`.
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

    /// Returns `true` if the set names `default`. Otherwise `default` has no rights, and the queue of the
    /// link.
    pub(crate) fn names_default(&self) -> bool {
        self.classes.iter().any(|class| class.name == Class::DEFAULT)
    }

    /// The longest charged packet for which the delay bounds hold.
    pub(crate) const fn frame(&self) -> Bytes {
        self.frame
    }

    /// The scheduler whose classes they are.
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

/// The parent of each class. `None` for a child of the link.
fn parents(classes: &[Class], faults: &mut Vec<ClassFault>) -> Vec<Option<usize>> {
    let mut places = BTreeMap::<&str, usize>::new();
    for (at, class) in classes.iter().enumerate() {
        let first = *places.entry(&class.name).or_insert(at);
        if first != at {
            faults.push(ClassFault { at, other: Some(first), kind: ClassFaultKind::Duplicate });
        }
    }
    let mut parents = Vec::with_capacity(classes.len());
    for (at, class) in classes.iter().enumerate() {
        let parent = class.parent.as_ref().map(|name| places.get(name.as_str()).copied());
        if parent == Some(None) {
            faults.push(ClassFault { at, other: None, kind: ClassFaultKind::Orphan });
        }
        parents.push(parent.flatten());
    }
    parents
}

/// Indices of the classes, with parents before their children.
fn parents_first(parents: &[Option<usize>], faults: &mut Vec<ClassFault>) -> Vec<usize> {
    let mut order = Vec::with_capacity(parents.len());
    // The walk that visited each class. Zero for none.
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

/// Sets absent guarantees of classes to the sum of their children's guarantees.
fn with_what_children_have(
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

/// Reports guarantees that cannot be kept.
fn promises(
    classes: &[Class],
    parents: &[Option<usize>],
    direction: Direction,
    link: Option<Rate>,
    faults: &mut Vec<ClassFault>,
) {
    let way = direction.index();
    // Sum for each class. The last element is that of the link.
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

/// Reports delay bounds of classes with children.
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
    /// The fault of a class whose bound is below the longest wait in `promise`.
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
    fn parents_come_first_and_have_what_their_children_are_promised() {
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
    fn what_is_no_tree_is_refused_and_all_of_it_named() {
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
    fn promises_that_cannot_be_kept_name_who_goes_too_far_and_of_what() {
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
