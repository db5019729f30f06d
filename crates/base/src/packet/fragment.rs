//! Fragments: the part of a larger datagram that a packet carries.
//!
//! Sources: RFC 791, section 3.2 (IPv4); RFC 8200, section 4.5 (IPv6).
//!
//! Differs: `Packet` has no room for the identification. It lies in `segment` and `checksum`, because a
//! fragment is neither a super-packet nor a datagram with a known UDP checksum.
//!
//! Methods of `Packet`, whose fields are in `packet.rs`.

use super::Packet;

/// Position of a packet in its datagram, and whether the datagram's ports are known.
///
/// Three bits of role and five bits of position in units of 8 bytes.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Fragment(u8);

/// Whether the ports of a packet are known.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Ports {
    /// The key has the ports, or the protocol has none.
    #[default]
    Known,
    /// The ports are unknown. A filter that names ports does not match.
    Unknown,
    /// The ports are unknown, and every filter for ports matches. If the fragment does not name the
    /// protocol of its datagram either, every filter for protocols matches too. Fragments of IPv6 do
    /// not name it, nor do fragments of IPv4 with an authentication header.
    Any,
}

impl Fragment {
    /// A datagram in one piece.
    pub const WHOLE: Self = Self(0);
    /// A later fragment whose ports are known: those of its first fragment, or none because its
    /// protocol has none.
    pub const WITH_PORTS: Self = Self(WITH_PORTS);
    /// A first fragment that ends before its ports (RFC 1858, section 3), or whose headers are too long.
    pub const TINY: Self = Self(LATER);

    /// A first fragment whose ports are in the key. Its headers occupy `headers` bytes behind the IPv4 header
    /// or the IPv6 fragment header.
    #[must_use]
    #[inline]
    pub fn first(headers: usize) -> Self {
        match u8::try_from(headers.div_ceil(UNIT)) {
            Ok(units) if units < FARTHEST => Self(FIRST | units),
            _ => Self::TINY,
        }
    }

    /// Marks a first fragment with an IPv4 authentication header before its protocol. The protocol
    /// field of its later fragments names only that header. Other fragments stay as they are.
    #[must_use]
    #[inline]
    pub const fn authenticated(self) -> Self {
        if self.is_first() { Self(FIRST_AUTHENTICATED | self.units()) } else { self }
    }

    /// A fragment that begins `offset` units of 8 bytes after the first fragment, which has offset
    /// 0.
    #[must_use]
    #[inline]
    pub fn later(offset: u16) -> Self {
        Self(LATER | u8::try_from(offset).map_or(FARTHEST, |offset| offset.min(FARTHEST)))
    }

    /// Returns `true` if the packet is a part of a larger datagram.
    #[inline]
    #[must_use]
    pub const fn is_part(self) -> bool {
        self.0 != Self::WHOLE.0
    }

    /// Returns `true` for a first fragment whose ports are in the key.
    #[must_use]
    #[inline]
    pub const fn is_first(self) -> bool {
        matches!(self.role(), FIRST | FIRST_AUTHENTICATED)
    }

    /// Returns `true` for a first fragment with an authentication header before its protocol, in IPv4.
    #[inline]
    pub const fn is_authenticated(self) -> bool {
        self.role() == FIRST_AUTHENTICATED
    }

    /// Knowledge of the ports.
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

    /// The same later fragment without a known first fragment. With `any`, every filter for ports
    /// matches it.
    #[must_use]
    #[inline]
    pub const fn without_first(self, any: bool) -> Self {
        let role = if any { ANY_PORTS } else { LATER };
        Self(role | self.units())
    }

    /// For a first fragment the end of its headers, for a later one its beginning; in units of 8
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
    /// The fragment mark of a packet with these ports.
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
/// The largest distinguished position: 248 bytes. RFC 1858's attacks lie within the first 16.
const FARTHEST: u8 = 0x1f;
const FIRST: u8 = 1 << 5;
const LATER: u8 = 2 << 5;
const WITH_PORTS: u8 = 3 << 5;
const ANY_PORTS: u8 = 4 << 5;
const FIRST_AUTHENTICATED: u8 = 5 << 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: an offset that wraps; headers beyond the largest position that count as short ones.
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
    fn an_identification_comes_back() {
        let mut packet = Packet::default();
        packet.set_identification(0xfedc_ba98);
        assert_eq!(packet.identification(), 0xfedc_ba98);
    }
}
