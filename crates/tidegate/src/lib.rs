//! The program: its commands, the daemon and the lab.

#![forbid(unsafe_code)]
// The print macros panic if stdout or stderr is closed; the functions of `output` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod aggregate;
pub mod api;
mod cli;
mod client;
mod clock;
mod commands;
#[cfg(test)]
mod committed;
mod daemon;
pub mod demo;
pub mod describe;
mod documents;
mod files;
pub mod host;
pub mod lab;
mod log;
mod output;
mod replace;
pub mod traffic;

pub use cli::main;
pub use output::{Exit, Failure, Output};
pub use tidegate_config::{code, policy_file as config};
pub use tidegate_scenario::topology;
