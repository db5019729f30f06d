//! The subcommands: one file for each, with its arguments and its work.

pub(crate) mod aggregate;
pub(crate) mod apply;
pub(crate) mod check;
pub(crate) mod class;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod detach;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod lab;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod source;
pub(crate) mod status;
mod table;
pub(crate) mod traffic;
pub(crate) mod trunks;

use std::path::PathBuf;

use crate::output::Output;

/// Settings of every command.
#[derive(Debug)]
pub(crate) struct Context {
    /// The output for the data of the command.
    pub(crate) output: Output,
    /// Control socket of the running gateway.
    pub(crate) socket: PathBuf,
}
