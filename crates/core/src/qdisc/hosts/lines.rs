//! The contents of the queue `hosts`: packets by flow, flows, and the backlogs of their hosts.
//!
//! Redundant ACKs are dropped as the line of their flow is served: see `thinning`.

use super::super::law::CodelQueue;
use super::super::longest::{Groups, Longest};
use super::super::thinning::Merging;
use super::host::{HostState, HostedFlow, index};
use crate::packet::{FlowFifo, Member};
use crate::{Bytes, Cx, PacketId, Reason};

/// The packets that wait by flow, the flows, and their hosts.
#[derive(Default)]
pub(super) struct HostFlowQueues {
    pub(super) all: FlowFifo,
    /// By member.
    pub(super) flows: Vec<HostedFlow>,
    /// Members by backlog, in groups by host.
    groups: Groups,
    /// By number.
    pub(super) hosts: Vec<HostState>,
    longest: Longest,
}

impl HostFlowQueues {
    /// Notes that the backlog of `member` was `before` bytes, and has changed.
    pub(super) fn changed(&mut self, member: Member, before: Bytes) {
        let now = self.all.bytes_of(member);
        let Some(flow) = self.flows.get(member.index()) else { return };
        let host = &mut self.hosts[index(flow.host)];
        host.bytes = Bytes((host.bytes.0 + now.0).saturating_sub(before.0));
        self.groups.set(&mut host.lines, member, now);
        self.longest.set(Member(flow.host.0), host.bytes);
    }

    /// Takes the `backlog` bytes of `member` away from its host, for another host.
    pub(super) fn leave_host(&mut self, member: Member, backlog: Bytes) {
        let old = self.flows[member.index()].host;
        let Some(host) = self.hosts.get_mut(index(old)) else { return };
        host.bytes = Bytes(host.bytes.0.saturating_sub(backlog.0));
        self.groups.set(&mut host.lines, member, Bytes::ZERO);
        self.longest.set(Member(old.0), host.bytes);
    }

    /// A flow with a longest line of a host with a longest backlog; both to within a factor of two.
    pub(super) fn longest_line(&self) -> Option<Member> {
        let host = self.longest.member()?;
        self.groups.member(self.hosts[host.index()].lines)
    }

    fn take(&mut self, cx: &mut Cx<'_>, member: Member) -> Option<PacketId> {
        let before = self.all.bytes_of(member);
        let packet = self.all.pop_flow(cx.pool, member)?;
        self.changed(member, before);
        Some(packet)
    }
}

/// The packets of one flow.
pub(super) struct HostFlowQueue<'a> {
    pub(super) lines: &'a mut HostFlowQueues,
    pub(super) member: Member,
    /// Redundant ACKs are dropped.
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
