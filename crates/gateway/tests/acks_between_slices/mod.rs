//! Held ACKs during a swap, which replaces the policy set. ACK control holds ACKs to slow down the
//! sender. A swap proceeds in *slices* of a few steps, and data and ACKs arrive between the slices.
//!
//! An *aggregate* has the flows of one policy in one direction.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::Bytes;
use tidegate_core::ack::AckSpec;
use tidegate_core::packet::{Direction, TcpFlags, TcpSegment};
use tidegate_core::{Machine, Packet, PortId};
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, Filter, Policy, PolicySet, Profile,
};
use tidegate_gateway::{Gateway, GatewayConfig, Generation};

use super::gateway_run::{Run, allocation, conditioning, config, from, packet, policy, queue};
use super::mbps;

/// Number of flows, more than a slice has steps. Flow `n` belongs to host `1 + n % HOSTS`.
const FLOWS: u16 = 96;
const HOSTS: u8 = 4;
/// A value for each of the four hosts.
type EachHost = [u8; 4];

const MSS: u32 = 1_448;

/// Number of classes, more than a slice has steps.
const FILLERS: u8 = 80;

/// A policy set. All its policies use PostACK.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// Class of each host's policy. Zero if the policy names no class.
    class: EachHost,
    /// Number in the name of each host's policy. Another number makes another policy.
    version: EachHost,
    /// The policy of the first host applies to all hosts.
    joined: bool,
    /// The classes of the policies are children of other classes.
    deep: bool,
    fillers: u8,
}

impl Set {
    const PLAIN: Self =
        Self { class: [1; 4], version: [0; 4], joined: false, deep: false, fillers: FILLERS };

    fn policies(self) -> PolicySet {
        let one = |n: u8, src: Filter| {
            let (class, version) =
                (self.class[usize::from(n)], u64::from(self.version[usize::from(n)]));
            // The burst differs too. Otherwise, the swap would only rename the policy.
            let burst = Bytes(64_000 + version);
            let profile = Profile::new(mbps(100), None, burst, Bytes(1_514)).unwrap();
            let conditioning =
                Conditioning { profile, allocation: allocation("drr"), ..conditioning() };
            let ack_control = Some(AckSpec::PostAck(Default::default()));
            let action = Action::Shape { conditioning, queue: queue("per-flow"), ack_control };
            let filter = Filter { direction: Some(Direction::Up), ..src };
            let level = if self.deep { "part" } else { "class" };
            let class = (class > 0).then(|| format!("{level}-{class}"));
            Policy { class, ..policy(&format!("host-{n}-{version}"), filter, action) }
        };
        let policies = if self.joined {
            let src = (0..HOSTS).flat_map(|n| from(1 + n).src).collect();
            vec![one(0, Filter { src, ..from(1) })]
        } else {
            (0..HOSTS).map(|n| one(n, from(1 + n))).collect()
        };
        PolicySet::new(policies).unwrap().with_classes(self.classes())
    }

    fn classes(self) -> ClassSet {
        let class = |name: String| Class::new(&name, queue("per-flow"));
        let mut classes = Vec::new();
        for n in 1..=3 {
            let name = format!("class-{n}");
            classes.push(class(name.clone()));
            if self.deep {
                classes.push(Class { parent: Some(name), ..class(format!("part-{n}")) });
            }
        }
        classes.extend((0..self.fillers).map(|n| class(format!("filler-{n}"))));
        ClassSet::new(classes, [Some(mbps(5)); 2]).unwrap()
    }
}

/// A gateway, and open connections through it.
struct Senders {
    run: Run,
    /// For each flow: the segments that it has sent, and those that its receiver has acknowledged.
    sent: Vec<u32>,
    acked: Vec<u32>,
}

impl Senders {
    fn new(set: Set) -> Self {
        let config = GatewayConfig { rate: [Some(mbps(5)); 2], flows: 256, ..config() };
        let mut run = Run::new(&config, Vec::new());
        run.gateway.pool().make_copies();
        run.gateway.install(run.now, set.policies());
        let none = vec![0; FLOWS.into()];
        let mut senders = Self { run, sent: none.clone(), acked: none };
        let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
        for (port, flags, pause) in [
            (Gateway::LAN, syn, Duration::from_millis(50)),
            (Gateway::WAN, syn | ack, Duration::from_micros(200)),
            (Gateway::LAN, ack, Duration::from_millis(100)),
        ] {
            let own = u32::from(flags != syn);
            for flow in 0..FLOWS {
                let seq = if port == Gateway::LAN { own } else { 0 };
                let flags = TcpFlags(flags);
                senders.offer(
                    port,
                    flow,
                    TcpSegment { seq, ack: own, flags, ..Default::default() },
                );
            }
            let end = senders.run.now + pause;
            senders.run.until(end);
        }
        senders
    }

    fn offer(&mut self, port: PortId, flow: u16, tcp: TcpSegment) {
        let host = 1 + u8::try_from(flow % u16::from(HOSTS)).unwrap();
        let mut packet =
            Packet { tcp: Some(TcpSegment { window: 500, ..tcp }), ..packet(host, 0, 66) };
        packet.len += tcp.payload;
        packet.key.src.port = 1_000 + flow;
        if port == Gateway::WAN {
            packet.key = packet.key.reverse();
        }
        self.run.offer_packet(port, packet);
    }

    /// The sender of `flow` sends full segments.
    fn data(&mut self, flow: u16, segments: u32) {
        for _ in 0..segments {
            let sent = &mut self.sent[usize::from(flow)];
            let (seq, flags) = (1 + *sent * MSS, TcpFlags(TcpFlags::ACK));
            *sent += 1;
            let tcp = TcpSegment { seq, ack: 1, payload: MSS, flags, ..TcpSegment::default() };
            self.offer(Gateway::LAN, flow, tcp);
        }
    }

    /// The receiver of `flow` acknowledges `segments` more segments, or all that were sent.
    fn ack(&mut self, flow: u16, segments: u32) {
        let at = usize::from(flow);
        self.acked[at] = self.sent[at].min(self.acked[at] + segments);
        let (ack, flags) = (1 + self.acked[at] * MSS, TcpFlags(TcpFlags::ACK));
        self.offer(Gateway::WAN, flow, TcpSegment { seq: 1, ack, flags, ..TcpSegment::default() });
    }

    fn held(&self) -> u32 {
        self.run.gateway.report().aggregates.iter().map(|it| it.acks.held).sum()
    }

    fn begin(&mut self, set: Set) {
        self.finish();
        let gateway = &mut self.run.gateway;
        let running = gateway.shared_policies();
        let generation = Generation::new(set.policies(), running, gateway.config());
        gateway.begin_install(self.run.now, generation).unwrap();
    }

    /// Advances the time, but takes no slice of the swap.
    fn wait(&mut self, micros: u64) {
        let end = self.run.now + Duration::from_micros(micros);
        while self.run.now < end {
            self.run.now = end.min(self.run.now + Duration::from_micros(500));
            self.run.drain();
        }
    }

    /// Takes a slice of the swap. Returns `true` if more slices are necessary.
    fn slice(&mut self) -> bool {
        let more = self.run.gateway.go_on_installing(self.run.now);
        self.run.drain();
        more
    }

    fn finish(&mut self) {
        while self.slice() {}
    }

    /// Asserts that all data and all ACKs depart, and that all flows expire.
    fn finish_and_check(mut self) {
        self.finish();
        let end = self.run.now + Duration::from_secs(30);
        self.run.until(end);
        assert_eq!(self.run.gateway.pool().in_use(), 0, "packets and ACKs that never depart");
        assert_eq!(self.held(), 0);
        self.run.now += Duration::from_secs(61);
        // Each sweep examines a part of the table, once a millisecond.
        for _ in 0..256 {
            let end = self.run.now + Duration::from_millis(1);
            self.run.gateway.poll_timeout(end);
            self.run.until(end);
        }
        assert_eq!(self.run.gateway.report().flows, 0, "flows that never expire");
    }
}

/// ACKs arrive when the new policies are in force, before and after their aggregates move to
/// another class.
///
/// Catches: waiting data of an aggregate that is subtracted from its new class although it was
/// added to its former class.
#[test]
fn acks_between_slices_count_in_the_class_of_their_policy() {
    for class in [[2; 4], [2, 1, 2, 1], [0; 4], [3, 0, 2, 1]] {
        let mut senders = Senders::new(Set::PLAIN);
        for flow in 0..4 {
            senders.data(flow, 60);
            senders.ack(flow, 2);
        }
        assert!(senders.held() > 0, "ACKs are held");
        let before = senders.run.gateway.shared_policies();
        senders.begin(Set { class, ..Set::PLAIN });
        let mut inside = 0;
        while senders.slice() {
            if !Arc::ptr_eq(&before, &senders.run.gateway.shared_policies()) {
                inside += 1;
                (0..4).for_each(|flow| senders.ack(flow, 1));
            }
        }
        assert!(inside > 5, "the swap has {inside} slices with the new policies");
        senders.finish_and_check();
    }
}

/// The aggregate of all flows is removed. While the held ACKs of some flows move, other flows get
/// their first held ACK.
///
/// Catches: an aggregate that is removed together with an ACK that arrived after its flow was
/// examined.
#[test]
fn acks_held_during_the_removal_of_their_aggregate_are_not_lost() {
    let set = Set { joined: true, fillers: 0, ..Set::PLAIN };
    let mut late = 0;
    for nth in 0..8 {
        let mut senders = Senders::new(set);
        (0..FLOWS).for_each(|flow| senders.data(flow, 3));
        // All data passes the aggregate and waits at the link. The flows therefore move with their
        // held ACKs.
        let end = senders.run.now + Duration::from_millis(40);
        senders.run.until(end);
        (0..FLOWS).filter(|flow| flow % 4 > 0).for_each(|flow| senders.ack(flow, 2));
        assert!(senders.held() > 64, "{} ACKs are held", senders.held());
        senders.begin(Set { version: [1; 4], ..set });
        for _ in 0..nth {
            senders.slice();
        }
        late += u32::from(senders.run.gateway.is_installing());
        (0..FLOWS).filter(|flow| flow % 4 == 0).for_each(|flow| senders.ack(flow, 2));
        senders.finish_and_check();
    }
    assert!(late >= 2, "ACKs came only before {late} slices");
}

#[derive(Clone, Debug)]
enum Step {
    Data {
        flow: u16,
        segments: u32,
    },
    Ack {
        flow: u16,
        segments: u32,
    },
    /// All receivers acknowledge one segment.
    Acks,
    Wait {
        micros: u64,
    },
    Begin(Set),
    Slice,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let set = ([0u8..4, 0..4, 0..4, 0..4], [0u8..2, 0..2, 0..2, 0..2], 0u8..8);
    let set = set.prop_map(|(class, version, more)| Set {
        class,
        version,
        joined: more & 1 > 0,
        deep: more & 2 > 0,
        fillers: if more & 4 > 0 { FILLERS } else { 0 },
    });
    let flow = || 0..FLOWS;
    let step = prop_oneof![
        8 => (flow(), 1u32..20).prop_map(|(flow, segments)| Step::Data { flow, segments }),
        12 => (flow(), 1u32..4).prop_map(|(flow, segments)| Step::Ack { flow, segments }),
        4 => Just(Step::Acks),
        2 => (0u64..20_000).prop_map(|micros| Step::Wait { micros }),
        2 => set.prop_map(Step::Begin),
        20 => Just(Step::Slice),
    ];
    prop::collection::vec(step, 1..100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// No ACK is lost or held for ever, and all buffers are free at the end.
    ///
    /// Catches: waiting data that is counted in the former class of its aggregate.
    #[test]
    fn held_acks_survive_every_interleaving_of_swaps_and_arrivals(steps in steps()) {
        let mut senders = Senders::new(Set::PLAIN);
        (0..FLOWS).for_each(|flow| senders.data(flow, 3));
        for step in steps {
            match step {
                Step::Data { flow, segments } => senders.data(flow, segments),
                Step::Ack { flow, segments } => senders.ack(flow, segments),
                Step::Acks => (0..FLOWS).for_each(|flow| senders.ack(flow, 1)),
                Step::Wait { micros } => senders.wait(micros),
                Step::Begin(set) => senders.begin(set),
                Step::Slice => _ = senders.slice(),
            }
        }
        senders.finish_and_check();
    }
}
