//! Fairness between hosts: more flows do not increase the share of a host.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::link::Overhead;
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, Rate, Time};
use tidegate_gateway::policy::{
    Action, Conditioning, FairBetween, Filter, Mode, Policy, PolicySet, Profile, Sharers,
};
use tidegate_gateway::{Gateway, GatewayConfig};

fn policies(fair_between: impl Into<FairBetween>, allocation: &str) -> PolicySet {
    let profile = Profile::new(Rate::from_mbps(8), None, Bytes(3_000), Bytes(1_514)).unwrap();
    let table = toml::from_str::<toml::Table>(&format!("it = {allocation:?}")).unwrap();
    let allocation = table["it"].clone().try_into().unwrap();
    let conditioning = Conditioning {
        profile,
        allocation,
        weights: Vec::new(),
        fair_between: fair_between.into(),
    };
    let queue = QdiscSpec::PerFlow(Default::default());
    let policy = Policy {
        name: "all".to_owned(),
        priority: 0,
        filter: Filter::default(),
        action: Action::Shape { conditioning, queue, ack_control: None },
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    };
    PolicySet::new(vec![policy]).unwrap()
}

/// Number of packets of 1,000 bytes that each source host sends through 8 Mbit/s in a second. Host
/// 10.0.0.1 has three flows to different hosts, and host 10.0.0.2 has one flow.
fn shares(fair_between: impl Into<FairBetween>, allocation: &str) -> BTreeMap<u8, u32> {
    let config = GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: QdiscSpec::PerFlow(Default::default()),
        packets: 4_096,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    };
    let mut gateway = Gateway::new(&config, policies(fair_between, allocation), Time::ZERO);
    let mut left = BTreeMap::new();
    let mut offered = 0;
    for millis in 0..1_000 {
        let now = Time::from_millis(millis);
        for (host, to) in [(1, 1), (1, 2), (1, 3), (2, 1)] {
            let src = Endpoint::v4([10, 0, 0, host], 1_000);
            let dst = Endpoint::v4([192, 0, 2, to], 80);
            let key = FlowKey { src, dst, protocol: Protocol::UDP };
            let network = Network::Ipv4;
            let packet = Packet { len: 1_000, key, network, segments: 1, ..Packet::default() };
            let id = gateway.pool().insert(packet).unwrap();
            gateway.handle_packet(now, Gateway::LAN, id);
            offered += 1;
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            let host = gateway.pool()[&id].key.src.number().to_be_bytes()[15];
            *left.entry(host).or_default() += 1;
            gateway.pool().release(id);
        }
    }
    let report = gateway.report();
    let out: u32 = left.values().sum();
    assert_eq!(offered, u64::from(out) + report.drops.total() + u64::from(report.held));
    left
}

/// Catches: a share for each flow of a host; source and destination hosts exchanged.
#[test]
fn the_share_of_a_host_does_not_depend_on_its_number_of_flows() {
    for allocation in ["drr", "logical-partitions"] {
        let near = |host: u32, expected: u32| host.abs_diff(expected) <= 20;
        let flows = shares(Sharers::Flow, allocation);
        assert!(near(flows[&1], 750) && near(flows[&2], 250), "{allocation}: {flows:?}");
        let hosts = shares(Sharers::SourceHost, allocation);
        assert!(near(hosts[&1], 500) && near(hosts[&2], 500), "{allocation}: {hosts:?}");
        // There are three receivers. Both senders share one of them, and 10.0.0.1 alone sends to
        // the other two.
        let to = shares(Sharers::DestinationHost, allocation);
        assert!(near(to[&1], 833) && near(to[&2], 167), "{allocation}: {to:?}");
        let pairs = shares(Sharers::Hosts, allocation);
        assert!(near(pairs[&1], 750) && near(pairs[&2], 250), "{allocation}: {pairs:?}");
    }
}

/// Catches: a prefix length that is ignored; source addresses compared in place of
/// destination addresses; 64 bits compared although the prefix has 56.
#[test]
fn addresses_with_the_same_prefix_are_one_host() {
    let packet = |subnet: u8, host: u8| {
        let mut address = [0x20, 1, 0xd, 0xb8, 0, 0, 7, subnet, 0, 0, 0, 0, 0, 0, 0, host];
        let dst = Endpoint::v6(address, 1);
        address[0] = host;
        let key = FlowKey { src: Endpoint::v6(address, 1), dst, protocol: Protocol::UDP };
        Packet { key, network: Network::Ipv6, ..Packet::default() }
    };
    let between = |ipv6| FairBetween { by: Sharers::DestinationHost, ipv6 };
    let same =
        |ipv6, one: Packet, other: Packet| between(ipv6).key(&one) == between(ipv6).key(&other);
    let [one, beside, other] = [packet(1, 1), packet(1, 2), packet(2, 1)];
    assert!(same(56, one, beside) && same(56, one, other));
    assert!(same(64, one, beside) && !same(64, one, other));
    assert!(!same(128, one, beside) && !same(128, one, other));
}
