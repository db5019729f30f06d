//! Swapping the policies under live traffic: no packet is lost, overtaken, or without a policy.
//!
//! One exception: a packet of an untracked flow is queued again. The queue may then have no room, or its AQM may
//! drop or mark the packet. The AQM of an aggregate does not decide again on a packet that returns.
//!
//! A swap runs in slices of bounded length, so that packets pass in between, whatever the number of policies
//! and classes:
//!
//! - Classes are added and changed.
//! - All new policies come into force at once.
//! - Packets of untracked flows are gathered from the aggregates, and later from the classes.
//! - Each aggregate is taken over with its first packet, or in its slice.
//! - Packets and ACKs in an aggregate of a vanished policy are offered to the policies in force.
//! - Classes that the new set does not name are removed. If it names none, the packets of the class `default` go
//!   back into the queue of the link.
//! - The packets of untracked flows return, the oldest first: to the classes, then to the aggregates.
//!
//! Source: `aggregates`, section 6, R000-3 (a changed policy set replaces the old one at once).
//! Differs: the AIX original scans all sockets and has a "short window" of best-effort service. Here every
//! packet has a policy at any time.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use std::sync::Arc;

use tidegate_core::packet::{Direction, Fifo};
use tidegate_core::{Time, trunk};

use super::aggregates::Fate;
use super::egress::{Egress, Retired};
use super::{Gateway, GatewayConfig};
use crate::policy::{Class, PolicyIndex, PolicySet, Succession};

/// A policy set that is ready to be put in force.
///
/// Its construction takes time in proportion to its policies, so it should run in a thread that forwards no
/// packets.
#[derive(Clone, Debug)]
pub struct Generation {
    policies: Arc<PolicySet>,
    /// The policy set that was in force at the construction.
    running: Arc<PolicySet>,
    succession: Succession,
    /// An empty slot for each aggregate.
    slots: Vec<[Option<u32>; 2]>,
    /// An empty list with room for each policy.
    began: Vec<Option<Time>>,
    /// The class `default`, if the links have classes and the set does not name it.
    default: Option<Class>,
}

impl Generation {
    /// Prepares `policies` for a gateway that runs `running`. The queue in `config` is that of the class
    /// `default`, unless the set names the class.
    #[must_use]
    pub fn new(policies: PolicySet, running: Arc<PolicySet>, config: &GatewayConfig) -> Self {
        let says = policies.classes().names_default();
        Self {
            succession: Succession::new(&running, &policies),
            slots: vec![[None; 2]; policies.policies().len()],
            began: Vec::with_capacity(policies.policies().len()),
            default: (!says).then(|| Class::new(Class::DEFAULT, config.queue.clone())),
            policies: Arc::new(policies),
            running,
        }
    }

    /// The class at index `place`. Parents precede their children.
    fn class(&self, place: u32) -> Option<&Class> {
        let written = self.policies.classes().classes();
        written.iter().chain(&self.default).nth(tidegate_core::packet::slot(place))
    }
}

/// Error: another swap is in progress. The error returns the set that cannot be put in force now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("another policy set is still being put in force")]
pub struct StillInstalling(pub Box<Generation>);

/// A swap in progress.
pub(super) struct Swap {
    generation: Generation,
    stage: Stage,
    /// The direction of the link, and the next class or slot.
    way: Direction,
    at: u32,
}

/// Stages of a swap, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Adds and changes classes.
    Classes,
    /// Records the time since which each policy is in force.
    Began,
    /// Gathers packets of untracked flows from the aggregates.
    GatherAggregates,
    /// Takes aggregates over, or dissolves them.
    Aggregates,
    /// Gathers packets of untracked flows from the classes of the link.
    GatherClasses,
    /// Classes that the set does not name are removed.
    Removal,
    /// Returns packets of untracked flows to the classes of their policies.
    ReturnToClasses,
    /// Offers packets of untracked flows to the aggregates of their policies.
    Offer,
    /// Lets aggregates with held ACKs request their data again, at their present egress.
    Calls,
}

/// Steps in a slice. A step takes up to some 25,000 instructions, the cost of adding a class.
const SLICE: u32 = 64;

impl Gateway {
    /// Puts all of `policies` in force at once.
    ///
    /// - An aggregate whose policy keeps its name, or changes only its name, keeps its members, counters and
    ///   packets. It also keeps its tokens, unless members share them in another way or another queue holds
    ///   its packets.
    /// - An aggregate of a new policy begins with the tokens of one frame.
    /// - Packets in an aggregate of a vanished policy are offered to the policies in force.
    /// - A flow moves to its new aggregate with its next packet.
    pub fn install(&mut self, now: Time, policies: PolicySet) {
        let generation = Generation::new(policies, self.shared_policies(), self.sorter.config());
        while self.go_on_installing(now) {}
        self.begin(now, generation);
        while self.go_on_installing(now) {}
        drop(self.take_retired());
    }

    /// The policies in force, for a [`Generation`] that another thread makes.
    #[must_use]
    pub fn shared_policies(&self) -> Arc<PolicySet> {
        self.sorter.policies().clone()
    }

    /// Begins to put `generation` in force. Calls of [`go_on_installing`](Self::go_on_installing) complete
    /// the swap. Each call of `poll_timeout` also does a slice.
    ///
    /// # Errors
    ///
    /// If another swap is in progress.
    pub fn begin_install(
        &mut self,
        now: Time,
        generation: Generation,
    ) -> Result<(), StillInstalling> {
        if self.is_installing() {
            return Err(StillInstalling(Box::new(generation)));
        }
        self.begin(now, generation);
        Ok(())
    }

    fn begin(&mut self, now: Time, generation: Generation) {
        self.sorter.rearrange();
        let set = generation.policies.classes();
        for way in Direction::BOTH {
            let (egress, mut up) = self.at_egress(now, way);
            egress.begin_change(&mut up, set);
        }
        let (stage, way) = (Stage::Classes, Direction::Up);
        self.sorter.begin_swap(Box::new(Swap { generation, stage, way, at: 0 }));
    }

    /// Does one slice of a swap, of bounded length. Returns `true` if more slices are necessary.
    pub fn go_on_installing(&mut self, now: Time) -> bool {
        let Some(mut swap) = self.sorter.take_swap() else { return false };
        let more = (0..SLICE).all(|_| self.step(now, &mut swap));
        if more {
            self.sorter.begin_swap(swap);
        }
        self.drain(now);
        more
    }

    /// Returns `true` while a swap is in progress.
    #[must_use]
    pub const fn is_installing(&self) -> bool {
        self.sorter.is_installing()
    }

    /// Returns the state that swaps have replaced. Dropping it takes long.
    pub fn take_retired(&mut self) -> Retired {
        std::mem::take(self.sorter.retired())
    }

    /// Does one step of a swap. Returns `false` after the last step.
    fn step(&mut self, now: Time, swap: &mut Swap) -> bool {
        let at = swap.at;
        swap.at += 1;
        let more = match swap.stage {
            Stage::Classes => {
                let (egress, mut up) = self.at_egress(now, swap.way);
                egress.put_class(&mut up, swap.generation.class(at))
            }
            Stage::GatherAggregates => {
                let more = self.gather_untracked(now, at);
                swap.at -= u32::from(more == Some(true));
                more.is_some()
            }
            Stage::GatherClasses => {
                let (egress, mut up) = self.at_egress(now, swap.way);
                let more = egress.gather(&mut up, at);
                swap.at -= u32::from(more == Some(true));
                more.is_some()
            }
            Stage::ReturnToClasses => {
                let (egress, mut up) = self.at_egress(now, swap.way);
                egress.return_gathered(&mut up)
            }
            Stage::Removal => {
                let (egress, mut up) = self.at_egress(now, swap.way);
                egress.remove_unnamed(&mut up, at)
            }
            Stage::Began => self.sorter.fill_began(self.aggregates.succession()),
            Stage::Aggregates => {
                if self.settle_one(now, at) {
                    swap.at = at;
                }
                at < self.aggregates.slots()
            }
            Stage::Offer => self.offer_held(now),
            Stage::Calls => {
                self.may_release(at);
                at < self.aggregates.slots()
            }
        };
        more || self.next_stage(now, swap)
    }

    /// Continues with the other direction of the link, or with the next stage. Returns `false` after the last
    /// stage.
    fn next_stage(&mut self, now: Time, swap: &mut Swap) -> bool {
        swap.at = 0;
        let once = matches!(
            swap.stage,
            Stage::Began
                | Stage::GatherAggregates
                | Stage::Aggregates
                | Stage::Offer
                | Stage::Calls
        );
        if !once && swap.way == Direction::Up {
            swap.way = Direction::Down;
            return true;
        }
        swap.way = Direction::Up;
        swap.stage = match swap.stage {
            Stage::Classes => {
                self.enforce(now, &mut swap.generation);
                Stage::Began
            }
            Stage::Began => Stage::GatherAggregates,
            Stage::GatherAggregates => Stage::Aggregates,
            Stage::Aggregates => Stage::GatherClasses,
            Stage::GatherClasses => Stage::Removal,
            Stage::Removal => Stage::ReturnToClasses,
            Stage::ReturnToClasses => {
                self.close_links(now);
                self.close_accounts();
                Stage::Offer
            }
            Stage::Offer => {
                self.aggregates.end_swap();
                self.sorter.end_swap();
                Stage::Calls
            }
            Stage::Calls => return false,
        };
        true
    }

    /// Puts the policies of `generation` in force.
    fn enforce(&mut self, now: Time, generation: &mut Generation) {
        let running = self.sorter.policies();
        if !Arc::ptr_eq(&generation.running, running) {
            // The generation was made for another policy set than the one in force.
            generation.succession = Succession::new(running, &generation.policies);
        }
        let list = std::mem::take(&mut generation.began);
        self.sorter.enforce(now, generation.policies.clone(), list);
        self.sorter.begin_holding();
        if self.sorter.has_ack_control() {
            self.pool.keep_sack();
        }
        let succession = std::mem::take(&mut generation.succession);
        self.aggregates.begin_swap(succession, std::mem::take(&mut generation.slots));
        // Aggregates may have other routes now, so they repeat their requests there.
        self.close_accounts();
    }

    /// Takes over the aggregate in `slot`, or dissolves a part of it. Returns `true` if a vanished aggregate
    /// still holds something.
    fn settle_one(&mut self, now: Time, slot: u32) -> bool {
        match self.aggregates.fate(slot) {
            None | Some(Fate::Settled) => false,
            Some(Fate::TakenOver(policy)) => {
                self.take_over(now, slot, policy);
                false
            }
            Some(Fate::Vanished) => self.dissolve(now, slot),
        }
    }

    /// Takes over the aggregate in `slot` for `policy`.
    pub(super) fn take_over(&mut self, now: Time, slot: u32, policy: PolicyIndex) {
        let (mut out, mut acks) = (Fifo::new(), Fifo::new());
        let Some(aggregate) = self.aggregates.get_mut(slot) else { return };
        let Some(written) = self.sorter.policies().get(policy) else { return };
        let direction = aggregate.direction();
        aggregate.rename(&written.name);
        aggregate.replace_ack_control(now, &mut self.pool, written, &mut acks);
        aggregate.reconfigure(now, &mut self.pool, written, &mut out);
        let ready_at = aggregate.ready_at();
        self.aggregates.arm(slot, ready_at);
        self.aggregates.assign(slot, policy, direction);
        let route = self.route_of(slot).unwrap_or_default();
        self.aggregates.set_route(slot, route);
        let (egress, mut up) = self.at_egress(now, direction);
        egress.send_displaced(&mut up, route.class, out);
        self.go_on(now, direction.reverse(), acks);
    }

    /// Lets the classes of the policies in force share the links.
    pub(super) fn share_links(&mut self, now: Time) {
        // Aggregates may have other routes now, so they repeat their requests there.
        self.close_accounts();
        for way in Direction::BOTH {
            let (egress, mut up) = self.at_egress(now, way);
            egress.share(&mut up);
        }
        for slot in 0..self.aggregates.slots() {
            let route = self.route_of(slot).unwrap_or_default();
            self.aggregates.set_route(slot, route);
        }
    }

    /// Closes the accounts of ACK control at both egresses.
    fn close_accounts(&mut self) {
        self.egress.iter_mut().for_each(Egress::close_accounts);
    }

    /// If the set in force has no classes, the packets of the class `default` go back into the queue of the link.
    fn close_links(&mut self, now: Time) {
        if !self.sorter.policies().classes().is_empty() {
            return;
        }
        for way in Direction::BOTH {
            let (egress, mut up) = self.at_egress(now, way);
            egress.close(&mut up);
        }
    }

    /// Lets each aggregate repeat its requests, because its data may wait at another egress now.
    pub(super) fn look_again(&mut self, now: Time) {
        self.close_accounts();
        (0..self.aggregates.slots()).for_each(|slot| self.may_release(slot));
        self.drain(now);
    }

    /// Changes all settings other than policies.
    ///
    /// The numbers of packets and flows and the seed keep their values; see [`GatewayConfig::needs_restart`].
    /// A new queue at the link takes over the packets of the old one.
    pub fn reconfigure(&mut self, now: Time, config: &GatewayConfig) {
        while self.go_on_installing(now) {}
        self.sorter.rearrange();
        let before = self.sorter.config().clone();
        let kept = GatewayConfig {
            packets: before.packets,
            flows: before.flows,
            trunks: before.trunks.clone(),
            seed: before.seed,
            ..config.clone()
        };
        let limited = |it: &GatewayConfig| it.rate.map(|rate| rate.is_some());
        let same_links = limited(&kept) == limited(&before);
        for direction in Direction::BOTH {
            let (egress, mut up) = self.at_egress(now, direction);
            egress.set_rate(&mut up.cx, kept.rate[direction.index()], &kept.overhead);
            if kept.queue != before.queue {
                egress.set_queue(&mut up, &kept);
            }
        }
        self.aggregates.set_interval(kept.shaping_interval);
        let same_scheduler = kept.scheduler == before.scheduler;
        self.sorter.set_config(kept);
        if !same_scheduler {
            self.change_scheduler(now);
        }
        self.change_trunks(now, &config.trunks);
        if !same_links {
            self.share_links(now);
        }
        let same_trunks = before.trunks == config.trunks;
        if !same_trunks {
            self.find_trunks();
        }
        if !(same_links && same_trunks && same_scheduler) {
            self.look_again(now);
        }
        self.drain(now);
    }

    /// Puts the trunks in `configs` in force. The caller must then [find](Self::find_trunks) the
    /// trunks of all aggregates.
    pub(super) fn change_trunks(&mut self, now: Time, configs: &[trunk::Config]) {
        if self.sorter.config().trunks == configs {
            return;
        }
        self.sorter.set_trunks(configs);
        let seed = self.sorter.config().seed;
        let (egress, mut up) = self.at_egress(now, Direction::Up);
        let removed = egress.change_trunks(&mut up, configs, seed);
        self.counts.trunks += removed;
    }

    /// Gives the classes of the links a new scheduler. Takes time in proportion to classes and waiting packets.
    fn change_scheduler(&mut self, now: Time) {
        let mut waiting = [Fifo::new(); 2];
        for (way, waiting) in Direction::BOTH.into_iter().zip(&mut waiting) {
            let (egress, mut up) = self.at_egress(now, way);
            *waiting = egress.close_empty(&mut up);
        }
        self.share_links(now);
        for (way, mut waiting) in Direction::BOTH.into_iter().zip(waiting) {
            let (egress, mut up) = self.at_egress(now, way);
            while let Some(packet) = waiting.pop(up.cx.pool) {
                let policies = up.sorter.policies();
                let policy = up.sorter.lookup(up.cx.pool, &packet, way);
                let class = policy.and_then(|at| policies.get(at)?.class.as_deref());
                let class = class.and_then(|class| egress.link().class(class));
                egress.send(&mut up, class, packet);
            }
        }
    }

    /// Finds the trunks of all aggregates whose policies name one.
    fn find_trunks(&mut self) {
        for slot in 0..self.aggregates.slots() {
            let policy = self.aggregates.policy(slot);
            let policy = policy.and_then(|at| self.sorter.policies().get(at));
            if policy.is_some_and(|policy| policy.trunk.is_some())
                && let Some(route) = self.route_of(slot)
            {
                self.aggregates.set_route(slot, route);
            }
        }
    }

    /// Releases all packets and held ACKs at once, conforming or not, before the gateway stops.
    pub fn release_all(&mut self, now: Time) {
        self.close_accounts();
        for way in Direction::BOTH {
            let (egress, mut up) = self.at_egress(now, way);
            egress.open(&mut up);
        }
        for slot in 0..self.aggregates.slots() {
            let (mut out, mut acks) = (Fifo::new(), Fifo::new());
            let Some(aggregate) = self.aggregates.get_mut(slot) else { continue };
            aggregate.flush_acks(now, &mut self.pool, &mut acks);
            aggregate.flush(now, &mut self.pool, &mut out);
            let direction = aggregate.direction();
            for (way, packets) in [(direction, out), (direction.reverse(), acks)] {
                let (egress, mut up) = self.at_egress(now, way);
                egress.send_all(&mut up, None, packets);
            }
        }
        self.sorter.end_holding();
        for way in Direction::BOTH {
            while let Some(id) = self.sorter.next_held(&self.pool, way) {
                let (egress, mut up) = self.at_egress(now, way);
                egress.send(&mut up, None, id);
            }
        }
        let (egress, mut up) = self.at_egress(now, Direction::Up);
        egress.flush_trunks(&mut up);
        self.drain(now);
    }
}
