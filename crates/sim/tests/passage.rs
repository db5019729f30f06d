//! The `passage` probe counts each packet that passes a gateway exactly once, under its own
//! traffic.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod networks;

use std::time::Duration;

use networks::run;
use tidegate_core::link::LinkConfig;
use tidegate_core::link::Overhead;
use tidegate_core::packet::Direction;
use tidegate_core::tcp::{Config, EcnMode, Profile};
use tidegate_core::{Bytes, Rate, qdisc::QdiscSpec};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::aggregate::TriggerSet;
use tidegate_gateway::policy::PolicySet;
use tidegate_sim::scenario::{
    End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Place, Probe, Run, Scenario, Side,
    Traffic,
};
use tidegate_sim::{Results, Simulation};

const RATE: Rate = Rate::from_mbps(4);
const LIMIT: u64 = 20_000;
const PACKET: u32 = 500;

/// Two hosts send upwards through a gateway with the link rate [`RATE`] and this queue.
fn scenario(queue: &str, kinds: [Kind; 2]) -> Scenario {
    let node = |name: &str, kind| Node { name: name.into(), kind };
    let side = |node: &str, side| End { node: node.to_owned(), side };
    let host = || NodeKind::Host(Host::default());
    let queue: QdiscSpec = serde_json::from_str(queue).unwrap();
    let config = GatewayConfig {
        rate: [Some(RATE), None],
        overhead: Overhead::default(),
        queue,
        packets: 1_024,
        flows: 64,
        shaping_interval: Duration::ZERO,
        shaping_triggers: TriggerSet::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 0,
        scheduler: Default::default(),
    };
    let gateway = Gateway { config, policies: PolicySet::default() };
    let traffic = |(name, kind): (&str, Kind)| Traffic {
        name: name.into(),
        kind,
        pairs: vec![Pair { from: name.into(), to: "server".into() }],
        ..Traffic::default()
    };
    let mut tcp = Config::new(Profile::Linux);
    tcp.details.ecn = EcnMode::Classic;
    let passage = |direction| Probe::Passage {
        gateway: "edge".into(),
        direction,
        bound: Some(Duration::from_millis(20)),
        rounds: direction == Direction::Up,
        tracked: false,
    };
    Scenario {
        run: Run {
            duration: Duration::from_secs(5),
            sample: Some(Duration::from_millis(100)),
            link_header: 0,
            tcp,
            ..Run::default()
        },
        nodes: vec![
            node("a", host()),
            node("b", host()),
            node("server", host()),
            node("lan", NodeKind::Router),
            node("edge", NodeKind::Gateway(Box::new(gateway))),
        ],
        links: vec![
            Link::new(End::of("a"), End::of("lan"), LinkConfig::default()),
            Link::new(End::of("b"), End::of("lan"), LinkConfig::default()),
            Link::new(End::of("lan"), side("edge", Side::Lan), LinkConfig::default()),
            Link::new(side("edge", Side::Wan), End::of("server"), LinkConfig::default()),
        ],
        traffic: ["a", "b"].into_iter().zip(kinds).map(traffic).collect(),
        probes: vec![passage(Direction::Up), passage(Direction::Down)],
        changes: Vec::new(),
    }
}

fn constant(mbps: u64) -> Kind {
    Kind::Constant { rate: Rate::from_mbps(mbps), packet: PACKET }
}

const DROP_TAIL: &str = r#"{"kind": "drop-tail", "limit": "20 kB"}"#;

/// The last value of a column in the time series of upward packets.
fn last(results: &Results, column: &str) -> u64 {
    let series = results.table("passage edge up").unwrap();
    *series.whole(column).last().unwrap_or_else(|| panic!("no {column}"))
}

/// Catches: a dropped packet that is counted for the wrong traffic, too late, or not at all.
#[test]
fn each_packet_is_counted_as_departed_dropped_or_waiting() {
    let results = run(&scenario(DROP_TAIL, [constant(6), constant(2)]));
    let passages = results.table("passages").unwrap();
    let total = |column: &str| passages.whole(column).iter().sum::<u64>();
    let drops = results.table("drops").unwrap().whole("dropped_packets");
    assert_eq!(total("dropped_packets"), drops.iter().sum::<u64>());
    // 5 s at 4 Mbit/s are 5,000 packets. The burst of the link adds up to seven.
    assert!((5_000..=5_007).contains(&total("departed_packets")));
    assert_eq!(passages.whole("arrived_packets"), [7_501, 2_501]);
    for group in ["a", "b"] {
        let of = |what: &str| last(&results, &format!("{group}_{what}"));
        let inside = of("arrived_bytes") - of("departed_bytes") - of("dropped_bytes");
        assert!(of("waiting_bytes") == inside && (1_000..LIMIT).contains(&inside), "{inside}");
    }
    // A departed packet has waited for a full buffer: 20 kB and one packet take 41 ms. Delays above
    // 20 ms count as late.
    for (longest, mean) in
        passages.real("delay_max_seconds").iter().zip(passages.real("delay_mean_seconds"))
    {
        assert!((0.038..=0.041).contains(longest) && (0.037..=0.041).contains(mean), "{longest}");
    }
    assert!(total("late_packets") * 100 > total("departed_packets") * 98);
    let waiting: f64 = passages.real("waiting_mean_bytes").iter().sum();
    assert!((19_000.0..=20_500.0).contains(&waiting), "{waiting}");
}

/// Catches: a busy period that starts again with each packet, or never ends.
#[test]
fn losses_of_a_busy_period_are_reset_when_the_gateway_is_empty() {
    let packets =
        |from: u64, count: u64| (0..count).map(move |_| (Duration::from_millis(from), PACKET));
    // 60 packets arrive at once: 4 pass before the link's tokens run out, 40 fit into the buffer,
    // 16 are dropped. After a pause, another 20 packets all pass.
    let all = packets(50, 60).chain(packets(1_050, 20)).collect();
    let quiet = Kind::Packets { packets: vec![(Duration::from_secs(4), PACKET)] };
    let results = run(&scenario(DROP_TAIL, [Kind::Packets { packets: all }, quiet]));
    let series = results.table("passage edge up").unwrap();
    let [arrived, dropped] =
        ["a_busy_arrived_bytes", "a_busy_dropped_bytes"].map(|name| series.whole(name));
    let at = |step: usize| (arrived[step] / 500, dropped[step] / 500);
    assert_eq!([at(0), at(1), at(10), at(11)], [(0, 0), (56, 16), (56, 16), (16, 0)]);
}

#[test]
fn marks_of_the_passage_equal_marks_of_the_queue() {
    let red = r#"{"kind": "red", "limit": "100 kB", "packet": "1500 B", "min": "5 kB", "max": "15 kB",
        "max_p": "10 %", "weight": "1 %", "gentle": true, "ecn": true}"#;
    let results = run(&scenario(red, [Kind::Greedy, Kind::Greedy]));
    let counted = results.table("drops").unwrap().whole("marked_packets").iter().sum::<u64>();
    let marked = last(&results, "a_marked_packets") + last(&results, "b_marked_packets");
    assert!(marked > 10 && marked == counted, "{marked}, {counted}");
    // ACKs of both traffic entries pass downwards. The gateway has no rate there, so it neither
    // delays nor marks them.
    let passages = results.table("passages").unwrap();
    assert_eq!(passages.text("direction"), ["up", "up", "down", "down"]);
    assert_eq!(passages.whole("marked_packets")[2..], [0, 0]);
    assert!(passages.real("delay_max_seconds")[2..].iter().all(|it| it.abs() < f64::EPSILON));
}

/// Catches: a row for a round that has not ended; a round compared with the projection made at its
/// own end.
#[test]
fn a_round_is_compared_with_its_projection() {
    let mut one = scenario(DROP_TAIL, [Kind::Greedy, constant(1)]);
    one.traffic.truncate(1);
    // One connection with a window of two segments, an ACK for each segment, and a round-trip time
    // of 100 ms.
    one.run.tcp = Config::new(Profile::Ns2);
    one.run.tcp.receive_window = Bytes(2 * 1_460);
    let delay = Duration::from_millis(50);
    one.links[3] = Link::new(
        End { node: "edge".into(), side: Side::Wan },
        End::of("server"),
        LinkConfig { delay, ..LinkConfig::default() },
    );
    let results = run(&one);
    let rounds = results.table("rounds edge up").unwrap();
    // 5 s contain 50 rounds. The first two have no projection.
    assert!((44..=49).contains(&rounds.rows()), "{}", rounds.rows());
    let (arrived, projected) = (rounds.whole("arrived_bytes"), rounds.whole("projected_bytes"));
    let frame = 1_500;
    for (arrived, projected) in arrived.iter().zip(projected).skip(5) {
        // The tracker does not see that the receiver's window is the limit, so it projects one
        // segment more.
        assert_eq!((*arrived, *projected), (2 * frame, 3 * frame));
    }
    let (began, expected) = (rounds.real("began_seconds"), rounds.real("projected_seconds"));
    assert!(began.iter().zip(expected).skip(20).all(|(at, it)| (at - it).abs() < 0.005));
    assert!(results.table("rounds edge down").is_none());
}

#[test]
fn a_passage_needs_a_gateway_and_is_watched_once() {
    let mut twice = scenario(DROP_TAIL, [constant(1), constant(1)]);
    twice.probes.push(twice.probes[0].clone());
    let Some(Probe::Passage { gateway, .. }) = twice.probes.get_mut(1) else { panic!() };
    *gateway = "lan".into();
    let problems = Simulation::new(&twice).err().unwrap();
    let places: Vec<_> = problems.iter().map(|problem| problem.place).collect();
    assert_eq!(places, [Place::Probe(1, "gateway"), Place::Probe(2, "direction")]);
    assert_eq!(problems[0].what.to_string(), "there is no gateway `lan`");
}
