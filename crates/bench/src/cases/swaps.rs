//! Policy swaps and reports in a gateway with many aggregates or classes.

use std::hint::black_box;
use std::time::Duration;

use tidegate_core::packet::{Direction, Endpoint, FlowKey, Protocol};
use tidegate_core::qdisc::QdiscSpec;
use tidegate_core::{Bytes, Machine, Rate, Time};
use tidegate_gateway::policy::{
    Action, Class, ClassSet, Conditioning, Filter, Policy, PolicySet, Range,
};
use tidegate_gateway::{Gateway, Generation, Retired, Survey};

use super::{Case, flows, gateway, index, sharing};

/// A gateway, and the operation that this case repeats.
pub(super) struct Calls {
    gateway: Gateway,
    what: SwapOperation,
    now: Time,
    /// Index of the policy set that the next swap installs: 0 or 1.
    version: usize,
}

/// The operation of a case.
enum SwapOperation {
    /// Install the other of two sets.
    Swap(Box<[PolicySet; 2]>),
    /// Install the other set, and make all other calls that follow a commit of a policy source.
    Commit(Box<[PolicySet; 2]>),
    /// Report the whole state, as for a scrape of metrics.
    Scrape,
}

/// In the report to a policy source, flows that sent a packet within this time count as live.
const LIVE: Duration = Duration::from_secs(10);

/// Number of hosts whose packets wait during the swap.
const WAIT: u32 = 1_000;

const LINK: Rate = Rate::from_mbps(10_000);

impl Calls {
    /// Builds a gateway with `size` policies or classes (selected by `objects`). `operation`
    /// selects swaps, commits or scrapes.
    pub(super) fn new(operation: &str, objects: &str, size: u32) -> anyhow::Result<Self> {
        let set = |version| match objects {
            "policies" => policies(size, version),
            "classes" => classes(size, version),
            "classes-or-none" => classes_or_none(size, version),
            _ => anyhow::bail!("there is no case with {objects}"),
        };
        let config = gateway::config(Some(LINK), size.max(64), 1);
        let mut gateway = Gateway::new(&config, set(0)?, Time::ZERO);
        if objects != "classes" {
            fill(&mut gateway, size);
        }
        let what = match operation {
            "swap" => SwapOperation::Swap(Box::new([set(1)?, set(0)?])),
            "commit" => SwapOperation::Commit(Box::new([set(1)?, set(0)?])),
            _ => SwapOperation::Scrape,
        };
        let now = Time::from_micros(2 * u64::from(size));
        Ok(Self { gateway, what, now, version: 0 })
    }
}

impl Case for Calls {
    fn run(&mut self, operations: u64) -> u64 {
        let Self { gateway, what, now, version } = self;
        let mut sum = 0;
        for _ in 0..index(operations) {
            match what {
                SwapOperation::Swap(sets) => {
                    let set = sets[*version].clone();
                    *version = 1 - *version;
                    drop(swap(gateway, *now, set));
                    sum += gateway.generation();
                }
                SwapOperation::Commit(sets) => {
                    let set = sets[*version].clone();
                    *version = 1 - *version;
                    sum += commit(gateway, *now, set);
                }
                SwapOperation::Scrape => sum += scrape(gateway, Survey::of_all()),
            }
        }
        sum
    }
}

/// Installs `set` in slices. Returns the replaced policies.
fn swap(gateway: &mut Gateway, now: Time, set: PolicySet) -> Retired {
    let running = counted(|| gateway.shared_policies());
    let generation = Generation::new(set, running, gateway.config());
    if counted(|| gateway.begin_install(now, generation)).is_ok() {
        while counted(|| gateway.go_on_installing(now)) {}
    }
    counted(|| gateway.take_retired())
}

/// Makes the daemon's calls for a commit of a policy source: the swap, the status for the report to
/// the source, and the count of live flows that the new policies classify.
fn commit(gateway: &mut Gateway, now: Time, set: PolicySet) -> u64 {
    let config = gateway.config().clone();
    counted(|| gateway.reconfigure(now, &config));
    drop(swap(gateway, now, set));
    let mut sum = scrape(gateway, Survey::of_policies());
    for part in 0.. {
        let Some([live, _]) = counted(|| gateway.classified(now, LIVE, part)) else { break };
        sum += u64::from(live);
    }
    sum
}

/// Reports the state of the gateway, part by part.
fn scrape(gateway: &Gateway, mut survey: Survey) -> u64 {
    while counted(|| gateway.survey(&mut survey)) {}
    let (report, classes) = survey.report();
    let generation = report.map_or(0, |it| it.generation);
    generation + u64::try_from(classes.len()).unwrap_or(u64::MAX)
}

/// Makes one call into the gateway. Callgrind counts this function by its name.
#[inline(never)]
fn counted<R>(call: impl FnOnce() -> R) -> R {
    black_box(call())
}

/// A policy for each of `size` hosts. Between two versions, every second policy has another name
/// and profile, and every fourth policy only another name.
fn policies(size: u32, version: u64) -> anyhow::Result<PolicySet> {
    let policy = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        let host = Endpoint::v4([10, a, b, c], 0).number();
        let (other, renamed) = (number % 2 == 1, !number.is_multiple_of(4));
        let burst = Bytes(1_514 + if other { version } else { 0 });
        let conditioning = Conditioning {
            profile: sharing::profile(Rate::from_kbps(100), burst)?,
            allocation: sharing::spec("logical-partitions")?,
            weights: Vec::new(),
            fair_between: Default::default(),
        };
        let queue = QdiscSpec::PerFlow(Default::default());
        let name = format!("host-{number:06}-{}", if renamed { version } else { 0 });
        let src = vec![Range { first: host, last: host }];
        anyhow::Ok(Policy {
            name,
            filter: Filter { src, direction: Some(Direction::Up), ..Filter::default() },
            action: Action::Shape { conditioning, queue, ack_control: None },
            ..gateway::shaping()?
        })
    };
    Ok(PolicySet::new((0..size).map(policy).collect::<anyhow::Result<_>>()?)?)
}

/// `size` policies, one for each host. In version 0, each policy has its own class. In version 1,
/// no policy has a class.
fn classes_or_none(size: u32, version: u64) -> anyhow::Result<PolicySet> {
    let set = policies(size, 0)?;
    if version > 0 {
        return Ok(set);
    }
    let classes = classes(size, 0)?.classes().clone();
    let named = set.policies().iter().zip(classes.classes());
    let classed =
        named.map(|(policy, class)| Policy { class: Some(class.name.clone()), ..policy.clone() });
    Ok(PolicySet::new(classed.collect())?.with_classes(classes))
}

/// `size` classes. The names of every second class differ between versions.
fn classes(size: u32, version: u64) -> anyhow::Result<PolicySet> {
    let queue = QdiscSpec::PerFlow(Default::default());
    let guarantee = [Rate::from_bps(LINK.bps() / 2 / u64::from(size.max(1))); 2];
    let class = |number: u32| {
        let name = format!("house-{number:06}-{}", if number % 2 == 1 { version } else { 0 });
        Class { guarantee, ..Class::new(&name, queue.clone()) }
    };
    let set = ClassSet::new((0..size).map(class).collect(), [Some(LINK); 2]);
    let set = set.map_err(|faults| anyhow::anyhow!("{faults:?}"))?;
    Ok(PolicySet::default().with_classes(set))
}

/// Sends a packet of each host through the gateway. Further packets of some hosts remain in the
/// queue.
fn fill(gateway: &mut Gateway, size: u32) {
    for number in 0..size {
        let now = Time::from_micros(2 * u64::from(number));
        let [_, a, b, c] = number.to_be_bytes();
        let src = Endpoint::v4([10, a, b, c], 1_000);
        let key = FlowKey { src, dst: Endpoint::v4([192, 0, 2, 1], 80), protocol: Protocol::TCP };
        for _ in 0..if number < WAIT { 3 } else { 1 } {
            if let Some(id) = gateway.pool().insert(flows::segment(key)) {
                gateway.handle_packet(now, Gateway::LAN, id);
            }
        }
        while let Some(id) = gateway.poll_transmit(now, Gateway::WAN) {
            gateway.pool().release(id);
        }
    }
}
