//! Each cause that can limit a flow, and the limit that the gateway reports.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{
    Direction, Endpoint, FlowKey, Network, Protocol, TcpFlags, TcpSegment,
};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time, tcp, trunk};
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, Filter, Mode, Policy, PolicySet, Profile,
};
use tidegate_gateway::report::{FlowReport, Limit};
use tidegate_gateway::{Gateway, GatewayConfig};

const LINK: Rate = Rate::from_mbps(10);
const MSS: u32 = 1_448;
/// Length of a full segment's frame.
const FRAME: u64 = 66 + 1_448;

/// Settings that determine the queue in which data waits.
#[derive(Clone, Copy, Debug, Default)]
struct Setup {
    /// The rate of the link.
    link: Option<Rate>,
    /// The mean rate of the policy.
    mean: Option<Rate>,
    class: bool,
    trunk: bool,
    /// ACK control: "postack" or "tcr".
    ack_control: Option<&'static str>,
}

/// A gateway, its clock, and a flow that sends data from the LAN to the WAN.
struct Run {
    gateway: Gateway,
    now: Time,
    /// Window of the receiver, in units of 128 bytes.
    window: u16,
}

impl Run {
    fn new(setup: Setup) -> Self {
        let config = GatewayConfig {
            rate: [setup.link; 2],
            overhead: Overhead::default(),
            queue: queue(),
            packets: 1_024,
            flows: 64,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: setup.trunk.then(trunk).into_iter().collect(),
            seed: 1,
            scheduler: Default::default(),
        };
        let gateway = Gateway::new(&config, policies(setup), Time::ZERO);
        let mut run = Self { gateway, now: Time::ZERO, window: 500 };
        run.segment(Gateway::LAN, TcpFlags::SYN, [0, 0, 0]);
        run.pass(Duration::from_millis(50));
        run.segment(Gateway::WAN, TcpFlags::SYN | TcpFlags::ACK, [0, 1, 0]);
        run.pass(Duration::from_millis(1));
        run.segment(Gateway::LAN, TcpFlags::ACK, [1, 1, 0]);
        run.pass(Duration::from_millis(50));
        run
    }

    /// Sends full data segments, beginning with segment number `first`.
    fn data(&mut self, first: u32, segments: u32) {
        for n in first..first + segments {
            self.segment(Gateway::LAN, TcpFlags::ACK, [1 + n * MSS, 1, MSS]);
        }
    }

    /// Sends an ACK of the first `segments` segments.
    fn ack(&mut self, segments: u32) {
        self.segment(Gateway::WAN, TcpFlags::ACK, [1, 1 + segments * MSS, 0]);
    }

    /// Sends a segment with `flags`, sequence number, acknowledgement number, and length of the
    /// payload.
    fn segment(&mut self, port: PortId, flags: u8, [seq, ack, payload]: [u32; 3]) {
        let syn = flags & TcpFlags::SYN != 0;
        let tcp = TcpSegment {
            seq,
            ack,
            payload,
            flags: TcpFlags(flags),
            window: self.window,
            mss: if syn { 1_460 } else { 0 },
            window_scale: syn.then_some(7),
            ..TcpSegment::default()
        };
        let (src, dst) = (Endpoint::v4([10, 0, 0, 1], 1_000), Endpoint::v4([192, 0, 2, 1], 80));
        let key = FlowKey { src, dst, protocol: Protocol::TCP };
        let key = if port == Gateway::LAN { key } else { key.reverse() };
        let (len, network) = (66 + payload, Network::Ipv4);
        let packet = Packet {
            len,
            cost: len,
            key,
            network,
            segments: 1,
            tcp: Some(tcp),
            ..Packet::default()
        };
        let id = self.gateway.pool().insert(packet).unwrap();
        self.gateway.handle_packet(self.now, port, id);
        self.drain();
    }

    fn drain(&mut self) {
        for port in [Gateway::LAN, Gateway::WAN] {
            while let Some(id) = self.gateway.poll_transmit(self.now, port) {
                self.gateway.pool().release(id);
            }
        }
    }

    /// Advances the time by `span`.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.gateway.poll_timeout(self.now).filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.drain();
        }
        self.now = end;
        self.drain();
    }

    /// The report of the flow in `direction`: its data, or its ACKs.
    fn flow(&self, direction: Direction) -> FlowReport {
        let flows = self.gateway.flows(self.now, 9);
        flows.into_iter().find(|flow| flow.direction == direction).unwrap()
    }

    fn limit(&self) -> Limit {
        self.flow(Direction::Up).limit
    }
}

fn policies(setup: Setup) -> PolicySet {
    let queued = |name: &str| Class {
        guarantee: [Rate::from_mbps(5); 2],
        ceiling: [Some(Rate::from_mbps(5)); 2],
        ..Class::new(name, queue())
    };
    let classes = setup.class.then(|| queued("bulk")).into_iter().collect();
    let classes = ClassSet::new(classes, [setup.link; 2]).unwrap();
    let policy = setup.mean.map(|mean| Policy {
        name: "web".into(),
        priority: 0,
        filter: Filter { direction: Some(Direction::Up), ..Filter::default() },
        action: shape(mean, setup.ack_control),
        mode: Mode::Enforce,
        class: setup.class.then(|| "bulk".to_owned()),
        trunk: setup.trunk.then(|| "paris".to_owned()),
    });
    PolicySet::new(policy.into_iter().collect()).unwrap().with_classes(classes)
}

fn shape(mean: Rate, ack_control: Option<&str>) -> Action {
    // If the policy is faster than the link, its burst lets all data pass at once.
    let burst = if mean > LINK { Bytes(64_000) } else { Bytes(3_028) };
    let profile = Profile::new(mean, None, burst, Bytes(1_514)).unwrap();
    let conditioning = Conditioning {
        profile,
        allocation: AllocationSpec::Drr(Default::default()),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    let ack_control = ack_control.map(|name| match name {
        "tcr" => AckSpec::Tcr(Default::default()),
        _ => AckSpec::PostAck(Default::default()),
    });
    Action::Shape { conditioning, queue: queue(), ack_control }
}

fn trunk() -> trunk::Config {
    trunk::Config {
        name: "paris".to_owned(),
        local: [192, 0, 2, 7].into(),
        peer: [192, 0, 2, 9].into(),
        port: 4_754,
        connections: 1,
        vmss: Bytes(1_500),
        guarantee: None,
        ceiling: None,
        queue: queue(),
        assured: 1,
        fallback: trunk::Fallback::Hold,
        tcp: tcp::Config::default(),
        probing: trunk::Probing::Management,
        weight: None,
        wire: Default::default(),
    }
}

fn queue() -> QdiscSpec {
    QdiscSpec::PerFlow(Default::default())
}

/// Catches: a search for the flow's packets in the policy's queue only; a packet that departs next
/// and is not counted.
#[test]
fn a_flow_is_limited_by_the_queue_that_holds_most_of_its_bytes() {
    let (link, mean) = (Some(LINK), Some(Rate::from_mbps(1)));
    let wide = Some(Rate::from_mbps(100));
    let none = Setup::default();
    for (setup, segments, waiting) in [
        (Setup { mean, ..none }, 10, 8),
        (Setup { link, ..none }, 10, 8),
        // Only the packet that departs next waits.
        (Setup { link, ..none }, 3, 1),
        (Setup { link, mean, ..none }, 10, 8),
        (Setup { link, mean: wide, class: true, ..none }, 20, 0),
        (Setup { mean: wide, trunk: true, ..none }, 20, 0),
    ] {
        let mut run = Run::new(setup);
        run.data(0, segments);
        let flow = run.flow(Direction::Up);
        let bytes = match &flow.limit {
            Limit::Policy { bytes, shared: false } if setup.mean == mean => *bytes,
            Limit::Link { bytes } if setup.mean.is_none() => *bytes,
            Limit::Class { name, bytes } if setup.class && name == "bulk" => *bytes,
            Limit::Trunk { name, bytes } if setup.trunk && name == "paris" => *bytes,
            other => panic!("{setup:?}: {other:?}"),
        };
        assert!(bytes > 0 && bytes <= flow.waiting_bytes, "{setup:?}: {flow:?}");
        if waiting > 0 {
            assert_eq!(flow.waiting_bytes, waiting * FRAME, "{setup:?}");
        }
    }
}

/// Catches: held ACKs that are not reported, or are reported for the other direction.
#[test]
fn a_flow_with_held_acks_and_without_backlog_is_limited_by_its_policy() {
    let (link, mean) = (Some(LINK), Some(Rate::from_mbps(100)));
    let mut run = Run::new(Setup { link, mean, ack_control: Some("postack"), ..Setup::default() });
    run.data(0, 20);
    run.ack(2);
    let flow = run.flow(Direction::Up);
    assert!(matches!(flow.limit, Limit::Link { .. }) && flow.held_acks == 1, "{flow:?}");
    let back = run.flow(Direction::Down);
    assert_eq!(back.limit, Limit::IsHeld { policy: "web".to_owned(), acks: 1 });
    assert_eq!(back.held_acks, 0);

    let mean = Some(Rate::from_kbps(100));
    let mut run = Run::new(Setup { mean, ack_control: Some("tcr"), ..Setup::default() });
    run.data(0, 2);
    run.pass(Duration::from_secs(1));
    run.ack(1);
    run.ack(2);
    assert_eq!(run.limit(), Limit::HeldAcks { acks: 1 });
}

/// Catches: a window reduced by the policy that is reported as a limit of the receiver, or of the
/// sender.
#[test]
fn a_flow_that_fills_a_reduced_window_is_limited_by_the_window() {
    let mean = Some(Rate::from_mbps(2));
    let mut run = Run::new(Setup { mean, ack_control: Some("tcr"), ..Setup::default() });
    run.data(0, 2);
    run.pass(Duration::from_millis(500));
    run.ack(2);
    run.pass(Duration::from_millis(500));
    assert_eq!(run.limit(), Limit::Sender, "the window is open");
    // 2 Mbit/s for a round trip of 51 ms, plus one segment: ten segments.
    run.data(2, 10);
    run.pass(Duration::from_millis(500));
    assert_eq!(run.limit(), Limit::Window);
}

/// Catches: a window that is not scaled, or that belongs to the other end; a limit of the receiver
/// that is reported as a limit of the sender.
#[test]
fn a_flow_without_backlog_is_limited_by_its_receiver_or_by_its_sender() {
    let mut run = Run::new(Setup::default());
    run.data(0, 1);
    // The window holds ten segments. Two segments are in flight.
    run.window = u16::try_from(10 * MSS / 128).unwrap();
    run.ack(1);
    run.data(1, 2);
    assert_eq!(run.limit(), Limit::Sender);
    run.data(3, 8);
    assert_eq!(run.limit(), Limit::Receiver);
    run.pass(Duration::from_secs(10));
    assert_eq!(run.limit(), Limit::Receiver, "a silent flow is still limited by its receiver");
    run.window = 500;
    run.ack(11);
    assert_eq!(run.limit(), Limit::Sender);
    run.pass(Duration::from_millis(1_001));
    assert_eq!(run.limit(), Limit::Silent);
}
