//! Changes of a link and its classes under live traffic.
//!
//! A change may leave packets without a queue. Each operation sends them to the link again, in their order.
//!
//! This file contains methods of `Egress`, whose fields are in `egress.rs`.

use tidegate_core::Time;
use tidegate_core::class::{ClassId, Terms};
use tidegate_core::packet::Fifo;

use super::{Egress, Upstream};
use crate::gateway::GatewayConfig;
use crate::policy::{Class, ClassChange, ClassSet};

impl Egress {
    /// Begins to put the classes of `set` in force. [`put_class`](Self::put_class) then adds or changes each class.
    pub(in crate::gateway) fn begin_change(&mut self, up: &mut Upstream<'_>, set: &ClassSet) {
        let mut displaced = Fifo::new();
        self.link.begin_change(&mut up.cx, set, up.sorter.config(), &mut displaced);
        self.send_displaced(up, None, displaced);
    }

    /// Adds or changes `class`. `None` ends the change: all classes of the set are there. Returns `false` if the change
    /// has ended, or the link has no classes.
    pub(in crate::gateway) fn put_class(
        &mut self,
        up: &mut Upstream<'_>,
        class: Option<&Class>,
    ) -> bool {
        let Some(classes) = self.link.classes_mut() else { return false };
        let Some(class) = class else {
            classes.end_change(up.cx.now);
            return false;
        };
        let mut displaced = Fifo::new();
        classes.put_next(&mut up.cx, class, &mut displaced);
        self.send_displaced(up, None, displaced);
        true
    }

    /// Removes class `nth`, if the set in force does not name it. Returns `false` if `nth` is beyond the last class.
    pub(in crate::gateway) fn remove_unnamed(&mut self, up: &mut Upstream<'_>, nth: u32) -> bool {
        let Some(classes) = self.link.classes_mut() else { return false };
        let mut displaced = Fifo::new();
        let more = classes.remove_unnamed(&mut up.cx, nth, up.sorter.retired(), &mut displaced);
        self.send_displaced(up, None, displaced);
        more
    }

    /// Puts all classes of the set in force in one call.
    pub(in crate::gateway) fn share(&mut self, up: &mut Upstream<'_>) {
        let mut displaced = Fifo::new();
        let (set, config) = (up.sorter.policies().classes(), up.sorter.config());
        let removed = self.link.share(&mut up.cx, set, config, &mut displaced);
        up.sorter.retired().keep(removed);
        self.send_displaced(up, None, displaced);
    }

    /// Removes all classes. Their packets wait in the queue of the link.
    pub(in crate::gateway) fn close(&mut self, up: &mut Upstream<'_>) {
        let displaced = self.close_empty(up);
        self.send_displaced(up, None, displaced);
    }

    /// Removes all classes, and returns their packets.
    pub(in crate::gateway) fn close_empty(&mut self, up: &mut Upstream<'_>) -> Fifo {
        let mut waiting = Fifo::new();
        let removed = self.link.close(&mut up.cx, &mut waiting);
        up.sorter.retired().keep(removed);
        waiting
    }

    /// Removes the rate of the link. All waiting packets depart at once.
    pub(in crate::gateway) fn open(&mut self, up: &mut Upstream<'_>) {
        self.link.open(&mut up.cx);
    }

    /// Replaces the queue of the link by that of `config`, and that of the class `default` unless the set in force
    /// names this class.
    pub(in crate::gateway) fn set_queue(&mut self, up: &mut Upstream<'_>, config: &GatewayConfig) {
        let names_default = up.sorter.policies().classes().names_default();
        self.link.set_queue(&mut up.cx, config);
        if let Some(classes) = self.link.classes_mut().filter(|_| !names_default) {
            classes.set_queue_of_default(&mut up.cx, &config.queue);
        }
    }

    /// Gives the class `id` the new `terms` of `change`.
    pub(in crate::gateway) fn change_class(
        &mut self,
        now: Time,
        (id, terms): (ClassId, Terms),
        change: &ClassChange,
    ) {
        if let Some(classes) = self.link.classes_mut() {
            classes.change(now, id, terms);
            classes.change_own(id, change);
        }
    }

    /// Adds `class`, if the link has classes.
    pub(in crate::gateway) fn insert_class(&mut self, now: Time, class: &Class) {
        if let Some(classes) = self.link.classes_mut() {
            classes.insert(now, class);
        }
    }

    /// Removes the class of that name, if there is one. No packets wait there.
    pub(in crate::gateway) fn take_out_class(&mut self, name: &str) {
        if let Some(classes) = self.link.classes_mut() {
            classes.take_out(name);
        }
    }
}
