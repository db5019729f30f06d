//! ICMP errors "packet too big": builds an error for a packet that exceeds an MTU, and parses the
//! errors that routers send.
//!
//! Source: RFC 1191, section 4, and RFC 1812, section 4.3.2 (IPv4); RFC 4443, sections 2.4 and 3.2
//! (IPv6).

use std::net::IpAddr;

use tidegate_core::Packet;
use tidegate_core::packet::{Network, Protocol};

use crate::build::{Frame, Transport};
use crate::checksum;

/// Builds the ICMP error that reports `mtu` to the sender of `packet`. The MTU counts the IP
/// header.
///
/// The source of the error is `source`, or the destination of `packet` if `source` is of the other
/// IP version. `None` if `packet` is an ICMP error or a later fragment, or if its source is not the
/// address of a single host.
#[must_use]
pub fn too_big(packet: &[u8], described: &Packet, mtu: u32, source: IpAddr) -> Option<Vec<u8>> {
    let v4 = described.network == Network::Ipv4;
    if described.network == Network::Opaque || is_error(packet, described) {
        return None;
    }
    let later = v4 && u16::from_be_bytes(*packet.get(6..)?.first_chunk()?) & 0x1fff != 0;
    let (to, was_for) = (described.key.src.address(), described.key.dst.address());
    let nobody = match to {
        IpAddr::V4(it) => {
            it.is_multicast() || it.is_broadcast() || it.is_unspecified() || it.is_loopback()
        }
        IpAddr::V6(it) => it.is_multicast() || it.is_unspecified() || it.is_loopback(),
    };
    if later || nobody {
        return None;
    }
    let source = if source.is_ipv4() == v4 { source } else { was_for };
    let (transport, longest) = if v4 {
        let [high, low] = u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes();
        (Transport::Icmp(UNREACHABLE, FRAGMENTATION_NEEDED, [0, 0, high, low]), 576 - 20 - 8)
    } else {
        (Transport::Icmp(PACKET_TOO_BIG, 0, mtu.to_be_bytes()), 1_280 - 40 - 8)
    };
    let quoted = packet.get(..packet.len().min(longest))?.to_vec();
    let frame = Frame { payload: quoted, ..Frame::ip(source, to, transport) };
    frame.bytes().get(ETHERNET..).map(<[u8]>::to_vec)
}

/// Returns `true` for an ICMP error, to which no error may be sent in response.
fn is_error(packet: &[u8], described: &Packet) -> bool {
    let kind = || packet.get(usize::from(described.transport_offset)).copied().unwrap_or(0);
    match described.key.protocol {
        Protocol::ICMP => !matches!(kind(), 0 | 8 | 13 | 14),
        Protocol::ICMPV6 => kind() < 128,
        _ => false,
    }
}

/// A router's report that a UDP datagram exceeded its MTU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooBig {
    /// Length of the longest IP packet that fits. Zero if the router does not state it.
    pub mtu: u32,
    /// Source and destination address of the datagram.
    pub ends: (IpAddr, IpAddr),
    /// Source and destination port of the datagram.
    pub ports: (u16, u16),
    /// Length of the datagram, including its IP header.
    pub len: u32,
    /// IPv4 identification of the datagram.
    pub identification: Option<u16>,
    /// UDP checksum of the datagram.
    pub checksum: u16,
    /// Offset of the quoted UDP payload in the ICMP packet.
    pub payload: usize,
}

/// Parses `packet`, an IP packet without padding. `None` if it is not a valid "packet too big"
/// error that quotes a UDP datagram.
#[must_use]
pub fn read_too_big(packet: &[u8]) -> Option<TooBig> {
    let v4 = packet.first()? >> 4 == 4;
    let says = if v4 { word(packet, 2)?.into() } else { usize::from(word(packet, 4)?) + V6 };
    let is_whole = says == packet.len();
    if v4 { read_v4(packet) } else { read_v6(packet) }.filter(|_| is_whole)
}

fn read_v4(packet: &[u8]) -> Option<TooBig> {
    let at = usize::from(packet.first()? & 0xf) * 4;
    let message = packet.get(at..)?;
    let fields: &[u8; 8] = message.first_chunk()?;
    let is_it = [fields[0], fields[1]] == [UNREACHABLE, FRAGMENTATION_NEEDED];
    if packet.get(9) != Some(&Protocol::ICMP.0) || !is_it || checksum::sum(0, message) != u16::MAX {
        return None;
    }
    let quoted = message.get(8..)?;
    let header = usize::from(quoted.first()? & 0xf) * 4;
    if quoted.first()? >> 4 != 4 || header < 20 || quoted.get(9) != Some(&Protocol::UDP.0) {
        return None;
    }
    let [src, dst] = [12, 16].map(|at| quoted.get(at..)?.first_chunk::<4>().copied());
    let too_big = TooBig {
        mtu: word(message, 6)?.into(),
        ends: (src?.into(), dst?.into()),
        ports: (0, 0),
        len: word(quoted, 2)?.into(),
        identification: word(quoted, 4),
        checksum: 0,
        payload: 0,
    };
    with_udp(packet, at + 8 + header, too_big)
}

fn read_v6(packet: &[u8]) -> Option<TooBig> {
    let message = packet.get(V6..)?;
    let fields: &[u8; 8] = message.first_chunk()?;
    let [src, dst] = [8, 24].map(|at| packet.get(at..)?.first_chunk::<16>().copied());
    let addresses = checksum::sum(checksum::sum(0, &src?), &dst?);
    let len = u32::try_from(message.len()).ok()?.to_be_bytes();
    let pseudo = checksum::sum(checksum::sum(addresses, &len), &[0, Protocol::ICMPV6.0]);
    let right = checksum::sum(pseudo, message) == u16::MAX;
    if packet.get(6) != Some(&Protocol::ICMPV6.0) || [fields[0], fields[1]] != [PACKET_TOO_BIG, 0] {
        return None;
    }
    let quoted = message.get(8..)?;
    if !right || quoted.first()? >> 4 != 6 || quoted.get(6) != Some(&Protocol::UDP.0) {
        return None;
    }
    let [src, dst] = [8, 24].map(|at| quoted.get(at..)?.first_chunk::<16>().copied());
    let too_big = TooBig {
        mtu: u32::from_be_bytes([fields[4], fields[5], fields[6], fields[7]]),
        ends: (src?.into(), dst?.into()),
        ports: (0, 0),
        len: u32::from(word(quoted, 4)?) + 40,
        identification: None,
        checksum: 0,
        payload: 0,
    };
    with_udp(packet, V6 + 8 + V6, too_big)
}

/// Adds the fields of the quoted UDP header, which begins at offset `at`.
fn with_udp(packet: &[u8], at: usize, too_big: TooBig) -> Option<TooBig> {
    let ports = (word(packet, at)?, word(packet, at + 2)?);
    Some(TooBig { ports, checksum: word(packet, at + 6)?, payload: at + 8, ..too_big })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// ICMP types and codes of the errors (RFC 792; RFC 4443, section 3.2).
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
const PACKET_TOO_BIG: u8 = 2;

/// Lengths of the headers of Ethernet and IPv6.
const ETHERNET: usize = 14;
const V6: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe;

    fn packet(frame: &Frame) -> (Vec<u8>, Packet) {
        let (bytes, mut packet) = (frame.bytes(), Packet::default());
        describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut packet);
        packet.transport_offset = packet.transport_offset.saturating_sub(packet.network_offset);
        (bytes[ETHERNET..].to_vec(), packet)
    }

    fn datagram(v6: bool) -> Frame {
        let ends =
            if v6 { ["[2001:db8::1]:7", "[2001:db8::2]:8"] } else { ["10.0.0.1:7", "10.0.0.2:8"] };
        let [src, dst] = ends.map(|it| it.parse().unwrap());
        let mut frame = Frame { payload: vec![5; 1_400], ..Frame::udp(src, dst) };
        let ip = frame.ip_mut().unwrap();
        (ip.whole, ip.identification) = (true, 77);
        frame
    }

    /// Catches: a quotation that is too long or damaged; source and destination exchanged; an MTU
    /// field of the wrong width; an ICMPv6 checksum without the pseudo header.
    #[test]
    fn a_built_error_is_parsed_to_the_same_values() {
        for v6 in [false, true] {
            let (bytes, described) = packet(&datagram(v6));
            let router: IpAddr = if v6 { "2001:db8::9" } else { "10.0.0.9" }.parse().unwrap();
            let other: IpAddr = if v6 { "10.0.0.9" } else { "2001:db8::9" }.parse().unwrap();
            for (from, expected) in [(router, router), (other, described.key.dst.address())] {
                let error = too_big(&bytes, &described, 1_350, from).unwrap();
                assert!(error.len() <= if v6 { 1_280 } else { 576 });
                let head = if v6 { error[8..24].to_vec() } else { error[12..16].to_vec() };
                let octets = match expected {
                    IpAddr::V4(it) => it.octets().to_vec(),
                    IpAddr::V6(it) => it.octets().to_vec(),
                };
                assert_eq!(head, octets);
                let read = read_too_big(&error).unwrap();
                assert_eq!((read.mtu, read.ports), (1_350, (7, 8)));
                assert_eq!(usize::try_from(read.len), Ok(bytes.len()));
                assert_eq!(read.ends, (described.key.src.address(), described.key.dst.address()));
                assert_eq!(read.identification, (!v6).then_some(77));
                let udp = usize::from(described.transport_offset);
                assert_eq!(Some(read.checksum), word(&bytes, udp + 6));
                assert_eq!(error[read.payload..][..8], [5; 8]);
                for at in 0..error.len() {
                    let mut wrong = error.clone();
                    wrong[at] ^= 0x10;
                    let changed = read_too_big(&wrong).is_some_and(|it| it.mtu != 1_350);
                    assert!(!changed && read_too_big(&error[..at]).is_none(), "byte {at}");
                }
            }
        }
    }

    /// Catches: errors in response to errors, to later fragments, or to multicast senders.
    #[test]
    fn no_error_is_sent_for_an_error_a_later_fragment_or_a_multicast_sender() {
        let here = "10.0.0.9".parse().unwrap();
        let mut fragment = datagram(false);
        fragment.ip_mut().unwrap().fragment = Some((9, true));
        let mut from_all = datagram(false);
        from_all.ip_mut().unwrap().src = "224.0.0.1".parse().unwrap();
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().unwrap());
        let error = Frame::ip(a, b, Transport::Icmp(3, 1, [0; 4]));
        let [c, d] = ["2001:db8::1", "2001:db8::2"].map(|it| it.parse().unwrap());
        let error_v6 = Frame::ip(c, d, Transport::Icmp(1, 0, [0; 4]));
        for frame in [fragment, from_all, error, error_v6] {
            let (bytes, described) = packet(&frame);
            assert_eq!(too_big(&bytes, &described, 1_300, here), None);
        }
        let (bytes, described) = packet(&Frame::echo(a, b, 1));
        assert!(too_big(&bytes, &described, 1_300, here).is_some());
    }
}
