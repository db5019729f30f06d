//! The key of a flow: addresses, ports and protocol.

use std::net::{IpAddr, Ipv4Addr};

use super::Network;

/// Direction in which a packet crosses the gateway.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Direction {
    /// From the LAN to the WAN.
    #[default]
    Up = 0,
    /// From the WAN to the LAN.
    Down = 1,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// The opposite direction.
    #[must_use]
    #[inline]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

    /// The direction as an index: up is 0, down is 1.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }

    /// Name in policy files and metrics.
    #[must_use]
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// An IP protocol number. For IPv6, the number of the header after all extension headers.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Protocol(pub u8);

impl Protocol {
    /// The protocol of frames without IP, whose addresses are zero in the key. IPv4 packets can
    /// have protocol 0, too. IPv6 packets cannot, because 0 is a hop-by-hop extension header there.
    pub const OPAQUE: Self = Self(0);
    /// ICMP.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// The authentication header (RFC 4302). In IPv4, it precedes the transport header, so the
    /// protocol field names it.
    pub const AUTHENTICATION: Self = Self(51);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
}

/// An IP address and a port. An IPv4 address is stored in its IPv6-mapped form.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Endpoint {
    address: [u8; 16],
    /// TCP or UDP port, ICMP identifier, or the ethertype of an opaque frame. Zero for other
    /// protocols.
    pub port: u16,
}

impl Endpoint {
    /// An endpoint at an IPv4 address.
    #[must_use]
    #[inline]
    pub fn v4(address: [u8; 4], port: u16) -> Self {
        Self { address: Ipv4Addr::from(address).to_ipv6_mapped().octets(), port }
    }

    /// An endpoint at an IPv6 address.
    #[must_use]
    #[inline]
    pub const fn v6(address: [u8; 16], port: u16) -> Self {
        Self { address, port }
    }

    /// An endpoint at `address`.
    #[must_use]
    #[inline]
    pub fn at(address: IpAddr, port: u16) -> Self {
        match address {
            IpAddr::V4(address) => Self::v4(address.octets(), port),
            IpAddr::V6(address) => Self::v6(address.octets(), port),
        }
    }

    /// The address.
    #[must_use]
    #[inline]
    pub fn address(&self) -> IpAddr {
        if self.is_v4() {
            let [.., a, b, c, d] = self.address;
            return IpAddr::V4([a, b, c, d].into());
        }
        IpAddr::V6(self.address.into())
    }

    #[inline]
    const fn is_v4(&self) -> bool {
        self.number() >> 32 == MAPPED
    }

    /// The address as a number, for comparisons with ranges. IPv4 addresses are in IPv6-mapped
    /// form.
    #[must_use]
    #[inline]
    pub const fn number(&self) -> u128 {
        u128::from_be_bytes(self.address)
    }

    /// The address as a number. For an IPv6 address, only the first `ipv6` bits are kept, and the
    /// others are zero. An IPv4 address is kept in full.
    #[must_use]
    #[inline]
    pub fn prefix(&self, ipv6: u8) -> u128 {
        let rest = u128::MAX.checked_shr(u32::from(ipv6)).unwrap_or(0);
        if self.is_v4() { self.number() } else { self.number() & !rest }
    }
}

/// The prefix of IPv4-mapped addresses (RFC 4291, section 2.5.5.2).
const MAPPED: u128 = 0xffff;

impl Default for Endpoint {
    #[inline]
    fn default() -> Self {
        Self::v6([0; 16], 0)
    }
}

/// Addresses, ports and protocol of a flow, as in a packet of one direction.
///
/// ```
/// use tidegate_base::packet::{Endpoint, FlowKey, Protocol};
///
/// let client = Endpoint::at("10.0.0.1".parse().unwrap(), 5_000);
/// let server = Endpoint::at("2001:db8::1".parse().unwrap(), 443);
/// let request = FlowKey { src: client, dst: server, protocol: Protocol::TCP };
/// assert_eq!(request.reverse().src, server);
/// assert_eq!(server.address().to_string(), "2001:db8::1");
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct FlowKey {
    /// Address and port of the sender.
    pub src: Endpoint,
    /// Address and port of the receiver.
    pub dst: Endpoint,
    /// The IP protocol.
    pub protocol: Protocol,
}

impl FlowKey {
    /// The key of packets in the opposite direction.
    #[must_use]
    #[inline]
    pub const fn reverse(self) -> Self {
        Self { src: self.dst, dst: self.src, protocol: self.protocol }
    }

    /// Returns `true` if the frames carry neither IPv4 nor IPv6.
    #[must_use]
    #[inline]
    pub const fn is_opaque(&self) -> bool {
        self.protocol.0 == Protocol::OPAQUE.0 && self.src.number() == 0
    }

    /// IP version of the packets, and the length of the IP header without options.
    #[must_use]
    #[inline]
    pub fn network_header(&self) -> (Network, u16) {
        if self.src.is_v4() { (Network::Ipv4, 20) } else { (Network::Ipv6, 40) }
    }

    /// Returns `true` if a later fragment with this key may state another protocol than its first
    /// fragment.
    ///
    /// Source: RFC 8200, section 4.5 (only the Next Header of the first fragment counts); RFC 4302,
    /// section 3.1.1 (an authentication header hides the protocol of IPv4).
    #[inline]
    pub fn hides_protocol(&self) -> bool {
        !self.src.is_v4() || self.protocol == Protocol::AUTHENTICATION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_addresses_come_back_as_ipv4() {
        let endpoint = Endpoint::v4([10, 0, 0, 1], 80);
        assert_eq!(endpoint.address(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(endpoint.number() & 0xffff_ffff, 0x0a00_0001);
    }

    /// Catches: an IPv4 address cut to a prefix; a mask that is off by one bit; an overflow when
    /// all bits are shifted out.
    #[test]
    fn only_ipv6_addresses_are_cut_to_a_prefix() {
        let v4 = Endpoint::v4([10, 0, 0, 1], 80);
        let v6 = Endpoint::v6([0xff; 16], 80);
        for (length, expected) in [(0, 0), (1, 1 << 127), (56, !0 << 72), (128, u128::MAX)] {
            assert_eq!((v6.prefix(length), v4.prefix(length)), (expected, v4.number()));
        }
    }
}
