//! The queue `hosts`: shares the rate equally among hosts, and each host's part equally among its
//! flows. Sparse flows and ACKs depart first, and CoDel limits the delay of each flow.
//!
//! - Hosts are served in deficit round robin. With `n` backlogged hosts, each host gets `rate / n`,
//!   regardless of its number of flows.
//! - Each host has three rings of flows, served in this order: flows with an ACK at the front, new
//!   flows, bulk flows. A new flow becomes a bulk flow as in RFC 8290, 4.2: after sending a
//!   quantum, or when its queue becomes empty while bulk flows wait.
//! - ACKs and packets of new flows need not wait until their host is served in the round robin, but
//!   are charged to the host. A host that has such packets is called *eager*. If its credit is
//!   below minus [`OVERDRAFT`] quanta, its packets must wait until the host is served.
//! - Within a host, ACKs may be at most a quantum ahead of the other flows. New flows may be at
//!   most a quantum ahead of bulk flows. While other flows wait, ACKs therefore get at most half of
//!   the host's bytes. Of the bytes that ACKs leave, new flows get at most half while bulk flows
//!   wait.
//! - Redundant ACKs are dropped when their flow is served: see `thinning`.
//!
//! Source: RFC 8290; Linux, `net/sched/sch_cake.c` (fairness between hosts, dropping of ACKs).
//! Differs:
//! - Cake divides the quantum of a flow by its host's number of flows, and so visits many flows for
//!   each packet. Here, hosts are scheduled before flows, so the cost of a packet does not depend
//!   on the number of flows.
//! - A full queue drops from the longest flow queue of the host with the most bytes. Both are found
//!   to within a factor of two.

mod host;
mod lines;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::host::{HostRing, HostState, HostedFlow, host_of, index};
use self::lines::{HostFlowQueue, HostFlowQueues};
use super::law::{CodelLaw, Departing, Standing};
use super::thinning::{Merging, only_acknowledges};
use super::{Qdisc, fq_codel};
use crate::packet::{
    DeficitRoundRobin, First, FlowFifo, FlowId, Handover, Host, Links, QueueIndex, make_room,
};
use crate::parameters::more_than;
use crate::random::Random;
use crate::{Bytes, Cx, PacketId, PacketPool, Rate, parameters};

parameters! {
    /// Limits of the queue, parameters of CoDel, and the bytes that a host or a flow sends per
    /// round of the scheduler.
    ///
    /// Source: RFC 8290, section 5.2; Linux, `tc-fq_codel(8)` (the limit in bytes).
    pub Config, checked {
        /// Largest backlog in frame bytes.
        limit: Bytes = fq_codel::Config::default().limit, in more_than(Bytes::ZERO), "nothing could wait";
        /// Largest number of waiting packets.
        packets: u32 = fq_codel::Config::default().packets, in 1.., "no packet could wait";
        /// Bytes that a host, and each of its flows, may send per round of the scheduler.
        quantum: Bytes = fq_codel::Config::default().quantum, in fq_codel::LEAST_QUANTUM..;
        /// Queueing delay that is tolerated permanently. At low rates, it rises to the time that
        /// two full packets take.
        target: Duration = fq_codel::Config::default().target;
        /// Time for which a longer queueing delay is tolerated: the longest usual round-trip time.
        /// If `target` rises at low rates, the interval rises by as much.
        interval: Duration = fq_codel::Config::default().interval;
        /// ECN-capable packets are marked instead of being dropped.
        ecn: bool = fq_codel::Config::default().ecn;
        /// An ACK without data is dropped if the next ACK of its flow waits and supersedes it.
        thin_acks: bool = true;
    }
}

impl Config {
    fn check(&self) -> Result<(), &'static str> {
        self.of_flows().check()
    }

    /// The parameters that the queue `fq-codel` has, too.
    const fn of_flows(&self) -> fq_codel::Config {
        let Self { limit, packets, quantum, target, interval, ecn, thin_acks: _ } = *self;
        fq_codel::Config { limit, packets, quantum, target, interval, ecn }
    }

    pub(super) fn build(&self, rate: Option<Rate>, _: Random) -> HostFairQueue {
        let flows = self.of_flows();
        let usual = flows.standing();
        HostFairQueue {
            limit: self.limit,
            packets: self.packets,
            quantum: flows.credit(),
            usual,
            standing: usual.at(rate),
            thin_acks: self.thin_acks,
            lines: HostFlowQueues::default(),
            laws: Vec::new(),
            flow_robin: DeficitRoundRobin::default(),
            host_robin: DeficitRoundRobin::default(),
            due: First::NOBODY,
            eager_links: Links::default(),
            eager: First::NOBODY,
        }
    }
}

/// The queues of all flows, their hosts, and the schedule of both.
pub(super) struct HostFairQueue {
    limit: Bytes,
    packets: u32,
    quantum: i64,
    /// Parameters of CoDel as configured, and adapted to the present rate.
    usual: Standing,
    standing: Standing,
    thin_acks: bool,
    lines: HostFlowQueues,
    /// State of CoDel, by flow index.
    laws: Vec<CodelLaw>,
    /// Round robin of flows, within the rings of each host.
    flow_robin: DeficitRoundRobin<QueueIndex>,
    /// Round robin of hosts. A host stays in the round robin until it is served and has credit but
    /// no packet.
    host_robin: DeficitRoundRobin<Host>,
    due: First<Host>,
    /// Eager hosts: their ACKs and packets of new flows may depart before the host is served in the
    /// round robin.
    eager_links: Links<Host>,
    eager: First<Host>,
}

impl HostFairQueue {
    /// Drops packets from the longest flow queue of the host with the most bytes, until the limits
    /// hold.
    fn make_room(&mut self, cx: &mut Cx<'_>) {
        while self.lines.all.bytes() > self.limit || self.lines.all.packets() > self.packets {
            let Some(member) = self.lines.longest_queue() else { return };
            let mut line = HostFlowQueue { lines: &mut self.lines, member, merging: None };
            fq_codel::drop_half(cx, &mut line, HostFlowQueue::bytes);
        }
    }

    /// Records that packets of `member` have arrived. Before this arrival, the flow had `before`
    /// bytes in the queue. Adds the `host` to the round robin if the host is not there.
    fn on_arrival(&mut self, member: QueueIndex, host: Host, before: Bytes, is_ack: bool) {
        make_room(&mut self.lines.flows, member.index(), HostedFlow::default());
        make_room(&mut self.laws, member.index(), CodelLaw::default());
        make_room(&mut self.lines.hosts, index(host), HostState::default());
        let was_empty = before == Bytes::ZERO;
        let mut counted = before;
        if self.lines.flows[member.index()].host != host {
            self.remove(member);
            self.lines.remove_from_host(member, before);
            self.lines.flows[member.index()].host = host;
            counted = Bytes::ZERO;
        }
        let place = if is_ack { HostRing::Acks } else { HostRing::New };
        let (flow, state) =
            (&mut self.lines.flows[member.index()], &mut self.lines.hosts[index(host)]);
        if self.flow_robin.join(state.ring(place), member, self.quantum) {
            flow.place = Some(place);
        } else if is_ack && was_empty {
            self.relocate(member, HostRing::Acks);
        }
        self.lines.changed(member, counted);
        self.host_robin.join(&mut self.due, host, self.quantum);
        self.settle(host);
    }

    /// Removes a flow from its ring.
    fn remove(&mut self, member: QueueIndex) {
        let flow = &mut self.lines.flows[member.index()];
        if let Some(place) = flow.place.take() {
            let ring = self.lines.hosts[index(flow.host)].ring(place);
            self.flow_robin.remove(ring, member);
        }
    }

    /// Moves a flow to the end of another ring of its host.
    fn relocate(&mut self, member: QueueIndex, to: HostRing) {
        let flow = &mut self.lines.flows[member.index()];
        let state = &mut self.lines.hosts[index(flow.host)];
        if let Some(from) = flow.place.replace(to) {
            self.flow_robin.remove(state.ring(from), member);
        }
        self.flow_robin.rejoin(state.ring(to), member);
    }

    /// Adds `host` to the eager hosts, or removes it, according to its rings and its credit.
    fn settle(&mut self, host: Host) {
        let state = &self.lines.hosts[index(host)];
        let eager = state.first(self.quantum).is_some_and(|place| place != HostRing::Bulk)
            && self.host_robin.credit(host) > -OVERDRAFT * self.quantum;
        if eager {
            self.eager_links.push(&mut self.eager, host);
        } else {
            self.eager_links.remove(&mut self.eager, host);
        }
    }

    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        member: QueueIndex,
        departing: Departing,
    ) -> Option<PacketId> {
        let law = self.laws.get_mut(member.index())?;
        let may = self.thin_acks && departing == Departing::Oldest;
        let head = self.lines.all.peek_flow(cx.pool, member).filter(|_| may);
        let thins = head.is_some_and(|head| {
            let tracked = head.flow != FlowId::NONE && !cx.pool.hosts().keeps_acks(head.flow);
            tracked && only_acknowledges(head)
        });
        let merging = thins.then(|| Merging::new(cx.now, self.standing.target));
        let mut line = HostFlowQueue { lines: &mut self.lines, member, merging };
        let packet = law.dequeue(&self.standing, cx, &mut line, departing);
        if let Some(packet) = &packet {
            self.lines.flows[member.index()].last.departs(&cx.pool[packet]);
        }
        packet
    }

    /// Removes the next ACK of `host`.
    fn of_acks(&mut self, cx: &mut Cx<'_>, host: Host) -> Option<PacketId> {
        while let Some(member) = self.lines.hosts[index(host)].ring(HostRing::Acks).member() {
            match self.lines.all.peek_flow(cx.pool, member) {
                None => self.remove(member),
                Some(head) if !only_acknowledges(head) => self.relocate(member, HostRing::New),
                Some(_) => {
                    let packet = self.take(cx, member, Departing::Oldest);
                    self.flow_robin.rotate(self.lines.hosts[index(host)].ring(HostRing::Acks));
                    if packet.is_some() {
                        return packet;
                    }
                }
            }
        }
        None
    }

    /// Removes the next packet of a new flow of `host`.
    fn of_new(&mut self, cx: &mut Cx<'_>, host: Host) -> Option<PacketId> {
        while let Some(member) = self.lines.hosts[index(host)].ring(HostRing::New).member() {
            if self.flow_robin.refills(member, |_| self.quantum) {
                self.relocate(member, HostRing::Bulk);
            } else if let Some(packet) = self.take(cx, member, Departing::Oldest) {
                self.flow_robin.charge(member, i64::from(cx.pool[&packet].cost));
                return Some(packet);
            } else if self.lines.hosts[index(host)].ring(HostRing::Bulk).member().is_some() {
                // Otherwise the flow could be new again with its next packet, and so delay the bulk
                // flows forever.
                self.relocate(member, HostRing::Bulk);
            } else {
                self.remove(member);
            }
        }
        None
    }

    /// Removes the next packet of a bulk flow of `host`.
    fn of_bulk(&mut self, cx: &mut Cx<'_>, host: Host) -> Option<PacketId> {
        let quantum = self.quantum;
        loop {
            let ring = self.lines.hosts[index(host)].ring(HostRing::Bulk);
            let member = self.flow_robin.next(ring, |_| quantum)?;
            if let Some(packet) = self.take(cx, member, Departing::Oldest) {
                self.flow_robin.charge(member, i64::from(cx.pool[&packet].cost));
                return Some(packet);
            }
            self.remove(member);
        }
    }

    /// Removes the next packet of `host`. Bulk flows send only if their host is served in the round robin (`is_served`).
    fn of_host(&mut self, cx: &mut Cx<'_>, host: Host, is_served: bool) -> Option<PacketId> {
        loop {
            let place = self.lines.hosts[index(host)].first(self.quantum)?;
            let packet = match place {
                HostRing::Acks => self.of_acks(cx, host),
                HostRing::New => self.of_new(cx, host),
                HostRing::Bulk if is_served => self.of_bulk(cx, host),
                HostRing::Bulk => return None,
            };
            if let Some(packet) = packet {
                let cost = i64::from(cx.pool[&packet].cost);
                self.lines.hosts[index(host)].sent(place, cost);
                return Some(packet);
            }
        }
    }

    /// Removes the next ACK, or packet of a new flow, of an eager host.
    fn of_eager(&mut self, cx: &mut Cx<'_>) -> Option<(Host, PacketId)> {
        while let Some(host) = self.eager.member() {
            self.eager_links.rotate(&mut self.eager);
            if let Some(packet) = self.of_host(cx, host, false) {
                return Some((host, packet));
            }
            self.settle(host);
        }
        None
    }

    /// Removes the next packet, and returns its host too. A host that is served but has no packet
    /// to send is removed from the round robin.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<(Host, PacketId)> {
        loop {
            let eager = self.of_eager(cx);
            if eager.is_some() {
                return eager;
            }
            let host = self.due.member()?;
            if self.host_robin.skip_spent(&mut self.due, |_| self.quantum) {
                self.settle(host);
            } else if let Some(packet) = self.of_host(cx, host, true) {
                return Some((host, packet));
            } else {
                self.host_robin.remove(&mut self.due, host);
            }
        }
    }
}

impl Qdisc for HostFairQueue {
    fn packets(&self) -> &FlowFifo {
        &self.lines.all
    }

    fn packets_mut(&mut self) -> &mut FlowFifo {
        &mut self.lines.all
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        cx.pool[&packet].queued = cx.now;
        self.put_back(cx, packet);
    }

    fn put_back(&mut self, cx: &mut Cx<'_>, packet: PacketId) {
        let waiting = &cx.pool[&packet];
        let (member, acks) = (waiting.queue_index, only_acknowledges(waiting));
        let host = host_of(cx.pool, &cx.pool[&packet]);
        let before = self.lines.all.bytes_of(member);
        self.lines.all.push(cx.pool, packet);
        self.on_arrival(member, host, before, acks);
        self.make_room(cx);
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let (host, packet) = self.next(cx)?;
        self.host_robin.charge(host, i64::from(cx.pool[&packet].cost));
        self.settle(host);
        Some(packet)
    }

    fn dequeue_flow(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        self.lines.all.peek_flow(cx.pool, member)?;
        self.take(cx, member, Departing::Promised)
    }

    fn dequeue_newest(&mut self, cx: &mut Cx<'_>, flow: QueueIndex) -> Option<PacketId> {
        let before = self.lines.all.bytes_of(flow);
        let packet = self.lines.all.pop_flow_last(cx.pool, flow)?;
        self.lines.changed(flow, before);
        Some(packet)
    }

    fn hand_over(&mut self, pool: &mut PacketPool, what: &mut Handover<'_>) -> bool {
        let (from, to) = (what.from, what.to);
        let [of_from, of_to] = [from, to].map(|member| self.lines.all.bytes_of(member));
        let moved = self.lines.all.hand_over(pool, what);
        if moved && let Some(first) = self.lines.all.peek_flow(pool, to) {
            let (host, acks) = (host_of(pool, first), only_acknowledges(first));
            self.lines.changed(from, of_from);
            self.on_arrival(to, host, of_to, acks);
        }
        moved
    }

    fn set_rate(&mut self, rate: Rate) {
        self.standing = self.usual.at(Some(rate));
    }
}

/// Number of quanta by which ACKs and new flows may overdraw their host's credit.
///
/// The round robin serves a host while its credit is above zero. A packet is at most about a
/// quantum long, so the credit then ends above minus one quantum. From there to minus two quanta,
/// ACKs and new flows can still send at least one quantum.
const OVERDRAFT: i64 = 2;
