//! Each control protocol (such as ARP, DHCP and OSPF) is recognised. Frames that differ from a
//! control protocol in one field are not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr};

use tidegate_core::Packet;
use tidegate_core::packet::Kind;
use tidegate_wire::VlanTag;
use tidegate_wire::build::{Frame, Link, Transport};
use tidegate_wire::describe;

const NOBODY: &str = "0.0.0.0";
const HOST: &str = "192.0.2.1";
const ROUTER: &str = "192.0.2.2";
const HOST_V6: &str = "fe80::1";
const ROUTER_V6: &str = "fe80::2";

const BRIDGES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
const SLOW: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x02];
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
const ALL_L1: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x14];
const PVST: [u8; 6] = [0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcd];
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// A frame, and the hop limit that it gets if it carries IP.
type Sample = (Frame, Option<u8>);

/// A frame without IP, with this destination, ethertype or length field, and payload.
fn link(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Sample {
    let mut payload = payload.to_vec();
    payload.resize(payload.len().max(46), 0);
    (Frame { destination: to, ..Frame::opaque(ethertype, payload) }, None)
}

/// A PPPoE header with this PPP protocol number.
fn pppoe(protocol: u16) -> Vec<u8> {
    [&[0x11, 0, 0, 7, 0, 10][..], &protocol.to_be_bytes(), &[1; 8]].concat()
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

fn udp(from: (&str, u16), to: (&str, u16), hop_limit: u8) -> Sample {
    (Frame::udp(at(from.0, from.1), at(to.0, to.1)), Some(hop_limit))
}

fn tcp(from: (&str, u16), to: (&str, u16), hop_limit: u8) -> Sample {
    (Frame::tcp(at(from.0, from.1), at(to.0, to.1)), Some(hop_limit))
}

fn ip(from: &str, to: &str, transport: Transport, hop_limit: u8) -> Sample {
    let [from, to] = [from, to].map(|it| it.parse::<IpAddr>().unwrap());
    (Frame::ip(from, to, transport), Some(hop_limit))
}

fn icmpv6(kind: u8, hop_limit: u8) -> Sample {
    ip(HOST_V6, "ff02::1", Transport::Icmp(kind, 0, [0; 4]), hop_limit)
}

fn of_codepoint((mut frame, hop_limit): Sample, dscp: u8) -> Sample {
    frame.ip_mut().unwrap().dscp = dscp;
    (frame, hop_limit)
}

/// Adds a hop-by-hop header with a router alert, as MLD has.
fn alerting((mut frame, hop_limit): Sample) -> Sample {
    frame.ip_mut().unwrap().extensions = vec![(0, vec![0, 0, 5, 2, 0, 0, 1, 0])];
    (frame, hop_limit)
}

fn fragment((mut frame, hop_limit): Sample) -> Sample {
    frame.ip_mut().unwrap().fragment = Some((0, true));
    (frame, hop_limit)
}

/// Each control protocol, and frames that differ from it in one field. `true` marks control
/// traffic.
fn table() -> Vec<(&'static str, Sample, bool)> {
    let (client, server) = ((NOBODY, 68), ("255.255.255.255", 67));
    let (client_v6, server_v6) = ((HOST_V6, 546), ("ff02::1:2", 547));
    let other = Transport::Other;
    vec![
        ("ARP request", link([0xff; 6], 0x0806, &[0, 1, 8, 0, 6, 4, 0, 1]), true),
        ("ARP reply", link(STATION, 0x0806, &[0, 1, 8, 0, 6, 4, 0, 2]), true),
        ("an ethertype beside that of ARP", link(STATION, 0x0807, &[]), false),
        ("LLDP", link(NEAREST_BRIDGE, 0x88cc, &[2, 7, 4]), true),
        ("LLDP to a station", link(STATION, 0x88cc, &[2, 7, 4]), false),
        ("LACP", link(SLOW, 0x8809, &[1, 1]), true),
        ("a slow protocol to a station", link(STATION, 0x8809, &[1, 1]), false),
        ("STP", link(BRIDGES, 38, &[0x42, 0x42, 3, 0, 0, 0]), true),
        ("STP to a station", link(STATION, 38, &[0x42, 0x42, 3, 0, 0, 0]), false),
        ("PVST+", link(PVST, 50, &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x01, 0x0b]), true),
        ("CDP", link(PVST, 50, &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0x00]), false),
        ("IS-IS hello", link(ALL_L1, 1_497, &[0xfe, 0xfe, 3, 0x83, 27, 1]), true),
        ("another network layer of ISO", link(ALL_L1, 60, &[0xfe, 0xfe, 3, 0x81]), false),
        ("IS-IS to a station", link(STATION, 60, &[0xfe, 0xfe, 3, 0x83]), false),
        ("IPX without an ethertype", link([0xff; 6], 60, &[0xff, 0xff, 0, 60]), false),
        ("EAPOL", link(STATION, 0x888e, &[2, 0]), true),
        ("PPPoE discovery", link([0xff; 6], 0x8863, &[0x11, 9, 0, 0, 0, 4]), true),
        ("LCP echo", link(STATION, 0x8864, &pppoe(0xc021)), true),
        ("IPCP", link(STATION, 0x8864, &pppoe(0x8021)), true),
        ("CHAP", link(STATION, 0x8864, &pppoe(0xc223)), true),
        ("data of PPP that is no IP", link(STATION, 0x8864, &pppoe(0x002b)), false),
        ("router solicitation", icmpv6(133, 255), true),
        ("router advertisement", icmpv6(134, 255), true),
        ("neighbour solicitation", icmpv6(135, 255), true),
        ("neighbour advertisement", icmpv6(136, 255), true),
        ("redirect", icmpv6(137, 255), true),
        ("neighbour solicitation from afar", icmpv6(135, 254), false),
        ("echo request", icmpv6(128, 255), false),
        ("packet too big", icmpv6(2, 255), false),
        ("MLD query", alerting(icmpv6(130, 1)), true),
        ("MLDv2 report", alerting(icmpv6(143, 1)), true),
        ("MLD report from afar", icmpv6(131, 64), false),
        ("fragment of ICMPv6", fragment(icmpv6(135, 255)), false),
        ("DHCP discover", udp(client, server, 64), true),
        ("DHCP offer", udp((ROUTER, 67), (HOST, 68), 64), true),
        ("DHCP relay", udp((ROUTER, 67), (HOST, 67), 64), true),
        ("UDP of a user to port 67", udp((HOST, 40_000), (ROUTER, 67), 64), false),
        ("UDP of a user from port 67", udp((HOST, 67), (ROUTER, 53), 64), false),
        ("UDP between two clients of DHCP", udp((HOST, 68), (ROUTER, 68), 64), false),
        ("DHCP with the ports of DHCPv6", udp((HOST, 546), (ROUTER, 547), 64), false),
        ("a fragment of DHCP", fragment(udp(client, server, 64)), false),
        ("DHCPv6 solicit", udp(client_v6, server_v6, 1), true),
        ("DHCPv6 reply", udp((ROUTER_V6, 547), (HOST_V6, 546), 64), true),
        ("DHCPv6 relay", udp((ROUTER_V6, 547), (HOST_V6, 547), 64), true),
        ("UDP of a user to port 547", udp((HOST_V6, 40_000), server_v6, 64), false),
        ("IGMP report", ip(HOST, "224.0.0.22", other(2), 1), true),
        ("IGMP from afar", ip(HOST, "224.0.0.22", other(2), 64), false),
        ("OSPF hello", ip(ROUTER, "224.0.0.5", other(89), 1), true),
        ("OSPFv3 hello", ip(ROUTER_V6, "ff02::5", other(89), 1), true),
        ("OSPF over a virtual link", of_codepoint(ip(ROUTER, HOST, other(89), 60), 48), true),
        ("OSPF from afar", ip(ROUTER, HOST, other(89), 60), false),
        ("a fragment of OSPF", fragment(ip(ROUTER, "224.0.0.5", other(89), 1)), true),
        ("VRRP", ip(ROUTER, "224.0.0.18", other(112), 255), true),
        ("VRRP from afar", ip(ROUTER, "224.0.0.18", other(112), 254), false),
        ("BFD", udp((ROUTER, 49_152), (HOST, 3_784), 255), true),
        ("BFD over IPv6", udp((ROUTER_V6, 49_152), (HOST_V6, 3_784), 255), true),
        ("BFD from afar", udp((ROUTER, 49_152), (HOST, 3_784), 250), false),
        ("BFD echo", udp((ROUTER, 49_152), (ROUTER, 3_785), 255), true),
        ("BFD echo that comes back", udp((ROUTER, 49_152), (ROUTER, 3_785), 254), true),
        ("BFD over hops", of_codepoint(udp((ROUTER, 49_152), (HOST, 4_784), 250), 48), true),
        ("BFD of a link group", udp((ROUTER, 49_152), (HOST, 6_784), 255), true),
        ("BFD that answers no port", udp((ROUTER, 3_784), (HOST, 49_152), 255), false),
        ("BGP to a neighbour", tcp((ROUTER, 40_000), (HOST, 179), 1), true),
        ("BGP that is secured by its TTL", tcp((ROUTER, 179), (HOST, 40_000), 255), true),
        ("BGP of CS6", of_codepoint(tcp((ROUTER, 40_000), (HOST, 179), 64), 48), true),
        ("BGP over IPv6", tcp((ROUTER_V6, 40_000), (HOST_V6, 179), 255), true),
        ("BGP of TTL 64 and no codepoint", tcp((ROUTER, 40_000), (HOST, 179), 64), false),
        ("BGP of CS5", of_codepoint(tcp((ROUTER, 40_000), (HOST, 179), 64), 40), false),
        ("HTTPS of TTL 1", tcp((HOST, 40_000), (ROUTER, 443), 1), false),
        ("HTTPS of CS6", of_codepoint(tcp((HOST, 40_000), (ROUTER, 443), 64), 48), false),
        ("RIP, which is not in the list", udp((ROUTER, 520), ("224.0.0.9", 520), 1), false),
        ("traceroute", udp((HOST, 40_000), (ROUTER, 33_434), 1), false),
    ]
}

fn describe_of(frame: &Frame, hop_limit: Option<u8>) -> Packet {
    let mut bytes = frame.bytes();
    if let Some(hop_limit) = hop_limit {
        let tags = frame.link.iter().map(|it| if matches!(it, Link::Pppoe(_)) { 8 } else { 4 });
        let network = 14 + tags.sum::<usize>();
        let v4 = bytes[network] >> 4 == 4;
        bytes[network + if v4 { 8 } else { 7 }] = hop_limit;
    }
    let mut packet = Packet::default();
    describe(&bytes, u32::try_from(bytes.len()).unwrap(), &mut packet);
    packet
}

/// Catches: any condition of the recognition that is missing, such as the hop limit or a port.
#[test]
fn control_traffic_is_distinguished_from_near_misses_with_tags_and_without() {
    let tag = |tpid| Link::Vlan(VlanTag { tpid, tci: 7 });
    let links = [vec![], vec![tag(0x8100)], vec![tag(0x88a8), tag(0x8100)], vec![Link::Pppoe(9)]];
    for (name, (frame, hop_limit), expected) in table() {
        for link in &links {
            // `describe` parses a PPPoE session further only if it carries IP.
            if hop_limit.is_none() && matches!(link.first(), Some(Link::Pppoe(_))) {
                continue;
            }
            let frame = Frame { link: link.clone(), ..frame.clone() };
            let kind = describe_of(&frame, hop_limit).kind;
            let is_control = kind == Kind::Control;
            assert_eq!(is_control, expected, "{name} behind {link:?}");
        }
    }
}

/// Catches: a sender on the link that is identified by its IP address instead of its MAC address; a
/// forwarded packet whose sender is identified by the router's MAC address alone.
#[test]
fn a_sender_is_identified_by_its_mac_address_and_beyond_a_router_by_its_ip_address_too() {
    let source = |(frame, hop_limit): Sample, station: u8| {
        let frame = Frame { source: [2, 0, 0, 0, 0, station], ..frame };
        describe_of(&frame, hop_limit).queue_index
    };
    let arp = || link([0xff; 6], 0x0806, &[]);
    assert_ne!(source(arp(), 1), source(arp(), 2));
    let solicit = |from| ip(from, "ff02::1", Transport::Icmp(135, 0, [0; 4]), 255);
    assert_eq!(source(solicit("fe80::1"), 1), source(solicit("fe80::2"), 1));
    let discover = || udp((NOBODY, 68), ("255.255.255.255", 67), 64);
    assert_ne!(source(discover(), 1), source(discover(), 2));
    let bgp = |from| of_codepoint(tcp((from, 40_000), (HOST, 179), 64), 48);
    assert_ne!(source(bgp("192.0.2.8"), 1), source(bgp("192.0.2.9"), 1));
    let user = udp((HOST, 40_000), (ROUTER, 53), 64);
    assert_eq!(source(user, 1), Packet::default().queue_index);
}

#[test]
fn frames_cut_anywhere_are_described_without_a_panic() {
    for (_, (frame, _), _) in table() {
        let bytes = frame.bytes();
        for cut in 0..bytes.len() {
            let mut packet = Packet::default();
            describe(&bytes[..cut], u32::try_from(cut).unwrap(), &mut packet);
        }
    }
}
