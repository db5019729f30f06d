//! `Trunk::pump` sends all packets of a trunk that may depart now. User packets depart for the
//! guarantee, or for the share that the bandwidth probe permits. If the other gateway is dead, they
//! bypass the trunk.
//!
//! This file contains methods of `Trunk`, whose fields are in `trunk.rs`.

use super::Trunk;
use super::packet::network_len;
use super::probe::{Reason, TrunkOutput};
use crate::packet::Fifo;
use crate::{Cx, PacketId};

impl Trunk {
    /// Sends all packets that may depart now. User packets of the guarantee are first. User packets of the share follow,
    /// with the probe's own packets among them. User packets that bypass the trunk are last.
    pub(super) fn pump(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        let now = cx.now;
        self.probe.handle_timeout(now, !self.tunnel.is_empty());
        let passing = self.is_passing();
        if !passing {
            self.send_guaranteed(cx, out);
        }
        self.probe.start(now, &mut self.tunnel);
        loop {
            if !passing {
                self.send_share(cx, out);
            }
            let mut to = TrunkOutput { cx, counts: &mut self.counts, out };
            if !self.probe.transmit(&mut to, &mut self.tunnel) {
                break;
            }
        }
        // The last retransmission of the probe may have been the one after which the other gateway
        // is considered dead.
        let passing = self.is_passing();
        if passing {
            self.send_past(cx, out);
        }
        self.probe.settle(now, &mut self.tunnel);
        if let Some(guarantee) = &mut self.guarantee {
            guarantee.arm(now, !self.tunnel.is_empty() && !passing);
        }
    }

    /// Sends user packets for which the guarantee has tokens.
    fn send_guaranteed(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        let mut sent = Fifo::new();
        if let Some(guarantee) = &mut self.guarantee {
            self.counts.guaranteed += guarantee.serve(cx, &mut self.tunnel, &mut sent);
        }
        while let Some(packet) = sent.pop(cx.pool) {
            self.notify(cx, &packet, Reason::Guarantee);
            out.push(cx.pool, packet);
        }
    }

    /// Sends user packets while share and ceiling permit.
    fn send_share(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        while self.probe.may_send(cx.now)
            && self.tunnel.is_open(cx.now)
            && let Some(packet) = self.tunnel.pop(cx)
        {
            self.counts.elastic += network_len(&cx.pool[&packet]);
            self.notify(cx, &packet, Reason::Share);
            out.push(cx.pool, packet);
        }
    }

    /// Notifies the probe and the rate adjuster of a user packet that departs.
    fn notify(&mut self, cx: &Cx<'_>, packet: &PacketId, reason: Reason) {
        let packet = &cx.pool[packet];
        self.probe.on_sent(cx.now, packet, self.tunnel.takes(packet), reason);
        if let Some(weight) = &mut self.weight {
            weight.on_sent(cx.now, network_len(packet));
        }
    }

    /// Sends queued packets that bypass the trunk: unchanged, and without credit. Only the ceiling
    /// limits them.
    fn send_past(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        while self.tunnel.is_open(cx.now)
            && let Some(packet) = self.tunnel.take_out(cx)
        {
            self.bypass(cx, packet, out);
        }
    }

    /// Sends a packet that bypasses the trunk, and charges the ceiling.
    pub(super) fn bypass(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) {
        let described = &cx.pool[&packet];
        self.counts.past += network_len(described);
        self.tunnel.charge(cx.now, self.tunnel.takes(described));
        out.push(cx.pool, packet);
    }
}
