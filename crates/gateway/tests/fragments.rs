//! Fragments at a gateway: the flow and the policy of each fragment, with and without its first
//! fragment.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(dead_code, reason = "other test files use these helpers")]

mod gateway_run;

use std::time::Duration;

use gateway_run::{Run, conditioning, config, policy};
use proptest::prelude::*;
use tidegate_core::flow::{FragmentTable, WithoutFirst};
use tidegate_core::packet::{Direction, Endpoint, FlowKey, Fragment, Network, Ports, Protocol};
use tidegate_core::{Packet, Time};
use tidegate_gateway::policy::{Action, Exceed, Filter, Policy, Range};
use tidegate_gateway::{Gateway, GatewayConfig};

const DNS: u16 = 53;
/// Ethernet 14 bytes, IPv4 20 bytes, and 1,480 bytes of the datagram.
const FRAME: u32 = 1_514;

/// A packet from UDP port 53 to `port` of a LAN host. With `None`, the ports are unknown.
fn udp(network: Network, port: Option<u16>) -> Packet {
    let (src, dst) = (port.map_or(0, |_| DNS), port.unwrap_or(0));
    let (src, dst) = match network {
        Network::Ipv4 => (Endpoint::v4([192, 0, 2, 53], src), Endpoint::v4([10, 0, 0, 1], dst)),
        _ => (Endpoint::v6([0x20; 16], src), Endpoint::v6([0xfd; 16], dst)),
    };
    let key = FlowKey { src, dst, protocol: Protocol::UDP };
    Packet { len: FRAME, key, network, segments: 1, ..Packet::default() }
}

fn first(network: Network, port: u16, identification: u32) -> Packet {
    let mut packet = udp(network, Some(port));
    packet.fragment = Fragment::first(8);
    packet.set_identification(identification);
    packet
}

fn later(network: Network, identification: u32) -> Packet {
    let mut packet = udp(network, None);
    packet.fragment = Fragment::later(185);
    packet.set_identification(identification);
    packet
}

/// A policy that limits answers from port 53 to 8 Mbit/s with a burst of two frames.
fn amplifiers() -> Policy {
    let dns = Range { first: DNS, last: DNS };
    let filter = Filter { src_port: vec![dns], ..Filter::default() };
    let action = Action::Police { conditioning: conditioning(), exceed: Exceed::Drop };
    policy("amplifiers", filter, action)
}

fn run(rule: WithoutFirst) -> Run {
    let config = GatewayConfig { fragments_without_first: rule, ..config() };
    Run::new(&config, vec![amplifiers()])
}

/// Catches: flows of first fragments without their ports; later fragments that do not look up their
/// first fragment; fragments that are handled in one direction only.
#[test]
fn a_policy_for_a_port_drops_all_fragments_of_its_datagrams() {
    for network in [Network::Ipv4, Network::Ipv6] {
        let mut run = run(WithoutFirst::ByAddress);
        for identification in 0..100 {
            run.offer_packet(Gateway::WAN, first(network, 4_000, identification));
            run.offer_packet(Gateway::WAN, later(network, identification));
        }
        let (left, report) = run.end();
        // The burst is 3,000 bytes, which is enough for one frame but not for two.
        assert_eq!((left.len(), report.drops.total()), (1, 199), "{network:?}");
        assert_eq!((report.flows, report.fragments_without_first), (1, [0; 2]));
    }
}

/// Catches: a flow key by which fragments and whole packets are different flows.
#[test]
fn fragments_and_whole_datagrams_are_one_flow() {
    let mut run = run(WithoutFirst::ByAddress);
    run.offer_packet(Gateway::WAN, udp(Network::Ipv4, Some(4_000)));
    run.offer_packet(Gateway::WAN, first(Network::Ipv4, 4_000, 7));
    run.offer_packet(Gateway::WAN, later(Network::Ipv4, 7));
    let answer = udp(Network::Ipv4, Some(4_000));
    run.offer_packet(Gateway::LAN, Packet { key: answer.key.reverse(), ..answer });
    let (_, report) = run.end();
    assert_eq!(report.flows, 1);
    assert_eq!(report.aggregates[0].offered.packets, 3);
}

/// Catches: unknown ports that match a range with port 0; unknown ports that match every range; the
/// effects of the two settings exchanged.
#[test]
fn a_fragment_without_a_first_fragment_is_policed_as_configured() {
    for (rule, passed) in [(WithoutFirst::ByAddress, 100), (WithoutFirst::MayMatch, 1)] {
        for network in [Network::Ipv4, Network::Ipv6] {
            let mut low = amplifiers();
            low.filter.src_port = vec![Range { first: 0, last: 1_023 }];
            let config = GatewayConfig { fragments_without_first: rule, ..config() };
            let mut run = Run::new(&config, vec![low]);
            (0..100).for_each(|n| run.offer_packet(Gateway::WAN, later(network, n)));
            let (left, report) = run.end();
            assert_eq!(left.len(), passed, "{rule:?} {network:?}");
            assert_eq!(report.fragments_without_first, [0, 100]);
        }
    }
}

/// Catches: a policy selected only because its ports match; filter terms other than ports that are
/// ignored.
#[test]
fn a_fragment_with_unknown_ports_gets_the_first_policy_whose_other_terms_match() {
    let tcp = Filter { protocol: vec![Range { first: 6, last: 6 }], ..amplifiers().filter };
    let web = Policy { priority: 2, ..policy("web", tcp, Action::Pass) };
    let dns = Policy { priority: 1, ..policy("dns", amplifiers().filter, Action::Pass) };
    let hosts = policy("hosts", Filter::default(), Action::Pass);
    for (rule, expected) in [(WithoutFirst::ByAddress, "hosts"), (WithoutFirst::MayMatch, "dns")] {
        let config = GatewayConfig { fragments_without_first: rule, ..config() };
        let mut run = Run::new(&config, vec![web.clone(), dns.clone(), hosts.clone()]);
        run.offer_packet(Gateway::WAN, later(Network::Ipv4, 1));
        let (_, report) = run.end();
        assert_eq!(report.aggregates[0].policy, expected);
    }
}

/// The first case is a datagram whose second fragment would overwrite its headers (RFC 1858,
/// section 3.2). The second case is a first fragment that is too short for its ports.
///
/// Catches: an offset that is not checked; a tiny first fragment after which the earlier first
/// fragment is still used.
#[test]
fn overlapping_and_tiny_fragments_have_no_first_fragment() {
    let mut table = FragmentTable::new(1);
    let mut take = |mut packet: Packet| {
        let known = table.take(Time::ZERO, &mut packet, None, WithoutFirst::ByAddress);
        (known, packet.key.src.port, packet.fragment.ports())
    };
    let tcp = Packet { fragment: Fragment::first(16), ..first(Network::Ipv4, 4_000, 1) };
    let at = |offset| Packet { fragment: Fragment::later(offset), ..later(Network::Ipv4, 1) };
    assert_eq!(take(tcp), (true, DNS, Ports::Known));
    assert_eq!(take(at(1)), (false, 0, Ports::Unknown));
    assert_eq!(take(at(2)), (true, DNS, Ports::Known));
    let tiny = Packet { fragment: Fragment::TINY, ..later(Network::Ipv4, 1) };
    assert_eq!(take(tiny), (false, 0, Ports::Unknown));
    assert_eq!(take(at(2)), (false, 0, Ports::Unknown));
}

/// Catches: a protocol that is taken from a later fragment; an extension header that counts as a
/// protocol without ports.
#[test]
fn the_protocol_of_an_ipv6_datagram_is_that_of_its_first_fragment() {
    let mut table = FragmentTable::new(1);
    let mut take =
        |packet: &mut Packet| table.take(Time::ZERO, packet, None, WithoutFirst::MayMatch);
    let mut second = later(Network::Ipv6, 9);
    second.key.protocol = Protocol(60);
    let mut unknown = second;
    assert!(!take(&mut unknown) && unknown.fragment.ports() == Ports::Any);
    assert!(take(&mut first(Network::Ipv6, 4_000, 9)));
    assert!(take(&mut second));
    assert_eq!((second.key.protocol, second.key.src.port), (Protocol::UDP, DNS));
    let mut esp = later(Network::Ipv4, 9);
    esp.key.protocol = Protocol(50);
    assert!(take(&mut esp) && esp.fragment.ports() == Ports::Known);
}

/// A later IPv6 fragment that states SCTP as its protocol. A sender may write any protocol into
/// later fragments.
fn disguised(identification: u32) -> Packet {
    let mut packet = later(Network::Ipv6, identification);
    packet.key.protocol = Protocol(132);
    packet
}

fn udp_alone() -> Filter {
    Filter { protocol: vec![Range { first: 17, last: 17 }], ..Filter::default() }
}

/// The later fragment of each datagram arrives before the first one.
///
/// Catches: the protocol of a later fragment that is trusted although the first fragment is
/// unknown: by the fragment table, by the index of filters, or by a filter; such a fragment that is
/// not counted.
#[test]
fn ipv6_fragments_in_reverse_order_do_not_escape_by_a_false_next_header() {
    let drop = amplifiers().action;
    for filter in [amplifiers().filter, udp_alone()] {
        assert!(filter.matches(
            &Packet { fragment: Fragment::TINY.without_first(true), ..disguised(1) },
            Direction::Down
        ));
        let rule = WithoutFirst::MayMatch;
        let config = GatewayConfig { fragments_without_first: rule, ..config() };
        let mut run = Run::new(&config, vec![policy("limit", filter, drop.clone())]);
        for identification in 0..100 {
            run.offer_packet(Gateway::WAN, disguised(identification));
            run.offer_packet(Gateway::WAN, first(Network::Ipv6, 4_000, identification));
        }
        let (left, report) = run.end();
        assert_eq!((left.len(), report.drops.total()), (1, 199));
        assert_eq!(report.fragments_without_first, [0, 100]);
    }
}

/// Catches: a protocol that is ignored with the setting `by-address`; a fragment that is not
/// counted because its protocol has no ports.
#[test]
fn by_address_uses_the_next_header_of_a_fragment_without_a_first_fragment() {
    for (packet, expected) in [(disguised(1), "hosts"), (later(Network::Ipv6, 1), "udp")] {
        let udp = Policy { priority: 1, ..policy("udp", udp_alone(), Action::Pass) };
        let hosts = policy("hosts", Filter::default(), Action::Pass);
        let mut run = Run::new(&config(), vec![udp, hosts]);
        run.offer_packet(Gateway::WAN, packet);
        let (_, report) = run.end();
        assert_eq!(report.aggregates[0].policy, expected);
        assert_eq!(report.fragments_without_first, [0, 1]);
    }
}

/// A later IPv4 fragment of a datagram with an authentication header.
fn with_authentication_header(identification: u32) -> Packet {
    let mut packet = later(Network::Ipv4, identification);
    packet.key.protocol = Protocol::AUTHENTICATION;
    packet
}

/// Catches: the authentication header (protocol 51) that counts as a protocol without ports;
/// datagrams with and without the header that are confused; a filter that requires the protocol
/// although the header hides it.
#[test]
fn an_authentication_header_in_ipv4_hides_no_fragment_from_a_policy_for_a_port() {
    for filter in [amplifiers().filter, udp_alone()] {
        for (rule, passed) in [(WithoutFirst::ByAddress, 100), (WithoutFirst::MayMatch, 1)] {
            let limit = policy("limit", filter.clone(), amplifiers().action);
            let config = GatewayConfig { fragments_without_first: rule, ..config() };
            let mut run = Run::new(&config, vec![limit]);
            (0..100).for_each(|n| run.offer_packet(Gateway::WAN, with_authentication_header(n)));
            let (left, report) = run.end();
            assert_eq!((left.len(), report.fragments_without_first), (passed, [0, 100]));
        }
    }
    let mut table = FragmentTable::new(1);
    let mut take = |mut packet: Packet| {
        let known = table.take(Time::ZERO, &mut packet, None, WithoutFirst::ByAddress);
        (known, packet.key.protocol, packet.key.dst.port)
    };
    let plain = first(Network::Ipv4, 4_000, 1);
    let behind =
        Packet { fragment: plain.fragment.authenticated(), ..first(Network::Ipv4, 5_000, 1) };
    assert_eq!(take(plain), (true, Protocol::UDP, 4_000));
    assert_eq!(take(with_authentication_header(1)), (false, Protocol::AUTHENTICATION, 0));
    assert_eq!(take(behind), (true, Protocol::UDP, 5_000));
    assert_eq!(take(with_authentication_header(1)), (true, Protocol::UDP, 5_000));
    assert_eq!(take(later(Network::Ipv4, 1)), (true, Protocol::UDP, 4_000));
}

/// A step of the test below: a fragment, and the pause after it.
#[derive(Clone, Debug)]
struct Step {
    is_first: bool,
    port: u16,
    identification: u32,
    vlan: u16,
    pause: Duration,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<bool>(), 1u16..4, 0u32..40, 0u16..2, 0u64..120).prop_map(
        |(is_first, port, identification, vlan, pause)| Step {
            is_first,
            port,
            identification,
            vlan,
            pause: Duration::from_millis(pause),
        },
    );
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The table finds the same first fragment as a complete list of first fragments.
    ///
    /// Catches: a comparison without the VLAN or without the identification; an entry that never
    /// expires, or expires one nanosecond too late; an old first fragment that is found before a
    /// newer first fragment.
    #[test]
    fn a_later_fragment_has_the_ports_of_the_newest_first_fragment_of_two_seconds(steps in steps()) {
        let mut table = FragmentTable::new(3);
        let mut firsts: Vec<(u32, u16, u16, Time)> = Vec::new();
        let mut now = Time::ZERO;
        for step in steps {
            let base = if step.is_first {
                first(Network::Ipv4, step.port, step.identification)
            } else {
                later(Network::Ipv4, step.identification)
            };
            let mut packet = Packet { vlan: step.vlan, ..base };
            let known = table.take(now, &mut packet, None, WithoutFirst::ByAddress);
            let newest = firsts.iter().rev().find(|(identification, vlan, ..)| {
                (*identification, *vlan) == (step.identification, step.vlan)
            });
            let expected = newest.filter(|(.., at)| now < *at + Duration::from_secs(2));
            if step.is_first {
                firsts.push((step.identification, step.vlan, step.port, now));
            } else {
                prop_assert_eq!(known, expected.is_some());
                prop_assert_eq!(packet.key.dst.port, expected.map_or(0, |(.., port, _)| *port));
            }
            now += step.pause;
        }
    }
}

/// Catches: entries that are lost when a slot is used again; a table with fewer slots.
#[test]
fn the_newest_4096_first_fragments_are_known() {
    let mut table = FragmentTable::new(5);
    let known = |table: &mut FragmentTable, n| {
        let mut packet = later(Network::Ipv6, n);
        table.take(Time::ZERO, &mut packet, None, WithoutFirst::ByAddress)
            && packet.key.dst.port == u16::try_from(n % 1_000 + 1).unwrap()
    };
    for n in 0..10_000 {
        let port = u16::try_from(n % 1_000 + 1).unwrap();
        table.take(Time::ZERO, &mut first(Network::Ipv6, port, n), None, WithoutFirst::ByAddress);
    }
    let oldest = 10_000 - u32::from(FragmentTable::ENTRIES);
    assert!((oldest..10_000).all(|n| known(&mut table, n)));
    assert!((0..oldest).all(|n| !known(&mut table, n)));
}
