//! A trunk carries packets to another gateway (the peer). Here the peer knows the key and sends
//! false acknowledgements to get a higher rate. Its gain is bounded.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tidegate_core::link::Overhead;
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol, TcpFlags, TcpSegment};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, Rate, Time, tcp, trunk};
use tidegate_gateway::policy::{Action, Filter, Mode, Policy, PolicySet};
use tidegate_gateway::{Gateway, GatewayConfig};

const FRAME: u32 = 1_514;

/// A gateway on a link with this `rate`, and a default trunk that `change` modifies.
fn gateway(rate: Option<Rate>, change: impl FnOnce(&mut trunk::Config)) -> Gateway {
    let queue = QdiscSpec::DropTail(Default::default());
    let mut trunk = trunk::Config {
        name: "t".to_owned(),
        local: [192, 0, 2, 1].into(),
        peer: [192, 0, 2, 2].into(),
        port: 4_754,
        connections: 4,
        vmss: Bytes(1_500),
        guarantee: None,
        ceiling: None,
        queue: queue.clone(),
        assured: 1,
        tcp: tcp::Config { receive_window: Bytes(1 << 24), ..tcp::Config::default() },
        fallback: Default::default(),
        probing: Default::default(),
        weight: None,
        wire: Default::default(),
    };
    change(&mut trunk);
    let config = GatewayConfig {
        rate: [rate, None],
        overhead: Overhead::default(),
        queue,
        packets: 4_096,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: vec![trunk],
        seed: 1,
        scheduler: Default::default(),
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

/// A user packet.
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

/// The false answer of the peer to a management packet. It acknowledges all data at once, and also
/// `ahead` bytes that were never sent.
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

/// Offers 72 Mbit/s for five seconds. The peer sends false answers until the millisecond `silent`.
/// Returns the bytes of user and of management packets that departed in each millisecond, with IP
/// headers.
fn sent(mut gateway: Gateway, silent: Option<u64>) -> Vec<[u64; 2]> {
    let mut all = Vec::new();
    for millisecond in 1..=5_000 {
        let now = Time::from_millis(millisecond);
        let mut bytes = [0; 2];
        for _ in 0..6 {
            if let Some(packet) = gateway.pool().insert(user()) {
                gateway.handle_packet(now, Gateway::LAN, packet);
            }
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            let packet = gateway.pool()[&id];
            gateway.pool().release(id);
            let len = u64::from(packet.len) - u64::from(packet.network_offset);
            let Some(sent) = packet.tcp else {
                bytes[0] += len;
                continue;
            };
            bytes[1] += len;
            if sent.sequence_len() == 0 || silent.is_some_and(|at| millisecond >= at) {
                continue; // A false answer to an acknowledgement would be answered for ever.
            }
            for ahead in [0, 0, 0, 14_480, 1 << 30] {
                if let Some(id) = gateway.pool().insert(lie(&packet, &sent, ahead)) {
                    gateway.handle_packet(now, Gateway::WAN, id);
                }
            }
        }
        all.push(bytes);
    }
    all
}

/// Bytes of user packets that departed.
fn gained(gateway: Gateway) -> u64 {
    sent(gateway, None).iter().map(|it| it[0]).sum()
}

#[test]
fn a_peer_that_acknowledges_unsent_data_gains_at_most_the_rate_of_the_link() {
    let rate = Rate::from_mbps(8);
    let free = gained(gateway(None, |_| ()));
    assert!(free > 5 * 4 * 1_000_000, "{free}: its lies are of no use, and nothing is shown");
    let bounded = gained(gateway(Some(rate), |_| ()));
    let most = rate.bytes_in(Duration::from_secs(5)).0 + 16 * u64::from(FRAME);
    assert!(bounded <= most, "{bounded} of {most}");
    assert!(bounded > most / 2, "{bounded} of {most}: it carries next to nothing");
}

/// In any time span, the trunk sends at most these bytes: its ceiling, 10 ms of ceiling and
/// guarantee, and one packet that is charged later. Almost all of these bytes are user packets.
///
/// Catches: user or management packets that are not charged; a ceiling that is ignored by credit,
/// by management packets, or by user packets sent after the peer failed.
#[test]
fn in_any_time_span_a_lying_peer_gains_at_most_the_ceiling() {
    for (mbps, guarantee, connections, vmss, silent) in [
        (8, 0, 4, 1_500, None),
        (8, 6, 4, 1_500, None),
        (8, 8, 4, 1_500, None),
        (1, 0, 64, 64, None),
        (30, 10, 1, 6_000, None),
        (4, 0, 1, 60_000, None),
        (8, 2, 4, 1_500, Some(1_000)),
    ] {
        let ceiling = Rate::from_mbps(mbps);
        let gateway = gateway(None, |trunk| {
            trunk.ceiling = Some(ceiling);
            trunk.guarantee = (guarantee > 0).then(|| Rate::from_mbps(guarantee));
            (trunk.connections, trunk.vmss) = (connections, Bytes(vmss));
            trunk.fallback = trunk::Fallback::Direct;
        });
        let sent = sent(gateway, silent);
        let each = mbps * 125;
        let most = 10 * (each + guarantee * 125) + u64::from(FRAME);
        let mut ahead = 0;
        for (at, [user, management]) in sent.iter().enumerate() {
            ahead = (ahead + user + management).saturating_sub(each);
            assert!(
                ahead <= most,
                "{mbps} {guarantee} {connections}: {ahead} of {most} at {at} ms"
            );
        }
        let users: u64 = sent[500..].iter().map(|it| it[0]).sum();
        // The remainder is management packets. While the peer is silent, only the guarantee is sent
        // for three timeouts.
        let part = if vmss < 1_500 || silent.is_some() { 50 } else { 95 };
        let full = 4_500 * each;
        assert!(100 * users >= part * full, "{mbps} {guarantee} {connections}: {users} of {full}");
    }
}
