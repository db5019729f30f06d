//! Swaps of the policy set, interrupted by other events. A swap replaces the set of policies, in
//! *slices* of a few steps. Between the slices, packets pass, control traffic waits, and the link
//! changes its rate and its queue. A flow without an entry in the flow table is *untracked*.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "not every test file needs all of the run")]

mod acks_between_slices;
mod gateway_run;

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::packet::{Kind, QueueIndex};
use tidegate_core::scheduler::Term;
use tidegate_core::{Bytes, Machine, Packet, PortId, Rate, Time};
use tidegate_gateway::policy::{
    Action, Class, ClassChange, ClassSet, Conditioning, Exceed, Policy, PolicySet, Profile,
};
use tidegate_gateway::{Gateway, GatewayConfig, Generation, Survey};

use gateway_run::{
    Run, assert_in_order, conditioning, config, from, packet, policy, queue, shape_by,
};

/// Number of hosts that policies match. Hosts 1 to `HOSTS` send upstream. Hosts `DOWN + 1` to
/// `DOWN + HOSTS` send downstream.
const HOSTS: u8 = 5;
const DOWN: u8 = 20;
/// Base of the host numbers of stations that send control traffic.
const STATION: u8 = 200;

const MTU: u32 = 1_514;

/// Rates of the link in Mbit/s. The guarantees of the classes fit into the slowest rate.
const RATES: [Option<u64>; 4] = [None, Some(1), Some(5), Some(50)];
const QUEUES: [&str; 3] = ["per-flow", "fq-codel", "drop-tail"];

#[derive(Clone, Debug)]
enum Step {
    User {
        host: u8,
        down: bool,
        len: u32,
    },
    /// Control packets of one station.
    Control {
        station: u8,
        down: bool,
        len: u32,
        packets: u8,
    },
    Wait {
        micros: u64,
    },
    Begin(Set),
    Slice,
    Link {
        rate: [usize; 2],
        queue: usize,
    },
    Survey,
    Class(ClassOp),
}

/// A policy set.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// Number in the policies' names. Policies with equal names are the same policy.
    name: u8,
    /// Selects the action of the policies, such as shaping or policing, in [`action`].
    action: u8,
    /// One policy applies to all hosts. Otherwise each host has its own policy.
    joined: bool,
    tree: Tree,
    /// Number of classes without packets, with which a swap takes many slices.
    fillers: u8,
}

/// The classes of a set.
#[derive(Clone, Copy, Debug)]
enum Tree {
    None,
    Flat,
    /// Each class is a child of another class.
    Deep,
    /// The class `default` is configured explicitly, as the first class.
    Named,
    /// The class `default` is a child of another class.
    Moved,
}

#[derive(Clone, Copy, Debug)]
enum ClassOp {
    Add,
    Remove,
    /// Changes the weight of `default`.
    Weigh(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tree = prop_oneof![
        Just(Tree::None),
        Just(Tree::Flat),
        Just(Tree::Deep),
        Just(Tree::Named),
        Just(Tree::Moved),
    ];
    let set = (0u8..3, 0u8..4, any::<bool>(), tree, prop_oneof![Just(0u8), Just(120)]);
    let set = set.prop_map(|(name, action, joined, tree, fillers)| Set {
        name,
        action,
        joined,
        tree,
        fillers,
    });
    let class =
        prop_oneof![Just(ClassOp::Add), Just(ClassOp::Remove), (1u32..9).prop_map(ClassOp::Weigh),];
    let rate = || 0..RATES.len();
    let step = prop_oneof![
        20 => (1..=HOSTS, any::<bool>(), 60..=MTU)
            .prop_map(|(host, down, len)| Step::User { host, down, len }),
        8 => (0u8..3, any::<bool>(), 60..=MTU, 1u8..40).prop_map(
            |(station, down, len, packets)| Step::Control { station, down, len, packets }
        ),
        6 => (0u64..20_000).prop_map(|micros| Step::Wait { micros }),
        3 => set.prop_map(Step::Begin),
        12 => Just(Step::Slice),
        2 => ([rate(), rate()], 0..QUEUES.len())
            .prop_map(|(rate, queue)| Step::Link { rate, queue }),
        2 => Just(Step::Survey),
        2 => class.prop_map(Step::Class),
    ];
    prop::collection::vec(step, 1..120)
}

fn mbps(n: u64) -> Rate {
    Rate::from_mbps(n)
}

fn action(kind: u8) -> Action {
    let profile = Profile::new(mbps(8), None, Bytes(3_000), Bytes(u64::from(MTU))).unwrap();
    let conditioning = Conditioning { profile, ..conditioning() };
    match kind {
        0 => Action::Pass,
        1 => shape_by(conditioning, "per-flow"),
        2 => shape_by(conditioning, "fq-codel"),
        _ => Action::Police { conditioning, exceed: Exceed::Drop },
    }
}

impl Set {
    fn policies(self) -> PolicySet {
        let leaf = |host: u8| match self.tree {
            Tree::None => None,
            Tree::Deep => Some(format!("part-{}", host % 3)),
            _ => Some(format!("class-{}", host % 3)),
        };
        let named = |host: u8, filter| Policy {
            class: leaf(host),
            ..policy(&format!("host-{host}-{}", self.name), filter, action(self.action))
        };
        let hosts = (1..=HOSTS).chain(DOWN + 1..=DOWN + HOSTS);
        let policies: Vec<_> = if self.joined {
            let mut all = from(1);
            all.src = hosts.flat_map(|host| from(host).src).collect();
            vec![named(1, all)]
        } else {
            hosts.map(|host| named(host, from(host))).collect()
        };
        PolicySet::new(policies).unwrap().with_classes(self.classes())
    }

    fn classes(self) -> ClassSet {
        let class = |name: String, parent: Option<&str>| Class {
            parent: parent.map(str::to_owned),
            ..Class::new(&name, queue(QUEUES[usize::from(self.name)]))
        };
        let mut classes = Vec::new();
        for n in 0..3 {
            let name = format!("class-{n}");
            let guarantee = [Rate::from_kbps(50 * n); 2];
            let ceiling = [(n == 1).then(|| mbps(2)); 2];
            let own = Class { guarantee, ceiling, priority: 1, ..class(name.clone(), None) };
            classes.push(own);
            if matches!(self.tree, Tree::Deep) {
                classes.push(class(format!("part-{n}"), Some(&name)));
            }
        }
        let default = Class::DEFAULT.to_owned();
        match self.tree {
            Tree::None => return ClassSet::default(),
            Tree::Flat | Tree::Deep => {}
            Tree::Named => classes.push(Class { priority: 5, weight: 3, ..class(default, None) }),
            Tree::Moved => {
                classes.push(class("rest".to_owned(), None));
                classes.push(Class { priority: 3, ..class(default, Some("rest")) });
            }
        }
        classes.extend((0..self.fillers).map(|n| class(format!("f{n}-{}", self.name), None)));
        ClassSet::new(classes, [Some(mbps(1)); 2]).unwrap()
    }

    /// The sorted names of the set's classes, including `default`.
    fn names(self) -> Vec<String> {
        let set = self.classes();
        let mut names: Vec<_> = set.classes().iter().map(|class| class.name.clone()).collect();
        if !set.is_empty() {
            names.push(Class::DEFAULT.to_owned());
        }
        names.sort();
        names.dedup();
        names
    }
}

/// A gateway, and the state that the test expects.
struct Mixed {
    run: Run,
    set: Option<Set>,
    number: u32,
    survey: Option<Survey>,
    /// `true` if a class was added or removed since the last set.
    altered: bool,
}

impl Mixed {
    fn port(down: bool) -> PortId {
        if down { Gateway::WAN } else { Gateway::LAN }
    }

    fn offer(&mut self, down: bool, packet: Packet) {
        self.run.offer_packet(Self::port(down), packet);
        self.number += 1;
    }

    /// Advances the time, but takes no slice of the swap.
    fn wait(&mut self, micros: u64) {
        let end = self.run.now + Duration::from_micros(micros);
        while self.run.now < end {
            self.run.now = end.min(self.run.now + Duration::from_micros(500));
            self.run.drain();
        }
    }

    fn finish(&mut self) {
        while self.run.gateway.go_on_installing(self.run.now) {}
    }

    fn step(&mut self, step: Step) {
        let now = self.run.now;
        match step {
            Step::User { host, down, len } => {
                let host = if down { host + DOWN } else { host };
                self.offer(down, packet(host, self.number, len));
            }
            Step::Control { station, down, len, packets } => {
                let host = STATION + station + if down { DOWN } else { 0 };
                for _ in 0..packets {
                    let plain = packet(host, self.number, len);
                    let queue_index = QueueIndex(host.into());
                    self.offer(down, Packet { kind: Kind::Control, queue_index, ..plain });
                }
            }
            Step::Wait { micros } => self.wait(micros),
            Step::Begin(set) => {
                let gateway = &mut self.run.gateway;
                let running = gateway.shared_policies();
                let generation = Generation::new(set.policies(), running, gateway.config());
                while gateway.go_on_installing(now) {}
                gateway.begin_install(now, generation).unwrap();
                (self.set, self.altered) = (Some(set), false);
            }
            Step::Slice => {
                self.run.gateway.go_on_installing(now);
                self.run.drain();
            }
            Step::Link { rate, queue: which } => {
                let rate = rate.map(|rate| RATES[rate].map(mbps));
                let before = self.run.gateway.config().clone();
                let changed = GatewayConfig { rate, queue: queue(QUEUES[which]), ..before };
                self.run.gateway.reconfigure(now, &changed);
                self.run.drain();
            }
            Step::Survey => {
                let mut survey = self.survey.take().unwrap_or_else(Survey::of_all);
                if self.run.gateway.survey(&mut survey) {
                    self.survey = Some(survey);
                } else {
                    let (report, _) = survey.report();
                    assert!(report.is_some(), "a complete survey has a report");
                }
            }
            Step::Class(op) => {
                let gateway = &mut self.run.gateway;
                let done = match op {
                    ClassOp::Add => {
                        gateway.add_class(now, &Class::new("extra", queue("drop-tail")))
                    }
                    ClassOp::Remove => gateway.remove_class("class-2"),
                    ClassOp::Weigh(weight) => {
                        let change = ClassChange::default().with(Term::WEIGHT, weight);
                        gateway.change_class(now, Class::DEFAULT, &change)
                    }
                };
                self.altered |= done.is_ok() && !matches!(op, ClassOp::Weigh(_));
            }
        }
    }

    /// Asserts that each direction with a rate has exactly the classes of the installed set.
    fn has_its_classes(&self) {
        let Some(set) = self.set.filter(|_| !self.altered) else { return };
        let classes = self.run.gateway.classes();
        for (way, rate) in ["up", "down"].into_iter().zip(self.run.gateway.config().rate) {
            let found = classes.iter().filter(|it| it.direction.name() == way);
            let found: Vec<_> = found.map(|it| it.name.clone()).collect();
            assert_eq!(found, if rate.is_some() { set.names() } else { Vec::new() });
        }
    }

    /// Asserts that every packet departed, was dropped or is inside, and that the pool holds no
    /// other packets.
    fn check(&mut self) {
        let report = self.run.gateway.report();
        let out = u64::try_from(self.run.left.len()).unwrap();
        let found = out + report.drops.total() + u64::from(report.held);
        assert_eq!(self.run.offered, found);
        assert_eq!(self.run.gateway.pool().in_use(), report.held);
        for (way, control) in self.run.gateway.control().into_iter().enumerate() {
            let waits = control.map_or(0, |it| it.backlog.packets);
            assert!(
                report.link[way].packets >= waits,
                "control traffic is a part of the link's backlog"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// No packet is lost or duplicated. All waiting packets depart, although the test calls the
    /// gateway only at the times that the gateway returns. No packet of a flow or station is
    /// overtaken. If the flow table is full, the order is only guaranteed for swaps in one slice.
    ///
    /// Catches: untracked packets that enter a class with child classes, and stop the link for
    /// ever; untracked packets that stay in a class after it lost its children; packets that are
    /// dropped with a removed class.
    ///
    /// Catches: control traffic that a new class tree does not serve; control traffic that is
    /// dropped when a link loses its rate.
    #[test]
    fn packets_survive_every_interleaving_of_swaps_and_changes(
        steps in steps(),
        full in any::<bool>(),
        sliced in any::<bool>(),
    ) {
        let flows = if full { 3 } else { 64 };
        let rate = [Some(mbps(5)), Some(mbps(5))];
        let run = Run::new(&GatewayConfig { rate, flows, ..config() }, Vec::new());
        let mut mixed = Mixed { run, set: None, number: 0, survey: None, altered: false };
        for step in steps {
            mixed.step(step);
            if !sliced {
                mixed.finish();
            }
            mixed.check();
        }
        mixed.finish();
        mixed.check();
        let end = mixed.run.now + Duration::from_secs(60);
        mixed.run.until(end);
        mixed.has_its_classes();
        let (left, report) = mixed.run.end();
        prop_assert_eq!(report.held, 0);
        if !(full && sliced) {
            assert_in_order(&left);
        }
    }
}

/// A class loses its children. While the children still exist, the class receives untracked
/// packets.
///
/// Catches: packets that enter a class with children, and stop the link for ever; packets that stay
/// in the class after its children were removed.
#[test]
fn untracked_packets_depart_when_their_class_loses_its_children() {
    let set = |tree| Set { name: 0, action: 0, joined: false, tree, fillers: 0 };
    let rate = [Some(mbps(5)); 2];
    let config = GatewayConfig { rate, flows: 1, ..config() };
    let gateway = Gateway::new(&config, set(Tree::Deep).policies(), Time::ZERO);
    let mut run = Run { gateway, now: Time::ZERO, left: Vec::new(), offered: 0 };
    for number in 0..40 {
        run.offer(1, number, MTU);
        run.offer(2, number, MTU);
    }
    run.gateway.install(run.now, set(Tree::Flat).policies());
    let classes = run.gateway.classes();
    let waits = |name: &str| classes.iter().find(|it| it.name == name).unwrap().backlog.packets;
    // The tracked flow (host 1) moves to its new class with its next packet.
    assert!(waits("class-2") > 0, "packets wait at the class of their policy");
    run.until(Time::from_secs(5));
    let (left, report) = run.end();
    assert_eq!(report.held, 0);
    assert_in_order(&left);
}

/// Catches: queues of classes that keep the old rate of the link.
#[test]
fn the_queues_of_classes_follow_the_rate_of_the_link() {
    let set = Set { name: 0, action: 0, joined: false, tree: Tree::Flat, fillers: 0 };
    let mut run = Run::new(&GatewayConfig { rate: [Some(mbps(50)); 2], ..config() }, Vec::new());
    run.gateway.install(run.now, set.policies());
    run.offer(2, 0, MTU);
    let slower = GatewayConfig { rate: [Some(mbps(1)); 2], ..run.gateway.config().clone() };
    run.gateway.reconfigure(run.now, &slower);
    (1..160).for_each(|number| run.offer(10, number, MTU));
    // By default, bytes of one second may wait for each flow without a policy.
    let most = mbps(1).bytes_in(Duration::from_secs(1));
    let waits = run.gateway.report().link[0].bytes;
    assert!(waits <= most + Bytes(4 * u64::from(MTU)), "the backlog is {waits:?}");
    assert!(waits >= most - Bytes(4 * u64::from(MTU)), "the backlog is {waits:?}");
}
