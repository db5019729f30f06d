//! `tidegate plan FILE` shows how a policy file differs from the running policies.

use std::path::{Path, PathBuf};

use tidegate_config::Part;
use tidegate_config::policy_file::canonical;

use super::{Context, check};
use crate::api::{Plan, Proposal};
use crate::client;
use crate::code::Code;
use crate::config::is_usable_name;
use crate::describe::{self, Change};
use crate::documents::Documents;
use crate::output::{Exit, Failure, progress};

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    proposed: ProposedFile,

    /// Print the policies, classes and trunks of the file in canonical form instead; needs no gateway
    #[arg(long, conflicts_with = "source")]
    canonical: bool,
}

/// The policies to put in force: a file or a source.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct ProposedFile {
    /// The policy file
    pub(super) file: Option<PathBuf>,

    /// Newest set of this policy source of the running gateway, instead of a file
    #[arg(long, value_name = "NAME")]
    pub(super) source: Option<String>,
}

/// Prints how the file, or the newest set of a source, differs from the running policies. With
/// `--canonical`, prints the canonical text instead.
pub(crate) fn run(args: &PlanArgs, context: &Context) -> anyhow::Result<Exit> {
    if let (true, Some(file)) = (args.canonical, &args.proposed.file) {
        return print_canonical(file, context);
    }
    let plan: Plan = match propose(&args.proposed, context)? {
        Ok(Proposed::File(proposal)) => client::post(&context.socket, "/v1/plan", &proposal)?,
        Ok(Proposed::Source(name)) => {
            client::post(&context.socket, &format!("/v1/sources/{name}/plan"), &())?
        }
        Err(exit) => return Ok(exit),
    };
    let pending = !plan.changes.is_empty();
    if context.output.is_json() {
        context.output.json(&plan)?;
    } else {
        context.output.text(list(&plan.changes))?;
        say_undone(&plan.undone);
    }
    Ok(if pending { Exit::ChangesPending } else { Exit::Done })
}

/// The origin of the proposed policies.
pub(super) enum Proposed {
    /// A policy file with its included files.
    File(Proposal),
    /// The newest set of the source with this name.
    Source(String),
}

/// The policies in the file or source that `named` states, if they are valid.
pub(super) fn propose(
    named: &ProposedFile,
    context: &Context,
) -> anyhow::Result<Result<Proposed, Exit>> {
    let file = match (&named.file, &named.source) {
        (Some(file), _) => file,
        (None, Some(name)) if is_usable_name(name) => {
            return Ok(Ok(Proposed::Source(name.clone())));
        }
        (None, name) => {
            let name = name.as_deref().unwrap_or_default().escape_debug().to_string();
            let message = format!("`{name}` cannot name a source");
            return Err(Failure::input(Code::BadName, message).into());
        }
    };
    let proposal = read(file, file, context)?;
    Ok(proposal.map(Proposed::File))
}

/// Prints the policies, classes and trunks in `file`, sorted and in base units.
fn print_canonical(file: &Path, context: &Context) -> anyhow::Result<Exit> {
    let documents = Documents::gather(file, check::read(file)?)?;
    let main = Part { origin: check::name(file), text: documents.text.to_string() };
    let parts: Vec<_> = std::iter::once(main).chain(documents.included.to_vec()).collect();
    let answer = canonical(&parts);
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

/// The text of `file`, if it is valid. The gateway will read the text from the path `destination`,
/// so paths in the text are relative to `destination`.
pub(super) fn read(
    file: &Path,
    destination: &Path,
    context: &Context,
) -> anyhow::Result<Result<Proposal, Exit>> {
    let (documents, _) = match check::take(destination, check::read(file)?, None, context)? {
        Ok(loaded) => loaded,
        Err(exit) => return Ok(Err(exit)),
    };
    let file = std::path::absolute(destination)?.display().to_string();
    let (text, included) = (documents.text.to_string(), documents.included.to_vec());
    Ok(Ok(Proposal { file, text, included, confirm_ms: None, save: false }))
}

/// Lists the classes whose run-time changes the file would undo.
pub(super) fn say_undone(classes: &[String]) {
    if !classes.is_empty() {
        let classes = classes.join(", ");
        progress(format_args!(
            "this undoes what `tidegate class` changed of: {classes}; write it into the file to keep it"
        ));
    }
}

/// Formats `changes`, one per line.
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
