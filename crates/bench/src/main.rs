//! What a packet costs: instructions, memory, processor time, precision; each against its limit.

#![forbid(unsafe_code)]

mod callgrind;
mod cases;
mod instructions;
mod memory;
mod number;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::instructions::Depth;
use crate::report::Report;

/// What a packet costs, each figure against its limit.
///
/// Ends with 1 if a figure is beyond its limit. What this machine cannot measure is skipped, and the
/// report says so.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Folder to write the report to, as `bench.json` and `bench.md`.
    #[arg(long, global = true)]
    out: Option<PathBuf>,
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Everything but single cases.
    All,
    /// Instructions of each operation, counted by callgrind, and memory of an idle flow.
    Instructions {
        /// Fewer and smaller cases, without the cache model.
        #[arg(long)]
        short: bool,
    },
    /// One case: what callgrind looks at. Says what an operation took in processor time.
    Case {
        /// Its name.
        name: String,
        /// How often its operation is done.
        operations: u64,
        /// Among how many of its kind: flows, members, timers, policies.
        size: u32,
        /// What its random choices begin with.
        seed: u64,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut report = Report::default();
    match arguments.part {
        Part::Case { name, operations, size, seed } => {
            println!("{:.1} ns", cases::time(&name, operations, size, seed)?);
            return Ok(ExitCode::SUCCESS);
        }
        Part::Instructions { short } => {
            instructions::measure(if short { Depth::Short } else { Depth::Full }, &mut report)?;
            memory::measure(&mut report)?;
        }
        Part::All => {
            instructions::measure(Depth::Full, &mut report)?;
            memory::measure(&mut report)?;
        }
    }
    if let Some(folder) = arguments.out {
        report.write(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
