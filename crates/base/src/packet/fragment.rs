//! Fragments of IP datagrams: where a fragment lies in its datagram, and whether its ports are
//! known.
//!
//! Only the first fragment contains the ports. The gateway looks up the first fragment for each
//! later fragment.
//!
//! Source: RFC 791, section 3.2 (IPv4); RFC 8200, section 4.5 (IPv6).
//!
//! Differs: `Packet` has no field of its own for the identification, which is stored in its fields
//! `segment` and `checksum`. A fragment needs neither of these fields: it is no super-packet, and
//! its UDP checksum also covers other fragments.
//!
//! This file also has methods of `Packet`, whose fields are in `packet.rs`.

use super::Packet;

/// Where a packet lies in its IP datagram, and whether its ports are known.
///
/// The value has eight bits: three bits for the role (whole packet, first fragment, later
/// fragment), and five bits for a position in units of 8 bytes.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Fragment(u8);

/// Whether the ports of a packet are known.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Ports {
    /// The ports are known, or the protocol has no ports.
    #[default]
    Known,
    /// The ports are unknown. Filters that name ports do not match.
    Unknown,
    /// The ports are unknown, and every filter for ports matches. Every filter for protocols
    /// matches too if later fragments do not state the protocol of their datagram. This applies to
    /// fragments of IPv6, and to fragments of IPv4 with an authentication header.
    Any,
}

impl Fragment {
    /// A packet that is not a fragment.
    pub const WHOLE: Self = Self(0);
    /// A later fragment whose ports are known. The gateway knows its first fragment, or the
    /// protocol has no ports.
    pub const WITH_PORTS: Self = Self(WITH_PORTS);
    /// A first fragment that is too short to contain the ports (RFC 1858, section 3), or whose
    /// headers are too long to record.
    pub const TINY: Self = Self(LATER);

    /// A first fragment with its ports. `headers` is the length of its headers after the IPv4
    /// header or the IPv6 fragment header.
    #[must_use]
    #[inline]
    pub fn first(headers: usize) -> Self {
        match u8::try_from(headers.div_ceil(UNIT)) {
            Ok(units) if units < FARTHEST => Self(FIRST | units),
            _ => Self::TINY,
        }
    }

    /// This first fragment, marked: an IPv4 authentication header precedes its transport header.
    /// The protocol field of the later fragments then names only the authentication header. Other
    /// fragments are returned unchanged.
    #[must_use]
    #[inline]
    pub const fn authenticated(self) -> Self {
        if self.is_first() { Self(FIRST_AUTHENTICATED | self.units()) } else { self }
    }

    /// A later fragment with this `offset` in units of 8 bytes.
    #[must_use]
    #[inline]
    pub fn later(offset: u16) -> Self {
        Self(LATER | u8::try_from(offset).map_or(FARTHEST, |offset| offset.min(FARTHEST)))
    }

    /// Returns `true` if the packet is a fragment.
    #[inline]
    #[must_use]
    pub const fn is_part(self) -> bool {
        self.0 != Self::WHOLE.0
    }

    /// Returns `true` for a first fragment with its ports.
    #[must_use]
    #[inline]
    pub const fn is_first(self) -> bool {
        matches!(self.role(), FIRST | FIRST_AUTHENTICATED)
    }

    /// Returns `true` for a first fragment of IPv4 with an authentication header.
    #[inline]
    pub const fn is_authenticated(self) -> bool {
        self.role() == FIRST_AUTHENTICATED
    }

    /// Whether the packet's ports are known.
    #[inline]
    #[must_use]
    pub const fn ports(self) -> Ports {
        if self.0 == 0 {
            return Ports::Known;
        }
        match self.role() {
            LATER => Ports::Unknown,
            ANY_PORTS => Ports::Any,
            _ => Ports::Known,
        }
    }

    /// This later fragment, for a gateway that does not know the first fragment. If `any` is
    /// `true`, every filter for ports matches the fragment.
    #[must_use]
    #[inline]
    pub const fn without_first(self, any: bool) -> Self {
        let role = if any { ANY_PORTS } else { LATER };
        Self(role | self.units())
    }

    /// The end of the headers of a first fragment, or the offset of a later fragment. The unit is 8
    /// bytes.
    #[inline]
    pub const fn units(self) -> u8 {
        self.0 & FARTHEST
    }

    #[inline]
    const fn role(self) -> u8 {
        self.0 & !FARTHEST
    }
}

impl Ports {
    /// A `Fragment` whose [`ports`](Fragment::ports) are this value.
    #[inline]
    pub const fn fragment(self) -> Fragment {
        match self {
            Self::Known => Fragment::WHOLE,
            Self::Unknown => Fragment::TINY,
            Self::Any => Fragment::TINY.without_first(true),
        }
    }
}

impl std::fmt::Debug for Fragment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.role() {
            FIRST => "First",
            FIRST_AUTHENTICATED => "FirstAuthenticated",
            LATER => "Later",
            WITH_PORTS => "WithPorts",
            ANY_PORTS => "AnyPorts",
            _ => "Whole",
        };
        write!(f, "{name}({})", self.units())
    }
}

impl Packet {
    /// The identification of a fragment's datagram: 16 bits in IPv4, 32 bits in IPv6.
    #[must_use]
    #[inline]
    pub fn identification(&self) -> u32 {
        u32::from(self.segment) << 16 | u32::from(self.checksum)
    }

    /// Sets the identification of a fragment's datagram.
    #[inline]
    pub const fn set_identification(&mut self, identification: u32) {
        let [a, b, c, d] = identification.to_be_bytes();
        (self.segment, self.checksum) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    }
}

/// Bytes in a unit of the fragment offset (RFC 791, section 3.1; RFC 8200, section 4.5).
const UNIT: usize = 8;
/// The largest recorded position, 248 bytes. The attacks of RFC 1858 use the first 16 bytes.
const FARTHEST: u8 = 0x1f;
const FIRST: u8 = 1 << 5;
const LATER: u8 = 2 << 5;
const WITH_PORTS: u8 = 3 << 5;
const ANY_PORTS: u8 = 4 << 5;
const FIRST_AUTHENTICATED: u8 = 5 << 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: an offset that wraps around to zero; headers longer than 248 bytes that are
    /// recorded as short.
    #[test]
    fn positions_beyond_the_largest_stay_there() {
        assert_eq!(Fragment::later(1), Fragment::later(1));
        assert!(
            Fragment::later(300).units() == FARTHEST && Fragment::later(33).units() == FARTHEST
        );
        assert_eq!((Fragment::first(8).units(), Fragment::first(9).units()), (1, 2));
        assert_eq!(Fragment::first(8 * 31), Fragment::TINY);
        assert_eq!(Fragment::first(usize::MAX), Fragment::TINY);
    }

    #[test]
    fn an_identification_is_read_as_it_was_set() {
        let mut packet = Packet::default();
        packet.set_identification(0xfedc_ba98);
        assert_eq!(packet.identification(), 0xfedc_ba98);
    }
}
