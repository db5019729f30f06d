//! Filters: which packets a policy is for (RFC 2475: multi-field classifier).

use crate::packet::{Direction, Packet};

/// The packets whose every field lies in one of the ranges given for it; an empty list means any.
///
/// IPv4 addresses stand in their IPv6-mapped form, as in [`Endpoint::number`](crate::packet::Endpoint::number).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filter {
    /// Source addresses.
    pub src: Vec<Range<u128>>,
    /// Destination addresses.
    pub dst: Vec<Range<u128>>,
    /// Source ports.
    pub src_port: Vec<Range<u16>>,
    /// Destination ports.
    pub dst_port: Vec<Range<u16>>,
    /// IP protocols.
    pub protocol: Vec<Range<u8>>,
    /// DS codepoints.
    pub dscp: Vec<Range<u8>>,
    /// Outermost VLAN identifiers.
    pub vlan: Vec<Range<u16>>,
    /// The way it crosses the gateway; `None` for both.
    pub direction: Option<Direction>,
}

/// The values from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Range<T> {
    /// The lowest.
    pub first: T,
    /// The highest; not below `first`.
    pub last: T,
}

impl Filter {
    /// Whether `packet`, crossing in `direction`, is one of them.
    #[must_use]
    pub fn matches(&self, packet: &Packet, direction: Direction) -> bool {
        let key = &packet.key;
        within(&self.src, key.src.number())
            && within(&self.dst, key.dst.number())
            && within(&self.src_port, key.src.port)
            && within(&self.dst_port, key.dst.port)
            && within(&self.protocol, key.protocol.0)
            && within(&self.dscp, packet.dscp)
            && within(&self.vlan, packet.vlan)
            && self.direction.is_none_or(|only| only == direction)
    }
}

fn within<T: Copy + PartialOrd>(ranges: &[Range<T>], value: T) -> bool {
    ranges.is_empty() || ranges.iter().any(|range| range.first <= value && value <= range.last)
}
