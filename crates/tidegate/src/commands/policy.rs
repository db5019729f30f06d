//! `tidegate policy push` and `pull`: writes a set of policies to a source (a policy repository),
//! or reads the set of a source.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_config::policy_file::Head;
use tidegate_config::{Item, Part, items};
use tidegate_repository::{Answer, Fault, PolicyRepository, Snapshot, open};

use super::{Context, check};
use crate::code::Code;
use crate::documents::Documents;
use crate::output::{Exit, Failure, progress};

/// Arguments of `policy`.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,

    /// Policy file that configures the source
    #[arg(long = "in", global = true, value_name = "FILE", default_value = "/etc/tidegate.toml")]
    file: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    /// Replace the set of a source by the policies, classes and trunks of a file, and commit it
    Push {
        /// The name of the source
        source: String,
        /// A TOML file with tables `policy`, `class` and `trunk`
        set: PathBuf,
    },
    /// Print the committed set of a source as a file that `push` accepts
    Pull {
        /// The name of the source
        source: String,
    },
}

/// Time limit for a source to accept or deliver a set.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pushes or pulls a set.
pub(crate) fn run(args: &PolicyArgs, context: &Context) -> anyhow::Result<Exit> {
    let text = check::read(&args.file)?;
    match &args.command {
        PolicyCommand::Push { source, set } => {
            let repository = repository(&text, source)?;
            let part = Part { origin: check::name(set), text: check::read(set)? };
            let documents = Documents::gather(&args.file, text)?;
            let Some(items) = checked(documents, source, &part) else {
                return Ok(Exit::WrongInput);
            };
            let count = items.len();
            let revision = wait(repository.push(items))?;
            if context.output.is_json() {
                context
                    .output
                    .json(&serde_json::json!({ "revision": revision, "items": count }))?;
            } else {
                context
                    .output
                    .text(format!("{count} items are revision {revision} of {source}"))?;
            }
        }
        PolicyCommand::Pull { source } => {
            let snapshot = wait(repository(&text, source)?.pull())?;
            if context.output.is_json() {
                context.output.json(&snapshot)?;
            } else {
                let text: Vec<_> = snapshot.parts.iter().map(|part| part.text.trim()).collect();
                context.output.text(text.join("\n\n"))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The items in `part`, if a gateway could run them as the set of `source` with the policy file of
/// `documents`. Items for roles that the source does not have are not checked.
fn checked(mut documents: Documents, source: &str, part: &Part) -> Option<Vec<Item>> {
    let items = items(part).inspect_err(check::complain).ok()?;
    let set = Snapshot { revision: String::new(), parts: vec![part.clone()] };
    documents.sets.insert(source.to_owned(), Arc::new(set));
    let (config, found) = documents.parse(None);
    check::complain(&found);
    if config.is_none() {
        progress("nothing was pushed: a gateway with this policy file could not run it");
    }
    config.map(|_| items)
}

/// Connects to the source called `name`, which the policy file with content `text` configures.
fn repository(text: &str, name: &str) -> Result<Arc<dyn PolicyRepository>, Failure> {
    let sources = Head::of(text).sources;
    let Some(spec) = sources.iter().find(|spec| spec.name == name) else {
        let names: Vec<_> = sources.iter().map(|spec| spec.name.as_str()).collect();
        let message = format!("the policy file names no source `{}`", name.escape_debug());
        let help = match names.join(", ") {
            none if none.is_empty() => {
                "add a [[source]], or name another file with --in".to_owned()
            }
            some => format!("there are: {some}"),
        };
        return Err(Failure { help, ..Failure::input(Code::UnknownName, message) });
    };
    open(spec).map_err(failed)
}

/// Waits for `answer`, at most for [`PATIENCE`].
fn wait<T>(answer: Answer<'_, T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let slow = |_| {
        let message = format!("the source has not answered for {PATIENCE:?}");
        Failure::new(Code::NoSet, message)
    };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await });
    Ok(answer.map_err(slow)?.map_err(failed)?)
}

fn failed(fault: Fault) -> Failure {
    Failure { help: fault.help, ..Failure::new(Code::NoSet, fault.message) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Catches: items that are checked although they are for other roles; a set accepted that no
    /// gateway could run.
    #[test]
    fn a_set_is_checked_for_the_roles_of_the_source() {
        let text = "[gateway]\nlan = \"l\"\nwan = \"w\"\n[[source]]\nname = \"s\"\nkind = \"directory\"\n\
                    path = \"/nowhere\"\nroles = \"edge\"\n";
        let documents = || Documents::gather(Path::new("main.toml"), text.to_owned()).unwrap();
        let policy = |role: &str, action: &str| {
            format!("[[policy]]\nname = \"web\"\nroles = \"{role}\"\naction = \"{action}\"\n")
        };
        let part = |text: String| Part { origin: "set.toml".to_owned(), text };
        let both = part(policy("edge", "pass") + &policy("core", "pass"));
        assert_eq!(checked(documents(), "s", &both).map(|items| items.len()), Some(2));
        let wrong = part(policy("edge", "shape"));
        assert_eq!(checked(documents(), "s", &wrong), None);
    }
}
