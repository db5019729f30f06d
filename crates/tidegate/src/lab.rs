//! The lab: hosts in network namespaces, and an emulated network between them.

use std::path::Path;

use crate::{Exit, Output};

/// Builds the network that the topology in `file` describes.
///
/// # Errors
///
/// If the file is wrong or the host does not let us.
pub fn up(_file: &Path, _output: Output) -> anyhow::Result<Exit> {
    anyhow::bail!("not in this build")
}

/// Runs `command` on `host`, and ends as it ends.
///
/// # Errors
///
/// If there is no such host or the command cannot be started.
pub fn exec(_host: &str, _command: &[String]) -> anyhow::Result<Exit> {
    anyhow::bail!("not in this build")
}

/// Takes the network down.
///
/// # Errors
///
/// If something of it cannot be removed.
pub fn down(_output: Output) -> anyhow::Result<Exit> {
    anyhow::bail!("not in this build")
}
