//! Costs of the simulator: time relative to other simulators, time with many flows, and memory.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::dumbbell::{Dumbbell, Outcome};
use crate::number::{median, real};
use crate::report::{Line, Report};

/// Two dumbbells with the same rate for each flow: 100 flows over 100 Mbit/s, and 10,000 flows over
/// 10 Gbit/s.
const FEW: Dumbbell = Dumbbell { flows: 100, seconds: 3, mbps: 100, times: 40, traces: false };
const MANY: Dumbbell =
    Dumbbell { flows: 10_000, seconds: 3, mbps: 10_000, times: 1, traces: false };

/// Number of measurements of each dumbbell. The dumbbells are measured alternately.
const ROUNDS: u32 = 3;

/// Adds the costs to `report`.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    report.section("The simulator");
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        few.push(FEW.run_apart()?);
        many.push(MANY.run_apart()?);
    }
    hops(report, &few, &many);
    if let (Some(few), Some(many)) = (few.last(), many.last()) {
        memory(report, few, many);
    }
    beside_others(report)
}

/// Adds the cost of a packet-hop with many flows, relative to few flows.
fn hops(report: &mut Report, few: &[Outcome], many: &[Outcome]) {
    let each = |it: &Outcome| real(it.nanos) / real(it.packet_hops.max(1));
    let hop = |all: &[Outcome]| median(all.iter().map(each).collect());
    let ratios = few.iter().zip(many).map(|(few, many)| each(many) / each(few)).collect();
    report.add(Line {
        what: format!("a packet-hop with {} flows, to that with {}", MANY.flows, FEW.flows),
        value: median(ratios),
        unit: "times",
        most: Some(2.5),
        beside: format!("{:.0} ns to {:.0} ns of processor time", hop(many), hop(few)),
    });
}

/// Adds the memory for each flow, with the hosts and links that belong to the flow.
fn memory(report: &mut Report, few: &Outcome, many: &Outcome) {
    let flows = real(MANY.flows);
    let each = |bytes: u64| real(bytes) / flows;
    let packets = real(many.packets_inside) * real(packet_bytes());
    report.add(Line {
        what: format!("memory of a flow of {}, without packets in the network", MANY.flows),
        value: (real(many.running_bytes.max(many.results_bytes + many.scenario_bytes)) - packets)
            / flows,
        unit: "B",
        most: Some(4_096.0),
        beside: format!(
            "largest heap: {:.0} B scenario, {:.0} B network before the start, \
             the rest connections; results take {:.0} B at the end",
            each(many.scenario_bytes),
            each(many.built_bytes - many.scenario_bytes),
            each(many.results_bytes),
        ),
    });
    report.add(Line {
        what: "memory of a flow, with packets in the network".to_owned(),
        value: each(many.running_bytes),
        unit: "B",
        most: None,
        beside: format!(
            "at most {:.1} packets of {} B for each flow were in the network",
            each(many.packets_inside),
            packet_bytes()
        ),
    });
    report.add(Line {
        what: "growth of the process for each flow".to_owned(),
        value: (real(many.peak_bytes) - real(few.peak_bytes)) / (flows - real(FEW.flows)),
        unit: "B",
        most: None,
        beside: "largest resident memory, with unused memory of the allocator".to_owned(),
    });
}

fn packet_bytes() -> u64 {
    u64::try_from(tidegate_sim::PACKET_BYTES).unwrap_or(u64::MAX)
}

/// The output of `python3 -m validate.speed --json`: bottleneck packets per second of processor
/// time. Each number is the median over several runs.
#[derive(Deserialize)]
struct Speeds {
    ours: f64,
    traced: f64,
    /// `None` if ns-2 is not installed.
    ns2: Option<f64>,
    ns3: Option<f64>,
}

/// Compares the simulator with ns-2 and ns-3 on the dumbbell of 100 flows, 200 hosts and 30 s. The
/// three are measured alternately.
fn beside_others(report: &mut Report) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = Command::new(root.join("validate/setup")).status();
    if !installed.is_ok_and(|status| status.success()) {
        report.skip("installing ns-2 and ns-3: validate/setup failed");
    }
    let mut speed = Command::new("python3");
    speed.args(["-m", "validate.speed", "--json"]).current_dir(root);
    let output = match speed.output() {
        Ok(output) => output,
        Err(error) => {
            report.skip(&format!("the simulator compared with others: python3: {error}"));
            return Ok(());
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "validate/speed.py: {said}");
    let speeds: Speeds = serde_json::from_slice(&output.stdout).context("validate/speed.py")?;
    for (name, theirs, least) in [("ns-2", speeds.ns2, 5.0), ("ns-3", speeds.ns3, 80.0)] {
        let Some(theirs) = theirs else {
            report.skip(&format!("the simulator compared with {name}, which is not installed"));
            continue;
        };
        report.add(Line {
            what: format!("time of a bottleneck packet of the dumbbell, to {name}'s"),
            value: theirs / speeds.ours,
            unit: "times",
            most: Some(1.0 / least),
            beside: format!(
                "{:.0} packets per CPU second to {theirs:.0}: {:.1} times as many; the limit is {least} times",
                speeds.ours,
                speeds.ours / theirs
            ),
        });
    }
    report.add(Line {
        what: "the dumbbell with all traces on, to that without".to_owned(),
        value: speeds.ours / speeds.traced,
        unit: "times",
        most: Some(2.0),
        beside:
            "series of the queue and of throughput and window of every flow each 100 ms, and a \
                 capture of the bottleneck"
                .to_owned(),
    });
    Ok(())
}
