//! The program: its commands, its policy files, the daemon and the lab.

#![forbid(unsafe_code)]

mod cli;
mod commands;
pub mod demo;
pub mod lab;
mod output;

pub use cli::main;
pub use output::{Exit, Failure, Output};
