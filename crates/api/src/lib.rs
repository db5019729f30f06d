//! The interface of a running gateway: its messages, a client for them, and the reporting of
//! failures.
//!
//! The daemon answers with these types. The commands, the lab and other programs read them.

#![forbid(unsafe_code)]
// Forbids the print macros: they panic if stdout or stderr is closed. The functions of `output` do
// not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod client;
pub mod files;
mod messages;
pub mod output;

pub use messages::*;
pub use output::{Exit, Failure, Output};

use tidegate_config::code;
