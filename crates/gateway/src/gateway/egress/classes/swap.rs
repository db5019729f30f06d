//! Changes of the classes during a swap, one class at a time, while packets pass.
//!
//! This file contains methods of `Classes`, whose fields are in `classes.rs`.

use std::sync::Arc;

use tidegate_core::class::ClassId;
use tidegate_core::packet::{Fifo, FlowId, Handover, Outer, QueueIndex};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Cx, Packet, Rate, Time};

use super::{Class, ClassSet, Classes, Gone, Parts};
use crate::aggregate::Aggregate;
use crate::policy::PolicySet;

/// State that is no longer in use after a change of policies: policy sets, aggregates, and classes. To free the memory
/// takes long, so another thread drops it.
#[derive(Default)]
pub struct Retired {
    classes: Vec<Classes>,
    policies: Vec<Arc<PolicySet>>,
    aggregates: Parts<Aggregate>,
    /// Removed classes. If they were freed one by one in a slice, the allocator would collect all freed memory at once.
    removed: Parts<Gone>,
}

impl std::fmt::Debug for Retired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { classes, policies, aggregates, removed } = self;
        let fields = [
            ("classes", classes.len()),
            ("policies", policies.len()),
            ("aggregates", aggregates.len()),
            ("removed", removed.len()),
        ];
        f.debug_map().entries(fields).finish()
    }
}

impl Retired {
    /// Adds the classes of a link.
    pub(in crate::gateway) fn keep(&mut self, gone: Option<Box<Classes>>) {
        self.classes.extend(gone.map(|classes| *classes));
    }

    /// Adds an aggregate.
    pub(in crate::gateway) fn keep_aggregate(&mut self, gone: Aggregate) {
        self.aggregates.push(gone);
    }

    /// Adds a policy set.
    pub(in crate::gateway) fn keep_policies(&mut self, gone: Arc<PolicySet>) {
        self.policies.push(gone);
    }
}

impl Classes {
    /// Begins to put the classes of `set` in force, under a link of `rate` with the default queue `spec`.
    /// [`put_next`](Self::put_next) adds the classes one by one.
    pub(in crate::gateway) fn begin_change(
        &mut self,
        now: Time,
        set: &ClassSet,
        (rate, spec): (Rate, &QdiscSpec),
    ) {
        self.set_link_rate(now, rate);
        self.set_link_queue(spec);
        self.frame = set.frame();
        self.named = vec![false; self.lines.len()];
        self.next_rank = 0;
        self.lines[ClassId::ROOT.index()].promised = 0;
        let more = (set.classes().len() + super::BESIDE_A_SET).saturating_sub(self.lines.len());
        self.lines.reserve_exact(more);
        self.scheduler.reserve(more);
    }

    /// Adds or changes one class. Its parent must be there. If the parent had packets, they are appended to
    /// `displaced`.
    pub(in crate::gateway) fn put_next(
        &mut self,
        cx: &mut Cx<'_>,
        class: &Class,
        displaced: &mut Fifo,
    ) {
        if let Some(id) = self.find(&class.name) {
            self.lines[id.index()].promised = 0;
        }
        let id = self.put(cx, class, self.next_rank);
        self.next_rank += 1;
        tidegate_core::packet::make_room(&mut self.named, id.index(), false);
        self.named[id.index()] = true;
        let parent = self.scheduler.parent(id);
        if parent != ClassId::ROOT && self.lines[parent.index()].queue.is_some() {
            self.clear(cx, parent, displaced);
        }
    }

    /// Sets the queue of the class `default`, which the set does not name, to `spec`.
    pub(in crate::gateway) fn set_queue_of_default(&mut self, cx: &mut Cx<'_>, spec: &QdiscSpec) {
        self.set_link_queue(spec);
        self.put(cx, &Class::new(Class::DEFAULT, spec.clone()), u32::MAX);
    }

    /// Ends the change: all classes of the set are there.
    pub(in crate::gateway) fn end_change(&mut self, now: Time) {
        self.default = self.find(Class::DEFAULT).unwrap_or(ClassId::ROOT);
        self.set_control(now);
        self.set_own_terms();
    }

    /// Removes class `nth` if the set does not name it and it has no parts. Then removes parents that lost
    /// their last part, unless the set names them. Waiting packets are appended to `displaced`, and the memory
    /// of removed classes to `retired`. Returns `false` if `nth` is beyond the last class.
    pub(in crate::gateway) fn remove_unnamed(
        &mut self,
        cx: &mut Cx<'_>,
        nth: u32,
        retired: &mut Retired,
        displaced: &mut Fifo,
    ) -> bool {
        let mut id = ClassId(nth);
        if id.index() >= self.lines.len() {
            return false;
        }
        while id != ClassId::ROOT && self.is_unnamed(id) && self.scheduler.is_leaf(id) {
            let parent = self.scheduler.parent(id);
            self.clear(cx, id, displaced);
            retired.removed.push(self.remove(id));
            id = parent;
        }
        true
    }

    /// Moves packets of untracked flows from class `nth` to the leaf that `leaf_of` returns, in their order.
    /// Returns `false` if class `nth` does not exist.
    pub(in crate::gateway) fn move_untracked(
        &mut self,
        cx: &mut Cx<'_>,
        nth: u32,
        leaf_of: impl Fn(&Self, &Packet, Option<&Outer>) -> ClassId,
    ) -> bool {
        let leaf = ClassId(nth);
        let Some(line_there) = self.lines.get_mut(leaf.index()) else { return false };
        let Some(mut queue) = line_there.queue.take() else { return true };
        let mut which = |packet: &mut Packet, outer: Option<&Outer>| {
            packet.flow == FlowId::NONE && leaf_of(self, packet, outer) != leaf
        };
        let mut what = Handover {
            from: QueueIndex::at_egress(FlowId::NONE),
            to: QueueIndex::at_egress(FlowId::MOVED),
            which: &mut which,
        };
        let any = queue.hand_over(cx.pool, &mut what);
        self.lines[leaf.index()].queue = Some(queue);
        while any && let Some(packet) = self.withdraw(cx, FlowId::MOVED, leaf) {
            cx.pool[&packet].queue_index = QueueIndex::at_egress(FlowId::NONE);
            let to = leaf_of(self, &cx.pool[&packet], cx.pool.outer(&packet));
            self.enqueue(cx, to, packet);
        }
        true
    }

    /// Returns `true` if the class exists and the set does not name it.
    fn is_unnamed(&self, id: ClassId) -> bool {
        let there = self.find(&self.lines[id.index()].name) == Some(id);
        there && self.named.get(id.index()) == Some(&false)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tidegate_core::ack::Waiting;
    use tidegate_core::packet::{Direction, FlowFifo, QueueIndex};
    use tidegate_core::qdisc::Qdisc;
    use tidegate_core::random::Random;
    use tidegate_core::{PacketId, PacketPool, Tally};

    use super::*;
    use crate::aggregate::TriggerSet;
    use crate::gateway::GatewayConfig;

    /// Notes all members that a queue learns of.
    struct Noting {
        queue: Box<dyn Qdisc>,
        members: Arc<Mutex<Vec<QueueIndex>>>,
    }

    impl Noting {
        fn note(&self, member: QueueIndex) {
            self.members.lock().unwrap().push(member);
        }
    }

    impl Qdisc for Noting {
        fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
            self.note(cx.pool[&packet].queue_index);
            self.queue.enqueue(cx, packet);
        }

        fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
            self.queue.dequeue(cx)
        }

        fn packets(&self) -> &FlowFifo {
            self.queue.packets()
        }

        fn packets_mut(&mut self) -> &mut FlowFifo {
            self.queue.packets_mut()
        }

        fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
            self.queue.dequeue_flow(cx, member)
        }

        fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
            self.note(what.from);
            self.note(what.to);
            self.queue.hand_over(pool, what)
        }
    }

    fn config(queue: QdiscSpec) -> GatewayConfig {
        GatewayConfig {
            rate: [None; 2],
            overhead: Default::default(),
            queue,
            packets: 64,
            flows: 1_000_000,
            shaping_interval: Default::default(),
            shaping_triggers: TriggerSet::All,
            fragments_without_first: Default::default(),
            trunks: Vec::new(),
            seed: 1,
            scheduler: Default::default(),
        }
    }

    /// Queues keep lists with a place for each member, up to the largest number that they learnt of.
    ///
    /// Catches: moving packets through an index beyond those of all flows, for which a queue then
    /// makes room; an index that a flow has.
    #[test]
    fn packets_in_no_flow_change_their_class_without_room_for_all_flows() {
        let (mut pool, mut tally) = (PacketPool::with_capacity(64), Tally::default());
        let mut cx = Cx { now: Time::ZERO, pool: &mut pool, tally: &mut tally };
        let spec = QdiscSpec::Hosts(Default::default());
        let mut classes = Classes::new(Direction::Up, Rate::from_mbps(10), &config(spec.clone()));
        for name in ["one", "other"] {
            classes.put_next(&mut cx, &Class::new(name, spec.clone()), &mut Fifo::new());
        }
        let [one, other] = ["one", "other"].map(|name| classes.find(name).unwrap());
        let members = Arc::new(Mutex::new(Vec::new()));
        let noting = |id: ClassId, classes: &mut Classes| {
            let queue = spec.build(None, Random::new(1, 1));
            let noting = Noting { queue, members: members.clone() };
            classes.lines[id.index()].queue = Some(Box::new(Waiting::new(Box::new(noting))));
        };
        noting(one, &mut classes);
        noting(other, &mut classes);
        let flow = FlowId(0);
        for flow in [FlowId::NONE, FlowId::NONE, flow] {
            let packet = Packet {
                len: 100,
                cost: 100,
                flow,
                queue_index: QueueIndex::at_egress(flow),
                ..Packet::default()
            };
            let packet = cx.pool.insert(packet).unwrap();
            classes.enqueue(&mut cx, one, packet);
        }
        let moved = classes.move_untracked(&mut cx, one.0, |_, _, _| other);
        let packets = [one, other].map(|id| classes.backlog(id).packets);
        assert_eq!((moved, packets), (true, [1, 2]));
        let most = members.lock().unwrap().iter().max().copied();
        assert_eq!(
            most,
            Some(QueueIndex::at_egress(flow)),
            "no larger number than that of the first flow"
        );
    }
}
