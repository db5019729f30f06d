//! Builds frames for tests. A test sets the fields that matter to it, and lengths and checksums are
//! computed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_core::packet::{Ecn, Endpoint, FlowKey, Protocol, TcpFlags};

use crate::{VlanTag, checksum, ethertype};

/// The fields of a frame. [`bytes`](Self::bytes) encodes them.
///
/// ```
/// # use tidegate_wire::build::{Frame, Link};
/// let mut frame = Frame::udp("10.0.0.1:5000".parse().unwrap(), "10.9.0.1:53".parse().unwrap());
/// frame.link.push(Link::vlan(7));
/// frame.payload = vec![0; 100];
/// assert_eq!(frame.bytes().len(), 14 + 4 + 20 + 8 + 100);
/// ```
#[derive(Clone, Debug)]
pub struct Frame {
    /// Destination MAC address.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
    /// The headers between Ethernet and the network header, outermost first.
    pub link: Vec<Link>,
    /// The network header and everything inside it except the payload.
    pub network: Network,
    /// The bytes after the last header.
    pub payload: Vec<u8>,
}

/// A header between Ethernet and the network header.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// A VLAN tag.
    Vlan(VlanTag),
    /// A PPPoE session header with this session identifier, and a PPP header.
    Pppoe(u16),
    /// An MPLS label.
    Mpls(u32),
}

/// The network header and the headers inside it.
#[derive(Clone, Debug)]
pub enum Network {
    /// IPv4 or IPv6, according to the addresses.
    Ip(Ip),
    /// Any other protocol, by its ethertype.
    Other(u16),
}

/// An IP header.
#[derive(Clone, Debug)]
pub struct Ip {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same IP version as `src`.
    pub dst: IpAddr,
    /// DS codepoint.
    pub dscp: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Identification of the IPv4 packet or of the IPv6 fragment.
    pub identification: u16,
    /// The DF ("don't fragment") bit of IPv4.
    pub whole: bool,
    /// For a fragment: the offset in units of 8 bytes, and the "more fragments" flag.
    pub fragment: Option<(u16, bool)>,
    /// IPv4: options, a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// IPv6 extension headers: the protocol number and the bytes of each. Encoding overwrites the
    /// first byte (next header) of each.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// The transport header. A later fragment contains only its protocol number, in the IP header.
    pub transport: Transport,
}

/// A transport header.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// UDP, with source and destination port.
    Udp(u16, u16),
    /// ICMP or ICMPv6: type, code, and the four bytes after the checksum.
    Icmp(u8, u8, [u8; 4]),
    /// Another protocol, by its number. Nothing is written before the payload.
    Other(u8),
}

/// A TCP header.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// The four header bits before `flags`: three reserved bits and AE.
    pub high_flags: u8,
    /// Window field.
    pub window: u16,
    /// Options, a multiple of 4 bytes and at most 40.
    pub options: Vec<u8>,
}

impl Link {
    /// An 802.1Q tag with this VLAN identifier and priority zero.
    #[must_use]
    pub const fn vlan(id: u16) -> Self {
        Self::Vlan(VlanTag::of_vlan(id))
    }

    const fn ethertype(self) -> u16 {
        match self {
            Self::Vlan(tag) => tag.tpid,
            Self::Pppoe(_) => ethertype::PPPOE_SESSION,
            Self::Mpls(_) => ethertype::MPLS,
        }
    }
}

impl Frame {
    /// A TCP segment with ACK set and a window of 65,535.
    #[must_use]
    pub fn tcp(src: SocketAddr, dst: SocketAddr) -> Self {
        let (flags, window) = (TcpFlags(TcpFlags::ACK), u16::MAX);
        let tcp = Tcp { src: src.port(), dst: dst.port(), flags, window, ..Tcp::default() };
        Self::ip(src.ip(), dst.ip(), Transport::Tcp(tcp))
    }

    /// A UDP datagram.
    #[must_use]
    pub fn udp(src: SocketAddr, dst: SocketAddr) -> Self {
        Self::ip(src.ip(), dst.ip(), Transport::Udp(src.port(), dst.port()))
    }

    /// An ICMP echo request (ping) with this identifier.
    #[must_use]
    pub fn echo(src: IpAddr, dst: IpAddr, identifier: u16) -> Self {
        let [high, low] = identifier.to_be_bytes();
        let kind = if src.is_ipv4() { 8 } else { 128 };
        Self::ip(src, dst, Transport::Icmp(kind, 0, [high, low, 0, 1]))
    }

    /// An IP packet.
    #[must_use]
    pub fn ip(src: IpAddr, dst: IpAddr, transport: Transport) -> Self {
        let ip = Ip {
            src,
            dst,
            dscp: 0,
            ecn: Ecn::NotEct,
            identification: 0,
            whole: false,
            fragment: None,
            options: Vec::new(),
            extensions: Vec::new(),
            transport,
        };
        Self { network: Network::Ip(ip), ..Self::opaque(0, Vec::new()) }
    }

    /// A frame of this ethertype.
    #[must_use]
    pub const fn opaque(ethertype: u16, payload: Vec<u8>) -> Self {
        Self {
            destination: [2, 0, 0, 0, 0, 2],
            source: [2, 0, 0, 0, 0, 1],
            link: Vec::new(),
            network: Network::Other(ethertype),
            payload,
        }
    }

    /// The IP header, for changes. `None` if the frame has no IP header.
    pub const fn ip_mut(&mut self) -> Option<&mut Ip> {
        match &mut self.network {
            Network::Ip(ip) => Some(ip),
            Network::Other(_) => None,
        }
    }

    /// The TCP header, for changes. `None` if the frame has no TCP header.
    pub const fn tcp_mut(&mut self) -> Option<&mut Tcp> {
        match self.ip_mut() {
            Some(Ip { transport: Transport::Tcp(tcp), .. }) => Some(tcp),
            _ => None,
        }
    }

    /// The frame, without padding and frame check sequence.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_before(0)
    }

    /// The frame without its last `zeros` bytes, which are zeros of the payload. Lengths and
    /// checksums include them.
    #[must_use]
    pub fn bytes_before(&self, zeros: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_before(zeros, &mut bytes);
        bytes
    }

    /// Appends the bytes of [`bytes_before`](Self::bytes_before) to `out`.
    pub fn append_before(&self, zeros: usize, out: &mut Vec<u8>) {
        out.extend([self.destination, self.source].as_flattened());
        put(out, [self.ethertype(&self.link)]);
        self.append_behind(&self.link, zeros, out);
    }

    /// Appends the headers `link`, the network header and the payload.
    fn append_behind(&self, link: &[Link], zeros: usize, out: &mut Vec<u8>) {
        let Some((header, inner)) = link.split_first() else {
            return match &self.network {
                Network::Ip(ip) => ip.append(&self.payload, zeros, out),
                Network::Other(_) => out.extend(&self.payload),
            };
        };
        let (start, carried) = (out.len(), self.ethertype(inner));
        match header {
            Link::Vlan(tag) => put(out, [tag.tci, carried]),
            Link::Pppoe(session) => {
                let protocol = if carried == ethertype::IPV4 { 0x0021 } else { 0x0057 };
                put(out, [0x1100, *session, 0, protocol]);
            }
            Link::Mpls(label) => {
                let bottom = !inner.iter().any(|link| matches!(link, Link::Mpls(_)));
                out.extend((label << 12 | u32::from(bottom) << 8 | 64).to_be_bytes());
            }
        }
        self.append_behind(inner, zeros, out);
        if matches!(header, Link::Pppoe(_)) {
            let len = word(out.len() - start - PPPOE + zeros);
            set(out, start + 4, len);
        }
    }

    /// The ethertype that announces the first header of `link`, or the network header if `link` is
    /// empty.
    fn ethertype(&self, link: &[Link]) -> u16 {
        match (link.first(), &self.network) {
            (Some(link), _) => link.ethertype(),
            (None, Network::Ip(ip)) if ip.src.is_ipv4() => ethertype::IPV4,
            (None, Network::Ip(_)) => ethertype::IPV6,
            (None, Network::Other(ethertype)) => *ethertype,
        }
    }
}

impl Ip {
    fn append(&self, payload: &[u8], zeros: usize, out: &mut Vec<u8>) {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.append_v4(src, dst, payload, zeros, out),
            _ => self.append_v6(payload, zeros, out),
        }
    }

    fn append_v4(
        &self,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        payload: &[u8],
        zeros: usize,
        out: &mut Vec<u8>,
    ) {
        let (start, header) = (out.len(), 20 + self.options.len());
        let (offset, more) = self.fragment.unwrap_or_default();
        let version = (word(0x40 | (header / 4)) << 8) | self.traffic_class();
        let offset = offset | u16::from(self.whole) << 14;
        let protocol = 64 << 8 | u16::from(self.transport.protocol(true));
        put(out, [version, 0, self.identification, offset | u16::from(more) << 13, protocol, 0]);
        out.extend([src.octets(), dst.octets()].as_flattened());
        out.extend(&self.options);
        self.append_carried(payload, zeros, out);
        let len = word(out.len() - start + zeros);
        set(out, start + 2, len);
        let checksum = !checksum::sum(0, &out[start..start + header]);
        set(out, start + 10, checksum);
    }

    fn append_v6(&self, payload: &[u8], zeros: usize, out: &mut Vec<u8>) {
        let start = out.len();
        put(out, [0x6000 | self.traffic_class() << 4, 0, 0, 64]);
        out.extend(
            [self.src, self.dst].map(|it| endpoint(it).number().to_be_bytes()).as_flattened(),
        );
        let carried = out.len();
        // Offset of the "next header" field that the following header fills in.
        let mut next = start + 6;
        for (kind, bytes) in &self.extensions {
            (out[next], next) = (*kind, out.len());
            out.extend(bytes);
        }
        if let Some((offset, more)) = self.fragment {
            (out[next], next) = (FRAGMENT, out.len());
            put(out, [0, offset << 3 | u16::from(more), 0, self.identification]);
        }
        out[next] = self.transport.protocol(false);
        self.append_carried(payload, zeros, out);
        let len = word(out.len() - carried + zeros);
        set(out, start + 4, len);
    }

    /// Appends the transport header and `payload`. A later fragment gets only `payload`.
    fn append_carried(&self, payload: &[u8], zeros: usize, out: &mut Vec<u8>) {
        if self.fragment.is_none_or(|(offset, _)| offset == 0) {
            self.append_segment(payload, zeros, out);
        } else {
            out.extend(payload);
        }
    }

    /// Appends the transport header and `payload`, and fills in the checksum.
    fn append_segment(&self, payload: &[u8], zeros: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let field = self.transport.append(payload.len() + zeros, out);
        out.extend(payload);
        let Some(field) = field else { return };
        let protocol = Protocol(self.transport.protocol(self.src.is_ipv4()));
        let key = FlowKey { src: endpoint(self.src), dst: endpoint(self.dst), protocol };
        let before = match protocol {
            Protocol::ICMP => 0,
            _ => checksum::pseudo_header(&key, out.len() - start + zeros),
        };
        let checksum = match !checksum::sum(before, &out[start..]) {
            0 if protocol == Protocol::UDP => u16::MAX,
            checksum => checksum,
        };
        set(out, start + field, checksum);
    }

    #[expect(clippy::as_conversions, reason = "the discriminants are the codepoints")]
    const fn traffic_class(&self) -> u16 {
        (self.dscp << 2 | self.ecn as u8) as u16
    }
}

impl Transport {
    const fn protocol(&self, v4: bool) -> u8 {
        match self {
            Self::Tcp(_) => Protocol::TCP.0,
            Self::Udp(..) => Protocol::UDP.0,
            Self::Icmp(..) if v4 => Protocol::ICMP.0,
            Self::Icmp(..) => Protocol::ICMPV6.0,
            Self::Other(protocol) => *protocol,
        }
    }

    /// Appends a transport header for `payload` bytes, with a checksum of zero. Returns the offset
    /// of the checksum in the header, if the protocol has one.
    fn append(&self, payload: usize, out: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Tcp(tcp) => {
                tcp.append(out);
                Some(16)
            }
            Self::Udp(src, dst) => {
                put(out, [*src, *dst, word(payload + 8), 0]);
                Some(6)
            }
            Self::Icmp(kind, code, rest) => {
                out.extend([*kind, *code, 0, 0]);
                out.extend(rest);
                Some(2)
            }
            Self::Other(_) => None,
        }
    }
}

impl Tcp {
    fn append(&self, out: &mut Vec<u8>) {
        let offset = word((20 + self.options.len()) / 4) << 12;
        put(out, [self.src, self.dst]);
        out.extend([self.seq, self.ack].map(u32::to_be_bytes).as_flattened());
        put(
            out,
            [
                offset | u16::from(self.high_flags & 15) << 8 | u16::from(self.flags.0),
                self.window,
                0,
                0,
            ],
        );
        out.extend(&self.options);
    }
}

/// Length of a PPPoE header, which precedes the PPP protocol field (RFC 2516, section 4).
const PPPOE: usize = 6;

/// IP protocol number of an IPv6 fragment header (RFC 8200, section 4.5).
const FRAGMENT: u8 = 44;

fn put<const N: usize>(out: &mut Vec<u8>, words: [u16; N]) {
    out.extend(words.map(u16::to_be_bytes).as_flattened());
}

fn set(out: &mut [u8], at: usize, word: u16) {
    out[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

fn endpoint(address: IpAddr) -> Endpoint {
    match address {
        IpAddr::V4(address) => Endpoint::v4(address.octets(), 0),
        IpAddr::V6(address) => Endpoint::v6(address.octets(), 0),
    }
}

/// The value of a 16-bit length field. Zero if `len` does not fit, as in a super-packet.
fn word(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}
