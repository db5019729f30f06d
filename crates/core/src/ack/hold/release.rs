//! Release of held ACKs: in order, in steps if an ACK acknowledges much, and rebuilt from records.
//!
//! This file contains methods of `Holds`, whose fields are in `hold.rs`.

use super::super::constants::PER_ACK;
use super::super::record::{Kind, NONE, Record};
use super::{HeldFlow, Holds};
use crate::packet::{Fifo, FlowIndex, Packet, TcpFlags, TcpSegment};
use crate::{Cx, PacketPool};

impl<const FOR_DATA: bool> Holds<FOR_DATA> {
    /// Number and window of the ACK that departs if `member` releases one now: its oldest held ACK, or a
    /// step of it. `None` if no ACK may depart.
    pub(in crate::ack) fn head(&self, pool: &PacketPool, member: FlowIndex) -> Option<TcpSegment> {
        self.departs(pool, member, FOR_DATA)
    }

    /// Charged bytes of data that the [`head`](Self::head) of `member` requests.
    pub(in crate::ack) fn cost_of_head(&self, pool: &PacketPool, member: FlowIndex) -> u32 {
        self.head(pool, member).map_or(0, |tcp| {
            let flow = &self.flows[member.index()];
            flow.cost(&tcp, self.records.get(self.oldest(flow)).news, FOR_DATA)
        })
    }

    /// The same as [`head`](Self::head). If `steps` is true, an ACK of much data departs in steps.
    fn departs(&self, pool: &PacketPool, member: FlowIndex, steps: bool) -> Option<TcpSegment> {
        let flow = self.flows.get(member.index()).filter(|flow| flow.releasable() > 0)?;
        let record = self.records.get(self.oldest(flow));
        let tcp = shown(pool, record);
        let worth = flow.worth(tcp.ack);
        let long = worth > flow.mss().saturating_mul(2 * PER_ACK) && record.news == 0;
        let alterable = !record.kind().any(Kind::WHOLE) && flow.template != NONE;
        let splits = steps && long && alterable && flow.may_split(worth);
        if !splits || flow.cost(&tcp, 0, FOR_DATA) == 0 {
            return Some(tcp);
        }
        let part = flow.released.wrapping_add(flow.credited + PER_ACK * flow.mss());
        let window = flow.field(part, &tcp);
        Some(window.map_or(tcp, |window| TcpSegment { ack: part, window, ..tcp }))
    }

    /// Sends the oldest held ACK of `member`, or its next step. Returns the charged bytes that it requests.
    pub(in crate::ack) fn release(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        out: &mut Fifo,
    ) -> Option<u32> {
        self.go_first(cx, member, FOR_DATA, out)
    }

    fn go_first(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        steps: bool,
        out: &mut Fifo,
    ) -> Option<u32> {
        loop {
            let tcp = self.departs(cx.pool, member, steps)?;
            let flow = &self.flows[member.index()];
            let record = *self.records.get(self.oldest(flow));
            let whole = shown(cx.pool, &record);
            // A step acknowledges a part of the data of its ACK.
            if tcp.ack != whole.ack {
                let cost = flow.cost(&tcp, record.news, FOR_DATA);
                if self.make(cx, member, &tcp, echo(cx.pool, &record), out) {
                    self.counts.split += 1;
                    return Some(cost);
                }
            }
            // Without a buffer for a step, the whole ACK departs.
            self.unlink(cx, member, &record);
            if record.kind().any(Kind::PACKET) {
                let cost = self.let_go(cx, member, &record, out);
                return Some(cost);
            }
            let cost = self.flows[member.index()].cost(&whole, record.news, FOR_DATA);
            if self.make(cx, member, &whole, record.echo, out) {
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
            if FOR_DATA {
                self.flow(member).add_outstanding(more);
            }
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

    /// Index of the oldest record of `flow`, which has held ACKs. The records of a flow form a ring.
    pub(super) fn oldest(&self, flow: &HeldFlow) -> u32 {
        self.records.get(flow.last).next()
    }

    /// Removes `record`, the oldest record of `member`.
    pub(super) fn unlink(&mut self, cx: &mut Cx<'_>, member: FlowIndex, record: &Record) {
        if record.kind().any(Kind::WHOLE) {
            cx.pool.release_whole_ack();
        }
        let flow = &mut self.flows[member.index()];
        let last = self.records.get_mut(flow.last);
        let first = last.next();
        last.set_next(record.next());
        flow.count -= 1;
        if flow.template == first {
            flow.template = NONE;
        }
        let span = record.held(cx.now);
        flow.was_held(span);
        self.records.remove(first);
        self.counts.held -= 1;
        self.counts.held_ns += u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
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
        let cost = flow.cost(&tcp, record.news, FOR_DATA);
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
        head: &TcpSegment,
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

/// A header with the acknowledgement number and the window field of a record.
fn shown(pool: &PacketPool, record: &Record) -> TcpSegment {
    let (ack, window) = if record.kind().any(Kind::PACKET) {
        pool.lent(record.number).tcp.map_or((0, 0), |tcp| (tcp.ack, tcp.window))
    } else {
        (record.number, record.window)
    };
    TcpSegment { ack, window, ..TcpSegment::default() }
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
