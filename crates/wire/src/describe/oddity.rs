//! The kinds of malformed frames.

use tidegate_core::countable;

countable! {
    /// The reason why a frame could not be parsed completely.
    pub enum Oddity, counts Oddities {
        /// The frame ends within an Ethernet, VLAN, PPPoE or MPLS header, or contradicts such a
        /// header.
        Link = "link",
        /// The frame has more VLAN tags or MPLS labels in a row than the parser reads.
        Depth = "depth",
        /// The IPv4 header is cut short, or contradicts itself or the length of the frame.
        Ipv4 = "ipv4",
        /// The IPv6 header or an extension header is cut short, or contradicts the length of the frame.
        Ipv6 = "ipv6",
        /// The TCP, UDP or ICMP header is cut short, or contradicts the length of the packet.
        Transport = "transport",
        /// A TCP option ends beyond the header, or its length is wrong for its kind.
        TcpOptions = "tcp-options",
    }
}

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
