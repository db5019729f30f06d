//! The program: its commands and the daemon.

#![forbid(unsafe_code)]
// The print macros panic if stdout or stderr is closed; the functions of `output` do not.
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
