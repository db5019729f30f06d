//! The state of a host, and of a flow, in the queue `hosts`.

use super::super::longest::Group;
use super::super::thinning::Last;
use crate::packet::{First, FlowId, Host, QueueIndex, slot};
use crate::random::{halves, mixed};
use crate::{Bytes, Packet, PacketPool};

/// A host, with its rings of flows.
#[derive(Clone, Debug)]
pub(super) struct HostState {
    acks: First<QueueIndex>,
    new: First<QueueIndex>,
    bulk: First<QueueIndex>,
    /// Charged bytes of ACKs that departed while packets of the other rings waited, minus the
    /// charged bytes of the other rings since then.
    acks_ahead: i64,
    /// Charged bytes of new flows that departed while bulk flows waited, minus the charged bytes of
    /// bulk flows since then.
    new_ahead: i64,
    /// Frame bytes of all flows of the host.
    pub(super) bytes: Bytes,
    /// The flows of the host, grouped by their backlog.
    pub(super) lines: Group,
}

/// A ring of flows of one host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HostRing {
    /// Flows whose oldest waiting packet is an ACK without data.
    Acks,
    /// Flows that became backlogged just now.
    New,
    /// Flows that have sent a quantum since they became backlogged.
    Bulk,
}

impl Default for HostState {
    fn default() -> Self {
        Self {
            acks: First::NOBODY,
            new: First::NOBODY,
            bulk: First::NOBODY,
            acks_ahead: 0,
            new_ahead: 0,
            bytes: Bytes::ZERO,
            lines: Group::default(),
        }
    }
}

impl HostState {
    pub(super) const fn ring(&mut self, place: HostRing) -> &mut First<QueueIndex> {
        match place {
            HostRing::Acks => &mut self.acks,
            HostRing::New => &mut self.new,
            HostRing::Bulk => &mut self.bulk,
        }
    }

    /// The ring that is served next. A ring that is a `quantum` ahead of later rings waits until
    /// the later rings have sent packets.
    pub(super) fn first(&self, quantum: i64) -> Option<HostRing> {
        let waits = |ring: First<QueueIndex>| ring.member().is_some();
        let [acks, new, bulk] = [self.acks, self.new, self.bulk].map(waits);
        if acks && (self.acks_ahead < quantum || !(new || bulk)) {
            Some(HostRing::Acks)
        } else if new && (self.new_ahead < quantum || !bulk) {
            Some(HostRing::New)
        } else {
            bulk.then_some(HostRing::Bulk)
        }
    }

    /// Records the departure of a packet from the ring `place`. A ring is ahead only while packets
    /// of later rings wait.
    pub(super) fn sent(&mut self, place: HostRing, cost: i64) {
        let bulk = self.bulk.member().is_some();
        let other = bulk || self.new.member().is_some();
        self.acks_ahead = match place {
            HostRing::Acks if other => self.acks_ahead + cost,
            HostRing::Acks => 0,
            HostRing::New | HostRing::Bulk => (self.acks_ahead - cost).max(0),
        };
        self.new_ahead = match place {
            HostRing::New if bulk => self.new_ahead + cost,
            HostRing::New => 0,
            HostRing::Acks => self.new_ahead,
            HostRing::Bulk => (self.new_ahead - cost).max(0),
        };
    }
}

/// The state of a flow, by flow index.
#[derive(Clone, Debug, Default)]
pub(super) struct HostedFlow {
    /// The host to which the flow's packets are charged.
    pub(super) host: Host,
    /// The ring that contains the flow. `None` without packets.
    pub(super) place: Option<HostRing>,
    pub(super) last: Last,
}

/// The host of `packet`, if the gateway knows it. At a link without a gateway, the host is a hash
/// of the sender's address.
pub(super) fn host_of(pool: &PacketPool, packet: &Packet) -> Host {
    if packet.flow != FlowId::NONE {
        return pool.hosts().of(packet.flow);
    }
    if packet.queue_index == QueueIndex::default() {
        return Host::UNKNOWN;
    }
    let (high, low) = halves(packet.key.src.number());
    Host(u32::try_from(mixed(mixed(high) ^ low) % SENDERS).unwrap_or(0))
}

/// The index of a host in lists.
pub(super) const fn index(host: Host) -> usize {
    slot(host.0)
}

/// Number of hash values for senders: as many as FQ-CoDel has queues (RFC 8290, section 4.1).
const SENDERS: u64 = 1_024;
