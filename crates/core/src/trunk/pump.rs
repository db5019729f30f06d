//! The departure of packets: for the guarantee, for the share that the probe finds, and past a dead peer.
//!
//! Methods of `Trunk`, whose fields are in `trunk.rs`.

use super::Trunk;
use super::packet::network_len;
use super::probe::{Reason, TrunkOutput};
use crate::packet::Fifo;
use crate::{Cx, PacketId};

impl Trunk {
    /// Sends every packet that may depart now. The order is: guarantee, share with packets of the probe, bypass.
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
        // The packets of the probe may have found that the other end is dead.
        let passing = self.is_passing();
        if passing {
            self.send_past(cx, out);
        }
        self.probe.settle(now, &mut self.tunnel);
        if let Some(guarantee) = &mut self.guarantee {
            guarantee.arm(now, !self.tunnel.is_empty() && !passing);
        }
    }

    /// Sends user packets for the guarantee.
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

    /// Sends user packets for the share.
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

    /// Notifies the probe and the weight's adjuster of a user packet that departs.
    fn notify(&mut self, cx: &Cx<'_>, packet: &PacketId, reason: Reason) {
        let packet = &cx.pool[packet];
        self.probe.on_sent(cx.now, packet, self.tunnel.takes(packet), reason);
        if let Some(weight) = &mut self.weight {
            weight.on_sent(cx.now, network_len(packet));
        }
    }

    /// Sends queued packets past the trunk, unchanged.
    fn send_past(&mut self, cx: &mut Cx<'_>, out: &mut Fifo) {
        while self.tunnel.is_open(cx.now)
            && let Some(packet) = self.tunnel.take_out(cx)
        {
            self.bypass(cx, packet, out);
        }
    }

    /// Sends a packet past the trunk. The ceiling counts it.
    pub(super) fn bypass(&mut self, cx: &mut Cx<'_>, packet: PacketId, out: &mut Fifo) {
        let described = &cx.pool[&packet];
        self.counts.past += network_len(described);
        self.tunnel.charge(cx.now, self.tunnel.takes(described));
        out.push(cx.pool, packet);
    }
}
