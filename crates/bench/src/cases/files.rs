//! Policy files: the cost of checking a file, and the cost of reporting all its errors.

use std::fmt::Write;

use tidegate_config::{Findings, policy_file};

use super::Case;

/// An operation parses a policy file and, in one variant, renders all findings.
pub(super) struct Check {
    text: String,
    /// Also renders all findings.
    renders: bool,
}

impl Check {
    /// A file of `size` policies, each for its own host.
    pub(super) fn policies(size: u32) -> Self {
        Self { text: file(size, "20 Mbit/s"), renders: false }
    }

    /// A file of `size` policies, each with an error.
    pub(super) fn errors(size: u32) -> Self {
        Self { text: file(size, "20 Mbps"), renders: true }
    }
}

impl Case for Check {
    fn run(&mut self, operations: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..operations {
            let (config, found) = policy_file::parse("bench.toml", &self.text, None);
            sum += config.map_or(0, |config| count(config.policies.len()));
            if self.renders {
                sum += rendered(&found);
            }
        }
        sum
    }
}

/// Renders the findings as text for a terminal and as data for programs. Returns their total
/// length.
fn rendered(found: &Findings) -> u64 {
    let summary = found.summary().map_or(0, |(_, lines, _)| lines.len());
    count(found.render(false).len() + found.data().len() + summary)
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A file of `size` policies with the rate `mean`.
pub(super) fn file(size: u32, mean: &str) -> String {
    let mut text = String::from("[gateway]\nlan = \"lan\"\nwan = \"wan\"\n");
    for number in 0..size {
        let [_, a, b, c] = number.to_be_bytes();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[policy]]\nname = \"host-{number:06}\"\nmatch = {{ src = \"10.{a}.{b}.{c}\", direction = \"up\" }}\n\
             profile = {{ mean = \"{mean}\" }}\naction = \"shape\"\n"
        );
    }
    text
}
