//! The headers of trunk datagrams: a template is built once, and completed for each datagram.

use tidegate_core::Packet;
use tidegate_core::packet::{Endpoint, FlowKey, Protocol};

use super::Ends;
use crate::build::{Frame, Link};
use crate::neighbour::Mac;
use crate::rewrite::{traffic_class, write};
use crate::{VlanTag, checksum};

/// Template of the headers from Ethernet to UDP for the datagrams that one end sends.
#[derive(Clone, Debug)]
pub struct Envelope {
    headers: Vec<u8>,
    /// Offsets of the IP header and of the UDP header.
    network: usize,
    transport: usize,
    /// Precomputed checksums: of the pseudo header without its length, and of the IPv4 header
    /// fields that are equal in all datagrams.
    addresses: u16,
    network_sum: u16,
}

/// Bytes of a UDP header (RFC 768).
const UDP: usize = 8;

impl Envelope {
    /// The template for datagrams from the MAC address `source` and between `ends`, with an
    /// optional VLAN tag.
    #[must_use]
    pub fn new(ends: Ends, source: Mac, tag: Option<VlanTag>) -> Self {
        let Ends { local, peer, port } = ends;
        let datagram = Frame::udp((local, port).into(), (peer, port).into());
        let link: Vec<_> = tag.map(Link::Vlan).into_iter().collect();
        let network = 14 + VlanTag::LEN * link.len();
        let mut headers = Frame { source, link, ..datagram }.bytes();
        let ip = headers.get_mut(network..).and_then(|it| it.first_chunk_mut::<IPV4>());
        let network_sum = ip.filter(|_| local.is_ipv4()).map_or(0, |ip| {
            [0, 2, 4, 6, 10].into_iter().for_each(|at| write(ip, at, 0));
            checksum::sum(0, ip)
        });
        let [src, dst] = [local, peer].map(|it| Endpoint::at(it, port));
        let key = FlowKey { src, dst, protocol: Protocol::UDP };
        let addresses = checksum::pseudo_header(&key, 0);
        let transport = headers.len() - UDP;
        set(&mut headers, transport + 6, 0); // Sums of datagrams must not include it.
        Self { headers, network, transport, addresses, network_sum }
    }

    /// Length of all headers.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.transport + UDP
    }

    /// Writes the headers of `frame`, whose payload is already in place. `next_hop` is the
    /// destination MAC address.
    ///
    /// The IP header gets the DSCP and ECN fields of `packet`. If `user` is the number of a user
    /// packet, an IPv4 header gets the DF bit and the lower 16 bits of this number as
    /// identification. Returns the UDP checksum. `None` if the frame is shorter than the headers,
    /// or too long for a length field.
    #[must_use]
    pub fn write(
        &self,
        frame: &mut [u8],
        next_hop: Mac,
        packet: &Packet,
        user: Option<u64>,
    ) -> Option<u16> {
        frame.get_mut(..self.size())?.copy_from_slice(&self.headers);
        frame.get_mut(..6)?.copy_from_slice(&next_hop);
        let datagram = u16::try_from(frame.len() - self.transport).ok()?;
        let ip = frame.get_mut(self.network..self.transport)?;
        let class = traffic_class(packet);
        if let Ok(ip) = <&mut [u8; IPV4]>::try_from(&mut *ip) {
            let whole = u16::try_from(IPV4).ok()?.checked_add(datagram)?;
            let number = u16::try_from(user.unwrap_or(0) & 0xffff).ok()?;
            let words = [0x4500 | class, whole, number, u16::from(user.is_some()) << 14];
            let first = words.iter().fold(0, |all, word| all << 16 | u64::from(*word));
            ip[..8].copy_from_slice(&first.to_be_bytes());
            write(ip, 10, !checksum::add(self.network_sum, words));
        } else {
            set(ip, 0, 0x6000 | class << 4);
            set(ip, 4, datagram);
        }
        let udp = frame.get_mut(self.transport..)?;
        set(udp, 4, datagram);
        let sum = match !checksum::sum(checksum::add(self.addresses, [datagram]), udp) {
            0 => u16::MAX, // Zero would mean that the datagram has no checksum (RFC 768).
            sum => sum,
        };
        set(udp, 6, sum);
        Some(sum)
    }
}

/// Length of an IPv4 header without options.
const IPV4: usize = 20;

fn set(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::packet::Ecn;

    use super::*;

    proptest! {
        /// The frame is equal, byte for byte, to a frame that `build` makes from the same fields.
        ///
        /// Catches: a length, codepoint, identification or tag that is not filled in; a checksum
        /// that includes old values of the template.
        #[test]
        fn a_frame_equals_the_frame_that_is_built_from_its_fields(
            v6 in any::<bool>(), vlan in prop::option::of(1u16..4_095), dscp in 0u8..64, ecn in 0usize..4,
            user in prop::option::of(any::<u64>()), payload in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let both = if v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] };
            let [local, peer] = both.map(|it| it.parse().unwrap());
            let (ends, tag) = (Ends { local, peer, port: 4_754 }, vlan.map(VlanTag::of_vlan));
            let (source, destination) = ([2, 0, 0, 0, 0, 8], [2, 0, 0, 0, 0, 9]);
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][ecn];
            let mut made = Frame::udp((local, 4_754).into(), (peer, 4_754).into());
            let ip = made.ip_mut().unwrap();
            (ip.dscp, ip.ecn, ip.whole) = (dscp, ecn, user.is_some());
            ip.identification = u16::try_from(user.unwrap_or(0) & 0xffff).unwrap();
            let link = tag.map(Link::Vlan).into_iter().collect();
            let made = Frame { source, destination, link, payload: payload.clone(), ..made }.bytes();
            let envelope = Envelope::new(ends, source, tag);
            let mut frame = [vec![0xff; envelope.size()], payload].concat();
            let like = Packet { dscp, ecn, ..Packet::default() };
            let sum = envelope.write(&mut frame, destination, &like, user);
            let at = envelope.size() - 2;
            prop_assert_eq!(sum, Some(u16::from_be_bytes([made[at], made[at + 1]])));
            prop_assert_eq!(frame, made);
        }
    }
}
