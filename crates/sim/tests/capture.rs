//! Captures show the packets that the simulator carried, and other tools can read them.

#![expect(clippy::unwrap_used, clippy::as_conversions, reason = "a test may panic")]

mod networks;

use std::sync::Arc;
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use networks::{captured, dumbbell};
use tidegate_core::link::{Jitter, Loss};
use tidegate_core::packet::{Ecn, Protocol, TcpFlags};
use tidegate_core::tcp::{Config, EcnMode, Profile};
use tidegate_core::{Bytes, Chance, Packet, Rate};
use tidegate_sim::scenario::{Distribution, End, Kind, NodeKind, Scenario, Way};
use tidegate_wire::describe;
use tidegate_wire::pcap::Record;

fn way(from: &str, to: &str) -> Way {
    Way { from: End::of(from), to: End::of(to) }
}

fn described(record: &Record) -> Packet {
    let mut packet = Packet::default();
    assert_eq!(describe(&record.bytes, record.len, &mut packet), None);
    packet
}

/// TCP connections with all TCP options over a lossy link, and a telephony stream over IPv6.
fn busy() -> Scenario {
    let mut scenario = dumbbell(3, Kind::File { size: Distribution::Constant(Bytes(200_000)) });
    scenario.run.tcp = Config::new(Profile::Linux);
    scenario.run.tcp.details.ecn = EcnMode::Classic;
    let lossy = Arc::make_mut(scenario.links[0].forward.as_mut().unwrap());
    lossy.loss = Loss::Bernoulli(Chance::from_ppb(20_000_000));
    let mut udp = scenario.traffic[0].clone();
    (udp.name, udp.dscp) = ("telephony".into(), 46);
    udp.kind = Kind::Constant { rate: Rate::from_kbps(80), packet: 214 };
    scenario.traffic.push(udp);
    for node in &mut scenario.nodes {
        if let NodeKind::Host(host) = &mut node.kind
            && node.name.ends_with('2')
        {
            let last = node.name.len() as u16 + u16::from(node.name.starts_with('s'));
            host.addresses =
                vec![std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into()];
        }
    }
    scenario
}

/// Verifies the checksums of a frame with an independent library.
fn check_checksums(frame: &[u8]) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let transport = match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(header.header_checksum(), header.to_header().calc_header_checksum());
            let (src, dst) = (header.source(), header.destination());
            match packet.transport.unwrap() {
                TransportSlice::Tcp(tcp) => {
                    (tcp.checksum(), tcp.calc_checksum_ipv4(src, dst).unwrap())
                }
                TransportSlice::Udp(udp) => {
                    let header = udp.to_header();
                    let right = header.calc_checksum_ipv4_raw(src, dst, udp.payload()).unwrap();
                    (header.checksum, right)
                }
                other => panic!("{other:?}"),
            }
        }
        NetSlice::Ipv6(ip) => {
            let (src, dst) = (ip.header().source(), ip.header().destination());
            match packet.transport.unwrap() {
                TransportSlice::Tcp(tcp) => {
                    (tcp.checksum(), tcp.calc_checksum_ipv6(src, dst).unwrap())
                }
                TransportSlice::Udp(udp) => {
                    let header = udp.to_header();
                    let right = header.calc_checksum_ipv6_raw(src, dst, udp.payload()).unwrap();
                    (header.checksum, right)
                }
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(transport.0, transport.1);
}

/// Catches: a checksum that leaves the payload out.
#[test]
fn frames_equal_their_packets_and_have_right_checksums() {
    let [there, back] = captured(&busy(), [way("l", "r"), way("r", "l")]);
    assert!(there.len() > 500 && back.len() > 200, "{} {}", there.len(), back.len());
    let (mut sack, mut syn, mut udp, mut ipv6, mut ect) = (0, 0, 0, 0, 0);
    for record in there.iter().chain(&back) {
        check_checksums(&record.bytes);
        let packet = described(record);
        assert_eq!(packet.len, u32::try_from(record.bytes.len()).unwrap());
        sack += usize::from(packet.tcp.is_some_and(|tcp| tcp.has_sack));
        syn += usize::from(packet.tcp.is_some_and(|tcp| tcp.flags.any(TcpFlags::SYN)));
        ipv6 += usize::from(packet.key.src.address().is_ipv6());
        ect += usize::from(packet.ecn == Ecn::Ect0);
        if packet.key.protocol == Protocol::UDP {
            udp += 1;
            assert_eq!((packet.len, packet.dscp), (214, 46));
        }
    }
    assert!(sack > 10 && syn >= 6 && udp > 100 && ipv6 > 100 && ect > 100, "{sack} {syn} {udp}");
}

/// The length of a frame in a capture is the length that the link counts for its rate and queue.
///
/// Catches: a link that counts four bytes less for each packet; TCP timestamps counted as ten
/// bytes, without their padding.
#[test]
fn a_link_counts_as_many_bytes_as_a_capture_shows() {
    let scenario = busy();
    let [there] = captured(&scenario, [way("l", "r")]);
    let results = networks::run(&scenario);
    let bytes: u64 = there.iter().map(|record| u64::from(record.len)).sum();
    let links = results.table("links").unwrap();
    assert_eq!(links.whole("delivered_bytes")[0], bytes);
    assert_eq!(links.whole("delivered_packets")[0], u64::try_from(there.len()).unwrap());
}

/// With jitter, a link keeps packets in order unless `reorder` is set.
///
/// Catches: an arrival time that depends only on the packet's own random delay, so that packets
/// overtake each other.
#[test]
fn a_link_without_reorder_keeps_the_order() {
    for reorder in [false, true] {
        let size = Distribution::Constant(Bytes(400_000));
        let mut scenario = dumbbell(1, Kind::File { size });
        let forward = Arc::make_mut(scenario.links[0].forward.as_mut().unwrap());
        forward.jitter = Jitter::Uniform(Duration::from_millis(5));
        forward.reorder = reorder;
        let captured = captured(&scenario, [way("s0", "l"), way("l", "r")]);
        let [sent, arrived] = captured.map(|records| {
            let seq = |record| described(record).tcp.unwrap().seq;
            records.iter().map(seq).collect::<Vec<_>>()
        });
        assert!(sent.len() > 270 && sent.len() == arrived.len());
        assert_eq!(sent == arrived, !reorder);
    }
}
