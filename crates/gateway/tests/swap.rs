//! Swaps of the policy set under traffic: profiles are kept, ACKs stay held, and no packet is lost.
//!
//! A swap replaces the set of policies. It proceeds in *slices* of a few steps. An *aggregate* has
//! the packets of one policy in one direction.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "not every test file needs all of the run")]

mod gateway_run;

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Rate, Time};
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, Filter, Policy, PolicySet, Profile, Sharers,
};
use tidegate_gateway::{GatewayConfig, Generation};

use gateway_run::{
    BURST, Left, MEAN, Run, allocation, assert_in_order, conditioning, config, from, policy, queue,
    shape_by,
};

const FRAME: u64 = 1_514;

/// The difference between the policies of two successive sets.
#[derive(Clone, Copy, Debug)]
enum Swap {
    /// Only names differ.
    Renamed,
    /// Names and bursts differ, so that no policy stays the same.
    Others,
    /// Names differ. Also, one policy for all hosts replaces the policies for single hosts, or the
    /// reverse.
    Joined,
    /// The units that share the tokens change from flows to hosts, or the reverse.
    Shared,
}

#[derive(Clone, Debug)]
enum Step {
    Offer { host: u8, len: u32 },
    Wait { micros: u64 },
    Swap(Swap),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let swap = prop_oneof![
        3 => Just(Swap::Renamed),
        1 => Just(Swap::Others),
        1 => Just(Swap::Joined),
        1 => Just(Swap::Shared),
    ];
    let step = prop_oneof![
        12 => (1u8..4, 60u32..1_514).prop_map(|(host, len)| Step::Offer { host, len }),
        3 => (0u64..4_000).prop_map(|micros| Step::Wait { micros }),
        2 => swap.prop_map(Step::Swap),
    ];
    prop::collection::vec(step, 1..300)
}

/// Properties of the policies of a set.
#[derive(Clone, Copy, Default)]
struct Shape {
    name: u32,
    burst: u64,
    joined: bool,
    shared: bool,
}

impl Shape {
    fn after(self, swap: Swap) -> Self {
        let renamed = Self { name: self.name + 1, ..self };
        match swap {
            Swap::Renamed => renamed,
            Swap::Others => Self { burst: 1 - self.burst, ..renamed },
            Swap::Joined => Self { joined: !self.joined, ..renamed },
            Swap::Shared => Self { shared: !self.shared, ..self },
        }
    }

    fn policies(self, scheme: &str, discipline: &str) -> Vec<Policy> {
        let burst = Bytes(BURST.0 + self.burst);
        let fair_between =
            if self.shared { Sharers::DestinationHost.into() } else { Sharers::Flow.into() };
        let conditioning = Conditioning {
            profile: Profile::new(MEAN, None, burst, Bytes(FRAME)).unwrap(),
            allocation: allocation(scheme),
            fair_between,
            ..conditioning()
        };
        let named = |host: u8, filter: Filter| {
            let action = shape_by(conditioning.clone(), discipline);
            policy(&format!("host-{host}-{}", self.name), filter, action)
        };
        if self.joined {
            let all = (1..4).flat_map(|host| from(host).src).collect();
            return vec![named(0, Filter { src: all, ..Filter::default() })];
        }
        (1..4).map(|host| named(host, from(host))).collect()
    }
}

/// Advances the time. A swap does not proceed in this time.
fn wait(run: &mut Run, micros: u64) {
    let end = run.now + Duration::from_micros(micros);
    if run.gateway.is_installing() {
        run.now = end;
        return run.drain();
    }
    run.until(end);
}

/// Finds the first time span in which more bytes depart than `burst` and the bytes at the rate
/// `MEAN`.
fn exceeds(left: &[Left], lens: &[u64], burst: u64) -> Option<(Time, Time, u64)> {
    for (from, first) in left.iter().enumerate() {
        let mut sum = 0;
        for last in &left[from..] {
            sum += lens[usize::try_from(last.number).unwrap()];
            let span = last.at.since(first.at);
            if sum > burst + MEAN.bytes_in(span).0 + 1 {
                return Some((first.at, last.at, sum));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// In any time span, at most these bytes depart: the burst, the bytes at the mean rate, and a
    /// frame for each aggregate that a swap created. Every lost packet is counted, and no flow is
    /// reordered.
    ///
    /// Catches: a full token bucket for an aggregate that a swap creates, or whose shaper a swap
    /// replaces; a renamed policy that is treated as new.
    ///
    /// Catches: packets of a removed aggregate that bypass the new policy; the first packet after a
    /// swap that is dropped; an excess of one frame per swap, in place of one frame per new
    /// aggregate.
    #[test]
    fn no_swap_exceeds_the_profile_by_more_than_a_frame(
        steps in steps(),
        scheme in 0..AllocationSpec::NAMES.len(),
        discipline in 0..QdiscSpec::NAMES.len(),
        sliced in any::<bool>(),
    ) {
        let (scheme, discipline) = (AllocationSpec::NAMES[scheme], QdiscSpec::NAMES[discipline]);
        let mut shape = Shape::default();
        let mut run = Run::new(&config(), shape.policies(scheme, discipline));
        let (mut lens, mut made) = (Vec::new(), 0);
        for step in steps {
            match step {
                Step::Offer { host, len } => {
                    let number = u32::try_from(lens.len()).unwrap();
                    lens.push(u64::from(len));
                    run.offer(host, number, len);
                }
                Step::Wait { micros } => wait(&mut run, micros),
                Step::Swap(swap) => {
                    shape = shape.after(swap);
                    made += u64::from(!matches!(swap, Swap::Renamed));
                    let set = PolicySet::new(shape.policies(scheme, discipline)).unwrap();
                    let generation = Generation::new(set, run.gateway.shared_policies(), run.gateway.config());
                    while run.gateway.go_on_installing(run.now) {}
run.gateway.begin_install(run.now, generation).unwrap();
                    while !sliced && run.gateway.go_on_installing(run.now) {}
                }
            }
            run.gateway.go_on_installing(run.now);
            run.drain();
        }
        while run.gateway.go_on_installing(run.now) {}
        run.until(run.now + Duration::from_secs(10));
        let (left, report) = run.end();
        prop_assert_eq!(report.held, 0);
        assert_in_order(&left);
        for host in 1..4 {
            let own: Vec<_> = left.iter().filter(|it| it.host == host).copied().collect();
            let found = exceeds(&own, &lens, BURST.0 + 1 + made * FRAME);
            prop_assert_eq!(found, None, "host {} of {} and {}", host, scheme, discipline);
        }
    }
}

/// Renames a policy of 20 Mbit/s 1,000 times in 0.8 s. If each rename released a burst and the
/// backlog, 277 MB would pass.
#[test]
fn a_thousand_renames_pass_no_more_than_one_policy() {
    let profile = Profile::new(Rate::from_mbps(20), None, Bytes(250_000), Bytes(FRAME)).unwrap();
    let named = |n: u32| {
        let action = shape_by(Conditioning { profile, ..conditioning() }, "per-flow");
        vec![policy(&format!("all-{n}"), Filter::default(), action)]
    };
    let mut run = Run::new(&config(), named(0));
    for n in 0..1_000 {
        (0..200).for_each(|each| run.offer(1, n * 200 + each, 1_514));
        run.until(run.now + Duration::from_micros(800));
        run.gateway.install(run.now, PolicySet::new(named(n + 1)).unwrap());
        run.drain();
    }
    let (left, report) = run.end();
    let passed = left.len() * 1_514;
    assert!(passed <= 250_000 + 2_000_000, "{passed} bytes in 0.8 s");
    assert_eq!(report.aggregates.len(), 1);
    assert_eq!(report.aggregates[0].policy, "all-1000");
    assert!(report.aggregates[0].backlog.packets > 100, "the backlog still waits");
}

/// A policy that a swap creates earns its burst from its creation on, like a policy that exists
/// from the start.
///
/// Catches: a new aggregate that earns no tokens before its first packet.
#[test]
fn a_policy_created_by_a_swap_earns_its_burst() {
    let mut run = Run::new(&config(), Vec::new());
    let shape = Shape { joined: true, ..Shape::default() };
    let set = PolicySet::new(shape.policies("fcfs", "per-flow")).unwrap();
    run.gateway.install(run.now, set);
    run.until(Time::from_secs(1));
    (0..4).for_each(|number| run.offer(1, number, 1_000));
    assert_eq!(run.left.len(), 3);
}

/// Hundreds of classes appear and vanish while packets pass, so a swap takes many slices.
///
/// Catches: a class that gets children while packets still arrive for it; a class that is removed
/// before its policies; packets that are dropped with a removed class.
#[test]
fn a_swap_of_many_slices_loses_and_reorders_nothing() {
    let rate = [Some(Rate::from_mbps(8)), None];
    let class = |name: String, parent: Option<String>| Class {
        parent,
        ..Class::new(&name, queue("per-flow"))
    };
    let set = |iteration: u32| {
        // Hosts have their own classes in even sets, and children of these classes in odd sets.
        let deep = iteration % 2 == 1;
        let classes = (0..200).flat_map(|n| {
            let own = class(format!("c{n}"), None);
            let part = deep.then(|| class(format!("c{n}-{iteration}"), Some(format!("c{n}"))));
            [Some(own), part]
        });
        let classes = ClassSet::new(classes.flatten().collect(), rate).unwrap();
        let leaf = |n: u32| if deep { format!("c{n}-{iteration}") } else { format!("c{n}") };
        let host = |n: u32| Policy {
            class: Some(leaf(n)),
            ..policy(
                &format!("p{n}-{}", iteration / 3),
                from(u8::try_from(n).unwrap()),
                Action::Pass,
            )
        };
        PolicySet::new((1..100).map(host).collect()).unwrap().with_classes(classes)
    };
    let mut run = Run::new(&GatewayConfig { rate, flows: 256, ..config() }, Vec::new());
    let (mut number, mut slices) = (0, 0);
    for iteration in 0..6 {
        let generation =
            Generation::new(set(iteration), run.gateway.shared_policies(), run.gateway.config());
        run.gateway.begin_install(run.now, generation).unwrap();
        loop {
            slices += 1;
            for host in 1..20 {
                run.offer(host, number, 200);
                number += 1;
            }
            wait(&mut run, 3_500);
            if !run.gateway.go_on_installing(run.now) {
                break;
            }
        }
        let classes = run.gateway.classes();
        assert_eq!(
            classes.len(),
            if iteration % 2 == 1 { 401 } else { 201 },
            "iteration {iteration}"
        );
    }
    run.gateway.install(run.now, PolicySet::default());
    run.until(run.now + Duration::from_secs(10));
    let (left, report) = run.end();
    assert!(slices > 30, "{slices} slices");
    assert_eq!((report.held, report.drops.total()), (0, 0));
    assert_eq!(left.len(), usize::try_from(number).unwrap());
    assert_in_order(&left);
}

/// No call adds or removes more classes than the steps of a slice, even if one of the two sets has
/// no classes.
///
/// Catches: all classes removed in one call because the new set has none.
#[test]
fn all_classes_are_added_and_removed_in_slices() {
    const SLICE: usize = 64;
    let rate = [Some(Rate::from_mbps(8)), None];
    let names = || (0..1_000).map(|n| format!("c{n}"));
    let classes = names().map(|name| Class::new(&name, queue("per-flow"))).collect();
    let classes = ClassSet::new(classes, rate).unwrap();
    let host = |n: u8, classed: bool| Policy {
        class: classed.then(|| format!("c{n}")),
        ..policy(&format!("p{n}"), from(n), Action::Pass)
    };
    let set = |classed| PolicySet::new((1..100).map(|n| host(n, classed)).collect()).unwrap();
    let mut run = Run::new(&GatewayConfig { rate, flows: 64, ..config() }, Vec::new());
    let mut number = 0;
    for classed in [true, false, true, false] {
        let next = if classed { set(true).with_classes(classes.clone()) } else { set(false) };
        let generation = Generation::new(next, run.gateway.shared_policies(), run.gateway.config());
        run.gateway.begin_install(run.now, generation).unwrap();
        let mut there = run.gateway.classes().len();
        loop {
            let more = run.gateway.go_on_installing(run.now);
            let now = run.gateway.classes().len();
            assert!(now.abs_diff(there) <= SLICE, "{there} classes, and {now} after a slice");
            there = now;
            for host in 1..100 {
                run.offer(host, number, 200);
            }
            number += 1;
            wait(&mut run, 2_000);
            if !more {
                break;
            }
        }
        assert_eq!(there, if classed { 1_001 } else { 0 });
    }
    assert!(run.gateway.report().held > 100, "packets wait");
    run.until(run.now + Duration::from_secs(20));
    let (left, report) = run.end();
    assert_eq!(report.held, 0);
    assert_in_order(&left);
}

/// Catches: a running swap that is completed in one call because another swap is to begin.
#[test]
fn no_swap_begins_during_another_swap() {
    let mut run = Run::new(&config(), Vec::new());
    let set = |name: &str| PolicySet::new(vec![policy(name, from(1), Action::Pass)]).unwrap();
    let running = run.gateway.shared_policies();
    let generation = |name| Generation::new(set(name), running.clone(), &config());
    run.gateway.begin_install(run.now, generation("first")).unwrap();
    let refused = run.gateway.begin_install(run.now, generation("second")).unwrap_err();
    assert!(run.gateway.is_installing(), "the first swap goes on");
    while run.gateway.go_on_installing(run.now) {}
    assert_eq!(run.gateway.policies().policies()[0].name, "first");
    run.gateway.begin_install(run.now, *refused.0).unwrap();
    while run.gateway.go_on_installing(run.now) {}
    assert_eq!(run.gateway.policies().policies()[0].name, "second");
}
