//! A link in virtual time with classes that may have delay bounds, and traffic that is difficult
//! for the bounds.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::class::control::Allowance;
use tidegate_core::class::{ClassId, ClassTree};
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Rate, Time};
use tidegate_gateway::policy::{Class, ClassFaultKind, ClassSet};

/// A random class, whose parent is an earlier class. Its guarantee is a part, in thousandths, of the parent's guarantee
/// that no other child has yet. Its ceiling lies between the guarantee (0) and the link rate (1000).
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) parent: usize,
    pub(crate) guarantee: u64,
    pub(crate) ceiling: Option<u64>,
    pub(crate) burst: u64,
    /// Delay bound of a leaf. If it is too tight, the tightest accepted bound is used.
    pub(crate) bound: Option<Duration>,
    pub(crate) in_order: bool,
    /// The class sends more than its guarantee, although it has a bound.
    pub(crate) exceeds: bool,
}

/// Length of the longest frame with its overhead on the line, in bytes.
const FRAME: u32 = 1_538;

/// The result for a leaf that has a bound and keeps to its guarantee.
pub(crate) struct Promised {
    pub(crate) bound: Duration,
    /// Longest delay of a packet.
    pub(crate) worst: Duration,
}

/// A leaf class and its traffic.
struct Leaf {
    id: ClassId,
    in_order: bool,
    /// The bound, and the token bucket that limits the traffic. `None` for a leaf that sends as
    /// much as it can.
    kept: Option<(Duration, Bucket)>,
    waiting: VecDeque<(Time, u32)>,
    longest: u32,
    next_len: u32,
    sends: bool,
    worst: Duration,
}

/// A token bucket in whole nanobits, implemented from the definition.
struct Bucket {
    rate: u128,
    depth: u128,
    tokens: u128,
    at: Time,
}

impl Bucket {
    fn at(&mut self, now: Time) -> u128 {
        let elapsed = now.since(self.at).as_nanos();
        (self.at, self.tokens) = (now, (self.tokens + self.rate * elapsed).min(self.depth));
        self.tokens
    }

    /// The time at which the bucket has tokens for `len` bytes.
    fn has(&mut self, now: Time, len: u32) -> Time {
        let missing = nanobits(len).saturating_sub(self.at(now));
        now + Duration::from_nanos(u64::try_from(missing.div_ceil(self.rate)).unwrap())
    }
}

fn nanobits(len: u32) -> u128 {
    u128::from(len) * 8_000_000_000
}

/// A simulated link.
pub(crate) struct Network {
    rate: Rate,
    /// In random phases, control traffic departs before all classes whenever its allowance permits.
    allowance: Allowance,
    control_sends: bool,
    tree: ClassTree,
    leaves: Vec<Leaf>,
    random: u64,
    now: Time,
    phase_ends: Time,
    /// Start of the current busy period, and the bytes sent since then.
    busy: (Time, u64),
}

impl Network {
    pub(crate) fn new(rate: u64, drawn: &[Drawn], seed: u64) -> Self {
        let set = accepted(classes(rate, drawn), rate);
        let mut tree = ClassTree::default();
        let mut ids = vec![ClassId::ROOT; drawn.len()];
        let index = |name: &str| name[1..].parse::<usize>().unwrap();
        for class in set.classes() {
            let parent = class.parent.as_deref().map_or(ClassId::ROOT, |name| ids[index(name)]);
            ids[index(&class.name)] = tree.add(Time::ZERO, parent, class.terms(Direction::Up));
        }
        let leaf = |class: &Class| {
            let (at, terms) = (index(&class.name), class.terms(Direction::Up));
            let rate = terms.guarantee.bps().into();
            let depth = nanobits(u32::try_from(terms.burst.0).unwrap());
            let bucket = Bucket { rate, depth, tokens: depth, at: Time::ZERO };
            let bound = terms.delay_bound.filter(|_| !drawn[at].exceeds);
            Leaf {
                id: ids[at],
                in_order: drawn[at].in_order,
                kept: bound.map(|bound| (bound, bucket)),
                waiting: VecDeque::new(),
                longest: FRAME.min(u32::try_from(terms.burst.0).unwrap()),
                next_len: FRAME.min(u32::try_from(terms.burst.0).unwrap()),
                sends: false,
                worst: Duration::ZERO,
            }
        };
        let leaves = set.classes().iter().filter(|class| tree.is_leaf(ids[index(&class.name)]));
        let leaves = leaves.map(leaf).collect();
        Self {
            rate: Rate::from_bps(rate),
            allowance: Allowance::new(Rate::from_bps(rate), Time::ZERO),
            control_sends: false,
            tree,
            leaves,
            random: seed | 1,
            now: Time::ZERO,
            phase_ends: Time::ZERO,
            busy: (Time::ZERO, 0),
        }
    }

    /// The results of all leaves that have a bound and keep to their guarantee.
    pub(crate) fn promised(&self) -> Vec<Promised> {
        let promised = |leaf: &Leaf| {
            leaf.kept.as_ref().map(|(bound, _)| Promised { bound: *bound, worst: leaf.worst })
        };
        self.leaves.iter().filter_map(promised).collect()
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.begin_phase();
            let comes = self.arrive();
            if self.control_sends && self.allowance.permits(self.now) {
                self.allowance.charge(Bytes(FRAME.into()));
                self.carry(FRAME);
                continue;
            }
            let Some(id) = self.tree.next(self.now) else {
                let ready = self.tree.ready_at(self.now).unwrap_or(Time::MAX);
                self.now = ready.min(comes).min(self.phase_ends).min(end);
                self.busy = (self.now, 0);
                continue;
            };
            self.send(id);
        }
    }

    /// Draws the leaves that send in the next phase. All of them begin at the same time.
    fn begin_phase(&mut self) {
        if self.now < self.phase_ends {
            return;
        }
        self.phase_ends = self.now + Duration::from_micros(500 + self.draw() % 30_000);
        self.control_sends = !self.draw().is_multiple_of(4);
        for at in 0..self.leaves.len() {
            self.leaves[at].sends = !self.draw().is_multiple_of(4);
        }
    }

    /// Enqueues all packets that have arrived by now. Returns the time of the next arrival.
    fn arrive(&mut self) -> Time {
        let mut next = Time::MAX;
        for at in 0..self.leaves.len() {
            let draw = u32::try_from(self.draw() >> 32).unwrap();
            let leaf = &mut self.leaves[at];
            let len = 64 + draw % (leaf.longest - 63);
            if !leaf.sends {
                continue;
            }
            match &mut leaf.kept {
                None if leaf.waiting.len() < 4 => leaf.waiting.push_back((self.now, FRAME)),
                None => {}
                Some((_, bucket)) => loop {
                    let has = bucket.has(self.now, leaf.next_len);
                    if has > self.now {
                        next = next.min(has);
                        break;
                    }
                    bucket.tokens -= nanobits(leaf.next_len);
                    leaf.waiting.push_back((self.now, leaf.next_len));
                    leaf.next_len = len;
                },
            }
            if !leaf.waiting.is_empty() {
                self.tree.wait(self.now, leaf.id);
            }
        }
        next
    }

    fn send(&mut self, id: ClassId) {
        let leaf = self.leaves.iter_mut().find(|leaf| leaf.id == id).unwrap();
        let packet = if leaf.in_order { leaf.waiting.pop_front() } else { leaf.waiting.pop_back() };
        let (came, len) = packet.expect("a packet waits where one may go");
        self.tree.sent(self.now, id, Bytes(len.into()), !leaf.waiting.is_empty());
        self.carry(len);
        let leaf = self.leaves.iter_mut().find(|leaf| leaf.id == id).unwrap();
        leaf.worst = leaf.worst.max(self.now.since(came));
    }

    /// Transmits `len` further bytes.
    fn carry(&mut self, len: u32) {
        self.busy.1 += u64::from(len);
        self.now = self.busy.0 + self.rate.time_for(Bytes(self.busy.1));
    }

    /// A pseudo-random number.
    ///
    /// Source: doi 10.18637/jss.v008.i14 (Marsaglia: xorshift).
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Converts the random classes. Some of their delay bounds may be impossible.
fn classes(rate: u64, drawn: &[Drawn]) -> Vec<Class> {
    let mut classes = Vec::<Class>::new();
    let mut left = vec![rate];
    for (at, each) in drawn.iter().enumerate() {
        // The parent is the link or an earlier class.
        let parent = each.parent % (at + 1);
        let guarantee = left[parent] * each.guarantee / 1_000;
        left[parent] -= guarantee;
        left.push(guarantee);
        let ceiling =
            each.ceiling.map(|of| Rate::from_bps(guarantee + (rate - guarantee) * of / 1_000));
        let queue = match each.in_order {
            true => QdiscSpec::DropTail(Default::default()),
            false => QdiscSpec::PerFlow(Default::default()),
        };
        classes.push(Class {
            parent: parent.checked_sub(1).map(|at| format!("c{at}")),
            guarantee: [Rate::from_bps(guarantee); 2],
            ceiling: [ceiling; 2],
            burst: Some(Bytes(each.burst)),
            ..Class::new(&format!("c{at}"), queue)
        });
    }
    let named: Vec<_> = classes.iter().filter_map(|class| class.parent.clone()).collect();
    for (class, drawn) in classes.iter_mut().zip(drawn) {
        if !named.contains(&class.name) {
            class.delay_bound = [drawn.bound; 2];
        }
    }
    classes
}

/// Raises each delay bound until it is accepted. Removes the bound if none is possible.
fn accepted(mut classes: Vec<Class>, rate: u64) -> ClassSet {
    let link = [Some(Rate::from_bps(rate)), None];
    for attempt in 0.. {
        let faults =
            match ClassSet::of(classes.clone(), link, Bytes(FRAME.into()), &Default::default()) {
                Ok(set) => return set,
                Err(faults) => faults,
            };
        for fault in faults {
            let ClassFaultKind::DelayBound { longest, .. } = fault.kind else {
                panic!("{fault:?} in {classes:?}")
            };
            // A bound may depend on other bounds, so that raising them never ends. After 40
            // attempts, bounds are removed.
            classes[fault.at].delay_bound = [longest.filter(|_| attempt < 40); 2];
        }
    }
    unreachable!("bounds are raised or left out")
}
