//! Control traffic: it waits at no policy, and has a queue of its own at a link with a rate.
//!
//! This file contains methods of `Gateway`, whose fields are in `gateway.rs`.

use tidegate_core::packet::{Direction, Fifo, Kind};
use tidegate_core::{Cx, PacketId, Time};

use super::Gateway;
use super::egress::{EgressRoute, stays_here};
use crate::report::ControlReport;

impl Gateway {
    /// Forwards a packet of control traffic to a link with a rate.
    ///
    /// A policy conditions the packet only if it drops the protocol by name. A policy with a trunk carries
    /// the packet through the trunk like other traffic.
    pub(super) fn handle_control(&mut self, now: Time, direction: Direction, id: PacketId) {
        let source = self.pool[&id].queue_index;
        let (flow, slot) = self.classify(now, direction, &id);
        let EgressRoute { trunk, drops_control, .. } = self.aggregates.route(slot);
        if trunk.is_some() && !stays_here(&self.pool, &id) {
            self.pool[&id].kind = Kind::User;
            return self.handle_classified(now, direction, flow, slot, id);
        }
        if let Some(flow) = flow {
            self.track(now, direction, flow, &id);
        }
        let mut out = Fifo::new();
        match self.aggregates.get_mut(slot) {
            Some(aggregate) if drops_control => {
                // A policer holds no packets: the packet is in `out`, or dropped.
                aggregate.offer(now, &mut self.pool, id, &mut out);
            }
            aggregate => {
                if let Some(aggregate) = aggregate {
                    aggregate.pass_by(now, &self.pool[&id]);
                }
                out.push(&mut self.pool, id);
            }
        }
        let egress = &mut self.egress[direction.index()];
        let mut cx = Cx { now, pool: &mut self.pool, tally: &mut self.counts.tally };
        while let Some(id) = out.pop(cx.pool) {
            egress.send_control(&mut cx, source, id);
        }
    }

    /// The control traffic up and down. `None` if no packet came yet, or the link has no rate.
    #[must_use]
    pub fn control(&self) -> [Option<ControlReport>; 2] {
        self.egress.each_ref().map(|egress| Some(egress.link().control()?.report()))
    }
}
