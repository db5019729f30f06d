//! Fairness between hosts, and in each host between its flows. Sparse flows and ACKs go first, CoDel is in each flow.
//!
//! - Hosts take turns by deficit round robin, so that a host has its share whatever its number of flows. The share is
//!   `rate / n` with `n` backlogged hosts.
//! - In a host, lines of ACKs come first, then new flows, then bulk flows. New flows turn into bulk flows as in RFC 8290,
//!   4.2: by using up a quantum, or by becoming empty while bulk flows wait.
//! - ACKs and new flows depart before the turns of all hosts. Their host pays for them. A host may be overdrawn by
//!   [`OVERDRAFT`] quanta. Beyond that, it waits for its turn.
//! - ACKs are at most a quantum ahead of the other flows of their host. New flows are at most a quantum ahead of its bulk
//!   flows. Each ring has at most half of the bytes that it shares with the rings behind it.
//! - Redundant ACKs are dropped as their line is served: see `thinning`.
//!
//! Source: RFC 8290; Linux, `net/sched/sch_cake.c`, for fairness between hosts and for the dropping of ACKs.
//! Differs:
//! - Cake divides the quantum of a flow by the number of flows of its host, and so visits many flows for each packet.
//!   Here hosts have turns of their own, and each packet takes the same time for any number of flows.
//! - A full queue drops from the longest line of the host with most waiting, both to within a factor of two.

mod host;
mod lines;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::host::{Flow, HostState, Place, host_of, index};
use self::lines::{Lines, OfFlow};
use super::law::{Law, Leaves, Standing};
use super::thinning::{Merging, only_acknowledges};
use super::{Qdisc, fq_codel};
use crate::packet::{
    DeficitRoundRobin, First, FlowFifo, FlowId, Handover, Host, Links, Member, make_room,
};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, parameters};

parameters! {
    /// Parameters of `hosts`: room, delay, and the bytes of a turn.
    ///
    /// Source: RFC 8290, section 5.2; the bytes are those of Linux, `tc-fq_codel(8)`.
    pub Config, checked {
        /// Most bytes that may wait, as frames.
        limit: Bytes = fq_codel::Config::default().limit, in more_than(Bytes::ZERO), "nothing could wait";
        /// Most packets that may wait.
        packets: u32 = fq_codel::Config::default().packets, in 1.., "no packet could wait";
        /// Bytes a host, and each of its flows, may send in one turn.
        quantum: Bytes = fq_codel::Config::default().quantum, in fq_codel::LEAST_QUANTUM..;
        /// Tolerated sojourn time of a busy flow. At low rates it is at least the time of two packets.
        target: Duration = fq_codel::Config::default().target;
        /// Time for which packets may exceed the target: the longest usual round-trip time. It grows with the
        /// target.
        interval: Duration = fq_codel::Config::default().interval;
        /// ECN-capable packets are marked in place of being dropped.
        ecn: bool = fq_codel::Config::default().ecn;
        /// ACKs without data that acknowledge nothing new are dropped.
        thin_acks: bool = true;
    }
}

impl Config {
    fn check(&self) -> Result<(), &'static str> {
        self.of_flows().check()
    }

    /// The parameters that flows have in `fq-codel` too.
    const fn of_flows(&self) -> fq_codel::Config {
        let Self { limit, packets, quantum, target, interval, ecn, thin_acks: _ } = *self;
        fq_codel::Config { limit, packets, quantum, target, interval, ecn }
    }

    pub(super) fn build(&self, rate: Option<Rate>, _: Random) -> Hosts {
        let flows = self.of_flows();
        let usual = flows.standing();
        Hosts {
            limit: self.limit,
            packets: self.packets,
            quantum: flows.credit(),
            usual,
            standing: usual.at(rate),
            thin_acks: self.thin_acks,
            lines: Lines::default(),
            laws: Vec::new(),
            flow_turns: DeficitRoundRobin::default(),
            host_turns: DeficitRoundRobin::default(),
            due: First::NOBODY,
            eager_links: Links::default(),
            eager: First::NOBODY,
        }
    }
}

/// The queue `hosts`.
pub(super) struct Hosts {
    limit: Bytes,
    packets: u32,
    quantum: i64,
    /// Parameters as configured, and at the present rate.
    usual: Standing,
    standing: Standing,
    thin_acks: bool,
    lines: Lines,
    /// By member.
    laws: Vec<Law>,
    /// Flows, in the rings of their hosts.
    flow_turns: DeficitRoundRobin,
    /// Hosts that have sent, or have packets: each until its turn finds it with credit and without a packet.
    host_turns: DeficitRoundRobin,
    due: First,
    /// Hosts whose ACKs and new flows may depart before the turns of all hosts.
    eager_links: Links,
    eager: First,
}

impl Hosts {
    /// Makes room by dropping from the longest line of the host with most waiting.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while self.lines.all.bytes() > self.limit || self.lines.all.packets() > self.packets {
            let Some(member) = self.lines.longest_line() else { return };
            let mut line = OfFlow { lines: &mut self.lines, member, merging: None };
            fq_codel::drop_half(cx, &mut line, OfFlow::bytes);
        }
    }

    /// Notes arrived packets of `member`, which had `before` bytes in the queue. A `host` without turns
    /// gets some.
    fn has_come(&mut self, member: Member, host: Host, before: Bytes, is_ack: bool) {
        make_room(&mut self.lines.flows, member.index(), Flow::default());
        make_room(&mut self.laws, member.index(), Law::default());
        make_room(&mut self.lines.hosts, index(host), HostState::default());
        let was_empty = before == Bytes::ZERO;
        let mut counted = before;
        if self.lines.flows[member.index()].host != host {
            self.remove(member);
            self.lines.leave_host(member, before);
            self.lines.flows[member.index()].host = host;
            counted = Bytes::ZERO;
        }
        let place = if is_ack { Place::Acks } else { Place::New };
        let (flow, state) =
            (&mut self.lines.flows[member.index()], &mut self.lines.hosts[index(host)]);
        if self.flow_turns.join(state.ring(place), member, self.quantum) {
            flow.place = Some(place);
        } else if is_ack && was_empty {
            self.relocate(member, Place::Acks);
        }
        self.lines.changed(member, counted);
        self.host_turns.join(&mut self.due, Member(host.0), self.quantum);
        self.settle(host);
    }

    /// Takes a flow out of its ring.
    fn remove(&mut self, member: Member) {
        let flow = &mut self.lines.flows[member.index()];
        if let Some(place) = flow.place.take() {
            let ring = self.lines.hosts[index(flow.host)].ring(place);
            self.flow_turns.leave(ring, member);
        }
    }

    /// Moves a flow to the end of another ring of its host.
    fn relocate(&mut self, member: Member, to: Place) {
        let flow = &mut self.lines.flows[member.index()];
        let state = &mut self.lines.hosts[index(flow.host)];
        if let Some(from) = flow.place.replace(to) {
            self.flow_turns.leave(state.ring(from), member);
        }
        self.flow_turns.rejoin(state.ring(to), member);
    }

    /// Sees to it that `host` is among the eager hosts, or is not.
    fn settle(&mut self, host: Host) {
        let state = &self.lines.hosts[index(host)];
        let member = Member(host.0);
        let eager = state.first(self.quantum).is_some_and(|place| place != Place::Bulk)
            && self.host_turns.credit(member) > -OVERDRAFT * self.quantum;
        if eager {
            self.eager_links.push(&mut self.eager, member);
        } else {
            self.eager_links.remove(&mut self.eager, member);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, member: Member, leaves: Leaves) -> Option<PacketId> {
        let law = self.laws.get_mut(member.index())?;
        let may = self.thin_acks && leaves == Leaves::Oldest;
        let head = self.lines.all.peek_flow(cx.pool, member).filter(|_| may);
        let thins = head.is_some_and(|head| {
            let tracked = head.flow != FlowId::NONE && !cx.pool.hosts().keeps_acks(head.flow);
            tracked && only_acknowledges(head)
        });
        let merging = thins.then(|| Merging::new(cx.now, self.standing.target));
        let mut line = OfFlow { lines: &mut self.lines, member, merging };
        let packet = law.dequeue(&self.standing, cx, &mut line, leaves);
        if let Some(packet) = &packet {
            self.lines.flows[member.index()].last.departs(&cx.pool[packet]);
        }
        packet
    }

    /// The next packet of the lines of ACKs of `host`.
    fn of_acks(&mut self, cx: &mut Cx<'_>, host: Host) -> Option<PacketId> {
        while let Some(member) = self.lines.hosts[index(host)].ring(Place::Acks).member() {
            match self.lines.all.peek_flow(cx.pool, member) {
                None => self.remove(member),
                Some(head) if !only_acknowledges(head) => self.relocate(member, Place::New),
                Some(_) => {
                    let packet = self.take(cx, member, Leaves::Oldest);
                    self.flow_turns.rotate(self.lines.hosts[index(host)].ring(Place::Acks));
                    if packet.is_some() {
                        return packet;
                    }
                }
            }
        }
        None
    }

    /// The next packet of the new flows of `host`.
    fn of_new(&mut self, cx: &mut Cx<'_>, host: Host) -> Option<PacketId> {
        while let Some(member) = self.lines.hosts[index(host)].ring(Place::New).member() {
            if self.flow_turns.refills(member, |_| self.quantum) {
                self.relocate(member, Place::Bulk);
            } else if let Some(packet) = self.take(cx, member, Leaves::Oldest) {
                self.flow_turns.charge(member, i64::from(cx.pool[&packet].cost));
                return Some(packet);
            } else if self.lines.hosts[index(host)].ring(Place::Bulk).member().is_some() {
                // Else a flow could come back as new at once, and starve the others.
                self.relocate(member, Place::Bulk);
            } else {
                self.remove(member);
            }
        }
        None
    }

    /// The next packet of the bulk flows of `host`.
    fn of_bulk(&mut self, cx: &mut Cx<'_>, host: Host) -> Option<PacketId> {
        let quantum = self.quantum;
        loop {
            let ring = self.lines.hosts[index(host)].ring(Place::Bulk);
            let member = self.flow_turns.next(ring, |_| quantum)?;
            if let Some(packet) = self.take(cx, member, Leaves::Oldest) {
                self.flow_turns.charge(member, i64::from(cx.pool[&packet].cost));
                return Some(packet);
            }
            self.remove(member);
        }
    }

    /// The next packet of `host`. A host whose turn has not come sends no packet of bulk flows.
    fn of_host(&mut self, cx: &mut Cx<'_>, host: Host, its_turn: bool) -> Option<PacketId> {
        loop {
            let place = self.lines.hosts[index(host)].first(self.quantum)?;
            let packet = match place {
                Place::Acks => self.of_acks(cx, host),
                Place::New => self.of_new(cx, host),
                Place::Bulk if its_turn => self.of_bulk(cx, host),
                Place::Bulk => return None,
            };
            if let Some(packet) = packet {
                let cost = i64::from(cx.pool[&packet].cost);
                self.lines.hosts[index(host)].sent(place, cost);
                return Some(packet);
            }
        }
    }

    /// The next ACK, or packet of a new flow, whose host need not wait for its turn.
    fn of_eager(&mut self, cx: &mut Cx<'_>) -> Option<(Host, PacketId)> {
        while let Some(member) = self.eager.member() {
            self.eager_links.rotate(&mut self.eager);
            let host = Host(member.0);
            if let Some(packet) = self.of_host(cx, host, false) {
                return Some((host, packet));
            }
            self.settle(host);
        }
        None
    }

    /// The next packet, and its host. A host whose turn finds no packet of it ends its turns.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<(Host, PacketId)> {
        loop {
            let eager = self.of_eager(cx);
            if eager.is_some() {
                return eager;
            }
            let member = self.due.member()?;
            let host = Host(member.0);
            if self.host_turns.ends_turn(&mut self.due, |_| self.quantum) {
                self.settle(host);
            } else if let Some(packet) = self.of_host(cx, host, true) {
                return Some((host, packet));
            } else {
                self.host_turns.leave(&mut self.due, member);
            }
        }
    }
}

impl Qdisc for Hosts {
    fn packets(&self) -> &FlowFifo {
        &self.lines.all
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.lines.all
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let waiting = &mut cx.pool[&packet];
        waiting.queued = cx.now;
        let (member, acks) = (waiting.member, only_acknowledges(waiting));
        let host = host_of(cx.pool, &cx.pool[&packet]);
        let before = self.lines.all.bytes_of(member);
        self.lines.all.push(cx.pool, packet);
        self.has_come(member, host, before, acks);
        self.make_room(cx);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let (host, packet) = self.next(cx)?;
        self.host_turns.charge(Member(host.0), i64::from(cx.pool[&packet].cost));
        self.settle(host);
        Some(packet)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: Member) -> Option<PacketId> {
        self.lines.all.peek_flow(cx.pool, member)?;
        self.take(cx, member, Leaves::Promised)
    }

    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        let (from, to) = (what.from, what.to);
        let [of_from, of_to] = [from, to].map(|member| self.lines.all.bytes_of(member));
        let moved = self.lines.all.hand_over(pool, what);
        if moved && let Some(first) = self.lines.all.peek_flow(pool, to) {
            let (host, acks) = (host_of(pool, first), only_acknowledges(first));
            self.lines.changed(from, of_from);
            self.has_come(to, host, of_to, acks);
        }
        moved
    }

    fn set_rate(&mut self, rate: Rate) {
        self.standing = self.usual.at(Some(rate));
    }
}

/// Quanta by which the new flows of a host may overdraw its credit. After the turn of its host, a new flow has at least
/// one quantum: a bulk packet leaves the credit above minus one quantum.
const OVERDRAFT: i64 = 2;
