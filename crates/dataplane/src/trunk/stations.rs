//! Learns the MAC address of each station (host) on the LAN side from the frames that it sends, as
//! a switch does. No ARP requests are needed.

use std::collections::HashMap;
use std::net::IpAddr;

use tidegate_core::Packet;
use tidegate_core::packet::Network;
use tidegate_wire::VlanTag;
use tidegate_wire::neighbour::Mac;

use super::ARP;

/// The MAC address and VLAN tag to which frames for an IP address are sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Station {
    pub(super) mac: Mac,
    /// The VLAN tag of its frames.
    pub(super) tag: Option<VlanTag>,
}

/// The stations that sent frames most recently, in two halves. When the younger half is full, it
/// replaces the older half.
#[derive(Debug, Default)]
pub(super) struct Stations {
    /// Stations that sent frames since the younger half was last emptied.
    young: HashMap<IpAddr, Station>,
    old: HashMap<IpAddr, Station>,
}

/// Largest number of stations in one half.
const HALF: usize = 4_096;

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;

impl Stations {
    /// The station that last used this address.
    pub(super) fn find(&self, address: IpAddr) -> Option<Station> {
        self.young.get(&address).or_else(|| self.old.get(&address)).copied()
    }

    /// Learns the sender of `frame`. `frame` goes from the LAN side to the other side.
    pub(super) fn learn(&mut self, frame: &[u8], described: &Packet) {
        let Some((address, station)) = sender(frame, described) else { return };
        if self.young.get(&address) == Some(&station) {
            return;
        }
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(address, station);
    }
}

/// The IP address of the station that sends `frame`, and where the station is.
fn sender(frame: &[u8], described: &Packet) -> Option<(IpAddr, Station)> {
    let mac = *frame.get(6..)?.first_chunk()?;
    let tag = VlanTag::of(frame);
    let station = Station { mac, tag };
    let link = ETHERNET + if tag.is_some() { 4 } else { 0 };
    let address = match described.network {
        Network::Opaque if described.key.src.port == ARP => {
            IpAddr::from(*frame.get(usize::from(link) + SENDER..)?.first_chunk::<4>()?)
        }
        Network::Opaque => return None,
        _ => Some(described.key.src.address()).filter(|_| described.network_offset == link)?,
    };
    let one = match address {
        IpAddr::V4(it) => !it.is_unspecified() && !it.is_multicast() && !it.is_broadcast(),
        IpAddr::V6(it) => !it.is_unspecified() && !it.is_multicast(),
    };
    (one && mac[0] & 1 == 0).then_some((address, station))
}

/// Offset of the sender's IP address in an ARP message (RFC 826).
const SENDER: usize = 14;

#[cfg(test)]
mod tests {
    use tidegate_wire::build::{Frame, Link};
    use tidegate_wire::describe;

    use super::*;

    fn learn(stations: &mut Stations, frame: &Frame) {
        let (bytes, mut packet) = (frame.bytes(), Packet::default());
        describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut packet);
        stations.learn(&bytes, &packet);
    }

    fn datagram(from: &str, mac: u8) -> Frame {
        let frame = Frame::udp(from.parse().unwrap(), "10.9.0.1:1".parse().unwrap());
        Frame { source: [2, 0, 0, 0, 0, mac], ..frame }
    }

    /// Catches: a station that is learnt without its VLAN tag; a station that moved but is still
    /// reached at its first MAC address; ARP frames from which no station is learnt.
    #[test]
    fn a_station_has_the_address_of_its_latest_frame() {
        let mut stations = Stations::default();
        let at = |last: u8| IpAddr::from([10, 0, 0, last]);
        learn(&mut stations, &datagram("10.0.0.1:9", 1));
        learn(&mut stations, &datagram("10.0.0.1:9", 2));
        let mut tagged = datagram("10.0.0.2:9", 3);
        tagged.link.push(Link::vlan(7));
        learn(&mut stations, &tagged);
        let arp =
            [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[2, 0, 0, 0, 0, 4], &[10, 0, 0, 3], &[0; 28]].concat();
        learn(&mut stations, &Frame { source: [2, 0, 0, 0, 0, 4], ..Frame::opaque(ARP, arp) });
        let found = [1, 2, 3].map(|last| stations.find(at(last)).map(|it| (it.mac[5], it.tag)));
        let tag = VlanTag { tpid: 0x8100, tci: 7 };
        assert_eq!(found, [Some((2, None)), Some((3, Some(tag))), Some((4, None))]);
        assert_eq!(stations.find(at(4)), None);
    }

    #[test]
    fn the_number_of_stations_is_bounded_and_the_latest_are_known() {
        let mut stations = Stations::default();
        for number in 0..20_000u32 {
            let [_, _, high, low] = number.to_be_bytes();
            learn(&mut stations, &datagram(&format!("10.1.{high}.{low}:9"), 1));
        }
        assert!(stations.young.len() + stations.old.len() <= 2 * HALF);
        assert!(stations.find([10, 1, 0x4e, 0x1f].into()).is_some());
    }

    #[test]
    fn no_station_is_learnt_from_group_addresses_and_ppp_sessions() {
        let mut stations = Stations::default();
        let mut session = datagram("10.0.0.1:9", 1);
        session.link.push(Link::Pppoe(1));
        let group = Frame { source: [3, 0, 0, 0, 0, 1], ..datagram("10.0.0.1:9", 1) };
        for frame in [session, group, datagram("0.0.0.0:9", 1)] {
            learn(&mut stations, &frame);
        }
        assert!(stations.young.is_empty());
    }
}
