//! Changes of the configuration of a running trunk, which carries user packets between two
//! gateways.
//!
//! This file contains methods of `Trunk`, whose fields are in `trunk.rs`.

use super::guarantee::Guarantee;
use super::weight::TrunkWeight;
use super::{Config, Trunk, TrunkCounters};
use crate::packet::Fifo;
use crate::{Cx, Time};

impl Trunk {
    /// Applies `config`, which has the same trunk name. The trunk keeps its counters, and its
    /// queued packets in order.
    ///
    /// The management connections are the trunk's own TCP connections, which find its rate. They
    /// continue if only `guarantee`, `ceiling`, `vmss`, `fallback` or `weight` differ. Otherwise
    /// new connections replace them, with random numbers from `seed`. If the new queue is smaller,
    /// it drops packets that do not fit.
    #[must_use]
    pub fn changed(mut self, cx: &mut Cx<'_>, config: &Config, seed: u64) -> Self {
        if *self.config() == *config {
            return self;
        }
        if self.continues_as(config) {
            Guarantee::follow(&mut self.guarantee, config.guarantee, cx.now);
            self.tunnel.hold_to(config.ceiling, cx.now);
            self.probe.follow(config);
            if self.config.weight != config.weight {
                self.weight = TrunkWeight::new(config, seed_at(seed, cx.now), cx.now);
                self.apply_weight();
                self.observe_backlog(cx.now);
            }
            self.config = config.clone();
            return self;
        }
        let mut next = Self::new(config, seed_at(seed, cx.now), cx.now);
        next.counts = self.counts;
        let same_ends = (config.local, config.peer) == (self.config.local, self.config.peer);
        if same_ends && self.probe.has_met_peer() {
            next.probe.remember_peer();
        }
        while let Some(packet) = self.tunnel.take_out(cx) {
            next.tunnel.push(cx, packet);
        }
        next
    }

    /// Ends the trunk: appends its queued packets to `out`, and returns its counters.
    #[must_use]
    pub fn end(mut self, cx: &mut Cx<'_>, out: &mut Fifo) -> TrunkCounters {
        self.flush(cx, out);
        self.counts
    }

    /// Returns `true` if the management connections can continue with the configuration `next`.
    fn continues_as(&self, next: &Config) -> bool {
        let Config { guarantee, ceiling, vmss, fallback, ref weight, .. } = *next;
        // A weight may change its value. Adding or removing a weight changes the number of connections.
        let same = self.config.clone();
        let weight = match (&same.weight, weight) {
            (Some(_), Some(weight)) => Some(weight.clone()),
            _ => same.weight.clone(),
        };
        Config { guarantee, ceiling, vmss, fallback, weight, ..same } == *next
    }
}

/// A seed for connections that start at `now`. They must not use the initial sequence numbers of earlier connections,
/// which the other gateway may remember.
const fn seed_at(seed: u64, now: Time) -> u64 {
    seed ^ now.nanos()
}
