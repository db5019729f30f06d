//! Tests two gateways with a trunk between them, by the frames at all four ports. The gateways
//! exchange management packets (TCP segments that probe the path) and hellos (keepalives).

use tidegate_core::gateway::{Gateway, GatewayConfig};
use tidegate_core::link::Overhead;
use tidegate_core::policy::{Action, Filter, Mode, Policy, PolicySet};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::trunk::Wire;
use tidegate_core::{Bytes, Machine, tcp, trunk};
use tidegate_wire::build::Frame as Built;
use tidegate_wire::describe;
use tidegate_wire::neighbour::NextHop;
use tidegate_wire::trunk::message::Message;
use tidegate_wire::trunk::{Key, Refusal};

use super::*;
use crate::iteration::iterate;
use crate::testing::{Cable, Frames};

mod datagrams;

/// A gateway, with the arriving and departing frames of its LAN port and its WAN port.
struct Site {
    gateway: Gateway,
    end: TrunkEnd,
    ports: Vec<Box<dyn Port>>,
    lan: [Frames; 2],
    wan: [Frames; 2],
}

const PACKETS: u32 = 512;

fn addresses(v6: bool) -> [IpAddr; 2] {
    let both = if v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] };
    both.map(|it| it.parse().unwrap())
}

impl Site {
    /// The first or the second site. `run` differs for each restart, since it seeds the random
    /// bytes.
    fn new(number: usize, v6: bool, run: u8, now: Time) -> Self {
        Self::with(number, v6, run, now, Wire::Headers)
    }

    /// A site whose trunk has this encapsulation.
    fn with(number: usize, v6: bool, run: u8, now: Time, wire: Wire) -> Self {
        let ends = addresses(v6);
        let (local, peer) = (ends[number], ends[1 - number]);
        let config = trunk::Config {
            name: "t".to_owned(),
            local,
            peer,
            port: 4754,
            connections: 2,
            vmss: Bytes(1_500),
            guarantee: None,
            ceiling: None,
            queue: QdiscSpec::PerFlow(Default::default()),
            assured: 1,
            tcp: tcp::Config::default(),
            fallback: Default::default(),
            probing: Default::default(),
            weight: None,
            wire,
        };
        let end = TrunkEnd {
            number: NonZeroU16::MIN,
            ends: Ends { local, peer, port: config.port },
            connections: config.connections,
            probing: config.probing,
            weighted: false,
            dscp: config.user_dscp(),
            next_hop: NextHop::Address(peer),
            key: Key([5; 32]),
            wire,
            mtu: 1_500,
        };
        let policy = Policy {
            name: "all".to_owned(),
            priority: 0,
            filter: Filter::default(),
            action: Action::Pass,
            mode: Mode::Enforce,
            class: None,
            trunk: Some("t".to_owned()),
        };
        let settings = GatewayConfig {
            rate: [None; 2],
            overhead: Overhead::default(),
            queue: QdiscSpec::PerFlow(Default::default()),
            packets: PACKETS,
            flows: 16,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: vec![config],
            seed: u64::from(run),
            scheduler: Default::default(),
        };
        let gateway = Gateway::new(&settings, PolicySet::new(vec![policy]).unwrap(), now);
        let memory = PacketMemory::new(PACKETS, PacketMemory::SMALLEST).unwrap();
        let [lan, wan]: [[Frames; 2]; 2] = Default::default();
        let cable = |frames: &[Frames; 2]| -> Box<dyn Port> {
            Box::new(Cable::new(memory.clone(), frames.clone()))
        };
        let mac = [2, 0, 0, 0, 1, u8::try_from(number).unwrap()];
        let seeded = vec![(end.clone(), [run; 32])];
        let outer = TrunkPort::new(cable(&wan), memory.clone(), mac, seeded);
        Self { gateway, end, ports: vec![cable(&lan), Box::new(outer)], lan, wan }
    }

    fn iterate(&mut self, now: Time) {
        iterate(&mut self.gateway, &mut self.ports, now);
    }

    fn trunks(&mut self) -> &mut TrunkPort {
        TrunkPort::among_mut(&mut self.ports).unwrap()
    }

    fn peer(&self) -> PeerReport {
        TrunkPort::among(&self.ports).unwrap().peers()[0]
    }

    fn absorbed(&self) -> u64 {
        self.gateway.trunks()[0].counts.absorbed
    }
}

/// Both sites, and the frames that have crossed between them, by receiving site.
struct World {
    now: Time,
    v6: bool,
    sites: [Site; 2],
    crossed: Vec<(usize, Vec<u8>)>,
}

impl World {
    fn new(v6: bool) -> Self {
        Self::with(v6, [Wire::Headers; 2])
    }

    /// Sites whose trunks have these encapsulations.
    fn with(v6: bool, wires: [Wire; 2]) -> Self {
        let sites = [0, 1].map(|number: usize| {
            let run = u8::try_from(number).unwrap();
            Site::with(number, v6, run, Time::ZERO, wires[number])
        });
        Self { now: Time::ZERO, v6, sites, crossed: Vec::new() }
    }

    /// A user at the first site sends a datagram of this length to a user at the second site.
    fn send(&self, len: usize) {
        let (src, dst) = if self.v6 {
            ("[2001:db8:1::7]:9", "[2001:db8:2::7]:9")
        } else {
            ("10.1.0.7:9", "10.2.0.7:9")
        };
        let datagram = Built::udp(src.parse().unwrap(), dst.parse().unwrap());
        let frame = Built { payload: vec![1; len], ..datagram };
        self.sites[0].lan[0].borrow_mut().push_back(frame.bytes());
    }

    /// Advances the time by this many milliseconds. `path` decides for each frame to a site whether
    /// it crosses.
    fn run(&mut self, millis: u64, mut path: impl FnMut(usize, &[u8]) -> bool) {
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            for from in [0, 1] {
                self.sites[from].iterate(self.now);
                for frame in self.sites[from].wan[1].take() {
                    if path(1 - from, &frame) {
                        self.sites[1 - from].wan[0].borrow_mut().push_back(frame.clone());
                    }
                    self.crossed.push((1 - from, frame));
                }
            }
        }
    }
}

fn is_hello(frame: &[u8]) -> bool {
    let at = usize::from(described(frame).transport_offset) + 8;
    let message = frame.get(at..frame.len().saturating_sub(16)).map(Message::read);
    matches!(message, Some(Ok(Message::Hello { .. })))
}

fn described(frame: &[u8]) -> Packet {
    let mut packet = Packet::default();
    describe(frame, u32::try_from(frame.len()).unwrap(), &mut packet);
    packet
}

/// Catches: a management packet sent with the bytes of an older frame in its buffer; management
/// packets of the peer forwarded to users; datagrams without sequence and acknowledgement numbers;
/// datagrams that never depart because the next hop is unknown.
#[test]
fn user_packets_cross_as_they_are_and_management_packets_stay_between_the_gateways() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        world.run(20, |_, _| true);
        assert!(world.sites.iter().all(|site| site.peer().is_up()), "{v6}");
        for n in 0..1_000 {
            world.send(100 + n % 1_300);
            world.run(2, |_, _| true);
        }
        world.run(2_000, |_, _| true);
        let arrived: Vec<_> = world.sites[1].lan[1].take().into();
        assert_eq!(arrived.len(), 1_000);
        assert!(arrived.iter().all(|frame| described(frame).dscp == 10));
        assert!(world.sites[0].lan[1].borrow().is_empty());
        let counts = world.sites[0].gateway.trunks()[0].counts;
        assert!(counts.management > 400 && counts.again == 0, "{counts:?}");
        // The difference is the number of hellos: one each second, and a few at the start.
        let made = world.sites[1].gateway.trunks()[0].counts.made;
        assert!((made + 4..made + 8).contains(&counts.absorbed), "{made} {counts:?}");
        let marked = world.crossed.iter().filter(|(_, frame)| described(frame).dscp == 14);
        assert_eq!(marked.count(), usize::try_from(counts.management).unwrap());
        for site in &mut world.sites {
            assert_eq!((site.gateway.pool().in_use(), site.peer().refused.total()), (0, 0));
            assert_eq!(site.ports[1].counters().drops.total(), 0);
        }
    }
}

/// Catches: a forged segment accepted because its ports are right; a datagram accepted twice.
#[test]
fn replayed_changed_and_forged_packets_are_refused() {
    for v6 in [false, true] {
        let mut world = World::new(v6);
        world.run(20, |_, _| true);
        for _ in 0..100 {
            world.send(1_000);
            world.run(5, |_, _| true);
        }
        world.run(1_000, |_, _| true);
        let ends = addresses(v6);
        for to in [0, 1] {
            let site = &mut world.sites[to];
            let (absorbed, users) = (site.absorbed(), site.lan[1].take().len());
            let recorded: Vec<_> = world
                .crossed
                .iter()
                .filter(|(it, _)| *it == to)
                .map(|(_, frame)| frame.clone())
                .collect();
            let datagrams = recorded.iter().filter(|it| described(it).key.src.port == 4754);
            let mut sent = 0;
            for frame in datagrams {
                sent += 1;
                site.wan[0].borrow_mut().push_back(frame.clone());
                let mut changed = frame.clone();
                *changed.last_mut().unwrap() ^= 1;
                site.wan[0].borrow_mut().push_back(changed);
            }
            for channel in 0..5 {
                let at = |address: IpAddr, channel: u16| (address, 4754 + channel).into();
                let segment = Built::tcp(at(ends[1 - to], channel), at(ends[to], channel ^ 1));
                site.wan[0].borrow_mut().push_back(segment.bytes());
            }
            // An iteration receives only a limited number of frames, so the site needs several
            // iterations.
            for _ in 0..100 {
                site.iterate(world.now);
            }
            // A replayed hello is accepted within its session, because it only proves that the
            // other end is alive.
            let hellos = u64::try_from(recorded.iter().filter(|it| is_hello(it)).count()).unwrap();
            assert!((1..5).contains(&hellos) && site.absorbed() <= absorbed + hellos);
            assert_eq!(site.lan[1].borrow().len(), 0, "{users}");
            let refused = site.peer().refused;
            assert!(refused.of(Refusal::Forged) >= sent && sent > 20, "{refused:?}");
            assert!(refused.of(Refusal::Replayed) > 20, "{refused:?}");
        }
    }
}

/// Number of datagrams that the port of a site has counted as accepted or as refused.
fn counted(site: &Site) -> u64 {
    let peer = site.peer();
    let users = peer.carried.map_or(0, |it| it.received);
    peer.taken.hellos + peer.taken.segments + users + peer.refused.total()
}

/// Variants of a frame: the unchanged frame, the frame truncated at each byte, and the frame with
/// each byte changed.
fn variants(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![frame.to_vec()];
    all.extend((1..frame.len()).map(|len| frame[..len].to_vec()));
    for at in 12..frame.len() {
        for bit in [1, 0x20] {
            let mut changed = frame.to_vec();
            changed[at] ^= bit;
            all.push(changed);
        }
    }
    all
}

/// Catches: a datagram that no counter counts because it is truncated, forged, or for an unknown
/// connection; a datagram counted twice.
#[test]
fn every_datagram_for_an_end_of_a_trunk_is_counted_once() {
    for (v6, wire) in [
        (false, Wire::Headers),
        (true, Wire::Headers),
        (false, datagrams::udp(None)),
        (true, datagrams::udp(None)),
    ] {
        let mut world = World::with(v6, [wire; 2]);
        // The second end has only one of the two connections that the first end uses.
        world.sites[1].end.connections = 1;
        let end = world.sites[1].end.clone();
        world.sites[1].trunks().end_trunks(vec![(end, [1; 32])]);
        world.run(20, |_, _| true);
        for _ in 0..20 {
            world.send(1_000);
            world.run(5, |_, _| true);
        }
        world.run(1_000, |_, _| true);
        let address = addresses(v6)[1];
        let for_end = |frame: &[u8]| {
            let it = described(frame);
            it.network != Network::Opaque
                && it.key.dst.address() == address
                && it.key.protocol != Protocol::ICMPV6
        };
        let crossed: Vec<_> =
            world.crossed.iter().filter(|it| it.0 == 1).map(|it| it.1.clone()).collect();
        let mut came = u64::try_from(crossed.iter().filter(|it| for_end(it)).count()).unwrap();
        let site = &mut world.sites[1];
        assert_eq!(counted(site), came, "{v6} {wire:?} {:?}", site.peer());
        assert!(came > 20, "{came}");
        for frame in crossed.iter().filter(|it| for_end(it)) {
            let all = variants(frame);
            came += u64::try_from(all.iter().filter(|it| for_end(it)).count()).unwrap();
            for one in all {
                site.wan[0].borrow_mut().push_back(one);
                site.iterate(world.now);
            }
        }
        assert!(site.wan[0].borrow().is_empty());
        assert_eq!(counted(site), came, "{v6} {wire:?} {:?}", site.peer());
        let refused = site.peer().refused;
        for why in [
            Refusal::Malformed,
            Refusal::Forged,
            Refusal::Replayed,
            Refusal::Channel,
            Refusal::NotFromPeer,
        ] {
            assert!(refused.of(why) > 0, "{v6} {wire:?} {why:?} {refused:?}");
        }
    }
}

/// Catches: a user packet with the addresses and ports of a management connection, if the gateway
/// authenticates it as its own packet.
#[test]
fn user_packets_with_the_addresses_of_the_gateway_are_not_authenticated() {
    let mut world = World::new(false);
    world.run(20, |_, _| true);
    let [local, peer] = addresses(false);
    let false_segment = Built::tcp((local, 4754).into(), (peer, 4755).into());
    world.sites[0].lan[0].borrow_mut().push_back(false_segment.bytes());
    let (before, absorbed) = (world.crossed.len(), world.sites[1].absorbed());
    world.run(50, |_, _| true);
    let key = described(&false_segment.bytes()).key;
    assert!(world.crossed[before..].iter().any(|(_, frame)| described(frame).key == key));
    let management = world.sites[0].gateway.trunks()[0].counts.made;
    world.run(3_000, |_, _| true);
    assert_eq!(world.sites[1].lan[1].borrow().len(), 0, "it is nobody's there");
    let hellos = 4;
    assert!(world.sites[1].absorbed() <= absorbed + management + hellos);
}

/// Catches: ARP, neighbour discovery and multicast that wait until the trunk has credit.
#[test]
fn packets_for_the_local_network_do_not_wait_for_the_peer() {
    let mut world = World::new(false);
    let datagram = |from: &str, to: &str| Built::udp(from.parse().unwrap(), to.parse().unwrap());
    let frames = [
        Built::opaque(ARP, vec![0; 46]),
        datagram("10.1.0.7:9", "224.0.0.251:5353"),
        datagram("10.1.0.7:9", "255.255.255.255:67"),
        datagram("[fe80::7]:9", "[ff02::1]:9"),
        datagram("[fe80::7]:9", "[fe80::1]:9"),
    ];
    for frame in &frames {
        world.sites[0].lan[0].borrow_mut().push_back(frame.bytes());
    }
    world.send(100);
    world.run(2, |_, _| false);
    let passed = |frame: &Built| world.crossed.iter().any(|it| *it == (1, frame.bytes()));
    assert!(frames.iter().all(passed));
    let waits = world.sites[0].gateway.trunks()[0].backlog.packets;
    assert_eq!(waits, 1, "the user's packet does");
}

/// Catches: a first hello that waits for a full interval although the next hop is known.
#[test]
fn hellos_are_exchanged_as_soon_as_the_next_hop_is_known() {
    let mut world = World::new(false);
    world.run(500, |_, _| false);
    world.run(550, |_, _| true);
    assert!(world.sites.iter().all(|site| site.peer().is_up()));
}

/// For a minute no frame crosses, while users keep sending. After the outage, the first hello is
/// answered within one hello interval and a few round trips. After the same time again, user
/// packets cross as before. Without hellos, the connection would wait for half the length of the
/// outage.
///
/// Catches: hellos that are not passed on to the machine.
#[test]
fn after_a_long_outage_the_first_hello_restarts_the_connection() {
    let mut world = World::new(false);
    let sends = |world: &mut World, millis: u64, there: bool| {
        for _ in 0..millis / 10 {
            world.send(1_000);
            world.run(10, |_, _| there);
        }
    };
    sends(&mut world, 3_000, true);
    sends(&mut world, 60_000, false);
    assert_eq!(world.sites[0].gateway.trunks()[0].state.silent, 2);
    sends(&mut world, 1_500, true);
    assert_eq!(world.sites[0].gateway.trunks()[0].state.silent, 0);
    sends(&mut world, 1_000, true);
    world.sites[1].lan[1].take();
    sends(&mut world, 1_000, true);
    assert!(world.sites[1].lan[1].borrow().len() >= 100);
}

/// Catches: a session that ends when the path MTU changes; a session that continues with another
/// key; a removed trunk that still accepts datagrams.
#[test]
fn a_changed_trunk_continues_its_session_if_the_key_is_the_same() {
    let mut world = World::new(false);
    let change = |world: &mut World, key: u8, mtu: u32| {
        for site in &mut world.sites {
            (site.end.key, site.end.mtu) = (Key([key; 32]), mtu);
            let end = site.end.clone();
            site.trunks().end_trunks(vec![(end, [key; 32])]);
        }
        [0, 1].map(|number| world.sites[number].peer().agreed)
    };
    world.run(20, |_, _| true);
    assert_eq!(change(&mut world, 5, 1_400), [true; 2]);
    assert_eq!(change(&mut world, 6, 1_400), [false; 2]);
    for _ in 0..100 {
        world.send(1_000);
        world.run(20, |_, _| true);
    }
    assert!(world.sites.iter().all(|site| site.peer().is_up()));
    assert_eq!(world.sites[1].lan[1].take().len(), 100);
    world.sites[0].trunks().end_trunks(Vec::new());
    world.crossed.clear();
    world.run(2_000, |_, _| true);
    assert!(world.sites[0].trunks().peers().is_empty());
    assert!(world.crossed.iter().all(|(to, _)| *to == 0), "it still speaks");
}

#[test]
fn ends_agree_again_after_a_restart_of_either_gateway_and_after_an_outage() {
    for restarted in [0, 1] {
        let mut world = World::new(true);
        for _ in 0..200 {
            world.send(1_000);
            world.run(5, |_, _| true);
        }
        world.sites[restarted] = Site::new(restarted, true, 9, world.now);
        for _ in 0..400 {
            world.send(1_000);
            world.run(5, |_, _| true);
        }
        world.sites[1].lan[1].take();
        assert_eq!(world.sites[1 - restarted].peer().sessions, 2, "{restarted}");
        for _ in 0..200 {
            world.run(20, |_, _| false);
        }
        assert!(world.sites.iter().all(|site| !site.peer().is_up()));
        for _ in 0..2_000 {
            world.send(1_000);
            world.run(5, |_, _| true);
        }
        assert!(world.sites.iter().all(|site| site.peer().is_up()));
        let arrived = world.sites[1].lan[1].borrow().len();
        assert!(arrived > 1_900, "{restarted}: {arrived}");
    }
}

/// Bytes, from the IP header on, that crossed to the second site: in user packets, in management
/// packets, and in other frames. The fourth number is the sum of all bytes that crossed to the
/// first site.
fn crossed(world: &World) -> [usize; 4] {
    let mut bytes = [0; 4];
    for (to, frame) in &world.crossed {
        let it = described(frame);
        let kind = match (to, it.dscp, it.key.src.port) {
            (0, ..) => 3,
            (_, 14, _) => 1,
            (_, 10, port) if port != 4754 => 0,
            _ => 2,
        };
        bytes[kind] += frame.len() - 14;
    }
    bytes
}

/// One management packet is sent for each VMSS (virtual maximum segment size) of user data. At a
/// VMSS of 1,500 bytes, busy users cause a twentieth of their bytes in management packets, slightly
/// more over IPv6. ACKs add half of that amount, and hellos 80 or 100 bytes each second. Users that
/// send seldom cause no more, because the trunk keeps its credit.
///
/// Catches: a management packet sent for less data than VMSS; credit that is lost while no packet
/// waits; a datagram longer than necessary.
#[test]
fn the_overhead_of_a_trunk_is_a_twentieth_of_the_user_bytes() {
    for (v6, thousandths, each) in [(false, 50, 74), (true, 65, 94)] {
        let mut world = World::new(v6);
        world.run(20, |_, _| true);
        world.crossed.clear();
        let headers = if v6 { 48 } else { 28 };
        for _ in 0..3_000 {
            world.send(1_500 - headers);
            world.run(1, |_, _| true);
        }
        let [users, management, rest, back] = crossed(&world);
        assert!(users > 2_900 * 1_500, "{users}");
        assert!(management * 1_000 <= users * thousandths, "{management} of {users}");
        assert!(management * 1_500 > users * (each - 1), "{management} of {users}");
        assert!(back * 1_000 <= users * thousandths / 2 + 3_000_000, "{back} of {users}");
        assert!(rest <= 10 * (headers + 52) + 1_000, "{rest}");
        world.crossed.clear();
        let (count, len) = (200, 300);
        for _ in 0..count {
            world.send(len - headers);
            world.run(100, |_, _| true);
        }
        let [users, management, rest, _] = crossed(&world);
        assert_eq!(users, count * len);
        let saved = 2 * each;
        assert!(
            management * 1_000 <= users * thousandths + saved * 1_000,
            "{management} of {users}"
        );
        let hellos = 21 * (headers + 52);
        assert!(rest <= hellos + 1_000, "{rest}");
    }
}
