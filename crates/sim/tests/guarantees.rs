//! The scheduler JoBS (Joint Buffer Management and Scheduling): four classes of TCP flows share a
//! buffer that overflows. The tests repeat the second experiment of the paper `marking`, but
//! shorter. The first tests run JoBS alone; the last ones add a marking algorithm.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a test may panic, and compares figures"
)]

mod networks;

use std::time::Duration;

use networks::run;
use tidegate_core::link::LinkConfig;
use tidegate_core::link::Overhead;
use tidegate_core::marking::MarkingSpec;
use tidegate_core::packet::Direction;
use tidegate_core::qdisc::{QdiscSpec, with_marking};
use tidegate_core::random::Random;
use tidegate_core::scheduler::jobs::{self, Output, Promises, Search};
use tidegate_core::scheduler::{Ratio, SchedulerSpec, TermValues};
use tidegate_core::tcp::{Config, EcnMode, Profile};
use tidegate_core::{Bytes, Chance, Factor, Rate};
use tidegate_gateway::GatewayConfig;
use tidegate_gateway::policy::{Action, Class, ClassSet, Filter, Mode, Policy, PolicySet, Range};
use tidegate_sim::Results;
use tidegate_sim::scenario::{
    Distribution, End, Gateway, Host, Kind, Link, Node, NodeKind, Pair, Probe, Run, Scenario, Side,
    Traffic,
};

const RATE: Rate = Rate::from_mbps(45);
const SEGMENT: u64 = 460;

/// The four classes. The first has absolute promises. The second has half the delay and loss of the
/// third, and the third half of the fourth.
fn classes() -> Vec<Class> {
    let class = |n: usize| Class::new(&n.to_string(), QdiscSpec::DropTail(Default::default()));
    let half = |of: &str| Ratio { of: of.to_owned(), factor: Factor::from_millionths(500_000) };
    let own = TermValues::default;
    let related = |n, of| Class {
        own: own().with(Promises::DELAY_RATIO, half(of)).with(Promises::LOSS_RATIO, half(of)),
        ..class(n)
    };
    let first = Class {
        guarantee: [Rate::from_mbps(5); 2],
        delay_bound: [Some(Duration::from_millis(10)); 2],
        own: own().with(Promises::LOSS_BOUND, Chance::from_ppb(10_000_000)),
        ..class(1)
    };
    vec![first, related(2, "3"), related(3, "4"), class(4)]
}

/// The destination port, 5001 to 5004, selects the class.
fn policies(scheduler: &SchedulerSpec) -> PolicySet {
    let policy = |n: u16| {
        let port = Range { first: 5_000 + n, last: 5_000 + n };
        let filter = Filter { dst_port: vec![port], ..Filter::default() };
        let (name, class) = (format!("to {n}"), Some(n.to_string()));
        let (action, mode) = (Action::Pass, Mode::Enforce);
        Policy { name, priority: 0, filter, action, mode, class, trunk: None }
    };
    let classes = ClassSet::of(classes(), [Some(RATE), None], Bytes(500), scheduler).unwrap();
    PolicySet::new((1..5).map(policy).collect()).unwrap().with_classes(classes)
}

fn gateway((victim, output): (Search, Output), marking: Option<&str>) -> Gateway {
    let marking = marking.map(|text| serde_json::from_str::<MarkingSpec>(text).unwrap());
    let scheduler = SchedulerSpec::Jobs(jobs::Config { victim, output, buffer: Bytes(250_000) });
    let config = GatewayConfig {
        rate: [Some(RATE), None],
        overhead: Overhead::default(),
        queue: with_marking(QdiscSpec::DropTail(Default::default()), marking),
        packets: 4_096,
        flows: 256,
        shaping_interval: Duration::ZERO,
        shaping_triggers: Default::default(),
        fragments_without_first: Default::default(),
        trunks: Vec::new(),
        seed: 0,
        scheduler: scheduler.clone(),
    };
    Gateway { config, policies: policies(&scheduler) }
}

/// The senders of the experiment: 12 greedy and 50 on-off flows. Their TCP is like that of ns-2 in
/// 2003. The run takes 25 s, with 5 s of warm-up.
fn scenario(variant: (Search, Output), marking: Option<&str>, seed: u64) -> Scenario {
    let node = |name: String, kind| Node { name, kind };
    let side = |side| End { node: "edge".into(), side };
    let mut nodes = vec![
        node("lan".into(), NodeKind::Router),
        node("wan".into(), NodeKind::Router),
        node("server".into(), NodeKind::Host(Host::default())),
        node("edge".into(), NodeKind::Gateway(Box::new(gateway(variant, marking)))),
    ];
    let at_once = LinkConfig::default;
    let mut links = vec![
        Link::new(End::of("lan"), side(Side::Lan), at_once()),
        Link::new(side(Side::Wan), End::of("wan"), at_once()),
        Link::new(End::of("wan"), End::of("server"), at_once()),
    ];
    let (mut traffic, mut random) = (Vec::new(), Random::new(seed, 7));
    for (class, bursty) in [5, 10, 15, 20].into_iter().enumerate() {
        let on_off = Kind::OnOff {
            burst: Distribution::Exponential(Bytes(300 * SEGMENT)),
            pause: Distribution::Exponential(Duration::from_secs(1)),
            reconnect: false,
        };
        for (name, kind, flows) in [("greedy", Kind::Greedy, 3), ("on-off", on_off, bursty)] {
            let mut pairs = Vec::new();
            for flow in 0..flows {
                let host = format!("{name}-{class}-{flow}");
                let rtt = if name == "greedy" { 44_000 } else { 44_000 + random.below(36_000) };
                let delay = Duration::from_micros(rtt / 2);
                links.push(Link::new(
                    End::of(&host),
                    End::of("lan"),
                    LinkConfig { delay, ..at_once() },
                ));
                nodes.push(node(host.clone(), NodeKind::Host(Host::default())));
                pairs.push(Pair { from: host, to: "server".into() });
            }
            traffic.push(Traffic {
                name: format!("{name} {}", class + 1),
                kind,
                pairs,
                port: 5_001 + u16::try_from(class).unwrap(),
                ..Traffic::default()
            });
        }
    }
    let mut tcp = Config::new(Profile::Ns2);
    tcp.mss = 460;
    tcp.details.ecn = EcnMode::Classic;
    let bound = Some(Duration::from_millis(10));
    Scenario {
        run: Run {
            duration: Duration::from_secs(25),
            warmup: Duration::from_secs(5),
            seed,
            link_header: 0,
            tcp,
            ..Run::default()
        },
        nodes,
        links,
        traffic,
        probes: vec![Probe::Passage {
            gateway: "edge".into(),
            direction: Direction::Up,
            bound,
            rounds: false,
            tracked: false,
        }],
        changes: Vec::new(),
    }
}

/// Results of one class after the warm-up.
#[derive(Debug)]
struct Came {
    late: f64,
    loss: f64,
    delay: f64,
    longest: f64,
    mbps: f64,
}

fn came(results: &Results) -> Vec<Came> {
    let table = results.table("passages").unwrap();
    let of = |class: usize| {
        let names = table.text("group").iter().zip(table.text("direction")).enumerate();
        let suffix = format!(" {class}");
        let rows: Vec<_> = names
            .filter(|(_, (group, way))| group.ends_with(&suffix) && *way == "up")
            .map(|(at, _)| at)
            .collect();
        let sum = |column: &str| rows.iter().map(|at| table.whole(column)[*at] as f64).sum::<f64>();
        let packets = sum("departed_packets");
        let delay = |at: &usize| {
            table.real("delay_mean_seconds")[*at] * table.whole("departed_packets")[*at] as f64
        };
        let longest = rows.iter().map(|at| table.real("delay_max_seconds")[*at]);
        Came {
            late: sum("late_packets") / packets,
            loss: sum("dropped_bytes") / sum("arrived_bytes"),
            delay: rows.iter().map(delay).sum::<f64>() / packets,
            longest: longest.fold(0.0, f64::max),
            mbps: sum("departed_bytes") * 8.0 / 20.0 / 1e6,
        }
    };
    (1..5).map(of).collect()
}

/// Results of ns-2 with the authors' code over 60 s: in class 1, 3.9 to 4.1 % of the packets are
/// late, and 0.97 % are lost. The delay of class 3 is 2.07 to 2.10 times the delay of class 2. The
/// delay of class 4 is 1.82 to 1.90 times the delay of class 3. All classes together send 44.9
/// Mbit/s.
///
/// Catches: service rates that ignore the delay bound or the ratios; drops that ignore the loss
/// bounds.
#[test]
fn four_classes_keep_the_order_of_promises_under_overload() {
    let results = run(&scenario((Search::Ns2, Output::Arrivals), None, 1));
    let came = came(&results);
    let [first, second, third, fourth] = &came[..] else { panic!("{came:?}") };
    let sum: f64 = came.iter().map(|it| it.mbps).sum();
    assert!((44.0..45.1).contains(&sum), "{sum}");
    assert!(first.loss <= 0.011, "{}", first.loss);
    // Over seeds 1 to 4, class 1 has 4.4 to 5.3 % late packets and a longest delay of 23 to 30 ms.
    // The delay ratios are 2.0 to 2.2 (class 3 to 2) and 1.6 to 2.0 (class 4 to 3).
    assert!((0.02..0.08).contains(&first.late), "{}", first.late);
    assert!((0.015..0.05).contains(&first.longest), "{}", first.longest);
    let ratios = [third.delay / second.delay, fourth.delay / third.delay];
    assert!(ratios.iter().all(|ratio| (1.5..2.5).contains(ratio)), "{ratios:?}");
    let losses = [third.loss / second.loss, fourth.loss / third.loss];
    assert!(losses.iter().all(|ratio| (1.5..2.6).contains(ratio)), "{losses:?}");
    // The gateway's own counters of classes, and its report of each promise.
    let classes = results.table("classes").unwrap();
    let sent: u64 = classes.whole("sent_packets").iter().sum();
    let dropped: u64 = classes.whole("dropped_packets").iter().sum();
    let waiting: u64 = classes.whole("waiting_packets").iter().sum();
    assert!(sent > 200_000 && dropped > 1_000 && waiting < 600, "{sent} {dropped} {waiting}");
    let promises = results.table("promises").unwrap();
    let terms: Vec<_> = promises.text("term").iter().map(|it| it.as_str()).collect();
    let ratio = ["delay_ratio", "loss_ratio"];
    assert_eq!(terms, [&["guarantee", "delay_bound", "loss_bound"], &ratio[..], &ratio].concat());
    assert!(promises.whole("relaxed")[1] > 0, "no delay bound was relaxed");
    assert_eq!(promises.whole("violations")[2], promises.whole("relaxed")[2]);
}

/// Catches: an estimate of delays that takes a class's output between two arrivals for zero.
#[test]
fn with_continuous_output_the_delay_bound_holds_and_so_do_the_ratios() {
    let results = run(&scenario((Search::Furthest, Output::Continuous), None, 1));
    let came = came(&results);
    let [first, second, third, fourth] = &came[..] else { panic!("{came:?}") };
    assert!(first.late < 0.000_1 && first.loss <= 0.011, "{first:?}");
    let lost: f64 = came.iter().map(|it| it.loss).sum();
    assert!(lost > 0.03, "the buffer does not overflow: {lost}");
    let ratios = [third.delay / second.delay, fourth.delay / third.delay];
    assert!(ratios.iter().all(|ratio| (1.8..2.2).contains(ratio)), "{ratios:?}");
}

/// The marking of this experiment in the paper, with the paper's parameters.
const HEURISTIC: &str =
    r#"{"kind":"heuristic","tracker":"paper","interval":"100 ms","threshold":"25 kB"}"#;

/// JoBS alone has 4 to 5 % late packets in the first class, with delays of up to 23 to 30 ms, and
/// drops 1 % of this class.
///
/// Catches: a marking that does not see the shared buffer; a delay bound that the marking does not
/// turn into a limit of the backlog; such a limit computed from the class's momentary rate.
#[test]
fn a_marking_of_the_shared_buffer_keeps_the_promises_that_jobs_alone_breaks() {
    let results = run(&scenario((Search::Ns2, Output::Arrivals), Some(HEURISTIC), 1));
    let came = came(&results);
    let first = &came[0];
    assert!(first.late <= 0.01 && first.longest <= 0.025, "{first:?}");
    assert!(first.loss <= 0.002 && first.mbps >= 5.0, "{first:?}");
    assert!(came[1..].iter().all(|it| it.loss <= 0.001), "{came:?}");
}

/// The setting of `examples/guarantees.toml`. Without the marking, the loss rates of the four
/// classes add up to 5 %.
///
/// Catches: a marking under which classes still drop many packets although all senders use ECN.
#[test]
fn with_the_marking_coverage_classes_hardly_drop_and_no_packet_is_late() {
    let marked = Some(r#"{"kind":"coverage"}"#);
    let came = came(&run(&scenario((Search::Furthest, Output::Continuous), marked, 1)));
    assert!(came[0].late < 0.000_1, "{came:?}");
    let lost: f64 = came.iter().map(|it| it.loss).sum();
    assert!(lost < 0.0125, "{lost}");
}
