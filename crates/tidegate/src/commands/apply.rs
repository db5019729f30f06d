//! `tidegate apply FILE` puts a policy file in force; `tidegate confirm` prevents its rollback.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::units::duration;

use super::Context;
use super::plan::{self, Proposed};
use crate::api::{Applied, OfSource, Proposal, Status};
use crate::client;
use crate::code::Code;
use crate::output::{Exit, Failure, progress};

/// Arguments of `apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    proposed: plan::ProposedFile,

    /// Roll the change back unless `tidegate confirm` follows within this time, such as 60s
    #[arg(long, value_name = "TIME", value_parser = span)]
    confirm: Option<Duration>,

    /// Also replace the policy file that the gateway reads at a restart
    #[arg(long, conflicts_with_all = ["confirm", "source"])]
    save: bool,
}

/// Parses a time of at least a second. An operator cannot confirm faster.
fn span(text: &str) -> Result<Duration, String> {
    let example = |_| format!("`{text}` is not a time; write for example 60s");
    let span = duration::parse(text).map_err(example)?;
    if span < Duration::from_secs(1) { Err("give at least 1s".to_owned()) } else { Ok(span) }
}

/// Puts the file, or the newest set of a source, in force.
pub(crate) fn run(args: &ApplyArgs, context: &Context) -> anyhow::Result<Exit> {
    if let (true, Some(file)) = (args.save, &args.proposed.file) {
        return save(file, context);
    }
    let confirm_ms = args.confirm.map(|span| u64::try_from(span.as_millis())).transpose()?;
    let applied: Applied = match plan::propose(&args.proposed, context)? {
        Ok(Proposed::File(proposal)) => {
            let proposal = Proposal { confirm_ms, ..proposal };
            client::post(&context.socket, "/v1/apply", &proposal)?
        }
        Ok(Proposed::Source(name)) => {
            let path = format!("/v1/sources/{name}/apply");
            client::post(&context.socket, &path, &OfSource { confirm_ms })?
        }
        Err(exit) => return Ok(exit),
    };
    if context.output.is_json() {
        context.output.json(&applied)?;
        return Ok(Exit::Done);
    }
    context.output.text(plan::list(&applied.changes))?;
    plan::say_undone(&applied.undone);
    if let Some(file) = &applied.restart_reads {
        progress(format_args!(
            "a restart of the gateway reads {file}, not this file; `tidegate apply --save` writes it there"
        ));
    }
    match args.confirm {
        Some(span) => progress(format_args!(
            "in force; `tidegate confirm` keeps it, else it is rolled back in {}",
            duration::show(span)
        )),
        None => progress("in force"),
    }
    Ok(Exit::Done)
}

/// Puts the text of `file` in force. The gateway also saves the text as the policy file for its
/// next start.
fn save(file: &Path, context: &Context) -> anyhow::Result<Exit> {
    let status: Status = client::get(&context.socket, "/v1/status")?;
    let to = PathBuf::from(status.started_file);
    let proposal = match plan::read(file, &to, context)? {
        Ok(proposal) => Proposal { save: true, ..proposal },
        Err(exit) => return Ok(exit),
    };
    let applied: Applied = client::post(&context.socket, "/v1/apply", &proposal)?;
    let Some(saved) = &applied.saved else {
        let message = format!(
            "in force, but not saved as {}: the running gateway is of an earlier version",
            to.display()
        );
        return Err(Failure::input(Code::NeedsRestart, message).into());
    };
    if context.output.is_json() {
        context.output.json(&applied)?;
        return Ok(Exit::Done);
    }
    context.output.text(plan::list(&applied.changes))?;
    plan::say_undone(&applied.undone);
    progress(format_args!("in force, and saved as {saved}"));
    Ok(Exit::Done)
}

/// Confirms the applied change.
pub(crate) fn confirm(context: &Context) -> anyhow::Result<Exit> {
    let applied: Applied = client::post(&context.socket, "/v1/confirm", &serde_json::json!({}))?;
    if context.output.is_json() {
        context.output.json(&applied)?;
    } else {
        context.output.text(format!("generation {} is kept", applied.generation))?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: an error message whose example is not the time that was typed; a time accepted that
    /// is too short to confirm.
    #[test]
    fn a_time_without_a_unit_is_refused_with_an_example() {
        assert_eq!(span("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(span("60").unwrap_err(), "`60` is not a time; write for example 60s");
        assert_eq!(span("10 ms").unwrap_err(), "give at least 1s");
    }
}
