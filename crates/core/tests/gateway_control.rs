//! Control traffic (ARP, DHCP, routing) is never starved, and starves no other traffic. A policy
//! affects it only if it drops a protocol by name. The *allowance* of control traffic is the rate
//! at which it precedes all other traffic.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(dead_code, reason = "other test files use these helpers")]

mod gateway_run;
mod slow_line;

use std::time::Duration;

use gateway_run::{Run, allocation, config, policy, queue, shape};
use tidegate_core::class::control::{allowance, burst};
use tidegate_core::gateway::{Gateway, GatewayConfig};
use tidegate_core::meter::Profile;
use tidegate_core::packet::{Endpoint, FlowKey, Kind, Network, Protocol, QueueIndex};
use tidegate_core::policy::{
    Action, Class, ClassFaultKind, ClassSet, Conditioning, Exceed, Filter, Policy, PolicySet, Range,
};
use tidegate_core::{Bytes, Packet, PortId, Rate, Time};

const LINK: Rate = Rate::from_mbps(10);
const FRAME: u32 = 1_514;
/// Length of an ARP request or answer.
const ARP: u32 = 60;

/// For each direction, the port at which a packet arrives and the port at which it departs.
const WAYS: [(PortId, PortId); 2] = [(Gateway::LAN, Gateway::WAN), (Gateway::WAN, Gateway::LAN)];

fn user(host: u8, len: u32) -> Packet {
    let (src, dst) = (Endpoint::v4([10, 0, 0, host], 1_000), Endpoint::v4([192, 0, 2, 1], 80));
    let key = FlowKey { src, dst, protocol: Protocol::UDP };
    Packet { len, key, network: Network::Ipv4, segments: 1, ..Packet::default() }
}

/// A control packet of the station `host`.
fn control(host: u8, len: u32) -> Packet {
    Packet { kind: Kind::Control, queue_index: QueueIndex(host.into()), ..user(host, len) }
}

fn linked(name: &str, rate: Option<Rate>) -> GatewayConfig {
    GatewayConfig { rate: [rate; 2], queue: queue(name), packets: 16_384, ..config() }
}

/// A gateway with `policies`, whose link has `classes`.
fn run(config: &GatewayConfig, policies: Vec<Policy>, classes: Vec<Class>) -> Run {
    let classes = ClassSet::new(classes, config.rate).unwrap();
    let policies = PolicySet::new(policies).unwrap().with_classes(classes);
    let gateway = Gateway::new(config, policies, Time::ZERO);
    Run { gateway, now: Time::ZERO, left: Vec::new(), offered: 0 }
}

fn class(name: &str, priority: u8, mbps: u64) -> Class {
    let guarantee = [Rate::from_mbps(mbps); 2];
    Class { priority, guarantee, ..Class::new(name, queue("drop-tail")) }
}

/// A policy that assigns `host` to the class `to`.
fn of_class(host: u8, to: &str) -> Policy {
    let filter = gateway_run::from(host);
    Policy { class: Some(to.to_owned()), ..policy(&format!("host {host}"), filter, Action::Pass) }
}

/// Offers more than the rate of the link from each of `hosts`, in both directions, for `span`.
/// Calls `also` each millisecond.
fn saturate(run: &mut Run, hosts: &[u8], span: Duration, mut also: impl FnMut(&mut Run, u64)) {
    let begin = run.now;
    for millis in 0..u64::try_from(span.as_millis()).unwrap() {
        run.until(begin + Duration::from_millis(millis));
        for (port, _) in WAYS {
            hosts.iter().for_each(|host| run.offer_packet(port, user(*host, FRAME)));
        }
        also(run, millis);
    }
}

/// Time from `since` to the next departure of a packet of `host` at `port`.
fn departs(run: &mut Run, host: u8, port: PortId, since: Time) -> Option<Duration> {
    let of = |run: &Run| {
        let mut all = run.left.iter();
        all.find(|it| it.host == host && it.port == port && it.at >= since).map(|it| it.at)
    };
    of(run).map(|at| at.since(since))
}

/// Simulates exchanges like ARP, neighbour discovery (two packets) and DHCP (four), one after the
/// other. Each packet is sent when the previous one has arrived. Returns the longest delay of a
/// packet. Panics if a packet is lost.
fn exchanges(run: &mut Run, hosts: &[u8]) -> Duration {
    let mut longest = Duration::ZERO;
    for (lens, client) in [(&[ARP, ARP][..], 101), (&[86, 86], 102), (&[342, 342, 342, 342], 103)] {
        for (n, len) in lens.iter().enumerate() {
            let (from, to) = WAYS[n % 2];
            let since = run.now;
            run.offer_packet(from, control(client, *len));
            let mut waited = 0;
            while departs(run, client, to, since).is_none() {
                assert!(waited < 200, "{client}: packet {n} does not depart within 200 ms");
                saturate(run, hosts, Duration::from_millis(1), |_, _| {});
                run.until(run.now + Duration::from_millis(1));
                waited += 1;
            }
            longest = longest.max(departs(run, client, to, since).unwrap());
            run.left.clear();
            run.offered = 0;
        }
    }
    longest
}

/// Catches: control traffic that waits in the class `default`, or in the queue of the link; control
/// traffic that has precedence in one direction only.
#[test]
fn arp_and_dhcp_complete_on_a_saturated_link_with_a_priority_class() {
    let full = || {
        run(
            &linked("drop-tail", Some(LINK)),
            vec![of_class(1, "urgent"), of_class(2, "office")],
            vec![class("urgent", 7, 0), class("office", 0, 4)],
        )
    };
    let mut runs = vec![("classes", full())];
    for queue in ["drop-tail", "per-flow", "fq-codel"] {
        runs.push((queue, run(&linked(queue, Some(LINK)), vec![], vec![])));
    }
    for (name, mut run) in runs {
        saturate(&mut run, &[1, 2, 3], Duration::from_millis(300), |_, _| {});
        run.left.clear();
        let longest = exchanges(&mut run, &[1, 2, 3]);
        // A packet waits for the frame in transmission, for the frame that departs next, and until
        // the allowance has recovered from the previous control packet.
        let most = 2 * LINK.time_for(Bytes(1_538)) + allowance(LINK).time_for(Bytes(342));
        assert!(longest <= most, "{name}: {longest:?} of {most:?}");
        assert_eq!(run.gateway.control().iter().flatten().map(|it| it.drops).sum::<u64>(), 0);
    }
}

/// Catches: all stations in one queue; a quantum of a full-size frame, with which one station sends
/// many short packets in a row.
#[test]
fn a_flood_of_one_station_does_not_delay_another() {
    let classes = vec![class("urgent", 7, 0)];
    let mut run = run(&linked("drop-tail", Some(LINK)), vec![of_class(1, "urgent")], classes);
    let mut asked = Vec::new();
    saturate(&mut run, &[1, 2], Duration::from_secs(2), |run, millis| {
        // One station sends 10 Mbit/s of requests, and another station ten requests per second.
        (0..20).for_each(|_| run.offer_packet(Gateway::LAN, control(100, ARP)));
        if millis % 100 == 99 {
            asked.push(run.now);
            run.offer_packet(Gateway::LAN, control(101, ARP));
        }
    });
    run.until(run.now + Duration::from_millis(50));
    let answered: Vec<_> = run.left.iter().filter(|it| it.host == 101).map(|it| it.at).collect();
    assert_eq!(answered.len(), asked.len());
    for (asked, answered) in asked.into_iter().zip(answered) {
        // A packet waits for two frames, and until the allowance has recovered from the packet of
        // the other station. Then the packet itself is transmitted.
        let most = 2 * LINK.time_for(Bytes(1_538)) + allowance(LINK).time_for(Bytes(2 * 60));
        assert!(answered.since(asked) <= most, "{:?} of {most:?}", answered.since(asked));
    }
    let report = run.gateway.control()[0].unwrap();
    assert!(report.drops > 0 && report.backlog.packets <= 2_048, "{report:?}");
}

/// Largest number of packets of `host` that departed within any window of length `span`.
fn most_in(run: &Run, host: u8, span: Duration) -> u64 {
    let times: Vec<_> = run.left.iter().filter(|it| it.host == host).map(|it| it.at).collect();
    let mut begins = 0;
    let most = times.iter().enumerate().map(|(at, time)| {
        while time.since(times[begins]) > span {
            begins += 1;
        }
        at + 1 - begins
    });
    u64::try_from(most.max().unwrap_or(0)).unwrap()
}

/// Catches: control packets that are not charged to the allowance; an allowance that grows without
/// bound in an idle time.
#[test]
fn control_traffic_takes_its_allowance_from_a_priority_class_and_no_more() {
    for link in [Rate::from_mbps(1), LINK, Rate::from_mbps(100)] {
        let classes = vec![class("urgent", 7, 0)];
        let config = linked("drop-tail", Some(link));
        let mut run = run(&config, vec![of_class(1, "urgent")], classes);
        let frames = link.bps().div_ceil(8_000 * u64::from(FRAME)) + 1;
        let hosts = vec![1; usize::try_from(frames).unwrap()];
        saturate(&mut run, &hosts, Duration::from_millis(20), |_, _| {});
        saturate(&mut run, &hosts, Duration::from_secs(2), |run, _| {
            (0..40).for_each(|_| run.offer_packet(Gateway::LAN, control(100, ARP)));
        });
        run.until(run.now + Duration::from_millis(1));
        for span in [10, 100, 1_000].map(Duration::from_millis) {
            let most = most_in(&run, 100, span) * u64::from(ARP);
            let (own, packet) = (allowance(link).bytes_in(span), 2 * u64::from(ARP));
            let allowed = own.0 + burst(link).0 + packet;
            assert!(most <= allowed, "{link}: {most} of at most {allowed} bytes in {span:?}");
            assert!(
                most + packet >= own.0,
                "{link}: {most} bytes of an allowance of {own} in {span:?}"
            );
        }
        let report = run.gateway.control()[0].unwrap();
        assert_eq!((report.borrowed_bytes, report.allowance), (0, allowance(link)));
    }
}

/// The class `voice` with the tightest delay bound that is accepted, and the bound.
fn tightest(voice: Class) -> (Class, Duration) {
    let too_tight = Class { delay_bound: [Some(Duration::from_nanos(1)); 2], ..voice };
    let faults = ClassSet::new(vec![too_tight.clone()], [Some(LINK); 2]).unwrap_err();
    let ClassFaultKind::DelayBound { longest: Some(bound), .. } = faults[0].kind else {
        panic!("{faults:?}")
    };
    (Class { delay_bound: [Some(bound); 2], ..too_tight }, bound)
}

/// Catches: a bound computed without the allowance of control traffic, without the allowance's
/// burst, or without one further packet.
#[test]
fn delay_bounds_hold_with_control_traffic_and_are_tight() {
    const VOICE: u32 = 400;
    let voice = Class { burst: Some(Bytes(VOICE.into())), ..class("voice", 0, 1) };
    let (voice, bound) = tightest(voice);
    let mut run = run(&linked("drop-tail", Some(LINK)), vec![of_class(1, "voice")], vec![voice]);
    let (mut worst, mut begin) = (Duration::ZERO, Time::ZERO);
    for round in 0..100u64 {
        // A frame of another class departs next, and the allowance has recovered.
        run.until(begin + Duration::from_millis(68) + Duration::from_micros(17 * round));
        (0..3).for_each(|_| run.offer_packet(Gateway::LAN, user(2, FRAME)));
        let came = run.now;
        run.offer_packet(Gateway::LAN, control(100, FRAME));
        run.offer_packet(Gateway::LAN, user(1, VOICE));
        saturate(&mut run, &[2], Duration::from_millis(6), |_, _| {});
        worst = worst.max(departs(&mut run, 1, Gateway::WAN, came).unwrap());
        begin = came;
        saturate(&mut run, &[2, 3], Duration::from_millis(60), |_, _| {});
    }
    // The link counts a packet as sent before its last byte is on the line, so its transmission
    // time is added. The bound must not be exceeded, and the delay must come within a tenth of it.
    let worst = worst + LINK.time_for(Bytes(VOICE.into()));
    assert!(worst <= bound && 10 * worst >= 9 * bound, "{worst:?} of {bound:?}");
}

/// Catches: control traffic that borrows more or less than the share of `default`; guarantees that
/// are lent to control traffic.
#[test]
fn beyond_its_allowance_control_traffic_has_the_weight_of_the_default_class() {
    let weighty = Class { weight: 3, ..class("default", 0, 0) };
    for (default, weight) in [(None, 1), (Some(weighty), 3)] {
        let mut classes = vec![class("office", 0, 4), class("home", 0, 0)];
        classes.extend(default);
        let policies = vec![of_class(1, "office"), of_class(2, "home")];
        let mut run = run(&linked("drop-tail", Some(LINK)), policies, classes);
        saturate(&mut run, &[1, 2, 3], Duration::from_secs(3), |run, _| {
            (0..40).for_each(|_| run.offer_packet(Gateway::LAN, control(100, ARP)));
        });
        let sent = |host: u8, len: u32| {
            let of = |it: &&gateway_run::Left| it.host == host && it.port == Gateway::WAN;
            8 * u64::try_from(run.left.iter().filter(of).count()).unwrap() * u64::from(len) / 3_000
        };
        // The 5.8 Mbit/s beyond guarantees and allowance are divided: office and home get one part
        // each, default and control `weight` parts each.
        let part = 5_800 / (2 + 2 * weight);
        let expected = [4_000 + part, part, weight * part, 200 + weight * part];
        let got = [sent(1, FRAME), sent(2, FRAME), sent(3, FRAME), sent(100, ARP)];
        let near = |(got, expected): (u64, u64)| got.abs_diff(expected) <= 60;
        assert!(got.into_iter().zip(expected).all(near), "{got:?} of {expected:?} kbit/s");
    }
}

/// Catches: control traffic that gets the whole link, or nothing, beyond its allowance.
#[test]
fn with_a_single_queue_a_flood_of_control_traffic_gets_at_most_half() {
    for name in ["drop-tail", "fq-codel"] {
        let mut run = run(&linked(name, Some(LINK)), vec![], vec![]);
        saturate(&mut run, &[1, 2], Duration::from_secs(2), |run, _| {
            (0..40).for_each(|_| run.offer_packet(Gateway::LAN, control(100, ARP)));
        });
        let of = |host: u8| run.left.iter().filter(|it| it.host == host).count();
        let kbps = 8 * u64::try_from(of(100)).unwrap() * u64::from(ARP) / 2_000;
        assert!(kbps.abs_diff(200 + 4_900) <= 60, "{name}: {kbps} kbit/s");
        assert!(of(1) + of(2) > 1_500, "{name}");
        // No station sends control traffic in the other direction.
        assert!(run.gateway.control()[1].is_none());
    }
}

fn police(kbps: u64) -> Action {
    let profile = Profile::new(Rate::from_kbps(kbps), None, Bytes(1_514), Bytes(1_514)).unwrap();
    let conditioning = Conditioning {
        profile,
        allocation: allocation("fcfs"),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    Action::Police { conditioning, exceed: Exceed::Drop }
}

/// Catches: a policy that delays control traffic, or drops it without naming its protocol; a policy
/// that names the protocol and does not drop it; packets that are missing in the counts of their
/// policy.
#[test]
fn only_a_policy_that_drops_a_protocol_by_name_conditions_control_traffic() {
    let named = Filter { protocol: vec![Range { first: 17, last: 17 }], ..Filter::default() };
    let port = Filter { dst_port: vec![Range { first: 80, last: 80 }], ..Filter::default() };
    let observe = Policy {
        mode: tidegate_core::policy::Mode::Observe,
        ..policy("all", named.clone(), police(8))
    };
    let cases = [
        ("shaped", policy("all", Filter::default(), shape()), true),
        ("shaped by name", policy("all", named.clone(), shape()), true),
        ("dropped by address", policy("all", gateway_run::from(100), police(8)), true),
        ("dropped by protocol", policy("all", named, police(8)), false),
        ("dropped by port", policy("all", port, police(8)), false),
        ("observed", observe, true),
    ];
    for (name, policy, goes_on) in cases {
        let mut run = run(&linked("per-flow", Some(LINK)), vec![policy], vec![]);
        // More packets than the policy passes at once.
        (0..20).for_each(|_| run.offer_packet(Gateway::LAN, user(100, FRAME)));
        run.left.clear();
        (0..10).for_each(|_| run.offer_packet(Gateway::LAN, control(100, ARP)));
        run.until(Time::from_millis(40));
        let short = run.gateway.control().iter().flatten().map(|it| it.sent.packets).sum::<u64>();
        assert_eq!(short == 10, goes_on, "{name}: {short}");
        assert!(short == 10 || short == 0, "{name}: {short}");
        let report = run.gateway.report();
        assert_eq!(report.aggregates[0].offered.packets, 30, "{name}");
    }
}

#[test]
fn a_link_without_a_rate_has_no_queue_for_control_traffic() {
    let mut run = run(&linked("per-flow", None), vec![], vec![]);
    run.offer_packet(Gateway::LAN, control(100, ARP));
    assert_eq!((run.left.len(), run.gateway.control()), (1, [None; 2]));
}

/// Catches: packets that enter the control queue and still count as packets of their flow.
#[test]
fn flows_of_control_traffic_expire() {
    let mut run = run(&linked("per-flow", Some(LINK)), vec![], vec![]);
    (0..20).for_each(|host| run.offer_packet(Gateway::LAN, control(host, ARP)));
    run.drain();
    assert_eq!((run.left.len(), run.gateway.report().flows), (20, 20));
    run.now += Duration::from_secs(61);
    // Each sweep examines a part of the table, once a millisecond.
    for _ in 0..64 {
        run.until(run.now + Duration::from_millis(1));
    }
    assert_eq!(run.gateway.report().flows, 0);
}

/// Catches: control traffic that is queued behind packets released by a swap; control packets that
/// are lost when the link loses its rate or its classes.
#[test]
fn control_traffic_survives_swaps_and_changes_of_the_rate() {
    let shaped = policy("all", Filter::default(), shape());
    let mut run = run(&linked("per-flow", Some(LINK)), vec![shaped], vec![]);
    (0..150).for_each(|_| run.offer_packet(Gateway::LAN, user(1, FRAME)));
    run.gateway.install(run.now, PolicySet::new(vec![]).unwrap());
    let since = run.now;
    run.offer_packet(Gateway::LAN, control(100, ARP));
    run.until(run.now + Duration::from_millis(5));
    let waited = departs(&mut run, 100, Gateway::WAN, since);
    assert!(waited.is_some_and(|it| it <= 2 * LINK.time_for(Bytes(1_538))), "{waited:?}");

    (0..100).for_each(|_| run.offer_packet(Gateway::LAN, control(100, ARP)));
    let classes = ClassSet::new(vec![class("office", 0, 4)], [Some(LINK); 2]).unwrap();
    let shared = PolicySet::new(vec![]).unwrap().with_classes(classes);
    run.gateway.install(run.now, shared);
    (0..100).for_each(|_| run.offer_packet(Gateway::LAN, control(101, ARP)));
    run.until(run.now + Duration::from_millis(1));
    let slower =
        GatewayConfig { rate: [Some(Rate::from_mbps(1)); 2], ..run.gateway.config().clone() };
    run.gateway.reconfigure(run.now, &slower);
    run.until(run.now + Duration::from_millis(1));
    assert_eq!(run.gateway.control()[0].unwrap().allowance, Rate::from_kbps(64));
    let open = GatewayConfig { rate: [None; 2], ..slower };
    run.gateway.reconfigure(run.now, &open);
    run.drain();
    let of = |host: u8| run.left.iter().filter(|it| it.host == host).count();
    assert_eq!([of(1), of(100), of(101)], [150, 101, 100]);
    assert_eq!(run.gateway.report().held, 0);
}
