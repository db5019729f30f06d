//! State of a host and of a flow in the queue `hosts`.

use super::super::longest::Group;
use super::super::thinning::Last;
use crate::packet::{First, FlowId, Host, Member};
use crate::random::{halves, mixed};
use crate::{Bytes, Packet, PacketPool};

/// A host, and the rings of its flows.
#[derive(Clone, Debug)]
pub(super) struct HostState {
    acks: First,
    new: First,
    bulk: First,
    /// Charged bytes of ACKs that departed before waiting packets of other rings.
    acks_ahead: i64,
    /// Charged bytes by which new flows are ahead of bulk flows that wait.
    new_ahead: i64,
    /// Frame bytes of all its flows.
    pub(super) bytes: Bytes,
    /// Its flows by backlog.
    pub(super) lines: Group,
}

/// A ring of flows of one host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// Lines that begin with an ACK without data.
    Acks,
    /// Flows that became backlogged.
    New,
    /// Flows that have used up a quantum.
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
    pub(super) const fn ring(&mut self, place: Place) -> &mut First {
        match place {
            Place::Acks => &mut self.acks,
            Place::New => &mut self.new,
            Place::Bulk => &mut self.bulk,
        }
    }

    /// The ring that is served next. A ring that is a `quantum` ahead of the rings behind it waits for these.
    pub(super) fn first(&self, quantum: i64) -> Option<Place> {
        let waits = |ring: First| ring.member().is_some();
        let [acks, new, bulk] = [self.acks, self.new, self.bulk].map(waits);
        if acks && (self.acks_ahead < quantum || !(new || bulk)) {
            Some(Place::Acks)
        } else if new && (self.new_ahead < quantum || !bulk) {
            Some(Place::New)
        } else {
            bulk.then_some(Place::Bulk)
        }
    }

    /// Notes that a packet of a ring has departed. A ring is ahead only of packets that wait behind it.
    pub(super) fn sent(&mut self, place: Place, cost: i64) {
        let bulk = self.bulk.member().is_some();
        let other = bulk || self.new.member().is_some();
        self.acks_ahead = match place {
            Place::Acks if other => self.acks_ahead + cost,
            Place::Acks => 0,
            Place::New | Place::Bulk => (self.acks_ahead - cost).max(0),
        };
        self.new_ahead = match place {
            Place::New if bulk => self.new_ahead + cost,
            Place::New => 0,
            Place::Acks => self.new_ahead,
            Place::Bulk => (self.new_ahead - cost).max(0),
        };
    }
}

/// A flow, by member.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// The host that its packets are charged to.
    pub(super) host: Host,
    /// The ring it is in.
    pub(super) place: Option<Place>,
    pub(super) last: Last,
}

/// The host of `packet`, as the gateway knows it. Before a link without a gateway, the host is a hash of the sender.
pub(super) fn host_of(pool: &PacketPool, packet: &Packet) -> Host {
    if packet.flow != FlowId::NONE {
        return pool.hosts().of(packet.flow);
    }
    if packet.member == Member::default() {
        return Host::UNKNOWN;
    }
    let (high, low) = halves(packet.key.src.number());
    Host(u32::try_from(mixed(mixed(high) ^ low) % SENDERS).unwrap_or(0))
}

/// The place of a host in lists by number.
pub(super) const fn index(host: Host) -> usize {
    Member(host.0).index()
}

/// Hosts that senders are hashed into, as many as lines for flows (RFC 8290, section 4.1).
const SENDERS: u64 = 1_024;
