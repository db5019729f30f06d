//! `tidegate completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Context;
use crate::cli::Cli;
use crate::output::Exit;

/// What `completions` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For which shell
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tidegate", &mut script);
    context.output.text(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
