//! Classes on the link of a gateway: their shares, and changes that lose or reorder no packets. A
//! policy names the class of its packets. A flow without an entry in the flow table is *untracked*.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::class::delay::Part;
use tidegate_core::gateway::{ClassChangeError, ClassContents, Gateway, GatewayConfig};
use tidegate_core::link::Overhead;
use tidegate_core::packet::{Direction, Endpoint, FlowKey, Kind, Network, Protocol, QueueIndex};
use tidegate_core::policy::{
    Action, Class, ClassChange, ClassFaultKind, ClassSet, Filter, Mode, Policy, PolicySet, Range,
};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::scheduler::Term;
use tidegate_core::{Bytes, Machine, Packet, Rate, Time, tcp, trunk};

const LINK: Rate = Rate::from_mbps(10);
const FRAME: u32 = 1_250;

fn queue() -> QdiscSpec {
    QdiscSpec::DropTail(Default::default())
}

fn class(name: &str, parent: Option<&str>, mbps: u64) -> Class {
    let guarantee = [Rate::from_mbps(mbps); 2];
    Class { parent: parent.map(str::to_owned), guarantee, ..Class::new(name, queue()) }
}

/// Policies that assign host 10.0.0.`n` to the class `of[n]`.
fn policies(of: &[Option<&str>], classes: Vec<Class>) -> PolicySet {
    let policy = |(host, class): (u8, &Option<&str>)| {
        let number = Endpoint::v4([10, 0, 0, host], 0).number();
        let filter =
            Filter { src: vec![Range { first: number, last: number }], ..Filter::default() };
        let class = class.map(str::to_owned);
        let (name, action) = (format!("host {host}"), Action::Pass);
        Policy { name, priority: 0, filter, action, mode: Mode::Enforce, class, trunk: None }
    };
    let policies = (0..).zip(of).map(policy).collect();
    let classes = ClassSet::new(classes, [Some(LINK); 2]).unwrap();
    PolicySet::new(policies).unwrap().with_classes(classes)
}

/// A gateway, its clock, and the packets that were offered and that departed.
struct Run {
    gateway: Gateway,
    now: Time,
    offered: [u32; 8],
    /// For each host, the numbers of the packets that departed.
    left: [Vec<u32>; 8],
}

impl Run {
    fn new(policies: PolicySet) -> Self {
        Self::with(policies, Vec::new(), 64)
    }

    fn with(policies: PolicySet, trunks: Vec<trunk::Config>, flows: u32) -> Self {
        let config = GatewayConfig {
            rate: [Some(LINK); 2],
            overhead: Overhead::default(),
            queue: queue(),
            packets: 8_192,
            flows,
            shaping_interval: Duration::ZERO,
            shaping_triggers: Default::default(),
            fragments_without_first: Default::default(),
            trunks,
            seed: 1,
            scheduler: Default::default(),
        };
        let gateway = Gateway::new(&config, policies, Time::ZERO);
        Self { gateway, now: Time::ZERO, offered: [0; 8], left: Default::default() }
    }

    /// Offers the next packet of the LAN host `host`.
    fn offer(&mut self, host: u8) {
        self.offer_of(host, Kind::User);
    }

    fn offer_of(&mut self, host: u8, kind: Kind) {
        let src = Endpoint::v4([10, 0, 0, host], 1_000);
        let dst = Endpoint::v4([192, 0, 2, 1], 80);
        let number = &mut self.offered[usize::from(host)];
        let key = FlowKey { src, dst, protocol: Protocol::UDP };
        // The packet's number is stored in `network_offset`, which the gateway does not read.
        let network_offset = u16::try_from(*number).unwrap();
        let packet = Packet {
            len: FRAME,
            key,
            network: Network::Ipv4,
            segments: 1,
            network_offset,
            kind,
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
            self.left[host].push(packet.network_offset.into());
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

    fn counts(&self) -> [usize; 8] {
        std::array::from_fn(|host| self.left[host].len())
    }

    /// Asserts that each offered packet departed in order, was dropped, or is still inside.
    fn check(&mut self) {
        let report = self.gateway.report();
        let out: usize = self.counts().iter().sum();
        let offered: u32 = self.offered.iter().sum();
        let out = u64::try_from(out).unwrap();
        assert_eq!(u64::from(offered), out + report.drops.total() + u64::from(report.held));
        assert_eq!(self.gateway.pool().in_use(), report.held);
        for (host, left) in self.left.iter().enumerate() {
            assert!(left.is_sorted(), "host {host}: {left:?}");
        }
        let (mut waiting, mut drops) = (0, 0);
        for class in self.gateway.classes().iter().filter(|class| class.parent.is_none()) {
            waiting += class.backlog.packets;
            drops += class.drops;
        }
        for control in self.gateway.control().into_iter().flatten() {
            waiting += control.backlog.packets;
            drops += control.drops;
        }
        assert!(waiting <= report.held && drops <= report.drops.total());
    }
}

#[test]
fn policies_select_the_class_and_classes_share_the_link() {
    let classes = vec![class("office", None, 6), class("guests", None, 1)];
    let mut run = Run::new(policies(&[Some("office"), Some("guests"), None], classes));
    for _ in 0..1_000 {
        (0..3).for_each(|host| run.offer(host));
    }
    run.until(Time::from_secs(1));
    // The link carries 1,000 packets per second. Guarantees are 600 and 100, and the remainder is
    // divided by three.
    let got = run.counts();
    for (got, fair) in got.into_iter().zip([700, 200, 100]) {
        assert!(got.abs_diff(fair) <= 3, "{got} of {fair}");
    }
    run.check();
    let classes = run.gateway.classes();
    let names: Vec<_> = classes.iter().map(|it| (it.name.as_str(), it.direction)).collect();
    let each = ["default", "guests", "office"];
    assert!(names[..3].iter().map(|(name, _)| *name).eq(each) && names.len() == 6);
    assert!(names[..3].iter().all(|(_, way)| *way == Direction::Up));
    assert_eq!(classes[2].sent.packets, u64::try_from(got[0]).unwrap());
}

#[test]
fn terms_change_while_packets_wait_and_contradictions_are_refused() {
    let classes = vec![
        class("office", None, 6),
        class("voice", Some("office"), 2),
        class("web", Some("office"), 2),
    ];
    let mut run = Run::new(policies(&[Some("voice"), Some("web"), None], classes));
    for _ in 0..2_000 {
        (0..3).for_each(|host| run.offer(host));
    }
    let to = |mbps| ClassChange::default().with(Term::GUARANTEE, Rate::from_mbps(mbps));
    let change =
        |run: &mut Run, name: &str, mbps| run.gateway.change_class(run.now, name, &to(mbps));
    assert_eq!(change(&mut run, "nobody", 1), Err(ClassChangeError::NoClass));
    assert!(matches!(change(&mut run, "voice", 5), Err(ClassChangeError::Fault(_))));
    assert!(matches!(change(&mut run, "office", 3), Err(ClassChangeError::Fault(_))));
    assert!(matches!(change(&mut run, "office", 11), Err(ClassChangeError::Fault(_))));
    assert_eq!(change(&mut run, "office", 10), Ok(()));
    assert_eq!(change(&mut run, "voice", 8), Ok(()));
    let held = ClassChange::default().with(Term::CEILING, Rate::from_mbps(2));
    run.until(Time::from_secs(1));
    let got = run.counts();
    assert!(got[0].abs_diff(800) <= 8 && got[1].abs_diff(200) <= 8 && got[2] <= 8, "{got:?}");
    (0..800).for_each(|_| run.offer(0));
    assert_eq!(change(&mut run, "voice", 1), Ok(()));
    run.gateway.change_class(run.now, "voice", &held).unwrap();
    run.until(Time::from_secs(2));
    let more = run.counts();
    assert!((more[0] - got[0]).abs_diff(200) <= 8, "{more:?} after {got:?}");
    run.check();
}

/// Catches: removal of a class that a policy names, or in which packets wait; a new class whose
/// guarantee is not checked against its parent's; a removed class whose guarantee still counts.
#[test]
fn classes_are_added_and_removed_but_not_while_they_are_in_use() {
    let mut run = Run::new(policies(&[Some("office"), None], vec![class("office", None, 4)]));
    (0..100).for_each(|_| (0..2).for_each(|host| run.offer(host)));
    let add = |run: &mut Run, class: Class| run.gateway.add_class(run.now, &class);
    let web = |parent| class("web", Some(parent), 1);
    let holds =
        |parent: &str, of| Err(ClassChangeError::ParentHolds { parent: parent.to_owned(), of });
    assert_eq!(add(&mut run, class("office", None, 1)), Err(ClassChangeError::Exists));
    assert_eq!(add(&mut run, web("no")), Err(ClassChangeError::NoParent("no".to_owned())));
    assert_eq!(
        add(&mut run, web("office")),
        holds("office", ClassContents::Policy("host 0".to_owned()))
    );
    assert_eq!(add(&mut run, web("default")), holds("default", ClassContents::Default));
    assert!(matches!(add(&mut run, class("voice", None, 7)), Err(ClassChangeError::Fault(_))));
    assert_eq!(add(&mut run, class("guests", None, 6)), Ok(()));
    assert!(matches!(add(&mut run, class("voice", None, 1)), Err(ClassChangeError::Fault(_))));
    assert_eq!(add(&mut run, class("web", Some("guests"), 6)), Ok(()));
    let remove = |run: &mut Run, name: &str| run.gateway.remove_class(name);
    assert_eq!(remove(&mut run, "guests"), Err(ClassChangeError::HasParts("web".to_owned())));
    assert_eq!(remove(&mut run, "web"), Ok(()));
    assert_eq!(remove(&mut run, "web"), Err(ClassChangeError::NoClass));
    assert_eq!(remove(&mut run, "guests"), Ok(()));
    assert_eq!(add(&mut run, class("voice", None, 6)), Ok(()));
    assert_eq!(remove(&mut run, "default"), Err(ClassChangeError::Holds(ClassContents::Default)));
    let policy = ClassChangeError::Holds(ClassContents::Policy("host 0".to_owned()));
    assert!(matches!(
        remove(&mut run, "office"),
        Err(ClassChangeError::Holds(ClassContents::Waiting(_)))
    ));
    run.until(Time::from_secs(1));
    assert_eq!(remove(&mut run, "office"), Err(policy));
    assert_eq!(run.counts()[..2], [100, 100]);
    run.check();
}

/// Catches: packets that waited before the first class existed, and do not move to the class tree.
#[test]
fn the_first_class_may_be_added_while_packets_wait() {
    let mut run = Run::new(policies(&[None, None], vec![]));
    (0..50).for_each(|_| (0..2).for_each(|host| run.offer(host)));
    assert_eq!(run.gateway.remove_class("web"), Err(ClassChangeError::NoClass));
    let orphan = class("web", Some("office"), 1);
    let no_parent = ClassChangeError::NoParent("office".to_owned());
    assert_eq!(run.gateway.add_class(run.now, &orphan), Err(no_parent));
    assert_eq!(run.gateway.add_class(run.now, &class("web", None, 1)), Ok(()));
    assert_eq!(run.gateway.classes().len(), 4);
    run.until(Time::from_secs(1));
    assert_eq!(run.counts()[..2], [50, 50]);
    run.check();
}

fn voice(bound: u64) -> Class {
    let delay_bound = [Some(Duration::from_millis(bound)); 2];
    Class { burst: Some(Bytes(2_500)), delay_bound, ..class("voice", None, 2) }
}

/// Catches: a change of a parent class that breaks the delay bound of its child.
#[test]
fn a_parent_class_may_not_break_the_delay_bound_of_its_child() {
    let voice = Class { parent: Some("office".to_owned()), ..voice(5) };
    let set = policies(&[Some("voice"), None, None], vec![class("office", None, 8), voice]);
    let mut run = Run::new(set);
    let slower = ClassChange::default().with(Term::CEILING, Rate::from_mbps(8));
    let broken = run.gateway.change_class(run.now, "office", &slower);
    assert!(
        matches!(&broken, Err(ClassChangeError::Bound { class, .. }) if class == "voice"),
        "{broken:?}"
    );
    let heavier = ClassChange::default().with(Term::WEIGHT, 9);
    assert_eq!(run.gateway.change_class(run.now, "office", &heavier), Ok(()));
}

/// The bound of 5 ms covers one packet on the link, one packet that is next, and two packets of the
/// class.
///
/// Catches: delay bounds that do not reach the scheduler of the link; a change, or a new class,
/// that is accepted although it makes a bound impossible.
#[test]
fn a_delay_bound_is_kept_at_the_link_and_no_change_may_break_it() {
    let office = class("office", None, 8);
    let mut run =
        Run::new(policies(&[Some("voice"), Some("office"), None], vec![voice(5), office]));
    for at in 0..200u32 {
        (0..20).for_each(|_| [1, 2].into_iter().for_each(|host| run.offer(host)));
        [0, 0].into_iter().for_each(|host| run.offer(host));
        run.until(run.now + Duration::from_millis(5));
        assert_eq!(run.counts()[0], usize::try_from(2 * at + 2).unwrap());
        run.until(run.now + Duration::from_millis(5));
    }
    let change = |run: &mut Run, name: &str, change: ClassChange| {
        run.gateway.change_class(run.now, name, &change)
    };
    let bound = |change: ClassChange, ms| change.with(Term::DELAY_BOUND, Duration::from_millis(ms));
    let tighter = bound(ClassChange::default(), 1);
    let refused = change(&mut run, "voice", tighter);
    let of = |refused| match refused {
        Err(ClassChangeError::Fault(ClassFaultKind::DelayBound { part, .. })) => Some(part),
        _ => None,
    };
    assert_eq!(of(refused), Some(Part::Burst));
    let larger = ClassChange::default().with(Term::BURST, Bytes(9_000));
    assert_eq!(of(change(&mut run, "voice", larger.clone())), Some(Part::Burst));
    let loose = bound(larger.with(Term::BURST, Bytes(2_500)), 60);
    let other = change(&mut run, "office", loose.clone());
    assert_eq!(other, Ok(()), "its bound is less urgent");
    let bounds: Vec<_> = run.gateway.classes().iter().map(|it| it.delay_bound).collect();
    assert_eq!(bounds[..2], [None, Some(Duration::from_millis(60))]);
    let urgent = bound(loose, 7);
    let broken = change(&mut run, "office", urgent);
    assert!(
        matches!(&broken, Err(ClassChangeError::Bound { class, .. }) if class == "voice"),
        "{broken:?}"
    );
    let part = Class { parent: Some("voice".to_owned()), ..class("a", None, 1) };
    assert!(run.gateway.add_class(run.now, &part).is_err());
    run.gateway.remove_class("nobody").unwrap_err();
    let less = ClassChange::default().with(Term::GUARANTEE, Rate::from_mbps(4));
    assert_eq!(change(&mut run, "office", less), Ok(()));
    let video = Class { name: "video".to_owned(), ..voice(7) };
    let broken = run.gateway.add_class(run.now, &video);
    assert!(
        matches!(&broken, Err(ClassChangeError::Bound { class, .. }) if class == "voice"),
        "{broken:?}"
    );
    run.check();
}

/// The first host has the only entry in the flow table. All other flows are untracked.
///
/// Catches: packets of untracked flows that stay in their old class.
#[test]
fn untracked_packets_are_not_overtaken_when_their_class_changes() {
    for queue in [queue(), QdiscSpec::PerFlow(Default::default())] {
        let classes =
            ["a", "b"].map(|name| Class { queue: queue.clone().into(), ..class(name, None, 3) });
        let set = |of: &[Option<&str>]| policies(of, classes.to_vec());
        let mut run = Run::with(set(&[Some("a"), Some("a"), Some("a"), None]), Vec::new(), 1);
        (0..20).for_each(|_| (0..4).for_each(|host| run.offer(host)));
        assert!(run.gateway.report().untracked > 0);
        // Host 1 keeps its class, host 2 moves to the faster class, and host 3 moves out of the
        // default class.
        for of in [[None, Some("a"), Some("b"), Some("b")], [Some("b"), Some("b"), None, Some("a")]]
        {
            run.gateway.install(run.now, set(&of));
            (0..20).for_each(|_| (0..4).for_each(|host| run.offer(host)));
            run.check();
        }
        run.until(run.now + Duration::from_secs(2));
        run.check();
        assert_eq!(run.counts()[..4], [60; 4]);
    }
}

/// One event of a random run.
#[derive(Clone, Debug)]
enum Step {
    Offer(u8),
    Control(u8),
    Wait(u64),
    Install(u8, [Option<u8>; 4]),
    Change(u8, u64),
    Add(u8, Option<u8>),
    Remove(u8),
    Limit(Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let of = || prop::option::of(0u8..4);
    let step = prop_oneof![
        12 => (0u8..4).prop_map(Step::Offer),
        3 => (4u8..6).prop_map(Step::Control),
        4 => (0u64..4_000).prop_map(Step::Wait),
        2 => (0u8..6, [of(), of(), of(), of()]).prop_map(|(tree, of)| Step::Install(tree, of)),
        1 => (0u8..4, 0u64..4).prop_map(|(class, mbps)| Step::Change(class, mbps)),
        1 => (0u8..4, of()).prop_map(|(class, parent)| Step::Add(class, parent)),
        1 => (0u8..4).prop_map(Step::Remove),
        1 => prop::option::of(1u64..12).prop_map(Step::Limit),
    ];
    prop::collection::vec(step, 1..400)
}

const NAMES: [&str; 4] = ["a", "b", "c", "default"];

/// One of six class trees. Each class is a leaf class or an inner class.
fn tree(number: u8) -> Vec<Class> {
    match number {
        0 => vec![],
        1 => vec![class("a", None, 1), class("b", None, 2), class("c", None, 0)],
        2 => vec![class("a", None, 5), class("b", Some("a"), 2), class("c", Some("b"), 1)],
        3 => vec![class("c", None, 5), class("b", Some("c"), 2), class("a", Some("b"), 1)],
        4 => vec![class("b", None, 3), class("default", Some("b"), 1), class("a", Some("b"), 1)],
        _ => {
            let ceiling = [Some(Rate::from_mbps(2)); 2];
            vec![Class {
                ceiling,
                queue: QdiscSpec::PerFlow(Default::default()).into(),
                ..class("a", None, 1)
            }]
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After all changes, each packet is counted. A flow stays in order while both its old and its
    /// new class exist. In the end, no packet remains.
    ///
    /// Catches: a class that becomes a parent while its packets wait, and whose children are never
    /// served; waiting packets that do not move with their flow; an empty class that still counts
    /// as backlogged, so that the link never becomes idle; descendants that are missing in the
    /// report of a class.
    #[test]
    fn no_packet_is_lost_in_any_sequence_of_changes(steps in steps()) {
        let mut run = Run::new(policies(&[Some("a"), Some("b"), None], tree(1)));
        for step in steps {
            match step {
                Step::Offer(host) => run.offer(host),
                Step::Control(host) => run.offer_of(host, Kind::Control),
                Step::Wait(micros) => run.until(run.now + Duration::from_micros(micros)),
                Step::Install(number, of) => {
                    let classes = tree(number);
                    let leaf = |name: &str| {
                        classes.iter().any(|it| it.name == name)
                            && !classes.iter().any(|it| it.parent.as_deref() == Some(name))
                    };
                    let of = of.map(|at| at.map(|at| NAMES[usize::from(at)]).filter(|it| leaf(it)));
                    run.gateway.install(run.now, policies(&of, classes));
                }
                Step::Change(class, mbps) => {
                    let change = ClassChange::default().with(Term::BURST, Bytes(3_000));
                    let change = change.with(Term::CEILING, Rate::from_mbps(mbps + 1));
                    let _ = run.gateway.change_class(run.now, NAMES[usize::from(class)], &change);
                }
                Step::Add(of, parent) => {
                    let parent = parent.map(|at| NAMES[usize::from(at)]);
                    let class = class(NAMES[usize::from(of)], parent, 1);
                    let _ = run.gateway.add_class(run.now, &class);
                }
                Step::Remove(class) => {
                    let _ = run.gateway.remove_class(NAMES[usize::from(class)]);
                }
                Step::Limit(mbps) => {
                    let rate = [mbps.map(Rate::from_mbps); 2];
                    let config = GatewayConfig { rate, ..run.gateway.config().clone() };
                    run.gateway.reconfigure(run.now, &config);
                }
            }
            run.drain();
            run.check();
            let all = run.gateway.classes();
            for name in NAMES {
                let of: Vec<_> = all.iter().filter(|it| it.name == name).cloned().collect();
                prop_assert_eq!(run.gateway.class(name), of);
            }
        }
        run.until(run.now + Duration::from_secs(10));
        run.check();
        prop_assert_eq!(run.gateway.report().held, 0);
    }
}

/// Catches: packets from a trunk that enter the class of packets without a policy.
#[test]
fn packets_from_a_trunk_enter_the_class_of_their_policy() {
    let classes = vec![class("a", None, 8), class("b", None, 2)];
    let policies = policies(&[Some("a"), Some("b")], classes);
    let through = |policy: &Policy| Policy { trunk: Some("t".to_owned()), ..policy.clone() };
    let classes = policies.classes().clone();
    let all = policies.policies().iter().map(through).collect();
    let policies = PolicySet::new(all).unwrap().with_classes(classes);
    let trunk = trunk::Config {
        name: "t".to_owned(),
        local: [192, 0, 2, 7].into(),
        peer: [192, 0, 2, 9].into(),
        port: 4_754,
        connections: 1,
        vmss: Bytes(1_500),
        guarantee: Some(Rate::from_mbps(20)),
        ceiling: None,
        queue: queue(),
        assured: 1,
        fallback: Default::default(),
        tcp: tcp::Config::default(),
        probing: trunk::Probing::Management,
        weight: None,
        wire: Default::default(),
    };
    let mut run = Run::with(policies, vec![trunk], 64);
    for millisecond in 0..1_000 {
        run.until(Time::from_millis(millisecond));
        (0..2).for_each(|host| run.offer(host));
    }
    let [a, b, ..] = run.counts();
    assert!(a > 3 * b && a + b > 900, "{a} {b}");
}
