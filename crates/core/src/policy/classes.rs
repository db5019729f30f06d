//! The classes of a gateway's link, as they are named in files, and what keeps them from being a tree.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::class::Terms;
use crate::packet::Direction;
use crate::qdisc::QdiscSpec;
use crate::{Bytes, Rate};

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
    /// Where its packets wait.
    pub queue: QdiscSpec,
}

impl Class {
    /// What packets that no policy gives a class are of, whether a file says more of it or not.
    pub const DEFAULT: &str = "default";

    /// A class without rights but to its part in what others leave.
    #[must_use]
    pub fn new(name: &str, queue: QdiscSpec) -> Self {
        Self {
            name: name.to_owned(),
            parent: None,
            guarantee: [Rate::from_bps(0); 2],
            ceiling: [None; 2],
            weight: 1,
            priority: 0,
            burst: None,
            queue,
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
        Terms { guarantee, ceiling, weight: self.weight, priority: self.priority, burst }
    }
}

/// What may go back to back: what a rate carries while a loop may sensibly be late, and two full-size
/// frames at least.
const CATCH_UP: Duration = Duration::from_millis(2);
const TWO_FRAMES: Bytes = Bytes(2 * 1_538);

/// What is to change of a class that runs; what is not named stays.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClassChange {
    /// Its guarantee, up and down.
    pub guarantee: [Option<Rate>; 2],
    /// Its ceiling, up and down; `Some(None)` for none.
    pub ceiling: [Option<Option<Rate>>; 2],
    /// Its weight.
    pub weight: Option<u32>,
    /// Its priority.
    pub priority: Option<u8>,
    /// Its burst.
    pub burst: Option<Bytes>,
}

impl ClassChange {
    /// What a class of these terms has a right to afterwards.
    #[must_use]
    pub fn of(&self, terms: Terms, direction: Direction) -> Terms {
        Terms {
            guarantee: self.guarantee[direction.index()].unwrap_or(terms.guarantee),
            ceiling: self.ceiling[direction.index()].unwrap_or(terms.ceiling),
            weight: self.weight.unwrap_or(terms.weight),
            priority: self.priority.unwrap_or(terms.priority),
            burst: self.burst.unwrap_or(terms.burst),
        }
    }
}

/// Classes that make a tree under a link.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClassSet {
    /// Parents before their children.
    classes: Vec<Class>,
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
        }
    }
}

impl ClassSet {
    /// The set of `classes`, in whatever order they come, under a link of `rate`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn new(classes: Vec<Class>, rate: [Option<Rate>; 2]) -> Result<Self, Vec<ClassFault>> {
        let mut faults = Vec::new();
        let parents = parents(&classes, &mut faults);
        let order = parents_first(&parents, &mut faults);
        let classes = with_what_children_have(classes, &parents, &order);
        for direction in Direction::BOTH {
            promises(&classes, &parents, direction, rate[direction.index()], &mut faults);
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut places: Vec<_> = classes.into_iter().map(Some).collect();
        let classes = order.into_iter().filter_map(|at| places[at].take()).collect();
        Ok(Self { classes })
    }

    /// Whether there are none: then the link has one queue.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classes.is_empty()
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
