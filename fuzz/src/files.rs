//! Checks for the fuzzers that take the text of a file. An ordinary test also runs them on the
//! corpus.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each target uses its part, and fails by panicking"
)]

use std::ops::ControlFlow;
use std::time::Duration;

use tidegate_config::{Findings, policy_file};
use tidegate_scenario::{scenario, topology};
use tidegate_sim::scenario::NodeKind;
use tidegate_sim::table::Table;
use tidegate_sim::{Scenario, Simulation};

/// Renders all findings. `used` is `true` if the file was accepted. A file must be accepted if, and
/// only if, it has no error.
fn said(found: &Findings, used: bool) {
    assert_eq!(used, !found.has_errors());
    assert_eq!(found.render(false).is_empty(), found.iter().next().is_none());
    assert_eq!(found.summary().is_none(), used);
    for (diagnostic, data) in found.iter().zip(found.data()) {
        assert!(!diagnostic.message.is_empty() && !diagnostic.help.is_empty());
        assert!(serde_json::to_string(&data).is_ok());
    }
}

/// Parses any text as a policy file.
pub(crate) fn policy_any(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (config, found) = policy_file::parse("fuzz.toml", text, None);
    said(&found, config.is_some());
}

/// Parses any text as a topology of a lab and as a scenario. Runs an accepted scenario.
pub(crate) fn scenario_any(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (topology, found) = topology::parse("fuzz.toml", text);
    said(&found, topology.is_some());
    let mut fetch = |path: &str| match path {
        "policy.toml" => Ok("[gateway]\nlan = \"lan\"\nwan = \"wan\"\n".to_owned()),
        "trace.csv" => Ok("0 s, 160 B\n20 ms, 160 B\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    };
    let (scenario, found) = scenario::parse("fuzz.toml", text, &mut fetch);
    said(&found, scenario.is_some());
    if let Some(scenario) = scenario {
        simulate(scenario);
    }
}

/// Runs an accepted scenario, for up to 300 ms of virtual time or 200,000 events. Skips scenarios
/// that need too much memory.
fn simulate(mut scenario: Scenario) {
    scenario.run.duration = scenario.run.duration.min(Duration::from_millis(300));
    scenario.run.warmup = scenario.run.warmup.min(scenario.run.duration / 2);
    scenario.run.sample = scenario.run.sample.map(|it| it.max(Duration::from_millis(1)));
    scenario.traffic.iter_mut().for_each(|it| it.stop = None);
    let flows = scenario
        .traffic
        .iter()
        .map(|it| u64::from(it.flows) * u64::try_from(it.pairs.len()).unwrap());
    let buffers = scenario.nodes.iter().map(|it| match &it.kind {
        NodeKind::Gateway(gateway) => gateway.config.packets.max(gateway.config.flows),
        NodeKind::Cloud(cloud) => cloud.packets,
        _ => 0,
    });
    if flows.sum::<u64>() > 1_000 || buffers.max() > Some(1 << 18) {
        return;
    }
    let simulation = Simulation::new(&scenario).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    // At the end of the run, the simulator itself checks that no packet and no byte is missing.
    let results = simulation.run(|progress| match progress.events {
        0..200_000 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    if let Ok(results) = results {
        let lengths = |table: &Table| table.columns().iter().map(|it| it.values.len()).collect();
        for table in &results.tables {
            let lengths: Vec<usize> = lengths(table);
            assert!(lengths.iter().all(|it| *it == table.rows()), "{}: {lengths:?}", table.name);
        }
    }
}
