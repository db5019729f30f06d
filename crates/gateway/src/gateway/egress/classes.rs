//! The classes of one direction of the link: their scheduler, and a queue for each leaf class.

mod marking;
mod moves;
mod rights;
mod shared;
mod swap;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use rights::{ClassChangeError, ClassContents};
pub use swap::Retired;

use tidegate_core::ack::{EgressState, Waiting};
use tidegate_core::class::{ClassId, Terms};
use tidegate_core::marking::Marker;
use tidegate_core::packet::{Direction, Fifo, FlowId, number};
use tidegate_core::qdisc::{Backlog, QdiscSpec};
use tidegate_core::random::Random;
use tidegate_core::scheduler::{Scheduler, SchedulerSpec, TermValues};
use tidegate_core::{Bytes, Count, Cx, PacketId, PacketPool, Rate, Reason, Time};

use super::control::Control;
use crate::gateway::GatewayConfig;
use crate::gateway::survey::{ClassLine, Parts};
use crate::policy::{Class, ClassSet};
use crate::report::{ClassReport, Mechanisms};

/// Classes of the link in one direction.
pub(in crate::gateway) struct Classes {
    direction: Direction,
    seed: u64,
    /// Rate of the link.
    rate: Rate,
    scheduler: Box<dyn Scheduler>,
    spec: SchedulerSpec,
    /// The classes share one buffer, and no class has a queue discipline of its own.
    one_buffer: bool,
    /// The marking of the shared buffer.
    marker: Option<Box<Marker>>,
    /// The classes, by index. The link itself has index 0, and no packets wait there.
    lines: Vec<Line>,
    by_name: BTreeMap<Box<str>, ClassId>,
    /// The class of packets whose policy names no class.
    default: ClassId,
    /// The unnamed class in which control traffic borrows. The link itself until classes are
    /// installed.
    control: ClassId,
    /// Classes with delay bounds. `frame` is the longest charged packet for which the bounds hold.
    bounded: BTreeSet<u32>,
    frame: Bytes,
    /// Classes that the new set names, by index, while classes are changed one by one.
    named: Vec<bool>,
    /// Rank of the class that is added next: its position in the file.
    next_rank: u32,
}

/// State of a class, except its rights, which the scheduler has.
struct Line {
    name: Box<str>,
    /// Configuration of the queue, shared with the policies and the other direction.
    spec: Arc<QdiscSpec>,
    /// The queue. `None` until the first packet arrives.
    queue: Option<Box<Waiting>>,
    /// Rate that was last set for the queue.
    rate: Rate,
    /// Packets that arrived.
    arrived: u64,
    /// ACKs that the queue dropped as redundant.
    thinned: u64,
    /// Sum of the guarantees of the children, in bit/s.
    promised: u64,
    /// Position of the class in the file.
    rank: u32,
    /// Terms that only the scheduler knows, if the class has any.
    own: Option<Box<TermValues>>,
}

impl Line {
    fn new(name: &str, spec: Arc<QdiscSpec>) -> Self {
        let rate = Rate::from_bps(0);
        Self {
            name: name.into(),
            spec,
            queue: None,
            rate,
            arrived: 0,
            thinned: 0,
            promised: 0,
            rank: u32::MAX,
            own: None,
        }
    }

    fn backlog(&self) -> Backlog {
        self.queue.as_ref().map_or_else(Backlog::default, |queue| queue.backlog())
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let before = cx.tally.drops.of(Reason::RedundantAck);
        let packet = self.queue.as_mut()?.dequeue(cx);
        self.thinned += cx.tally.drops.of(Reason::RedundantAck) - before;
        packet
    }
}

/// The memory of a removed class.
type Gone = (Line, Option<(Box<str>, ClassId)>);

/// Classes of a scheduler that no set contains: the link, the class `default` and control traffic.
const BESIDE_A_SET: usize = 3;

impl Classes {
    /// A link of `rate` without classes. `config` has the scheduler, and the queue of classes without a queue
    /// of their own.
    pub(in crate::gateway) fn new(
        direction: Direction,
        rate: Rate,
        config: &GatewayConfig,
    ) -> Self {
        let scheduler = config.scheduler.build(rate);
        let mut classes = Self {
            direction,
            seed: config.seed,
            rate,
            spec: config.scheduler.clone(),
            one_buffer: scheduler.buffer().is_some(),
            marker: None,
            scheduler,
            lines: vec![Line::new("", Arc::new(config.queue.clone()))],
            by_name: BTreeMap::new(),
            default: ClassId::ROOT,
            control: ClassId::ROOT,
            bounded: BTreeSet::new(),
            frame: Bytes::ZERO,
            named: Vec::new(),
            next_rank: 0,
        };
        classes.set_link_queue(&config.queue);
        classes
    }

    /// Puts `set` in force under a link of `rate` with the default queue `spec`. Classes that keep their name
    /// keep their packets and tokens. Packets of removed classes, and of classes that are no leaves any more,
    /// are appended to `displaced`.
    pub(in crate::gateway) fn install(
        &mut self,
        cx: &mut Cx<'_>,
        set: &ClassSet,
        (rate, spec): (Rate, &QdiscSpec),
        displaced: &mut Fifo,
    ) {
        self.set_link_rate(cx.now, rate);
        self.set_link_queue(spec);
        self.frame = set.frame();
        let default = Class::new(Class::DEFAULT, self.lines[0].spec.clone());
        let default = (!set.names_default()).then_some(&default);
        let more = (set.classes().len() + BESIDE_A_SET).saturating_sub(self.lines.len());
        self.lines.reserve_exact(more);
        self.scheduler.reserve(more);
        let mut stays = vec![false; self.lines.len()];
        for line in &mut self.lines {
            line.promised = 0;
        }
        for (rank, class) in (0..).zip(set.classes().iter().chain(default)) {
            let id = self.put(cx, class, rank);
            if let Some(stays) = stays.get_mut(id.index()) {
                *stays = true;
            }
        }
        self.remove_others(cx, &stays, displaced);
        self.default = self.find(Class::DEFAULT).unwrap_or(ClassId::ROOT);
        self.set_control(cx.now);
        self.set_own_terms();
        for at in 0..self.lines.len() {
            let id = ClassId(number(at));
            if !self.scheduler.is_leaf(id) {
                self.clear(cx, id, displaced);
            }
        }
    }

    /// Sets the rate of the link. Queues of leaf classes without a guarantee and a ceiling follow it with
    /// their next packet.
    pub(in crate::gateway) fn set_link_rate(&mut self, now: Time, rate: Rate) {
        self.rate = rate;
        self.scheduler.set_rate(now, rate);
    }

    /// The rate at which packets depart from a class: its guarantee, or else its ceiling, or else the rate of
    /// the link.
    fn departs_at(&self, id: ClassId) -> Rate {
        let terms = self.scheduler.terms(id);
        let guarantee = Some(terms.guarantee).filter(|rate| rate.bps() > 0);
        guarantee.or(terms.ceiling).unwrap_or(self.rate)
    }

    /// Adds the class, or changes the class of that name. `rank` is its place in the file.
    fn put(&mut self, cx: &mut Cx<'_>, class: &Class, rank: u32) -> ClassId {
        let parent = class.parent.as_ref().and_then(|name| self.find(name));
        let parent = parent.unwrap_or(ClassId::ROOT);
        let terms = class.terms(self.direction);
        self.lines[parent.index()].promised += terms.guarantee.bps();
        let Some(id) = self.find(&class.name) else {
            let id = self.add(cx.now, parent, class, terms);
            self.lines[id.index()].rank = rank;
            return id;
        };
        (self.lines[id.index()].rank, self.lines[id.index()].own) = (rank, shared::own(class));
        if self.scheduler.parent(id) != parent {
            self.scheduler.move_to(cx.now, id, parent);
        }
        if self.scheduler.terms(id) != terms {
            self.set(cx.now, id, terms);
        }
        if self.one_buffer {
            self.lines[id.index()].spec = class.queue.clone();
        } else if self.lines[id.index()].spec != class.queue {
            let mut waiting = Fifo::new();
            self.clear(cx, id, &mut waiting);
            self.lines[id.index()].spec = class.queue.clone();
            while let Some(packet) = waiting.pop(cx.pool) {
                self.enqueue(cx, id, packet);
            }
        }
        id
    }

    fn add(&mut self, now: Time, parent: ClassId, class: &Class, terms: Terms) -> ClassId {
        let id = self.scheduler.add(now, parent, terms);
        self.note_bound(id, terms);
        let mut line = Line::new(&class.name, class.queue.clone());
        line.own = shared::own(class);
        self.by_name.insert(line.name.clone(), id);
        match self.lines.get_mut(id.index()) {
            Some(free) => *free = line,
            None => self.lines.push(line),
        }
        id
    }

    fn set(&mut self, now: Time, id: ClassId, terms: Terms) {
        self.scheduler.set(now, id, terms);
        self.note_bound(id, terms);
        if id == self.default {
            self.set_control(now);
        }
    }

    /// Gives borrowing control traffic the weight and priority of the class `default`. If `default` is a part
    /// of another class, control traffic gets those of a `default` that no file mentions.
    fn set_control(&mut self, now: Time) {
        let Terms { weight, priority, .. } = match self.scheduler.parent(self.default) {
            ClassId::ROOT => self.scheduler.terms(self.default),
            _ => Class::new(Class::DEFAULT, self.lines[0].spec.clone()).terms(self.direction),
        };
        let terms = Terms {
            guarantee: Rate::from_bps(0),
            ceiling: None,
            weight,
            priority,
            burst: Bytes::ZERO,
            delay_bound: None,
        };
        if self.control == ClassId::ROOT {
            self.control = self.scheduler.add(now, ClassId::ROOT, terms);
            if self.control.index() == self.lines.len() {
                self.lines.push(Line::new("", self.lines[0].spec.clone()));
            }
        } else if self.scheduler.terms(self.control) != terms {
            self.scheduler.set(now, self.control, terms);
        }
    }

    /// Marks control traffic as backlogged.
    pub(in crate::gateway) fn control_waits(&mut self, now: Time) {
        self.scheduler.wait(now, self.control);
    }

    /// Marks control traffic as idle.
    pub(in crate::gateway) fn control_idle(&mut self) {
        self.scheduler.idle(self.control);
    }

    /// Removes the classes that do not stay, children before their parents.
    fn remove_others(&mut self, cx: &mut Cx<'_>, stays: &[bool], displaced: &mut Fifo) {
        let gone = self.by_name.values().filter(|id| stays.get(id.index()) == Some(&false));
        let mut gone: Vec<_> = gone.map(|id| (self.depth(*id), *id)).collect();
        gone.sort_unstable_by_key(|(depth, id)| (std::cmp::Reverse(*depth), id.0));
        for (_, id) in gone {
            self.clear(cx, id, displaced);
            drop(self.remove(id));
        }
    }

    /// Removes a class that has no children and at which nothing waits. Returns its memory.
    fn remove(&mut self, id: ClassId) -> Gone {
        self.scheduler.remove(id);
        self.bounded.remove(&id.0);
        let free = Line::new("", self.lines[0].spec.clone());
        let line = std::mem::replace(&mut self.lines[id.index()], free);
        let entry = self.by_name.remove_entry(&line.name);
        (line, entry)
    }

    fn note_bound(&mut self, id: ClassId, terms: Terms) {
        match terms.delay_bound {
            Some(_) => self.bounded.insert(id.0),
            None => self.bounded.remove(&id.0),
        };
    }

    fn depth(&self, id: ClassId) -> u32 {
        number(self.way(id).count())
    }

    /// A class and its ancestors, without the link.
    fn way(&self, id: ClassId) -> impl Iterator<Item = ClassId> + '_ {
        let is_class = |id: &ClassId| *id != ClassId::ROOT;
        std::iter::successors(Some(id), |at| Some(self.scheduler.parent(*at))).take_while(is_class)
    }

    /// Removes all packets from a class.
    fn clear(&mut self, cx: &mut Cx<'_>, id: ClassId, out: &mut Fifo) {
        let line = &mut self.lines[id.index()];
        while let Some(packet) = line.dequeue(cx) {
            line.arrived = line.arrived.saturating_sub(1);
            out.push(cx.pool, packet);
        }
        line.queue = None;
        self.scheduler.idle(id);
    }

    /// Removes all packets from all classes.
    pub(in crate::gateway) fn clear_all(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        for at in 0..self.lines.len() {
            self.clear(cx, ClassId(number(at)), out);
        }
    }

    /// Removes all packets from classes with a name. Free indices are skipped.
    pub(in crate::gateway) fn clear_named(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        let named: Vec<_> = self.by_name.values().copied().collect();
        named.into_iter().for_each(|id| self.clear(cx, id, out));
    }

    /// The class called `name`.
    pub(in crate::gateway) fn find(&self, name: &str) -> Option<ClassId> {
        self.by_name.get(name).copied()
    }

    /// The leaf for packets of `class`, or of no class. A class that has parts holds no packets.
    pub(in crate::gateway) fn leaf(&self, class: Option<ClassId>) -> ClassId {
        class.filter(|class| self.scheduler.is_leaf(*class)).unwrap_or(self.default)
    }

    /// The class of packets whose policy names no class.
    pub(in crate::gateway) const fn default(&self) -> ClassId {
        self.default
    }

    /// Backlog of a class.
    pub(in crate::gateway) fn backlog(&self, id: ClassId) -> Backlog {
        self.lines.get(id.index()).map_or_else(Backlog::default, Line::backlog)
    }

    /// Queue of a class, as ACK control sees it. The link has `rate`.
    pub(in crate::gateway) fn ahead(&self, id: ClassId, rate: Rate) -> EgressState {
        let Some(line) = self.lines.get(id.index()) else { return EgressState::default() };
        let rate = self.scheduler.terms(id).ceiling.map_or(rate, |ceiling| ceiling.min(rate));
        let empty = EgressState { rate: Some(rate), ..EgressState::default() };
        line.queue.as_ref().map_or(empty, |queue| queue.ahead(rate))
    }

    /// Frame bytes of `flow` in the queue of a class.
    pub(in crate::gateway) fn bytes_of(&self, id: ClassId, flow: FlowId) -> Bytes {
        let queue = self.lines.get(id.index()).and_then(|line| line.queue.as_ref());
        queue.map_or(Bytes::ZERO, |queue| queue.bytes_of(flow))
    }

    /// Ends ACK control for the packets of `flow` in the queue of a class.
    pub(super) fn end_ack_control(&mut self, id: ClassId, pool: &mut PacketPool, flow: FlowId) {
        if let Some(queue) = self.lines.get_mut(id.index()).and_then(|line| line.queue.as_mut()) {
            queue.end_ack_control(pool, flow);
        }
    }

    /// Enqueues a packet at a leaf class.
    ///
    /// If buffers are scarce, the packet is dropped unless the queue of its class is empty.
    pub(in crate::gateway) fn push(&mut self, cx: &mut Cx<'_>, leaf: ClassId, packet: PacketId) {
        if cx.pool.is_scarce() && self.backlog(leaf).packets > 0 {
            self.lines[leaf.index()].arrived += 1;
            cx.drop(packet, Reason::NoBuffer);
        } else {
            self.enqueue(cx, leaf, packet);
        }
    }

    pub(in crate::gateway) fn enqueue(&mut self, cx: &mut Cx<'_>, leaf: ClassId, packet: PacketId) {
        let Some(packet) = self.prevent(cx, leaf, packet) else {
            self.lines[leaf.index()].arrived += 1;
            return;
        };
        let len = cx.pool[&packet].charged();
        if self.one_buffer {
            cx.pool[&packet].queued = cx.now;
        }
        let queue = self.queue(leaf);
        queue.enqueue(cx, packet);
        let waits = queue.backlog().packets > 0;
        self.entered(cx, leaf, len, waits);
    }

    /// Queues a packet that was withdrawn from the leaf class `leaf`. The marking of a shared buffer does not see it
    /// again.
    pub(in crate::gateway) fn put_back(
        &mut self,
        cx: &mut Cx<'_>,
        leaf: ClassId,
        packet: PacketId,
    ) {
        let len = cx.pool[&packet].charged();
        if self.one_buffer {
            cx.pool[&packet].queued = cx.now;
        }
        let queue = self.queue(leaf);
        queue.put_back(cx, packet);
        let waits = queue.backlog().packets > 0;
        self.entered(cx, leaf, len, waits);
    }

    /// Notes that a packet of `len` was offered to the queue of `leaf`. `waits` is true if the queue has packets.
    #[inline]
    fn entered(&mut self, cx: &mut Cx<'_>, leaf: ClassId, len: Bytes, waits: bool) {
        self.lines[leaf.index()].arrived += 1;
        if waits {
            self.scheduler.wait(cx.now, leaf);
        }
        if self.one_buffer {
            let victim = self.scheduler.arrived(cx.now, leaf, len);
            self.drop_newest(cx, victim);
        }
    }

    /// The queue of a leaf class, at the rate at which packets depart from the class.
    #[inline]
    fn queue(&mut self, leaf: ClassId) -> &mut Waiting {
        let departs = self.departs_at(leaf);
        let Line { name, spec, queue, rate, .. } = &mut self.lines[leaf.index()];
        let queue = queue.get_or_insert_with(|| {
            *rate = departs;
            let random = Random::named(self.seed, &["class", name, self.direction.name()]);
            let shared = self.one_buffer.then(Self::one_line);
            Box::new(Waiting::new(shared.as_ref().unwrap_or(spec).build(Some(departs), random)))
        });
        if *rate != departs {
            *rate = departs;
            queue.set_rate(departs);
        }
        queue
    }

    /// Removes the next packet of the link. `control` is the control traffic that waits and borrows.
    pub(in crate::gateway) fn pop(
        &mut self,
        cx: &mut Cx<'_>,
        mut control: Option<&mut Control>,
    ) -> Option<PacketId> {
        loop {
            let leaf = self.scheduler.next(cx.now)?;
            let (packet, more) = match &mut control {
                Some(control) if leaf == self.control => {
                    (control.pop_borrowed(cx), control.waits())
                }
                _ => {
                    let packet = self.lines[leaf.index()].dequeue(cx);
                    (packet, self.backlog(leaf).packets > 0)
                }
            };
            let len = packet.as_ref().map_or(Bytes::ZERO, |packet| cx.pool[packet].charged());
            self.scheduler.sent(cx.now, leaf, len, more);
            if let Some(packet) = packet {
                self.departs(cx, &packet);
                return Some(packet);
            }
        }
    }

    /// Earliest time at which the classes permit a packet.
    pub(in crate::gateway) fn ready_at(&mut self, now: Time) -> Option<Time> {
        self.scheduler.ready_at(now)
    }

    /// Rights of a class.
    pub(in crate::gateway) fn terms(&self, id: ClassId) -> Terms {
        self.scheduler.terms(id)
    }

    /// Backlog of up to `most` classes, beginning with class `from`. `None` if `from` is beyond the last
    /// class.
    pub(in crate::gateway) fn waiting(&self, from: usize, most: usize) -> Option<Backlog> {
        let lines = self.lines.get(from..).filter(|lines| !lines.is_empty())?;
        Some(lines.iter().take(most).map(Line::backlog).fold(Backlog::default(), plus))
    }

    /// Adds class `number` to `found`, if it exists. Returns `false` if `number` is beyond the last class.
    pub(in crate::gateway) fn survey(&self, number: u32, found: &mut Parts<ClassLine>) -> bool {
        let id = ClassId(number);
        let Some(line) = self.lines.get(id.index()) else { return false };
        if self.find(&line.name) == Some(id) {
            let parent = Some(self.scheduler.parent(id)).filter(|parent| *parent != ClassId::ROOT);
            let report = self.report_of(id, self.inside(id));
            found.push(ClassLine { number, parent: parent.map(|it| it.0), report });
        }
        true
    }

    /// Report of the class called `name`. Takes time for other classes only if it has parts.
    pub(in crate::gateway) fn report(&self, name: &str) -> Option<ClassReport> {
        let id = self.find(name)?;
        let mut inside = self.inside(id);
        if !self.scheduler.is_leaf(id) {
            let is_part = |it: &&ClassId| **it != id && self.way(**it).any(|at| at == id);
            self.by_name.values().filter(is_part).for_each(|part| inside.add(self.inside(*part)));
        }
        Some(self.report_of(id, inside))
    }

    /// Backlog of a class itself, and the packets that were dropped at the class.
    fn inside(&self, id: ClassId) -> Inside {
        let line = &self.lines[id.index()];
        let waiting = line.backlog();
        let sent = self.scheduler.counts(id).packets + line.thinned;
        let gone = sent + u64::from(waiting.packets);
        let drops = if self.scheduler.is_leaf(id) { line.arrived.saturating_sub(gone) } else { 0 };
        Inside { waiting, drops }
    }

    fn report_of(&self, id: ClassId, Inside { waiting, drops }: Inside) -> ClassReport {
        let parent = self.scheduler.parent(id);
        let (terms, sent) = (self.scheduler.terms(id), self.scheduler.counts(id));
        ClassReport {
            name: self.name(id),
            parent: (parent != ClassId::ROOT).then(|| self.name(parent)),
            direction: self.direction,
            mechanisms: self.mechanisms(id),
            guarantee: terms.guarantee,
            ceiling: terms.ceiling,
            delay_bound: terms.delay_bound,
            weight: terms.weight,
            priority: terms.priority,
            burst: terms.burst,
            sent: Count { packets: sent.packets, bytes: sent.bytes },
            borrowed_bytes: sent.borrowed,
            backlog: waiting,
            drops,
            marking: self.marked(id).map(|marked| marked.marker().marks()),
            delays: self.scheduler.delays(id),
            promises: self.promises(id),
        }
    }

    /// Mechanisms of a class. Only a leaf class with a buffer of its own has a queue discipline.
    fn mechanisms(&self, id: ClassId) -> Mechanisms {
        let has_queue = !self.one_buffer && self.scheduler.is_leaf(id);
        let queue = has_queue.then(|| Mechanisms::of_queue(&self.lines[id.index()].spec));
        Mechanisms { scheduler: Some(self.spec.name().into()), ..queue.unwrap_or_default() }
    }

    /// Scheduler of the link, and marking of the buffer that its classes share.
    pub(in crate::gateway) fn mechanisms_of_link(&self) -> Mechanisms {
        let spec = self.lines[ClassId::ROOT.index()].spec.marking();
        let marking = spec.filter(|_| self.marker.is_some()).map(|it| it.name().into());
        Mechanisms { scheduler: Some(self.spec.name().into()), marking, ..Mechanisms::default() }
    }

    /// Name of a class.
    pub(in crate::gateway) fn name(&self, id: ClassId) -> String {
        self.lines[id.index()].name.to_string()
    }
}

/// Backlog of a class and its parts, and the packets that were dropped at these classes.
#[derive(Clone, Copy, Default)]
struct Inside {
    waiting: Backlog,
    drops: u64,
}

impl Inside {
    fn add(&mut self, more: Self) {
        *self = Self { waiting: plus(self.waiting, more.waiting), drops: self.drops + more.drops };
    }
}

pub(in crate::gateway) fn plus(a: Backlog, b: Backlog) -> Backlog {
    Backlog { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
}
