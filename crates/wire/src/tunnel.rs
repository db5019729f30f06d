//! Recognises IP packets in unencrypted tunnels. Finds the kind of the tunnel header, and the
//! offset of the inner headers.
//!
//! A port number alone proves nothing. A payload counts as a tunnel only if the IPv4 header
//! checksum or the IPv6 length of the inner packet is correct. Also, each fixed field of the tunnel
//! header must have the value that its standard requires.
//!
//! In all functions, `bytes` begins after the outer IP header or the MPLS labels. `bytes` may be
//! only the first part of the payload, whose length is `left`.
//!
//! Source: RFC 2003, RFC 2473, RFC 2784, RFC 2890, RFC 7348, RFC 8926, RFC 2661 and RFC 4448, as
//! [`TunnelKind`] assigns them to its variants.
//!
//! Differs: keepalives, control messages and inner packets without IP do not count as tunnels.
//! Their descriptors describe the outer headers.

mod gtp;
mod inner;
mod l2tp;

use tidegate_core::packet::{Network, Protocol, TunnelKind};

use inner::{Payload, ethernet, ip};

/// A tunnel header and the inner packet behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Inside {
    pub(crate) kind: TunnelKind,
    /// The VNI of VXLAN and GENEVE, or the key of GRE. Both directions of a flow are assumed to use
    /// the same number.
    pub(crate) id: Option<u32>,
    /// Length of the tunnel header, including a UDP header. The inner IP or Ethernet header begins
    /// at this offset.
    pub(crate) header: usize,
    pub(crate) carries: Carries,
    /// Version of the inner IP header.
    pub(crate) network: Network,
    /// Offset of the inner IP header.
    pub(crate) offset: usize,
    /// VLAN of the inner Ethernet header, or [`NO_VLAN`](tidegate_core::packet::NO_VLAN).
    pub(crate) vlan: u16,
    /// The tunnel header has a sequence number. Packets may then be neither added nor removed.
    pub(crate) numbered: bool,
    /// The tunnel header has a checksum that covers the inner packet (GRE).
    pub(crate) summed: bool,
}

/// The first inner header: IP, or Ethernet with IP inside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Carries {
    Ip,
    Ethernet,
}

impl Inside {
    /// Returns `true` if the gateway may create, merge and shorten ACKs inside this tunnel.
    /// Otherwise, held ACKs stay complete frames.
    ///
    /// An ACK of another length needs corrected lengths and checksums of the outer headers. This is
    /// implemented for the kinds below only.
    pub(crate) const fn may_edit(&self) -> bool {
        let kind = matches!(
            self.kind,
            TunnelKind::Ip | TunnelKind::Gre | TunnelKind::Vxlan | TunnelKind::Geneve
        );
        kind && !self.numbered && !self.summed
    }

    /// A tunnel of `kind`. Its header has the length `header`, and `payload` follows.
    fn new(kind: TunnelKind, header: usize, payload: Payload) -> Self {
        Self {
            kind,
            id: None,
            header,
            carries: payload.carries,
            network: payload.network,
            offset: header + payload.offset,
            vlan: payload.vlan,
            numbered: false,
            summed: false,
        }
    }
}

/// Returns `true` if packets of `protocol` may carry a tunnel. For UDP, the source and destination
/// port decide.
#[inline]
pub(crate) const fn is_carrier(protocol: Protocol, ports: [u16; 2]) -> bool {
    match protocol {
        Protocol::UDP => {
            let [src, dst] = ports;
            let known =
                matches!(dst, VXLAN_PORT | OLD_VXLAN_PORT | GENEVE_PORT | GTP_PORT | L2TP_PORT);
            known || src == L2TP_PORT
        }
        IPV4 | IPV6 | GRE | L2TP => true,
        _ => false,
    }
}

/// Parses the payload `bytes` of an IP packet of this `protocol` as a tunnel.
///
/// `None` if the payload is not a tunnel. The packet must not be a fragment.
#[inline]
pub(crate) fn inside(protocol: Protocol, bytes: &[u8], left: usize) -> Option<Inside> {
    match protocol {
        // Most packets are TCP.
        Protocol::TCP => None,
        Protocol::UDP => in_udp(bytes, left),
        IPV4 => ip_in_ip(Network::Ipv4, bytes, left),
        IPV6 => ip_in_ip(Network::Ipv6, bytes, left),
        GRE => gre(bytes, left),
        L2TP => l2tp::over_ip(bytes, left),
        _ => None,
    }
}

/// Parses an Ethernet frame behind MPLS labels, with or without a control word.
///
/// The control word may contain sequence numbers (RFC 4448, section 4.6). The gateway does not know
/// the configuration, so it assumes that each pseudowire numbers its frames.
pub(crate) fn behind_labels(bytes: &[u8], left: usize) -> Option<Inside> {
    let control_word = bytes.first().is_some_and(|first| first >> 4 == 0);
    let behind = |header| ethernet(bytes, left, header);
    let with = if control_word { behind(CONTROL_WORD).map(|it| (CONTROL_WORD, it)) } else { None };
    let (header, payload) = with.or_else(|| Some((0, behind(0)?)))?;
    Some(Inside { numbered: true, ..Inside::new(TunnelKind::Pseudowire, header, payload) })
}

fn ip_in_ip(network: Network, bytes: &[u8], left: usize) -> Option<Inside> {
    let payload = ip(bytes, left, 0)?;
    (payload.network == network).then(|| Inside::new(TunnelKind::Ip, 0, payload))
}

/// Parses a tunnel in UDP, whose kind the ports suggest.
///
/// Source: RFC 768, section "Length"; IANA, service names (ports).
#[inline]
fn in_udp(bytes: &[u8], left: usize) -> Option<Inside> {
    let [a, b, c, d, high, low, ..] = *bytes.first_chunk::<UDP>()?;
    let (src, dst) = (be16(a, b), be16(c, d));
    let read = match dst {
        VXLAN_PORT | OLD_VXLAN_PORT => vxlan,
        GENEVE_PORT => geneve,
        GTP_PORT => gtp::in_udp,
        _ if dst == L2TP_PORT || src == L2TP_PORT => l2tp::over_udp,
        _ => return None,
    };
    // The length field of a super-packet is zero if the length does not fit.
    let len = usize::from(be16(high, low));
    let fits = len <= left && len >= UDP || len == 0 && left > usize::from(u16::MAX);
    if !fits {
        return None;
    }
    read(bytes, if len == 0 { left } else { len })
}

/// Parses a VXLAN header, which precedes an Ethernet frame.
///
/// Source: RFC 7348, section 5.
fn vxlan(bytes: &[u8], left: usize) -> Option<Inside> {
    let header = bytes.get(UDP..)?.first_chunk::<8>()?;
    let [VXLAN_FLAGS, 0, 0, 0, a, b, c, 0] = *header else { return None };
    let payload = ethernet(bytes, left, UDP + header.len())?;
    let inside = Inside::new(TunnelKind::Vxlan, UDP + header.len(), payload);
    Some(Inside { id: Some(u32::from_be_bytes([0, a, b, c])), ..inside })
}

/// Parses a GENEVE header. Control packets are not parsed further.
///
/// Source: RFC 8926, section 3.4.
fn geneve(bytes: &[u8], left: usize) -> Option<Inside> {
    let header = bytes.get(UDP..)?.first_chunk::<8>()?;
    let [first, flags, p0, p1, a, b, c, _] = *header;
    if first >> 6 != 0 || flags & GENEVE_CONTROL != 0 {
        return None;
    }
    let at = UDP + header.len() + usize::from(first & GENEVE_OPTIONS) * 4;
    let payload = by_ethertype(be16(p0, p1), bytes, left, at)?;
    let inside = Inside::new(TunnelKind::Geneve, at, payload);
    Some(Inside { id: Some(u32::from_be_bytes([0, a, b, c])), ..inside })
}

/// Parses a GRE header. Version 1 (PPTP) and source routes are not parsed further.
///
/// Source: RFC 2784, section 2; RFC 2890, section 2.
fn gre(bytes: &[u8], left: usize) -> Option<Inside> {
    let [flags, version, p0, p1] = *bytes.first_chunk::<4>()?;
    if flags & !(GRE_CHECKSUM | GRE_KEY | GRE_SEQUENCE) != 0 || version != 0 {
        return None;
    }
    let (summed, keyed) = (flags & GRE_CHECKSUM != 0, flags & GRE_KEY != 0);
    let numbered = flags & GRE_SEQUENCE != 0;
    let key_at = if summed { 8 } else { 4 };
    let words = 1 + usize::from(summed) + usize::from(keyed) + usize::from(numbered);
    let payload = by_ethertype(be16(p0, p1), bytes, left, words * 4)?;
    let id = keyed.then(|| bytes.get(key_at..)?.first_chunk().map(|key| u32::from_be_bytes(*key)));
    let inside = Inside::new(TunnelKind::Gre, words * 4, payload);
    Some(Inside { id: id.flatten(), numbered, summed, ..inside })
}

/// Parses the payload at offset `at`, Ethernet or IP according to `ethertype`.
fn by_ethertype(ethertype: u16, bytes: &[u8], left: usize, at: usize) -> Option<Payload> {
    let wanted = match ethertype {
        TRANSPARENT_ETHERNET => return ethernet(bytes, left, at),
        crate::ethertype::IPV4 => Network::Ipv4,
        crate::ethertype::IPV6 => Network::Ipv6,
        _ => return None,
    };
    ip(bytes, left, at).filter(|payload| payload.network == wanted)
}

const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}

/// Bytes of a UDP header (RFC 768).
const UDP: usize = 8;
/// IP protocol numbers (IANA).
const IPV4: Protocol = Protocol(4);
const IPV6: Protocol = Protocol(41);
const GRE: Protocol = Protocol(47);
const L2TP: Protocol = Protocol(115);
/// UDP ports (IANA).
const L2TP_PORT: u16 = 1701;
const GTP_PORT: u16 = 2152;
const VXLAN_PORT: u16 = 4789;
/// The VXLAN port that Linux used before IANA assigned a port, and still uses by default
/// (ip-link(8)).
const OLD_VXLAN_PORT: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
/// The first byte of a VXLAN header, in which only the I flag is set (RFC 7348, section 5).
const VXLAN_FLAGS: u8 = 0x08;
/// The O bit of GENEVE: a control packet (RFC 8926, section 3.4).
const GENEVE_CONTROL: u8 = 0x80;
/// Mask of the GENEVE option length, in words of 4 bytes.
const GENEVE_OPTIONS: u8 = 0x3f;
/// Flags of the GRE header (RFC 2890, section 2).
const GRE_CHECKSUM: u8 = 0x80;
const GRE_KEY: u8 = 0x20;
const GRE_SEQUENCE: u8 = 0x10;
/// Ethertype of bridged Ethernet in GRE and GENEVE (IANA, IEEE 802 numbers).
const TRANSPARENT_ETHERNET: u16 = 0x6558;
/// Length of a pseudowire's control word (RFC 4385, section 3).
const CONTROL_WORD: usize = 4;

#[cfg(test)]
mod tests;
