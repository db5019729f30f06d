//! The demonstration.

use crate::{Exit, Output};

/// Runs it.
///
/// # Errors
///
/// If the lab cannot be built here.
pub fn run(_output: Output) -> anyhow::Result<Exit> {
    anyhow::bail!("not in this build")
}
