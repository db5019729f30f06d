//! Packets as the mechanisms see them: a descriptor, never the bytes.
//!
//! The driver keeps the bytes and numbers its buffers; slot `n` of the [`PacketPool`] describes
//! buffer `n`. On the live gateway that is chunk `n` of its packet memory, in the simulator nothing
//! at all. A queue is a list threaded through the pool, so holding a packet allocates nothing.

mod codepoint;
mod dense;
mod facts;
mod fifo;
mod flow_fifo;
mod fragment;
mod governed;
mod hosts;
mod key;
mod outer;
mod pool;
mod ring;
mod sack;
mod travel;
mod tunnel;
mod turns;

pub use codepoint::{Codepoint, NotACodepoint};
pub(crate) use dense::make_room;
pub use facts::Facts;
pub use fifo::Fifo;
pub use flow_fifo::{FlowFifo, Handover, Which};
pub use fragment::{Fragment, Ports};
pub use governed::Governed;
pub use hosts::{FlowHosts, Host};
pub use key::{Direction, Endpoint, FlowKey, Protocol};
pub use outer::{Outer, Tunnel};
pub use pool::{FrameCopy, Note, PacketId, PacketPool};
pub(crate) use ring::{First, Links, Ring, Rings};
pub use sack::SackBlocks;
pub(crate) use travel::Travelling;
pub use tunnel::TunnelKind;
pub(crate) use turns::Turns;

use std::num::NonZeroU16;

use crate::{Bytes, Time};

/// What a mechanism may read, and in part rewrite, of one packet.
///
/// Its fields stand in memory as they do here: what every hop of a network looks at comes first.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Packet {
    /// Length of the frame, link-layer header included, frame check sequence not.
    pub len: u32,
    /// What it is charged where rates are kept: `len` and the overhead of the real link.
    pub cost: u32,
    /// Its ECN codepoint (RFC 3168, section 5).
    pub ecn: Ecn,
    /// Its DS codepoint (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// What the frame carries.
    pub network: Network,
    /// Its place in a larger datagram. The key of a later fragment has no ports before the gateway has looked up
    /// the first one.
    pub fragment: Fragment,
    /// What tells its flow from others in the queue it is in.
    pub member: Member,
    /// When it reached the machine.
    pub arrived: Time,
    /// When it entered the queue it waits in, if that queue asks how long packets wait.
    pub queued: Time,
    /// The flow table's number for its key, in the order of `key`; [`FlowId::NONE`] before the look-up.
    pub flow: FlowId,
    /// The TCP header, where there is a whole one.
    pub tcp: Option<TcpSegment>,
    /// Addresses, ports and protocol of the innermost header that was read.
    pub key: FlowKey,
    /// Where the outermost network header begins in the frame; zero for [`Network::Opaque`].
    pub network_offset: u16,
    /// Where the innermost transport header begins in the frame; zero if there is none to be seen.
    pub transport_offset: u16,
    /// Outermost VLAN identifier; [`NO_VLAN`] if untagged.
    pub vlan: u16,
    /// Frames on the wire this stands for: more than one for a GSO super-packet.
    pub segments: u16,
    /// Payload of each of these frames but the last; zero if it is one. Of a fragment, see
    /// [`identification`](Self::identification).
    pub segment: u16,
    /// The trunk in whose datagrams it leaves, counted from one; none if it leaves as it is.
    pub carried: Option<NonZeroU16>,
    /// The checksum of a UDP datagram, as it came: all that tells it from others of its flow. Zero of
    /// other packets. Of a fragment, see [`identification`](Self::identification).
    pub checksum: u16,
    /// Some of its TCP sequence numbers were seen before: sent again, or overtaken on the way here.
    pub seen_before: bool,
    /// Facts about the packet.
    pub facts: Facts,
    /// Some header field here is no longer what the frame says: the driver writes it back.
    pub rewritten: bool,
    /// Kind of its traffic.
    pub kind: Kind,
}

/// Kind of a packet's traffic.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// A host of the network sent the packet.
    #[default]
    User,
    /// A host or router sent the packet to keep the network alive: ARP, DHCP, routing and the like. Until the
    /// machine takes the packet in, `member` identifies its station.
    Control,
    /// The machine made the packet, and not from another packet. A driver with frames writes the frame when
    /// the packet departs.
    Made,
}

/// `vlan` of an untagged frame.
pub const NO_VLAN: u16 = u16::MAX;

/// A flow in the gateway's flow table.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FlowId(pub u32);

impl FlowId {
    /// In no flow table.
    pub const NONE: Self = Self(u32::MAX);

    /// In no flow table, and on its way from one queue to another.
    pub(crate) const MOVED: Self = Self(u32::MAX - 1);
}

impl Default for FlowId {
    fn default() -> Self {
        Self::NONE
    }
}

/// A small number that tells flows apart within one queue or one aggregate, dense from zero.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Member(pub u32);

impl Member {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        slot(self.0)
    }
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Network {
    /// Neither IPv4 nor IPv6, or malformed: forwarded and counted, never looked into.
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

/// The TCP header of a packet, options that matter included.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TcpSegment {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Acknowledgement number; meaningful with [`TcpFlags::ACK`].
    pub ack: u32,
    /// Bytes of payload (for a super-packet, all of it).
    pub payload: u32,
    /// Timestamp value and echo reply (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// Window field as it stands, not scaled.
    pub window: u16,
    /// Maximum segment size offered; zero if the option is absent.
    pub mss: u16,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window scale offered, on a SYN.
    pub window_scale: Option<u8>,
    /// The SACK-permitted option is there.
    pub sack_permitted: bool,
    /// SACK blocks are there.
    pub has_sack: bool,
    /// A digest covers the header (RFC 2385, RFC 5925): nothing in it may be rewritten.
    pub authenticated: bool,
    /// TCP options without a field of their own.
    pub options: Options,
    /// The four bits before [`flags`](Self::flags): [`AE`](Self::AE), and three reserved bits.
    pub high_flags: u8,
}

/// TCP options that no field of [`TcpSegment`] describes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Options {
    /// No such option is present.
    #[default]
    None,
    /// An option that the gateway does not interpret is present, or the options cannot be read to their end.
    Unknown,
    /// An option of MPTCP is present (RFC 8684).
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

    /// Whether any of `bits` is set.
    #[must_use]
    pub const fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

impl TcpSegment {
    /// Accurate ECN, in [`high_flags`](Self::high_flags) (RFC 9768, section 3.1).
    pub const AE: u8 = 0x01;

    /// Returns `true` if the header states nothing beyond numbers, window and timestamps. ACK is the only
    /// flag, and timestamps are the only option.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        let flags = self.flags.0 == TcpFlags::ACK && self.high_flags == 0;
        flags && !self.has_sack && !self.authenticated && matches!(self.options, Options::None)
    }

    /// Returns `true` if a SYN offers AccECN or MPTCP, or a SYN with ACK accepts one of them.
    ///
    /// Source: RFC 9768, section 3.1 (AE, CWR and ECE set in the SYN; four combinations accept); RFC 8684,
    /// section 3.1.
    #[must_use]
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

    /// Sequence space it takes: payload, and one each for SYN and FIN.
    #[must_use]
    pub const fn sequence_len(&self) -> u32 {
        let syn = if self.flags.any(TcpFlags::SYN) { 1 } else { 0 };
        let fin = if self.flags.any(TcpFlags::FIN) { 1 } else { 0 };
        self.payload.wrapping_add(syn).wrapping_add(fin)
    }

    /// The sequence number after its last.
    #[must_use]
    pub const fn end_seq(&self) -> u32 {
        self.seq.wrapping_add(self.sequence_len())
    }
}

impl Packet {
    /// Returns `true` if its aggregate controls its sender by the ACKs that go back.
    #[must_use]
    pub const fn is_controlled(&self) -> bool {
        self.facts.has(Facts::CONTROLLED)
    }

    /// Returns `true` if the pool has the [`Outer`] headers of the packet.
    #[must_use]
    pub const fn has_outer(&self) -> bool {
        self.facts.has(Facts::OUTER)
    }

    /// Length of the frame.
    #[must_use]
    pub fn frame_len(&self) -> Bytes {
        Bytes(u64::from(self.len))
    }

    /// Bytes of headers that each frame of a super-packet repeats, TCP or UDP; none of what is no such thing.
    #[must_use]
    pub fn headers(&self) -> u32 {
        match self.tcp {
            Some(tcp) => self.len.saturating_sub(tcp.payload),
            None if self.transport_offset > 0 => u32::from(self.transport_offset) + UDP_HEADER,
            None => 0,
        }
    }

    /// Bytes of its frames on the wire. Each frame of a super-packet repeats the headers.
    #[must_use]
    pub fn wire_len(&self) -> u32 {
        if self.segments <= 1 {
            return self.len;
        }
        let repeated = u32::from(self.segments) - 1;
        self.headers().saturating_mul(repeated).saturating_add(self.len)
    }

    /// Length of the IP packet; of a super-packet, the longest IP packet that it becomes on the wire. Zero for
    /// frames that are not IP.
    #[must_use]
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
        // A source without `segment` cuts the payload into equal parts.
        let equal = payload.div_ceil(u32::from(self.segments));
        let each = u32::from(self.segment).max(equal).min(payload);
        Bytes(u64::from(headers.saturating_sub(u32::from(self.network_offset)) + each))
    }

    /// What it is charged where rates are kept.
    #[must_use]
    pub fn charged(&self) -> Bytes {
        Bytes(u64::from(self.cost))
    }

    /// Gives it the DS codepoint `dscp`, if it has a field for that.
    pub fn set_dscp(&mut self, dscp: u8) {
        if self.network != Network::Opaque && self.dscp != dscp {
            self.dscp = dscp & 0x3f;
            self.rewritten = true;
        }
    }

    /// Has a SYN that asks for larger segments ask for segments of `mss` bytes.
    pub fn ask_for_segments(&mut self, mss: u16) {
        if let Some(tcp) = &mut self.tcp
            && tcp.mss > mss
            && !tcp.authenticated
        {
            tcp.mss = mss;
            self.rewritten = true;
        }
    }

    /// Marks it "congestion experienced" if it is ECN-capable; says whether it now is.
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

/// Source: RFC 768.
const UDP_HEADER: u32 = 8;

#[expect(clippy::as_conversions, reason = "u32 fits in usize on every target we build for")]
pub(crate) const fn slot(index: u32) -> usize {
    index as usize
}

/// The reverse of [`slot`].
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "indices come from numbers of 32 bits"
)]
pub(crate) const fn number(index: usize) -> u32 {
    index as u32
}

// Two cache lines hold a descriptor.
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

    /// Kills: AccECN assumed of a server without ECN, with classic ECN, with nonces, or with an echo of the
    /// SYN.
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

    /// Kills: the length of the frame; the sum of all segments; a last segment taken for the longest.
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
        // Ethernet 14, IPv4 20, TCP 20; three segments of 1,000 bytes and one of 10.
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
