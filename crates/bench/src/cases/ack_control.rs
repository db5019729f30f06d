//! Flows under ACK control (the gateway holds ACKs in place of data): a data segment departs
//! upwards, and its ACK comes back and triggers the next segment.

use std::ops::Range;
use std::time::Duration;

use anyhow::Context as _;
use tidegate_core::ack::AckSpec;
use tidegate_core::packet::{Direction, FlowKey, TcpFlags, TcpSegment};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::random::Random;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::Gateway;
use tidegate_gateway::policy::{Action, Conditioning, Filter, Mode, Policy, PolicySet};

use super::{Case, flows, gateway, index, sharing};

/// A gateway between senders and receivers that respond immediately. Two segments of each flow are
/// in flight, or the gateway holds their ACKs.
pub(super) struct Circuit {
    gateway: Gateway,
    flows: Vec<Round>,
    now: Time,
    /// Number of departed data segments.
    departed: u64,
}

/// A flow, and the sequence number of the next byte that its sender sends.
struct Round {
    key: FlowKey,
    next: u32,
}

/// Rate of the policy. It is above the throughput of the paper's prototype, 750 Mbit/s (`postack`,
/// A001-9). At this rate, the data in flight of 10,000 flows takes an eighth of a second. The path
/// itself is short, so the gateway first releases ACKs early, until it holds them for this time.
const RATE: Rate = Rate::from_mbps(2_000);
const IN_FLIGHT: u32 = 2;
const MSS: u32 = 1_448;

/// Idle flows are prepared in groups of this size, whose flows send together. In a larger group,
/// more packets would need a buffer at once.
pub(crate) const GROUP: u32 = 1_000;

/// Time between the steps of a handshake.
const STEP: Duration = Duration::from_micros(100);

/// Longer than any hold, but shorter than the idle timeout of a flow.
const LONG: Duration = Duration::from_secs(10);

/// A gateway with this many flows under PostACK, in steady state.
pub(super) fn postack(flows: u32, seed: u64) -> anyhow::Result<Circuit> {
    let control = Some(AckSpec::PostAck(Default::default()));
    let mut circuit = Circuit::new(control, flows, flows, seed)?;
    circuit.begin(0..flows);
    circuit.run(u64::from(flows) * 4);
    Ok(circuit)
}

/// A gateway whose flows have sent data, received their ACKs, and become idle. With `control`,
/// PostACK has held all these ACKs.
pub(crate) fn answered(control: bool, flows: u32) -> anyhow::Result<Gateway> {
    let spec = control.then(|| AckSpec::PostAck(Default::default()));
    let mut circuit = Circuit::new(spec, flows, GROUP, 1)?;
    for first in (0..flows).step_by(index(GROUP.into())) {
        circuit.begin(first..flows.min(first + GROUP));
        circuit.settle()?;
    }
    let expected = if control { u64::from(flows * IN_FLIGHT) } else { 0 };
    let delayed: u64 = circuit.gateway.report().aggregates.iter().map(|it| it.acks.delayed).sum();
    anyhow::ensure!(delayed == expected, "{delayed} ACKs were held, not {expected}");
    Ok(circuit.gateway)
}

impl Circuit {
    /// A case with `flows` flows, of which `at_once` send at the same time.
    fn new(control: Option<AckSpec>, flows: u32, at_once: u32, seed: u64) -> anyhow::Result<Self> {
        let policies = PolicySet::new(vec![policy(control, at_once)?])?;
        let mut config = gateway::config(None, flows, seed);
        config.packets = at_once.saturating_mul(2 * IN_FLIGHT) + 4_096;
        let mut gateway = Gateway::new(&config, policies, Time::ZERO);
        gateway.pool().make_copies();
        let mut random = Random::new(seed, 1);
        let key = |number| Round { key: flows::key(number, &mut random), next: 1 };
        let flows = (0..flows).map(key).collect();
        let mut circuit = Self { gateway, flows, now: Time::from_millis(1), departed: 0 };
        circuit.shake_hands();
        Ok(circuit)
    }

    fn shake_hands(&mut self) {
        let (syn, ack) = (TcpFlags(TcpFlags::SYN), TcpFlags(TcpFlags::ACK));
        for flow in 0..self.flows.len() {
            let tcp = |seq, ack, flags| TcpSegment { seq, ack, flags, ..TcpSegment::default() };
            let both = TcpFlags(syn.0 | ack.0);
            for (way, tcp) in [
                (Direction::Up, tcp(0, 0, syn)),
                (Direction::Down, tcp(0, 1, both)),
                (Direction::Up, tcp(1, 1, ack)),
            ] {
                self.arrive(flow, way, tcp);
                self.drain(false);
                self.now += STEP;
            }
        }
        self.now += LONG;
    }

    /// Lets the senders of `flows` fill their windows.
    fn begin(&mut self, flows: Range<u32>) {
        for flow in flows {
            for _ in 0..IN_FLIGHT {
                self.send(index(flow.into()));
            }
        }
    }

    /// Empties the gateway: receivers acknowledge what arrives, but senders send no more data.
    fn settle(&mut self) -> anyhow::Result<()> {
        let end = self.now + LONG;
        self.drain(false);
        while self.gateway.pool().in_use() > 0 {
            let at = self.gateway.poll_timeout(self.now).filter(|at| *at < end);
            self.now = self.now.max(at.context("something still waits")?);
            self.drain(false);
        }
        Ok(())
    }

    fn send(&mut self, flow: usize) {
        let seq = self.flows[flow].next;
        self.flows[flow].next = seq.wrapping_add(MSS);
        let flags = TcpFlags(TcpFlags::ACK);
        let tcp = TcpSegment { seq, ack: 1, payload: MSS, flags, ..TcpSegment::default() };
        self.arrive(flow, Direction::Up, tcp);
    }

    fn arrive(&mut self, flow: usize, way: Direction, tcp: TcpSegment) {
        let key = self.flows[flow].key;
        let (key, port) = match way {
            Direction::Up => (key, Gateway::LAN),
            Direction::Down => (key.reverse(), Gateway::WAN),
        };
        let tcp = TcpSegment { window: 500, ..tcp };
        let len = 66 + tcp.payload;
        let packet = Packet { len, tcp: Some(tcp), ..flows::segment(key) };
        if let Some(id) = self.gateway.pool().insert(packet) {
            self.gateway.handle_packet(self.now, port, id);
        }
    }

    /// Acts as the driver: sends all packets that may depart. Receivers acknowledge the data. With
    /// `answers`, senders send a segment for each ACK.
    fn drain(&mut self, answers: bool) {
        while let Some((flow, tcp)) = self.pop(Gateway::WAN) {
            self.departed += u64::from(tcp.payload > 0);
            let ack = tcp.seq.wrapping_add(tcp.payload);
            let flags = TcpFlags(TcpFlags::ACK);
            if tcp.payload > 0 {
                let tcp = TcpSegment { seq: 1, ack, flags, ..TcpSegment::default() };
                self.arrive(flow, Direction::Down, tcp);
            }
        }
        while let Some((flow, _)) = self.pop(Gateway::LAN) {
            if answers {
                self.send(flow);
            }
        }
        // The case has no frames, so there is nothing to copy.
        drop(self.gateway.pool().copies());
    }

    fn pop(&mut self, port: PortId) -> Option<(usize, TcpSegment)> {
        let id = self.gateway.poll_transmit(self.now, port)?;
        let packet = self.gateway.pool()[&id];
        self.gateway.pool().release(id);
        let lan = if port == Gateway::WAN { packet.key.src } else { packet.key.dst };
        Some((index(flows::number(lan).into()), packet.tcp.unwrap_or_default()))
    }
}

impl Case for Circuit {
    /// One operation: a data segment goes upwards, and its ACK downwards.
    fn run(&mut self, operations: u64) -> u64 {
        let until = self.departed + operations;
        while self.departed < until {
            let Some(at) = self.gateway.poll_timeout(self.now) else { break };
            self.now = self.now.max(at);
            self.drain(true);
        }
        self.departed + u64::from(self.gateway.pool().in_use())
    }
}

/// A policy that shapes all upward traffic, with or without ACK control. The limit of its queue is
/// the data that `at_once` flows have in flight.
fn policy(control: Option<AckSpec>, at_once: u32) -> anyhow::Result<Policy> {
    let profile = sharing::profile(RATE, Bytes(64 << 10))?;
    let allocation = sharing::spec("drr")?;
    let conditioning =
        Conditioning { profile, allocation, weights: Vec::new(), fair_between: Default::default() };
    let mut queue = QdiscSpec::PerFlow(Default::default());
    if let QdiscSpec::PerFlow(config) = &mut queue {
        config.limit = Bytes(u64::from(at_once * IN_FLIGHT) * 1_514);
    }
    Ok(Policy {
        name: "everything".to_owned(),
        priority: 0,
        filter: Filter { direction: Some(Direction::Up), ..Filter::default() },
        action: Action::Shape { conditioning, queue, ack_control: control },
        mode: Mode::Enforce,
        class: None,
        trunk: None,
    })
}
