//! Swapping the policies under live traffic: no packet without a policy, nothing lost, none overtaken.

use super::Gateway;
use super::GatewayConfig;
use crate::packet::{Direction, Fifo};
use crate::policy::PolicySet;
use crate::{Cx, Time};

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
        self.aggregates.disown();
        for slot in self.aggregates.slots() {
            let mut out = Fifo::new();
            let Some(aggregate) = self.aggregates.get_mut(slot) else { continue };
            let direction = aggregate.direction();
            let index = policies.find(aggregate.policy());
            if let Some((index, policy)) = index.and_then(|at| Some((at, policies.get(at)?))) {
                aggregate.reconfigure(now, &mut self.pool, policy, &mut out);
                self.timers.arm(slot, aggregate.ready_at());
                self.aggregates.assign(slot, index, direction);
            } else {
                aggregate.flush(now, &mut self.pool, &mut out);
                if let Some(gone) = self.aggregates.remove(slot) {
                    self.counts.tally += *gone.tally();
                }
            }
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            self.links[direction.index()].take_over(&mut cx, out);
        }
        self.policies = policies;
    }

    /// Changes what it was told beside the policies.
    ///
    /// The number of packets and flows it was made for, the queue at the link and the seed stay as
    /// they were; see [`GatewayConfig::needs_restart`].
    pub fn reconfigure(&mut self, now: Time, config: &GatewayConfig) {
        let kept = GatewayConfig {
            packets: self.config.packets,
            flows: self.config.flows,
            queue: self.config.queue.clone(),
            seed: self.config.seed,
            ..config.clone()
        };
        for direction in Direction::BOTH {
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            self.links[direction.index()].set_rate(&mut cx, kept.rate[direction.index()]);
        }
        self.timers.set_interval(kept.shaping_interval);
        self.config = kept;
    }

    /// Lets everything that waits leave now, conforming or not: the gateway is about to stop.
    pub fn release_all(&mut self, now: Time) {
        for link in &mut self.links {
            let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
            link.open(&mut cx);
        }
        for slot in self.aggregates.slots() {
            let mut out = Fifo::new();
            let Some(aggregate) = self.aggregates.get_mut(slot) else { continue };
            aggregate.flush(now, &mut self.pool, &mut out);
            let direction = aggregate.direction();
            self.send(now, direction, out);
        }
    }
}
