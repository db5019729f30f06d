//! Encapsulates user packets in trunk datagrams at one gateway, and decapsulates them at the other
//! gateway.
//!
//! A datagram carries a whole packet; a super-packet is first split into its segments. A packet
//! that exceeds the path MTU is fragmented before encapsulation, so its destination reassembles it
//! (RFC 4459, section 3.3; RFC 2003, section 5). If the packet must not be fragmented, its sender
//! gets an ICMP error with the MTU. The datagrams themselves are never fragmented. The MSS option
//! of SYNs is clamped in both directions.
//!
//! A decapsulated packet goes to the station (the host on the LAN) that last used its destination
//! address. If no such station is known, the packet goes to the destination MAC address of the
//! datagram. If that address is the port's own, the packet goes back to the next hop, a router that
//! knows the path into the LAN.
//!
//! Source: RFC 6040, section 4.1 (ECN at encapsulation, normal mode) and 4.2 (at decapsulation);
//! RFC 2474 (DS codepoint).
//! Differs: the inner hop limit is not decremented, because a trunk looks like a wire to hosts.
//!
//! This file has methods of `TrunkPort`, whose fields are in `trunk.rs`.

use std::net::IpAddr;
use std::ops::Range;

use tidegate_core::packet::{Endpoint, Network, Protocol};
use tidegate_core::trunk::{TAG_LEN, USER_HEADER};
use tidegate_core::{Packet, PacketId, PacketPool, Reason};
use tidegate_wire::icmp;
use tidegate_wire::neighbour::Mac;
use tidegate_wire::trunk::{PathMtu, Refusal, admit};
use tidegate_wire::{VlanTag, clamp_segment_size, finish_checksum, split};

use super::stations::Station;
use super::{Peer, TrunkPort, payload};
use crate::frame;
use crate::memory::{Frame, HEADROOM, PacketMemory, index};
use crate::port::PortCounters;
use crate::vnet::VnetHeader;

/// Counters of encapsulated user packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Carried {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent that carry a fragment of a user packet.
    pub fragments: u64,
    /// User packets dropped because they exceeded the path MTU and must not be fragmented.
    pub too_big: u64,
    /// Number of those dropped packets for which the sender got an ICMP error.
    pub errors: u64,
}

/// A user packet to encapsulate, from its IP header on.
struct Going {
    bytes: Vec<u8>,
    described: Packet,
    /// The link-layer header of its frame.
    link: Vec<u8>,
    vnet: VnetHeader,
}

/// Where an arrived frame goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Arrival {
    /// To the machine.
    Machine,
    /// To no destination, because the port has consumed it.
    Here,
    /// To the network from which it arrived: the port sends it back.
    Back,
}

impl TrunkPort {
    /// Sends the user packet `packet` in datagrams of trunk `number`.
    pub(super) fn carry(&mut self, pool: &mut PacketPool, packet: PacketId, number: usize) {
        let (dscp, ecn) = (pool[&packet].dscp, pool[&packet].ecn);
        let outer = Packet { dscp, ecn, ..Packet::default() };
        self.restore(pool, &packet);
        match self.whole(pool, &packet, number) {
            Some(inner) => self.enclose(pool, packet, number, &outer, inner),
            None => self.carry_pieces(pool, packet, number, &outer),
        }
    }

    /// Restores the original DS codepoint of `packet` from its frame. The trunk's codepoint is for
    /// the datagram only.
    fn restore(&self, pool: &mut PacketPool, packet: &PacketId) {
        let came = dscp(&self.memory.bytes(packet, pool[packet].len), &pool[packet]);
        pool[packet].dscp = came.unwrap_or_default();
        frame::write_back(&self.memory, pool, packet);
    }

    /// The range of `packet` in its buffer, from its IP header on, if one datagram can carry the
    /// whole packet. Also completes the packet's checksum and clamps its MSS.
    fn whole(&self, pool: &PacketPool, packet: &PacketId, number: usize) -> Option<Range<usize>> {
        let Frame { offset, vnet } = self.memory.frame(packet);
        let (mut described, fits) = (pool[packet], self.fits(number));
        let network = usize::from(described.network_offset);
        let mut frame = self.memory.bytes_mut(packet, described.len);
        let len = network_len(frame.get(network..)?)?;
        let frame = frame.get_mut(..network + len)?;
        if vnet.is_fragmented() || vnet.segment_size().is_some() || len > index(fits) {
            return None;
        }
        if let Some((start, field)) = vnet.checksum_span() {
            finish_checksum(frame, start, field).then_some(())?;
        }
        described.transport_offset =
            described.transport_offset.saturating_sub(described.network_offset);
        clamp_segment_size(&mut frame[network..], &described, fits);
        let start = index(offset) + network;
        Some(start..start + len)
    }

    /// Sends the IP packet in the range `inner` of the buffer of `packet` as a datagram of trunk
    /// `number`. `outer` has the DS and ECN codepoints of the datagram.
    fn enclose(
        &mut self,
        pool: &mut PacketPool,
        packet: PacketId,
        number: usize,
        outer: &Packet,
        inner: Range<usize>,
    ) {
        match self.write_around(pool, &packet, number, outer, inner) {
            Ok(()) => self.port.send(pool, packet),
            Err(reason) => {
                self.drops.count(reason);
                pool.release(packet);
            }
        }
    }

    /// Writes the headers and the tag of the datagram around `inner`. Moves `inner` only if there
    /// is too little room before it.
    fn write_around(
        &mut self,
        pool: &mut PacketPool,
        packet: &PacketId,
        number: usize,
        outer: &Packet,
        inner: Range<usize>,
    ) -> Result<(), Reason> {
        let next_hop = self.next_hop(number).ok_or(Reason::NoRoute)?;
        let Peer { session, envelope, carried, path, .. } = &mut self.trunks[number];
        let (len, before) = (inner.len(), envelope.size() + index(USER_HEADER));
        let mut at = inner.start;
        if at < before {
            at = index(HEADROOM);
            let mut buffer = self.memory.buffer_mut(packet);
            (at + len <= buffer.len()).then_some(()).ok_or(Reason::TooLong)?;
            buffer.copy_within(inner, at);
        }
        pool[packet] = Packet { segments: 1, ..Packet::default() };
        let span = at - before..at + len + index(TAG_LEN);
        let mut frame = self.memory.hold(pool, packet, span).ok_or(Reason::TooLong)?;
        let sent =
            session.authenticate_user(&mut frame[envelope.size()..]).ok_or(Reason::NoRoute)?;
        let checksum = envelope.write(&mut frame, next_hop, outer, Some(sent));
        path.sent(sent, checksum.ok_or(Reason::TooLong)?);
        carried.sent += 1;
        Ok(())
    }

    /// Sends the fragments or segments of a `packet` that does not fit into one datagram. If the
    /// packet must not be fragmented, reports the MTU to its sender, or drops the packet.
    fn carry_pieces(
        &mut self,
        pool: &mut PacketPool,
        packet: PacketId,
        number: usize,
        outer: &Packet,
    ) {
        let pieces = self.going(pool, &packet).ok_or(Reason::Refused);
        let pieces = pieces.and_then(|going| self.pieces(pool, number, going));
        let mut slot = Some(packet);
        if let Err(reason) = &pieces {
            self.drops.count(*reason);
        }
        for piece in pieces.unwrap_or_default() {
            let Some(packet) = slot.take().or_else(|| pool.insert(Packet::default())) else {
                self.drops.count(Reason::NoBuffer);
                continue;
            };
            let inner = index(HEADROOM)..index(HEADROOM) + piece.len();
            if self.put(pool, &packet, &piece) {
                self.enclose(pool, packet, number, outer, inner);
            } else {
                self.drops.count(Reason::TooLong);
                pool.release(packet);
            }
        }
        if let Some(packet) = slot {
            pool.release(packet);
        }
    }

    /// The user packet in the frame of `packet`.
    fn going(&self, pool: &PacketPool, packet: &PacketId) -> Option<Going> {
        // An ICMP error goes to the sender in the outermost header.
        let mut described = Packet { key: pool.outermost(packet), ..pool[packet] };
        let frame = self.memory.bytes(packet, described.len);
        let (link, rest) = frame.split_at_checked(usize::from(described.network_offset))?;
        let bytes = rest.get(..network_len(rest)?)?.to_vec();
        let vnet = self.memory.frame(packet).vnet;
        let offset = described.network_offset;
        described.transport_offset = described.transport_offset.saturating_sub(offset);
        Some(Going { bytes, described, link: link.to_vec(), vnet })
    }

    /// The IP packets to send in one datagram each, or the reason why no packet can be sent.
    fn pieces(
        &mut self,
        pool: &mut PacketPool,
        number: usize,
        going: Going,
    ) -> Result<Vec<Vec<u8>>, Reason> {
        let fits = self.fits(number);
        let mut all = finished(&going).ok_or(Reason::Refused)?;
        for piece in &mut all {
            clamp_segment_size(piece, &going.described, fits);
        }
        let longest = usize::try_from(fits).unwrap_or(usize::MAX);
        if all.iter().all(|piece| piece.len() <= longest) {
            return Ok(all);
        }
        let carried = &mut self.trunks[number].carried;
        if all.iter().any(|it| it.len() > longest && split::may_not_be_fragmented(it)) {
            carried.too_big += 1;
            if let Some(piece) = all.first() {
                self.report_mtu(pool, number, piece, &going);
            }
            return Err(Reason::TooLong);
        }
        let mut pieces = Vec::new();
        for piece in all {
            let fragments = split::fragments(&piece, longest).ok_or(Reason::TooLong)?;
            carried.fragments += u64::try_from(fragments.len()).unwrap_or(0);
            pieces.extend(fragments);
        }
        Ok(pieces)
    }

    /// Length of the longest IP packet that fits into a datagram of the trunk.
    pub(super) fn fits(&self, number: usize) -> u32 {
        let peer = &self.trunks[number];
        peer.path.get(self.now).saturating_sub(peer.overhead)
    }

    /// Sends an ICMP error with the MTU to the sender of `packet`. The error arrives from this
    /// port, as if a router had sent it.
    fn report_mtu(&mut self, pool: &mut PacketPool, number: usize, packet: &[u8], going: &Going) {
        if self.now.since(self.errors.1) >= super::HELLO {
            self.errors = (0, self.now);
        }
        let local = self.trunks[number].session.ends().local;
        let answer = icmp::too_big(packet, &going.described, self.fits(number), local);
        let Some(answer) = answer.filter(|_| self.errors.0 < MOST_ERRORS) else { return };
        let Some([from, to]) = macs(&going.link) else { return };
        let behind = going.link.get(12..).unwrap_or_default();
        let frame = [&to[..], &from, behind, &answer].concat();
        let Some(packet) = pool.insert(Packet { segments: 1, ..Packet::default() }) else {
            return self.drops.count(Reason::NoBuffer);
        };
        if self.put(pool, &packet, &frame) {
            self.errors.0 += 1;
            self.trunks[number].carried.errors += 1;
            self.answers.push_back(packet);
        } else {
            pool.release(packet);
        }
    }

    /// The next ICMP error that this port returns as an arrival.
    pub(super) fn answer(&mut self, pool: &mut PacketPool) -> Option<PacketId> {
        let packet = self.answers.pop_front()?;
        self.arrive(pool, &packet);
        Some(packet)
    }

    /// Fills in the descriptor after a new frame was written into the buffer of `packet`.
    fn arrive(&self, pool: &mut PacketPool, packet: &PacketId) {
        let (len, mut counters) = (pool[packet].len, PortCounters::default());
        frame::arrive(&self.memory, pool, packet, len, self.now, &mut counters);
    }

    /// Decapsulates `packet`, whose datagram was authenticated: the user packet replaces the frame
    /// of the datagram. Returns where the packet goes.
    pub(super) fn decapsulate(
        &self,
        pool: &mut PacketPool,
        packet: &PacketId,
        number: usize,
    ) -> Result<Arrival, Refusal> {
        let (outer, offset) = (pool[packet], index(self.memory.frame(packet).offset));
        let mut frame = self.memory.bytes_mut(packet, outer.len);
        let inner = inside(&frame, usize::from(outer.transport_offset)).ok_or(Refusal::Inner)?;
        let user = frame.get_mut(inner.clone()).ok_or(Refusal::Inner)?;
        let to = Endpoint::at(admit(user, outer.ecn)?, 0);
        let ethertype: [u8; 2] = if user[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        if self.is_ours(to.number()) {
            return Err(Refusal::Inner);
        }
        let (station, source, arrival) =
            self.onward(&frame, number, to.address()).ok_or(Refusal::Inner)?;
        let tag = station.tag.map(|it| [it.tpid, it.tci].map(u16::to_be_bytes));
        let tag = tag.as_ref().map_or(&[][..], |it| it.as_flattened());
        let start = inner.start - usize::from(ETHERNET) - tag.len();
        let parts = [&station.mac[..], &source, tag, &ethertype];
        for (place, byte) in frame[start..].iter_mut().zip(parts.into_iter().flatten()) {
            *place = *byte;
        }
        drop(frame);
        let span = offset + start..offset + inner.end;
        drop(self.memory.hold(pool, packet, span).ok_or(Refusal::Inner)?);
        self.arrive(pool, packet);
        self.clamp_mss(pool, packet, number);
        if pool[packet].network == Network::Opaque { Err(Refusal::Inner) } else { Ok(arrival) }
    }

    /// The station to which a user packet for `to` is sent, the source MAC address, and the port or
    /// machine to which the packet goes. `frame` is the datagram that carried the packet.
    fn onward(&self, frame: &[u8], number: usize, to: IpAddr) -> Option<(Station, Mac, Arrival)> {
        let [meant_for, from] = macs(frame)?;
        Some(match self.stations.find(to) {
            Some(station) => (station, from, Arrival::Machine),
            None if meant_for != self.mac => {
                (Station { mac: meant_for, tag: VlanTag::of(frame) }, from, Arrival::Machine)
            }
            None => {
                let mac = self.next_hop(number).unwrap_or(from);
                (Station { mac, tag: self.trunks[number].tag }, self.mac, Arrival::Back)
            }
        })
    }

    /// Clamps the MSS option of a decapsulated SYN.
    fn clamp_mss(&self, pool: &mut PacketPool, packet: &PacketId, number: usize) {
        let mut described = pool[packet];
        let network = usize::from(described.network_offset);
        described.transport_offset =
            described.transport_offset.saturating_sub(described.network_offset);
        let mut frame = self.memory.bytes_mut(packet, described.len);
        let ip = frame.get_mut(network..).unwrap_or_default();
        if clamp_segment_size(ip, &described, self.fits(number)) {
            drop(frame);
            self.arrive(pool, packet);
        }
    }

    /// If `packet` is a "packet too big" error to this port, lowers the path MTU of the trunk.
    /// Returns `true` if the error concerns a trunk's datagram.
    pub(super) fn lower_path_mtu(&mut self, pool: &PacketPool, packet: &PacketId) -> bool {
        let described = &pool[packet];
        if !matches!(described.key.protocol, Protocol::ICMP | Protocol::ICMPV6) {
            return false;
        }
        let frame = self.memory.bytes(packet, described.len);
        let ip = frame.get(usize::from(described.network_offset)..).unwrap_or_default();
        let Some(error) = ip.get(..network_len(ip).unwrap_or(0)).and_then(icmp::read_too_big)
        else {
            return false;
        };
        let of = |peer: &Peer| {
            let ends = peer.session.ends();
            error.ends == (ends.local, ends.peer) && error.ports == (ends.port, ends.port)
        };
        let Some(peer) = self.trunks.iter_mut().find(|peer| of(peer)) else { return false };
        let quoted = ip.get(error.payload + 1..).and_then(|it| it.first_chunk::<6>());
        let number = match (error.identification, quoted) {
            (Some(identification), _) => u64::from(identification),
            (None, Some([a, b, c, d, e, f])) => u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]),
            (None, None) => return false,
        };
        peer.path.report(self.now, &error, number);
        true
    }

    /// Learns the address of the station that sent `packet`, if any trunk carries user packets.
    pub(super) fn learn(&mut self, pool: &PacketPool, packet: &PacketId) {
        if self.carries {
            let described = Packet { key: pool.outermost(packet), ..pool[packet] };
            self.stations.learn(&self.memory.bytes(packet, described.len), &described);
        }
    }
}

/// The IP packets of `going`, a packet or super-packet, with finished checksums.
fn finished(going: &Going) -> Option<Vec<Vec<u8>>> {
    if going.vnet.is_fragmented() {
        return None;
    }
    let (span, link) = (going.vnet.checksum_span(), going.link.len());
    if let Some(size) = going.vnet.segment_size() {
        let transport = span.and_then(|(start, _)| start.checked_sub(link));
        return split::segments(&going.bytes, size, transport);
    }
    let mut bytes = going.bytes.clone();
    if let Some((start, field)) = span {
        let (start, field) = (start.checked_sub(link)?, field.checked_sub(link)?);
        finish_checksum(&mut bytes, start, field).then_some(())?;
    }
    Some(vec![bytes])
}

/// The DS codepoint in a frame.
fn dscp(frame: &[u8], described: &Packet) -> Option<u8> {
    let ip = frame.get(usize::from(described.network_offset)..)?;
    let word = u16::from_be_bytes(*ip.first_chunk()?);
    let class = if described.network == Network::Ipv4 { word } else { word >> 4 };
    u8::try_from((class & 0xff) >> 2).ok()
}

/// Length of the IP packet at the start of `bytes`, without padding after the packet.
fn network_len(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
    match bytes.first()? >> 4 {
        4 => word(2),
        6 => Some(word(4)? + 40),
        _ => None,
    }
}

/// The range in `frame` of the user packet in the datagram whose UDP header is at `at`.
fn inside(frame: &[u8], at: usize) -> Option<Range<usize>> {
    let len = payload(frame, at)?.len().checked_sub(index(USER_HEADER + TAG_LEN))?;
    let start = at + UDP + index(USER_HEADER);
    Some(start..start + len)
}

/// Destination and source MAC address of a frame.
fn macs(frame: &[u8]) -> Option<[Mac; 2]> {
    Some([*frame.first_chunk()?, *frame.get(6..)?.first_chunk()?])
}

/// Maximum number of ICMP errors per second, for all trunks of a port.
const MOST_ERRORS: u32 = 100;

/// Bytes of an Ethernet header, and of a UDP header.
const ETHERNET: u16 = 14;
const UDP: usize = 8;

/// The path MTU of a trunk over an interface with this MTU. A datagram must also fit into a buffer.
pub(super) fn path(mtu: u32, memory: &PacketMemory) -> PathMtu {
    let room = memory.size().saturating_sub(index(HEADROOM + 18));
    PathMtu::new(mtu.min(u32::try_from(room).unwrap_or(u32::MAX)))
}
