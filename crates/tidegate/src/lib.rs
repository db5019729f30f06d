//! The program `tidegate`: its commands and the daemon.

#![forbid(unsafe_code)]
// `print!` and `eprintln!` panic if the output is closed, so they are forbidden. The functions of
// `output` do not panic.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod aggregate;
mod cli;
mod commands;
#[cfg(test)]
mod committed;
mod daemon;
pub mod describe;
mod documents;
pub mod host;
mod log;
mod replace;

pub use cli::main;
pub use tidegate_api as api;
pub use tidegate_api::{Exit, Failure, Output};
pub use tidegate_config::{code, policy_file as config};

use tidegate_api::{client, files, output};
use tidegate_lab::{clock, demo, lab, traffic};
use tidegate_scenario::topology;
