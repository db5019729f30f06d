//! The classes of a gateway's link, as files name them, and the faults of sets that form no tree.

mod change;
mod flat;

pub use change::ClassChange;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::class::Terms;
use crate::class::delay::{self, Part, Promise, Sharer};
use crate::packet::Direction;
use crate::qdisc::QdiscSpec;
use crate::scheduler::{SchedulerSpec, Term};
use crate::units::duration;
use crate::{Bytes, Chance, Factor, Rate};

/// A class of the link (`postack`, section 3), the same in both directions but for its rates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Class {
    /// Its name, unique in its set.
    pub name: String,
    /// The class it is a part of; `None` for the link.
    pub parent: Option<String>,
    /// What it may send whatever others do, up and down; zero for nothing, or for a class with
    /// children for as much as these are promised.
    pub guarantee: [Rate; 2],
    /// The most it may send, up and down; `None` for as much as its parent.
    pub ceiling: [Option<Rate>; 2],
    /// Its part in what guarantees leave, in relation to its siblings of the same priority.
    pub weight: u32,
    /// The highest gets what guarantees leave first.
    pub priority: u8,
    /// What it may send at once; `None` for what its rate carries in 2 ms, at least two full-size
    /// frames.
    pub burst: Option<Bytes>,
    /// The longest its packets may wait, up and down, as long as they keep to its guarantee and burst; `None`
    /// for as long as it takes. Only where packets wait: see [`class::delay`](crate::class::delay).
    pub delay_bound: [Option<Duration>; 2],
    /// The largest part of its bytes that may be dropped while packets wait.
    pub loss_bound: Option<Chance>,
    /// Its queueing delay relative to another class.
    pub delay_ratio: Option<Ratio>,
    /// Its loss relative to another class.
    pub loss_ratio: Option<Ratio>,
    /// Where its packets wait. Shared with the queues of both directions.
    pub queue: Arc<QdiscSpec>,
}

/// A class has `factor` times as much as the class `of`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ratio {
    /// Name of the other class.
    pub of: String,
    /// Above zero.
    pub factor: Factor,
}

impl Class {
    /// What packets that no policy gives a class are of, whether a file says more of it or not.
    pub const DEFAULT: &str = "default";

    /// A class without rights but to its part in what others leave.
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
            loss_bound: None,
            delay_ratio: None,
            loss_ratio: None,
            queue: queue.into(),
        }
    }

    /// What it has a right to in `direction`.
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
            loss_bound: self.loss_bound,
        }
    }

    /// Whether packets leave such a queue in the order in which they came.
    pub(crate) fn is_in_order(queue: &QdiscSpec) -> bool {
        matches!(queue.unmarked(), QdiscSpec::DropTail(_))
    }
}

/// What may go back to back: what a rate carries while a loop may sensibly be late, and two full-size
/// frames at least.
const CATCH_UP: Duration = Duration::from_millis(2);
const TWO_FRAMES: Bytes = Bytes(2 * FULL_SIZE.0);
const FULL_SIZE: Bytes = Bytes(1_538);

/// Classes that make a tree under a link.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassSet {
    /// Parents before their children.
    classes: Vec<Class>,
    /// The longest packet, as it is charged, for which its delay bounds hold.
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

/// What is wrong with a class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassFault {
    /// The class, as the how manyth it was given.
    pub at: usize,
    /// The other class that has to do with it, if it is not the link.
    pub other: Option<usize>,
    /// What it is.
    pub kind: ClassFaultKind,
}

/// What can be wrong with a class.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClassFaultKind {
    /// The other has the same name.
    Duplicate,
    /// No class has the name of its parent.
    Orphan,
    /// It lies below itself; the other is its parent.
    Loop,
    /// Its ceiling is below its guarantee.
    CeilingBelowGuarantee(Direction),
    /// With it, the children of the other, or of the link, are promised more than that has.
    PromisedTooMuch {
        /// In which direction.
        direction: Direction,
        /// What its children are promised so far.
        promised: Rate,
        /// What it has.
        of: Rate,
    },
    /// It has a delay bound, and the other is a part of it: no packets wait there.
    BoundWithParts,
    /// Its delay bound cannot be met, for what the other has, or the link.
    DelayBound {
        /// In which direction.
        direction: Direction,
        /// The longest its packets may have to wait; `None` if there is no such time.
        longest: Option<Duration>,
        /// What has the largest part in that, or stands in its way.
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

/// What a packet waits for.
const fn name(part: Part) -> &'static str {
    match part {
        Part::Guarantee | Part::Order => "its guarantee",
        Part::Burst | Part::ShortBurst => "a burst",
        Part::Ceiling => "a packet to be paid off at a ceiling",
        Part::Control => "control traffic",
        Part::Link => "a packet that is being sent",
    }
}

/// To whole microseconds, or from 10 ms on milliseconds.
fn rounded_up(span: Duration) -> Duration {
    let unit = if span < Duration::from_millis(10) { 1_000 } else { 1_000_000 };
    let nanos = span.as_nanos().div_ceil(unit) * unit;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl ClassSet {
    /// The set of `classes`, in whatever order they come, under a link of `rate` whose packets are charged at
    /// most 1538 B, a full-size frame of Ethernet and what stands between two.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn new(classes: Vec<Class>, rate: [Option<Rate>; 2]) -> Result<Self, Vec<ClassFault>> {
        Self::of(classes, rate, FULL_SIZE, &SchedulerSpec::default())
    }

    /// The same where packets are charged at most `frame`, and `scheduler` selects among the classes.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn of(
        classes: Vec<Class>,
        rate: [Option<Rate>; 2],
        frame: Bytes,
        scheduler: &SchedulerSpec,
    ) -> Result<Self, Vec<ClassFault>> {
        let mut faults = Vec::new();
        let parents = parents(&classes, &mut faults);
        let scheduler = scheduler.clone();
        if !scheduler.terms().contains(&Term::Parent) {
            flat::faults(&classes, rate, frame, &mut faults);
            let set = Self { classes, frame, scheduler };
            return if faults.is_empty() { Ok(set) } else { Err(faults) };
        }
        let order = parents_first(&parents, &mut faults);
        let classes = with_what_children_have(classes, &parents, &order);
        for direction in Direction::BOTH {
            promises(&classes, &parents, direction, rate[direction.index()], &mut faults);
        }
        have_no_parts(&classes, &parents, &mut faults);
        // Of what is no tree, or promised too much, nothing can be said.
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

    /// Whether there are none: then the link has one queue.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The same with other classes in place of those of their names, or beside them, or without (`None`), under
    /// a link of `rate`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with that.
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

    /// The longest packet, as it is charged, for which the delay bounds hold.
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

/// The parent of each class, as far as it has one.
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

/// The classes in an order in which parents come before their children.
fn parents_first(parents: &[Option<usize>], faults: &mut Vec<ClassFault>) -> Vec<usize> {
    let mut order = Vec::with_capacity(parents.len());
    // Which walk up from a class came by here; zero for none.
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

/// Gives classes without a guarantee what their children are promised.
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

/// Complains of promises that cannot be kept.
fn promises(
    classes: &[Class],
    parents: &[Option<usize>],
    direction: Direction,
    link: Option<Rate>,
    faults: &mut Vec<ClassFault>,
) {
    let way = direction.index();
    // Of each class, and at last of the link.
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
        // Said once of each parent: by the first that goes too far.
        if *sum > of.bps() && before <= of.bps() {
            let promised = Rate::from_bps(*sum);
            let kind = ClassFaultKind::PromisedTooMuch { direction, promised, of };
            faults.push(ClassFault { at, other: parent, kind });
        }
    }
}

/// Complains of delay bounds where no packets wait.
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

/// Complains of delay bounds that cannot be met.
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
            in_order: Class::is_in_order(&class.queue),
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
    /// What is wrong if no more than `promise` can be promised to a class, and its bound is less.
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
