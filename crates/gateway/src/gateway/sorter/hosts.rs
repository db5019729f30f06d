//! The hosts of the LAN, for queues that share the rate between hosts.
//!
//! A host may have several IP addresses, all with one MAC address. So all IP addresses that are seen with one source MAC
//! address in one VLAN (a *station*) are one host. A station with more than [`MOST_ADDRESSES`] addresses is a router, and
//! each address behind it is a host of its own. An address is forgotten with its last flow in the flow table.
//!
//! The MAC address is read from the first packet that a flow sends towards the WAN. Later packets of the flow need no
//! look-up.
//!
//! This file also contains methods of `Sorter`, whose fields are in `sorter.rs`.

use std::collections::BTreeMap;

use tidegate_core::packet::{Direction, FlowHosts, FlowId, Host, Network, number, slot};
use tidegate_core::{PacketId, PacketPool};

use super::Sorter;

/// Addresses, stations and the numbers of their hosts.
#[derive(Debug, Default)]
pub(super) struct LanHosts {
    numbers: BTreeMap<VlanAddress, u32>,
    /// The addresses, by index.
    addresses: Vec<Address>,
    free: Vec<u32>,
    stations: BTreeMap<Station, Behind>,
    /// The largest host number that was assigned. The numbers in `free_hosts` are free again.
    last_host: u32,
    free_hosts: Vec<Host>,
}

/// An address in a VLAN.
type VlanAddress = (u128, u16);

/// A link-layer address in a VLAN.
type Station = (u64, u16);

/// An address that has flows.
#[derive(Clone, Copy, Debug, Default)]
struct Address {
    key: VlanAddress,
    flows: u32,
    station: Option<Station>,
    /// The host of this address alone. `None` if the address shares the host of its station.
    own: Option<Host>,
}

/// The addresses seen behind a station.
#[derive(Debug)]
enum Behind {
    /// The addresses are one host.
    Host(Host, Vec<u32>),
    /// Each address is a separate host. The field is the number of addresses.
    Router(u32),
}

impl LanHosts {
    /// Notes that `flow` is a new flow of the LAN address `key`.
    fn join(&mut self, hosts: &mut FlowHosts, flow: FlowId, key: VlanAddress) {
        let address = match self.numbers.get(&key) {
            Some(address) => *address,
            None => self.add(hosts, key),
        };
        self.addresses[slot(address)].flows += 1;
        hosts.set_address(flow, Some(address));
    }

    /// Notes that `flow` has expired.
    pub(super) fn leave(&mut self, hosts: &mut FlowHosts, flow: FlowId) {
        let address = hosts.address(flow);
        hosts.set_address(flow, None);
        let Some(address) = address else { return };
        let known = &mut self.addresses[slot(address)];
        known.flows -= 1;
        if known.flows > 0 {
            return;
        }
        let key = known.key;
        self.leave_station(hosts, address);
        self.free_hosts.extend(self.addresses[slot(address)].own.take());
        self.numbers.remove(&key);
        self.free.push(address);
    }

    fn add(&mut self, hosts: &mut FlowHosts, key: VlanAddress) -> u32 {
        let address = self.free.pop().unwrap_or_else(|| number(self.addresses.len()));
        if slot(address) == self.addresses.len() {
            self.addresses.push(Address::default());
        }
        self.addresses[slot(address)] = Address { key, ..Address::default() };
        self.numbers.insert(key, address);
        self.stand_alone(hosts, address);
        address
    }

    /// Makes an address a host of its own.
    fn stand_alone(&mut self, hosts: &mut FlowHosts, address: u32) {
        let known = self.addresses[slot(address)].own;
        let host = known.unwrap_or_else(|| self.new_host());
        self.addresses[slot(address)].own = Some(host);
        hosts.set_host(address, host);
    }

    fn new_host(&mut self) -> Host {
        self.free_hosts.pop().unwrap_or_else(|| {
            self.last_host += 1;
            Host(self.last_host)
        })
    }

    /// Notes that `address` was seen behind `station`.
    fn learn(&mut self, hosts: &mut FlowHosts, address: u32, station: Station) {
        if self.addresses[slot(address)].station == Some(station) {
            return;
        }
        self.leave_station(hosts, address);
        self.addresses[slot(address)].station = Some(station);
        let mut behind = match self.stations.remove(&station) {
            Some(behind) => behind,
            None => Behind::Host(self.new_host(), Vec::new()),
        };
        behind = match behind {
            Behind::Router(count) => Behind::Router(count + 1),
            Behind::Host(host, mut addresses) if addresses.len() < MOST_ADDRESSES => {
                addresses.push(address);
                self.free_hosts.extend(self.addresses[slot(address)].own.take());
                hosts.set_host(address, host);
                Behind::Host(host, addresses)
            }
            Behind::Host(host, addresses) => {
                addresses.iter().for_each(|each| self.stand_alone(hosts, *each));
                self.free_hosts.push(host);
                Behind::Router(number(addresses.len()) + 1)
            }
        };
        self.stations.insert(station, behind);
    }

    /// Notes that `address` is no longer behind its station.
    fn leave_station(&mut self, hosts: &mut FlowHosts, address: u32) {
        let Some(station) = self.addresses[slot(address)].station.take() else { return };
        let left = match self.stations.remove(&station) {
            Some(Behind::Host(host, mut addresses)) => {
                addresses.retain(|each| *each != address);
                if addresses.is_empty() {
                    self.free_hosts.push(host);
                    None
                } else {
                    Some(Behind::Host(host, addresses))
                }
            }
            Some(Behind::Router(count)) if count > 1 => Some(Behind::Router(count - 1)),
            _ => None,
        };
        if let Some(left) = left {
            self.stations.insert(station, left);
        }
        self.stand_alone(hosts, address);
    }
}

impl Sorter {
    /// Records the host of `flow`. `id` is its first packet in `direction`, or the first after a
    /// change of policies. If the flow is ACK-controlled in this direction, or its tunnel numbers
    /// its packets, its ACKs stay whole.
    pub(in crate::gateway) fn note_host(
        &mut self,
        pool: &mut PacketPool,
        direction: Direction,
        flow: FlowId,
        id: &PacketId,
        controlled: bool,
    ) {
        let packet = &pool[id];
        let end = if direction == Direction::Up { packet.key.src } else { packet.key.dst };
        let (address, vlan) = (end.number(), packet.vlan);
        let opaque = packet.network == Network::Opaque;
        let station = pool.station(id);
        let numbered = pool.outer(id).is_some_and(|outer| !outer.may_edit());
        let hosts = pool.hosts_mut();
        hosts.keep_acks(flow, direction, controlled || numbered);
        if opaque {
            return;
        }
        if hosts.address(flow).is_none() {
            self.lan_hosts.join(hosts, flow, (address, vlan));
        }
        if let (Direction::Up, 1.., Some(address)) = (direction, station, hosts.address(flow)) {
            self.lan_hosts.learn(hosts, address, (station, vlan));
        }
    }
}

/// Most addresses of one host: an IPv4 address, and temporary and stable IPv6 addresses of several prefixes.
///
/// Source: RFC 7934, section 9: at least 10 IPv6 addresses.
const MOST_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use tidegate_core::packet::NO_VLAN;

    use super::*;

    struct Lan {
        known: LanHosts,
        hosts: FlowHosts,
    }

    impl Lan {
        /// A flow of the address number `host`, seen behind `station`, or first in the direction down.
        fn flow(&mut self, flow: u32, host: u8, station: u64) -> Host {
            let flow = FlowId(flow);
            if self.hosts.address(flow).is_none() {
                self.known.join(&mut self.hosts, flow, (host.into(), NO_VLAN));
            }
            if let (1.., Some(address)) = (station, self.hosts.address(flow)) {
                self.known.learn(&mut self.hosts, address, (station, NO_VLAN));
            }
            self.hosts.of(flow)
        }

        fn leave(&mut self, flow: u32) {
            self.known.leave(&mut self.hosts, FlowId(flow));
        }
    }

    fn lan() -> Lan {
        Lan { known: LanHosts::default(), hosts: FlowHosts::default() }
    }

    /// Catches: a host for each address of a station; a flow that came from the WAN first and keeps its host
    /// when its station is seen; one station for all addresses.
    #[test]
    fn the_addresses_of_one_station_are_one_host() {
        let mut lan = lan();
        let first = lan.flow(0, 1, 7);
        let from_outside = lan.flow(1, 2, 0);
        assert_ne!(first, from_outside);
        assert_eq!(lan.flow(2, 2, 7), first);
        assert_eq!(lan.hosts.of(FlowId(1)), first, "the flow that came first from outside");
        assert_ne!(lan.flow(3, 3, 8), first);
        assert_eq!(lan.hosts.of(FlowId(9)), Host::UNKNOWN);
    }

    /// Catches: a limit of 15 or 17 addresses; flows of the first addresses that remain one host; a router
    /// that is a host again after one of its addresses expired.
    #[test]
    fn a_station_with_more_than_16_addresses_is_a_router() {
        let mut lan = lan();
        let one = lan.flow(0, 0, 7);
        (1..16).for_each(|host| assert_eq!(lan.flow(host.into(), host, 7), one));
        lan.flow(16, 16, 7);
        let of = |lan: &Lan| (0..17).map(|flow| lan.hosts.of(FlowId(flow))).collect::<Vec<_>>();
        let mut all = of(&lan);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 17);
        lan.leave(16);
        lan.leave(15);
        let again = lan.flow(15, 15, 7);
        assert!(of(&lan).iter().filter(|host| **host == again).count() == 1, "{:?}", of(&lan));
    }

    /// Catches: numbers that are given to two hosts; numbers that are never free again.
    #[test]
    fn numbers_of_hosts_are_used_again_by_one_host_at_a_time() {
        let mut lan = lan();
        for round in 0..50u32 {
            for host in 0..20u8 {
                lan.flow(host.into(), host, u64::from(host % 5) + u64::from(round % 3));
            }
            let stations = |flow: u32| u64::from(flow % 5) + u64::from(round % 3);
            for (a, b) in (0..20).flat_map(|a| (0..a).map(move |b| (a, b))) {
                let same = lan.hosts.of(FlowId(a)) == lan.hosts.of(FlowId(b));
                let expected = stations(a) == stations(b) && stations(a) != 0;
                assert_eq!(same, expected, "{round}: {a} and {b}");
            }
            (0..20).for_each(|flow| lan.leave(flow));
            assert!(lan.known.stations.is_empty() && lan.known.numbers.is_empty());
        }
        assert!(lan.known.last_host < 64, "{}", lan.known.last_host);
    }
}
