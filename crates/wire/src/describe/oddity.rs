//! The kinds of malformed frames.

use tidegate_core::{CountBy, Countable};

/// Why a frame could not be parsed completely.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Oddity {
    /// The frame ends within an Ethernet, VLAN, PPPoE or MPLS header, or contradicts it.
    Link,
    /// The frame has more VLAN tags or MPLS labels in a row than parsing follows.
    Depth,
    /// The IPv4 header is cut short, or contradicts itself or the length of the frame.
    Ipv4,
    /// The IPv6 header or an extension header is cut short, or contradicts the length of the frame.
    Ipv6,
    /// The TCP, UDP or ICMP header is cut short, or contradicts the length of the packet.
    Transport,
    /// A TCP option ends beyond the header, or its length is wrong for its kind.
    TcpOptions,
}

impl Oddity {
    /// Every oddity.
    pub const ALL: [Self; 6] =
        [Self::Link, Self::Depth, Self::Ipv4, Self::Ipv6, Self::Transport, Self::TcpOptions];

    /// Label in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Depth => "depth",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Transport => "transport",
            Self::TcpOptions => "tcp-options",
        }
    }
}

impl Countable for Oddity {
    const ALL: &'static [Self] = &Self::ALL;

    #[expect(
        clippy::as_conversions,
        reason = "a fieldless enum's discriminant is its index in ALL"
    )]
    fn index(self) -> usize {
        self as usize
    }
}

/// Counts of malformed frames by oddity.
pub type Oddities = CountBy<Oddity, { Oddity::ALL.len() }>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_oddity_has_its_own_count_and_name() {
        let mut oddities = Oddities::default();
        Oddity::ALL.iter().for_each(|oddity| oddities.count(*oddity));
        assert!(oddities.iter().all(|(_, count)| count == 1));
        let mut names: Vec<_> = Oddity::ALL.iter().map(|oddity| oddity.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Oddity::ALL.len());
    }
}
