//! LAN hosts that share a link with the queue discipline `hosts`, which is fair between hosts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::link::Overhead;
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Machine, Packet, Rate, Time};
use tidegate_gateway::policy::PolicySet;
use tidegate_gateway::{Gateway, GatewayConfig};

/// Number of packets of 1,000 bytes that each address sends through an uplink of 8 Mbit/s in a
/// second. `addresses` are pairs: the number of an address, and the MAC address of its station.
/// Each address offers 8 Mbit/s.
fn shares(addresses: &[(u8, u64)]) -> BTreeMap<u8, u32> {
    let config = GatewayConfig {
        rate: [Some(Rate::from_mbps(8)), None],
        overhead: Overhead::default(),
        queue: QdiscSpec::Hosts(Default::default()),
        packets: 16_384,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    };
    let policies = PolicySet::new(Vec::new()).unwrap();
    let mut gateway = Gateway::new(&config, policies, Time::ZERO);
    let mut sent = BTreeMap::new();
    for millis in 0..1_000 {
        let now = Time::from_millis(millis);
        for (address, station) in addresses {
            let mut lan = [0; 16];
            (lan[0], lan[15]) = (0x20, *address);
            let key = FlowKey {
                src: Endpoint::v6(lan, 1_000),
                dst: Endpoint::v6([0x21; 16], 80),
                protocol: Protocol::UDP,
            };
            let network = Network::Ipv6;
            let packet = Packet { len: 1_000, key, network, segments: 1, ..Packet::default() };
            let Some(id) = gateway.pool().insert(packet) else { continue };
            gateway.pool().set_station(&id, *station);
            gateway.handle_packet(now, Gateway::LAN, id);
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            let address = gateway.pool()[&id].key.src.number().to_be_bytes()[15];
            *sent.entry(address).or_default() += 1;
            gateway.pool().release(id);
        }
    }
    sent
}

fn near(packets: u32, expected: u32) -> bool {
    packets.abs_diff(expected) <= 20
}

/// A host with four addresses competes with a host with one address. A queue that is fair between
/// flows gave the host with four addresses 30.2 of 37.7 Mbit/s.
///
/// Catches: each address that counts as a host; packets without a known MAC address (0) that count
/// as one host.
#[test]
fn a_box_with_four_addresses_has_one_share() {
    let sent = shares(&[(1, 7), (2, 7), (3, 7), (4, 7), (5, 8)]);
    assert!(near(sent[&5], 500), "{sent:?}");
    assert!((1..=4).all(|address| near(sent[&address], 125)), "{sent:?}");
    let sent = shares(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]);
    assert!(sent.values().all(|packets| near(*packets, 200)), "without stations: {sent:?}");
}

/// Catches: all computers behind a router that count as one host.
#[test]
fn each_address_behind_a_router_has_a_share() {
    let behind: Vec<_> = (1..=19).map(|address| (address, 7)).chain([(20, 8)]).collect();
    let sent = shares(&behind);
    assert!(sent.values().all(|packets| near(*packets, 50)), "{sent:?}");
}
