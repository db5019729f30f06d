//! `tidegate demo`.

use super::Context;
use crate::demo;
use crate::output::Exit;

/// What `demo` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: &Args, context: &Context) -> anyhow::Result<Exit> {
    demo::run(context.output)
}
