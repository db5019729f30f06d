//! Tests that the same frames give the same result with every driver and every clock of the
//! gateway.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use tidegate_core::allocation::AllocationSpec;
use tidegate_core::link::Overhead;
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{ByReason, Bytes, Machine, Packet, PortId, Rate, Reason, Time};
use tidegate_dataplane::Options;
use tidegate_dataplane::testing::{Command, Script, play_with};
use tidegate_e2e::recording::{Arrival, MIXED, Recording};
use tidegate_e2e::{Recorder, Testbed, on_each_backend, send, until};
use tidegate_gateway::policy::{
    Action, Conditioning, Exceed, Filter, Mode, Policy, PolicySet, Profile, Range,
};
use tidegate_gateway::{Gateway, GatewayConfig};
use tidegate_wire::{Checksum, rewrite};

on_each_backend! {
    a_real_gateway_treats_recorded_frames_like_the_core
}

/// End of a run. By then, all waiting packets have departed.
const END: Time = Time::from_secs(50);

/// A configuration of the gateway that is tested with the recorded frames.
struct Case {
    name: String,
    config: GatewayConfig,
    policies: Vec<Policy>,
    /// Policies that replace `policies` during the run, and the time when they do so.
    swap: Option<(Time, Vec<Policy>)>,
    expect: Expect,
}

/// An effect on the packets that must occur. Without the effect, the case would prove nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expect {
    Delays,
    DelaysAndDrops,
    Colours,
}

/// A departing packet: its time, its port, and its descriptor as text.
type Departure = (Time, PortId, String);

/// The result of a case.
#[derive(Debug, PartialEq)]
struct Answer {
    departures: Vec<Departure>,
    drops: ByReason,
}

impl Answer {
    /// Sorts departures by time and port. Departures at one port keep their order.
    fn new(mut departures: Vec<Departure>, drops: ByReason) -> Self {
        departures.sort_by_key(|(at, port, _)| (*at, *port));
        Self { departures, drops }
    }
}

/// Catches: a loop that wakes up one nanosecond late; a loop that receives all waiting frames
/// before it sends the packets that the first of them releases; a loop that receives before it
/// sends due packets.
#[test]
fn the_live_loop_sends_recorded_frames_at_the_nanosecond_of_the_core() {
    let recorded = described(&recorded());
    // In the first run, the frames arrive one at a time. In the second run, many arrive at once.
    let together = in_steps_of(Duration::from_millis(5), &recorded);
    for (case, arrivals) in cases().iter().flat_map(|it| [(it, &recorded), (it, &together)]) {
        let (core, live) = (core(case, arrivals), live(case, arrivals));
        assert!(core.departures.len() > 250, "{}: {}", case.name, core.departures.len());
        assert_eq!(happened(&core, arrivals), case.expect, "{}", case.name);
        for (core, live) in core.departures.iter().zip(&live.departures) {
            assert_eq!(core, live, "{}", case.name);
        }
        assert_eq!(core, live, "{}", case.name);
    }
}

/// Delays each arrival to the end of its time step, and sorts the arrivals of a step by port.
fn in_steps_of(step: Duration, arrivals: &[(Time, PortId, Packet)]) -> Vec<(Time, PortId, Packet)> {
    let late = |(at, port, packet): &(Time, PortId, Packet)| (at.round_up_to(step), *port, *packet);
    let mut arrivals: Vec<_> = arrivals.iter().map(late).collect();
    arrivals.sort_by_key(|(at, port, _)| (*at, *port));
    arrivals
}

/// The result if this function drives the gateway itself. At each arrival, and at each time that
/// the gateway asks for, it takes out all packets that are due.
fn core(case: &Case, arrivals: &[(Time, PortId, Packet)]) -> Answer {
    let mut gateway = case.gateway();
    let mut departures = Vec::new();
    let mut arrivals = arrivals.iter().peekable();
    let mut swap = case.swap.clone();
    let mut timeout = None;
    loop {
        let arrival = arrivals.peek().map(|(at, ..)| *at);
        let swapped = swap.as_ref().map(|(at, _)| *at);
        let next = [arrival, swapped, timeout].into_iter().flatten().min();
        let Some(now) = next.filter(|now| *now < END) else { break };
        if let Some((_, policies)) = swap.take_if(|(at, _)| *at == now) {
            gateway.install(now, set(policies));
        }
        drain(&mut gateway, now, &mut departures);
        if let Some((_, port, packet)) = arrivals.next_if(|(at, ..)| *at == now) {
            let packet = Packet { arrived: now, ..*packet };
            let id = gateway.pool().insert(packet).expect("room for every packet");
            gateway.handle_packet(now, *port, id);
            drain(&mut gateway, now, &mut departures);
        }
        timeout = gateway.poll_timeout(now);
    }
    assert_eq!(gateway.pool().in_use(), 0, "{}", case.name);
    Answer::new(departures, gateway.report().drops)
}

fn drain(gateway: &mut Gateway, now: Time, departures: &mut Vec<Departure>) {
    for port in [Gateway::LAN, Gateway::WAN] {
        while let Some(id) = gateway.poll_transmit(now, port) {
            departures.push((now, port, format!("{:?}", gateway.pool()[&id])));
            gateway.pool().release(id);
        }
    }
}

/// The result of the live packet loop, with test ports and a test clock. Commands reach the loop
/// through its inbox.
fn live(case: &Case, arrivals: &[(Time, PortId, Packet)]) -> Answer {
    let at_port = |port| {
        let arrivals = arrivals.iter().filter(|(_, at, _)| *at == port);
        arrivals.map(|(at, _, packet)| (*at, *packet)).collect()
    };
    let arrivals = vec![at_port(Gateway::LAN), at_port(Gateway::WAN)];
    let mut commands: Vec<(Time, Command<Gateway, ()>)> = Vec::new();
    if let Some((at, policies)) = case.swap.clone() {
        let install = move |live: &mut tidegate_dataplane::Live<'_, Gateway>| {
            live.machine.install(live.now, set(policies));
        };
        commands.push((at, Box::new(install)));
    }
    let exact =
        Options { poll_interval: Duration::ZERO, high_rate: u32::MAX, drain: Duration::ZERO };
    let script = Script { arrivals, end: END, ..Script::default() };
    let played = play_with(case.gateway(), script, commands, (), exact).expect("a file descriptor");
    let mut departures = Vec::new();
    for (port, left) in (0..).map(PortId).zip(&played.departures) {
        departures.extend(left.iter().map(|it| (it.at, port, format!("{:?}", it.packet))));
    }
    Answer::new(departures, played.machine.report().drops)
}

/// Policies for TCP and UDP, because no host of the test bed sends these by itself. Each policy is
/// given as the text of a policy file, and as a value for the core. The rates are nearly zero, so
/// it does not depend on the timing which packets conform.
fn timeless() -> Vec<(&'static str, Action)> {
    let police = |exceed| Action::Police { conditioning: stopped(), exceed };
    let queue = r#"{ "kind": "per-flow", "limit": "40 kB", "flow_limit": "10 kB" }"#;
    vec![
        (r#"action = "police-drop""#, police(Exceed::Drop)),
        (
            "action = \"police-mark\"\nmark = { in = \"AF11\", out = \"AF13\" }",
            police(Exceed::Mark { in_profile: Some(10), out_of_profile: 14 }),
        ),
        (
            "action = \"shape\"\nallocation = \"drr\"\n\
             queue = { kind = \"per-flow\", limit = \"40 kB\", flow_limit = \"10 kB\" }",
            Action::Shape { conditioning: stopped(), queue: spec(queue), ack_control: None },
        ),
    ]
}

fn stopped() -> Conditioning {
    let profile = Profile::new(Rate::from_bps(1), None, Bytes(30_000), Bytes(1_514));
    let profile = profile.unwrap_or_else(|error| panic!("{error}"));
    Conditioning { profile, ..conditioning("drr") }
}

/// The frames that departed from each port, in order, and the number of dropped frames.
#[derive(Debug, Default, PartialEq)]
struct Crossed {
    left: [Vec<Vec<u8>>; 2],
    drops: u64,
}

/// The result that the core computes. All frames arrive at once, sorted by port. Then the gateway
/// is stopped.
fn crossed(action: &Action, arrivals: &[Arrival]) -> Crossed {
    let both = Filter { protocol: [6, 17].map(|it| Range { first: it, last: it }).into(), ..tcp() };
    let policies = vec![policy("both", both, action.clone())];
    let mut gateway = Gateway::new(&config(), set(policies), Time::ZERO);
    let mut frames = BTreeMap::new();
    let mut crossed = Crossed::default();
    let mut drain = |gateway: &mut Gateway, frames: &mut BTreeMap<usize, Vec<u8>>| {
        for (port, left) in (0..).map(PortId).zip(&mut crossed.left) {
            while let Some(id) = gateway.poll_transmit(Time::ZERO, port) {
                let mut bytes = frames.remove(&id.index()).expect("a frame for every packet");
                rewrite(&mut bytes, &gateway.pool()[&id], Checksum::Finished);
                left.push(bytes);
                gateway.pool().release(id);
            }
        }
    };
    for Arrival { port, bytes, .. } in arrivals {
        let id = gateway.pool().insert(describe(bytes)).expect("room for every packet");
        frames.insert(id.index(), bytes.clone());
        gateway.handle_packet(Time::ZERO, *port, id);
        drain(&mut gateway, &mut frames);
    }
    gateway.release_all(Time::ZERO);
    drain(&mut gateway, &mut frames);
    crossed.drops = gateway.report().drops.total();
    crossed
}

/// Compares the bytes, the drops, and the order within each flow. Times are not compared.
fn a_real_gateway_treats_recorded_frames_like_the_core(bed: &Testbed, backend: &str) {
    let mut arrivals = recorded().0;
    arrivals.sort_by_key(|arrival| arrival.port);
    for (text, action) in timeless() {
        let expected = crossed(&action, &arrivals);
        assert_eq!(expected.drops > 50, !text.contains("police-mark"), "{text}");
        let policies = format!(
            "[[policy]]\nname = \"both\"\nmatch = {{ protocol = [\"tcp\", \"udp\"] }}\n\
             profile = {{ mean = \"1 bit/s\", burst = \"30 kB\" }}\n{text}\n"
        );
        let mut gateway = bed.gateway(backend, &policies);
        let recorders = [&bed.lan, &bed.wan].map(Recorder::start);
        for (host, way, port) in [(&bed.lan, 0, Gateway::LAN), (&bed.wan, 1, Gateway::WAN)] {
            let frames: Vec<_> = arrivals.iter().filter(|it| it.port == port).collect();
            send(host, &frames.iter().map(|it| it.bytes.clone()).collect::<Vec<_>>());
            let sent = u64::try_from(frames.len()).expect("few frames");
            until("the frames to arrive", LIMIT, || {
                let received = &gateway.status()[["up", "down"][way]]["received"]["packets"];
                received.as_u64().filter(|received| *received >= sent)
            });
        }
        let status = gateway.status();
        // When a port is opened, it drops the frames that are already in its ring. These frames do
        // not belong to the recording, so their drops are not counted.
        let drops = status["drops"].as_object().into_iter().flatten();
        let drops = drops.filter(|(reason, _)| *reason != Reason::Stale.name());
        let drops: u64 = drops.filter_map(|(_, count)| count.as_u64()).sum();
        gateway.stop();
        assert_eq!(drops, expected.drops, "{text}: {status}");
        for (recorder, expected) in recorders.iter().zip(&expected.left) {
            let sent = |frame: &[u8]| arrivals.iter().any(|it| it.bytes == frame);
            let ours = |frame: &[u8]| sent(frame) || expected.iter().any(|it| it == frame);
            let arrived = recorder.frames(expected.len(), LIMIT, ours);
            assert!(of_flows(&arrived) == of_flows(expected), "{text}: {}", gateway.all_output());
        }
    }
}

/// Time limit for the frames to cross.
const LIMIT: Duration = Duration::from_secs(20);

/// The frames of each flow, in order.
fn of_flows(frames: &[Vec<u8>]) -> BTreeMap<String, Vec<&[u8]>> {
    let mut flows: BTreeMap<_, Vec<&[u8]>> = BTreeMap::new();
    for frame in frames {
        flows.entry(format!("{:?}", describe(frame).key)).or_default().push(frame);
    }
    flows
}

/// Returns the most visible effect on the packets, according to the departures.
fn happened(answer: &Answer, arrivals: &[(Time, PortId, Packet)]) -> Expect {
    let arrived: Vec<Time> = arrivals.iter().map(|(at, ..)| *at).collect();
    let delayed = answer.departures.iter().filter(|(at, ..)| !arrived.contains(at)).count();
    let coloured = answer.departures.iter().filter(|it| it.2.contains("rewritten: true")).count();
    match (delayed > 20, answer.drops.total() > 5, coloured > 50) {
        (true, false, false) => Expect::Delays,
        (true, true, false) => Expect::DelaysAndDrops,
        (false, false, true) => Expect::Colours,
        other => panic!("delays, drops, colours: {other:?}"),
    }
}

fn recorded() -> Recording {
    let file = File::open(MIXED).unwrap_or_else(|error| panic!("{MIXED}: {error}"));
    Recording::read(BufReader::new(file)).unwrap_or_else(|error| panic!("{MIXED}: {error}"))
}

fn described(recording: &Recording) -> Vec<(Time, PortId, Packet)> {
    recording.0.iter().map(|it| (it.at, it.port, describe(&it.bytes))).collect()
}

fn describe(bytes: &[u8]) -> Packet {
    let mut packet = Packet::default();
    let len = u32::try_from(bytes.len()).expect("a frame");
    tidegate_wire::describe(bytes, len, &mut packet);
    packet
}

impl Case {
    fn gateway(&self) -> Gateway {
        Gateway::new(&self.config, set(self.policies.clone()), Time::ZERO)
    }
}

fn cases() -> Vec<Case> {
    let case = |name: &str, policies, expect| Case {
        name: name.to_owned(),
        config: config(),
        policies,
        swap: None,
        expect,
    };
    let mut cases = Vec::new();
    for allocation in AllocationSpec::NAMES {
        for queue in ["drop-tail", "per-flow"] {
            let name = format!("{allocation}, {queue}");
            let policies = vec![shape("all", Filter::default(), allocation, &named(queue))];
            cases.push(case(&name, policies, Expect::Delays));
        }
    }
    let short = r#"{ "kind": "per-flow", "limit": "20 kB", "flow_limit": "10 kB" }"#;
    let short = shape("all", Filter::default(), "fcfs", short);
    cases.push(case("short queues", vec![short], Expect::DelaysAndDrops));
    let exceed = Exceed::Mark { in_profile: Some(10), out_of_profile: 14 };
    let conditioning = conditioning("logical-partitions");
    let mark = policy("all", Filter::default(), Action::Police { conditioning, exceed });
    cases.push(case("police-mark", vec![mark], Expect::Colours));
    cases.extend([of_link(), coarse(), swapped()]);
    cases
}

/// A slow access link with an overhead per packet, and one policy.
fn of_link() -> Case {
    let overhead = Overhead { per_packet: 18, min: 64, atm: true, ..Overhead::default() };
    let rate = [Some(Rate::from_kbps(1_500)), Some(Rate::from_kbps(4_000))];
    let web = shape("web", tcp(), "drr", &named("drop-tail"));
    Case {
        name: "link".into(),
        config: GatewayConfig { rate, overhead, ..config() },
        policies: vec![web],
        swap: None,
        expect: Expect::Delays,
    }
}

/// A shaping timer with an interval as long as in the paper `aggregates`.
fn coarse() -> Case {
    let shaping_interval = Duration::from_millis(15);
    Case {
        name: "coarse timer".into(),
        config: GatewayConfig { shaping_interval, ..config() },
        policies: vec![shape("all", Filter::default(), "lru", &named("per-flow"))],
        swap: None,
        expect: Expect::Delays,
    }
}

/// While many packets wait, one policy changes its allocation, and flows move from it to a new
/// policy.
fn swapped() -> Case {
    let before = vec![shape("all", Filter::default(), "fcfs", &named("per-flow"))];
    let after = vec![
        shape("all", Filter::default(), "sequential", &named("drop-tail")),
        shape("tcp", tcp(), "logical-partitions", &named("per-flow")),
    ];
    Case {
        name: "swap".into(),
        config: config(),
        policies: before,
        swap: Some((Time::from_millis(301), after)),
        expect: Expect::Delays,
    }
}

fn config() -> GatewayConfig {
    GatewayConfig {
        rate: [None; 2],
        overhead: Overhead::default(),
        queue: spec(&named("per-flow")),
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

fn named(name: &str) -> String {
    format!("{name:?}")
}

fn spec(queue: &str) -> QdiscSpec {
    serde_json::from_str(queue).unwrap_or_else(|error| panic!("{queue}: {error}"))
}

fn set(policies: Vec<Policy>) -> PolicySet {
    PolicySet::new(policies).unwrap_or_else(|error| panic!("{error}"))
}

fn tcp() -> Filter {
    Filter { protocol: vec![Range { first: 6, last: 6 }], ..Filter::default() }
}

fn policy(name: &str, filter: Filter, action: Action) -> Policy {
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

fn conditioning(allocation: &str) -> Conditioning {
    let peak = Some(Rate::from_mbps(20));
    let profile = Profile::new(Rate::from_kbps(1_800), peak, Bytes(5_000), Bytes(1_514));
    let profile = profile.unwrap_or_else(|error| panic!("{error}"));
    let allocation = serde_json::from_str(&named(allocation));
    let allocation = allocation.unwrap_or_else(|error| panic!("{error}"));
    Conditioning { profile, allocation, weights: Vec::new(), fair_between: Default::default() }
}

fn shape(name: &str, filter: Filter, allocation: &str, queue: &str) -> Policy {
    let action = Action::Shape {
        conditioning: conditioning(allocation),
        queue: spec(queue),
        ack_control: None,
    };
    policy(name, filter, action)
}
