//! `tidegate check FILE` prints the errors in a policy file.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use tidegate_config::{Findings, Severity, aggregate};

use super::Context;
use crate::config::Config;
use crate::documents::Documents;
use crate::files;
use crate::host::{self, Host};
use crate::output::{Exit, Failure, progress};

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The policy file, or the file of an aggregate gateway
    file: PathBuf,

    /// Also check that this host has the interfaces, and that bursts are at least their MTU
    #[arg(long)]
    host: bool,
}

/// Prints the findings in the file. If there are none, prints a summary.
pub(crate) fn run(args: &CheckArgs, context: &Context) -> anyhow::Result<Exit> {
    let text = read(&args.file)?;
    if aggregate::is_meant(&text) {
        return of_aggregate(&args.file, &text, context);
    }
    let host = args.host.then(host::look);
    let (config, found) = Documents::gather(&args.file, text)?.parse(host.as_ref());
    let output = context.output;
    if output.is_json() {
        let data = serde_json::json!({ "ok": config.is_some(), "findings": found.data() });
        output.json(&data)?;
    } else {
        complain(&found);
    }
    let Some(config) = config else { return Ok(Exit::WrongInput) };
    if !output.is_json() {
        output.text(summary(&args.file, &config, &found))?;
    }
    Ok(Exit::Done)
}

/// Does the same as [`run`] for the file of an aggregate gateway.
fn of_aggregate(file: &Path, text: &str, context: &Context) -> anyhow::Result<Exit> {
    let (config, found) = aggregate::parse(&name(file), text);
    if context.output.is_json() {
        let data = serde_json::json!({ "ok": config.is_some(), "findings": found.data() });
        context.output.json(&data)?;
    } else {
        complain(&found);
    }
    let Some(config) = config else { return Ok(Exit::WrongInput) };
    if !context.output.is_json() {
        let file = file.display();
        let (peer, warnings) = (config.peer, warnings(&found));
        context.output.text(format!("{file}: aggregate gateway with peer {peer}, {warnings}"))?;
    }
    Ok(Exit::Done)
}

fn summary(file: &Path, config: &Config, found: &Findings) -> String {
    let policies = match config.policies.len() {
        1 => "1 policy".to_owned(),
        n => format!("{n} policies"),
    };
    let warnings = warnings(found);
    format!("{}: {policies} between {} and {}, {warnings}", file.display(), config.lan, config.wan)
}

fn warnings(found: &Findings) -> String {
    match found.iter().filter(|it| it.severity == Severity::Warning).count() {
        0 => "nothing wrong".to_owned(),
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    }
}

/// Reads a policy file, which may be a pipe.
pub(crate) fn read(file: &Path) -> Result<String, Failure> {
    files::read_any(file, files::MOST).map_err(|error| error.of(file))
}

/// Name of a file in messages.
pub(crate) fn name(file: &Path) -> String {
    file.display().to_string()
}

/// Loads a policy file. If it is invalid, prints the findings and returns the exit code of the
/// program.
pub(crate) fn load(
    file: &Path,
    host: Option<&Host>,
    context: &Context,
) -> anyhow::Result<Result<(Documents, Config), Exit>> {
    take(file, read(file)?, host, context)
}

/// Does the same as [`load`] for a file whose content is `text`.
pub(crate) fn take(
    file: &Path,
    text: String,
    host: Option<&Host>,
    context: &Context,
) -> anyhow::Result<Result<(Documents, Config), Exit>> {
    let documents = Documents::gather(file, text)?;
    let (config, found) = documents.parse(host);
    let Some(config) = config else { return Ok(Err(refuse(&found, context)?)) };
    complain(&found);
    Ok(Ok((documents, config)))
}

/// Shows the findings of a file with errors. Returns the exit code of the program.
pub(crate) fn refuse(found: &Findings, context: &Context) -> anyhow::Result<Exit> {
    complain(found);
    if context.output.is_json() {
        context.output.json(&serde_json::json!({ "ok": false, "findings": found.data() }))?;
    }
    Ok(Exit::WrongInput)
}

/// Shows the findings on stderr.
pub(crate) fn complain(found: &Findings) {
    if found.iter().next().is_some() {
        progress(format_args!("{}\n", found.render(std::io::stderr().is_terminal())));
    }
}
