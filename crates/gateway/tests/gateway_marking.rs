//! Marking predictors, which mark packets before a queue overflows: at the link, at a class, at an
//! aggregate, and at the shared buffer of a gateway.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(dead_code, reason = "each test file uses its part of the modules")]

mod gateway_run;

use std::time::Duration;

use gateway_run::{config, packet, policy};
use tidegate_core::marking::{Marks, Tracked};
use tidegate_core::packet::{Ecn, Protocol};
use tidegate_core::qdisc::{QdiscSpec, with_marking};
use tidegate_core::scheduler::{SchedulerSpec, jobs};
use tidegate_core::{Bytes, Machine, Packet, Rate, Reason, Time};
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, Filter, Policy, PolicySet, Profile,
};
use tidegate_gateway::report::Report;
use tidegate_gateway::{Gateway, GatewayConfig};

/// The link carries 12,500 bytes in a round trip at this rate.
const RATE: Rate = Rate::from_mbps(1);
const ROUND_MS: u64 = 100;
const FRAME: u32 = 500;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Egress {
    Link,
    Class,
    Aggregate,
    /// The buffer that the classes share under the scheduler `jobs`.
    Buffer,
}

const EGRESSES: [Egress; 4] = [Egress::Link, Egress::Class, Egress::Aggregate, Egress::Buffer];

/// Queue limit at every egress, the place where packets wait.
const LIMIT: Bytes = Bytes(20_000);

fn queue(marking: Option<&str>) -> QdiscSpec {
    queue_of("{ kind = \"drop-tail\", limit = \"20 kB\" }", marking)
}

fn queue_of(plain: &str, marking: Option<&str>) -> QdiscSpec {
    let text = |text| toml::from_str::<toml::Table>(&format!("it = {text}")).unwrap()["it"].clone();
    let plain = text(plain).try_into().unwrap();
    with_marking(plain, marking.map(|it| text(it).try_into().unwrap()))
}

const REFERENCE: &str = "{ kind = \"reference\", tracker = \"paper\" }";

/// Configuration and policies of a gateway with the predictor `marking` at `egress`.
fn setting(egress: Egress, marking: Option<&str>) -> (GatewayConfig, PolicySet) {
    let wide = [Some(Rate::from_mbps(100)); 2];
    let limited = if egress == Egress::Aggregate { wide } else { [Some(RATE); 2] };
    let at = |here: Egress| queue(marking.filter(|_| here == egress));
    let of_link = if egress == Egress::Buffer { at(Egress::Buffer) } else { at(Egress::Link) };
    let scheduler = match egress {
        Egress::Buffer => {
            SchedulerSpec::Jobs(jobs::Config { buffer: LIMIT, ..jobs::Config::default() })
        }
        _ => SchedulerSpec::default(),
    };
    let (classes, policies) = match egress {
        Egress::Link => (Vec::new(), Vec::new()),
        Egress::Buffer => (vec![Class::new(Class::DEFAULT, queue(None))], Vec::new()),
        Egress::Class => (vec![Class::new(Class::DEFAULT, at(Egress::Class))], Vec::new()),
        Egress::Aggregate => (Vec::new(), vec![shaped(at(Egress::Aggregate))]),
    };
    let classes = ClassSet::of(classes, limited, Bytes(FRAME.into()), &scheduler).unwrap();
    let policies = PolicySet::new(policies).unwrap().with_classes(classes);
    (GatewayConfig { rate: limited, queue: of_link, scheduler, ..config() }, policies)
}

fn gateway(egress: Egress, marking: Option<&str>) -> Gateway {
    let (config, policies) = setting(egress, marking);
    Gateway::new(&config, policies, Time::ZERO)
}

fn shaped(queue: QdiscSpec) -> Policy {
    shaped_with(Bytes(1_514), queue)
}

fn shaped_with(burst: Bytes, queue: QdiscSpec) -> Policy {
    let conditioning = Conditioning {
        profile: Profile::new(RATE, None, burst, Bytes(1_514)).unwrap(),
        allocation: gateway_run::allocation("fcfs"),
        weights: Vec::new(),
        fair_between: Default::default(),
    };
    policy("all", Filter::default(), Action::Shape { conditioning, queue, ack_control: None })
}

/// A gateway, and a sender whose packets of a round arrive together.
struct Bench {
    gateway: Gateway,
    ms: u64,
    offered: u64,
    left: u64,
    /// Packets that departed with a mark in the present round.
    marked: u32,
    number: u32,
}

impl Bench {
    fn new(egress: Egress, marking: Option<&str>) -> Self {
        Self::of(gateway(egress, marking))
    }

    fn of(gateway: Gateway) -> Self {
        Self { gateway, ms: 0, offered: 0, left: 0, marked: 0, number: 0 }
    }

    fn offer(&mut self, packet: Packet) {
        let id = self.gateway.pool().insert(packet).unwrap();
        self.offered += 1;
        self.gateway.handle_packet(Time::from_millis(self.ms), Gateway::LAN, id);
    }

    /// Sends a round of `window` data packets with this ECN codepoint.
    fn round(&mut self, window: u32, ecn: Ecn) {
        for _ in 0..window {
            let mut data = packet(1, self.number, FRAME);
            data.ecn = ecn;
            data.tcp.as_mut().unwrap().payload = 100;
            self.number += 100;
            self.offer(data);
        }
    }

    fn udp(&mut self, bytes: u64) {
        for _ in 0..bytes / u64::from(FRAME) {
            let mut datagram = packet(2, 0, FRAME);
            datagram.key.protocol = Protocol::UDP;
            datagram.tcp = None;
            self.offer(datagram);
        }
    }

    /// Changes the predictor at `egress` to `marking`, as a changed policy file does.
    fn apply(&mut self, egress: Egress, marking: Option<&str>) {
        let (config, policies) = setting(egress, marking);
        self.gateway.reconfigure(Time::from_millis(self.ms), &config);
        self.gateway.install(Time::from_millis(self.ms), policies);
    }

    /// Counters of the predictor at `egress`, without those of tracked flows.
    fn marks(&mut self, egress: Egress) -> Option<Marks> {
        Some(Marks { tracked: Tracked::default(), ..self.marking(egress)? })
    }

    /// Counters of the predictor at `egress`.
    fn marking(&mut self, egress: Egress) -> Option<Marks> {
        let report = self.report();
        match egress {
            Egress::Link | Egress::Buffer => report.link_marking[0],
            Egress::Class => self.gateway.class(Class::DEFAULT)[0].marking,
            Egress::Aggregate => report.aggregates.first()?.marking,
        }
    }

    /// Number of drops in the class `default`.
    fn drops_of_default(&self) -> u64 {
        self.gateway.class(Class::DEFAULT).iter().map(|it| it.drops).sum()
    }

    fn advance(&mut self, ms: u64) {
        for _ in 0..ms {
            self.ms += 1;
            let now = Time::from_millis(self.ms);
            while let Some(id) = self.gateway.poll_transmit(now, Gateway::WAN) {
                self.left += 1;
                self.marked += u32::from(self.gateway.pool()[&id].ecn == Ecn::Ce);
                self.gateway.pool().release(id);
            }
        }
    }

    fn report(&mut self) -> Report {
        let report = self.gateway.report();
        let accounted = self.left + report.drops.total() + u64::from(report.held);
        assert_eq!(self.offered, accounted, "{report:?}");
        report
    }

    /// Sends rounds from a sender that halves its window when a packet is marked or dropped.
    fn responds(&mut self, rounds: u32, ecn: Ecn) -> Report {
        self.responds_and(rounds, ecn, |_| {})
    }

    /// Like `responds`, and calls `at_round_end` at the end of each round.
    fn responds_and(&mut self, rounds: u32, ecn: Ecn, at_round_end: impl Fn(&mut Self)) -> Report {
        let (mut window, mut dropped) = (1, 0);
        for _ in 0..rounds {
            self.round(window, ecn);
            self.advance(ROUND_MS);
            let drops = self.report().drops.total();
            let notified = std::mem::take(&mut self.marked) > 0 || drops > dropped;
            dropped = drops;
            window = if notified { (window / 2).max(1) } else { window + 1 };
            at_round_end(self);
        }
        self.report()
    }
}

/// Catches: an egress (a place where packets wait) whose packets the predictor does not see; a
/// queue that is full before the first mark; marks on the newest packet, which reach the sender too
/// late; a report without a packet or a tracked flow.
#[test]
fn a_flow_is_marked_before_its_queue_overflows_at_every_egress() {
    for egress in EGRESSES {
        let full = Bench::new(egress, None).responds(300, Ecn::Ect0);
        assert!(full.drops.of(Reason::QueueFull) > 0, "{egress:?}: {:?}", full.drops);
        let mut bench = Bench::new(egress, Some(REFERENCE));
        let report = bench.responds(300, Ecn::Ect0);
        assert_eq!(report.drops.total(), 0, "{egress:?}: {:?}", report.drops);
        let marked = report.marks.of(Reason::Predicted);
        assert!(marked > 3, "{egress:?}: {:?}", report.marks);
        assert_eq!(bench.marks(egress), Some(Marks { marked, ..Marks::default() }), "{egress:?}");
        let tracked = bench.marking(egress).unwrap().tracked;
        assert_eq!((tracked.flows, tracked.rho), (1, 1.0), "{egress:?}");
        let all = bench.offered * u64::from(FRAME);
        assert_eq!((tracked.all_bytes, tracked.tracked_bytes), (all, all), "{egress:?}");
    }
}

/// Catches: a limit per flow that the predictor does not know, and that drops packets with the
/// reason `flow-full`; a flow whose packets wait for longer than its retransmission timeout.
#[test]
fn one_flow_is_marked_before_it_fills_a_queue_per_flow() {
    let queue = queue_of("\"per-flow\"", Some(REFERENCE));
    let config = GatewayConfig { rate: [Some(RATE); 2], queue, ..config() };
    let mut bench = Bench::of(Gateway::new(&config, PolicySet::default(), Time::ZERO));
    let (mut window, mut most) = (1, 0);
    for _ in 0..300 {
        bench.round(window, Ecn::Ect0);
        bench.advance(ROUND_MS);
        most = most.max(bench.report().link[0].bytes.0);
        let notified = std::mem::take(&mut bench.marked) > 0;
        window = if notified { (window / 2).max(1) } else { window + 1 };
    }
    assert_eq!(bench.report().drops.total(), 0);
    assert!((60_000..RATE.bytes_in(Duration::from_secs(1)).0).contains(&most), "{most}");
}

/// Catches: packets without ECN that are marked, or that overflow the queue; a wrong reason for
/// their drops.
#[test]
fn packets_that_are_not_ecn_capable_are_dropped_in_place_of_a_mark() {
    for egress in EGRESSES {
        let mut bench = Bench::new(egress, Some(REFERENCE));
        let report = bench.responds(300, Ecn::NotEct);
        let (drops, marks) = (report.drops, report.marks);
        let not_ect = drops.of(Reason::Predicted);
        assert_eq!(bench.marks(egress), Some(Marks { not_ect, ..Marks::default() }), "{egress:?}");
        assert!(drops.of(Reason::Predicted) > 3 && marks.total() == 0, "{egress:?}: {drops:?}");
        assert_eq!(drops.total(), drops.of(Reason::Predicted), "{egress:?}: {drops:?}");
    }
}

/// Catches: a prediction that ignores untracked traffic; drops of the marked flow's packets.
#[test]
fn datagrams_beyond_the_rate_are_dropped_once_the_flow_is_marked() {
    for egress in EGRESSES {
        let mut bench = Bench::new(egress, Some(REFERENCE));
        for _ in 0..100 {
            bench.round(2, Ecn::Ect0);
            for _ in 0..10 {
                bench.udp(2_000);
                bench.advance(ROUND_MS / 10);
            }
        }
        let report = bench.report();
        let drops = report.drops;
        assert!(drops.of(Reason::Unmarkable) > 100, "{egress:?}: {drops:?}");
        assert!(report.marks.of(Reason::Predicted) > 10, "{egress:?}: {:?}", report.marks);
    }
}

/// A class `default` with a predictor, and a class `other` for host 2. Both share `rate`.
fn two_classes(rate: Rate, guarantee: Rate) -> Gateway {
    let link = [Some(rate); 2];
    let config = GatewayConfig { rate: link, queue: queue(None), ..config() };
    let marked =
        Class { guarantee: [guarantee; 2], ..Class::new(Class::DEFAULT, queue(Some(REFERENCE))) };
    let classes = vec![marked, Class::new("other", queue(None))];
    let other = Policy {
        class: Some("other".to_owned()),
        ..policy("other", gateway_run::from(2), Action::Pass)
    };
    let classes = ClassSet::new(classes, link).unwrap();
    Gateway::new(&config, PolicySet::new(vec![other]).unwrap().with_classes(classes), Time::ZERO)
}

/// Source: `marking`, section 2 (the rate of a class is the rate at which it was served).
///
/// Catches: a prediction with the rate of the whole link for a class that shares the link.
#[test]
fn a_class_is_marked_for_the_rate_at_which_it_is_served() {
    let mut bench = Bench::of(two_classes(Rate::from_mbps(2), Rate::from_bps(0)));
    let mut window = 1;
    for _ in 0..300 {
        bench.round(window, Ecn::Ect0);
        for _ in 0..10 {
            // Twice the rate at which the class `other` is served.
            bench.udp(2_500);
            bench.advance(ROUND_MS / 10);
        }
        let notified = std::mem::take(&mut bench.marked) > 0;
        window = if notified { (window / 2).max(1) } else { window + 1 };
    }
    assert_eq!(bench.drops_of_default(), 0);
    let marks = bench.report().marks.of(Reason::Predicted);
    assert!((4..60).contains(&marks), "{marks}");
}

/// Catches: a prediction with the guarantee for a class that borrows the whole link.
#[test]
fn a_class_that_borrows_is_marked_for_the_rate_that_it_gets() {
    let mut alone = Bench::new(Egress::Link, Some(REFERENCE));
    let mut borrows = Bench::of(two_classes(RATE, Rate::from_kbps(100)));
    for bench in [&mut alone, &mut borrows] {
        let drops = bench.responds(300, Ecn::Ect0).drops;
        assert_eq!(drops.total(), 0, "{drops:?}");
    }
    let (least, served) = (alone.left * 95 / 100, borrows.left);
    assert!(served >= least, "{served} packets of {}", alone.left);
}

/// Source: `marking`, section 2 (an aggregate sends its tokens and the mean rate).
///
/// Catches: a prediction without the tokens, which marks packets of a burst that passes at once.
#[test]
fn a_burst_for_which_there_are_tokens_is_not_marked() {
    let marks = |burst| {
        let policies = vec![shaped_with(burst, queue(Some(REFERENCE)))];
        let gateway = Gateway::new(&config(), PolicySet::new(policies).unwrap(), Time::ZERO);
        let mut bench = Bench::of(gateway);
        for _ in 0..20 {
            bench.round(80, Ecn::Ect0);
            bench.advance(1_000);
        }
        let report = bench.report();
        (report.marks.total(), report.drops.total())
    };
    assert_eq!(marks(Bytes(60_000)), (0, 0));
    assert!(marks(Bytes(1_514)).0 > 0);
}

/// Catches: trackers (the predictor's state of each flow) that are lost when an unchanged file is
/// applied, so that no window is known for a round.
#[test]
fn an_unchanged_marking_keeps_its_trackers_over_an_apply() {
    for egress in EGRESSES {
        let [mut runs_on, mut applied] = [(); 2].map(|()| Bench::new(egress, Some(REFERENCE)));
        runs_on.responds(100, Ecn::Ect0);
        applied.responds_and(100, Ecn::Ect0, |it| it.apply(egress, Some(REFERENCE)));
        let marks = runs_on.marks(egress).unwrap();
        assert!(marks.marked > 3, "{egress:?}: {marks:?}");
        assert_eq!(applied.marks(egress), Some(marks), "{egress:?}");
        assert_eq!(applied.left, runs_on.left, "{egress:?}");
    }
}

/// Catches: a packet that is lost or counted twice when a queue with a predictor is replaced under
/// traffic; a changed predictor that keeps its counters; a predictor that still acts after its
/// removal.
#[test]
fn no_packet_is_lost_or_counted_twice_when_the_marking_changes() {
    for egress in EGRESSES {
        let mut bench = Bench::new(egress, Some(REFERENCE));
        for iteration in 0_u32..60 {
            bench.round(iteration % 20, Ecn::Ect0);
            bench.advance(ROUND_MS / 2);
            let marking = [None, Some("\"coverage\""), Some(REFERENCE)][slot(iteration % 3)];
            let before = bench.report().drops.total();
            bench.apply(egress, marking);
            assert_eq!(bench.report().drops.total(), before, "{egress:?}");
            let fresh = bench.marks(egress).map(|marks| marks.marked);
            assert!(fresh.is_none_or(|marked| marked == 0), "{egress:?}: {fresh:?}");
            bench.round(iteration % 20, Ecn::Ect0);
            assert_eq!(bench.marks(egress).is_some(), marking.is_some(), "{egress:?}");
            bench.advance(ROUND_MS / 2);
        }
        bench.advance(ROUND_MS * 10);
        assert_eq!(bench.report().held, 0, "{egress:?}");
    }
}

#[expect(clippy::as_conversions, reason = "it widens")]
const fn slot(number: u32) -> usize {
    number as usize
}
