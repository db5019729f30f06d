//! Changes of the classes during a swap, one class at a time, while packets pass.
//!
//! This file contains methods of `Classes`, whose fields are in `classes.rs`.

use std::sync::Arc;

use tidegate_core::class::ClassId;
use tidegate_core::packet::Fifo;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Cx, Rate, Time};

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

    /// Returns `true` if the class exists and the set does not name it.
    fn is_unnamed(&self, id: ClassId) -> bool {
        let there = self.find(&self.lines[id.index()].name) == Some(id);
        there && self.named.get(id.index()) == Some(&false)
    }
}
