//! Many short flows share an aggregate (the flows of one policy) that has more tokens than they
//! need.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, Rate, Time};
use tidegate_gateway::aggregate::TriggerSet;
use tidegate_gateway::policy::{
    Action, Conditioning, Exceed, Filter, Mode, Policy, PolicySet, Profile,
};
use tidegate_gateway::report::Report;
use tidegate_gateway::{Gateway, GatewayConfig};

const MEAN: Rate = Rate::from_mbps(300);

/// Microseconds between the starts of two flows: 10,000 flows start per second.
const BETWEEN_FLOWS: u64 = 100;

/// Lengths of the packets of a flow. All flows together offer 31 Mbit/s, a tenth of the mean rate.
const LENGTHS: [u32; 5] = [74, 66, 115, 66, 66];

/// Microseconds between two packets of a flow. The last packets of a flow therefore arrive together
/// with the first packets of later flows.
const BETWEEN_PACKETS: u64 = 250;

/// Number of flows. They start during more than a second, so that some flows become idle.
const FLOWS: u64 = 12_000;

/// For each arrival time, the flow and the length of each packet.
fn arrivals() -> BTreeMap<Time, Vec<(u64, u32)>> {
    let mut arrivals = BTreeMap::<_, Vec<_>>::new();
    for flow in 0..FLOWS {
        for (nth, len) in (0..).zip(LENGTHS) {
            let micros = flow * BETWEEN_FLOWS + nth * BETWEEN_PACKETS;
            arrivals.entry(Time::from_micros(micros)).or_default().push((flow, len));
        }
    }
    arrivals
}

fn packet(flow: u64, len: u32) -> Packet {
    let [.., a, b, c] = flow.to_be_bytes();
    let src = Endpoint::v4([10, a, b, c], 1_000);
    let key = FlowKey { src, dst: Endpoint::v4([192, 0, 2, 1], 53), protocol: Protocol::UDP };
    Packet { len, key, network: Network::Ipv4, segments: 1, ..Packet::default() }
}

/// A profile of 300 Mbit/s with the default burst: the bytes of 100 ms.
fn conditioning(allocation: &str) -> Conditioning {
    let burst = MEAN.bytes_in(Duration::from_millis(100));
    let table = toml::from_str::<toml::Table>(&format!("it = {allocation:?}")).unwrap();
    Conditioning {
        profile: Profile::new(MEAN, None, burst, Bytes(1_514)).unwrap(),
        allocation: table["it"].clone().try_into().unwrap(),
        weights: Vec::new(),
        fair_between: Default::default(),
    }
}

fn policies(action: Action) -> PolicySet {
    let policy = Policy {
        name: "all".to_owned(),
        priority: 0,
        filter: Filter::default(),
        action,
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    };
    PolicySet::new(vec![policy]).unwrap()
}

/// Runs all flows. Returns the largest number of waiting packets, and the last report.
fn run(action: Action, interval: Duration, triggers: TriggerSet) -> (u32, Report) {
    let config = GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: QdiscSpec::PerFlow(Default::default()),
        packets: 4_096,
        flows: 1 << 15,
        shaping_interval: interval,
        shaping_triggers: triggers,
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    };
    let policies = policies(action);
    let mut gateway = Gateway::new(&config, policies, Time::ZERO);
    let mut most = 0;
    for (now, packets) in arrivals() {
        for (flow, len) in packets {
            let id = gateway.pool().insert(packet(flow, len)).unwrap();
            gateway.handle_packet(now, Gateway::LAN, id);
            while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
                gateway.pool().release(id);
            }
            most = most.max(gateway.pool().in_use());
        }
    }
    (most, gateway.report())
}

fn shape(allocation: &str) -> Action {
    let queue = QdiscSpec::PerFlow(Default::default());
    Action::Shape { conditioning: conditioning(allocation), queue, ack_control: None }
}

/// The allocations whose flows share one bucket.
fn common() -> impl Iterator<Item = &'static str> {
    AllocationSpec::NAMES.iter().copied().filter(|name| *name != "partitioned")
}

/// Catches: `logical-partitions` that uses the unassigned part of the bucket only when the bucket
/// is full; a flow of `logical-partitions` that still counts as waiting after its packet took
/// tokens on arrival.
#[test]
fn no_packet_of_many_short_flows_waits_while_the_bucket_is_nearly_full() {
    for name in common() {
        for triggers in [TriggerSet::All, TriggerSet::Timer] {
            let (most, report) = run(shape(name), Duration::from_millis(15), triggers);
            assert_eq!((most, report.drops.total()), (0, 0), "{name}, {triggers:?}");
        }
    }
}

#[test]
fn many_short_flows_are_in_profile_while_the_bucket_is_nearly_full() {
    for name in common() {
        let conditioning = conditioning(name);
        let action = Action::Police { conditioning, exceed: Exceed::Drop };
        let (_, report) = run(action, Duration::ZERO, TriggerSet::All);
        assert_eq!(report.drops.total(), 0, "{name}");
    }
}
