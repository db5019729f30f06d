//! The command line of `tidegate`: its subcommands, and how errors are reported.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::code::Code;
use crate::commands::{self, Context};
use crate::output::{self, Exit, Failure, Output};

/// Holds aggregates of TCP traffic at their rate, shared fairly, on the access link of a site.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Print JSON with a schema version instead of text
    #[arg(long, global = true, help_heading = "Everywhere")]
    json: bool,

    /// Control socket of the running gateway
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        value_name = "PATH",
        default_value = SOCKET
    )]
    socket: PathBuf,

    #[command(subcommand)]
    command: Command,
}

/// The control socket of a gateway, unless --socket names another.
pub(crate) const SOCKET: &str = "/run/tidegate.sock";

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a first policy file: guesses or asks the ports, asks two rates
    Init(commands::init::InitArgs),
    /// Say what is wrong with a policy file, and what to write instead
    Check(commands::check::CheckArgs),
    /// Show how a policy file differs from what runs
    Plan(commands::plan::PlanArgs),
    /// Run the gateway between its two ports
    Run(commands::run::RunArgs),
    /// Run an aggregate gateway: carry the TCP connections of a site over one connection to its peer
    Aggregate(commands::aggregate::AggregateArgs),
    /// Put a policy file in force without losing a packet
    Apply(commands::apply::ApplyArgs),
    /// Keep the policies that `apply --confirm` put in force
    Confirm,
    /// Show the state of the running gateway
    Status,
    /// Show the busiest flows and what limits them
    Flows(commands::status::FlowsArgs),
    /// Show the classes that share the link: their guarantees, and the traffic they sent and
    /// borrowed
    Classes,
    /// Add, change or remove a class of the running gateway
    Class(commands::class::ClassArgs),
    /// Show the policy sources: the revision in force, the newest revision, and faults
    Source,
    /// Write a set of policies to a source, or read the set of a source
    Policy(commands::policy::PolicyArgs),
    /// Show the trunks that end here: their rate, window, round-trip time, credit, and the other gateway
    Trunks,
    /// Say which policy a packet belongs to and why, what limits a live flow, or what an error means
    Explain(commands::explain::ExplainArgs),
    /// Check this host for faults that disturb a gateway, and name the remedies
    Doctor(commands::doctor::DoctorArgs),
    /// Remove the bypass programs, which forward frames while no gateway runs, from ports
    Detach(commands::detach::DetachArgs),
    /// Build a test network in namespaces, with an emulated Internet between its hosts
    Lab(commands::lab::LabArgs),
    /// Simulate a network and its traffic in virtual time
    Sim(commands::sim::SimArgs),
    /// Show in two minutes what Tidegate does, on real TCP connections
    Demo(commands::demo::DemoArgs),
    /// Print the JSON Schema of policy files
    Schema(commands::schema::SchemaArgs),
    /// Make traffic for the lab
    #[command(hide = true)]
    Traffic(commands::traffic::TrafficArgs),
    /// Print the completions for a shell
    Completions(commands::completions::CompletionsArgs),
}

/// Runs the command that the command line names.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context { output: Output::new(cli.json), socket: cli.socket };
    let result = match cli.command {
        Command::Init(args) => commands::init::run(&args, &context),
        Command::Check(args) => commands::check::run(&args, &context),
        Command::Plan(args) => commands::plan::run(&args, &context),
        Command::Run(args) => commands::run::run(&args, &context),
        Command::Aggregate(args) => commands::aggregate::run(&args, &context),
        Command::Apply(args) => commands::apply::run(&args, &context),
        Command::Confirm => commands::apply::confirm(&context),
        Command::Status => commands::status::run(&context),
        Command::Flows(args) => commands::status::flows(&args, &context),
        Command::Classes => commands::class::list(&context),
        Command::Class(args) => commands::class::run(&args, &context),
        Command::Source => commands::source::list(&context),
        Command::Policy(args) => commands::policy::run(&args, &context),
        Command::Trunks => commands::trunks::list(&context),
        Command::Explain(args) => commands::explain::run(&args, &context),
        Command::Doctor(args) => commands::doctor::run(&args, &context),
        Command::Detach(args) => commands::detach::run(&args, &context),
        Command::Lab(args) => commands::lab::run(&args, &context),
        Command::Sim(args) => commands::sim::run(&args, &context),
        Command::Demo(args) => commands::demo::run(&args, &context),
        Command::Schema(args) => commands::schema::run(&args, &context),
        Command::Traffic(args) => commands::traffic::run(&args, &context),
        Command::Completions(args) => {
            commands::completions::run(&args, &mut Cli::command(), &context)
        }
    };
    result.unwrap_or_else(|error| report(&error, &context)).into()
}

/// Reports why a command failed.
fn report(error: &anyhow::Error, context: &Context) -> Exit {
    let io = error.downcast_ref::<io::Error>();
    if io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        // The program that reads our output has closed the pipe, so it needs no more.
        return Exit::Done;
    }
    let failure = error.downcast_ref::<Failure>();
    let other = || Failure::new(Code::System, format!("{error:#}"));
    let failure = failure.cloned().unwrap_or_else(other);
    output::progress(&failure);
    if context.output.is_json() {
        // Readers of JSON find the error on stdout. An error of this write is ignored, as stderr
        // already has the message.
        let _ = context.output.json(&serde_json::json!({ "error": failure }));
    }
    failure.exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
