//! Frames for tests, from the fields that matter to the test, with right lengths and checksums.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tidegate_core::packet::{Ecn, Endpoint, FlowKey, Protocol, TcpFlags};

use crate::{VlanTag, checksum, ethertype};

/// A frame to be; [`bytes`](Self::bytes) makes it one.
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
    /// MAC address it goes to.
    pub destination: [u8; 6],
    /// MAC address it comes from.
    pub source: [u8; 6],
    /// What stands between Ethernet and the network header, outermost first.
    pub link: Vec<Link>,
    /// What comes then.
    pub network: Network,
    /// What follows the last header.
    pub payload: Vec<u8>,
}

/// A header between Ethernet and the network header.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// A VLAN tag.
    Vlan(VlanTag),
    /// A PPPoE session of this identifier, with PPP inside.
    Pppoe(u16),
    /// An MPLS label.
    Mpls(u32),
}

/// The network header, and what is behind it.
#[derive(Clone, Debug)]
pub enum Network {
    /// IPv4 or IPv6, as the addresses are.
    Ip(Ip),
    /// Something else, of this ethertype.
    Other(u16),
}

/// An IP header.
#[derive(Clone, Debug)]
pub struct Ip {
    /// Who sends it.
    pub src: IpAddr,
    /// Who is to receive it; of the same version as `src`.
    pub dst: IpAddr,
    /// DS codepoint.
    pub dscp: u8,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// IPv4 identification, or that of an IPv6 fragment.
    pub identification: u16,
    /// If it is a fragment: its offset in units of 8 bytes, and whether more follow.
    pub fragment: Option<(u16, bool)>,
    /// IPv4: options, a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// IPv6: extension headers, each its number and its bytes; in each, the first byte is filled in.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// What it carries; of a fragment that is not the first, only the protocol counts.
    pub transport: Transport,
}

/// A transport header.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// UDP from port to port.
    Udp(u16, u16),
    /// ICMP or ICMPv6: type, code, and the four bytes after the checksum.
    Icmp(u8, u8, [u8; 4]),
    /// Only a protocol number.
    Other(u8),
}

/// A TCP header.
#[derive(Clone, Debug, Default)]
pub struct Tcp {
    /// Port it comes from.
    pub src: u16,
    /// Port it goes to.
    pub dst: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window field.
    pub window: u16,
    /// Options, a multiple of 4 bytes and at most 40.
    pub options: Vec<u8>,
}

impl Link {
    /// An 802.1Q tag of this VLAN, priority zero.
    #[must_use]
    pub const fn vlan(id: u16) -> Self {
        Self::Vlan(VlanTag { tpid: ethertype::VLAN, tci: id })
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

    /// An echo request (ping) of this identifier.
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

    /// Its IP header, to change; `None` if it has none.
    pub const fn ip_mut(&mut self) -> Option<&mut Ip> {
        match &mut self.network {
            Network::Ip(ip) => Some(ip),
            Network::Other(_) => None,
        }
    }

    /// Its TCP header, to change; `None` if it has none.
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

    /// All before the last so many bytes of the frame, which are zeros at the end of its payload:
    /// lengths and checksums count them.
    #[must_use]
    pub fn bytes_before(&self, zeros: usize) -> Vec<u8> {
        let (mut inner, mut ethertype) = match &self.network {
            Network::Ip(ip) if ip.src.is_ipv4() => {
                (ip.bytes(&self.payload, zeros), ethertype::IPV4)
            }
            Network::Ip(ip) => (ip.bytes(&self.payload, zeros), ethertype::IPV6),
            Network::Other(ethertype) => (self.payload.clone(), *ethertype),
        };
        let mut bottom = true;
        for link in self.link.iter().rev() {
            let header = link_header(*link, ethertype, bottom, inner.len() + zeros);
            inner.splice(0..0, header);
            bottom &= !matches!(link, Link::Mpls(_));
            ethertype = link.ethertype();
        }
        let ethertype = ethertype.to_be_bytes();
        [&self.destination[..], &self.source, &ethertype, &inner].concat()
    }
}

/// The header without its ethertype, which stands before it, but with that of what it carries.
fn link_header(link: Link, carried: u16, bottom: bool, len: usize) -> Vec<u8> {
    match link {
        Link::Vlan(tag) => [tag.tci.to_be_bytes(), carried.to_be_bytes()].concat(),
        Link::Pppoe(session) => {
            let protocol: u16 = if carried == ethertype::IPV4 { 0x0021 } else { 0x0057 };
            let words = [0x1100, session, word(len + 2), protocol];
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        }
        Link::Mpls(label) => (label << 12 | u32::from(bottom) << 8 | 64).to_be_bytes().to_vec(),
    }
}

impl Ip {
    fn bytes(&self, payload: &[u8], zeros: usize) -> Vec<u8> {
        let first = self.fragment.is_none_or(|(offset, _)| offset == 0);
        let payload = if first { self.segment(payload, zeros) } else { payload.to_vec() };
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.v4(src, dst, &payload, zeros),
            _ => self.v6(&payload, zeros),
        }
    }

    fn v4(&self, src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8], zeros: usize) -> Vec<u8> {
        let len = 20 + self.options.len();
        let (offset, more) = self.fragment.unwrap_or_default();
        let words = [
            (word(0x40 | (len / 4)) << 8) | self.traffic_class(),
            word(len + payload.len() + zeros),
            self.identification,
            offset | u16::from(more) << 13,
            64 << 8 | u16::from(self.transport.protocol(true)),
            0,
        ];
        let mut header = Vec::with_capacity(HEADERS);
        header.extend(words.map(u16::to_be_bytes).as_flattened());
        header.extend([src.octets(), dst.octets()].as_flattened());
        header.extend(&self.options);
        let checksum = !checksum::sum(0, &header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header.extend(payload);
        header
    }

    fn v6(&self, payload: &[u8], zeros: usize) -> Vec<u8> {
        let mut extensions = self.extensions.clone();
        if let Some((offset, more)) = self.fragment {
            let word = (offset << 3 | u16::from(more)).to_be_bytes();
            let identification = self.identification.to_be_bytes();
            extensions.push((44, [[0, 0], word, [0, 0], identification].concat()));
        }
        let (mut next, mut carried) = (self.transport.protocol(false), payload.to_vec());
        for (kind, mut bytes) in extensions.into_iter().rev() {
            bytes[0] = next;
            carried.splice(0..0, bytes);
            next = kind;
        }
        let class = (0x6000 | self.traffic_class() << 4).to_be_bytes();
        let [high, low] = word(carried.len() + zeros).to_be_bytes();
        let mut packet = [class[0], class[1], 0, 0, high, low, next, 64].to_vec();
        packet.extend(endpoint(self.src).number().to_be_bytes());
        packet.extend(endpoint(self.dst).number().to_be_bytes());
        packet.extend(carried);
        packet
    }

    /// The transport header and `payload`, with their checksum.
    fn segment(&self, payload: &[u8], zeros: usize) -> Vec<u8> {
        let (mut segment, field) = self.transport.header(payload.len() + zeros);
        segment.extend(payload);
        let Some(field) = field else { return segment };
        let v4 = self.src.is_ipv4();
        let protocol = Protocol(self.transport.protocol(v4));
        let key = FlowKey { src: endpoint(self.src), dst: endpoint(self.dst), protocol };
        let start = match protocol {
            Protocol::ICMP => 0,
            _ => checksum::pseudo_header(&key, segment.len() + zeros),
        };
        let checksum = match !checksum::sum(start, &segment) {
            0 if protocol == Protocol::UDP => u16::MAX,
            checksum => checksum,
        };
        segment[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
        segment
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

    /// The header before `payload` bytes, its checksum zero, and where that is.
    fn header(&self, payload: usize) -> (Vec<u8>, Option<usize>) {
        match self {
            Self::Tcp(tcp) => (tcp.header(), Some(16)),
            Self::Udp(src, dst) => {
                let words = [*src, *dst, word(payload + 8), 0];
                (words.iter().flat_map(|word| word.to_be_bytes()).collect(), Some(6))
            }
            Self::Icmp(kind, code, rest) => ([&[*kind, *code, 0, 0][..], rest].concat(), Some(2)),
            Self::Other(_) => (Vec::new(), None),
        }
    }
}

impl Tcp {
    fn header(&self) -> Vec<u8> {
        let offset = word((20 + self.options.len()) / 4) << 12;
        let [seq, ack] = [self.seq.to_be_bytes(), self.ack.to_be_bytes()];
        let mut header = Vec::with_capacity(HEADERS);
        header.extend([self.src, self.dst].map(u16::to_be_bytes).as_flattened());
        header.extend([seq, ack].as_flattened());
        let words = [offset | u16::from(self.flags.0), self.window, 0, 0];
        header.extend(words.map(u16::to_be_bytes).as_flattened());
        header.extend(&self.options);
        header
    }
}

/// Room for the longest headers of TCP and of IPv4.
const HEADERS: usize = 60 + 60;

fn endpoint(address: IpAddr) -> Endpoint {
    match address {
        IpAddr::V4(address) => Endpoint::v4(address.octets(), 0),
        IpAddr::V6(address) => Endpoint::v6(address.octets(), 0),
    }
}

/// A length field; zero for what is too long for it, as in a super-packet.
fn word(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(0)
}
