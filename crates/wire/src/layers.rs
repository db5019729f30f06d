//! Lists the headers of a frame from the outside in, with each header's offset and the end of its
//! payload.
//!
//! `split` needs this list to correct lengths, numbers and checksums in the frames of a
//! super-packet (GSO). `describe` returns only some headers. Headers without a length and without a
//! checksum are not in the list: Ethernet, VLAN tags, MPLS labels, VXLAN.
//!
//! Source: RFC 791, RFC 8200, RFC 768, RFC 2784, and the RFCs that [`tunnel`] cites.
//!
//! Differs: the kernel states the offset of the transport header whose checksum it has not
//! computed. If a valid IP header ends at this offset inside a UDP payload, the payload counts as a
//! tunnel on any port.

use tidegate_core::Packet;
use tidegate_core::packet::{Network, Protocol, TunnelKind};

use crate::describe::{behind_extensions, behind_link, pppoe_session};
use crate::tunnel::{self, Inside};
use crate::{checksum, ethertype};

/// A header with a length, a number or a checksum that depends on its payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Layer {
    pub(crate) kind: Kind,
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Offset of the end of its payload.
    pub(crate) end: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// PPPoE, whose header contains the payload length.
    Pppoe,
    Ipv4,
    Ipv6,
    Tcp,
    /// UDP, with user data or a tunnel header as its payload.
    Udp,
    Sctp,
    /// A GRE header with a checksum.
    GreChecksum,
    /// GTP-U, whose header contains the payload length.
    GtpU,
    /// L2TP version 2, with a length field.
    L2tp,
}

/// The headers of a frame or of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layers {
    list: [Layer; MOST],
    len: usize,
    /// Number of tunnels found.
    tunnels: usize,
    /// The inner IP header of a tunnel that is nested too deeply for the list.
    deeper: Option<IpLayer>,
    /// At least one tunnel header contains a sequence number.
    pub(crate) numbered: bool,
    /// The last header is a transport header, and its payload is not a tunnel.
    pub(crate) complete: bool,
}

impl Layers {
    /// The headers of an Ethernet frame. `transport` is the offset of the innermost transport
    /// header, if known.
    pub(crate) fn of_frame(frame: &[u8], transport: Option<usize>) -> Self {
        let mut layers = Self::none();
        let Some((network, span, ethertype)) = behind_link(frame) else { return layers };
        let (mut ip, end) = (IpLayer { network, at: span.start, end: span.end }, span.end);
        if let Some(header) = pppoe_session(frame) {
            layers.push(Kind::Pppoe, header, end);
        }
        if network == Network::Opaque && ethertype::is_mpls(ethertype) {
            let payload = frame.get(span).unwrap_or_default();
            let Some(inside) = tunnel::behind_labels(payload, payload.len()) else { return layers };
            ip = IpLayer { network: inside.network, at: ip.at + inside.offset, end };
            (layers.tunnels, layers.numbered) = (1, inside.numbered);
        }
        layers.walk(frame, ip, transport);
        layers
    }

    /// The headers of a frame, from the IP header that `packet` describes.
    pub(crate) fn described(frame: &[u8], packet: &Packet) -> Self {
        if packet.network == Network::Opaque {
            return Self::of_frame(frame, None);
        }
        let mut layers = Self::none();
        let (network, at) = (packet.network, usize::from(packet.network_offset));
        layers.walk(frame, IpLayer { network, at, end: frame.len() }, None);
        layers
    }

    /// The headers of `packet`, which begins with an IP header.
    pub(crate) fn of_packet(packet: &[u8], transport: Option<usize>) -> Self {
        let mut layers = Self::none();
        let network = match packet.first().map(|first| first >> 4) {
            Some(4) => Network::Ipv4,
            Some(6) => Network::Ipv6,
            _ => return layers,
        };
        layers.walk(packet, IpLayer { network, at: 0, end: packet.len() }, transport);
        layers
    }

    /// All headers of the list, outermost first.
    pub(crate) fn all(&self) -> &[Layer] {
        self.list.get(..self.len).unwrap_or_default()
    }

    /// Each transport header together with its IP header, innermost first. The IP header comes
    /// first in a pair.
    pub(crate) fn transports(&self) -> impl Iterator<Item = (&Layer, &Layer)> {
        self.all().windows(2).rev().filter_map(|pair| match pair {
            [ip, transport] if ip.is_ip() && transport.is_transport() => Some((ip, transport)),
            _ => None,
        })
    }

    /// The headers inside the tunnel that is nested too deeply for this list. `None` without one.
    pub(crate) fn beneath(&self, bytes: &[u8]) -> Option<Self> {
        let mut layers = Self::none();
        layers.walk(bytes, self.deeper?, None);
        Some(layers)
    }

    const fn none() -> Self {
        let list = [Layer { kind: Kind::Ipv4, at: 0, end: 0 }; MOST];
        Self { list, len: 0, tunnels: 0, deeper: None, numbered: false, complete: false }
    }

    fn push(&mut self, kind: Kind, at: usize, end: usize) {
        if let Some(place) = self.list.get_mut(self.len) {
            *place = Layer { kind, at, end };
            self.len += 1;
        }
    }

    fn walk(&mut self, bytes: &[u8], outermost: IpLayer, transport: Option<usize>) {
        let mut ip = outermost;
        loop {
            let Some(upper) = ip.upper(bytes) else { return };
            let kind = if ip.network == Network::Ipv4 { Kind::Ipv4 } else { Kind::Ipv6 };
            self.push(kind, ip.at, upper.end);
            if upper.fragment {
                return;
            }
            match self.inside(bytes, &upper, transport) {
                Some(inner) => ip = inner,
                None => return,
            }
        }
    }

    /// Adds the header that follows an IP header. If that header begins a tunnel, returns the inner
    /// IP header.
    fn inside(
        &mut self,
        bytes: &[u8],
        upper: &UpperLayer,
        transport: Option<usize>,
    ) -> Option<IpLayer> {
        let UpperLayer { protocol, at, end, .. } = *upper;
        let payload = bytes.get(at..end)?;
        let ends_here = transport == Some(at);
        let inside = if ends_here { None } else { tunnel::inside(protocol, payload, end - at) };
        let inner = match inside {
            Some(inside) => Some(IpLayer { network: inside.network, at: at + inside.offset, end }),
            None if ends_here || protocol != Protocol::UDP => None,
            None => {
                transport.and_then(|transport| IpLayer::before(bytes, at + UDP, transport, end))
            }
        };
        let kind = match protocol {
            Protocol::TCP => Some(Kind::Tcp),
            Protocol::UDP => Some(Kind::Udp),
            SCTP => Some(Kind::Sctp),
            _ => None,
        };
        let end = if kind == Some(Kind::Udp) { udp_end(payload, at, end)? } else { end };
        if let Some(kind) = kind {
            self.push(kind, at, end);
            self.complete = inner.is_none();
        }
        let inner = IpLayer { end, ..inner? };
        if self.tunnels == MOST_TUNNELS {
            self.deeper = Some(inner);
            return None;
        }
        self.tunnels += 1;
        if let Some(inside) = inside {
            self.numbered |= inside.numbered;
            self.push_tunnel(bytes, &inside, at, end);
        }
        Some(inner)
    }

    /// Adds a tunnel header to the list, if it has a length or a checksum. `at` is the start of the
    /// outer IP payload.
    fn push_tunnel(&mut self, bytes: &[u8], inside: &Inside, at: usize, end: usize) {
        let flags = bytes.get(at + UDP..).and_then(|it| it.first_chunk());
        let has_length = flags.is_some_and(|[flags, version]| {
            flags & L2TP_LENGTH != 0 && version & L2TP_VERSION == 2
        });
        match inside.kind {
            TunnelKind::Gre if inside.summed => self.push(Kind::GreChecksum, at, end),
            TunnelKind::GtpU => self.push(Kind::GtpU, at + UDP, end),
            TunnelKind::L2tp if has_length => self.push(Kind::L2tp, at + UDP, end),
            _ => {}
        }
    }
}

impl Layer {
    pub(crate) const fn is_ip(&self) -> bool {
        matches!(self.kind, Kind::Ipv4 | Kind::Ipv6)
    }

    const fn is_transport(&self) -> bool {
        matches!(self.kind, Kind::Tcp | Kind::Udp | Kind::Sctp)
    }

    /// The checksum over the pseudo header of a TCP segment or UDP datagram of `len` bytes in this
    /// IP packet.
    ///
    /// `None` if the final destination cannot be read.
    ///
    /// Source: RFC 9293, section 3.1; RFC 8200, section 8.1; RFC 1122, section 4.1.3.5. The pseudo
    /// header contains the final destination, even while a routing header or a source route names
    /// intermediate ones.
    pub(crate) fn pseudo_header(&self, bytes: &[u8], transport: Kind, len: usize) -> Option<u16> {
        let protocol = match transport {
            Kind::Tcp => Protocol::TCP,
            Kind::Udp => Protocol::UDP,
            _ => return None,
        };
        let header = bytes.get(self.at..)?;
        let (source, destination) = match self.kind {
            Kind::Ipv4 => (header.get(12..16)?, destination_v4(header)?),
            Kind::Ipv6 => (header.get(8..24)?, destination_v6(header)?),
            _ => return None,
        };
        let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        let addresses = checksum::sum(checksum::sum(0, source), destination);
        Some(checksum::sum(checksum::sum(addresses, &len), &[0, protocol.0]))
    }
}

/// An IP header: its offset, and the end of the frame or tunnel payload that contains it.
#[derive(Clone, Copy, Debug)]
struct IpLayer {
    network: Network,
    at: usize,
    end: usize,
}

/// The payload of an IP packet.
struct UpperLayer {
    protocol: Protocol,
    at: usize,
    end: usize,
    fragment: bool,
}

impl IpLayer {
    /// The valid IP header that ends at offset `transport` and begins at `from` or later.
    ///
    /// An IPv4 header is valid if its checksum is correct, an IPv6 header if its length is.
    fn before(bytes: &[u8], from: usize, transport: usize, end: usize) -> Option<Self> {
        let v4 = (5..16_usize).find_map(|words| {
            let at = transport.checked_sub(words * 4).filter(|at| *at >= from)?;
            let header = bytes.get(at..transport)?;
            let version = usize::from(*header.first()?) == 0x40 | words;
            (version && checksum::sum(0, header) == u16::MAX).then_some(at)
        });
        if let Some(at) = v4 {
            return Some(Self { network: Network::Ipv4, at, end });
        }
        let at = transport.checked_sub(V6).filter(|at| *at >= from)?;
        let header = bytes.get(at..transport)?;
        let (len, left) = (usize::from(word(header, 4)?), end.checked_sub(transport)?);
        let holds = len == left || len == 0 && left > usize::from(u16::MAX);
        (*header.first()? >> 4 == 6 && holds).then_some(Self { network: Network::Ipv6, at, end })
    }

    fn upper(&self, bytes: &[u8]) -> Option<UpperLayer> {
        let header = bytes.get(self.at..self.end)?;
        match self.network {
            Network::Ipv4 => {
                let len = usize::from(header.first()? & 0xf) * 4;
                let total = length(word(header, 2)?, header.len())?;
                let fragment = word(header, 6)? & V4_FRAGMENT != 0;
                let sound = header.first()? >> 4 == 4 && len >= V4 && len <= total;
                let (mut at, end) = (self.at + len, self.at + total);
                let mut protocol = *header.get(9)?;
                while protocol == AUTHENTICATION && !fragment {
                    let [next, words] = *bytes.get(at..end)?.first_chunk()?;
                    (protocol, at) = (next, at + usize::from(words) * 4 + 8);
                }
                sound.then_some(UpperLayer { protocol: Protocol(protocol), at, end, fragment })
            }
            Network::Ipv6 => {
                let total = length(word(header, 4)?, header.len().checked_sub(V6)?)?;
                let (at, end) = (self.at + V6, self.at + V6 + total);
                let first = *header.get(6)?;
                let (protocol, at, fragment) = behind_extensions(bytes.get(..end)?, at, first)?;
                let sound = header.first()? >> 4 == 6;
                sound.then_some(UpperLayer { protocol: Protocol(protocol), at, end, fragment })
            }
            Network::Opaque => None,
        }
    }
}

/// The end of the UDP datagram that begins at `at`. `end` is the end of its IP packet.
fn udp_end(datagram: &[u8], at: usize, end: usize) -> Option<usize> {
    let len = length(word(datagram, 4)?, end - at)?;
    (len >= UDP).then_some(at + len)
}

/// The value of a length field, if it is at most `left`. A super-packet may be too long for the
/// field, which is then zero.
fn length(field: u16, left: usize) -> Option<usize> {
    let len = usize::from(field);
    if len == 0 && left > usize::from(u16::MAX) {
        return Some(left);
    }
    (len <= left).then_some(len)
}

/// The final destination of an IPv4 packet: the last address of an unfinished source route, or the
/// destination in the header.
///
/// Source: RFC 791, section 3.1.
fn destination_v4(packet: &[u8]) -> Option<&[u8]> {
    let len = usize::from(packet.first()? & 0xf) * 4;
    let mut options = packet.get(V4..len)?;
    while let [kind, rest @ ..] = options {
        let len = match (kind, rest) {
            (0, _) | (2.., []) => break,
            (1, _) => 1,
            (_, [len, ..]) => usize::from(*len).max(2),
        };
        let Some((option, behind)) = options.split_at_checked(len) else { break };
        if let [LOOSE | STRICT, _, pointer, ..] = option
            && usize::from(*pointer) <= len
        {
            return option.get(3..)?.last_chunk::<4>().map(|it| &it[..]);
        }
        options = behind;
    }
    packet.get(16..V4)
}

/// The final destination of an IPv6 packet: the last address of a routing header with segments
/// left, or the destination in the header.
///
/// Source: RFC 8200, sections 4.4 and 8.1; RFC 5095 (type 0); RFC 6275, section 6.4 (type 2); RFC
/// 8754, section 2 (type 4, whose first address is the final destination).
fn destination_v6(packet: &[u8]) -> Option<&[u8]> {
    let (mut next, mut at) = (*packet.get(6)?, V6);
    loop {
        let header = packet.get(at..).unwrap_or_default();
        let Some(&[following, words, kind, left]) = header.first_chunk() else { break };
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => usize::from(words) * 8 + 8,
            AUTHENTICATION => usize::from(words) * 4 + 8,
            FRAGMENT => 8,
            _ => break,
        };
        if next == ROUTING && left > 0 {
            let addresses = header.get(8..len)?;
            return match kind {
                0 | 2 => addresses.last_chunk::<16>().map(|it| &it[..]),
                4 => addresses.get(..16),
                _ => None,
            };
        }
        (next, at) = (following, at + len);
    }
    packet.get(24..V6)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// Most nested tunnels that are read, as in `describe`.
const MOST_TUNNELS: usize = 2;

/// Most headers in the list: PPPoE, three IP headers with a transport header each, and two tunnel
/// headers.
const MOST: usize = 12;

/// Lengths of the headers without options.
const V4: usize = 20;
const V6: usize = 40;
const UDP: usize = 8;

/// Bits of the IPv4 field that differ from zero in every fragment: the flag "more fragments" and
/// the offset (RFC 791, section 3.1).
const V4_FRAGMENT: u16 = 0x3fff;

/// The L bit (length present) and the version of L2TP (RFC 2661, section 3.1).
const L2TP_LENGTH: u8 = 0x40;
const L2TP_VERSION: u8 = 0x0f;

/// IP protocol number (IANA).
const SCTP: Protocol = Protocol(132);

/// Protocol numbers of IPv6 extension headers (RFC 8200, section 4; RFC 4302).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// IPv4 options with a source route (RFC 791, section 3.1).
const LOOSE: u8 = 131;
const STRICT: u8 = 137;

#[cfg(test)]
mod tests;
