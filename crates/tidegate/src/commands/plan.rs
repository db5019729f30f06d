//! `tidegate plan FILE`.

use std::path::{Path, PathBuf};

use tidegate_config::Part;
use tidegate_config::policy_file::canonical;

use super::{Context, check};
use crate::api::{Plan, Proposal};
use crate::client;
use crate::describe::{self, Change};
use crate::output::{Exit, progress};

/// What `plan` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The policy file
    file: PathBuf,

    /// Print its policies, classes and trunks in canonical form instead; needs no gateway
    #[arg(long)]
    canonical: bool,
}

/// Prints the differences between the file and the running configuration, or the canonical text of the file.
pub(crate) fn run(args: &Args, context: &Context) -> anyhow::Result<Exit> {
    if args.canonical {
        return print_canonical(&args.file, context);
    }
    let proposal = match propose(&args.file, context)? {
        Ok(proposal) => proposal,
        Err(exit) => return Ok(exit),
    };
    let plan: Plan = client::post(&context.socket, "/v1/plan", &proposal)?;
    let pending = !plan.changes.is_empty();
    if context.output.is_json() {
        context.output.json(&plan)?;
    } else {
        context.output.text(list(&plan.changes))?;
        say_undone(&plan.undone);
    }
    Ok(if pending { Exit::ChangesPending } else { Exit::Done })
}

/// Prints the set of policies in `file`, sorted and in base units.
fn print_canonical(file: &Path, context: &Context) -> anyhow::Result<Exit> {
    let part = Part { origin: check::name(file), text: check::read(file)? };
    let answer = canonical(&[part]);
    if context.output.is_json() {
        let data = match &answer {
            Ok(text) => serde_json::json!({ "ok": true, "canonical": text }),
            Err(found) => serde_json::json!({ "ok": false, "findings": found.data() }),
        };
        context.output.json(&data)?;
    }
    match answer {
        Ok(text) if !context.output.is_json() => context.output.text(text.trim_end())?,
        Ok(_) => {}
        Err(found) => {
            check::complain(&found);
            return Ok(Exit::WrongInput);
        }
    }
    Ok(Exit::Done)
}

/// The file as it is sent to the gateway, if nothing is wrong with it.
pub(super) fn propose(file: &Path, context: &Context) -> anyhow::Result<Result<Proposal, Exit>> {
    let (text, _) = match check::load(file, None, context)? {
        Ok(loaded) => loaded,
        Err(exit) => return Ok(Err(exit)),
    };
    let file = std::path::absolute(file)?.display().to_string();
    Ok(Ok(Proposal { file, text, confirm_ms: None }))
}

/// Says of which classes the file undoes what was changed while the gateway ran.
pub(super) fn say_undone(classes: &[String]) {
    if !classes.is_empty() {
        let classes = classes.join(", ");
        progress(format_args!(
            "this undoes what `tidegate class` changed of: {classes}; write it into the file to keep it"
        ));
    }
}

/// `changes`, one a line.
pub(super) fn list(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "no changes: this is what runs".to_owned();
    }
    let fixed = describe::need_restart(changes);
    let line = |change: &Change| match fixed.contains(&change) {
        true => format!("{change} (needs a restart)"),
        false => change.to_string(),
    };
    changes.iter().map(line).collect::<Vec<_>>().join("\n")
}
