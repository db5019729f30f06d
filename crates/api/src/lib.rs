//! The interface of a running gateway: its messages, their client, and how failures are told.
//!
//! The daemon answers with these types, and the commands, the lab and programs of others read them.

#![forbid(unsafe_code)]
// The print macros panic if stdout or stderr is closed; the functions of `output` do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod client;
pub mod files;
mod messages;
pub mod output;

pub use messages::*;
pub use output::{Exit, Failure, Output};

use tidegate_config::code;
