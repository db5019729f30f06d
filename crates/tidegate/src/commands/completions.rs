//! `tidegate completions SHELL` prints completions for a shell.

use clap_complete::Shell;

use super::Context;
use crate::output::Exit;

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to print completions for
    shell: Shell,
}

/// Prints the completions of the command line `cli`.
pub(crate) fn run(
    args: &CompletionsArgs,
    cli: &mut clap::Command,
    context: &Context,
) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, cli, "tidegate", &mut script);
    context.output.text(String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
