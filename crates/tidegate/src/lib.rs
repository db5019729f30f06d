//! The program: its commands, its policy files, the daemon and the lab.

#![forbid(unsafe_code)]

pub mod api;
mod cli;
mod client;
mod clock;
pub mod code;
mod commands;
#[cfg(test)]
mod committed;
pub mod config;
mod daemon;
pub mod demo;
pub mod describe;
pub mod host;
pub mod lab;
mod output;
pub mod topology;
pub mod traffic;

pub use cli::main;
pub use output::{Exit, Failure, Output};
