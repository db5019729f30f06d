//! The class tree: scheduling a packet, and changing, adding and removing a class. Some cases use
//! the tree alone, others a gateway.

use std::time::Duration;

use tidegate_core::class::{ClassId, ClassTree, Terms};
use tidegate_core::gateway::Gateway;
use tidegate_core::policy::{Class, ClassChange, ClassSet, PolicySet};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::random::Random;
use tidegate_core::scheduler::Term;
use tidegate_core::{Bytes, Rate, Time};

use super::{Case, Order};

const LEN: Bytes = Bytes(1_514);
const LINK: Rate = Rate::from_mbps(10_000);

/// Number of leaf classes with the same parent.
const SIBLINGS: u32 = 100;

/// A tree of three levels with `size` leaf classes. Each has a guarantee, and every second one has
/// a ceiling.
struct Tree {
    tree: ClassTree,
    leaves: Vec<ClassId>,
    order: Order,
    now: Time,
}

impl Tree {
    fn new(size: u32, random: &mut Random) -> Self {
        let (mut tree, mut leaves, now) = (ClassTree::default(), Vec::new(), Time::ZERO);
        let mut parent = ClassId::ROOT;
        for number in 0..size {
            if number % SIBLINGS == 0 {
                parent = tree.add(now, ClassId::ROOT, terms(size.div_ceil(SIBLINGS), 0, random));
            }
            leaves.push(tree.add(now, parent, terms(size, number, random)));
        }
        let order = Order::new(size, random);
        Self { tree, leaves, order, now }
    }

    fn any(&mut self) -> ClassId {
        let number = self.order.next();
        self.leaves[super::index(number.into())]
    }
}

/// The terms of one of `size` leaf classes. Their guarantees add up to half the rate of the link.
fn terms(size: u32, number: u32, random: &mut Random) -> Terms {
    let guarantee = Rate::from_bps(LINK.bps() / 2 / u64::from(size.max(1)));
    let ceiling = (number % 2 == 1).then(|| Rate::from_bps(guarantee.bps() * 4));
    let weight = 1 + u32::try_from(random.below(100)).unwrap_or_default();
    Terms { guarantee, ceiling, weight, burst: Bytes(3_076), ..Terms::NONE }
}

/// All leaf classes are always backlogged. An operation selects the class that sends next, and
/// sends its packet.
pub(super) struct Busy(Tree);

impl Busy {
    pub(super) fn new(size: u32, mut random: Random) -> Self {
        let mut tree = Tree::new(size, &mut random);
        for leaf in &tree.leaves {
            tree.tree.wait(tree.now, *leaf);
        }
        let mut busy = Self(tree);
        // Uses up the initial bursts, and serves every class at least once.
        busy.run(4 * u64::from(size));
        busy
    }
}

impl Case for Busy {
    fn run(&mut self, operations: u64) -> u64 {
        let (spacing, mut sum) = (LINK.time_for(LEN), 0);
        let Tree { tree, now, .. } = &mut self.0;
        for _ in 0..operations {
            *now += spacing;
            if let Some(leaf) = tree.next(*now) {
                tree.sent(*now, leaf, LEN, true);
                sum += u64::from(leaf.0);
            }
        }
        sum
    }
}

/// Only one class has a packet at a time. An operation enqueues a packet in a random leaf class and
/// sends it.
pub(super) struct Sparse(Tree);

impl Sparse {
    pub(super) fn new(size: u32, mut random: Random) -> Self {
        Self(Tree::new(size, &mut random))
    }
}

impl Case for Sparse {
    fn run(&mut self, operations: u64) -> u64 {
        let (spacing, mut sum) = (LINK.time_for(LEN), 0);
        for _ in 0..operations {
            let leaf = self.0.any();
            let Tree { tree, now, .. } = &mut self.0;
            *now += spacing;
            tree.wait(*now, leaf);
            if let Some(leaf) = tree.next(*now) {
                tree.sent(*now, leaf, LEN, false);
                sum += u64::from(leaf.0);
            }
        }
        sum
    }
}

/// An operation changes the terms of a random leaf class, while all classes are backlogged.
pub(super) struct Change(Busy, Random);

impl Change {
    pub(super) fn new(size: u32, mut random: Random) -> Self {
        let busy = Busy::new(size, random.clone());
        random.below(2);
        Self(busy, random)
    }
}

impl Case for Change {
    fn run(&mut self, operations: u64) -> u64 {
        let Self(Busy(tree), random) = self;
        let size = u32::try_from(tree.leaves.len()).unwrap_or(u32::MAX);
        for number in (0..2).cycle().take(super::index(operations)) {
            let (leaf, terms) = (tree.any(), terms(size, number, random));
            tree.tree.set(tree.now, leaf, terms);
        }
        u64::from(tree.tree.counts(tree.leaves[0]).packets > 0)
    }
}

/// An operation adds a class and removes another one.
pub(super) struct Add(Tree, Random);

impl Add {
    pub(super) fn new(size: u32, mut random: Random) -> Self {
        Self(Tree::new(size, &mut random), random)
    }
}

impl Case for Add {
    fn run(&mut self, operations: u64) -> u64 {
        let Self(tree, random) = self;
        let size = u32::try_from(tree.leaves.len()).unwrap_or(u32::MAX);
        for _ in 0..operations {
            let at = super::index(tree.order.next().into());
            let old = tree.leaves[at];
            let parent = tree.tree.parent(old);
            tree.leaves[at] = tree.tree.add(tree.now, parent, terms(size, 1, random));
            tree.tree.remove(old);
        }
        u64::from(tree.leaves[0].0)
    }
}

/// A gateway changes classes of its link on an operator's command, and then reports all classes.
///
/// [`SIBLINGS`] classes each have the same parent. A few more classes have delay bounds.
pub(super) struct Commanded {
    gateway: Gateway,
    names: Vec<String>,
    order: Order,
    what: ClassOperation,
}

/// The operation on a class.
#[derive(Clone, Copy)]
enum ClassOperation {
    /// Change a class without a delay bound.
    Change,
    /// Change a class with a delay bound.
    Bound,
    /// Add a class, and remove another one.
    Add,
}

impl Commanded {
    pub(super) fn new(what: &str, size: u32, mut random: Random) -> anyhow::Result<Self> {
        let what = match what {
            "change" => ClassOperation::Change,
            "bound" => ClassOperation::Bound,
            "add" => ClassOperation::Add,
            _ => anyhow::bail!("there is no case that does {what} with a class"),
        };
        let parents = (0..size.div_ceil(SIBLINGS)).map(|number| Class {
            guarantee: [Rate::from_bps(LINK.bps() / 2 / u64::from(size.div_ceil(SIBLINGS))); 2],
            ..Class::new(&format!("street-{number}"), queue())
        });
        let parts = (0..size).map(|number| part(size, number));
        let bounded = (0..BOUNDED).map(|number| Class {
            guarantee: [Rate::from_mbps(10); 2],
            burst: Some(Bytes(3_000)),
            delay_bound: [Some(Duration::from_millis(50)); 2],
            ..Class::new(&format!("voice-{number}"), queue())
        });
        let names = match what {
            ClassOperation::Bound => bounded.clone().map(|class| class.name).collect(),
            ClassOperation::Change | ClassOperation::Add => {
                parts.clone().map(|class| class.name).collect::<Vec<_>>()
            }
        };
        let order = Order::new(u32::try_from(names.len())?, &mut random);
        let gateway = with(parents.chain(parts).chain(bounded).collect())?;
        Ok(Self { gateway, names, order, what })
    }
}

impl Case for Commanded {
    fn run(&mut self, operations: u64) -> u64 {
        let (now, mut sum) = (Time::ZERO, 0);
        let size = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        for step in (0..3).cycle().take(super::index(operations)) {
            let number = self.order.next();
            let name = &self.names[super::index(number.into())];
            let done = match self.what {
                ClassOperation::Change | ClassOperation::Bound => {
                    let burst = ClassChange::default().with(Term::BURST, Bytes(3_000 + step));
                    self.gateway.change_class(now, name, &burst)
                }
                ClassOperation::Add => {
                    let removed = self.gateway.remove_class(name);
                    removed.and_then(|()| self.gateway.add_class(now, &part(size, number)))
                }
            };
            sum += u64::from(done.is_ok())
                * self.gateway.class(name).iter().map(|it| it.burst.0).sum::<u64>();
        }
        sum
    }
}

/// Number of classes with delay bounds.
const BOUNDED: u32 = 10;

/// Class `number` of `size`. The guarantees of all classes add up to half the rate of the link.
fn part(size: u32, number: u32) -> Class {
    Class {
        parent: Some(format!("street-{}", number / SIBLINGS)),
        guarantee: [Rate::from_bps(LINK.bps() / 2 / u64::from(size.next_multiple_of(SIBLINGS))); 2],
        ..Class::new(&format!("house-{number:06}"), queue())
    }
}

fn queue() -> QdiscSpec {
    QdiscSpec::DropTail(Default::default())
}

/// A gateway with `classes` classes in each direction of its link. It has not received a packet
/// yet.
pub(crate) fn classified(classes: u32) -> anyhow::Result<Gateway> {
    let queue = QdiscSpec::PerFlow(Default::default());
    let guarantee = [Rate::from_bps(LINK.bps() / 2 / u64::from(classes.max(1))); 2];
    let class = |number| {
        let name = format!("house-{number:06}");
        Class { guarantee, ..Class::new(&name, queue.clone()) }
    };
    with((0..classes).map(class).collect())
}

fn with(classes: Vec<Class>) -> anyhow::Result<Gateway> {
    let set = ClassSet::new(classes, [Some(LINK); 2]);
    let set = set.map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    let config = super::gateway::config(Some(LINK), 64, 1);
    Ok(Gateway::new(&config, PolicySet::default().with_classes(set), Time::ZERO))
}
