//! Counts the instructions of each operation, and compares them with their limits.

use tidegate_core::qdisc::QdiscSpec;

use crate::callgrind::{self, Cost, Run};
use crate::cases::MIXES;
use crate::number::median;
use crate::report::{Line, Report};

/// The extent of the measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Depth {
    /// All cases, with cache misses and processor time.
    Full,
    /// The cases that guard the limits, in about a minute.
    Short,
}

/// Operations on single packets, with their limits in instructions. Combined operations have no
/// limit, for example the arrival and departure of a packet.
const OPERATIONS: [(&str, Option<f64>); 8] = [
    ("token-bucket", Some(MOST)),
    ("flow-look-up", Some(MOST)),
    ("logical-partitions/backlog", Some(MOST)),
    ("logical-partitions/sparse", None),
    ("drr/backlog", Some(MOST)),
    ("drr/sparse", None),
    ("timer/set-cancel", Some(MOST)),
    ("timer/set-fire", None),
];

/// Limit of instructions for one operation.
const MOST: f64 = 150.0;

/// Limit for the cost of an operation among a million members, relative to a thousand.
const GROWTH: f64 = 1.3;

/// Operations on classes of a link: name, limit in instructions, and limit of the cost among
/// 100,000 leaf classes relative to 100.
const CLASSES: [(&str, Option<f64>, f64); 4] = [
    ("class/busy", None, 1.5),
    ("class/sparse", None, 1.5),
    ("class/change", Some(25_000.0), 1.5),
    ("class/add", Some(25_000.0), 1.5),
];

/// Commands that change classes in a gateway, with reports, in both directions of the link. The
/// gateway finds a class by its name, which needs a few more comparisons among 100,000 classes. The
/// command `add` changes two classes. The limits are as in [`CLASSES`].
const COMMANDS: [(&str, f64, f64); 2] =
    [("class-command/change", 25_000.0, 2.0), ("class-command/add", 50_000.0, 2.0)];

/// Commands are expensive, so they are repeated this many times less often than other operations.
const SELDOM: u64 = 50;

/// Parts of a packet's path, which have no limits.
const WAYS: [&str; 4] = ["wire/describe", "wire/rewrite", "gateway/unmanaged", "gateway/shaped"];

/// Limits for the cost of a packet through a trunk: relative to a shaped packet, and with a hundred
/// trunks relative to one trunk.
const TRUNK: f64 = 1.5;
const TRUNKS: f64 = 1.3;

/// Instructions of `live/shaped` at commit 7cdd3354. The limit of live trunks is relative to this
/// constant, so a cheaper shaper does not make the limit of trunks stricter.
const LIVE_SHAPED: f64 = 6_527.74;

/// For each marking: the largest number of flows in its measurements, and `true` if the short form
/// measures it. The short form uses at most 10,000 flows. It leaves out markings that exceed their
/// limit at this number.
const MARKINGS: [(&str, u32, bool); 3] =
    [("reference", 1_000, true), ("heuristic", 100_000, false), ("coverage", 100_000, true)];

/// Limits for the cost of a packet at a queue with a marking: many flows relative to a hundred
/// flows, and a queue with a marking relative to the case `gateway/shaped`.
const MORE_FLOWS: f64 = 1.2;
const MARKED: f64 = 1.5;

/// Limit for the cost of authenticating and verifying a management packet, relative to the whole
/// cost of a packet through a trunk.
const AUTHENTICATED: f64 = 0.5;

/// User bytes for which one management packet is sent, in this measurement.
const VMSS: u32 = 1_500;

/// Limits for the cost with 10,000 policies, relative to 10 policies: a packet of a known flow, and
/// the first packet of a flow.
const KNOWN_FLOW: f64 = 1.05;
const FIRST_MATCH: f64 = 3.0;

impl Depth {
    const fn seeds(self) -> &'static [u64] {
        match self {
            Self::Full => &[1, 2, 3],
            Self::Short => &[1],
        }
    }

    const fn many(self) -> u32 {
        match self {
            Self::Full => 1_000_000,
            Self::Short => 100_000,
        }
    }

    const fn operations(self) -> u64 {
        match self {
            Self::Full => 200_000,
            Self::Short => 50_000,
        }
    }
}

/// Measures all operations and adds the results to `report`.
pub(crate) fn measure(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    if !begin(report) {
        return Ok(());
    }
    for (name, most) in OPERATIONS {
        operation(name, most, depth, report)?;
    }
    let mut shaped = f64::NAN;
    for name in WAYS {
        let (cost, beside) = case(name, 1_000, depth)?;
        report.add(instructions(name.to_owned(), cost, None, beside));
        shaped = cost;
    }
    markings(depth, report)?;
    trunks(shaped, depth, report)?;
    live_trunks(depth, report)?;
    postack(depth, report)?;
    for discipline in QdiscSpec::NAMES {
        let (cost, beside) = case(&format!("queue/{discipline}"), 1_000, depth)?;
        report.add(instructions(format!("queue/{discipline}, in and out"), cost, None, beside));
    }
    of_classes(depth, report)?;
    files_and_swaps(depth, report)?;
    for (what, most) in [("known-flow", KNOWN_FLOW), ("first-match", FIRST_MATCH)] {
        for mix in MIXES {
            policies(&format!("{what}/{mix}"), most, depth, report)?;
        }
    }
    Ok(())
}

/// Work on many policies, errors or classes at once. The numbers limit the instructions for each
/// policy, error or class, and the growth of this cost from a tenth as many. If a gateway does
/// the work, the last element is `true`, and the report contains its longest call.
const AT_ONCE: [(&str, Option<f64>, Option<f64>, bool); 8] = [
    ("check/policies", Some(60_000.0), Some(1.2), false),
    ("check/errors", None, Some(1.2), false),
    ("swap/policies", None, Some(1.2), true),
    ("swap/classes", None, Some(1.5), true),
    // The operation replaces a class for each policy by no classes, and back.
    ("swap/classes-or-none", None, Some(1.5), true),
    // All work of the data plane for a commit of a policy source.
    ("commit/policies", None, Some(1.2), true),
    ("scrape/policies", None, None, true),
    ("scrape/classes", None, None, true),
];

/// Limit in instructions for a single call into a gateway during a swap or a scrape: about a
/// millisecond.
const LONGEST_CALL: f64 = 3_000_000.0;

/// Number of policies in a commit, which is the default limit of a source (`max_policies`).
const COMMITTED: u32 = 100_000;

/// Measures checks, swaps and scrapes. Adds the instructions for each policy, error or class, and
/// those of the longest call, to `report`.
fn files_and_swaps(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    for (name, most, growth, in_calls) in AT_ONCE {
        let commits = name.starts_with("commit/");
        let size = match depth {
            Depth::Full if commits => COMMITTED,
            Depth::Full => 50_000,
            Depth::Short => 4_000,
        };
        // One operation is a swap, the second is the swap back.
        let operations = if commits || name.starts_with("swap/") { 2 } else { 1 };
        let of = |size: u32| {
            let run = Run { name, operations, size, seed: 1 };
            Ok::<_, anyhow::Error>(callgrind::cost(run, false)?.instructions / f64::from(size))
        };
        let (few, many) = (of(size / 10)?, of(size)?);
        let beside = format!("{few:.1} instructions of {}", size / 10);
        report.add(instructions(format!("{name}, each of {size}"), many, most, String::new()));
        let what = format!("{name}, of {size} to of {}", size / 10);
        report.add(Line { what, value: many / few, unit: "x", most: growth, beside });
        if in_calls {
            let run = Run { name, operations, size, seed: 1 };
            let longest = callgrind::longest_call(run)?;
            let what = format!("{name}, the longest call of {size}");
            report.add(instructions(what, longest, Some(LONGEST_CALL), String::new()));
        }
    }
    Ok(())
}

/// Measures only checks, swaps and scrapes.
pub(crate) fn swaps(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    if begin(report) { files_and_swaps(depth, report) } else { Ok(()) }
}

/// Measures only packets at a queue with a marking.
pub(crate) fn only_markings(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    if !begin(report) {
        return Ok(());
    }
    markings(depth, report)
}

/// Measures only operations on classes.
pub(crate) fn classes(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    if begin(report) { of_classes(depth, report) } else { Ok(()) }
}

/// Begins the section. Returns `false` if instructions cannot be counted on this machine.
fn begin(report: &mut Report) -> bool {
    report.section("Instructions of an operation (callgrind)");
    let can = callgrind::is_there();
    if !can {
        report.skip("instructions; install callgrind by `apt-get install valgrind`");
    }
    can
}

fn of_classes(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    let often = CLASSES.map(|(name, most, growth)| (name, most, growth, depth.operations()));
    let seldom = depth.operations() / SELDOM;
    let commands = COMMANDS.map(|(name, most, growth)| (name, Some(most), growth, seldom));
    // Building the gateways of these cases takes long, so the short form leaves them out.
    let commands = commands.into_iter().filter(|_| depth == Depth::Full);
    for (name, most, growth, operations) in often.into_iter().chain(commands) {
        let of = |size| repeated(name, operations, size, depth);
        let ((few, _), (many, beside)) = (of(100)?, of(100_000)?);
        report.add(instructions(format!("{name}, of 100,000 leaves"), many, most, beside));
        let beside = format!("{few:.1} instructions of 100");
        report.add(ratio(format!("{name}, of 100,000 to of 100"), many / few, growth, beside));
    }
    Ok(())
}

/// Measures an operation among a thousand members, and the growth of its cost among many.
fn operation(
    name: &str,
    most: Option<f64>,
    depth: Depth,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (few, beside) = case(name, 1_000, depth)?;
    report.add(instructions(format!("{name}, of 1,000"), few, most, beside));
    let many = depth.many();
    let (more, beside) = case(name, many, depth)?;
    let beside = format!("{more:.1} instructions{beside}");
    report.add(ratio(format!("{name}, of {many} to of 1,000"), more / few, GROWTH, beside));
    Ok(())
}

/// Measures a packet at a queue with a marking, relative to a packet of `gateway/shaped` among as
/// many flows.
///
/// A packet costs more among more flows even without a marking. At full depth, this growth is
/// measured, and the result is divided by it.
fn markings(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    let measured = MARKINGS.into_iter().filter(|(.., short)| *short || depth == Depth::Full);
    for (kind, most, _) in measured {
        let name = format!("marking/{kind}");
        let flows = if depth == Depth::Full { most } else { most.min(10_000) };
        let ((few, _), (many, beside)) = (case(&name, 100, depth)?, case(&name, flows, depth)?);
        report.add(instructions(format!("{name}, of {flows} flows"), many, None, beside));
        let mut beside = format!("{few:.1} instructions of 100");
        let mut growth = 1.0;
        if depth == Depth::Full {
            let (few, _) = case("marking/none", 100, depth)?;
            let (many, _) = case("marking/none", flows, depth)?;
            growth = many / few;
            beside += &format!("; without a marking {growth:.2} x");
        }
        let what = format!("{name}, of {flows} flows to of 100, to the same without a marking");
        report.add(ratio(what, many / few / growth, MORE_FLOWS, beside));
        let (shaped_few, _) = case("gateway/shaped", 100, depth)?;
        let (shaped_many, _) = case("gateway/shaped", flows, depth)?;
        let beside = format!("{shaped_few:.1} and {shaped_many:.1} instructions shaped");
        let worst = (few / shaped_few).max(many / shaped_many);
        let what = format!("{name}, of 100 or {flows} flows, to gateway/shaped of as many");
        report.add(ratio(what, worst, MARKED, beside));
    }
    Ok(())
}

/// Measures a user packet through a trunk, together with a management packet and half an ACK.
/// `shaped` is the cost of a shaped packet.
fn trunks(shaped: f64, depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    const NAME: &str = "gateway/trunked";
    let ((one, beside), (many, _)) = (case(NAME, 1, depth)?, case(NAME, 100, depth)?);
    let what = format!("{NAME}, a user packet and its management packet");
    report.add(instructions(what, one, None, beside));
    let what = format!("{NAME}, to gateway/shaped");
    let beside = format!("{shaped:.1} instructions shaped");
    report.add(ratio(what, one / shaped, TRUNK, beside));
    let beside = format!("{many:.1} instructions of 100");
    report.add(ratio(format!("{NAME}, of 100 trunks to of one"), many / one, TRUNKS, beside));
    let (authenticated, _) = case("trunk/authenticated", VMSS, depth)?;
    let beside = format!("{authenticated:.1} instructions");
    let what = "trunk/authenticated, sent and checked, to a user packet and its management packet";
    report.add(ratio(what.to_owned(), authenticated / one, AUTHENTICATED, beside));
    Ok(())
}

/// Measures trunks in the loop of a live gateway, at the sending and at the receiving end.
/// Management packets are always authenticated. With `udp`, user packets also travel in
/// authenticated datagrams. Authentication covers all bytes of a user packet, so `udp` has no
/// limit.
fn live_trunks(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    let shaped = live("live/shaped", 1, depth)?;
    report.add(instructions("live/shaped".to_owned(), shaped, None, String::new()));
    let forms = if depth == Depth::Full { &["bare", "udp"][..] } else { &["bare"] };
    for form in forms {
        for end in ["sends", "receives"] {
            let name = format!("live/{form}-{end}");
            let one = live(&name, 1, depth)?;
            let most = (*form == "bare").then_some(TRUNK * LIVE_SHAPED);
            let beside = format!("{:.2} times live/shaped", one / shaped);
            report.add(instructions(name.clone(), one, most, beside));
            if depth == Depth::Short {
                continue;
            }
            let many = live(&name, 100, depth)?;
            let beside = format!("{many:.1} instructions of 100");
            report.add(ratio(
                format!("{name}, of 100 trunks to of one"),
                many / one,
                TRUNKS,
                beside,
            ));
        }
    }
    Ok(())
}

/// Instructions of one operation of a live case: the median over the seeds. Processor time would
/// include both gateways, so it is not reported.
fn live(name: &str, trunks: u32, depth: Depth) -> anyhow::Result<f64> {
    let of = |seed: &u64| {
        let run = Run { name, operations: 10_000, size: trunks, seed: *seed };
        Ok(callgrind::cost(run, false)?.instructions)
    };
    Ok(median(depth.seeds().iter().map(of).collect::<anyhow::Result<_>>()?))
}

/// Measures a data segment and its ACK in an ACK-controlled flow.
fn postack(depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    const NAME: &str = "gateway/postack";
    let ((few, _), (many, beside)) = (case(NAME, 10, depth)?, case(NAME, 10_000, depth)?);
    report.add(instructions(format!("{NAME}, a segment and its ACK"), many, None, beside));
    let beside = format!("{few:.1} instructions of 10");
    report.add(ratio(format!("{NAME}, of 10,000 flows to of 10"), many / few, GROWTH, beside));
    Ok(())
}

/// Measures how the cost of a case grows from 10 to 10,000 policies.
fn policies(name: &str, most: f64, depth: Depth, report: &mut Report) -> anyhow::Result<()> {
    let (few, _) = case(name, 10, depth)?;
    let (many, beside) = case(name, 10_000, depth)?;
    let beside = format!("{few:.1} to {many:.1} instructions{beside}");
    report.add(ratio(format!("{name}, 10,000 policies to 10"), many / few, most, beside));
    Ok(())
}

/// Instructions of one operation (the median over the seeds), and a remark for the report.
fn case(name: &str, size: u32, depth: Depth) -> anyhow::Result<(f64, String)> {
    repeated(name, depth.operations(), size, depth)
}

/// Like [`case`], with this number of operations.
fn repeated(name: &str, operations: u64, size: u32, depth: Depth) -> anyhow::Result<(f64, String)> {
    let with_cache = depth == Depth::Full;
    let mut costs: Vec<Cost> = Vec::new();
    for seed in depth.seeds() {
        let run = Run { name, operations, size, seed: *seed };
        costs.push(callgrind::cost(run, with_cache)?);
    }
    let mut beside = String::new();
    if with_cache {
        let misses = median(costs.iter().filter_map(|cost| cost.misses).collect());
        let run = Run { name, operations: 2_000_000, size, seed: 1 };
        let nanos = callgrind::nanos(run)?;
        beside = format!(", {misses:.2} misses, {nanos:.0} ns");
    }
    Ok((median(costs.iter().map(|cost| cost.instructions).collect()), beside))
}

fn instructions(what: String, value: f64, most: Option<f64>, beside: String) -> Line {
    let beside = beside.trim_start_matches(", ").to_owned();
    Line { what, value, unit: "instructions", most, beside }
}

fn ratio(what: String, value: f64, most: f64, beside: String) -> Line {
    Line { what, value, unit: "x", most: Some(most), beside }
}
