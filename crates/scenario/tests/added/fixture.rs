//! One mechanism of each kind, as simple as possible. Tests can tell each from the core's
//! mechanisms.

use std::time::Duration;

use tidegate_core::allocation::{Allocation, Grant, Heads, NextGrant, Share};
use tidegate_core::class::{ClassId, Sent, Terms};
use tidegate_core::marking::{Decision, Marking, Observed, Outcome, Target, Tracked};
use tidegate_core::meter::{Profile, TokenBucket};
use tidegate_core::packet::{FlowFifo, FlowId, FlowIndex, QueueIndex};
use tidegate_core::parameters::more_than;
use tidegate_core::qdisc::Qdisc;
use tidegate_core::scheduler::{Kept, OwnTerms, Scheduler, Term};
use tidegate_core::tcp::congestion::{Ack, CongestionControl, Signal, Window};
use tidegate_core::{
    Bytes, Cx, Packet, PacketId, PacketPool, Reason, Tally, Time, parameters, terms,
};

parameters! {
    /// No parameters.
    pub Nothing {}
}

parameters! {
    /// Room of the queue.
    pub Limits {
        /// Largest backlog in frame bytes.
        limit: Bytes = Bytes(100_000), in more_than(Bytes::ZERO), "nothing could wait";
    }
}

/// A queue that drops its oldest packet when it is full.
pub(crate) struct DropHead {
    limit: Bytes,
    line: FlowFifo,
}

impl DropHead {
    pub(crate) fn new(config: &Limits) -> Self {
        Self { limit: config.limit, line: FlowFifo::default() }
    }
}

impl Qdisc for DropHead {
    fn packets(&self) -> &FlowFifo {
        &self.line
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.line
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        self.line.push(cx.pool, packet);
        while self.line.bytes() > self.limit {
            let Some(oldest) = self.line.pop(cx.pool) else { return };
            cx.drop(oldest, Reason::QueueFull);
        }
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        self.line.pop(cx.pool)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, flow: QueueIndex) -> Option<PacketId> {
        self.line.pop_flow(cx.pool, flow)
    }
}

/// Offers 15 packets of 10 kB to `queue`. Returns the numbers of the packets that still wait.
pub(crate) fn fill(queue: &mut dyn Qdisc) -> Vec<u32> {
    let (mut pool, mut tally) = (PacketPool::with_capacity(16), Tally::default());
    let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
    for number in 0..15 {
        let packet = Packet { len: 10_000, queue_index: QueueIndex(number), ..Packet::default() };
        let packet = cx.pool.insert(packet).unwrap();
        queue.enqueue(&mut cx, packet);
    }
    let mut left = Vec::new();
    while let Some(packet) = queue.dequeue(&mut cx) {
        left.push(cx.pool[&packet].queue_index.0);
        cx.pool.release(packet);
    }
    left
}

/// An allocation that serves flows in the order in which they began to wait.
pub(crate) struct FirstCome {
    bucket: TokenBucket,
    waiting: Vec<FlowIndex>,
}

impl FirstCome {
    pub(crate) fn new(profile: &Profile, now: Time) -> Self {
        let bucket = TokenBucket::new(profile.mean(), profile.burst(), now);
        Self { bucket, waiting: Vec::new() }
    }
}

impl Allocation for FirstCome {
    fn set_profile(&mut self, now: Time, profile: &Profile) {
        self.bucket.set(now, profile.mean(), profile.burst());
    }

    fn join(&mut self, _: Time, _: FlowIndex, _: Share) {}

    fn update(&mut self, _: Time, _: FlowIndex, _: Share) {}

    fn remove(&mut self, _: Time, flow: FlowIndex) {
        self.waiting.retain(|waiting| *waiting != flow);
    }

    fn try_take(&mut self, now: Time, _: FlowIndex, len: Bytes) -> bool {
        self.bucket.try_take(now, len)
    }

    fn wait(&mut self, _: Time, flow: FlowIndex) {
        if !self.waiting.contains(&flow) {
            self.waiting.push(flow);
        }
    }

    fn tokens(&self, now: Time) -> Bytes {
        self.bucket.tokens_at(now)
    }

    fn grant(&mut self, now: Time, heads: &dyn Heads) -> NextGrant {
        while let Some(flow) = self.waiting.first().copied() {
            let Some(bytes) = heads.head(flow) else {
                self.waiting.remove(0);
                continue;
            };
            if !self.bucket.try_take(now, bytes) {
                return NextGrant::At(self.bucket.ready_at(bytes));
            }
            return NextGrant::Grant(Grant { flow, bytes });
        }
        NextGrant::Idle
    }
}

parameters! {
    /// The threshold of a marking.
    pub Above {
        /// Backlog above which arrivals are marked.
        backlog: Bytes = Bytes(30_000);
    }
}

/// A marking that marks all packets that arrive while the backlog is above a threshold.
pub(crate) struct MarksAbove(pub(crate) Bytes);

impl Marking for MarksAbove {
    fn arrived(&mut self, _: &Observed<'_>, _: &Packet) -> bool {
        false
    }

    fn departed(&mut self, _: &Packet) {}

    fn acknowledged(&mut self, _: &Observed<'_>, _: &Packet) {}

    fn decide(&mut self, seen: &Observed<'_>, _: &Packet) -> Decision {
        if seen.backlog > self.0 { Decision::MarkArrival } else { Decision::Pass }
    }

    fn done(&mut self, _: Time, _: Target, _: Outcome) {}

    fn forget(&mut self, _: FlowId) {}

    fn ignores(&self, _: FlowId) -> bool {
        false
    }

    fn longest_rtt(&self) -> Duration {
        Duration::ZERO
    }

    fn tracks(&self, _: FlowId) -> bool {
        false
    }

    fn tracked(&self) -> Tracked {
        Tracked::default()
    }
}

terms! {
    /// Terms of a scheduler that serves its classes in turns.
    pub Turns, with [GUARANTEE] {
        /// Classes with a lower number send first. Default: 0.
        TURN = turn: u32;
        /// Longest time without a packet of the class. Default: no bound.
        LONGEST_PAUSE = longest_pause: Duration, each_way;
    }
}

/// A scheduler that serves the class with the lowest turn; among equal turns, the class with the lowest number.
#[derive(Default)]
pub(crate) struct LowestNumber {
    classes: Vec<(Terms, Sent, bool)>,
    turns: Vec<Turns>,
}

impl LowestNumber {
    fn class(&mut self, id: ClassId) -> &mut (Terms, Sent, bool) {
        let at = usize::try_from(id.0).unwrap();
        if self.classes.len() <= at {
            self.classes.resize(at + 1, (Terms::NONE, Sent::default(), false));
            self.turns.resize(at + 1, Turns::default());
        }
        &mut self.classes[at]
    }

    fn first(&self) -> Option<ClassId> {
        let waiting = (0..self.classes.len()).filter(|at| self.classes[*at].2);
        let first = waiting.min_by_key(|at| self.turns[*at].turn)?;
        Some(ClassId(first.try_into().unwrap()))
    }
}

impl Scheduler for LowestNumber {
    fn declares(&self) -> &'static [Term] {
        &Turns::ALL
    }

    fn reserve(&mut self, _: usize) {}

    fn add(&mut self, now: Time, _: ClassId, terms: Terms) -> ClassId {
        let id = ClassId(self.classes.len().max(1).try_into().unwrap());
        self.set(now, id, terms);
        id
    }

    fn remove(&mut self, id: ClassId) {
        self.class(id).2 = false;
    }

    fn set(&mut self, _: Time, id: ClassId, terms: Terms) {
        self.class(id).0 = terms;
    }

    fn set_own(&mut self, id: ClassId, _: u32, own: &OwnTerms<'_>) {
        self.class(id);
        self.turns[usize::try_from(id.0).unwrap()] = Turns::read(own);
    }

    fn kept(&self, id: ClassId) -> Vec<Kept> {
        let turn = self.turns[usize::try_from(id.0).unwrap()].turn;
        let kept = |turn| Kept {
            term: Turns::TURN,
            of: None,
            promised: f64::from(turn),
            kept: Some(f64::from(turn)),
            violations: 0,
            relaxed: 0,
        };
        turn.map(kept).into_iter().collect()
    }

    fn terms(&self, id: ClassId) -> Terms {
        self.classes[usize::try_from(id.0).unwrap()].0
    }

    fn is_leaf(&self, id: ClassId) -> bool {
        id != ClassId::ROOT
    }

    fn counts(&self, id: ClassId) -> Sent {
        self.classes[usize::try_from(id.0).unwrap()].1
    }

    fn wait(&mut self, _: Time, leaf: ClassId) {
        self.class(leaf).2 = true;
    }

    fn idle(&mut self, leaf: ClassId) {
        self.class(leaf).2 = false;
    }

    fn next(&mut self, _: Time) -> Option<ClassId> {
        self.first()
    }

    fn sent(&mut self, _: Time, leaf: ClassId, len: Bytes, more: bool) {
        let (_, sent, waits) = self.class(leaf);
        sent.bytes += len.0;
        *waits = more;
    }

    fn ready_at(&mut self, now: Time) -> Option<Time> {
        self.first().map(|_| now)
    }
}

parameters! {
    /// A constant window.
    pub Still {
        /// Segments of the window.
        segments: u32 = 10, in 1..;
    }
}

impl CongestionControl for Still {
    fn on_ack(&mut self, window: &mut Window, _: &Ack) {
        window.congestion = u64::from(self.segments) * window.segment;
    }

    fn on_signal(&mut self, _: Time, window: &mut Window, _: u64, _: Signal) {
        window.threshold = u64::from(self.segments) * window.segment;
    }
}

/// The window in segments of 1,000 bytes that `control` sets after a loss.
pub(crate) fn window(control: &mut dyn CongestionControl) -> u64 {
    let mut window = Window { congestion: 10_000, threshold: 0, segment: 1_000, floor: 2_000 };
    control.on_signal(Time::ZERO, &mut window, 10_000, Signal::Loss);
    window.threshold
}
