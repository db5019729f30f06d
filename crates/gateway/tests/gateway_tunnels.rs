//! A flow inside a tunnel is a flow of its own for queues, for policies, and for fairness between
//! hosts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::link::Overhead;
use tidegate_core::packet::{
    Endpoint, FlowKey, Fragment, NO_VLAN, Network, Outer, Protocol, Tunnel, TunnelKind,
};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::policy::{
    Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile, Range, Sharers,
};
use tidegate_gateway::report::FlowReport;
use tidegate_gateway::{FlowSurvey, Gateway, GatewayConfig};

fn key(src: u8, dst: u8, port: u16, protocol: Protocol) -> FlowKey {
    let (src, dst) = (Endpoint::v4([10, 0, 0, src], port), Endpoint::v4([10, 9, 0, dst], 80));
    FlowKey { src, dst, protocol }
}

/// A VXLAN tunnel with this identifier, from 192.0.2.1 to 198.51.100.1. Each inner flow has its own
/// source port.
fn vxlan(id: u32, port: u16) -> Outer {
    let (src, dst) = ([192, 0, 2, 1], [198, 51, 100, 1]);
    let (src, dst) = (Endpoint::v4(src, port), Endpoint::v4(dst, 4789));
    let key = FlowKey { src, dst, protocol: Protocol::UDP };
    let mut outer = Outer::default();
    let kind = TunnelKind::Vxlan;
    outer.push(Tunnel { key, kind, id: Some(id), vlan: NO_VLAN, may_edit: true });
    outer
}

fn gateway(rate: Option<Rate>, queue: &str, policies: Vec<Policy>) -> Gateway {
    with_flows(64, rate, queue, policies)
}

fn with_flows(flows: u32, rate: Option<Rate>, queue: &str, policies: Vec<Policy>) -> Gateway {
    let queue: QdiscSpec = toml::from_str::<toml::Table>(&format!("it = {queue:?}")).unwrap()["it"]
        .clone()
        .try_into()
        .unwrap();
    let config = GatewayConfig {
        rate: [rate; 2],
        overhead: Overhead::default(),
        queue,
        packets: 4_096,
        flows,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    };
    Gateway::new(&config, PolicySet::new(policies).unwrap(), Time::ZERO)
}

fn offer(
    gateway: &mut Gateway,
    now: Time,
    port: PortId,
    (key, len): (FlowKey, u32),
    outer: Option<Outer>,
) {
    let packet = Packet { len, key, network: Network::Ipv4, segments: 1, ..Packet::default() };
    let Some(id) = gateway.pool().insert(packet) else { return };
    if let Some(outer) = outer {
        gateway.pool().set_outer(&id, outer);
    }
    gateway.handle_packet(now, port, id);
}

fn flows(gateway: &Gateway) -> Vec<FlowReport> {
    let mut survey = FlowSurvey::of_most(64);
    while gateway.survey_flows(Time::ZERO, &mut survey) {
        survey.sort();
    }
    survey.report()
}

/// The longest delay of small packets in a tunnel. A packet of 100 bytes arrives every 50 ms.
/// Another flow of the tunnel sends 8 Mbit/s, and 5 Mbit/s depart.
fn longest_wait(queue: &str, looked_inside: bool) -> Duration {
    let mut gateway = gateway(Some(Rate::from_mbps(5)), queue, Vec::new());
    let outer = vxlan(7, 40_000);
    let seen =
        |inner| if looked_inside { (inner, Some(outer)) } else { (outer.key().unwrap(), None) };
    let mut longest = Duration::ZERO;
    for tick in 0..2_000_u64 {
        let now = Time::from_micros(tick * 1_000);
        let (bulk, headers) = seen(key(1, 1, 5_000, Protocol::UDP));
        offer(&mut gateway, now, Gateway::LAN, (bulk, 1_000), headers);
        if tick % 50 == 0 {
            let (small, headers) = seen(key(2, 1, 6_000, Protocol::UDP));
            offer(&mut gateway, now, Gateway::LAN, (small, 100), headers);
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            let packet = gateway.pool()[&id];
            if packet.len == 100 {
                longest = longest.max(now.since(packet.arrived));
            }
            gateway.pool().release(id);
        }
    }
    longest
}

/// Catches: the flow of a packet in a tunnel determined by its outer header.
#[test]
fn a_small_packet_does_not_wait_for_a_bulk_flow_of_its_tunnel() {
    for queue in ["fq-codel", "per-flow"] {
        let (inside, outside) = (longest_wait(queue, true), longest_wait(queue, false));
        // A frame of the bulk flow takes 1.6 ms, and the test checks for departures every
        // millisecond.
        assert!(inside <= Duration::from_millis(5), "{queue}: {inside:?}");
        assert!(outside >= Duration::from_millis(100), "{queue}: {outside:?}");
    }
}

/// Catches: a flow key without the VNI, the outer addresses or the direction; a flow key with the
/// outer ports.
#[test]
fn equal_addresses_in_two_tunnels_are_two_flows_and_both_directions_are_one() {
    let mut gateway = gateway(None, "per-flow", Vec::new());
    let inner = key(1, 1, 5_000, Protocol::UDP);
    let mut other = vxlan(7, 40_000);
    other = other.reverse();
    for (port, inner, outer) in [
        (Gateway::LAN, inner, Some(vxlan(7, 40_000))),
        (Gateway::LAN, inner, Some(vxlan(7, 40_001))),
        (Gateway::WAN, inner.reverse(), Some(vxlan(7, 50_000).reverse())),
        (Gateway::LAN, inner, Some(vxlan(8, 40_000))),
        (Gateway::LAN, inner, Some(other)),
        (Gateway::LAN, inner, None),
    ] {
        offer(&mut gateway, Time::ZERO, port, (inner, 500), outer);
    }
    let found: Vec<_> = flows(&gateway)
        .into_iter()
        .map(|it| {
            let tunnel = it.tunnels.first().map(|tunnel| (tunnel.id, tunnel.src.clone()));
            (it.direction.name(), tunnel, it.offered.packets)
        })
        .collect();
    let tunnel = |id, src: &str| Some((Some(id), src.to_owned()));
    let mut expected = vec![
        ("up", tunnel(7, "192.0.2.1:40000"), 2),
        ("down", tunnel(7, "198.51.100.1:40000"), 1),
        ("up", tunnel(8, "192.0.2.1:40000"), 1),
        ("up", tunnel(7, "198.51.100.1:40000"), 1),
        ("up", None, 1),
    ];
    expected.sort();
    let mut found = found;
    found.sort();
    assert_eq!(found, expected);
}

/// Catches: a flow that gets an entry when the flow table is no longer full, and also gets packets
/// of another tunnel that have equal inner addresses.
#[test]
fn a_flow_that_gets_a_table_entry_takes_no_packets_of_another_tunnel() {
    let mut gateway = with_flows(1, Some(Rate::from_mbps(1)), "per-flow", Vec::new());
    let (first, tenant) = (key(2, 1, 1, Protocol::UDP), key(1, 1, 5_000, Protocol::UDP));
    let send = |gateway: &mut Gateway, now, key, outer| {
        offer(gateway, now, Gateway::LAN, (key, 1_000), outer);
    };
    // The first flow has the only table entry until its packets have departed.
    (0..4).for_each(|_| send(&mut gateway, Time::ZERO, first, None));
    (0..40).for_each(|_| send(&mut gateway, Time::ZERO, tenant, Some(vxlan(8, 1))));
    for millis in 0..100 {
        while let Some(id) = gateway.poll_transmit(Time::from_millis(millis), Gateway::WAN) {
            gateway.pool().release(id);
        }
    }
    assert!(gateway.report().held > 20);
    send(&mut gateway, Time::from_millis(100), tenant, Some(vxlan(7, 1)));
    let flow = &flows(&gateway)[0];
    assert_eq!((flow.tunnels[0].id, flow.tunnels[0].vlan), (Some(7), None));
    assert_eq!(flow.offered.packets, 1);
    assert_eq!(flow.waiting_bytes, 1_000, "only its own packet waits");
}

/// Two tenants with equal inner addresses get no entry in the flow table. Later, one of them gets
/// an entry.
///
/// Catches: packets in a tunnel that stay with the untracked packets when their flow gets an entry,
/// and are overtaken by later packets; packets of the other tenant that move with them.
#[test]
fn a_flow_in_a_tunnel_that_gets_a_table_entry_keeps_its_order() {
    let shaped = || {
        let profile = Profile::new(Rate::from_mbps(1), None, Bytes(3_000), Bytes(1_514)).unwrap();
        let (weights, fair_between) = (Vec::new(), Sharers::Flow.into());
        let allocation = tidegate_core::allocation::AllocationSpec::Drr(Default::default());
        let conditioning = Conditioning { profile, allocation, weights, fair_between };
        let queue = QdiscSpec::PerFlow(Default::default());
        policy(
            "all",
            0,
            Filter::default(),
            Action::Shape { conditioning, queue, ack_control: None },
        )
    };
    for (queue, policies) in [
        ("per-flow", vec![]),
        ("fq-codel", vec![]),
        ("hosts", vec![]),
        ("drop-tail", vec![]),
        ("per-flow", vec![shaped()]),
    ] {
        let name = format!("{queue}, {} policies", policies.len());
        let mut gateway = with_flows(1, Some(Rate::from_mbps(1)), queue, policies);
        let (first, tenant) = (key(2, 1, 1, Protocol::UDP), key(1, 1, 5_000, Protocol::UDP));
        let at = |millis: u32| Time::from_millis(millis.into());
        (0..4).for_each(|_| offer(&mut gateway, at(0), Gateway::LAN, (first, 400), None));
        for number in 0..12 {
            for (id, len) in [(7, 1_000 + number), (8, 500 + number)] {
                offer(&mut gateway, at(0), Gateway::LAN, (tenant, len), Some(vxlan(id, 1)));
            }
        }
        let (mut departed, mut tracked, mut number) = ([vec![], vec![]], false, 12);
        for millis in 0..2_000 {
            while let Some(id) = gateway.poll_transmit(at(millis), Gateway::WAN) {
                let len = gateway.pool()[&id].len;
                gateway.pool().release(id);
                departed[usize::from(len >= 1_000)].push(len);
            }
            // The first flow's packets have departed.
            tracked |= departed.iter().flatten().filter(|len| **len == 400).count() == 4;
            if tracked && number < 40 {
                let packet = (tenant, 1_000 + number);
                offer(&mut gateway, at(millis), Gateway::LAN, packet, Some(vxlan(7, 1)));
                number += 1;
            }
        }
        let [others, own] = departed;
        assert!(tracked && own.len() > 12 && own.is_sorted(), "{name}: {own:?}");
        assert!(others.iter().filter(|len| **len != 400).is_sorted(), "{name}: {others:?}");
        assert_eq!(gateway.report().held, 0, "{name}");
    }
}

/// Catches: a flow that is missing in the report because another flow has the same addresses and
/// the same text for its tunnel; a report without the VLAN inside the tunnel.
#[test]
fn flows_that_differ_in_their_inner_vlan_or_their_unknown_ports_are_all_listed() {
    let mut gateway = gateway(None, "per-flow", Vec::new());
    let inner = key(1, 1, 0, Protocol::UDP);
    for vlan in [10, 11] {
        let mut outer = Outer::default();
        outer.push(Tunnel { vlan, ..vxlan(7, 1).tunnels()[0] });
        offer(&mut gateway, Time::ZERO, Gateway::LAN, (inner, 500), Some(outer));
    }
    let mut vlans: Vec<_> = flows(&gateway).iter().map(|it| it.tunnels[0].vlan).collect();
    vlans.sort();
    assert_eq!(vlans, [Some(10), Some(11)]);
    let end = |host| Endpoint::v4([10, 0, 0, host], 0);
    let key = FlowKey { src: end(1), dst: end(2), protocol: Protocol::UDP };
    for fragment in [Fragment::default(), Fragment::later(8)] {
        let packet = Packet { len: 500, key, fragment, segments: 1, ..Packet::default() };
        let id = gateway.pool().insert(packet).unwrap();
        gateway.handle_packet(Time::ZERO, Gateway::LAN, id);
    }
    assert_eq!((flows(&gateway).len(), gateway.report().flows), (4, 4));
}

/// Catches: IPv4 packets of protocol number 0 that are shown as one flow without addresses.
#[test]
fn flows_of_protocol_number_0_are_listed_by_their_addresses() {
    let mut gateway = gateway(None, "per-flow", Vec::new());
    for host in [1, 2] {
        let key = key(host, 1, 0, Protocol(0));
        offer(&mut gateway, Time::ZERO, Gateway::LAN, (key, 500), None);
    }
    let mut found: Vec<_> = flows(&gateway).into_iter().map(|it| it.src).collect();
    found.sort();
    assert_eq!(found, ["10.0.0.1:0", "10.0.0.2:0"]);
}

fn policy(name: &str, priority: i32, filter: Filter, action: Action) -> Policy {
    let (name, mode) = (name.to_owned(), Mode::Enforce);
    Policy { name, priority, filter, action, mode, class: None, trunk: None }
}

fn one<T: Copy>(it: T) -> Vec<Range<T>> {
    vec![Range { first: it, last: it }]
}

/// Catches: inner addresses compared by a filter without `inner`; outer addresses compared by a
/// filter with `inner`; both kinds of filters in the wrong order of precedence; `inner` that has no
/// effect on plain packets.
#[test]
fn policies_match_the_outer_header_and_with_inner_the_inner_header() {
    let from = |number: u128, inner| Filter { src: one(number), inner, ..Filter::default() };
    let (outer, inner) = (vxlan(7, 40_000), key(1, 1, 5_000, Protocol::TCP));
    let number = |key: FlowKey| key.src.number();
    let outer_key = outer.key().unwrap();
    let vxlan_port = Filter { dst_port: one(4789), ..Filter::default() };
    let tcp_inside = Filter { protocol: one(6), inner: true, ..Filter::default() };
    let set = |policies: &[(&str, i32, Filter)]| {
        let policies = policies.iter();
        let all = policies
            .map(|(name, priority, filter)| policy(name, *priority, filter.clone(), Action::Pass));
        PolicySet::new(all.collect()).unwrap()
    };
    let plain = Packet { key: inner, network: Network::Ipv4, vlan: NO_VLAN, ..Packet::default() };
    let name = |set: &PolicySet, outer: Option<&Outer>| {
        let found = set.lookup_inside(&plain, outer, tidegate_core::packet::Direction::Up);
        let slow = set.matching_inside(&plain, outer, tidegate_core::packet::Direction::Up).next();
        assert_eq!(found, slow);
        found.and_then(|at| set.get(at)).map(|policy| policy.name.clone())
    };
    let named = |name: &str| Some(name.to_owned());
    let by_inner_address = set(&[("a", 0, from(number(inner), false))]);
    assert_eq!(name(&by_inner_address, Some(&outer)), None);
    assert_eq!(name(&by_inner_address, None), named("a"));
    let by_outer_address = set(&[("a", 0, from(number(outer_key), false))]);
    assert_eq!(name(&by_outer_address, Some(&outer)), named("a"));
    let inside =
        set(&[("a", 0, from(number(inner), true)), ("b", 1, from(number(outer_key), true))]);
    assert_eq!(name(&inside, Some(&outer)), named("a"));
    assert_eq!(name(&inside, None), named("a"));
    for (first, winner) in [(1, "port"), (-1, "tcp")] {
        let both = set(&[("port", first, vxlan_port.clone()), ("tcp", 0, tcp_inside.clone())]);
        assert_eq!(name(&both, Some(&outer)), named(winner));
        assert_eq!(name(&both, None), named("tcp"));
    }
    assert!(!from(1, false).covers(&from(1, true)) && !from(1, true).covers(&from(1, false)));
    assert!(Filter::default().covers(&from(1, true)) && from(1, true).covers(&from(1, true)));
}

/// Catches: all hosts in a tunnel that count as one host; a policy selected by the inner header.
#[test]
fn hosts_in_a_tunnel_share_fairly_for_any_number_of_flows() {
    let profile = Profile::new(Rate::from_mbps(8), None, Bytes(3_000), Bytes(1_514)).unwrap();
    let conditioning = Conditioning {
        profile,
        allocation: tidegate_core::allocation::AllocationSpec::Drr(Default::default()),
        weights: Vec::new(),
        fair_between: Sharers::SourceHost.into(),
    };
    let queue = QdiscSpec::PerFlow(Default::default());
    let action = Action::Shape { conditioning, queue, ack_control: None };
    let outer = vxlan(7, 40_000);
    let filter = Filter { src: one(outer.key().unwrap().src.number()), ..Filter::default() };
    let mut gateway = gateway(None, "per-flow", vec![policy("all", 0, filter, action)]);
    let mut departed = BTreeMap::new();
    for millis in 0..1_000 {
        let now = Time::from_millis(millis);
        for (host, port) in [(1, 1), (1, 2), (1, 3), (2, 1)] {
            let inner = key(host, 1, port, Protocol::UDP);
            offer(&mut gateway, now, Gateway::LAN, (inner, 1_000), Some(outer));
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            let host = gateway.pool()[&id].key.src.number().to_be_bytes()[15];
            *departed.entry(host).or_insert(0_u32) += 1;
            gateway.pool().release(id);
        }
    }
    assert!(departed[&1].abs_diff(500) <= 20 && departed[&2].abs_diff(500) <= 20, "{departed:?}");
}
