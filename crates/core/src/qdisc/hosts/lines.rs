//! The packets in the queue `hosts`: a subqueue for each flow, and the backlogs of the hosts.
//!
//! Redundant ACKs are dropped when their flow is served: see `thinning`.

use super::super::law::CodelQueue;
use super::super::longest::{Groups, Longest};
use super::super::thinning::Merging;
use super::host::{HostState, HostedFlow, index};
use crate::packet::{FlowFifo, Host, QueueIndex};
use crate::{Bytes, Cx, PacketId, Reason};

/// The packets of all flows, with the state of each flow and each host.
#[derive(Default)]
pub(super) struct HostFlowQueues {
    pub(super) all: FlowFifo,
    /// State of each flow, by flow index.
    pub(super) flows: Vec<HostedFlow>,
    /// The flows of each host, grouped by backlog to find the longest flow queue.
    groups: Groups<QueueIndex>,
    /// State of each host, by host index.
    pub(super) hosts: Vec<HostState>,
    longest: Longest<Host>,
}

impl HostFlowQueues {
    /// Records that the backlog of the flow `member` has changed from `before`.
    pub(super) fn changed(&mut self, member: QueueIndex, before: Bytes) {
        let now = self.all.bytes_of(member);
        let Some(flow) = self.flows.get(member.index()) else { return };
        let host = &mut self.hosts[index(flow.host)];
        host.bytes = Bytes((host.bytes.0 + now.0).saturating_sub(before.0));
        self.groups.set(&mut host.lines, member, now);
        self.longest.set(flow.host, host.bytes);
    }

    /// Subtracts the `backlog` of the flow `member` from its host, because the flow moves to
    /// another host.
    pub(super) fn remove_from_host(&mut self, member: QueueIndex, backlog: Bytes) {
        let old = self.flows[member.index()].host;
        let Some(host) = self.hosts.get_mut(index(old)) else { return };
        host.bytes = Bytes(host.bytes.0.saturating_sub(backlog.0));
        self.groups.set(&mut host.lines, member, Bytes::ZERO);
        self.longest.set(old, host.bytes);
    }

    /// The longest flow queue of the host with the most bytes. Both are found to within a factor of
    /// two.
    pub(super) fn longest_queue(&self) -> Option<QueueIndex> {
        let host = self.longest.member()?;
        self.groups.member(self.hosts[index(host)].lines)
    }

    fn take(&mut self, cx: &mut Cx<'_>, member: QueueIndex) -> Option<PacketId> {
        let before = self.all.bytes_of(member);
        let packet = self.all.pop_flow(cx.pool, member)?;
        self.changed(member, before);
        Some(packet)
    }
}

/// The packets of one flow.
pub(super) struct HostFlowQueue<'a> {
    pub(super) lines: &'a mut HostFlowQueues,
    pub(super) member: QueueIndex,
    /// If set, redundant ACKs are dropped.
    pub(super) merging: Option<Merging>,
}

impl CodelQueue for HostFlowQueue<'_> {
    fn take(&mut self, cx: &mut Cx<'_>) -> Option<PacketId> {
        let member = self.member;
        let mut packet = self.lines.take(cx, member)?;
        let last = self.lines.flows[member.index()].last;
        while let Some(merging) = &mut self.merging
            && let Some(next) = self.lines.all.peek_flow(cx.pool, member)
            && merging.drops(last, &cx.pool[&packet], next)
        {
            cx.drop(packet, Reason::RedundantAck);
            packet = self.lines.take(cx, member)?;
        }
        Some(packet)
    }

    fn backlog(&self) -> Bytes {
        self.lines.all.bytes()
    }
}

impl HostFlowQueue<'_> {
    pub(super) fn bytes(&self) -> Bytes {
        self.lines.all.bytes_of(self.member)
    }
}
