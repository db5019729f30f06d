//! A gateway that a test drives step by step, and policies for the tests.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{Endpoint, FlowKey, Network, Protocol, TcpFlags, TcpSegment};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::policy::{Action, Conditioning, Filter, Mode, Policy, PolicySet, Profile};
use tidegate_gateway::report::Report;
use tidegate_gateway::{Gateway, GatewayConfig};

/// A packet that departed: time, port, source host, packet number and DS codepoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Left {
    pub(crate) at: Time,
    pub(crate) port: PortId,
    pub(crate) host: u8,
    pub(crate) number: u32,
    pub(crate) dscp: u8,
}

/// A gateway, its clock, and the packets that were offered and that departed.
pub(crate) struct Run {
    pub(crate) gateway: Gateway,
    pub(crate) now: Time,
    pub(crate) left: Vec<Left>,
    pub(crate) offered: u64,
}

/// Maximum number of wake-ups in a row without a departure. At each wake-up, the gateway may drop
/// packets.
const MOST_IDLE: u32 = 10_000;

impl Run {
    pub(crate) fn new(config: &GatewayConfig, policies: Vec<Policy>) -> Self {
        let policies = PolicySet::new(policies).unwrap();
        let gateway = Gateway::new(config, policies, Time::ZERO);
        Self { gateway, now: Time::ZERO, left: Vec::new(), offered: 0 }
    }

    /// Offers packet `number` of the LAN host `host`, with `len` bytes.
    pub(crate) fn offer(&mut self, host: u8, number: u32, len: u32) {
        self.offer_packet(Gateway::LAN, packet(host, number, len));
    }

    pub(crate) fn offer_packet(&mut self, port: PortId, packet: Packet) {
        self.offered += 1;
        if let Some(id) = self.gateway.pool().insert(packet) {
            self.gateway.handle_packet(self.now, port, id);
        } else {
            self.offered -= 1;
        }
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        for port in [Gateway::LAN, Gateway::WAN] {
            while let Some(id) = self.gateway.poll_transmit(self.now, port) {
                let packet = self.gateway.pool()[&id];
                let number = packet.tcp.map_or(0, |tcp| tcp.seq);
                let host = packet.key.src.number().to_be_bytes()[15];
                self.left.push(Left { at: self.now, port, host, number, dscp: packet.dscp });
                self.gateway.pool().release(id);
            }
        }
    }

    /// Runs until `end`. Wakes the gateway only at the times that it returns.
    pub(crate) fn until(&mut self, end: Time) {
        let mut idle = 0;
        while let Some(at) = self.gateway.poll_timeout(self.now).filter(|at| *at <= end) {
            assert!(at > self.now || self.gateway.poll_timeout(self.now) == Some(at));
            let (before, left) = (self.now, self.left.len());
            self.now = self.now.max(at);
            self.drain();
            let moved = self.now > before || self.left.len() > left;
            idle = if moved { 0 } else { idle + 1 };
            assert!(idle < MOST_IDLE, "the gateway asks for a wake at {at:?}, and sends nothing");
        }
        self.now = end;
        self.drain();
    }

    /// Ends the run. Asserts that each offered packet departed, was dropped, or is still inside.
    pub(crate) fn end(mut self) -> (Vec<Left>, Report) {
        let report = self.gateway.report();
        let out = u64::try_from(self.left.len()).unwrap();
        assert_eq!(self.offered, out + report.drops.total() + u64::from(report.held));
        assert_eq!(self.gateway.pool().in_use(), report.held);
        (self.left, report)
    }
}

pub(crate) fn config() -> GatewayConfig {
    GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: queue("per-flow"),
        packets: 4_096,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 1,
        scheduler: Default::default(),
    }
}

pub(crate) fn queue(name: &str) -> QdiscSpec {
    read(name)
}

pub(crate) fn allocation(name: &str) -> AllocationSpec {
    read(name)
}

/// The mechanism `name`, with the default of each parameter.
pub(crate) fn read<T: DeserializeOwned>(name: &str) -> T {
    toml::from_str::<toml::Table>(&format!("it = {name:?}")).unwrap()["it"]
        .clone()
        .try_into()
        .unwrap()
}

pub(crate) fn packet(host: u8, number: u32, len: u32) -> Packet {
    let src = Endpoint::v4([10, 0, 0, host], 1_000);
    let key = FlowKey { src, dst: Endpoint::v4([192, 0, 2, 1], 80), protocol: Protocol::TCP };
    let flags = TcpFlags(TcpFlags::ACK);
    let tcp = TcpSegment { seq: number, payload: 1, flags, ..TcpSegment::default() };
    Packet { len, key, tcp: Some(tcp), network: Network::Ipv4, segments: 1, ..Packet::default() }
}

pub(crate) fn from(host: u8) -> Filter {
    let number = Endpoint::v4([10, 0, 0, host], 0).number();
    let range = tidegate_gateway::policy::Range { first: number, last: number };
    Filter { src: vec![range], ..Filter::default() }
}

pub(crate) const MEAN: Rate = Rate::from_mbps(8);
pub(crate) const BURST: Bytes = Bytes(3_000);

pub(crate) fn shape_by(conditioning: Conditioning, name: &str) -> Action {
    Action::Shape { conditioning, queue: queue(name), ack_control: None }
}

pub(crate) fn conditioning() -> Conditioning {
    let profile = Profile::new(MEAN, None, BURST, Bytes(1_514)).unwrap();
    Conditioning {
        profile,
        allocation: allocation("fcfs"),
        weights: Vec::new(),
        fair_between: Default::default(),
    }
}

pub(crate) fn shape() -> Action {
    shape_by(conditioning(), "per-flow")
}

pub(crate) fn policy(name: &str, filter: Filter, action: Action) -> Policy {
    Policy {
        name: name.to_owned(),
        priority: 0,
        filter,
        action,
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    }
}

/// Asserts that the packets of each host departed in the order of their numbers.
pub(crate) fn assert_in_order(left: &[Left]) {
    for host in 0..=255 {
        let numbers: Vec<_> =
            left.iter().filter(|it| it.host == host).map(|it| it.number).collect();
        assert!(numbers.is_sorted(), "host {host}: {numbers:?}");
    }
}
