//! Packet descriptors: the header fields that mechanisms need, without the bytes of the frame.
//!
//! A *machine* is the logic between the ports, such as a gateway or a simulated link. Its driver
//! stores the bytes of frames in numbered buffers. Slot `n` of the [`PacketPool`] describes the
//! frame in buffer `n`. The simulator has no buffers. A queue links the slots of its packets into a
//! list, so queueing allocates no memory.

mod codepoint;
mod controlled;
mod dense;
mod facts;
mod fifo;
mod flow_fifo;
mod fragment;
mod hosts;
mod index;
mod key;
mod outer;
mod pool;
mod ring;
mod round_robin;
mod sack;
mod sizes;
mod travel;
mod tunnel;

pub use codepoint::{Codepoint, NotACodepoint};
pub use controlled::Controlled;
pub use dense::make_room;
pub use facts::Facts;
pub use fifo::Fifo;
pub use flow_fifo::{FlowFifo, Handover, ListIndex, Which};
pub use fragment::{Fragment, Ports};
pub use hosts::{FlowHosts, Host};
pub use index::{FlowIndex, Index, QueueIndex};
pub use key::{Direction, Endpoint, FlowKey, Protocol};
pub use outer::{Outer, Tunnel};
pub use pool::{FlowChange, FrameCopy, Note, PacketId, PacketPool};
pub use ring::{First, Links, Ring, Rings};
pub use round_robin::{DeficitRoundRobin, Round};
pub use sack::SackBlocks;
pub use sizes::{FRAME, LEAST_MSS, USUAL_MSS};
pub use travel::Travelling;
pub use tunnel::TunnelKind;

use std::num::NonZeroU16;

use crate::{Bytes, Time};

/// Descriptor of one packet. Mechanisms read the descriptor, and may rewrite some of its fields.
///
/// The order of the fields in memory is as below: the fields that every hop reads come first.
///
/// A super-packet is one descriptor of several frames, which the kernel has joined (GRO) or will
/// split (GSO). On the wire, each frame has its own headers:
///
/// ```
/// use tidegate_base::packet::{Packet, TcpSegment};
///
/// let tcp = TcpSegment { payload: 3 * 1_448, ..TcpSegment::default() };
/// let packet = Packet { len: 66 + 3 * 1_448, segments: 3, tcp: Some(tcp), ..Packet::default() };
/// assert_eq!(packet.wire_len(), 3 * 1_514);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Packet {
    /// Length of the frame in bytes, with the link-layer header and without the frame check
    /// sequence.
    pub len: u32,
    /// Charged length: `len` and the overhead of the real link.
    pub cost: u32,
    /// ECN codepoint of the IP header (RFC 3168, section 5).
    pub ecn: Ecn,
    /// DS codepoint of the IP header (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Network protocol of the frame.
    pub network: Network,
    /// Position in a fragmented datagram. A later fragment has no ports in `key` until the gateway
    /// has found its first fragment.
    pub fragment: Fragment,
    /// Index of the flow in the queue that the packet is in, or enters next.
    pub queue_index: QueueIndex,
    /// Time of arrival at the machine.
    pub arrived: Time,
    /// Time of arrival at the current queue. Only queues that measure delays set it.
    pub queued: Time,
    /// Index of the flow in the flow table, for this direction. [`FlowId::NONE`] before the
    /// look-up.
    pub flow: FlowId,
    /// The TCP header, if the packet has a complete one.
    pub tcp: Option<TcpSegment>,
    /// Addresses, ports and protocol of the innermost header that was read.
    pub key: FlowKey,
    /// Offset of the outermost network header in the frame; zero for [`Network::Opaque`].
    pub network_offset: u16,
    /// Offset of the innermost transport header in the frame; zero if there is none.
    pub transport_offset: u16,
    /// Outermost VLAN identifier; [`NO_VLAN`] if untagged.
    pub vlan: u16,
    /// Number of frames on the wire: more than one for a GSO super-packet.
    pub segments: u16,
    /// Payload bytes of each frame of a super-packet except the last. Zero for a single frame. A
    /// fragment stores a part of its [`identification`](Self::identification) here.
    pub segment: u16,
    /// Number of the trunk (the tunnel to another gateway) that carries the packet, counted from
    /// one.
    pub carried: Option<NonZeroU16>,
    /// UDP checksum on arrival, by which two datagrams of a flow can be distinguished. Zero for
    /// other packets. A fragment stores a part of its [`identification`](Self::identification)
    /// here.
    pub checksum: u16,
    /// The gateway has seen some of the TCP sequence numbers before. The segment was retransmitted,
    /// or was overtaken upstream of the gateway.
    pub seen_before: bool,
    /// Boolean properties of the packet.
    pub facts: Facts,
    /// A header field of this descriptor differs from the frame. The driver must write the field
    /// into the frame.
    pub rewritten: bool,
    /// Kind of the traffic.
    pub kind: Kind,
}

/// Kind of a packet's traffic.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// A host of the network sent the packet.
    #[default]
    User,
    /// A host or router sent the packet to keep the network alive, such as ARP, DHCP and routing.
    /// Until the gateway accepts the packet, `queue_index` identifies the station that sent the frame.
    Control,
    /// The machine created the packet from nothing, not as a copy of another packet. A driver with
    /// frames writes the frame when the packet departs.
    Made,
}

/// Value of `vlan` for an untagged frame.
pub const NO_VLAN: u16 = u16::MAX;

/// A flow in the gateway's flow table.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FlowId(pub u32);

impl FlowId {
    /// The flow has no entry in the flow table.
    pub const NONE: Self = Self(u32::MAX);

    /// The flow has no entry in the flow table, and its packet is moving from one queue to another.
    pub const MOVED: Self = Self(u32::MAX - 1);
}

impl Default for FlowId {
    #[inline]
    fn default() -> Self {
        Self::NONE
    }
}

/// Network protocol of a frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Network {
    /// Neither IPv4 nor IPv6, or malformed. Such frames are forwarded and counted, but not
    /// interpreted.
    #[default]
    Opaque,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The ECN field of the IP header.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

/// The TCP header of a packet, with the relevant options.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TcpSegment {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgement number. Valid if the flag [`TcpFlags::ACK`] is set.
    pub ack: u32,
    /// Bytes of payload. For a super-packet, the sum over its segments.
    pub payload: u32,
    /// Timestamp value and echo reply (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// Window field as it stands in the header, before scaling.
    pub window: u16,
    /// Value of the MSS option. Zero if the option is absent.
    pub mss: u16,
    /// Control bits.
    pub flags: TcpFlags,
    /// Value of the window scale option, which only a SYN has.
    pub window_scale: Option<u8>,
    /// The SACK-permitted option is present.
    pub sack_permitted: bool,
    /// SACK blocks are present.
    pub has_sack: bool,
    /// A digest covers the header (RFC 2385, RFC 5925), so no field may be rewritten.
    pub authenticated: bool,
    /// The presence of further TCP options.
    pub options: Options,
    /// The four header bits before [`flags`](Self::flags): [`AE`](Self::AE) and three reserved
    /// bits.
    pub high_flags: u8,
}

/// TCP options for which [`TcpSegment`] has no field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Options {
    /// No such option is present.
    #[default]
    None,
    /// An option that the gateway does not interpret is present, or the options cannot be parsed
    /// completely.
    Unknown,
    /// An MPTCP option is present (RFC 8684).
    Multipath,
}

/// The control bits of a TCP header (RFC 9293, section 3.1; RFC 3168, section 6.1).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field is significant.
    pub const ACK: u8 = 0x10;
    /// Urgent.
    pub const URG: u8 = 0x20;
    /// ECN echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;

    /// Returns `true` if any of `bits` is set.
    #[must_use]
    #[inline]
    pub const fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

impl TcpSegment {
    /// Accurate ECN, in [`high_flags`](Self::high_flags) (RFC 9768, section 3.1).
    pub const AE: u8 = 0x01;

    /// Returns `true` if the header carries only sequence numbers, window and timestamps. ACK is
    /// then the only flag, and timestamps are the only option.
    #[must_use]
    #[inline]
    pub const fn is_bare(&self) -> bool {
        let flags = self.flags.0 == TcpFlags::ACK && self.high_flags == 0;
        flags && !self.has_sack && !self.authenticated && matches!(self.options, Options::None)
    }

    /// Returns `true` if a SYN offers AccECN or MPTCP, or if a SYN-ACK accepts one of them.
    ///
    /// Source: RFC 9768, section 3.1 (a SYN offers with AE, CWR and ECE; four combinations accept);
    /// RFC 8684, section 3.1.
    #[must_use]
    #[inline]
    pub const fn offers_extension(&self) -> bool {
        let ae = self.high_flags & Self::AE != 0;
        let (ece, cwr) = (self.flags.any(TcpFlags::ECE), self.flags.any(TcpFlags::CWR));
        let accurate = if self.flags.any(TcpFlags::ACK) {
            matches!((ae, cwr, ece), (false, true, _) | (true, false, false) | (true, true, false))
        } else {
            ae && cwr && ece
        };
        accurate || matches!(self.options, Options::Multipath)
    }

    /// Length in sequence space: the payload, one for a SYN, and one for a FIN.
    #[must_use]
    #[inline]
    pub const fn sequence_len(&self) -> u32 {
        let syn = if self.flags.any(TcpFlags::SYN) { 1 } else { 0 };
        let fin = if self.flags.any(TcpFlags::FIN) { 1 } else { 0 };
        self.payload.wrapping_add(syn).wrapping_add(fin)
    }

    /// The sequence number after the segment's last byte.
    #[must_use]
    #[inline]
    pub const fn end_seq(&self) -> u32 {
        self.seq.wrapping_add(self.sequence_len())
    }
}

impl Packet {
    /// Index of the packet's flow in its aggregate: the reverse of [`QueueIndex::in_aggregate`].
    ///
    /// Valid from the classification of the packet until the packet enters the egress.
    #[must_use]
    #[inline]
    pub const fn flow_index(&self) -> FlowIndex {
        FlowIndex(self.queue_index.0)
    }

    /// Returns `true` if the packet belongs to an ACK-controlled flow, whose ACKs the gateway may hold.
    #[must_use]
    #[inline]
    pub const fn is_controlled(&self) -> bool {
        self.facts.has(Facts::CONTROLLED)
    }

    /// Returns `true` if the pool stores [`Outer`] headers (tunnels, second VLAN tag) for this
    /// packet.
    #[must_use]
    #[inline]
    pub const fn has_outer(&self) -> bool {
        self.facts.has(Facts::OUTER)
    }

    /// Length of the frame in bytes.
    #[must_use]
    #[inline]
    pub fn frame_len(&self) -> Bytes {
        Bytes(u64::from(self.len))
    }

    /// Bytes of headers that each frame of a TCP or UDP super-packet repeats. Zero for other
    /// protocols.
    #[must_use]
    #[inline]
    pub fn headers(&self) -> u32 {
        match self.tcp {
            Some(tcp) => self.len.saturating_sub(tcp.payload),
            None if self.transport_offset > 0 => u32::from(self.transport_offset) + UDP_HEADER,
            None => 0,
        }
    }

    /// Total bytes of the packet's frames on the wire. Each frame of a super-packet repeats the
    /// headers.
    #[inline]
    #[must_use]
    pub fn wire_len(&self) -> u32 {
        if self.segments <= 1 { self.len } else { self.super_wire_len() }
    }

    #[cold]
    #[inline]
    fn super_wire_len(&self) -> u32 {
        let repeated = u32::from(self.segments) - 1;
        self.headers().saturating_mul(repeated).saturating_add(self.len)
    }

    /// Length of the IP packet. For a super-packet, the length of its longest IP packet on the
    /// wire. Zero for frames without IP.
    #[must_use]
    #[inline]
    pub fn longest_ip_len(&self) -> Bytes {
        if self.network == Network::Opaque {
            return Bytes::ZERO;
        }
        let whole = self.len.saturating_sub(u32::from(self.network_offset));
        if self.segments <= 1 {
            return Bytes(u64::from(whole));
        }
        let headers = self.headers();
        let payload = self.len.saturating_sub(headers);
        // A `segment` of zero means payloads of equal length.
        let equal = payload.div_ceil(u32::from(self.segments));
        let each = u32::from(self.segment).max(equal).min(payload);
        Bytes(u64::from(headers.saturating_sub(u32::from(self.network_offset)) + each))
    }

    /// The charged length, [`cost`](Self::cost).
    #[must_use]
    #[inline]
    pub fn charged(&self) -> Bytes {
        Bytes(u64::from(self.cost))
    }

    /// Sets the DS codepoint if the packet has an IP header.
    #[inline]
    pub fn set_dscp(&mut self, dscp: u8) {
        if self.network != Network::Opaque && self.dscp != dscp {
            self.dscp = dscp & 0x3f;
            self.rewritten = true;
        }
    }

    /// Lowers the MSS option of a SYN to at most `mss` bytes.
    #[inline]
    pub fn ask_for_segments(&mut self, mss: u16) {
        if let Some(tcp) = &mut self.tcp
            && tcp.mss > mss
            && !tcp.authenticated
        {
            tcp.mss = mss;
            self.rewritten = true;
        }
    }

    /// Marks the packet "congestion experienced" if it is ECN-capable. Returns `true` if the packet
    /// then has the mark.
    #[inline]
    pub fn mark_congestion(&mut self) -> bool {
        match self.ecn {
            Ecn::NotEct => false,
            Ecn::Ce => true,
            Ecn::Ect0 | Ecn::Ect1 => {
                self.ecn = Ecn::Ce;
                self.rewritten = true;
                true
            }
        }
    }
}

/// Bytes of a UDP header (RFC 768).
const UDP_HEADER: u32 = 8;

#[expect(clippy::as_conversions, reason = "u32 fits in usize on every target we build for")]
/// The slot number `index` as an index into a list.
#[inline]
pub const fn slot(index: u32) -> usize {
    index as usize
}

/// The slot number for a list index: the reverse of [`slot`].
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "indices come from numbers of 32 bits"
)]
#[inline]
pub const fn number(index: usize) -> u32 {
    index as u32
}

// A descriptor fits into two cache lines.
const _: () = assert!(size_of::<Packet>() <= 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ecn_capable_packets_are_marked() {
        let mut packet = Packet { network: Network::Ipv4, ecn: Ecn::Ect0, ..Packet::default() };
        assert!(packet.mark_congestion() && packet.rewritten);
        let mut packet = Packet { network: Network::Ipv4, ..Packet::default() };
        assert!(!packet.mark_congestion() && !packet.rewritten);
    }

    /// Catches: AccECN assumed for a server that answers without ECN, with classic ECN, with ECN
    /// nonces, or with the flags of the SYN.
    #[test]
    fn accecn_is_offered_by_one_and_accepted_by_four_combinations_of_flags() {
        let offers = |flags: u8, high_flags| {
            let flags = TcpFlags(TcpFlags::SYN | flags);
            TcpSegment { flags, high_flags, ..TcpSegment::default() }.offers_extension()
        };
        let ecn = [0, TcpFlags::ECE, TcpFlags::CWR, TcpFlags::CWR | TcpFlags::ECE];
        assert_eq!(ecn.map(|ecn| offers(ecn, 0)), [false; 4]);
        assert_eq!(ecn.map(|ecn| offers(ecn, 1)), [false, false, false, true]);
        assert_eq!(ecn.map(|ecn| offers(TcpFlags::ACK | ecn, 0)), [false, false, true, true]);
        assert_eq!(ecn.map(|ecn| offers(TcpFlags::ACK | ecn, 1)), [true, false, true, false]);
    }

    /// Catches: the length of the whole super-packet, the total payload, or the length of the last
    /// frame, returned as the length of the longest.
    #[test]
    fn the_longest_ip_packet_is_one_segment_with_its_headers() {
        let tagged = Packet {
            len: 1_518,
            network: Network::Ipv4,
            network_offset: 18,
            segments: 1,
            ..Packet::default()
        };
        assert_eq!(tagged.longest_ip_len(), Bytes(1_500));
        // Headers of 14 (Ethernet), 20 (IPv4) and 20 bytes (TCP); payloads of 3 x 1,000 and 10 bytes.
        let tcp = Some(TcpSegment { payload: 3_010, ..TcpSegment::default() });
        let joined = Packet { len: 54 + 3_010, network_offset: 14, tcp, segments: 4, ..tagged };
        assert_eq!(Packet { segment: 1_000, ..joined }.longest_ip_len(), Bytes(1_040));
        assert_eq!(joined.longest_ip_len(), Bytes(40 + 753));
        let opaque = Packet { len: 9_000, segments: 1, ..Packet::default() };
        assert_eq!(opaque.longest_ip_len(), Bytes::ZERO);
    }

    #[test]
    fn sequence_numbers_wrap() {
        let flags = TcpFlags(TcpFlags::FIN | TcpFlags::ACK);
        let segment = TcpSegment { seq: u32::MAX, payload: 1, flags, ..TcpSegment::default() };
        assert_eq!(segment.end_seq(), 1);
    }
}
