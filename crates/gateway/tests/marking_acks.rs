//! ACKs of a flow reach the marking predictor at the queue of the flow's data. A marking predictor
//! marks packets before the queue overflows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use tidegate_core::link::Overhead;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::{
    Ecn, Endpoint, FlowKey, NO_VLAN, Network, Protocol, TcpFlags, TcpSegment,
};
use tidegate_core::qdisc::{QdiscSpec, with_marking};
use tidegate_core::{Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::policy::PolicySet;
use tidegate_gateway::{Gateway, GatewayConfig};

const MSS: u32 = 1_000;

struct Run {
    gateway: Gateway,
    marked: u32,
}

impl Run {
    fn new(marking: &str) -> Self {
        let queue: QdiscSpec =
            toml::from_str::<Queue>("queue = { kind = \"drop-tail\", limit = \"5 kB\" }")
                .unwrap()
                .queue;
        let marking: MarkingSpec =
            toml::from_str::<Marking>(&format!("marking = \"{marking}\"")).unwrap().marking;
        let config = GatewayConfig {
            rate: [Some(Rate::from_kbps(800)); 2],
            overhead: Overhead::default(),
            queue: with_marking(queue, Some(marking)),
            packets: 64,
            flows: 4,
            shaping_interval: Default::default(),
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: Vec::new(),
            seed: 1,
            scheduler: Default::default(),
        };
        Self { gateway: Gateway::new(&config, PolicySet::default(), Time::ZERO), marked: 0 }
    }

    /// Passes one packet through the gateway. It departs before the next packet arrives.
    fn pass(&mut self, millis: u64, port: PortId, tcp: TcpSegment) {
        let now = Time::from_millis(millis);
        let end = |host| Endpoint::v4([10, 0, 0, host], 80);
        let key = FlowKey { src: end(1), dst: end(2), protocol: Protocol::TCP };
        let len = tcp.payload + 54;
        let ecn = if tcp.payload > 0 { Ecn::Ect0 } else { Ecn::NotEct };
        let packet = Packet {
            len,
            cost: len,
            key: if port == Gateway::LAN { key } else { key.reverse() },
            tcp: Some(TcpSegment { window: 60_000, ..tcp }),
            network: Network::Ipv4,
            vlan: NO_VLAN,
            segments: 1,
            ecn,
            ..Packet::default()
        };
        let id = self.gateway.pool().insert(packet).unwrap();
        self.gateway.handle_packet(now, port, id);
        let out = if port == Gateway::LAN { Gateway::WAN } else { Gateway::LAN };
        let mut at = now;
        let id = loop {
            if let Some(id) = self.gateway.poll_transmit(at, out) {
                break id;
            }
            at = self.gateway.poll_timeout(at).unwrap();
        };
        self.marked += u32::from(self.gateway.pool()[&id].ecn == Ecn::Ce);
        self.gateway.pool().release(id);
    }

    /// Sends eight evenly spaced segments in each round trip of 100 ms. Returns the number of
    /// marks.
    fn run(&mut self, acks: bool) -> u32 {
        let of =
            |seq, ack, flags| TcpSegment { seq, ack, flags: TcpFlags(flags), ..Default::default() };
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        self.pass(0, Gateway::LAN, of(99, 0, syn));
        if acks {
            self.pass(80, Gateway::WAN, of(9, 100, syn | ack));
        }
        self.pass(100, Gateway::LAN, of(100, 10, ack));
        for n in 0..400 {
            let at = 110 + 25 * u64::from(n) / 2;
            if acks && n > 6 {
                self.pass(at - 8, Gateway::WAN, of(10, 100 + MSS * (n - 6), ack));
            }
            let data = of(100 + MSS * n, 10, ack);
            self.pass(at, Gateway::LAN, TcpSegment { payload: MSS, ..data });
        }
        self.marked
    }
}

#[derive(serde::Deserialize)]
struct Queue {
    queue: QdiscSpec,
}

#[derive(serde::Deserialize)]
struct Marking {
    marking: MarkingSpec,
}

/// With ACKs, the predictor sees a window of eight segments per 100 ms, which is less than the link
/// carries. Without ACKs, it would count each gap between segments as a round trip. It would then
/// expect twice as many segments in the next round trip.
///
/// Catches: ACKs that do not reach the predictor, or reach only the predictor of their own
/// direction; a predictor that ignores them.
#[test]
fn markings_learn_windows_from_acks() {
    for marking in ["heuristic", "coverage"] {
        assert_eq!(Run::new(marking).run(true), 0, "{marking}");
        assert!(Run::new(marking).run(false) > 10, "{marking}");
    }
}
