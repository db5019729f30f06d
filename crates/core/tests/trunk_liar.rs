//! A peer of a trunk that lies in its acknowledgements: it has the key, and what it gains is bounded all the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tidegate_core::gateway::{Gateway, GatewayConfig, Overhead};
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol, TcpFlags, TcpSegment};
use tidegate_core::policy::{Action, Filter, Mode, Policy, PolicySet};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, Rate, Time, tcp, trunk};

const FRAME: u32 = 1_514;

fn gateway(rate: Option<Rate>) -> Gateway {
    let queue = QdiscSpec::DropTail(Default::default());
    let trunk = trunk::Config {
        name: "t".to_owned(),
        local: [192, 0, 2, 1].into(),
        peer: [192, 0, 2, 2].into(),
        port: 4_754,
        connections: 4,
        vmss: Bytes(1_500),
        guarantee: None,
        queue: queue.clone(),
        assured: 1,
        tcp: tcp::Config { receive_window: Bytes(1 << 24), ..tcp::Config::default() },
        fallback: Default::default(),
        probing: Default::default(),
        wire: Default::default(),
    };
    let config = GatewayConfig {
        rate: [rate, None],
        overhead: Overhead::default(),
        queue,
        packets: 4_096,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        trunks: vec![trunk],
        seed: 1,
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
    Gateway::new(&config, PolicySet::new(vec![policy]).unwrap(), Time::ZERO)
}

/// What a user sends.
fn user() -> Packet {
    let src = Endpoint::v4([10, 0, 0, 1], 9);
    let dst = Endpoint::v4([10, 0, 1, 1], 9);
    let key = FlowKey { src, dst, protocol: Protocol::UDP };
    let (network, network_offset) = (Network::Ipv4, 14);
    Packet {
        len: FRAME,
        cost: FRAME,
        network,
        network_offset,
        key,
        segments: 1,
        ..Packet::default()
    }
}

/// What the peer says to a management packet: all of it has come, long before it can have, and `ahead`
/// bytes that were never sent.
fn lie(packet: &Packet, sent: &TcpSegment, ahead: u32) -> Packet {
    let syn = sent.flags.any(TcpFlags::SYN);
    let header = TcpSegment {
        seq: if syn { 1_000 } else { 1_001 },
        ack: sent.end_seq().wrapping_add(ahead),
        flags: TcpFlags(if syn { TcpFlags::SYN | TcpFlags::ACK } else { TcpFlags::ACK }),
        window: u16::MAX,
        window_scale: syn.then_some(14),
        mss: if syn { 1_460 } else { 0 },
        sack_permitted: syn,
        timestamps: sent.timestamps.map(|(value, _)| (value, value)),
        ..TcpSegment::default()
    };
    let (key, tcp) = (packet.key.reverse(), Some(header));
    Packet {
        len: 66,
        cost: 66,
        network: Network::Ipv4,
        network_offset: 14,
        key,
        tcp,
        segments: 1,
        ..Packet::default()
    }
}

/// Bytes of user packets that leave within five seconds, of 72 Mbit/s, to a peer that lies.
fn gained(mut gateway: Gateway) -> u64 {
    let mut bytes = 0;
    for millisecond in 1..=5_000 {
        let now = Time::from_millis(millisecond);
        for _ in 0..6 {
            if let Some(packet) = gateway.pool().insert(user()) {
                gateway.handle_packet(now, Gateway::LAN, packet);
            }
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            let packet = gateway.pool()[&id];
            gateway.pool().release(id);
            let Some(sent) = packet.tcp else {
                bytes += u64::from(packet.len);
                continue;
            };
            if sent.sequence_len() == 0 {
                continue; // A lie about an acknowledgement would be answered, and so on.
            }
            for ahead in [0, 0, 0, 14_480, 1 << 30] {
                if let Some(id) = gateway.pool().insert(lie(&packet, &sent, ahead)) {
                    gateway.handle_packet(now, Gateway::WAN, id);
                }
            }
        }
    }
    bytes
}

#[test]
fn a_peer_that_acknowledges_what_it_has_not_got_gains_no_more_than_the_link_was_given() {
    let rate = Rate::from_mbps(8);
    let free = gained(gateway(None));
    assert!(free > 5 * 4 * 1_000_000, "{free}: its lies are of no use, and nothing is shown");
    let bounded = gained(gateway(Some(rate)));
    let most = rate.bytes_in(Duration::from_secs(5)).0 + 16 * u64::from(FRAME);
    assert!(bounded <= most, "{bounded} of {most}");
    assert!(bounded > most / 2, "{bounded} of {most}: it carries next to nothing");
}
