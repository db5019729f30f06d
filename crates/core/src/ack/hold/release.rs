//! Release of held ACKs: in order, in steps if an ACK acknowledges much, and rebuilt from records.
//!
//! This file contains methods of `Holds`, whose fields are in `hold.rs`.

use super::super::constants::PER_ACK;
use super::super::record::{Kind, NONE, Record};
use super::Holds;
use crate::packet::{Fifo, FlowIndex, Packet, TcpFlags, TcpSegment};
use crate::{Cx, PacketPool};

/// Effect of the oldest held ACK of a flow, if it departs now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::ack) struct Head {
    /// Charged bytes of data that the ACK requests.
    pub(in crate::ack) cost: u32,
    /// Acknowledgement number of the ACK.
    pub(in crate::ack) ack: u32,
    /// Window field of the ACK.
    window: u16,
}

impl Holds {
    /// Effect of the oldest held ACK of `member`, if it departs now. `None` if no ACK may depart.
    pub(in crate::ack) fn head(&self, pool: &PacketPool, member: FlowIndex) -> Option<Head> {
        self.first(pool, member, self.for_data)
    }

    /// The same as [`head`](Self::head). If `steps` is true, an ACK of much data departs in steps.
    fn first(&self, pool: &PacketPool, member: FlowIndex, steps: bool) -> Option<Head> {
        let flow = self.flows.get(member.index()).filter(|flow| flow.releasable() > 0)?;
        let record = self.records.get(flow.first);
        let (ack, window) = shown(pool, record);
        let worth = flow.worth(ack);
        let news = record.news;
        let tcp = TcpSegment { ack, window, ..TcpSegment::default() };
        let whole = Head { cost: flow.cost(&tcp, news, self.for_data), ack, window };
        let long = worth > flow.mss().saturating_mul(2 * PER_ACK);
        let useful = long && whole.cost > 0 && news == 0;
        let alterable = !record.kind().any(Kind::WHOLE);
        if !steps || !useful || !alterable || !flow.may_split(worth) || flow.template == NONE {
            return Some(whole);
        }
        let part = flow.released.wrapping_add(flow.credited + PER_ACK * flow.mss());
        let Some(window) = flow.field(part, &tcp) else { return Some(whole) };
        let tcp = TcpSegment { ack: part, window, ..tcp };
        Some(Head { cost: flow.cost(&tcp, 0, true), ack: part, window })
    }

    /// Sends the oldest held ACK of `member`, or its next step. Returns the charged bytes that it requests.
    pub(in crate::ack) fn release(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        out: &mut Fifo,
    ) -> Option<u32> {
        self.go_first(cx, member, self.for_data, out)
    }

    fn go_first(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        steps: bool,
        out: &mut Fifo,
    ) -> Option<u32> {
        loop {
            let head = self.first(cx.pool, member, steps)?;
            let flow = &self.flows[member.index()];
            let record = *self.records.get(flow.first);
            // Without a buffer for a step, the whole ACK departs.
            // A step acknowledges a part of the data of its ACK.
            let step = head.ack != shown(cx.pool, &record).0;
            if step && self.make(cx, member, &head, echo(cx.pool, &record), out) {
                self.counts.split += 1;
                return Some(head.cost);
            }
            let whole = self.unlink(cx, member, &record);
            if record.kind().any(Kind::PACKET) {
                let cost = self.let_go(cx, member, &record, out);
                return Some(cost);
            }
            let head = Head { ack: whole.0, window: whole.1, ..head };
            let flow = &self.flows[member.index()];
            let tcp = TcpSegment { ack: head.ack, window: head.window, ..TcpSegment::default() };
            let cost = flow.cost(&tcp, record.news, self.for_data);
            if self.make(cx, member, &head, record.echo, out) {
                self.flows[member.index()].credited += record.news;
                return Some(cost);
            }
            // Without a buffer, the next ACK acknowledges the data of this ACK too.
        }
    }

    /// Sends all held ACKs of `member`. Returns the charged bytes that they request.
    pub(in crate::ack) fn withdraw(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        out: &mut Fifo,
    ) -> u32 {
        let mut cost = 0_u32;
        while let Some(more) = self.go_first(cx, member, false, out) {
            cost = cost.saturating_add(more);
        }
        cost
    }

    /// Sends the held ACKs of `member` if [`has_ended_with`](Self::has_ended_with) returns `true` for
    /// `tcp`. Returns that value.
    pub(in crate::ack) fn ends_with(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        tcp: &TcpSegment,
        out: &mut Fifo,
    ) -> bool {
        let ended = self.has_ended_with(member, tcp);
        if ended {
            self.withdraw(cx, member, out);
        }
        ended
    }

    /// Returns `true` if the returning `tcp` requests nothing: it is RST, or the sender of `member` has
    /// sent FIN and no data is missing.
    pub(in crate::ack) fn has_ended_with(&mut self, member: FlowIndex, tcp: &TcpSegment) -> bool {
        let flow = self.flow(member);
        if tcp.flags.any(TcpFlags::RST) {
            flow.on_reset();
        }
        flow.has_ended_with(tcp)
    }

    /// Removes the oldest record of `member`. Returns its number and window.
    pub(super) fn unlink(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        record: &Record,
    ) -> (u32, u16) {
        let shown = shown(cx.pool, record);
        if record.kind().any(Kind::WHOLE) {
            cx.pool.release_whole_ack();
            self.flows[member.index()].whole -= 1;
        }
        let flow = &mut self.flows[member.index()];
        let first = flow.first;
        flow.first = record.next();
        flow.count -= 1;
        if flow.count == 0 {
            flow.last = NONE;
        }
        if flow.template == first {
            flow.template = NONE;
        }
        let span = record.held(cx.now);
        flow.was_held(span);
        self.records.remove(first);
        self.counts.held -= 1;
        self.counts.held_ns += u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        shown
    }

    /// Sends the packet that a record kept. Returns the charged bytes that it requests.
    fn let_go(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        record: &Record,
        out: &mut Fifo,
    ) -> u32 {
        self.counts.packets -= 1;
        let Some(packet) = cx.pool.take_back(record.number) else { return 0 };
        let tcp = cx.pool[&packet].tcp.unwrap_or_default();
        let flow = &self.flows[member.index()];
        let cost = flow.cost(&tcp, record.news, self.for_data);
        self.go(cx.pool, member, packet, out);
        self.flows[member.index()].credited += record.news;
        cost
    }

    /// Clones the newest pure ACK with the number and window of `head` and this timestamp echo. Returns
    /// `false` if there is nothing to clone or no buffer.
    fn make(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        head: &Head,
        echo: u32,
        out: &mut Fifo,
    ) -> bool {
        let template = self.flows[member.index()].template;
        if template == NONE {
            return false;
        }
        let number = self.records.get(template).number;
        let mut packet: Packet = *cx.pool.lent(number);
        if let Some(tcp) = &mut packet.tcp {
            (tcp.ack, tcp.window) = (head.ack, head.window);
            tcp.timestamps = tcp.timestamps.map(|(value, _)| (value, echo));
        }
        packet.rewritten = true;
        let Some(of) = cx.pool.take_back(number) else { return false };
        let made = cx.pool.insert_copy(&of, packet);
        let _ = cx.pool.lend(of);
        let Some(made) = made else { return false };
        self.counts.made += 1;
        self.go(cx.pool, member, made, out);
        true
    }
}

/// Acknowledgement number and window field of a record.
fn shown(pool: &PacketPool, record: &Record) -> (u32, u16) {
    if record.kind().any(Kind::PACKET) {
        pool.lent(record.number).tcp.map_or((0, 0), |tcp| (tcp.ack, tcp.window))
    } else {
        (record.number, record.window)
    }
}

/// The timestamp echo of a record.
fn echo(pool: &PacketPool, record: &Record) -> u32 {
    if record.kind().any(Kind::PACKET) {
        let tcp = pool.lent(record.number).tcp;
        tcp.and_then(|tcp| tcp.timestamps).map_or(0, |(_, echo)| echo)
    } else {
        record.echo
    }
}
