//! Scenario files: a topology with traffic and probes.
//!
//! They are topology files with a `[run]` table. A lab builds the parts it supports from the same
//! file.

mod change;
mod compile;
pub(crate) mod draw;
mod network;
mod problem;
pub(crate) mod raw;
mod traffic;

use tidegate_sim::Scenario;
use toml::de::DeTable;

use crate::topology::{compile as topology, raw::File};
use crate::{Findings, read};

/// Reads further files named in a scenario, by a path relative to the scenario. An error is the
/// reason in words.
pub type Fetch<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Reads a scenario file. `path` is its name in messages.
///
/// The findings may hold warnings even if there is a result.
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
