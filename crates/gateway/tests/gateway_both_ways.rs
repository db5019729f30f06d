//! One connection with data in both directions. ACK control, which holds ACKs to slow down senders,
//! regulates both senders.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::tcp::{Config, Connection, Profile, Segment};
use tidegate_core::{Bytes, Machine, Packet, Rate, Time};
use tidegate_gateway::policy::{
    Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile as Rates,
};
use tidegate_gateway::{Gateway, GatewayConfig};

const RATE: Rate = Rate::from_mbps(10);
const HEADERS: u32 = 66;

/// Delay between the gateway and the host, for each port of the gateway.
const DELAYS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(26)];

/// Two TCP end points, the gateway between them, and the segments in transit.
struct Net {
    now: Time,
    gateway: Gateway,
    ends: [Connection; 2],
    /// Segments in transit, by arrival time and number: the end point, `true` if the segment
    /// travels to the gateway, and the segment.
    on_wire: BTreeMap<(Time, u64), (usize, bool, Segment)>,
    sent: u64,
}

impl Net {
    fn new(ack_control: Option<AckSpec>) -> Self {
        let profile = Rates::new(RATE, None, Bytes(15_140), Bytes(1_514)).unwrap();
        let allocation = AllocationSpec::Drr(Default::default());
        let conditioning =
            Conditioning { profile, allocation, weights: vec![], fair_between: Default::default() };
        let queue = QdiscSpec::PerFlow(Default::default());
        let policy = Policy {
            name: "all".into(),
            priority: 0,
            filter: Filter::default(),
            action: Action::Shape { conditioning, queue: queue.clone(), ack_control },
            mode: Mode::Enforce,
            class: None,
            trunk: None,
        };
        let config = GatewayConfig {
            rate: [None; 2],
            overhead: Overhead::default(),
            queue,
            packets: 4_096,
            flows: 16,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: Vec::new(),
            seed: 1,
            scheduler: Default::default(),
        };
        let policies = PolicySet::new(vec![policy]).unwrap();
        let mut gateway = Gateway::new(&config, policies, Time::ZERO);
        gateway.pool().make_copies();
        let tcp = Config { receive_window: Bytes(262_144), ..Config::new(Profile::Linux) };
        let ends = [
            Connection::connect(&tcp, Time::ZERO, 7),
            Connection::listen(&tcp, Time::ZERO, u32::MAX - 9_999), // Wraps soon.
        ];
        Self { now: Time::ZERO, gateway, ends, on_wire: BTreeMap::new(), sent: 0 }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            self.settle();
            let wire = self.on_wire.first_key_value().map(|((at, _), _)| *at);
            let ends = self.ends.iter().filter_map(Connection::poll_timeout);
            let gateway = self.gateway.poll_timeout(self.now);
            let next = ends.chain(wire).chain(gateway).min().filter(|next| *next <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.on_wire.first_entry().filter(|it| it.key().0 <= self.now) {
                let (at, to_gateway, segment) = entry.remove();
                if to_gateway {
                    self.enter(at, &segment);
                } else {
                    self.ends[at].handle_segment(self.now, &segment);
                }
            }
        }
        self.now = end;
    }

    /// Sends all segments that may depart now.
    fn settle(&mut self) {
        for at in 0..2 {
            while self.ends[at].poll_event().is_some() {}
            let readable = self.ends[at].readable();
            self.ends[at].read(readable);
            while let Some(out) = self.ends[at].poll_transmit(self.now) {
                self.carry(at, true, out.segment);
            }
            let port = [Gateway::LAN, Gateway::WAN][at];
            while let Some(id) = self.gateway.poll_transmit(self.now, port) {
                let pool = self.gateway.pool();
                let (packet, sack) = (pool[&id], pool.sack(&id));
                pool.release(id);
                let header = packet.tcp.unwrap();
                self.carry(at, false, Segment { header, sack, ecn: packet.ecn });
            }
        }
    }

    fn carry(&mut self, end: usize, to_gateway: bool, segment: Segment) {
        self.sent += 1;
        self.on_wire.insert((self.now + DELAYS[end], self.sent), (end, to_gateway, segment));
    }

    fn enter(&mut self, from: usize, segment: &Segment) {
        let (src, dst) = (Endpoint::v4([10, 0, 0, 1], 1_000), Endpoint::v4([192, 0, 2, 1], 80));
        let key = FlowKey { src, dst, protocol: Protocol::TCP };
        let packet = Packet {
            len: HEADERS + segment.header.payload,
            key: if from == 0 { key } else { key.reverse() },
            network: Network::Ipv4,
            segments: 1,
            ecn: segment.ecn,
            tcp: Some(segment.header),
            ..Packet::default()
        };
        let id = self.gateway.pool().insert(packet).unwrap();
        self.gateway.pool().set_sack(&id, segment.sack);
        let port = [Gateway::LAN, Gateway::WAN][from];
        self.gateway.handle_packet(self.now, port, id);
    }
}

/// Runs for 20 s. Returns the charged bytes of each direction, the bytes that each end received,
/// and the mean delay of a packet in seconds.
fn run(ack_control: Option<AckSpec>) -> ([u64; 2], [u64; 2], f64) {
    let mut net = Net::new(ack_control);
    net.ends.iter_mut().for_each(|end| end.write(1 << 30));
    net.run_until(Time::from_secs(5));
    let counts = |net: &Net| {
        let received = net.ends.each_ref().map(|end| end.statistics().received);
        let aggregates = net.gateway.report().aggregates;
        assert!(aggregates.iter().all(|it| it.drops.total() == 0));
        let carried = [aggregates[0].conforming, aggregates[1].conforming];
        (carried, received, aggregates.iter().map(|it| it.waited_ns).sum::<u64>())
    };
    let before = counts(&net);
    net.run_until(Time::from_secs(25));
    for end in &net.ends {
        let it = end.statistics();
        assert_eq!((it.retransmitted, it.timeouts, it.duplicate), (0, 0, 0), "{it:?}");
    }
    let after = counts(&net);
    let carried = std::array::from_fn(|at| after.0[at].bytes - before.0[at].bytes);
    let received = std::array::from_fn(|at| after.1[at] - before.1[at]);
    let packets: u64 = (0..2).map(|at| after.0[at].packets - before.0[at].packets).sum();
    let waited = Duration::from_nanos((after.2 - before.2) / packets).as_secs_f64();
    (carried, received, waited)
}

/// Pure ACKs, one for each or every second segment, reduce the received data.
///
/// Source: `postack`, A001-8 (each direction stays within 5 % of its rate).
///
/// Catches: data that is held until the data that it acknowledges may depart.
#[test]
fn both_directions_of_a_connection_get_their_rate_while_hardly_anything_waits() {
    let (fair, ours) = (run(None), run(Some(AckSpec::PostAck(Default::default()))));
    let allowed = RATE.bytes_in(Duration::from_secs(20)).0;
    assert!(ours.0.iter().all(|bytes| bytes * 100 >= allowed * 95), "{ours:?}, {fair:?}");
    assert!(ours.1.iter().all(|bytes| bytes * 100 >= allowed * 85), "{ours:?}, {fair:?}");
    assert!(ours.2 < 0.25 * fair.2, "{ours:?}, {fair:?}");
}
