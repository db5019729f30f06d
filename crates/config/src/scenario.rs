//! Scenario files: a topology, who sends what to whom in it, and what is recorded.
//!
//! They are topology files with a `[run]`; a lab builds from the same file what it can.

mod change;
mod compile;
pub(crate) mod draw;
mod network;
mod problem;
pub(crate) mod raw;
pub(crate) mod tcp;
mod traffic;

use tidegate_sim::Scenario;
use toml::de::DeTable;

use crate::topology::{compile as topology, raw::File};
use crate::{Findings, read};

/// Reads other files that a scenario names, by their path from where the scenario is; what is wrong
/// if it cannot.
pub type Fetch<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Reads a scenario file. `path` is only what messages call it.
///
/// The findings may hold warnings even when all is well.
pub fn parse(path: &str, text: &str, fetch: Fetch<'_>) -> (Option<Scenario>, Findings) {
    let mut found = Findings::new(path, text);
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
