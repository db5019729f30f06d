//! Swapping the policies under live traffic: no packet without a policy, nothing lost, none overtaken.

use super::Gateway;
use super::GatewayConfig;
use super::classes::Classes;
use crate::class::ClassId;
use crate::packet::{Direction, Fifo, FlowId};
use crate::policy::{Policy, PolicySet};
use crate::{Cx, Packet, Time};

impl Gateway {
    /// Puts `policies` in force.
    ///
    /// An aggregate whose policy keeps its name keeps its members, counters and waiting packets, and
    /// its tokens as well unless they are now shared in another way, or wait in another queue; what
    /// waits in one that goes leaves as fast as the link takes it, whatever its queue holds. Flows
    /// find their new aggregates with their next packet.
    ///
    /// Source: `aggregates`, section 6, R000-3. Differs: the AIX original scans all sockets and has
    /// a "short window" of best-effort service; here no instant is without a policy.
    pub fn install(&mut self, now: Time, policies: PolicySet) {
        self.generation += 1;
        if policies.has_signals() {
            self.pool.keep_sack();
        }
        self.policies = policies;
        self.share_links(now);
        self.move_untracked(now);
        self.aggregates.disown();
        for slot in self.aggregates.slots() {
            let (mut out, mut acks) = (Fifo::new(), Fifo::new());
            let class = self.aggregates.class(slot);
            let Some(aggregate) = self.aggregates.get_mut(slot) else { continue };
            let direction = aggregate.direction();
            let index = self.policies.find(aggregate.policy());
            let found = index.and_then(|at| Some((at, self.policies.get(at)?)));
            // Those it is shared between are others then, and begin anew.
            let stays = |policy: &Policy| policy.action.fair_between() == aggregate.fair_between();
            if let Some((index, policy)) = found.filter(|(_, policy)| stays(policy)) {
                aggregate.resignal(now, &mut self.pool, policy, &mut acks);
                aggregate.reconfigure(now, &mut self.pool, policy, &mut out);
                self.timers.arm(slot, aggregate.ready_at());
                self.aggregates.assign(slot, index, direction);
            } else {
                aggregate.flush_acks(now, &mut self.pool, &mut acks);
                aggregate.flush(now, &mut self.pool, &mut out);
                if let Some(gone) = self.aggregates.remove(slot) {
                    self.counts.acks += gone.acks();
                    self.counts.tally += *gone.tally();
                }
            }
            self.send_on(now, direction, class, out);
            self.go_on(now, direction.reverse(), acks);
        }
        self.renew_untracked(now);
        self.look_again(now);
    }

    /// Hands what a swap lets go to the link: into the queue of its class, which may have no room for
    /// all of it, or in line behind what waits.
    fn send_on(&mut self, now: Time, direction: Direction, class: Option<ClassId>, out: Fifo) {
        let link = &mut self.links[direction.index()];
        if link.classes().is_some() {
            return self.send(now, direction, class, out);
        }
        link.take_over(&mut Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally }, out);
    }

    /// Lets the classes of the policies in force share the links.
    pub(super) fn share_links(&mut self, now: Time) {
        // What was said of places is of others from now on.
        self.places = Default::default();
        for way in Direction::BOTH {
            let mut displaced = Fifo::new();
            let link = &mut self.links[way.index()];
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            link.share(&mut cx, self.policies.classes(), &self.config, &mut displaced);
            self.send_on(now, way, None, displaced);
        }
        for slot in self.aggregates.slots() {
            let Some(aggregate) = self.aggregates.get(slot) else { continue };
            let policy =
                self.policies.find(aggregate.policy()).and_then(|at| self.policies.get(at));
            let direction = aggregate.direction();
            let exit = policy.map(|policy| self.exit_of(policy, direction)).unwrap_or_default();
            self.aggregates.set_exit(slot, exit);
        }
    }

    /// What waits for the links of flows without a place in the flow table changes class with its policy, so
    /// that what comes later does not overtake it.
    fn move_untracked(&mut self, now: Time) {
        let policies = &self.policies;
        for way in Direction::BOTH {
            let Some(classes) = self.links[way.index()].classes_mut() else { continue };
            let leaf_of = |classes: &Classes, packet: &Packet| {
                let policy = policies.lookup(packet, way).and_then(|at| policies.get(at));
                let class = policy.and_then(|policy| classes.find(policy.class.as_deref()?));
                class.unwrap_or_else(|| classes.default())
            };
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            // The table numbers its flows from zero.
            classes.move_untracked(&mut cx, FlowId(self.config.flows), leaf_of);
        }
    }

    /// Lets every aggregate say anew what it has called for: data may wait elsewhere than before.
    pub(super) fn look_again(&mut self, now: Time) {
        self.places = Default::default();
        for slot in self.aggregates.slots() {
            self.release_acks(now, slot);
        }
    }

    /// Changes what it was told beside the policies.
    ///
    /// The number of packets and flows it was made for and the seed stay as they were; see
    /// [`GatewayConfig::needs_restart`]. Another queue at the link takes over the packets of the old one.
    pub fn reconfigure(&mut self, now: Time, config: &GatewayConfig) {
        let kept = GatewayConfig {
            packets: self.config.packets,
            flows: self.config.flows,
            trunks: Vec::new(),
            seed: self.config.seed,
            ..config.clone()
        };
        for direction in Direction::BOTH {
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            let link = &mut self.links[direction.index()];
            link.set_rate(&mut cx, kept.rate[direction.index()]);
            if kept.queue != self.config.queue {
                link.set_queue(&mut cx, &kept);
            }
        }
        self.timers.set_interval(kept.shaping_interval);
        let trunks = std::mem::take(&mut self.config.trunks);
        self.config = GatewayConfig { trunks, ..kept };
        self.change_trunks(now, &config.trunks);
        self.share_links(now);
        self.look_again(now);
    }

    /// Lets everything that waits leave now, conforming or not: the gateway is about to stop.
    pub fn release_all(&mut self, now: Time) {
        self.places = Default::default();
        for link in &mut self.links {
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            link.open(&mut cx);
        }
        for slot in self.aggregates.slots() {
            let (mut out, mut acks) = (Fifo::new(), Fifo::new());
            let Some(aggregate) = self.aggregates.get_mut(slot) else { continue };
            aggregate.flush_acks(now, &mut self.pool, &mut acks);
            aggregate.flush(now, &mut self.pool, &mut out);
            let direction = aggregate.direction();
            self.send(now, direction, None, out);
            self.send(now, direction.reverse(), None, acks);
        }
        self.flush_trunks(now);
    }
}
