//! A link with a class tree in virtual time, and a fluid model for comparison.

use tidegate_core::class::{ClassId, ClassTree, Terms};
use tidegate_core::{Bytes, Rate, Time};

/// A class tree, the input of both the fluid model and the simulation.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Parent and terms (guarantee, ceiling, weight, priority) of each class. The first entry is
    /// the link.
    pub(crate) classes: Vec<(usize, Terms)>,
}

impl Tree {
    pub(crate) fn new(rate: u64) -> Self {
        let rate = Rate::from_bps(rate);
        let link = Terms {
            guarantee: rate,
            ceiling: Some(rate),
            weight: 1,
            priority: 0,
            burst: Bytes(0),
            delay_bound: None,
        };
        Self { classes: vec![(0, link)] }
    }

    pub(crate) fn add(&mut self, parent: usize, terms: Terms) -> usize {
        self.classes.push((parent, terms));
        self.classes.len() - 1
    }

    pub(crate) fn terms(&self, class: usize) -> Terms {
        self.classes[class].1
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        (1..self.classes.len()).filter(move |class| self.classes[*class].0 == of)
    }

    pub(crate) fn leaves(&self) -> Vec<usize> {
        (1..self.classes.len()).filter(|class| self.children(*class).next().is_none()).collect()
    }

    /// The part of a class's guarantee that its children do not use, in bits per second.
    pub(crate) fn left_to_promise(&self, class: usize) -> u64 {
        let promised: u64 =
            self.children(class).map(|child| self.terms(child).guarantee.bps()).sum();
        self.terms(class).guarantee.bps() - promised
    }

    /// Rate of each class in the fluid model, in bits per second.
    pub(crate) fn fluid(&self, loads: &[Load]) -> Vec<f64> {
        let mut rates = vec![0.0; self.classes.len()];
        rates[0] = self.demand(0, loads);
        self.share(0, loads, &mut rates);
        rates
    }

    /// Rate that a class would have without competing traffic, in bits per second.
    fn demand(&self, class: usize, loads: &[Load]) -> f64 {
        let ceiling = self.terms(class).ceiling.map_or(f64::INFINITY, |it| it.bps() as f64);
        let mut children = self.children(class).peekable();
        let wants = if children.peek().is_none() {
            loads[class].rate.map_or(f64::INFINITY, |rate| rate as f64)
        } else {
            children.map(|child| self.demand(child, loads)).sum()
        };
        wants.min(ceiling)
    }

    /// Divides the rate of a class among its children: first by guarantees, then by priority and
    /// weight.
    fn share(&self, class: usize, loads: &[Load], rates: &mut [f64]) {
        let mut left = rates[class];
        for child in self.children(class) {
            let promised = self.terms(child).guarantee.bps() as f64;
            rates[child] = promised.min(self.demand(child, loads));
            left -= rates[child];
        }
        for priority in (0..=Terms::MAX_PRIORITY).rev() {
            let mut open: Vec<usize> = self
                .children(class)
                .filter(|child| self.terms(*child).priority == priority)
                .collect();
            // Raise all rates in proportion to the weights until one child is satisfied. Then
            // continue without this child.
            while left > 1e-6 && !open.is_empty() {
                let weights: f64 =
                    open.iter().map(|child| f64::from(self.terms(*child).weight)).sum();
                let room = |child: usize| self.demand(child, loads) - rates[child];
                let level = |child: usize| room(child) / f64::from(self.terms(child).weight);
                let step = open.iter().map(|child| level(*child)).fold(left / weights, f64::min);
                let full: Vec<usize> = open
                    .iter()
                    .copied()
                    .filter(|child| level(*child) <= step * 1.000_000_1)
                    .collect();
                for child in &open {
                    let more = step * f64::from(self.terms(*child).weight);
                    rates[*child] += more;
                    left -= more;
                }
                open.retain(|child| !full.contains(child));
            }
        }
        self.children(class).for_each(|child| self.share(child, loads, rates));
    }
}

/// Load of a leaf in bits per second. With `None`, the leaf always has packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) rate: Option<u64>,
    pub(crate) len: u32,
}

/// A simulated link.
pub(crate) struct Run {
    pub(crate) tree: Tree,
    pub(crate) loads: Vec<Load>,
    /// Bytes sent by each class.
    pub(crate) sent: Vec<f64>,
    sharing: ClassTree,
    ids: Vec<ClassId>,
    waiting: Vec<u32>,
    arrives: Vec<Time>,
    now: Time,
}

/// Maximum number of packets that may wait at a leaf.
const ROOM: u32 = 50;

impl Run {
    pub(crate) fn new(tree: Tree) -> Self {
        Self::beginning(tree, Time::ZERO)
    }

    /// Starts the simulation at `now`.
    pub(crate) fn beginning(tree: Tree, now: Time) -> Self {
        let mut sharing = ClassTree::default();
        let mut ids = vec![ClassId::ROOT];
        for (parent, terms) in &tree.classes[1..] {
            ids.push(sharing.add(now, ids[*parent], *terms));
        }
        let count = ids.len();
        Self {
            tree,
            loads: vec![Load { rate: Some(0), len: 1 }; count],
            sent: vec![0.0; count],
            sharing,
            ids,
            waiting: vec![0; count],
            arrives: vec![Time::MAX; count],
            now,
        }
    }

    /// Rate that a leaf would have without competing traffic, in bits per second.
    pub(crate) fn demand(&self, leaf: usize) -> f64 {
        self.tree.demand(leaf, &self.loads)
    }

    /// Changes the load of a leaf, and drops its waiting packets.
    pub(crate) fn load(&mut self, leaf: usize, load: Load) {
        self.loads[leaf] = load;
        self.waiting[leaf] = 0;
        self.sharing.idle(self.ids[leaf]);
        self.arrives[leaf] = match load.rate {
            Some(0) => Time::MAX,
            Some(_) => self.now,
            None => {
                self.waiting[leaf] = u32::MAX;
                self.sharing.wait(self.now, self.ids[leaf]);
                Time::MAX
            }
        };
    }

    /// Moves a class to another parent.
    pub(crate) fn move_to(&mut self, class: usize, parent: usize) {
        self.tree.classes[class].0 = parent;
        self.sharing.move_to(self.now, self.ids[class], self.ids[parent]);
    }

    /// Runs for a settling time and then for `span`. Returns the bytes that each class sent within
    /// `span`.
    pub(crate) fn measure(&mut self, span: Time) -> Vec<f64> {
        self.pass(Time::from_millis(250));
        let before = self.sent.clone();
        self.pass(span);
        self.sent.iter().zip(before).map(|(now, then)| now - then).collect()
    }

    /// Changes the terms of a class.
    pub(crate) fn set(&mut self, class: usize, terms: Terms) {
        self.tree.classes[class].1 = terms;
        self.sharing.set(self.now, self.ids[class], terms);
    }

    /// Advances the clock by `span` without arrivals. No packet may wait.
    pub(crate) fn skip(&mut self, span: Time) {
        self.now += span.since(Time::ZERO);
    }

    /// Runs for `span`.
    pub(crate) fn pass(&mut self, span: Time) {
        let end = self.now + span.since(Time::ZERO);
        let link = self.tree.terms(0).guarantee;
        while self.now < end {
            self.arrive();
            let Some(leaf) = self.sharing.next(self.now) else {
                let ready = self.sharing.ready_at(self.now).unwrap_or(Time::MAX);
                let arrives = self.arrives.iter().copied().min().unwrap_or(Time::MAX);
                assert!(ready > self.now, "a packet may go, but which?");
                self.now = ready.min(arrives).min(end);
                continue;
            };
            let class = self.ids.iter().position(|id| *id == leaf).unwrap_or(0);
            let len = Bytes(self.loads[class].len.into());
            if self.loads[class].rate.is_some() {
                self.waiting[class] -= 1;
            }
            self.sharing.sent(self.now, leaf, len, self.waiting[class] > 0);
            self.count(class, len);
            self.now += link.time_for(len);
        }
    }

    fn arrive(&mut self) {
        for leaf in 1..self.ids.len() {
            while self.arrives[leaf] <= self.now {
                let Load { rate: Some(rate), len } = self.loads[leaf] else { break };
                if self.waiting[leaf] < ROOM {
                    self.waiting[leaf] += 1;
                    self.sharing.wait(self.now, self.ids[leaf]);
                }
                self.arrives[leaf] += Rate::from_bps(rate).time_for(Bytes(len.into()));
            }
        }
    }

    fn count(&mut self, leaf: usize, len: Bytes) {
        let (mut at, len) = (leaf, len.0 as f64);
        while at != 0 {
            self.sent[at] += len;
            at = self.tree.classes[at].0;
        }
        self.sent[0] += len;
    }
}
