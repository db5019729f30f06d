//! Tests trunks with encapsulation: user packets cross inside UDP datagrams, from the LAN of one
//! site to the LAN of the other site.

use tidegate_core::packet::{Ecn, NO_VLAN, TcpFlags};
use tidegate_core::trunk::Encapsulation;
use tidegate_wire::build::Transport;
use tidegate_wire::{VlanTag, icmp};

use super::*;

/// MAC addresses of a user at each site.
const USERS: [Mac; 2] = [[2, 0, 0, 0, 9, 0], [2, 0, 0, 0, 9, 1]];

pub(super) const fn udp(vlan: Option<u16>) -> Wire {
    Wire::Datagrams { vlan, encapsulation: Encapsulation::Udp }
}

fn user(v6: bool, site: usize) -> IpAddr {
    let both = if v6 { ["2001:db8:1::7", "2001:db8:2::7"] } else { ["10.1.0.7", "10.2.0.7"] };
    both[site].parse().unwrap()
}

/// A packet from a user at site `from` to the user at the other site.
fn datagram(v6: bool, from: usize, len: usize) -> Built {
    let at = |site: usize| (user(v6, site), 9).into();
    let bytes = (0..len).map(|it| u8::try_from(it % 251).unwrap()).collect();
    Built { source: USERS[from], payload: bytes, ..Built::udp(at(from), at(1 - from)) }
}

/// Two sites whose users have already exchanged packets, so both gateways know the stations.
fn met(v6: bool, wires: [Wire; 2]) -> World {
    let mut world = World::with(v6, wires);
    world.run(20, |_, _| true);
    for inner in [false, true] {
        for from in [0, 1] {
            enter(&world, from, &datagram(inner, from, 100));
            world.run(200, |_, _| true);
        }
    }
    world.sites.iter().for_each(|site| drop(site.lan[1].take()));
    world.crossed.clear();
    world
}

fn enter(world: &World, site: usize, frame: &Built) {
    world.sites[site].lan[0].borrow_mut().push_back(frame.bytes());
}

fn left(world: &World, site: usize) -> Vec<Vec<u8>> {
    world.sites[site].lan[1].take().into()
}

fn carried(world: &World, site: usize) -> Carried {
    world.sites[site].peer().carried.unwrap()
}

/// Catches: a DS codepoint of the user that is overwritten; a packet that departs both with and
/// without encapsulation; an IPv6 frame with the ethertype of IPv4; stations that are not learnt; a
/// VLAN tag that is missing in address requests, datagrams or management packets.
#[test]
fn user_packets_arrive_unchanged_and_no_other_frames_cross() {
    for (v6, vlan) in [(false, None), (true, None), (false, Some(7)), (true, Some(8))] {
        let mut world = met(v6, [udp(vlan); 2]);
        for inner in [false, true] {
            for from in [0, 1] {
                let mut frame = datagram(inner, from, 1_000);
                let ip = frame.ip_mut().unwrap();
                (ip.dscp, ip.ecn) = (46, Ecn::Ect0);
                enter(&world, from, &frame);
                world.run(100, |_, _| true);
                let out = left(&world, 1 - from);
                assert_eq!(out.len(), 1, "{v6} {inner} {from}");
                assert_eq!(out[0][..6], USERS[1 - from]);
                assert_eq!(out[0][12..], frame.bytes()[12..]);
            }
        }
        let users = world.crossed.iter().map(|(_, frame)| described(frame));
        let users: Vec<_> = users.filter(|it| it.len > 1_000).collect();
        assert_eq!(users.len(), 4);
        let ends = addresses(v6);
        for it in users {
            assert_eq!((it.dscp, it.ecn, it.key.protocol), (10, Ecn::Ect0, Protocol::UDP));
            let of_ends =
                [it.key.src, it.key.dst].map(|it| (ends.contains(&it.address()), it.port));
            assert_eq!(of_ends, [(true, 4754); 2]);
        }
        let tag = vlan.unwrap_or(NO_VLAN);
        assert!(world.crossed.iter().all(|(_, frame)| described(frame).vlan == tag));
        for site in &mut world.sites {
            assert_eq!((site.gateway.pool().in_use(), site.peer().refused.total()), (0, 0));
            assert_eq!(site.ports[1].counters().drops.total(), 0);
        }
    }
}

/// Catches: a packet for an unknown station that is dropped, or sent into the LAN where nobody
/// receives it.
#[test]
fn a_packet_for_an_unknown_station_goes_back_to_the_router() {
    let mut world = World::with(false, [udp(None); 2]);
    world.run(20, |_, _| true);
    let frame = datagram(false, 0, 100);
    enter(&world, 0, &frame);
    world.run(200, |to, frame| to == 1 || described(frame).key.dst.port != 9);
    let back = world.crossed.iter().find(|(to, it)| *to == 0 && described(it).key.dst.port == 9);
    let (_, back) = back.expect("it goes back");
    assert_eq!((&back[..6], &back[6..12]), (&[2, 0, 0, 0, 1, 0][..], &[2, 0, 0, 0, 1, 1][..]));
    assert_eq!(back[12..], frame.bytes()[12..]);
    assert!(left(&world, 1).is_empty());
}

/// Catches: a packet beyond the path MTU that must not be fragmented, but is sent or dropped
/// without an ICMP error; an ICMP error that states the MTU of the path, without a deduction for
/// the trunk's headers; fragmented datagrams instead of fragmented user packets.
#[test]
fn too_long_packets_are_fragmented_or_their_senders_get_an_icmp_error() {
    for v6 in [false, true] {
        let mut world = met(v6, [udp(None); 2]);
        let fits: usize = if v6 { 1_429 } else { 1_449 };
        for (inner, header) in [(false, 28), (true, 48)] {
            for (len, passes) in [(fits, true), (fits + 1, false)] {
                let mut frame = datagram(inner, 0, len - header);
                frame.ip_mut().unwrap().whole = true;
                enter(&world, 0, &frame);
                world.run(100, |_, _| true);
                let errors = left(&world, 0);
                let came = (left(&world, 1).len(), errors.len());
                assert_eq!(came, (usize::from(passes), usize::from(!passes)));
                let Some(errors) = errors.first() else { continue };
                assert_eq!(errors[..6], USERS[0]);
                assert_eq!(described(errors).key.dst.address(), user(inner, 0));
                let field = if inner { 14 + 40 + 4 } else { 14 + 20 + 4 };
                assert_eq!(errors[field..][..4], u32::try_from(fits).unwrap().to_be_bytes());
            }
        }
        let frame = datagram(false, 0, 1_472);
        enter(&world, 0, &frame);
        world.run(100, |_, _| true);
        let fragments = left(&world, 1);
        assert!(
            fragments.len() == 2 && fragments.iter().all(|it| described(it).fragment.is_part())
        );
        let data: Vec<u8> = fragments.iter().flat_map(|it| it[34..].to_vec()).collect();
        assert_eq!(data, frame.bytes()[34..]);
        let counted = carried(&world, 0);
        assert_eq!((counted.too_big, counted.errors, counted.fragments), (2, 2, 2));
    }
}

/// Catches: the ICMP error sent to the sender of the inner packet, which cannot change the tunnel's
/// packet size.
#[test]
fn the_icmp_error_for_a_tunnelled_packet_goes_to_the_sender_of_the_tunnel() {
    let mut world = met(false, [udp(None); 2]);
    let inside = Built::udp("10.77.0.1:5".parse().unwrap(), "10.77.0.2:6".parse().unwrap());
    let inside = Built { payload: vec![7; 1_402], ..inside }.bytes();
    let around = Built::ip(user(false, 0), user(false, 1), Transport::Other(4));
    let ends = Built { source: USERS[0], ..datagram(false, 0, 0) };
    let mut frame = Built {
        destination: ends.destination,
        source: USERS[0],
        payload: inside[14..].to_vec(),
        ..around
    };
    frame.ip_mut().unwrap().whole = true;
    enter(&world, 0, &frame);
    world.run(100, |_, _| true);
    let errors = left(&world, 0);
    assert_eq!(errors.len(), 1);
    assert_eq!(described(&errors[0]).key.dst.address(), user(false, 0));
}

/// Catches: ICMP errors without a rate limit.
#[test]
fn the_rate_of_icmp_errors_is_limited() {
    let mut world = met(false, [udp(None); 2]);
    world.run(1_000, |_, _| true);
    for _ in 0..300 {
        let mut frame = datagram(false, 0, 1_450);
        frame.ip_mut().unwrap().whole = true;
        enter(&world, 0, &frame);
        world.run(1, |_, _| true);
    }
    world.run(300, |_, _| true);
    let errors = left(&world, 0).len();
    assert_eq!((carried(&world, 0).errors, carried(&world, 0).too_big), (100, 300));
    assert_eq!(errors, 100);
}

/// Catches: an ICMP error that stays in the port after the last trunk was removed, where it
/// occupies a buffer and wakes the loop repeatedly.
#[test]
fn pending_icmp_errors_are_delivered_after_the_last_trunk_was_removed() {
    let mut world = met(false, [udp(None); 2]);
    let mut frame = datagram(false, 0, 1_450);
    frame.ip_mut().unwrap().whole = true;
    enter(&world, 0, &frame);
    let (now, Site { gateway, ports, .. }) = (world.now, &mut world.sites[0]);
    let packet = ports[0].receive(gateway.pool(), now).unwrap();
    gateway.handle_packet(now, Gateway::LAN, packet);
    while let Some(packet) = gateway.poll_transmit(now, Gateway::WAN) {
        ports[1].send(gateway.pool(), packet);
    }
    let trunks = TrunkPort::among_mut(ports).unwrap();
    assert_eq!(trunks.peers()[0].carried.unwrap().errors, 1);
    trunks.end_trunks(Vec::new());
    world.run(1, |_, _| true);
    assert_eq!(left(&world, 0).len(), 1);
    let Site { gateway, ports, .. } = &mut world.sites[0];
    assert_eq!((gateway.pool().in_use(), ports[1].poll_timeout()), (0, Some(Time::MAX)));
}

/// Catches: an MSS option clamped in one direction only.
#[test]
fn the_mss_is_clamped_in_both_directions() {
    let mut world = met(false, [udp(None); 2]);
    for from in [0, 1] {
        let at = |site: usize| (user(false, site), 80).into();
        let mut syn = Built { source: USERS[from], ..Built::tcp(at(from), at(1 - from)) };
        let tcp = syn.tcp_mut().unwrap();
        (tcp.flags, tcp.options) = (TcpFlags(TcpFlags::SYN), vec![2, 4, 5, 180]);
        enter(&world, from, &syn);
        world.run(100, |_, _| true);
        let out = left(&world, 1 - from);
        assert_eq!(described(&out[0]).tcp.unwrap().mss, 1_449 - 40);
    }
}

/// Catches: a forged ICMP error that is accepted, because the packet that it quotes is not checked;
/// a genuine error that is ignored; an error that raises the path MTU.
#[test]
fn an_icmp_error_counts_only_if_it_quotes_a_datagram_that_was_sent() {
    for v6 in [false, true] {
        let mut world = met(v6, [udp(None); 2]);
        enter(&world, 0, &datagram(false, 0, 1_380));
        world.run(100, |_, _| true);
        let sent = world.crossed.iter().find(|(to, it)| *to == 1 && it.len() > 1_400);
        let sent = sent.unwrap().1.clone();
        let router = if v6 { "2001:db8::99" } else { "192.0.2.99" }.parse().unwrap();
        let report = |quoted: &[u8], mtu| {
            let mut it = described(quoted);
            it.transport_offset -= 14;
            let error = icmp::too_big(&quoted[14..], &it, mtu, router).unwrap();
            let ethertype: [u8; 2] = if v6 { [0x86, 0xdd] } else { [8, 0] };
            [&[2, 0, 0, 0, 1, 0][..], &[2, 0, 0, 0, 1, 1], &ethertype, &error].concat()
        };
        let mut forged = sent.clone();
        forged[if v6 { 54 } else { 34 } + 7] ^= 1;
        for (frame, mtu, expected, ignored) in [
            (&forged, 1_400, 1_500, 1),
            (&sent, 1_400, 1_400, 1),
            (&sent, 600, 1_351, 1),
            (&sent, 1_450, 1_351, 2),
        ] {
            world.sites[0].wan[0].borrow_mut().push_back(report(frame, mtu));
            world.run(2, |_, _| true);
            let peer = world.sites[0].peer();
            assert_eq!((peer.path_mtu, peer.ignored), (expected, ignored), "{v6}: {mtu}");
        }
        assert!(left(&world, 0).is_empty(), "it is for nobody else");
        left(&world, 1);
        let mut frame = datagram(false, 0, 1_380);
        frame.ip_mut().unwrap().whole = true;
        enter(&world, 0, &frame);
        world.run(100, |_, _| true);
        assert_eq!((left(&world, 0).len(), left(&world, 1).len()), (1, 0));
    }
}

/// Catches: a datagram that is accepted twice, from another address, or with changed bytes; a user
/// packet from a datagram that is accepted although its destination is a gateway.
#[test]
fn replayed_and_forged_datagrams_and_user_packets_to_a_gateway_are_refused() {
    let mut world = met(false, [udp(None); 2]);
    enter(&world, 0, &datagram(false, 0, 500));
    world.run(100, |_, _| true);
    assert_eq!(left(&world, 1).len(), 1);
    let sent = world.crossed.iter().find(|(to, it)| *to == 1 && it.len() > 500).unwrap().1.clone();
    let mut changed = sent.clone();
    changed[100] ^= 1;
    let mut from_elsewhere = datagram(false, 0, 0);
    from_elsewhere.payload = sent[42..].to_vec();
    let ip = from_elsewhere.ip_mut().unwrap();
    (ip.src, ip.dst) = ([192, 0, 2, 77].into(), addresses(false)[1]);
    ip.transport = Transport::Udp(4754, 4754);
    for frame in [sent, changed, from_elsewhere.bytes()] {
        world.sites[1].wan[0].borrow_mut().push_back(frame);
    }
    let mut to_gateway = datagram(false, 0, 300);
    to_gateway.ip_mut().unwrap().dst = addresses(false)[1];
    enter(&world, 0, &to_gateway);
    world.run(100, |_, _| true);
    assert!(left(&world, 1).is_empty());
    let refused = world.sites[1].peer().refused;
    let reasons = [Refusal::Replayed, Refusal::Forged, Refusal::Inner, Refusal::NotFromPeer];
    let counts = reasons.map(|it| refused.of(it));
    assert_eq!((counts, refused.total()), ([1; 4], 4));
}

/// Catches: a congestion mark that a router set on a datagram, but that the user packet lacks after
/// decapsulation; a marked datagram whose user packet is not ECN-capable but is forwarded.
#[test]
fn a_congestion_mark_is_copied_to_the_user_packet_or_drops_it() {
    let mut world = met(false, [udp(None); 2]);
    for (ecn, expected) in [(Ecn::Ect0, Some(Ecn::Ce)), (Ecn::NotEct, None)] {
        let mut frame = datagram(false, 0, 700);
        frame.ip_mut().unwrap().ecn = ecn;
        enter(&world, 0, &frame);
        world.run(100, |_, it| it.len() < 700);
        let sent = world.crossed.iter().rev().find(|(_, it)| it.len() > 700);
        let mut sent = sent.unwrap().1.clone();
        // A router would also update the header checksum, but nothing here checks it.
        sent[15] |= 3;
        world.sites[1].wan[0].borrow_mut().push_back(sent);
        world.run(10, |_, _| true);
        assert_eq!(left(&world, 1).first().map(|it| described(it).ecn), expected);
    }
    assert_eq!(world.sites[1].peer().refused.of(Refusal::Congested), 1);
}

/// Catches: user packets that are sent without encapsulation, because the other end accepts no
/// datagrams.
#[test]
fn ends_that_differ_on_encapsulation_report_it_and_carry_no_packets() {
    let mut world = World::with(true, [udp(None), Wire::Headers]);
    enter(&world, 0, &datagram(true, 0, 100));
    world.run(2_500, |_, _| true);
    for site in &world.sites {
        let peer = site.peer();
        assert_eq!(peer.difference, Some(Refusal::Encapsulation));
        assert!(!peer.is_up() && peer.refused.of(Refusal::Encapsulation) > 1);
    }
    assert!(left(&world, 1).is_empty());
}

/// Catches: a path MTU that is larger than a packet buffer.
#[test]
fn the_path_mtu_is_limited_by_the_buffer_and_leaves_room_for_a_vlan_tag() {
    let memory = PacketMemory::new(1, PacketMemory::SMALLEST).unwrap();
    assert_eq!(carrier::path(9_000, &memory).get(Time::ZERO), 2_048 - 256 - 18);
    let frame = datagram(false, 0, 50).bytes();
    let tag = VlanTag::of_vlan(5);
    let with = tagged(frame.clone(), Some(tag));
    assert_eq!(untagged(&with), (frame.clone(), Some(tag)));
    assert_eq!(untagged(&frame), (frame, None));
}
