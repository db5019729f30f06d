//! Swaps of the policies while packets of untracked flows wait. An untracked flow has no entry in the flow table, because
//! the table is full of flows with packets in the gateway.
//!
//! A swap moves these packets to the class and the aggregate of their new policy: at most 32 in each step, and 64 steps in
//! each slice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "not every test file needs all of the run")]

mod gateway_run;

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Machine, Rate, Reason};
use tidegate_gateway::policy::{Action, Class, ClassSet, Policy, PolicySet};
use tidegate_gateway::{Gateway, GatewayConfig, Generation};

use gateway_run::{Run, assert_in_order, conditioning, config, from, policy};

const RATE: [Option<Rate>; 2] = [Some(Rate::from_mbps(8)), None];

/// Packets that a slice moves at most.
const SLICE: u32 = 64 * 32;

/// Queues with room for all packets of the tests.
const QUEUES: [&str; 5] = [
    "kind = 'drop-tail'\nlimit = '9 MB'",
    "kind = 'per-flow'\nlimit = '9 MB'\nflow_limit = '9 MB'",
    "kind = 'fq-codel'\nlimit = '9 MB'\npackets = 90000\ntarget = '100 s'\ninterval = '200 s'",
    "kind = 'hosts'\nlimit = '9 MB'\npackets = 90000\ntarget = '100 s'\ninterval = '200 s'\nthin_acks = false",
    "kind = 'red'\nlimit = '9 MB'\nmin = '5 kB'\nmax = '10 kB'\nmax_p = '100 %'\nweight = '2 %'\ngentle = false\necn = false",
];

/// Number of the only queue that drops packets although there is room.
const RED: usize = 4;

fn queue(number: usize) -> QdiscSpec {
    toml::from_str(QUEUES[number]).unwrap()
}

/// The policies and classes of one set.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Names of policies and of their classes end with this number.
    number: u32,
    /// The policies shape at 8 Mbit/s. Other policies let packets pass at once.
    shapes: bool,
    /// The link has classes, one for each host.
    classes: bool,
    queue: usize,
}

impl Shape {
    fn set(self) -> PolicySet {
        let name = |host: u8| format!("{host}-{}", self.number);
        let host = |host: u8| {
            let shape = || Action::Shape {
                conditioning: conditioning(),
                queue: queue(self.queue),
                ack_control: None,
            };
            let action = if self.shapes { shape() } else { Action::Pass };
            let class = self.classes.then(|| name(host));
            Policy { class, ..policy(&name(host), from(host), action) }
        };
        let class = |host| Class::new(&name(host), queue(self.queue));
        let set = PolicySet::new((1..4).map(host).collect()).unwrap();
        if self.classes {
            // With further classes, a swap has steps for several slices.
            let further =
                (0..50).map(|n| Class::new(&format!("f{n}-{}", self.number), queue(self.queue)));
            let all = (1..4).map(class).chain(further).collect();
            set.with_classes(ClassSet::new(all, RATE).unwrap())
        } else {
            set
        }
    }
}

fn begin(run: &mut Run, set: PolicySet) {
    let generation = Generation::new(set, run.gateway.shared_policies(), run.gateway.config());
    run.gateway.begin_install(run.now, generation).unwrap();
}

fn gateway(flows: u32, queue_number: usize, packets: u32) -> Run {
    let queue = queue(queue_number);
    Run::new(&GatewayConfig { rate: RATE, flows, packets, queue, ..config() }, Vec::new())
}

#[derive(Clone, Debug)]
enum Step {
    Offer { host: u8, packets: u32 },
    Wait { micros: u64 },
    Swap { shapes: bool, classes: bool, queue: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1u8..4, 1u32..40).prop_map(|(host, packets)| Step::Offer { host, packets }),
        4 => (0u64..20_000).prop_map(|micros| Step::Wait { micros }),
        3 => (any::<bool>(), any::<bool>(), 0..RED)
            .prop_map(|(shapes, classes, queue)| Step::Swap { shapes, classes, queue }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Runs `steps`, with some slices of the swap after each, and then without traffic until no packet is left.
fn run_steps(steps: &[Step], flows: u32, slices: u32) {
    let mut run = gateway(flows, 0, 8_192);
    let (mut number, mut sets) = (0, 0);
    for step in steps.iter().cloned() {
        match step {
            Step::Offer { host, packets } => {
                for _ in 0..packets {
                    run.offer(host, number, 200);
                    number += 1;
                }
            }
            Step::Wait { micros } => {
                run.now += Duration::from_micros(micros);
                run.drain();
            }
            Step::Swap { shapes, classes, queue } => {
                while run.gateway.go_on_installing(run.now) {}
                sets += 1;
                begin(&mut run, Shape { number: sets, shapes, classes, queue }.set());
            }
        }
        for _ in 0..slices {
            run.gateway.go_on_installing(run.now);
        }
        run.drain();
        let report = run.gateway.report();
        assert_eq!(run.gateway.pool().in_use(), report.held);
    }
    while run.gateway.go_on_installing(run.now) {}
    run.until(run.now + Duration::from_secs(100));
    let (left, report) = run.end();
    assert_eq!((report.held, report.drops.total()), (0, 0));
    assert_in_order(&left);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Packets of untracked flows depart in the order of their arrival, whatever the policies do meanwhile. No packet is
    /// lost. Each packet is counted at any time.
    ///
    /// Catches: a swap that moves the oldest packets of a queue first, so that the remaining packets depart before them;
    /// packets that arrive during a swap and pass at once; a flow that gets a table entry during a swap, so that its
    /// next packet passes its waiting packets; packets that return to the aggregates before older packets return to the
    /// classes; a packet that no report counts while the swap holds it.
    #[test]
    fn a_swap_keeps_the_order_of_untracked_flows(
        steps in steps(),
        flows in 1u32..3,
        slices in 0u32..3,
    ) {
        run_steps(&steps, flows, slices);
    }
}

/// The first host's packet waits at its old class when the table has room again. Its next packet must not pass it.
///
/// Catches: a flow that gets a table entry while the swap has not yet moved its older packets.
#[test]
fn a_flow_gets_no_entry_while_a_swap_moves_its_older_packets() {
    let swap = |classes| Step::Swap { shapes: false, classes, queue: 0 };
    let steps = [
        Step::Offer { host: 1, packets: 5 },
        Step::Offer { host: 2, packets: 12 },
        swap(false),
        Step::Wait { micros: 62 },
        swap(true),
        Step::Offer { host: 1, packets: 1 },
        Step::Wait { micros: 1_600 },
        swap(true),
        Step::Offer { host: 1, packets: 1 },
    ];
    run_steps(&steps, 1, 1);
}

/// Catches: a count of untracked packets that does not fall when they depart, so that new flows wait during each swap.
#[test]
fn a_new_flow_does_not_wait_for_a_swap_without_untracked_packets() {
    let mut run = gateway(1, 0, 64);
    let shape = |number| Shape { number, shapes: false, classes: true, queue: 0 };
    run.gateway.install(run.now, shape(0).set());
    for number in 0..20 {
        run.offer(u8::try_from(number % 2).unwrap() + 1, number, 1_514);
    }
    assert!(run.gateway.report().untracked > 0);
    run.until(run.now + Duration::from_secs(1));
    begin(&mut run, shape(1).set());
    assert!(run.gateway.go_on_installing(run.now), "the swap takes several slices");
    let before = run.left.len();
    run.offer(3, 20, 60);
    assert_eq!(run.left.len(), before + 1);
}

/// Catches: a list of held arrivals that takes every buffer, so that tracked flows and the other direction lose packets.
#[test]
fn arrivals_during_a_swap_leave_buffers_for_the_other_direction() {
    let mut run = gateway(1, 0, 512);
    let shape = |number| Shape { number, shapes: false, classes: true, queue: 0 };
    run.gateway.install(run.now, shape(0).set());
    for number in 0..20 {
        run.offer(u8::try_from(number % 2).unwrap() + 1, number, 1_514);
    }
    begin(&mut run, shape(1).set());
    assert!(run.gateway.go_on_installing(run.now), "the swap takes several slices");
    for number in 20..1_000 {
        run.offer(2, number, 60);
    }
    assert!(run.gateway.pool().in_use() < 500, "{} buffers", run.gateway.pool().in_use());
    while run.gateway.go_on_installing(run.now) {}
    run.until(run.now + Duration::from_secs(100));
    let (left, report) = run.end();
    let lost = report.drops.of(Reason::NoBuffer);
    assert!(lost > 100 && report.drops.total() == lost, "{:?}", report.drops);
    assert_eq!(u64::try_from(left.len()).unwrap() + lost, 1_000);
    assert_in_order(&left);
}

/// A swap moves 10,000 packets from one class or aggregate to another, at most [`SLICE`] of them in each slice.
///
/// Catches: a step that moves all packets of a queue; packets that arrive during the swap and are lost at its end.
#[test]
fn a_slice_moves_a_bounded_number_of_untracked_packets() {
    for (shapes, queue) in [(false, 0), (false, 1), (false, 2), (false, 3), (true, 0), (true, 1)] {
        let mut run = gateway(1, queue, 16_384);
        let shape = |number| Shape { number, shapes, classes: !shapes, queue };
        run.gateway.install(run.now, shape(0).set());
        let mut number = 0;
        // Packets of the first host wait, so it keeps the only entry of the flow table.
        for (host, packets, len) in [(1, 8, 1_514), (2, 10_000, 60)] {
            for _ in 0..packets {
                run.offer(host, number, len);
                number += 1;
            }
        }
        begin(&mut run, shape(1).set());
        let mut inside = waiting(&run.gateway);
        assert!(inside.0 > 9_000, "{inside:?} packets wait with queue {queue}");
        let mut slices = 0;
        loop {
            let more = run.gateway.go_on_installing(run.now);
            let now = waiting(&run.gateway);
            for (was, is) in [(inside.0, now.0), (inside.1, now.1)] {
                assert!(was.abs_diff(is) <= SLICE, "{was} packets, and {is} after a slice");
            }
            run.offer(2, number, 60);
            number += 1;
            (inside, slices) = (waiting(&run.gateway), slices + 1);
            if !more {
                break;
            }
        }
        assert!(slices > 8 && inside.0 == 0 && inside.1 > 9_000, "{slices} slices, {inside:?}");
        run.until(run.now + Duration::from_secs(100));
        let (left, report) = run.end();
        assert_eq!((report.held, report.drops.total()), (0, 0));
        assert_eq!(left.len(), usize::try_from(number).unwrap());
        assert_in_order(&left);
    }
}

/// The average of RED is above `max` when the swap begins, so RED would drop all packets that return. The policies and
/// classes of the new set are the same.
///
/// Catches: a second decision on a packet that returns to its aggregate, or to its class.
#[test]
fn packets_that_return_to_their_queue_meet_no_second_decision() {
    for shapes in [true, false] {
        let mut run = gateway(1, 0, 512);
        let shape = Shape { number: 0, shapes, classes: !shapes, queue: RED };
        run.gateway.install(run.now, shape.set());
        for number in 0..100 {
            run.offer(u8::from(number > 10) + 1, number, 1_000);
        }
        let dropped = run.gateway.report().drops.of(Reason::Aqm);
        let waiting = waiting(&run.gateway).0;
        assert!(dropped > 10 && waiting > 10, "{dropped} dropped, {waiting} wait");
        begin(&mut run, shape.set());
        while run.gateway.go_on_installing(run.now) {}
        let again = run.gateway.report().drops.of(Reason::Aqm) - dropped;
        assert_eq!(again, 0, "shapes: {shapes}");
        run.until(run.now + Duration::from_secs(100));
        assert_in_order(&run.end().0);
    }
}

/// Packets that wait at the class or the aggregate of the second host: of the first set, and of the second set.
fn waiting(gateway: &Gateway) -> (u32, u32) {
    let at = |name: &str| {
        let classes: u32 = gateway.class(name).iter().map(|class| class.backlog.packets).sum();
        let report = gateway.report();
        let aggregates = report.aggregates.iter().filter(|it| it.policy == name);
        classes + aggregates.map(|it| it.backlog.packets).sum::<u32>()
    };
    (at("2-0"), at("2-1"))
}
