//! Flows: the state of each conversation that crosses the gateway, with both directions in one
//! entry.

mod fragments;
mod opening;
mod rtt;
mod table;
mod tracker;
mod tunnels;

pub use fragments::{FragmentTable, WithoutFirst};
pub use rtt::Rtt;
pub use table::{FlowTable, IDLE_LIMIT, Inserted};
pub use tracker::{AckKind, Claiming, Tracker, Tracking};

use std::time::Duration;

use crate::class::ClassId;
use crate::packet::{Direction, FlowIndex, FlowKey, NO_VLAN, Packet, Ports};
use crate::{Bytes, Time};
use rtt::Halves;

/// Both directions of a flow.
///
/// The gateway calls [`on_arrival`](Self::on_arrival) and [`on_departure`](Self::on_departure) for each packet. The time
/// between the two, which is the gateway's own queue, does not count as a part of the round-trip time.
#[derive(Clone, Debug)]
pub struct Flow {
    key: Key,
    handles: [Handle; 2],
    tally: [FlowTally; 2],
    tracker: Tracker,
    halves: Halves,
    /// Arrival time of the flow's last packet, in [`ticks`].
    seen: u32,
    /// DS codepoints of the packets with which the policies of the flow were looked up, by direction.
    dscp: [u8; 2],
    /// Class of the link that sends the packets of the flow, by direction.
    classes: [ClassId; 2],
    /// Number of packets of the flow in the gateway.
    inside: u32,
}

/// The key of a flow. The same addresses on another VLAN or in another tunnel are other hosts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Key {
    /// Addresses and ports of the direction up, in which the LAN host is the source.
    ends: FlowKey,
    /// The [`tag`] of each direction. They differ only in a flow that was [joined](FlowTable::join_inside).
    vlans: [u16; 2],
    /// Number of the tunnel that carries the flow.
    tunnel: u32,
}

impl Key {
    /// The key of a flow in `tunnel` whose directions have the VLAN of `packet`.
    #[inline]
    const fn of(packet: &Packet, direction: Direction, tunnel: u32) -> Self {
        let ends = match direction {
            Direction::Up => packet.key,
            Direction::Down => packet.key.reverse(),
        };
        Self { ends, vlans: [tag(packet); 2], tunnel }
    }

    /// Returns `true` if `packet`, the key of a packet in `direction`, belongs to the flow of this key.
    #[inline]
    fn has(&self, packet: &Self, direction: Direction) -> bool {
        let vlan = match direction {
            Direction::Up => self.vlans[0],
            Direction::Down => self.vlans[1],
        };
        // Both directions of a packet's own key have its VLAN.
        self.tunnel == packet.tunnel && vlan == packet.vlans[0] && self.ends == packet.ends
    }

    const fn is_joined(&self) -> bool {
        self.vlans[0] != self.vlans[1]
    }
}

/// The VLAN of a packet, and in the 4 bits above it a mark of fragments with unknown ports, which are flows of their
/// own. The mark of [`NO_VLAN`] is inverted.
#[inline]
const fn tag(packet: &Packet) -> u16 {
    let mark = match packet.fragment.ports() {
        Ports::Known => 0,
        Ports::Unknown => UNKNOWN_PORTS,
        Ports::Any => ANY_PORTS,
    };
    packet.vlan ^ mark
}

/// VLAN and ports of a [`tag`].
const fn untag(tag: u16) -> (u16, Ports) {
    let vlan = if tag >> 15 == 0 { tag & VLAN_ID } else { NO_VLAN };
    let ports = match tag ^ vlan {
        UNKNOWN_PORTS => Ports::Unknown,
        ANY_PORTS => Ports::Any,
        _ => Ports::Known,
    };
    (vlan, ports)
}

/// Bits of a VLAN identifier (IEEE 802.1Q, section 9.6).
const VLAN_ID: u16 = 0x0fff;
const UNKNOWN_PORTS: u16 = 1 << 12;
const ANY_PORTS: u16 = 2 << 12;

/// The aggregate of a flow in one direction. The flow stores it, so that later packets need no look-up of
/// their policy.
///
/// Source: `aggregates`, section 6.1 (the QoS handle of a socket).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Handle {
    /// Slot of the aggregate. [`NO_AGGREGATE`](Self::NO_AGGREGATE) if no policy matches.
    pub aggregate: u32,
    /// Number of the policy set that was in force at the look-up. 0 before the first packet.
    pub generation: u32,
    /// Index of the flow in the aggregate.
    pub flow_index: FlowIndex,
}

impl Handle {
    /// The slot for packets that no policy matches.
    pub const NO_AGGREGATE: u32 = u32::MAX;
    /// The handle before the first packet.
    pub const NONE: Self =
        Self { aggregate: Self::NO_AGGREGATE, generation: 0, flow_index: FlowIndex(u32::MAX) };
}

/// Effect of an arriving packet on its flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Effect of the packet as an ACK on the sender at the other end, such as a larger window.
    pub ack: AckKind,
    /// The packet opens a connection. The state of an earlier connection with this key is reset,
    /// except for the handles.
    pub connection: bool,
    /// State of a SYN that claims the flow's ports.
    pub claiming: Claiming,
    /// The packet has data that was seen before: it is a retransmission, or another path has reordered it.
    pub seen_before: bool,
    /// The round-trip times of the flow have changed.
    pub rtt: bool,
}

impl Arrival {
    const PLAIN: Self = Self {
        ack: AckKind::Other,
        connection: false,
        claiming: Claiming::No,
        seen_before: false,
        rtt: false,
    };
}

impl Flow {
    fn new(now: Time, key: Key) -> Self {
        Self {
            key,
            handles: [Handle::NONE; 2],
            tally: [FlowTally::default(); 2],
            tracker: Tracker::default(),
            halves: Halves::default(),
            seen: ticks(now),
            dscp: [0; 2],
            classes: [ClassId::ROOT; 2],
            inside: 0,
        }
    }

    /// Updates the flow with `packet`, which arrives in `direction`.
    ///
    /// If the data of the packet was seen before, this is noted in the packet. Its departure then starts no measurement
    /// of the round-trip time.
    pub fn on_arrival(&mut self, now: Time, packet: &mut Packet, direction: Direction) -> Arrival {
        self.seen = ticks(now);
        let Some(segment) = &packet.tcp else {
            self.tally[direction.index()].add(packet.wire_len());
            return Arrival::PLAIN;
        };
        let mut arrival = self.tracker.on_arrival(segment, direction, &mut self.halves);
        if arrival.connection {
            self.tally = [FlowTally::default(); 2];
            arrival.rtt = self.rtt() != Rtt::default();
            self.halves.renew();
        }
        arrival.rtt |= self.halves.on_arrival(direction, now, segment);
        self.tally[direction.index()].add(packet.wire_len());
        packet.seen_before = arrival.seen_before;
        arrival
    }

    /// Updates the flow with `packet`, which departs in `direction`. Its time in the gateway does
    /// not count.
    #[inline]
    pub fn on_departure(&mut self, now: Time, packet: &Packet, direction: Direction) {
        if let Some(segment) = &packet.tcp {
            self.halves.on_departure(direction, now, segment, packet.seen_before);
        }
    }

    /// Addresses, ports and protocol of packets in `direction`.
    #[must_use]
    pub const fn key(&self, direction: Direction) -> FlowKey {
        match direction {
            Direction::Up => self.key.ends,
            Direction::Down => self.key.ends.reverse(),
        }
    }

    /// A packet of the flow in `direction`, as filters see it, without its outer headers.
    #[must_use]
    pub fn packet(&self, direction: Direction) -> Packet {
        let (key, dscp) = (self.key(direction), self.dscp(direction));
        let (vlan, ports) = untag(self.key.vlans[direction.index()]);
        Packet { key, dscp, vlan, fragment: ports.fragment(), ..Packet::default() }
    }

    /// The aggregate of the flow in `direction`.
    #[must_use]
    pub const fn handle(&self, direction: Direction) -> Handle {
        self.handles[direction.index()]
    }

    /// DS codepoint of the packet that the handle in `direction` was derived from.
    #[must_use]
    pub const fn dscp(&self, direction: Direction) -> u8 {
        self.dscp[direction.index()]
    }

    /// Sets the handle in `direction`, which was derived from a packet with the DS codepoint
    /// `dscp`.
    pub const fn set_handle(&mut self, direction: Direction, handle: Handle, dscp: u8) {
        self.handles[direction.index()] = handle;
        self.dscp[direction.index()] = dscp;
    }

    /// The class of the link for its packets in `direction`.
    #[must_use]
    pub const fn class(&self, direction: Direction) -> ClassId {
        self.classes[direction.index()]
    }

    /// Sets the class of the link for its packets in `direction`.
    pub const fn set_class(&mut self, direction: Direction, class: ClassId) {
        self.classes[direction.index()] = class;
    }

    /// Counts `packets` of the flow that entered the gateway.
    pub const fn enter(&mut self, packets: u32) {
        self.inside = self.inside.wrapping_add(packets);
    }

    /// Counts a packet of the flow that departed or was released. It may precede the count of a packet that entered
    /// before, so the number wraps.
    pub const fn leave(&mut self) {
        self.inside = self.inside.wrapping_sub(1);
    }

    /// Number of packets of the flow in the gateway, held ACKs included. As long as there are any, the
    /// flow stays in the table.
    #[must_use]
    pub const fn inside(&self) -> u32 {
        self.inside
    }

    /// Packets that arrived in `direction`.
    #[must_use]
    pub fn packets(&self, direction: Direction) -> u64 {
        self.tally[direction.index()].packets()
    }

    /// Frame bytes of the packets that arrived in `direction`.
    #[must_use]
    pub fn bytes(&self, direction: Direction) -> Bytes {
        self.tally[direction.index()].bytes()
    }

    /// Segments in `direction` with data that was seen before. The value 65,535 means that number or more.
    #[must_use]
    pub const fn retransmissions(&self, direction: Direction) -> u16 {
        self.tracker.retransmissions(direction)
    }

    /// How much of the connection's state is known.
    #[must_use]
    pub const fn tracking(&self) -> Tracking {
        self.tracker.tracking()
    }

    /// The state of the TCP connection, as far as the headers show it.
    #[must_use]
    pub const fn connection(&self) -> &Tracker {
        &self.tracker
    }

    /// The smoothed round-trip times to the LAN host and to the WAN host.
    #[inline]
    #[must_use]
    pub fn rtt(&self) -> Rtt {
        self.halves.smoothed()
    }

    /// The shortest round-trip times to the LAN host and to the WAN host.
    #[inline]
    #[must_use]
    pub fn min_rtt(&self) -> Rtt {
        self.halves.shortest()
    }

    /// The connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.tracker.is_closed()
    }

    /// The connection is closed, or its SYN was never answered.
    fn is_spent(&self) -> bool {
        self.tracker.is_closed() || self.tracker.is_half_open()
    }

    /// Time since its last packet arrived, within about a millisecond.
    #[must_use]
    pub fn idle(&self, now: Time) -> Duration {
        span_of(ticks(now).wrapping_sub(self.seen))
    }
}

/// Packets and bytes, 48 bits each: enough for 280 TB.
#[derive(Clone, Copy, Debug, Default)]
struct FlowTally {
    packets: u32,
    bytes: u32,
    /// High 16 bits of the two numbers.
    packets_high: u16,
    bytes_high: u16,
}

impl FlowTally {
    fn add(&mut self, len: u32) {
        let (packets, carry) = self.packets.overflowing_add(1);
        self.packets = packets;
        self.packets_high = self.packets_high.wrapping_add(u16::from(carry));
        let (bytes, carry) = self.bytes.overflowing_add(len);
        self.bytes = bytes;
        self.bytes_high = self.bytes_high.wrapping_add(u16::from(carry));
    }

    fn packets(self) -> u64 {
        u64::from(self.packets_high) << 32 | u64::from(self.packets)
    }

    fn bytes(self) -> Bytes {
        Bytes(u64::from(self.bytes_high) << 32 | u64::from(self.bytes))
    }
}

/// A tick is `2^20` ns, about a millisecond; 32 bits of them last 52 days.
const TICK_BITS: u32 = 20;

/// Ticks from the start of the run to `now`, modulo `2^32`.
pub(crate) const fn ticks(now: Time) -> u32 {
    low_half(now.nanos() >> TICK_BITS)
}

/// Length of a number of ticks.
pub(crate) fn span_of(count: u32) -> Duration {
    Duration::from_nanos(u64::from(count) << TICK_BITS)
}

/// Microseconds from the start of the run to `now`, modulo `2^32`: 71 minutes.
pub(crate) const fn micros(now: Time) -> u32 {
    low_half(now.nanos() / 1_000)
}

#[expect(clippy::as_conversions, reason = "the clocks that use it wrap, and are compared as such")]
const fn low_half(number: u64) -> u32 {
    number as u32
}

/// Returns `true` if `a` precedes `b`, where numbers wrap (RFC 9293, section 3.4).
pub const fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) > u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Fragment;

    /// Catches: the same tag for two VLANs, or for fragments with and without known ports.
    #[test]
    fn a_tag_tells_vlans_and_unknown_ports_apart() {
        let parts = [Fragment::WHOLE, Fragment::later(9), Fragment::later(9).without_first(true)];
        let mut tags = Vec::new();
        for vlan in (0..4_096).chain([NO_VLAN]) {
            for fragment in parts {
                let packet = Packet { vlan, fragment, ..Packet::default() };
                assert_eq!(untag(tag(&packet)), (vlan, fragment.ports()));
                tags.push(tag(&packet));
            }
        }
        tags.sort_unstable();
        assert!(tags.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
