//! A gateway whose classes share one buffer under the scheduler `jobs`: drops, changes while
//! packets wait, and swaps. A swap replaces the policies, classes or scheduler.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::gateway::{ClassChangeError, ClassContents, Gateway, GatewayConfig};
use tidegate_core::link::Overhead;
use tidegate_core::packet::{Direction, Endpoint, FlowKey, Network, Protocol, QueueIndex};
use tidegate_core::policy::{
    Action, Class, ClassChange, ClassFaultKind, ClassSet, Filter, Mode, Policy, PolicySet, Range,
};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::jobs::{self, Promises};
use tidegate_core::scheduler::{Ratio, SchedulerSpec, Term, TermValue, TermValues};
use tidegate_core::{Bytes, Chance, Factor, Machine, Packet, Rate, Time};

const LINK: Rate = Rate::from_mbps(10);
const FRAME: u32 = 1_250;

fn jobs() -> SchedulerSpec {
    let buffer = Bytes(20 * u64::from(FRAME));
    SchedulerSpec::Jobs(jobs::Config { buffer, ..jobs::Config::default() })
}

fn class(name: &str) -> Class {
    Class::new(name, QdiscSpec::DropTail(Default::default()))
}

fn own(term: Term, value: impl Into<TermValue>) -> TermValues {
    TermValues::default().with(term, value)
}

fn ratio(of: &str, millionths: u64) -> Ratio {
    Ratio { of: of.to_owned(), factor: Factor::from_millionths(millionths) }
}

/// Policies that assign host 10.0.0.`n` to the class `names[n]`, if there is such a class.
fn policies(names: &[&str], classes: Vec<Class>, scheduler: &SchedulerSpec) -> PolicySet {
    let policy = |(host, class): (u8, &&str)| {
        let number = Endpoint::v4([10, 0, 0, host], 0).number();
        let filter =
            Filter { src: vec![Range { first: number, last: number }], ..Filter::default() };
        let (name, action, mode) = (format!("host {host}"), Action::Pass, Mode::Enforce);
        let class = Some((*class).to_owned());
        Policy { name, priority: 0, filter, action, mode, class, trunk: None }
    };
    let known = |name: &&str| classes.iter().any(|class| class.name == *name);
    let policies = (0..).zip(names).filter(|(_, name)| known(name)).map(policy).collect();
    let set = ClassSet::of(classes.clone(), [Some(LINK); 2], Bytes(FRAME.into()), scheduler);
    PolicySet::new(policies).unwrap().with_classes(set.unwrap())
}

struct Run {
    gateway: Gateway,
    now: Time,
    offered: [u16; 4],
    /// For each host, the numbers of the packets that departed.
    left: [Vec<u16>; 4],
}

impl Run {
    fn new(policies: PolicySet, scheduler: SchedulerSpec) -> Self {
        let config = GatewayConfig {
            rate: [Some(LINK); 2],
            overhead: Overhead::default(),
            queue: QdiscSpec::DropTail(Default::default()),
            packets: 4_096,
            flows: 64,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks: Vec::new(),
            seed: 1,
            scheduler,
        };
        let gateway = Gateway::new(&config, policies, Time::ZERO);
        Self { gateway, now: Time::ZERO, offered: [0; 4], left: Default::default() }
    }

    fn offer(&mut self, host: u8) {
        let src = Endpoint::v4([10, 0, 0, host], 1_000);
        let dst = Endpoint::v4([192, 0, 2, 1], 80);
        let number = &mut self.offered[usize::from(host)];
        let packet = Packet {
            len: FRAME,
            key: FlowKey { src, dst, protocol: Protocol::UDP },
            network: Network::Ipv4,
            segments: 1,
            // The packet's number is stored in `network_offset`, which the gateway does not read.
            network_offset: *number,
            queue_index: QueueIndex(host.into()),
            ..Packet::default()
        };
        *number += 1;
        let id = self.gateway.pool().insert(packet).unwrap();
        self.gateway.handle_packet(self.now, Gateway::LAN, id);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(id) = self.gateway.poll_transmit(self.now, Gateway::WAN) {
            let packet = self.gateway.pool()[&id];
            let host = usize::from(packet.key.src.number().to_be_bytes()[15]);
            self.left[host].push(packet.network_offset);
            self.gateway.pool().release(id);
        }
    }

    fn until(&mut self, end: Time) {
        while let Some(at) = self.gateway.poll_timeout(self.now).filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.drain();
        }
        self.now = end;
        self.drain();
    }

    fn reschedule(&mut self, scheduler: SchedulerSpec) {
        let config = GatewayConfig { scheduler, ..self.gateway.config().clone() };
        self.gateway.reconfigure(self.now, &config);
    }

    /// Asserts that each packet departed in order, was dropped, or is still inside.
    fn check(&mut self) {
        let report = self.gateway.report();
        let left: usize = self.left.iter().map(Vec::len).sum();
        let offered: u64 = self.offered.iter().copied().map(u64::from).sum();
        let left = u64::try_from(left).unwrap();
        assert_eq!(offered, left + report.drops.total() + u64::from(report.held));
        assert_eq!(self.gateway.pool().in_use(), report.held);
        assert!(self.left.iter().all(|left| left.is_sorted()), "{:?}", self.left);
        let up = |it: &&tidegate_core::report::ClassReport| it.direction == Direction::Up;
        let classes = self.gateway.classes();
        let waiting: u64 = classes.iter().filter(up).map(|it| it.backlog.bytes.0).sum();
        assert!(waiting <= u64::from(report.held) * u64::from(FRAME), "{waiting}");
    }
}

/// Catches: a separate buffer for each class; a drop of a class's oldest packet; a drop that is
/// missing in the report.
#[test]
fn classes_share_one_buffer_and_the_victim_drops_its_newest_packets() {
    let safe = Class { own: own(Promises::LOSS_BOUND, Chance::NEVER), ..class("safe") };
    let set = policies(&["safe", "rest"], vec![safe, class("rest")], &jobs());
    let mut run = Run::new(set, jobs());
    (0..30).for_each(|_| run.offer(1));
    let before = run.gateway.report().drops.total();
    // The link's burst and one more packet have departed. The buffer holds 20 packets.
    assert!((1..10).contains(&before), "{before}");
    (0..10).for_each(|_| run.offer(0));
    assert_eq!(run.gateway.report().drops.total(), before + 10);
    run.check();
    run.until(Time::from_secs(1));
    assert_eq!(run.left[0], (0..10).collect::<Vec<_>>());
    let kept = 20 - u16::try_from(before).unwrap();
    assert_eq!(run.left[1], (0..kept).collect::<Vec<_>>());
    let classes = run.gateway.classes();
    let rest =
        classes.iter().find(|it| it.name == "rest" && it.direction == Direction::Up).unwrap();
    assert_eq!((rest.drops, rest.delays.unwrap().packets), (before + 10, kept.into()));
}

/// Catches: a change that is checked against some classes only; a term of the other scheduler that
/// is accepted; a class that is removed although a ratio refers to it.
#[test]
fn promises_change_while_packets_wait_and_impossible_promises_are_refused() {
    let half = own(Promises::DELAY_RATIO, ratio("silver", 500_000));
    let gold = Class { own: half, ..class("gold") };
    let set = policies(&["gold", "silver"], vec![gold, class("silver")], &jobs());
    let mut run = Run::new(set, jobs());
    let change = |run: &mut Run, name: &str, change: ClassChange| {
        run.gateway.change_class(run.now, name, &change)
    };
    let none = ClassChange::default;
    let weight = none().with(Term::WEIGHT, 2);
    assert_eq!(
        change(&mut run, "gold", weight),
        Err(ClassChangeError::NotOfScheduler(Term::WEIGHT))
    );
    let circle = none().with(Promises::DELAY_RATIO, ratio("gold", 2));
    let fault = Err(ClassChangeError::Fault(ClassFaultKind::RatioLoop(Promises::DELAY_RATIO)));
    assert_eq!(change(&mut run, "silver", circle), fault);
    let all = none().with(Term::GUARANTEE, LINK);
    let refused = change(&mut run, "gold", all);
    assert!(matches!(refused, Err(ClassChangeError::Fault(ClassFaultKind::NothingLeft { .. }))));
    let referred = ClassChangeError::Holds(ClassContents::Ratio("gold".to_owned()));
    assert_eq!(run.gateway.remove_class("silver"), Err(referred));
    let bound = none().with(Promises::LOSS_BOUND, Chance::from_ppb(5));
    assert_eq!(change(&mut run, "silver", bound), Ok(()));
    let other = none().with(Promises::DELAY_RATIO, ratio("default", 3_000_000));
    assert_eq!(change(&mut run, "gold", other), Ok(()));
    let classes = run.gateway.classes();
    let of = |name: &str| {
        let found = classes.iter().find(|it| it.name == name && it.direction == Direction::Up);
        found.unwrap().promises.clone()
    };
    let [ratio] = &of("gold")[..] else { panic!() };
    assert_eq!((ratio.of.as_deref(), ratio.promised), (Some("default"), 3.0));
    assert_eq!(of("silver")[0].term, Promises::LOSS_BOUND.name());
}

#[derive(Clone, Debug)]
enum Step {
    Offer(u8),
    Wait(u64),
    Install(usize, bool),
    Reschedule(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0u8..4).prop_map(Step::Offer),
        6 => (0u64..4_000).prop_map(Step::Wait),
        1 => (0usize..8, any::<bool>()).prop_map(|(of, jobs)| Step::Install(of, jobs)),
        1 => any::<bool>().prop_map(Step::Reschedule),
    ];
    prop::collection::vec(step, 1..300)
}

/// The classes whose bits are set in `of`. With `jobs`, they have bounds and ratios.
fn classes(of: usize, jobs: bool) -> Vec<Class> {
    let names = ["a", "b", "c"].into_iter().enumerate().filter(|(at, _)| of & (1 << at) != 0);
    let class = |(at, name): (usize, &str)| {
        let mut class = class(name);
        if jobs {
            class.delay_bound = [Some(Duration::from_millis(5)); 2];
            class.own = match at {
                0 => own(Promises::LOSS_BOUND, Chance::from_ppb(200_000_000)),
                _ => own(Promises::LOSS_RATIO, ratio("default", 700_000)),
            };
        }
        class
    };
    names.map(class).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Catches: packets that are lost, duplicated or reordered by a swap of scheduler or classes; a
    /// class that counts bytes of another class, and drops packets until none is left.
    #[test]
    fn swaps_of_classes_and_schedulers_lose_no_packets(steps in steps()) {
        let names = ["a", "b", "c", "d"];
        let spec = |is_jobs| if is_jobs { jobs() } else { SchedulerSpec::default() };
        let mut run = Run::new(policies(&names, classes(7, true), &jobs()), jobs());
        for step in steps {
            match step {
                Step::Offer(host) => run.offer(host),
                Step::Wait(micros) => run.until(run.now + Duration::from_micros(micros)),
                Step::Reschedule(is_jobs) => run.reschedule(spec(is_jobs)),
                Step::Install(of, is_jobs) => {
                    let set = policies(&names, classes(of, is_jobs), &spec(is_jobs));
                    run.gateway.install(run.now, set);
                }
            }
            run.check();
        }
        run.until(run.now + Duration::from_secs(10));
        run.check();
        prop_assert_eq!(run.gateway.report().held, 0);
    }
}
