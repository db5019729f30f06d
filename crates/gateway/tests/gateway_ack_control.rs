//! ACK control at a gateway whose data waits for the link, or for a class of the link.
//!
//! ACK control slows senders down: it holds ACKs while data of the gateway waits. An *aggregate*
//! has the packets of one policy in one direction. A *swap* replaces the set of policies.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acks_at_swaps;
mod port_reuse;
mod scarce_buffers;
mod tags;

use std::time::Duration;

use tidegate_core::ack::{AckSpec, Placement};
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::packet::{
    Direction, Endpoint, FlowKey, Network, Outer, Protocol, TcpFlags, TcpSegment,
};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Reason, Time, tcp, trunk};
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, Exceed, Filter, Mode, Policy, PolicySet, Profile, Range,
};
use tidegate_gateway::report::Report;
use tidegate_gateway::{Gateway, GatewayConfig, Generation};

const LINK: Rate = Rate::from_mbps(10);
const MSS: u32 = 1_448;

/// A gateway, its clock and the connection under test. The mean rate of the policy is ten times the
/// rate of the link.
struct Run {
    gateway: Gateway,
    now: Time,
    /// Source port of the connection.
    port: u16,
    /// Initial sequence number of the sender.
    isn: u32,
    /// VLAN identifiers of the connection's packets, upstream and downstream.
    vlans: [u16; 2],
    /// Tunnels around the connection's packets, upstream and downstream.
    outers: [Option<Outer>; 2],
}

const FIRST: u16 = 1_000;
const SECOND: u16 = 2_000;

impl Run {
    /// With `class`, the policy sends to a class whose guarantee and ceiling are half of the link.
    fn new(class: Option<&str>) -> Self {
        Self::of(1_024, vec![policy(class)], class)
    }

    fn of(packets: u32, policies: Vec<Policy>, class: Option<&str>) -> Self {
        Self::with(packets, in_class(policies, class), Vec::new())
    }

    fn with(packets: u32, policies: PolicySet, trunks: Vec<trunk::Config>) -> Self {
        let config = GatewayConfig {
            rate: [Some(LINK); 2],
            overhead: Overhead::default(),
            queue: queue(),
            packets,
            flows: 64,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks,
            seed: 1,
            scheduler: Default::default(),
        };
        let gateway = Gateway::new(&config, policies, Time::ZERO);
        let now = Time::ZERO;
        let mut run = Self { gateway, now, port: FIRST, isn: 0, vlans: [0; 2], outers: [None; 2] };
        run.shake_hands();
        run
    }

    fn shake_hands(&mut self) {
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        self.up(TcpSegment { seq: self.isn, flags: TcpFlags(syn), ..TcpSegment::default() });
        self.drain();
        self.now += Duration::from_millis(50);
        let next = self.isn.wrapping_add(1);
        let answer = TcpSegment { ack: next, flags: TcpFlags(syn | ack), ..TcpSegment::default() };
        assert_eq!(self.down(answer), 1);
        self.now += Duration::from_micros(200);
        self.up(TcpSegment { seq: next, ack: 1, flags: TcpFlags(ack), ..TcpSegment::default() });
        self.drain();
    }

    fn up(&mut self, tcp: TcpSegment) {
        let tcp = TcpSegment { window: 500, ..tcp };
        self.arrive(Gateway::LAN, packet(Protocol::TCP, 66 + tcp.payload, Some(tcp)));
    }

    /// Offers full data segments, beginning with segment number `first`. They wait for the link.
    fn data(&mut self, first: u32, segments: u32) {
        for n in first..first + segments {
            let flags = TcpFlags(TcpFlags::ACK);
            let seq = self.isn.wrapping_add(1 + n * MSS);
            self.up(TcpSegment { seq, ack: 1, payload: MSS, flags, ..TcpSegment::default() });
        }
    }

    /// Offers `tcp` from the WAN. Returns the number of packets that depart to the sender.
    fn down(&mut self, tcp: TcpSegment) -> usize {
        let tcp = TcpSegment { window: 500, ..tcp };
        self.arrive(Gateway::WAN, packet(Protocol::TCP, 66, Some(tcp)));
        self.out(Gateway::LAN)
    }

    /// Offers an ACK of the first `segments` segments. Otherwise like [`down`](Self::down).
    fn ack(&mut self, segments: u32) -> usize {
        let ack = self.isn.wrapping_add(1 + segments * MSS);
        let flags = TcpFlags(TcpFlags::ACK);
        self.down(TcpSegment { seq: 1, ack, flags, ..TcpSegment::default() })
    }

    /// Lets the first sender send `segments` and then `more` segments, without an ACK. By then it is unresponsive. An
    /// ACK of the second sender arrives in between, and is held.
    fn stops_responding(&mut self, segments: u32, more: u32) {
        self.port = SECOND;
        self.shake_hands();
        self.data(0, 2);
        self.drain();
        self.port = FIRST;
        self.data(0, segments);
        self.port = SECOND;
        assert_eq!(self.ack(1), 0, "the first sender responds as far as is known");
        self.port = FIRST;
        self.data(segments, more);
        assert_eq!(self.gateway.report().unresponsive.len(), 1);
        self.port = SECOND;
    }

    fn arrive(&mut self, port: PortId, mut packet: Packet) {
        packet.key.src.port = self.port;
        packet.vlan = self.vlans[usize::from(port == Gateway::WAN)];
        if port == Gateway::WAN {
            packet.key = packet.key.reverse();
        }
        let id = self.gateway.pool().insert(packet).unwrap();
        if let Some(outer) = self.outers[usize::from(port == Gateway::WAN)] {
            self.gateway.pool().set_outer(&id, outer);
        }
        self.gateway.handle_packet(self.now, port, id);
    }

    fn out(&mut self, port: PortId) -> usize {
        let mut count = 0;
        while let Some(id) = self.gateway.poll_transmit(self.now, port) {
            self.gateway.pool().release(id);
            count += 1;
        }
        count
    }

    /// Runs until no packets wait. Returns the number of packets that departed to the sender.
    fn drain(&mut self) -> usize {
        let mut acks = 0;
        loop {
            self.out(Gateway::WAN);
            acks += self.out(Gateway::LAN);
            let Some(at) = self.gateway.poll_timeout(self.now) else { return acks };
            if at.since(self.now) > Duration::from_millis(100) {
                return acks;
            }
            self.now = self.now.max(at);
        }
    }
}

/// A set of `policies`. `class`, if any, has half of the link's rate.
fn in_class(policies: Vec<Policy>, class: Option<&str>) -> PolicySet {
    let half = [Rate::from_mbps(5); 2];
    let classes = class.map(|name| Class {
        guarantee: half,
        ceiling: half.map(Some),
        ..Class::new(name, queue())
    });
    let classes = ClassSet::new(classes.into_iter().collect(), [Some(LINK); 2]).unwrap();
    PolicySet::new(policies).unwrap().with_classes(classes)
}

/// The policy for all upstream traffic, with ACK control.
fn policy(class: Option<&str>) -> Policy {
    let profile = Profile::new(Rate::from_mbps(100), None, Bytes(64_000), Bytes(1_514));
    let conditioning = Conditioning {
        profile: profile.unwrap(),
        allocation: AllocationSpec::Drr(Default::default()),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    let ack_control = Some(AckSpec::PostAck(Default::default()));
    Policy {
        name: "all".into(),
        priority: 0,
        filter: Filter { direction: Some(Direction::Up), ..Filter::default() },
        action: Action::Shape { conditioning, queue: queue(), ack_control },
        mode: Mode::Enforce,
        class: class.map(str::to_owned),
        trunk: None,
    }
}

/// The policy for the traffic of the second sender.
fn second(class: Option<&str>) -> Policy {
    let mut policy = Policy { name: "second".into(), priority: 1, ..policy(class) };
    policy.filter.src_port = vec![Range { first: SECOND, last: SECOND }];
    policy
}

fn queue() -> QdiscSpec {
    QdiscSpec::PerFlow(Default::default())
}

fn packet(protocol: Protocol, len: u32, tcp: Option<TcpSegment>) -> Packet {
    let (src, dst) = (Endpoint::v4([10, 0, 0, 1], FIRST), Endpoint::v4([192, 0, 2, 1], 80));
    let key = FlowKey { src, dst, protocol };
    Packet { len, key, network: Network::Ipv4, segments: 1, tcp, ..Packet::default() }
}

/// Catches: ACKs that are released although data waits for the link.
#[test]
fn acks_are_held_while_data_waits_for_the_link_or_class_and_released_afterwards() {
    for class in [None, Some("bulk")] {
        let mut run = Run::new(class);
        run.data(0, 20);
        assert_eq!(run.ack(2), 0, "{class:?}: it is held");
        assert_eq!(run.drain(), 1, "{class:?}: it goes on");
        run.data(20, 1);
        assert_eq!(run.ack(4), 1, "{class:?}: hardly anything waits");
        run.drain();
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Catches: departures that release only ACKs of their own policy; departures that release ACKs of
/// policies in other classes.
#[test]
fn acks_are_held_while_data_of_another_policy_waits_in_the_class() {
    for class in [None, Some("bulk")] {
        let mut run = Run::of(1_024, vec![second(class), policy(class)], class);
        run.port = SECOND;
        run.shake_hands();
        run.data(0, 2);
        run.drain();
        run.now += Duration::from_millis(50);
        run.port = FIRST;
        run.data(0, 20);
        run.port = SECOND;
        assert_eq!(run.ack(2), 0, "{class:?}: it is held");
        assert_eq!(run.drain(), 1, "{class:?}: it goes on");
        assert_eq!(run.gateway.report().aggregates[0].acks.overdue, 0, "{class:?}");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Catches: waiting packets of flows without ACK control that hold back ACKs.
#[test]
fn waiting_packets_without_ack_control_hold_back_no_acks() {
    for class in [None, Some("bulk")] {
        let mut run = Run::new(class);
        run.data(0, 2);
        run.drain();
        for _ in 0..40 {
            run.arrive(Gateway::LAN, packet(Protocol::UDP, 1_250, None));
        }
        assert_eq!(run.ack(2), 1, "{class:?}");
        run.drain();
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Catches: waiting packets that are counted twice after a swap of the policy set that changes the
/// queue.
#[test]
fn a_swap_that_changes_the_queue_counts_waiting_data_once() {
    let mut run = Run::new(None);
    run.data(0, 300);
    let mut policy = run.gateway.policies().policies()[0].clone();
    let Action::Shape { queue, .. } = &mut policy.action else { panic!("it shapes") };
    *queue = QdiscSpec::DropTail(Default::default());
    run.gateway.install(run.now, PolicySet::new(vec![policy]).unwrap());
    let report = run.gateway.report();
    assert!(report.aggregates[0].backlog.packets > 3, "{report:?}");
    run.drain();
    assert_eq!(run.ack(2), 1, "nothing waits any more");
    run.drain();
    assert_eq!(run.gateway.pool().in_use(), 0);
}

/// Catches: packets that were dropped on arrival, and are subtracted from the count of waiting
/// data.
#[test]
fn data_dropped_for_lack_of_buffers_does_not_count_as_departed() {
    let mut run = Run::of(128, vec![policy(None)], None);
    run.data(0, 200);
    let report = run.gateway.report();
    assert!(report.aggregates[0].drops.of(Reason::NoBuffer) > 0, "{report:?}");
    run.drain();
    assert_eq!(run.ack(2), 1, "nothing waits any more");
    run.drain();
    assert_eq!(run.gateway.pool().in_use(), 0);
}

/// Catches: ACKs that still wait for the queue at the link after the gateway has stopped queueing.
#[test]
fn a_gateway_that_stops_releases_held_acks() {
    for class in [None, Some("bulk")] {
        let mut run = Run::new(class);
        run.data(0, 20);
        assert_eq!(run.ack(2), 0, "{class:?}: it is held");
        run.gateway.release_all(run.now);
        assert_eq!((run.out(Gateway::WAN), run.out(Gateway::LAN)), (20, 1), "{class:?}");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// ACKs of two policies are held for data at one class or link. A swap of the policy set changes
/// the class, or removes a policy.
///
/// Catches: ACKs that stay held because their policies are not examined again after the swap.
#[test]
fn a_swap_that_changes_the_egress_leaves_no_ack_held() {
    let classes = [None, Some("bulk"), Some("other")];
    for (from, to, both) in classes.into_iter().flat_map(|from| {
        classes.into_iter().flat_map(move |to| [true, false].map(|both| (from, to, both)))
    }) {
        let mut run = Run::of(1_024, vec![second(from), policy(from)], from);
        run.port = SECOND;
        run.shake_hands();
        run.data(0, 10);
        run.port = FIRST;
        run.data(0, 10);
        assert_eq!(run.ack(2), 0);
        run.port = SECOND;
        assert_eq!(run.ack(2), 0);
        let stay = if both { vec![second(to), policy(to)] } else { vec![policy(to)] };
        run.gateway.install(run.now, in_class(stay, to));
        assert_eq!(run.drain(), 2, "{from:?} to {to:?}");
        let report = run.gateway.report();
        assert!(report.aggregates.iter().all(|it| it.acks.overdue == 0), "{from:?} to {to:?}");
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// A swap that renames a policy releases no held ACK, and no swap loses a held ACK.
///
/// Catches: a renamed policy that is treated as new; held ACKs that are lost when their policy is
/// removed.
#[test]
fn a_swap_keeps_held_acks_as_long_as_their_policy() {
    let renamed = |name: &str| Policy { name: name.to_owned(), ..policy(None) };
    let mut run = Run::new(None);
    run.data(0, 20);
    assert_eq!((run.ack(2), run.ack(4)), (0, 0), "both ACKs are held");
    for name in ["b", "c"] {
        run.gateway.install(run.now, PolicySet::new(vec![renamed(name)]).unwrap());
        assert_eq!(run.out(Gateway::LAN), 0, "the ACKs stay held");
        let report = run.gateway.report();
        assert_eq!(report.aggregates.len(), 1);
        let only = &report.aggregates[0];
        assert_eq!((only.policy.as_str(), only.acks.held), (name, 2));
    }
    let other = Policy { priority: 1, ..renamed("d") };
    run.gateway.install(run.now, PolicySet::new(vec![other]).unwrap());
    assert_eq!(run.out(Gateway::LAN), 0, "the ACK control of the new policy holds the ACKs");
    assert!(run.drain() > 0, "the release rule releases the ACKs");
    run.drain();
    assert_eq!(run.gateway.pool().in_use(), 0);

    let mut run = Run::new(None);
    run.data(0, 20);
    assert_eq!(run.ack(2), 0);
    run.gateway.install(run.now, PolicySet::default());
    assert_eq!(run.out(Gateway::LAN), 1, "without a policy, the ACK departs");
    run.drain();
    assert_eq!(run.gateway.pool().in_use(), 0);
}

/// Catches: held ACKs that the new policy takes in under the index of their flow in the old one.
#[test]
fn held_acks_move_to_the_index_of_their_flow_in_the_new_policy() {
    let mut run = Run::new(None);
    run.port = SECOND;
    run.shake_hands();
    run.data(0, 20);
    assert_eq!(run.ack(2), 0, "it is held");
    let others = Policy { name: "others".into(), ..policy(None) };
    run.gateway.install(run.now, PolicySet::new(vec![second(None), others]).unwrap());
    run.data(20, 1);
    assert_eq!(run.out(Gateway::LAN), 0, "the ACK control of the new policy holds the ACK");
    let report = run.gateway.report();
    let held = report.aggregates.iter().map(|it| (it.policy.as_str(), it.acks.held));
    assert_eq!(held.collect::<Vec<_>>(), [("second", 1), ("others", 0)]);
    assert!(run.drain() > 0, "the release rule releases the ACK");
    assert_eq!(run.gateway.pool().in_use(), 0);
}

/// A swap to policing passes the queue through a meter, and most packets depart out of profile.
///
/// Catches: packets that departed out of profile, and still count as waiting.
#[test]
fn data_sent_out_of_profile_does_not_count_as_waiting() {
    let mut run = Run::new(None);
    run.data(0, 300);
    let police = |policy: &Policy| {
        let Action::Shape { conditioning, .. } = &policy.action else { panic!("it shapes") };
        let profile = Profile::new(Rate::from_kbps(100), None, Bytes(3_000), Bytes(1_514));
        let profile = profile.unwrap();
        let conditioning = Conditioning { profile, ..conditioning.clone() };
        let exceed = Exceed::Mark { in_profile: None, out_of_profile: 1 };
        Policy { action: Action::Police { conditioning, exceed }, ..policy.clone() }
    };
    run.gateway.install(run.now, PolicySet::new(vec![police(&policy(None))]).unwrap());
    let report = run.gateway.report();
    assert!(report.aggregates[0].exceeding.packets > 3, "{report:?}");
    run.drain();
    run.gateway.install(run.now, PolicySet::new(vec![policy(None)]).unwrap());
    run.data(300, 2);
    run.drain();
    run.ack(301);
    run.drain();
    run.data(302, 2);
    run.drain();
    assert_eq!(run.ack(303), 1, "nothing waits any more");
    run.drain();
    assert_eq!(run.gateway.pool().in_use(), 0);
}

/// Catches: released ACKs that are sent to the link, not through the trunk of their own policy.
#[test]
fn held_acks_depart_through_the_trunk_of_their_policy() {
    let trunk = trunk::Config {
        name: "t".to_owned(),
        local: [192, 0, 2, 7].into(),
        peer: [192, 0, 2, 9].into(),
        port: 4_754,
        connections: 1,
        vmss: Bytes(1_500),
        guarantee: None,
        ceiling: None,
        queue: queue(),
        assured: 1,
        fallback: Default::default(),
        tcp: tcp::Config::default(),
        probing: Default::default(),
        weight: None,
        wire: Default::default(),
    };
    let down = Filter { direction: Some(Direction::Down), ..Filter::default() };
    let down = Policy { filter: down, ..policy(None) };
    let alone = PolicySet::new(vec![down.clone()]).unwrap();
    let mut run = Run::with(1_024, alone, vec![trunk]);
    let mut up = Policy { name: "up".into(), trunk: Some("t".to_owned()), ..policy(None) };
    if let Action::Shape { ack_control, .. } = &mut up.action {
        *ack_control = None;
    }
    run.gateway.install(run.now, PolicySet::new(vec![down, up]).unwrap());
    let flags = TcpFlags(TcpFlags::ACK);
    for n in 0..20 {
        let (seq, payload) = (1 + n * MSS, MSS);
        let tcp = TcpSegment { seq, ack: 1, payload, flags, window: 500, ..TcpSegment::default() };
        run.arrive(Gateway::WAN, packet(Protocol::TCP, 66 + MSS, Some(tcp)));
    }
    run.drain();
    let before = run.gateway.pool().in_use();
    run.up(TcpSegment { seq: 1, ack: 1 + 2 * MSS, flags, ..TcpSegment::default() });
    let (mut of_users, end) = (0, run.now + Duration::from_millis(500));
    while let Some(at) = run.gateway.poll_timeout(run.now).filter(|at| *at < end) {
        run.now = run.now.max(at);
        while let Some(id) = run.gateway.poll_transmit(run.now, Gateway::WAN) {
            of_users += u32::from(run.gateway.pool()[&id].key.src.port == FIRST);
            run.gateway.pool().release(id);
        }
    }
    // The far gateway does not answer, so the trunk has no credit. The ACK waits at the trunk, and
    // is not held by the ACK control.
    let report = run.gateway.report();
    assert_eq!(report.aggregates.iter().map(|it| it.acks.held).sum::<u32>(), 0);
    assert_eq!((of_users, run.gateway.pool().in_use() - before), (0, 1));
}

/// Catches: a responsive flow that is reported; an unresponsive flow that is not; a report that
/// never ends; packets of an unresponsive flow that hold back ACKs.
#[test]
fn an_unresponsive_flow_is_reported_until_it_responds() {
    let mut policy = policy(None);
    let Action::Shape { conditioning, .. } = &mut policy.action else { unreachable!() };
    let profile = Profile::new(Rate::from_mbps(1), None, Bytes(1_514), Bytes(1_514));
    conditioning.profile = profile.unwrap();
    let mut run = Run::of(1_024, vec![policy], None);
    let named = |run: &Run| run.gateway.report().unresponsive;
    let unresponsive =
        |report: &Report| report.aggregates[0].ack_control.as_ref().unwrap().unresponsive;
    // 1 Mbit/s carries 82 frames in a second, and a flow may send 128 KiB (86 frames) before it
    // counts as unresponsive.
    run.data(0, 86);
    assert_eq!((named(&run), unresponsive(&run.gateway.report())), (vec![], 0));
    run.data(86, 20);
    let (flows, report) = (named(&run), run.gateway.report());
    assert_eq!((flows.len(), unresponsive(&report)), (1, 1));
    assert_eq!((&*flows[0].policy, flows[0].direction), ("all", Direction::Up));
    assert!(flows[0].src.contains(':') && flows[0].dst.contains(':'), "{flows:?}");
    // The first examination subtracts nine eighths of the bytes that the rate carried in 50 ms.
    assert_eq!(report.aggregates[0].acks.uncontrolled, 15);
    // The flow is silent for some seconds, and then responds.
    run.drain();
    run.now += Duration::from_secs(3);
    run.data(106, 1);
    assert_eq!(named(&run), vec![]);
    run.drain();
}

/// Catches: ACKs of a responsive flow that are held while data of an unresponsive sender waits, or while data of that
/// sender has passed and is not yet paid for.
#[test]
fn earlier_data_of_an_unresponsive_flow_holds_back_no_acks_of_other_flows() {
    for placement in [Placement::Upload, Placement::Download] {
        let mut policy = policy(None);
        let Action::Shape { conditioning, ack_control, .. } = &mut policy.action else {
            unreachable!()
        };
        let profile = Profile::new(Rate::from_mbps(1), None, Bytes(1_514), Bytes(1_514));
        conditioning.profile = profile.unwrap();
        if let Some(AckSpec::PostAck(config)) = ack_control {
            config.placement = placement;
        }
        let mut run = Run::of(1_024, vec![policy], None);
        run.stops_responding(80, 40);
        // The link carries what has passed in a tenth of the time in which the profile pays for it.
        for _ in 0..120 {
            run.out(Gateway::WAN);
            run.now += LINK.time_for(Bytes(1_514));
        }
        assert!(run.gateway.pool().in_use() > 20, "{placement:?}: data of the first sender waits");
        assert_eq!(run.out(Gateway::LAN) + run.ack(2), 2, "{placement:?}");
        run.drain();
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Catches: ACKs of a responsive flow that are held while data of an unresponsive sender waits for the link or in a
/// class.
#[test]
fn data_of_an_unresponsive_flow_at_the_egress_holds_back_no_acks_of_other_flows() {
    for class in [None, Some("bulk")] {
        let mut run = Run::of(4_096, vec![policy(class)], class);
        run.stops_responding(300, 1_100);
        assert!(run.gateway.pool().in_use() > 200, "{class:?}: data of the first sender waits");
        assert_eq!(run.out(Gateway::LAN) + run.ack(2), 2, "{class:?}");
        run.drain();
        assert_eq!(run.gateway.pool().in_use(), 0);
    }
}

/// Catches: a packet that is not counted as released, so that its flow never expires: data, a held
/// ACK, a record of a held ACK, or a copy of an ACK.
#[test]
fn flows_whose_acks_were_held_expire() {
    let mut run = Run::new(None);
    run.gateway.pool().make_copies();
    run.data(0, 40);
    let at_once: usize = (1..=10).map(|n| run.ack(2 * n)).sum();
    assert!(at_once < 10, "ACKs are held");
    run.drain();
    let report = run.gateway.report();
    assert!((report.flows, report.held) == (1, 0) && report.made > 0, "{report:?}");
    run.now += Duration::from_secs(61);
    // A sweep each millisecond examines a part of the table.
    for _ in 0..64 {
        run.now += Duration::from_millis(1);
        run.drain();
    }
    assert_eq!(run.gateway.report().flows, 0);
}
