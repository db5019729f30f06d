//! The selection of the policy for a packet. A policy has a filter of header fields and a priority.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use tidegate_core::packet::{
    Direction, Endpoint, FlowKey, Fragment, NO_VLAN, Network, Outer, Protocol, Tunnel, TunnelKind,
};
use tidegate_core::{Bytes, Packet, Rate};
use tidegate_gateway::policy::{
    Action, Conditioning, Exceed, Filter, FlowWeight, Mode, Policy, PolicySet, Profile, Range,
    parse,
};

/// A TCP packet between two IPv4 endpoints.
fn packet(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> Packet {
    let (src, dst) = (Endpoint::v4(src.0, src.1), Endpoint::v4(dst.0, dst.1));
    let key = FlowKey { src, dst, protocol: Protocol::TCP };
    Packet { key, network: Network::Ipv4, ..Packet::default() }
}

fn policy(name: &str, priority: i32, filter: Filter) -> Policy {
    Policy {
        name: name.into(),
        priority,
        filter,
        action: Action::Pass,
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    }
}

fn winner<'s>(set: &'s PolicySet, packet: &Packet) -> Option<&'s str> {
    let index = set.lookup(packet, Direction::Up)?;
    Some(set.get(index)?.name.as_str())
}

fn from(text: &str) -> Filter {
    Filter { src: parse::addresses(text).unwrap(), ..Filter::default() }
}

/// The policies of `aggregates`, Table 1, with mean and peak rate in kbit/s, and burst in kB.
fn table_1() -> Vec<Policy> {
    let conditioning = |mean, peak, burst: u64, allocation: &str| Conditioning {
        profile: Profile::new(
            Rate::from_kbps(mean),
            Some(Rate::from_kbps(peak)),
            Bytes(burst * 1_000),
            Bytes(1_514),
        )
        .unwrap(),
        allocation: named(allocation),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    let shape = |mean, peak, burst| Action::Shape {
        conditioning: conditioning(mean, peak, burst, "logical-partitions"),
        queue: named("per-flow"),
        ack_control: None,
    };
    let mark = Action::Police {
        conditioning: conditioning(100, 100, 10, "partitioned"),
        exceed: Exceed::Mark { in_profile: Some(10), out_of_profile: 0 },
    };
    let port = vec![parse::ports("80").unwrap()];
    let dst = parse::addresses("141.213.8.108").unwrap();
    vec![
        Policy { action: mark, ..policy("row 1", 0, from("128.34.16.4")) },
        Policy {
            action: shape(1_000, 2_000, 20),
            ..policy("row 2", 0, Filter { src_port: port, ..from("128.34.16.8") })
        },
        Policy {
            action: shape(100, 300, 30),
            ..policy("row 3", 0, Filter { dst, ..from("128.34.16.4") })
        },
    ]
}

fn named<T: for<'de> serde::Deserialize<'de>>(name: &str) -> T {
    let text = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
    T::deserialize(text).unwrap()
}

#[test]
fn the_three_policies_of_table_1_classify_as_printed() {
    let set = PolicySet::new(table_1()).unwrap();
    let (server, web) = ([128, 34, 16, 4], [128, 34, 16, 8]);
    let client = [141, 213, 8, 108];
    assert_eq!(winner(&set, &packet((server, 20), ([1, 2, 3, 4], 5))), Some("row 1"));
    assert_eq!(winner(&set, &packet((server, 20), (client, 5))), Some("row 3"));
    assert_eq!(winner(&set, &packet((web, 80), (client, 5))), Some("row 2"));
    assert_eq!(winner(&set, &packet((web, 81), (client, 5))), None);
    assert_eq!(winner(&set, &packet((client, 5), (server, 20))), None);
    let packet = packet((server, 20), (client, 5));
    let all: Vec<_> = set.matching(&packet, Direction::Up).collect();
    assert_eq!(all, ["row 3", "row 1"].map(|name| set.find(name).unwrap()));
}

#[test]
fn priority_precedes_specificity_which_precedes_the_name() {
    let wide = || from("10.0.0.0/8");
    let names = |policies| {
        let set = PolicySet::new(policies).unwrap();
        set.policies().iter().map(|policy| policy.name.clone()).collect::<Vec<_>>()
    };
    let narrow = policy("z", 0, from("10.0.0.0/24"));
    assert_eq!(names(vec![policy("a", 0, wide()), narrow.clone()]), ["z", "a"]);
    assert_eq!(names(vec![policy("a", 1, wide()), narrow.clone()]), ["a", "z"]);
    assert_eq!(names(vec![policy("b", 0, wide()), policy("a", 0, wide())]), ["a", "b"]);
}

#[test]
fn two_policies_of_one_name_are_refused() {
    let twice = vec![policy("web", 0, Filter::default()), policy("web", 1, from("10.0.0.1"))];
    let error = PolicySet::new(twice).unwrap_err();
    assert_eq!(error.to_string(), "two policies are called \"web\"; give each its own name");
}

#[test]
fn an_empty_set_has_no_policy_for_any_packet() {
    assert_eq!(winner(&PolicySet::default(), &Packet::default()), None);
}

#[test]
fn frames_that_are_not_ip_have_no_addresses_and_icmp_has_no_ports() {
    let any = Range { first: 0, last: u128::MAX };
    let ports = vec![Range { first: 0, last: u16::MAX }];
    let set = |filter| PolicySet::new(vec![policy("it", 0, filter)]).unwrap();
    let opaque = Packet::default();
    assert_eq!(winner(&set(Filter { src: vec![any], ..Filter::default() }), &opaque), None);
    assert_eq!(
        winner(
            &set(Filter { dscp: parse::dscp("0").into_iter().collect(), ..Filter::default() }),
            &opaque
        ),
        None
    );
    assert_eq!(winner(&set(Filter::default()), &opaque), Some("it"));
    let mut ping = packet(([10, 0, 0, 1], 443), ([10, 0, 0, 2], 443));
    ping.key.protocol = Protocol::ICMP;
    assert_eq!(winner(&set(Filter { dst_port: ports, ..Filter::default() }), &ping), None);
}

/// Catches: an IP packet of protocol 0 that counts as a frame without IP; a frame without IP that
/// matches ranges of protocols.
#[test]
fn an_ip_packet_of_protocol_zero_has_addresses() {
    let set = |filter| PolicySet::new(vec![policy("it", 0, filter)]).unwrap();
    let mut zero = packet(([10, 0, 0, 1], 0), ([10, 0, 0, 2], 0));
    zero.key.protocol = Protocol(0);
    let source = from("10.0.0.1");
    assert_eq!(winner(&set(source.clone()), &zero), Some("it"));
    assert!(source.matches(&zero, Direction::Up));
    let protocol = vec![Range { first: 0, last: u8::MAX }];
    let any = Filter { protocol, ..Filter::default() };
    assert_eq!(winner(&set(any.clone()), &zero), Some("it"));
    assert_eq!(winner(&set(any.clone()), &Packet::default()), None);
    assert!(!any.matches(&Packet::default(), Direction::Up));
    assert!(Filter::default().covers(&any) && !any.covers(&Filter::default()));
}

#[test]
fn the_first_weight_that_matches_counts() {
    let conditioning = |weights| {
        let Action::Police { conditioning, .. } = table_1().remove(0).action else { panic!() };
        Conditioning { weights, ..conditioning }
    };
    let weight = |text, weight| FlowWeight { filter: from(text), weight };
    let weights = conditioning(vec![weight("10.0.0.1", 4), weight("10.0.0.0/8", 2)]);
    let of = |src| weights.weight_of(&packet((src, 1), ([1, 1, 1, 1], 1)), None, Direction::Up);
    assert_eq!((of([10, 0, 0, 1]), of([10, 0, 0, 2]), of([11, 0, 0, 1])), (4, 2, 1));
}

/// Ranges of few values, so that they overlap, touch and repeat.
fn ranges<T: Copy + Ord + std::fmt::Debug + 'static>(
    values: &'static [T],
) -> impl Strategy<Value = Vec<Range<T>>> {
    let value = || prop::sample::select(values);
    let range = (value(), value()).prop_map(|(a, b)| Range { first: a.min(b), last: a.max(b) });
    prop_oneof![1 => Just(Vec::new()), 1 => prop::collection::vec(range, 1..4)]
}

/// The intersection of `wide` and `mask`. `wide` if the intersection is empty.
fn both<T: Copy + Ord>(wide: &[Range<T>], mask: &[Range<T>]) -> Vec<Range<T>> {
    let (Some(_), Some(_)) = (wide.first(), mask.first()) else {
        return [wide, mask].concat();
    };
    let cut = |a: &Range<T>, b: &Range<T>| Range {
        first: a.first.max(b.first),
        last: a.last.min(b.last),
    };
    let pairs = wide.iter().flat_map(|a| mask.iter().map(move |b| cut(a, b)));
    let both: Vec<_> = pairs.filter(|range| range.first <= range.last).collect();
    if both.is_empty() { wide.to_vec() } else { both }
}

/// Both ends of the address space, both ends of its IPv4 part, and some values in between.
const ADDRESSES: &[u128] = &[
    0,
    1,
    0xfffe_ffff_ffff,
    0xffff_0000_0000,
    0xffff_0a00_0001,
    0xffff_ffff_ffff,
    1 << 100,
    u128::MAX,
];
const PORTS: &[u16] = &[0, 1, 80, 443, 444, u16::MAX];
const OCTETS: &[u8] = &[0, 1, 6, 17, 18, 63, u8::MAX];

fn filters() -> impl Strategy<Value = Filter> {
    let direction = prop::option::of(prop::sample::select(&Direction::BOTH));
    let addresses = (ranges(ADDRESSES), ranges(ADDRESSES));
    let vlans = (ranges(PORTS), ranges(PORTS));
    let ports = (ranges(PORTS), ranges(PORTS), vlans);
    let way = (direction, prop::bool::weighted(0.2));
    (addresses, ports, ranges(OCTETS), ranges(OCTETS), way).prop_map(
        |((src, dst), (src_port, dst_port, vlans), protocol, dscp, (direction, inner))| {
            let (vlan, inner_vlan) = vlans;
            let of_headers = Filter { src, dst, src_port, dst_port, protocol, ..Filter::default() };
            Filter { dscp, vlan, inner_vlan, direction, inner, ..of_headers }
        },
    )
}

/// A tunnel whose outer addresses are those of `packet`.
fn behind(packet: &Packet) -> Outer {
    let (key, kind) = (packet.key, TunnelKind::Gre);
    let mut outer = Outer::default();
    outer.push(Tunnel { key, kind, id: None, vlan: NO_VLAN, may_edit: true });
    outer
}

fn packets() -> impl Strategy<Value = Packet> {
    let endpoint = || {
        (prop::sample::select(ADDRESSES), prop::sample::select(PORTS))
            .prop_map(|(address, port)| Endpoint::v6(address.to_be_bytes(), port))
    };
    let octet = || prop::sample::select(OCTETS);
    let later = Fragment::later(1);
    let parts = [Fragment::WHOLE, Fragment::WHOLE, later, later.without_first(true)];
    let part = prop::sample::select(parts.to_vec());
    (endpoint(), endpoint(), octet(), octet(), prop::sample::select(PORTS), part).prop_map(
        |(src, dst, protocol, dscp, vlan, fragment)| {
            let key = FlowKey { src, dst, protocol: Protocol(protocol) };
            Packet { key, dscp: dscp % 64, vlan, fragment, ..Packet::default() }
        },
    )
}

/// A packet with or without a second VLAN tag.
fn tagged_packets() -> impl Strategy<Value = (Packet, Option<Outer>)> {
    (packets(), prop::sample::select(PORTS)).prop_map(|(packet, second_vlan)| {
        let mut outer = Outer::default();
        outer.second_vlan = second_vlan;
        (packet, (!outer.is_empty()).then_some(outer))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any number of policies, the index of the filters finds the same policy as a linear
    /// search. With more than 512 policies, the index has several blocks. Most policies match
    /// nothing in one of their fields.
    ///
    /// Catches: the last matching policy returned in place of the first; ranges without their last
    /// value; overlapping ranges that are not merged; unknown ports of fragments that are compared.
    /// Catches: policies in another order than their precedence; ranges without their first value;
    /// only one of two headers compared; a later matching policy
    /// returned.
    #[test]
    fn the_index_agrees_with_a_linear_search(
        some in prop::collection::vec((filters(), 0i32..3), 0..40),
        repeat in prop_oneof![Just(1usize), Just(40)],
        packets in prop::collection::vec(tagged_packets(), 20),
    ) {
        let never = |n: usize| Filter { vlan: vec![Range { first: 7, last: 7 }], ..some[n].0.clone() };
        let all = (0..some.len() * repeat).map(|n| {
            let (nth, copy) = (n % some.len(), n / some.len());
            let filter = if copy == repeat / 2 { some[nth].0.clone() } else { never(nth) };
            policy(&format!("{n:05}"), some[nth].1, filter)
        });
        let set = PolicySet::new(all.collect()).unwrap();
        for (packet, outer) in &packets {
            for direction in Direction::BOTH {
                let expected = set.matching_inside(packet, outer.as_ref(), direction).next();
                prop_assert_eq!(set.lookup_inside(packet, outer.as_ref(), direction), expected);
            }
        }
        for pair in packets.windows(2) {
            let ((packet, tagged), mut outer) = (&pair[0], behind(&pair[1].0));
            outer.second_vlan = tagged.as_ref().map_or(NO_VLAN, |it| it.second_vlan);
            for direction in Direction::BOTH {
                let expected = set.matching_inside(packet, Some(&outer), direction).next();
                prop_assert_eq!(set.lookup_inside(packet, Some(&outer), direction), expected);
            }
        }
    }

    /// The index finds the same policy that covers another policy completely as a linear search.
    ///
    /// Catches: the last covering policy returned in place of the first; a policy that covers
    /// itself; a comparison of the lowest values only; an empty range that is compared as zero.
    #[test]
    fn the_index_finds_the_first_policy_that_covers_another(
        some in prop::collection::vec((filters(), 0i32..3), 1..40),
        narrower in prop::collection::vec((any::<prop::sample::Index>(), filters()), 0..20),
        repeat in prop_oneof![Just(1usize), Just(20)],
    ) {
        let within = narrower.iter().map(|(of, mask)| {
            let (wide, priority) = &some[of.index(some.len())];
            let vlan = both(&wide.vlan, &mask.vlan);
            (Filter { src: both(&wide.src, &mask.src), vlan, ..wide.clone() }, *priority)
        });
        let all: Vec<_> = some.iter().cloned().chain(within).collect();
        let named = |n: usize| policy(&format!("{n:05}"), all[n % all.len()].1, all[n % all.len()].0.clone());
        let set = PolicySet::new((0..all.len() * repeat).map(named).collect()).unwrap();
        for (at, hidden) in set.iter() {
            let mut before = set.iter().take_while(|(earlier, _)| *earlier < at);
            let expected = before.find(|(_, it)| it.filter.covers(&hidden.filter));
            prop_assert_eq!(set.hidden_by(at), expected.map(|(at, _)| at));
            prop_assert_eq!(set.find(&hidden.name), Some(at));
        }
        prop_assert_eq!(set.find("no such policy"), None);
    }

    /// A filter that is narrower in some fields and wider in none is more specific.
    ///
    /// Catches: a comparison of IPv4 with IPv6 prefix lengths; a comparison of addresses only.
    #[test]
    fn a_narrower_filter_is_more_specific(
        wide in filters(),
        mask in filters(),
        packets in prop::collection::vec(tagged_packets(), 50),
    ) {
        let narrow = Filter {
            src: both(&wide.src, &mask.src),
            dst: both(&wide.dst, &mask.dst),
            src_port: both(&wide.src_port, &mask.src_port),
            dst_port: both(&wide.dst_port, &mask.dst_port),
            protocol: both(&wide.protocol, &mask.protocol),
            dscp: both(&wide.dscp, &mask.dscp),
            vlan: both(&wide.vlan, &mask.vlan),
            inner_vlan: both(&wide.inner_vlan, &mask.inner_vlan),
            direction: wide.direction.or(mask.direction),
            inner: wide.inner,
        };
        let (narrows, widens) = (narrow.specificity(), wide.specificity());
        prop_assert!(narrows >= widens);
        for ((packet, outer), direction) in packets.iter().flat_map(|it| Direction::BOTH.map(|way| (it, way))) {
            let [in_narrow, in_wide] =
                [&narrow, &wide].map(|it| it.matches_inside(packet, outer.as_ref(), direction));
            prop_assert!(in_wide || !in_narrow);
            prop_assert!(in_narrow == in_wide || narrows > widens);
        }
    }
}

/// Catches: the inner VLAN tag compared with the outer one; "no tag" that matches any tag; a
/// missing tag that counts as VLAN 0.
#[test]
fn the_inner_vlan_tag_of_a_customer_is_matched() {
    let ids = |id| vec![Range { first: id, last: id }];
    let [any, of_20, none] = [Vec::new(), ids(20), ids(NO_VLAN)].map(|inner_vlan| Filter {
        vlan: ids(100),
        inner_vlan,
        ..Filter::default()
    });
    let policies = [("of-20", of_20.clone()), ("none", none.clone()), ("any", any.clone())];
    let set =
        PolicySet::new(policies.map(|(name, filter)| policy(name, 0, filter)).into()).unwrap();
    for (vlan, second_vlan, expected) in [
        (100, 20, Some("of-20")),
        (100, NO_VLAN, Some("none")),
        (100, 21, Some("any")),
        (20, 100, None),
        (20, NO_VLAN, None),
    ] {
        let packet = Packet { vlan, ..Packet::default() };
        let mut outer = Outer::default();
        outer.second_vlan = second_vlan;
        let found = set.lookup_inside(&packet, Some(&outer), Direction::Up);
        let name = found.and_then(|it| set.get(it)).map(|it| it.name.as_str());
        assert_eq!(name, expected, "{vlan} {second_vlan}");
    }
    assert!(any.covers(&of_20) && !of_20.covers(&any) && !none.covers(&of_20));
}

#[test]
fn a_policy_beyond_the_first_summary_word_is_found() {
    let vlan = |id| Filter { vlan: vec![Range { first: id, last: id }], ..Filter::default() };
    let others = (0..33_000).map(|n| policy(&format!("{n:05}"), 0, vlan(7)));
    let set = PolicySet::new(others.chain([policy("wanted", -1, vlan(9))]).collect()).unwrap();
    assert_eq!(winner(&set, &Packet { vlan: 9, ..Packet::default() }), Some("wanted"));
    assert_eq!(winner(&set, &Packet { vlan: 7, ..Packet::default() }), Some("00000"));
    assert_eq!(winner(&set, &Packet { vlan: 8, ..Packet::default() }), None);
}

#[test]
fn specificity_counts_the_bits_that_a_filter_fixes() {
    let bits = |filter: Filter| filter.specificity().bits();
    let port = |text| Filter { dst_port: vec![parse::ports(text).unwrap()], ..Filter::default() };
    assert_eq!((bits(from("10.0.0.0/8")), bits(from("10.0.0.1"))), (8, 32));
    assert_eq!((bits(from("2001:db8::/32")), bits(from("::/0"))), (32, 0));
    assert_eq!((bits(port("443")), bits(port("1000-1999")), bits(port("1-65535"))), (16, 6, 0));
    let mixed = [from("10.0.0.0/8").src, from("2001:db8::/32").src].concat();
    assert_eq!(bits(Filter { src: mixed, ..port("443") }), 8 + 16);
    assert!(from("0.0.0.0/0").specificity() > Filter::default().specificity());
}
