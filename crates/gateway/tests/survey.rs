//! Reports (*surveys*) that are assembled in parts, while policies and classes change between the
//! parts. A *swap* replaces the set of policies, in *slices* of a few steps.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "not every test file needs all of the run")]

mod gateway_run;

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::Count;
use tidegate_core::ack::AckSpec;
use tidegate_core::allocation::AllocationSpec;
use tidegate_core::packet::{Direction, FlowKey, Protocol, TcpSegment};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Packet, Rate, Time};
use tidegate_gateway::policy::{Action, Class, ClassSet, Conditioning, PolicySet, Profile};
use tidegate_gateway::report::Report;
use tidegate_gateway::{FlowSurvey, Gateway, GatewayConfig, Generation, Survey};

use gateway_run::{
    BURST, MEAN, Run, allocation, conditioning, config, from, policy, queue, shape_by,
};

/// More policies than one part of a report contains.
const HOSTS: u8 = 200;

/// A policy for each host. Each step reverses their order, and changes the name and burst of every
/// second policy.
fn policies(step: u32) -> PolicySet {
    let mut hosts: Vec<u8> = (1..=HOSTS).collect();
    if step % 2 == 1 {
        hosts.reverse();
    }
    let of = |host: u8| {
        let step = if host % 2 == 1 { step } else { 0 };
        let burst = Bytes(BURST.0 + u64::from(step));
        let profile = Profile::new(MEAN, None, burst, Bytes(1_514)).unwrap();
        let action = shape_by(Conditioning { profile, ..conditioning() }, "drop-tail");
        policy(&format!("p{host}-{step}"), from(host), action)
    };
    PolicySet::new(hosts.into_iter().map(of).collect()).unwrap()
}

/// A gateway in which all policies have seen packets. Some packets wait, and some were dropped.
fn run() -> Run {
    let mut run = Run::new(&GatewayConfig { flows: 256, packets: 1_024, ..config() }, Vec::new());
    run.gateway.install(run.now, policies(0));
    offer(&mut run, 0);
    run
}

fn offer(run: &mut Run, step: u32) {
    for host in 1..=HOSTS {
        (0..8).for_each(|number| run.offer(host, 8 * step + number, 1_514));
    }
}

fn begin(run: &mut Run, set: PolicySet) {
    let generation = Generation::new(set, run.gateway.shared_policies(), run.gateway.config());
    run.gateway.begin_install(run.now, generation).unwrap();
}

/// Asserts that the report has each aggregate once, and counts all packets.
fn check(run: &Run, report: &Report) {
    let names: BTreeSet<_> =
        report.aggregates.iter().map(|it| (&it.policy, it.direction.name())).collect();
    assert_eq!(names.len(), report.aggregates.len(), "each policy is there once in each direction");
    let out = u64::try_from(run.left.len()).unwrap();
    assert!(report.drops.total() > 0 && report.held > 0, "packets were dropped, and some wait");
    assert_eq!(run.offered, out + report.drops.total() + u64::from(report.held));
    let now = run.gateway.report();
    let seen = |it: &Report| it.aggregates.iter().map(|it| it.offered.packets).sum::<u64>();
    assert_eq!((seen(report), report.aggregates.len()), (seen(&now), now.aggregates.len()));
    assert_eq!(report.generation, now.generation);
}

/// Catches: a report that continues, and does not restart, after a swap has begun; a swap that
/// proceeds while parts are added to the report.
#[test]
fn a_survey_during_a_swap_has_each_aggregate_once_and_all_packets() {
    // The swap begins after `parts` parts. Between two parts, `slices` slices of the swap are done.
    for (parts, slices) in [(0, 1), (1, 1), (1, 3), (1, 100)] {
        let mut run = run();
        let mut survey = Survey::of_all();
        for _ in 0..parts {
            assert!(run.gateway.survey(&mut survey));
        }
        begin(&mut run, policies(1));
        while run.gateway.survey(&mut survey) {
            for _ in 0..slices {
                run.gateway.go_on_installing(run.now);
            }
        }
        check(&run, &survey.report().0.unwrap());
    }
}

/// Catches: a call that adds all parts at once after some attempts; attempts that are not counted.
#[test]
fn a_survey_adds_one_part_per_call_and_counts_its_restarts() {
    let mut run = run();
    let mut survey = Survey::of_all();
    for step in 1..10 {
        assert!(run.gateway.survey(&mut survey), "part 1 of attempt {step} is not all");
        assert_eq!(survey.attempts(), step);
        run.gateway.install(run.now, policies(step));
    }
    while run.gateway.survey(&mut survey) {}
    assert_eq!(survey.attempts(), 10);
    check(&run, &survey.report().0.unwrap());
}

/// Catches: a report that continues although a class returned with another index.
#[test]
fn a_class_that_is_removed_and_added_between_two_parts_is_listed_once() {
    let class = |n: u32| Class::new(&format!("c{n}"), queue("drop-tail"));
    let rate = [Some(Rate::from_mbps(8)), None];
    let mut run = Run::new(&GatewayConfig { rate, ..config() }, Vec::new());
    let set = ClassSet::new((0..200).map(class).collect(), rate).unwrap();
    run.gateway.install(Time::ZERO, PolicySet::default().with_classes(set));
    let mut survey = Survey::of_classes();
    assert!(run.gateway.survey(&mut survey));
    // The index that became free last is used first.
    run.gateway.remove_class("c5").unwrap();
    run.gateway.remove_class("c190").unwrap();
    run.gateway.add_class(run.now, &class(5)).unwrap();
    while run.gateway.survey(&mut survey) {}
    let found: Vec<_> = survey.report().1.into_iter().map(|it| it.name).collect();
    let names: Vec<_> = run.gateway.classes().into_iter().map(|it| it.name).collect();
    assert_eq!(found, names);
    assert_eq!(found.len(), 200);
}

/// Catches: a flow that is listed twice, once with the index of another flow.
#[test]
fn a_flow_that_begins_again_between_two_parts_is_listed_once() {
    let mut run = Run::new(&GatewayConfig { flows: 256, ..config() }, Vec::new());
    (1..=HOSTS).for_each(|host| run.offer(host, 0, 1_514));
    let mut survey = FlowSurvey::of_most(256);
    // The flows are collected, and some of them are reported.
    for _ in 0..2 {
        assert!(run.gateway.survey_flows(run.now, &mut survey));
        survey.sort();
    }
    for _ in 0..HOSTS {
        run.now += Duration::from_secs(86_400);
        run.drain();
    }
    assert_eq!(run.gateway.report().flows, 0, "all flows have expired");
    (1..=HOSTS).rev().for_each(|host| run.offer(host, 1, 1_514));
    while run.gateway.survey_flows(run.now, &mut survey) {}
    let found: Vec<_> = survey.report().into_iter().map(|it| it.src).collect();
    let names: BTreeSet<_> = found.iter().collect();
    assert!(found.len() >= 128, "{} are listed", found.len());
    assert_eq!(found.len(), names.len(), "each is listed once");
}

/// Catches: flows sorted by bytes alone, so that idle flows precede active flows.
#[test]
fn flows_without_a_recent_packet_come_after_active_ones() {
    let mut run = Run::new(&GatewayConfig { flows: 256, ..config() }, Vec::new());
    (0..9).for_each(|number| run.offer(1, number, 1_514));
    run.now += Duration::from_secs(6);
    run.drain();
    run.offer(2, 0, 100);
    (0..2).for_each(|number| run.offer(3, number, 100));
    let flows = run.gateway.flows(run.now, 2);
    let sources: Vec<_> = flows.iter().map(|it| it.offered.bytes).collect();
    assert_eq!(sources, [200, 100], "{flows:?}");
    let flows = run.gateway.flows(run.now, 3);
    assert_eq!(flows[2].offered.bytes, 9 * 1_514);
}

/// Catches: idle flows that are counted as active; flows that are counted as matched against the
/// new policies although they were only matched against the old policies.
#[test]
fn flows_use_the_new_policies_from_their_next_packet_on() {
    let mut run = run();
    let span = Duration::from_secs(10);
    let counts = |run: &Run| {
        let mut parts = (0..).map_while(|part| run.gateway.classified(run.now, span, part));
        parts.by_ref().fold([0, 0], |[a, b], [c, d]| [a + c, b + d])
    };
    assert_eq!(counts(&run), [u32::from(HOSTS); 2]);
    run.gateway.install(run.now, policies(0));
    run.now += Duration::from_millis(1);
    // Hosts with waiting packets are matched again by the swap itself.
    let [live, before] = counts(&run);
    run.offer(1, 1_000, 1_514);
    let [_, after] = counts(&run);
    assert_eq!(live, u32::from(HOSTS));
    assert!(before <= after && after >= 1, "{before} {after}");
    run.now += span + Duration::from_millis(1);
    run.offer(2, 1_001, 1_514);
    assert_eq!(counts(&run), [1, 1]);
}

/// Catches: headers of a super-packet that are counted once in place of once per frame (at the
/// ports, the policy or the flow; with or without TCP); headers of a single frame that are counted
/// twice.
#[test]
fn counts_of_bytes_have_the_headers_of_each_frame_of_a_super_packet() {
    const HEADERS: u32 = 66;
    const UDP_HEADERS: u32 = 42;
    let mut run =
        Run::new(&config(), vec![policy("all", from(1), shape_by(conditioning(), "drop-tail"))]);
    for segments in [40, 1] {
        let payload = 1_448 * segments;
        let single = gateway_run::packet(1, segments, HEADERS + payload);
        let tcp = single.tcp.map(|tcp| TcpSegment { payload, ..tcp });
        let segments = u16::try_from(segments).unwrap();
        run.offer_packet(Gateway::LAN, Packet { tcp, segments, segment: 1_448, ..single });
    }
    let single = gateway_run::packet(1, 0, UDP_HEADERS + 3 * 1_000);
    let key = FlowKey { protocol: Protocol::UDP, ..single.key };
    let udp =
        Packet { key, tcp: None, transport_offset: 34, segments: 3, segment: 1_000, ..single };
    run.offer_packet(Gateway::LAN, udp);
    run.until(Time::from_secs(1));
    let flows: Vec<Count> = run.gateway.flows(run.now, 2).iter().map(|flow| flow.offered).collect();
    let (_, report) = run.end();
    let (up, all) = (Direction::Up.index(), &report.aggregates[0]);
    let tcp = Count { packets: 2, bytes: 41 * u64::from(HEADERS + 1_448) };
    let udp = Count { packets: 1, bytes: 3 * u64::from(UDP_HEADERS + 1_000) };
    assert_eq!(flows, [tcp, udp]);
    let both = Count { packets: tcp.packets + udp.packets, bytes: tcp.bytes + udp.bytes };
    for count in [report.received[up], report.transmitted[up], all.offered, all.conforming] {
        assert_eq!(count, both);
    }
}

/// The mechanism of a policy, as the gateway reports it after the first packet.
fn reported(action: Action) -> tidegate_gateway::report::Mechanisms {
    let mut run = Run::new(&config(), vec![policy("web", from(1), action)]);
    run.offer(1, 0, 1_514);
    run.gateway.report().aggregates.remove(0).mechanisms
}

/// Catches: a mechanism of a policy that the report omits; a report that takes the names from a
/// list of its own, in which a new mechanism may be missing.
#[test]
fn a_policy_reports_each_registered_mechanism_by_its_name() {
    for name in QdiscSpec::NAMES {
        let found = reported(shape_by(conditioning(), name));
        assert_eq!(found.queue.as_deref(), Some(*name));
    }
    for name in AllocationSpec::NAMES {
        let conditioning = Conditioning { allocation: allocation(name), ..conditioning() };
        let found = reported(shape_by(conditioning, "drop-tail"));
        assert_eq!(found.allocation.as_deref(), Some(*name));
    }
    for name in AckSpec::NAMES {
        let ack_control = Some(gateway_run::read(name));
        let (conditioning, queue) = (conditioning(), queue("per-flow"));
        let found = reported(Action::Shape { conditioning, queue, ack_control });
        assert_eq!(found.ack_control.as_deref(), Some(*name));
        assert_eq!(found.marking, None);
    }
    assert_eq!(reported(Action::Pass), Default::default());
}
