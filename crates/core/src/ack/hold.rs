//! Held ACKs: the data that each one requests, in order for each flow, with as few buffers as possible.
//!
//! An ACK is stored as a record of 20 bytes if it states nothing beyond number, window and timestamps. On
//! release the driver clones the flow's newest such ACK, which keeps its buffer, and patches these fields.
//! Every other ACK is kept whole: it departs in its order, with its own number, flags and options.
//!
//! Source: `postack`, R001-8 (data that an ACK requests), R001-11 to R001-17 (rules for holding, merging and
//! cutting ACKs).
//!
//! Differs: an ACK with flags or options of its own is kept whole, as these belong to its number. ACKs of a
//! flow that negotiated AccECN (RFC 9768) or MPTCP (RFC 8684) are neither made, merged nor cut from data.
//! The window of a whole ACK may be reduced, like the window of any other ACK. A pure ACK departs with the
//! highest sequence number of its direction. If later data overtook the ACK, its own sequence number is old,
//! and the sender would refuse it (RFC 9293, section 3.10.7.4).

mod counts;
mod flow;
mod release;
mod stop;

pub use counts::Counts;
pub(super) use flow::HeldFlow;

use super::record::{Kind, NONE, Record, Records};
use super::{Known, Numbers};
use crate::flow::before;
use crate::packet::{
    Ecn, Facts, Fifo, FlowIndex, Options, Packet, TcpFlags, TcpSegment, make_room,
};
use crate::reports::Peak;
use crate::wheel::TimerWheel;
use crate::{Bytes, Cx, PacketId, PacketPool, Time};

/// The held ACKs of an aggregate. `FOR_DATA`: they are held in place of the data that they request (PostACK).
/// A stretch ACK then departs in steps, and an ACK that does not move a reduced window requests nothing.
#[derive(Default)]
pub(super) struct Holds<const FOR_DATA: bool = true> {
    flows: Vec<HeldFlow>,
    records: Records,
    pub(super) counts: Counts,
    /// Times at which stopped flows resume.
    stops: TimerWheel,
}

/// Most records of a flow. Beyond that, the oldest ACK departs. If the next ACK is a whole one, all depart.
const MOST_OF_FLOW: u32 = 4_096;

/// Outcome of a returning packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    /// The packet departed, and requests this number of charged bytes.
    Passed(u32),
    /// The packet requests no data now: its ACK is held, absorbed, or has nothing new.
    Held,
}

impl<const FOR_DATA: bool> Holds<FOR_DATA> {
    pub(super) fn flow(&mut self, member: FlowIndex) -> &mut HeldFlow {
        // Without this check, each call would build a default flow.
        if member.index() >= self.flows.len() {
            make_room(&mut self.flows, member.index(), HeldFlow::default());
        }
        &mut self.flows[member.index()]
    }

    /// Notes a data packet of `member`.
    pub(super) fn on_data(&mut self, now: Time, member: FlowIndex, packet: &Packet) {
        if let Some(tcp) = &packet.tcp {
            self.flow(member).on_data(now, packet, tcp);
        }
    }

    /// Forgets a flow without held ACKs.
    pub(super) fn leave(&mut self, member: FlowIndex) {
        if let Some(flow) = self.flows.get_mut(member.index()) {
            debug_assert_eq!(flow.count, 0, "an ACK is forgotten");
            *flow = HeldFlow::default();
        }
        self.stops.cancel(member.0);
    }

    /// Sequence state of `member`, if it is known.
    pub(super) fn numbers(&self, member: FlowIndex) -> Option<Numbers> {
        let flow = self.flows.get(member.index()).filter(|flow| flow.is_known())?;
        Some(Numbers(flow.as_departed()))
    }

    /// Sets the sequence state of `member` to that of another ACK control, unless it is known already.
    pub(super) fn set_numbers(&mut self, member: FlowIndex, Numbers(flow): Numbers) {
        let own = self.flow(member);
        if !own.is_known() {
            *own = flow;
        }
    }

    /// Number of held ACKs of `member`.
    pub(super) fn held(&self, member: FlowIndex) -> u32 {
        self.flows.get(member.index()).map_or(0, |flow| flow.count)
    }

    /// Number of held ACKs of `member` that may depart.
    pub(super) fn releasable(&self, member: FlowIndex) -> u32 {
        self.flows.get(member.index()).map_or(0, HeldFlow::releasable)
    }

    /// Bytes that the sender of `member` may still send in a window that the gateway reduced. `None` if the
    /// window was not reduced.
    pub(super) fn left(&self, member: FlowIndex) -> Option<Bytes> {
        self.flows.get(member.index())?.left_of_smaller()
    }

    /// Returns `true` if `packet` acknowledges new data of `member`. A flow whose data goes the other way
    /// gets no share of the rate.
    pub(super) fn acknowledges(
        &self,
        pool: &PacketPool,
        member: FlowIndex,
        packet: &PacketId,
    ) -> bool {
        let flow = self.flows.get(member.index()).filter(|flow| flow.is_known());
        let ack = pool[packet].tcp.map(|tcp| tcp.ack);
        flow.zip(ack).is_some_and(|(flow, ack)| before(flow.seen, ack))
    }

    /// Time for which the oldest held ACK of `member` has waited. `None` if no ACK may depart.
    pub(super) fn age(&self, member: FlowIndex, now: Time) -> Option<std::time::Duration> {
        let flow = self.flows.get(member.index()).filter(|flow| flow.releasable() > 0)?;
        Some(self.records.get(self.oldest(flow)).held(now))
    }

    /// Takes in a returning packet. If `open` is true, an ACK departs at once if its flow has no held ACKs.
    pub(super) fn take_in(
        &mut self,
        cx: &mut Cx<'_>,
        known: &Known,
        packet: PacketId,
        open: bool,
        out: &mut Fifo,
    ) -> Taken {
        let member = known.member;
        self.flow(member).learn(known);
        let flow = &mut self.flows[member.index()];
        let Some(tcp) = cx.pool[&packet].tcp else {
            out.push(cx.pool, packet);
            return Taken::Passed(0);
        };
        let Some(sent) = known.sent else {
            return Taken::Passed(self.pass(cx, member, packet, out));
        };
        flow.sent = sent;
        if tcp.flags.any(TcpFlags::ACK) && before(sent, tcp.ack) {
            // RFC 9293, section 3.10.7.4: the sender ignores this ACK and answers with an ACK.
            self.counts.unsent += 1;
            out.push(cx.pool, packet);
            return Taken::Passed(0);
        }
        if tcp.has_sack && cx.pool.sack(&packet).as_slice().iter().any(|it| is_false(*it, sent)) {
            self.counts.unsent += 1;
        }
        if is_urgent(flow, &tcp) {
            return self.pass_all(cx, member, packet, out);
        }
        let record = tcp.payload == 0 && self.can_be_record(cx.pool, member, &packet);
        if self.flows[member.index()].is_unheld(&tcp, record) {
            return self.pass_all(cx, member, packet, out);
        }
        if tcp.payload > 0 {
            return self.piggybacked(cx, member, packet, open, out);
        }
        let flow = &mut self.flows[member.index()];
        if before(tcp.ack, flow.seen) && record {
            return self.stale(cx, member, packet, out);
        }
        let tells = before(flow.seen, tcp.ack) || flow.is_duplicate(&tcp);
        if flow.count == 0 && (open || !tells) {
            let blocks = cx.pool.sack(&packet);
            let news = flow.selective(&tcp, blocks);
            let cost = flow.cost(&tcp, news, FOR_DATA);
            flow.passes(&tcp);
            flow.note(&tcp);
            self.go(cx.pool, member, packet, out);
            self.flow(member).credited += news;
            return Taken::Passed(cost);
        }
        self.hold(cx, member, packet, out)
    }

    /// Returns `true` if a record can store all that the pure ACK `packet` states, and the template of the flow has
    /// the same options.
    fn can_be_record(&self, pool: &PacketPool, member: FlowIndex, packet: &PacketId) -> bool {
        let flow = &self.flows[member.index()];
        let Some(tcp) = pool[packet].tcp else { return false };
        let has_timestamps =
            |number| pool.lent(number).tcp.is_some_and(|it| it.timestamps.is_some());
        let alike = flow.template == NONE
            || has_timestamps(self.records.get(flow.template).number) == tcp.timestamps.is_some();
        let ecn = pool[packet].ecn;
        alike && tcp.is_bare() && ecn == Ecn::NotEct && !flow.is_extended()
    }

    /// Sends `packet` without holding it. Returns the charged bytes of data that it requests.
    fn pass(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        packet: PacketId,
        out: &mut Fifo,
    ) -> u32 {
        let flow = &mut self.flows[member.index()];
        let tcp = cx.pool[&packet].tcp.unwrap_or_default();
        let mut cost = 0;
        if tcp.flags.any(TcpFlags::ACK) && !tcp.flags.any(TcpFlags::RST) {
            if flow.is_known() {
                cost = flow.cost(&tcp, 0, FOR_DATA);
            }
            flow.passes(&tcp);
            flow.note(&tcp);
        }
        self.go(cx.pool, member, packet, out);
        cost
    }

    /// Sends all held ACKs of `member`, and then `packet`.
    fn pass_all(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Taken {
        let cost = self.withdraw(cx, member, out);
        Taken::Passed(cost.saturating_add(self.pass(cx, member, packet, out)))
    }

    /// Sends `packet`. Its window, sequence number and timestamp are adapted to the packets that departed
    /// before it.
    fn go(&mut self, pool: &mut PacketPool, member: FlowIndex, packet: PacketId, out: &mut Fifo) {
        let flow = &mut self.flows[member.index()];
        let it = &mut pool[&packet];
        if let Some(tcp) = &mut it.tcp
            && tcp.flags.any(TcpFlags::ACK)
            && !tcp.flags.any(TcpFlags::RST)
        {
            let as_it_came = *tcp;
            let syn = tcp.flags.any(TcpFlags::SYN);
            if !syn && let Some(window) = flow.capped(tcp) {
                tcp.window = window;
                self.counts.windows += 1;
            }
            if !syn {
                flow.goes(tcp, tcp.sequence_len() == 0);
            }
            it.rewritten |= *tcp != as_it_came;
        }
        out.push(pool, packet);
    }

    /// Handles an old ACK: one below the highest number that arrived. It departs, or is dropped if it would
    /// acknowledge more than the departed ACKs.
    fn stale(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Taken {
        self.counts.stale += 1;
        let ack = cx.pool[&packet].tcp.unwrap_or_default().ack;
        if before(self.flows[member.index()].released, ack) {
            self.counts.absorbed += 1;
            cx.pool.release(packet);
            return Taken::Held;
        }
        self.go(cx.pool, member, packet, out);
        Taken::Passed(0)
    }

    /// Sends data with the number of the last released ACK. The ACK that the data carries is held separately.
    /// If flags or options tie the ACK to its number, all held ACKs of the flow depart before the data.
    ///
    /// Source: `postack`, R001-12 (data departs, and its ACK is held).
    fn piggybacked(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        packet: PacketId,
        open: bool,
        out: &mut Fifo,
    ) -> Taken {
        let tcp = cx.pool[&packet].tcp.unwrap_or_default();
        let flow = &self.flows[member.index()];
        let nothing_new = !before(flow.released, tcp.ack);
        let extended = flow.is_extended();
        if (nothing_new && !extended) || (flow.count == 0 && open) {
            return Taken::Passed(self.pass(cx, member, packet, out));
        }
        if extended || tcp.has_sack || tcp.high_flags != 0 || tcp.options != Options::None {
            return self.pass_all(cx, member, packet, out);
        }
        let released = flow.released;
        // Data that repeats a held ACK is no duplicate (RFC 5681, section 2).
        let tells = flow.has_news_beside_data(&tcp);
        let field = flow.field(released, &tcp);
        let ack = field.filter(|_| tells).and_then(|_| pure_ack(cx.pool, &packet, &tcp));
        let (Some(window), true) = (field, ack.is_some() || !tells) else {
            // The ACK cannot be cut from the data, so all held ACKs depart before it.
            return self.pass_all(cx, member, packet, out);
        };
        let flags = flow.flags_of_last(tcp.flags);
        if let Some(tcp) = &mut cx.pool[&packet].tcp {
            (tcp.ack, tcp.window, tcp.flags) = (released, window, flags);
        }
        cx.pool[&packet].rewritten = true;
        self.flows[member.index()].note_back(&tcp);
        self.go(cx.pool, member, packet, out);
        let Some(ack) = ack else { return Taken::Held };
        self.counts.made += 1;
        let number = cx.pool[&ack].tcp.unwrap_or_default().ack;
        if before(number, self.flows[member.index()].seen) {
            return self.stale(cx, member, ack, out);
        }
        self.hold(cx, member, ack, out)
    }

    /// Appends the ACK to the held ACKs of its flow.
    fn hold(
        &mut self,
        cx: &mut Cx<'_>,
        member: FlowIndex,
        packet: PacketId,
        out: &mut Fifo,
    ) -> Taken {
        let tcp = cx.pool[&packet].tcp.unwrap_or_default();
        // `postack`, R001-17: congestion echoes are kept whole.
        let own = !self.can_be_record(cx.pool, member, &packet);
        if own && !self.has_room_for_whole(cx.pool, member) {
            self.counts.overdue += 1;
            self.flows[member.index()].stop_holding();
            return self.pass_all(cx, member, packet, out);
        }
        let blocks = cx.pool.sack(&packet);
        let flow = &mut self.flows[member.index()];
        let duplicate = !own && flow.is_duplicate(&tcp);
        let same = tcp.ack == flow.seen && !duplicate;
        let news = flow.selective(&tcp, blocks);
        if !own && !duplicate && self.takes_the_place(member, same) {
            self.replace_template(cx.pool, member, packet, &tcp);
            return Taken::Held;
        }
        if !own {
            self.absorb_template(cx.pool, member);
        }
        let mut kind = Kind::PACKET;
        kind |= if own { Kind::WHOLE } else { 0 };
        kind |= if duplicate { Kind::DUPLICATE } else { 0 };
        let number = cx.pool.lend(packet);
        let record = Record::new(number, news, tcp.window, Kind(kind), cx.now);
        let Some(at) = self.records.insert(record) else {
            self.counts.overdue += 1;
            if own {
                cx.pool.release_whole_ack();
            }
            let Some(packet) = cx.pool.take_back(number) else { return Taken::Held };
            return self.pass_all(cx, member, packet, out);
        };
        self.append(member, at, !own);
        self.flows[member.index()].note(&tcp);
        if self.held(member) > MOST_OF_FLOW || cx.pool.is_scarce() {
            self.counts.overdue += 1;
            return Taken::Passed(self.release(cx, member, out).unwrap_or(0));
        }
        Taken::Held
    }

    /// Counts one more whole ACK of `member`. Returns `false` if the flow has no room for another record, or
    /// if the budget of the pool is exhausted.
    fn has_room_for_whole(&self, pool: &mut PacketPool, member: FlowIndex) -> bool {
        self.held(member) < MOST_OF_FLOW && pool.keep_whole_ack()
    }

    /// Returns `true` if a plain ACK replaces the newest held ACK. The flow then has more than a sixteenth of
    /// [`MOST_OF_FLOW`] held ACKs, or the ACK has the `same` number and another window.
    ///
    /// Source: `postack`, R001-16 (held ACKs take little memory).
    fn takes_the_place(&self, member: FlowIndex, same: bool) -> bool {
        let flow = &self.flows[member.index()];
        let last = flow.template != NONE && flow.template == flow.last;
        last && (same || flow.count > MOST_OF_FLOW / 16)
            && !self.records.get(flow.last).kind().any(Kind::DUPLICATE)
    }

    /// Replaces the newest held ACK by `packet`.
    ///
    /// Source: `postack`, R001-16: the steps of stretch ACKs make up for merged ACKs.
    fn replace_template(
        &mut self,
        pool: &mut PacketPool,
        member: FlowIndex,
        packet: PacketId,
        tcp: &TcpSegment,
    ) {
        let flow = &mut self.flows[member.index()];
        let entry = self.records.get_mut(flow.template);
        if let Some(old) = pool.take_back(entry.number) {
            pool.release(old);
        }
        (entry.number, entry.window) = (pool.lend(packet), tcp.window);
        flow.note(tcp);
        self.counts.absorbed += 1;
    }

    /// Turns the newest plain ACK into a record and releases its buffer. A newer ACK becomes the template.
    fn absorb_template(&mut self, pool: &mut PacketPool, member: FlowIndex) {
        let flow = &mut self.flows[member.index()];
        let at = std::mem::replace(&mut flow.template, NONE);
        if at == NONE {
            return;
        }
        let entry = self.records.get_mut(at);
        let Some(packet) = pool.take_back(entry.number) else { return };
        let tcp = pool[&packet].tcp.unwrap_or_default();
        pool.release(packet);
        let duplicate = entry.kind().any(Kind::DUPLICATE);
        entry.number = tcp.ack;
        entry.echo = tcp.timestamps.map_or(0, |(_, echo)| echo);
        entry.set_kind(Kind(if duplicate { Kind::DUPLICATE } else { 0 }));
        self.counts.absorbed += 1;
        self.counts.packets -= 1;
    }

    fn append(&mut self, member: FlowIndex, at: u32, template: bool) {
        let flow = &mut self.flows[member.index()];
        if flow.count > 0 {
            let last = self.records.get_mut(flow.last);
            let first = last.next();
            last.set_next(at);
            self.records.get_mut(at).set_next(first);
        } else {
            self.records.get_mut(at).set_next(at);
        }
        flow.last = at;
        flow.count += 1;
        if template {
            flow.template = at;
        }
        let counts = &mut self.counts;
        counts.held += 1;
        counts.packets += 1;
        counts.delayed += 1;
        counts.peak_held += Peak(counts.held);
    }
}

/// Returns `true` if a packet is never held. The held ACKs of its flow depart before it.
///
/// Source: `postack`, R001-11 (c) (packets that are never held).
///
/// Differs: a keep-alive, its answer and a challenge ACK repeat an earlier ACK. They wait behind the held
/// ACKs of their flow, since they would reveal the numbers of these held ACKs.
fn is_urgent(flow: &HeldFlow, tcp: &TcpSegment) -> bool {
    const NEVER: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST | TcpFlags::URG;
    tcp.flags.any(NEVER)
        || !tcp.flags.any(TcpFlags::ACK)
        || !flow.is_known()
        || tcp.window == 0
        || flow.window == 0
}

/// Returns `true` if a SACK block is empty, or covers data beyond `sent`. A sender ignores it and uses the
/// other blocks (Linux, `tcp_is_sackblock_valid`; RFC 2018, section 5.1, does not mention this).
const fn is_false((start, end): (u32, u32), sent: u32) -> bool {
    before(sent, end) || !before(start, end)
}

/// A pure ACK with the acknowledgement of `data`. `None` if no buffer is free. CWR stays with the data, and
/// a pure ACK is not ECN-capable (RFC 3168, sections 6.1.2 and 6.1.4).
fn pure_ack(pool: &mut PacketPool, data: &PacketId, tcp: &TcpSegment) -> Option<PacketId> {
    let whole = pool[data];
    let flags = TcpFlags(tcp.flags.0 & !(TcpFlags::PSH | TcpFlags::CWR));
    let packet = Packet {
        ecn: Ecn::NotEct,
        len: whole.len.saturating_sub(tcp.payload),
        cost: whole.cost.saturating_sub(tcp.payload) / u32::from(whole.segments.max(1)),
        segments: 1,
        seen_before: false,
        rewritten: true,
        facts: whole.facts.with(Facts::CONTROLLED, false),
        tcp: Some(TcpSegment { payload: 0, flags, seq: tcp.end_seq(), ..*tcp }),
        ..whole
    };
    pool.insert_copy(data, packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a pure ACK charged with the headers of all segments it was cut from.
    #[test]
    fn an_ack_cut_from_a_super_frame_is_charged_as_one_frame() {
        let mut pool = PacketPool::with_capacity(2);
        pool.make_copies();
        let tcp = TcpSegment { payload: 4 * 1_448, ..TcpSegment::default() };
        let (len, cost) = (66 + tcp.payload, 4 * 1_514);
        let whole = Packet { len, cost, segments: 4, tcp: Some(tcp), ..Packet::default() };
        let data = pool.insert(whole).unwrap();
        let ack = pure_ack(&mut pool, &data, &tcp).unwrap();
        assert_eq!((pool[&ack].len, pool[&ack].cost, pool[&ack].segments), (66, 66, 1));
    }
}
