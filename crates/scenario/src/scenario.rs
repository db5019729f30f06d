//! Scenario files: a topology with traffic and probes.
//!
//! A scenario file is a topology file with a `[run]` table. A lab can build the network in the same
//! file and ignores the tables of the simulator.

mod change;
mod compile;
pub(crate) mod draw;
mod network;
mod problem;
pub(crate) mod raw;
mod traffic;

use std::sync::Arc;

use tidegate_config::added::Mechanisms;
use tidegate_sim::Scenario;
use toml::de::DeTable;

use crate::topology::{compile as topology, raw::File};
use crate::{Findings, read};

/// A function that reads another file by its path relative to the scenario file, for example the
/// policy file of a gateway. The error is the reason, as text.
pub type Fetch<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Reads a scenario file. `path` is the file's name in messages. Returns a scenario if the findings
/// contain only warnings.
///
/// ```
/// use std::ops::ControlFlow;
/// use tidegate_scenario::scenario;
/// use tidegate_sim::Simulation;
///
/// let text = r#"
/// [run]
/// duration = "5 s"
///
/// [[host]]
/// name = "server"
///
/// [[host]]
/// name = "client"
///
/// [[link]]
/// from = "server"
/// to = "client"
/// rate = "8 Mbit/s"
/// delay = "20 ms"
///
/// [[traffic]]
/// name = "downloads"
/// kind = "greedy"
/// from = "server"
/// to = "client"
/// flows = 4
/// "#;
/// let (scenario, findings) = scenario::parse("line.toml", text, &mut |_| unreachable!());
/// let scenario = scenario.unwrap_or_else(|| panic!("{}", findings.render(false)));
/// let simulation = Simulation::new(&scenario).unwrap();
/// let results = simulation.run(|_| ControlFlow::Continue(())).unwrap();
/// assert_eq!(results.table("flows").unwrap().rows(), 4);
/// ```
pub fn parse(path: &str, text: &str, fetch: Fetch<'_>) -> (Option<Scenario>, Findings) {
    parse_with(path, text, fetch, Arc::default())
}

/// Like [`parse`], but the file may also name mechanisms of other crates, which `added` lists.
pub fn parse_with(
    path: &str,
    text: &str,
    fetch: Fetch<'_>,
    added: Arc<Mechanisms>,
) -> (Option<Scenario>, Findings) {
    let mut found = Findings::with(path, text, added);
    let read = |document: &DeTable<'_>, found: &mut Findings| {
        let file = File::from_document(document, found);
        let topology = topology::compile(&file, found);
        let scenario = compile::compile(&file, &topology, document, fetch, found)?;
        problem::report(&scenario, &file, document, found);
        Some(scenario)
    };
    let scenario = read::document(text, read, &mut found).flatten();
    found.sort();
    (scenario.filter(|_| !found.has_errors()), found)
}

#[cfg(test)]
mod tests;
