//! Benchmarks: the cost of a packet in instructions, memory, processor time and precision, and the
//! limits of these costs.

#![forbid(unsafe_code)]

mod ack_cost;
mod bodies;
mod callgrind;
mod cases;
mod connections;
mod dumbbell;
mod forwarder;
mod forwarding;
mod instructions;
mod live;
mod load;
mod many_connections;
mod memory;
mod number;
mod pacing;
mod report;
mod sharing;
mod simulator;
mod usage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::dumbbell::Dumbbell;
use crate::instructions::Depth;
use crate::report::Report;

/// Measures what a packet costs, and compares each figure with its limit
///
/// Exits with 1 if a figure exceeds its limit. Measurements that this machine cannot make are
/// skipped, and the report names them.
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
    /// All measurements, except single cases
    All,
    /// Instructions of each operation, counted by callgrind, and memory of an idle flow
    Instructions {
        /// Fewer and smaller cases, without the cache model.
        #[arg(long)]
        short: bool,
    },
    /// Memory of an idle flow.
    Memory,
    /// Instructions, memory and time of 100,000 classes.
    Classes,
    /// Instructions for file checks, swaps and scrapes.
    Swaps {
        /// Fewer policies and classes.
        #[arg(long)]
        short: bool,
    },
    /// Instructions of packets at a queue with a marking.
    Markings {
        /// Fewer flows.
        #[arg(long)]
        short: bool,
    },
    /// How evenly packets depart, compared with HTB; needs root
    Pacing,
    /// How classes share a link, compared with HTB; needs root
    Sharing,
    /// Processor time of a forwarded packet, compared with the kernel; needs root
    Forwarding,
    /// Processor time of a packet under PostACK, compared with a queue for each flow; needs root
    #[command(alias = "signalling")]
    AckControl {
        /// Measure only cases whose names contain all these words.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Cost of large requests on the control socket; needs root
    Bodies,
    /// Speed and memory of the simulator, compared with ns-2 and ns-3
    Simulator,
    /// Simulates one dumbbell; prints its costs and results as JSON
    Dumbbell(Dumbbell),
    /// Runs one case, as callgrind does; prints the processor time of an operation
    Case {
        /// Name of the case
        name: String,
        /// Number of operations
        operations: u64,
        /// Number of flows, members, timers or policies
        size: u32,
        /// Random seed
        seed: u64,
    },
    /// Counts the instructions of one operation of a case
    Count {
        /// Name of the case
        name: String,
        /// Number of operations
        operations: u64,
        /// Number of flows, members, timers or policies
        size: u32,
    },
    /// Runs a loop that only forwards frames between `lan` and `wan`
    #[command(hide = true)]
    Bare,
    /// Attaches XDP programs that forward frames between `lan` and `wan`
    #[command(hide = true)]
    Redirect,
    /// Sends datagrams
    #[command(hide = true)]
    Send { to: SocketAddr, per_second: u32, burst: u32, millis: u64, flows: usize },
    /// Runs one end of many TCP connections
    #[command(hide = true)]
    Connections { end: connections::End, number: usize, window: u64, millis: u64 },
    /// Drops datagrams
    #[command(hide = true)]
    Sink { millis: u64 },
    /// Prints the arrival times of datagrams at some ports
    #[command(hide = true)]
    Arrivals { ports: u16 },
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut report = Report::default();
    run(arguments.part, &mut report)?;
    if let Some(folder) = arguments.out {
        report.write(&folder).with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    Ok(if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(part: Part, report: &mut Report) -> anyhow::Result<()> {
    match part {
        Part::All => {
            instructions::measure(Depth::Full, report)?;
            memory::measure(report)?;
            pacing::measure(report)?;
            sharing::measure(report)?;
            forwarding::measure(report)?;
            ack_cost::measure(report, "")?;
            bodies::measure(report)?;
            simulator::measure(report)?;
        }
        Part::Instructions { short } => {
            instructions::measure(if short { Depth::Short } else { Depth::Full }, report)?;
            memory::measure(report)?;
        }
        Part::Memory => memory::measure(report)?,
        Part::Classes => {
            instructions::classes(Depth::Full, report)?;
            memory::classes(report)?;
        }
        Part::Swaps { short } => {
            instructions::swaps(if short { Depth::Short } else { Depth::Full }, report)?;
        }
        Part::Markings { short } => {
            instructions::only_markings(if short { Depth::Short } else { Depth::Full }, report)?;
        }
        Part::Pacing => pacing::measure(report)?,
        Part::Sharing => sharing::measure(report)?,
        Part::Forwarding => forwarding::measure(report)?,
        Part::AckControl { only } => ack_cost::measure(report, &only)?,
        Part::Bodies => bodies::measure(report)?,
        Part::Simulator => simulator::measure(report)?,
        Part::Dumbbell(it) => println!("{}", serde_json::to_string(&it.run()?)?),
        Part::Case { name, operations, size, seed } => {
            println!("{:.1} ns", cases::time(&name, operations, size, seed)?);
        }
        Part::Count { name, operations, size } => {
            let run = callgrind::Run { name: &name, operations, size, seed: 1 };
            println!("{:.1} instructions", callgrind::cost(run, false)?.instructions);
        }
        Part::Bare => forwarder::run(true)?,
        Part::Redirect => forwarder::run(false)?,
        Part::Send { to, per_second, burst, millis, flows } => {
            load::send(to, per_second, burst, Duration::from_millis(millis), flows)?;
        }
        Part::Connections { end, number, window, millis } => {
            connections::keep_busy(end, number, window, Duration::from_millis(millis))?;
        }
        Part::Sink { millis } => load::sink(Duration::from_millis(millis))?,
        Part::Arrivals { ports } => load::arrivals(ports)?,
    }
    Ok(())
}
