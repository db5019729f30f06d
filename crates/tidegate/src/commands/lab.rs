//! `tidegate lab up|exec|down`.

use std::path::PathBuf;

use super::Context;
use crate::lab;
use crate::output::Exit;

/// What `lab` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build the network a topology file describes
    Up {
        /// The topology, in TOML
        file: PathBuf,
    },
    /// Run a command on a host of the lab
    Exec {
        /// Name of the host
        host: String,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Take the network down, also after a crash
    Down,
}

/// Does it.
pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Up { file } => lab::up(file, context.output),
        Command::Exec { host, command } => lab::exec(host, command),
        Command::Down => lab::down(context.output),
    }
}
